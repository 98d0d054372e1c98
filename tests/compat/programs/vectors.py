"""Vectors, conversions and the arithmetic of scalars."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import arith
from flydsl.expr.typing import T
from flydsl.expr.typing import Vector as Vec

from .case import CDNA, Call, poison, program, randint, randn


@flyc.kernel
def methods_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    v = Vec.from_elements([x[t, i] for i in range(8)], fx.Float32)
    low, high = v.shuffle(v, [0, 1, 2, 3]), v.shuffle(v, [4, 5, 6, 7])
    square = v.reshape((2, 4))
    column = square[None, 1]
    words = v.bitcast(fx.Int32)
    back = (words ^ words.broadcast_to((8,))).bitcast(fx.Float32)
    mask = (v > 0.0).select(v, -v)
    flags = v.is_float and not words.is_float
    assert flags and v.numel == 8 and len(v.shape) == 1 and words.signed
    found = [
        (low + high).reduce(fx.ReductionOp.ADD),
        v.reduce("max"),
        v.reduce(fx.ReductionOp.MIN, fastmath=arith.FastMathFlags.nnan),
        column[0] * column[1],
        back.reduce("add"),
        mask.reduce("add", fx.Float32(1.0)),
        v.to(fx.Float16).to(fx.Float32)[3],
        fx.Float32(v.to(fx.Int32)[2]),
        (fx.full_like(v, 2.0) * fx.ones_like(v) + fx.zeros_like(v))[7],
        fx.Float32x4.filled(4, 3.0, fx.Float32)[1] + fx.Float32x2([1.0, 2.0])[1],
        v[t % 8],
        fx.min(v, 0.5)[0] + fx.max(v, [low.broadcast_to((4,))[0], 0.25])[5],
    ]
    for j, value in enumerate(found):
        out[t, j] = value


@flyc.jit
def methods(x: fx.Tensor, out: fx.Tensor):
    methods_kernel(x, out).launch(grid=(1, 1, 1), block=(32, 1, 1))


@program(methods)
def vector_methods():
    x, out = randn(32, 8), poison(32, 12)
    v = x.double()
    t = torch.arange(32)
    wanted = [
        v.sum(1),
        v.max(1).values,
        v.min(1).values,
        v[:, 1] * v[:, 5],
        torch.zeros(32),
        v.abs().sum(1) + 1,
        x.half().double()[:, 3],
        v[:, 2].trunc(),
        torch.full((32,), 2.0),
        torch.full((32,), 5.0),
        v[t, t % 8],
        v[:, 0].clamp(max=0.5) + torch.maximum(v[:, 5], v[:, 0].clamp(min=0.25)),
    ]
    return Call([x, out], [(out, torch.stack(wanted, 1))], terms=10, atol=1e-5)


@flyc.kernel
def fast_kernel(x: fx.Tensor, out: fx.Tensor):
    """Flags of floating point: for an operation, for a block of them."""
    t = fx.thread_idx.x
    v = x[t]
    a = fx.exp(v, fastmath=arith.FastMathFlags.fast)
    b = fx.exp2(v, fastmath=arith.FastMathFlags.afn | arith.FastMathFlags.nnan)
    with fx.fastmath(arith.FastMathFlags.contract | arith.FastMathFlags.reassoc):
        c = v * v + 1.0
    with arith.fastmath("fast"):
        d = v / 3.0
        with fx.fastmath("none"):
            e = 1.0 / (v + 5.0)
    f = arith.addf(v.ir_value(), c.ir_value(), fastmath=arith.FastMathFlags.fast)
    out[t, 0] = a
    out[t, 1] = b
    out[t, 2] = c
    out[t, 3] = d
    out[t, 4] = e
    out[t, 5] = fx.Float32(f)
    out[t, 6] = fx.sqrt(c, fastmath="fast")
    out[t, 7] = fx.fma(v, c, d)


@flyc.jit
def fast(x: fx.Tensor, out: fx.Tensor):
    fast_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(fast)
def fast_math():
    x, out = randn(64).clamp(-4, 4), poison(64, 8)
    v = x.double()
    c = v * v + 1
    wanted = [v.exp(), v.exp2(), c, v / 3, 1 / (v + 5), v + c, c.sqrt(), v * c + v / 3]
    return Call([x, out], [(out, torch.stack(wanted, 1))], rtol=1e-5, atol=1e-6)


@flyc.kernel
def numbers_kernel(x: fx.Tensor, f: fx.Tensor, out: fx.Tensor, wide: fx.Tensor):
    """Integers of all widths, shifts, division and what converts to what."""
    t = fx.thread_idx.x
    v = x[t]
    small, big, unsigned = fx.Int8(v), fx.Int64(v), fx.Uint32(v)
    found = [
        fx.Int32(small),
        v // 7,
        v % 7,
        v >> 3,
        fx.Int32(unsigned >> 3),
        fx.Int32(unsigned // 7),
        fx.shrui(v, 4),
        (v << 2) | (v & 5) ^ 3,
        fx.ceildiv(v, 16),
        -v + ~v + abs(v),
        fx.Int32(f[t]),
        fx.Int32(v > 100) + fx.Int32((v < 0) | (v == 5)),
        fx.max(v, 3, v // 2) - fx.min(v, -3),
        (v > 0).select(v, 1 - v),
        fx.math.ctpop(v) + fx.math.ctlz(v) * 64,
        arith.select(v > 10, v, fx.Int32(10)),
    ]
    for j, value in enumerate(found):
        out[t, j] = fx.Int32(value)
    wide[t] = big * big * 3 + fx.Int64(unsigned)


@flyc.jit
def numbers(x: fx.Tensor, f: fx.Tensor, out: fx.Tensor, wide: fx.Tensor):
    numbers_kernel(x, f, out, wide).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(numbers)
def integer_arithmetic():
    x, f = randint(-100000, 100000, 64), randn(64) * 1000
    out, wide = poison(64, 16, dtype=torch.int32), poison(64, dtype=torch.int64)
    rows, wides = [], []
    for v, g in zip(x.tolist(), f.tolist(), strict=True):
        u = v % 2**32
        rest = abs(v) % 7 * (1 if v >= 0 else -1)
        rows.append(
            [
                (v + 128) % 256 - 128, v // 7, rest, v >> 3, u >> 3, u // 7, u >> 4, (v << 2) | (v & 5) ^ 3,
                -(-v // 16), -v + ~v + abs(v), int(g), int(v > 100) + int(v < 0 or v == 5),
                max(v, 3, v // 2) - min(v, -3), v if v > 0 else 1 - v,
                bin(u).count("1") + (32 - u.bit_length()) * 64, max(v, 10),
            ]
        )  # fmt: skip
        wides.append(v * v * 3 + u)
    return Call([x, f, out, wide], [(out, torch.tensor(rows).to(torch.int32)), (wide, torch.tensor(wides))])


@flyc.kernel
def small_kernel(x: fx.Tensor, out: fx.Tensor, codes: fx.Tensor):
    """bf16 with its rounding modes, f16, and 8 bits by the hardware's conversions."""
    t = fx.thread_idx.x
    v = x[t]
    out[t, 0] = fx.Float32(v.to(fx.BFloat16))
    out[t, 1] = fx.Float32(fx.Float16(v))
    pair = fx.rocdl.cvt_pk_fp8_f32(res=T.i32, src_a=v, src_b=v * 2.0, old=fx.Int32(0), word_sel=False)
    codes[t] = fx.Int32(pair)
    out[t, 2] = fx.Float32(fx.rocdl.cvt_f32_fp8(T.f32, pair, 0)) * 0.5
    both = Vec(fx.rocdl.cvt_pk_f32_fp8(T.f32x2, pair, False), (2,), fx.Float32)
    out[t, 3] = both[0] + both[1]


@flyc.jit
def small(x: fx.Tensor, out: fx.Tensor, codes: fx.Tensor):
    small_kernel(x, out, codes).launch(grid=(1, 1, 1), block=(64, 1, 1))


def small_call(kind):
    x, out, codes = randn(64), poison(64, 4), poison(64, dtype=torch.int32)
    one, two = x.to(kind), (2 * x).to(kind)
    bits = one.view(torch.uint8).int() | two.view(torch.uint8).int() << 8
    first = one.float().double()
    wanted = [x.bfloat16().double(), x.half().double(), first / 2, first + two.float().double()]
    return Call([x, out, codes], [(out, torch.stack(wanted, 1)), (codes, bits)])


@program(small, ("gfx942",))
def narrow_floats_of_cdna3():
    return small_call(torch.float8_e4m3fnuz)


@program(small, ("gfx950",))
def narrow_floats():
    return small_call(torch.float8_e4m3fn)


@flyc.kernel
def raw_kernel(x: fx.Tensor, out: fx.Tensor):
    """Values without a class: what the builders give, and what is done with them."""
    t = fx.thread_idx.x
    v = x[t].ir_value()
    w = arith.ArithValue(v) * 2.0
    one = fx.arith.constant(1.0, type=T.f32)
    more = v + one
    index = arith.index_cast(T.index, t)
    number = arith.index_cast(T.i32, index * arith.constant(2, index=True))
    out[t, 0] = fx.Float32(w)
    out[t, 1] = fx.Float32(more)
    out[t, 2] = fx.Float32(fx.Int32(number))
    out[t, 3] = fx.Float32(arith.mulf(v, more))
    out[t, 4] = fx.Float32(arith.select(arith.cmpf(arith.CmpFPredicate.OLT, v, one), v, one))
    out[t, 5] = fx.Float32(more.maximumf(v)) if hasattr(more, "maximumf") else fx.maximumf(more, v)
    out[t, 6] = fx.Float32(arith.sitofp(T.f32, fx.Int32(number)))
    out[t, 7] = fx.Float32(arith.unwrap(fx.Float32(0.5)))


@flyc.jit
def raw(x: fx.Tensor, out: fx.Tensor):
    raw_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(raw, CDNA)
def values_without_a_class():
    x, out = randn(64), poison(64, 8)
    v, t = x.double(), 2.0 * torch.arange(64)
    wanted = [2 * v, v + 1, t, v * (v + 1), v.clamp(max=1), v + 1, t, torch.full((64,), 0.5)]
    return Call([x, out], [(out, torch.stack(wanted, 1))], terms=2)
