"""What compile hints and features do to AMD code: LLVM IR, attributes, instructions, registers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import TargetError, UnmetHintWarning
from flydsl.kernels.gemm_preshuffle import gemm_preshuffle


@flyc.kernel
def divide_kernel(a: fx.Tensor, b: fx.Tensor):
    i = fx.thread_idx.x
    b[i] = a[i] / (a[i] + b[i] * a[i])


@flyc.jit
def divide(a: fx.Tensor, b: fx.Tensor):
    divide_kernel(a, b).launch(grid=1, block=64)


@flyc.kernel
def hungry_kernel(a: fx.Tensor, b: fx.Tensor):
    i = fx.thread_idx.x
    v, w = ([a[i + 64 * j + k] for j in range(96)] for k in (0, 7))
    for r in fx.range_constexpr(3):
        v = [v[j] * w[(j + r) % 96] + v[(j + 17) % 96] for j in range(96)]
    for j in fx.range_constexpr(96):
        b[i + 64 * j] = v[j]


@flyc.jit
def hungry(a: fx.Tensor, b: fx.Tensor):
    hungry_kernel(a, b).launch(grid=1, block=64)


A = np.zeros(8192, np.float32)


def compiled(function, hints=None, arch="gfx942"):
    return flyc.compile[hints or {}](function, A, A, target=f"rocm:{arch}").artifact


def test_division_is_exact_without_hints():
    artifact = compiled(divide)
    assert "v_div_fmas_f32" in artifact.asm and not re.search("fdiv (fast|reassoc|arcp)", artifact.llvm_ir)


@pytest.mark.parametrize(
    ("hints", "flags"),
    [
        ({"fast_fp_math": True}, "fast"),
        ({"unsafe_fp_math": True}, "reassoc nsz arcp contract afn"),
        ({"fastmath": "arcp,afn"}, "arcp afn"),
        ({"fastmath": "nnan,contract"}, "nnan contract"),
        ({"fast_fp_math": True, "unsafe_fp_math": True}, "fast"),
        ({"fast_fp_math": True, "fastmath": "contract"}, "contract"),
    ],
)
def test_float_hints(hints, flags: str):
    artifact = compiled(divide, hints)
    found = {
        op: set(words.split()) for op, words in re.findall(r"= (fdiv|fadd|fmul) ([a-z ]+?) float", artifact.llvm_ir)
    }
    assert found.keys() == {"fdiv", "fadd", "fmul"}
    assert all(words == set(flags.split()) for words in found.values()), found
    exact = "v_div_fmas_f32" in artifact.asm
    assert exact == (not {"fast", "afn"} & set(flags.split()))
    # An addition of a product becomes one instruction where contraction is allowed.
    fused = "v_fma" in artifact.asm.split("v_div_scale")[0] or "v_fmac" in artifact.asm.split("v_div_scale")[0]
    assert fused == bool({"fast", "contract"} & set(flags.split()))


def test_false_hints_change_nothing():
    off = compiled(divide, {"fast_fp_math": False, "unsafe_fp_math": False})
    assert off.llvm_ir == compiled(divide).llvm_ir


@pytest.mark.covering
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("limit", [96, 128])
def test_maxnreg(arch: str, limit: int):
    assert compiled(hungry, arch=arch).kernels[0]["registers"] > 128
    found = compiled(hungry, {"maxnreg": limit}, arch).kernels[0]
    assert limit - 32 < found["registers"] <= limit and found["spills"] > 0


def test_maxnreg_that_is_not_kept_warns():
    """Shared memory lets only two waves run, so LLVM sees no reason to use less than half of the registers."""
    matrix = flyc.from_dlpack(np.zeros((128, 128), np.float16)).mark_layout_dynamic(leading_dim=1, divisibility=8)
    with pytest.warns(UnmetHintWarning, match=r"uses \d+ registers, more than maxnreg=100"):
        flyc.compile[{"maxnreg": 100}](gemm_preshuffle, *[matrix] * 3, target="rocm:gfx942")


@pytest.mark.parametrize(("hint", "text"), [(4, "4"), ((1, 2), "1,2"), ("2,4", "2,4")])
def test_waves_per_eu(hint, text: str):
    artifact = compiled(hungry, {"waves_per_eu": hint})
    assert f'"amdgpu-waves-per-eu"="{text}"' in artifact.optimized_ir
    least = int(text.split(",")[0])
    assert artifact.kernels[0]["occupancy"] >= least
    assert artifact.kernels[0]["registers"] <= 512 // least


# --- features -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-"),
        ("gfx90a:xnack+", "gfx90a:xnack+"),
        ("gfx1250:xnack+", "gfx1250:xnack+"),
        ("gfx942", "gfx942"),
        ("gfx1100:cumode+", "gfx1100"),
    ],
)
def test_features(arch: str, name: str):
    from flydsl.llvm.objects.code_object import read_code_object

    artifact = compiled(divide, arch=arch)
    assert f'.amdgcn_target "amdgcn-amd-amdhsa--{name}"' in artifact.asm
    assert read_code_object(artifact.binary("hsaco")).target_id == f"amdgcn-amd-amdhsa--{name}"


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("gfx1100:xnack+", "gfx1100 has no feature 'xnack'.*it has: cumode"),
        ("gfx942:quick+", "gfx942 has no feature 'quick'.*sramecc, xnack, tgsplit"),
        ("gfx1100:wavefrontsize64+", "waves of 32 lanes"),
    ],
)
def test_features_the_chip_lacks(arch: str, message: str):
    with pytest.raises(TargetError, match=message):
        compiled(divide, arch=arch)
