"""`from flydsl._mlir import ir`: types, attributes, values, operations and places to insert, by MLIR's names."""

from __future__ import annotations

from typing import Any

from xdsl.ir import BlockArgument as XBlockArgument
from xdsl.ir import OpResult as XOpResult

from ..expr.emit.facade import Made, Stands
from .attribute_classes import (
    DENSE_ARRAYS,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseElementsAttr,
    DictAttr,
    FlatSymbolRefAttr,
    FloatAttr,
    IntegerAttr,
    StridedLayoutAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
)
from .insertion import Context, InsertionPoint, Location
from .operations import Block, Module, OperationBase, OpView, Region, SymbolTable
from .operations import Operation_ as Operation
from .types import (
    FLOATS,
    ComplexType,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    NoneType,
    RankedTensorType,
    ShapedType,
    TupleType,
    Type,
    VectorType,
)
from .values import is_value, unwrap

MLIRError = RuntimeError
"""What MLIR's bindings raise for IR that does not verify."""
_OperationBase = OperationBase
DenseIntElementsAttr = DenseFPElementsAttr = DenseElementsAttr
UnknownLoc = FileLineColLoc = NameLoc = FusedLoc = CallSiteLoc = Location


class Value(Stands):
    """Any value: of the language at run time, or of the IR."""

    @classmethod
    def _accepts(cls, x: object) -> bool:
        return is_value(x)


class OpResult(Value):
    """A result of an operation."""

    @classmethod
    def _accepts(cls, x: object) -> bool:
        return is_value(x) and isinstance(unwrap(x), XOpResult)


class BlockArgument(Value):
    """An argument of a block."""

    @classmethod
    def _accepts(cls, x: object) -> bool:
        return is_value(x) and isinstance(unwrap(x), XBlockArgument)


def __getattr__(name: str) -> Made:
    found: Any = FLOATS.get(name) or DENSE_ARRAYS.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def __dir__() -> list[str]:
    return [*__all__, *FLOATS, *DENSE_ARRAYS]


__all__ = [
    "ArrayAttr", "Attribute", "Block", "BlockArgument", "BoolAttr", "CallSiteLoc", "ComplexType", "Context",
    "DenseElementsAttr", "DenseFPElementsAttr", "DenseIntElementsAttr", "DictAttr", "FileLineColLoc",
    "FlatSymbolRefAttr", "FloatAttr", "FloatType", "FunctionType", "FusedLoc", "IndexType", "InsertionPoint",
    "IntegerAttr", "IntegerType", "Location", "MLIRError", "MemRefType", "Module", "NameLoc", "NoneType", "OpResult",
    "OpView", "Operation", "RankedTensorType", "Region", "ShapedType", "StridedLayoutAttr", "StringAttr",
    "SymbolRefAttr", "SymbolTable", "TupleType", "Type", "TypeAttr", "UnitAttr", "UnknownLoc", "Value", "VectorType",
]  # fmt: skip
