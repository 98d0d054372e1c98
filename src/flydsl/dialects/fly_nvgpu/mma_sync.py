"""`mma.sync`: the warp-level matrix multiply from Ampere on, all operands in registers."""

from __future__ import annotations

from typing import NamedTuple, cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
    Signedness,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ... import layout as L
from ...ir.types import vector_type
from ...layout import Layout
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand
from ..fly.atoms import MmaOpType, parse_mma_types, parse_mnk, print_mma
from . import registers as reg
from .accumulation import sums_of

WARP = Layout(32, 1)
_TF32 = FloatTF32Type()
_UI8 = IntegerType(8, Signedness.UNSIGNED)

_K = {
    "f16": (8, 16),
    "bf16": (8, 16),
    "tf32": (4, 8),
    "s8": (16, 32),
    "u8": (16, 32),
    "e4m3": (32,),
    "e5m2": (32,),
    "f64": (4, 8, 16),
}
"""Depths of m16n8kK by operand type; f64 has m8n8k4 as well."""


_NAMES: dict[type[Attribute], str] = {
    Float16Type: "f16",
    BFloat16Type: "bf16",
    FloatTF32Type: "tf32",
    Float32Type: "tf32",
    Float8E4M3FNType: "e4m3",
    Float8E5M2Type: "e5m2",
    Float64Type: "f64",
}


def type_name(type_: Attribute) -> str | None:
    """PTX's word for an operand type."""
    if isinstance(type_, IntegerType):
        if type_.width.data != 8:  # pyright: ignore[reportUnknownMemberType]
            return None
        return "u8" if type_ == _UI8 else "s8"
    return _NAMES.get(type(type_))


def family(name: str) -> str:
    """Operand types that go together in one instruction: 8-bit integers of any sign, both 8-bit floats."""
    return {"s8": "int8", "u8": "int8", "e4m3": "fp8", "e5m2": "fp8"}.get(name, name)


class MmaData(NamedTuple):
    """Shape and operand types."""

    mnk: tuple[int, int, int]
    a: Attribute
    b: Attribute
    acc: Attribute


def problem(data: MmaData) -> str | None:
    """Why there is no such instruction; None if there is."""
    a, b = type_name(data.a), type_name(data.b)
    if a is None or b is None:
        return f"mma.sync has no operands of type {data.a if a is None else data.b}"
    if family(a) != family(b):
        return f"mma.sync cannot mix {a} and {b}"
    m, n, k = data.mnk
    if (m, n) != (16, 8) and not (a == "f64" and data.mnk == (8, 8, 4)):
        return f"mma.sync computes 16x8 tiles, got {m}x{n}"
    if k not in _K[a]:
        return f"mma.sync of {a} has k = {' or '.join(map(str, _K[a]))}, got {k}"
    wanted = {"int8": (i32,), "f16": (f32, Float16Type()), "f64": (Float64Type(),)}.get(family(a), (f32,))
    if data.acc not in wanted:
        return f"mma.sync of {a} accumulates in {' or '.join(map(str, wanted))}, got {data.acc}"
    return None


def feature_of(data: MmaData) -> str:
    """The feature of architectures with the instruction."""
    name = type_name(data.a)
    if name == "f64" and data.mnk[0] == 16:
        return "mma_sync_f64_m16"
    return "mma_sync_fp8" if name in ("e4m3", "e5m2") else "mma_sync"


def element(type_: Attribute) -> Attribute:
    """The type operands have in memory: tf32 is f32 there, signs of integers are the instruction's business."""
    if type_ == _TF32:
        return f32
    return i8 if type_ == _UI8 else type_


@irdl_attr_definition
class MmaSyncType(Data[MmaData], MmaOpType):
    """`!fly_nvgpu.sm80.mma<16x8x16, (f16, f16) -> f32>`."""

    name = "fly_nvgpu.sm80.mma"

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        return self.data.mnk

    @property
    def elem_types(self) -> tuple[Attribute, Attribute, Attribute]:
        return element(self.data.a), element(self.data.b), self.data.acc

    @property
    def thr_layout(self) -> Layout:
        return WARP

    def tv_layout(self, operand: int) -> Layout:
        m, n, k = self.data.mnk
        if operand >= 2:
            if m == 8:
                return Layout(((4, 8), 2), ((16, 1), 8))
            return Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
        name = type_name(self.data.a)
        if name == "f64":
            return self._tv_f64(operand)
        # p elements share a register; a second register holds the second half of k.
        p = {"f16": 2, "bf16": 2, "tf32": 1}.get(str(name), 4)
        rows = m if operand == 0 else n
        shape: list[int] = []
        stride: list[int] = []
        for extent, step in ((p, rows), (m // 8 if operand == 0 else 1, 8), (k // (4 * p), rows * (k // 2))):
            if extent > 1:
                shape.append(extent)
                stride.append(step)
        if len(shape) < 2:
            return Layout(((4, 8), shape[0] if shape else 1), ((rows * p, 1), stride[0] if stride else 0))
        return Layout(((4, 8), tuple(shape)), ((rows * p, 1), tuple(stride)))

    def _tv_f64(self, operand: int) -> Layout:
        m, n, k = self.data.mnk
        rows = m if operand == 0 else n
        halves, steps = (m // 8 if operand == 0 else 1), k // 4
        if halves == 1 and steps == 1:
            return Layout(((4, 8), 1), ((rows, 1), 0))
        if halves == 1 or steps == 1:
            return Layout(((4, 8), halves * steps), ((rows, 1), 8 if steps == 1 else 4 * rows))
        return Layout(((4, 8), (halves, steps)), ((rows, 1), (8, 4 * rows)))

    def intrinsic(self) -> str:
        """LLVM's name for the instruction."""
        m, n, k = self.data.mnk
        a, b = type_name(self.data.a), type_name(self.data.b)
        base = f"llvm.nvvm.mma.m{m}n{n}k{k}.row.col"
        if a == "f16":
            word = "f16" if self.data.acc == Float16Type() else "f32"
            return f"{base}.{word}.{word}"
        if a in ("e4m3", "e5m2"):
            return f"{base}.f32.{a}.{b}.f32"
        if a == b or a in ("bf16", "tf32", "f64"):
            return f"{base}.{a}"
        return f"{base}.{a}.{b}"

    def lower(self, low: AtomLowering, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """Registers in, one intrinsic, registers out."""
        reg.require(low, self, feature_of(self.data))
        name = type_name(self.data.a)
        counts = [cast(int, L.size(self.tv_layout(i)[1])) for i in range(3)]
        va, vb, vc = (reg.read(low, x, n) for x, n in zip((a, b, c), counts, strict=True))
        split = {"f16": reg.pairs, "f64": reg.scalars}.get(str(name), reg.words)
        half = self.data.acc == Float16Type()
        acc = reg.pairs(low, vc) if half else reg.scalars(low, vc)
        operands: list[SSAValue] = [*split(low, va), *split(low, vb), *acc]
        one: Attribute = vector_type(Float16Type(), 2) if half else self.data.acc
        result = low.intrinsic(self.intrinsic(), reg.struct_of(one, len(acc)), operands)
        assert result is not None
        parts = reg.fields(low, result, len(acc))
        if half:
            parts = [x for part in parts for x in reg.scalars(low, part)]
        reg.write(low, reg.vector_of(low, parts), d)

    def emulate(self, low: AtomEmulation, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """The product as the unit of the architecture adds it up."""
        sums = sums_of(low.arch, str(type_name(self.data.a)), self.data.acc, sync=True)
        low.emulate_mma(self, d, a, b, c, signed=(self.data.a != _UI8, self.data.b != _UI8), sums=sums)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> MmaData:
        with parser.in_angle_brackets():
            mnk = parse_mnk(parser)
            parser.parse_punctuation(",")
            data = MmaData(mnk, *parse_mma_types(parser))
            found = problem(data)
            if found is not None:
                parser.raise_error(found)
        return data

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        print_mma(printer, self.data.mnk, (self.data.a, self.data.b, self.data.acc))
        printer.print_string(">")
