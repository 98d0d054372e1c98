"""`!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>`: the matrix instructions of CDNA2, CDNA3 and CDNA4.

One wave of 64 lanes multiplies an M x K by an N x K tile, M = N. Lane `l` of group `g = l / M` holds `K / (64 / M)`
consecutive k of row `l % M`; the accumulator holds four consecutive rows per lane.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from xdsl.dialects.builtin import (
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    bf16,
    f16,
    f32,
    f64,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition

from ...errors import DSLValueError
from ...ir.types import vector_type
from ...layout import Layout
from ...target import families, has
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand
from .common import bitcast, check_emulated, check_lowering, is_signless, load_fragment, mnk_text
from .matrix import WAVE, MatrixAtom

FP8 = (Float8E4M3FNUZType(), Float8E4M3FNType())
BF8 = (Float8E5M2FNUZType(), Float8E5M2Type())
_OCP = (Float8E4M3FNType(), Float8E5M2Type())
_INPUTS = (f16, bf16, f32, f64, *FP8, *BF8)


class _Form(NamedTuple):
    """One instruction: its intrinsic behind `llvm.amdgcn.mfma.`, the type of A and B, the feature it belongs to."""

    intrinsic: str
    operand: Attribute
    feature: str = "mfma"

    @property
    def families(self) -> tuple[str, ...]:
        """Families of architectures with the instruction."""
        return families(self.feature)


def _forms() -> dict[tuple[str, int, int], _Form]:
    """By kind of input, M and K."""
    v = vector_type
    table: dict[tuple[str, int, int], _Form] = {
        ("f32", 32, 2): _Form("f32.32x32x2f32", f32),
        ("f32", 16, 4): _Form("f32.16x16x4f32", f32),
        ("f32", 32, 4): _Form("f32.32x32x4.xf32", v(f32, 2), "mfma_xf32"),
        ("f32", 16, 8): _Form("f32.16x16x8.xf32", v(f32, 2), "mfma_xf32"),
        ("f16", 32, 8): _Form("f32.32x32x8f16", v(f16, 4)),
        ("f16", 16, 16): _Form("f32.16x16x16f16", v(f16, 4)),
        ("f16", 32, 16): _Form("f32.32x32x16.f16", v(f16, 8), "mfma_long_k"),
        ("f16", 16, 32): _Form("f32.16x16x32.f16", v(f16, 8), "mfma_long_k"),
        ("bf16", 32, 4): _Form("f32.32x32x4bf16", v(i16, 2), "mfma_short_k"),
        ("bf16", 16, 8): _Form("f32.16x16x8bf16", v(i16, 2), "mfma_short_k"),
        ("bf16", 32, 8): _Form("f32.32x32x8bf16.1k", v(i16, 4)),
        ("bf16", 16, 16): _Form("f32.16x16x16bf16.1k", v(i16, 4)),
        ("bf16", 32, 16): _Form("f32.32x32x16.bf16", v(bf16, 8), "mfma_long_k"),
        ("bf16", 16, 32): _Form("f32.16x16x32.bf16", v(bf16, 8), "mfma_long_k"),
        ("i8", 32, 8): _Form("i32.32x32x8i8", i32, "mfma_short_k"),
        ("i8", 16, 16): _Form("i32.16x16x16i8", i32, "mfma_short_k"),
        ("i8", 32, 16): _Form("i32.32x32x16.i8", i64, "mfma_i8_k32"),
        ("i8", 16, 32): _Form("i32.16x16x32.i8", i64, "mfma_i8_k32"),
        ("i8", 32, 32): _Form("i32.32x32x32.i8", v(i32, 4), "mfma_long_k"),
        ("i8", 16, 64): _Form("i32.16x16x64.i8", v(i32, 4), "mfma_long_k"),
        ("f64", 16, 4): _Form("f64.16x16x4f64", f64),
    }
    for a in ("fp8", "bf8"):
        for b in ("fp8", "bf8"):
            table[f"{a}.{b}", 32, 16] = _Form(f"f32.32x32x16.{a}.{b}", i64, "mfma_i8_k32")
            table[f"{a}.{b}", 16, 32] = _Form(f"f32.16x16x32.{a}.{b}", i64, "mfma_i8_k32")
    return table


FORMS = _forms()


def _kind(a: Attribute, b: Attribute) -> str:
    """Key of the table for a pair of input types."""
    if is_signless(a, 8):
        return "i8"
    names = ["fp8" if t in FP8 else "bf8" if t in BF8 else str(t) for t in (a, b)]
    return ".".join(names) if "8" in names[0] else names[0]


class MfmaData(NamedTuple):
    """Parameters."""

    mnk: tuple[int, int, int]
    types: tuple[Attribute, Attribute, Attribute]


@cache
def _form_of(data: MfmaData) -> _Form | None:
    a, b, _ = data.types
    if a != b and not (a in (*FP8, *BF8) and b in (*FP8, *BF8)):
        return None
    return FORMS.get((_kind(a, b), data.mnk[0], data.mnk[2]))


def _verify(data: MfmaData) -> MfmaData:
    (m, n, k), (a, b, acc) = data
    if m != n:
        raise DSLValueError(f"MFMA requires M == N, got {mnk_text((m, n, k))}")
    if is_signless(a, 8) or is_signless(b, 8):
        if not (is_signless(a, 8) and is_signless(b, 8)):
            raise DSLValueError(f"integer MFMA requires both inputs i8, got '{a}' and '{b}'")
        if not is_signless(acc, 32):
            raise DSLValueError(f"integer MFMA requires i32 accumulator, got '{acc}'")
    elif a == f64 and b == f64 and acc == f64:
        pass
    elif acc != f32:
        raise DSLValueError(f"elemTyAcc must be f32, got '{acc}'")
    else:
        for name, t in (("A", a), ("B", b)):
            if t not in _INPUTS or t == f64:
                raise DSLValueError(
                    f"elemTy{name} must be f16, bf16, f32, f8E4M3FNUZ, f8E5M2FNUZ, f8E4M3FN or f8E5M2, got '{t}'"
                )
    return data


@irdl_attr_definition
class MfmaType(MatrixAtom[MfmaData]):
    """Matrix product of one wave: `D = A * B^T + C`."""

    name = "fly_rocdl.cdna3.mfma"
    wave = WAVE
    data_class = MfmaData

    @classmethod
    def make(cls, m: int, n: int, k: int, a: Attribute, b: Attribute, acc: Attribute) -> MfmaType:
        """The checked, interned type."""
        return cls.checked((m, n, k), (a, b, acc))

    @classmethod
    def verify_data(cls, data: MfmaData) -> MfmaData:
        return _verify(data)

    @property
    def form(self) -> _Form | None:
        """The instruction, or None where there is none that computes one product."""
        return _form_of(self.data)

    @property
    def rounds_to_xf32(self) -> bool:
        return self.form is not None and self.form.feature == "mfma_xf32"

    def tv_layout(self, operand: int) -> Layout:
        m, n, k = self.data.mnk
        groups = 64 // m
        if operand < 2:
            if k % groups:
                raise DSLValueError(f"{self} computes several independent products; it has no thread-value layout")
            each = k // groups
            return Layout(((m, groups), each), ((1, m * each), m))
        if self.data.types[2] == f64:
            return Layout(((n, groups), 4), ((m, 1), 4))
        across = 64 // n
        return Layout(((n, across), (4, m // 4 // across)), ((m, 4), (1, 4 * across)))

    def feature(self) -> str | None:
        form = self.form
        if form is None:
            return None
        if any(t in (*FP8, *BF8) for t in self.data.types[:2]):
            ocp = [t in _OCP for t in self.data.types[:2]]
            return "mfma_fp8_ocp" if all(ocp) else None if any(ocp) else "mfma_fp8_fnuz"
        return form.feature

    def alternatives(self, arch: str) -> Iterable[str]:
        """MFMA shapes of the same input type on this architecture, and of what fp8 it reads."""
        a, b, acc = self.data.types
        if a in (*FP8, *BF8):
            if has(arch, "mfma_fp8_fnuz"):
                yield "f8E4M3FNUZ and f8E5M2FNUZ inputs"
            elif has(arch, "mfma_fp8_ocp"):
                yield "f8E4M3FN and f8E5M2 inputs"
        for (kind, m, k), form in FORMS.items():
            if kind == _kind(a, b) and has(arch, form.feature):
                yield f"MFMA {m}x{m}x{k} ({a}, {b}) -> {acc}"

    def lower(self, low: AtomLowering, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """One `v_mfma`, its modifiers zero."""
        check_lowering(self, low)
        form = self.form
        if form is None:
            raise DSLValueError(f"{self} has no instruction that computes one product")
        m, n, k = self.data.mnk
        ta, tb, acc = self.data.types
        x = bitcast(low, load_fragment(low, a, ta, m * k // 64), form.operand)
        y = bitcast(low, load_fragment(low, b, tb, n * k // 64), form.operand)
        count = m * n // 64
        z = load_fragment(low, c, acc, count)
        zero = low.b.i32(0)
        out = low.intrinsic(f"llvm.amdgcn.mfma.{form.intrinsic}", vector_type(acc, count), [x, y, z, zero, zero, zero])
        assert out is not None
        low.store(out, d)

    def emulate(self, low: AtomEmulation, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """The product by the reference model."""
        check_emulated(self, low)
        low.emulate_mma(self, d, a, b, c)


SHAPES = {
    "f32": {32: (1, 2), 16: (1, 4), 4: (1,)},
    "f16": {32: (4, 8, 16), 16: (4, 16, 32), 4: (4,)},
    "bf16": {32: (2, 4, 8, 16), 16: (2, 8, 16, 32), 4: (2,)},
}
"""All (m, k) the language lists, those of several products per instruction included."""


def as_ocp(atom: MfmaType) -> MfmaType:
    """The same instruction on OCP bytes, where it is one on FNUZ bytes; else the atom itself."""
    swap: dict[Attribute, Attribute] = {FP8[0]: FP8[1], BF8[0]: BF8[1]}
    a, b, acc = atom.data.types
    if a not in swap and b not in swap:
        return atom
    return MfmaType.make(*atom.data.mnk, swap.get(a, a), swap.get(b, b), acc)
