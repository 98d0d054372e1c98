"""Runs of equal items written out: each thread gets some of the items that runs of a block stand for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr.gpu import barrier
from ....expr.numeric import Int32, Numeric, as_numeric
from ....expr.tensors.storage import Array
from ....expr.vector import Vector
from ....ir.enums import ReductionOp
from .elements import Form, Item, Items, filled, is_scalar_class, numbers, select
from .scan import BlockScan
from .spec import BlockMeta, Collective, array, least, loop, most, part, record

if TYPE_CHECKING:
    from ....expr.annotations import IntLike, ValueLike
    from ....expr.structs import StructValue


class BlockRunLengthDecodeAlgorithm(Enum):
    """How runs find their places.

    >>> fx.coop.BlockRunLengthDecodeAlgorithm.SCAN.value
    'scan'
    """

    SCAN = "scan"
    """By a scan of their lengths."""


def _offset_class(cls: BlockMeta) -> type[Numeric]:
    return cast("type[Numeric]", Int32 if cls.value_dtype is None else cls.value_dtype)


def _scan(cls: BlockMeta) -> type[BlockScan]:
    return BlockScan[_offset_class(cls), cls.block_size]


def _storage(cls: BlockMeta) -> type[StructValue]:
    runs = cls.tile_items
    return record(values=Array[cls.dtype, runs], starts=Array[_offset_class(cls), runs], scan=_scan(cls).SharedStorage)


class BlockRunLengthDecode(Collective):
    """Items of runs: `D = fx.coop.BlockRunLengthDecode[fx.Int32, 128, 2]` for two runs per thread.

    `items, places, total = D(values, lengths, storage=s, decoded_items_per_thread=4)` gives the items from `4 * t` of
    what all runs stand for, the place of each in its run, and how many there are. They begin at `offset`; behind the
    end items are `default` and places -1. `init_with_run_lengths` and `init_with_run_offsets` give a state that decodes
    window after window with `decode`. `BlockRunLengthDecode[(fx.Int32, fx.Int64), 128, 2]` counts in Int64. Every
    thread must call.

    >>> def spelled():
    ...     D = fx.coop.BlockRunLengthDecode[fx.Int32, 4, 1]
    ...     scratch = fx.SharedAllocator().allocate(D.SharedStorage).peek()
    ...     t = fx.thread_idx.x
    ...     items, places, total = D(t * 10, t, storage=scratch, decoded_items_per_thread=2)
    ...     return items[0], items[1], total
    >>> flyc.evaluate(spelled, threads=4)
    [(10, 20, 6), (20, 30, 6), (30, 30, 6), (0, 0, 6)]
    """

    sized_by = "runs_per_thread"
    pairs = "the offsets"
    runs_per_thread = cast("int", None)
    scan_type = BlockScan
    algorithms = {BlockRunLengthDecodeAlgorithm.SCAN: _storage}

    @classmethod
    def run(
        cls, values: ValueLike | object, lengths: object, *, storage: object, decoded_items_per_thread: int = 1,
        offset: IntLike = 0, default: object = 0,
    ) -> tuple[Items, Items, Numeric]:  # fmt: skip
        """One window of items."""
        state = cls.init_with_run_lengths(values, lengths, storage=storage)
        return state.decode(decoded_items_per_thread=decoded_items_per_thread, offset=offset, default=default)

    @classmethod
    def init_with_run_lengths(cls, values: ValueLike | object, lengths: object, *, storage: object) -> RunLengthDecoder:
        """What decodes runs of these lengths."""
        held, runs, dtype = cls._started(values, storage)
        counts = numbers(cls.__name__, "lengths", lengths, dtype, cls.items_per_thread)
        starts, total = _scan(cls).exclusive_with_aggregate(
            Vector.from_elements(counts, dtype), ReductionOp.ADD, storage=part(held, "scan")
        )
        return RunLengthDecoder(cls, runs, list(cast("Vector", starts)), cast("Numeric", total), held)

    @classmethod
    def init_with_run_offsets(
        cls, values: ValueLike | object, offsets: object, *, storage: object, total: IntLike | None = None
    ) -> RunLengthDecoder:
        """What decodes runs that begin at these places; the last one ends at `total`, or nowhere."""
        held, runs, dtype = cls._started(values, storage)
        starts = numbers(cls.__name__, "offsets", offsets, dtype, cls.items_per_thread)
        highest = (1 << (dtype.width - 1 if dtype.signed else dtype.width)) - 1
        end = dtype(highest if total is None else as_numeric(total))
        return RunLengthDecoder(cls, runs, starts, end, held)

    @classmethod
    def _started(cls, values: object, storage: object) -> tuple[StructValue, list[Item], type[Numeric]]:
        held, dtype = cls.start(storage), _offset_class(cls)
        if not is_scalar_class(dtype) or dtype.is_float or dtype.width < 8:
            raise DSLTypeError(f"{cls.__name__}: offsets are integers, got {dtype}")
        return held, cls.split(values, cls.items_per_thread)[0], dtype


@dataclass(frozen=True)
class RunLengthDecoder:
    """The runs of a block: `state.decode(decoded_items_per_thread=4)`."""

    cls: type[BlockRunLengthDecode]
    values: list[Item]
    """Of the runs of a thread."""
    starts: list[Numeric]
    """Where they begin."""
    total: Numeric
    """Where the last one of the block ends."""
    storage: StructValue

    def decode(
        self, *, decoded_items_per_thread: int = 1, offset: IntLike = 0, default: object = 0
    ) -> tuple[Items, Items, Numeric]:
        """The items of a thread from `offset` on, the place of each in its run, and where the last one ends."""
        cls, many = self.cls, decoded_items_per_thread
        if not isinstance(many, int) or isinstance(many, bool) or many < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLValueError(f"{cls.__name__}: decoded_items_per_thread must be a positive int, got {many!r}")
        dtype = _offset_class(cls)
        values, starts = array(self.storage, "values"), array(self.storage, "starts")
        for place, value, start in zip(cls.blocked_places(), self.values, self.starts, strict=True):
            values[place] = value
            starts[place] = start
        barrier()
        first = dtype(as_numeric(offset)) + dtype(cls.thread_rank() * many)
        wanted = [first + dtype(i) for i in range(many)]
        fill = filled(cls.__name__, cls.dtype, default)
        items: list[Item] = []
        places: list[Item] = []
        for at, run in zip(wanted, self.runs_of(wanted, starts), strict=True):
            here = most(run, 0)
            found = (run >= 0) & (at < self.total)
            items.append(select(found, cast("Item", values[here]), fill))
            places.append(found.select(at - cast("Numeric", starts[here]), dtype(-1)))
        barrier()
        form = Form(cls.__name__, cls.dtype, many, single=False)
        return form.join(items), form.join(places, dtype), self.total

    run_length_decode = decode

    def runs_of(self, wanted: list[Numeric], starts: Array) -> list[Int32]:
        """The last run that begins at or before each of some places, by halving; -1 before the first one."""
        runs = self.cls.tile_items

        def halve(_: Int32, state: list[Item]) -> list[Item]:
            made: list[Item] = []
            for at, low, high in zip(wanted, state[::2], state[1::2], strict=True):
                low, high = cast("Int32", low), cast("Int32", high)
                middle = (low + high) >> 1
                open_ = low < high
                begun = cast("Numeric", starts[least(middle, runs - 1)]) <= at
                made += [(open_ & begun).select(middle + 1, low), (open_ & ~begun).select(middle, high)]
            return made

        found = loop(runs.bit_length() + 1, [Int32(n) for _ in wanted for n in (0, runs)], halve, unroll=1)
        return [cast("Int32", low) - 1 for low in found[::2]]
