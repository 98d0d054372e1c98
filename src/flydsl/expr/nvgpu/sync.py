"""Barriers in shared memory, groups of asynchronous copies, fences, and what warps need to take roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import DSLTypeError, DSLValueError
from ...ir.enums import AddressSpace
from ..numeric import Boolean, Float32, Int32, Int64
from ..tensor import Pointer, Tensor, recast_iter
from .target import emitter, need_trace

if TYPE_CHECKING:
    from ..annotations import IntLike, SSAValue


def _i32(value: IntLike) -> SSAValue:
    return Int32(value).ir_value()


class MBarrier:
    """A barrier of 8 bytes in shared memory that counts arrivals and bytes of asynchronous copies.

    Storable: struct fields and shared allocations may have this type, `peek()` gives the barrier. A phase is over when
    as many arrivals as `init` said, and all expected bytes, have come; then the next phase starts by itself.

    >>> @flyc.jit
    ... def wait_for_all():
    ...     barrier = fx.SharedAllocator().allocate(fx.nvgpu.MBarrier).peek()
    ...     if fx.thread_idx.x == 0:
    ...         barrier.init(4)
    ...     fx.nvgpu.fence_mbarrier_init()
    ...     fx.barrier()
    ...     barrier.arrive()
    ...     barrier.wait(0)
    ...     return fx.thread_idx.x
    >>> flyc.evaluate(wait_for_all, threads=4, target="cpu:sm_90")
    [0, 1, 2, 3]
    """

    __slots__ = ("ptr",)
    __dsl_immutable__ = True

    def __init__(self, ptr: Pointer):
        if not isinstance(ptr, Pointer) or ptr.address_space is not AddressSpace.Shared:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"MBarrier lies in shared memory, got {ptr!r}")
        self.ptr = ptr if ptr.dtype is Int64 else recast_iter(Int64, ptr)

    def __getitem__(self, index: IntLike) -> MBarrier:
        """The barrier so many barriers further on, of an array of them."""
        return MBarrier(self.ptr + index)

    def init(self, count: IntLike) -> None:
        """Set up for `count` arrivals per phase; by one thread, then `fence_mbarrier_init()` and a block barrier."""
        need_trace("MBarrier.init", "mbarrier")
        emitter().call("mbarrier.init", self.ptr.value, _i32(count))

    def arrive(self, count: IntLike = 1) -> None:
        """Count arrivals; before sm_90 one at a time."""
        need_trace("MBarrier.arrive", "mbarrier")
        emitter().call("mbarrier.arrive", self.ptr.value, _i32(count))

    def arrive_after_copies(self, *, noinc: bool = False) -> None:
        """Arrive when all `CpAsync` copies this thread has issued so far are there: `cp.async.mbarrier.arrive`.

        The phase expects one more arrival for it. With `noinc` it is one of those `init` was told of, so a barrier for
        `n` threads that each call this alone is over when all their copies are there.
        """
        need_trace("MBarrier.arrive_after_copies", "mbarrier")
        emitter().call("cp_async.arrive_noinc" if noinc else "cp_async.arrive", self.ptr.value)

    def arrive_remote(self, rank: IntLike) -> None:
        """Arrive on this barrier in block `rank` of the cluster."""
        need_trace("MBarrier.arrive_remote", "clusters")
        emitter().arrive_remote(self.ptr.value, _i32(rank))

    def expect_tx(self, nbytes: IntLike, *, arrive: bool = True) -> None:
        """Expect bytes of asynchronous copies in this phase; counts as an arrival too unless told otherwise."""
        need_trace("MBarrier.expect_tx", "mbarrier_tx")
        kind = "mbarrier.arrive_expect_tx" if arrive else "mbarrier.expect_tx"
        emitter().call(kind, self.ptr.value, _i32(nbytes))

    def wait(self, parity: IntLike) -> None:
        """Wait until the phase with this parity is over: the first phase has parity 0.

        A fresh barrier counts as having just finished a phase of parity 1, so a producer's first wait passes.
        """
        need_trace("MBarrier.wait", "mbarrier")
        emitter().wait(self.ptr.value, _i32(parity))

    def test(self, parity: IntLike) -> Boolean:
        """Whether that phase is over."""
        need_trace("MBarrier.test", "mbarrier")
        return Boolean(emitter().call("mbarrier.test", self.ptr.value, _i32(parity)))

    def invalidate(self) -> None:
        """End the barrier's life, so that its memory can be used for something else."""
        need_trace("MBarrier.invalidate", "mbarrier")
        emitter().call("mbarrier.inval", self.ptr.value)

    @classmethod
    def __dsl_size_of__(cls) -> int:
        return 8

    @classmethod
    def __dsl_align_of__(cls) -> int:
        return 8

    @classmethod
    def __peek_from_ptr__(cls, ptr: Pointer) -> MBarrier:
        return cls(ptr)

    @classmethod
    def __poke_into_ptr__(cls, ptr: Pointer, value: object) -> None:
        raise DSLTypeError("an MBarrier is not assigned: call its methods")

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return [self.ptr.value]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: object = None) -> MBarrier:
        return cls(Pointer(values[0], Int64))

    def __repr__(self) -> str:
        return f"MBarrier({self.ptr!r})"


def cp_async_commit() -> None:
    """End a group of `CpAsync` copies of this thread.

    >>> flyc.evaluate(lambda: fx.nvgpu.cp_async_commit(), target="cpu:sm_90a")
    """
    need_trace("cp_async_commit", "cp_async")
    emitter().call("cp_async.commit")


def cp_async_wait(pending: int = 0) -> None:
    """Wait until at most `pending` of this thread's youngest groups are under way.

    >>> flyc.evaluate(lambda: fx.nvgpu.cp_async_wait(0), target="cpu:sm_90a")
    """
    if not isinstance(pending, int) or pending < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLValueError(f"cp_async_wait takes a constant number of groups, got {pending!r}")
    need_trace("cp_async_wait", "cp_async")
    emitter().call("cp_async.wait", _i32(pending))


def cp_async_wait_all() -> None:
    """Wait for all of this thread's copies, committed or not.

    >>> flyc.evaluate(lambda: fx.nvgpu.cp_async_wait_all(), target="cpu:sm_90a")
    """
    need_trace("cp_async_wait_all", "cp_async")
    emitter().call("cp_async.wait_all")


def fence_proxy_async() -> None:
    """Make this thread's writes to shared memory visible to `wgmma` and TMA; a barrier must follow.

    >>> flyc.evaluate(lambda: fx.nvgpu.fence_proxy_async(), target="cpu:sm_90a")
    """
    need_trace("fence_proxy_async", "bulk_copy")
    emitter().call("fence.proxy_async")


def fence_mbarrier_init() -> None:
    """Make freshly set up barriers visible to the cluster and to TMA; a block or cluster barrier must follow.

    >>> flyc.evaluate(lambda: fx.nvgpu.fence_mbarrier_init(), target="cpu:sm_90a")
    """
    need_trace("fence_mbarrier_init", "clusters")
    emitter().call("fence.mbarrier_init")


class named_barrier:
    """One of the 16 barriers of a block, for some of its threads: `named_barrier(1, 128).sync()`.

    Number 0 is the one `fx.barrier()` uses.

    >>> def meet():
    ...     fx.nvgpu.named_barrier(1, 32).sync()
    ...     return fx.thread_idx.x
    >>> sum(flyc.evaluate(meet, threads=32, target="cpu:sm_90"))
    496
    """

    __slots__ = ("_id", "_threads")
    __dsl_immutable__ = True

    def __init__(self, id: IntLike, threads: int):
        if isinstance(id, int) and not 0 <= id < 16:
            raise DSLValueError(f"a block has the barriers 0 to 15, got {id}")
        if not isinstance(threads, int) or threads <= 0 or threads % 32:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLValueError(f"named_barrier takes whole warps of threads, got {threads!r}")
        self._id = id
        self._threads = threads

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return [] if isinstance(self._id, int) else [_i32(self._id)]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: Any = None) -> named_barrier:
        return cls(Int32(values[0]), exemplar._threads) if values else exemplar

    def sync(self) -> None:
        """Arrive and wait for the others."""
        need_trace("named_barrier", "named_barrier")
        emitter().call("barrier.sync", _i32(self._id), _i32(self._threads))

    def arrive(self) -> None:
        """Arrive without waiting."""
        need_trace("named_barrier", "named_barrier")
        emitter().call("barrier.arrive", _i32(self._id), _i32(self._threads))


def elect() -> Boolean:
    """True in exactly one thread of each warp that is here as a whole.

    >>> flyc.evaluate(lambda: fx.nvgpu.elect(), threads=4, target="cpu:sm_90")
    [True, False, False, False]
    """
    need_trace("elect", "elect")
    return Boolean(emitter().elect())


def leader(member: IntLike) -> Boolean:
    """True in one thread of the first of the warps that `member` counts the threads of, for what one thread issues.

    `if leader(fx.thread_idx.x):` is where bulk and tensor copies belong. Under `if fx.thread_idx.x == 0:` the assembler
    does not see that one thread is there, and puts a loop over threads around each copy. All threads of a warp come
    here together; it is the same thread each time.

    >>> flyc.evaluate(lambda: fx.nvgpu.leader(fx.thread_idx.x), threads=33, target="cpu:sm_90").count(True)
    1
    """
    first = uniform(Int32(member) // 32) == 0
    return first & elect()


def setmaxnreg(count: int, *, increase: bool) -> None:
    """Give registers back or take more, for all four warps of a warpgroup: a multiple of 8 from 24 to 256.

    The kernel needs a register cap at entry, as the value attribute `nvvm.minctasm` gives one.

    >>> flyc.evaluate(lambda: fx.nvgpu.setmaxnreg(64, increase=False), target="cpu:sm_90a")
    """
    if not isinstance(count, int) or count % 8 or not 24 <= count <= 256:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLValueError(f"setmaxnreg takes a multiple of 8 from 24 to 256, got {count!r}")
    need_trace("setmaxnreg", "setmaxnreg")
    emitter().call(f"setmaxnreg.{'inc' if increase else 'dec'}", _i32(count))


def uniform(value: IntLike) -> Int32:
    """A number that is the same in all lanes, told so to the compiler.

    >>> flyc.evaluate(lambda: fx.nvgpu.uniform(fx.lane_id() + 5), threads=4, target="cpu:sm_90")
    [5, 5, 5, 5]
    """
    need_trace("uniform", "uniform")
    return Int32(emitter().uniform(_i32(value)))


def any_lane(condition: Boolean) -> Boolean:
    """Whether a condition holds in some lane of the warp, all of which must come here: the branch is the same for all.

    >>> flyc.evaluate(lambda: fx.nvgpu.any_lane(fx.lane_id() == 5), threads=32, target="cpu:sm_90")[0]
    True
    """
    need_trace("any_lane", "uniform")
    return Boolean(emitter().call("vote.any", _i32(-1), Boolean(condition).ir_value()))


def wgmma_fence() -> None:
    """Before the first `wgmma` of a batch, and after registers it uses were written.

    >>> flyc.evaluate(lambda: fx.nvgpu.wgmma_fence(), target="cpu:sm_90a")
    """
    need_trace("wgmma_fence", "wgmma")
    emitter().call("wgmma.fence")


def wgmma_commit() -> None:
    """End a group of `wgmma`s.

    >>> flyc.evaluate(lambda: fx.nvgpu.wgmma_commit(), target="cpu:sm_90a")
    """
    need_trace("wgmma_commit", "wgmma")
    emitter().call("wgmma.commit")


def wgmma_wait(pending: int = 0, *tensors: Tensor) -> None:
    """Wait until at most `pending` groups are under way; give the accumulators that are read next.

    >>> flyc.evaluate(lambda: fx.nvgpu.wgmma_wait(0), target="cpu:sm_90a")
    """
    if not isinstance(pending, int) or pending < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLValueError(f"wgmma_wait takes a constant number of groups, got {pending!r}")
    need_trace("wgmma_wait", "wgmma")
    from ..tensors.algebra_values import current_ir

    emitter().wgmma_wait(pending, [current_ir().materialise(t) for t in tensors])


def hold(value: Float32, place: Pointer) -> None:
    """Keep waits for products behind what computes `value`, which goes to a `place` in shared memory that nobody reads.

    The assembler moves `wgmma_wait` up to where its results are first needed, in front of work that was to run during
    the products. A store is the one thing it keeps in front. Each thread has a place of its own.

    >>> def example():
    ...     place = fx.get_dyn_shared(fx.Float32)
    ...     fx.nvgpu.hold(fx.Float32(1.0), place + fx.thread_idx.x)
    >>> flyc.evaluate(example, target="cpu:sm_90a")
    """
    need_trace("hold", "wgmma")
    if not isinstance(value, Float32) or place.dtype is not Float32 or place.address_space is not AddressSpace.Shared:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"hold takes a Float32 and a place for one in shared memory, got {value!r} and {place!r}")
    emitter().hold(place.value, value.ir_value())


def griddepcontrol_wait() -> None:
    """Wait until the kernels this one depends on are done; before the first read of what they wrote.

    >>> flyc.evaluate(lambda: fx.nvgpu.griddepcontrol_wait(), target="cpu:sm_90a")
    """
    need_trace("griddepcontrol_wait", "dependent_launch")
    emitter().call("griddepcontrol.wait")


def griddepcontrol_launch() -> None:
    """Let the next kernel of the stream start its prologue.

    >>> flyc.evaluate(lambda: fx.nvgpu.griddepcontrol_launch(), target="cpu:sm_90a")
    """
    need_trace("griddepcontrol_launch", "dependent_launch")
    emitter().call("griddepcontrol.launch")
