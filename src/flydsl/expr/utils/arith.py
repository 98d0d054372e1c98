"""Values and types of the IR's arithmetic, at FlyDSL's path `flydsl.expr.utils.arith`: for kernels on raw values."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...ir.enums import RoundingMode
from ..arith import (
    ArithValue,
    andi,
    constant,
    constant_vector,
    fastmath,
    index,
    index_cast,
    int_to_fp,
    resolve_fastmath,
    select,
    shli,
    sitofp,
    trunc_f,
    unwrap,
    xori,
)
from ..numeric import Numeric, as_dsl_value, as_numeric, dsl_class
from ..scalars.fastmath import ambient_flags

if TYPE_CHECKING:
    from ..annotations import Attribute, DTypeLike, ElementLike, Value, ValueLike
    from ..numeric import ScalarClass


def arith_const(value: float, ty: DTypeLike | None = None) -> Numeric:
    """A constant, of a class or IR type if one is given.

    >>> arith_const(3), arith_const(2.5)
    (Int32(3), Float32(2.5))
    """
    return as_numeric(value) if ty is None else dsl_class(ty)(value)


def current_fastmath() -> str | None:
    """The flags of the innermost `with fx.fastmath(...)` as text; None outside one."""
    found = ambient_flags.get()
    return None if found is None else found.text


def element_type(ty: ElementLike) -> Attribute:
    """The element type of a vector type; any other type itself."""
    type_ = ty.ir_type if isinstance(ty, type) else ty
    return getattr(type_, "element_type", type_)


def is_float_type(ty: ElementLike) -> bool:
    """Whether an IR type, or the elements of one, are floats."""
    return _class_of(ty).is_float


def is_integer_like_type(ty: ElementLike) -> bool:
    """Whether an IR type, or the elements of one, are integers or indices."""
    return _class_of(ty).is_integer


def is_narrow_float_type(ty: ElementLike) -> bool:
    """Whether an IR type, or the elements of one, are floats of 8 bits or fewer: storage formats."""
    return is_float_type(ty) and _class_of(ty).width <= 8


def _class_of(ty: ElementLike) -> ScalarClass:
    return dsl_class(element_type(ty))


def recast_type(src_type: Attribute, res_elem_type: ElementLike) -> Attribute:
    """A type like another one, with other elements."""
    from xdsl.dialects.builtin import VectorType

    from ...ir.readable import readable

    elem = element_type(res_elem_type)
    return (
        readable(VectorType(elem, cast("VectorType[Attribute]", src_type).get_shape()))
        if isinstance(src_type, VectorType)
        else elem
    )


def fp_to_fp(src: ValueLike, res_elem_type: ElementLike, *, rounding_mode: RoundingMode | None = None) -> Value:
    """A float as another float."""
    return as_dsl_value(src).to(dsl_class(res_elem_type), rounding_mode=rounding_mode)


def fp_to_int(src: ValueLike, signed: bool, res_elem_type: ElementLike) -> Value:
    """A float as an integer, toward zero, signed or not."""
    target = type(dsl_class(res_elem_type)(0).with_signedness(signed))
    return as_dsl_value(src).to(target)


def int_to_int(src: ValueLike, dst_type: ElementLike, *, signed: bool | None = None) -> Value:
    """An integer as one of another width, extended by its sign or with zeros."""
    value = as_dsl_value(src)
    if signed is not None:
        value = value.with_signedness(signed)
    return value.to(dsl_class(dst_type))


__all__ = [
    "ArithValue", "andi", "arith_const", "constant", "constant_vector", "current_fastmath", "element_type", "fastmath",
    "fp_to_fp", "fp_to_int", "index", "index_cast", "int_to_fp", "int_to_int", "is_float_type", "is_integer_like_type",
    "is_narrow_float_type", "recast_type", "resolve_fastmath", "select", "shli", "sitofp", "trunc_f", "unwrap", "xori",
]  # fmt: skip
