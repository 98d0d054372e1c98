"""Products with weights in 4 and 8 bits: what is checked, and how they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from flydsl.errors import DSLTypeError, DSLValueError

from ..activations import known_activation
from ..grids import fit as fit_a_grid
from .arrays import Array, HostArray, address, array_key, describe, empty, environment_key, packed, strided
from .calls import Matrix as Rows
from .calls import Target, operand, packer
from .few.slim_plan import Given, best, microseconds
from .plan import RATES as HOPPER
from .plan import Problem
from .plan import best as best_tile
from .request import FLOATS, check_apart, check_bias, check_placed, result_type
from .weights import QuantizedWeight, unpack
from .workspace import scratch

INVARIANT = 64
"""Rows for which a product is cut whose rows must not depend on each other."""
UNPACKED = 1e6
"""Bytes of a microsecond that weights are unpacked with."""

Extra: TypeAlias = "HostArray | None"
Run: TypeAlias = "Callable[[HostArray, HostArray, Extra, object], None]"
"""A call with a, out, bias and the stream."""
Weight: TypeAlias = "QuantizedWeight[HostArray]"
Bound: TypeAlias = "Callable[[Weight], Run]"


class Asked(NamedTuple):
    """A product with weights, checked."""

    a: Array
    bias: Array | None
    activation: str
    out_dtype: str
    m: int
    n: int
    k: int
    invariant: bool


_decided: dict[object, tuple[Asked, Bound | None, tuple[int, ...]]] = {}
_MOST = 4096


def matmul_quantized(
    a: HostArray,
    w: Weight,
    out: HostArray | None,
    bias: HostArray | None,
    activation: str | None,
    out_dtype: object,
    batch_invariant: bool,
    stream: object,
    target: Callable[[Array], Target],
) -> HostArray:
    """`activation(a @ w + bias)`; rows of `a` may have any number of dimensions in front."""
    shape = tuple(a.shape) if hasattr(a, "shape") else ()
    if len(shape) > 2:
        return _folded(shape, a, w, out, bias, activation, out_dtype, batch_invariant, stream, target)
    key = (
        *map(array_key, (a, w.data, out, bias)), w.shape, w.form, activation, out_dtype, batch_invariant,
        *environment_key(),
    )  # fmt: skip
    known = _decided.get(key)
    asked = check(a, w, bias, activation, out_dtype, batch_invariant) if known is None else known[0]
    given = out is not None
    if out is None:
        out = empty(a, (asked.m, asked.n), asked.out_dtype)
    if known is None:
        place = describe("out", out)
        if given:
            check_placed(place, (asked.m, asked.n), asked.out_dtype, asked.a.device)
        reaches = place.reach, asked.a.reach, describe("b", w.data).reach, 0 if asked.bias is None else asked.bias.reach
        run = None if 0 in (asked.m, asked.n) else decide(asked, w, place, target(asked.a))
        if len(_decided) >= _MOST:
            _decided.clear()
        known = _decided[key] = asked, run, reaches
    _, run, reaches = known
    if given:
        check_apart(address(out), reaches[0], zip(("a", "b", "bias"), (a, w.data, bias), reaches[1:], strict=True))
    if run is not None:
        run(w)(a, out, bias, stream)
    return out


def _folded(
    shape: tuple[int, ...],
    a: HostArray,
    w: Weight,
    out: HostArray | None,
    bias: HostArray | None,
    activation: str | None,
    out_dtype: object,
    batch_invariant: bool,
    stream: object,
    target: Callable[[Array], Target],
) -> HostArray:
    """Dimensions in front of the rows are rows."""
    count = 1
    for extent in shape[:-1]:
        count *= extent
    flat = None
    if out is not None:
        placed = describe("out", out)
        if placed.shape != (*shape[:-1], w.shape[1]):
            raise DSLValueError(f"matmul: out has the shape {[*shape[:-1], w.shape[1]]}, got {placed}")
        if 0 not in placed.shape and not _in_one_piece(placed):
            raise DSLValueError(
                f"matmul: out of {len(shape)} dimensions lies in one piece, its strides are {placed.strides}"
            )
        flat = out.reshape(count, w.shape[1])
    found = matmul_quantized(
        a.reshape(count, shape[-1]), w, flat, bias, activation, out_dtype, batch_invariant, stream, target
    )
    return out if out is not None else found.reshape(*shape[:-1], w.shape[1])


def _in_one_piece(x: Array) -> bool:
    step = 1
    for extent, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def check(
    a: HostArray, w: Weight, bias: HostArray | None, activation: str | None, out_dtype: object, invariant: bool
) -> Asked:
    """The request, or an error that names the arguments that do not fit."""
    left = describe("a", a)
    if len(left.shape) != 2:
        raise DSLValueError(f"matmul: a has 2 dimensions or more, got {left}")
    if left.dtype not in FLOATS:
        raise DSLTypeError(f"matmul: a is {', '.join(FLOATS)} where b is {w}, got {left.dtype}")
    k, n = w.shape
    if left.shape[1] != k:
        raise DSLValueError(f"matmul: a has {left.shape[1]} columns and b has {k} rows: {left} and {w}")
    right = describe("b", w.data)
    if right.device != left.device:
        raise DSLValueError(f"matmul: a is on {left.device} and b on {right.device}")
    name = known_activation("matmul", activation)
    added = None if bias is None else describe("bias", bias)
    if added is not None:
        check_bias(added, n)
        if added.device != left.device:
            raise DSLValueError(f"matmul: a is on {left.device} and bias on {added.device}")
    return Asked(left, added, name, result_type(left.dtype, out_dtype), left.shape[0], n, k, bool(invariant))


def decide(asked: Asked, w: Weight, out: Array, where: Target) -> Bound:
    """The fastest way: weights widened in registers, or unpacked first."""
    found = in_registers(asked, w, out, where)
    return unpacked(asked, w) if found is None else found


def in_registers(asked: Asked, w: Weight, out: Array, where: Target) -> Bound | None:
    """`slim_kernel`, where it is faster than unpacking and a product of 16 bits."""
    if not where.hopper or asked.a.itemsize != 2 or asked.k == 0 or describe("b", w.data).address % 16:
        return None
    if asked.n > 1 and out.strides[1] != 1 or asked.m > 1 and out.strides[0] <= 0:
        return None
    m, n, k = asked.m, asked.n, asked.k
    given = Given(INVARIANT if asked.invariant else m, n, k, w.form, where.processors)
    slim = best(given)
    if not fit_a_grid(-(-m // slim.tokens)):
        return None
    if not asked.invariant and m > INVARIANT:
        whole = Problem(m, n, k, 1, 16, out.itemsize, "k", "k", False, where.processors)
        other = best_tile(whole).clocks / HOPPER.clock * 1e6 + n * k * (w.bits / 8 + 2) / UNPACKED
        if other < microseconds(given, slim):
            return None
    form = operand(Rows(m, asked.a.strides[0], asked.a.strides[1], 0), k, 1, asked.a)
    if form.major != "k":
        return None
    pack_a = packer(form, asked.a)
    step_c = out.strides[0] if m > 1 else -(-n // 8) * 8
    quads = n % 4 == 0 and step_c % 4 == 0 and out.address % (4 * out.itemsize) == 0
    numbers = m, n, k, form.step, 0, step_c, slim, w.form, asked.activation, quads
    blocks = -(-n // slim.rows) * -(-m // slim.tokens)
    floats = blocks * slim.slices * slim.rows * slim.tokens
    line = asked.bias is not None and asked.bias.strides != (1,)
    from .few.slim_kernel import slim_matmul

    def bound(weight: Weight) -> Run:
        def run(a: HostArray, c: HostArray, bias: Extra, stream: object) -> None:
            a = pack_a(a, "a", stream)
            work = counters = None
            if slim.slices > 1:
                work = scratch(c, "sums", floats, "float32", stream)
                counters = scratch(c, "counters", blocks, "int32", stream, zero=True)
            if line and bias is not None:
                bias = packed(bias)
            more = () if stream is None else (stream,)
            slim_matmul(a, weight.data, c, bias, work, counters, *numbers, *more)

        return run

    return bound


def unpacked(asked: Asked, w: Weight) -> Bound:
    """The product of what the weights stand for, in the type of `a`."""
    k, n = w.shape
    pitch = -(-k // 64) * 64

    def bound(weight: Weight) -> Run:
        def run(a: HostArray, c: HostArray, bias: Extra, stream: object) -> None:
            from .entry import matmul

            whole = scratch(weight.data, "weights", n * pitch, asked.a.dtype, stream)
            if k:
                unpack(weight, whole, pitch, stream)
            b = strided(whole, (k, n), (1, pitch))
            matmul(
                a, b, out=c, bias=bias, activation=asked.activation, out_dtype=asked.out_dtype,
                batch_invariant=asked.invariant, stream=stream,
            )  # fmt: skip

        return run

    return bound


__all__ = ["matmul_quantized"]
