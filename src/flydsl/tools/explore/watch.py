"""A script compiled again whenever one of its files is saved; the last results are kept for comparing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from flydsl.tools.explore.page import Data

KEPT = 6
"""Versions that are kept, the current one included."""
INTERVAL = 0.25
"""Seconds between two looks at the files."""


class Watcher:
    """Compiles in child processes and says when there is something new."""

    def __init__(self, script: Path, targets: Sequence[str]):
        self.script = script
        self.targets = list(targets)
        self.versions: list[Data] = []
        """Newest first."""
        self.error = ""
        self.busy = True
        self.number = 0
        """Counts what happened, so that a reader knows what it has seen."""
        self.changed = threading.Condition()
        self._files = [str(script)]
        self._child: subprocess.Popen[str] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fly-explore", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, with the child that may be running."""
        self._stop.set()
        self._kill()
        self._thread.join(10)

    def wait(self, seen: int, seconds: float) -> None:
        """Until something happened after `seen`, or the time is over."""
        with self.changed:
            self.changed.wait_for(lambda: self.number != seen, seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            stamps = self._stamps()
            self._tell(busy=True)
            result = self._compile(stamps)
            if result is None:
                continue  # saved meanwhile
            self._take(result)
            while self._stamps() == stamps and not self._stop.is_set():
                self._stop.wait(INTERVAL)

    def _tell(self, *, busy: bool) -> None:
        with self.changed:
            self.busy = busy
            self.number += 1
            self.changed.notify_all()

    def _take(self, result: Data) -> None:
        with self.changed:
            if "data" in result:
                data: Data = result["data"]
                data["label"] = f"saved {time.strftime('%H:%M:%S')}"
                data["saved"] = time.time_ns()
                self.versions = [data, *self.versions][:KEPT]
            self.error = str(result.get("error", ""))
            # A file that could not be imported names no others: those known before are still watched.
            files: list[str] = [*result.get("files", ()), *(self._files if self.error else ())]
            self._files = sorted(set(files))
        self._tell(busy=False)

    def _stamps(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {str(self.script): (0, 0)}
        for name in self._files:
            try:
                about = os.stat(name)
            except OSError:  # between an editor's removing and renaming, or gone
                found[name] = (0, 0)
            else:
                found[name] = (about.st_mtime_ns, about.st_size)
        return found

    def _compile(self, stamps: dict[str, tuple[int, int]]) -> Data | None:
        """What the child made; None where a file was saved before it was done."""
        with tempfile.TemporaryDirectory(prefix="fly-explore-") as folder:
            out = Path(folder) / "result.json"
            command = [sys.executable, "-P", "-m", "flydsl.tools.explore.child", str(out), str(self.script)]
            with open(Path(folder) / "output.txt", "w+", encoding="utf-8", errors="replace") as output:
                self._child = subprocess.Popen(
                    [*command, *self.targets], stdin=subprocess.DEVNULL, stdout=output, stderr=output, text=True
                )
                while self._child.poll() is None:
                    if self._stop.wait(INTERVAL / 2) or any(self._stamps()[k] != v for k, v in stamps.items()):
                        self._kill()
                        return None
                if out.exists():
                    return json.loads(out.read_text(encoding="utf-8"))
                output.seek(0)
                said = output.read()[-4000:].strip()
                return {"error": f"the compiler ended with status {self._child.returncode}\n{said}", "files": []}

    def _kill(self) -> None:
        child = self._child
        if child is not None and child.poll() is None:
            child.kill()
            child.wait()
