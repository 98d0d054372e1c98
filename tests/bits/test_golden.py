"""The cpu stack gives the bits that an H200 gave; both were recorded with `python -m tests.bits`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .comparison import compare_row
from .golden import FILE, chosen, places
from .program import Program, digest, run
from .runner import read

PROGRAMS: dict[str, list[Program]] = {}
for _program in chosen():
    PROGRAMS.setdefault(_program.group, []).append(_program)


@pytest.fixture(scope="module", name="recorded")
def _recorded():
    return read(FILE)


def test_what_is_recorded(recorded):
    about, found = recorded
    assert "H200" in about["device"] and FILE.stat().st_size < 300_000
    assert set(found) == {program.name for program in chosen()} and len(found) > 140


@pytest.mark.parametrize("group", PROGRAMS)
def test_same_bits(group: str, recorded, emulate: Callable[[str], None]):
    emulate("sm_90a")
    wrong: list[str] = []
    for program in PROGRAMS[group]:
        expected, call = recorded[1][program.name], program.make()
        assert digest(call) == expected.digest, f"{program.name}: other inputs than on the GPU"
        outputs = [array for array in call.arrays if array.output]
        for array, made, wanted in zip(outputs, run(call, "cpu"), expected.outputs, strict=True):
            found = places(program, made.size)
            names = array.formats or (array.format,)
            rows = found // (made.size // len(names))
            for i, name in enumerate(names):
                row = compare_row(program.name, name, wanted[rows == i], made.ravel()[found][rows == i])
                if row.numbers:
                    wrong.append(f"{program.name}: {row.numbers} of {row.elements}, {row.ulp:g} ulp, {row.example}")
    assert not wrong, "\n".join(wrong)
