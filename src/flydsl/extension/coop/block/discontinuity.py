"""Where runs of equal items begin and end in a block."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....errors import DSLTypeError
from ....expr.control.control_flow import if_expr, truth
from ....expr.numeric import Boolean, Int32
from .elements import Form, Item, Items, as_item, differ, select
from .shuffle import BlockShuffle

if TYPE_CHECKING:
    from ....expr.annotations import ValueLike

    Predicate = Callable[..., object]


def _takes_index(owner: str, predicate: Predicate) -> bool:
    """Whether a predicate takes the place of its right item as a third argument."""
    try:
        signature = inspect.signature(inspect.unwrap(predicate))
    except (TypeError, ValueError):
        raise DSLTypeError(
            f"{owner}: flag_op must be a function of two or three arguments, got {predicate!r}"
        ) from None
    for count in (3, 2):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count == 3
    raise DSLTypeError(f"{owner}: flag_op must take (left, right) or (left, right, index), it takes {signature}")


class BlockDiscontinuity(BlockShuffle):
    """Flags at the beginnings and ends of runs: `D = fx.coop.BlockDiscontinuity[fx.Int32, 128]`.

    `flag_op(left, right)` says whether two neighbours belong to different runs, by default whether they differ. With a
    third parameter it is told the place of the right one. Flags are Int32, 1 or 0. The first item begins and the last
    one ends a run unless a `predecessor` or `successor` is given to compare it with.

    >>> def heads():
    ...     D = fx.coop.BlockDiscontinuity[fx.Int32, 8]
    ...     scratch = fx.SharedAllocator().allocate(D.SharedStorage).peek()
    ...     return D.flag_heads_and_tails(fx.thread_idx.x // 3, storage=scratch)
    >>> [h for h, t in flyc.evaluate(heads, threads=8)], [t for h, t in flyc.evaluate(heads, threads=8)]
    ([1, 0, 0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1, 0, 1])
    """

    @classmethod
    def flag_heads(
        cls, value: ValueLike | object, flag_op: Predicate = differ, *, storage: object, predecessor: object = None,
        return_predecessors: bool = False,
    ) -> Items | tuple[Items, Items]:  # fmt: skip
        """1 where a run begins; with the item before each if asked, which of the first one is the last."""
        heads, _, left = cls._flags(value, flag_op, storage, predecessor, None, True, False)
        return (heads, left) if return_predecessors else heads

    @classmethod
    def flag_tails(
        cls, value: ValueLike | object, flag_op: Predicate = differ, *, storage: object, successor: object = None
    ) -> Items:
        """1 where a run ends."""
        return cls._flags(value, flag_op, storage, None, successor, False, True)[1]

    @classmethod
    def flag_heads_and_tails(
        cls, value: ValueLike | object, flag_op: Predicate = differ, *, storage: object, predecessor: object = None,
        successor: object = None, return_predecessors: bool = False,
    ) -> tuple[Items, ...]:  # fmt: skip
        """Both, with one barrier."""
        found = cls._flags(value, flag_op, storage, predecessor, successor, True, True)
        return found if return_predecessors else found[:2]

    @classmethod
    def _flags(
        cls, value: object, flag_op: Predicate, storage: object, predecessor: object, successor: object,
        heads: bool, tails: bool,
    ) -> tuple[Items, Items, Items]:  # fmt: skip
        """Heads, tails, and the item before each; flags nobody asked for are 0."""
        items, form = cls.split(value)
        cls.start(storage)
        with_index = _takes_index(cls.__name__, flag_op)
        before, after, _ = cls.neighbours(items, storage)
        rank, threads = cls.thread_rank(), cls.block_threads
        if predecessor is not None:
            before = select(rank == 0, as_item(cls.__name__, cls.dtype, predecessor), before)
        if successor is not None:
            after = select(rank == threads - 1, as_item(cls.__name__, cls.dtype, successor), after)
        line = [before, *items, after]
        ends = (None if predecessor is not None else rank == 0, None if successor is not None else rank == threads - 1)

        def flag(i: int, forced: Boolean | None) -> Int32:
            """Of the items at places i - 1 and i of the thread."""

            def asked() -> Int32:
                place = [rank * form.count + i] if with_index else []
                answer = truth(flag_op(line[i], line[i + 1], *place))
                return Boolean(answer).select(Int32(1), Int32(0))

            return asked() if forced is None else Int32(if_expr(forced, lambda: Int32(1), asked))

        zero: list[Item] = [Int32(0)] * form.count
        found_heads = [flag(i, None if i else ends[0]) for i in range(form.count)] if heads else zero
        last = form.count
        found_tails = [flag(i, ends[1] if i == last else None) for i in range(1, last + 1)] if tails else zero
        return cls._joined(form, found_heads), cls._joined(form, found_tails), form.join(line[: form.count])

    @classmethod
    def _joined(cls, form: Form, flags: Sequence[Item]) -> Items:
        return form.join(flags, Int32)
