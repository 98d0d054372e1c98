"""`llvm.getelementptr` with upstream's flags and text form."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i32
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ....ir.op_text import write
from ....ir.types import dense_ints
from ..op_text import parse_dict, parse_function_type, print_dict

GEP_DYNAMIC = -(2**31)
"""Stands in the list of indices for one that is an operand."""
NO_WRAP = {"inbounds": 3, "nusw": 2, "nuw": 4}
"""Flags as bits; `inbounds` says `nusw` too."""
_NONE = IntegerAttr(0, i32)


def no_wrap_words(flags: int) -> list[str]:
    """Flags as LLVM and upstream write them."""
    words = ["inbounds"] if flags & 3 == 3 else ["nusw"] if flags & 2 else []
    return [*words, "nuw"] if flags & 4 else words


@irdl_op_definition
class GEPOp(IRDLOperation):
    """`llvm.getelementptr inbounds|nuw %p[%i, 2] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32`."""

    name = "llvm.getelementptr"
    ptr = operand_def(LLVMPointerType)
    ssa_indices = var_operand_def()
    rawConstantIndices = prop_def(DenseArrayBase)
    elem_type = prop_def(Attribute)
    noWrapFlags = prop_def(IntegerAttr, default_value=_NONE)
    result = result_def(LLVMPointerType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        wanted = dense_ints(self.rawConstantIndices).count(GEP_DYNAMIC)
        if wanted != len(self.ssa_indices):
            raise VerifyException(f"expected {wanted} dynamic indices, got {len(self.ssa_indices)}")

    @classmethod
    def parse(cls, parser: Parser) -> GEPOp:
        flags = 0
        while (word := parser.parse_optional_keyword_in(NO_WRAP)) is not None:
            flags |= NO_WRAP[word]
            if parser.parse_optional_punctuation("|") is None:
                break
        pos = parser.pos
        operands: list[UnresolvedOperand] = [parser.parse_unresolved_operand()]

        def index() -> int:
            operand = parser.parse_optional_unresolved_operand()
            if operand is None:
                return parser.parse_integer()
            operands.append(operand)
            return GEP_DYNAMIC

        indices = parser.parse_comma_separated_list(Parser.Delimiter.SQUARE, index)
        _, attrs = parse_dict(parser, cls)
        parser.parse_punctuation(":")
        types, results = parse_function_type(parser)
        parser.parse_punctuation(",")
        return cls.create(
            operands=parser.resolve_operands(operands, types, pos),
            result_types=results,
            properties={
                "elem_type": parser.parse_type(),
                "noWrapFlags": IntegerAttr(flags, i32),
                "rawConstantIndices": DenseArrayBase.from_list(i32, indices),
            },
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        words = no_wrap_words(self.noWrapFlags.value.data)
        write(printer, f" {'|'.join(words)} " if words else " ", self.ptr)
        dynamic = iter(self.ssa_indices)

        def index(value: int) -> None:
            if value == GEP_DYNAMIC:
                printer.print_operand(next(dynamic))
            else:
                printer.print_string(str(value))

        printer.print_string("[")
        printer.print_list(dense_ints(self.rawConstantIndices), index)
        printer.print_string("]")
        print_dict(printer, self, ("elem_type", "noWrapFlags", "rawConstantIndices"))
        write(printer, " : (", [v.type for v in self.operands], ") -> ", self.result.type, ", ", self.elem_type)
