"""The tensor data mover of gfx1250: one instruction copies a tile of up to five dimensions between global and shared.

`!fly_rocdl.gfx1250.tdm<rank = 2, warps = 4, pad = 0, 0, cache = 0, barrier = false, timeout = false>`. The tile is the
static shape of the global tensor, its last mode contiguous; waves share it, each moving a block. State: the multicast
mask of a cluster, the remaining extents (outside, loads give 0 and stores are dropped), strides, and a byte offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, cast

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...errors import DSLCompileError, DSLValueError
from ...ir.builder import Builder
from ...ir.enums import AddressSpace
from ...ir.types import bit_width, vector_type
from ...layout import Leaf
from ...target import families
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand, TileCopy
from ..fly.atoms import CopyOpType
from ..fly.types import intern, linear_layout
from ..upstream import llvm
from ..upstream.vector import FromElementsOp
from .common import ArchAtom, check_emulated, check_lowering, refuse

_LABEL = f"{families('tdm')[0]} TDM"

NO_LIMIT = 0x7FFFFFFF
"""Extent of a dimension nobody gave an extent."""
UNSET = -(1 << 31)
"""Stride nobody set: that of the tensor's layout counts."""


class TdmData(NamedTuple):
    """Parameters; padding in elements."""

    rank: int
    warps: int
    pad_interval: int
    pad_amount: int
    cache: int
    barrier: bool
    timeout: bool


def _verify(data: TdmData) -> TdmData:
    if not 1 <= data.rank <= 5:
        raise DSLValueError(f"TDM rank must be in [1, 5], got {data.rank}")
    if data.warps < 1 or data.warps & (data.warps - 1):
        raise DSLValueError(f"numWarps must be a positive power of two, got {data.warps}")
    i, a = data.pad_interval, data.pad_amount
    if i < 0 or a < 0:
        raise DSLValueError(f"padInterval and padAmount must be non-negative, got {i}, {a}")
    if bool(i) != bool(a):
        raise DSLValueError(f"padInterval and padAmount must both be zero or both non-zero, got {i}, {a}")
    if i & (i - 1):
        raise DSLValueError(f"padInterval must be a power of two (in elements), got {i}")
    return data


@irdl_attr_definition
class TdmType(Data[TdmData], CopyOpType, ArchAtom):
    """A whole-tile copy between global and shared memory."""

    name = "fly_rocdl.gfx1250.tdm"
    whole_tile: ClassVar[bool] = True
    state: ClassVar[tuple[tuple[str, int], ...]] = (
        ("workgroup_mask", 32),
        *((f"extent_{i}", 32) for i in range(5)),
        *((f"stride_{i}", 64) for i in range(4)),
        ("imm_offset", 64),
    )

    def state_default(self, field: str) -> int:
        return NO_LIMIT if field.startswith("extent") else UNSET if field.startswith("stride") else 0

    @classmethod
    def make(
        cls,
        rank: int,
        warps: int = 1,
        pad_interval: int = 0,
        pad_amount: int = 0,
        cache: int = 0,
        barrier: bool = False,
        timeout: bool = False,
    ) -> TdmType:
        """The checked, interned type."""
        data = TdmData(rank, warps, pad_interval, pad_amount, cache, bool(barrier), bool(timeout))
        return intern(cls, _verify(data))

    @property
    def bits(self) -> int:
        return 1

    def feature(self) -> str:
        return "tdm"

    def waves(self, tile: Sequence[int]) -> list[int]:
        """Waves along each dimension: outer dimensions double first, what is left goes to the innermost."""
        left, found = self.data.warps, [1] * len(tile)
        for i, extent in enumerate(tile):
            while left > 1 and 2 * found[i] <= extent:
                found[i] *= 2
                left //= 2
        found[-1] *= left
        return found

    def _padding(self, bits: int) -> tuple[int, int]:
        """Codes of the padding in dwords."""
        interval, amount = self.data.pad_interval, self.data.pad_amount
        if not interval:
            return 0, 0
        dwords, extra = interval * bits / 32, amount * bits / 32
        whole = dwords == int(dwords) and extra == int(extra)
        if not whole or not 2 <= dwords <= 256 or int(dwords) & (int(dwords) - 1) or not 1 <= extra <= 128:
            raise DSLCompileError(
                f"{_LABEL}: padding (interval={interval}, amount={amount} elements at {bits}-bit) is not encodable: "
                "the interval is a power of two of 2 to 256 dwords, the amount 1 to 128 dwords"
            )
        return int(dwords).bit_length() - 2, int(extra) - 1

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """Build the descriptor and issue one instruction."""
        load, memory, shared = self._sides(src, dst)
        check_lowering(self, low)
        groups = self._descriptor(low, memory, shared)
        base = "llvm.amdgcn.tensor.load.to.lds" if load else "llvm.amdgcn.tensor.store.from.lds"
        used = groups[:2] if self.data.rank <= 2 else groups
        name = base + (".d2" if self.data.rank <= 2 else "")
        low.intrinsic(name, None, [*used, low.b.i32(self.data.cache)])

    def _sides(self, src: Operand, dst: Operand) -> tuple[bool, Operand, Operand]:
        """Whether it is a load, the side in global memory and that in shared memory."""
        spaces = (src.data.space, dst.data.space)
        if spaces == (AddressSpace.Global, AddressSpace.Shared):
            return True, src, dst
        if spaces == (AddressSpace.Shared, AddressSpace.Global):
            return False, dst, src
        raise DSLCompileError(f"{self} copies between global and shared memory, got {spaces[0]} -> {spaces[1]}")

    def emulate(self, low: AtomEmulation, src: Operand, dst: Operand) -> None:
        """The wave's part of the copy."""
        load, memory, shared = self._sides(src, dst)
        check_emulated(self, low)
        b = low.b
        if low.state("atomic_barrier_addr") is not None:
            raise DSLCompileError("the cpu stack does not signal a barrier when the tensor data mover is done")
        shape, stride, nbytes = self._tile(memory)
        rank = self.data.rank
        waves = self.waves(shape)
        block = [-(-s // w) for s, w in zip(shape, waves, strict=True)]
        strides = [self._stride(low, i, stride[i]) for i in range(rank - 1)]
        starts = self._starts(b, low.wave_number, waves, block)
        at, place = low.raw_pointer(memory), low.raw_pointer(shared)
        immediate = low.state("imm_offset")
        if immediate is not None:
            at = low.at(at, immediate)
        for i, (start, pitch) in enumerate(zip(starts, self._pitch(shape), strict=True)):
            if start is None:
                continue
            wide = b.cast("extui", start, i64)
            step = strides[i] if i < rank - 1 else b.const(1, i64)
            at = low.at(at, b.muli(b.muli(wide, step), b.const(nbytes, i64)))
            place = low.at(place, b.muli(wide, b.const(pitch * nbytes, i64)))
        left = [self._extent(low, i, starts[i]) for i in range(rank)]
        pad = (self.data.pad_interval, self.data.pad_amount)
        mask = low.state("workgroup_mask")
        low.emulate_tile_copy(TileCopy(load, at, place, block, strides, left, nbytes, pad, mask))

    def _tile(self, memory: Operand) -> tuple[tuple[int, ...], tuple[Leaf, ...], int]:
        """Extents, strides and bytes of an element of the tile in global memory."""
        layout: Any = linear_layout(memory.data.layout)
        shape, stride = (_modes(x) for x in (layout.shape, layout.stride))
        rank, bits = self.data.rank, bit_width(memory.data.elem)
        if len(shape) != rank or not all(type(s) is int for s in shape):
            raise DSLCompileError(f"{self} needs a global tensor of {rank} static extents, got {layout}")
        nbytes = bits // 8
        if bits % 8 or nbytes & (nbytes - 1):
            raise DSLCompileError(f"{_LABEL}: elements of {bits} bits cannot be moved")
        return shape, stride, nbytes

    def _pitch(self, shape: Sequence[int]) -> list[int]:
        """Elements from one index to the next of every dimension in shared memory."""
        rank = self.data.rank
        row = shape[-1] + self.data.pad_amount
        pitch = [1] * rank
        for i in reversed(range(rank - 1)):
            pitch[i] = row if i == rank - 2 else pitch[i + 1] * shape[i + 1]
        return pitch

    def _descriptor(self, low: AtomLowering, memory: Operand, shared: Operand) -> list[SSAValue]:
        b = low.b
        shape, stride, nbytes = self._tile(memory)
        rank, bits = self.data.rank, 8 * nbytes
        waves = self.waves(shape)
        block = [-(-s // w) for s, w in zip(shape, waves, strict=True)]
        strides = [self._stride(low, i, stride[i]) for i in range(rank - 1)]
        starts = self._starts(b, lambda: low.intrinsic("llvm.amdgcn.wave.id", i32, []), waves, block)
        address = b.pure(llvm.PtrToIntOp, (low.raw_pointer(memory),), i64, {})
        immediate = low.state("imm_offset")
        if immediate is not None:
            address = b.addi(address, immediate)
        place = b.pure(llvm.PtrToIntOp, (low.raw_pointer(shared),), i32, {})
        pitch = self._pitch(shape)
        for i, start in enumerate(starts):
            if start is None:
                continue
            wide = b.cast("extui", start, i64)
            step = strides[i] if i < rank - 1 else b.const(1, i64)
            address = b.addi(address, b.muli(b.muli(wide, step), b.const(nbytes, i64)))
            place = b.addi(place, b.muli(start, b.i32(pitch[i] * nbytes)))
        # The descriptor counts dimensions from the innermost.
        left = [self._extent(low, i, starts[i]) for i in range(rank)][::-1]
        return self._groups(b, low, address, place, left, block[::-1], strides[::-1], bits)

    def _stride(self, low: AtomLowering, i: int, known: Leaf) -> SSAValue:
        given, b = low.state(f"stride_{i}"), low.b
        if type(known) is int or hasattr(known, "value"):
            own = b.leaf_value(known, 64)
            return own if given is None else b.select(b.cmpi("eq", given, b.const(UNSET, i64)), own, given)
        if given is not None:
            return given
        raise DSLCompileError(f"{_LABEL}: stride {i} is not known here; set the state field stride_{i}")

    def _extent(self, low: AtomLowering, i: int, start: SSAValue | None) -> SSAValue:
        b = low.b
        given = low.state(f"extent_{i}")
        extent = b.i32(NO_LIMIT) if given is None else given
        if start is None:
            return extent if given is None else b.int_binary("maxsi", extent, b.i32(0))
        return b.int_binary("maxsi", b.int_binary("subi", extent, start), b.i32(0))

    def _starts(
        self, b: Builder, number: Callable[[], SSAValue | None], waves: Sequence[int], block: Sequence[int]
    ) -> list[SSAValue | None]:
        """First index of this wave's block per dimension, from its number; None where there is one wave."""
        if self.data.warps == 1:
            return [None] * len(waves)
        rest = number()
        assert rest is not None
        found: list[SSAValue | None] = []
        for count, size in zip(waves, block, strict=True):
            if count == 1:
                found.append(None)
                continue
            at = b.int_binary("remui", rest, b.i32(count))
            rest = b.int_binary("divui", rest, b.i32(count))
            found.append(b.muli(at, b.i32(size)))
        return found

    def _groups(
        self,
        b: Builder,
        low: AtomLowering,
        address: SSAValue,
        place: SSAValue,
        extents: Sequence[SSAValue],
        tile: Sequence[int],
        strides: Sequence[SSAValue],
        bits: int,
    ) -> list[SSAValue]:
        zero = b.i32(0)

        def both(x: SSAValue, y: SSAValue) -> SSAValue:
            return b.int_binary("ori", x, y)

        def up(x: SSAValue) -> SSAValue:
            return b.int_binary("shli", x, b.i32(16))

        def high(x: SSAValue) -> SSAValue:
            return b.int_binary("shrui", x, b.i32(16))

        def word(x: SSAValue, shift: int) -> SSAValue:
            """Bits of a stride from `shift` on."""
            moved = b.int_binary("shrui", x, b.const(shift, i64)) if shift else x
            return b.cast("trunci", moved, i32)

        def half(x: SSAValue, shift: int) -> SSAValue:
            return b.int_binary("andi", word(x, shift), b.i32(0xFFFF))

        t = [*extents, *[zero] * (5 - len(extents))]
        size = [*tile, *[0] * (5 - len(tile))]
        s = [*strides, *[b.const(0, i64)] * (4 - len(strides))]
        interval, amount = self._padding(bits)
        flags = (bits // 8).bit_length() - 1 << 16 | self.data.barrier << 18 | bool(self.data.pad_interval) << 20
        flags |= self.data.timeout << 21 | interval << 22 | amount << 25
        first = b.i32(flags)
        mask, timeout, barrier = (low.state(f) for f in ("workgroup_mask", "early_timeout", "atomic_barrier_addr"))
        if mask is not None:
            first = both(first, b.int_binary("andi", mask, b.i32(0xFFFF)))
        if timeout is not None:
            flag = b.cast("extui", b.cmpi("ne", timeout, b.const(0, timeout.type)), i32)
            first = both(first, b.int_binary("shli", flag, b.i32(21)))
        group0 = [b.i32(1), place, word(address, 0), both(word(address, 32), b.i32(1 << 31))]
        group1 = [
            first,
            up(t[0]) if barrier is None else both(up(t[0]), b.int_binary("andi", barrier, b.i32(0xFFFF))),
            both(high(t[0]), up(t[1])),
            both(high(t[1]), b.i32(size[0] << 16)),
            b.i32(size[1] | size[2] << 16),
            word(s[0], 0),
            both(half(s[0], 32), up(word(s[1], 0))),
            both(high(word(s[1], 0)), up(half(s[1], 32))),
        ]
        group2 = [t[2], t[3], word(s[2], 0), both(half(s[2], 32), b.i32(size[3] << 16))]
        group3 = [word(s[3], 0), both(half(s[3], 32), up(t[4])), both(high(t[4]), b.i32(size[4] << 16)), zero]
        return [_vector(b, g) for g in (group0, group1, group2, group3)]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TdmData:
        def number(name: str) -> int:
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            for word, value in (("true", True), ("false", False)):
                if parser.parse_optional_keyword(word) is not None:
                    return value
            return parser.parse_integer()

        with parser.in_angle_brackets():
            rank = number("rank")
            parser.parse_punctuation(",")
            warps = number("warps")
            parser.parse_punctuation(",")
            interval = number("pad")
            parser.parse_punctuation(",")
            amount = parser.parse_integer()
            rest: list[int] = []
            for name in ("cache", "barrier", "timeout"):
                parser.parse_punctuation(",")
                rest.append(number(name))
            cache, barrier, timeout = rest
            data = TdmData(rank, warps, interval, amount, cache, bool(barrier), bool(timeout))
            return refuse(parser, lambda: _verify(data))

    def print_parameter(self, printer: Printer) -> None:
        d = self.data
        flags = f"barrier = {str(d.barrier).lower()}, timeout = {str(d.timeout).lower()}"
        printer.print_string(
            f"<rank = {d.rank}, warps = {d.warps}, pad = {d.pad_interval}, {d.pad_amount}, cache = {d.cache}, {flags}>"
        )


def _modes(tree: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", tree) if isinstance(tree, tuple) else (tree,)


def _vector(b: Builder, words: Sequence[SSAValue]) -> SSAValue:
    type_: Attribute = vector_type(i32, len(words))
    return b.pure(FromElementsOp, words, type_, {})
