"""On a machine with a GPU: every program on it and on the cpu stack that emulates it, bit by bit."""

from __future__ import annotations

import os

import pytest

from .comparison import compare
from .golden import DIFFERENT
from .runner import programs, results


@pytest.mark.cuda
def test_the_same_bits():
    import torch

    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the emulation was held against Hopper")
    chosen = [(n, p) for n, p in enumerate(programs()) if p.group != "approximations"]
    assert sum(p.group in ("chains", "vectors") for _, p in chosen) >= 200
    workers = max(2, (os.cpu_count() or 4) - 2)
    there, here = (results(device, chosen, workers, 60) for device in ("cuda", "cpu"))
    wrong: list[str] = []
    for _, program in chosen:
        one, other = there[program.name], here[program.name]
        if one.error or other.error:
            wrong.append(f"{program.name}: {one.error} | {other.error}")
            continue
        assert one.digest == other.digest
        different = [row for row in compare(program.make(), one, other) if row.numbers]
        known = program.group in ("chains", "vectors", "functions") and any(w in program.name for w in DIFFERENT)
        if not known:
            wrong += [
                f"{program.name} {row.row}: {row.numbers} of {row.elements}, {row.ulp:g} ulp" for row in different
            ]
    assert not wrong, "\n".join(wrong)
