"""What the collectives of a block have in common: specialization, checks, storage, the number of a thread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr.control.control_flow import if_
from ....expr.emit.trace import maybe_current
from ....expr.gpu import num_warp_threads, thread_idx
from ....expr.numeric import Numeric, as_numeric
from ....expr.structs import Struct
from ....expr.tensors.storage import Array, Storage
from ....expr.vector import Vector
from ..operators import check_op

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....expr.numeric import Boolean, Int32


class Held(Protocol):
    """What the storage of every algorithm has."""

    @property
    def slots(self) -> Array: ...


class BlockMeta(type):
    """A collective for one element class and block size: `BlockReduce[fx.Float32, 256]`."""

    dtype: Any
    """The element class, None before there is one."""
    block_size: int | tuple[int, ...] | None
    algorithm: Enum | None
    algorithms: dict[object, Callable[[BlockMeta], type[Struct]]]
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
        made = cast("BlockMeta", BlockMeta(f"{cls.__name__}[{dtype}, {size}]", (cls,), body))
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

    def start(cls, op: object, storage: object) -> Held:
        """Checks of every call; gives the storage."""
        check_op(op)
        cls.check_size()
        held = storage.peek() if isinstance(storage, Storage) else storage
        if not isinstance(held, cls.SharedStorage):
            raise DSLTypeError(
                f"{cls.__name__}: storage must be of {cls.__name__}.SharedStorage, as in "
                f"fx.SharedAllocator().allocate({cls.__name__}.SharedStorage).peek(); got {storage!r}"
            )
        return cast("Held", held)

    def items(cls, value: object) -> list[Numeric]:
        """The elements one thread brings, of the element class."""
        found = list(value) if isinstance(value, Vector) else [as_numeric(value)]
        for item in found:
            if not item.is_static() and type(item) is not cls.dtype:
                raise DSLTypeError(f"{cls.__name__} takes {cls.dtype}, got a {type(item)}; convert it with .to()")
        return [cls.dtype(item) for item in found]


def _block_size(cls: BlockMeta, size: object) -> tuple[int, int, int]:
    if cls.dtype is None and size is None:
        raise DSLTypeError(f"{cls.__name__} has no block size: specialize first, as in {cls.__name__}[fx.Float32, 256]")
    parts = cast("Sequence[object]", size) if isinstance(size, (tuple, list)) else [size]
    extents = [n for n in parts if isinstance(n, int) and not isinstance(n, bool) and n > 0]
    if not 1 <= len(extents) <= 3 or len(extents) != len(parts):
        raise DSLValueError(f"{cls.__name__}: block_size is an int or (x, y, z) of positive ints, got {size!r}")
    x, y, z = [*extents, 1, 1][:3]
    return x, y, z


def warp_slots(cls: BlockMeta) -> type[Struct]:
    return Struct["slots" : Array[cls.dtype, cls.num_warps]]


def store_if(condition: Boolean, slots: Array, at: Int32, value: Numeric) -> None:
    """One lane of each warp writes its slot."""

    def body() -> None:
        slots[at] = value

    if_(condition, body, None, ())
