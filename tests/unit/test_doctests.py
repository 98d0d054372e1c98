"""Every public name has a docstring with an example, and every example of every docstring runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Iterator

import numpy as np
import pytest

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
FOLDERS = ["flydsl.expr", "flydsl.compiler", "flydsl.extension", "flydsl.runtime", "flydsl.dialects", "flydsl.llvm",
           "flydsl.autotune"]  # fmt: skip
ALONE = ["flydsl.errors", "flydsl.target", "flydsl.config"]
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
    yield from ALONE
    for folder in FOLDERS:
        path = importlib.import_module(folder).__path__
        yield from (name for _, name, _ in pkgutil.walk_packages(path, f"{folder}."))


def examples_of(name: str) -> list[doctest.DocTest]:
    module = importlib.import_module(name)
    found = doctest.DocTestFinder(exclude_empty=True).find(module, name, extraglobs=GLOBALS)
    return [test for test in found if test.examples]


WITH_EXAMPLES = [name for name in modules() if ">>> " in (inspect.getsource(importlib.import_module(name)))]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
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
