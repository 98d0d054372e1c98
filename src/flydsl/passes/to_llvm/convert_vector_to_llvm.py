"""`convert-vector-to-llvm`: vectors as vectors of `llvm`, which have one dimension: all elements in row-major order.

Slices, transposes and shape casts are shuffles of known lanes. `convert-gpu-to-*` take the simple ops (`SIMPLE`) along;
the rest waits for this pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects import ub, vector
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream import vector as fvector
from ...dialects.upstream.llvm.intrinsics import INTRINSIC_OPS
from ...dialects.upstream.llvm.values import ExtractElementOp, PoisonOp
from ...ir.builder import elem_of, i32_list, i64, operands_of
from ...ir.types import vector_type
from ...lowering.rebuild import Handler
from ..base import Pass
from .host_print import print_value
from .llvm_conversion import LlvmConversion, fast_flags, llvm_type, refuse

_DYNAMIC = -(2**63)
_FLOAT_KINDS = ("minnumf", "maxnumf", "minimumf", "maximumf")
_REDUCTIONS = {
    "add": ("add", "fadd"), "mul": ("mul", "fmul"), "and": ("and", ""), "or": ("or", ""), "xor": ("xor", ""),
    "minsi": ("smin", ""), "maxsi": ("smax", ""), "minui": ("umin", ""), "maxui": ("umax", ""),
    "minnumf": ("", "fmin"), "maxnumf": ("", "fmax"), "minimumf": ("", "fminimum"), "maximumf": ("", "fmaximum"),
}  # fmt: skip
_COMBINE: dict[str, type[Operation]] = {
    "add": xllvm.AddOp,
    "mul": xllvm.MulOp,
    "and": xllvm.AndOp,
    "or": xllvm.OrOp,
    "xor": xllvm.XOrOp,
    **{k: INTRINSIC_OPS[k] for k in ("smin", "smax", "umin", "umax")},
    "fmin": INTRINSIC_OPS["minnum"],
    "fmax": INTRINSIC_OPS["maxnum"],
    "fminimum": INTRINSIC_OPS["minimum"],
    "fmaximum": INTRINSIC_OPS["maximum"],
}


def shape_of(value: SSAValue | Attribute) -> tuple[int, ...]:
    """Extents of a vector; none for a scalar."""
    type_ = value if isinstance(value, Attribute) else value.type
    return tuple(type_.get_shape()) if isinstance(type_, VectorType) else ()


def shuffle(r: LlvmConversion, a: SSAValue, b: SSAValue | None, mask: Sequence[int]) -> SSAValue:
    """Lanes of two vectors of one type; -1 is a lane nobody looks at."""
    type_ = cast(VectorType, a.type)
    if b is None:
        if list(mask) == list(range(type_.get_shape()[0])):
            return a
        b = r.make(PoisonOp, (), type_)
    result = vector_type(type_.element_type, len(mask))
    return r.make(xllvm.ShuffleVectorOp, (a, b), result, {"mask": i32_list(mask)})


def element(r: LlvmConversion, v: SSAValue, at: SSAValue | int) -> SSAValue:
    """One lane."""
    index = r.int(at, i64) if isinstance(at, int) else at
    return r.make(ExtractElementOp, (v, index), elem_of(v.type))


def with_element(r: LlvmConversion, x: SSAValue, v: SSAValue, at: SSAValue | int) -> SSAValue:
    """The vector with one lane replaced."""
    index = r.int(at, i64) if isinstance(at, int) else at
    return r.make(xllvm.InsertElementOp, (v, x, index), v.type)


def splat(r: LlvmConversion, x: SSAValue, type_: Attribute) -> SSAValue:
    """A vector of one value."""
    first = with_element(r, x, r.make(PoisonOp, (), type_), 0)
    return shuffle(r, first, None, [0] * shape_of(type_)[0])


def _positions(op: Operation) -> list[int]:
    return [int(i) for i in cast(DenseArrayBase[Any], op.properties["static_position"]).get_values()]


def _place(r: LlvmConversion, op: Operation, shape: tuple[int, ...], dynamic: Sequence[SSAValue]) -> SSAValue | int:
    """Flat index of the first element of what a position of a vector names."""
    static = _positions(op)
    inner = prod(shape[len(static) :])
    if _DYNAMIC not in static:
        at = 0
        for i, n in zip(static, shape, strict=False):
            at = at * n + i
        return at * inner
    if len(static) != 1 or inner != 1:
        raise refuse(op, "with a dynamic position in a vector of several dimensions")
    return r.ll(dynamic[0])


def _extract(r: LlvmConversion, op: Operation) -> None:
    v, *dynamic = operands_of(op)
    at = _place(r, op, shape_of(v), dynamic)
    count = prod(shape_of(op.results[0]))
    if shape_of(op.results[0]):
        assert isinstance(at, int)
        r.give(op, shuffle(r, r.ll(v), None, range(at, at + count)))
        return
    r.give(op, element(r, r.ll(v), at))


def _insert(r: LlvmConversion, op: Operation) -> None:
    x, v, *dynamic = operands_of(op)
    at = _place(r, op, shape_of(v), dynamic)
    if shape_of(x):
        assert isinstance(at, int)
        r.give(op, _blend(r, r.ll(x), r.ll(v), list(range(at, at + prod(shape_of(x))))))
        return
    r.give(op, with_element(r, r.ll(x), r.ll(v), at))


def _blend(r: LlvmConversion, x: SSAValue, v: SSAValue, places: Sequence[int]) -> SSAValue:
    """The vector `v` with the elements of `x` at `places`: widen the small one, then choose lane by lane."""
    small, whole = shape_of(x)[0], shape_of(v)[0]
    if list(places) == list(range(whole)):
        return x
    wide = shuffle(r, x, None, [*range(small), *[-1] * (whole - small)])
    source = {at: whole + i for i, at in enumerate(places)}
    return shuffle(r, v, wide, [source.get(i, i) for i in range(whole)])


def _broadcast(r: LlvmConversion, op: Operation) -> None:
    (x,) = operands_of(op)
    type_ = llvm_type(op.results[0].type)
    if not shape_of(x):
        r.give(op, splat(r, r.ll(x), type_))
        return
    have, want = shape_of(x), shape_of(op.results[0])
    have = (1,) * (len(want) - len(have)) + have
    mask: list[int] = []
    for at in product(*(range(n) for n in want)):
        flat = 0
        for i, n in zip(at, have, strict=True):
            flat = flat * n + (i if n > 1 else 0)
        mask.append(flat)
    r.give(op, shuffle(r, r.ll(x), None, mask))


def _shuffle(r: LlvmConversion, op: Operation) -> None:
    a, b = r.lls(operands_of(op))
    mask = [int(i) for i in cast(DenseArrayBase[Any], op.properties["mask"]).get_values()]
    na, nb = shape_of(a)[0], shape_of(b)[0]
    n = max(na, nb)
    if na != nb:
        a, b = (shuffle(r, v, None, [*range(k), *[-1] * (n - k)]) for v, k in ((a, na), (b, nb)))
        mask = [m if m < na else m - na + n for m in mask]
    r.give(op, shuffle(r, a, b, mask))


def _bitcast(r: LlvmConversion, op: Operation) -> None:
    (v,) = operands_of(op)
    a, type_ = r.ll(v), llvm_type(op.results[0].type)
    r.give(op, a if a.type == type_ else r.make(xllvm.BitcastOp, (a,), type_))


def _from_elements(r: LlvmConversion, op: Operation) -> None:
    whole = r.make(PoisonOp, (), llvm_type(op.results[0].type))
    for i, x in enumerate(operands_of(op)):
        whole = with_element(r, r.ll(x), whole, i)
    r.give(op, whole)


def _to_elements(r: LlvmConversion, op: Operation) -> None:
    (v,) = operands_of(op)
    for i, result in enumerate(op.results):
        r.vm[result] = element(r, r.ll(v), i)


def _reduction(r: LlvmConversion, op: Operation) -> None:
    old, *init = operands_of(op)
    v = r.ll(old)
    kind = str(cast(Any, op.properties["kind"]).data)
    elem = elem_of(v.type)
    is_float = kind in _FLOAT_KINDS or not hasattr(elem, "width")
    name = _REDUCTIONS[kind][is_float]
    flags = fast_flags(op) if is_float else {}
    cls = INTRINSIC_OPS[f"vector.reduce.{name}"]
    if name in ("fadd", "fmul"):
        start = r.ll(init[0]) if init else r.b.number(1.0 if name == "fmul" else -0.0, elem)
        r.give(op, r.make(cls, (start, v), elem, flags))
        return
    result = r.make(cls, (v,), elem, flags)
    r.give(op, r.make(_COMBINE[name], (result, r.ll(init[0])), elem, flags) if init else result)


def _fma(r: LlvmConversion, op: Operation) -> None:
    args = r.lls(operands_of(op))
    r.give(op, r.make(INTRINSIC_OPS["fma"], args, args[0].type))


def _poison(r: LlvmConversion, op: Operation) -> None:
    r.give(op, r.make(PoisonOp, (), llvm_type(op.results[0].type)))


SIMPLE: dict[type[Operation], Handler] = {
    vector.ExtractOp: _extract,
    vector.InsertOp: _insert,
    vector.BroadcastOp: _broadcast,
    vector.ShuffleOp: _shuffle,
    vector.BitcastOp: _bitcast,
    vector.ReductionOp: _reduction,
    vector.FMAOp: _fma,
    fvector.FromElementsOp: _from_elements,
    fvector.ToElementsOp: _to_elements,
    ub.PoisonOp: _poison,
}
"""What conversions of device code do too."""


def _numbers(op: Operation, name: str) -> list[int]:
    return [a.value.data for a in cast(Any, op.properties[name]).data]


def _window(op: Operation, shape: tuple[int, ...], sizes: Sequence[int]) -> list[int]:
    """Flat indices of a slice of a vector, in order."""
    offsets, strides = _numbers(op, "offsets"), _numbers(op, "strides")
    rest = shape[len(offsets) :]
    offsets = [*offsets, *[0] * len(rest)]
    strides = [*strides, *[1] * (len(shape) - len(strides))]
    sizes = [*sizes, *rest][: len(shape)]
    found: list[int] = []
    for at in product(*(range(n) for n in sizes)):
        flat = 0
        for i, o, s, n in zip(at, offsets, strides, shape, strict=True):
            flat = flat * n + o + i * s
        found.append(flat)
    return found


def _extract_slice(r: LlvmConversion, op: Operation) -> None:
    (v,) = operands_of(op)
    r.give(op, shuffle(r, r.ll(v), None, _window(op, shape_of(v), _numbers(op, "sizes"))))


def _insert_slice(r: LlvmConversion, op: Operation) -> None:
    x, v = operands_of(op)
    shape = shape_of(v)
    sizes = (1,) * (len(shape) - len(shape_of(x))) + shape_of(x)
    r.give(op, _blend(r, r.ll(x), r.ll(v), _window(op, shape, sizes)))


def _shape_cast(r: LlvmConversion, op: Operation) -> None:
    (v,) = operands_of(op)
    r.give(op, r.ll(v))


def _transpose(r: LlvmConversion, op: Operation) -> None:
    (v,) = operands_of(op)
    shape = shape_of(v)
    order = [int(i) for i in cast(Any, op.properties["permutation"]).get_values()]
    steps = [prod(shape[i + 1 :]) for i in range(len(shape))]
    lanes = product(*(range(shape[i]) for i in order))
    r.give(op, shuffle(r, r.ll(v), None, [sum(i * steps[k] for i, k in zip(at, order, strict=True)) for at in lanes]))


HANDLERS: dict[type[Operation], Handler] = {
    **SIMPLE,
    fvector.ExtractStridedSliceOp: _extract_slice,
    fvector.InsertStridedSliceOp: _insert_slice,
    fvector.ShapeCastOp: _shape_cast,
    fvector.TransposeOp: _transpose,
    fvector.PrintOp: cast(Handler, print_value),
}
"""Conversions of `vector`."""


class _Conversion(LlvmConversion):
    handlers = HANDLERS


@dataclass(frozen=True)
class ConvertVectorToLlvmPass(Pass):
    """Convert vectors to the llvm dialect; slices and transposes become shuffles."""

    name = "convert-vector-to-llvm"

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Conversion.rebuild(module)
