"""Numbers inside types and attributes as Python numbers.

xDSL holds the width of an integer type or the shape of a vector type in attributes; MLIR's bindings give an `int` and
a list. What is added here to `IntAttr`, `FloatData` and `ArrayAttr` makes them act as what they hold: `t.width // 8`,
`v.type.shape == [4]`, `range(t.shape[0])`. Nothing that they had before changes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, cast, get_args

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    FloatData,
    IntAttr,
    IntegerType,
    MemRefType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, Data

_BINARY = "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor lt le gt ge".split()
_COMPARISONS = {"lt", "le", "gt", "ge"}


def _plain(x: object) -> object:
    return cast("Data[object]", x).data if isinstance(x, IntAttr | FloatData) else x


def _binary(name: str) -> Callable[[object, object], object]:
    compute = cast("Callable[[object, object], object]", getattr(operator, name))
    return lambda a, b: compute(_plain(a), _plain(b))


def _equal(cls: type[object], kinds: tuple[type, ...]) -> Callable[[Data[object], object], object]:
    """The equality of a class, which also knows the plain Python values that its attributes stand for."""
    among_attributes = cast("Callable[[object, object], object]", cls.__eq__)

    def equal(self: Data[object], other: object) -> object:
        if not isinstance(other, kinds):
            return among_attributes(self, other)
        held = self.data
        if isinstance(held, tuple):
            return list(cast("tuple[object, ...]", held)) == list(cast("Sequence[object]", other))
        return held == other

    return equal


def _unary(compute: Callable[[Any], object]) -> Callable[[Data[Any]], object]:
    return lambda a: compute(a.data)


def _reflected(name: str) -> Callable[[object, object], object]:
    compute = _binary(name)
    return lambda a, b: compute(b, a)


def _formatted(a: Data[Any], spec: str) -> str:
    return format(a.data, spec)


def _item(a: ArrayAttr[Attribute], i: int) -> Attribute:
    return a.data[i]


def _act_as_numbers(cls: type[object]) -> None:
    for name in _BINARY:
        word = name.rstrip("_")
        _give(cls, f"__{word}__", _binary(name))
        if name not in _COMPARISONS:
            _give(cls, f"__r{word}__", _reflected(name))
    for word, make in (("int", int), ("float", float), ("neg", operator.neg), ("abs", abs)):
        _give(cls, f"__{word}__", _unary(make))
    # Text stays that of an attribute; a format is what a message is made with.
    _give(cls, "__format__", _formatted)


def _give(cls: type[object], name: str, value: object) -> None:
    setattr(cls, name, value)


def _adopt() -> None:
    for cls, kinds in ((IntAttr, (int,)), (FloatData, (float, int)), (ArrayAttr, (list, tuple))):
        equal, hashed = _equal(cls, kinds), cls.__hash__
        _give(cls, "__eq__", equal)
        _give(cls, "__hash__", hashed)
    _act_as_numbers(IntAttr)
    _act_as_numbers(FloatData)
    _give(IntAttr, "__index__", _unary(int))
    _give(ArrayAttr, "__getitem__", _item)
    _extend(StringAttr, "value", lambda a: cast(StringAttr, a).data)
    _extend(SymbolRefAttr, "value", lambda a: cast(SymbolRefAttr, a).string_value())
    for cls in cast("tuple[type[object], ...]", get_args(AnyFloat)):
        _extend(cls, "width", lambda a: cast("AnyFloat", a).bitwidth)
    for cls in (VectorType, MemRefType, TensorType):
        _extend(cls, "rank", lambda a: len(cast(VectorType, a).get_shape()))
        _extend(cls, "has_static_shape", lambda a: all(n >= 0 for n in cast(VectorType, a).get_shape()))
    for name, kind in (("signed", Signedness.SIGNED), ("unsigned", Signedness.UNSIGNED)):
        _extend(IntegerType, f"is_{name}", lambda a, kind=kind: cast(IntegerType, a).signedness.data is kind)
    _extend(IntegerType, "is_signless", lambda a: cast(IntegerType, a).signedness.data is Signedness.SIGNLESS)


def _extend(cls: type[object], name: str, get: Callable[[object], object]) -> None:
    """A property, where the class has nothing of that name."""
    if not hasattr(cls, name):
        setattr(cls, name, property(get))


_adopt()
