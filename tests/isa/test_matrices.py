"""Products of matrices as machine code: what goes into which register, in which order, with which signs.

The checks are those of the emulated products, which never see what an atom is lowered to.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.kernels import test_rocm_mfma as mfma
from tests.kernels import test_rocm_wmma as wmma

from .test_scaled import Stays

LIKE_OTHERS = ("gfx1151", "gfx1200")
"""They have the atoms of gfx1100 and gfx1201."""


@pytest.mark.parametrize(
    ("arch", "k", "a", "b", "acc"), [case for case in wmma.CASES if case[0] not in LIKE_OTHERS]
)  # fmt: skip
def test_wmma(arch: str, k: int, a: str, b: str, acc: str, gpu: Any):
    used = gpu(arch)
    wmma.test_matches_numpy(arch, k, a, b, acc, (1, 2, 1), Stays())
    assert used.hip.launches


@pytest.mark.parametrize("flags", [(False, True, False), (True, False, True)])
@pytest.mark.parametrize(("arch", "k", "words"), wmma.NIBBLES)
def test_four_bits(arch: str, k: int, words: Any, flags: tuple[bool, bool, bool], gpu: Any):
    used = gpu(arch)
    wmma.test_int4(arch, k, words, flags, Stays())
    assert used.hip.launches


@pytest.mark.parametrize(("kind", "m", "k", "arch"), {case[:3]: case for case in mfma.CASES}.values())
def test_mfma(kind: str, m: int, k: int, arch: str, gpu: Any):
    """Each form on the newest architecture that has it."""
    used = gpu(arch)
    mfma.test_matches_numpy(kind, m, k, arch, (2, 1, 1), Stays())
    assert used.hip.launches
