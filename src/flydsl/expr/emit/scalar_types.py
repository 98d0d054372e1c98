"""Scalar and vector types, flags and ops in xDSL: the heavy companion of `numeric`, `vector`, `math` and `arith`.

Those modules import it inside functions, when an operation is built. Emission helpers take the tracer first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from xdsl.dialects import math, vector
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    IndexType,
    IntegerType,
    MemRefType,
    Signedness,
    VectorType,
    bf16,
    f8E4M3,
    f8E4M3B11FNUZ,
    f8E4M3FN,
    f8E4M3FNUZ,
    f8E5M2,
    f8E5M2FNUZ,
    f8E8M0FNU,
    f16,
    f32,
    f64,
)
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream.extra_math import ErfcOp, RemFOp
from ...dialects.upstream.vector import FromElementsOp
from ...errors import DSLTypeError
from ...ir import arith
from ...ir.arith import ROUNDING_MODE
from ...ir.builder import Builder, int_attr
from ...ir.enums import RoundingMode
from ...ir.fold import check_range
from ...ir.readable import readable
from ...ir.types import i1, i8, i16, i32, i64, i128, index, vector_type
from ..scalars.fastmath import SINGLE, FastMathFlags

_TYPES: dict[str, Attribute] = {
    "i1": i1, "i4": IntegerType(4), "i8": i8, "i16": i16, "i32": i32, "i64": i64, "i128": i128, "index": index,
    "f16": f16, "bf16": bf16, "f32": f32, "f64": f64, "f8E5M2": f8E5M2, "f8E4M3": f8E4M3, "f8E4M3FN": f8E4M3FN,
    "f8E5M2FNUZ": f8E5M2FNUZ, "f8E4M3FNUZ": f8E4M3FNUZ, "f8E4M3B11FNUZ": f8E4M3B11FNUZ, "f8E8M0FNU": f8E8M0FNU,
    "f6E2M3FN": Float6E2M3FNType(),
    "f6E3M2FN": Float6E3M2FNType(), "f4E2M1FN": Float4E2M1FNType(),
}  # fmt: skip
IR_TYPES = {name: readable(type_) for name, type_ in _TYPES.items()}
"""IR scalar types by the text of the type."""

_INT_NAMES = {1: "Boolean", 4: "Int4", 8: "Int8", 16: "Int16", 32: "Int32", 64: "Int64", 128: "Int128"}
_FLOAT_NAMES = {
    "f16": "Float16", "bf16": "BFloat16", "f32": "Float32", "f64": "Float64",
    **{name: f"Float{name[1:]}" for name in IR_TYPES if name[:2] in ("f8", "f6", "f4")},
}  # fmt: skip


def ir_type_of(name: str) -> Attribute:
    """The IR scalar type of that text."""
    return IR_TYPES[name]


def class_name_of(type_: object) -> str | None:
    """Name of the scalar class of an IR type, or None; signless integers are signed."""
    if isinstance(type_, IntegerType):
        type_ = cast(IntegerType, type_)
        name = _INT_NAMES.get(type_.width.data)
        if name is not None and type_.signedness.data is Signedness.UNSIGNED and name.startswith("Int"):
            return "U" + name[0].lower() + name[1:]
        return name
    if isinstance(type_, IndexType):
        return "Index"
    return _FLOAT_NAMES.get(type_.name) if isinstance(type_, Attribute) else None


def named_type(name: str) -> Attribute | None:
    """A type of `fx.T`: `i32`, `bf16`, `f32x4`."""
    found = IR_TYPES.get(name)
    if found is None:
        match = re.fullmatch(r"(\w+?)x(\d+)", name)
        elem = None if match is None else IR_TYPES.get(match[1])
        if match is not None and elem is not None:
            found = vector_type(elem, int(match[2]))
    return found


def vector_parts(type_: Attribute) -> tuple[Attribute, int] | None:
    """Element type and count of a vector type, all dimensions taken together; None for any other type."""
    if not isinstance(type_, VectorType):
        return None
    count = 1
    for n in type_.get_shape():
        count *= n
    return type_.element_type, count  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]


# --- flags --------------------------------------------------------------------------------------------------------

_flag_attrs: dict[FastMathFlags, FastMathFlagsAttr] = {}


def fastmath_attr(flags: FastMathFlags) -> FastMathFlagsAttr:
    """Interned attribute of a set of flags."""
    found = _flag_attrs.get(flags)
    if found is None:
        chosen = [FastMathFlag(flag.name or "") for flag in SINGLE if flag in flags]
        found = _flag_attrs[flags] = FastMathFlagsAttr(chosen)
    return found


# --- casts and math -----------------------------------------------------------------------------------------------

_FLOAT_CASTS: dict[str, type[Operation]] = {"extf": arith.ExtFOp, "truncf": arith.TruncFOp}


def emit_float_cast(
    b: Builder, name: str, x: SSAValue, type_: Attribute, flags: Attribute | None, rounding: RoundingMode | None
) -> SSAValue:
    """`arith.extf` or `arith.truncf` with flags or a rounding mode."""
    if x.type == type_:
        return x
    props: dict[str, Attribute] = {}
    if flags is not None:
        props["fastmath"] = flags
    if rounding is not None:
        props[ROUNDING_MODE] = int_attr(int(rounding), i32)
    return b.pure(_FLOAT_CASTS[name], (x,), type_, props)


MATH_OPS: dict[str, type[Operation]] = {
    "absf": math.AbsFOp, "ceil": math.CeilOp, "floor": math.FloorOp, "trunc": math.TruncOp, "round": math.RoundOp,
    "roundeven": math.RoundEvenOp, "exp": math.ExpOp, "exp2": math.Exp2Op, "expm1": math.ExpM1Op, "log": math.LogOp,
    "log2": math.Log2Op, "log10": math.Log10Op, "log1p": math.Log1pOp, "sqrt": math.SqrtOp, "rsqrt": math.RsqrtOp,
    "cbrt": math.CbrtOp, "sin": math.SinOp, "cos": math.CosOp, "tan": math.TanOp, "asin": math.AsinOp,
    "acos": math.AcosOp, "atan": math.AtanOp, "sinh": math.SinhOp, "cosh": math.CoshOp, "tanh": math.TanhOp,
    "asinh": math.AsinhOp, "acosh": math.AcoshOp, "atanh": math.AtanhOp, "erf": math.ErfOp, "erfc": ErfcOp,
    "absi": math.AbsIOp, "ctlz": math.CountLeadingZerosOp, "cttz": math.CountTrailingZerosOp, "ctpop": math.CtPopOp,
    "powf": math.PowFOp, "fpowi": math.FPowIOp, "ipowi": math.IPowIOp, "atan2": math.Atan2Op,
    "copysign": math.CopySignOp, "fma": math.FmaOp, "remf": RemFOp,
}  # fmt: skip
"""Ops whose result has the type of their first operand."""


def emit_math(b: Builder, name: str, operands: Sequence[SSAValue], flags: Attribute | None = None) -> SSAValue:
    """A `math` op, or `arith.remf`."""
    props: dict[str, Attribute] = {} if flags is None else {"fastmath": flags}
    return b.pure(MATH_OPS[name], operands, operands[0].type, props)


# --- vectors ------------------------------------------------------------------------------------------------------

_DYNAMIC = DenseArrayBase.from_list(i64, [-(1 << 63)])
_masks: dict[tuple[int, ...], DenseArrayBase[IntegerType]] = {}


def emit_extract_at(b: Builder, v: SSAValue, at: SSAValue) -> SSAValue:
    """Element of a 1-D vector at a run-time position (an index)."""
    parts = vector_parts(v.type)
    assert parts is not None
    return b.pure(vector.ExtractOp, (v, at), parts[0], {"static_position": _DYNAMIC})


def emit_shuffle(b: Builder, v: SSAValue, w: SSAValue, mask: Sequence[int]) -> SSAValue:
    """Elements of the concatenation of two vectors, by position."""
    key = tuple(mask)
    attr = _masks.get(key)
    if attr is None:
        attr = _masks[key] = DenseArrayBase.from_list(i64, key)
    parts = vector_parts(v.type)
    assert parts is not None
    return b.pure(vector.ShuffleOp, (v, w), vector_type(parts[0], len(key)), {"mask": attr})


def emit_vector_bitcast(b: Builder, v: SSAValue, elem: Attribute, count: int) -> SSAValue:
    """The same bits as a vector of other elements."""
    type_ = vector_type(elem, count)
    return v if v.type == type_ else b.pure(vector.BitcastOp, (v,), type_, {})


def emit_from_elements(b: Builder, elements: Sequence[SSAValue]) -> SSAValue:
    """A vector of these elements."""
    first = elements[0]
    if len(elements) > 1 and all(e is first for e in elements):
        return b.broadcast(first, len(elements))
    return b.pure(FromElementsOp, elements, vector_type(first.type, len(elements)), {})


def emit_constant_vector(b: Builder, values: Sequence[int | float], elem: Attribute) -> SSAValue:
    """A vector of numbers known at compile time."""
    type_ = vector_type(elem, len(values))
    if len({repr(v) for v in values}) == 1:
        return b.const(values[0], type_)
    for value in values:
        if isinstance(value, float):
            check_range(value, elem)
    attr = DenseIntOrFPElementsAttr.from_list(type_, list(values))  # pyright: ignore[reportArgumentType,reportUnknownVariableType,reportUnknownMemberType,reportCallIssue]
    return b.pure(arith.ConstantOp, (), type_, {"value": attr})


_kinds: dict[str, CombiningKindAttr] = {}


def combining_kind(kind: object) -> CombiningKindAttr | None:
    """The attribute of a combining kind: its name, its flag, or the attribute itself; None for anything else."""
    if isinstance(kind, CombiningKindAttr):
        return kind
    if isinstance(kind, str):
        found = _kinds.get(kind)
        if found is None:
            if kind not in CombiningKindFlag.__members__.values():
                return None
            found = _kinds[str(kind)] = CombiningKindAttr(CombiningKindFlag(kind))
        return found
    return None


def emit_reduction(
    b: Builder, v: SSAValue, kind: CombiningKindAttr, acc: SSAValue | None, flags: Attribute | None
) -> SSAValue:
    """All elements combined, and `acc` with them."""
    parts = vector_parts(v.type)
    assert parts is not None
    props: dict[str, Attribute] = {"kind": kind}
    if flags is not None:
        props["fastmath"] = flags
    return b.pure(vector.ReductionOp, (v,) if acc is None else (v, acc), parts[0], props)


def emit_vector_load(b: Builder, type_: Attribute, ref: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
    """Read a vector from a memref."""
    _check_memref(ref)
    return b.op1(vector.LoadOp, (ref, *indices), type_, {})


def emit_vector_store(
    b: Builder, v: SSAValue, ref: SSAValue, indices: Sequence[SSAValue], alignment: int | None = None
) -> None:
    """Write a vector into a memref."""
    _check_memref(ref)
    op = b.opn(vector.StoreOp, (v, ref, *indices), ())
    if alignment is not None:
        op.attributes["alignment"] = int_attr(alignment, i64)


def _check_memref(ref: SSAValue) -> None:
    if not isinstance(ref.type, MemRefType):
        raise DSLTypeError(f"expected a memref, got a value of type {ref.type}; use Tensor.load and Tensor.store")
