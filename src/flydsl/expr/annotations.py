"""Names for annotations: what the functions of the language accept and give.

For type checkers only: nothing here is imported when a program runs, so it may name xDSL, numpy and every value class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union

from typing_extensions import TypeVar
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..ir.enums import SyncScope
from ..layout import Basis
from .emit.tracer import Tracer
from .numeric import Float32, Integer, Numeric
from .scalars.fastmath import FastMathFlags
from .tensor import Pointer, Tensor
from .tensors.algebra_values import AlgebraValue, ComposedLayout, IntTuple, Layout, Tile
from .tensors.storage import Array
from .vector import Vector

# --- scalars and vectors ----------------------------------------------------------------------------------------------

Number: TypeAlias = int | float
"""A Python number; `bool` is one of them."""
ScalarLike: TypeAlias = Number | Numeric | SSAValue
"""What stands for one scalar: a Python number, a scalar of the language, an IR value."""
ValueLike: TypeAlias = ScalarLike | Vector
"""What operators and math functions take."""
IntLike: TypeAlias = int | Integer | Numeric | IntTuple | SSAValue
"""What stands for one integer: a coordinate, an extent, an offset."""
Value: TypeAlias = Numeric | Vector
ValueT = TypeVar("ValueT", bound=Numeric | Vector, default=Numeric)
"""The class a function keeps: that of its operands which are no Python numbers."""
Operand: TypeAlias = ValueT | float | SSAValue
MadeT = TypeVar("MadeT", bound=Numeric | Vector, default=Any)
"""What an instruction gives: of a class that is named first, or of an IR type, which says nothing here."""
ResultType: TypeAlias = type[MadeT] | Attribute
"""The class of a result, or its IR type."""
ScalarT = TypeVar("ScalarT", bound=Numeric)
DTypeLike: TypeAlias = type[Numeric] | Attribute
"""A scalar class or an IR type."""
ElementLike: TypeAlias = DTypeLike | type[Vector]
"""The same, or a vector alias."""
FastMathLike: TypeAlias = "FastMathFlags | str | Sequence[FastMathLike] | set[FastMathFlags] | None"

# --- layouts and tensors ----------------------------------------------------------------------------------------------

TreeLike: TypeAlias = "IntLike | Basis | None | Sequence[TreeLike]"
"""What stands for an integer tuple: integers, `None`, bases, nested at will."""
Coord: TypeAlias = "IntLike | Sequence[Coord]"
"""A coordinate of one element."""
TileLike: TypeAlias = "Tile | Layout | IntTuple | Sequence[TileMode]"
AnyLayout: TypeAlias = Layout | ComposedLayout
LayoutT = TypeVar("LayoutT", bound=Layout | ComposedLayout | Tensor)
"""What the layout algebra divides: the result is of the same kind."""
ModesT = TypeVar("ModesT", bound=AlgebraValue | Tensor, default=IntTuple)
Modes: TypeAlias = "ModesT | int | Numeric | Basis | None | Sequence[TreeLike]"
"""What has modes: a layout, tensor or integer tuple, or what stands for the latter."""
TileMode: TypeAlias = "int | Numeric | None | Layout | Tile | IntTuple | Sequence[TileMode]"
TensorT = TypeVar("TensorT", bound=Tensor)

Place: TypeAlias = Tensor | Pointer | Array
Scope: TypeAlias = "SyncScope | str | None"
InputTypes: TypeAlias = "ElementLike | tuple[ElementLike, ElementLike]"

# --- the protocols of `flydsl.expr.protocol`, as types ----------------------------------------------------------------

Filler: TypeAlias = Callable[[Any, Any], None]
"""Writes a host value into an instance of its C type."""
Slot: TypeAlias = "tuple[type[Any], Filler]"
"""A C type and what fills one."""
AtomState: TypeAlias = "IntLike | Vector | Numeric"
"""Run-time state of an atom: an offset, a scale."""


class HasIRValue(Protocol):
    """A value of the language that has one IR value."""

    def ir_value(self) -> SSAValue: ...


Held = TypeVar("Held", covariant=True)


class Stored(Protocol[Held]):
    """A place in memory for a value; `fx.Storage` is one. The fields of a struct are places too."""

    def peek(self) -> Held: ...

    def poke(self, value: object) -> None: ...

    def __getattr__(self, name: str) -> Any: ...


class HasType(Protocol):
    """A class, or an op of an atom, that names an IR type."""

    @property
    def type(self) -> Attribute: ...


# --- parameters of jit functions and kernels --------------------------------------------------------------------------

T = TypeVar("T")
Host = TypeVar("Host")
Given = Union[T, Host]  # noqa: UP007 - as an alias of a `Union` it can be called
"""How `fx` declares the classes of parameters: in a kernel a value of the class, in a call what the host has for it.

An array for a `Tensor`, a number for an `Int32`, a framework's stream for a `Stream`: one annotation says both, and the
call is checked for the number and the names of its arguments.
"""

if TYPE_CHECKING:

    class CoordTensor(Tensor):
        """A tensor whose base is a coordinate: its elements are coordinates."""

        def __getitem__(self, coord: TreeLike) -> Any: ...


__all__ = [
    "AlgebraValue", "AnyLayout", "AtomState", "Attribute", "Block", "Coord", "CoordTensor", "DTypeLike",
    "ElementLike", "FastMathLike", "Filler", "Float32", "Given", "HasIRValue", "HasType", "InputTypes", "IntLike",
    "LayoutT", "MadeT", "Modes", "ModesT", "Number", "Operand", "Operation", "Place", "Pointer", "ResultType",
    "SSAValue", "ScalarLike", "ScalarT", "Scope", "Slot", "Stored", "TensorT", "TileLike", "TileMode", "Tracer",
    "TreeLike", "Value", "ValueLike", "ValueT",
]  # fmt: skip
