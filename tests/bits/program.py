"""What a program is: a function of the language, the arrays it gets, and which of them to compare."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import flydsl.compiler as flyc
import flydsl.expr as fx

from .draw import FORMATS

Bits = NDArray[np.signedinteger]


class Array(NamedTuple):
    """An argument: its bits, what they mean, and whether the program writes it."""

    bits: Bits
    format: str
    output: bool = False
    typed: bool = False
    """Whether the function gets elements of the format; otherwise integers with their bits."""
    names: tuple[str, ...] = ()
    """Of an output: what each of its rows is."""
    formats: tuple[str, ...] = ()
    """Of an output whose rows are bits of different types in wide integers: those types."""


class Call(NamedTuple):
    """A function and its arguments."""

    function: Callable[..., object]
    arrays: Sequence[Array]
    more: Sequence[object] = ()
    static: bool = False
    """Whether shapes are to be known at compile time."""


class Program(NamedTuple):
    """`make` builds the call, which takes as long as tracing does at most."""

    name: str
    group: str
    make: Callable[[], Call]


_TORCH: Mapping[str, torch.dtype] = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "u8": torch.uint8,
}


def output(
    shape: tuple[int, ...], name: str, *, typed: bool = False, names: Sequence[str] = (), formats: Sequence[str] = ()
) -> Array:
    """An array of one pattern, so that what is not written is seen."""
    dtype = FORMATS[name].storage
    pattern = 0x5A5A5A5A5A5A5A5A % (1 << (8 * dtype.itemsize - 1))
    return Array(np.full(shape, pattern, dtype), name, True, typed, tuple(names), tuple(formats))


def digest(call: Call) -> int:
    """A number of all inputs, to see that two machines had the same."""
    found = 0
    for array in call.arrays:
        found = zlib.crc32(np.ascontiguousarray(array.bits).tobytes(), found)
    return found


def run(call: Call, device: str) -> list[Bits]:
    """The bits of the outputs."""
    there: list[torch.Tensor] = []
    given: list[object] = []
    for array in call.arrays:
        tensor = torch.from_numpy(array.bits.copy()).to(device)
        there.append(tensor)
        seen = tensor.view(_TORCH[array.format]) if array.typed and array.format in _TORCH else tensor
        given.append(flyc.from_torch_tensor(seen, assumed_align=16) if call.static else seen)
    call.function(*given, *call.more)
    if device == "cuda":
        torch.cuda.synchronize()
    return [t.cpu().numpy() for t, array in zip(there, call.arrays, strict=True) if array.output]


def typed(tensor: fx.Tensor, cls: Any) -> fx.Tensor:
    """In a kernel: a tensor of integers as elements of a class of the same width."""
    return fx.make_view(fx.recast_iter(cls, fx.get_iter(tensor)), tensor.layout)


def class_of(name: str) -> Any:
    return getattr(fx, FORMATS[name].cls)


__all__ = ["Array", "Bits", "Call", "Program", "class_of", "digest", "output", "run", "typed"]
