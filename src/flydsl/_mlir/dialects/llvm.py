"""The dialect `llvm`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr
from xdsl.dialects.llvm import ConstantOp as XConstantOp
from xdsl.dialects.llvm import LLVMArrayType, LLVMPointerType
from xdsl.ir import Attribute

from ...dialects.upstream import llvm as ours
from ...errors import DSLTypeError
from ...expr.emit.facade import Made, Stands, anywhere
from ...ir.readable import readable
from ..insertion import emit
from ..operations import OpView
from ..signature import by_op
from ..values import wrap
from .arith import Number, constant_attribute
from .generated import module


class PointerType(Stands, of=LLVMPointerType):
    """`!llvm.ptr<1>`."""

    @staticmethod
    @anywhere
    def get(address_space: int | None = None) -> Attribute:
        return ours.ptr(int(address_space or 0))


class ArrayType(Stands, of=LLVMArrayType):
    """`!llvm.array<4 x f32>`."""

    @staticmethod
    @anywhere
    def get(element_type: Attribute, num_elements: int) -> Attribute:
        return LLVMArrayType(num_elements, element_type)


class StructType(Stands, of=ours.StructType):
    """`!llvm.struct<(i32, f32)>`."""

    @staticmethod
    @anywhere
    def get_literal(elements: Sequence[Attribute], packed: bool = False) -> Attribute:
        """A struct by its fields."""
        return ours.StructType((packed, tuple(elements)))


class ConstantOp(OpView):
    """`llvm.mlir.constant`: of a type and an attribute or a number."""

    OPERATION_NAME = "llvm.mlir.constant"
    SIGNATURE = by_op("llvm")["llvm.mlir.constant"]

    def __init__(self, res: Attribute, value: object, *, loc: object = None, ip: object = None):
        self.raw = XConstantOp.create(result_types=[res], properties={"value": constant_attribute(res, value)})
        emit(self.raw, loc, ip)


def mlir_constant(
    value: object, type_or_value: object = None, *, loc: object = None, ip: object = None, res: Attribute | None = None
) -> Made:
    """`llvm.mlir.constant` of an attribute, which has the type; or of a type and a value."""
    if type_or_value is not None:
        res, value = cast(Attribute, value), type_or_value
    if res is None:
        found = getattr(value, "type", None)
        if not isinstance(found, Attribute):
            raise DSLTypeError(f"'llvm.mlir.constant': expected an attribute with a type, got {value!r}")
        res = found
    return wrap(ConstantOp(res, value, loc=loc, ip=ip).raw.results[0])


def md_str(s: str, *, context: object = None) -> Attribute:
    """A text of metadata."""
    return readable(StringAttr(s))


def md_const(val: Number, *, width: int = 32, context: object = None) -> Attribute:
    """A number of metadata."""
    if not isinstance(val, int):
        raise DSLTypeError(f"md_const: expected an integer, got {val!r}")
    return readable(IntegerAttr(int(val), IntegerType(width)))


__getattr__, __dir__ = module("llvm", globals())
