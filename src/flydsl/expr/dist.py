"""`fx.dist`: several ranks in a kernel. A symmetric tensor has the ranks as its first dimension.

The host makes such tensors (`flydsl.dist.World.symmetric`); a kernel gets them and the number of its rank, so one
compiled kernel serves all ranks. Flags are words of a symmetric tensor of Int32: who has written data says so by
`signal`, who needs it waits for that by `wait`, and everything written before the one is seen after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..errors import DSLRuntimeError, DSLTypeError, DSLValueError
from ..ir.enums import SyncScope
from .atomics import AtomicOrdering, generic_load, generic_store
from .control.control_flow import for_range, if_, while_
from .emit.trace import maybe_current
from .extern import ffi
from .gpu import barrier as block_barrier
from .gpu import block_dim, current_target, thread_idx
from .numeric import Boolean, Int32, Numeric
from .tensor import Pointer, Tensor, get_iter

if TYPE_CHECKING:
    from .annotations import IntLike

_yield = ffi("sched_yield", [], "int32")


def _ir():
    from .emit import dist_ir

    return dist_ir


def _need_trace(what: str) -> None:
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
    _need_trace("peer")
    whole = _check_symmetric("peer", x)
    _ir().note_symmetric(whole)
    return whole[(rank, *(None,) * (whole.rank - 1))]


def signal(flag: Pointer, value: IntLike) -> None:
    """Set a flag for all ranks to see: after everything this thread has done before.

    What other threads of the block did is included where a barrier comes first.

    >>> def tell(flags):
    ...     fx.dist.signal(fx.get_iter(flags), 7)
    ...     return flags[0]
    >>> flyc.evaluate(tell, np.zeros(1, "i4"))
    7
    """
    _check_flag("signal", flag)
    generic_store(flag, Int32(value), memory_order=AtomicOrdering.Release, syncscope=SyncScope.System)


def _check_flag(what: str, flag: object) -> None:
    if not isinstance(flag, Pointer) or flag.dtype is not Int32:
        raise DSLTypeError(
            f"fx.dist.{what} takes a pointer to Int32, got {flag!r}; fx.get_iter(fx.dist.peer(flags, rank)) + i is one"
        )


def wait(flag: Pointer, value: IntLike) -> None:
    """Wait until a flag is at least `value`; what was done before that was signalled is seen from here on.

    What is waited for must not be signalled by another thread of the same block, except before a barrier.
    Numbers may run over the end of 32 bits: those up to 2^31 behind a value count as less.

    >>> def late(flags):
    ...     fx.dist.wait(fx.get_iter(flags), 5)
    ...     return flags[0]
    >>> flyc.evaluate(late, np.full(1, 6, "i4"))
    6
    """
    _check_flag("wait", flag)
    least = Int32(value)
    rest = _rest()

    def behind() -> Boolean:
        seen = generic_load(flag, memory_order=AtomicOrdering.Acquire, syncscope=SyncScope.System)
        return cast(Int32, seen) - least < 0

    while_(behind, rest, ())


def _rest():
    """What a thread does between two looks at a flag: it lets others run, where the target has a word for that."""
    target = current_target()

    def give_way() -> None:
        if target.on_host:
            _yield()
        elif target.has("amd"):
            from .rocdl.schedule import s_sleep

            s_sleep(1)

    return give_way


def barrier(flags: Tensor, rank: IntLike, epoch: IntLike) -> None:
    """The blocks of all ranks that have the same `flags` meet: what any of them wrote before, all see after.

    `flags` is a symmetric tensor of Int32 with a word for each rank, `(world, world)`, all zeros at first, and `epoch`
    a number that grows by one from call to call. All threads of the block call it, at least as many as ranks.
    """
    _need_trace("barrier")
    ranks, t = world(flags), thread_idx.x

    def meet() -> None:
        signal(get_iter(peer(flags, t)) + rank, epoch)
        wait(get_iter(peer(flags, rank)) + t, epoch)

    block_barrier()
    if_(t < ranks, meet, None, ())
    block_barrier()


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

    shape = count.shape.unpack()
    extent = shape[0] if isinstance(shape, tuple) else shape
    for_range(one, (), thread_idx.x, Int32(extent), block_dim.x)


__all__ = ["barrier", "get", "peer", "put", "signal", "wait", "world"]
