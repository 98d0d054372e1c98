"""How what a kernel depends on reaches it, and the programs made of both."""

from __future__ import annotations

import random
from typing import NamedTuple

from .forms import FORMS, Form


class Way(NamedTuple):
    name: str
    expression: str
    """Where `OBJ` is found; `{read}` in `define` is the number read from it."""
    define: str = ""
    argument: bool = False
    """Whether the object is an argument of the jit function, as a Constexpr."""
    method: bool = False
    """Whether the jit function is a method of an object that holds it."""
    module: bool = False
    """Whether it is defined in another module, which the program knows as `dep`."""


WAYS = (
    Way("global", "OBJ"),
    Way("helper", "helper()", "def helper():\n    return {read:OBJ}"),
    Way(
        "closure",
        "helper()",
        "def _make(o):\n    def helper():\n        return {read:o}\n    return helper\nhelper = _make(OBJ)",
    ),
    Way("default", "helper()", "def helper(o=OBJ):\n    return {read:o}"),
    Way("keyword default", "helper()", "def helper(*, o=OBJ):\n    return {read:o}"),
    Way("constexpr", "o", argument=True),
    Way("self", "self.o", method=True),
    Way("state behind self", "self.get()", "GET = lambda o: {read:o}", method=True),
    Way("list", "BOX[0]", "BOX = [OBJ]"),
    Way("dict", "BOX['k'][0]", "BOX = {'k': (OBJ,)}"),
    Way("instance", "BOX.o", "class Box: pass\nBOX = Box()\nBOX.o = OBJ"),
    Way(
        "class",
        "Box.o",
        "class Box: pass\nBox.o = staticmethod(OBJ) if callable(OBJ) and not isinstance(OBJ, type) else OBJ",
    ),
    Way("property", "BOX.o", "class Box:\n    @property\n    def o(self): return OBJ\nBOX = Box()"),
    Way("argument", "use(OBJ)", "def use(o):\n    return {read:o}"),
    Way("argument of a method", "BOX.use(OBJ)", "class Box:\n    def use(self, o): return {read:o}\nBOX = Box()"),
    Way("partial", "USE()", "import functools\ndef use(o):\n    return {read:o}\nUSE = functools.partial(use, OBJ)"),
    Way("lambda", "(lambda: OBJ)()"),
    Way("module", "dep.OBJ", module=True),
    Way("module alias", "alias.OBJ", "alias = dep", module=True),
    Way("local alias", "helper()", "def helper():\n    m = dep\n    return {read:m.OBJ}", module=True),
    Way("import inside", "helper()", "def helper():\n    import {dep} as m\n    return {read:m.OBJ}", module=True),
    Way("from inside", "helper()", "def helper():\n    from {dep} import OBJ as o\n    return {read:o}", module=True),
    Way("getattr", "getattr(dep, 'OB' + 'J')", module=True),
    Way("module in a list", "MODULES[0].OBJ", "MODULES = [dep]", module=True),
    Way("module as argument", "use(dep)", "def use(m):\n    return {read:m.OBJ}", module=True),
    Way("globals()", "globals()['OB' + 'J']"),
    Way("eval", "eval('OBJ')"),
    Way("vars", "vars(BOX)['o']", "class Box: pass\nBOX = Box()\nBOX.o = OBJ"),
)
_HEAD = "import dataclasses, operator\nimport flydsl.compiler as flyc\nimport flydsl.expr as fx\n"
_IN_KERNEL = """
@flyc.kernel
def store_kernel(x: fx.Tensor{parameter}):
    x[0] = fx.Int32({value})
"""
_IN_HOST = """
@flyc.kernel
def store_kernel(x: fx.Tensor, n: fx.Constexpr[int]):
    x[0] = n
"""
_JIT = """
@flyc.jit
def run(x: fx.Tensor{parameter}):
    store_kernel(x{passed}).launch(grid=1, block=1)

def plain({plain}):
    return {value}
"""
_METHOD = """
class Runner:
    def __init__(self, o):
        self.o = o
    def get(self):
        return GET(self.o) if 'GET' in globals() else None
    @flyc.jit
    def run(self, x: fx.Tensor):
        store_kernel(x, int({value})).launch(grid=1, block=1)
    def plain(self):
        return {value}
RUNNER = Runner(OBJ)
"""


class Program(NamedTuple):
    """One program: its source and that of its other module for a number, and the changes that can be made."""

    family: str
    name: str
    source: str
    dep: str
    changes: tuple[str, ...]
    call: str
    """How `run` is called with the array `x`."""
    oracle: str
    where: str
    """The module a change runs in: `dep` or `program`."""


def program(form: Form, way: Way, index: int) -> Program:
    """A program of a form and a way; every second reads the value in the host function."""
    where = f"stale_d{index}"

    def fill(text: str) -> str:
        out, rest = "", text
        while "{read:" in rest:
            before, _, after = rest.partition("{read:")
            target, _, rest = after.partition("}")
            out += before + form.read.replace("{o}", target).replace("{{}}", "{}")
        return (out + rest).replace("{dep}", where)

    whole = (
        "helper()" in way.expression
        or "use(" in way.expression
        or "USE(" in way.expression
        or "get()" in way.expression
    )
    value = way.expression if whole else form.read.replace("{o}", way.expression).replace("{{}}", "{}")
    parts = [_HEAD]
    parts.append(f"import {where} as dep\n" if way.module else form.defs)
    parts.append(fill(way.define))
    if way.method:
        parts += [_IN_HOST, _METHOD.format(value=value)]
        call, oracle = "RUNNER.run(x)", "RUNNER.plain()"
    else:
        parameter = ", o: fx.Constexpr" if way.argument else ""
        if index % 2:
            parts += [
                _IN_HOST,
                _JIT.format(
                    parameter=parameter, passed=f", int({value})", plain="o" if way.argument else "", value=value
                ),
            ]
        else:
            parts.append(_IN_KERNEL.format(parameter=parameter, value=f"int({value})"))
            passed = ", o" if way.argument else ""
            parts.append(
                _JIT.format(parameter=parameter, passed=passed, plain="o" if way.argument else "", value=value)
            )
        call, oracle = ("run(x, OBJ)", "plain(OBJ)") if way.argument else ("run(x)", "plain()")
    name = f"{form.family} {form.name} by {way.name}"
    dep = form.defs if way.module else ""
    return Program(
        form.family, name, "\n".join(parts), dep, form.changes, call, oracle, "dep" if way.module else "program"
    )


def programs(every: bool = False, seed: int = 16) -> list[Program]:
    """All programs of the grammar, or each form in one way: the usual three and all the others by turns."""
    dice = random.Random(seed)
    always = [way for way in WAYS if way.name in ("global", "constexpr", "self")]
    rest = [way for way in WAYS if way not in always]
    found: list[Program] = []
    for number, form in enumerate(FORMS):
        one = rest[number // 2 % len(rest)] if number % 2 else dice.choice(always)
        for way in WAYS if every else (one,):
            found.append(program(form, way, len(found)))
    return found
