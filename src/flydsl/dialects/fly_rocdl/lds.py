"""Transposing reads of shared memory: `!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>`.

A group of 16 lanes reads 16 runs of 64 (or 96) bits, each lane naming one, and every lane receives one column of the
matrix the runs form: lane `i` gets element `i % n` of runs `j * 16 / n' + i / n`, as `dst_bits` says.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import IntegerType, i16, i32
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...errors import DSLCompileError, DSLValueError
from ...ir.enums import AddressSpace
from ...ir.types import bit_width, vector_type
from ...layout import Layout
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand
from ..fly.atoms import CopyOpType
from ..fly.types import intern
from .common import ArchAtom, bitcast, check_lowering, is_signless, refuse

_FORMS = {(4, 64), (8, 64), (6, 96), (16, 64)}


class LdsReadTransData(NamedTuple):
    """Width of the elements that change lanes, and bits per lane."""

    granularity: int
    bits: int


def _verify(data: LdsReadTransData) -> LdsReadTransData:
    if tuple(data) not in _FORMS:
        raise DSLValueError(
            f"unsupported (bitSize, transGranularity) = ({data.bits}, {data.granularity}) for LDS read transpose"
        )
    return data


@irdl_attr_definition
class LdsReadTransType(Data[LdsReadTransData], CopyOpType, ArchAtom):
    """Shared memory to registers, transposed among 16 lanes."""

    name = "fly_rocdl.cdna4.lds_read_trans"

    @classmethod
    def make(cls, granularity: int, bits: int) -> LdsReadTransType:
        """The checked, interned type."""
        return intern(cls, _verify(LdsReadTransData(granularity, bits)))

    @property
    def bits(self) -> int:
        return self.data.bits

    @property
    def thr_layout(self) -> Layout:
        return Layout(16, 1)

    @property
    def src_bits(self) -> Layout:
        return Layout((16, self.data.bits), (self.data.bits, 1))

    @property
    def dst_bits(self) -> Layout:
        g = self.data.granularity
        return Layout((16, (g, self.data.bits // g)), (g, (1, 16 * g)))

    @property
    def ref_bits(self) -> Layout:
        return self.dst_bits

    def feature(self) -> str:
        return "lds_read_transpose"

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One `ds_read_*_tr_*`."""
        self._check_spaces(src, dst)
        check_lowering(self, low)
        g, bits = self.data
        type_ = vector_type(i16, 4) if g == 16 else vector_type(i32, bits // 32)
        suffix = "v4i16" if g == 16 else f"v{bits // 32}i32"
        value = low.intrinsic(f"llvm.amdgcn.ds.read.tr{g}.b{bits}.{suffix}", type_, [low.raw_pointer(src)])
        assert value is not None
        width = bit_width(dst.data.elem)
        narrow = width < 16 or is_signless(dst.data.elem, width)
        stored: Attribute = IntegerType(width) if narrow else dst.data.elem
        low.store(bitcast(low, value, vector_type(stored, bits // width)), dst)

    def emulate(self, low: AtomEmulation, src: Operand, dst: Operand) -> None:
        """Lanes read what others name."""
        self._check_spaces(src, dst)
        low.emulate_copy(self, src, dst)

    def _check_spaces(self, src: Operand, dst: Operand) -> None:
        if src.data.space is not AddressSpace.Shared or dst.data.space is not AddressSpace.Register:
            raise DSLCompileError(
                f"{self} reads shared memory into registers, got {src.data.space} -> {dst.data.space}"
            )

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> LdsReadTransData:
        with parser.in_angle_brackets():
            parser.parse_keyword("trans")
            parser.parse_punctuation("=")
            granularity = parser.parse_integer(allow_boolean=False)
            parser.parse_optional_characters("b")
            parser.parse_punctuation(",")
            data = LdsReadTransData(granularity, parser.parse_integer())
            return refuse(parser, lambda: _verify(data))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<trans = {self.data.granularity}b, {self.data.bits}>")
