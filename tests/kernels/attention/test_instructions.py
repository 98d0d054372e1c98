"""Instructions that the Hopper kernels count on."""

from __future__ import annotations

import operator
import re

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels.attention.wide.form import Wide
from flydsl.kernels.attention.wide.hopper import hopper_backward_wide
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx


@flyc.kernel
def powers_kernel(x: fx.Tensor):
    at = fx.thread_idx.x
    x[at] = fx.exp2(x[at], fastmath="fast") + fx.exp2(x[at] * 2.0, fastmath="afn")


@flyc.jit
def powers(x: fx.Tensor):
    powers_kernel(x).launch(grid=1, block=32)


def test_fast_powers_flush_denormal_numbers():
    text = flyc.compile(powers, np.zeros(32, "f4"), target="cuda:sm_90a").artifact.binary("ptx").decode()
    assert text.count("ex2.approx.ftz.f32") == 1
    assert text.count("ex2.approx.f32") == 1


@flyc.kernel
def bytes_kernel(x: fx.Pointer, y: fx.Pointer):
    values = fx.make_rmem_tensor(fx.make_layout(4, 1), fx.Float32)
    for i in fx.range_constexpr(4):
        values[i] = x[4 * fx.thread_idx.x + i]
    made = fx.nvgpu.to_fp8(values.load(), y.dtype)
    for i in fx.range_constexpr(4):
        y[4 * fx.thread_idx.x + i] = made[i]


@flyc.jit
def to_bytes(x: fx.Tensor, y: fx.Tensor):
    bytes_kernel(fx.get_iter(x), fx.get_iter(y)).launch(grid=1, block=32)


@pytest.mark.parametrize(("dtype", "most"), [(torch.float8_e4m3fn, 448.0), (torch.float8_e5m2, 57344.0)])
def test_packed_conversions_saturate(dtype: torch.dtype, most: float, rng: np.random.Generator, emulate):
    x = torch.from_numpy(rng.standard_normal(128) * 10.0 ** rng.integers(-8, 6, 128)).float()
    x[:4] = torch.tensor([float("inf"), -1e30, float("nan"), most * 1.01])
    y = torch.zeros(128, dtype=dtype)
    text = flyc.compile(to_bytes, x, y, target="cuda:sm_89").artifact.binary("ptx").decode()
    assert text.count("cvt.rn.satfinite.e") == 2
    emulate("sm_90")
    to_bytes(x, y)
    torch.testing.assert_close(y.float(), x.clamp(-most, most).to(dtype).float(), rtol=0, atol=0, equal_nan=True)
    with pytest.raises(DSLValueError, match="sm_80"):
        flyc.compile(to_bytes, x, y, target="cuda:sm_80")


@flyc.kernel
def widened_kernel(x: fx.Pointer, y: fx.Pointer):
    values = fx.make_rmem_tensor(fx.make_layout(8, 1), x.dtype)
    for i in fx.range_constexpr(8):
        values[i] = x[8 * fx.thread_idx.x + i]
    made = fx.nvgpu.from_fp8(values.load())
    for i in fx.range_constexpr(8):
        y[8 * fx.thread_idx.x + i] = made[i]


@flyc.jit
def widened(x: fx.Tensor, y: fx.Tensor):
    widened_kernel(fx.get_iter(x), fx.get_iter(y)).launch(grid=1, block=32)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_every_byte_is_widened(dtype: torch.dtype, emulate):
    x, y = torch.arange(256, dtype=torch.uint8).view(dtype), torch.zeros(256, dtype=torch.float16)
    text = flyc.compile(widened, x, y, target="cuda:sm_89").artifact.binary("ptx").decode()
    assert text.count("cvt.rn.f16x2.e") == 4
    emulate("sm_90")
    widened(x, y)
    torch.testing.assert_close(y, x.half(), rtol=0, atol=0, equal_nan=True)
    with pytest.raises(DSLTypeError, match="from_fp8 takes"):
        flyc.compile(widened, y, y, target="cuda:sm_90")
    with pytest.raises(DSLValueError, match="sm_80"):
        flyc.compile(widened, x, y, target="cuda:sm_80")


@flyc.kernel
def product_kernel(y: fx.Pointer, stage: fx.Int32, how: fx.Constexpr[str]):
    nv = fx.nvgpu
    mma = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(64, 16, fx.BFloat16)), fx.make_layout((1, 1, 1), (0, 0, 0)))
    start = fx.get_dyn_shared(fx.BFloat16)
    if fx.const_expr(how != "at the start"):
        start = start + 8192
    if fx.const_expr(how == "anywhere"):
        start = start + fx.block_idx.x * 8192
    if fx.const_expr(how == "backwards"):
        start = start + (16384 - fx.block_idx.x * 8192)
    place = fx.apply_swizzle(start, fx.static(fx.SwizzleType.get(3, 4, 3)))
    both = fx.make_view(place, fx.make_layout((64, 64, 2), (64, 1, 4096)))
    part = mma.get_slice(0)
    a, b = part.partition_A(both), part.partition_B(both)
    sums = fx.make_rmem_tensor(fx.make_layout(((2, 2, 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)
    sums.fill(0.0)
    for k in fx.range_constexpr(4):
        fx.gemm(mma, sums, a[None, None, k, 0], b[None, None, k, stage], sums)
    nv.wgmma_wait(0, sums)
    values = sums.load().reshape(32)
    for i in fx.range_constexpr(8):
        nv.add_global(y + fx.thread_idx.x * 32 + 4 * i, values.shuffle(values, [4 * i + e for e in range(4)]))


@flyc.jit
def product(y: fx.Tensor, stage: fx.Int32, how: fx.Constexpr[str]):
    product_kernel(fx.get_iter(y), stage, how).launch(grid=1, block=128, smem=49152)


@pytest.mark.parametrize("how", ["at the start", "behind", "anywhere"])
def test_descriptors_of_one_operand_differ_by_an_addition(how: str):
    text = flyc.compile(product, np.zeros(4096, "f4"), 1, how, target="cuda:sm_90a").artifact.binary("ptx").decode()
    assert text.count("wgmma.mma_async") == 4
    # The address of each operand is cut to a field of the descriptor once.
    assert sum(text.count(word) for word in ("bfe.u", "shr.u")) <= 2
    assert text.count("red.relaxed.gpu.global.add.v4.f32") == 8


_BINARY = re.compile(r"(%v\d+) = (add|sub|mul|and|or|lshr|ashr|shl) (?:\w+ )*i\d+ ([%\w-]+), ([%\w-]+)")
_SAME = re.compile(r"(%v\d+) = (?:zext|sext|trunc|ptrtoint) .*?([%@][\w.]+) to i\d+")
_WORK = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_, "or": operator.or_,
    "lshr": operator.rshift, "ashr": operator.rshift, "shl": operator.lshift,
}  # fmt: skip


def evaluated(text: str, known: dict[str, int]) -> list[list[int]]:
    """The 64-bit operands of each product, by executing what computes them."""
    values = dict(known)
    found: list[list[int]] = []
    for line in text.splitlines():
        if made := _BINARY.search(line):
            name, op, *sides = made.groups()
            if all(x in values or x.lstrip("-").isdigit() for x in sides):
                left, right = (values[x] if x in values else int(x) for x in sides)
                values[name] = _WORK[op](left, right)
        elif made := _SAME.search(line):
            if made[2] in values:
                values[made[1]] = values[made[2]]
        elif "ctaid.x" in line and "=" in line:
            values[line.split()[0]] = known["block"]
        elif "mma_async" in line:
            found.append([values[x] for x in re.findall(r"i64 (%v\d+)", line)])
    return found


@pytest.mark.parametrize("how", ["at the start", "behind", "anywhere", "backwards"])
def test_descriptors_are_those_of_their_steps(how: str):
    compiled = flyc.compile(product, np.zeros(4096, "f4"), 1, how, target="cuda:sm_90a")
    text = compiled.artifact.sections["llvm"].decode()
    for stage, block, rank in ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 2, 0), (0, 0, 1), (1, 1, 7)):
        # A block of a cluster has its number above the bits that a descriptor takes, where another field is.
        found = evaluated(text, {"@__dynamic_shared_0": rank << 24 | 1024, "%a1": stage, "block": block})
        first = 1024 + 16384 * (how != "at the start") + 16384 * block * {"anywhere": 1, "backwards": -1}.get(how, 0)
        first += 2 * 16384 * (how == "backwards")
        starts = [[first + 32 * k, first + 8192 * stage + 32 * k] for k in range(4)]
        assert [[d & 0xFFFF for d in pair] for pair in found] == [[x >> 4 for x in pair] for pair in starts]
        assert {d >> 16 for pair in found for d in pair} == {0x4000_0040_0001}


@flyc.kernel
def adding_kernel(y: fx.Pointer):
    at = fx.thread_idx.x % 2 * 4
    fx.nvgpu.add_global(y + at, fx.Vector.from_elements([fx.Float32(i + 0.5) for i in range(4)], fx.Float32))
    fx.nvgpu.add_global(y + at, fx.Vector.filled(2, 1.0, fx.Float32))


@flyc.jit
def adding(y: fx.Tensor):
    adding_kernel(fx.get_iter(y)).launch(grid=2, block=32)


@pytest.mark.parametrize("arch", ["native", "sm_90a"])
def test_several_values_are_added(arch: str, emulate):
    emulate(arch)
    y = np.arange(8, dtype="f4")
    adding(y)
    np.testing.assert_array_equal(y, np.arange(8) + 32 * np.array([1.5, 2.5, 2.5, 3.5] * 2))


@pytest.mark.parametrize(
    ("d", "dv", "cluster", "more"),
    [
        (192, 128, 1, {}),
        (192, 192, 2, {}),
        (256, 256, 1, {}),
        (256, 256, 2, {}),
        (256, 256, 2, {"packed_q": True, "packed_k": True}),
        (256, 256, 2, {"softcap": True}),
    ],
)
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.covering
def test_gradients_of_long_rows_fit_registers(d: int, dv: int, cluster: int, more: dict[str, bool], right: bool):
    if tools.try_find_tool("ptxas") is None:
        pytest.skip("no ptxas on this machine")
    form = Wide(d, dv, right, False, cluster=cluster, **more).in_order()
    q, v = (torch.zeros(1, 128, 1, x, dtype=torch.bfloat16) for x in (d, dv))
    sums = torch.zeros(128 * form.width)
    strides = [d, d, 128 * d] * 2 + [dv, dv, 128 * dv] * 3
    numbers = 128, 128, 1, 1, 1, 128, 128, 1, 1, *strides, 0, 0, 1.0, 1.0, 0, 0, 1.0, form
    cu = torch.zeros(2, dtype=torch.int32) if form.packed_k else None
    given = q, q, v, v, v, sums, sums, sums, None, q, q, v, cu, cu, *numbers
    text = flyc.compile(hopper_backward_wide, *given, target="cuda:sm_90a").artifact.binary("ptx").decode()
    _, log = ptx.assemble(text, "sm_90a")
    assert "serialized" not in log
    (used,) = (x for name, x in ptx.parse_log(log).items() if name.startswith("wide_kernel"))
    assert used.spill_stores == 0, used
