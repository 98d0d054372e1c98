"""Every shipped kernel for AMD as it is by default, on every architecture it is for: no spills, no scratch."""

from __future__ import annotations

import pytest
import torch

import flydsl.compiler as flyc
from flydsl.kernels.gemm_cdna import gemm_cdna
from flydsl.kernels.gemm_preshuffle import gemm_preshuffle, gemm_preshuffle_scaled
from flydsl.kernels.gemm_wmma import gemm_wmma
from flydsl.kernels.rows import layer_norm, rms_norm, softmax
from flydsl.kernels.transpose import transpose
from flydsl.kernels.vector_add import vector_add
from flydsl.llvm.objects.code_object import read_code_object

EVERY = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201", "gfx1250")
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def check(arch: str, function, *args) -> None:
    artifact = flyc.compile(function, *args, target=f"rocm:{arch}").artifact
    for name, used in artifact.resources.items():
        assert used["spills"] == 0 and used["scratch"] == 0, name
        assert used["occupancy"] >= 1
    found = read_code_object(artifact.binary("hsaco"))
    assert found.target_id == f"amdgcn-amd-amdhsa--{arch}" and found.linked


def matrices(dtype, out):
    shapes = ((256, 128, dtype), (256, 128, dtype), (256, 256, out))
    return [
        flyc.from_dlpack(torch.zeros(m, n).to(t)).mark_layout_dynamic(leading_dim=1, divisibility=8)
        for m, n, t in shapes
    ]


@pytest.mark.parametrize("arch", EVERY)
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
def test_kernels_for_every_architecture(arch: str, dtype):
    x, row = torch.zeros(4, 1000).to(dtype), torch.zeros(1000).to(dtype)
    check(arch, vector_add, row, row, row)
    check(arch, transpose, x, torch.zeros(1000, 4).to(dtype))
    check(arch, softmax, x, x)
    check(arch, rms_norm, x, row, x, 1e-5)
    check(arch, layer_norm, x, row, row, x, 1e-5)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_mfma_product(arch: str, dtype):
    check(arch, gemm_cdna, *matrices(dtype, F32))
    check(arch, gemm_cdna, *matrices(dtype, dtype))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("arch", [arch for arch in EVERY if arch.startswith("gfx1")])
def test_wmma_product(arch: str, dtype):
    check(arch, gemm_wmma, *matrices(dtype, F32))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_preshuffled_product(arch: str):
    fp8 = torch.float8_e4m3fnuz if arch == "gfx942" else torch.float8_e4m3fn
    for dtype in (F16, BF16, fp8):
        check(arch, gemm_preshuffle, *matrices(dtype, BF16))
    check(arch, gemm_preshuffle_scaled, *matrices(fp8, BF16), torch.zeros(256), torch.zeros(256))
