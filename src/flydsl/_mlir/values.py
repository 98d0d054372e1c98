"""Values: what a builder is given, and what it gives.

Scalars and vectors come back as the language's own (`fx.Int32`, `fx.Vector`), on which operators and methods work;
values of other types, such as pointers and structs, stay values of the IR. Any of them is taken, and ops with one
result.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from ..errors import DSLTypeError, MLIRError
from ..expr.emit.facade import Made
from ..expr.emit.scalar_types import class_name_of
from ..expr.numeric import Numeric, as_ir_value
from ..expr.scalars.scalar_ops import CLASSES, STATIC, make
from ..expr.vector import Vector
from ..ir.emitter import retype
from ..ir.readable import readable
from ..ir.values import own


def wrap(value: SSAValue) -> Made:
    """A value of the IR as one of the language, where it has a class for its type."""
    retype(own(value), readable(value.type))
    type_: Attribute = value.type
    if isinstance(type_, VectorType):
        held = cast("VectorType[Attribute]", type_)
        known = class_name_of(held.element_type) is not None and len(held.get_shape()) == 1
        return Vector(value) if known else value
    name = class_name_of(type_)
    return value if name is None else make(CLASSES[name], value)


def is_value(x: object) -> bool:
    """Whether MLIR's bindings would have a `Value` here: anything at run time, no number known at compile time."""
    if isinstance(x, SSAValue | Vector):
        return True
    return isinstance(x, Numeric) and type(x.value) not in STATIC


def unwrap(x: object, what: str = "an operand") -> SSAValue:
    """The value of the IR."""
    if isinstance(x, SSAValue):
        return cast(SSAValue, x)
    raw = getattr(x, "raw", None)
    if isinstance(raw, Operation):
        if len(raw.results) != 1:
            raise DSLTypeError(f"{what} must be one value, but '{raw.name}' has {len(raw.results)} results")
        return raw.results[0]
    if isinstance(x, Operation) and len(x.results) == 1:
        return x.results[0]
    found: object = None if isinstance(x, int | float | str) else as_ir_value(x)
    if not isinstance(found, SSAValue):
        raise MLIRError(f"{what} must be a value, got {x!r} of type {type(x).__name__}")
    return cast(SSAValue, found)


__all__ = ["is_value", "unwrap", "wrap"]
