"""Weights in 4 and 8 bits: packed once, multiplied often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from flydsl.errors import DSLTypeError, DSLValueError

from ..scalars import whole
from .arrays import HostArray, describe, empty, in_line, type_name
from .few.slim import DEEP, HIGH, Weights

FLOATS = ("float16", "bfloat16", "float32")
FINEST = 32
"""The fewest elements along K that share a scale: what two instructions multiply."""

ArrayT = TypeVar("ArrayT", bound="HostArray")
Held = TypeVar("Held", bound="HostArray", covariant=True)


@dataclass(frozen=True, slots=True)
class QuantizedWeight(Generic[Held]):
    """A matrix (K, N) of integers with a scale for `group` elements of a column, in the order they are multiplied in.

    `quantize_weight` makes one; `matmul` takes it for its second argument.
    """

    data: Held
    """int32, (blocks of 64 columns, blocks of 128 rows, words): integers, and behind them their scales."""
    shape: tuple[int, int]
    form: Weights

    def __post_init__(self) -> None:
        found, wanted = tuple(self.data.shape), packed_shape(*self.shape, self.form)
        if found != wanted:
            raise DSLValueError(f"QuantizedWeight: data of {self!r} has the shape {wanted}, got {found}")

    @property
    def bits(self) -> int:
        return self.form.bits

    @property
    def group(self) -> int:
        return self.form.group

    def __repr__(self) -> str:
        k, n = self.shape
        return f"QuantizedWeight({k} x {n}, {self.bits} bits, group={self.group}, {self.form.scale} scales)"


def packed_shape(k: int, n: int, form: Weights) -> tuple[int, int, int]:
    """Blocks of columns, blocks of rows, and the words of one."""
    return -(-n // HIGH), -(-k // DEEP), form.block_bytes // 4


def quantize_weight(
    w: ArrayT, bits: int = 4, group: int = 128, *, scales: HostArray | None = None, stream: object = None
) -> QuantizedWeight[ArrayT]:
    """A matrix (K, N) in integers of 4 or 8 bits, with a scale for every `group` elements of a column.

    `w` is float16, bfloat16 or float32, of any strides; scales have its type. The largest element of a group becomes
    the largest integer, 7 or 127, and the others are rounded to the nearest, ties to even. With `scales`, (K / group,
    N, rounded up), `w` is divided by those; or it is int8 and has the integers themselves. `group` is 32, 64 or a
    multiple of 128.

    >>> w = np.array([[7.0, -2.0], [3.0, 1.0]], "f4")
    >>> quantize_weight(w, 4, 32)
    QuantizedWeight(2 x 2, 4 bits, group=32, float32 scales)
    >>> dequantize_weight(quantize_weight(w, 8, 32))[0]
    array([ 7., -2.], dtype=float32)
    """
    what = "quantize_weight"
    array = describe("w", w, what)
    if len(array.shape) != 2:
        raise DSLValueError(f"{what}: w has 2 dimensions, K and N, got {array}")
    bits, group = whole(what, "bits", bits), whole(what, "group", group)
    if bits not in (4, 8):
        raise DSLValueError(f"{what}: integers have 4 or 8 bits, got {bits!r}")
    if group < FINEST or (DEEP % group and group % DEEP):
        raise DSLValueError(f"{what}: group is {FINEST}, 64 or a multiple of {DEEP}, got {group!r}")
    (k, n), (step, column) = array.shape, array.strides
    count = -(-k // group)
    more = {} if stream is None else {"stream": stream}
    from .weight_kernels import find_scales, pack_weight

    if scales is None:
        if array.dtype not in FLOATS:
            raise DSLTypeError(f"{what}: w is {', '.join(FLOATS)}, or int8 with scales, got {array.dtype}")
        kind = array.dtype
        found = empty(w, (count, n), kind, what)
        if k and n:
            find_scales(in_line(w), found, k, n, step, column, group, (1 << (bits - 1)) - 1, **more)
    else:
        if array.dtype not in (*FLOATS, "int8"):
            raise DSLTypeError(f"{what}: w is {', '.join(FLOATS)} or int8, got {array.dtype}")
        given = describe("scales", scales, what)
        if given.shape != (count, n):
            raise DSLValueError(f"{what}: scales of groups of {group} have the shape {[count, n]}, got {given}")
        if given.dtype not in FLOATS:
            raise DSLTypeError(f"{what}: scales are {', '.join(FLOATS)}, got {given.dtype}")
        if given.device != array.device:
            raise DSLValueError(f"{what}: w is on {array.device} and scales on {given.device}")
        from .arrays import packed

        kind, found = given.dtype, packed(scales)
    form = Weights(bits, group, kind)
    data = empty(w, packed_shape(k, n, form), "int32", what)
    if k and n:
        pack_weight(in_line(w), found, data, k, n, step, column, form, **more)
    return QuantizedWeight(cast("ArrayT", data), (k, n), form)


def dequantize_weight(w: QuantizedWeight[ArrayT], dtype: object = None, *, stream: object = None) -> ArrayT:
    """The matrix (K, N) that `w` stands for, in `dtype` (by default that of its scales); columns lie in one piece.

    >>> dequantize_weight(quantize_weight(np.eye(2, dtype="f4"), 4))
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if not isinstance(w, QuantizedWeight):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"dequantize_weight takes what quantize_weight gives, got {type(w).__name__}")
    kind = w.form.scale if dtype is None else type_name(dtype)
    if kind not in FLOATS:
        raise DSLTypeError(f"dequantize_weight: dtype is {', '.join(FLOATS)}, got {kind}")
    k, n = w.shape
    out = empty(w.data, (n, k), kind, "dequantize_weight")
    if k and n:
        unpack(w, out, k, stream)
    return cast("ArrayT", out.T)


def unpack(w: QuantizedWeight[HostArray], out: HostArray, pitch: int, stream: object) -> None:
    """Columns of the matrix to memory, each so many elements behind the one before."""
    from .weight_kernels import unpack_weight

    k, n = w.shape
    if stream is None:
        unpack_weight(w.data, out, k, n, pitch, w.form)
    else:
        unpack_weight(w.data, out, k, n, pitch, w.form, stream)


__all__ = ["QuantizedWeight", "dequantize_weight", "quantize_weight", "unpack"]
