"""`!llvm.func`, `llvm.func`, `llvm.call` with what xDSL's lack: packed structs, attributes of arguments, variadics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.dialects.llvm import (
    LLVM_CALLING_CONVS,
    CallingConventionAttr,
    FastMathAttr,
    LinkageAttr,
    TailCallKind,
    TailCallKindAttr,
)
from xdsl.ir import Attribute, Data, Region, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from ....ir.op_text import type_after, write
from ..op_text import parse_dict, parse_function_type, parse_operands, print_dict, print_function_type, property_names
from .struct import StructType

C_CALL = CallingConventionAttr("ccc")
EXTERNAL = LinkageAttr("external")
_LINKAGES = (
    "private internal available_externally linkonce weak common appending extern_weak linkonce_odr weak_odr external"
).split()
_VISIBILITIES = {"default": 0, "hidden": 1, "protected": 2}
_ZERO = IntegerAttr(0, i64)


class Signature(NamedTuple):
    """What a function takes and gives."""

    output: Attribute | None
    inputs: tuple[Attribute, ...]
    variadic: bool = False


@irdl_attr_definition
class FunctionType(Data[Signature], TypeAttribute):
    """`!llvm.func<i32 (ptr, ...)>`."""

    name = "llvm.func"

    @staticmethod
    def of(inputs: Sequence[Attribute], output: Attribute | None = None, *, variadic: bool = False) -> FunctionType:
        """The type of a function; no output is `void`."""
        return FunctionType(Signature(output, tuple(inputs), variadic))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Signature:
        parser.parse_punctuation("<")
        output = None if parser.parse_optional_keyword("void") is not None else StructType.parse_field(parser)
        parser.parse_punctuation("(")
        inputs: list[Attribute] = []
        variadic = False
        if parser.parse_optional_punctuation(")") is None:
            while True:
                if parser.parse_optional_punctuation("...") is not None:
                    variadic = True
                    break
                inputs.append(StructType.parse_field(parser))
                if parser.parse_optional_punctuation(",") is None:
                    break
            parser.parse_punctuation(")")
        parser.parse_punctuation(">")
        return Signature(output, tuple(inputs), variadic)

    def print_parameter(self, printer: Printer) -> None:
        output, inputs, variadic = self.data
        printer.print_string("<")
        if output is None:
            printer.print_string("void")
        else:
            StructType.print_field(printer, output)
        printer.print_string(" (")
        printer.print_list(inputs, lambda t: StructType.print_field(printer, t))
        if variadic:
            printer.print_string(", ..." if inputs else "...")
        printer.print_string(")>")


UNNAMED_ADDRESS = {"local_unnamed_addr": 1, "unnamed_addr": 2}
"""Words that say an address does not matter, by their numbers."""


@irdl_op_definition
class FuncOp(IRDLOperation):
    """`llvm.func internal @f(%a: !llvm.ptr {llvm.noundef}) -> i32 attributes {rocdl.kernel} { ... }`."""

    name = "llvm.func"
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    linkage = prop_def(LinkageAttr, default_value=EXTERNAL)
    CConv = prop_def(CallingConventionAttr, default_value=C_CALL)
    visibility_ = prop_def(IntegerAttr, default_value=_ZERO)
    sym_visibility = opt_prop_def(StringAttr)
    unnamed_addr = opt_prop_def(IntegerAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    dso_local = opt_prop_def(UnitAttr)
    passthrough = opt_prop_def(ArrayAttr)
    no_inline = opt_prop_def(UnitAttr)
    always_inline = opt_prop_def(UnitAttr)
    no_unwind = opt_prop_def(UnitAttr)
    convergent = opt_prop_def(UnitAttr)
    will_return = opt_prop_def(UnitAttr)
    optimize_none = opt_prop_def(UnitAttr)
    target_cpu = opt_prop_def(StringAttr)
    target_features = opt_prop_def(Attribute)
    frame_pointer = opt_prop_def(Attribute)
    alignment = opt_prop_def(IntegerAttr)
    section = opt_prop_def(StringAttr)
    body = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def verify_(self) -> None:
        entry = self.body.blocks.first
        if entry is not None and tuple(entry.arg_types) != self.function_type.data.inputs:
            raise VerifyException("entry block arguments do not match the function type")

    @property
    def is_declaration(self) -> bool:
        """Whether the function is defined elsewhere."""
        return self.body.blocks.first is None

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        props: dict[str, Attribute] = {"linkage": EXTERNAL, "CConv": C_CALL, "visibility_": _ZERO}
        word = parser.parse_optional_keyword_in(_LINKAGES)
        if word is not None:
            props["linkage"] = LinkageAttr(word)
        word = parser.parse_optional_keyword_in(_VISIBILITIES)
        if word is not None:
            props["visibility_"] = IntegerAttr(_VISIBILITIES[word], i64)
        word = parser.parse_optional_keyword_in(UNNAMED_ADDRESS)
        if word is not None:
            props["unnamed_addr"] = IntegerAttr(UNNAMED_ADDRESS[word], i64)
        word = parser.parse_optional_identifier()
        if word is not None:
            if word not in LLVM_CALLING_CONVS:
                parser.raise_error(f"unknown calling convention '{word}'")
            props["CConv"] = CallingConventionAttr(word)
        props["sym_name"] = parser.parse_symbol_name()
        arguments: list[Any] = []
        types: list[Attribute] = []
        attrs: list[DictionaryAttr] = []
        variadic = False

        def argument() -> None:
            nonlocal variadic
            if parser.parse_optional_punctuation("...") is not None:
                variadic = True
                return
            named = parser.parse_optional_argument()
            types.append(named.type if named is not None else parser.parse_type())
            if named is not None:
                arguments.append(named)
            attrs.append(DictionaryAttr(parser.parse_optional_dictionary_attr_dict() or {}))

        parser.parse_comma_separated_list(Parser.Delimiter.PAREN, argument)
        output: Attribute | None = None
        given: DictionaryAttr | None = None
        if parser.parse_optional_punctuation("->") is not None:
            if parser.parse_optional_punctuation("(") is not None:
                output = parser.parse_type()
                given = DictionaryAttr(parser.parse_optional_dictionary_attr_dict() or {})
                parser.parse_punctuation(")")
            else:
                output = parser.parse_type()
        props["function_type"] = FunctionType.of(types, output, variadic=variadic)
        if any(a.data for a in attrs):
            props["arg_attrs"] = ArrayAttr(attrs)
        if given is not None and given.data:
            props["res_attrs"] = ArrayAttr([given])
        found = parser.parse_optional_attr_dict_with_keyword()
        rest = dict(found.data) if found is not None else {}
        props |= {k: rest.pop(k) for k in list(rest) if k in property_names(cls)}
        body = parser.parse_optional_region(arguments) or Region()
        return cls.create(properties=props, attributes=rest, regions=[body])

    def print(self, printer: Printer) -> None:
        if self.linkage != EXTERNAL:
            printer.print_string(f" {self.linkage.linkage.data}")
        for word, number in _VISIBILITIES.items():
            if number and number == self.visibility_.value.data:
                printer.print_string(f" {word}")
        for word, number in UNNAMED_ADDRESS.items():
            if self.unnamed_addr is not None and number == self.unnamed_addr.value.data:
                printer.print_string(f" {word}")
        if self.CConv != C_CALL:
            printer.print_string(f" {self.CConv.convention.data}")
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        output, inputs, variadic = self.function_type.data
        entry = self.body.blocks.first
        attrs = self.arg_attrs.data if self.arg_attrs is not None else [None] * len(inputs)
        printer.print_string("(")
        for i, (type_, given) in enumerate(zip(inputs, attrs, strict=True)):
            printer.print_string(", " if i else "")
            if entry is not None:
                printer.print_block_argument(entry.args[i])
            else:
                printer.print_attribute(type_)
            if given is not None and given.data:
                printer.print_op_attributes(given.data)
        if variadic:
            printer.print_string(", ..." if inputs else "...")
        printer.print_string(")")
        if output is not None:
            printer.print_string(" -> ")
            result = dict(self.res_attrs.data[0].data) if self.res_attrs is not None else dict[str, Attribute]()
            write(printer, "(" if result else "", output)
            if result:
                write(printer, result, ")")
        shown = {k: v for k, v in self.properties.items() if k not in _SHOWN}
        printer.print_op_attributes({**shown, **self.attributes}, print_keyword=True)
        if entry is not None:
            printer.print_string(" ")
            printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)


_SHOWN = ("sym_name", "function_type", "linkage", "CConv", "visibility_", "unnamed_addr", "arg_attrs", "res_attrs")
_NOT_TAIL = TailCallKindAttr(TailCallKind.NONE)


@irdl_op_definition
class CallOp(IRDLOperation):
    """`llvm.call @f(%a) : (i32) -> f32`; a function of any arguments with `vararg(!llvm.func<i32 (ptr, ...)>)`."""

    name = "llvm.call"
    args = var_operand_def()
    op_bundle_operands = var_operand_def()
    callee = prop_def(SymbolRefAttr)
    var_callee_type = opt_prop_def(FunctionType)
    fastmathFlags = prop_def(FastMathAttr, default_value=FastMathAttr(None))
    CConv = prop_def(CallingConventionAttr, default_value=C_CALL)
    TailCallKind = prop_def(TailCallKindAttr, default_value=_NOT_TAIL)
    op_bundle_sizes = prop_def(DenseArrayBase, default_value=DenseArrayBase.from_list(i32, []))
    arg_attrs = opt_prop_def(ArrayAttr)
    res_attrs = opt_prop_def(ArrayAttr)
    convergent = opt_prop_def(UnitAttr)
    no_unwind = opt_prop_def(UnitAttr)
    will_return = opt_prop_def(UnitAttr)
    returned = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @staticmethod
    def properties_for(name: str, count: int, type_: FunctionType | None = None) -> dict[str, Attribute]:
        """Properties of a call with so many arguments; `type_` for functions of any number of them."""
        found: dict[str, Attribute] = {
            "callee": SymbolRefAttr(name),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [count, 0]),
        }
        if type_ is not None:
            found["var_callee_type"] = type_
        return found

    def verify_(self) -> None:
        if len(self.returned) > 1:
            raise VerifyException(f"expected at most one result, got {len(self.returned)}")

    @classmethod
    def parse(cls, parser: Parser) -> CallOp:
        callee = parser.parse_symbol_name()
        parser.parse_punctuation("(")
        pos = parser.pos
        operands = parse_operands(parser)
        parser.parse_punctuation(")")
        type_: FunctionType | None = None
        if parser.parse_optional_keyword("vararg") is not None:
            given = type_after(parser, "(")
            if not isinstance(given, FunctionType):
                parser.raise_error(f"expected !llvm.func, got {given}")
            type_ = given
            parser.parse_punctuation(")")
        more, attrs = parse_dict(parser, cls)
        parser.parse_punctuation(":")
        inputs, outputs = parse_function_type(parser)
        defaults: dict[str, Attribute] = {
            "fastmathFlags": FastMathAttr(None),
            "CConv": C_CALL,
            "TailCallKind": _NOT_TAIL,
            "op_bundle_sizes": DenseArrayBase.from_list(i32, []),
        }
        return cls.create(
            operands=parser.resolve_operands(operands, inputs, pos),
            result_types=outputs,
            properties={**defaults, **cls.properties_for(callee.data, len(operands), type_), **more},
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        write(printer, " ", self.callee, "(", self.args, ")")
        if self.var_callee_type is not None:
            write(printer, " vararg(", self.var_callee_type, ")")
        hidden = {"callee", "var_callee_type", "op_bundle_sizes", "operandSegmentSizes", "TailCallKind", "CConv"}
        print_dict(printer, self, hidden)
        printer.print_string(" : ")
        print_function_type(printer, self.args, self.returned)


LLVM_FUNCTION_OPS = [FuncOp, CallOp]
"""The ops of this file."""
ReturnOp = xllvm.ReturnOp
