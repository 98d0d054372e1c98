"""`cp.async`: a thread copies 4, 8 or 16 bytes from global to shared memory without passing registers.

In its second form it reads fewer bytes than it writes, or none at all, and zeros take the place of the rest: the edges
of a matrix need neither branches nor memory behind them.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...errors import DSLCompileError
from ...ir.enums import AddressSpace
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand
from ..fly.atoms import CopyOpType
from . import registers as reg

BITS = (32, 64, 128)


class CpAsyncData(NamedTuple):
    """Width, and `ca` (all caches) or `cg` (past L1, 16 bytes only)."""

    bits: int
    cache: str


def problem(data: CpAsyncData) -> str | None:
    """Why there is no such instruction; None if there is."""
    if data.bits not in BITS:
        return f"cp.async copies 32, 64 or 128 bits, got {data.bits}"
    if data.cache not in ("ca", "cg"):
        return f"cp.async caches with 'ca' or 'cg', got '{data.cache}'"
    if data.cache == "cg" and data.bits != 128:
        return f"cp.async with 'cg' copies 128 bits, got {data.bits}"
    return None


def _sizes(op: CopyOpType, src: Operand) -> tuple[int, int]:
    """Elements of a copy, and the bytes of one."""
    width = reg.bit_width(src.data.elem)
    if width % 8 or op.bits % width:
        raise DSLCompileError(f"{op} counts elements of whole bytes, got {src.data.elem}")
    return op.bits // width, width // 8


class _CpAsyncType(Data[CpAsyncData], CopyOpType):
    """What both forms share."""

    @property
    def bits(self) -> int:
        return self.data.bits

    def issue(self, low: AtomLowering, src: Operand, dst: Operand, nbytes: SSAValue | None) -> None:
        """The instruction; with `nbytes` it reads so many and fills up with zeros."""
        reg.require(low, self, "cp_async")
        name = f"llvm.nvvm.cp.async.{self.data.cache}.shared.global.{self.bits // 8}"
        operands = [reg.pointer_value(low, dst), reg.pointer_value(low, src)]
        if nbytes is None:
            low.intrinsic(name, None, operands)
        else:
            low.intrinsic(f"{name}.s", None, [*operands, nbytes])

    def deliver(self, low: AtomEmulation, value: SSAValue, dst: Operand) -> None:
        """On the cpu stack the copy happens at once; checked mode knows until when it must not be relied on."""
        low.store(value, dst)
        if low.checked:
            low.note_copy("cp_async", reg.pointer_value(low, dst), self.bits // 8)

    def check_spaces(self, src: Operand, dst: Operand) -> None:
        """Both ends are where the instruction wants them."""
        if src.data.space is not AddressSpace.Global or dst.data.space is not AddressSpace.Shared:
            raise DSLCompileError(
                f"{self} copies from global to shared memory, got {src.data.space} -> {dst.data.space}"
            )

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> CpAsyncData:
        with parser.in_angle_brackets():
            bits = parser.parse_integer(allow_negative=False)
            parser.parse_punctuation(",")
            parser.parse_keyword("cache")
            parser.parse_punctuation("=")
            data = CpAsyncData(bits, parser.parse_identifier())
            found = problem(data)
            if found is not None:
                parser.raise_error(found)
        return data

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.bits}, cache = {self.data.cache}>")


@irdl_attr_definition
class CpAsyncType(_CpAsyncType):
    """`!fly_nvgpu.sm80.cp_async<128, cache = cg>`."""

    name = "fly_nvgpu.sm80.cp_async"

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One instruction."""
        self.check_spaces(src, dst)
        self.issue(low, src, dst, None)

    def emulate(self, low: AtomEmulation, src: Operand, dst: Operand) -> None:
        """A load and a store."""
        self.check_spaces(src, dst)
        count = max(self.bits // reg.bit_width(src.data.elem), 1)
        with low.issued():
            value = low.load(src, reg.vector_type(reg.storage(src.data.elem), count))
        self.deliver(low, value, dst)


@irdl_attr_definition
class CpAsyncZeroFillType(_CpAsyncType):
    """`!fly_nvgpu.sm80.cp_async_zero_fill<128, cache = cg>`: zeros instead of what a predicate or `valid` leaves out.

    The state `valid` counts the elements that are there; none of them are at 0 and below, all where it says more than
    one copy moves.
    """

    name = "fly_nvgpu.sm80.cp_async_zero_fill"
    state: ClassVar[tuple[tuple[str, int], ...]] = (("valid", 32),)
    fills_zeros: ClassVar[bool] = True

    def state_default(self, field: str) -> int:
        return max(BITS)

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One instruction, with a source size where something may be left out."""
        b, (count, nbytes) = low.b, _sizes(self, src)
        elements = self._elements(low, src, dst, count)
        self.issue(low, src, dst, None if elements is None else b.muli(elements, b.i32(nbytes)))

    def emulate(self, low: AtomEmulation, src: Operand, dst: Operand) -> None:
        """Loads of what is there, and a store."""
        b, (count, nbytes) = low.b, _sizes(self, src)
        elements = self._elements(low, src, dst, count)
        word = IntegerType(8 * nbytes)
        whole = word if count == 1 else reg.vector_type(word, count)
        with low.issued():
            if low.state("valid") is not None and elements is not None:
                value = _read_some(low, src, count, word, elements)
            else:
                value = low.chosen(low.state("pred"), lambda: low.load(src, whole), b.const(0, whole))
        self.deliver(low, value, dst)

    def _elements(self, low: AtomLowering, src: Operand, dst: Operand, count: int) -> SSAValue | None:
        """How many elements of a copy are there; None: all."""
        self.check_spaces(src, dst)
        b, valid, wanted = low.b, low.state("valid"), low.state("pred")
        elements: SSAValue | None = None
        if valid is not None:
            elements = b.int_binary("minsi", b.int_binary("maxsi", valid, b.i32(0)), b.i32(count))
        elif wanted is not None:
            elements = b.i32(count)
        if wanted is not None and elements is not None:
            elements = b.select(wanted, elements, b.i32(0))
        return elements


def _read_some(low: AtomLowering, src: Operand, count: int, word: IntegerType, valid: SSAValue) -> SSAValue:
    """The first elements of a copy, each read only if it is there, and zeros behind them."""
    b = low.b
    values: list[SSAValue] = []
    for i in range(count):
        at = low.moved(src, i)
        there = b.cmpi("sgt", valid, b.i32(i))
        values.append(low.chosen(there, lambda at=at: low.load(at, word), b.const(0, word)))
    return values[0] if count == 1 else reg.vector_of(low, values)
