"""A part of what an H200 gave, small enough to be kept: the emulation must give the same anywhere.

`python -m tests.bits golden --with FILE --out tests/bits/h200.npz` takes it from a recorded file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .program import Program
from .runner import Result, programs

FILE = Path(__file__).with_name("h200.npz")
_ELEMENTS = {"mma.sync": 512, "wgmma": 512}
_OTHERS = 192
_EVERY = {
    "chains": 4, "vectors": 3, "functions": 6, "global accesses": 5, "tma": 7, "bulk copies": 4, "atomics": 3,
    "lanes": 4, "matrix copies": 3,
}  # fmt: skip
"""Of how many programs of a group one is kept; all of those that are not named."""
_LEFT_OUT = ("approximations",)
DIFFERENT = ("bf16", "chain f32 8", "chain f32 9", "vector f16 x2", "powf f64", "votes")
"""Words of programs that are known to differ on some machines (docs/limits.md), or take long."""


def chosen() -> Iterator[Program]:
    """The programs of the file."""
    seen: dict[str, int] = {}
    for program in programs():
        matrix = program.group in _ELEMENTS
        if program.group in _LEFT_OUT or (not matrix and any(word in program.name for word in DIFFERENT)):
            continue
        # One of each set of types of wgmma is enough; they differ in how data gets there.
        key = " ".join(program.name.split()[2:5]) if program.group == "wgmma" else program.group
        count = seen[key] = seen.get(key, 0) + 1
        if (count > 1) if program.group == "wgmma" else (count - 1) % _EVERY.get(program.group, 1):
            continue
        yield program


def places(program: Program, size: int) -> NDArray[np.int64]:
    """The elements of an output that are kept."""
    count = min(size, _ELEMENTS.get(program.group, _OTHERS))
    return np.arange(count, dtype=np.int64) * size // count


def reduced(found: Mapping[str, Result]) -> dict[str, Result]:
    """What the file has of recorded results."""
    made: dict[str, Result] = {}
    for program in chosen():
        result = found[program.name]
        kept = tuple(x.ravel()[places(program, x.size)] for x in result.outputs)
        made[program.name] = Result(result.digest, kept)
    return made


__all__ = ["DIFFERENT", "FILE", "chosen", "places", "reduced"]
