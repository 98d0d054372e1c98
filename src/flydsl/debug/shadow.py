"""Kernels that carry a shadow in double precision beside every float: what checks of floats look at.

`v12` has its shadow in `s12`; memory has one for every float that was stored and is still there. A shadow that is NaN
carries in its payload where it was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..dialects.upstream import gpu
from ..ir.locations import source_chain
from . import operations
from .kinds import Kind, Value, kind
from .sink import FLOAT_FORMS
from .writer import KernelWriter

_DOUBLE = kind("double")
_STRUCTURAL = ("select", "element", "with_element", "shuffle")
_CASTS = ("fpext", "fptrunc")
_INEXACT = ("sitofp", "uitofp", "bitcast")


class Place:
    """An operation on floats of a kernel: what it is and the line it is on."""

    __slots__ = ("file", "kind", "line", "word")

    def __init__(self, word: str, k: Kind, file: str, line: int):
        self.word, self.kind, self.file, self.line = word, k, file, line


class Checker(Protocol):
    """Whoever looks at floats."""

    def made(
        self,
        thread: Value,
        place: Place,
        value: Value,
        shadow: Value,
        operands: tuple[Value, ...],
        shadows: tuple[Value, ...],
    ) -> Value:
        """An operation had a result; gives the shadow to go on with."""

    def stored(self, k: Kind, address: int, value: Value, shadow: Value) -> None:
        """A float went to memory."""

    def loaded(self, k: Kind, address: int, value: Value) -> Value:
        """The shadow of a float that comes from memory."""


def wide(x: Value) -> Value:
    """A float, or an array of them, in double precision."""
    return np.float64(x) if not getattr(x, "ndim", 0) else x.astype(np.float64)


class ShadowWriter(KernelWriter):
    """Writes kernels whose `block.checker` is told of every operation on floats."""

    def __init__(self, op: gpu.FuncOp, module: gpu.ModuleOp, warp: int):
        super().__init__(op, module, warp)
        self._shadowed: set[str] = set()

    def _shadow(self, name: str) -> str:
        if name in self._shadowed:
            return f"s{name[1:]}"
        if name in self.globals:
            return self.bind(wide(self.globals[name]), ("wide", name))
        return f"{self.bind(wide, 'wide')}({name})"

    def _cast_shadow(self, name: str, text: str) -> None:
        self._shadowed.add(name)
        self.line(f"s{name[1:]} = {text}")

    def parameter(self, name: str, k: Kind) -> None:
        if k.is_float:
            self._cast_shadow(name, f"{self.bind(wide, 'wide')}({name})")

    def computed(self, word: str, k: Kind, form: str, args: Sequence[str]) -> str:
        name = super().computed(word, k, form, args)
        if word in _INEXACT:
            self._cast_shadow(name, f"{self.bind(wide, 'wide')}({name})")
            return name
        shadows = [self._shadow(a) if self._is_float(a) else a for a in args]
        if word in _STRUCTURAL:
            self._cast_shadow(name, form.format(*shadows))
            if word == "select" and any(self._is_nan(a) for a in args):
                # Functions are written out as arithmetic, with a NaN chosen where they have no value.
                place = self.bind(self._place("choice", k))
                rest = "".join(f"{a}, " for a in args if not self._is_nan(a))
                self._cast_shadow(name, f"block.checker.made(t, {place}, {name}, s{name[1:]}, ({rest}), ())")
            return name
        if word in FLOAT_FORMS:
            text = FLOAT_FORMS[word].format(*shadows)
        elif word == "fneg":
            self._cast_shadow(name, f"-{shadows[0]}")
            return name
        elif word in _CASTS:
            text = shadows[0]
        else:
            text = self._wide_intrinsic(word, k, args).format(*shadows)
        place = self.bind(self._place(word, k))
        told = f"({''.join(f'{a}, ' for a in args)}), ({''.join(f'{s}, ' for s in shadows)})"
        self._cast_shadow(name, f"block.checker.made(t, {place}, {name}, {text}, {told})")
        return name

    def _is_nan(self, name: str) -> bool:
        """Whether a name is a constant with a NaN in it."""
        return name in self.globals and self._is_float(name) and bool(np.isnan(self.globals[name]).any())

    def _is_float(self, name: str) -> bool:
        known = self.kinds.get(name)
        return known is not None and known.is_float

    def _wide_intrinsic(self, key: str, k: Kind, args: Sequence[str]) -> str:
        kinds = [self.kinds.get(a, k) for a in args]
        doubles = [
            kind(f"<{x.count} x double>") if x.is_float and x.count else _DOUBLE if x.is_float else x for x in kinds
        ]
        name = self.function(("wide", key, *doubles), lambda: operations.intrinsic(key, doubles))
        return f"{name}({', '.join(f'{{{i}}}' for i in range(len(args)))})"

    def _place(self, word: str, k: Kind) -> Place:
        chain = source_chain(self.op.location)
        return Place(word, k, chain[-1].filename, chain[-1].line) if chain else Place(word, k, "", 0)

    def loaded(self, k: Kind, address: str) -> str:
        name = super().loaded(k, address)
        if k.is_float:
            self._cast_shadow(name, f"block.checker.loaded({self.globals_of(k)}, {address}, {name})")
        return name

    def stored(self, k: Kind, value: str, address: str) -> None:
        super().stored(k, value, address)
        if k.is_float:
            self.line(f"block.checker.stored({self.globals_of(k)}, {address}, {value}, {self._shadow(value)})")

    def moved(self, pairs: list[tuple[str, str, Kind]]) -> None:
        more = [(f"s{n[1:]}", self._shadow(v), k) for n, v, k in pairs if k.is_float]
        super().moved([*pairs, *more])
        self._shadowed.update(n for n, _, k in pairs if k.is_float)

    def left(self, k: Kind, value: str) -> str:
        return f"({value}, {self._shadow(value)})" if k.is_float else value

    def taken(self, k: Kind, lane: str) -> str:
        if not k.is_float:
            return super().taken(k, lane)
        name = self.fresh(k)
        self._shadowed.add(name)
        self.line(f"{name}, s{name[1:]} = block.shown(t.tid, {lane})")
        return name
