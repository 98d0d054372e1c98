"""How operators are mapped over a batch: by one call where a batch is more rows, else one element after the other.

A rule is handed what it calls: function transforms go on with the operator as they see it, and torch's dispatcher,
which has not left the transform yet, with the operator as it is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, cast

import torch
from torch import Tensor

Given: TypeAlias = Any
"""An argument as the operator's schema tells, or what it gives: a tensor or a tuple of them."""
Call: TypeAlias = Callable[..., Given]
Dims: TypeAlias = Sequence[object]
"""For each argument the direction of the batch, or None; arguments that are lists have lists of None."""
Rule: TypeAlias = Callable[..., tuple[Given, Given]]


class Batch(Protocol):
    """What `vmap` tells of a batch."""

    batch_size: int


def one_by_one(call: Call, info: Batch, in_dims: Dims, *args: Given) -> tuple[Given, Given]:
    """The operator for each element of the batch."""
    made = [
        call(*(x.select(dim, i) if isinstance(dim, int) else x for x, dim in zip(args, in_dims, strict=True)))
        for i in range(info.batch_size)
    ]
    if isinstance(made[0], Tensor):
        return torch.stack(made), 0
    return tuple(torch.stack(list(each)) for each in zip(*made, strict=True)), (0,) * len(made[0])


def in_front(x: Tensor | None, dim: object, count: int) -> Tensor | None:
    """The batch as the first direction of an argument."""
    if x is None:
        return None
    return x.movedim(dim, 0) if isinstance(dim, int) else x.expand(count, *x.shape)


def more_rows(kinds: str, results: str, *, alone: Callable[..., bool] | None = None) -> Rule:
    """A rule for an operator whose arguments have any directions in front, and are none the worse for one more.

    `kinds` has a letter for each argument: `r` has the batch in front, `f` has one direction for all of these, which
    is the batch's as well, and `.` is the same for the whole batch; if it is not, or if the call is one that must be
    `alone` as it sums over rows, elements come one by one. `results` says the same of results.
    """

    def rule(call: Call, info: Batch, in_dims: Dims, *args: Given) -> tuple[Given, Given]:
        shared = all(kind != "." or not isinstance(dim, int) for kind, dim in zip(kinds, in_dims, strict=True))
        count = info.batch_size
        if not shared or (alone is not None and alone(*args)):
            return one_by_one(call, info, in_dims, *args)

        def sent(x: Given, kind: str, dim: object) -> Given:
            if kind == "." or x is None:
                return x
            found = cast("Tensor", in_front(x, dim, count))
            return found.flatten(0, 1) if kind == "f" else found

        made = call(*map(sent, args, kinds, in_dims))

        def came(x: Tensor, kind: str) -> Tensor:
            if kind == "f":
                return x.reshape(count, x.shape[0] // count, *x.shape[1:])
            # What nobody wanted has no elements, and no batch.
            return x if x.dim() != 1 or x.shape[0] == count else x.expand(count, *x.shape)

        if isinstance(made, Tensor):
            return came(made, results), 0
        return tuple(map(came, made, results)), (0,) * len(made)

    return rule


def behind(axis: int, rank: int) -> int:
    """A direction of so many, behind the batch: those counted from the end stay what they are.

    One that there is not must not become the batch.
    """
    return axis + (axis >= 0) - (axis < -rank)


def along(at: int, result_count: int = 1) -> Rule:
    """For an operator along directions of its only tensor, whose numbers are argument `at`: a number, or a list."""

    def rule(call: Call, info: Batch, in_dims: Dims, x: Tensor, *args: Given) -> tuple[Given, Given]:
        x = cast("Tensor", in_front(x, in_dims[0], info.batch_size))
        rank, given = x.dim() - 1, list(args)

        axes: int | list[int] = given[at - 1]
        given[at - 1] = [behind(a, rank) for a in axes] if isinstance(axes, list) else behind(axes, rank)
        return call(x, *given), 0 if result_count == 1 else (0,) * result_count

    return rule


__all__ = ["Batch", "Call", "Given", "Rule", "along", "behind", "in_front", "more_rows", "one_by_one"]
