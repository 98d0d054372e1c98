"""What the conversions offer to the atoms: to those that become instructions, and to those that are emulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from xdsl.ir import Attribute, SSAValue

from ...ir.enums import AtomicOp
from ...layout import Layout, Leaf
from .types import MemRefData, PtrData

if TYPE_CHECKING:
    from ...ir.builder import Builder
    from .atoms import CopyOpType, MmaOpType


class Operand(NamedTuple):
    """A tensor operand of an atom call after lowering: an address and what is known of it."""

    pointer: SSAValue
    data: MemRefData


class AtomLowering(Protocol):
    """What a conversion offers to the atoms that become instructions of its GPUs (`lower`)."""

    b: Builder
    arch: str | None
    """Architecture compiled for or emulated, such as gfx942; None where the module does not say."""
    wants_alignment: bool
    """Whether wide copies claim the alignment that makes them one access on a GPU, to have it tested; else an access
    claims what the type of its memory proves, and is split where that is less."""

    def has(self, feature: str) -> bool:
        """Whether the architecture has a feature; where the module names none, whether any of the target's has it."""
        ...

    def note_need(self, feature: str) -> None:
        """Code that is emitted uses a feature: what that asks of the assembler is a fact of the module."""
        ...

    def load(self, at: Operand, type_: Attribute, align: int | None = None) -> SSAValue:
        """Read a value; the alignment defaults to the operand's."""
        ...

    def store(self, value: SSAValue, at: Operand, align: int | None = None) -> None:
        """Write a value."""
        ...

    def atomic(self, op: AtomicOp, at: Operand, value: SSAValue, scope: str, unsigned: bool = False) -> None:
        """Read-modify-write, old value dropped; `unsigned` is how integers are compared."""
        ...

    def moved(self, at: Operand, by: Leaf) -> Operand:
        """An operand some elements further on; `by` is a number or a leaf."""
        ...

    def address(self, pointer: SSAValue, data: PtrData | MemRefData) -> tuple[SSAValue, int]:
        """An address with the pointer's swizzle applied, and its alignment."""
        ...

    def raw_pointer(self, at: Operand) -> SSAValue:
        """The LLVM pointer of an operand, its swizzle applied."""
        ...

    def tensor(self, old: SSAValue) -> Operand:
        """A tensor operand of an op that lowers itself."""
        ...

    def state(self, field: str) -> SSAValue | None:
        """A state field of the atom being lowered; None while it has its default."""
        ...

    def intrinsic(self, name: str, type_: Attribute | None, operands: Sequence[SSAValue]) -> SSAValue | None:
        """Call an LLVM intrinsic by its full name."""
        ...

    def chosen(self, flag: SSAValue | None, emit: Callable[[], SSAValue], otherwise: SSAValue | None) -> SSAValue:
        """The value `emit` gives, or under a condition that does not hold `otherwise`."""
        ...

    def warp_size(self) -> int:
        """Lanes per warp of the target."""
        ...


class AtomEmulation(AtomLowering, Protocol):
    """What the cpu stack offers to the atoms that it emulates (`emulate`), beside loads and stores.

    An atom of one thread does its work with those; one of many threads in the simplest case by one call of
    `emulate_mma` or `emulate_copy`.
    """

    checked: bool
    """Whether the cpu stack's checked mode is wanted."""

    def group_lane(self, group: int = 0) -> SSAValue:
        """Index (i64) of the thread in its group of so many threads; 0 is the warp."""
        ...

    def exchange(self, value: SSAValue, group: int = 0) -> Callable[[SSAValue], SSAValue]:
        """Meet the group; from a lane (i64) of the group to the value it came with.

        All lanes of the group must come by, as they must for the instruction.
        """
        ...

    def yield_thread(self) -> None:
        """Let the other threads run, in a loop that waits for memory to change."""
        ...

    def note_product(self, at: Operand, group: int) -> None:
        """Tell checked mode of an operand in shared memory that a product of `group` threads reads until its wait."""
        ...

    def note_copy(self, kind: str, at: SSAValue, nbytes: int) -> None:
        """Tell checked mode of an asynchronous copy to an address in shared memory, which was done at once."""
        ...

    def issued(self) -> AbstractContextManager[None]:
        """What is loaded in it is the source of an asynchronous copy, which reads it until the wait for it."""
        ...

    def wave_number(self) -> SSAValue:
        """Number of the warp in its block, i32."""
        ...

    def at(self, base: SSAValue, nbytes: SSAValue | int) -> SSAValue:
        """An address some bytes further on."""
        ...

    def emulate_mma(
        self,
        op: MmaOpType,
        d: Operand,
        a: Operand,
        b: Operand,
        c: Operand,
        *,
        signed: tuple[bool, bool] = (True, True),
        clamp: bool = False,
        scales: MmaScales | None = None,
        sums: MmaSums | None = None,
    ) -> None:
        """`D = A * B^T + C` from `shape_mnk`, `elem_types`, `thr_layout` and `tv_layout`.

        Summed in f64 (integers: wrapping) and rounded once, or as `sums` says; operands in shared memory are read
        there, by the layout of their view. `signed` says how integer operands are read, `clamp` saturates an integer
        result.
        """
        ...

    def emulate_copy(self, op: CopyOpType, src: Operand, dst: Operand) -> None:
        """A copy in which lanes read what other lanes address, from `thr_layout`, `src_bits` and `dst_bits`."""
        ...

    def emulate_call(self, name: str, operands: Sequence[SSAValue], **properties: object) -> Sequence[SSAValue]:
        """An operation of `fly_nvgpu` by its name."""
        ...

    def emulate_tile_copy(self, copy: TileCopy) -> None:
        """A wave's part of a copy by the tensor data mover."""
        ...


class ScaleSide(NamedTuple):
    """Scales of A or B: the f32 values of a lane, and (lane, value) to `row + rows * block`."""

    values: list[SSAValue]
    layout: Layout


class MmaScales(NamedTuple):
    """Scales of a matrix product: one per row and `block` consecutive k."""

    block: int
    a: ScaleSide
    b: ScaleSide


class MmaSums(NamedTuple):
    """How a matrix unit adds: products and the sum so far are aligned to the largest exponent, cut off, and rounded."""

    terms: int
    """Products added at once."""
    fraction: int
    """Bits kept below the largest exponent; what lies below is cut off, towards zero."""
    kept: int
    """Bits of fraction of a result of f32."""
    nearest: bool
    """Whether results are rounded to the nearest even; otherwise towards zero."""
    operand_fraction: int | None = None
    """Bits of fraction that are read of operands."""
    least: int | None = None
    """The smallest exponent of operands in the unit, where that is not the one of their type."""
    neighbours: int | None = None
    """How many consecutive k are added at once, where those of one sum do not all follow each other: then the sums take
    that many in turn."""
    addend_last: bool = False
    """Whether sums start from zero, and C is added in f32 to the last of them."""


class TileCopy(NamedTuple):
    """What one wave of the tensor data mover moves."""

    load: bool
    memory: SSAValue
    """Where its block starts in the tensor."""
    shared: SSAValue
    block: Sequence[int]
    """Elements per dimension, the last one contiguous."""
    strides: Sequence[SSAValue]
    """Elements (i64) from one index to the next of every dimension but the last."""
    left: Sequence[SSAValue]
    """How many indices (i32) of every dimension are inside the tensor."""
    nbytes: int
    pad: tuple[int, int]
    """Interval and amount in elements; zeros for none."""
    mask: SSAValue | None
    """Workgroups of the cluster (i32) that get what is loaded; none or zero: the own one."""
