"""`llvm.intr.experimental.constrained.*`: float operations that say how they round and what of traps may be seen.

```mlir
%r = llvm.intr.experimental.constrained.fadd %a, %b towardzero ignore : f32
%t = llvm.intr.experimental.constrained.fptrunc %x upward strict : f64 to f32
%c = llvm.intr.experimental.constrained.fcmp olt %a, %b maytrap : f32
```
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import IntegerAttr, VectorType, i1, i64
from xdsl.dialects.llvm import FastMathAttr
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, result_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ....ir.op_text import write
from ..op_text import parse_dict, parse_function_type, parse_operands, print_dict, print_function_type

PREFIX = "llvm.intr.experimental.constrained."
ROUNDINGS = {0: "towardzero", 1: "tonearest", 2: "upward", 3: "downward", 4: "tonearestaway", 7: "dynamic"}
EXCEPTIONS = {0: "ignore", 1: "maytrap", 2: "strict"}
PREDICATES: dict[int, str] = dict(enumerate(CMPF_COMPARISON_OPERATIONS))


class Form(NamedTuple):
    """What an operation takes and gives."""

    operands: int
    rounds: bool
    result: str
    """`same` as the operands, a `cast`, a `compare`, or `mixed`: of the type of the first operand."""


_ROUNDING_1 = "acos asin atan cos cosh exp exp2 log log10 log2 nearbyint rint sin sinh sqrt tan tanh".split()
_EXACT_1 = "ceil floor round roundeven trunc".split()

FORMS: dict[str, Form] = {
    **dict.fromkeys(_ROUNDING_1, Form(1, True, "same")),
    **dict.fromkeys(_EXACT_1, Form(1, False, "same")),
    **dict.fromkeys("atan2 fadd fdiv fmul frem fsub pow".split(), Form(2, True, "same")),
    **dict.fromkeys("maximum maxnum minimum minnum".split(), Form(2, False, "same")),
    **dict.fromkeys(("fma", "fmuladd"), Form(3, True, "same")),
    **dict.fromkeys(("ldexp", "powi"), Form(2, True, "mixed")),
    **dict.fromkeys("fptrunc llrint lrint sitofp uitofp".split(), Form(1, True, "cast")),
    **dict.fromkeys("fpext fptosi fptoui llround lround".split(), Form(1, False, "cast")),
    **dict.fromkeys(("fcmp", "fcmps"), Form(2, False, "compare")),
}
"""By the name behind `constrained.`."""


class ConstrainedOp(IRDLOperation):
    """One of them."""

    args = var_operand_def()
    fpExceptionBehavior = prop_def(IntegerAttr)
    roundingmode = opt_prop_def(IntegerAttr)
    predicate = opt_prop_def(IntegerAttr)
    fastmathFlags = opt_prop_def(FastMathAttr)
    res = result_def()

    @property
    def key(self) -> str:
        """Its name behind `constrained.`."""
        return self.name.removeprefix(PREFIX)

    @property
    def form(self) -> Form:
        """What it takes and gives."""
        return FORMS[self.key]

    def words(self) -> tuple[str | None, str | None, str]:
        """Predicate, rounding and exceptions."""
        return (
            _word(self, "predicate", PREDICATES, self.form.result == "compare"),
            _word(self, "roundingmode", ROUNDINGS, self.form.rounds),
            cast(str, _word(self, "fpExceptionBehavior", EXCEPTIONS, True)),
        )

    def verify_(self) -> None:
        form, types = self.form, [a.type for a in self.args]
        if len(types) != form.operands:
            raise VerifyException(f"expected {form.operands} operands, got {len(types)}")
        self.words()
        given = self.res.type
        if form.result == "compare":
            wanted: Attribute = VectorType(i1, types[0].get_shape()) if isinstance(types[0], VectorType) else i1
        else:
            wanted = given if form.result == "cast" else types[0]
        if given != wanted or (form.result != "mixed" and any(t != types[0] for t in types)):
            raise VerifyException("expected operands of one type, and a result that fits them")

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        form, props = FORMS[cls.name.removeprefix(PREFIX)], dict[str, Attribute]()
        if form.result == "compare":
            props["predicate"] = _number(parser, PREDICATES)
        pos = parser.pos
        operands = parse_operands(parser)
        if form.rounds:
            props["roundingmode"] = _number(parser, ROUNDINGS)
        props["fpExceptionBehavior"] = _number(parser, EXCEPTIONS)
        more, attrs = parse_dict(parser, cls)
        parser.parse_punctuation(":")
        if form.result == "mixed":
            inputs, results = parse_function_type(parser)
        else:
            type_ = parser.parse_type()
            inputs, results = [type_] * len(operands), [_result(parser, form, type_)]
        return cls.create(
            operands=parser.resolve_operands(operands, inputs, pos),
            result_types=results,
            properties={**props, **more},
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        predicate, rounding, exceptions = self.words()
        write(
            printer,
            " " if predicate is None else f" {predicate} ",
            self.args,
            "".join(f" {word}" for word in (rounding, exceptions) if word is not None),
        )
        print_dict(printer, self, ("predicate", "roundingmode", "fpExceptionBehavior"))
        printer.print_string(" : ")
        if self.form.result == "mixed":
            print_function_type(printer, self.args, self.results)
            return
        printer.print_attribute(self.args[0].type)
        if self.form.result == "cast":
            write(printer, " to ", self.res.type)


def _word(op: ConstrainedOp, field: str, names: dict[int, str], wanted: bool) -> str | None:
    """The word of a property; a VerifyException where it is missing, too much or no such number."""
    given = op.properties.get(field)
    if given is None and not wanted:
        return None
    number = cast(IntegerAttr, given).value.data if given is not None else None
    if not wanted or number not in names:
        raise VerifyException(
            f"'{field}' must be one of {', '.join(map(str, names)) if wanted else 'none'}, got {number}"
        )
    return names[number]


def _number(parser: Parser, names: dict[int, str]) -> IntegerAttr:
    start = parser.pos
    word = parser.parse_identifier()
    for number, name in names.items():
        if name == word:
            return IntegerAttr(number, i64)
    parser.raise_error(f"expected one of {', '.join(names.values())}, got '{word}'", start, parser.pos)


def _result(parser: Parser, form: Form, type_: Attribute) -> Attribute:
    if form.result == "cast":
        parser.parse_keyword("to")
        return parser.parse_type()
    if form.result == "compare":
        return VectorType(i1, type_.get_shape()) if isinstance(type_, VectorType) else i1
    return type_


def _define(key: str) -> type[ConstrainedOp]:
    body: dict[str, Any] = {
        "__doc__": f"LLVM's `llvm.experimental.constrained.{key}`.",
        "__module__": __name__,
        "name": f"{PREFIX}{key}",
    }
    made = type(f"Constrained_{key}", (ConstrainedOp,), body)
    return irdl_op_definition(cast(type[ConstrainedOp], made))


CONSTRAINED_OPS: list[type[ConstrainedOp]] = [_define(key) for key in FORMS]
