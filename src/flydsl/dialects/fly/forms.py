"""Text forms of the `fly` ops that do not print as `fly.name(%a, %b) {props} : (A, B) -> R`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from ...ir.enums import MmaOperand
from ...ir.op_text import type_after, write
from ...ir.types import dense_ints
from .attrs import MmaOperandAttr
from .types import MemRefType

if TYPE_CHECKING:
    from .ops import FlyOp

_OPERANDS = [m.name.lower() for m in MmaOperand]

LISTS: dict[str, tuple[str, ...]] = {
    "fly.gemm": ("atom", "d", "a", "b", "c", "traversalLayout"),
    "fly.mma_atom_call": ("atom", "d", "a", "b", "c"),
    "fly.mma_atom_call_ssa": ("atom", "d", "a", "b", "c"),
    "fly.copy_atom_call_ssa": ("atom", "src", "dst", "pred"),
}
"""Operand groups of the ops with several lists; `operandSegmentSizes` says how long each is."""


def segments_of(op: FlyOp) -> tuple[int, ...]:
    """Length of each operand group; where the op does not say, every group that is there has one operand."""
    given = op.properties.get("operandSegmentSizes")
    if given is not None:
        return tuple(dense_ints(given))
    count = len(op.operands)
    if op.name == "fly.gemm":
        return (1, 1, 1, 1, 1, count - 5)
    if op.name == "fly.mma_atom_call_ssa":
        return (1, count - 4, 1, 1, 1)
    if op.name == "fly.copy_atom_call_ssa":
        return (1, 1, max(min(count - 2, 1), 0), max(count - 3, 0))
    return (1, 1, 1, 1, 1)


def groups_of(op: FlyOp) -> list[tuple[SSAValue, ...]]:
    """The operands by group."""
    found: list[tuple[SSAValue, ...]] = []
    at = 0
    operands = tuple(op.operands)
    for size in segments_of(op):
        found.append(operands[at : at + size])
        at += size
    return found


def _parse_static(cls: type[FlyOp], parser: Parser) -> FlyOp:
    attrs = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    return cls.build_from((), (parser.parse_type(),), attrs)


def _print_static(op: FlyOp, printer: Printer) -> None:
    write(printer, {**op.properties, **op.attributes}, " : ", op.results[0].type)


def _parse_nullary(cls: type[FlyOp], parser: Parser) -> FlyOp:
    parser.parse_punctuation("(")
    parser.parse_punctuation(")")
    return _parse_static(cls, parser)


def _print_nullary(op: FlyOp, printer: Printer) -> None:
    printer.print_string("()")
    _print_static(op, printer)


def _parse_atom(cls: type[FlyOp], parser: Parser) -> FlyOp:
    """`fly.make_copy_atom {valBits = 32 : i32} : T`, or with state: `fly.make_copy_atom(%a, %b : i32, i64) ...`."""
    operands: Sequence[SSAValue] = ()
    if parser.parse_optional_punctuation("(") is not None:
        pos = parser.pos
        unresolved = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        parser.parse_punctuation(")")
        operands = parser.resolve_operands(unresolved, types, pos)
    attrs = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    return cls.build_from(operands, (parser.parse_type(),), attrs)


def _print_atom(op: FlyOp, printer: Printer) -> None:
    if op.operands:
        write(printer, "(", op.operands, " : ", op.operand_types, ")")
    _print_static(op, printer)


def _finish(
    cls: type[FlyOp], parser: Parser, pos: int, unresolved: Sequence[UnresolvedOperand], attrs: dict[str, Attribute]
) -> FlyOp:
    parser.parse_punctuation(":")
    fn = parser.parse_function_type()
    return cls.build_from(parser.resolve_operands(unresolved, fn.inputs.data, pos), fn.outputs.data, attrs)


def _print_tail(op: FlyOp, printer: Printer, skip: Sequence[str] = ()) -> None:
    write(printer, {k: v for k, v in {**op.properties, **op.attributes}.items() if k not in skip}, " : ")
    printer.print_function_type(op.operand_types, op.result_types)


def _print_operands(op: FlyOp, printer: Printer, prefix: str = "", suffix: str = "", skip: Sequence[str] = ()) -> None:
    write(printer, f"({prefix}", op.operands, f"{suffix})")
    _print_tail(op, printer, skip)


def _parse_padded(cls: type[FlyOp], parser: Parser) -> FlyOp:
    """`fly.append<4> (%t, %e) : ...`."""
    attrs: dict[str, Attribute] = {}
    if parser.parse_optional_punctuation("<") is not None:
        attrs["n"] = IntegerAttr(parser.parse_integer(), i32)
        parser.parse_punctuation(">")
    pos = parser.pos
    unresolved = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
    return _finish(cls, parser, pos, unresolved, {**attrs, **parser.parse_optional_attr_dict()})


def _print_padded(op: FlyOp, printer: Printer) -> None:
    n = op.properties.get("n")
    printer.print_string(f"<{cast('IntegerAttr', n).value.data}> " if n is not None else " ")
    _print_operands(op, printer, skip=("n",))


def _parse_mma(cls: type[FlyOp], parser: Parser) -> FlyOp:
    """`fly.tiled_mma.partition(a, %m, %t, %c)`, `fly.mma.make_fragment(b, %m, %x, stages = 2)`."""
    parser.parse_punctuation("(")
    pos = parser.pos
    word = parser.parse_identifier()
    if word not in _OPERANDS:
        parser.raise_error(f"expected one of {', '.join(_OPERANDS)}, got '{word}'", pos)
    attrs: dict[str, Attribute] = {"operand_id": MmaOperandAttr(MmaOperand(_OPERANDS.index(word)))}
    unresolved: list[UnresolvedOperand] = []
    while parser.parse_optional_punctuation(",") is not None:
        if parser.parse_optional_keyword("stages") is not None:
            parser.parse_punctuation("=")
            attrs["stages"] = IntegerAttr(parser.parse_integer(), i32)
        else:
            unresolved.append(parser.parse_unresolved_operand())
    parser.parse_punctuation(")")
    return _finish(cls, parser, pos, unresolved, {**attrs, **parser.parse_optional_attr_dict()})


def _print_mma(op: FlyOp, printer: Printer) -> None:
    operand: int = cast(MmaOperandAttr, op.properties["operand_id"]).data
    stages = op.properties.get("stages")
    suffix = f", stages = {cast('IntegerAttr', stages).value.data}" if stages is not None else ""
    _print_operands(op, printer, f"{_OPERANDS[operand]}, ", suffix, ("operand_id", "stages"))


def _parse_fragment_like(cls: type[FlyOp], parser: Parser) -> FlyOp:
    """`fly.make_fragment_like(%x, f16)`."""
    pos = parser.pos
    parser.parse_punctuation("(")
    unresolved = [parser.parse_unresolved_operand()]
    attrs: dict[str, Attribute] = {}
    if parser.parse_optional_punctuation(",") is not None:
        attrs["dtype"] = parser.parse_type()
    parser.parse_punctuation(")")
    return _finish(cls, parser, pos, unresolved, {**attrs, **parser.parse_optional_attr_dict()})


def _print_fragment_like(op: FlyOp, printer: Printer) -> None:
    dtype = op.properties.get("dtype")
    _print_operands(op, printer, suffix=f", {dtype}" if dtype is not None else "", skip=("dtype",))


def _parse_set_value(cls: type[FlyOp], parser: Parser) -> FlyOp:
    """`fly.atom.set_value(%a, "soffset", %v)`."""
    pos = parser.pos
    parser.parse_punctuation("(")
    atom = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    field = StringAttr(parser.parse_str_literal())
    parser.parse_punctuation(",")
    value = parser.parse_unresolved_operand()
    parser.parse_punctuation(")")
    return _finish(cls, parser, pos, [atom, value], {"field": field, **parser.parse_optional_attr_dict()})


def _print_set_value(op: FlyOp, printer: Printer) -> None:
    write(printer, "(", op.operands[0], ", ", op.properties["field"], ", ", op.operands[1], ")")
    _print_tail(op, printer, ("field",))


def _parse_lists(cls: type[FlyOp], parser: Parser) -> FlyOp:
    """`fly.gemm(%m, %d, [%a, %sa], [%b, %sb], %c) traversalLayout = %t`: groups of several operands in brackets.

    A call on values that writes to memory says so behind: `fly.mma_atom_call_ssa(%m, %a, %b, %c) dst = %d`; that the
    destination stands second among the operands is read as well.
    """
    pos = parser.pos

    def group() -> list[UnresolvedOperand]:
        listed = parser.parse_optional_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
        return [parser.parse_unresolved_operand()] if listed is None else listed

    groups = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, group)
    if cls.name == "fly.gemm":
        groups.append([])
        if parser.parse_optional_keyword("traversalLayout") is not None:
            parser.parse_punctuation("=")
            groups[-1] = [parser.parse_unresolved_operand()]
    elif cls.name == "fly.mma_atom_call_ssa" and len(groups) == 4:
        groups.insert(1, [])
        if parser.parse_optional_keyword("dst") is not None:
            parser.parse_punctuation("=")
            groups[1] = [parser.parse_unresolved_operand()]
    attrs = parser.parse_optional_attr_dict()
    if any(len(g) > 1 for g in groups):
        attrs["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [len(g) for g in groups])
    return _finish(cls, parser, pos, [v for g in groups for v in g], attrs)


def _print_lists(op: FlyOp, printer: Printer) -> None:
    groups = groups_of(op)
    last: tuple[SSAValue, ...] = ()
    word = ""
    if op.name == "fly.gemm":
        last, word = groups.pop(), "traversalLayout"
    elif op.name == "fly.mma_atom_call_ssa":
        last, word = groups.pop(1), "dst"

    def group(values: tuple[SSAValue, ...]) -> None:
        if len(values) > 1:
            printer.print_string("[")
        printer.print_list(values, printer.print_operand)
        if len(values) > 1:
            printer.print_string("]")

    printer.print_string("(")
    printer.print_list([g for g in groups if g], group)
    printer.print_string(")")
    if last:
        write(printer, f" {word} = ", last[0])
    _print_tail(op, printer, ("operandSegmentSizes",))


def _parse_aligned_pointer(cls: type[FlyOp], parser: Parser) -> FlyOp:
    """`fly.extract_aligned_pointer_as_index %m : <f32, global, (8,8):(8,1)> -> !llvm.ptr`."""
    unresolved = parser.parse_unresolved_operand()
    attrs = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    found: Attribute | None = parser.parse_optional_type()
    if found is None:
        found = MemRefType(MemRefType.parse_parameter(parser))
    result = type_after(parser, "->")
    return cls.build_from((parser.resolve_operand(unresolved, found),), (result,), attrs)


def _print_aligned_pointer(op: FlyOp, printer: Printer) -> None:
    write(printer, " ", op.operands[0], {**op.properties, **op.attributes}, " : ")
    cast(MemRefType, op.operands[0].type).print_parameter(printer)
    write(printer, " -> ", op.results[0].type)


Form = tuple[Callable[["type[FlyOp]", Parser], "FlyOp"], Callable[["FlyOp", Printer], None]]

FORMS: dict[str, Form] = {
    "fly.static": (_parse_static, _print_static),
    "fly.make_copy_atom": (_parse_atom, _print_atom),
    "fly.make_mma_atom": (_parse_atom, _print_atom),
    "fly.get_dyn_shared": (_parse_nullary, _print_nullary),
    "fly.append": (_parse_padded, _print_padded),
    "fly.prepend": (_parse_padded, _print_padded),
    "fly.tiled_mma.partition": (_parse_mma, _print_mma),
    "fly.mma.make_fragment": (_parse_mma, _print_mma),
    "fly.make_fragment_like": (_parse_fragment_like, _print_fragment_like),
    "fly.atom.set_value": (_parse_set_value, _print_set_value),
    "fly.gemm": (_parse_lists, _print_lists),
    "fly.mma_atom_call": (_parse_lists, _print_lists),
    "fly.mma_atom_call_ssa": (_parse_lists, _print_lists),
    "fly.extract_aligned_pointer_as_index": (_parse_aligned_pointer, _print_aligned_pointer),
}
"""Op name to how it is parsed and printed."""
