"""What a program of the corpus is: a function to launch, the architectures it is for, data, and what must come out.

This file and the programs are read by two compilers: ours, and FlyDSL where it is installed. Nothing here is imported
from either.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

CDNA = ("gfx942", "gfx950")
WAVE32 = ("gfx1201", "gfx1250")
ALL = (*CDNA, *WAVE32)


@dataclass
class Call:
    """Arguments for the launch, and the results to look at afterwards."""

    args: list[Any]
    results: list[tuple[torch.Tensor, Any]]
    """Tensors that the kernel writes, with what they must hold in float64 (or the exact integers)."""
    rtol: float = 0.0
    atol: float = 0.0
    terms: int = 0
    """Summands of each element: what their order may change is allowed."""
    magnitude: Any = None
    """What a sum of products adds up at most, as `abs(a) @ abs(b)`."""
    kept: Any = None
    """What the arguments give only the address of."""


@dataclass(frozen=True)
class Program:
    name: str
    launch: Any
    data: Callable[[], Call]
    archs: tuple[str, ...]
    flydsl: str = ""
    """Why FlyDSL's own compiler is not asked for this program."""
    counts: str = ""
    """Why its number of instructions is not compared."""
    rocm: str = ""
    """Why it runs on the cpu stack only."""
    warns: str = ""
    """What our compiler warns of."""
    run: Callable[..., object] | None = None
    """Runs it otherwise than by calling the launch function."""


PROGRAMS: dict[str, Program] = {}


def program(
    launch: Any, archs: tuple[str, ...] = ALL, **options: Any
) -> Callable[[Callable[[], Call]], Callable[[], Call]]:
    """Add a program under the name of the function that makes its data."""

    def add(data: Callable[[], Call]) -> Callable[[], Call]:
        name = f"{data.__module__.rpartition('.')[2]}.{data.__name__}"
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(name, launch, data, archs, **options)
        return data

    return add


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float32).to(dtype)


def randint(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.randint(low, high, shape, dtype=torch.int64).to(dtype)


def poison(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A result that nothing has been written to yet."""
    return torch.full(shape, -77.0, dtype=torch.float32).to(dtype)


_FUNCTION = re.compile(r"^([\w.$]+):.*?\n(.*?)^\.Lfunc_end", re.MULTILINE | re.DOTALL)
_PADDING = ("s_code_end", "s_nop", "v_nop", "s_delay_alu", "s_wait_alu")
"""What the code generator puts where the hardware wants a gap, one way or another with the order of the rest."""
_INSTRUCTION = re.compile(r"^\t([a-z]\w+)", re.MULTILINE)


def instructions(asm: str) -> list[str]:
    """Mnemonics of all functions in AMD's assembly, without what pads their ends."""
    found: list[str] = []
    for body in _FUNCTION.findall(asm):
        found += [name for name in _INSTRUCTION.findall(body[1]) if name not in _PADDING]
    return found
