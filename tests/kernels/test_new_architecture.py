"""To add an architecture is to add its entry: here two that LLVM knows and the table does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.errors import TargetError
from flydsl.kernels.gemm_cdna import gemm_cdna
from flydsl.kernels.gemm_wmma import gemm_wmma
from flydsl.kernels.rows import softmax
from flydsl.llvm.objects.code_object import read_code_object
from flydsl.target import ARCHITECTURES, GPUTarget, where

NEW = {"gfx9-4-generic": "gfx942", "gfx12-generic": "gfx1201"}
"""LLVM's names for what several chips have in common, and a chip to take the entry from."""
LACKING = {"mfma_xf32", "mfma_fp8_fnuz", "cvt_fp8", "fp8_fnuz"}


@pytest.fixture(params=NEW)
def arch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    like = ARCHITECTURES[NEW[request.param]]
    features = like.features - LACKING
    # A generic target has no features of LLVM that can be switched.
    entry = replace(like, name=request.param, family=request.param, features=features, switches=())
    monkeypatch.setitem(ARCHITECTURES, entry.name, entry)
    return entry.name


def matrices(dtype: torch.dtype, m: int = 64, n: int = 64, k: int = 64):
    shapes = ((m, k, dtype), (n, k, dtype), (m, n, torch.float32))
    return [torch.randn(rows, columns).to(t) for rows, columns, t in shapes]


@pytest.mark.parametrize("name", ["vector_add", "predicated_add", "tiled_copy", "tiled_mma"])
def test_examples_compile(arch: str, name: str, example):
    function, args = example(name).compile_args()
    artifact = flyc.compile(function, *args, target=f"rocm:{arch}").artifact
    code = read_code_object(artifact.binary("hsaco"))
    assert code.linked and arch in code.target_id
    assert code.kernels[0].wavefront_size == ARCHITECTURES[arch].warp_size
    assert all(used["occupancy"] >= 1 for used in artifact.resources.values())


def test_library_compiles(arch: str):
    x = torch.zeros(4, 1000)
    flyc.compile(softmax, x, x, target=f"rocm:{arch}")
    product = gemm_wmma if ARCHITECTURES[arch].warp_size == 32 else gemm_cdna
    assert flyc.compile(product, *matrices(torch.float16), target=f"rocm:{arch}").artifact.binary("hsaco")


def test_emulation(arch: str, emulate):
    emulate(arch)
    a, b, c = matrices(torch.bfloat16, 48, 40, 96)
    c.fill_(float("nan"))
    (gemm_wmma if ARCHITECTURES[arch].warp_size == 32 else gemm_cdna)(a, b, c)
    want = a.double() @ b.double().T
    np.testing.assert_allclose(c.numpy(), want.numpy(), rtol=1e-5, atol=1e-4)


def test_it_is_a_target_like_any_other(arch: str):
    target = GPUTarget.parse(arch.upper())
    assert target.key() == f"rocm:{arch}:w{ARCHITECTURES[arch].warp_size}"
    assert target.caps.shared_mem_per_block == 65536
    assert arch in where("mfma" if target.warp_size == 64 else "wmma_v2")
    with pytest.raises(TargetError, match="no feature 'xnack'"):
        GPUTarget.parse(f"{arch}:xnack+")


def test_without_its_entry_it_is_unknown():
    with pytest.raises(TargetError, match="Unknown rocm architecture 'gfx12-generic'"):
        GPUTarget.parse("gfx12-generic")
