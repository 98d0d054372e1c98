"""Running calls: where arrays are, what lies in those that nobody has written, and which kernels ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import flydsl.compiler as flyc

from . import Call, kernels_of

_EMPTY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}


class Filled(TorchDispatchMode):
    """Arrays that torch makes without writing them are full of one byte: of 255 all floats are NaN, integers -1."""

    def __init__(self, byte: int):
        super().__init__()
        self.byte = byte

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in _EMPTY and made.numel():
            made.untyped_storage().fill_(self.byte)
        return made


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The value with all tensors in it changed, also those that functions are partially applied to."""
    again = partial(mapped, change=change)
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, partial):
        return partial(value.func, *again(value.args), **again(value.keywords))
    if isinstance(value, Mapping):
        return {name: again(x) for name, x in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(again, value))
    if isinstance(value, list | tuple):
        return type(value)(map(again, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: again(getattr(value, f.name)) for f in fields(value) if f.init})
    return value


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """All of them, in the order of `mapped`."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, partial):
        yield from tensors_in((value.args, value.keywords))
    elif isinstance(value, Mapping):
        yield from tensors_in(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for x in value:
            yield from tensors_in(x)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from tensors_in([getattr(value, f.name) for f in fields(value)])


class Ran(NamedTuple):
    """The results and arguments of a call, on the host, and the kernels that ran."""

    arrays: list[torch.Tensor]
    kernels: set[str]


def run(call: Call, seed: int, byte: int, device: str = "cpu") -> Ran:
    """Make the arguments of a call from a seed, and call."""
    torch.manual_seed(seed)
    kernels: set[str] = set()
    with Filled(byte), flyc.launch_hooks(enter=lambda artifact: kernels.update(kernels_of(artifact))):
        with torch.device(device):
            made = call.make()
        kernels.clear()  # those that the arguments came from
        function, *arguments = mapped(made, lambda x: x.to(device))
        result = function(*arguments)
    return Ran([x.detach().cpu() for x in tensors_in((result, function, arguments))], kernels)


def not_run(call: Call, kernels: set[str]) -> list[str]:
    """Kernels that the call is for, and that were not among these."""
    return sorted(set(call.kernels.split()) - kernels)


def never_written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """For each element whether two runs, with bytes 255 and 90, have left it as it was."""
    left = []
    for array, byte in ((x, 0xFF), (y, 0x5A)):
        raw = array.contiguous().flatten().view(torch.uint8).reshape(-1, array.element_size())
        left.append((raw == byte).all(1))
    return left[0] & left[1]


__all__ = ["Filled", "Ran", "mapped", "never_written", "not_run", "run", "tensors_in"]
