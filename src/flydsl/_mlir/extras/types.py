"""`flydsl._mlir.extras.types`: types as short calls: `T.i32()`, `T.f32()`, `T.vector(4, T.f32())`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from ...expr.emit.facade import Made
from ..types import (
    FLOATS,
    ComplexType,
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    NoneType,
    RankedTensorType,
    TupleType,
    VectorType,
)

if TYPE_CHECKING:
    from xdsl.ir import Attribute

_SHORT = {"tf32": "FloatTF32Type", "bf16": "BF16Type", "f16": "F16Type", "f32": "F32Type", "f64": "F64Type"}


def index() -> Made:
    return IndexType.get()


def i(width: int) -> Made:
    """A signless integer type."""
    return IntegerType.get_signless(width)


def si(width: int) -> Made:
    """A signed integer type."""
    return IntegerType.get_signed(width)


def ui(width: int) -> Made:
    """An unsigned integer type."""
    return IntegerType.get_unsigned(width)


bool = partial(i, 1)
i8, i16, i32, i64 = (partial(i, n) for n in (8, 16, 32, 64))
si8, si16, si32, si64 = (partial(si, n) for n in (8, 16, 32, 64))
ui8, ui16, ui32, ui64 = (partial(ui, n) for n in (8, 16, 32, 64))


def none() -> Made:
    return NoneType.get()


def vector(*args: object, scalable: object = None, scalable_dims: object = None) -> Made:
    """`vector(4, f32)`: extents, then the element type."""
    return VectorType.get(args[:-1], args[-1], scalable=scalable, scalable_dims=scalable_dims)


def tensor(*args: object, encoding: object = None) -> Made:
    """`tensor(4, f32)`."""
    return RankedTensorType.get(args[:-1], args[-1], encoding)


def memref(*args: object, memory_space: object = None, layout: object = None) -> Made:
    """`memref(4, f32, memory_space=...)`."""
    return MemRefType.get(args[:-1], args[-1], layout, memory_space)


def tuple(*elements: Attribute) -> Made:
    """`tuple(i32, f32)`."""
    return TupleType.get_tuple(elements)


def complex(elem: Attribute) -> Made:
    """`complex<f32>`."""
    return ComplexType.get(elem)


def function(*, inputs: object, results: object) -> Made:
    """A function type."""
    return FunctionType.get(inputs, results)


def __getattr__(name: str) -> Callable[[], Attribute]:
    found = FLOATS.get(_SHORT.get(name, f"Float{name[1:]}Type" if name.startswith("f") else ""))
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return cast("Callable[[], Attribute]", vars(found)["get"].__func__)
