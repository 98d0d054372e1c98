"""Small numbers by AMD's instructions: 8 and 4 bits with a scale, random rounding, integers of four bits."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import rocdl
from flydsl.expr.typing import T

from .case import CDNA, Call, poison, program, randint, randn
from .hardware import to_fp4


@flyc.kernel
def bytes_kernel(x: fx.Tensor, out: fx.Tensor, codes: fx.Tensor, wide: fx.Constexpr[str]):
    """Two numbers with a scale to 8 bits and back, of f32 or bf16."""
    t = fx.thread_idx.x
    scale = fx.Float32(4.0).ir_value()
    old = fx.Vector.filled(2, 0, fx.Int16).ir_value()
    if fx.const_expr(wide == "f32"):
        a, b = x[t, 0].ir_value(), x[t, 1].ir_value()
        low = rocdl.cvt_scalef32_pk_fp8_f32(T.i16x2, old, a, b, scale, False)
        both = rocdl.cvt_scalef32_pk_fp8_f32(T.i16x2, low, b, a, scale, True)
    else:
        pair = fx.Vector.from_elements([x[t, 0], x[t, 1]], fx.Float32).to(fx.BFloat16).ir_value()
        low = rocdl.cvt_scalef32_pk_fp8_bf16(T.i16x2, old, pair, scale, False)
        both = rocdl.cvt_scalef32_pk_fp8_bf16(T.i16x2, low, pair, scale, True)
    word = fx.Vector(both, (2,), fx.Int16).bitcast(fx.Int32)[0]
    codes[t] = word
    if fx.const_expr(wide == "f32"):
        back = fx.Vector(rocdl.cvt_scalef32_pk_f32_fp8(T.f32x2, word.ir_value(), scale, False), (2,), fx.Float32)
    else:
        made = rocdl.cvt_scalef32_pk_bf16_fp8(T.bf16x2, word.ir_value(), scale, False)
        back = fx.Vector(made, (2,), fx.BFloat16).to(fx.Float32)
    out[t, 0] = back[0]
    out[t, 1] = back[1]


@flyc.jit
def scaled_bytes(x: fx.Tensor, out: fx.Tensor, codes: fx.Tensor, wide: fx.Constexpr[str]):
    bytes_kernel(x, out, codes, wide).launch(grid=(1, 1, 1), block=(64, 1, 1))


def bytes_call(wide, x):
    out, codes = poison(64, 2), poison(64, dtype=torch.int32)
    small = (x.double() / 4).float().to(torch.float8_e4m3fn)
    byte = small.view(torch.uint8).int()
    first = byte[:, 0] | byte[:, 1] << 8
    second = first if wide == "bf16" else byte[:, 1] | byte[:, 0] << 8
    word = (first.long() | second.long() << 16) & 0xFFFFFFFF
    word = torch.where(word >= 1 << 31, word - (1 << 32), word)
    return Call([x, out, codes, wide], [(out, 4 * small.double()), (codes, word)])


@program(scaled_bytes, ("gfx950",))
def eight_bits_with_a_scale():
    return bytes_call("f32", randn(64, 2) * 30)


@program(scaled_bytes, ("gfx950",))
def eight_bits_of_bfloats():
    return bytes_call("bf16", (randn(64, 2) * 30).bfloat16().float())


@flyc.kernel
def four_kernel(x: fx.Tensor, out: fx.Tensor, codes: fx.Tensor):
    """bf16 to fp4 into the third byte of a word, and back as bf16 and as f32."""
    t = fx.thread_idx.x
    scale = fx.Float32(0.5).ir_value()
    pair = fx.Vector.from_elements([x[t, 0], x[t, 1]], fx.Float32).to(fx.BFloat16)
    word = rocdl.cvt_scalef32_pk_fp4_bf16(T.i32, fx.Int32(0x11223344).ir_value(), pair.ir_value(), scale, 2)
    codes[t] = fx.Int32(word)
    back = fx.Vector(rocdl.cvt_scalef32_pk_bf16_fp4(T.bf16x2, word, scale, 2), (2,), fx.BFloat16).to(fx.Float32)
    again = fx.Vector(rocdl.cvt_scalef32_pk_f32_fp4(T.f32x2, word, scale, 2), (2,), fx.Float32)
    more = rocdl.cvt_scalef32_pk_fp4_f32(T.i32, word, x[t, 0].ir_value(), x[t, 1].ir_value(), scale, 0)
    out[t, 0] = back[0]
    out[t, 1] = again[1]
    codes[t + 64] = fx.Int32(more)


@flyc.jit
def four_bits(x: fx.Tensor, out: fx.Tensor, codes: fx.Tensor):
    four_kernel(x, out, codes).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(four_bits, ("gfx950",))
def four_bits_of_bfloats():
    x = randn(64, 2).bfloat16().float()
    out, codes = poison(64, 2), poison(128, dtype=torch.int32)
    (low, first), (high, second) = (to_fp4(2 * x[:, i].double()) for i in range(2))
    byte = low | high << 4
    words = 0x11003344 | byte << 16
    return Call([x, out, codes], [(out, torch.stack([first, second], 1) / 2),
                (codes, torch.cat([words, words & ~0xFF | byte]))])  # fmt: skip


@flyc.kernel
def nibbles_kernel(x: fx.Tensor, out: fx.Tensor):
    """Weights of four bits in sixteenths, byte after byte."""
    t = fx.thread_idx.x
    word = x[t]
    for i in fx.range_constexpr(4):
        out[t, i] = fx.Float32(rocdl.cvt_off_f32_i4(word.ir_value(), byte_sel=i)) * 16.0


@flyc.jit
def nibbles(x: fx.Tensor, out: fx.Tensor):
    nibbles_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(nibbles, CDNA)
def integers_of_four_bits():
    x, out = randint(-(2**31), 2**31, 64), poison(64, 4)
    low = torch.stack([(x >> 8 * i) & 15 for i in range(4)], 1)
    return Call([x, out], [(out, torch.where(low > 7, low - 16, low).double())])


@flyc.kernel
def random_kernel(x: fx.Tensor, noise: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    made = rocdl.cdna4.cvt_sr_f32_to_bf16(x[t], noise[t])
    out[t] = fx.Float32(made)


@flyc.jit
def random_rounding(x: fx.Tensor, noise: fx.Tensor, out: fx.Tensor):
    random_kernel(x, noise, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(random_rounding, ("gfx950",))
def bfloats_rounded_at_random():
    x, noise, out = randn(64), randint(-(2**31), 2**31, 64), poison(64)
    bits = (x.view(torch.int32) + (noise & 0xFFFF)) & -65536
    return Call([x, noise, out], [(out, bits.view(torch.float32).double())])
