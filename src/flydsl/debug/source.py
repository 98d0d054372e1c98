"""Python source being written: names, lines, and integer instructions as expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import operations
from .kinds import NATIVE, Kind, kind, to_bfloat

_BITWISE = {"and": "&", "or": "|", "xor": "^"}
_SIMPLE = {"add": "+", "sub": "-", "mul": "*"}


class Source:
    """The body of a function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.kinds: dict[str, Kind] = {}
        """Types of the values, by their names."""
        self.globals: dict[str, Any] = {"np": np}
        self._known: dict[object, str] = {}
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, k: Kind | None = None) -> str:
        self._count += 1
        name = f"v{self._count}"
        if k is not None:
            self.kinds[name] = k
        return name

    def assign(self, k: Kind, text: str) -> str:
        """A value by an expression."""
        name = self.fresh(k)
        self.line(f"{name} = {text}")
        return name

    def bind(self, value: object, key: object = None) -> str:
        """A name for an object of Python that the source uses."""
        if key is not None and key in self._known:
            return self._known[key]
        name = f"g{len(self.globals)}"
        self.globals[name] = value
        if key is not None:
            self._known[key] = name
        return name

    def function(self, key: tuple[object, ...], make: Callable[[], operations.Function]) -> str:
        """A name for a function that is made once."""
        return self._known[key] if key in self._known else self.bind(make(), key)

    def computed(self, word: str, k: Kind, form: str, args: Sequence[str]) -> str:
        """A float by an expression, in which `{0}`, `{1}`, ... stand for its operands; a subclass may look at them."""
        return self.assign(k, form.format(*args))

    def literal(self, value: Any, k: Kind) -> str:
        """The text of a number, or the name of a constant."""
        if not k.is_float and not k.count:
            return str(int(value) & k.mask)
        if k.count:
            items = [int(v) & k.mask for v in value] if not k.is_float else list(value)
            made = np.array(items, k.dtype)
        else:
            made = k.dtype.type(value)
        made = to_bfloat(made) if k.element.text == "bfloat" else made
        name = self.bind(made)
        self.kinds[name] = k
        return name

    def integer(self, word: str, k: Kind, a: str, b: str) -> str:
        """An instruction of two integers as an expression."""
        if word in _BITWISE:
            return f"{a} {_BITWISE[word]} {b}"
        simple = _SIMPLE.get(word)
        if simple and not k.count:
            return f"({a} {simple} {b}) & {k.mask}"
        if simple and k.bits in NATIVE:
            return f"{a} {simple} {b}"
        if not k.count:
            if word == "lshr":
                return f"{a} >> {b}"
            if word in ("udiv", "urem"):
                return f"{a} {'//' if word == 'udiv' else '%'} {b}"
        return f"{self.function((word, k), lambda: operations.integer(word, k))}({a}, {b})"

    def compare(self, predicate: str, k: Kind, a: str, b: str) -> str:
        """A comparison of integers."""
        flag = kind(f"<{k.count} x i1>" if k.count else "i1")
        sign, word = ("", predicate) if predicate in ("eq", "ne") else (predicate[0], predicate[1:])
        symbol = operations.ICMP[word]
        tail = ".astype(bool)" if k.count else ""
        if sign == "s" and k.bits > 1:
            half = 1 << (k.bits - 1)
            top = str(half)
            if k.count:
                top = self.bind(k.dtype.type(half) if k.bits in NATIVE else half, ("half", k.bits))
            return self.assign(flag, f"(({a} ^ {top}) {symbol} ({b} ^ {top})){tail}")
        return self.assign(flag, f"({a} {symbol} {b}){tail}")

    def convert(self, word: str, a: str, s: Kind, t: Kind) -> str:
        """A conversion between types that differ."""
        if not s.count and not s.is_float and not t.is_float and not t.count:
            if word in ("zext", "ptrtoint", "inttoptr", "addrspacecast") and t.bits >= s.bits:
                return self.assign(t, f"{a} + 0" if s.bits == 1 else a)
            if word in ("trunc", "ptrtoint"):
                return self.assign(t, f"{a} & {t.mask}")
            if word == "sext":
                half = 1 << (s.bits - 1)
                return self.assign(t, f"(({a} ^ {half}) - {half}) & {t.mask}")
        name = self.function((word, s, t), lambda: operations.conversion(word, s, t))
        return self.computed(word, t, name + "({0})", (a,)) if t.is_float else self.assign(t, f"{name}({a})")
