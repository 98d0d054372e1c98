"""Copies of a box of a tensor by the tensor data mover, as `fly_rocdl.make_tiled_tdm_load_atom` and `_store_atom` make.

`!fly_rocdl.cdna5.tensor_load<shape = [64, 32], elem = f16, tensor2tdm = (1E0,1E1)>`: a box of `shape`, outermost
dimension first, from global to shared memory; `tensor_store` goes the other way. `tensor2tdm` says for each mode of the
tensor which dimension of the box it moves along, and by how much. `fly-rocdl-expand-ops` gives a call the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ... import layout as L
from ...errors import DSLCompileError, DSLValueError
from ...ir.enums import AddressSpace
from ...ir.op_text import write
from ...ir.types import bit_width
from ...layout import Basis
from ...layout import text as layout_text
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand
from ..fly.atoms import CopyOpType
from ..fly.attrs import raw_parameters
from ..fly.types import intern, split_top
from .common import ArchAtom, refuse
from .tdm import NO_LIMIT, UNSET, TdmType

MAX_RANK = 5
MAX_EXTENT = 65535
"""What 16 bits of the descriptor hold."""


class TensorCopyData(NamedTuple):
    """Parameters; the box outermost dimension first, padding in elements."""

    shape: tuple[int, ...]
    elem: Attribute
    tensor2tdm: L.IntTuple
    barrier: bool = False
    cache: int = 0
    iterations: int = 1
    pad_interval: int = 0
    pad_amount: int = 0


OPTIONS = {
    "atomicBarrier": "barrier",
    "cacheModifier": "cache",
    "iterCount": "iterations",
    "padInterval": "pad_interval",
    "padAmount": "pad_amount",
}
"""Name in the text to field, in the order they are printed."""


def check_element(elem: Attribute) -> None:
    """Refuse elements the data mover has no code for."""
    if not isinstance(elem, (IntegerType, AnyFloat)):
        raise DSLValueError(f"TDM dataType must be an integer or float type, got '{elem}'")
    if bit_width(elem) not in (8, 16, 32, 64):
        raise DSLValueError(f"TDM element width must be one of 8, 16, 32 or 64 bits, got '{elem}'")


def _check_padding(interval: int, amount: int) -> None:
    """Refuse a padding that cannot be."""
    if interval < 0 or amount < 0:
        raise DSLValueError(f"padInterval and padAmount must be non-negative, got {interval}, {amount}")
    if bool(interval) != bool(amount):
        raise DSLValueError(f"padInterval and padAmount must both be zero or both non-zero, got {interval}, {amount}")
    if interval & (interval - 1):
        raise DSLValueError(f"padInterval must be a power of two (in elements), got {interval}")


def _verify(data: TensorCopyData) -> TensorCopyData:
    rank = len(data.shape)
    if not 1 <= rank <= MAX_RANK:
        raise DSLValueError(f"TDM rank must be in [1, 5], got {rank}")
    for extent in data.shape:
        if not 1 <= extent <= MAX_EXTENT:
            raise DSLValueError(f"TDM tile shape dims must be in [1, 65535], got {extent}")
    check_element(data.elem)
    _check_padding(data.pad_interval, data.pad_amount)
    if not 1 <= data.iterations <= 256:
        raise DSLValueError(f"TDM iterCount must be in [1, 256], got {data.iterations}")
    leaves = L.flatten(data.tensor2tdm)
    if len(leaves) < rank:
        raise DSLValueError(f"TDM tensor2tdm has {len(leaves)} modes but the descriptor has {rank} dims")
    for i, leaf in enumerate(leaves):
        if leaf == 0 and type(leaf) is int:
            continue
        if not isinstance(leaf, Basis):
            raise DSLValueError(f"TDM tensor2tdm mode {i} must be a basis stride or 0, got {leaf}")
        if type(leaf.value) is not int:
            raise DSLValueError(f"TDM tensor2tdm mode {i} must have a static scale, got {leaf}")
        if len(leaf.modes) != 1 or not 0 <= leaf.modes[0] < rank:
            where = leaf.modes[0] if len(leaf.modes) == 1 else leaf.modes
            raise DSLValueError(
                f"TDM tensor2tdm mode {i} lands on dim {where}, which is not a descriptor dim in [0, {rank})"
            )
    return data


class _TensorCopy(Data[TensorCopyData], CopyOpType, ArchAtom):
    """What loads and stores share."""

    whole_tile: ClassVar[bool] = True
    state: ClassVar[tuple[tuple[str, int], ...]] = (*TdmType.state, ("atomic_barrier_addr", 32), ("early_timeout", 32))
    spaces: ClassVar[tuple[AddressSpace, AddressSpace]]
    options: ClassVar[Sequence[str]] = tuple(OPTIONS)

    def state_default(self, field: str) -> int:
        return NO_LIMIT if field.startswith("extent") else UNSET if field.startswith("stride") else 0

    @classmethod
    def make(
        cls, shape: Sequence[int], elem: Attribute, tensor2tdm: L.IntTuple, barrier: bool = False, **options: int
    ) -> Self:
        """The checked, interned type."""
        return intern(cls, _verify(TensorCopyData(tuple(shape), elem, tensor2tdm, barrier, **options)))

    @property
    def bits(self) -> int:
        return 1

    @property
    def moved(self) -> int:
        return math.prod(self.data.shape)

    def feature(self) -> str:
        return "tdm"

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One instruction for the box the global operand shows."""
        self._mover(src, dst).lower(low, src, dst)

    def emulate(self, low: AtomEmulation, src: Operand, dst: Operand) -> None:
        """What that instruction does."""
        self._mover(src, dst).emulate(low, src, dst)

    def _mover(self, src: Operand, dst: Operand) -> TdmType:
        d = self.data
        if (src.data.space, dst.data.space) != self.spaces:
            wanted = " -> ".join(str(s) for s in self.spaces)
            raise DSLCompileError(f"{self} copies {wanted}, got {src.data.space} -> {dst.data.space}")
        if d.iterations != 1:
            raise DSLCompileError(f"{self} repeats the copy {d.iterations} times; only one copy a call can be made")
        return TdmType.make(len(d.shape), 1, d.pad_interval, d.pad_amount, d.cache, d.barrier)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TensorCopyData:
        with parser.in_angle_brackets():
            _keyword(parser, "shape")
            shape = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            parser.parse_punctuation(",")
            _keyword(parser, "elem")
            elem = parser.parse_type()
            parser.parse_punctuation(",")
            _keyword(parser, "tensor2tdm")
            pos = parser.pos
            first, *rest = split_top(raw_parameters(parser))
            found: dict[str, int] = {}
            for piece in rest:
                name, _, text = (part.strip() for part in piece.partition("="))
                if name not in cls.options or OPTIONS[name] in found:
                    parser.raise_error(f"duplicate or unknown struct parameter name: {name}", pos)
                found[OPTIONS[name]] = _option(parser, name, text, pos)
            try:
                modes = layout_text.parse_int_tuple(first.strip())
            except ValueError as error:
                parser.raise_error(f"invalid tensor2tdm: {error}", pos)
            barrier = bool(found.pop("barrier", False))
            return refuse(parser, lambda: _verify(TensorCopyData(tuple(shape), elem, modes, barrier, **found)))

    def print_parameter(self, printer: Printer) -> None:
        d = self.data
        write(
            printer,
            f"<shape = [{', '.join(map(str, d.shape))}], elem = ",
            d.elem,
            f", tensor2tdm = {layout_text.format_any(d.tensor2tdm)}",
        )
        plain = TensorCopyData(d.shape, d.elem, d.tensor2tdm)
        for name, field in OPTIONS.items():
            value = getattr(d, field)
            if value != getattr(plain, field):
                printer.print_string(f", {name} = {str(value).lower()}")
        printer.print_string(">")


def _keyword(parser: AttrParser, name: str) -> None:
    parser.parse_keyword(name)
    parser.parse_punctuation("=")


def _option(parser: AttrParser, name: str, text: str, pos: int) -> int:
    if name == "atomicBarrier":
        if text not in ("true", "false"):
            parser.raise_error(f"atomicBarrier is true or false, got '{text}'", pos)
        return text == "true"
    if not text.removeprefix("-").isdigit():
        parser.raise_error(f"expected an integer for {name}, got '{text}'", pos)
    return int(text)


@irdl_attr_definition
class TensorLoadType(_TensorCopy):
    """A box of a tensor from global to shared memory."""

    name = "fly_rocdl.cdna5.tensor_load"
    spaces = (AddressSpace.Global, AddressSpace.Shared)


@irdl_attr_definition
class TensorStoreType(_TensorCopy):
    """A box of a tensor from shared to global memory; there is no padding, the box lies packed."""

    name = "fly_rocdl.cdna5.tensor_store"
    spaces = (AddressSpace.Shared, AddressSpace.Global)
    options = tuple(OPTIONS)[:3]
