"""Block-scaled matrix instructions of gfx950 and gfx1250: 8-, 6- and 4-bit floats, one E8M0 scale per 32 (or 16) k.

`!fly_rocdl.cdna4.mfma_scale<16x16x128, (f8E4M3FN, f4E2M1FN) -> f32, opselA = 0, opselB = 0>` with state `scale_a`,
`scale_b`. The scale of row r and block kb is byte `opsel` of the register of lane `r + M * kb` on gfx950; on gfx1250 it
is byte kb of the register of lane `16 * opsel + r`.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    f32,
    i1,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_attr_definition

from ...errors import DSLValueError
from ...ir.types import bit_width, vector_type
from ...layout import Layout
from ..fly.atom_lowering import AtomEmulation, AtomLowering, MmaScales, Operand, ScaleSide
from .common import bitcast, check_emulated, check_lowering, load_fragment, mangled, mnk_text
from .matrix import WAVE, WAVE32, MatrixAtom

FORMATS: dict[Attribute, int] = {
    Float8E4M3FNType(): 0,
    Float8E5M2Type(): 1,
    Float6E2M3FNType(): 2,
    Float6E3M2FNType(): 3,
    Float4E2M1FNType(): 4,
}
"""Format code by element type."""

_FP4 = Float4E2M1FNType()


class MfmaScaleData(NamedTuple):
    """Parameters."""

    mnk: tuple[int, int, int]
    types: tuple[Attribute, Attribute, Attribute]
    opsel_a: int
    opsel_b: int


def _check_types(types: tuple[Attribute, Attribute, Attribute]) -> None:
    a, b, acc = types
    if acc != f32:
        raise DSLValueError(f"elemTyAcc must be f32, got '{acc}'")
    for name, t in (("A", a), ("B", b)):
        if t not in FORMATS:
            raise DSLValueError(f"elemTy{name} must be one of {', '.join(map(str, FORMATS))}, got '{t}'")


def _verify_mfma(data: MfmaScaleData) -> MfmaScaleData:
    if data.mnk not in ((16, 16, 128), (32, 32, 64)):
        raise DSLValueError(
            f"unsupported MNK for CDNA4 MFMA_Scale: {mnk_text(data.mnk)} (expected 16x16x128 or 32x32x64)"
        )
    _check_types(data.types)
    for name, value in (("opselA", data.opsel_a), ("opselB", data.opsel_b)):
        if not 0 <= value <= 3:
            raise DSLValueError(f"{name} must be in [0, 3], got {value}")
    return data


def load_words(low: AtomLowering, at: Operand, elem: Attribute, count: int) -> SSAValue:
    """A fragment of narrow values as a vector of dwords."""
    return bitcast(low, load_fragment(low, at, elem, count), vector_type(i32, count * bit_width(elem) // 32))


def state_or_zero(low: AtomLowering, field: str, type_: Attribute) -> SSAValue:
    """A scale register; nobody set it: zero."""
    found = low.state(field)
    return low.b.const(0, type_) if found is None else bitcast(low, found, type_)


def scale_value(low: AtomLowering, register: SSAValue, byte: int) -> SSAValue:
    """A byte of a register as the power of two it stands for, f32; 255 is NaN."""
    b = low.b
    moved = b.int_binary("shrui", register, b.const(8 * byte, register.type)) if byte else register
    number = b.int_binary("andi", b.cast("trunci", moved, i32), b.i32(255))
    bits = b.int_binary("shli", number, b.i32(23))
    bits = b.select(b.cmpi("eq", number, b.i32(0)), b.i32(0x00400000), bits)
    bits = b.select(b.cmpi("eq", number, b.i32(255)), b.i32(0x7FC00000), bits)
    return bitcast(low, bits, f32)


@irdl_attr_definition
class MfmaScaleType(MatrixAtom[MfmaScaleData]):
    """The scaled matrix product of CDNA4."""

    name = "fly_rocdl.cdna4.mfma_scale"
    fields = ("opselA", "opselB")
    wave = WAVE
    data_class = MfmaScaleData
    state: ClassVar[tuple[tuple[str, int], ...]] = (("scale_a", 32), ("scale_b", 32))

    @classmethod
    def make(
        cls, m: int, n: int, k: int, a: Attribute, b: Attribute, acc: Attribute, opsel_a: int = 0, opsel_b: int = 0
    ) -> MfmaScaleType:
        """The checked, interned type."""
        return cls.checked((m, n, k), (a, b, acc), opsel_a, opsel_b)

    @classmethod
    def verify_data(cls, data: MfmaScaleData) -> MfmaScaleData:
        return _verify_mfma(data)

    def feature(self) -> str:
        return "mfma_scale"

    def tv_layout(self, operand: int) -> Layout:
        m, n, k = self.data.mnk
        groups = 64 // m
        if operand >= 2:
            across = 64 // n
            return Layout(((n, across), (4, m // 4 // across)), ((m, 4), (1, 4 * across)))
        if bit_width(self.data.types[operand]) == 4:
            each = k // groups
            return Layout(((m, groups), each), ((1, m * each), m))
        # Two runs of 16 consecutive k per lane.
        return Layout(((m, groups), (16, 2)), ((1, 16 * m), (m, 16 * m * groups)))

    def emulate(self, low: AtomEmulation, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """Every lane brings the scale of one row and block: byte `opsel` of its register."""
        layout = Layout((64, 1), (1, 0))
        parts: list[ScaleSide] = []
        for name, sel in (("scale_a", self.data.opsel_a), ("scale_b", self.data.opsel_b)):
            parts.append(ScaleSide([scale_value(low, state_or_zero(low, name, i32), sel)], layout))
        check_emulated(self, low)
        low.emulate_mma(self, d, a, b, c, scales=MmaScales(32, *parts))

    def lower(self, low: AtomLowering, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """One `v_mfma_scale`."""
        check_lowering(self, low)
        m, n, k = self.data.mnk
        ta, tb, acc = self.data.types
        x, y = load_words(low, a, ta, m * k // 64), load_words(low, b, tb, n * k // 64)
        count = m * n // 64
        z = load_fragment(low, c, acc, count)
        const, zero = low.b.i32, low.b.i32(0)
        states = [low.state(name) for name in ("scale_a", "scale_b")]
        sa, sb = (zero if s is None else bitcast(low, s, i32) for s in states)
        name = f"llvm.amdgcn.mfma.scale.f32.{mnk_text(self.data.mnk)}.f8f6f4.{mangled(x.type)}.{mangled(y.type)}"
        operands = [x, y, z, const(FORMATS[ta]), const(FORMATS[tb])]
        operands += [const(self.data.opsel_a), sa, const(self.data.opsel_b), sb]
        out = low.intrinsic(name, vector_type(acc, count), operands)
        assert out is not None
        low.store(out, d)


class WmmaScaleData(NamedTuple):
    """Parameters."""

    mnk: tuple[int, int, int]
    types: tuple[Attribute, Attribute, Attribute]
    opsel_a: int
    opsel_b: int
    mod_c: int
    reuse_a: bool
    reuse_b: bool
    block_size: int


def _verify_wmma(data: WmmaScaleData) -> WmmaScaleData:
    if data.block_size not in (16, 32):
        raise DSLValueError(f"blockSize must be 16 or 32, got {data.block_size}")
    if data.mnk not in ((16, 16, 128), (32, 16, 128)):
        raise DSLValueError(
            f"unsupported MNK for GFX1250 WMMA_Scale: {mnk_text(data.mnk)} (expected 16x16x128 or 32x16x128)"
        )
    _check_types(data.types)
    if data.mnk[0] == 32 and not data.types[0] == data.types[1] == _FP4:
        a, b, _ = data.types
        raise DSLValueError(f"GFX1250 WMMA_Scale 32x16x128 requires f4E2M1FN A and B, got A='{a}', B='{b}'")
    for name, value in (("opselA", data.opsel_a), ("opselB", data.opsel_b)):
        if not 0 <= value <= 1:
            raise DSLValueError(f"{name} must be in [0, 1] (row0/row1), got {value}")
    if not 0 <= data.mod_c <= 65535:
        raise DSLValueError(f"modC must fit the i16 intrinsic field [0, 65535], got {data.mod_c}")
    return data


@irdl_attr_definition
class WmmaScaleType(MatrixAtom[WmmaScaleData]):
    """The scaled matrix product of CDNA5."""

    name = "fly_rocdl.gfx1250.wmma_scale"
    fields = ("opselA", "opselB", "modC", "reuseA", "reuseB", "blockSize")
    wave = WAVE32
    data_class = WmmaScaleData

    @classmethod
    def make(
        cls, m: int, n: int, k: int, a: Attribute, b: Attribute, acc: Attribute, opsel_a: int = 0, opsel_b: int = 0,
        mod_c: int = 0, reuse_a: bool = False, reuse_b: bool = False, block_size: int = 32,
    ) -> WmmaScaleType:  # fmt: skip
        """The checked, interned type."""
        flags = bool(reuse_a), bool(reuse_b)
        return cls.checked((m, n, k), (a, b, acc), opsel_a, opsel_b, mod_c, *flags, block_size)

    @property
    def state(self) -> tuple[tuple[str, int], ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        width = 64 if self.data.block_size == 16 else 32
        return (("scale_a", width), ("scale_b", width))

    @classmethod
    def verify_data(cls, data: WmmaScaleData) -> WmmaScaleData:
        return _verify_wmma(data)

    def feature(self) -> str:
        return "wmma_scale"

    def tv_layout(self, operand: int) -> Layout:
        m = self.data.mnk[0]
        if operand >= 2:
            return Layout(((16, 2), (8, 2)), ((32, 8), (1, 16))) if m == 32 else Layout(((16, 2), 8), ((16, 8), 1))
        if m == 32 and operand == 0:
            # Rows 16 to 31 are the upper half of the registers.
            return Layout(((16, 2), (32, 2, 2)), ((1, 1024), (32, 2048, 16)))
        if bit_width(self.data.types[operand]) == 4:
            return Layout(((16, 2), (32, 2)), ((1, 512), (16, 1024)))
        return Layout(((16, 2), (16, 4)), ((1, 256), (16, 512)))

    def emulate(self, low: AtomEmulation, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """The lanes `opsel` names bring the scales of their row, a byte per block; both halves then write the same."""
        data, build = self.data, low.b
        m, _, k = data.mnk
        blocks = k // data.block_size
        wide = i64 if data.block_size == 16 else i32
        parts: list[ScaleSide] = []
        for operand, name, sel in ((0, "scale_a", data.opsel_a), (1, "scale_b", data.opsel_b)):
            register = state_or_zero(low, name, wide)
            if m == 32 and operand == 0:
                layout = Layout((32, blocks), (1, 32))
            else:
                lane = build.int_binary("andi", low.group_lane(32), build.const(15, i64))
                register = low.exchange(register, 32)(build.addi(lane, build.const(16 * sel, i64)))
                layout = Layout(((16, 2), blocks), ((1, 0), 16))
            parts.append(ScaleSide([scale_value(low, register, i) for i in range(blocks)], layout))
        check_emulated(self, low)
        low.emulate_mma(self, d, a, b, c, scales=MmaScales(data.block_size, *parts))

    def lower(self, low: AtomLowering, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """One `v_wmma_scale`."""
        check_lowering(self, low)
        data = self.data
        m, n, k = data.mnk
        ta, tb, acc = data.types
        x, y = load_words(low, a, ta, m * k // 32), load_words(low, b, tb, n * k // 32)
        count = m * n // 32
        z = load_fragment(low, c, acc, count)
        out_type = vector_type(acc, count)
        wide = i64 if data.block_size == 16 else i32
        const = low.b.const
        states = [low.state(name) for name in ("scale_a", "scale_b")]
        sa, sb = (const(0, wide) if s is None else bitcast(low, s, wide) for s in states)
        modifier = const(data.mod_c & 3, i16)
        zero = const(0, i32)
        scales = [const(data.opsel_a, i32), zero, sa, const(data.opsel_b, i32), zero, sb]
        scales += [const(int(data.reuse_a), i1), const(int(data.reuse_b), i1)]
        kind = "scale16" if data.block_size == 16 else "scale"
        if m == 32:
            name = f"llvm.amdgcn.wmma.{kind}.f32.32x16x128.f4.{mangled(out_type)}.{mangled(x.type)}.{mangled(y.type)}"
            operands = [x, y, modifier, z, *scales]
        else:
            formats = [const(FORMATS[t], i32) for t in (ta, tb)]
            name = f"llvm.amdgcn.wmma.{kind}.f32.16x16x128.f8f6f4.{mangled(out_type)}"
            name += f".{mangled(x.type)}.{mangled(y.type)}"
            operands = [formats[0], x, formats[1], y, modifier, z, *scales]
        out = low.intrinsic(name, out_type, operands)
        assert out is not None
        low.store(out, d)
