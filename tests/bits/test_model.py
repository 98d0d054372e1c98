"""Matrix atoms on fresh random data against the model in integers, and the other rules the comparison brought."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.dialects.fly_nvgpu.accumulation import sums_of

from .comparison import compare_row
from .draw import FORMATS, Draw, values
from .matrices import Form, mma_product, tiles, wgmma_product
from .model import HOPPER, Rules, product, product_of_fp8_on_hopper
from .program import Array, Call, class_of, output, run

SYNC = [
    ((16, 8, 16), ("f16", "f16", "f32"), "sm_90a"),
    ((16, 8, 16), ("f16", "f16", "f16"), "sm_90a"),
    ((16, 8, 8), ("f32", "f32", "f32"), "sm_90a"),
    ((16, 8, 16), ("bf16", "bf16", "f32"), "sm_90a"),
    ((16, 8, 32), ("e5m2", "e4m3", "f32"), "sm_90a"),
]


def same(name: str, got, wanted) -> None:
    row = compare_row("", name, got, wanted)
    assert not row.numbers and not row.nans, row


@pytest.mark.parametrize(("mnk", "types", "arch"), SYNC)
def test_mma_sync(mnk, types, arch: str, rng: np.random.Generator, emulate: Callable[[str], None]):
    emulate(arch)
    a, b, c = tiles(str(rng.integers(1 << 62)), types, mnk, 18)
    arrays = [Array(x, t, typed=True) for x, t in zip((a, b, c), types, strict=True)]
    call = Call(mma_product(mnk, types), (*arrays, output(c.shape, types[2], typed=True)), static=True)
    (got,) = run(call, "cpu")
    if types[0] in ("e4m3", "e5m2") and arch == "sm_90a":
        wanted = product_of_fp8_on_hopper(a, b, c, types)
    else:
        word = "tf32" if types[0] == "f32" else str(types[0])
        told = sums_of(arch, word, class_of(types[2]).ir_type, sync=True)
        assert told is not None
        wanted = product(a, b, c, types, Rules(told.terms, told.fraction, told.kept, told.operand_fraction))
    same(types[2], got, wanted)


@pytest.mark.parametrize("types", [("e4m3", "e5m2", "f32"), ("e4m3", "e4m3", "f16"), ("bf16", "bf16", "f32")])
def test_wgmma(types, rng: np.random.Generator, emulate: Callable[[str], None]):
    emulate("sm_90a")
    form = Form(8, types, False, ("k", "k"), 0, True)
    mnk = (64, 8, 256 // FORMATS[types[0]].width)
    a, b, c = tiles(str(rng.integers(1 << 62)), types, mnk, 9)
    arrays = [Array(x, t, typed=True) for x, t in zip((a, b, c), types, strict=True)]
    call = Call(wgmma_product(form), (*arrays, output(c.shape, types[2], typed=True)), static=True)
    same(types[2], run(call, "cpu")[0], product(a, b, c, types, HOPPER[types[0]]))


def test_the_model_itself():
    """Against sums by hand: 25 bits below the largest exponent are kept, and the result is cut to 23."""
    one, tiny = np.float16(1).view(np.int16), np.float16(2.0**-13).view(np.int16)
    a = np.zeros((1, 1, 16), np.int16)
    b = a.copy()
    a[..., 0], b[..., 0] = one, one
    a[..., 1:5], b[..., 1:5] = tiny, np.float16(2.0**-12).view(np.int16)
    zero = np.zeros((1, 1, 1), np.int32)
    types = ("f16", "f16", "f32")
    assert product(a, b, zero, types, Rules(16, 25)).view(np.float32)[0, 0, 0] == 1 + 2.0**-23
    assert product(a, b, zero, types, Rules(16, 24)).view(np.float32)[0, 0, 0] == 1
    assert product(a, b, zero, types, Rules(4, 25)).view(np.float32)[0, 0, 0] == 1


@pytest.mark.covering
@pytest.mark.parametrize("name", ["f64", "f32", "f16"])
@pytest.mark.parametrize("to", ["i8", "i32", "u32", "i64", "u64"])
def test_integers_saturate(name: str, to: str, rng: np.random.Generator, emulate: Callable[[str], None]):
    emulate("sm_90a")
    cls = class_of(to)

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        fx.make_view(fx.recast_iter(cls, fx.get_iter(y)), y.layout)[i] = x[i].to(cls)

    @flyc.jit
    def convert(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=4, block=64)

    x = values(Draw(str(rng.integers(1 << 62))), name, 256).view(f"f{FORMATS[name].width // 8}")
    x[0], x[1], x[2] = np.nan, np.inf, -np.inf
    y = np.full(256, 99, FORMATS[to].storage)
    convert(x, y)
    bits = max(FORMATS[to].width, 16)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if FORMATS[to].signed else (0, 2**bits - 1)
    none = 1 << (bits - 1) if 64 in (bits, FORMATS[name].width) else 0
    with np.errstate(invalid="ignore"):  # there may be signalling NaNs
        wide = x.astype(np.float64)
    for value, got in zip(wide, y, strict=True):
        if np.isnan(value):
            wanted = none
        elif np.isinf(value):
            wanted = high if value > 0 else low
        else:
            wanted = max(low, min(high, int(value)))
        assert (int(got) - wanted) % (1 << FORMATS[to].width) == 0, (value, got)


@pytest.mark.parametrize("word", ["add", "fmax", "fmin"])
def test_bf16_is_updated_atomically_whatever_is_there(word: str, emulate: Callable[[str], None]):
    """Subnormal numbers and NaNs that signal, over which LLVM's loop never ends."""
    emulate("sm_90a")

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.thread_idx.x
        at = fx.recast_iter(fx.BFloat16, fx.get_iter(y)) + i
        getattr(fx, f"atomic_{word}")(at, fx.make_view(fx.recast_iter(fx.BFloat16, fx.get_iter(x)), x.layout)[i])

    @flyc.jit
    def update(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=1, block=32)

    x, y = np.full(32, 0x3F80, np.int16), np.array([0x0001, 0x007F, 0x7F81, -126, 0x4000] + [0] * 27, np.int16)
    before = y.copy()
    update(x, y)
    wide = (before.astype(np.int32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):
        wanted = {"add": np.add, "fmax": np.fmax, "fmin": np.fmin}[word](wide, np.float32(1))
    # 1 and a subnormal number make 1 again; sums are numbers of bfloat16 here.
    got = (y.astype(np.int32) << 16).view(np.float32)
    np.testing.assert_array_equal(got, wanted)
