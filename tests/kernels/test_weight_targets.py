"""Packing weights and moving tokens compile for every kind of GPU."""

from __future__ import annotations

import pytest
import torch

import flydsl.compiler as flyc
from flydsl.kernels.experts.move import permute_rows, unpermute_rows
from flydsl.kernels.experts.sort import count_tokens, deal_tokens
from flydsl.kernels.matmul.few.slim import Weights
from flydsl.kernels.matmul.weight_kernels import find_scales, pack_weight, unpack_weight

W, S, P = (
    torch.zeros(64, 64, dtype=torch.bfloat16),
    torch.zeros(1, 64, dtype=torch.bfloat16),
    torch.zeros(1, 1, 1056).int(),
)
N = torch.zeros(64, dtype=torch.int32)
F = torch.zeros(64)
CALLS = {
    "scales": (find_scales, (W, S, 64, 64, 64, 1, 128, 7)),
    "pack": (pack_weight, (W, S, P, 64, 64, 64, 1, Weights(4, 128))),
    "unpack": (unpack_weight, (P, W, 64, 64, 64, Weights(8, 64))),
    "count": (count_tokens, (N, N, 64, 4)),
    "deal": (deal_tokens, (N, N, N, N, N, N, 64, 4)),
    "permute": (permute_rows, (W, N, W, 64, 1, 64, 64, 8)),
    "unpermute": (unpermute_rows, (W, N, F, W, 64, 64, 1, 64, 64, 64, 8)),
}


@pytest.mark.parametrize("target", ["cuda:sm_90", "rocm:gfx942", "rocm:gfx1201"])
@pytest.mark.parametrize("name", CALLS)
def test_compiles(name: str, target: str):
    function, arguments = CALLS[name]
    assert flyc.compile(function, *arguments, target=target).artifact.asm
