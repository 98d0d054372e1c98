"""The dialect `arith`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IndexType, IntegerAttr, IntegerType, VectorType
from xdsl.ir import Attribute

from ...errors import DSLTypeError, DSLValueError, MLIRError
from ...expr.emit.facade import Made
from ...ir.arith import ConstantOp as XConstantOp
from ..insertion import emit
from ..operations import OpView
from ..signature import by_op
from ..values import unwrap
from .generated import module

Number = int | float


def constant_attribute(type_: Attribute, value: object) -> Attribute:
    if isinstance(value, Attribute):
        return value
    if isinstance(type_, VectorType):
        items = [value] if isinstance(value, int | float) else list(cast("Sequence[Number]", value))
        return DenseIntOrFPElementsAttr.from_list(cast("VectorType[IntegerType]", type_), cast("list[int]", items))
    if not isinstance(value, int | float):
        raise DSLTypeError(f"'arith.constant': expected a number or an attribute, got {value!r}")
    if isinstance(type_, IntegerType | IndexType):
        if isinstance(value, float):
            raise MLIRError(f"'arith.constant': expected an integer for {type_}, got {value!r}")
        return IntegerAttr(int(value), cast(IntegerType, type_))
    return FloatAttr(float(value), type_)  # pyright: ignore[reportArgumentType, reportCallIssue]


class ConstantOp(OpView):
    """`arith.constant`: of a type and a number, a list or an attribute."""

    OPERATION_NAME = "arith.constant"
    SIGNATURE = by_op("arith")["arith.constant"]

    def __init__(self, result: object, value: object, *, loc: object = None, ip: object = None):
        type_ = cast(Attribute, getattr(result, "ir_type", result))
        self.raw = XConstantOp.create(result_types=[type_], properties={"value": constant_attribute(type_, value)})
        emit(self.raw, loc, ip)

    @classmethod
    def create_index(cls, value: int, *, loc: object = None, ip: object = None) -> ConstantOp:
        """A constant of type `index`."""
        return cls(IndexType(), value, loc=loc, ip=ip)

    @property
    def type(self) -> Attribute:
        """The type of the result."""
        return unwrap(self).type

    @property
    def value(self) -> Attribute:
        return self.attributes["value"]

    @property
    def literal_value(self) -> Number:
        """The number, where it is one."""
        value = self.value
        if not isinstance(value, IntegerAttr | FloatAttr):
            raise DSLValueError(f"{value} is no number: only constants of scalars have a literal value")
        return cast("IntegerAttr[IntegerType]", value).value.data


def constant(result: object, value: object, *, loc: object = None, ip: object = None) -> Made:
    return ConstantOp(result, value, loc=loc, ip=ip).result


__getattr__, __dir__ = module("arith", globals())
