"""Every form of `mma.sync` and `wgmma` that the dialect knows, on data that shows how sums are aligned and rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.dialects.fly_nvgpu import mma_sync, wgmma

from .draw import FORMATS, Draw, values
from .program import Array, Bits, Call, Program, class_of, output

OPERANDS = ("f16", "bf16", "f32", "e4m3", "e5m2", "i8", "u8", "f64")
ACCUMULATORS = ("f32", "f16", "i32", "f64")
SHAPES = ((16, 8), (8, 8))
DEPTHS = (4, 8, 16, 32)
KINDS = ("normal", "wide", "powers", "cancel", "sparse", "special", "small", "deep", "huge")
"""How the operands of a tile are made; see `operand`."""


# --- data ---------------------------------------------------------------------------------------------------------


def _float(f: str, sign: Any, exponent: Any, fraction: Any) -> Any:
    """Bits of floats whose exponents are clipped to the normal ones."""
    form = FORMATS[f]
    top = (1 << form.exponent) - 2
    biased = np.clip(exponent + form.bias, 1, top)
    keep = np.where((biased == top) & (not form.infinities), fraction & ((1 << form.fraction) - 2), fraction)
    return (sign << (form.width - 1)) | (biased << form.fraction) | (keep & ((1 << form.fraction) - 1))


def operand(draw: Draw, name: str, shape: tuple[int, int], kind: str) -> Bits:
    """Values of one tile: rows of A or B.

    `wide` and `deep` have exponents from a range of 12 and 20; `powers` are powers of two and zeros; of `sparse` most
    are zero; `cancel` is made of neighbours of opposite sign (B is constant along pairs); `small` has subnormal ones,
    `huge` such that sums overflow.
    """
    form = FORMATS[name]
    count = shape[0] * shape[1]
    if not form.is_float:
        made = values(draw, name, count, "special" if kind == "special" else "finite")
        return made.reshape(shape)
    if kind == "special":
        pick = draw.below(6, count)
        bits = np.where(pick == 0, values(draw, name, count, "special"), values(draw, name, count, "near"))
        return bits.astype(form.storage).reshape(shape)
    sign = draw.below(2, count)
    fraction = (draw.words(count) >> np.uint64(9)).astype(np.int64)
    spread = {"wide": 12, "deep": 20, "powers": 13, "sparse": 14}.get(kind, 3)
    exponent = draw.below(spread, count) - spread // 2
    if kind == "powers":
        fraction = fraction * 0
    if kind == "huge":
        # Half the exponents of f32 in each factor, all of those of a narrower format.
        exponent = exponent + min(form.bias - 2, 62)
    if kind == "small":
        tiny = fraction & ((1 << form.fraction) - 1)
        normal = _float(name, sign, exponent + 3, fraction)
        bits = np.where(draw.below(2, count) == 0, tiny | (sign << (form.width - 1)), normal)
    else:
        bits = _float(name, sign, exponent, fraction)
    if kind in ("powers", "sparse"):
        bits = np.where(draw.below(8, count) < (3 if kind == "powers" else 6), 0, bits)
    bits = bits.reshape(shape)
    if kind == "cancel":
        flip = np.int64(-(2**63)) if form.width == 64 else np.int64(1 << (form.width - 1))
        bits[:, 1::2] = bits[:, 0::2] ^ flip
        off = draw.below(4, bits.size).reshape(shape) == 0
        bits = np.where(off, values(draw, name, bits.size, "near").reshape(shape), bits)
    return bits.astype(np.int64).astype(form.storage)


def addend(draw: Draw, name: str, shape: tuple[int, int], kind: str, scale: int) -> Bits:
    """C, with magnitudes around those of the products and far from them; a quarter is zero."""
    form = FORMATS[name]
    count = shape[0] * shape[1]
    if not form.is_float:
        return values(draw, name, count, "finite").reshape(shape)
    if kind == "special":
        return operand(draw, name, shape, kind)
    exponent = draw.below(2 * scale + 1, count) - scale
    fraction = (draw.words(count) >> np.uint64(9)).astype(np.int64)
    bits = _float(name, draw.below(2, count), exponent, fraction)
    bits = np.where(draw.below(4, count) == 0, 0, bits)
    return bits.astype(np.int64).astype(form.storage).reshape(shape)


def tiles(
    label: str, types: Sequence[str], mnk: tuple[int, int, int], count: int, *, b_rows: int | None = None
) -> tuple[Bits, Bits, Bits]:
    """A, B and C of as many products, of all kinds in turn."""
    draw = Draw(label)
    m, n, k = mnk
    made: list[list[Bits]] = [[], [], []]
    for i in range(count):
        kind = KINDS[i % len(KINDS)]
        made[0].append(operand(draw, types[0], (m, k), kind))
        right = operand(draw, types[1], (b_rows or n, k), "normal" if kind == "cancel" else kind)
        if kind == "cancel":
            right[:, 1::2] = right[:, 0::2]
        made[1].append(right)
        made[2].append(addend(draw, types[2], (m, n), kind, (4, 16, 30)[i // len(KINDS) % 3]))
    a, b, c = (np.stack(x) for x in made)
    return a, b, c


# --- mma.sync -----------------------------------------------------------------------------------------------------


@flyc.kernel
def mma_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, d: fx.Tensor, mma: fx.TiledMma):
    """A product per block of one warp, from global memory straight to registers."""
    tile, lane = fx.block_idx.x, fx.thread_idx.x
    a, b = a[tile, None, None], b[tile, None, None]
    c, d = c[tile, None, None], d[tile, None, None]
    mine = mma.get_slice(lane)
    ra, rb, rc = mine.make_fragment_A(a), mine.make_fragment_B(b), mine.make_fragment_C(c)
    for operand_of, element, part, registers in (
        (fx.make_tiled_copy_A, a, a, ra),
        (fx.make_tiled_copy_B, b, b, rb),
        (fx.make_tiled_copy_C, c, c, rc),
    ):
        atom = fx.make_copy_atom(fx.UniversalCopy(element.dtype.width), element.dtype)
        load = operand_of(atom, mma).get_slice(lane)
        fx.copy(atom, load.partition_S(part), load.retile(registers))
    fx.gemm(mma, rc, ra, rb, rc)
    atom = fx.make_copy_atom(fx.UniversalCopy(d.dtype.width), d.dtype)
    store = fx.make_tiled_copy_C(atom, mma).get_slice(lane)
    fx.copy(atom, store.retile(rc), store.partition_D(d))


def mma_product(mnk: tuple[int, int, int], types: tuple[str, str, str]) -> Callable[..., object]:
    """A function for products of one form of `mma.sync`."""
    a, b, acc = (class_of(t) for t in types)
    m, n, k = mnk

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, out: fx.Tensor):
        atom = fx.make_mma_atom(fx.nvgpu.MMA(m, n, k, a, acc, b=b))
        mma = fx.make_tiled_mma(atom, fx.make_layout((1, 1, 1), (0, 0, 0)))
        mma_kernel(x, y, z, out, mma).launch(grid=out.shape.unpack()[0], block=32)

    return run


def mma_forms() -> Iterator[tuple[tuple[int, int, int], tuple[str, str, str]]]:
    """All that the dialect takes."""
    for (m, n), k, a, b, acc in product(SHAPES, DEPTHS, OPERANDS, OPERANDS, ACCUMULATORS):
        data = mma_sync.MmaData((m, n, k), *_ir_types(a, b, acc))
        if mma_sync.problem(data) is None:
            yield (m, n, k), (a, b, acc)


def _ir_types(a: str, b: str, acc: str) -> tuple[Any, Any, Any]:
    from flydsl.expr.nvgpu.atoms import _operand_type  # pyright: ignore[reportPrivateUsage]

    return _operand_type(class_of(a)), _operand_type(class_of(b)), class_of(acc).ir_type


def _mma(label: str, mnk: tuple[int, int, int], types: tuple[str, str, str]) -> Call:
    count = 54
    a, b, c = tiles(label, types, mnk, count)
    arrays = [Array(x, t, typed=True) for x, t in zip((a, b, c), types, strict=True)]
    names = [f"{KINDS[i % len(KINDS)]} {i}" for i in range(count)]
    return Call(mma_product(mnk, types), (*arrays, output(c.shape, types[2], typed=True, names=names)), static=True)


# --- wgmma --------------------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """One form of `wgmma`, and how its operands lie in shared memory."""

    n: int
    types: tuple[str, str, str]
    registers: bool
    majors: tuple[str, str]
    width: int
    accumulate: bool

    @property
    def label(self) -> str:
        place = "registers" if self.registers else "smem"
        more = "" if self.accumulate else " without C"
        return f"wgmma n{self.n} {' '.join(self.types)} {place} {''.join(self.majors)} S{self.width}{more}"


def operand_layout(rows: int, depth: int, bits: int, width: int, major: str) -> Any:
    """A layout of (rows, depth) elements in shared memory that `wgmma` reads with a swizzle of `width` bytes."""
    unit = 128 // bits
    if major == "k":
        if width:
            return fx.make_layout((rows, depth), (width * 8 // bits, 1))
        return fx.make_layout(((8, rows // 8), (unit, depth // unit)), ((unit, 8 * depth), (1, 8 * unit)))
    span = width * 8 // bits
    if span:
        if rows == span:
            return fx.make_layout((rows, depth), (1, span))
        return fx.make_layout(((span, rows // span), depth), ((1, span * depth), span))
    return fx.make_layout(((8, rows // 8), (8, depth // 8)), ((1, 64), (8, rows * 8)))


@flyc.kernel
def wgmma_kernel(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    d: fx.Tensor,
    mma: fx.TiledMma,
    layout_a: fx.Layout,
    layout_b: fx.Layout,
    form: fx.Constexpr[tuple],
):
    """A product per block of one warpgroup; threads write the operands into shared memory."""
    width, registers, accumulate, room = form
    tile, tid = fx.block_idx.x, fx.thread_idx.x
    a, b = a[tile, None, None], b[tile, None, None]
    c, d = c[tile, None, None], d[tile, None, None]
    rows_a, depth = a.shape.unpack()
    rows_b = b.shape.unpack()[0]
    base = fx.get_dyn_shared(a.dtype)
    other = fx.recast_iter(b.dtype, base + room)
    mask = {0: 0, 32: 1, 64: 2, 128: 3}[width]
    pointers = [base, other]
    if fx.const_expr(mask > 0):
        swizzle = fx.static(fx.SwizzleType.get(mask, 4, 3))
        pointers = [fx.apply_swizzle(p, swizzle) for p in pointers]
    sa, sb = fx.make_view(pointers[0], layout_a), fx.make_view(pointers[1], layout_b)
    for i in range(tid, rows_a * depth, 128):
        sa[i // depth, i % depth] = a[i // depth, i % depth]
    for i in range(tid, rows_b * depth, 128):
        sb[i // depth, i % depth] = b[i // depth, i % depth]
    fx.nvgpu.fence_proxy_async()
    fx.barrier()
    mine = mma.get_slice(tid)
    acc = mine.make_fragment_C(c)
    word = fx.make_copy_atom(fx.UniversalCopy(c.dtype.width), c.dtype)
    store = fx.make_tiled_copy_C(word, mma).get_slice(tid)
    fx.copy(word, store.partition_S(c), store.retile(acc))
    left = mine.partition_A(sa)
    if fx.const_expr(registers):
        left = mine.make_fragment_A(a)
        element = fx.make_copy_atom(fx.UniversalCopy(a.dtype.width), a.dtype)
        load = fx.make_tiled_copy_A(element, mma).get_slice(tid)
        fx.copy(element, load.partition_S(a), load.retile(left))
    fx.nvgpu.wgmma_fence()
    now = mma if accumulate else mma.set_value("accumulate", 0)
    fx.gemm(now, acc, left, mine.partition_B(sb), acc)
    fx.nvgpu.wgmma_commit()
    fx.nvgpu.wgmma_wait(0, acc)
    fx.copy(word, store.retile(acc), store.partition_D(d))


def wgmma_product(form: Form) -> Callable[..., object]:
    """A function for products of one form of `wgmma`."""
    a, b, acc = (class_of(t) for t in form.types)
    bits = a.width
    depth = 256 // bits
    n, width, registers, majors, accumulate = form.n, form.width, form.registers, form.majors, form.accumulate
    pitch = max(depth, width * 8 // bits) if majors[0] == "k" else depth
    room = 64 * pitch
    nbytes = (room + n * (max(depth, width * 8 // bits) if majors[1] == "k" else depth)) * bits // 8

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, out: fx.Tensor):
        op = fx.nvgpu.WGMMA(
            n, depth, a, acc, b=b, a_from="registers" if registers else "smem", major_a=majors[0], major_b=majors[1]
        )
        mma = fx.make_tiled_mma(fx.make_mma_atom(op), fx.make_layout((1, 1, 1), (0, 0, 0)))
        la = operand_layout(64, depth, bits, width, majors[0])
        lb = operand_layout(n, depth, bits, width, majors[1])
        wgmma_kernel(x, y, z, out, mma, la, lb, (width, registers, accumulate, room)).launch(
            grid=out.shape.unpack()[0], block=128, smem=nbytes
        )

    return run


def _swizzles(n: int, bits: int, majors: tuple[str, str]) -> list[int]:
    """Swizzles for which whole operands of one instruction can be laid out."""
    found: list[int] = []
    for width in (128, 64, 32, 0):
        span = width * 8 // bits
        fits = all(major == "k" or not span or rows % span == 0 for major, rows in zip(majors, (64, n), strict=True))
        if fits:
            found.append(width)
    return found


def wgmma_forms() -> Iterator[Form]:
    """Every pair of operand types, accumulator, place and direction; every n and swizzle with some of them."""
    draw = Draw("swizzles")
    waiting: list[int] = []
    for a, b, acc, registers, major_a, major_b in product(
        OPERANDS, OPERANDS, ACCUMULATORS, (False, True), ("k", "mn"), ("k", "mn")
    ):
        if a == "f64" or b == "f64":
            continue
        depth = 256 // FORMATS[a].width
        place = "registers" if registers else "smem"

        def known(
            n: int, types: tuple[str, str, str] = (a, b, acc), more: Any = (place, major_a, major_b), k: int = depth
        ) -> bool:
            return wgmma.problem(wgmma.WgmmaData((64, n, k), *_ir_types(*types), *more)) is None

        if not known(8):
            continue
        if not any(map(known, waiting)):
            waiting += range(8, 257, 8)
        for n in (draw.choice((8, 16, 24)), next(n for n in waiting if known(n))):
            if n in waiting:
                waiting.remove(n)
            width = draw.choice(_swizzles(n, FORMATS[a].width, (major_a, major_b)))
            yield Form(n, (a, b, acc), registers, (major_a, major_b), width, draw.number(4) > 0)


def _wgmma(form: Form) -> Call:
    count = 18 if form.n <= 24 else 1
    mnk = (64, form.n, 256 // FORMATS[form.types[0]].width)
    a, b, c = tiles(form.label, form.types, mnk, count)
    arrays = [Array(x, t, typed=True) for x, t in zip((a, b, c), form.types, strict=True)]
    names = [f"{KINDS[i % len(KINDS)]} {i}" for i in range(count)]
    return Call(wgmma_product(form), (*arrays, output(c.shape, form.types[2], typed=True, names=names)), static=True)


def programs() -> Iterator[Program]:
    for mnk, types in mma_forms():
        label = f"mma {'x'.join(map(str, mnk))} {' '.join(types)}"
        yield Program(label, "mma.sync", partial(_mma, label, mnk, types))
    for form in wgmma_forms():
        yield Program(form.label, "wgmma", partial(_wgmma, form))


__all__ = ["KINDS", "Form", "mma_forms", "programs", "tiles", "wgmma_forms"]
