"""A product that was asked for, checked: everything that does not fit is refused here, before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from flydsl.errors import DSLTypeError, DSLValueError

from ..activations import known_activation
from ..scalars import choice
from .arrays import Array, HostArray, address, type_name

FLOATS = ("float16", "bfloat16", "float32")
FP8 = ("float8_e4m3fn", "float8_e5m2")
FNUZ = ("float8_e4m3fnuz", "float8_e5m2fnuz")
"""The 8-bit floats of gfx942."""
RESULTS = {
    **dict.fromkeys((*FLOATS, *FP8), (*FLOATS, *FP8)),
    **dict.fromkeys(FNUZ, (*FLOATS, *FNUZ)),
    "int8": ("int32", *FLOATS, *FP8),
}
"""What a product of a type may be given as; the first is the default of int8."""
SUMS = ("f32", "fast")
PRECISIONS = ("ieee", "tf32x3", "tf32")
"""How float32 may be multiplied: as it is, with 22 bits of it or with 11."""
BLOCK = 128
"""Elements along each direction that share a scale."""


class Request(NamedTuple):
    """The arguments and the extents they agree on."""

    a: Array
    b: Array
    bias: Array | None
    scale_a: Array | None
    scale_b: Array | None
    activation: str
    out_dtype: str
    accumulate: str
    m: int
    n: int
    k: int
    batches: int
    batched: bool
    blocked: bool
    """The scales are for 128 elements of a row of a, and for 128 x 128 of b."""
    invariant: bool = False
    """Rows of the result are the same bits whatever rows are beside them."""
    precision: str = "ieee"
    scale_out: Array | None = None
    """What results of 8 bits are divided by."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.batches, self.m, self.n) if self.batched else (self.m, self.n)


def check(
    a: Array,
    b: Array,
    bias: Array | None,
    scale_a: Array | None,
    scale_b: Array | None,
    activation: str | None,
    out_dtype: object,
    accumulate: str,
) -> Request:
    """The request, or an error that names the arguments that do not fit."""
    check_factors(a, b, bias, RESULTS)
    counts = {x.shape[0] for x in (a, b) if len(x.shape) == 3}
    if len(counts) > 1 or max(len(a.shape), len(b.shape)) > 3:
        raise DSLValueError(f"matmul: a and b have 2 dimensions, or one batch in front: {a} and {b}")
    m, n = a.shape[-2], b.shape[-1]
    result = result_type(a.dtype, out_dtype)
    name = known_activation("matmul", activation)
    choice("matmul", "accumulate", accumulate, SUMS)
    batches = counts.pop() if counts else 1
    batched = len(a.shape) == 3 or len(b.shape) == 3
    blocked = _are_blocks(scale_a, scale_b, m, n, a.shape[-1], batched)
    if not blocked:
        _check_scale("scale_a", scale_a, m, "rows of a")
        _check_scale("scale_b", scale_b, n, "columns of b")
    if result == "int32" and (bias, scale_a, scale_b, name) != (None, None, None, "none"):
        raise DSLTypeError("matmul: a result of int32 has no scale, bias or activation; give out_dtype")
    everything = {"a": a, "b": b, "bias": bias, "scale_a": scale_a, "scale_b": scale_b}
    for what, x in everything.items():
        if x is not None and x.device != a.device:
            raise DSLValueError(f"matmul: a is on {a.device} and {what} on {x.device}")
    return Request(
        a, b, bias, scale_a, scale_b, name, result, accumulate, m, n, a.shape[-1], batches, batched, blocked
    )  # fmt: skip


def check_factors(a: Array, b: Array, bias: Array | None, types: Collection[str]) -> tuple[int, ...]:
    """What is refused of factors, and of a bias, by extents and types alone; the dimensions in front of the result.

    Those of the factors go with each other as in numpy and torch.
    """
    for name, x in (("a", a), ("b", b)):
        if len(x.shape) < 2:
            raise DSLValueError(f"matmul: {name} has 2 dimensions, or more with batches in front, got {x}")
    check_types(a.dtype, b.dtype, types)
    if a.shape[-1] != b.shape[-2]:
        raise DSLValueError(f"matmul: a has {a.shape[-1]} columns and b has {b.shape[-2]} rows: {a} and {b}")
    first, second = a.shape[:-2], b.shape[:-2]
    rank = max(len(first), len(second))
    pairs = list(zip(*((1,) * (rank - len(x)) + x for x in (first, second)), strict=True))
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        raise DSLValueError(f"matmul: a and b have different batches: {a} and {b}")
    if bias is not None:
        check_bias(bias, b.shape[-1], FLOATS if types is RESULTS else types)
    return tuple(n if m == 1 else m for m, n in pairs)


def check_bias(bias: Array, columns: int, types: Collection[str] = FLOATS) -> None:
    """A value for each column."""
    if bias.shape != (columns,):
        raise DSLValueError(f"matmul: bias has a value for each of the {columns} columns, got {bias}")
    if bias.dtype not in types:
        raise DSLTypeError(f"matmul: bias is {', '.join(types)}, got {bias.dtype}")


def check_types(a: str, b: str, types: Collection[str] = RESULTS) -> None:
    """Types that are multiplied with each other."""
    for name, dtype in (("a", a), ("b", b)):
        if dtype not in types:
            raise DSLTypeError(f"matmul multiplies {', '.join(types)}, got {name} of {dtype}")
    if a != b and not any(a in kind and b in kind for kind in (FP8, FNUZ)):
        raise DSLTypeError(f"matmul: a and b have one type, or are both fp8, got {a} and {b}")


def check_scale_out(request: Request, scale: Array | None) -> Request:
    """The request with the scale of its result, which only 8 bits need."""
    if scale is None:
        return request
    if request.out_dtype not in (*FP8, *FNUZ):
        raise DSLTypeError(f"matmul: scale_out goes with results of {' and '.join(FP8)}, not {request.out_dtype}")
    if scale.dtype != "float32" or any(x != 1 for x in scale.shape):
        raise DSLValueError(f"matmul: scale_out is one value of float32, got {scale}")
    if scale.device != request.a.device:
        raise DSLValueError(f"matmul: a is on {request.a.device} and scale_out on {scale.device}")
    return request._replace(scale_out=scale)


def check_precision(dtype: str, precision: str) -> str:
    choice("matmul", "precision", precision, PRECISIONS)
    if precision != "ieee" and dtype != "float32":
        raise DSLTypeError(f"matmul: precision={precision!r} is about float32, got a of {dtype}")
    return precision


def result_type(dtype: str, out_dtype: object) -> str:
    allowed = RESULTS[dtype]
    if out_dtype is None:
        return dtype if dtype in FLOATS else "bfloat16" if dtype in (*FP8, *FNUZ) else allowed[0]
    found = type_name(out_dtype)
    if found not in allowed:
        raise DSLTypeError(f"matmul: the product of {dtype} is {', '.join(allowed)}, got out_dtype={found}")
    return found


def _are_blocks(scale_a: Array | None, scale_b: Array | None, m: int, n: int, k: int, batched: bool) -> bool:
    """Whether scales are those of blocks, which come in pairs."""
    if scale_a is None or scale_b is None:
        return False
    expected = {"scale_a": (scale_a, (m, k // BLOCK)), "scale_b": (scale_b, (k // BLOCK, -(-n // BLOCK)))}
    # One row, or one block along K or N, has a scale with an extent of 1, as those of rows and columns may have.
    fit = k % BLOCK == 0 and all(scale.shape == shape for scale, shape in expected.values())
    several = k > BLOCK or n > BLOCK
    if not (fit and several) and not any(len(x.shape) == 2 and 1 not in x.shape for x in (scale_a, scale_b)):
        return False
    if k % BLOCK:
        raise DSLValueError(f"matmul: scales of blocks need a K that is a multiple of {BLOCK}, got {k}")
    for what, (scale, shape) in expected.items():
        if scale.shape != shape:
            raise DSLValueError(
                f"matmul: {what} of blocks of {BLOCK} has the shape {list(shape)}, got {scale}; otherwise a scale has "
                "one value, or one for each row of a or column of b"
            )
        if scale.dtype != "float32":
            raise DSLTypeError(f"matmul: {what} is float32, got {scale.dtype}")
    if batched:
        raise DSLValueError("matmul: scales of blocks go with two dimensions, not with a batch")
    return True


def _check_scale(what: str, scale: Array | None, count: int, of: str) -> None:
    if scale is None:
        return
    if scale.dtype != "float32":
        raise DSLTypeError(f"matmul: {what} is float32, got {scale.dtype}")
    extents = [x for x in scale.shape if x != 1]
    if extents and extents != [count]:
        raise DSLValueError(f"matmul: {what} has one value, or one for each of the {count} {of}, got {scale}")


def check_out(request: Request, out: Array) -> None:
    """The array for the result: its shape, type and place."""
    check_placed(out, request.shape, request.out_dtype, request.a.device)


def check_placed(out: Array, shape: tuple[int, ...], dtype: str, device: str) -> None:
    """An array for a result of this shape and type: where `a` is, and with room for every element."""
    if out.shape != shape:
        raise DSLValueError(f"matmul: out has the shape {list(shape)}, got {out}")
    if out.dtype != dtype:
        raise DSLTypeError(f"matmul: out is {dtype}, got {out.dtype}")
    if out.device != device:
        raise DSLValueError(f"matmul: a is on {device} and out on {out.device}")
    if 0 in out.shape:
        return
    step = sorted((abs(s), e) for s, e in zip(out.strides, out.shape, strict=True) if e > 1)
    reach = 1
    for stride, extent in step:
        if stride < reach:
            raise DSLValueError(f"matmul: elements of out lie on top of each other, its strides are {out.strides}")
        reach = stride * (extent - 1) + reach


def check_apart(
    place: int, reach: int, others: Iterable[tuple[str, HostArray | None, int]], what: str = "matmul"
) -> None:
    """Nothing that is read may lie in what is written: others by name, with the bytes they reach over."""
    for name, x, length in others:
        if x is not None:
            first = address(x)
            if first < place + reach and place < first + length:
                raise DSLValueError(f"{what}: out overlaps {name}; give it memory of its own")


__all__ = [
    "FLOATS",
    "FNUZ",
    "FP8",
    "Request",
    "check",
    "check_apart",
    "check_bias",
    "check_factors",
    "check_out",
    "check_placed",
    "check_precision",
    "check_scale_out",
    "check_types",
    "result_type",
]
