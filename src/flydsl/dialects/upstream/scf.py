"""xDSL's `scf` dialect; `scf.for` may compare unsigned: `scf.for unsigned %i = %a to %b step %c : i32 { ... }`."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import scf as xscf
from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import OptPropertyDef, base
from xdsl.parser import Parser
from xdsl.printer import Printer

UNSIGNED = "unsignedCmp"
"""Property of a loop whose bounds are unsigned."""


def _allow_unsigned() -> None:
    """Once per process: xDSL 0.74 has signed loops alone. The class stays the same, so passes know it."""
    loop: Any = xscf.ForOp
    loop.get_irdl_definition().properties[UNSIGNED] = OptPropertyDef(base(UnitAttr))
    parse_signed, print_signed = loop.parse.__func__, loop.print

    def parse(cls: Any, parser: Parser) -> Any:
        unsigned = parser.parse_optional_keyword("unsigned") is not None
        op = parse_signed(cls, parser)
        if unsigned:
            op.properties[UNSIGNED] = UnitAttr()
        return op

    def print_(self: Any, printer: Printer) -> None:
        if UNSIGNED in self.properties:
            printer.print_string(" unsigned")
        print_signed(self, printer)

    loop.parse = classmethod(cast(Any, parse))
    loop.print = print_


_allow_unsigned()

Scf = xscf.Scf

__all__ = ["UNSIGNED", "Scf"]
