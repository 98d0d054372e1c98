"""Pipelines of asynchronous copies in every form: exploring schedules says of each what its numbers say."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl.errors import KernelCheckError

from .schedules.rings import KINDS, Ring, every_ring, is_racy, reversed_rows


def test_rings_are_racy_and_clean():
    for groups in (False, True):
        racy = sum(is_racy(ring, groups) for ring in every_ring())
        assert racy > 300 and len(list(every_ring())) - racy > 40
    good = Ring(buffers=3, ahead=2, pending=2, meets=True, frees=True, late=False, drains=True)
    assert not is_racy(good, True)
    for worse in ({"buffers": 2}, {"meets": False}, {"frees": False}, {"drains": False}, {"ahead": 1}):
        assert is_racy(good._replace(**worse), True)


@pytest.mark.parametrize("name", KINDS)
def test_every_ring_is_told_apart(name: str, emulate: Callable[[str], None]):
    kind = KINDS[name]
    emulate(kind.arch)
    wrong: list[str] = []
    witnesses: list[tuple[Ring, str]] = []
    rings = list(every_ring())
    for ring in rings if kind.whole else random.sample(rings, 30):
        arguments = kind.arguments(ring)
        report = flyc.explore_schedules(kind.launch, *arguments)
        if kind.is_racy(ring):
            if report:
                wrong.append(f"{ring} is racy, and nothing was found")
            else:
                witnesses.append((ring, report.findings[0].schedule))
                if any(".py:" not in finding.text for finding in report.findings):
                    wrong.append(f"{ring}: no line in {report}")
        elif not (report and report.complete):
            wrong.append(f"{ring} is fine: {report}")
        else:
            assert report.looked_at.copies and report.looked_at.waits and report.looked_at.shared_conflicts, report
            kind.launch(*arguments)
            assert np.array_equal(arguments[1], reversed_rows(arguments[0], kind.threads)), ring
    assert not wrong, "\n".join(wrong[:10])
    for ring, schedule in random.sample(witnesses, 8):
        assert flyc.replay_schedule(kind.launch, *kind.arguments(ring), schedule=schedule).findings, ring


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.empty])
def test_checked_mode_tells_apart_what_is_counted_exactly(
    name: str, emulate: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
):
    """Nothing but copies counts here, so that the order in which threads happen to run shows every mistake."""
    kind = KINDS[name]
    emulate(kind.arch)
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")

    def is_blamed(ring: Ring) -> bool:
        try:
            kind.launch(*kind.arguments(ring))
        except KernelCheckError:
            return True
        return False

    assert [ring for ring in every_ring() if is_blamed(ring) != kind.is_racy(ring)] == []
