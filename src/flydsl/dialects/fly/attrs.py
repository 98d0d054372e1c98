"""Attributes of the `fly` dialect: enums printed as `#fly<mma_operand a>`, and layout-algebra objects.

One name stands for a type and for the attribute behind it: `!fly.layout<...>` and `#fly<layout...>`.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, ClassVar

from xdsl.ir import Attribute, Data, OpaqueSyntaxAttribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...ir.enums import AddressSpace, AtomicOp, CachePolicy, GemmTraversalOrder, MmaOperand
from ...layout import Basis
from ...layout import text as layout_text


def keyword(member: IntEnum) -> str:
    """The word of an enum member in IR text.

    >>> keyword(CachePolicy.CacheGlobal), keyword(GemmTraversalOrder.KMN_Serpentine)
    ('cache_global', 'kmn_serpentine')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", member.name).lower()


class _EnumAttr(Data[Any]):
    """A member of a Python enum, written in lower case."""

    enum: ClassVar[type[IntEnum]]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        words = {keyword(member): member for member in cls.enum}
        word = parser.parse_optional_identifier()
        if word not in words:
            parser.raise_error(f"expected one of {', '.join(words)}, got '{word or 'something else'}'")
        return words[word]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(keyword(self.data))


@irdl_attr_definition
class AddressSpaceAttr(_EnumAttr, SpacedOpaqueSyntaxAttribute):
    """`#fly<address_space global>`."""

    name = "fly.address_space"
    enum = AddressSpace


@irdl_attr_definition
class MmaOperandAttr(_EnumAttr, SpacedOpaqueSyntaxAttribute):
    """Which operand of an MMA."""

    name = "fly.mma_operand"
    enum = MmaOperand


@irdl_attr_definition
class AtomicOpAttr(_EnumAttr, SpacedOpaqueSyntaxAttribute):
    """A read-modify-write operation."""

    name = "fly.atomic_op"
    enum = AtomicOp


@irdl_attr_definition
class CachePolicyAttr(_EnumAttr, SpacedOpaqueSyntaxAttribute):
    """A cache hint; no op uses it."""

    name = "fly.cache_policy"
    enum = CachePolicy


@irdl_attr_definition
class GemmTraversalOrderAttr(_EnumAttr, SpacedOpaqueSyntaxAttribute):
    """Loop order of a gemm expansion."""

    name = "fly.gemm_traversal_order"
    enum = GemmTraversalOrder


@irdl_attr_definition
class AlignAttr(Data[int], SpacedOpaqueSyntaxAttribute):
    """`#fly<align align<8>>`: an alignment in bytes."""

    name = "fly.align"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        parser.parse_keyword("align")
        with parser.in_angle_brackets():
            return parser.parse_integer(allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"align<{self.data}>")


@irdl_attr_definition
class ExplicitModuleAttr(ParametrizedAttribute):
    """`#fly.explicit_module`: the device module is loaded by calls, not by a constructor."""

    name = "fly.explicit_module"


# --- layout-algebra objects -------------------------------------------------------------------------------------------


def raw_parameters(parser: AttrParser) -> str:
    """The text up to the `>` that closes the type whose `<` was just read; leaves the parser in front of that `>`."""
    start = parser.pos
    content = parser.lexer.input.content
    depth, i = 0, start
    while i < len(content):
        c = content[i]
        if c in "<([{":
            depth += 1
        elif c in ")]}" or (c == ">" and content[i - 1] != "-"):
            if depth == 0:
                break
            depth -= 1
        i += 1
    parser._resume_from(i)  # pyright: ignore[reportPrivateUsage]
    return content[start:i]


def _parse_leaf(text: str) -> Any:
    leaf = layout_text.parse_int_tuple(text)
    if isinstance(leaf, (tuple, Basis)):
        raise ValueError("expected one integer leaf such as 4 or ?")
    return leaf


def parse_basis(text: str) -> Basis:
    """A basis leaf such as `1E0`."""
    leaf = layout_text.parse_int_tuple(text)
    if not isinstance(leaf, Basis):
        raise ValueError("expected a basis leaf such as 1E0")
    return leaf


class AlgebraAttr(Data[Any]):
    """An attribute whose whole parameter is layout text."""

    parse_text: ClassVar[Any]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        pos = parser.pos
        try:
            return cls.parse_text(raw_parameters(parser).strip())
        except ValueError as error:
            parser.raise_error(f"invalid {cls.name}: {error}", pos)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(layout_text.format_any(self.data))


@irdl_attr_definition
class IntAttr(AlgebraAttr):
    """An integer leaf; FlyDSL prints `#fly.int4`, which does not parse again."""

    name = "fly.int"
    parse_text = staticmethod(_parse_leaf)


@irdl_attr_definition
class BasisAttr(AlgebraAttr):
    """A basis leaf, printed `#fly.basis1E0`."""

    name = "fly.basis"
    parse_text = staticmethod(parse_basis)


@irdl_attr_definition
class SwizzleAttr(AlgebraAttr):
    """A swizzle, printed `#fly.swizzleS<1,2,3>`."""

    name = "fly.swizzle"
    parse_text = staticmethod(layout_text.parse_swizzle)


@irdl_attr_definition
class CoordSwizzleAttr(AlgebraAttr):
    """A coordinate swizzle, printed `#fly.coord_swizzleCS<...>`."""

    name = "fly.coord_swizzle"
    parse_text = staticmethod(layout_text.parse_coord_swizzle)


@irdl_attr_definition
class IntTupleAttr(AlgebraAttr, OpaqueSyntaxAttribute):
    """`#fly<int_tuple(1,2)>`."""

    name = "fly.int_tuple"
    parse_text = staticmethod(layout_text.parse_int_tuple)


@irdl_attr_definition
class LayoutAttr(AlgebraAttr, OpaqueSyntaxAttribute):
    """`#fly<layout(1,2):(3,4)>`."""

    name = "fly.layout"
    parse_text = staticmethod(layout_text.parse_layout)


@irdl_attr_definition
class ComposedLayoutAttr(AlgebraAttr, OpaqueSyntaxAttribute):
    """`#fly<composed_layoutS<3,4,3> o 0 o (8,8):(8,1)>`."""

    name = "fly.composed_layout"
    parse_text = staticmethod(layout_text.parse_composed)


@irdl_attr_definition
class TileAttr(AlgebraAttr, OpaqueSyntaxAttribute):
    """`#fly<tile[4|8]>`."""

    name = "fly.tile"
    parse_text = staticmethod(layout_text.parse_tile)


ATTRS: list[type[Attribute]] = [
    AddressSpaceAttr,
    MmaOperandAttr,
    AtomicOpAttr,
    CachePolicyAttr,
    GemmTraversalOrderAttr,
    AlignAttr,
    ExplicitModuleAttr,
    IntAttr,
    BasisAttr,
    SwizzleAttr,
    CoordSwizzleAttr,
    IntTupleAttr,
    LayoutAttr,
    ComposedLayoutAttr,
    TileAttr,
]
"""Every attribute of the dialect."""
