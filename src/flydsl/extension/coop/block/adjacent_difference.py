"""Differences of items that stand next to each other in a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError
from ....expr.control.control_flow import if_expr
from ....ir.enums import ReductionOp
from ..operators import combine
from .elements import Item, Items, ItemType, as_item, check_item_type, converted, select
from .shuffle import BlockShuffle

if TYPE_CHECKING:
    from ....expr.annotations import IntLike, ValueLike
    from ....expr.numeric import Boolean, Numeric

    Op = ReductionOp | Callable[..., object]


def _subtract(current: Numeric, neighbour: Numeric) -> object:
    return current - neighbour


class BlockAdjacentDifference(BlockShuffle):
    """`op(item, neighbour)` for each item of a block: `D = fx.coop.BlockAdjacentDifference[fx.Int32, 128]`.

    The operator, subtraction by default, is asked only where there is a neighbour: the first or last item passes
    through unless a `predecessor` or `successor` is given, and so do those that `valid_items` leaves out. Results are
    of the class `output_dtype`, that of the items by default.

    >>> def steps():
    ...     D = fx.coop.BlockAdjacentDifference[fx.Int32, 8]
    ...     scratch = fx.SharedAllocator().allocate(D.SharedStorage).peek()
    ...     return D.subtract_left(fx.thread_idx.x * fx.thread_idx.x, storage=scratch)
    >>> flyc.evaluate(steps, threads=8)
    [0, 1, 3, 5, 7, 9, 11, 13]
    """

    @classmethod
    def subtract_left(
        cls, value: ValueLike | object, op: Op = _subtract, *, storage: object, predecessor: object = None,
        valid_items: IntLike | None = None, output_dtype: ItemType | None = None,
    ) -> Items:  # fmt: skip
        """Each item with the one before it."""
        items, form = cls.split(value)
        out, rank = cls._output(output_dtype), cls.thread_rank()
        before, _, _ = cls.neighbours(items, storage)
        left = [before, *items[:-1]]
        first = rank == 0
        if predecessor is not None:
            left[0] = select(first, as_item(cls.__name__, cls.dtype, predecessor), before)
        made: list[Item] = []
        for i, item in enumerate(items):
            there: list[Boolean] = [] if i or predecessor is not None else [~first]
            if valid_items is not None:
                limit = cls.count_up_to("valid_items", valid_items, cls.block_threads * form.count)
                there.append(rank * form.count + i < limit)
            made.append(cls._applied(op, item, left[i], there, out))
        return form.join(made, out)

    @classmethod
    def subtract_right(
        cls, value: ValueLike | object, op: Op = _subtract, *, storage: object, successor: object = None,
        valid_items: IntLike | None = None, output_dtype: ItemType | None = None,
    ) -> Items:  # fmt: skip
        """Each item with the one after it; `successor` comes after the last valid one."""
        items, form = cls.split(value)
        out, rank = cls._output(output_dtype), cls.thread_rank()
        _, after, _ = cls.neighbours(items, storage)
        right = [*items[1:], after]
        tile = cls.block_threads * form.count
        limit = tile if valid_items is None else cls.count_up_to("valid_items", valid_items, tile)
        following = None if successor is None else as_item(cls.__name__, cls.dtype, successor)
        made: list[Item] = []
        for i, item in enumerate(items):
            position = rank * form.count + i
            there: list[Boolean] = []
            if valid_items is not None or i == form.count - 1:
                if following is None:
                    there.append(position + 1 < limit)
                else:
                    right[i] = select(position + 1 == limit, following, right[i])
                    there += [] if valid_items is None else [position < limit]
            made.append(cls._applied(op, item, right[i], there, out))
        return form.join(made, out)

    @classmethod
    def subtract_left_partial_tile(
        cls, value: ValueLike | object, valid_items: IntLike, op: Op = _subtract, *, storage: object,
        predecessor: object = None, output_dtype: ItemType | None = None,
    ) -> Items:  # fmt: skip
        """`subtract_left` of the first items."""
        return cls.subtract_left(
            value, op, storage=storage, predecessor=predecessor, valid_items=valid_items, output_dtype=output_dtype
        )

    @classmethod
    def subtract_right_partial_tile(
        cls, value: ValueLike | object, valid_items: IntLike, op: Op = _subtract, *, storage: object,
        successor: object = None, output_dtype: ItemType | None = None,
    ) -> Items:  # fmt: skip
        """`subtract_right` of the first items."""
        return cls.subtract_right(
            value, op, storage=storage, successor=successor, valid_items=valid_items, output_dtype=output_dtype
        )

    @classmethod
    def _output(cls, dtype: ItemType | None) -> ItemType:
        cls.check_specialized()
        return cls.dtype if dtype is None else check_item_type(f"{cls.__name__}: output_dtype", dtype)

    @classmethod
    def _applied(cls, op: Op, item: Item, neighbour: Item, there: list[Boolean], out: ItemType) -> Item:
        """The operator where all conditions hold, the item itself elsewhere."""

        def result() -> Item:
            if isinstance(op, ReductionOp):
                return converted(cls.__name__, combine(op, cast("Numeric", item), cast("Numeric", neighbour)), out)
            if not callable(op):
                raise DSLTypeError(f"{cls.__name__}: op must be an fx.ReductionOp or a function, got {op!r}")
            return converted(cls.__name__, cast("Item", op(item, neighbour)), out)

        if not there:
            return result()
        condition = there[0] if len(there) == 1 else there[0] & there[1]
        return cast("Item", if_expr(condition, result, lambda: converted(cls.__name__, item, out)))
