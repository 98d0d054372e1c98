"""Every seeded bug is reported at its line, and the mended kernel is not blamed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flydsl.errors import KernelCheckError

from .seeded import CASES


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")


@pytest.mark.parametrize("name", CASES)
def test_bug_is_reported_at_its_line(name: str, emulate: Callable[[str], None]):
    case = CASES[name]
    emulate(case.arch)
    with pytest.raises(KernelCheckError) as caught:
        case.run(False)
    text = str(caught.value)
    said = [line.lstrip() for line in text.splitlines() if case.words in line]
    # Of a race either of the two accesses may be the one that was found second.
    named = [line if "race on" in line else line.partition(" ")[0] for line in said]
    assert any(case.line().removesuffix(":") in line for line in named), f"{case.line()} {case.words}\n{text}"


@pytest.mark.parametrize("name", CASES)
def test_mended_kernel_is_clean(name: str, emulate: Callable[[str], None]):
    case = CASES[name]
    emulate(case.arch)
    case.run(True)
