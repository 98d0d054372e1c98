"""Random copies move what their layouts and predicates say; a search takes thousands, the tests the same few."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.fuzz.copies import wrong

FIRST = int(os.environ.get("RANDOM_COPIES_FROM", "0"))
COUNT = int(os.environ.get("RANDOM_COPIES", "5"))


@pytest.mark.parametrize("group", range(5))
def test_random(group: int, tmp_path: Path):
    for seed in range(FIRST + group * COUNT, FIRST + (group + 1) * COUNT):
        assert wrong(random.Random(seed), tmp_path / f"copy_{seed}.py") is None, seed
