"""Copy and MMA atoms, and the tiled operations built from them.

An atom op is a type that answers everything about one hardware (or universal) operation: its text, its thread and
value layouts, the state it carries, the instruction it becomes (`lower`) and what that does (`emulate`). Which of the
two is wanted the conversion decides that calls it; an atom never asks. `!fly.copy_atom` and `!fly.mma_atom` wrap such a
type; `!fly.tiled_copy` and `!fly.tiled_mma` add the layout that spreads an atom over the threads of a block.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from xdsl.dialects.builtin import IntegerType, Signedness, VectorType
from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from ...ir.enums import AddressSpace, AtomicOp
from ...ir.op_text import type_after, write
from ...ir.types import bit_width, shape_of, vector_type
from ...layout import Layout, Tile, crd2idx, recast_layout, size
from .atom_lowering import AtomEmulation, AtomLowering, Operand
from .types import LayoutType, TileType, intern

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

ONE_THREAD = Layout(1, 1)


class CopyOpType(TypeAttribute):
    """Base of copy operations: which bits each thread reads and writes."""

    state: ClassVar[tuple[tuple[str, int], ...]] = ()
    """Run-time state fields with their width in bits; empty for stateless operations."""

    whole_tile: ClassVar[bool] = False
    """Whether one call moves a whole tile, so that `fly.copy` never splits it."""

    fills_zeros: ClassVar[bool] = False
    """Whether a false predicate writes zeros instead of nothing: `lower` finds it as the state `pred`."""

    def state_default(self, field: str) -> int:
        """What a state field holds while nobody set it."""
        return 0

    @property
    @abstractmethod
    def bits(self) -> int:
        """Bits one call moves per thread."""

    @property
    def moved(self) -> int | None:
        """Elements a call moves between memory and a tensor that it knows by coordinates; None where it knows none."""
        return None

    @property
    def thr_layout(self) -> Layout:
        """Threads that take part in one call."""
        return ONE_THREAD

    @property
    def src_bits(self) -> Layout:
        """(thread, bit) of the source to bit of the reference block."""
        return Layout((1, self.bits), (1, 1))

    @property
    def dst_bits(self) -> Layout:
        """(thread, bit) of the destination to bit of the reference block."""
        return self.src_bits

    @property
    def ref_bits(self) -> Layout:
        """The side whose layout is the reference."""
        return self.src_bits

    @abstractmethod
    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """Emit one call for the GPU behind `low`."""

    @abstractmethod
    def emulate(self, low: AtomEmulation, src: Operand, dst: Operand) -> None:
        """Emit what one call does, for the cpu stack."""


class MmaOpType(TypeAttribute):
    """Base of matrix multiply-accumulate operations: shape, types and thread-value layouts."""

    state: ClassVar[tuple[tuple[str, int], ...]] = ()
    asynchronous: ClassVar[bool] = False
    """Whether products are there behind a wait only."""

    def state_default(self, field: str) -> int:
        """What a state field holds while nobody set it."""
        return 0

    @property
    @abstractmethod
    def shape_mnk(self) -> tuple[int, int, int]:
        """Extent of one call."""

    @property
    @abstractmethod
    def elem_types(self) -> tuple[Attribute, Attribute, Attribute]:
        """Element types of A, B and the accumulator."""

    @property
    def rounds_to_xf32(self) -> bool:
        """Whether A and B are rounded to ten bits of fraction before they are multiplied."""
        return False

    @property
    @abstractmethod
    def thr_layout(self) -> Layout:
        """Threads that take part in one call."""

    @abstractmethod
    def tv_layout(self, operand: int) -> Layout:
        """(thread, value) to position in the column-major tile of operand A 0, B 1, C and D 2, 3."""

    @abstractmethod
    def lower(self, low: AtomLowering, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """Emit one call for the GPU behind `low`."""

    @abstractmethod
    def emulate(self, low: AtomEmulation, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """Emit what one call does, for the cpu stack."""


def _scattered(at: Operand, type_: Attribute) -> list[int] | None:
    """Offsets of the elements of a register tensor that do not lie one behind the other; else None."""
    layout: Any = at.data.layout
    if type(layout) is not Layout or layout.stride == 1:
        return None
    count = vector_length(type_)
    if size(layout) != count:
        return None
    offsets = [cast(int, crd2idx(i, layout)) for i in range(count)]
    return None if offsets == list(range(count)) else offsets


def load_values(low: AtomLowering, at: Operand, type_: Attribute, align: int | None = None) -> SSAValue:
    """Read all elements of an operand."""
    offsets = _scattered(at, type_) if at.data.space is AddressSpace.Register else None
    if offsets is None:
        return low.load(at, type_, align)
    values = [low.load(low.moved(at, offset), at.data.elem) for offset in offsets]
    from ..upstream.vector import FromElementsOp

    return low.b.pure(FromElementsOp, values, vector_type(values[0].type, len(values)), {})


def store_values(low: AtomLowering, value: SSAValue, at: Operand, align: int | None = None) -> None:
    """Write all elements of an operand."""
    offsets = _scattered(at, value.type) if at.data.space is AddressSpace.Register else None
    if offsets is None:
        low.store(value, at, align)
        return
    for i, offset in enumerate(offsets):
        low.store(low.b.extract(value, i), low.moved(at, offset))


def vector_length(type_: Attribute) -> int:
    """Elements of a vector; a scalar is one."""
    return shape_of(type_)[0] if type(type_) is VectorType else 1


@irdl_attr_definition
class UniversalCopyType(Data[int], CopyOpType):
    """`!fly.universal_copy<128>`: a per-thread move of this many bits between any two memories."""

    name = "fly.universal_copy"

    @property
    def bits(self) -> int:
        return self.data

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One load and one store of the whole width."""
        elem = src.data.elem
        count = max(self.bits // bit_width(elem), 1)
        type_ = elem if count == 1 else vector_type(elem, count)
        aligns = [
            max(side.data.align, self.bits // 8)
            if low.wants_alignment and side.data.space is not AddressSpace.Register
            else None
            for side in (src, dst)
        ]
        store_values(low, load_values(low, src, type_, aligns[0]), dst, aligns[1])

    emulate = lower

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            return parser.parse_integer(allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class UniversalAtomicType(Data[tuple[AtomicOp, Attribute, str]], CopyOpType):
    """`!fly.universal_atomic<max, i32, "agent">`: read-modify-write of memory, monotonic, old value dropped.

    Integers are compared as signed; `ui32` asks for the other comparison.
    """

    name = "fly.universal_atomic"

    @property
    def bits(self) -> int:
        return bit_width(self.data[1])

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """Load the register operand and combine it into memory."""
        op, elem, scope = self.data
        unsigned = type(elem) is IntegerType and elem.signedness.data is Signedness.UNSIGNED
        stored: Attribute = IntegerType(self.bits) if unsigned else self.data[1]
        low.atomic(op, dst, low.load(src, stored), scope, unsigned)

    emulate = lower

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[AtomicOp, Attribute, str]:
        with parser.in_angle_brackets():
            word = parser.parse_identifier()
            ops = {op.name.lower(): op for op in AtomicOp}
            if word not in ops:
                parser.raise_error(f"expected one of {', '.join(ops)}, got '{word}'")
            elem = type_after(parser, ",")
            scope = ""
            if parser.parse_optional_punctuation(",") is not None:
                scope = parser.parse_str_literal()
        return ops[word], elem, scope

    def print_parameter(self, printer: Printer) -> None:
        op, elem, scope = self.data
        write(printer, f"<{op.name.lower()}, ", elem)
        if scope:
            printer.print_string(", ")
            printer.print_string_literal(scope)
        printer.print_string(">")


def parse_mnk(parser: AttrParser) -> tuple[int, int, int]:
    """`16x16x4`."""
    dims = parser.parse_dimension_list()
    if len(dims) != 3:
        parser.raise_error("expected 3 dimensions in MNK dimension list")
    return dims[0], dims[1], dims[2]


def parse_mma_types(parser: AttrParser) -> tuple[Attribute, Attribute, Attribute]:
    """`(f16, f16) -> f32`."""
    with parser.in_parens():
        a = parser.parse_type()
        b = type_after(parser, ",")
    parser.parse_punctuation("->")
    return a, b, parser.parse_type()


def print_mma(printer: Printer, mnk: tuple[int, int, int], types: tuple[Attribute, Attribute, Attribute]) -> None:
    """`16x16x4, (f32, f32) -> f32`."""
    write(printer, "x".join(map(str, mnk)) + ", (", types[0], ", ", types[1], ") -> ", types[2])


@irdl_attr_definition
class UniversalFmaType(Data[Attribute], MmaOpType):
    """`!fly.universal_fma<1x1x1, (f32, f32) -> f32>`: one multiply-add per thread."""

    name = "fly.universal_fma"

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        return (1, 1, 1)

    @property
    def elem_types(self) -> tuple[Attribute, Attribute, Attribute]:
        return (self.data, self.data, self.data)

    @property
    def thr_layout(self) -> Layout:
        return ONE_THREAD

    def tv_layout(self, operand: int) -> Layout:
        return Layout((1, 1), (1, 1))

    def lower(self, low: AtomLowering, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """A product and a sum, each rounded."""
        product = low.b.float_binary("mulf", low.load(a, self.data), low.load(b, self.data))
        low.store(low.b.float_binary("addf", product, low.load(c, self.data)), d)

    emulate = lower

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Attribute:
        with parser.in_angle_brackets():
            mnk = parse_mnk(parser)
            parser.parse_punctuation(",")
            types = parse_mma_types(parser)
            if mnk != (1, 1, 1):
                parser.raise_error(f"universal_fma has shape 1x1x1, got {'x'.join(map(str, mnk))}")
            if not types[0] == types[1] == types[2]:
                parser.raise_error("universal_fma needs three equal types")
        return types[0]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        print_mma(printer, (1, 1, 1), self.elem_types)
        printer.print_string(">")


def _parse_operation(parser: AttrParser, what: str) -> Attribute:
    """The operation of an atom; an error in it is one of the atom too."""
    try:
        return parser.parse_type()
    except ParseError as error:
        raise ParseError(error.span, f"{error.msg}\nfailed to parse {what}") from error


@irdl_attr_definition
class CopyAtomType(Data[tuple[Attribute, int]], TypeAttribute):
    """`!fly.copy_atom<!fly.universal_copy<128>, 32>`: a copy operation counted in values of so many bits."""

    name = "fly.copy_atom"

    @property
    def op(self) -> CopyOpType:
        return cast(CopyOpType, self.data[0])

    @property
    def val_bits(self) -> int:
        return self.data[1]

    def is_static_type(self) -> bool:
        """Stateless atoms have no run-time content."""
        return not self.op.state

    def tv(self, side: str) -> Layout:
        """(thread, value) layout of `src`, `dst` or `ref`, counted in values."""
        return recast_layout(getattr(self.op, f"{side}_bits"), 1, self.val_bits)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Attribute, int]:
        with parser.in_angle_brackets():
            op = _parse_operation(parser, "Fly_CopyAtom parameter 'copyOp'")
            if not isinstance(op, CopyOpType):
                parser.raise_error(f"failed to parse Fly_CopyAtom parameter 'copyOp': {op} is not a copy operation")
            parser.parse_punctuation(",")
            return op, parser.parse_integer(allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        write(printer, "<", self.data[0], f", {self.data[1]}>")


@irdl_attr_definition
class MmaAtomType(Data[Attribute], TypeAttribute):
    """`!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>`."""

    name = "fly.mma_atom"

    @property
    def op(self) -> MmaOpType:
        return cast(MmaOpType, self.data)

    def is_static_type(self) -> bool:
        """Stateless atoms have no run-time content."""
        return not self.op.state

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Attribute:
        with parser.in_angle_brackets():
            op = _parse_operation(parser, "Fly_MmaAtom parameter 'mmaOp'")
            if not isinstance(op, MmaOpType):
                parser.raise_error(f"failed to parse Fly_MmaAtom parameter 'mmaOp': {op} is not an mma operation")
            return op

    def print_parameter(self, printer: Printer) -> None:
        write(printer, "<", self.data, ">")


def _parse_layout_param(parser: AttrParser) -> Layout:
    """A layout type, qualified or stripped to its angle brackets."""
    found = parser.parse_optional_type()
    data: Any = LayoutType.parse_parameter(parser) if found is None else getattr(found, "data", None)
    if not isinstance(data, Layout):
        parser.raise_error("expected a plain layout")
    return data


def _parse_tile_param(parser: AttrParser) -> Tile:
    found = parser.parse_optional_type()
    data: Any = TileType.parse_parameter(parser) if found is None else getattr(found, "data", None)
    if not isinstance(data, Tile):
        parser.raise_error("expected a tile")
    return data


class TiledCopyData(NamedTuple):
    """A copy atom spread over a tile."""

    atom: CopyAtomType
    layout: Layout
    tile: Tile


class TiledMmaData(NamedTuple):
    """An MMA atom repeated over (M, N, K), with an optional permutation of the tile."""

    atom: MmaAtomType
    layout: Layout
    tile: Tile


NO_PERMUTATION = Tile((None, None, None))


@irdl_attr_definition
class TiledCopyType(Data[TiledCopyData], TypeAttribute):
    """`!fly.tiled_copy<ATOM, !fly.layout<...>, !fly.tile<...>>`: thread-value layout and tile of a copy."""

    name = "fly.tiled_copy"

    def is_static_type(self) -> bool:
        """As its atom."""
        return self.data.atom.is_static_type()

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TiledCopyData:
        with parser.in_angle_brackets():
            atom = parser.parse_type()
            if not isinstance(atom, CopyAtomType):
                parser.raise_error(f"expected a copy atom, got {atom}")
            parser.parse_punctuation(",")
            layout = _parse_layout_param(parser)
            parser.parse_punctuation(",")
            return TiledCopyData(atom, layout, _parse_tile_param(parser))

    def print_parameter(self, printer: Printer) -> None:
        write(printer, "<", self.data.atom, f", !fly.layout<{self.data.layout}>, !fly.tile<{self.data.tile}>>")


@irdl_attr_definition
class TiledMmaType(Data[TiledMmaData], TypeAttribute):
    """`!fly.tiled_mma<ATOM, !fly.layout<(2,2,1):(1,2,0)>>`: atoms over (M, N, K); a third parameter permutes."""

    name = "fly.tiled_mma"

    def is_static_type(self) -> bool:
        """As its atom."""
        return self.data.atom.is_static_type()

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TiledMmaData:
        with parser.in_angle_brackets():
            atom = parser.parse_type()
            if not isinstance(atom, MmaAtomType):
                parser.raise_error(f"expected an mma atom, got {atom}")
            parser.parse_punctuation(",")
            layout = _parse_layout_param(parser)
            tile = NO_PERMUTATION
            if parser.parse_optional_punctuation(",") is not None:
                tile = _parse_tile_param(parser)
            return TiledMmaData(atom, layout, tile)

    def print_parameter(self, printer: Printer) -> None:
        write(printer, "<", self.data.atom, f", !fly.layout<{self.data.layout}>")
        if self.data.tile != NO_PERMUTATION:
            printer.print_string(f", !fly.tile<{self.data.tile}>")
        printer.print_string(">")


def copy_atom_type(op: CopyOpType, val_bits: int) -> CopyAtomType:
    """Interned copy atom."""
    return intern(CopyAtomType, (op, val_bits))


def mma_atom_type(op: MmaOpType) -> MmaAtomType:
    """Interned MMA atom."""
    return intern(MmaAtomType, op)


def tiled_copy_type(atom: CopyAtomType, layout: Layout, tile: Tile) -> TiledCopyType:
    """Interned tiled copy."""
    return intern(TiledCopyType, TiledCopyData(atom, layout, tile))


def tiled_mma_type(atom: MmaAtomType, layout: Layout, tile: Tile | None = None) -> TiledMmaType:
    """Interned tiled MMA."""
    return intern(TiledMmaType, TiledMmaData(atom, layout, NO_PERMUTATION if tile is None else tile))


def atom_of(type_: Attribute) -> CopyAtomType | MmaAtomType:
    """The atom of an atom or a tiled operation."""
    kind = type(type_)
    if kind is TiledCopyType or kind is TiledMmaType:
        return cast("TiledCopyType | TiledMmaType", type_).data.atom
    assert kind is CopyAtomType or kind is MmaAtomType
    return cast("CopyAtomType | MmaAtomType", type_)
