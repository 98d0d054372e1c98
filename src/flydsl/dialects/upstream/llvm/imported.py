"""What `mlir-translate --import-llvm` writes beyond code: flags of a module, and attributes that are only kept."""

from __future__ import annotations

import re
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Data
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, prop_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ....ir.op_text import write
from ..keyword_attr import parse_word

_BEHAVIOURS = ("error", "warning", "require", "override", "append", "append_unique", "max", "min")


@irdl_attr_definition
class ModuleFlagAttr(Data[tuple[str, str, Attribute]]):
    """`#llvm.mlir.module_flag<error, "wchar_size", 4 : i32>`: what to do when modules differ, the flag, its value."""

    name = "llvm.mlir.module_flag"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, str, Attribute]:
        parser.parse_punctuation("<")
        word = parse_word(parser, _BEHAVIOURS)
        parser.parse_punctuation(",")
        key = parser.parse_str_literal()
        parser.parse_punctuation(",")
        value = parser.parse_attribute()
        parser.parse_punctuation(">")
        return word, key, value

    def print_parameter(self, printer: Printer) -> None:
        word, key, value = self.data
        printer.print_string(f"<{word}, ")
        printer.print_string_literal(key)
        write(printer, ", ", value, ">")


@irdl_op_definition
class ModuleFlagsOp(IRDLOperation):
    """`llvm.module_flags [#llvm.mlir.module_flag<min, "PIC Level", 2 : i32>]`."""

    name = "llvm.module_flags"
    flags = prop_def(ArrayAttr)
    assembly_format = "$flags attr-dict"


_ALIAS = re.compile(r'"(?:[^"\\]|\\.)*"|[#!][A-Za-z_]\w*(?![\w.<])')
"""A text in quotes, or a word that may be an alias."""


class KeptAttr(Data[str]):
    """An attribute whose text nobody here reads: it is written as it was read, with what aliases stand for."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            text = cast(Any, parser)._parse_unregistered_attr_body(parser.pos)  # pyright: ignore[reportPrivateUsage]
        known = parser.attribute_aliases

        def spelled(found: re.Match[str]) -> str:
            return str(known[found[0]]) if found[0] in known else found[0]

        return _ALIAS.sub(spelled, text)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


def _kept(name: str) -> type[KeptAttr]:
    body = {"name": name, "__doc__": f"`#{name}<...>`.", "__module__": __name__}
    return irdl_attr_definition(cast("type[KeptAttr]", type(name.replace(".", "_"), (KeptAttr,), body)))


KEPT_ATTRS = [
    _kept(f"llvm.{name}")
    for name in (
        *("memory_effects", "target_features", "framePointerKind", "uwtableKind", "vscale_range", "vec_type_hint"),
        *("tbaa_root", "tbaa_type_desc", "tbaa_tag", "access_group", "alias_scope", "alias_scope_domain"),
        *(
            "mlir.module_flag_cg_profile_entry",
            "mlir.module_flag_profile_summary",
            "dependent_libraries",
            "linker_option",
        ),
    )
]
"""Attributes of `llvm` that are only kept."""
DLTI_ATTRS = [
    _kept(f"dlti.{name}") for name in ("dl_spec", "dl_entry", "target_system_spec", "target_device_spec", "map")
]
"""Those of `dlti`, which say how a target lays out data; our targets say so themselves."""
