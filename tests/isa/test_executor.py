"""The executor itself: what it must refuse, and instructions whose results are easy to say."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flydsl.compiler as flyc
import flydsl.expr as fx

from .decode import Context, line_of
from .errors import IsaError
from .image import Image
from .machine import Kernel, run
from .memory import Memory
from .text import Instruction, parse
from .wave import VCC, Block, Wave

N = 128


@flyc.kernel
def turn_kernel(x: fx.Tensor, y: fx.Tensor):
    t = fx.thread_idx.x
    place = fx.SharedAllocator().allocate(fx.Array[fx.Float32, N, 16]).peek().view(fx.make_layout(N, 1))
    place[t] = x[t] + 1.0
    fx.barrier()
    y[t] = place[N - 1 - t] * x[t]


@flyc.jit
def turn(x: fx.Tensor, y: fx.Tensor):
    turn_kernel(x, y).launch(grid=1, block=N)


class Changed:
    """A kernel whose instructions can be changed before it runs."""

    def __init__(self, arch: str):
        x = np.zeros(N, "f4")
        self.binary = flyc.compile(turn, x, x.copy(), target=f"rocm:{arch}").artifact.binary("hsaco")

    def run(self, change: Callable[[Instruction], Instruction], seed: int = 0) -> None:
        """Execute and compare."""
        memory = Memory()
        image = Image(self.binary, memory)
        image.instructions = {at: change(inst) for at, inst in image.instructions.items()}
        x, y = np.random.default_rng(seed).standard_normal((2, N)).astype("f4")
        wanted = (x[::-1] + np.float32(1)) * x
        for array in (x, y):
            memory.add(array.ctypes.data, array.nbytes, "an array")
        kernel = Kernel.load(image, image.info.kernels[0].name)
        params: list[bytes] = []
        for arg in kernel.info.args:
            pointer = x if len(params) == 0 else y
            params.append(pointer.ctypes.data.to_bytes(8, "little") if arg.size == 8 else bytes(arg.size))
        run(kernel, memory, params, (1, 1, 1), (N, 1, 1), 0, seed)
        np.testing.assert_array_equal(y, wanted)

    def lines(self, prefix: str) -> list[Instruction]:
        found = Image(self.binary, Memory()).instructions.values()
        return [inst for inst in found if inst.mnemonic.startswith(prefix)]


@pytest.fixture(scope="module", params=["gfx942", "gfx1201", "gfx1250"])
def changed(request: pytest.FixtureRequest) -> Changed:
    return Changed(request.param)


def without(gone: Instruction) -> Callable[[Instruction], Instruction]:
    nop = parse("s_nop 0")
    return lambda inst: replace(nop, address=inst.address, size=inst.size) if inst == gone else inst


def test_every_wait_is_needed(changed: Changed):
    """Without any of its waits the kernel uses what has not come, or leaves what another wave reads."""
    changed.run(lambda inst: inst)
    waits = [w for w in changed.lines("s_wait") if w.mnemonic != "s_wait_alu"]
    assert len(waits) >= 3
    for gone in waits:
        with pytest.raises((IsaError, AssertionError)):
            for seed in range(12):
                changed.run(without(gone), seed)


def test_every_barrier_is_needed(changed: Changed):
    for gone in changed.lines("s_barrier"):
        with pytest.raises((IsaError, AssertionError)):
            for seed in range(12):
                changed.run(without(gone), seed)


def test_what_is_not_known_is_refused(changed: Changed):
    odd = replace(parse("v_frobnicate_f32 v0, v1"), text="v_frobnicate_f32 v0, v1")
    gone = changed.lines("v_")[0]
    with pytest.raises(IsaError, match=r"cannot execute 'v_frobnicate_f32 v0, v1'.*\n.*turn_kernel.*block \(0, 0, 0\)"):
        changed.run(lambda inst: replace(odd, address=inst.address, size=inst.size) if inst == gone else inst)


# --- single instructions ----------------------------------------------------------------------------------------------

WORD = st.integers(0, (1 << 32) - 1)


def execute(text: str, values: dict[int, Any], arch: str = "gfx942", scalars: dict[int, int] | None = None) -> Wave:
    """A wave after one instruction; `values` are the registers before it."""
    family, lanes = ("gfx9", 64) if arch.startswith("gfx9") else (arch[:5], 32)
    w = Wave(family, lanes, 128, Block((0, 0, 0), np.zeros(1024, np.uint8)), Memory(), random.Random(0))
    for register, value in values.items():
        w.v[register] = value
    for register, value in (scalars or {}).items():
        w.s[register] = value
    with np.errstate(all="ignore"):
        line_of(parse(text), Context(arch, family, lanes, 1 << 10), {}).step(w)
        w.finish()
    return w


@settings(max_examples=20)
@given(WORD, WORD, WORD)
def test_whole_numbers(a: int, b: int, c: int):
    m = (1 << 32) - 1
    signed = lambda x: x - (1 << 32) if x >> 31 else x  # noqa: E731
    cases = {
        "v_add3_u32 v3, v0, v1, v2": a + b + c,
        "v_mul_hi_u32 v3, v0, v1": a * b >> 32,
        "v_mul_hi_i32 v3, v0, v1": signed(a) * signed(b) >> 32,
        "v_lshl_add_u32 v3, v0, v1, v2": (a << (b & 31)) + c,
        "v_ashrrev_i32_e32 v3, v0, v1": signed(b) >> (a & 31),
        "v_bfe_u32 v3, v0, v1, v2": a >> (b & 31) & (1 << (c & 31)) - 1,
        "v_alignbit_b32 v3, v0, v1, v2": (a << 32 | b) >> (c & 31),
        "v_bfi_b32 v3, v0, v1, v2": a & b | ~a & c,
        "v_mad_u32_u24 v3, v0, v1, v2": (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
        "v_mul_hi_i32_i24 v3, v0, v1": signed(a << 8 & m) * signed(b << 8 & m) >> 48,
        "v_bcnt_u32_b32 v3, v0, v1": a.bit_count() + b,
        "v_ffbh_u32_e32 v3, v0": 32 - a.bit_length() if a else m,
        "v_bfrev_b32_e32 v3, v0": int(f"{a:032b}"[::-1], 2),
        "v_sub_u32_e64 v3, v0, v1 clamp": max(a - b, 0),
        "v_bitop3_b32 v3, v0, v1, v2 bitop3:0xca": a & b | ~a & c,
        "v_bitop2_b32 v3, v0, v1 bitop3:0x14": a ^ b,
        "v_mad_u32 v3, v0, v1, v2": a * b + c,
    }
    for text, wanted in cases.items():
        assert int(execute(text, {0: a, 1: b, 2: c}).v[3, 5]) == wanted & m, text
    for name in ("s_flbit_i32", "s_cls_i32"):
        flat = a ^ -(a >> 31) & m
        assert int(execute(f"{name} s3, s0", {}, scalars={0: a}).s[3]) == (32 - flat.bit_length() if flat else m)
    far = execute("v_add3_u32 v3 /*v19*/, v0 /*v16*/, v1 /*v17*/, v2", {16: a, 17: b, 2: c}, "gfx1250")
    assert int(far.v[19, 5]) == a + b + c & m


@settings(max_examples=30)
@given(WORD, WORD, WORD)
def test_bytes_of_two_words(a: int, b: int, select: int):
    raw = (a << 32 | b).to_bytes(8, "little")
    wanted = 0
    for at in range(4):
        which = select >> 8 * at & 255
        sign = raw[[1, 3, 5, 7][which - 8]] >> 7 if 8 <= which < 12 else 0
        byte = raw[which] if which < 8 else 255 * sign if which < 12 else 0 if which == 12 else 255
        wanted |= byte << 8 * at
    assert int(execute("v_perm_b32 v3, v0, v1, v2", {0: a, 1: b, 2: select}).v[3, 0]) == wanted


@settings(max_examples=30)
@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False))
def test_division_in_steps(num: float, den: float):
    """The sequence that LLVM emits for an exact quotient, in the range where it is promised."""
    if den == 0 or not all(1e-30 < abs(x) < 1e30 for x in (num, den, num / den)):
        return
    w = execute("v_div_scale_f32 v3, vcc, v1, v1, v0", {0: np.float32(num).view("u4"), 1: np.float32(den).view("u4")})
    steps = (
        "v_div_scale_f32 v4, vcc, v0, v1, v0", "v_rcp_f32_e32 v5, v3", "v_fma_f32 v6, -v3, v5, 1.0",
        "v_fmac_f32_e32 v5, v6, v5", "v_mul_f32_e32 v7, v4, v5", "v_fma_f32 v6, -v3, v7, v4",
        "v_fmac_f32_e32 v7, v6, v5", "v_fma_f32 v3, -v3, v7, v4", "v_div_fmas_f32 v3, v3, v5, v7",
        "v_div_fixup_f32 v2, v3, v1, v0",
    )  # fmt: skip
    context = Context("gfx942", "gfx9", 64, 1 << 10)
    with np.errstate(all="ignore"):
        for text in steps:
            line_of(parse(text), context, {}).step(w)
    assert w.vf[2, 7] == np.float32(num) / np.float32(den)


def test_lanes_that_move():
    lane = np.arange(64, dtype=np.uint32)
    w = execute("v_mov_b32_dpp v1, v0 row_shr:3 row_mask:0xf bank_mask:0xf", {0: lane, 1: 77})
    assert w.v[1].tolist() == [x - 3 if x % 16 >= 3 else 77 for x in range(64)]
    w = execute("v_mov_b32_dpp v1, v0 row_bcast:15 row_mask:0xa bank_mask:0xf", {0: lane, 1: 77})
    assert w.v[1].tolist() == [x // 16 * 16 - 1 if x // 16 % 2 else 77 for x in range(64)]
    w = execute("v_mov_b32_dpp v1, v0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:1", {0: lane})
    assert w.v[1].tolist() == [x ^ 1 for x in range(64)]
    w = execute("ds_swizzle_b32 v1, v0 offset:swizzle(SWAP,16)", {0: lane})
    assert w.v[1].tolist() == [x ^ 16 for x in range(64)]
    w = execute("ds_bpermute_b32 v1, v2, v0", {0: lane, 2: (63 - lane) * 4})
    assert w.v[1].tolist() == [63 - x for x in range(64)]
    w = execute("v_cmp_gt_u32_e32 vcc, 5, v0", {0: lane})
    assert int(w.s[VCC]) == 31 and int(w.s[VCC + 1]) == 0


def test_literals_of_doubles():
    """Of one word, it is the upper one."""
    for text, wanted in (("0x41efffff", 4294965248.0), ("0x41efffffffe00000", 4294967295.0)):
        w = execute(f"v_max_num_f64_e64 v[2:3], v[0:1], {text}", {0: 0, 1: 0}, "gfx1250")
        assert w.v[2:4, 5].copy().view(np.float64)[0] == wanted


def test_registers_whose_numbers_are_those_of_scalar_ones():
    """125 is the scalar register that is always zero, 106 and 126 are masks: vector registers are none of them."""
    bits = np.float64(2.5).view("u8").item()
    for at in (105, 106, 124, 125, 126):
        given = {at: bits & 0xFFFFFFFF, at + 1: bits >> 32}
        w = execute(f"v_add_f64 v[2:3], v[{at}:{at + 1}], v[{at}:{at + 1}]", given, "gfx1100")
        assert w.v[2:4, 5].copy().view(np.float64)[0] == 5.0
        w = execute(f"v_add_f64 v[{at}:{at + 1}], v[{at}:{at + 1}], 1.0", given, "gfx1100")
        assert w.v[at : at + 2, 5].copy().view(np.float64)[0] == 3.5


def test_offsets_of_scalar_loads_in_elements():
    words = np.arange(16, dtype=np.uint32)
    w = Wave("gfx12", 32, 64, Block((0, 0, 0), np.zeros(0, np.uint8)), Memory(), random.Random(0))
    w.memory.add(words.ctypes.data, words.nbytes, "an array")
    w.s[2], w.s[3], w.s[4] = words.ctypes.data & 0xFFFFFFFF, words.ctypes.data >> 32, 3
    context = Context("gfx1250", "gfx12", 32, 1 << 10)
    for at, modifier in enumerate(("", " scale_offset")):
        w.s[4] = 12 if not modifier else 3
        line_of(parse(f"s_load_b32 s{8 + at}, s[2:3], s4 offset:0x8{modifier}"), context, {}).step(w)
    w.finish()
    assert w.s[8:10].tolist() == [5, 5]


@pytest.mark.parametrize(("text", "m", "n", "k"), [
    ("v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[2:3], 0", 16, 16, 16),
    ("v_mfma_f32_32x32x8_f16 v[8:23], v[0:1], v[2:3], 0", 32, 32, 8),
])  # fmt: skip
def test_one_element_of_a_matrix(text: str, m: int, n: int, k: int, rng: np.random.Generator):
    """A single one in A and in B makes a single one in the result, where AMD's calculator puts it."""
    i, j, step = int(rng.integers(m)), int(rng.integers(n)), int(rng.integers(k))
    a, b = np.zeros((64, 4), "f2"), np.zeros((64, 4), "f2")
    a[i + m * (step // 4), step % 4] = 1
    b[j + n * (step // 4), step % 4] = 1
    left, right = a.view("u4"), b.view("u4")
    w = execute(text, {0: left[:, 0], 1: left[:, 1], 2: right[:, 0], 3: right[:, 1]})
    lane, register = (j + 16 * (i // 4), i % 4) if m == 16 else (j + 32 * (i // 4 % 2), i // 8 * 4 + i % 4)
    found = np.argwhere(w.vf[8 : 8 + m * n // 64])
    assert found.tolist() == [[register, lane]]


@pytest.mark.parametrize(("text", "wanted"), [
    ("v_min_f32 v2, v0, v1", -0.0), ("v_max_f32 v2, v0, v1", 0.0), ("v_min_f32 v2, v1, v0", -0.0),
    ("v_max_f32 v2, v1, v0", 0.0), ("v_med3_f32 v2, v0, v1, v0", -0.0),
])  # fmt: skip
def test_zeros_have_an_order(text: str, wanted: float):
    w = execute(text, {0: np.full(64, -0.0, "f4").view("u4"), 1: np.zeros(64, "u4")})
    assert (w.vf[2] == 0).all() and (np.signbit(w.vf[2]) == np.signbit(wanted)).all()
