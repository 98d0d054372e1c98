"""The types of the `fly` dialect: thin attributes over the immutable objects of `flydsl.layout`.

Each type holds one hashable payload and is interned by the function beside it (`layout_type`, `memref_type`, ...),
so equal types are usually the same object. Text forms follow FlyDSL's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...ir.emitter import make_data
from ...ir.enums import AddressSpace
from ...ir.op_text import write
from ...ir.types import bit_width
from ...layout import Basis, ComposedLayout, CoordSwizzle, Dyn, IntTuple, Layout, Swizzle, Tile, depth, rank
from ...layout import text as layout_text
from ...layout.int_tuple import VALUED, kind_of
from .attrs import AddressSpaceAttr, parse_basis, raw_parameters

TRIVIAL_SWIZZLE = Swizzle(0, 0, 0)
_QUALIFIED = re.compile(r"#fly<[a-z_]+\s*(.*)>", re.DOTALL)
"""A parameter written as an attribute: `!fly.int_tuple<#fly<int_tuple (1,2)>>`."""
_SPACES = {space.keyword: space for space in AddressSpace}

T = TypeVar("T", bound=Attribute)
_Parsed = TypeVar("_Parsed")
Space = AddressSpace | Attribute


def split_top(text: str) -> list[str]:
    """Split at the commas that are outside all brackets."""
    parts: list[str] = []
    depth, last = 0, 0
    for i, c in enumerate(text):
        if c in "<([{":
            depth += 1
        elif c in ">)]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[last:i].strip())
            last = i + 1
    parts.append(text[last:].strip())
    return parts


def _parse_text(parser: AttrParser, what: str, parse: Callable[[str], _Parsed]) -> _Parsed:
    parser.parse_punctuation("<")
    pos = parser.pos
    text = raw_parameters(parser)
    qualified = _QUALIFIED.fullmatch(text.strip())
    try:
        value = parse(qualified.group(1) if qualified is not None else text)
    except ValueError as error:
        parser.raise_error(f"invalid {what}: {error}", pos)
    parser.parse_punctuation(">")
    return value


class _TextType(Data[Any]):
    """A type whose whole parameter is layout text in angle brackets."""

    what: ClassVar[str]
    """What it is, in words."""
    parse_text: ClassVar[Callable[[str], Any]]

    @property
    def rank(self) -> int:
        """Number of top-level modes of what it describes."""
        return rank(self.data)

    @property
    def depth(self) -> int:
        """How deep its tuples are nested."""
        return depth(self.data)

    @property
    def is_leaf(self) -> bool:
        """Whether it is a single leaf, no tuple."""
        return self.depth == 0

    @property
    def is_static(self) -> bool:
        """Whether all of it is known at compile time."""
        return static_data(self.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        return _parse_text(parser, cls.what, cls.parse_text)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{layout_text.format_any(self.data)}>")


@irdl_attr_definition
class IntTupleType(_TextType, TypeAttribute):
    """`!fly.int_tuple<(?,(4,?{i64 div=8}))>`: a nested tuple; static leaves live in the type."""

    name = "fly.int_tuple"
    what = "int tuple"
    parse_text = staticmethod(layout_text.parse_int_tuple)


@irdl_attr_definition
class BasisType(_TextType, TypeAttribute):
    """`!fly.basis<1E0E2>`: a scaled unit vector."""

    name = "fly.basis"
    what = "basis"
    parse_text = staticmethod(parse_basis)


@irdl_attr_definition
class LayoutType(_TextType, TypeAttribute):
    """`!fly.layout<(4,8):(8,1)>`."""

    name = "fly.layout"
    what = "layout"
    parse_text = staticmethod(layout_text.parse_layout)

    @property
    def shape(self) -> IntTupleType:
        """Type of the extents."""
        return int_tuple_type(self.data.shape)

    @property
    def stride(self) -> IntTupleType:
        """Type of the steps."""
        return int_tuple_type(self.data.stride)


@irdl_attr_definition
class SwizzleType(_TextType, TypeAttribute):
    """`!fly.swizzle<S<3,4,3>>`."""

    name = "fly.swizzle"
    what = "swizzle"
    parse_text = staticmethod(layout_text.parse_swizzle)


@irdl_attr_definition
class CoordSwizzleType(_TextType, TypeAttribute):
    """`!fly.coord_swizzle<CS<2,0,[0],3,[1]>>`."""

    name = "fly.coord_swizzle"
    what = "coordinate swizzle"
    parse_text = staticmethod(layout_text.parse_coord_swizzle)


@irdl_attr_definition
class ComposedLayoutType(_TextType, TypeAttribute):
    """`!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>`."""

    name = "fly.composed_layout"
    what = "composed layout"
    parse_text = staticmethod(layout_text.parse_composed)


@irdl_attr_definition
class TileType(_TextType, TypeAttribute):
    """`!fly.tile<[8|64]>`: a by-mode tiler, always static."""

    name = "fly.tile"
    what = "tile"
    parse_text = staticmethod(layout_text.parse_tile)


class PtrData(NamedTuple):
    """Parameters of a pointer; `align` in bytes."""

    elem: Attribute
    space: Space
    align: int
    swizzle: Swizzle


class MemRefData(NamedTuple):
    """Parameters of a memref: those of its pointer and a layout."""

    elem: Attribute
    space: Space
    layout: Layout | ComposedLayout
    align: int
    swizzle: Swizzle


class _InMemory:
    """What the types of pointers and memrefs say of the memory."""

    data: Any

    @property
    def element_type(self) -> Attribute:
        return self.data.elem

    @property
    def address_space(self) -> Space:
        """Where it is."""
        return self.data.space

    @property
    def alignment(self) -> int:
        """Known alignment in bytes."""
        return self.data.align

    @property
    def swizzle(self) -> Swizzle:
        """The swizzle of addresses."""
        return self.data.swizzle


def trivial_align(elem: Attribute) -> int:
    """The alignment in bytes that a pointer has when none is written."""
    return max((bit_width(elem) + 7) // 8, 1)


def _print_space(printer: Printer, space: Space) -> None:
    if isinstance(space, AddressSpace):
        printer.print_string(space.keyword)
    else:
        printer.print_attribute(space)


def _parse_space(parser: AttrParser) -> Space:
    for word, space in _SPACES.items():
        if parser.parse_optional_keyword(word) is not None:
            return space
    attr = parser.parse_attribute()
    if isinstance(attr, AddressSpaceAttr):
        return attr.data
    return attr


def _parse_tail(parser: AttrParser, elem: Attribute, parts: list[str]) -> tuple[int, Swizzle]:
    """`align<N>` and a pointer swizzle, both optional, in this order."""
    try:
        align, swizzle = trivial_align(elem), TRIVIAL_SWIZZLE
    except TypeError as error:
        parser.raise_error(f"invalid element type: {error}")
    for part in parts:
        number = part.removeprefix("align<").removesuffix(">").strip()
        if part.startswith("align<") and number.isdecimal():
            align = int(number)
            unit = trivial_align(elem)
            if align <= 0 or align % unit:
                parser.raise_error(f"alignment must be a positive multiple of element byte size ({unit}), got {align}")
        elif part.startswith("S<"):
            try:
                swizzle = layout_text.parse_swizzle(part)
            except ValueError as error:
                parser.raise_error(f"invalid swizzle: {error}")
        else:
            parser.raise_error(f"expected 'align<N>' or a swizzle, got '{part}'")
    return align, swizzle


def _print_tail(printer: Printer, elem: Attribute, align: int, swizzle: Swizzle) -> None:
    if align != trivial_align(elem):
        printer.print_string(f", align<{align}>")
    if swizzle != TRIVIAL_SWIZZLE:
        printer.print_string(f", {layout_text.format_any(swizzle)}")


@irdl_attr_definition
class PointerType(_InMemory, Data[PtrData], TypeAttribute):
    """`!fly.ptr<f16, global, align<16>, S<3,4,3>>`."""

    name = "fly.ptr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> PtrData:
        with parser.in_angle_brackets():
            elem = parser.parse_type()
            parser.parse_punctuation(",")
            space = _parse_space(parser)
            parts = split_top(raw_parameters(parser))[1:] if parser.parse_optional_punctuation(",") is None else None
            if parts is None:
                parts = split_top(raw_parameters(parser))
            align, swizzle = _parse_tail(parser, elem, parts)
        return PtrData(elem, space, align, swizzle)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            write(printer, self.data.elem, ", ")
            _print_space(printer, self.data.space)
            _print_tail(printer, self.data.elem, self.data.align, self.data.swizzle)


@irdl_attr_definition
class MemRefType(_InMemory, Data[MemRefData], TypeAttribute):
    """`!fly.memref<f32, shared, S<2,3,3> o 0 o (8,8):(8,1), align<16>>`: a pointer with a layout."""

    name = "fly.memref"

    @property
    def layout(self) -> Layout | ComposedLayout:
        """How coordinates map to offsets."""
        return self.data.layout

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> MemRefData:
        with parser.in_angle_brackets():
            elem = parser.parse_type()
            parser.parse_punctuation(",")
            space = _parse_space(parser)
            parser.parse_punctuation(",")
            pos = parser.pos
            parts = split_top(raw_parameters(parser))
            try:
                layout = layout_text.parse_any_layout(parts[0])
            except ValueError as error:
                parser.raise_error(f"invalid layout: {error}", pos)
            align, swizzle = _parse_tail(parser, elem, parts[1:])
        return MemRefData(elem, space, layout, align, swizzle)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            write(printer, self.data.elem, ", ")
            _print_space(printer, self.data.space)
            printer.print_string(f", {layout_text.format_any(self.data.layout)}")
            _print_tail(printer, self.data.elem, self.data.align, self.data.swizzle)


@irdl_attr_definition
class CoordTensorType(Data[tuple[IntTuple, Layout | ComposedLayout]], TypeAttribute):
    """`!fly.coord_tensor<(0,?), (4,8):(1E0,1E1)>`: a base coordinate and a layout over coordinates."""

    name = "fly.coord_tensor"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[IntTuple, Layout | ComposedLayout]:
        def parse(text: str) -> tuple[IntTuple, Layout | ComposedLayout]:
            base, layout = split_top(text)
            return layout_text.parse_int_tuple(base), layout_text.parse_any_layout(layout)

        return _parse_text(parser, "coordinate tensor", parse)

    def print_parameter(self, printer: Printer) -> None:
        base, layout = self.data
        printer.print_string(f"<{layout_text.format_any(base)}, {layout_text.format_any(layout)}>")


_interned: dict[tuple[type[Attribute], object], Attribute] = {}


def intern(cls: type[T], payload: object) -> T:
    """The one object of class `cls` with this payload."""
    key = (cls, payload)
    found: Any = _interned.get(key)
    if found is None:
        # Most of them have nothing to check, and being told so by xDSL takes ten times as long as making one.
        checks = cls.verify is not Attribute.verify
        found = _interned[key] = cast(Any, cls).new(payload) if checks else make_data(cast(Any, cls), payload)
    return found


def int_tuple_type(tree: IntTuple) -> IntTupleType:
    """Type of a tuple; value leaves count by what is statically known of them."""
    return intern(IntTupleType, type_level(tree))


def layout_type(layout: Layout | ComposedLayout) -> LayoutType | ComposedLayoutType:
    """Type of a plain or composed layout."""
    layout = type_level(layout)
    return intern(LayoutType if type(layout) is Layout else ComposedLayoutType, layout)


def ptr_type(
    elem: Attribute, space: Space, align: int | None = None, swizzle: Swizzle = TRIVIAL_SWIZZLE
) -> PointerType:
    """Pointer type; the alignment defaults to the element's own."""
    return intern(PointerType, PtrData(elem, space, trivial_align(elem) if align is None else align, swizzle))


def memref_type(
    elem: Attribute,
    space: Space,
    layout: Layout | ComposedLayout,
    align: int | None = None,
    swizzle: Swizzle = TRIVIAL_SWIZZLE,
) -> MemRefType:
    """Memref type; the alignment defaults to the element's own."""
    align = trivial_align(elem) if align is None else align
    return intern(MemRefType, MemRefData(elem, space, type_level(layout), align, swizzle))


def coord_tensor_type(base: IntTuple, layout: Layout | ComposedLayout) -> CoordTensorType:
    """Coordinate tensor type."""
    return intern(CoordTensorType, (type_level(base), type_level(layout)))


def type_of(data: Any) -> Attribute:
    """The type that describes a layout-algebra object."""
    kind = type(data)  # pyright: ignore[reportUnknownVariableType]
    if kind is Layout or kind is ComposedLayout:
        return layout_type(data)
    if kind is Tile:
        return intern(TileType, data)
    if kind is Swizzle:
        return intern(SwizzleType, data)
    if kind is CoordSwizzle:
        return intern(CoordSwizzleType, data)
    return int_tuple_type(data)


def type_level(data: Any) -> Any:
    """`data` with every value leaf replaced by what is statically known of it."""
    kind = type(data)  # pyright: ignore[reportUnknownVariableType]
    if kind is int or data is None or kind is Dyn:
        return data
    if kind is tuple:
        return tuple([type_level(x) for x in data]) if kind_of(data) == VALUED else data
    if kind is Layout:
        return Layout(type_level(data.shape), type_level(data.stride)) if data.kind == VALUED else data
    if kind is ComposedLayout:
        return ComposedLayout(type_level(data.inner), type_level(data.offset), type_level(data.outer))
    if kind is Basis:
        return Basis(type_level(data.value), data.modes)
    if isinstance(data, Dyn):
        return Dyn.get(data.width, data.div)
    return data


_ALWAYS_STATIC = {SwizzleType, CoordSwizzleType, TileType}
_BY_DATA = {IntTupleType, LayoutType, ComposedLayoutType, BasisType}


_IN_MEMORY = frozenset[type[Attribute]]((PointerType, MemRefType))


def is_register(type_: Any) -> bool:
    """Whether a type is a pointer or a tensor in the register space."""
    return type(type_) in _IN_MEMORY and type_.data.space is AddressSpace.Register


def is_static(type_: Attribute) -> bool:
    """Whether a value of this type has no run-time content."""
    kind = type(type_)
    if kind in _ALWAYS_STATIC:
        return True
    if kind in _BY_DATA:
        return static_data(cast(Any, type_).data)
    if kind is CoordTensorType:
        base, layout = cast(CoordTensorType, type_).data
        return static_data(base) and static_data(layout)
    answer = getattr(type_, "is_static_type", None)
    return bool(answer()) if answer is not None else False


def static_data(data: Any) -> bool:
    """Whether no leaf of a layout-algebra object is dynamic."""
    kind = type(data)  # pyright: ignore[reportUnknownVariableType]
    if kind is int or data is None or kind is Swizzle or kind is CoordSwizzle or kind is Tile:
        return True
    if kind is tuple:
        return all(map(static_data, data))
    if kind is Layout:
        return bool(data.is_static)
    if kind is ComposedLayout:
        return static_data(data.inner) and static_data(data.offset) and static_data(data.outer)
    if kind is Basis:
        return static_data(data.value)
    return False


def linear_layout(layout: Any) -> Layout:
    """The innermost plain layout of a plain or composed one."""
    while type(layout) is ComposedLayout:
        layout = layout.outer
    return layout


def value_divisibility(data: PtrData | MemRefData) -> int:
    """How many elements every address of this pointer is known to be a multiple of."""
    return max(data.align * 8 // bit_width(data.elem), 1)


def align_for(elem: Attribute, divisibility: int) -> int:
    """Byte alignment of an address that is a multiple of `divisibility` elements."""
    return max((bit_width(elem) * max(divisibility, 1) + 7) // 8, 1)
