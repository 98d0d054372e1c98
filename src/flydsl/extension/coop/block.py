"""Reductions and scans over the threads of a block: warps by shuffles, then warps among each other in shared memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...errors import DSLTypeError, DSLValueError
from ...expr.control.control_flow import if_
from ...expr.emit.trace import maybe_current
from ...expr.gpu import barrier, num_warp_threads, thread_idx
from ...expr.numeric import Numeric, as_numeric
from ...expr.structs import Struct
from ...expr.tensors.storage import Array, Storage
from ...expr.vector import Vector
from ...ir.enums import ReductionOp
from .operators import check_op, combine, identity
from .warp import warp_reduce, warp_scan_with_aggregate

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...expr.annotations import ScalarLike, Value, ValueLike
    from ...expr.numeric import Boolean, Int32


class BlockReduceAlgorithm(Enum):
    """How a block reduces.

    >>> raking = fx.coop.BlockReduceAlgorithm.RAKING
    >>> flyc.evaluate(lambda: fx.coop.BlockReduce[fx.Int32, 64, raking].SharedStorage, threads=64)[0]
    Struct[slots: Array[Int32, 64], result: Array[Int32, 1]]
    """

    WARP_REDUCTIONS = "warp_reductions"
    """Each warp by shuffles; one slot of shared memory per warp."""
    RAKING = "raking"
    """One slot per thread; each lane of a warp folds a run of them."""
    RAKING_COMMUTATIVE_ONLY = "raking_commutative_only"


class BlockScanAlgorithm(Enum):
    """How a block scans.

    >>> fx.coop.BlockScanAlgorithm.WARP_SCANS.value
    'warp_scans'
    """

    WARP_SCANS = "warp_scans"
    """Each warp by shuffles; one slot of shared memory per warp."""
    RAKING = "raking"
    RAKING_MEMOIZE = "raking_memoize"


class _Held(Protocol):
    """What the storage of every algorithm has."""

    @property
    def slots(self) -> Array: ...


class _BlockMeta(type):
    """A collective for one element class and block size: `BlockReduce[fx.Float32, 256]`."""

    dtype: Any
    """The element class, None before there is one."""
    block_size: int | tuple[int, ...] | None
    algorithm: Enum | None
    algorithms: dict[object, Callable[[_BlockMeta], type[Struct]]]
    """Algorithms that exist, the default first, with the function that makes their storage."""

    def __getitem__(cls, key: object) -> Any:
        if cls.dtype is not None:
            raise DSLTypeError(f"{cls.__name__} is already specialized")
        parts = cast("tuple[object, ...]", key if isinstance(key, tuple) else (key,))
        if len(parts) not in (2, 3):
            raise DSLTypeError(
                f"write {cls.__name__}[dtype, block_size] or [dtype, block_size, algorithm], got {key!r}"
            )
        dtype, size = parts[:2]
        if not (isinstance(dtype, type) and issubclass(dtype, Numeric) and dtype.width):
            raise DSLTypeError(f"{cls.__name__}: dtype must be a scalar class such as fx.Float32, got {dtype!r}")
        algorithm = parts[2] if len(parts) == 3 else next(iter(cls.algorithms))
        if not isinstance(algorithm, type(next(iter(cls.algorithms)))):
            raise DSLTypeError(f"{cls.__name__}: algorithm must be a {cls.__name__}Algorithm, got {algorithm!r}")
        if algorithm not in cls.algorithms:
            raise NotImplementedError(f"{cls.__name__} with {algorithm} is not implemented")
        _block_size(cls, size)
        body: dict[str, object] = {
            "__module__": cls.__module__, "__doc__": cls.__doc__, "dtype": dtype, "algorithm": algorithm,
            "block_size": tuple(cast("list[int]", size)) if isinstance(size, list) else size,
        }  # fmt: skip
        made = cast("_BlockMeta", _BlockMeta(f"{cls.__name__}[{dtype}, {size}]", (cls,), body))
        if maybe_current() is not None:
            made.check_size()
        return made

    def __call__(cls, *args: object, **kwargs: object) -> Numeric:
        if cls.dtype is None:
            raise DSLTypeError(f"{cls.__name__} has no element class and block size: specialize first, as in "
                               f"{cls.__name__}[fx.Float32, 256]")  # fmt: skip
        return cls.run(*args, **kwargs)

    def run(cls, *args: object, **kwargs: object) -> Numeric:
        """What calling the class does."""
        raise DSLTypeError(f"{cls.__name__} is not called itself; use one of its methods, such as inclusive(...)")

    @property
    def block_threads(cls) -> int:
        """Threads of the block."""
        return math.prod(_block_size(cls, cls.block_size))

    @property
    def warp_threads(cls) -> int:
        """Lanes of a warp of the block: those of the target's warps, or all threads of a smaller block."""
        return min(num_warp_threads(), cls.block_threads)

    @property
    def num_warps(cls) -> int:
        """Warps of the block."""
        return max(cls.block_threads // cls.warp_threads, 1)

    @property
    def SharedStorage(cls) -> type[Struct]:
        """The struct of shared memory a call needs."""
        cls.check_size()
        return cls.algorithms[cls.algorithm](cls)

    def check_size(cls) -> None:
        """The block must be whole warps, or a power of two of threads."""
        threads, warp = cls.block_threads, num_warp_threads()
        if threads % warp and (threads > warp or threads & (threads - 1)):
            raise DSLValueError(
                f"{cls.__name__}: a block of {threads} threads is neither a multiple of the warp size {warp} nor a "
                "power of two below it"
            )

    def rank(cls) -> Int32:
        """Number of the thread in its block, x fastest."""
        size = _block_size(cls, cls.block_size)
        made = thread_idx.x
        if size[1] > 1:
            made = made + thread_idx.y * size[0]
        return made + thread_idx.z * (size[0] * size[1]) if size[2] > 1 else made

    def width(cls) -> int:
        """Lanes of the segments that reduce by shuffles."""
        return min(cls.block_threads, cls.warp_threads)

    def start(cls, op: object, storage: object) -> _Held:
        """Checks of every call; gives the storage."""
        check_op(op)
        cls.check_size()
        held = storage.peek() if isinstance(storage, Storage) else storage
        if not isinstance(held, cls.SharedStorage):
            raise DSLTypeError(
                f"{cls.__name__}: storage must be of {cls.__name__}.SharedStorage, as in "
                f"fx.SharedAllocator().allocate({cls.__name__}.SharedStorage).peek(); got {storage!r}"
            )
        return cast("_Held", held)

    def items(cls, value: object) -> list[Numeric]:
        """The elements one thread brings, of the element class."""
        found = list(value) if isinstance(value, Vector) else [as_numeric(value)]
        for item in found:
            if not item.is_static() and type(item) is not cls.dtype:
                raise DSLTypeError(f"{cls.__name__} takes {cls.dtype}, got a {type(item)}; convert it with .to()")
        return [cls.dtype(item) for item in found]


def _block_size(cls: _BlockMeta, size: object) -> tuple[int, int, int]:
    if cls.dtype is None and size is None:
        raise DSLTypeError(f"{cls.__name__} has no block size: specialize first, as in {cls.__name__}[fx.Float32, 256]")
    parts = cast("Sequence[object]", size) if isinstance(size, (tuple, list)) else [size]
    extents = [n for n in parts if isinstance(n, int) and not isinstance(n, bool) and n > 0]
    if not 1 <= len(extents) <= 3 or len(extents) != len(parts):
        raise DSLValueError(f"{cls.__name__}: block_size is an int or (x, y, z) of positive ints, got {size!r}")
    x, y, z = [*extents, 1, 1][:3]
    return x, y, z


def _warp_slots(cls: _BlockMeta) -> type[Struct]:
    return Struct["slots" : Array[cls.dtype, cls.num_warps]]


def _thread_slots(cls: _BlockMeta) -> type[Struct]:
    return Struct["slots" : Array[cls.dtype, cls.block_threads], "result" : Array[cls.dtype, 1]]


class BlockReduce(metaclass=_BlockMeta):
    """All values of a block combined, in all its threads.

    `R = fx.coop.BlockReduce[fx.Float32, 256]`, `s = fx.SharedAllocator().allocate(R.SharedStorage).peek()`,
    `total = R(x, fx.ReductionOp.ADD, storage=s)`. Every thread must call; a barrier belongs between two calls that use
    one storage.

    >>> def total():
    ...     R = fx.coop.BlockReduce[fx.Int32, 64]
    ...     scratch = fx.SharedAllocator().allocate(R.SharedStorage).peek()
    ...     return R(fx.thread_idx.x, fx.ReductionOp.ADD, storage=scratch)
    >>> set(flyc.evaluate(total, threads=64))
    {2016}
    """

    dtype = block_size = algorithm = None
    algorithms = {BlockReduceAlgorithm.WARP_REDUCTIONS: _warp_slots, BlockReduceAlgorithm.RAKING: _thread_slots}

    @classmethod
    def run(cls, value: ValueLike, op: ReductionOp, *, storage: object) -> Numeric:
        """The reduction; a Vector is folded in its thread first."""
        held = cls.start(op, storage)
        mine = functools.reduce(functools.partial(combine, op), cls.items(value))
        if cls.algorithm is BlockReduceAlgorithm.RAKING:
            return cls.rake(mine, op, held.slots)
        mine = warp_reduce(mine, op, width=cls.width())
        if cls.num_warps == 1:
            return mine
        rank = cls.rank()
        _store_if(rank % cls.warp_threads == 0, held.slots, rank // cls.warp_threads, mine)
        barrier()
        return functools.reduce(functools.partial(combine, op), [held.slots[w] for w in range(cls.num_warps)])

    @classmethod
    def rake(cls, mine: Numeric, op: ReductionOp, slots: Array) -> Numeric:
        """One slot per thread; every warp folds all of them, each lane a run of neighbours."""
        rank, lanes = cls.rank(), cls.width()
        slots[rank] = mine
        barrier()
        run = cls.block_threads // lanes
        first = rank % lanes * run
        folded = functools.reduce(functools.partial(combine, op), [slots[first + i] for i in range(run)])
        return warp_reduce(folded, op, width=lanes)


class BlockScan(metaclass=_BlockMeta):
    """The values of a block combined up to each thread, or up to each item when threads bring Vectors.

    `S = fx.coop.BlockScan[fx.Int32, 128]`, `y = S.inclusive(x, fx.ReductionOp.ADD, storage=s)`. A Vector of n lanes
    stands for n neighbouring items: thread t holds items t*n up to t*n+n-1.

    >>> def running():
    ...     S = fx.coop.BlockScan[fx.Int32, 64]
    ...     scratch = fx.SharedAllocator().allocate(S.SharedStorage).peek()
    ...     return S.inclusive(fx.thread_idx.x, fx.ReductionOp.ADD, storage=scratch)
    >>> flyc.evaluate(running, threads=64)[:6]
    [0, 1, 3, 6, 10, 15]
    """

    dtype = block_size = algorithm = None
    algorithms = {BlockScanAlgorithm.WARP_SCANS: _warp_slots}

    @classmethod
    def inclusive(cls, value: ValueLike, op: ReductionOp, *, storage: object, init: ScalarLike | None = None) -> Value:
        """Items up to this one."""
        return cls.scan(value, op, storage, init, True)[0]

    @classmethod
    def exclusive(cls, value: ValueLike, op: ReductionOp, *, storage: object, init: ScalarLike | None = None) -> Value:
        """Items before this one; the first gets `init` or the identity."""
        return cls.scan(value, op, storage, init, False)[0]

    @classmethod
    def inclusive_with_aggregate(
        cls, value: ValueLike, op: ReductionOp, *, storage: object, init: ScalarLike | None = None
    ) -> tuple[Value, Numeric]:
        """The inclusive scan, and all items combined without `init`."""
        return cls.scan(value, op, storage, init, True)

    @classmethod
    def exclusive_with_aggregate(
        cls, value: ValueLike, op: ReductionOp, *, storage: object, init: ScalarLike | None = None
    ) -> tuple[Value, Numeric]:
        """The exclusive scan, and all items combined without `init`."""
        return cls.scan(value, op, storage, init, False)

    @classmethod
    def scan(
        cls, value: ValueLike, op: ReductionOp, storage: object, init: ScalarLike | None, inclusive: bool
    ) -> tuple[Value, Numeric]:
        """Both results of every form."""
        if cls.dtype is None:
            raise DSLTypeError(f"{cls.__name__} has no element class and block size: specialize first")
        held = cls.start(op, storage)
        local: list[Numeric] = []
        for item in cls.items(value):
            local.append(combine(op, local[-1], item) if local else item)
        _, before, total = warp_scan_with_aggregate(local[-1], op, width=cls.width())
        if cls.num_warps > 1:
            before, total = cls.across_warps(before, total, op, held.slots)
        if init is not None:
            before = combine(op, cls.dtype(init), before)
        if inclusive:
            items = [combine(op, before, item) for item in local]
        else:
            items = [before, *(combine(op, before, item) for item in local[:-1])]
        if isinstance(value, Vector):
            return Vector.from_elements(items, cls.dtype).reshape(value.shape), total
        return items[0], total

    @classmethod
    def across_warps(cls, before: Numeric, total: Numeric, op: ReductionOp, slots: Array) -> tuple[Numeric, Numeric]:
        """What comes before a thread in the whole block, and the block's total."""
        rank = cls.rank()
        warp = rank // cls.warp_threads
        _store_if(rank % cls.warp_threads == 0, slots, warp, total)
        barrier()
        prefix, everything = identity(op, cls.dtype), slots[0]
        for w in range(1, cls.num_warps):
            prefix = (warp >= w).select(everything, prefix)
            everything = combine(op, everything, slots[w])
        return combine(op, prefix, before), everything


def _store_if(condition: Boolean, slots: Array, at: Int32, value: Numeric) -> None:
    """One lane of each warp writes its slot."""

    def body() -> None:
        slots[at] = value

    if_(condition, body, None, ())
