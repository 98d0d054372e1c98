"""bf16 on the cpu stack: every bit pattern goes through as it is, on every CPU, and arithmetic rounds once.

LLVM's `bfloat` is no type for that: between blocks its x86 code generator holds one as f32 and rounds it where it is
used, by a function that not all C libraries have, or by an instruction that takes subnormal numbers for zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.kernels as k
from flydsl._mlir.dialects import llvm
from flydsl.ir.fold import float_bits
from flydsl.llvm import codegen
from flydsl.llvm.codegen import DeviceTarget
from flydsl.llvm.text import host_stub

BF16 = ml_dtypes.bfloat16
ALL = np.arange(1 << 16, dtype=np.uint16)
"""Zeros, subnormal and normal numbers, infinities, NaNs that signal and that do not, with every payload."""
BLOCK = 128
CPUS = ("x86-64", "haswell", "icelake-server", "sapphirerapids")


@pytest.fixture(autouse=True)
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")


@flyc.kernel
def branches_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    """Values of one block that are used in others: branches, loops, a choice."""
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    a, b = x[i], x[65535 - i]
    first = a
    if n > 1:
        first = b
    for step in range(n):
        if (i + step) % 3 > 0:
            a, b = b, a
    y[0, i] = first
    y[1, i] = a
    y[2, i] = b
    y[3, i] = (i % 2 == 0).select(a, b)
    left = n
    while left > 0:
        a, b = b, a
        left = left - 1
    if n > 0:
        y[4, i] = a


@flyc.jit
def branches(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    branches_kernel(x, y, n).launch(grid=65536 // BLOCK, block=BLOCK)


def expected_branches(n: int) -> np.ndarray:
    i = np.arange(65536)
    a, b = ALL.copy(), ALL[::-1].copy()
    first = b.copy() if n > 1 else a.copy()
    for step in range(n):
        swapped = (i + step) % 3 > 0
        a, b = np.where(swapped, b, a), np.where(swapped, a, b)
    rows = [first, a, b, np.where(i % 2 == 0, a, b)]
    return np.stack([*rows, (a, b)[n % 2] if n else np.zeros_like(a)])


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_bits_cross_branches_and_loops(n: int, checked: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", str(int(checked)))
    y = np.zeros((5, 65536), np.uint16)
    branches(ALL.view(BF16), y.view(BF16), n)
    np.testing.assert_array_equal(y, expected_branches(n))


@flyc.kernel
def elements_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    """Elements of a vector that are taken from it in one block and stored in another."""
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    vector = fx.slice(fx.zipped_divide(x, (8,)), (None, i)).load()
    parts = [vector[j] for j in range(8)]
    for step in range(n):
        for j in fx.range_constexpr(8):
            if (i + j + step) % 2 == 0:
                y[i * 8 + 7 - j] = parts[j]


@flyc.jit
def elements(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    elements_kernel(x, y, n).launch(grid=65536 // 8 // BLOCK, block=BLOCK)


def test_bits_of_elements_taken_early():
    y = np.zeros(65536, np.uint16)
    elements(ALL.view(BF16), y.view(BF16), 2)
    np.testing.assert_array_equal(y, ALL.reshape(-1, 8)[:, ::-1].reshape(-1))


@flyc.kernel
def meeting_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, wait: fx.Constexpr[bool]):
    """Shared memory, a shuffle, a broadcast and an exchange in memory."""
    s = fx.SharedAllocator().allocate(fx.Array[fx.BFloat16, BLOCK]).peek()
    t = fx.thread_idx.x
    i = fx.block_idx.x * BLOCK + t
    a = x[i]
    if n > 0:
        s[t] = a
        fx.barrier()
        y[0, i] = s[BLOCK - 1 - t]
        y[1, i] = fx.gpu.shuffle(a, 1, 32, "xor")
    if wait and n > t:  # not in step
        a = fx.atomic_xchg(fx.get_iter(y) + 2 * 65536 + i, a)
    else:
        y[2, i] = a
    y[3, i] = a


@flyc.jit
def meeting(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, wait: fx.Constexpr[bool]):
    meeting_kernel(x, y, n, wait).launch(grid=65536 // BLOCK, block=BLOCK)


@pytest.mark.parametrize("wait", [False, True])
def test_bits_between_threads(wait: bool):
    x, y = ALL.view(BF16), np.zeros((4, 65536), np.uint16)
    y[2] = ALL[::-1]
    meeting(x, y.view(BF16), BLOCK, wait)
    np.testing.assert_array_equal(y[0], ALL.reshape(-1, BLOCK)[:, ::-1].reshape(-1))
    np.testing.assert_array_equal(y[1], ALL ^ 1)
    np.testing.assert_array_equal(y[2], ALL)
    np.testing.assert_array_equal(y[3], ALL[::-1] if wait else ALL)


@flyc.kernel
def number_kernel(y: fx.Tensor, a: fx.BFloat16):
    y[fx.thread_idx.x] = a


@flyc.jit
def number(y: fx.Tensor, a: fx.BFloat16, n: fx.Int32):
    if n > 0:
        number_kernel(y, a).launch(grid=1, block=4)


def test_a_number_of_the_host():
    """What the host passes on under a condition; constants too."""
    y = np.zeros(4, np.uint16)
    for value in (2.0**-133, -(2.0**-127), 1.5, float("inf"), -0.0):
        number(y.view(BF16), value, 1)
        assert y.tolist() == [float_bits(value, "bf16")] * 4


@pytest.mark.parametrize("target", ["cuda:sm_90a", "rocm:gfx942"])
def test_host_code_of_gpus(target: str, monkeypatch: pytest.MonkeyPatch):
    """What launches a kernel on a GPU runs on a CPU too."""
    texts: list[str] = []
    written = host_stub.host_module

    def kept(*args: object) -> str:
        texts.append(written(*args))  # pyright: ignore[reportArgumentType]
        return texts[-1]

    monkeypatch.setattr(host_stub, "host_module", kept)
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")

    @flyc.jit
    def other(y: fx.Tensor, a: fx.BFloat16, n: fx.Int32):
        if n > 0:
            number_kernel(y, a).launch(grid=1, block=4)

    text = flyc.compile(other, np.zeros(4, BF16), 1.5, 1, target=target).artifact.llvm_ir
    assert "bfloat" in text and len(texts) == 1 and "bfloat" not in texts[0]


# --- arithmetic ---------------------------------------------------------------------------------------------------

INTERESTING = np.array(
    [0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x3F80, 0xBF80, 0x3F81, 0x3FC0, 0x4000, 0x4049, 0x7F7F, 0xFF7F,
     0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0x0100, 0x8180],
    np.uint16,
)  # fmt: skip


def pairs(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    """Patterns for three operands: some interesting, some of any bits, some of like size."""
    drawn = rng.integers(0, 1 << 16, (3, count), dtype=np.uint16)
    near = (0x3F00 + rng.integers(-0x200, 0x200, (3, count))).astype(np.uint16)
    known = INTERESTING[rng.integers(0, len(INTERESTING), (3, count))]
    which = rng.integers(0, 3, (3, count))
    return tuple(np.choose(which, [drawn, near, known]))


def numbers(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def nearest(values: np.ndarray) -> np.ndarray:
    """f32 to bits of bf16, ties to even."""
    return values.astype(BF16).view(np.uint16)


def same(got: np.ndarray, wanted: np.ndarray) -> None:
    """Bit for bit, but for payloads of NaN."""
    both = np.isnan(numbers(got)) & np.isnan(numbers(wanted))
    np.testing.assert_array_equal(np.where(both, 0, got), np.where(both, 0, wanted))


@flyc.kernel
def arithmetic_kernel(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, out: fx.Tensor, flags: fx.Tensor):
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    a, b, c = x[i], y[i], z[i]
    made = [a + b, a - b, a * b, a / b, -a, abs(a), fx.sqrt(a), a.maximumf(b), a.minimumf(b), fx.fma(a, b, c)]
    for row, value in enumerate(made):
        out[row, i] = value
    flags[0, i] = fx.Int32(a < b)
    flags[1, i] = fx.Int32(a == b)
    flags[2, i] = fx.Int32(a != a)
    flags[3, i] = fx.Int32(a)


@flyc.jit
def arithmetic(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, out: fx.Tensor, flags: fx.Tensor, n: fx.Int32):
    arithmetic_kernel(x, y, z, out, flags).launch(grid=n // BLOCK, block=BLOCK)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_arithmetic_rounds_once(rng: np.random.Generator):
    count = 1 << 14
    x, y, z = pairs(rng, count)
    # A product that lies between two numbers of bf16, and what decides is far below it.
    x[:2], y[:2], z[:2] = 0x3F81, 0x3FC0, (0x0001, 0x8001)
    out, flags = np.zeros((10, count), np.uint16), np.zeros((4, count), np.int32)
    arithmetic(x.view(BF16), y.view(BF16), z.view(BF16), out.view(BF16), flags, count)
    a, b, c = map(numbers, (x, y, z))
    wanted = [a + b, a - b, a * b, a / b]
    for row, value in enumerate(wanted):
        same(out[row], nearest(value))
    np.testing.assert_array_equal(out[4], x ^ 0x8000)
    np.testing.assert_array_equal(out[5], x & 0x7FFF)
    same(out[6], nearest(np.sqrt(a)))
    for row, of in ((7, np.maximum), (8, np.minimum)):
        fine = (a != 0) | (b != 0)
        same(out[row][fine], nearest(of(a, b))[fine])
    for i in range(count):
        if np.isfinite([a[i], b[i], c[i]]).all():
            exact = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
            found = float(numbers(out[9][i : i + 1])[0])
            assert found == of_fraction(exact), (x[i], y[i], z[i])
    np.testing.assert_array_equal(flags[:3], np.stack([a < b, a == b, a != a]).astype(np.int32))
    fits = np.isfinite(a) & (np.abs(a) < 2.0**31)
    np.testing.assert_array_equal(flags[3][fits], a[fits].astype(np.int32))


def of_fraction(exact: Fraction) -> float:
    """The bf16 nearest to a number, ties to even."""
    size = abs(exact)
    if size == 0:
        return 0.0
    exponent = max((size.numerator.bit_length() - size.denominator.bit_length()) - 9, -140)
    while exponent < -133 or size / Fraction(2) ** exponent >= 256:
        exponent += 1
    steps = round(size / Fraction(2) ** exponent)  # Python's rounds to even
    found = steps * Fraction(2) ** exponent
    sign = -1 if exact < 0 else 1
    return sign * (float("inf") if found > Fraction(3.3895313892515355e38) else float(found))


@flyc.kernel
def conversions_kernel(d: fx.Tensor, f: fx.Tensor, n: fx.Tensor, m: fx.Tensor, out: fx.Tensor):
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    out[0, i] = fx.BFloat16(d[i])
    out[1, i] = fx.BFloat16(f[i])
    out[2, i] = fx.BFloat16(n[i])
    out[3, i] = fx.BFloat16(m[i])
    out[4, i] = fx.BFloat16(fx.Uint64(n[i]))
    out[5, i] = fx.BFloat16(fx.Int8(m[i]))


@flyc.jit
def conversions(d: fx.Tensor, f: fx.Tensor, n: fx.Tensor, m: fx.Tensor, out: fx.Tensor, count: fx.Int32):
    conversions_kernel(d, f, n, m, out).launch(grid=count // BLOCK, block=BLOCK)


def test_conversions_round_once(rng: np.random.Generator):
    count = 1 << 11
    sizes = rng.integers(0, 64, count)
    n = rng.integers(-(1 << 63), (1 << 63) - 1, count) >> sizes
    # Half-way between two numbers of bf16, and a little more.
    n[:6] = [(0x101 << 54) + 1, -((0x101 << 54) + 1), 0x101 << 54, (0x103 << 20) + 1, (0x101 << 45) - 1, -(1 << 63)]
    m = (n >> 32).astype(np.int32)
    m[:4] = [(0x101 << 20) + 1, -((0x101 << 22) - 1), 0x103 << 20, -(1 << 31)]
    d = rng.standard_normal(count) * 2.0 ** rng.integers(-145, 127, count)
    d[:4] = [1 + 2.0**-8 + 2.0**-50, 1 + 2.0**-8, 2.0**-134 * (1 + 2.0**-40), 1e300]
    f = rng.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    out = np.zeros((6, count), np.uint16)
    conversions(d, f, n, m, out.view(BF16), count)
    for i in range(count):
        wanted = [of_fraction(Fraction(x)) for x in (float(d[i]), int(n[i]), int(m[i]), int(n[i]) % (1 << 64))]
        wanted.append(of_fraction(Fraction((int(m[i]) + 128) % 256 - 128)))
        assert [float(numbers(out[row][i : i + 1])[0]) for row in (0, 2, 3, 4, 5)] == wanted, i
    with np.errstate(invalid="ignore"):
        same(out[1], nearest(f))


@flyc.kernel
def sums_kernel(x: fx.Tensor, y: fx.Tensor):
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    vector = fx.slice(fx.zipped_divide(x, (8,)), (None, i)).load()
    y[0, i] = vector.reduce("add")
    y[1, i] = vector.reduce("max")
    y[2, i] = (vector * vector + vector)[3]


@flyc.jit
def sums(x: fx.Tensor, y: fx.Tensor):
    sums_kernel(x, y).launch(grid=1, block=BLOCK)


def test_vectors(rng: np.random.Generator):
    x = nearest(rng.standard_normal(8 * BLOCK).astype(np.float32))
    y = np.zeros((3, BLOCK), np.uint16)
    sums(x.view(BF16), y.view(BF16))
    rows = numbers(x).reshape(-1, 8)
    # One after the other or by halves: eight numbers and seven roundings.
    error = np.abs(numbers(y[0]) - rows.astype(np.float64).sum(1))
    assert (error <= 7 * 2.0**-9 * np.abs(rows).sum(1)).all()
    np.testing.assert_array_equal(y[1], nearest(rows.max(1)))
    one = rows[:, 3]
    np.testing.assert_array_equal(y[2], nearest(numbers(nearest(one * one)) + one))


def test_printed_numbers(capfd: pytest.CaptureFixture[str]):
    @flyc.kernel
    def kernel(x: fx.Tensor):
        fx.printf("{} {:.3f}", x[fx.thread_idx.x], x[1])

    @flyc.jit
    def run(x: fx.Tensor):
        kernel(x).launch(grid=1, block=1)

    run(np.array([1.5, -2.25], BF16))
    assert capfd.readouterr().out.split() == ["1.50", "-2.250"]


@flyc.kernel
def updates_kernel(x: fx.Tensor, y: fx.Tensor, old: fx.Tensor, word: fx.Constexpr[str]):
    t = fx.thread_idx.x
    pair = fx.Vector.from_elements([x[t, 0], x[t, 1]], fx.BFloat16)
    place = fx.to_llvm_ptr(fx.get_iter(y) + t * 2)
    kind = getattr(llvm.AtomicBinOp, word)
    before = fx.Vector(llvm.atomicrmw(kind, place, pair.ir_value(), llvm.AtomicOrdering.monotonic, alignment=4))
    old[t, 0], old[t, 1] = before[0], before[1]


@flyc.jit
def updates(x: fx.Tensor, y: fx.Tensor, old: fx.Tensor, word: fx.Constexpr[str]):
    updates_kernel(x, y, old, word).launch(grid=1, block=x.shape[0])


@pytest.mark.parametrize("word", ["fadd", "fmax"])
@pytest.mark.parametrize("checked", ["0", "1"])
def test_pairs_are_updated(word: str, checked: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """By `atomicrmw` of a vector; each half by itself."""
    monkeypatch.setenv("FLYDSL_CPU_CHECK", checked)
    x, y = (rng.standard_normal((37, 2)).astype(BF16) for _ in range(2))
    want = (x.astype("f4") + y.astype("f4") if word == "fadd" else np.maximum(x, y)).astype(BF16)
    was, old = y.copy(), np.zeros_like(y)
    updates(x, y, old, word)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(old, was)


# --- what LLVM is given -------------------------------------------------------------------------------------------


def half(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).bfloat16()


LIBRARY: dict[str, Callable[[], object]] = {
    "matmul": lambda: k.matmul(half(70, 64), half(64, 40)),
    "attention": lambda: k.attention(half(1, 2, 40, 64), half(1, 2, 40, 64), half(1, 2, 40, 64)),
    "rms_norm": lambda: k.rms_norm(half(3, 100), half(100)),
    "softmax": lambda: k.softmax(half(3, 100)),
    "reduce": lambda: k.reduce(half(4, 33), "sum"),
    "few rows": lambda: k.matmul(half(3, 64), half(64, 32)),
}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """LLVM IR and object of what is compiled for the host."""
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    found: list[tuple[str, bytes]] = []
    compile_device = codegen.compile_device

    def noted(ir_text: str, target: DeviceTarget, *args: object, **options: object) -> object:
        made = compile_device(ir_text, target, *args, **options)  # pyright: ignore[reportArgumentType]
        found.append((ir_text, made.object))
        return made

    monkeypatch.setattr(codegen, "compile_device", noted)
    return found


@pytest.mark.parametrize("name", LIBRARY)
def test_no_bfloat_in_kernels_of_the_library(name: str, compiled: list[tuple[str, bytes]], emulate):
    emulate("sm_90a")
    LIBRARY[name]()
    assert compiled
    for text, made in compiled:
        assert "bfloat" not in text and b"truncsfbf2" not in made


@pytest.mark.parametrize("name", CPUS)
def test_code_for_other_cpus(name: str):
    """Also those whose instruction takes subnormal numbers for zero have no use for it."""
    text = flyc.compile(branches, ALL.view(BF16), np.zeros((5, 65536), BF16), 1).artifact.llvm_ir
    assert "bfloat" not in text and "phi i16" in text
    for level in (0, 2):
        code = codegen.compile_device(text, replace(DeviceTarget.host(), cpu=name, features=""), level)
        assert "bf16" not in code.asm and "bf2" not in code.asm
