"""Library kernels and extents: what is checked besides the sizes that `test_library.py` goes through."""

from __future__ import annotations

import pytest
import torch

import flydsl.compiler as flyc
from flydsl.errors import DSLValueError
from flydsl.kernels.gemm_sm80 import gemm_sm80
from flydsl.kernels.rows import softmax


def known(*shape: int):
    """A tensor whose extents are known when a kernel is compiled."""
    return flyc.from_torch_tensor(torch.zeros(shape, dtype=torch.bfloat16), assumed_align=16)


def plain(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def compiled(target, function, *args):
    return flyc.compile(function, *args, target=target)


def test_the_number_of_dimensions():
    with pytest.raises(DSLValueError, match=r"softmax: x has 2 dimensions, \(m, n\), got"):
        compiled("cuda:sm_90a", softmax, plain(64), plain(64))


def test_a_bias_of_another_length():
    args = known(16, 32), known(24, 32), known(16, 24), "none", known(16)
    with pytest.raises(DSLValueError, match="gemm_sm80: n is 24 in b and 16 in bias"):
        compiled("cuda:sm_80", gemm_sm80, *args)


def test_extents_of_run_time_are_not_compared():
    compiled("cuda:sm_90a", softmax, plain(4, 64), known(4, 64))
    compiled("cuda:sm_90a", softmax, plain(4, 64), plain(5, 32))
