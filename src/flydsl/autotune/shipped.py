"""Winners that come with the package: one JSON file for each kernel and GPU, by shape class.

A file lists points: values of the key's arguments, and the configuration that won there. A shape between points takes
the nearest one: distance is the sum over extents of the difference of their logarithms, so that 1000 is nearer to 1024
than to 512. Points must agree in what is not a number, such as a dtype, and in the number of extents. A shape further
than `reach` (a factor, over all extents together) from every point takes none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

from ..errors import DSLValueError
from ..target.compatibility import chip_of
from .candidate import Config
from .key import DeviceIdentity

FOLDER = Path(__file__).with_name("winners_shipped")
SCHEMA = 1
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True)
class Point:
    """One tuned shape."""

    key: Mapping[str, object]
    config: Mapping[str, object]


@dataclass(frozen=True)
class Shipped:
    """The winners of one kernel on one architecture."""

    points: tuple[Point, ...]
    reach: float

    def nearest(self, key: Mapping[str, object]) -> Point | None:
        """The point a shape takes; None where all are too far, or of another kind."""
        found = [(far, i) for i, point in enumerate(self.points) if (far := distance(point.key, key)) is not None]
        if not found:
            return None
        far, at = min(found)
        return self.points[at] if far <= math.log2(self.reach) else None


def _extents(value: object) -> list[float] | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return [float(value)]
    if isinstance(value, list | tuple):
        parts = [_extents(each) for each in cast("Sequence[object]", value)]
        return None if any(p is None for p in parts) else [x for p in parts if p is not None for x in p]
    return None


def distance(a: Mapping[str, object], b: Mapping[str, object]) -> float | None:
    """How many doublings lie between two keys; None where they are of different kinds."""
    if a.keys() != b.keys():
        return None
    total = 0.0
    for name, value in a.items():
        left, right = _extents(value), _extents(b[name])
        if left is None or right is None:
            if value != b[name]:
                return None
        elif len(left) != len(right):
            return None
        else:
            total += sum(abs(math.log2(max(x, 0.5)) - math.log2(max(y, 0.5))) for x, y in zip(left, right, strict=True))
    return total


def parse(text: str, source: str) -> Shipped:
    """A file's points; anything else in it is an error of the package."""
    try:
        body: object = json.loads(text)
        fields = cast("dict[str, object]", body)
        if fields["version"] != SCHEMA:
            raise ValueError(f"version {fields['version']!r}")
        points = tuple(
            Point(cast("dict[str, object]", p["key"]), cast("dict[str, object]", p["config"]))
            for p in cast("list[dict[str, object]]", fields["points"])
        )
        reach = float(cast(float, fields.get("reach", 4.0)))
        for point in points:
            Config.from_dict(point.config)
    except (KeyError, TypeError, ValueError) as error:
        raise DSLValueError(f"{source} holds no winners: {error!r}") from error
    return Shipped(points, reach)


def file_of(name: str, arch: str) -> Path:
    """Where a kernel's winners are: a driver says `sm_90` of what is compiled for as `sm_90a`."""
    return FOLDER / f"{name}-{chip_of(arch)}.json"


@lru_cache(64)
def read(name: str, arch: str) -> Shipped | None:
    """The winners of a kernel on the GPU of an architecture; None where none come with the package."""
    if not _NAME.fullmatch(name) or not _NAME.fullmatch(arch):
        raise DSLValueError(f"shipped: expected 1 to 64 letters, digits, '.', '_' or '-', got {name!r} and {arch!r}")
    path = file_of(name, arch)
    return parse(path.read_text(encoding="utf-8"), str(path)) if path.is_file() else None


def lookup(name: str, key: Mapping[str, object], device: DeviceIdentity | None) -> Config | None:
    """The configuration that ships for a call on a device."""
    if device is None:
        return None
    found = read(name, device.arch)
    point = None if found is None else found.nearest(key)
    return None if point is None else Config.from_dict(point.config)


def write(path: Path, points: Sequence[tuple[Mapping[str, object], Config]], reach: float = 4.0) -> None:
    """Make a file of winners, as `fly tune` and the benchmarks find them: a line for each point, as a diff shows it."""
    lines = [json.dumps({"key": dict(key), "config": config.to_dict()}, sort_keys=True) for key, config in points]
    listed = ",\n".join(f"  {line}" for line in lines)
    text = f'{{\n "points": [\n{listed}\n ],\n "reach": {json.dumps(reach)},\n "version": {SCHEMA}\n}}\n'
    parse(text, str(path))
    path.write_text(text, encoding="utf-8")
