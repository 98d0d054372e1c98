"""Integer values of a kernel's IR for one thread, as far as they are known: addresses, conditions, bounds of loops."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .ir import Instruction, KernelIR, Loop

_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << min(b, 64),
    "ashr": lambda a, b: a >> min(b, 64),
    "sdiv": lambda a, b: int(a / b) if abs(a) < 1 << 52 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1),
    "srem": lambda a, b: a - b * int(a / b),
}
_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "lshr": lambda a, b: a >> min(b, 64),
    "udiv": lambda a, b: a // b,
    "urem": lambda a, b: a % b,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
}
_MINMAX: dict[str, Callable[[int, int], int]] = {"smin": min, "smax": max, "umin": min, "umax": max}
_TERM = r"(%[\w.$-]+|-?\d+|true|false|null|undef|poison|@[\w.$-]+)"
_OPERANDS = re.compile(rf"^(?:\w+ )*?\w+(?: (?:nuw|nsw|exact|disjoint|nneg|samesign))* i(\d+) {_TERM}, {_TERM}")
_ICMP = re.compile(rf"icmp (?:samesign )?(\w+) (?:i(\d+)|ptr(?: addrspace\(\d+\))?) {_TERM}, {_TERM}")
_CAST = re.compile(
    r"(zext|sext|trunc|bitcast|ptrtoint|inttoptr|addrspacecast|freeze)\b.*? "
    rf"(?:i(\d+)|ptr\S*(?: addrspace\(\d+\))?) {_TERM}(?: to i(\d+))?"
)
_SELECT = re.compile(rf"select i1 {_TERM}, \S+ {_TERM}, \S+ {_TERM}")
_CALL = re.compile(r"call .*?@(llvm[\w.]+)\((.*)\)")
_EXTRACT = re.compile(r"extractvalue (.*) (%[\w.$-]+), ([\d, ]+)$")
_PHI = re.compile(rf"\[ {_TERM}, %([\w.$-]+) \]")
_GEP = re.compile(rf"getelementptr (?:inbounds |nuw |nusw )*(.+?), ptr(?: addrspace\(\d+\))? {_TERM}, (.*)$")
_INDEX = re.compile(rf"i\d+ {_TERM}")
_THREAD = {
    "tid": "thread",
    "workitem.id": "thread",
    "ctaid": "block",
    "workgroup.id": "block",
    "ntid": "size",
    "nctaid": "grid",
}
_FORMATS = {"i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q"}


@dataclass(frozen=True)
class Place:
    """A thread, and what the launch gave."""

    thread: tuple[int, int, int]
    block: tuple[int, int, int]
    size: tuple[int, int, int]
    grid: tuple[int, int, int]
    warp: int = 32


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


@dataclass
class Evaluator:
    """Values for one thread; loops are in their first round unless `phis` says otherwise."""

    kernel: KernelIR
    parameters: Mapping[str, bytes]
    place: Place
    phis: Mapping[str, int] = field(default_factory=dict[str, int])
    headers: set[str] = field(default_factory=set[str])
    _known: dict[str, int | None] = field(default_factory=dict[str, int | None])

    def value(self, term: str) -> int | None:
        """The value of an operand; None where it is not known."""
        if term in self.phis:
            return self.phis[term]
        if term.lstrip("-").isdigit():
            return int(term)
        if term in ("true", "false", "null"):
            return int(term == "true")
        if not term.startswith("%"):
            return 0 if term.startswith("@") else None  # a variable in shared memory: offsets count from it
        if term in self._known:
            return self._known[term]
        self._known[term] = None  # ends circles
        self._known[term] = found = self._compute(term)
        return found

    def _compute(self, term: str) -> int | None:
        made = self.kernel.definitions.get(term)
        if made is None:
            data = self.parameters.get(term)
            return int.from_bytes(data[:8], "little", signed=True) if data is not None and len(data) <= 8 else None
        try:
            return self._of(made)
        except (ZeroDivisionError, OverflowError, struct.error):
            return None

    def _of(self, made: Instruction) -> int | None:
        text, op = made.text, made.opcode
        if op in _BINARY or op in _UNSIGNED:
            match = _OPERANDS.match(text)
            if match is None:
                return None
            bits = int(match[1])
            a, b = self.value(match[2]), self.value(match[3])
            if a is None or b is None:
                return None
            if op in _UNSIGNED:
                mask = (1 << bits) - 1
                return _signed(_UNSIGNED[op](a & mask, b & mask), bits)
            return _signed(_BINARY[op](a, b), bits)
        if op == "icmp" and (match := _ICMP.match(text)):
            a, b = self.value(match[3]), self.value(match[4])
            if a is None or b is None:
                return None
            kind, bits = match[1], int(match[2] or 64)
            if kind[0] == "u":
                a, b, kind = a & ((1 << bits) - 1), b & ((1 << bits) - 1), "s" + kind[1:]
            return int(_COMPARE[kind](a, b))
        if op == "select" and (match := _SELECT.match(text)):
            chosen = self.value(match[1])
            return None if chosen is None else self.value(match[2] if chosen else match[3])
        if op == "phi":
            return self._phi(made)
        if op == "getelementptr":
            return self._address(text)
        if op == "call":
            return self._call(text)
        if op == "extractvalue" and (match := _EXTRACT.match(text)):
            return self._field(match[1], match[2], match[3])
        if match := _CAST.match(text):
            inner = self.value(match[3])
            if inner is None:
                return None
            if match[1] == "zext" and match[2]:
                return inner & ((1 << int(match[2])) - 1)
            return _signed(inner, int(match[4])) if match[1] == "trunc" and match[4] else inner
        return None

    def _phi(self, made: Instruction) -> int | None:
        """What comes from outside the loop, or the one value there is."""
        edges = _PHI.findall(made.text)
        own = {block.label for block in self.kernel.blocks.values() if made in block.instructions}
        loops = [loop for loop in self.kernel.loops if loop.header in own]
        outside = [term for term, label in edges if not any(label in loop.latches for loop in loops)]
        values = {self.value(term) for term in outside}
        return values.pop() if len(values) == 1 else None

    def _call(self, text: str) -> int | None:
        match = _CALL.search(text)
        if match is None:
            return None
        name = match[1]
        for word, field_name in _THREAD.items():
            if f".{word}." in name:
                return getattr(self.place, field_name)["xyz".index(name[-1])]
        if ".laneid" in name or "mbcnt" in name:
            return self.place.thread[0] % self.place.warp
        if "shfl.sync.idx" in name or "readfirstlane" in name:
            # What is broadcast is the same in the warp.
            terms = _INDEX.findall(match[2])
            at = 1 if "shfl" in name else 0
            return self.value(terms[at]) if len(terms) > at else None
        if "ctarank" in name:
            return 0
        for word, function in _MINMAX.items():
            if f"llvm.{word}." in name:
                a, b = (self.value(t) for t in _INDEX.findall(match[2])[:2])
                return None if a is None or b is None else function(a, b)
        if ".llvm.abs." in name or "assume" in name:
            return None
        return None

    def _field(self, kind: str, term: str, at: str) -> int | None:
        """A leaf of a packed struct that was passed by value."""
        data = self.parameters.get(term)
        if data is None:
            return None
        leaves = _leaves(kind)
        path = tuple(int(i) for i in at.split(","))
        offset = 0
        for where, leaf in leaves:
            size = struct.calcsize("<" + _FORMATS.get(leaf, "q"))
            if where[: len(path)] == path:
                return struct.unpack_from("<" + _FORMATS.get(leaf, "q"), data, offset)[0]
            offset += size
        return None

    def _address(self, text: str) -> int | None:
        match = _GEP.match(text)
        if match is None:
            return None
        base = self.value(match[2])
        size = size_of(match[1])
        terms = _INDEX.findall(match[3])
        index = self.value(terms[0]) if terms else None
        if base is None or index is None or size is None:
            return None
        for term in terms[1:]:  # into an array of elements
            inner = re.match(r"\[\d+ x (.*)\]$", match[1])
            step, at = (size_of(inner[1]) if inner else None), self.value(term)
            if step is None or at is None:
                return None
            base += at * step
        return base + index * size


def _leaves(kind: str) -> list[tuple[tuple[int, ...], str]]:
    """Path and type of every leaf of a packed struct's type."""
    out: list[tuple[tuple[int, ...], str]] = []
    path: list[int] = []
    for token in re.findall(r"<\{|\}>|\{|\}|[\w]+", kind):
        if token in ("<{", "{"):
            path.append(0)
        elif token in ("}>", "}"):
            path.pop()
            if path:
                path[-1] += 1
        else:
            out.append((tuple(path), token))
            if path:
                path[-1] += 1
    return out


_SIZES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8, "i1": 1}


def size_of(kind: str) -> int | None:
    """Bytes of a type.

    >>> size_of("<4 x float>"), size_of("i16"), size_of("[2 x <8 x bfloat>]")
    (16, 2, 32)
    """
    kind = kind.strip()
    if match := re.match(r"[<\[](\d+) x (.*)[>\]]$", kind):
        inner = size_of(match[2])
        return None if inner is None else int(match[1]) * inner
    if kind.startswith("{") or kind.startswith("<{"):
        sizes = [size_of(leaf) for _, leaf in _leaves(kind)]
        return None if None in sizes else sum(s for s in sizes if s is not None)
    if match := re.match(r"i(\d+)$", kind):
        return max(int(match[1]) // 8, 1)
    return 8 if kind.startswith("ptr") else _SIZES.get(kind)


_BRANCH = re.compile(rf"br i1 {_TERM}, label %([\w.$-]+), label %([\w.$-]+)")
MOST_TRIPS = 1 << 20


def trips(kernel: KernelIR, loop: Loop, make: Callable[[Mapping[str, int]], Evaluator]) -> float | None:
    """How often a loop's header runs each time it is entered, from its counter; None where there is none to follow."""
    for latch in loop.latches:
        for label in {latch, loop.header}:
            ends = kernel.blocks[label].instructions[-1].text
            match = _BRANCH.match(ends)
            if match is None:
                continue
            inside = [side in loop.blocks for side in (match[2], match[3])]
            if all(inside) or not any(inside):
                continue
            found = _count(kernel, loop, match[1], inside[0], make, at_latch=label in loop.latches)
            if found is not None:
                return found
    return None


def _both(state: Evaluator, compared: re.Match[str]) -> tuple[int | None, int | None]:
    return state.value(compared[3]), state.value(compared[4])


def _count(
    kernel: KernelIR,
    loop: Loop,
    condition: str,
    goes_on: bool,
    make: Callable[[Mapping[str, int]], Evaluator],
    *,
    at_latch: bool,
) -> float | None:
    """Follow the counters: the condition in the first rounds tells how far away the last one is."""
    counters: dict[str, tuple[int, str]] = {}
    first = make({})
    for made in kernel.blocks[loop.header].instructions:
        if made.opcode != "phi":
            break
        edges = _PHI.findall(made.text)
        start = [term for term, label in edges if label not in loop.latches]
        step = [term for term, label in edges if label in loop.latches]
        value = first.value(start[0]) if len(start) == 1 else None
        if value is not None and len(step) == 1:
            counters[made.result] = (value, step[0])
    values = {name: start for name, (start, _) in counters.items()}
    for rounds in range(1, 5):
        state = make(values)
        holds = state.value(condition)
        if holds is None:
            return None
        if bool(holds) is not goes_on:
            return float(rounds if at_latch else max(rounds - 1, 0))
        values = {name: v for name, (_, step) in counters.items() if (v := state.value(step)) is not None}
    # The counter the condition hangs on moves by a fixed step: halve the distance to where it ends.
    begin = make({n: s for n, (s, _) in counters.items()})
    steps = {n: v - s for n, (s, step) in counters.items() if (v := begin.value(step)) is not None}

    def goes(rounds: int) -> bool:
        state = make({n: counters[n][0] + rounds * step for n, step in steps.items()})
        return state.value(condition) == int(goes_on)

    made = kernel.definitions.get(condition)
    equal = _ICMP.match(made.text) if made is not None and made.opcode == "icmp" else None
    if equal is not None and equal[1] in ("eq", "ne"):
        # Met in one round alone: from how fast the two sides come together.
        states = [make({n: counters[n][0] + rounds * step for n, step in steps.items()}) for rounds in (0, 1)]
        apart = [None if a is None or b is None else a - b for a, b in (_both(each, equal) for each in states)]
        if apart[0] is None or apart[1] is None or apart[0] == apart[1] or apart[0] % (apart[0] - apart[1]):
            return None
        rounds = apart[0] // (apart[0] - apart[1])
        return float(rounds + 1 if at_latch else rounds) if 0 <= rounds < MOST_TRIPS else None
    low, high = 1, 2
    while high < MOST_TRIPS and goes(high - 1):
        low, high = high, high * 2
    if high >= MOST_TRIPS:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if goes(middle - 1):
            low = middle
        else:
            high = middle
    return float(high if at_latch else high - 1)
