"""Routines of the cpu stack (`cpu/code/routines.py`) as Python: barriers in memory, clusters, tensor and bulk copies.

They are written as LLVM IR; the instructions they use are few, so their text is translated. What they write goes
through the interpreter's memory, so the journal and watches know of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cpu.code import bf16_atomics
from ..cpu.code.routines import entry_of
from ..errors import DSLCompileError
from . import atomics, operations
from .kinds import Kind, from_int, kind, to_bfloat, to_int
from .memory import Memory
from .source import Source

_DEFINE = re.compile(r"define (?:internal )?(?P<result>.+?) @(?P<name>[\w.]+)\((?P<params>.*?)\) ")
_TYPE = r"(?:<[^>]*>|\{[^}]*\}|\[[^\]]*\]|[\w]+)"
_CALL = re.compile(rf"call (?P<type>{_TYPE}) @(?P<name>[\w.]+)\((?P<args>.*)\)")
_BINARY = re.compile(rf"(?P<word>\w+)(?: nuw| nsw| exact| disjoint)* (?P<type>{_TYPE}) (?P<a>[^,]+), (?P<b>.+)")
_CAST = re.compile(rf"(?P<word>\w+) (?P<from>{_TYPE}) (?P<a>\S+) to (?P<to>{_TYPE})")
_LOAD = re.compile(rf"load (?:atomic )?(?P<type>{_TYPE}), ptr (?P<at>[%\w.]+).*")
_STORE = re.compile(rf"store (?P<type>{_TYPE}) (?P<x>[^,]+), ptr (?P<at>[%\w.]+).*")
_SELECT = re.compile(rf"select i1 (?P<c>\S+), (?P<type>{_TYPE}) (?P<a>\S+), {_TYPE} (?P<b>\S+)")
_ATOMIC = re.compile(rf"atomicrmw (?P<word>\w+) ptr (?P<at>\S+), (?P<type>{_TYPE}) (?P<x>\S+) .*")
_GEP = re.compile(r"getelementptr i8, ptr (?P<at>\S+), i64 (?P<by>\S+)")
_ICMP = re.compile(rf"icmp (?P<word>\w+) (?P<type>{_TYPE}) (?P<a>\S+), (?P<b>\S+)")


class RoutineWriter(Source):
    """One routine."""

    def __init__(self, text: str):
        super().__init__()
        self.text = text
        self._accessors: dict[tuple[str, Kind], str] = {}
        self._names: dict[str, str] = {}

    def write(self, call: Callable[..., Any]) -> Callable[[Memory], Callable[..., Any]]:
        """A function from a memory to the routine on it; other routines are called by `call(name, *args)`."""
        head = _DEFINE.match(self.text)
        assert head is not None
        params = [self.local(p.split()[-1]) for p in head["params"].split(",")]
        blocks: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines()[1:]:
            line = line.strip()
            if line.endswith(":"):
                blocks.append((line[:-1], []))
            elif line and line != "}":
                blocks[-1][1].append(line)
        numbers = {label: i for i, (label, _) in enumerate(blocks)}
        self.depth = 2
        self.line("at = 0")
        self.line("while True:")
        self.depth = 3
        for i, (_, lines) in enumerate(blocks):
            self.line(f"{'if' if i == 0 else 'elif'} at == {i}:")
            self.depth = 4
            for line in lines:
                self.instruction(line, numbers)
            self.depth = 3
        self.globals["call"] = call
        opened = [f"    {n} = m.{w}er({self.bind(k, k.text)})" for (w, k), n in self._accessors.items()]
        source = "\n".join(
            ["def make(m):", *opened, f"    def routine({', '.join(params)}):", *self.lines, "    return routine", ""]
        )
        space = dict(self.globals)
        exec(compile(source, f"<routine {head['name']}>", "exec"), space)  # noqa: S102 - our own text
        return space["make"]

    def local(self, name: str) -> str:
        """A value or a number as Python names it."""
        name = name.strip()
        if name.startswith("%"):
            return self._names.setdefault(name, f"r{len(self._names)}")
        return {"null": "0", "true": "1", "false": "0"}.get(name, name)

    def operand(self, text: str, k: Kind) -> str:
        found = self.local(text)
        return self.literal(int(found), k) if found.lstrip("-").isdigit() else found

    def accessor(self, which: str, k: Kind) -> str:
        return self._accessors.setdefault((which, k), f"{which}{len(self._accessors)}")

    def instruction(self, line: str, numbers: dict[str, int]) -> None:
        if line.startswith("ret"):
            self.line("return" if line == "ret void" else f"return {self._returned(line)}")
        elif line.startswith("br label"):
            self.line(f"at = {numbers[line.split('%')[1]]}")
        elif line.startswith("br i1"):
            flag, yes, no = line.removeprefix("br i1 ").split(", ")
            yes, no = (numbers[x.split("%")[1]] for x in (yes, no))
            self.line(f"at = {yes} if {self.local(flag)} else {no}")
        elif line.startswith("unreachable"):
            self.line("raise AssertionError")
        elif line.startswith("store"):
            self._store(line)
        elif line.startswith("call"):
            self.line(self._call(line))
        elif line.startswith("atomicrmw"):
            self._atomic(line)
        else:
            name, _, text = line.partition(" = ")
            made = self._value(text)
            if made is not None:
                self.line(f"{self.local(name)} = {made}")

    def _returned(self, line: str) -> str:
        type_, value = line.removeprefix("ret ").rsplit(" ", 1)
        return self.operand(value, kind(type_))

    def _store(self, line: str) -> None:
        m = _STORE.match(line)
        assert m is not None, line
        k = kind(m["type"])
        value = self.operand(m["x"], k)
        if m["at"].startswith("%slot"):
            self.line(f"{self.local(m['at'])} = {value}")
        else:
            self.line(f"{self.accessor('stor', k)}({value}, {self.local(m['at'])})")

    def _atomic(self, line: str) -> str:
        m = _ATOMIC.match(line)
        assert m is not None, line
        k = kind(m["type"])
        update = self.function(("atomic", m["word"], k), lambda: atomics.update(m["word"], k))
        at = self.local(m["at"])
        old = self.assign(k, f"{self.accessor('load', k)}({at})")
        self.line(f"{self.accessor('stor', k)}({update}({old}, {self.operand(m['x'], k)}), {at})")
        return old

    def _call(self, text: str) -> str:
        m = _CALL.match(text)
        assert m is not None, text
        pairs = [a.strip().rsplit(" ", 1) for a in m["args"].split(",")]
        args = [self.operand(value, kind(type_)) for type_, value in pairs]
        if m["name"].startswith("llvm.memcpy"):
            return f"m.write({args[0]}, m.read({args[1]}, {args[2]}))"
        if m["name"].startswith("llvm."):
            raise DSLCompileError(f"the interpreter does not know {m['name']}, which a routine calls")
        return f"call({m['name']!r}, {', '.join(args)})"

    def _value(self, text: str) -> str | None:
        word = text.split(" ", 1)[0]
        if word == "alloca":
            return None
        if word == "load":
            m = _LOAD.match(text)
            assert m is not None, text
            if m["at"].startswith("%slot"):
                return self.local(m["at"])
            return f"{self.accessor('load', kind(m['type']))}({self.local(m['at'])})"
        if word == "call":
            return self._call(text)
        if word == "atomicrmw":
            return self._atomic(text)
        if (m := _GEP.fullmatch(text)) is not None:
            by = self.operand(m["by"], kind("i64"))
            return f"({self.local(m['at'])} + {by}) & {(1 << 64) - 1}"
        if (m := _SELECT.fullmatch(text)) is not None:
            k = kind(m["type"])
            return f"{self.operand(m['a'], k)} if {self.local(m['c'])} else {self.operand(m['b'], k)}"
        if (m := _ICMP.fullmatch(text)) is not None:
            k = kind(m["type"])
            return self.compare(m["word"], k, self.operand(m["a"], k), self.operand(m["b"], k))
        if (m := _CAST.fullmatch(text)) is not None:
            k = kind(m["from"])
            return self.convert(m["word"], self.operand(m["a"], k), k, kind(m["to"]))
        m = _BINARY.fullmatch(text)
        if m is not None and m["word"] in operations.INT_WORDS:
            k = kind(m["type"])
            return self.integer(m["word"], k, self.operand(m["a"], k), self.operand(m["b"], k))
        raise DSLCompileError(f"the interpreter does not know '{word}', which a routine uses")


def _of_bfloats(word: str) -> Callable[[Memory], Callable[..., Any]]:
    """An atomic update of a bfloat16 by its bits. One thread runs at a time here: what compares and swaps on the cpu
    stack is a load and a store."""
    bits, value, operation = kind("i16"), kind("bfloat"), atomics.update(word, kind("float"))

    def make(m: Memory) -> Callable[..., Any]:
        load, store = m.loader(bits), m.storer(bits)

        def routine(at: int, by: int) -> Any:
            old = load(at)
            made = operation(from_int(value, int(old)), from_int(value, by))
            store(bf16_atomics.NAN if np.isnan(made) else to_int(value, to_bfloat(made)), at)
            return old

        return routine

    return make


_made: dict[str, Callable[[Memory], Callable[..., Any]]] = {
    bf16_atomics.name_of(word): _of_bfloats(word) for word in bf16_atomics.WORDS
}


def made(name: str) -> Callable[[Memory], Callable[..., Any]]:
    """What makes a routine on a memory."""
    if name not in _made:
        _made[name] = RoutineWriter(entry_of(name).write(False).text()).write(_Forward(name))
    return _made[name]


class Routines:
    """The routines on one memory."""

    def __init__(self, memory: Memory):
        self._memory = memory
        self._known: dict[str, Callable[..., Any]] = {}

    def call(self, name: str, *args: Any) -> Any:
        """Run a routine: the block's state and the thread come first."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = made(name)(self._memory)
        _current.append(self)
        try:
            return found(*args)
        finally:
            _current.pop()


_current: list[Routines] = []


class _Forward:
    """What routines call others by: those of the memory that the caller runs on."""

    def __init__(self, caller: str):
        self.caller = caller

    def __call__(self, name: str, *args: Any) -> Any:
        return _current[-1].call(name, *args)
