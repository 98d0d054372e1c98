"""Whether what code depends on is as it was, by a native look at the words of memory where that would show.

`Walked.unchanged` compares every name, function and class that compiled code was made from: ten microseconds where a
kernel has fifty helpers. Most of it are names of modules and classes, whose dicts count their changes, and pointers
that functions and cells hold. One native function compares all these words; where one is another, or Python does not
count, the comparison is made as ever, and the words are taken anew.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from types import CellType, FunctionType
from typing import cast

from ... import config
from ...dict_version import version_of
from ...llvm.text.routine import Routine
from ..key.function_key import FunctionKey, Walked
from ..key.images import DictProbe, Probe
from .array_structs import header_is_known
from .native_function import PARAMETERS, native_function, python_bool

_WORD = 8
_MOST_RENEWALS = 100
"""After so many changes words are not looked at any more: a module that counts calls changes with each."""


class Watch:
    """The words of one walk: `holds` says what `compare` does, which `told` is the part of that is no memory."""

    def __init__(self, walked: Walked, compare: Callable[[], bool], told: Callable[[], bool]):
        self._walked, self._compare, self._told = walked, compare, told
        self._renewals = 0
        self._same: Callable[..., bool] | None = None
        self._table = 0
        self._probes: list[Probe] = []
        self._kept: object = None
        self._renew()

    @classmethod
    def of_function(cls, function: FunctionKey) -> Watch:
        """For what a function is made from, until it is another walk that says so."""
        return cls(function.now, function.unchanged, function.told)

    @classmethod
    def of_values(cls, walked: Walked) -> Watch:
        """For values that come with a call."""
        return cls(walked, walked.holds, walked.told)

    def holds(self) -> bool:
        """Whether everything is the same object with the same content."""
        same = self._same
        if same is None:
            return self._compare()
        if not same(self._table):
            return self._renew()
        for probe in self._probes:
            if not probe():
                return False
        return self._told()

    def _renew(self) -> bool:
        """Note the words as they are now, if what they are part of is unchanged."""
        self._take()  # before the comparison: what changes after it shows in the words
        if self._compare():
            return True
        self._same = None
        return False

    def _take(self) -> None:
        self._renewals += 1
        words = _words(self._walked) if self._renewals <= _MOST_RENEWALS and _usable() else None
        if words is None:
            self._same = None
            return
        addresses, self._probes, alive = words
        table = (ctypes.c_uint64 * (2 * len(addresses) + 1))(len(addresses))
        for i, address in enumerate(addresses):
            table[2 * i + 1], table[2 * i + 2] = address, ctypes.c_uint64.from_address(address).value
        self._kept = (table, alive)
        self._table, self._same = ctypes.addressof(table), _function()


def _usable() -> bool:
    return config.runtime.read_in_place and header_is_known() and None not in _layout()


def _words(now: Walked) -> tuple[list[int], list[Probe], object] | None:
    """Addresses to look at, probes that are left, and what must live meanwhile; None where a dict does not count."""
    spaces: list[dict[object, object]] = []
    for get, _, _ in now.groups:
        space: object = getattr(get, "__self__", None)
        if type(space) is not dict:
            return None
        spaces.append(cast("dict[object, object]", space))
    code, defaults, keywords, contents = _layout()
    assert code is not None and defaults is not None and keywords is not None and contents is not None
    addresses = [id(fn) + at for fn, *_ in now.functions for at in (code, defaults, keywords)]
    addresses += [id(cell) + contents for cell, _ in now.cells]
    left: list[Probe] = []
    for probe in now.probes:
        held = _held(probe) if isinstance(probe, DictProbe) else None
        if held is None:
            left.append(probe)
            continue
        assert isinstance(probe, DictProbe)
        spaces.append(probe.space)
        addresses += held
    for space in spaces:
        counter = version_of(space)
        if counter is None:
            return None
        addresses.append(ctypes.addressof(counter))
    return addresses, left, (now, spaces)


def _held(probe: DictProbe) -> list[int] | None:
    """Where an object holds the pointers a probe looks at; None where that is not found."""
    owner, size = probe.owner, type(probe.owner).__basicsize__
    # A class may hold one string as its name and its qualified name: all places are looked at.
    found = [_offsets(owner, value, size) for value in probe.held]
    return [id(owner) + at for places in found for at in places] if all(found) else None


def _offsets(holder: object, value: object, size: int) -> list[int]:
    """Where in an object pointers to another one stand."""
    words = (ctypes.c_void_p * (size // _WORD)).from_address(id(holder))
    return [i * _WORD for i in range(2, len(words)) if words[i] == id(value)]


def _offset(holder: object, value: object, size: int) -> int | None:
    """The first of these places; None where there is none."""
    return next(iter(_offsets(holder, value, size)), None)


@cache
def _layout() -> tuple[int | None, int | None, int | None, int | None]:
    """Where functions hold code, defaults and defaults by name, and a cell its content: looked for in some of ours."""
    inside = object()

    def example(x: int = 1, *, y: int = 2) -> object:
        return inside, x, y

    size = FunctionType.__basicsize__
    assert example.__closure__ is not None
    values = (example.__code__, example.__defaults__, example.__kwdefaults__)
    found = tuple(_offset(example, value, size) for value in values)
    return found[0], found[1], found[2], _offset(example.__closure__[0], inside, CellType.__basicsize__)


@cache
def _function() -> Callable[..., bool]:
    return native_function(_routine(), ("PyLong_AsVoidPtr", "PyBool_FromLong"))


def _routine() -> Routine:
    """`same_words(table)`: a number of pairs, each an address and what stands there."""
    r = Routine("same_words", "ptr", PARAMETERS, linkage="")
    table = r.value_of("PyLong_AsVoidPtr", "ptr", r.load("ptr", r["args"]), external=True)
    with r.loop(r.load("i64", table)) as i:
        pair = r.at(table, i * (2 * _WORD))
        r.leave(r.load("i64", r.load("ptr", pair, _WORD)).is_not(r.load("i64", pair, 2 * _WORD)), "other")
    r.give(python_bool(r, 1))
    r.label("other")
    r.give(python_bool(r, 0))
    return r
