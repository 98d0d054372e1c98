"""What is fuzzed: each function takes a random generator and gives None, or says what is wrong.

Errors of this package, and errors of MLIR's text, are answers; any other exception is a finding.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import random
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import FlyDSLError, LayoutError
from flydsl.layout import format_any, text

ROOT = Path(__file__).resolve().parents[2]
Subject = Callable[[random.Random], "str | None"]


@cache
def _module(path: str) -> types.ModuleType:
    """A test module, for the generator in it."""
    spec = importlib.util.spec_from_file_location(f"fuzzed_{Path(path).stem}", ROOT / path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


# --- text -----------------------------------------------------------------------------------------------------------

_TOKENS = (
    '( ) < > [ ] { } : , = -> % # ! @ " i32 f32 0 -1 4294967296 ? * loc fly.layout !fly.ptr module func.func'.split()
)


def changed_text(rng: random.Random, given: str, most: int = 4) -> str:
    """A text with a few places deleted, doubled, replaced or moved."""
    for _ in range(rng.randint(1, most)):
        at = rng.randrange(len(given) + 1)
        end = min(len(given), at + rng.choice((1, 1, 2, 5, 20, 200)))
        kind = rng.randrange(5)
        if kind == 0:
            given = given[:at] + given[end:]
        elif kind == 1:
            given = given[:end] + given[at:end] + given[end:]
        elif kind == 2:
            given = given[:at] + rng.choice(_TOKENS) + given[end:]
        elif kind == 3:
            given = (
                given[:at]
                + chr(rng.choice((0, 9, 10, 32, 34, 92, 127, 255, 0x20AC, rng.randrange(33, 127))))
                + given[at:]
            )
        else:
            to = rng.randrange(len(given) + 1)
            given = given[:to] + given[at:end] + given[to:]
    return given


@cache
def _files() -> list[Path]:
    return sorted((ROOT / "tests" / "filecheck").rglob("*.mlir"))


def mlir(rng: random.Random) -> str | None:
    """`fly-opt` with a pass or two on a changed file: it prints a module or one error, and no traceback."""
    from flydsl.passes import PASSES
    from flydsl.tools import fly_opt

    given = rng.choice(_files()).read_text()
    part = rng.choice(given.split("// -----"))
    passes = [f"--{name}" for name in rng.sample(sorted(PASSES), rng.choice((0, 0, 1, 2)))]
    with tempfile.NamedTemporaryFile("w", suffix=".mlir", encoding="utf-8") as file:
        file.write(changed_text(rng, part))
        file.flush()
        out, complaints = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaints):
            status = fly_opt.main([*passes, file.name])
    if status not in (0, 1, 2):
        return f"exit status {status}"
    if status and not complaints.getvalue().strip():
        return "it failed without a word"
    return "a traceback" if "Traceback (most recent" in complaints.getvalue() else None


_LAYOUTS = ["(4,(2,3)):(1,(4,8))", "?{i64 div=8}:1", "S<3,4,3> o 0 o (8,8):(1,8)", "<[4:1|8|*]>", "(1@0,2@1)", "8:1"]


def layouts(rng: random.Random) -> str | None:
    """Changed layouts: what is read prints as text that reads the same."""
    given = changed_text(rng, rng.choice(_LAYOUTS), 3)
    for parse in (text.parse_int_tuple, text.parse_layout, text.parse_any_layout, text.parse_swizzle, text.parse_tile):
        try:
            found: Any = parse(given)
        except (LayoutError, FlyDSLError, ValueError):
            continue
        again: Any = parse(format_any(found))
        if again != found:
            return f"{parse.__name__}({given!r}) is {found}, which reads as {again}"
    return None


# --- calls ----------------------------------------------------------------------------------------------------------


@flyc.kernel
def scale_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, by: fx.Float32):
    i = fx.block_idx.x * 32 + fx.thread_idx.x
    if i < n:
        y[i] = x[i] * by


@flyc.jit
def scale(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, by: fx.Float32):
    scale_kernel(x, y, n, by).launch(grid=fx.ceildiv(n, 32), block=32)


def arguments(rng: random.Random) -> str | None:
    """Odd values for the parameters of a kernel: the numbers are right, or the call is refused and nothing written."""
    count = rng.choice((0, 1, 7, 33, 100))
    x = np.random.default_rng(rng.randrange(2**32)).standard_normal(count).astype("f4")
    y = np.full(count, 7.0, "f4")
    odd: list[Any] = [
        None, "x", b"x", 3, 2.5, -1, 2**31, 2**63, 2**64, float("nan"), True, [1.0], (x,), {}, object(), x.astype("f8"),
        x[::-1], x[::2], x.reshape(-1, 1), np.float32(2), np.int8(-3), x.view("i4"), np.frombuffer(x.tobytes(), "f4"),
        np.zeros(3, "S4"), np.zeros((2, 0), "f4"), np.zeros(3, "c8"), np.ma.array(x), range(3), np.bool_(True),
    ]  # fmt: skip
    call: list[Any] = [x, y, count, 2.0]
    for _ in range(rng.choice((0, 1, 1, 2))):
        call[rng.randrange(4)] = rng.choice(odd)
    # A kernel that is told more elements than there are reads and writes elsewhere: that is its author's mistake.
    least = min((x.size for x in call[:2] if isinstance(x, np.ndarray)), default=0)
    if type(call[2]) in (int, bool, np.int8, np.bool_) and not 0 <= int(call[2]) <= least:
        call[2] = least
    try:
        scale(*call)
    except (FlyDSLError, TypeError, ValueError, OverflowError) as error:
        if not str(error):
            return f"{type(error).__name__} without a word for {call!r}"
        return None if (y == 7.0).all() else f"refused with {error}, and y is written"
    if all(a is b for a, b in zip(call[:2], (x, y), strict=True)) and type(call[2]) is int:
        expected = x[: call[2]] * np.float32(call[3])
        if not np.array_equal(y[: call[2]], expected, equal_nan=True):
            return f"{y} instead of {expected} for {call!r}"
    return None


def control(rng: random.Random) -> str | None:
    """Control flow: a random function computes what Python computes."""
    made = _module("tests/unit/expr/test_control_flow.py")
    source = made.Program(rng.randrange(2**31)).source()
    function = made.define(source)
    traced = made.trace_values(function, made.Int32, made.Int32)
    for _ in range(3):
        a, b = rng.randrange(-300, 300), rng.randrange(-300, 300)
        expected, found = list(function(a, b)), made.run(traced, a, b)
        if found != expected:
            return f"{found} instead of {expected} for {a}, {b}:\n{source}"
    return None


def statements(rng: random.Random) -> str | None:
    """Everything of Python: a random function gives what Python gives, or is refused."""
    from .statements import wrong

    made = _module("tests/unit/expr/test_control_flow.py")
    return wrong(rng, made.define, lambda f: made.trace_values(f, made.Int32, made.Int32), made.run)


# --- kernels --------------------------------------------------------------------------------------------------------


def kernels(rng: random.Random) -> str | None:
    """A random kernel: its code is the same, wherever passes are run one by one."""
    made, seed = _module("tests/e2e/test_random_kernels.py"), rng.randrange(2**31)
    target = rng.choice([*made.TARGETS, "cpu:gfx1100", "rocm:gfx1100", "cuda:sm_80"])
    arch = target.split(":")[1]
    with tempfile.TemporaryDirectory() as folder:
        try:
            made.compiled_alike(made.Program(seed, arch).text(), Path(folder), target, seed, True)
        except AssertionError as error:
            return f"Program({seed}, {arch!r}) for {target}: {error}"
    return None


def results(rng: random.Random) -> str | None:
    """A random kernel: it gives what numpy gives, optimised or not, checked or not."""
    from .results import WARPS, wrong

    os.environ["FLYDSL_COMPILE_BACKEND"], os.environ["FLYDSL_COMPILE_ARCH"] = "cpu", rng.choice(list(WARPS))
    os.environ["FLYDSL_COMPILE_OPT_LEVEL"], os.environ["FLYDSL_CPU_CHECK"] = rng.choice("02"), rng.choice("001")
    with tempfile.TemporaryDirectory() as folder:
        return wrong(rng.randrange(2**31), os.environ["FLYDSL_COMPILE_ARCH"], Path(folder) / "kernel.py")


def copies(rng: random.Random) -> str | None:
    """A random copy: it moves what its layouts and its predicate say."""
    from .copies import wrong

    os.environ["FLYDSL_COMPILE_BACKEND"], os.environ["FLYDSL_CPU_CHECK"] = "cpu", rng.choice("01")
    with tempfile.TemporaryDirectory() as folder:
        return wrong(rng, Path(folder) / "copy.py")


# --- files and variables --------------------------------------------------------------------------------------------


@cache
def _exported() -> bytes:
    made = _module("tests/e2e/test_artifact_fuzz.py")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "affine.fly"
        flyc.export(made.affine, path, args=(np.zeros(37, "f4"), 37, 2.0), targets=["cpu:native", "rocm:gfx942"])
        return path.read_bytes()


def artifacts(rng: random.Random) -> str | None:
    """Changed headers with a right checksum, and changed bytes: refused by name, or right."""
    made, data = _module("tests/e2e/test_artifact_fuzz.py"), _exported()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.fly"
        if rng.random() < 0.3:
            at = rng.randrange(len(data))
            data = data[:at] + bytes(rng.randrange(256) for _ in range(rng.choice((1, 4)))) + data[at + 1 :]
        else:
            header, body = made.split(data)
            made.mutate(header, rng)
            try:
                data = made.joined(header, body)
            except (ValueError, RecursionError):  # no JSON at all
                return None
        made.use(data, path)
    return None


_PROGRAM = """
import numpy as np, flydsl.compiler as flyc, sys
sys.path.insert(0, sys.argv[1])
import vector_add
a = np.arange(40, dtype="f4"); c = np.zeros(40, "f4")
vector_add.vector_add(a, a, c, 40)
from flydsl.config import compile
assert (c == (0 if compile.compile_only else a + a)).all()
"""


def environment(rng: random.Random) -> str | None:
    """Odd values of a variable or two: the program runs right, or ends with an error of this package."""
    from flydsl.config import all_variables

    names = [name for _, variable in all_variables() for name in variable.names]
    values = [
        "",
        "0",
        "1",
        "-1",
        "yes",
        "\u20ac",
        "a" * 5000,
        "/nowhere/at/all",
        "1e9",
        "cpu",
        "cuda",
        "gfx942",
        ",",
        "=",
        "a=b;c",
    ]
    chosen = {name: rng.choice(values) for name in rng.sample(names, rng.choice((1, 1, 2)))}
    env = {**os.environ, **chosen}
    command = [sys.executable, "-c", _PROGRAM, str(ROOT / "examples")]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=60, check=False, cwd=tempfile.gettempdir()
    )
    if done.returncode == 0:
        return None
    last = (done.stderr.strip().splitlines() or [""])[-1]
    ours = last.startswith(("flydsl.", "ValueError: Unknown compile backend"))
    if done.returncode == 1 and (ours or "flydsl.errors" in done.stderr):
        return None
    return f"exit status {done.returncode} with {chosen}: {done.stderr[-600:]}"


SUBJECTS: dict[str, tuple[Subject, int]] = {
    "mlir": (mlir, 60),
    "layouts": (layouts, 400),
    "arguments": (arguments, 60),
    "control": (control, 8),
    "statements": (statements, 40),
    "kernels": (kernels, 20),
    "results": (results, 20),
    "copies": (copies, 40),
    "artifacts": (artifacts, 60),
    "environment": (environment, 4),
}
"""By name: the subject, and how many inputs a worker takes before it tells."""
