"""Flags between ranks: words that count up, set with release and read with acquire of the whole system."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ...errors import DSLTypeError
from ...ir.enums import SyncScope
from ..atomics import AtomicOrdering, generic_load, generic_store
from ..control.control_flow import if_, while_
from ..extern import ffi
from ..gpu import barrier as block_barrier
from ..gpu import current_target, thread_idx
from ..numeric import Boolean, Int32
from ..tensor import Pointer, Tensor, get_iter
from .parts import need_trace, peer, world

if TYPE_CHECKING:
    from ..annotations import IntLike

_yield = ffi("sched_yield", [], "int32")


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


def _rest() -> Callable[[], None]:
    """What a thread does between two looks at a flag: it lets others run, where the target has a word for that."""
    target = current_target()

    def give_way() -> None:
        if target.on_host:
            _yield()
        elif target.has("amd"):
            from ..rocdl.schedule import s_sleep

            s_sleep(1)

    return give_way


def barrier(flags: Tensor, rank: IntLike, epoch: IntLike) -> None:
    """The blocks of all ranks that have the same `flags` meet: what any of them wrote before, all see after.

    `flags` is a symmetric tensor of Int32 with a word for each rank, `(world, world)`, all zeros at first, and `epoch`
    a number that grows by one from call to call. All threads of the block call it, at least as many as ranks.
    """
    need_trace("barrier")
    ranks, t = world(flags), thread_idx.x

    def meet() -> None:
        signal(get_iter(peer(flags, t)) + rank, epoch)
        wait(get_iter(peer(flags, rank)) + t, epoch)

    block_barrier()
    if_(t < ranks, meet, None, ())
    block_barrier()
