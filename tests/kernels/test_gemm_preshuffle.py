"""The matrix product with preshuffled weights: numbers on the cpu stack emulating each architecture, and its code."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.kernels.gemm_preshuffle import (
    gemm_preshuffle,
    gemm_preshuffle_scaled,
    matmul_preshuffled,
    preshuffle_weights,
)

FP8 = {"gfx942": torch.float8_e4m3fnuz, "gfx950": torch.float8_e4m3fn}
BF8 = {"gfx942": torch.float8_e5m2fnuz, "gfx950": torch.float8_e5m2}


def element_type(arch: str, name: str) -> torch.dtype:
    return {"f16": torch.float16, "bf16": torch.bfloat16, "fp8": FP8[arch], "bf8": BF8[arch]}[name]


@pytest.fixture
def emulate(monkeypatch: pytest.MonkeyPatch):
    def set_arch(arch: str) -> None:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    return set_arch


def operands(m: int, n: int, k: int, dtype: torch.dtype):
    a, w = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    return a, w, a.double() @ w.double().T


def dynamic(*matrices: torch.Tensor):
    return [flyc.from_dlpack(x).mark_layout_dynamic(leading_dim=1, divisibility=4) for x in matrices]


# --- the order of the weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "unit"), [(np.float16, 8), (np.int8, 16), (np.float32, 4)])
def test_preshuffled_order(dtype, unit: int):
    n, k = 48, 12 * unit
    w = np.arange(n * k).astype(dtype).reshape(n, k)
    flat = preshuffle_weights(w).reshape(-1)
    assert flat.size == n * k and flat.base is not w
    for row in range(0, n, 7):
        for column in range(0, k, 5):
            block, group, element = column // (4 * unit), column // unit % 4, column % unit
            at = (((row // 16 * (k // (4 * unit)) + block) * 4 + group) * 16 + row % 16) * unit + element
            assert flat[at] == w[row, column]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fnuz])
def test_torch_weights_move_as_numpy_ones_do(dtype):
    w = torch.randn(32, 256).to(dtype)
    moved = preshuffle_weights(w)
    assert moved.dtype == dtype and moved.shape == w.shape and moved.is_contiguous()
    as_bytes = w.view(torch.uint8).numpy().view(f"u{dtype.itemsize}")
    assert (moved.view(torch.uint8).numpy().view(f"u{dtype.itemsize}") == preshuffle_weights(as_bytes)).all()


@pytest.mark.parametrize("shape", [(17, 64), (16, 40)])
def test_weights_that_do_not_fit_are_refused(shape):
    with pytest.raises(ValueError, match="multiple of 16 and K of 32"):
        preshuffle_weights(np.zeros(shape, np.float16))
    with pytest.raises(TypeError, match="expects a matrix"):
        preshuffle_weights(np.zeros(16, np.float16))


# --- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("kind", ["f16", "bf16", "fp8", "bf8"])
def test_numbers(arch: str, kind: str, emulate):
    """Odd M, N that ends inside a block, one, two and three tiles of K; nothing is written outside C."""
    emulate(arch)
    dtype = element_type(arch, kind)
    tile = 128 // dtype.itemsize
    for m, n, k in ((1, 16, tile), (33, 80, 2 * tile), (75, 64, 3 * tile)):
        a, w, expected = operands(m, n, k, dtype)
        wide = torch.full((m + 2, n + 16), float("nan"))
        inside = wide[1 : m + 1, :n]
        gemm_preshuffle(*dynamic(a, preshuffle_weights(w), inside), 32, 64)
        torch.testing.assert_close(inside.double(), expected, rtol=1e-5, atol=1e-4)
        assert wide[0].isnan().all() and wide[m + 1].isnan().all() and wide[:, n:].isnan().all()


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_default_block(arch: str, emulate):
    emulate(arch)
    a, w, expected = operands(141, 176, 192, torch.bfloat16)
    c = torch.full((141, 176), float("nan"), dtype=torch.bfloat16)
    matmul_preshuffled(a, preshuffle_weights(w), c)
    torch.testing.assert_close(c.double(), expected, rtol=8e-3, atol=1e-2)


def test_scales_and_rows_of_a_larger_matrix(emulate):
    emulate("gfx942")
    a, w, expected = operands(45, 64, 256, torch.float8_e4m3fnuz)
    wide = torch.zeros(45, 384).to(torch.float8_e4m3fnuz)
    wide[:, :256] = a
    rows, columns = torch.rand(45), torch.rand(64)
    c = torch.full((45, 64), float("nan"), dtype=torch.float16)
    matrices = dynamic(wide[:, :256], preshuffle_weights(w), c)
    vectors = [flyc.from_dlpack(x).mark_layout_dynamic() for x in (rows, columns)]
    gemm_preshuffle_scaled(*matrices, *vectors, 32, 64)
    expected = expected * rows.double()[:, None] * columns.double()
    torch.testing.assert_close(c.double(), expected, rtol=2e-3, atol=1e-3)


# --- mistakes -----------------------------------------------------------------------------------------------------


def test_bad_arguments():
    half = torch.zeros(32, 64, dtype=torch.float16)
    out = torch.zeros(32, 32)
    with pytest.raises(ValueError, match=r"expects a \(M, K\), w \(N, K\) and c \(M, N\)"):
        matmul_preshuffled(half, half[:, :32], out)
    with pytest.raises(TypeError, match="a is torch.float16 and w is torch.bfloat16"):
        matmul_preshuffled(half, half.bfloat16(), out)
    with pytest.raises(ValueError, match="K of 64"):
        matmul_preshuffled(half[:, :32], half[:, :32], out)
    with pytest.raises(ValueError, match="vectors of 32 rows and 32 columns"):
        matmul_preshuffled(half, half, out, (torch.zeros(32), torch.zeros(31)))
    args = dynamic(half, half, out)
    with pytest.raises(ValueError, match="block_m"):
        flyc.compile(gemm_preshuffle, *args, 48, 64, target="rocm:gfx942")
    with pytest.raises(ValueError, match="gfx942 and gfx950, not for gfx90a"):
        flyc.compile(gemm_preshuffle, *args, target="rocm:gfx90a")
    wide = dynamic(torch.zeros(32, 64), torch.zeros(32, 64), out)
    with pytest.raises(TypeError, match="f16, bf16 or fp8"):
        flyc.compile(gemm_preshuffle, *wide, target="rocm:gfx942")


# --- code ---------------------------------------------------------------------------------------------------------

MNEMONIC = {
    ("gfx942", "f16"): ("v_mfma_f32_16x16x16_f16", 128),
    ("gfx942", "bf16"): ("v_mfma_f32_16x16x16_bf16", 128),
    ("gfx942", "fp8"): ("v_mfma_f32_16x16x32_fp8_fp8", 128),
    ("gfx950", "f16"): ("v_mfma_f32_16x16x32_f16", 64),
    ("gfx950", "bf16"): ("v_mfma_f32_16x16x32_bf16", 64),
    ("gfx950", "fp8"): ("v_mfma_scale_f32_16x16x128_f8f6f4", 32),
}
"""Instruction, and how often it stands in the main loop: two tiles of 128 x 128 x 128 bytes, four waves."""


def main_loop(asm: str) -> list[str]:
    """Mnemonics of the loop with the most matrix instructions."""
    parts = re.split(r"^(\.LBB\w+):", asm, flags=re.M)
    loops: list[list[str]] = []
    for label, body in zip(parts[1::2], parts[2::2], strict=True):
        head, branch, _ = body.partition(f"s_cbranch_scc1 {label}")
        if branch:
            loops.append(re.findall(r"^\t([a-z]\w+)", head, flags=re.M))
    return max(loops, key=lambda names: sum("mfma" in name for name in names))


@pytest.mark.parametrize(("arch", "kind"), MNEMONIC)
def test_main_loop(arch: str, kind: str):
    dtype = element_type(arch, kind)
    matrices = dynamic(*operands(256, 256, 512, dtype)[:2], torch.zeros(256, 256, dtype=torch.bfloat16))
    artifact = flyc.compile(gemm_preshuffle, *matrices, target=f"rocm:{arch}").artifact
    info = artifact.kernels[0]
    assert info["spills"] == 0 and info["scratch"] == 0 and info["shared"] == 32768
    assert info["registers"] + info["agprs"] <= 256  # two waves on a SIMD
    names = Counter(main_loop(artifact.asm))
    mnemonic, count = MNEMONIC[arch, kind]
    assert names.pop(mnemonic) == count
    assert names.pop("buffer_load_dwordx4") == 2 * (4 + 4) and names.pop("ds_read_b128") == 2 * 16
    assert names.pop("s_barrier") == 2
    # Half of the loads fetch A: into registers and from there to shared memory, or straight into it.
    straight = len(re.findall(r"buffer_load_dwordx4 v\d+, .* lds$", artifact.asm, re.M))
    # The first tile, which may be the end of K, is never copied straight.
    assert (names.pop("ds_write_b128", 0), straight) == ((2 * 4, 0) if arch == "gfx942" else (0, 3 * 4))
    # Nothing else touches memory, and no lane computes addresses.
    assert not [name for name in names if name.startswith(("v_", "ds_", "buffer_", "global_", "scratch_"))], names


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_loads_are_spread_over_the_products(arch: str):
    """What the scheduling hints are for: no more than a few matrix instructions, or memory instructions, in a row."""
    matrices = dynamic(*operands(256, 256, 512, torch.float16)[:2], torch.zeros(256, 256))
    artifact = flyc.compile(gemm_preshuffle, *matrices, target=f"rocm:{arch}").artifact
    kinds = ["m" if "mfma" in name else "x" for name in main_loop(artifact.asm) if re.match("v_mfma|ds_|buffer_", name)]
    runs = [len(run) for run in re.findall("m+|x+", "".join(kinds))]
    assert max(runs) <= 4


def test_waits_leave_loads_under_way():
    """Before the barrier a wave waits for its copies of A, not for the weights it asked for after them."""
    matrices = dynamic(*operands(256, 256, 512, torch.float16)[:2], torch.zeros(256, 256))
    asm = flyc.compile(gemm_preshuffle, *matrices, target="rocm:gfx950").artifact.asm
    loop = asm.split("v_mfma", 1)[1].rpartition("s_cbranch_scc1")[0]
    waits = re.findall(r"s_waitcnt (.*)\n\s*s_barrier", loop)
    assert waits[:2] == ["vmcnt(4) lgkmcnt(0)"] * 2
    assert "vmcnt(0)" not in loop.split("s_cbranch")[0]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_checked_mode_finds_no_race(arch: str, emulate, monkeypatch: pytest.MonkeyPatch):
    emulate(arch)
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    a, w, expected = operands(40, 64, 320, torch.float16)
    c = torch.full((40, 64), float("nan"))
    gemm_preshuffle(*dynamic(a, preshuffle_weights(w), c), 32, 64)
    torch.testing.assert_close(c.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.covering
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize(("block_m", "block_n"), [(32, 64), (64, 256), (256, 64), (256, 128)])
def test_other_blocks_do_not_spill(arch: str, block_m: int, block_n: int):
    matrices = dynamic(*operands(256, 256, 512, torch.bfloat16)[:2], torch.zeros(256, 256))
    info = flyc.compile(gemm_preshuffle, *matrices, block_m, block_n, target=f"rocm:{arch}").artifact.kernels[0]
    assert info["spills"] == 0 and info["scratch"] == 0
