"""A wait that is too weak, a barrier or a commit in the wrong place is reported exactly where the hardware would mind.

Which programs those are, a model of the hardware says (`waits/model.py`) that knows nothing of how copies are emulated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc

from .waits import library, loads, products, stores
from .waits.model import Plan, mutants, right


@pytest.fixture
def rng() -> random.Random:
    number = random.randrange(1 << 30)
    print(f"seed {number}")
    return random.Random(number)


def compare(machine: Any, launch: Any, rng: random.Random, pairs: int) -> None:
    """Run the right plan and what comes of it by small changes."""
    plan: Plan = machine.plan()
    reported = 0
    for each in (plan, *mutants(plan, rng, pairs)):
        x, y, *more = machine.arrays()
        fine = right(machine.events(each), machine.commit is not None)
        report = flyc.explore_schedules(launch, x, y, *more, *each.words())
        assert bool(report) is fine, f"{each} is {'right' if fine else 'wrong'}, but {report}"
        reported += not fine
        if fine:
            launch(x, y, *more, *each.words())
            assert np.array_equal(y, machine.expected(x)), f"{each} gives other numbers"
    assert reported > 15


MANY = pytest.param(300, marks=pytest.mark.slow)
"""Plans with two changes each."""


@pytest.mark.parametrize("pairs", [8, MANY])
@pytest.mark.parametrize("name", loads.MACHINES)
def test_fetched_rows(name: str, pairs: int, emulate: Callable[[str], None], rng: random.Random):
    machine = loads.MACHINES[name]
    emulate(machine.arch)
    compare(machine, loads.pipeline(machine), rng, pairs)


@pytest.mark.parametrize("pairs", [8, MANY])
@pytest.mark.parametrize("name", stores.MACHINES)
def test_stored_rows(name: str, pairs: int, emulate: Callable[[str], None], rng: random.Random):
    machine = stores.MACHINES[name]
    emulate(machine.arch)
    compare(machine, stores.pipeline(machine), rng, pairs)


def test_products(emulate: Callable[[str], None], rng: random.Random):
    machine = products.Products()
    emulate(machine.arch)
    compare(machine, products.launch, rng, 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", library.HARMLESS)
def test_waits_of_the_library(name: str, emulate: Callable[[str], None], monkeypatch: pytest.MonkeyPatch):
    """Each that leaves one more under way is reported, but those that do no harm."""
    call = library.CALLS[name]
    emulate(call.arch)
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    sites = dict(library.weakened(call))
    assert sites
    for site, found in sites.items():
        assert next(iter(found.values())) or site.partition(" ")[2] in library.HARMLESS[name], f"{site}: {found}"
