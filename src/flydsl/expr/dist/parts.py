"""The parts of a symmetric tensor: whose they are, and rows copied to and from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import DSLRuntimeError, DSLTypeError, DSLValueError
from ..control.control_flow import for_range
from ..emit.trace import maybe_current
from ..gpu import block_dim, thread_idx
from ..numeric import Int32, Numeric
from ..tensor import Tensor
from ..tensors.layout_functions import size

if TYPE_CHECKING:
    from ..annotations import IntLike


def _ir():
    from . import emit

    return emit


def need_trace(what: str) -> None:
    if maybe_current() is None:
        raise DSLRuntimeError(f"fx.dist.{what} can only be used while a kernel is traced")


def _check_symmetric(what: str, x: object) -> Tensor:
    if not isinstance(x, Tensor) or x.rank < 2:
        raise DSLTypeError(
            f"fx.dist.{what} takes a symmetric tensor, whose first dimension are the ranks, got {x!r}; "
            "flydsl.dist.World.symmetric makes one"
        )
    return x


def world(x: Tensor) -> Int32:
    """How many ranks a symmetric tensor has.

    >>> flyc.evaluate(lambda x: fx.dist.world(x), np.zeros((3, 5), "f4"))
    3
    """
    return Int32(_check_symmetric("world", x).shape.unpack()[0])


def peer(x: Tensor, rank: IntLike) -> Tensor:
    """A rank's part of a symmetric tensor, to be read and written from here.

    >>> flyc.evaluate(lambda x: fx.dist.peer(x, 1)[2], np.arange(6, dtype="f4").reshape(2, 3))
    5.0
    """
    need_trace("peer")
    whole = _check_symmetric("peer", x)
    _ir().note_symmetric(whole)
    return whole[(rank, *(None,) * (whole.rank - 1))]


def put(x: Tensor, rank: IntLike, source: Tensor) -> None:
    """The threads of the block write a row of elements into a rank's part of a symmetric tensor `(world, n)`.

    `source` has as many elements or fewer. Nobody is told: `signal` comes after it, behind a barrier.
    """
    _copy("put", peer(x, rank), source, source)


def get(target: Tensor, x: Tensor, rank: IntLike) -> None:
    """The threads of the block read a rank's part of a symmetric tensor `(world, n)` into a row of n elements."""
    _copy("get", target, peer(x, rank), target)


def _copy(what: str, target: Tensor, source: Tensor, count: Tensor) -> None:
    if target.rank != 1 or source.rank != 1:
        raise DSLValueError(f"fx.dist.{what} copies rows of elements, got {source} and {target}")

    def one(i: Numeric) -> None:
        target[i] = source[i]

    for_range(one, (), thread_idx.x, Int32(size(count.layout).unpack()), block_dim.x)
