"""`ldmatrix` and `stmatrix`: a warp moves 8x8 matrices of 16-bit values between shared memory and registers."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import i32
from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...ir.enums import AddressSpace
from ...layout import Layout
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand
from ..fly.atoms import CopyOpType
from . import registers as reg
from .effects import Effect, call_intrinsic
from .mma_sync import WARP

COUNTS = (1, 2, 4)


class MatrixData(NamedTuple):
    """How many 8x8 matrices, and whether they are transposed on the way."""

    matrices: int
    trans: bool


class _MatrixType(Data[MatrixData], CopyOpType):
    """What both directions share: the layouts, counted in bits of the reference block of `count` matrices."""

    instruction: ClassVar[str]

    @property
    def bits(self) -> int:
        """Bits of the shared side, a row of 16 bytes per lane."""
        return 128

    @property
    def thr_layout(self) -> Layout:
        return WARP

    @property
    def shared_bits(self) -> Layout:
        """Lane l gives the address of row l % 8 of matrix l / 8; lanes beyond the last matrix repeat."""
        rows = 8 * self.data.matrices
        if rows == 32:
            return Layout((32, 128), (128, 1))
        return Layout(((rows, 32 // rows), 128), ((128, 0), 1))

    @property
    def register_bits(self) -> Layout:
        """Register q of a lane holds two values of matrix q."""
        count = self.data.matrices
        if self.data.trans:
            if count == 1:
                return Layout(((4, 8), (16, 2)), ((256, 16), (1, 128)))
            return Layout(((4, 8), (16, 2, count)), ((256, 16), (1, 128, 1024)))
        if count == 1:
            return Layout((32, 32), (32, 1))
        return Layout((32, (32, count)), (32, (1, 1024)))

    @property
    def ref_bits(self) -> Layout:
        return self.register_bits

    def intrinsic(self) -> str:
        """LLVM's name for the instruction."""
        trans = ".trans" if self.data.trans else ""
        return f"llvm.nvvm.{self.instruction}.sync.aligned.m8n8.x{self.data.matrices}{trans}.b16.p3"

    def emulate(self, low: AtomEmulation, src: Operand, dst: Operand) -> None:
        """Lanes read what others address."""
        low.emulate_copy(self, src, dst)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> MatrixData:
        with parser.in_angle_brackets():
            count = parser.parse_integer(allow_negative=False)
            if count not in COUNTS:
                parser.raise_error(f"expected 1, 2 or 4 matrices, got {count}")
            parser.parse_punctuation(",")
            parser.parse_keyword("trans")
            parser.parse_punctuation("=")
            return MatrixData(count, parser.parse_boolean())

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.matrices}, trans = {'true' if self.data.trans else 'false'}>")


@irdl_attr_definition
class LdMatrixType(_MatrixType):
    """`!fly_nvgpu.sm75.ldmatrix<4, trans = false>`: shared memory to registers."""

    name = "fly_nvgpu.sm75.ldmatrix"
    instruction = "ldmatrix"
    src_space: ClassVar[AddressSpace] = AddressSpace.Shared

    @property
    def src_bits(self) -> Layout:
        return self.shared_bits

    @property
    def dst_bits(self) -> Layout:
        return self.register_bits

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One instruction per call."""
        reg.require(low, self, "ldmatrix")
        result = low.intrinsic(self.intrinsic(), reg.struct_of(i32, self.data.matrices), [reg.pointer_value(low, src)])
        assert result is not None
        packed = reg.vector_of(low, reg.fields(low, result, self.data.matrices))
        reg.write(low, reg.cast_vector(low, packed, reg.storage(dst.data.elem)), dst)


@irdl_attr_definition
class StMatrixType(_MatrixType):
    """`!fly_nvgpu.sm90.stmatrix<4, trans = false>`: registers to shared memory."""

    name = "fly_nvgpu.sm90.stmatrix"
    instruction = "stmatrix"

    @property
    def src_bits(self) -> Layout:
        return self.register_bits

    @property
    def dst_bits(self) -> Layout:
        return self.shared_bits

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One instruction per call."""
        reg.require(low, self, "stmatrix")
        count = self.data.matrices * 32 // reg.bit_width(src.data.elem)
        operands = [reg.pointer_value(low, dst), *reg.words(low, reg.read(low, src, count))]
        call_intrinsic(low, self.intrinsic(), None, operands, Effect.WRITES_SHARED)
