"""Random functions made of all statements and expressions of Python, for two integers: what they give, Python gives.

What cannot be traced may be refused, by an error of this package; it must not give something else. Values stay small:
every one is masked.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

from flydsl.errors import FlyDSLError

NUMBERS = ((0, 0), (3, 9), (-5, 2), (200, 77))

HEAD = """\
import contextlib
import types

KNOWN = 3


class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def total(self, scale=1):
        return (self.first + self.second * scale) & 255


def helper(p, q=2):
    return (p ^ (q << 1)) & 255


@contextlib.contextmanager
def doubled(value):
    yield (value * 2) & 255


"""


class Program:
    """A random function."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.lines: list[str] = []
        self.count = itertools.count()
        self.loops: list[bool] = []
        """For each loop around, innermost last, whether it is unrolled."""
        self.functions: list[str] = []
        self.region = 0
        """How many run-time regions are around, in the function being written."""
        self.own: list[str] = []
        """In a nested function, what it may assign to."""

    def source(self) -> str:
        self.lines = [
            "def f(a, b):",
            "    x, y, z = a & 63, 5, b & 7",
            "    data, table = [a & 15, 3, b & 31], {'u': y, 3: x}",
            "    space = types.SimpleNamespace(u=z, v=[x, 1])",
            "    pair, last = Pair(x, y), 0",
        ]
        self.block(1, 3, ["x", "y", "z"])
        self.lines.append("    return x, y, z, *data, table['u'], table[3], space.u, *space.v, pair.total(), last")
        return HEAD + "\n".join(self.lines) + "\n"

    # --- expressions --------------------------------------------------------------------------------------------------

    def fresh(self, letter: str) -> str:
        return f"{letter}{next(self.count)}"

    def atom(self, names: list[str]) -> str:
        pick, places = (
            self.rng.choice,
            ("data[0]", "data[-1]", "table['u']", "table[3]", "space.u", "space.v[1]", "KNOWN"),
        )
        return pick([pick(names), pick(names), pick(names), "a", "b", pick(places), str(self.rng.randrange(8))])

    def value(self, names: list[str], depth: int = 0) -> str:
        kind = self.rng.randrange(16 if depth < 2 else 4)
        one, two = self.atom(names), self.atom(names)
        inner = lambda: self.value(names, depth + 1)  # noqa: E731
        if kind < 4:
            return f"(({one} {self.rng.choice('+-*^|&')} {two}) & 255)"
        if kind < 6:
            return f"({inner()} if {self.condition(names, depth + 1)} else {inner()})"
        if kind == 6:
            item = self.fresh("q")
            body = self.value([*names, item], depth + 1)
            return f"(sum([{body} for {item} in ({one}, {two}, 2)]) & 255)"
        if kind == 7:
            item = self.fresh("q")
            only = f" if {item} != {self.rng.randrange(3)}" if self.rng.random() < 0.5 else ""
            return f"(sum({item} * {inner()} for {item} in range(3){only}) & 255)"
        if kind == 8:
            return f"{self.rng.choice(('max', 'min'))}({one}, {inner()}, {two})"
        if kind == 9:
            item = self.fresh("q")
            test = self.condition([*names, item], depth + 1)
            return f"(1 if {self.rng.choice(('any', 'all'))}({test} for {item} in ({one}, {two})) else 0)"
        if kind == 10:
            arg = self.fresh("p")
            return f"(lambda {arg}, k={two}: ({arg} - k) & 255)({inner()})"
        if kind == 11:
            return f"helper({inner()}{self.rng.choice(('', ', ' + two, ', q=' + one))})"
        if kind == 12:
            return f"pair.total({self.rng.choice(('', '2', 'scale=' + one))})"
        if kind == 13:
            return f"[{one}, {inner()}, {two}][{self.rng.choice(('0', '-1', '1', 'KNOWN - 2'))}]"
        if kind == 14 and self.functions:
            return f"{self.rng.choice(self.functions)}({inner()})"
        return f"{{'m': {inner()}, 'n': {two}}}[{self.rng.choice(('', 'm', 'n'))!r} or 'm']"

    def condition(self, names: list[str], depth: int = 0) -> str:
        kind = self.rng.randrange(8 if depth < 2 else 2)
        compare = ("<", "<=", "==", "!=", ">", ">=")
        one, two = self.atom(names), self.atom(names)
        if kind < 2:
            return f"{one} {self.rng.choice(compare)} {two}"
        if kind == 2:
            return f"{one} {self.rng.choice(compare)} {self.value(names, 1)} {self.rng.choice(compare)} {two}"
        if kind == 3:
            return f"not ({self.condition(names, depth + 1)})"
        if kind == 4:
            return self.rng.choice(
                ("KNOWN > 2", "KNOWN == 2", "x is None", "y is not None", "'u' in table", "7 in (1, 2)")
            )
        if kind == 5:
            return f"({one}) & 1"
        word = self.rng.choice((" and ", " or "))
        if depth == 0 and not self.own and self.rng.random() < 0.2:
            first = f"{one} {self.rng.choice(compare)} {two}"
            return f"({first}{word}(last := {self.value(names, 2)}) > {self.atom(names)})"
        return "(" + word.join(self.condition(names, depth + 1) for _ in range(self.rng.choice((2, 2, 3)))) + ")"

    # --- statements ---------------------------------------------------------------------------------------------------

    def emit(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def target(self) -> str:
        if self.own:
            return self.rng.choice(self.own)
        return self.rng.choice(("x", "y", "z", "data[0]", "data[2]", "table['u']", "space.u", "space.v[0]"))

    def block(self, indent: int, depth: int, names: list[str]) -> None:
        names, functions = list(names), list(self.functions)
        simple = [self.assign, self.assign, self.update, self.define, self.annotated, self.walrus]
        deep = [
            self.branch, self.branch, self.branch, self.repeat, self.unrolled, self.unrolled, self.items, self.known,
            self.guarded, self.context, self.matched, self.function, self.leave,
        ]  # fmt: skip
        if not self.own:  # these assign to variables of the function around
            simple += [self.several, self.swap]
            deep += [self.loop, self.loop]
        for _ in range(self.rng.randrange(1, 4)):
            choice = self.rng.choice(deep if depth and self.rng.random() < 0.55 else simple)
            choice(indent, depth - 1, names)
        self.functions = functions

    def assign(self, indent: int, depth: int, names: list[str]) -> None:
        self.emit(indent, f"{self.target()} = {self.value(names)}")

    def update(self, indent: int, depth: int, names: list[str]) -> None:
        target = self.target()
        self.emit(indent, f"{target} {self.rng.choice(('+=', '-=', '^=', '*='))} {self.value(names)}")
        self.emit(indent, f"{target} &= 255")

    def several(self, indent: int, depth: int, names: list[str]) -> None:
        self.emit(indent, f"{self.target()} = {self.rng.choice(('x', 'y'))} = {self.value(names)}")

    def swap(self, indent: int, depth: int, names: list[str]) -> None:
        kind = self.rng.randrange(3)
        if kind == 0:
            self.emit(indent, f"x, y = y, {self.value(names)}")
        elif kind == 1:
            self.emit(indent, f"data[0], space.u = {self.value(names)}, data[0]")
        else:
            self.emit(indent, f"x, *data[1:] = data[1], {self.value(names)}, x")

    def define(self, indent: int, depth: int, names: list[str]) -> None:
        name = self.fresh("t") if self.rng.random() < 0.7 else "t"
        self.emit(indent, f"{name} = {self.value(names)}")
        names.append(name)

    def annotated(self, indent: int, depth: int, names: list[str]) -> None:
        name = self.fresh("t")
        self.emit(indent, f"{name}: int = {self.value(names)}")
        names.append(name)

    def walrus(self, indent: int, depth: int, names: list[str]) -> None:
        name = self.fresh("w")
        self.emit(indent, f"{self.target()} = (({name} := {self.value(names)}) * 2 + {name}) & 255")
        names.append(name)

    def inside(self, indent: int, depth: int, names: list[str], region: bool) -> None:
        self.region += region
        self.block(indent + 1, depth, names)
        self.region -= region

    def branch(self, indent: int, depth: int, names: list[str]) -> None:
        self.emit(indent, f"if {self.condition(names)}:")
        self.inside(indent, depth, names, True)
        if self.rng.random() < 0.3:
            self.emit(indent, f"elif {self.condition(names)}:")
            self.inside(indent, depth, names, True)
        if self.rng.random() < 0.5:
            self.emit(indent, "else:")
            self.inside(indent, depth, names, True)

    def loop(self, indent: int, depth: int, names: list[str]) -> None:
        name = self.rng.choice(("i", self.fresh("i"), "x"))
        bounds = self.rng.choice((f"{self.atom(names)} & 3", "3", f"1, {self.atom(names)} & 7, 2", "0"))
        self.emit(indent, f"for {name} in range({bounds}):")
        self.loops.append(False)
        self.inside(indent, depth, [*names, name], True)
        self.loops.pop()

    def repeat(self, indent: int, depth: int, names: list[str]) -> None:
        name = self.fresh("n")
        self.emit(indent, f"{name} = 0")
        self.emit(indent, f"while {name} < 3 and {self.condition(names)}:")
        self.emit(indent + 1, f"{name} += 1")
        self.loops.append(False)
        self.inside(indent, depth, [*names, name], True)
        self.loops.pop()

    def unrolled(self, indent: int, depth: int, names: list[str]) -> None:
        name = self.fresh("i")
        self.emit(indent, f"for {name} in fx.range_constexpr({self.rng.randrange(4)}):")
        self.steps(indent, depth, names, name)

    def items(self, indent: int, depth: int, names: list[str]) -> None:
        name = self.fresh("e")
        items = f"({self.atom(names)}, {self.value(names)})"
        number = self.fresh("i")
        head = self.rng.choice((
            f"for {name} in {items}:", f"for {number}, {name} in enumerate({items}):",
            f"for {name}, {number} in zip({items}, (4, 5)):", f"for {name} in reversed({items}):",
        ))  # fmt: skip
        self.emit(indent, head)
        self.steps(indent, depth, names, name)

    def steps(self, indent: int, depth: int, names: list[str], name: str) -> None:
        """The body of a loop that is unrolled."""
        self.loops.append(True)
        outer, self.region = self.region, 0
        self.inside(indent, depth, [*names, name], False)
        self.region = outer
        self.loops.pop()
        if self.rng.random() < 0.3:
            self.emit(indent, "else:")
            self.inside(indent, depth, names, False)

    def known(self, indent: int, depth: int, names: list[str]) -> None:
        test = self.rng.choice(("KNOWN > 2", "KNOWN < 2", "not KNOWN", "len(data) == 3"))
        self.emit(indent, f"if fx.const_expr({test}):" if self.rng.random() < 0.5 else f"if {test}:")
        self.inside(indent, depth, names, False)

    def guarded(self, indent: int, depth: int, names: list[str]) -> None:
        self.emit(indent, "try:")
        self.inside(indent, depth, names, False)
        kind = self.rng.randrange(3)
        if kind:
            self.emit(indent, "except ZeroDivisionError:")
            self.inside(indent, depth, names, False)
        if kind == 2:
            self.emit(indent, "else:")
            self.inside(indent, depth, names, False)
        if kind != 1:
            self.emit(indent, "finally:")
            loops, self.loops = self.loops, []
            self.assign(indent + 1, depth, names)
            self.loops = loops

    def context(self, indent: int, depth: int, names: list[str]) -> None:
        name = self.fresh("c")
        self.emit(indent, f"with doubled({self.value(names)}) as {name}, contextlib.nullcontext():")
        self.inside(indent, depth, [*names, name], False)

    def matched(self, indent: int, depth: int, names: list[str]) -> None:
        name, other = self.fresh("m"), self.fresh("m")
        self.emit(indent, f"match ({self.value(names)}, KNOWN):")
        self.emit(
            indent + 1, self.rng.choice((f"case [{name}, 3]:", f"case ({name}, {other}):", f"case {name}, 4 | 3:"))
        )
        self.inside(indent + 1, depth, [*names, name], False)
        self.emit(indent + 1, "case _:")
        self.inside(indent + 1, depth, names, False)

    def function(self, indent: int, depth: int, names: list[str]) -> None:
        name, arg = self.fresh("g"), self.fresh("p")
        self.emit(indent, f"def {name}({arg}, k={self.value(names)}):")
        changed = self.rng.choice(([], ["x"], ["z"]))
        if changed:
            self.emit(indent + 1, f"nonlocal {changed[0]}")
        mine = self.fresh("t")
        self.emit(indent + 1, f"{mine} = {self.value([*names, arg, 'k'])}")
        outer = self.region, self.loops, self.functions, self.own
        self.region, self.loops, self.functions, self.own = 0, [], [], [mine, "data[1]", *changed]
        self.block(indent + 1, min(depth, 1), [arg, mine, "a", "b", "y"])
        self.emit(indent + 1, f"return {self.value([arg, mine, 'k', 'a', 'b'])}")
        self.region, self.loops, self.functions, self.own = outer
        self.functions = [*self.functions, name]

    def leave(self, indent: int, depth: int, names: list[str]) -> None:
        """An end that is known while tracing."""
        if self.region or not self.loops or not self.loops[-1]:
            self.emit(indent, "pass")
            return
        self.emit(indent, f"if {self.rng.choice(('KNOWN > 2', 'KNOWN < 2', 'len(data) > 3'))}:")
        self.assign(indent + 1, depth, names)
        self.emit(indent + 1, self.rng.choice(("break", "continue")))


def wrong(
    rng: random.Random, define: Callable[..., Any], trace: Callable[..., Any], run: Callable[..., Any]
) -> str | None:
    """What is wrong with a random function, if anything."""
    source = Program(rng).source()
    function = define(source)
    try:
        expected = [list(function(a, b)) for a, b in NUMBERS]
    except NameError:  # of a branch that was not taken
        return None
    try:
        traced = trace(function)
    except FlyDSLError:
        return None
    found = [run(traced, a, b) for a, b in NUMBERS]
    return None if found == expected else f"{found} instead of {expected} for {NUMBERS}:\n{source}"
