"""The matrix products for NVIDIA GPUs: both compile without spills, and on a GPU agree with float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.covering import rows_of

import flydsl.compiler as flyc
from flydsl.kernels.gemm_sm80 import gemm_sm80
from flydsl.kernels.gemm_sm90 import gemm_sm90
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx
from flydsl.testing import assert_close


def aligned(t: torch.Tensor):
    return flyc.from_torch_tensor(t, assumed_align=16).mark_layout_dynamic(divisibility=8)


def usage(artifact) -> ptx.KernelUsage | None:
    if tools.try_find_tool("ptxas") is None:
        return None
    _, log = ptx.assemble(artifact.binary("ptx").decode())
    assert "warning" not in log.lower(), log
    (found,) = ptx.parse_log(log).values()
    return found


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sm80_compiles(dtype):
    args = [aligned(torch.zeros(256, 256).to(dtype)) for _ in range(3)]
    artifact = flyc.compile(gemm_sm80, *args, target="cuda:sm_80").artifact
    text = artifact.asm
    assert text.count("mma.sync.aligned.m16n8k16") == 64 and text.count("ldmatrix.sync.aligned.m8n8.x4") == 16
    assert text.count("cp.async.cg.shared.global") == 48  # whole tiles, and those across an edge
    used = usage(artifact)
    assert used is None or used.spill_stores == 0


@pytest.mark.covering
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sm90_compiles(dtype, cluster: int):
    args = [torch.zeros(256, 256).to(dtype) for _ in range(3)]
    artifact = flyc.compile(gemm_sm90, *args, 132, cluster, target="cuda:sm_90").artifact
    text = artifact.asm
    assert text.count("wgmma.mma_async.sync.aligned.m64n256k16") == 4
    assert ("multicast::cluster" in text) == (".reqnctapercluster 2" in text) == (cluster == 2)
    assert "setmaxnreg.inc" in text and "stmatrix.sync.aligned.m8n8.x4" in text
    # Placed by the compiler: one batch of products, and the two halves of a tile on their way out.
    assert text.count("wgmma.fence") == 1 and text.count("wgmma.commit_group") == 1
    assert text.count("fence.proxy.async") == 2
    used = usage(artifact)
    assert used is None or (used.spill_stores == 0 and used.registers == 168)


def _check(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None, activation="none"):
    a, b = a.double(), b.double()
    more = 0.0 if bias is None else bias.double()
    assert_close(
        c,
        ACTIVATED[activation](a @ b.T + more),
        terms=a.shape[1] + 1,
        magnitude=a.abs() @ b.abs().T + (0.0 if bias is None else bias.double().abs()),
        rtol=0.0 if activation in ("none", "relu") else 1e-5,  # an approximated power of two
        atol=0.0 if activation in ("none", "relu") else 1e-6,
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sm80_numbers(dtype, rng: np.random.Generator, device: str):
    tiles, runs = (5, 5) if device == "cuda" else (3, 2)
    for _ in range(runs):
        m, n, k = 128 * int(rng.integers(1, tiles)), 128 * int(rng.integers(1, tiles)), 32 * int(rng.integers(1, 20))
        a, b = (torch.from_numpy(rng.standard_normal((x, k))).to(dtype).to(device) for x in (m, n))
        c = torch.full((m, n), float("nan"), dtype=dtype, device=device)
        gemm_sm80(aligned(a), aligned(b), aligned(c))
        _check(c, a, b)


@pytest.mark.covering
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sm90_numbers(dtype, cluster: int, rng: np.random.Generator, device: str):
    """Any M and N, K a multiple of 8; few blocks, so that each works on several tiles."""
    rows, columns, depth, runs = (1000, 150, 200, 10) if device == "cuda" else (600, 100, 60, 4)
    for _ in range(runs):
        m, n, k = int(rng.integers(1, rows)), 8 * int(rng.integers(1, columns)), 8 * int(rng.integers(1, depth))
        a, b = (torch.from_numpy(rng.standard_normal((x, k))).to(dtype).to(device) for x in (m, n))
        c = torch.full((m, n), float("nan"), dtype=dtype, device=device)
        gemm_sm90(a, b, c, cluster * int(rng.integers(1, 12)), cluster)
        _check(c, a, b)


def _operands(m: int, n: int, k: int, dtype, out, rng: np.random.Generator, device: str):
    """A and B, whose rows may lie apart, and a poisoned C in a larger matrix, whose other elements must stay."""
    apart = k + 8 * int(rng.integers(0, 3))
    a, b = (torch.from_numpy(rng.standard_normal((x, apart))).to(dtype).to(device)[:, :k] for x in (m, n))
    whole = torch.full((m + 2, n), float("nan"), dtype=out, device=device)
    return a, b, whole


def _check_border(whole: torch.Tensor) -> None:
    assert whole[0].isnan().all() and whole[-1].isnan().all(), "rows outside C were written"


@pytest.mark.covering
@pytest.mark.parametrize("promised", [True, False])
@pytest.mark.parametrize("out", [torch.float32, torch.bfloat16])
def test_sm80_edges(promised: bool, out, rng: np.random.Generator, device: str):
    """Any extents: units where they are promised and whole, elements elsewhere."""
    cases = [(1, 1, 1), (77, 131, 45), (129, 8, 33)] if not promised else [(136, 200, 40), (130, 264, 8), (64, 8, 72)]
    if device == "cuda":
        cases += [tuple(int(rng.integers(1, 60)) * (8 if promised else 1) + 8 for _ in range(3)) for _ in range(10)]
    for m, n, k in cases:
        a, b, whole = _operands(m, n, k, torch.bfloat16, out, rng, device)
        c = whole[1:-1]
        gemm_sm80(*(aligned(t) if promised and t.data_ptr() % 16 == 0 else t for t in (a, b, c)))
        _check(c, a, b)
        _check_border(whole)


def strided(t: torch.Tensor):
    """Rows of units of which the last need not be whole."""
    return flyc.from_torch_tensor(t, assumed_align=16).mark_shape_dynamic((0, 1)).mark_stride_dynamic(0, 8)


def test_sm80_units_across_the_edge(rng: np.random.Generator, device: str):
    """Any K: what lies between the rows of A and B must not count, and is not a number here."""
    cases = [(77, 131, 45), (129, 8, 33), (3, 5, 1)]
    if device == "cuda":
        cases += [tuple(int(rng.integers(1, 400)) for _ in range(3)) for _ in range(10)]
    for m, n, k in cases:
        apart = -(-k // 8) * 8
        a, b = (torch.full((x, apart), float("nan")).bfloat16() for x in (m, n))
        for t in (a, b):
            t[:, :k] = torch.from_numpy(rng.standard_normal((t.shape[0], k)))
        a, b = a.to(device)[:, :k], b.to(device)[:, :k]
        c = torch.full((m, n), float("nan"), dtype=torch.float32, device=device)
        gemm_sm80(strided(a), strided(b), c)
        _check(c, a, b)


@pytest.mark.parametrize("cluster", [1, 2])
def test_sm90_odd_columns(cluster: int, rng: np.random.Generator, device: str):
    """Where C's rows are no multiples of 16 bytes, threads store them."""
    cases = [(65, 123, 72), (130, 257, 16)]
    if device == "cuda":
        cases += [
            (int(rng.integers(1, 600)), int(rng.integers(1, 900)), 8 * int(rng.integers(1, 90))) for _ in range(10)
        ]
    for m, n, k in cases:
        a, b, whole = _operands(m, n, k, torch.bfloat16, torch.bfloat16, rng, device)
        c = torch.full((m, n), float("nan"), dtype=torch.bfloat16, device=device)
        gemm_sm90(a, b, c, 2 * cluster, cluster)
        _check(c, a, b)


ACTIVATED = {
    "none": lambda x: x,
    "relu": torch.relu,
    "silu": torch.nn.functional.silu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}


ACTIVATED_TYPES = list(zip(ACTIVATED, [torch.float16, torch.bfloat16] * 2, strict=True))


@pytest.mark.parametrize(("activation", "dtype"), ACTIVATED_TYPES)
def test_sm90_bias_and_activation(activation: str, dtype, rng: np.random.Generator, device: str):
    shapes = [(70, 51, 24, dtype), (100, 264, 64, torch.float32)]
    for m, n, k, kind in shapes if device == "cuda" else shapes[:1]:
        a, b, _ = _operands(m, n, k, dtype, dtype, rng, device)
        bias = torch.from_numpy(rng.standard_normal(n)).to(kind).to(device)
        for add in (True, False) if device == "cuda" else (activation != "relu",):
            c = torch.full((m, n), float("nan"), dtype=dtype, device=device)
            gemm_sm90(a, b, c, 4, 1 + add, activation, bias if add else None)
            _check(c, a, b, bias if add else None, activation)


SM80_FORMS = [("none", True, torch.float32), ("relu", True, torch.bfloat16), ("silu", False, torch.float16),
              ("gelu_tanh", True, torch.float16)]  # fmt: skip


@pytest.mark.parametrize(("activation", "add", "dtype"), rows_of(SM80_FORMS, 2))
def test_sm80_bias_and_activation(activation: str, add: bool, dtype, rng: np.random.Generator, device: str):
    """Odd and whole tiles, with a bias of another type than C, which is what comes first in memory."""
    ab = torch.float16 if dtype == torch.float32 else dtype
    shapes = [(70, 51, 24, torch.float32), (136, 200, 40, torch.bfloat16)]
    if device == "cuda":
        shapes += [(*(int(rng.integers(1, 500)) for _ in range(3)), torch.float16) for _ in range(6)]
    for m, n, k, kind in shapes:
        a, b, whole = _operands(m, n, k, ab, dtype, rng, device)
        bias = torch.from_numpy(rng.standard_normal(n)).to(kind).to(device) if add else None
        c = whole[1:-1]
        if n % 8 == 0 and k % 8 == 0:
            gemm_sm80(aligned(a), aligned(b), aligned(c), activation, bias)
        else:
            gemm_sm80(a, b, c, activation, bias=bias)
        _check(c, a, b, bias, activation)
        _check_border(whole)


def test_sm80_without_a_bias_is_what_it_was():
    """What is left out costs nothing: no shared memory for it, no code."""
    args = [aligned(torch.zeros(256, 256).bfloat16()) for _ in range(3)]
    bias = torch.zeros(256)
    plain, same, more = (
        flyc.compile(gemm_sm80, *args, *rest, target="cuda:sm_80").artifact
        for rest in ((), ("none", None), ("none", bias))
    )
    assert plain.asm == same.asm and plain.key == same.key
    assert more.key != plain.key and more.asm.count("add.rn.f32") > plain.asm.count("add.rn.f32")
    used = usage(more)
    assert used is None or used.spill_stores == 0


@pytest.mark.parametrize("rest", [(gemm_sm90, 4, 1), (gemm_sm80,)])
def test_unknown_activation(rest):
    function, *numbers = rest
    a = torch.zeros(64, 64).bfloat16()
    with pytest.raises(ValueError, match="unknown activation 'tanh'; there are none, relu"):
        flyc.compile(function, a, a, a, *numbers, "tanh", target="cuda:sm_90")
