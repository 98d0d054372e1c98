"""Every public name has a docstring with an example, and every example of every docstring runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import flydsl
import flydsl.compiler as flyc
import flydsl.expr as fx

PUBLIC = [
    "flydsl.expr",
    "flydsl.expr.arith",
    "flydsl.expr.buffer_ops",
    "flydsl.expr.gpu",
    "flydsl.expr.math",
    "flydsl.expr.nvgpu",
    "flydsl.expr.rocdl",
    "flydsl.expr.rocdl.cdna3",
    "flydsl.expr.rocdl.cdna4",
    "flydsl.expr.rocdl.cdna5",
    "flydsl.expr.rocdl.cluster",
    "flydsl.compiler",
    "flydsl.compiler.protocol",
    "flydsl.compiler.extern_link",
    "flydsl.layout",
    "flydsl.extension.coop",
    "flydsl.extension.random.universal",
    "flydsl.runtime",
    "flydsl.autotune",
]
ELSEWHERE = "flydsl/layout/"
"""Whose examples have a test of their own."""
GLOBALS = {"fx": fx, "flyc": flyc, "np": np}
"""What examples take for granted: `import flydsl.expr as fx`, `import flydsl.compiler as flyc`, numpy as np."""


def names_of(module: str) -> Iterator[tuple[str, object]]:
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None) or [name for name in dir(loaded) if not name.startswith("_")]
    for name in names:
        value = getattr(loaded, name)
        alias = isinstance(value, (types.UnionType, types.GenericAlias)) or typing.get_origin(value) is not None
        # Modules have pages of their own; aliases of types and plain constants cannot have a docstring.
        if not isinstance(value, (types.ModuleType, dict)) and not alias:
            yield name, value


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_has_an_example(module):
    lacking = [name for name, value in names_of(module) if ">>>" not in (inspect.getdoc(value) or "")]
    assert not lacking, f"no example in the docstring of {', '.join(lacking)}"


def modules() -> Iterator[str]:
    """Every module whose text has an example."""
    package = Path(flydsl.__file__).parent
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package.parent).with_suffix("")
        if ">>> " in file.read_text() and not name.as_posix().startswith(ELSEWHERE):
            yield ".".join(name.parts).removesuffix(".__init__")


def examples_of(name: str) -> list[doctest.DocTest]:
    module = importlib.import_module(name)
    found = doctest.DocTestFinder(exclude_empty=True).find(module, name, extraglobs=GLOBALS)
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", list(modules()))
def test_the_examples_run(name, monkeypatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_DEBUG_ENABLE_VERIFIER", "0")  # the tests of what they show have it on
    tests = examples_of(name)
    assert tests, "the module mentions examples, so some must be found"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    for test in tests:
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
