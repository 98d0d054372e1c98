"""What a call is, and what calls are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from .. import CASES

HOPPER = "sm_90a"


class Call(NamedTuple):
    """A GPU, a function with its arguments, and the kernels it is for.

    Arrays are made by torch where its default device is. Those that are only written are made by `torch.empty`: who
    runs calls may fill such arrays first.
    """

    arch: str
    make: Callable[[], tuple[Any, ...]]
    kernels: str
    """Modules behind `flydsl.kernels` with their kernels: `rows.rope.rope_kernel`."""
    quick: bool = True
    """Whether its schedules are explored in every run of the tests."""


def f32(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def bf16(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).bfloat16()


def ids(count: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, count, shape)


def room(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """For what a kernel writes."""
    return torch.empty(*shape, dtype=dtype)


def of_case(name: str) -> Callable[[], tuple[Any, ...]]:
    """One of `tests/kernels/library`."""
    case = next(case for case in CASES if case.name.startswith(name))

    def make() -> tuple[Any, ...]:
        arrays = case.make(np.random.default_rng(int(torch.randint(1 << 31, (), device="cpu"))))
        arrays[case.result] = room(*case.shape(case.result), dtype=arrays[case.result].dtype)
        here = torch.get_default_device()
        placed = {array: case.place.get(array, lambda t: t)(t).to(here) for array, t in arrays.items()}
        return case.kernel, *case.arguments(placed)

    return make
