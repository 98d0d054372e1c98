"""Programs whose dependency no object holds: modules, builtins, the environment, files, hints, the interpreter."""

# A table, one line each.
# ruff: noqa: E501
# fmt: off
from __future__ import annotations

from .ways import Program

_HEAD = "import os, sys, json, pathlib, builtins, math, random, decimal\nimport flydsl.compiler as flyc\nimport flydsl.expr as fx\n"
RUN = """
@flyc.kernel
def store_kernel(x: fx.Tensor):
    x[0] = fx.Int32(int(value()))
@flyc.jit
def run(x: fx.Tensor):
    store_kernel(x).launch(grid=1, block=1)
def plain():
    return value()
"""


def _special(family: str, name: str, source: str, *changes: str, dep: str = "") -> Program:
    return Program(family, name, _HEAD + source + RUN, dep, changes, "run(x)", "plain()", "program")


SPECIALS = (
    _special("outside", "os.environ", "def value(): return int(os.environ['STALE_NUMBER'])", "os.environ['STALE_NUMBER'] = '91'", "os.environ['STALE_NUMBER'] = '92'"),
    _special("outside", "os.environ.get", "NAME = 'STALE_' + 'NUMBER'\ndef value(): return int(os.environ.get(NAME, 3))", "os.environ['STALE_NUMBER'] = '93'", "del os.environ['STALE_NUMBER']", "os.environ['STALE_NUMBER'] = '94'"),
    _special("outside", "os.getenv", "def value(): return int(os.getenv('STALE_OTHER', '@V@'))", "os.environ['STALE_OTHER'] = '91'", "os.environ['STALE_OTHER'] = '92'"),
    _special("outside", "from os import environ", "from os import environ\ndef value(): return 'STALE_THIRD' in environ", "os.environ['STALE_THIRD'] = '91'"),
    _special("outside", "open", "FILE = '@FOLDER@/number.txt'\ndef value():\n    with open(FILE) as f:\n        return int(f.read())", "open(FILE, 'w').write('91')", "open(FILE, 'w').write('92')"),
    _special("outside", "read_text", "FILE = pathlib.Path('@FOLDER@/number.txt')\ndef value(): return int(FILE.read_text())", "FILE.write_text('93')", "FILE.write_text('94')"),
    _special("outside", "json", "FILE = '@FOLDER@/number.txt'\ndef value(): return json.load(open(FILE))", "open(FILE, 'w').write('95')"),
    _special("outside", "missing file", "FILE = '@FOLDER@/absent@V@.txt'\ndef value():\n    try:\n        return int(open(FILE).read())\n    except FileNotFoundError:\n        return 5", "open(FILE, 'w').write('91')"),
    _special("outside", "listdir", "FOLDER = '@FOLDER@'\ndef value(): return len(os.listdir(FOLDER))", "open(FOLDER + '/more@V@.txt', 'w').write('')"),
    _special("outside", "numpy file", "import numpy\nFILE = '@FOLDER@/a@V@.npy'\nnumpy.save(FILE, numpy.array([@V@]))\ndef value(): return numpy.load(FILE)[0]", "numpy.save(FILE, numpy.array([91]))"),
    _special("builtin", "shadowed later", "def value(): return len('a' * @V@)", "len = lambda v: 91"),
    _special("builtin", "shadowed in a helper", "def inner(): return max(1, @V@)\ndef value(): return inner()", "max = lambda *a: 91"),
    _special("builtin", "replaced", "def value(): return stale_builtin_@V@()\nbuiltins.stale_builtin_@V@ = lambda: @V@", "builtins.stale_builtin_@V@ = lambda: 91"),
    _special("builtin", "found later", "def value():\n    try:\n        return LATER\n    except NameError:\n        return @V@", "LATER = 91"),
    _special("builtin", "attribute found later", "import types\nNS = types.SimpleNamespace()\ndef value(): return getattr(NS, 'later', @V@)", "NS.later = 91"),
    _special("builtin", "hasattr", "class C: pass\nOBJ = C()\ndef value(): return 3 if hasattr(OBJ, 'later') else @V@", "C.later = 1", "del C.later; OBJ.later = 1"),
    _special("module", "function replaced", "import stale_d@I@ as dep\ndef value(): return dep.f()", "dep.f = lambda: 91", "dep.n = 92; dep.f = lambda: dep.n", dep="n = @V@\ndef f(): return n\n"),
    _special("module", "global behind a function", "import stale_d@I@ as dep\ndef value(): return dep.f()", "dep.n = 91", dep="n = @V@\ndef f(): return n\n"),
    _special("module", "__getattr__", "import stale_d@I@ as dep\ndef value(): return dep.anything", "dep.n = 91", dep="n = @V@\ndef __getattr__(name):\n    if name.startswith('__'): raise AttributeError(name)\n    return n\n"),
    _special("module", "standard module patched", "def value(): return math.stale_@V@()\nmath.stale_@V@ = lambda: @V@", "math.stale_@V@ = lambda: 91", "N = 92; math.stale_@V@ = lambda: N"),
    _special("module", "value of a library", "sys.stale_@V@ = @V@\ndef value(): return sys.stale_@V@", "sys.stale_@V@ = 91"),
    _special("module", "sys.argv", "sys.argv[:] = ['@V@']\ndef value(): return sys.argv[0]", "sys.argv[0] = '91'"),
    _special("module", "import_module", "import importlib\ndef value(): return importlib.import_module('stale_d' + '@I@').n", "import stale_d@I@; stale_d@I@.n = 91", dep="n = @V@\n"),
    _special("module", "sys.modules", "import stale_d@I@\ndef value(): return sys.modules['stale_d' + '@I@'].n", "sys.modules['stale_d@I@'].n = 91", dep="n = @V@\n"),
    _special("module", "kernel replaced", "N = @V@\n@flyc.kernel\ndef other_kernel(x: fx.Tensor):\n    x[0] = 91\ndef value(): return N", "store_kernel = other_kernel; plain = lambda: 91"),
    _special("state", "random", "random.seed(@V@)\ndef value():\n    state = random.getstate()\n    try:\n        return random.randrange(10**6)\n    finally:\n        random.setstate(state)", "random.seed(91)"),
    _special("state", "decimal context", "D = decimal.Decimal(1) / 3\ndef value(): return len(str(decimal.Decimal(@V@) / 3))", "decimal.getcontext().prec = 9", "decimal.getcontext().prec = 28"),
    _special("state", "counter", "COUNT = [@V@]\ndef value(): return COUNT[0]", "COUNT[0] += 1", "COUNT[0] += 1", "COUNT[0] -= 1"),
    _special("state", "memo", "MEMO = {}\nN = @V@\ndef value():\n    if 'n' not in MEMO:\n        MEMO['n'] = N\n    return MEMO['n']", "MEMO.clear(); N = 91"),
    _special("state", "iterator", "import copy\nIT = iter([@V@, 2, 3])\ndef value(): return next(copy.copy(IT))", "next(IT)"),
    _special("state", "generator", "def _g():\n    n = @V@\n    while True:\n        s = yield n\n        n = s if s is not None else n\nG = _g()\nnext(G)\ndef value(): return next(G)", "G.send(91)"),
    _special("state", "context variable", "import contextvars\nVAR = contextvars.ContextVar('v', default=@V@)\ndef value(): return VAR.get()", "VAR.set(91)"),
    _special("state", "thread local", "import threading\nOWN = threading.local()\nOWN.n = @V@\ndef value(): return OWN.n", "OWN.n = 91"),
    _special("interpreter", "__debug__", "def value(): return @V@ if __debug__ else 1"),
)
