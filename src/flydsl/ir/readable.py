"""Numbers inside types and attributes as Python numbers.

xDSL holds the width of an integer type or the shape of a vector type in attributes; MLIR's bindings give an `int` and
a list. `readable(t)` is an object of the very class of `t`, equal to it and with its hash, whose numbers act as what
they hold: `t.width // 8`, `v.type.shape == [4]`, `range(t.shape[0])`. It also has the members that MLIR's bindings have
and xDSL does not, such as `rank`. What users get to see is made so: the types of the language and what `flydsl._mlir`
hands out. Nobody in the compiler has to tell the two apart.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
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
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute

from ..errors import DSLTypeError, DSLValueError
from .emitter import add_field, make_attribute, make_data
from .identity import by_identity
from .stands import Array, Flag, Int, Number, Stand

A = TypeVar("A")


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
    if isinstance(attr, AffineMapAttr):
        return {"value": attr.data}
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


@dataclass(frozen=True)
class NamedAttribute:
    """An attribute with its name."""

    name: str
    attr: Attribute

    def __str__(self) -> str:
        return f"NamedAttribute({self.name}={self.attr})"

    __repr__ = __str__


class Constant(Stand):
    """What is a number or holds some. Its class has the name of the class in MLIR's bindings."""

    __slots__ = ()

    def __init_subclass__(cls, called: str) -> None:
        cls.__name__ = called

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.held})"

    def __reduce__(self) -> tuple[object, ...]:
        return readable, (self.held,)

    def get_named(self, name: str) -> NamedAttribute:
        """With a name, as an entry of a dictionary."""
        return NamedAttribute(name, cast(Attribute, self))


class IntegerConstant(Constant, called="IntegerAttr"):
    """`4 : i32`."""

    __slots__ = ()

    def __int__(self) -> int:
        return int(self.held.value)

    def __bool__(self) -> bool:
        return True  # as in MLIR's bindings: what is asked is whether an attribute is there


class BoolConstant(IntegerConstant, called="BoolAttr"):
    """`true`."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return bool(self.held.value)


class FloatConstant(Constant, called="FloatAttr"):
    """`1.5 : f32`."""

    __slots__ = ()

    def __float__(self) -> float:
        return float(self.held.value)


class DenseArray(Constant, called=""):
    """`array<i32: 1, 2>`."""

    __slots__ = ()

    def _values(self) -> tuple[Any, ...]:
        values = self.held.get_values()
        return tuple(map(bool, values)) if self.held.elt_type == i1 else values

    def __getitem__(self, i: int) -> Any:
        return self._values()[operator.index(i)]

    def __len__(self) -> int:
        return len(self.held)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values())

    def __add__(self, more: Sequence[int] | Sequence[float]) -> Any:
        return readable(dense_array(self.held.elt_type, [*self._values(), *more]))


@cache
def _dense_array_class(elem: Attribute) -> type[DenseArray]:
    name = f"Dense{'Bool' if elem == i1 else str(elem).upper()}ArrayAttr"

    class Made(DenseArray, called=name):
        __slots__ = ()

    return Made


def dense_array(elem: Any, values: Iterable[int] | Iterable[float]) -> DenseArrayBase[Any]:
    """A dense array of numbers, each of which its type can hold."""
    if elem == i1:
        numbers: list[Any] = [bool(v) for v in values]
    elif isinstance(cast(object, elem), IntegerType):
        bits: int = elem.width.data
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        numbers = [operator.index(v) if hasattr(v, "__index__") else v for v in cast("Iterable[Any]", values)]
        wrong = [v for v in numbers if not isinstance(v, int) or not low <= v <= high]
        if wrong:
            raise DSLTypeError(f"a dense array of {elem} holds integers from {low} to {high}, got {wrong[0]!r}")
    else:
        numbers = list(values)
        wrong = [v for v in numbers if not hasattr(v, "__float__")]
        if wrong:
            raise DSLTypeError(f"a dense array of {elem} holds numbers, got {wrong[0]!r}")
    return DenseArrayBase.from_list(elem, numbers)


class DenseElements(Constant, called="DenseIntElementsAttr"):
    """`dense<[1, 2]>`: every number, in row-major order, also of one that is the same everywhere."""

    __slots__ = ()

    def _values(self) -> tuple[Any, ...]:
        values = self.held.get_values()
        return tuple(map(abs, values)) if self.held.get_element_type() == i1 else values

    def __getitem__(self, i: int) -> Any:
        if not 0 <= operator.index(i) < len(self):
            raise IndexError(f"{self.held} has {len(self)} elements, got the index {i}")
        return self._values()[i]

    def __len__(self) -> int:
        return len(self.held)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy

        held = numpy.array(self._values(), dtype or _dtype(self.held.get_element_type()))
        return held.reshape(self.held.get_shape())

    @property
    def is_splat(self) -> Truth:
        """Whether all elements are the same."""
        data, count = self.held.data.data, len(self)
        return Truth(bool(count) and data == data[: len(data) // count] * count)

    def get_splat_value(self) -> Any:
        """The element that is everywhere."""
        if not self.is_splat:
            raise DSLValueError(f"get_splat_value: the elements of {self.held} are not all the same")
        return readable(self.held.get_attrs()[0])


class DenseFloatElements(DenseElements, called="DenseFPElementsAttr"):
    """`dense<[1.5, 2.0]>`."""

    __slots__ = ()


def _dtype(elem: Any) -> str:
    """numpy's name of a type; of floats that numpy lacks, one that holds them."""
    if isinstance(cast(object, elem), IntegerType):
        bits, sign = int(elem.width), elem.signedness.data
        return "bool" if bits == 1 else f"{'u' if sign is Signedness.UNSIGNED else ''}int{max(8, bits)}"
    if isinstance(elem, AnyFloat):
        return f"float{elem.bitwidth}" if str(elem) in ("f16", "f32", "f64") else "float32"
    return "int64"


class Dictionary(Constant, called="DictAttr"):
    """`{name = 1 : i32}`: entries by name, and by their place in the order of names."""

    __slots__ = ()

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str):
            if key not in self.data:
                raise KeyError(key)
            return self.data[key]
        names = sorted(self.data)
        if not 0 <= operator.index(key) < len(names):
            raise IndexError(f"{self.held} has {len(names)} entries, got the index {key}")
        return NamedAttribute(names[key], self.data[names[key]])

    def __contains__(self, name: object) -> bool:
        return name in self.data

    def __len__(self) -> int:
        return len(self.data)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[NamedAttribute]:
        return (self[i] for i in range(len(self)))


def _stand_for(attr: Any) -> type[Constant] | None:
    """The class of what stands for an attribute once the numbers inside are readable."""
    if isinstance(attr, IntegerAttr):
        return BoolConstant if cast("IntegerAttr[IntegerType]", attr).type == i1 else IntegerConstant
    if isinstance(attr, FloatAttr):
        return FloatConstant
    if isinstance(attr, DenseArrayBase):
        return _dense_array_class(cast("DenseArrayBase[IntegerType]", attr).elt_type)
    if isinstance(attr, DenseIntOrFPElementsAttr):
        held = cast("DenseIntOrFPElementsAttr[IntegerType]", attr)
        return DenseFloatElements if isinstance(held.get_element_type(), AnyFloat) else DenseElements
    return None


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
        return Dictionary(DictionaryAttr({name: readable(value) for name, value in entries.items()}))
    stand = _stand_for(attr)
    more = _members(attr)
    known = more.keys() <= vars(attr).keys() and ("value" in vars(attr) or not isinstance(attr, TypeAttribute))
    if isinstance(attr, ParametrizedAttribute):
        names = tuple(name for name, _ in attr.get_irdl_definition().parameters)
        old = [cast(Attribute, getattr(attr, name)) for name in names]
        values = [readable(value) for value in old]
        if kind is IntegerAttr and not isinstance(values[0], Flag):
            held = cast("IntegerAttr[IntegerType]", attr)
            values[0] = cast(Attribute, Flag(held.value)) if held.type == i1 else values[0]
        if stand is None and known and all(map(operator.is_, values, old)):
            return attr
        made: Attribute = make_attribute(type(attr), names, values)
        if stand is not None:
            return stand(made)
    elif known:
        return attr
    else:
        made = make_data(cast("type[Data[Any]]", kind), cast("Data[object]", attr).data)
    for name, value in more.items():
        add_field(made, name, value)
    if isinstance(made, TypeAttribute):
        add_field(made, "value", made)  # of a `TypeAttr`, which is its type here
    return made


def readable(attr: A) -> A:
    """An equal attribute of the same class whose numbers are Python's; anything else is itself."""
    if not isinstance(attr, Attribute) or isinstance(attr, Stand):
        return attr
    return cast(A, _readable(attr))
