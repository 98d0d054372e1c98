"""`from flydsl._mlir import ir`: types, attributes, values, operations and places to insert, by MLIR's names."""

from __future__ import annotations

from typing import Any

from xdsl.ir import BlockArgument as XBlockArgument
from xdsl.ir import OpResult as XOpResult

from ..errors import MLIRError
from ..expr.emit.facade import Made, Stands
from ..ir.readable import NamedAttribute
from .affine import AffineExpr, AffineMap
from .attribute_classes import (
    DENSE_ARRAYS,
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseElementsAttr,
    DenseFPElementsAttr,
    DenseIntElementsAttr,
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
from .blocks import Block, Region
from .insertion import KINDS_OF_LOCATIONS, Context, InsertionPoint, Location
from .members import OpOperand
from .modules import Module, SymbolTable
from .operations import Operation_ as Operation
from .operations import OperationBase, OpView, WalkOrder, WalkResult
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

_OperationBase = OperationBase
UnknownLoc, FileLineColLoc, NameLoc, FusedLoc, CallSiteLoc = KINDS_OF_LOCATIONS.values()


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
    "AffineExpr", "AffineMap", "AffineMapAttr", "ArrayAttr", "Attribute", "Block", "BlockArgument", "BoolAttr",
    "CallSiteLoc", "ComplexType", "Context", "DenseElementsAttr", "DenseFPElementsAttr", "DenseIntElementsAttr",
    "DictAttr", "FileLineColLoc", "FlatSymbolRefAttr", "FloatAttr", "FloatType", "FunctionType", "FusedLoc",
    "IndexType", "InsertionPoint", "IntegerAttr", "IntegerType", "Location", "MLIRError", "MemRefType", "Module",
    "NameLoc", "NamedAttribute", "NoneType", "OpOperand", "OpResult", "OpView", "Operation", "RankedTensorType",
    "Region", "ShapedType", "StridedLayoutAttr", "StringAttr", "SymbolRefAttr", "SymbolTable", "TupleType", "Type",
    "TypeAttr", "UnitAttr", "UnknownLoc", "Value", "VectorType", "WalkOrder", "WalkResult",
]  # fmt: skip
