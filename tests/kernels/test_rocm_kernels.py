"""The shipped kernels for AMD: right on the cpu stack emulating each architecture, and what their code looks like."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.gemm_cdna import gemm_cdna
from flydsl.kernels.gemm_wmma import gemm_wmma
from flydsl.kernels.rows import layer_norm, rms_norm, softmax
from flydsl.kernels.transpose import transpose
from flydsl.kernels.vector_add import vector_add

ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SHAPES = [(1, 1), (3, 255), (5, 256), (2, 1000)]


@pytest.fixture
def emulate(monkeypatch: pytest.MonkeyPatch):
    def set_arch(arch: str) -> None:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    return set_arch


def tolerance(dtype) -> dict[str, float]:
    eps = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    return {"rtol": eps, "atol": eps}


def compiles(function, *args) -> None:
    for arch in ARCHES:
        artifact = flyc.compile(function, *args, target=f"rocm:{arch}").artifact
        assert artifact.kernels[0]["spills"] == 0 and artifact.kernels[0]["scratch"] == 0, arch


@pytest.mark.parametrize("dtype", DTYPES)
def test_vector_add(dtype):
    for n in (1, 255, 256, 1001):
        a, b = (torch.randn(n).to(dtype) for _ in range(2))
        c = torch.full((n,), float("nan")).to(dtype)
        vector_add(a, b, c)
        torch.testing.assert_close(c, a + b, **tolerance(dtype))
    compiles(vector_add, a, b, c)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_transpose(arch: str, emulate):
    compiles(transpose, torch.zeros(64, 64), torch.zeros(64, 64))
    emulate(arch)
    for m, n in ((1, 1), (32, 32), (33, 70), (100, 17)):
        src, dst = torch.randn(m, n), torch.full((n, m), float("nan"))
        transpose(src, dst)
        torch.testing.assert_close(dst, src.T, rtol=0, atol=0)


@pytest.mark.covering
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows(dtype, arch: str, emulate):
    eps = 0.7
    x, weight, bias = torch.randn(4, 100).to(dtype), torch.randn(100).to(dtype), torch.randn(100).to(dtype)
    out = torch.empty_like(x)
    compiles(softmax, x, out)
    compiles(rms_norm, x, weight, out, eps)
    compiles(layer_norm, x, weight, bias, out, eps)
    emulate(arch)
    for m, n in SHAPES:
        x, weight, bias = (3 * torch.randn(m, n)).to(dtype), torch.randn(n).to(dtype), torch.randn(n).to(dtype)
        wide, w, s = x.double(), weight.double(), bias.double()
        out = torch.full((m, n), float("nan")).to(dtype)
        softmax(x, out)
        torch.testing.assert_close(out.double(), torch.softmax(wide, -1), **tolerance(dtype))
        rms_norm(x, weight, out, eps)
        expected = wide / torch.sqrt((wide * wide).mean(-1, keepdim=True) + eps) * w
        torch.testing.assert_close(out.double(), expected, **tolerance(dtype))
        layer_norm(x, weight, bias, out, eps)
        expected = torch.nn.functional.layer_norm(wide, (n,), w, s, eps)
        torch.testing.assert_close(out.double(), expected, **tolerance(dtype))


def gemm_arguments(m: int, n: int, k: int, dtype, out):
    a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    c = torch.full((m, n), float("nan")).to(out)
    rows = [flyc.from_dlpack(t).mark_layout_dynamic(leading_dim=1, divisibility=8) for t in (a, b)]
    return [*rows, flyc.from_dlpack(c).mark_layout_dynamic(leading_dim=1)], c, a.double() @ b.double().T


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_gemm_code(arch: str):
    """The main loop holds all matrix instructions, wide loads, and no spills."""
    args, _, _ = gemm_arguments(128, 128, 64, torch.float16, torch.float32)
    artifact = flyc.compile(gemm_cdna, *args, target=f"rocm:{arch}").artifact
    info, asm = artifact.kernels[0], artifact.asm
    assert info["spills"] == 0 and info["scratch"] == 0 and info["shared"] == 32768
    # Two tiles of K are in the loop; the first tile's loads stand before it.
    each = 16 if arch == "gfx950" else 32
    assert len(re.findall(r"v_mfma_f32_16x16x", asm)) == 2 * each
    assert asm.count("buffer_load_dwordx4") == 3 * 4 and asm.count("ds_write_b128") == 3 * 4
    assert asm.count("ds_read_b128") == 2 * 8 and "ds_read_b64" not in asm
    head = asm[: asm.index("v_mfma")].rindex("\n.LBB")
    loop = asm[head : asm.index("s_cbranch_scc1", head)]
    # Few instructions besides: lanes do not compute the addresses of shared memory anew.
    assert len(re.findall(r"^\s+v_(?!mfma)", loop, re.M)) <= 20


@pytest.mark.covering
@pytest.mark.parametrize(
    ("arch", "m", "n", "k"),
    [("gfx90a", 128, 128, 64), ("gfx942", 200, 136, 96), ("gfx942", 33, 7, 104), ("gfx950", 131, 65, 8)],
)
@pytest.mark.parametrize(("dtype", "out"), [(torch.float16, torch.float32), (torch.bfloat16, torch.bfloat16)])
def test_gemm(arch: str, m: int, n: int, k: int, dtype, out, emulate):
    emulate(arch)
    args, c, expected = gemm_arguments(m, n, k, dtype, out)
    gemm_cdna(*args)
    close = {"rtol": 1e-4, "atol": 1e-4} if out is torch.float32 else tolerance(dtype)
    torch.testing.assert_close(c.double(), expected, **close)


def test_gemm_writes_only_its_result(emulate):
    """C is a window of a larger matrix, of odd sizes; what surrounds it stays."""
    emulate("gfx942")
    for m, n, k in ((33, 7, 104), (129, 131, 40)):
        a, b = torch.randn(m, k).half(), torch.randn(n, k).half()
        around = torch.full((m + 2, n + 5), float("nan"))
        c = around[1 : m + 1, 2 : n + 2]
        rows = [flyc.from_dlpack(t).mark_layout_dynamic(leading_dim=1, divisibility=8) for t in (a, b)]
        gemm_cdna(*rows, flyc.from_dlpack(c).mark_layout_dynamic(leading_dim=1))
        torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=1e-4, atol=1e-4)
        assert around.isnan().sum() == around.numel() - m * n


@pytest.mark.parametrize(("arch", "gemm"), [("gfx942", gemm_cdna), ("gfx1201", gemm_wmma)])
def test_gemm_refuses_what_it_would_read_wrongly(arch: str, gemm, emulate):
    emulate(arch)
    m, n, k = 40, 24, 16
    a, b, c = torch.randn(m, k).half(), torch.randn(n, k).half(), torch.zeros(m, n)
    for i, name in enumerate("abc"):
        turned = [a, b, c]
        turned[i] = turned[i].t().contiguous().t()
        with pytest.raises(ValueError, match=f"expects {name} with contiguous rows"):
            gemm(*turned)
    with pytest.raises(TypeError, match="got Float16 and Float32"):
        gemm(a, b.float(), c)


@pytest.mark.covering
@pytest.mark.parametrize("arch", ["gfx1100", "gfx1151", "gfx1200", "gfx1201", "gfx1250"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gemm_wmma(arch: str, dtype, emulate):
    args, c, expected = gemm_arguments(150, 130, 64, dtype, torch.float32)
    artifact = flyc.compile(gemm_wmma, *args, target=f"rocm:{arch}").artifact
    assert artifact.kernels[0]["spills"] == 0 and artifact.kernels[0]["scratch"] == 0
    assert len(re.findall("v_wmma_f32_16x16x", artifact.asm)) == 2 * (8 if arch == "gfx1250" else 16)
    assert artifact.asm.count("buffer_load_b128") == 3 * 4
    emulate(arch)
    gemm_wmma(*args)
    torch.testing.assert_close(c.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::flydsl.errors.UntrackedGlobalWarning")
def test_atom_made_outside_a_trace_is_still_checked():
    """The architecture is known when the atom is used."""
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16))

    @flyc.kernel
    def kernel(c: fx.Tensor):
        a, b = fx.make_rmem_tensor(4, fx.Float16), fx.make_rmem_tensor(4, fx.Float16)
        d = fx.make_rmem_tensor(4, fx.Float32)
        a.fill(1.0)
        b.fill(1.0)
        d.fill(0.0)
        fx.mma_atom_call(atom, d, a, b, d)
        c[fx.thread_idx.x] = d[0]

    @flyc.jit
    def run(c: fx.Tensor):
        kernel(c).launch(grid=1, block=64)

    c = np.zeros(64, np.float32)
    assert "v_mfma" in flyc.compile(run, c, target="rocm:gfx942").artifact.asm
    with pytest.raises((ValueError, RuntimeError), match="does not exist on gfx1100"):
        flyc.compile(run, c, target="rocm:gfx1100")
