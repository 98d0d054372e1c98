"""What decides the code of a call, one input after the other: each alone gives another key, none is forgotten."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from flydsl.compiler.active_backend import resolve_backend
from flydsl.compiler.hints import CompilationContext
from flydsl.compiler.key import product
from flydsl.compiler.key.code_key import WantedCode, wanted_code
from flydsl.compiler.key.walk import function_key
from flydsl.expr.meta import tracing_context
from flydsl.expr.scalars.fastmath import fastmath


def one(x: Any) -> Any:
    return x


def other(x: Any) -> Any:
    return -x


def wanted(
    function: Callable[..., object] = one,
    arguments: tuple[object, ...] = (("tensor", "f32"),),
    target: str = "rocm:gfx942",
    hints: Mapping[str, object] | None = None,
    more: Mapping[str, object] | None = None,
    passes: Mapping[str, object] | None = None,
    within: AbstractContextManager[object] | None = None,
) -> WantedCode:
    key = function_key(function, environment=False)
    with within or nullcontext():
        return wanted_code(key, arguments, resolve_backend(target), hints or {}, more or {}, passes or {})


WAYS: dict[str, Callable[[], WantedCode]] = {
    "nothing": wanted,
    "function": lambda: wanted(other),
    "arguments": lambda: wanted(arguments=(("tensor", "f16"),)),
    "number of arguments": lambda: wanted(arguments=(("tensor", "f32"), ("tensor", "f32"))),
    "architecture": lambda: wanted(target="rocm:gfx950"),
    "setting of the architecture": lambda: wanted(target="rocm:gfx942:xnack-"),
    "stack": lambda: wanted(target="cpu:gfx942"),
    "hint": lambda: wanted(hints={"maxnreg": 64}),
    "other value of a hint": lambda: wanted(hints={"maxnreg": 65}),
    "other type of a hint": lambda: wanted(hints={"maxnreg": 64.0}),
    "other hint": lambda: wanted(hints={"waves_per_eu": 2}),
    "hint of the call": lambda: wanted(more={"maxnreg": 66}),
    "hint around the call": lambda: wanted(within=CompilationContext.compile_hints({"maxnreg": 67})),
    "fast math": lambda: wanted(within=fastmath("contract")),
    "other fast math": lambda: wanted(within=fastmath("fast")),
    "tracing option": lambda: wanted(within=tracing_context(unroll=4)),
    "other tracing option": lambda: wanted(within=tracing_context(unroll=5)),
    "pipeline": lambda: wanted(passes={"llvm_pass_pipeline": "default<O1>"}),
    "other pipeline": lambda: wanted(passes={"llvm_pass_pipeline": "default<O3>"}),
}


def test_each_input_gives_another_key_in_memory_and_on_disk():
    made = {name: make() for name, make in WAYS.items()}
    assert len({each.memory_key for each in made.values()}) == len(WAYS)
    assert len({each.key for each in made.values()}) == len(WAYS)
    assert all(make().key == made[name].key for name, make in WAYS.items())


def test_the_stronger_hint_counts():
    with CompilationContext.compile_hints({"maxnreg": 3}):
        assert wanted(hints={"maxnreg": 1}, more={"maxnreg": 2}).hints == {"maxnreg": 3}
    assert wanted(hints={"maxnreg": 1}, more={"maxnreg": 2}).key == wanted(hints={"maxnreg": 2}).key
    assert wanted(hints={"maxnreg": None}).key == wanted().key


def test_passes_are_no_hints():
    found = wanted(hints={"llvm_pass_pipeline": "default<O1>", "maxnreg": 64})
    assert found.hints == {"maxnreg": 64} and found.passes is not None and found.passes.pipeline == "default<O1>"
    assert wanted().passes is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FLYDSL_COMPILE_OPT_LEVEL", "1"),
        ("FLYDSL_CPU_CHECK", "1"),
        ("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "1"),
        ("FLYDSL_COMPILE_LINKER", "internal"),
    ],
)
def test_variables_that_shape_code(monkeypatch: pytest.MonkeyPatch, variable: str, value: str):
    before = wanted()
    monkeypatch.setenv(variable, value)
    after = wanted()
    assert after.memory_key != before.memory_key and after.key != before.key


def test_overridden_stages_by_name_and_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_OVERRIDE_DIR", str(tmp_path))
    keys = [wanted().key]
    (tmp_path / "kernel").mkdir()
    for name, text in (("00.mlir", "a"), ("00.mlir", "b"), ("01.mlir", "b")):
        (tmp_path / "kernel" / name).write_text(text)
        keys.append(wanted().key)
    assert len(set(keys)) == len(keys)


def test_a_key_that_learned_of_reads_stays_the_same_otherwise():
    before = wanted()
    assert before.renewed() is before
    changed = before.of(function_key(other, environment=False)).renewed()
    assert changed.key == wanted(other).key != before.key
    assert (changed.hints, changed.passes) == (before.hints, before.passes)


def test_what_every_key_holds():
    names = [component.name for component in product.environment_components()]
    assert names == [
        *("key schema", "assertions", "flydsl version", "flydsl sources", "xdsl version", "llvmlite version"),
        *("llvmlite library", "extra sources"),
    ]
    assert all(c.kind == "environment" for c in product.environment_components())
    assert len(product.llvm_library_digest()) == 64


def test_code_without_assertions_is_other_code():
    script = "from flydsl.compiler.key import product; print([c.digest for c in product.environment_components()])"
    plain, optimised = (
        subprocess.run([sys.executable, *options, "-c", script], capture_output=True, text=True, check=True).stdout
        for options in ([], ["-O"])
    )
    assert sum(a != b for a, b in zip(plain.split(","), optimised.split(","), strict=True)) == 1
