"""Times of what comes after a compilation, as FLYDSL_DEBUG_TIMING asks: writing to the cache, loading the module."""

from __future__ import annotations

import json
import time

from ... import config


class timed_step:
    """A block whose time is reported."""

    __slots__ = ("name", "start", "step")

    def __init__(self, name: str, step: str):
        self.name, self.step = name, step

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        report = config.debug.timing
        if not report:
            return
        seconds = time.perf_counter() - self.start
        if report == "json":
            config.say(json.dumps({"name": self.name, "times": {self.step: seconds}}) + "\n")
        else:
            config.say(f"{seconds * 1e3:10.3f} ms  {self.step} ({self.name})\n")
