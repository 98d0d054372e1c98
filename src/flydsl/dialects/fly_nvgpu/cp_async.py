"""`cp.async`: a thread copies 4, 8 or 16 bytes from global to shared memory without passing registers."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ..fly.atoms import AtomLowering, CopyOpType, Operand
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


@irdl_attr_definition
class CpAsyncType(Data[CpAsyncData], CopyOpType):
    """`!fly_nvgpu.sm80.cp_async<128, cache = cg>`."""

    name = "fly_nvgpu.sm80.cp_async"

    @property
    def bits(self) -> int:
        return self.data.bits

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One instruction; on the cpu stack the copy happens at once."""
        if reg.nv(low).target == "cpu":
            count = max(self.bits // reg.bit_width(src.data.elem), 1)
            type_ = reg.vector_type(reg.storage(src.data.elem), count)
            low.store(low.load(src, type_), dst)
            emulation = cast(Any, low)
            if emulation.checked:
                emulation.note_copy("cp_async", reg.pointer_value(low, dst), self.bits // 8)
            return
        reg.check_arch(low, self, 80)
        name = f"llvm.nvvm.cp.async.{self.data.cache}.shared.global.{self.bits // 8}"
        low.intrinsic(name, None, [reg.pointer_value(low, dst), reg.pointer_value(low, src)])

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
