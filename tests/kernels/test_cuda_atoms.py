"""NVIDIA's atoms: every form compiles to its instruction, `ptxas` takes it, and on a GPU the numbers are right."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx
from flydsl.testing import assert_close


def _kernels():
    name = "flydsl_tests.cuda_kernels"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("cuda_kernels.py"))
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


K = _kernels()


TORCH = {
    fx.Float16: torch.float16, fx.BFloat16: torch.bfloat16, fx.Float32: torch.float32, fx.Float64: torch.float64,
    fx.Int8: torch.int8, fx.Uint8: torch.uint8, fx.Int32: torch.int32, fx.Float8E4M3FN: torch.float8_e4m3fn,
    fx.Float8E5M2: torch.float8_e5m2,
}  # fmt: skip


def compiled(function, args, arch: str = "sm_90") -> str:
    """PTX of a jit function for these arguments, after `ptxas` has taken it."""
    artifact = flyc.compile(function, *args, target=f"cuda:{arch}").artifact
    text = artifact.binary("ptx").decode()
    if tools.try_find_tool("ptxas") is not None:
        _, log = ptx.assemble(text)
        assert all(u.spill_stores == 0 for u in ptx.parse_log(log).values()), log
    return text


def random(shape, dtype, rng: np.random.Generator) -> torch.Tensor:
    """Random values that every format holds exactly enough for a tight bound."""
    if dtype in (torch.int8, torch.uint8):
        low = -100 if dtype == torch.int8 else 0
        return torch.from_numpy(rng.integers(low, 100, shape)).to(dtype)
    return torch.from_numpy(rng.standard_normal(shape)).to(dtype)


def check(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, tolerance: float) -> None:
    """Against the product in float64, with a share of what each element's products are together."""
    a, b = a.cpu().double(), b.cpu().double()
    assert_close(out, a @ b.T, atol=tolerance * (a.abs() @ b.abs().T))


MMA = [
    ((16, 8, 16), fx.Float16, fx.Float32, None, 1e-6, "f32.f16.f16.f32"),
    ((16, 8, 8), fx.Float16, fx.Float32, None, 1e-6, "f32.f16.f16.f32"),
    ((16, 8, 16), fx.Float16, fx.Float16, None, 2e-3, "f16.f16.f16.f16"),
    ((16, 8, 16), fx.BFloat16, fx.Float32, None, 1e-6, "f32.bf16.bf16.f32"),
    ((16, 8, 8), fx.BFloat16, fx.Float32, None, 1e-6, "f32.bf16.bf16.f32"),
    ((16, 8, 8), fx.Float32, fx.Float32, None, 2.0**-9, "f32.tf32.tf32.f32"),
    ((16, 8, 4), fx.Float32, fx.Float32, None, 2.0**-9, "f32.tf32.tf32.f32"),
    ((16, 8, 32), fx.Int8, fx.Int32, None, 0, "s32.s8.s8.s32"),
    ((16, 8, 16), fx.Int8, fx.Int32, None, 0, "s32.s8.s8.s32"),
    ((16, 8, 32), fx.Uint8, fx.Int32, fx.Int8, 0, "s32.u8.s8.s32"),
    ((16, 8, 32), fx.Float8E4M3FN, fx.Float32, None, 1e-5, "f32.e4m3.e4m3.f32"),
    ((16, 8, 32), fx.Float8E5M2, fx.Float32, None, 1e-5, "f32.e5m2.e5m2.f32"),
    ((16, 8, 32), fx.Float8E4M3FN, fx.Float32, fx.Float8E5M2, 1e-5, "f32.e4m3.e5m2.f32"),
    ((8, 8, 4), fx.Float64, fx.Float64, None, 1e-14, "f64.f64.f64.f64"),
    ((16, 8, 8), fx.Float64, fx.Float64, None, 1e-14, "f64.f64.f64.f64"),
]


@pytest.mark.parametrize(("mnk", "ab", "acc", "b", "tolerance", "text"), MMA)
def test_mma_compiles(mnk, ab, acc, b, tolerance, text):
    m, n, k = mnk
    shapes = ((4 * m, 2 * k), (4 * n, 2 * k), (4 * m, 4 * n))
    args = [torch.zeros(s).to(TORCH[t]) for s, t in zip(shapes, (ab, b or ab, acc), strict=True)]
    asm = compiled(K.mma_product(m, n, k, ab, acc, b), args)
    assert f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{text}" in asm


@pytest.mark.parametrize(("mnk", "ab", "acc", "b", "tolerance", "text"), MMA)
def test_mma_numbers(mnk, ab, acc, b, tolerance, text, rng: np.random.Generator, device: str):
    m, n, k = mnk
    rows, columns, depth = 8 * m, 4 * n, 3 * k
    x, y = (random((r, depth), TORCH[t], rng).to(device) for r, t in ((rows, ab), (columns, b or ab)))
    z = torch.full((rows, columns), 77).to(TORCH[acc]).to(device)
    K.mma_product(m, n, k, ab, acc, b)(x, y, z)
    check(z, x, y, tolerance)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("load", [True, False])
def test_matrix_copies_compile(load: bool, count: int, trans: bool):
    matrices, registers = torch.zeros(8 * count, 8).half(), torch.zeros(32, 2 * count).half()
    args = (matrices, registers) if load else (registers, matrices)
    word = f"{'ld' if load else 'st'}matrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16"
    assert word in compiled(K.matrix_move(load, count, trans), args)


def _registers(matrices: np.ndarray, count: int, trans: bool) -> np.ndarray:
    """What the lanes hold: register q of lane l has two values of row (or column) l / 4 of matrix q."""
    out = np.zeros((32, 2 * count), matrices.dtype)
    for lane in range(32):
        for q in range(count):
            matrix = matrices[8 * q : 8 * q + 8]
            matrix = matrix.T if trans else matrix
            out[lane, 2 * q : 2 * q + 2] = matrix[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
    return out


@pytest.mark.covering
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("load", [True, False])
def test_matrix_copies_move(load, count, trans, rng: np.random.Generator, device: str):
    matrices = rng.standard_normal((8 * count, 8)).astype(np.float16)
    registers = _registers(matrices, count, trans)
    src, expected = (matrices, registers) if load else (registers, matrices)
    dst = torch.full(expected.shape, float("nan")).half().to(device)
    K.matrix_move(load, count, trans)(torch.from_numpy(src).to(device), dst)
    np.testing.assert_array_equal(dst.cpu().numpy(), expected)


@pytest.mark.parametrize("bits", [32, 64, 128])
def test_cp_async_compiles(bits: int):
    args = [flyc.from_torch_tensor(torch.zeros(32, 64), assumed_align=16) for _ in range(2)]
    asm = compiled(K.cp_async_copy(bits), args, "sm_80")
    assert "cp.async.ca.shared.global [" in asm and f", {bits // 8};" in asm
    assert "cp.async.commit_group" in asm and "cp.async.wait_group" in asm


@pytest.mark.parametrize("bits", [32, 64, 128])
def test_cp_async_copies(bits: int, rng: np.random.Generator, device: str):
    src = random((32, 256), torch.float32, rng).to(device)
    dst = torch.full_like(src, float("nan"))
    args = [flyc.from_torch_tensor(x, assumed_align=16) for x in (src, dst)]
    K.cp_async_copy(bits)(*args)
    assert torch.equal(src, dst)


TMA = [
    (64, 64, 128, torch.bfloat16),
    (64, 32, 64, torch.float16),
    (32, 8, 32, torch.float32),
    (16, 32, 0, torch.float32),
]


@pytest.mark.parametrize(("rows", "columns", "width", "dtype"), TMA)
def test_tma_compiles(rows: int, columns: int, width: int, dtype):
    args = [torch.zeros(2 * rows, 2 * columns).to(dtype) for _ in range(3)]
    asm = compiled(K.tma_copy(rows, columns, width), args)
    assert "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" in asm
    assert "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group" in asm
    assert ".align 64 .b8" in asm and "cvta.param" in asm


@pytest.mark.parametrize(("rows", "columns", "width", "dtype"), TMA)
def test_tma_copies(rows, columns, width, dtype, rng: np.random.Generator, device: str):
    """Inside the tensor the data, outside zeros; the store leaves what is outside alone."""
    for _ in range(5):
        m = int(rng.integers(1, 4 * rows))
        n = int(rng.integers(1, 4 * columns // 8)) * 8
        src = random((m, n), dtype, rng).to(device)
        up = -(-m // rows) * rows, -(-n // columns) * columns
        padded = torch.full(up, 5.0).to(dtype).to(device)
        guard = torch.full((m + 3, n), 9.0).to(dtype).to(device)
        K.tma_copy(rows, columns, width)(src, padded, guard[:m])
        expected = torch.zeros(up).to(dtype)
        expected[:m, :n] = src.cpu()
        assert torch.equal(padded.cpu(), expected)
        assert torch.equal(guard[:m], src) and bool((guard[m:] == 9).all())


@pytest.mark.parametrize("op", ["add", "min", "max"])
def test_tma_reduce_compiles(op: str):
    asm = compiled(K.tma_reduce(op, 16, 32), (torch.zeros(16, 32), torch.zeros(16, 32), 3))
    assert f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile.bulk_group" in asm
    assert "elect.sync" in asm


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_tma_reduce_adds(dtype, rng: np.random.Generator, device: str):
    src = torch.from_numpy(rng.integers(-8, 8, (16, 32))).to(dtype).to(device)
    dst = torch.ones_like(src)
    K.tma_reduce("add", 16, 32)(src, dst, 5)
    assert torch.equal(dst, 5 * src + 1)


@pytest.mark.parametrize("size", [2, 4])
def test_clusters_compile(size: int):
    asm = compiled(K.cluster_ranks(size), (torch.zeros(8, 2, dtype=torch.int32),))
    assert f".reqnctapercluster {size}" in asm
    # The cluster scope would put a fence over all memory in front of every arrival.
    assert "mbarrier.arrive.shared::cluster.b64" in asm and "release.cluster.shared::cluster" not in asm


@pytest.mark.parametrize("size", [2, 4, 8])
def test_clusters_meet(size: int, device: str):
    out = torch.full((16, 2), -1, dtype=torch.int32, device=device)
    K.cluster_ranks(size)(out)
    expected = torch.tensor([[i % size, size] for i in range(16)], dtype=torch.int32)
    assert torch.equal(out.cpu(), expected)


WGMMA = [
    *(dict(n=n, depth=64, ab=fx.BFloat16, acc=fx.Float32) for n in (8, 24, 64, 128, 256)),
    dict(n=64, depth=64, ab=fx.Float16, acc=fx.Float32),
    dict(n=64, depth=64, ab=fx.Float16, acc=fx.Float16),
    dict(n=64, depth=32, ab=fx.BFloat16, acc=fx.Float32, widths=(64, 64)),
    dict(n=64, depth=16, ab=fx.BFloat16, acc=fx.Float32, widths=(32, 32)),
    dict(n=64, depth=64, ab=fx.BFloat16, acc=fx.Float32, widths=(0, 0)),
    dict(n=64, depth=64, ab=fx.BFloat16, acc=fx.Float32, widths=(128, 128), majors=("mn", "mn")),
    dict(n=128, depth=64, ab=fx.BFloat16, acc=fx.Float32, widths=(128, 128), majors=("k", "mn")),
    dict(n=64, depth=32, ab=fx.BFloat16, acc=fx.Float32, widths=(64, 64), majors=("mn", "mn")),
    dict(n=64, depth=32, ab=fx.BFloat16, acc=fx.Float32, widths=(32, 32), majors=("mn", "mn")),
    dict(n=64, depth=32, ab=fx.BFloat16, acc=fx.Float32, widths=(0, 0), majors=("mn", "mn")),
    dict(n=64, depth=64, ab=fx.BFloat16, acc=fx.Float32, registers=True),
    dict(n=64, depth=32, ab=fx.Float32, acc=fx.Float32),
    dict(n=64, depth=32, ab=fx.Float32, acc=fx.Float32, registers=True),
    dict(n=64, depth=128, ab=fx.Int8, acc=fx.Int32),
    dict(n=64, depth=128, ab=fx.Float8E4M3FN, acc=fx.Float32),
    dict(n=64, depth=128, ab=fx.Float8E5M2, acc=fx.Float32, registers=True),
]


def _wgmma_args(n: int, depth: int, ab, acc, rng: np.random.Generator | None = None, device: str = "cpu", **_):
    if rng is None:
        return [torch.zeros(s).to(TORCH[t]) for s, t in (((64, depth), ab), ((n, depth), ab), ((64, n), acc))]
    x, y = random((64, depth), TORCH[ab], rng), random((n, depth), TORCH[ab], rng)
    return [t.to(device) for t in (x, y, torch.full((64, n), 77).to(TORCH[acc]))]


@pytest.mark.parametrize("case", WGMMA, ids=lambda c: "-".join(str(v) for v in c.values()))
def test_wgmma_compiles(case):
    args = [flyc.from_torch_tensor(t) for t in _wgmma_args(**case)]
    asm = compiled(K.wgmma_product(**case), args)
    assert f"wgmma.mma_async.sync.aligned.m64n{case['n']}k{256 // case['ab'].width}." in asm
    assert ptx.ptx_header(asm).target == "sm_90a"


@pytest.mark.parametrize("case", WGMMA, ids=lambda c: "-".join(str(v) for v in c.values()))
def test_wgmma_numbers(case, rng: np.random.Generator, device: str):
    x, y, z = _wgmma_args(**case, rng=rng, device=device)
    K.wgmma_product(**case)(*[flyc.from_torch_tensor(t) for t in (x, y, z)])
    # fp8 products keep 13 bits below the largest exponent; tf32 drops operand bits.
    tolerance = {8: 3e-3, 32: 1e-3}.get(case["ab"].width, 2e-3 if case["acc"] is fx.Float16 else 1e-6)
    check(z, x, y, 0 if case["ab"] is fx.Int8 else tolerance)


def test_unsupported_is_refused_before_codegen():
    args = [torch.zeros(64, 64).bfloat16(), torch.zeros(32, 64).bfloat16(), torch.zeros(64, 32)]
    with pytest.raises(ValueError, match="e4m3|sm_89"):
        fp8 = [torch.zeros(64, 64).to(torch.float8_e4m3fn), torch.zeros(32, 64).to(torch.float8_e4m3fn), args[2]]
        flyc.compile(K.mma_product(16, 8, 32, fx.Float8E4M3FN, fx.Float32), *fp8, target="cuda:sm_80")
    with pytest.raises(ValueError, match="NVIDIA"):
        flyc.compile(K.mma_product(16, 8, 16, fx.BFloat16, fx.Float32), *args, target="rocm:gfx942")
    with pytest.raises(ValueError, match="k = 8 or 16"):
        fx.nvgpu.MMA(16, 8, 32, fx.Float16)
    with pytest.raises(ValueError, match="16x8"):
        fx.nvgpu.MMA(16, 16, 16, fx.Float16)
    with pytest.raises(ValueError, match="sm_90 alone"):
        static = [flyc.from_torch_tensor(t) for t in _wgmma_args(64, 64, fx.BFloat16, fx.Float32)]
        flyc.compile(K.wgmma_product(64, 64, fx.BFloat16, fx.Float32), *static, target="cuda:sm_100")
    with pytest.raises(ValueError, match="steps of 8"):
        fx.nvgpu.WGMMA(12, 16, fx.Float16)
    with pytest.raises(ValueError, match="128 bits"):
        fx.nvgpu.CpAsync(64, "cg")


def test_wgmma_refuses_layouts_it_cannot_read():
    """A plain row-major tile without a swizzle is none of the instruction's patterns."""
    static = [flyc.from_torch_tensor(t) for t in _wgmma_args(64, 64, fx.BFloat16, fx.Float32)]
    product = K.wgmma_product(64, 64, fx.BFloat16, fx.Float32, widths=(64, 128))
    with pytest.raises((ValueError, AssertionError)):
        flyc.compile(product, *static, target="cuda:sm_90")
