"""What a kernel cannot say: each mistake is refused with file, line, caret, reason and a way to write it."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
import traceback
from types import ModuleType

import pytest

from flydsl.errors import DSLCompileError

PROGRAM = '''
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx

class Box:
    """A Python object that is no DSL value."""

    def put(self, x):
        self.item = x

@flyc.kernel
def kernel(x: fx.Tensor, n: fx.Int32):
{body}

@flyc.jit
def run(x: fx.Tensor, n: fx.Int32):
    kernel(x, n).launch(grid=1, block=1)

def go():
    run(np.zeros(4, np.float32), 3)
'''

FORCED = "the value exists only at run time"
TO_PYTHON = "Make it compile-time (a Python number or a Constexpr parameter)"
TO_BOOL = "Use cond.select(a, b)"
GUARD = "guard the rest of the body with an if"

CASES: dict[str, tuple[str, type[BaseException], str, str, str]] = {
    # name: body, exception, what is marked, reason, remedy
    "int()": ("y = int(n)", RuntimeError, "int(n)", "has no Python integer representation", TO_PYTHON),
    "bool()": ("y = bool(n < 2)", RuntimeError, "bool(n < 2)", "cannot evaluate dynamic Boolean", TO_BOOL),
    "list index": ("y = [1, 2, 3][n]", RuntimeError, "[1, 2, 3][n]", FORCED, TO_PYTHON),
    "range_constexpr": (
        "for j in fx.range_constexpr(n):\n    x[j] = 1.0",
        RuntimeError,
        "fx.range_constexpr(n)",
        FORCED,
        TO_PYTHON,
    ),
    "assert": ("assert n > 2", RuntimeError, "n > 2", "cannot evaluate dynamic Boolean", TO_BOOL),
    "in": ("y = n in (1, 2)", RuntimeError, "n in (1, 2)", "cannot evaluate dynamic Boolean", TO_BOOL),
    "break": (
        "for j in range(n):\n    if j > 2:\n        break",
        SyntaxError,
        "break",
        "break in a run-time branch is not supported",
        GUARD,
    ),
    "continue": (
        "for j in range(n):\n    continue",
        SyntaxError,
        "continue",
        "continue in a run-time loop is not supported",
        GUARD,
    ),
    "while else": (
        "while n > 0:\n    n = n - 1\nelse:\n    n = n + 1",
        NotImplementedError,
        "n = n + 1",
        "the else of a run-time while loop is not implemented",
        "put the statements after the loop",
    ),
    "carried type": (
        "acc = 0\nfor j in range(n):\n    acc = acc + 1.0",
        TypeError,
        "range(n)",
        "'acc' at the end of the for-body does not match the region entry: it was Int32 (i32) and became Float32 (f32)",
        "convert what is assigned, as in x.to(fx.Float32)",
    ),
    "carried structure": (
        "acc = [x[0]]\nfor j in range(n):\n    acc = [*acc, x[0]]",
        TypeError,
        "range(n)",
        "'acc' at the end of the for-body does not match the region entry",
        "",
    ),
    "carried None": (
        "best = None\nfor j in range(n):\n    best = x[j]",
        TypeError,
        "range(n)",
        "'best' is initialized as None",
        "start with a value of the type the variable is to have",
    ),
    "opaque object": (
        "box = Box()\nfor j in range(n):\n    box.put(j)",
        TypeError,
        "range(n)",
        "Cannot extract IR values from 'box'",
        "Assign a variable and pass it",
    ),
    "name of a region": (
        "if n > 2:\n    y = 1.0\nx[0] = y",
        NameError,
        "y",
        "'y' is defined only inside the 'if'",
        "Define 'y' before the 'if'",
    ),
    "loop bound": (
        "for j in range(fx.Int64(n)):\n    x[j] = 1.0",
        TypeError,
        "range(fx.Int64(n))",
        "the stop of range must be i32, got Int64 (i64)",
        "convert it with fx.Int32(...)",
    ),
    "early return": (
        "if n > 2:\n    return\nx[0] = 1.0",
        SyntaxError,
        "return",
        "early return in a run-time branch is not supported",
        "use a guard",
    ),
    "for else": (
        "for j in range(n):\n    x[j] = 1.0\nelse:\n    x[0] = 2.0",
        SyntaxError,
        "x[0] = 2.0",
        "the else of a run-time for loop is not supported",
        "put the statements after the loop",
    ),
    "negative step": (
        "for j in range(0, n, -1):\n    x[j] = 1.0",
        SyntaxError,
        "-1",
        "the step of a run-time for loop must be positive, got -1",
        "count upwards",
    ),
    "nonlocal": (
        "i = n\ndef inner():\n    nonlocal i\n    if n > 2:\n        i = i + 1\ninner()",
        SyntaxError,
        "i",
        "nonlocal variable 'i' is assigned in a run-time region",
        "assign a local variable and return it",
    ),
    "the target's limits": (
        "fx.SharedAllocator().allocate(fx.Array[fx.Float32, 10**7])",
        DSLCompileError,
        "fx.SharedAllocator().allocate(fx.Array[fx.Float32, 10**7])",
        "bytes of static shared memory",
        "",
    ),
}


def load(tmp_path, body: str) -> tuple[ModuleType, str]:
    path = tmp_path / "users_kernel.py"
    path.write_text(PROGRAM.replace("{body}", textwrap.indent(body, "    ")))
    spec = importlib.util.spec_from_file_location("users_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, str(path)


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_shown_where_it_is(name, tmp_path, monkeypatch):
    body, kind, marked, reason, remedy = CASES[name]
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")  # a target with limits
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    with pytest.raises(kind) as caught:
        load(tmp_path, body)[0].go()
    shown = "".join(traceback.format_exception_only(caught.value))
    path = tmp_path / "users_kernel.py"
    lines = path.read_text().splitlines()
    assert reason in shown and remedy in shown
    found = [line for line in shown.splitlines() if f'File "{path}", line ' in line]
    assert found, f"no file and line in:\n{shown}"
    at = shown.splitlines().index(found[-1])
    source, caret = shown.splitlines()[at + 1 : at + 3]
    number = int(found[-1].rpartition("line ")[2])
    assert source.strip() == lines[number - 1].strip(), "the line of the file is quoted"
    start = caret.index("^")
    assert set(caret.strip()) == {"^"} and source[start:].startswith(marked[: len(caret.strip())])


def test_a_kernel_outside_a_trace(tmp_path):
    module, path = load(tmp_path, "x[0] = 1.0")
    with pytest.raises(
        RuntimeError, match=r"kernel 'kernel' was called outside a jit function; .*\.launch\("
    ) as caught:
        module.kernel(None, 3)
    assert traceback.extract_tb(caught.tb)[0].filename == __file__
    assert path and sys.modules.get("users_kernel") is None


@pytest.mark.parametrize("make", ["thread_idx.x", "make_rmem_tensor(4, fx.Float32)", "barrier()", "exp(1.0)"])
def test_values_outside_a_trace(make):
    import flydsl.expr as fx

    with pytest.raises(RuntimeError, match=r"no active trace: .* inside a @flyc\.jit or @flyc\.kernel function"):
        eval(f"fx.{make}", {"fx": fx})
