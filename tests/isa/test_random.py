"""Random kernels as machine code, against the same programs in numpy: `tests/fuzz/results.py` on every family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fuzz import results
from tests.fuzz.written import written

WARPS = {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32, "gfx1250": 32}
PROGRAMS = 5


def without_signs_of_zeros(arrays: dict[str, Any]) -> dict[str, Any]:
    """A product that is rounded to 16 bits is one instruction, which adds zero: LLVM drops the sign of its zeros."""
    return {name: x + x.dtype.type(0) if x.dtype.kind == "f" else x for name, x in arrays.items()}


@pytest.mark.parametrize("level", ["0", "2"])
@pytest.mark.parametrize("arch", WARPS)
def test_random_programs(
    arch: str, level: str, gpu: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", level)
    gpu(arch)
    for _ in range(PROGRAMS):
        seed = int(rng.integers(1 << 31))
        program, given = results.Results(seed, defined=True), results.arrays(seed)
        text, n, t = program.text(), seed % 9, (1.5, -0.0, 0.1, 3e5)[seed % 4]
        wanted = program.expected(given, n, t, WARPS[arch], nvidia=False)
        try:
            written(text, tmp_path / f"kernel_{seed}.py").run(*given.values(), n, t)
        except results.TOLD as error:
            assert results.is_told(error), f"seed {seed}"
            continue
        found = results.differences(without_signs_of_zeros(given), without_signs_of_zeros(wanted))
        assert not found, f"Results({seed}, defined=True).text(): {'; '.join(found)}"
