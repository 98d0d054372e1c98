"""`vector` in LLVM's instructions: a vector of several dimensions is one of all its elements in row-major order.

Slices, transposes and shape casts are shuffles of known elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar, cast

from xdsl.dialects import vector
from xdsl.dialects.builtin import IndexType, IntegerType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream import vector as fvector
from ...ir.builder import elem_of, operands_of
from ...ir.types import dense_ints, shape_of, vector_type
from .sink import Rule, Sink, refuse

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ArrayAttr, IntegerAttr

T = TypeVar("T")
_DYNAMIC = -(2**63)
_FLOAT_KINDS = ("minnumf", "maxnumf", "minimumf", "maximumf")
_REDUCTIONS = {
    "add": ("add", "fadd"), "mul": ("mul", "fmul"), "and": ("and", ""), "or": ("or", ""), "xor": ("xor", ""),
    "minsi": ("smin", ""), "maxsi": ("smax", ""), "minui": ("umin", ""), "maxui": ("umax", ""),
    "minnumf": ("", "fmin"), "maxnumf": ("", "fmax"), "minimumf": ("", "fminimum"), "maximumf": ("", "fmaximum"),
}  # fmt: skip
_INSTRUCTIONS = ("add", "mul", "and", "or", "xor")
_PAIRS = {"fmin": "minnum", "fmax": "maxnum", "fminimum": "minimum", "fmaximum": "maximum"}


def flat(type_: Attribute) -> VectorType:
    """The vector of one dimension with the elements of another."""
    shape = shape_of(type_)
    return cast(VectorType, type_) if len(shape) == 1 else vector_type(elem_of(type_), prod(shape))


def _place(s: Sink[T], op: Operation, shape: tuple[int, ...], dynamic: Sequence[SSAValue]) -> int | T:
    """Flat index of the first element of what a position of a vector names."""
    static = dense_ints(op.properties["static_position"])
    inner = prod(shape[len(static) :])
    if _DYNAMIC not in static:
        at = 0
        for i, n in zip(static, shape, strict=False):
            at = at * n + i
        return at * inner
    if len(static) != 1 or inner != 1:
        raise refuse(op, "with a dynamic position in a vector of several dimensions")
    return s.value(dynamic[0])


def _extract(s: Sink[T], op: Operation) -> None:
    v, *dynamic = operands_of(op)
    (result,) = op.results
    at = _place(s, op, shape_of(v.type), dynamic)
    if shape_of(result.type):
        assert isinstance(at, int)
        s.give(result, s.shuffle(flat(v.type), s.value(v), None, range(at, at + prod(shape_of(result.type)))))
    elif dynamic:
        s.give(result, s.element(flat(v.type), s.value(v), at, dynamic[0].type))
    else:
        s.give(result, s.element(flat(v.type), s.value(v), at))


def _insert(s: Sink[T], op: Operation) -> None:
    x, v, *dynamic = operands_of(op)
    (result,) = op.results
    at = _place(s, op, shape_of(v.type), dynamic)
    if shape_of(x.type):
        assert isinstance(at, int)
        s.give(result, _blend(s, x, v, range(at, at + prod(shape_of(x.type)))))
    elif dynamic:
        s.give(result, s.with_element(flat(v.type), s.value(v), s.value(x), at, dynamic[0].type))
    else:
        s.give(result, s.with_element(flat(v.type), s.value(v), s.value(x), at))


def _blend(s: Sink[T], x: SSAValue, v: SSAValue, places: Sequence[int]) -> T:
    """The vector `v` with the elements of `x` at `places`: widen the small one, then choose element by element."""
    small, whole = prod(shape_of(x.type)), prod(shape_of(v.type))
    if list(places) == list(range(whole)):
        return s.value(x)
    wide = s.shuffle(flat(x.type), s.value(x), None, [*range(small), *[-1] * (whole - small)])
    source = {at: whole + i for i, at in enumerate(places)}
    return s.shuffle(flat(v.type), s.value(v), wide, [source.get(i, i) for i in range(whole)])


def _broadcast(s: Sink[T], op: Operation) -> None:
    (x,) = operands_of(op)
    (result,) = op.results
    type_ = flat(result.type)
    if not shape_of(x.type):
        first = s.with_element(type_, s.poison(type_), s.value(x), 0)
        s.give(result, s.shuffle(type_, first, None, [0] * shape_of(type_)[0]))
        return
    have, want = shape_of(x.type), shape_of(result.type)
    have = (1,) * (len(want) - len(have)) + have
    mask: list[int] = []
    for at in product(*(range(n) for n in want)):
        place = 0
        for i, n in zip(at, have, strict=True):
            place = place * n + (i if n > 1 else 0)
        mask.append(place)
    s.give(result, s.shuffle(flat(x.type), s.value(x), None, mask))


def _shuffle(s: Sink[T], op: Operation) -> None:
    a, b = operands_of(op)
    mask = dense_ints(op.properties["mask"])
    na, nb = shape_of(a.type)[0], shape_of(b.type)[0]
    n = max(na, nb)
    x, y = s.value(a), s.value(b)
    if na < n:
        x = s.shuffle(a.type, x, None, [*range(na), *[-1] * (n - na)])
    if nb < n:
        y = s.shuffle(b.type, y, None, [*range(nb), *[-1] * (n - nb)])
    moved = [m if m < na else m - na + n for m in mask]
    (result,) = op.results
    s.give(result, s.shuffle(vector_type(elem_of(a.type), n), x, y, moved))


def _bitcast(s: Sink[T], op: Operation) -> None:
    (v,) = operands_of(op)
    (result,) = op.results
    s.give(result, s.cast("bitcast", s.value(v), v.type, result.type))


def _from_elements(s: Sink[T], op: Operation) -> None:
    (result,) = op.results
    type_ = flat(result.type)
    whole = s.poison(type_)
    for i, x in enumerate(operands_of(op)):
        whole = s.with_element(type_, whole, s.value(x), i)
    s.give(result, whole)


def _to_elements(s: Sink[T], op: Operation) -> None:
    (v,) = operands_of(op)
    for i, result in enumerate(op.results):
        if s.used(result):
            s.give(result, s.element(flat(v.type), s.value(v), i))


def _reduction(s: Sink[T], op: Operation) -> None:
    old, *init = operands_of(op)
    type_, v = flat(old.type), s.value(old)
    kind = str(cast(Any, op.properties["kind"]).data)
    elem = elem_of(type_)
    is_float = kind in _FLOAT_KINDS or type(elem) not in (IntegerType, IndexType)
    name = _REDUCTIONS[kind][is_float]
    flags = op.properties.get("fastmath") if is_float else None
    key = f"vector.reduce.{name}"
    if name in ("fadd", "fmul"):
        start = s.value(init[0]) if init else s.number(1.0 if name == "fmul" else -0.0, elem)
        s.give(op.results[0], s.intr(key, elem, (start, v), (elem, type_), flags))
        return
    result = s.intr(key, elem, (v,), (type_,), flags)
    if init:
        other = s.value(init[0])
        if name in _INSTRUCTIONS:
            result = s.binary(name, elem, result, other)
        else:
            result = s.intr(_PAIRS.get(name, name), elem, (result, other), (elem, elem), flags)
    s.give(op.results[0], result)


def _fma(s: Sink[T], op: Operation) -> None:
    args = operands_of(op)
    t = args[0].type
    (result,) = op.results
    s.give(result, s.intr("fma", t, [s.value(a) for a in args], [t] * 3))


def _numbers(op: Operation, name: str) -> list[int]:
    return [a.value.data for a in cast("ArrayAttr[IntegerAttr]", op.properties[name]).data]


def _window(op: Operation, shape: tuple[int, ...], sizes: Sequence[int]) -> Sequence[int]:
    """Flat indices of a slice of a vector, in order."""
    offsets, strides = _numbers(op, "offsets"), _numbers(op, "strides")
    if len(shape) == 1 and strides == [1]:
        return range(offsets[0], offsets[0] + sizes[0])
    rest = shape[len(offsets) :]
    offsets = [*offsets, *[0] * len(rest)]
    strides = [*strides, *[1] * (len(shape) - len(strides))]
    sizes = [*sizes, *rest][: len(shape)]
    found: list[int] = []
    for at in product(*(range(n) for n in sizes)):
        place = 0
        for i, o, step, n in zip(at, offsets, strides, shape, strict=True):
            place = place * n + o + i * step
        found.append(place)
    return found


def _extract_slice(s: Sink[T], op: Operation) -> None:
    (v,) = operands_of(op)
    mask = _window(op, shape_of(v.type), _numbers(op, "sizes"))
    (result,) = op.results
    s.give(result, s.shuffle(flat(v.type), s.value(v), None, mask))


def _insert_slice(s: Sink[T], op: Operation) -> None:
    x, v = operands_of(op)
    shape = shape_of(v.type)
    sizes = (1,) * (len(shape) - len(shape_of(x.type))) + shape_of(x.type)
    (result,) = op.results
    s.give(result, _blend(s, x, v, _window(op, shape, sizes)))


def _shape_cast(s: Sink[T], op: Operation) -> None:
    (v,) = operands_of(op)
    (result,) = op.results
    s.give(result, s.value(v))


def _transpose(s: Sink[T], op: Operation) -> None:
    (v,) = operands_of(op)
    shape = shape_of(v.type)
    order = dense_ints(op.properties["permutation"])
    steps = [prod(shape[i + 1 :]) for i in range(len(shape))]
    lanes = product(*(range(shape[i]) for i in order))
    mask = [sum(i * steps[k] for i, k in zip(at, order, strict=True)) for at in lanes]
    (result,) = op.results
    s.give(result, s.shuffle(flat(v.type), s.value(v), None, mask))


ELEMENTS: dict[type[Operation], Rule] = {
    vector.ExtractOp: _extract,
    vector.InsertOp: _insert,
    vector.BroadcastOp: _broadcast,
    vector.ShuffleOp: _shuffle,
    vector.BitcastOp: _bitcast,
    vector.ReductionOp: _reduction,
    vector.FMAOp: _fma,
    fvector.FromElementsOp: _from_elements,
    fvector.ToElementsOp: _to_elements,
}
"""The rule of each op of `vector` that conversions of device code take along."""
VECTOR: dict[type[Operation], Rule] = {
    **ELEMENTS,
    fvector.ExtractStridedSliceOp: _extract_slice,
    fvector.InsertStridedSliceOp: _insert_slice,
    fvector.ShapeCastOp: _shape_cast,
    fvector.TransposeOp: _transpose,
}
"""The rule of each op of `vector` on values."""
