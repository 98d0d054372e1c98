"""Ops made from a table: target dialects are hundreds of instructions whose text forms differ in little.

A row names what stands in the op's text, in order, and how its types are written:

| item | stands for |
|---|---|
| `%` | an operand whose type the tail gives |
| `%i32`, `%ptr8`, ... | an operand of that type |
| `#aux:i32` | a property that is a literal number (`i1`: true or false) |
| `#mask:i32:WORDS` | the same, written as words of the list `WORDS` |
| `fmtA=fmtA:i32:WORDS` | the same behind its name: `fmtA = fp8_e4m3` |
| `scope~scope:i32` | the same behind its name, without `=`; the name may be missing when read |
| `!kind:CLASS` | a keyword attribute of that class, followed by no comma |
| `'with'`, `'->'`, `'['`, `'],'` | that text; no other comma stands around it |
| `range` | `range <i32, 0, 64>`, or nothing |

| tail | is written |
|---|---|
| `` | nothing |
| `res` | `: R`, the result |
| `same` | `: T`, every free operand and the result |
| `val` | `: T`, every free operand; no result |
| `in` | `: T, U`, the free operands; no result |
| `func` | `: (T, U) -> R`, all operands |
| `arrow` | `: T -> R`, the last free operand |
| `to` | `: <1> to <8>`, pointers without their name |
| `short` | `: <3> -> R` |
| `bare` | `T -> R` |
| `gives` | `-> R` |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType, VectorType, bf16, f16, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ...ir.op_text import write
from . import llvm
from .keyword_attr import KeywordAttr
from .llvm.attrs import ConstantRangeAttr
from .op_text import (
    parse_dict,
    parse_function_type,
    parse_short_pointer,
    parse_types,
    print_dict,
    print_function_type,
    print_short_pointer,
)

Words = Mapping[str, int]


class Item(NamedTuple):
    """One item of a row."""

    kind: str
    """`operand`, `number`, `keyword`, `literal` or `range`."""
    name: str = ""
    type: Attribute | None = None
    words: Words | None = None
    named: str = ""
    """What stands between the name of a number and the number, if the name is written."""
    attr: type[KeywordAttr] | None = None


class Row(NamedTuple):
    """The form of an op, and the intrinsic it stands for."""

    items: tuple[Item, ...]
    tail: str
    intrinsic: str
    """Name of the LLVM intrinsic; `{r}` and `{0}`, `{1}` are the types LLVM appends: of the result, of operands."""
    results: int
    extras: tuple[str, ...]
    """Optional properties, written in the attribute dictionary."""
    order: tuple[int, ...] = ()
    """Numbers of the operands in the order of the text, where that is not their own."""
    call: tuple[str, ...] = ()
    """Arguments of the intrinsic where the text has them in another order, or not at all: the number of an operand, the
    name of a property (a flag that is left out is 0), or `=0` for a flag that is 0."""

    def operand_types(self) -> list[Attribute | None]:
        """Types of the operands in their own order; None where the op's tail gives them."""
        types = [i.type for i in self.items if i.kind == "operand"]
        return [types[self.order.index(i)] for i in range(len(types))] if self.order else types


ROWS: dict[str, Row] = {}
"""The row of every op made here, by the op's full name."""

_TYPES: dict[str, Attribute] = {"f32": f32, "f16": f16, "bf16": bf16}


def _type(text: str) -> Attribute:
    found = _TYPES.get(text)
    if found is None:
        vector = re.fullmatch(r"v(\d+)(\w+)", text)
        if vector is not None:
            found = VectorType(_type(vector[2]), [int(vector[1])])
        else:
            number = int(re.sub(r"\D", "", text))
            found = llvm.ptr(number) if text.startswith("ptr") else IntegerType(number)
        _TYPES[text] = found
    return found


def _item(text: str, words: Mapping[str, Words], attrs: Mapping[str, type[KeywordAttr]]) -> Item:
    if text == "range":
        return Item("range", "range")
    if text.startswith("'"):
        return Item("literal", text.strip("'"))
    if text.startswith("%"):
        return Item("operand", type=_type(text[1:]) if len(text) > 1 else None)
    if text.startswith("!"):
        name, cls = text[1:].split(":")
        return Item("keyword", name, attr=attrs[cls])
    named = "=" if "=" in text else "~" if "~" in text else ""
    name, type_, *rest = re.split("[=~]", text)[-1].removeprefix("#").split(":")
    return Item("number", name, _type(type_), words[rest[0]] if rest else None, named)


class TableOp(IRDLOperation):
    """Base of the ops of the tables."""

    args = var_operand_def()
    res = var_result_def()

    @property
    def row(self) -> Row:
        """The form of this op."""
        return ROWS[self.name]

    def verify_(self) -> None:
        row = self.row
        types = row.operand_types()
        if len(self.args) != len(types):
            raise VerifyException(f"expected {len(types)} operands, got {len(self.args)}")
        if len(self.res) != row.results:
            raise VerifyException(f"expected {row.results} results, got {len(self.res)}")
        for i, (type_, value) in enumerate(zip(types, self.args, strict=True)):
            if type_ is not None and value.type != type_:
                raise VerifyException(f"operand #{i} must be {type_}, but got '{value.type}'")

    # --- reading --------------------------------------------------------------------------------------------------

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        row = ROWS[cls.name]
        props: dict[str, Attribute] = {}
        operands: list[UnresolvedOperand] = []
        pos = parser.pos
        comma = False
        for item in row.items:
            if comma and item.kind not in ("range", "literal"):
                parser.parse_punctuation(",")
            comma = item.kind in ("operand", "number")
            if item.kind == "operand":
                operands.append(parser.parse_unresolved_operand())
            elif item.kind == "number":
                props[item.name] = _parse_number(parser, item)
            elif item.kind == "literal":
                for token in ("]", ",") if item.name == "]," else (item.name,):
                    parser.parse_characters(token)
            elif item.kind == "keyword":
                cls_ = cast(type[KeywordAttr], item.attr)
                props[item.name] = cls_(cls_.parse_parameter(parser))
            elif parser.parse_optional_keyword("range") is not None:
                props["range"] = ConstantRangeAttr(ConstantRangeAttr.parse_parameter(parser))
        more, attrs = parse_dict(parser, cls)
        fixed = [i.type for i in row.items if i.kind == "operand"]
        types, results = _parse_tail(parser, row.tail, fixed)
        values = parser.resolve_operands(operands, types, pos)
        return cls.create(
            operands=[values[row.order.index(i)] for i in range(len(values))] if row.order else values,
            result_types=results,
            properties={**props, **more},
            attributes=attrs,
        )

    # --- writing --------------------------------------------------------------------------------------------------

    def print(self, printer: Printer) -> None:
        row = self.row
        values = iter([self.args[i] for i in row.order] if row.order else self.args)
        mark = " "
        for item in row.items:
            if item.kind == "range":
                if "range" in self.properties:
                    printer.print_string(" range ")
                    cast(ConstantRangeAttr, self.properties["range"]).print_parameter(printer)
                continue
            if item.kind == "literal":
                printer.print_string(item.name if item.name[0] in "[]" else f" {item.name}")
                mark = "" if item.name == "[" else " "
                continue
            printer.print_string(mark)
            mark = " " if item.kind == "keyword" else ", "
            if item.kind == "operand":
                printer.print_operand(next(values))
            elif item.kind == "number":
                printer.print_string(_number_text(item, cast(IntegerAttr, self.properties[item.name]).value.data))
            else:
                printer.print_string(cast(KeywordAttr, self.properties[item.name]).data)
        print_dict(printer, self, {i.name for i in row.items if i.kind != "literal"})
        _print_tail(printer, row, self.args, self.res)


def _parse_number(parser: Parser, item: Item) -> Attribute:
    if item.named == "=":
        parser.parse_keyword(item.name)
        parser.parse_punctuation("=")
    elif item.named:
        parser.parse_optional_keyword(item.name)  # later releases of MLIR leave it out
    if item.words is not None:
        start = parser.pos
        word = parser.parse_optional_identifier()
        if word is not None:
            value = 0
            while True:
                if word not in item.words:
                    known = ", ".join(item.words)
                    parser.raise_error(f"expected one of {known}, got '{word}'", start, start + len(word))
                value |= item.words[word]
                if parser.parse_optional_punctuation("|") is None:
                    return IntegerAttr(value, cast(IntegerType, item.type))
                start = parser.pos
                word = parser.parse_identifier()
    return IntegerAttr(int(parser.parse_integer(allow_boolean=True)), cast(IntegerType, item.type))


def _number_text(item: Item, value: int) -> str:
    head = {"": "", "=": f"{item.name} = ", "~": f"{item.name} "}[item.named]
    if cast(IntegerType, item.type).width.data == 1:
        return head + ("true" if value else "false")
    if item.words is not None:
        for word, number in item.words.items():
            if number == value:
                return head + word
        parts = [word for word, number in item.words.items() if number and number & value == number]
        if sum(item.words[p] for p in parts) == value:
            return head + "|".join(parts)
    return f"{head}{value}"


def _parse_tail(
    parser: Parser, tail: str, fixed: Sequence[Attribute | None]
) -> tuple[list[Attribute], list[Attribute]]:
    """Types of all operands, and of the results."""
    free = fixed.count(None)

    def merged(types: Sequence[Attribute]) -> list[Attribute]:
        rest = iter(types)
        return [t if t is not None else next(rest) for t in fixed]

    if tail == "":
        return merged(()), []
    if tail == "gives":
        parser.parse_punctuation("->")
        return merged(()), [parser.parse_type()]
    if tail != "bare":
        parser.parse_punctuation(":")
    if tail == "func":
        return parse_function_type(parser)
    if tail == "in":
        types = parse_types(parser)
        # One type may stand for several operands of it.
        return merged([*types, *[types[-1]] * (free - len(types))]), []
    if tail in ("to", "short"):
        pointer = parser.parse_optional_type() or parse_short_pointer(parser)
        if tail == "short":
            parser.parse_punctuation("->")
            return merged([pointer]), [parser.parse_type()]
        parser.parse_keyword("to")
        return merged([pointer]), [parser.parse_optional_type() or parse_short_pointer(parser)]
    type_ = parser.parse_type()
    if tail in ("arrow", "bare"):
        parser.parse_punctuation("->")
        return merged([type_] * free), [parser.parse_type()]
    return merged([type_] * free), [] if tail == "val" else [type_]


def _print_tail(printer: Printer, row: Row, operands: Sequence[SSAValue], results: Sequence[SSAValue]) -> None:
    fixed = [i.type for i in row.items if i.kind == "operand"]
    free = [v for v, t in zip(operands, fixed, strict=True) if t is None]
    tail = row.tail
    if tail == "":
        return
    printer.print_string({"bare": " ", "gives": " -> "}.get(tail, " : "))
    if tail == "func":
        print_function_type(printer, operands, results)
    elif tail == "in":
        write(printer, [v.type for v in free])
    elif tail in ("to", "short"):
        print_short_pointer(printer, free[0].type)
        printer.print_string(" to " if tail == "to" else " -> ")
        print_short_pointer(printer, results[0].type) if tail == "to" else printer.print_attribute(results[0].type)
    elif tail in ("arrow", "bare"):
        write(printer, free[-1].type, " -> ", results[0].type)
    else:
        printer.print_attribute(free[0].type if tail == "val" else results[0].type)


def define(
    name: str,
    form: str,
    intrinsic: str,
    *,
    pure: bool = False,
    words: Mapping[str, Words] | None = None,
    attrs: Mapping[str, type[KeywordAttr]] | None = None,
    extras: Sequence[str] = (),
    order: Sequence[int] = (),
    call: str = "",
) -> type[TableOp]:
    """An op from its row: `"% %i32 #aux:i32 | res"`."""
    left, _, tail = form.partition("|")
    tail = tail.strip()
    items = tuple(_item(text, words or {}, attrs or {}) for text in left.split())
    results = 0 if tail in ("", "in", "val") else 1
    ROWS[name] = Row(items, tail, intrinsic, results, tuple(extras), tuple(order), tuple(call.split()))
    body: dict[str, Any] = {
        "__doc__": f"`{intrinsic or name}`.",
        "__module__": __name__,
        "name": name,
        "traits": traits_def(Pure()) if pure else traits_def(),
    }
    for item in items:
        if item.kind == "range":
            body["range"] = opt_prop_def(ConstantRangeAttr)
        elif item.kind == "number":
            body[item.name] = prop_def(IntegerAttr)
        elif item.kind == "keyword":
            body[item.name] = prop_def(cast(type[KeywordAttr], item.attr))
    for extra in extras:
        body[extra] = opt_prop_def(Attribute)
    made = cast(type[TableOp], type(re.sub(r"\W", "_", name), (TableOp,), body))
    return irdl_op_definition(made)
