"""Numbers inside types and attributes as Python numbers.

xDSL holds the width of an integer type or the shape of a vector type in attributes; MLIR's bindings give an `int` and
a list. `readable(t)` is an object of the very class of `t`, equal to it and with its hash, whose numbers act as what
they hold: `t.width // 8`, `v.type.shape == [4]`, `range(t.shape[0])`. It also has the members that MLIR's bindings have
and xDSL does not, such as `rank`. What users get to see is made so: the types of the language and what `flydsl._mlir`
hands out. Nobody in the compiler has to tell the two apart.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    FloatData,
    FunctionType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    ShapedType,
    Signedness,
    StridedLayoutAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    TupleType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute

from ..errors import DSLValueError
from .emitter import add_field, make_attribute, make_data
from .identity import by_identity

A = TypeVar("A")


class Stand:
    """In the place of an attribute of xDSL's, of whose class it says it is: xDSL asks for `__class__` and `data`.

    A subclass could be told apart, and xDSL allows none.
    """

    __slots__ = ("data", "held")

    def __init__(self, held: Data[Any]):
        self.held = held
        self.data: Any = held.data

    @property
    def __class__(self) -> type[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self.held)

    def __getattr__(self, name: str) -> object:
        if name in Stand.__slots__:
            # Before `__init__`, where a tracer or copy may meet it: it would ask for itself forever.
            raise AttributeError(name)
        return getattr(self.held, name)

    def __hash__(self) -> int:
        return hash(self.held)

    def __bool__(self) -> bool:
        return bool(self.held)

    def __str__(self) -> str:
        return str(self.held)

    def __repr__(self) -> str:
        return repr(self.held)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.held,)

    def __replace__(self, **changes: Any) -> Data[Any]:
        return replace(self.held, **changes)


class Number(Stand):
    """A number: `IntAttr` or `FloatData`."""

    __slots__ = ()
    __hash__ = Stand.__hash__

    def __eq__(self, other: object) -> bool:
        return self.data == other if isinstance(other, int | float) else self.held == other

    def __int__(self) -> int:
        return int(self.data)

    def __float__(self) -> float:
        return float(self.data)

    def __neg__(self) -> int | float:
        return -self.data

    def __abs__(self) -> int | float:
        return abs(self.data)

    def __str__(self) -> str:
        return str(self.data)

    def __repr__(self) -> str:
        return repr(self.data)

    def __format__(self, spec: str) -> str:
        return format(self.data, spec)


def _plain(x: object) -> object:
    return cast("Data[object]", x).data if isinstance(x, IntAttr | FloatData) else x


def _define() -> None:
    for name in "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor lt le gt ge".split():
        compute = cast("Callable[[object, object], object]", getattr(operator, name))
        word = name.rstrip("_")

        def operate(a: object, b: object, compute: Callable[[object, object], object] = compute) -> object:
            return compute(_plain(a), _plain(b))

        def reflected(a: object, b: object, compute: Callable[[object, object], object] = compute) -> object:
            return compute(_plain(b), _plain(a))

        setattr(Number, f"__{word}__", operate)
        if name not in ("lt", "le", "gt", "ge"):
            setattr(Number, f"__r{word}__", reflected)


_define()


class Int(Number):
    """An integer, also as an index."""

    __slots__ = ()

    def __index__(self) -> int:
        return int(self.data)


class Flag(Int):
    """A truth value: the number of an attribute of one bit, which xDSL keeps as -1."""

    __slots__ = ()
    __hash__ = Stand.__hash__

    def __eq__(self, other: object) -> bool:
        return bool(self) == bool(other) if isinstance(other, int | float) else self.held == other

    def __bool__(self) -> bool:
        return self.data != 0

    def __int__(self) -> int:
        return int(bool(self))

    __index__ = __int__

    def __str__(self) -> str:
        return str(bool(self))

    def __repr__(self) -> str:
        return repr(bool(self))


class Array(Stand):
    """A list: `ArrayAttr`."""

    __slots__ = ()
    __hash__ = Stand.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list | tuple):
            return list(self.data) == list(cast("Sequence[object]", other))
        return self.held == other

    def __getitem__(self, i: Any) -> Any:
        return self.data[i]

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.data))}]"

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self.data))}]"

    def __add__(self, more: Sequence[Attribute]) -> Any:
        return readable(ArrayAttr([*self.data, *more]))


# --- members of MLIR's bindings ---------------------------------------------------------------------------------------


class Truth(int):
    """A truth value, also where xDSL has a method of the name and calls it."""

    def __call__(self) -> bool:
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


def _members(attr: Any) -> dict[str, object]:
    """What MLIR's bindings have, and xDSL has nothing that the compiler looks for under its name."""
    if isinstance(attr, StringAttr):
        return {"value": attr.data, "value_bytes": attr.data.encode()}
    if isinstance(attr, SymbolRefAttr):
        nested = [name.data for name in attr.nested_references.data]
        return {"value": [attr.root_reference.data, *nested] if nested else attr.root_reference.data}
    if isinstance(attr, AnyFloat):
        return {"width": attr.bitwidth}
    if isinstance(attr, IntegerType):
        sign = cast("IntegerType[int, Signedness]", attr).signedness.data
        return {
            "is_signless": sign is Signedness.SIGNLESS,
            "is_signed": sign is Signedness.SIGNED,
            "is_unsigned": sign is Signedness.UNSIGNED,
        }
    if isinstance(attr, VectorType | MemRefType | TensorType):
        return _members_of_shapes(attr)
    if isinstance(attr, FunctionType):
        return {"results": readable(attr.outputs)}
    if isinstance(attr, TupleType):
        types = [readable(each) for each in attr.types.data]
        return {"num_types": len(types), "get_type": types.__getitem__}
    if attr.name == "llvm.ptr":
        return {"address_space": getattr(attr.addr_space, "data", 0)}
    if attr.name == "llvm.array":
        return {"element_type": readable(attr.type), "num_elements": attr.size.data}
    return {}


def _members_of_shapes(type_: Any) -> dict[str, object]:
    shape = cast(ShapedType, type_).get_shape()
    found: dict[str, object] = {
        "rank": len(shape),
        "has_static_shape": Truth(all(n >= 0 for n in shape)),
        "has_rank": True,
        "get_dim_size": shape.__getitem__,
        "is_dynamic_dim": partial(_dim_is_dynamic, shape),
        "is_static_dim": partial(_dim_is_static, shape),
    }
    for what in ("size", "stride_or_offset"):
        found |= {f"is_dynamic_{what}": _is_dynamic, f"is_static_{what}": _is_static}
    if isinstance(type_, MemRefType):
        found["get_strides_and_offset"] = partial(strides_and_offset, cast("MemRefType[Attribute]", type_))
    return found


def _dim_is_dynamic(shape: Sequence[int], dim: int) -> bool:
    return _is_dynamic(shape[dim])


def _dim_is_static(shape: Sequence[int], dim: int) -> bool:
    return _is_static(shape[dim])


def _is_dynamic(number: int) -> bool:
    return number == DYNAMIC_INDEX


def _is_static(number: int) -> bool:
    return number != DYNAMIC_INDEX


def strides_and_offset(type_: MemRefType[Attribute]) -> tuple[list[int], int]:
    """Strides and offset of a memref; an unknown one is `get_dynamic_stride_or_offset()`."""
    layout = type_.layout
    if isinstance(layout, StridedLayoutAttr):
        known = [layout.offset, *layout.strides.data]
        offset, *strides = (DYNAMIC_INDEX if isinstance(n, NoneAttr) else n.data for n in known)
        return strides, offset
    if not isinstance(layout, NoneAttr):
        raise DSLValueError(f"the layout {layout} of {type_} has no strides that are known by number")
    strides, step = list[int](), 1
    for extent in reversed(type_.get_shape()):
        strides.insert(0, step)
        step = DYNAMIC_INDEX if _is_dynamic(step) or _is_dynamic(extent) else step * extent
    return strides, 0


# --- the attributes ---------------------------------------------------------------------------------------------------


@by_identity
def _readable(attr: Attribute) -> object:
    kind: type = type(attr)
    if kind is IntAttr:
        return Int(cast(IntAttr, attr))
    if kind is FloatData:
        return Number(cast(FloatData, attr))
    if kind is ArrayAttr:
        return Array(make_data(ArrayAttr, tuple(map(readable, cast("ArrayAttr[Attribute]", attr).data))))
    if kind is DictionaryAttr:
        entries = cast(DictionaryAttr, attr).data
        inside = {name: readable(value) for name, value in entries.items()}
        return attr if all(inside[name] is value for name, value in entries.items()) else DictionaryAttr(inside)
    more = _members(attr)
    known = more.keys() <= vars(attr).keys()
    if isinstance(attr, ParametrizedAttribute):
        names = tuple(name for name, _ in attr.get_irdl_definition().parameters)
        old = [cast(Attribute, getattr(attr, name)) for name in names]
        values = [readable(value) for value in old]
        if kind is IntegerAttr and not isinstance(values[0], Flag):
            held = cast("IntegerAttr[IntegerType]", attr)
            values[0] = cast(Attribute, Flag(held.value)) if held.type == i1 else values[0]
        if known and all(map(operator.is_, values, old)):
            return attr
        made: Attribute = make_attribute(type(attr), names, values)
    elif known:
        return attr
    else:
        made = make_data(cast("type[Data[Any]]", kind), cast("Data[object]", attr).data)
    for name, value in more.items():
        add_field(made, name, value)
    return made


def readable(attr: A) -> A:
    """An equal attribute of the same class whose numbers are Python's; anything else is itself."""
    if not isinstance(attr, Attribute) or isinstance(attr, Stand):
        return attr
    return cast(A, _readable(attr))
