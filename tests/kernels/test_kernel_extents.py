"""Library kernels refuse arguments that do not fit each other, as far as extents are known."""

from __future__ import annotations

import pytest
import torch

import flydsl.compiler as flyc
from flydsl.errors import DSLValueError
from flydsl.kernels.gemm_cdna import gemm_cdna
from flydsl.kernels.gemm_sm80 import gemm_sm80
from flydsl.kernels.gemm_sm90 import gemm_sm90
from flydsl.kernels.gemm_wmma import gemm_wmma
from flydsl.kernels.rows import layer_norm, rms_norm, softmax
from flydsl.kernels.transpose import transpose
from flydsl.kernels.vector_add import vector_add


def known(*shape: int):
    """A tensor whose extents are known when a kernel is compiled."""
    return flyc.from_torch_tensor(torch.zeros(shape, dtype=torch.bfloat16), assumed_align=16)


def plain(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def compiled(target, function, *args):
    return flyc.compile(function, *args, target=target)


ROWS = "cuda:sm_90a"
CASES = [
    ("cuda:sm_90a", vector_add, (known(8), known(8), known(16)), "vector_add: n is 8 in a and 16 in c"),
    (ROWS, transpose, (known(4, 64), known(4, 64)), "transpose: n is 64 in src and 4 in dst"),
    (ROWS, softmax, (known(4, 64), known(4, 32)), "softmax: n is 64 in x and 32 in out"),
    (ROWS, softmax, (known(4, 64), known(3, 64)), "softmax: m is 4 in x and 3 in out"),
    (ROWS, softmax, (plain(64), plain(64)), r"softmax: x has 2 dimensions, \(m, n\), got"),
    (ROWS, rms_norm, (known(4, 64), known(32), known(4, 64), 1e-5), "rms_norm: n is 64 in x and 32 in weight"),
    (ROWS, layer_norm, (known(4, 64), known(64), known(8), known(4, 64), 1e-5), "n is 64 in x and 8 in bias"),
    ("cuda:sm_80", gemm_sm80, (known(16, 32), known(24, 64), known(16, 24)), "gemm_sm80: k is 32 in a and 64 in b"),
    (ROWS, gemm_sm90, (known(16, 64), known(24, 64), known(24, 16), 1), "gemm_sm90: m is 16 in a and 24 in c"),
    ("rocm:gfx942", gemm_cdna, (known(16, 32), known(24, 32), known(16, 32)), "gemm_cdna: n is 24 in b and 32 in c"),
    ("rocm:gfx1201", gemm_wmma, (known(16, 32), known(24, 64), known(16, 24)), "gemm_wmma: k is 32 in a and 64 in b"),
]


@pytest.mark.parametrize(("target", "function", "args", "message"), CASES)
def test_what_does_not_fit_is_refused(target, function, args, message: str):
    with pytest.raises(DSLValueError, match=message):
        compiled(target, function, *args)


def test_a_bias_of_another_length():
    args = known(16, 32), known(24, 32), known(16, 24), "none", known(16)
    with pytest.raises(DSLValueError, match="gemm_sm80: n is 24 in b and 16 in bias"):
        compiled("cuda:sm_80", gemm_sm80, *args)


def test_extents_of_run_time_are_not_compared():
    compiled("cuda:sm_90a", softmax, plain(4, 64), known(4, 64))
    compiled("cuda:sm_90a", softmax, plain(4, 64), plain(5, 32))
