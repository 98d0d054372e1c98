"""Random programs: a number that is reached through several steps, each of which can be changed.

A step is a line of the tables: definitions, the expression by which the next one reads it, and changes of it. `{i}` is
the number of the step, `{e}` the expression of the step below: it is evaluated where a definition holds a value, and
each time it is read where it is in code.
"""

# A table, one line each.
# ruff: noqa: E501
# fmt: off
from __future__ import annotations

import random
from typing import NamedTuple

from .ways import Program


class Step(NamedTuple):
    defs: str
    read: str
    changes: tuple[str, ...] = ()


HOLDING = (
    Step("S{i} = [{e}, 3]", "S{i}[0]", ("S{i}[0] = {v}", "S{i}.insert(0, {v})", "S{i} = [{v}]")),
    Step("S{i} = {{'k': {e}}}", "S{i}['k']", ("S{i}['k'] = {v}", "S{i} = dict(k={v})", "S{i}.update(k={v})")),
    Step("S{i} = ((1, {e}),)", "S{i}[0][1]", ("S{i} = ((1, {v}),)",)),
    Step("class C{i}: pass\nS{i} = C{i}()\nS{i}.n = {e}", "S{i}.n", ("S{i}.n = {v}", "vars(S{i}).pop('n', 0); C{i}.n = {v}", "vars(S{i})['n'] = {v}")),
    Step("class C{i}: n = {e}\nS{i} = C{i}()", "S{i}.n", ("C{i}.n = {v}", "S{i}.n = {v}")),
    Step("class C{i}:\n    __slots__ = ('n',)\n    def __init__(self, n): self.n = n\nS{i} = C{i}({e})", "S{i}.n", ("S{i}.n = {v}",)),
    Step("import types\nS{i} = types.SimpleNamespace(n={e})", "S{i}.n", ("S{i}.n = {v}",)),
    Step("@dataclasses.dataclass\nclass C{i}:\n    n: object\nS{i} = C{i}({e})", "S{i}.n", ("S{i}.n = {v}", "S{i} = dataclasses.replace(S{i}, n={v})")),
    Step("def f{i}(n={e}): return n", "f{i}()", ("f{i}.__defaults__ = ({v},)", "f{i} = lambda: {v}")),
    Step("def f{i}(*, n={e}): return n", "f{i}()", ("f{i}.__kwdefaults__['n'] = {v}",)),
    Step("def m{i}(n):\n    def get(): return n\n    def put(v):\n        nonlocal n\n        n = v\n    return get, put\ng{i}, p{i} = m{i}({e})", "g{i}()", ("p{i}({v})",)),
    Step("import functools\nS{i} = functools.partial(lambda n: n, {e})", "S{i}()", ("S{i} = functools.partial(lambda n: n, {v})",)),
    Step("import collections\nS{i} = collections.deque([{e}])", "S{i}[0]", ("S{i}[0] = {v}", "S{i}.appendleft({v})")),
    Step("import collections\nS{i} = collections.ChainMap({{}}, dict(n={e}))", "S{i}['n']", ("S{i}['n'] = {v}", "S{i}.maps[1]['n'] = {v}")),
    Step("import numpy\nS{i} = numpy.array([int({e})])", "int(S{i}[0])", ("S{i}[0] = {v}", "S{i} += 1")),
    Step("import enum\nclass C{i}(enum.Enum):\n    A = {e}", "C{i}.A.value", ("C{i}.A._value_ = {v}",)),
    Step("def f{i}(): return f{i}.n\nf{i}.n = {e}", "f{i}()", ("f{i}.n = {v}",)),
    Step("import copy\nS{i} = iter([{e}] * 9)", "next(copy.copy(S{i}))", ("S{i} = iter([{v}])",)),
    Step("import types\nS{i} = types.ModuleType('made')\nS{i}.n = {e}", "S{i}.n", ("S{i}.n = {v}",)),
    Step("import weakref\nclass C{i}: pass\nK{i} = C{i}()\nK{i}.n = {e}\nS{i} = weakref.ref(K{i})", "S{i}().n", ("K{i}.n = {v}",)),
    Step("import io\nS{i} = io.StringIO(str(int({e})))", "int(S{i}.getvalue())", ("S{i}.seek(0); S{i}.write('{v}')",)),
    Step("class C{i}(int): pass\nS{i} = C{i}({e})", "int(S{i})", ("S{i} = C{i}({v})", "C{i}.__int__ = lambda self: {v}")),
    Step("class C{i}(dict):\n    def __missing__(self, k): return {e}\nS{i} = C{i}()", "S{i}['q']", ("S{i}['q'] = {v}", "C{i}.__missing__ = lambda self, k: {v}")),
)
"""Steps that hold what the one below gives when they are defined."""
READING = (
    Step("def f{i}(): return {e}", "f{i}()", ("f{i} = lambda: {v}", "f{i}.__code__ = (lambda: {v}).__code__")),
    Step("f{i} = lambda: {e}", "f{i}()", ("f{i} = lambda: {v}",)),
    Step("class C{i}:\n    @property\n    def n(self): return {e}\nS{i} = C{i}()", "S{i}.n", ("C{i}.n = property(lambda self: {v})", "C{i}.n = {v}")),
    Step("class C{i}:\n    def get(self): return {e}\nS{i} = C{i}()", "S{i}.get()", ("C{i}.get = lambda self: {v}", "S{i}.get = lambda: {v}")),
    Step("class C{i}:\n    def get(self): return {e}\nclass D{i}(C{i}):\n    def get(self): return super().get()\nS{i} = D{i}()", "S{i}.get()", ("C{i}.get = lambda self: {v}", "D{i}.get = lambda self: {v}")),
    Step("class C{i}:\n    def __getattr__(self, name): return {e}\nS{i} = C{i}()", "S{i}.some", ("C{i}.__getattr__ = lambda self, name: {v}", "S{i}.some = {v}")),
    Step("class C{i}:\n    def __get__(self, o, t): return {e}\nclass D{i}: n = C{i}()\nS{i} = D{i}()", "S{i}.n", ("C{i}.__get__ = lambda self, o, t: {v}", "D{i}.n = {v}")),
    Step("class C{i}:\n    def __call__(self): return {e}\nS{i} = C{i}()", "S{i}()", ("C{i}.__call__ = lambda self: {v}",)),
    Step("class C{i}:\n    def __getitem__(self, k): return {e}\nS{i} = C{i}()", "S{i}[0]", ("C{i}.__getitem__ = lambda self, k: {v}",)),
    Step("class M{i}(type):\n    @property\n    def n(cls): return {e}\nclass C{i}(metaclass=M{i}): pass", "C{i}.n", ("M{i}.n = {v}",)),
    Step("class C{i}:\n    @classmethod\n    def get(cls): return {e}", "C{i}.get()", ("C{i}.get = lambda: {v}",)),
    Step("import functools\ndef d{i}(f):\n    @functools.wraps(f)\n    def inner(): return f() + K{i}\n    return inner\nK{i} = 0\n@d{i}\ndef f{i}(): return {e}", "f{i}()", ("K{i} = 1", "f{i} = lambda: {v}")),
    Step("import contextlib\n@contextlib.contextmanager\ndef c{i}(): yield {e}\ndef f{i}():\n    with c{i}() as n: return n", "f{i}()", ("f{i} = lambda: {v}",)),
    Step("def f{i}():\n    try: return [{e} for _ in range(1)][0]\n    finally: pass", "f{i}()", ("f{i} = lambda: {v}",)),
    Step("def f{i}(): return max(n for n in ({e},))", "f{i}()", ("max = lambda *a: {v}", "globals().pop('max', 0)")),
    Step("def f{i}():\n    class In: n = {e}\n    return In.n", "f{i}()", ()),
    Step("G{i} = 'f{i}_'\ndef f{i}_(): return {e}", "globals()[G{i}]()", ("f{i}_ = lambda: {v}",)),
    Step("def f{i}(): return {e}", "(lambda *a, **k: a[0]())(f{i})", ("f{i} = lambda: {v}",)),
    Step("T{i} = [lambda: {e}]", "T{i}[0]()", ("T{i}[0] = lambda: {v}", "T{i}.insert(0, lambda: {v})")),
    Step("import functools\n@functools.singledispatch\ndef f{i}(a): return {e}", "f{i}(1)", ("f{i}.register(int, lambda a: {v})",)),
    Step("import operator\nclass C{i}:\n    @property\n    def n(self): return {e}\nS{i} = C{i}()", "operator.attrgetter('n')(S{i})", ("C{i}.n = {v}",)),
    Step("class C{i}:\n    def __format__(self, s): return str(int({e}))\nS{i} = C{i}()", "int(f'{{S{i}}}')", ("C{i}.__format__ = lambda self, s: '{v}'",)),
    Step("class C{i}:\n    def __iter__(self): yield {e}\nS{i} = C{i}()", "next(iter(S{i}))", ("C{i}.__iter__ = lambda self: iter([{v}])",)),
    Step("import pathlib\nP{i} = pathlib.Path('@FOLDER@') / 'chain@I@_{i}'\ndef f{i}(): return {e} + (1 if P{i}.exists() else 0)", "f{i}()", ("P{i}.write_text('')", "P{i}.unlink(missing_ok=True)")),
    Step("import os\nos.environ.pop('CHAIN@I@_{i}', None)\ndef f{i}(): return {e} + int(os.environ.get('CHAIN@I@_{i}', 0))", "f{i}()", ("os.environ['CHAIN@I@_{i}'] = '{v}'",)),
)
"""Steps whose code reads the one below."""
_HEAD = "import dataclasses\nimport flydsl.compiler as flyc\nimport flydsl.expr as fx\n"
_IN_KERNEL = """
@flyc.kernel
def store_kernel(x: fx.Tensor):
    x[0] = fx.Int32(int(plain()))
@flyc.jit
def run(x: fx.Tensor):
    store_kernel(x).launch(grid=1, block=1)
"""
_IN_HOST = """
@flyc.kernel
def store_kernel(x: fx.Tensor, n: fx.Constexpr[int]):
    x[0] = n
@flyc.jit
def run(x: fx.Tensor):
    store_kernel(x, int(plain())).launch(grid=1, block=1)
"""


def chain(dice: random.Random) -> Program:
    """One program of two to five steps with up to six changes, some of which come twice or undo others."""
    parts, changes, expression = [_HEAD, "V = @V@"], ["V = 91"], "V"
    for i in range(dice.randint(2, 5)):
        step = dice.choice(HOLDING if dice.random() < 0.5 else READING)
        parts.append(step.defs.format(i=i, e=expression))
        changes += [change.format(i=i, v=dice.choice((7, 9, 91, 92, 93))) for change in step.changes]
        expression = step.read.format(i=i)
    parts.append(f"def plain():\n    return {expression}\n")
    parts.append(dice.choice((_IN_KERNEL, _IN_HOST)))
    chosen = tuple(dice.choice(changes[dice.randrange(len(changes)) :]) for _ in range(6))  # the last are seen most
    return Program("chain", expression, "\n".join(parts), "", chosen, "run(x)", "plain()", "program")


def chains(count: int, seed: int) -> list[Program]:
    dice = random.Random(seed)
    return [chain(dice) for _ in range(count)]
