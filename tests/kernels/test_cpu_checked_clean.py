"""Checked mode has nothing to say of kernels that are right: the language's examples and the example files, with the
numbers compared as usual. `test_library.py` does the same with the kernels of the library."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")


def _module(name: str) -> ModuleType:
    full = f"flydsl_tests.checked_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None and spec.loader is not None
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


for _file in ("test_language_examples", "test_examples"):
    # The same tests once more, with the fixture above.
    for _name, _test in vars(_module(_file)).items():
        if _name.startswith("test_"):
            globals()[f"{_name}_checked"] = _test
