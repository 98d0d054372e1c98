"""Objects in the place of attributes of xDSL's that act as the numbers and lists these hold.

`readable` hands them out. On an op there are xDSL's own: `stored`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatData, IntAttr
from xdsl.ir import Attribute, Data


class Stand:
    """In the place of an attribute of xDSL's, of whose class it says it is: xDSL asks for `__class__` and `data`.

    A subclass could be told apart, and xDSL allows none.
    """

    __slots__ = ("data", "held")

    def __init__(self, held: Attribute):
        self.held: Any = held
        self.data: Any = getattr(held, "data", None)

    @property
    def __class__(self) -> type[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cast("type[Any]", type(self.held))

    def __getattr__(self, name: str) -> object:
        if name in Stand.__slots__:
            # Before `__init__`, where a tracer or copy may meet it: it would ask for itself forever.
            raise AttributeError(name)
        return getattr(self.held, name)

    def __eq__(self, other: object) -> bool:
        return self.held == other

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
        return Array(ArrayAttr([*self.data, *more]))


def stored(attr: Attribute) -> Attribute:
    """The attribute of xDSL's that an op keeps: passes ask for exact classes."""
    own: Attribute = attr.held if isinstance(attr, Stand) else attr
    kind = type(own)
    if kind is ArrayAttr:
        items = cast("ArrayAttr[Attribute]", own).data
        plain = [stored(item) for item in items]
        return own if all(map(operator.is_, plain, items)) else ArrayAttr(plain)
    if kind is DictionaryAttr:
        entries = cast(DictionaryAttr, own).data
        inside = {name: stored(value) for name, value in entries.items()}
        return own if all(inside[name] is value for name, value in entries.items()) else DictionaryAttr(inside)
    return own
