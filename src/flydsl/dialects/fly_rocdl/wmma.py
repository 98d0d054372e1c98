"""The matrix instructions of waves of 32 lanes: gfx11 (RDNA3), gfx120x (RDNA4) and gfx1250.

`!fly_rocdl.gfx11.wmma<16x16x16, (f16, f16) -> f32, signA = false, signB = false, clamp = false>`. The three families
share names and differ in operands: gfx11 wants A and B twice, once per half of the wave; gfx120x and gfx1250 do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, Self

from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import DenseArrayBase, Float8E4M3FNType, Float8E5M2Type, bf16, f16, f32, i1, i16, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser

from ...errors import DSLValueError
from ...ir.types import bit_width, vector_type
from ...layout import Layout
from ...target import has
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand
from .common import bitcast, check_emulated, check_lowering, fields_text, is_signless, load_fragment, mangled, mnk_text
from .matrix import WAVE32, MatrixAtom

OCP: dict[Attribute, str] = {Float8E4M3FNType(): "fp8", Float8E5M2Type(): "bf8"}


class WmmaData(NamedTuple):
    """Parameters; signs and clamp are for integers."""

    mnk: tuple[int, int, int]
    types: tuple[Attribute, Attribute, Attribute]
    sign_a: bool
    sign_b: bool
    clamp: bool
    mod_c: int = 0
    """What happens to C before it is added; gfx1250 alone."""


class Form(NamedTuple):
    """How one configuration is called: name behind `llvm.amdgcn.wmma.`, types of A and B, order of the operands."""

    name: str
    operand: Attribute
    order: str
    """`plain`: A B C; `half`: A B C op_sel; `int`: signA A signB B C clamp; `v3`: negA A negB B modC C reuse reuse;
    `f8`: A B modC C reuse reuse; `int3`: as `int` with the reuse flags."""


class _Wmma(MatrixAtom[WmmaData]):
    """What the families share."""

    fields = ("signA", "signB", "clamp")
    wave = WAVE32
    data_class = WmmaData
    generation: ClassVar[str]
    """The feature of architectures with this WMMA."""
    bf16_as_words: ClassVar[bool] = True
    """Whether bf16 accumulators are vectors of i16 to LLVM."""
    label: ClassVar[str]
    floats: ClassVar[str] = "floating-point"
    """What messages call its floats."""

    @classmethod
    def parameters(cls, *values: Any) -> WmmaData:
        mnk, types, sign_a, sign_b, clamp, *mod_c = values
        return WmmaData(mnk, types, bool(sign_a), bool(sign_b), bool(clamp), *mod_c)

    def rest_text(self) -> str:
        return fields_text(signA=self.data.sign_a, signB=self.data.sign_b, clamp=self.data.clamp)

    @classmethod
    def form_of(cls, data: WmmaData) -> Form | None:
        """The instruction of a configuration; None when there is none."""
        raise NotImplementedError

    @classmethod
    def listed(cls) -> Iterable[str]:
        """The configurations that exist, for messages."""
        raise NotImplementedError

    @classmethod
    def check_shape(cls, data: WmmaData, integer: bool) -> None:
        """Refuse extents the family has for no types, and flags of integers on floats."""
        if not integer and (data.sign_a or data.sign_b or data.clamp):
            flags = f"signA={int(data.sign_a)}, signB={int(data.sign_b)}, clamp={int(data.clamp)}"
            raise DSLValueError(
                f"{cls.label} WMMA {cls.floats} path does not accept signA/signB/clamp, which are for i4 and i8 "
                f"inputs; got {flags}"
            )

    @classmethod
    def verify_data(cls, data: WmmaData) -> WmmaData:
        """Refuse what the family lacks."""
        cls.check_shape(data, is_signless(data.types[0], 8) or is_signless(data.types[0], 4))
        if cls.form_of(data) is None:
            a, b, acc = data.types
            raise DSLValueError(
                f"unsupported {cls.label} WMMA configuration: {mnk_text(data.mnk)} with A='{a}', B='{b}', "
                f"Acc='{acc}'; it has {', '.join(cls.listed())}"
            )
        return data

    @classmethod
    def make(
        cls, m: int, n: int, k: int, a: Attribute, b: Attribute, acc: Attribute, sign_a: bool = False,
        sign_b: bool = False, clamp: bool = False, mod_c: int = 0,
    ) -> Self:  # fmt: skip
        """The checked, interned type."""
        return cls.checked((m, n, k), (a, b, acc), sign_a, sign_b, clamp, mod_c)

    def feature(self) -> str | None:
        return self.generation

    def tv_layout(self, operand: int) -> Layout:
        raise NotImplementedError

    def lower(self, low: AtomLowering, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """One `v_wmma`."""
        check_lowering(self, low)
        form = self.form_of(self.data)
        assert form is not None
        ta, tb, acc = self.data.types
        x = bitcast(low, load_fragment(low, a, ta, self._count(0)), form.operand)
        y = bitcast(low, load_fragment(low, b, tb, self._count(1)), form.operand)
        out_type = vector_type(acc, 8)
        z = self.rows(low, load_fragment(low, c, acc, 8), inverse=False)
        raw = vector_type(i16, 8) if acc == bf16 and self.bf16_as_words else out_type
        name = f"llvm.amdgcn.wmma.{form.name}.{mangled(raw)}.{mangled(form.operand)}"
        operands = self._operands(low, form.order, x, y, bitcast(low, z, raw))
        out = low.intrinsic(name, raw, operands)
        assert out is not None
        low.store(self.rows(low, bitcast(low, out, out_type), inverse=True), d)

    def emulate(self, low: AtomEmulation, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """The product by the reference model."""
        check_emulated(self, low)
        low.emulate_mma(self, d, a, b, c, signed=(self.data.sign_a, self.data.sign_b), clamp=self.data.clamp)

    def _count(self, operand: int) -> int:
        shape: Any = self.tv_layout(operand).shape
        total = shape[1]
        return total if isinstance(total, int) else total[0] * total[1]

    def rows(self, low: AtomLowering, value: SSAValue, *, inverse: bool) -> SSAValue:
        """Values between the order of the layout and that of the registers; they differ for 16-bit accumulators."""
        if bit_width(self.data.types[2]) >= 32:
            return value
        # The layout counts even rows first, the registers hold rows in order.
        order = [2 * (v % 4) + v // 4 for v in range(8)]
        mask = order if inverse else [order.index(m) for m in range(8)]
        props: dict[str, Attribute] = {"mask": DenseArrayBase.from_list(i64, mask)}
        return low.b.pure(xvector.ShuffleOp, (value, value), value.type, props)

    def _operands(self, low: AtomLowering, order: str, x: SSAValue, y: SSAValue, z: SSAValue) -> list[SSAValue]:
        def flag(value: bool) -> SSAValue:
            return low.b.const(int(value), i1)

        no, none = flag(False), low.b.const(self.data.mod_c, i16)
        sa, sb, clamp = flag(self.data.sign_a), flag(self.data.sign_b), flag(self.data.clamp)
        return {
            "plain": [x, y, z],
            "half": [x, y, z, no],
            "int": [sa, x, sb, y, z, clamp],
            "v3": [no, x, no, y, none, z, no, no],
            "f8": [x, y, none, z, no, no],
            "int3": [sa, x, sb, y, z, no, no, clamp],
        }[order]


@irdl_attr_definition
class Gfx11WmmaType(_Wmma):
    """WMMA of RDNA3: both halves of the wave hold all of A and B."""

    name = "fly_rocdl.gfx11.wmma"
    generation = "wmma_v1"
    label = "GFX11"
    floats = "fp16/bf16"

    @classmethod
    def check_shape(cls, data: WmmaData, integer: bool) -> None:
        if data.mnk != (16, 16, 16):
            raise DSLValueError(f"GFX11 WMMA requires M=N=K=16, got {mnk_text(data.mnk)}")
        super().check_shape(data, integer)

    @classmethod
    def form_of(cls, data: WmmaData) -> Form | None:
        a, b, acc = data.types
        v = vector_type
        if acc == f32:
            if a != b:
                return None
            forms: dict[Attribute, Form] = {
                f16: Form("f32.16x16x16.f16", v(f16, 16), "plain"),
                bf16: Form("f32.16x16x16.bf16", v(i16, 16), "plain"),
            }
            return forms.get(a)
        if not is_signless(acc, 32):
            return None
        # Signs are flags of the instruction, whatever the types say.
        if is_signless(a, 8) and is_signless(b, 8):
            return Form("i32.16x16x16.iu8", v(i32, 4), "int")
        return Form("i32.16x16x16.iu4", v(i32, 2), "int") if is_signless(a, 4) and is_signless(b, 4) else None

    @classmethod
    def listed(cls) -> Iterable[str]:
        return ("16x16x16 f16 -> f32", "bf16 -> f32", "i8 -> i32", "i4 -> i32")

    def tv_layout(self, operand: int) -> Layout:
        if operand < 2:
            return Layout(((16, 2), self.data.mnk[2]), ((1, 0), 16))
        return Layout(((16, 2), 8), ((16, 1), 2))


def _blocked_tv(data: WmmaData, operand: int) -> Layout:
    """A, B in blocks of eight k per half wave; C eight consecutive rows per half wave."""
    k = data.mnk[2]
    if operand >= 2:
        if bit_width(data.types[2]) >= 32:
            return Layout(((16, 2), 8), ((16, 8), 1))
        return Layout(((16, 2), (4, 2)), ((16, 8), (2, 1)))
    if bit_width(data.types[operand]) >= 32:
        each = k // 2
        return Layout(((16, 2), each), ((1, 16 * each), 16))
    blocks = k // 16
    if blocks == 1:
        return Layout(((16, 2), 8), ((1, 128), 16))
    return Layout(((16, 2), (8, blocks)), ((1, 128), (16, 256)))


@irdl_attr_definition
class Gfx120xWmmaType(_Wmma):
    """WMMA of RDNA4."""

    name = "fly_rocdl.gfx120x.wmma"
    generation = "wmma_v2"
    label = "GFX120X"

    @classmethod
    def check_shape(cls, data: WmmaData, integer: bool) -> None:
        if not integer and data.mnk != (16, 16, 16):
            raise DSLValueError(f"GFX120X WMMA floating-point forms require M=N=K=16, got {mnk_text(data.mnk)}")
        super().check_shape(data, integer)

    @classmethod
    def form_of(cls, data: WmmaData) -> Form | None:
        (m, n, k), (a, b, acc) = data.mnk, data.types
        v = vector_type
        if (m, n) != (16, 16):
            return None
        if is_signless(acc, 32):
            if is_signless(a, 8) and is_signless(b, 8) and k == 16:
                return Form("i32.16x16x16.iu8", v(i32, 2), "int")
            if is_signless(a, 4) and is_signless(b, 4) and k in (16, 32):
                return Form(f"i32.16x16x{k}.iu4", i32 if k == 16 else v(i32, 2), "int")
            return None
        if k != 16:
            return None
        if a in OCP and b in OCP:
            return Form(f"f32.16x16x16.{OCP[a]}.{OCP[b]}", v(i32, 2), "plain") if acc == f32 else None
        if a != b:
            return None
        forms: dict[tuple[object, ...], Form] = {
            (f16, f32): Form("f32.16x16x16.f16", v(f16, 8), "plain"),
            (bf16, f32): Form("f32.16x16x16.bf16", v(i16, 8), "plain"),
            (f16, f16): Form("f16.16x16x16.f16", v(f16, 8), "half"),
            (bf16, bf16): Form("bf16.16x16x16.bf16", v(i16, 8), "half"),
        }
        return forms.get((a, acc))

    @classmethod
    def listed(cls) -> Iterable[str]:
        return (
            "16x16x16 f16 -> f32 or f16",
            "bf16 -> f32 or bf16",
            "f8E4M3FN and f8E5M2 pairs -> f32",
            "i8 -> i32",
            "16x16x16 and 16x16x32 i4 -> i32",
        )

    def tv_layout(self, operand: int) -> Layout:
        return _blocked_tv(self.data, operand)


@irdl_attr_definition
class Gfx1250WmmaType(_Wmma):
    """WMMA of gfx1250."""

    name = "fly_rocdl.gfx1250.wmma"
    generation = "wmma_v3"
    bf16_as_words = False
    label = "GFX1250"

    @classmethod
    def check_shape(cls, data: WmmaData, integer: bool) -> None:
        if not integer and (data.sign_a or data.sign_b or data.clamp):
            raise DSLValueError(f"signA/signB/clamp are only valid for integer (iu4/iu8) WMMA, got A='{data.types[0]}'")
        if not 0 <= data.mod_c <= 65535:
            raise DSLValueError(f"modC must fit the i16 intrinsic field [0, 65535], got {data.mod_c}")

    @classmethod
    def parse_rest(cls, parser: AttrParser) -> list[bool | int]:
        found = super().parse_rest(parser)
        if parser.parse_optional_punctuation(",") is not None:
            parser.parse_keyword("modC")
            parser.parse_punctuation("=")
            found.append(parser.parse_integer())
        return found

    def rest_text(self) -> str:
        return super().rest_text() + (fields_text(modC=self.data.mod_c) if self.data.mod_c else "")

    @classmethod
    def form_of(cls, data: WmmaData) -> Form | None:
        (m, n, k), (a, b, acc) = data.mnk, data.types
        v = vector_type
        if (m, n) != (16, 16):
            return None
        if is_signless(acc, 32):
            if is_signless(a, 8) and is_signless(b, 8) and k == 64:
                return Form("i32.16x16x64.iu8", v(i32, 8), "int3")
            return Form("i32.16x16x32.iu4", v(i32, 2), "int") if is_signless(a, 4) and a == b and k == 32 else None
        if a in OCP and b in OCP and k in (64, 128) and acc in (f32, f16):
            return Form(f"{acc}.16x16x{k}.{OCP[a]}.{OCP[b]}", v(i32, k // 8), "f8")
        if a != b:
            return None
        forms: dict[tuple[object, ...], Form] = {
            (4, f32, f32): Form("f32.16x16x4.f32", v(f32, 2), "v3"),
            (32, f16, f32): Form("f32.16x16x32.f16", v(f16, 16), "v3"),
            (32, bf16, f32): Form("f32.16x16x32.bf16", v(bf16, 16), "v3"),
            (32, f16, f16): Form("f16.16x16x32.f16", v(f16, 16), "v3"),
            (32, bf16, bf16): Form("bf16.16x16x32.bf16", v(bf16, 16), "v3"),
        }
        return forms.get((k, a, acc))

    @classmethod
    def listed(cls) -> Iterable[str]:
        return (
            "16x16x4 f32 -> f32",
            "16x16x32 f16 -> f32 or f16",
            "16x16x32 bf16 -> f32 or bf16",
            "16x16x64 and 16x16x128 f8E4M3FN and f8E5M2 pairs -> f32 or f16",
            "16x16x64 i8 -> i32",
        )

    def feature(self) -> str | None:
        # LLVM 22 has no selection for the i4 form.
        return None if is_signless(self.data.types[0], 4) else self.generation

    def alternatives(self, arch: str) -> Iterable[str]:
        """The configurations of the architecture."""
        return self.listed() if has(arch, self.generation) else ()

    def tv_layout(self, operand: int) -> Layout:
        return _blocked_tv(self.data, operand)


def type_for(arch: str) -> type[_Wmma] | None:
    """The type for an architecture; None where it has no WMMA."""
    types: tuple[type[_Wmma], ...] = (Gfx11WmmaType, Gfx120xWmmaType, Gfx1250WmmaType)
    return next((cls for cls in types if has(arch, cls.generation)), None)
