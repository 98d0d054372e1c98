"""Compiled device code in the IR: `gpu.binary`, `#gpu.object`, `#gpu.kernel_metadata`, `#gpu.select_object`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, SymbolNameConstraint
from xdsl.ir import Attribute, Data
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from ....ir.op_text import type_after, write

FORMATS = {"offload": 1, "assembly": 2, "bin": 3, "fatbin": 4}
"""Kinds of content; `fatbin` is not written."""


@irdl_attr_definition
class KernelMetadataAttr(Data[tuple[str, Attribute, ArrayAttr | None, DictionaryAttr | None]]):
    """`#gpu.kernel_metadata<"name", !llvm.func<void (ptr)>, metadata = {vgpr_count = 4 : i32}>`."""

    name = "gpu.kernel_metadata"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, Attribute, ArrayAttr | None, DictionaryAttr | None]:
        parser.parse_punctuation("<")
        name = parser.parse_str_literal()
        type_ = type_after(parser, ",")
        found: dict[str, Attribute] = {}
        while parser.parse_optional_punctuation(",") is not None:
            word = parser.parse_identifier()
            if word not in ("arg_attrs", "metadata"):
                parser.raise_error(f"expected arg_attrs or metadata, got '{word}'")
            parser.parse_punctuation("=")
            found[word] = parser.parse_attribute()
        parser.parse_punctuation(">")
        return (
            name,
            type_,
            cast("ArrayAttr | None", found.get("arg_attrs")),
            cast("DictionaryAttr | None", found.get("metadata")),
        )

    def print_parameter(self, printer: Printer) -> None:
        name, type_, arg_attrs, metadata = self.data
        printer.print_string("<")
        printer.print_string_literal(name)
        write(printer, ", ", type_)
        for word, value in (("arg_attrs", arg_attrs), ("metadata", metadata)):
            if value is not None:
                write(printer, f", {word} = ", value)
        printer.print_string(">")


@irdl_attr_definition
class KernelTableAttr(Data[tuple[KernelMetadataAttr, ...]]):
    """`#gpu.kernel_table<[...]>`: what is known of each kernel of an object."""

    name = "gpu.kernel_table"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[KernelMetadataAttr, ...]:
        parser.parse_punctuation("<")
        rows = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_attribute)
        parser.parse_punctuation(">")
        return tuple(cast(Sequence[KernelMetadataAttr], rows))

    def print_parameter(self, printer: Printer) -> None:
        write(printer, "<[", self.data, "]>")


class ObjectData:
    """What a `#gpu.object` holds."""

    __slots__ = ("content", "format", "kernels", "properties", "target")

    def __init__(
        self,
        target: Attribute,
        content: bytes,
        format_: str = "fatbin",
        kernels: KernelTableAttr | None = None,
        properties: DictionaryAttr | None = None,
    ):
        self.target, self.content, self.format, self.kernels, self.properties = (
            target,
            content,
            format_,
            kernels,
            properties,
        )

    def _key(self) -> tuple[object, ...]:
        return self.target, self.content, self.format, self.kernels, self.properties

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectData) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@irdl_attr_definition
class ObjectAttr(Data[ObjectData]):
    """`#gpu.object<#rocdl.target<chip = "gfx942">, kernels = <[...]>, bin = "...">`."""

    name = "gpu.object"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ObjectData:
        parser.parse_punctuation("<")
        target = parser.parse_attribute()
        parser.parse_punctuation(",")
        properties: Attribute | None = None
        kernels: Attribute | None = None
        if parser.parse_optional_keyword("properties") is not None:
            parser.parse_punctuation("=")
            properties = parser.parse_attribute()
            parser.parse_punctuation(",")
        if parser.parse_optional_keyword("kernels") is not None:
            parser.parse_punctuation("=")
            kernels = parser.parse_optional_attribute()
            if kernels is None:
                kernels = KernelTableAttr(KernelTableAttr.parse_parameter(parser))
            parser.parse_punctuation(",")
        format_ = "fatbin"
        word = parser.parse_optional_identifier()
        if word is not None:
            if word not in FORMATS:
                parser.raise_error(f"expected one of {', '.join(FORMATS)}, got '{word}'")
            format_ = word
            parser.parse_punctuation("=")
        content = parser.parse_optional_bytes_literal()
        if content is None:
            content = parser.parse_str_literal().encode()
        parser.parse_punctuation(">")
        return ObjectData(
            target, content, format_, cast("KernelTableAttr | None", kernels), cast("DictionaryAttr | None", properties)
        )

    def print_parameter(self, printer: Printer) -> None:
        d = self.data
        write(printer, "<", d.target)
        if d.properties is not None:
            write(printer, ", properties = ", d.properties)
        if d.kernels is not None:
            printer.print_string(", kernels = ")
            d.kernels.print_parameter(printer)
        printer.print_string(", " if d.format == "fatbin" else f", {d.format} = ")
        printer.print_bytes_literal(d.content)
        printer.print_string(">")


@irdl_attr_definition
class SelectObjectAttr(Data[Attribute | None]):
    """`#gpu.select_object<0 : i64>`: which object of a binary is loaded; the first by default."""

    name = "gpu.select_object"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Attribute | None:
        if parser.parse_optional_punctuation("<") is None:
            return None
        found = parser.parse_attribute()
        parser.parse_punctuation(">")
        return found

    def print_parameter(self, printer: Printer) -> None:
        if self.data is not None:
            write(printer, "<", self.data, ">")


@irdl_op_definition
class BinaryOp(IRDLOperation):
    """`gpu.binary @kernels [#gpu.object<...>]`: a device module after code generation."""

    name = "gpu.binary"
    sym_name = prop_def(SymbolNameConstraint())
    offloadingHandler = opt_prop_def(Attribute, default_value=SelectObjectAttr(None))
    objects = prop_def(ArrayAttr)
    traits = traits_def(SymbolOpInterface())

    def verify_(self) -> None:
        if not self.objects.data:
            raise VerifyException("must have at least one object")
        if not all(isinstance(o, ObjectAttr) for o in self.objects.data):
            raise VerifyException("objects must be #gpu.object attributes")

    @classmethod
    def parse(cls, parser: Parser) -> BinaryOp:
        props: dict[str, Attribute] = {
            "sym_name": parser.parse_symbol_name(),
            "offloadingHandler": SelectObjectAttr(None),
        }
        if parser.parse_optional_punctuation("<") is not None:
            props["offloadingHandler"] = parser.parse_attribute()
            parser.parse_punctuation(">")
        given = parser.parse_optional_attr_dict_with_keyword()
        objects = parser.parse_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_attribute)
        props["objects"] = ArrayAttr(objects)
        return cls.create(properties=props, attributes=dict(given.data) if given is not None else {})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        handler = self.offloadingHandler
        if handler != SelectObjectAttr(None):
            write(printer, " <", handler, ">")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        write(printer, " [", self.objects.data, "]")


BINARY_OPS = [BinaryOp]
BINARY_ATTRS = [KernelMetadataAttr, KernelTableAttr, ObjectAttr, SelectObjectAttr]
"""The attributes of this file."""
