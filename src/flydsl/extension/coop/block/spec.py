"""What the collectives of a block have in common: specialization, checks, storage, the number of a thread."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr import arith
from ....expr.control.control_flow import for_init, if_, is_runtime
from ....expr.emit.trace import maybe_current
from ....expr.gpu import num_warp_threads, thread_idx
from ....expr.numeric import Int32, Numeric, as_numeric
from ....expr.structs import Struct, StructValue
from ....expr.tensors.storage import Array, Storage
from .elements import Form, Item, ItemType, check_item_type, split

if TYPE_CHECKING:
    from ....expr.numeric import Boolean

MakesStorage: TypeAlias = "Callable[[BlockMeta], type[StructValue]]"


class BlockMeta(type):
    """A collective for one class of items and one block size: `BlockReduce[fx.Float32, 256]`."""

    dtype: ItemType
    """The class of the items, or of the keys; None before there is one."""
    value_dtype: ItemType | None
    """The class of what goes with a key, where there is such."""
    block_size: tuple[int, int, int]
    items_per_thread: int
    algorithm: Enum
    algorithms: dict[Enum, MakesStorage]
    """Algorithms that exist, the default first, with the function that makes their storage."""
    sized_by: str
    """What the number after the block size is called; empty where there is none."""
    pairs: str
    """What the class after that of the items is of; empty where there is none."""

    def __getitem__(cls, key: object) -> Any:
        if cls.is_specialized:
            raise DSLTypeError(f"{cls.__name__} is already specialized")
        parts = cast("tuple[object, ...]", key if isinstance(key, tuple) else (key,))
        names = ["dtype", "block_size", *([cls.sized_by] if cls.sized_by else [])]
        if len(parts) not in (len(names), len(names) + 1):
            shown = ", ".join(names)
            raise DSLTypeError(f"write {cls.__name__}[{shown}] or [{shown}, algorithm], got {key!r}")
        algorithm = parts[-1] if len(parts) > len(names) else next(iter(cls.algorithms))
        if algorithm not in cls.algorithms:
            wanted = type(next(iter(cls.algorithms))).__name__
            raise DSLTypeError(f"{cls.__name__}: algorithm must be a {wanted}, got {algorithm!r}")
        dtype, second = cls._item_types(parts[0])
        size = _block_size(cls.__name__, parts[1])
        body: dict[str, object] = {
            "__module__": cls.__module__, "__doc__": cls.__doc__, "algorithm": algorithm, "block_size": size,
            "dtype": dtype, "key_dtype": dtype, "value_dtype": second,
        }  # fmt: skip
        shown = [str(parts[0]), str(math.prod(size))]
        if cls.sized_by:
            count = parts[2]
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise DSLValueError(f"{cls.__name__}: {cls.sized_by} must be a positive int, got {count!r}")
            body["items_per_thread"] = body[cls.sized_by] = count
            shown.append(str(count))
        made: BlockMeta = BlockMeta(
            f"{cls.__name__}[{', '.join([*shown, cast('Enum', algorithm).name])}]", (cls,), body
        )
        if maybe_current() is not None:
            cast("BlockMeta", made).check_size()
        return made

    def _item_types(cls, given: object) -> tuple[ItemType, ItemType | None]:
        if not isinstance(given, tuple):
            return check_item_type(cls.__name__, given), None
        parts = cast("tuple[object, ...]", given)
        if not cls.pairs or len(parts) != 2:
            wanted = f"a class or (class of the items, class of {cls.pairs})" if cls.pairs else "one class"
            raise DSLTypeError(f"{cls.__name__}: dtype must be {wanted}, got {given!r}")
        return check_item_type(cls.__name__, parts[0]), check_item_type(cls.__name__, parts[1])

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        cls.check_specialized()
        return cast("Callable[..., object]", cls.run)(*args, **kwargs)

    @property
    def __signature__(cls) -> inspect.Signature:
        """What `help` shows: the parameters of a call."""
        return inspect.signature(cls.run)

    def run(cls, *args: object, **kwargs: object) -> object:
        """What calling the class does."""
        raise DSLTypeError(f"{cls.__name__} is not called itself; use one of its methods, such as {cls.first_method}")

    @property
    def first_method(cls) -> str:
        """A method to name in a message."""
        return next(name for base in cls.__mro__ for name, v in vars(base).items() if isinstance(v, classmethod))

    @property
    def is_specialized(cls) -> bool:
        """Whether it has a class of items and a block size."""
        return cast("object", cls.dtype) is not None

    def check_specialized(cls) -> None:
        """A TypeError if it has not."""
        if not cls.is_specialized:
            more = ", 4" if cls.sized_by else ""
            raise DSLTypeError(f"{cls.__name__} has no class of items and block size: specialize first, as in "
                               f"{cls.__name__}[fx.Float32, 256{more}]")  # fmt: skip

    # --- the block ------------------------------------------------------------------------------------------------

    @property
    def block_threads(cls) -> int:
        """Threads of the block."""
        cls.check_specialized()
        return math.prod(cls.block_size)

    @property
    def warp_threads(cls) -> int:
        """Lanes of a warp of the block: those of the target's warps, or all threads of a smaller block."""
        return min(num_warp_threads(), cls.block_threads)

    @property
    def num_warps(cls) -> int:
        """Warps of the block."""
        return max(cls.block_threads // cls.warp_threads, 1)

    @property
    def tile_items(cls) -> int:
        """Items of all threads."""
        return cls.block_threads * cls.items_per_thread

    def check_size(cls) -> None:
        """The block must be whole warps, or a power of two of threads."""
        threads, warp = cls.block_threads, num_warp_threads()
        if threads % warp and (threads > warp or threads & (threads - 1)):
            raise DSLValueError(
                f"{cls.__name__}: a block of {threads} threads is neither a multiple of the warp size {warp} nor a "
                "power of two below it"
            )

    def thread_rank(cls) -> Int32:
        """Number of the thread in its block, x fastest."""
        x, y, z = cls.block_size
        made = thread_idx.x
        if y > 1:
            made = made + thread_idx.y * x
        return made + thread_idx.z * (x * y) if z > 1 else made

    def blocked_places(cls) -> list[Int32]:
        """Places of a thread's items, where they are neighbours."""
        first = cls.thread_rank() * cls.items_per_thread
        return [first + i for i in range(cls.items_per_thread)]

    def striped_places(cls) -> list[Int32]:
        """The same in stripes of the block."""
        rank = cls.thread_rank()
        return [rank + i * cls.block_threads for i in range(cls.items_per_thread)]

    def warp_striped_places(cls) -> list[Int32]:
        """The same in stripes of the warp, within the items of the warp."""
        rank, lanes = cls.thread_rank(), cls.warp_threads
        first = rank // lanes * (lanes * cls.items_per_thread) + rank % lanes
        return [first + i * lanes for i in range(cls.items_per_thread)]

    # --- arguments ------------------------------------------------------------------------------------------------

    @property
    def SharedStorage(cls) -> type[StructValue]:
        """The struct of shared memory a call needs."""
        cls.check_size()
        return cls.algorithms[cls.algorithm](cls)

    def start(cls, storage: object) -> StructValue:
        """Checks of every call; gives the storage."""
        cls.check_specialized()
        cls.check_size()
        held = storage.peek() if isinstance(storage, Storage) else storage
        if not isinstance(held, cls.SharedStorage):
            raise DSLTypeError(
                f"{cls.__name__}: storage must be of {cls.__name__}.SharedStorage, as in "
                f"fx.SharedAllocator().allocate({cls.__name__}.SharedStorage).peek(); got {storage!r}"
            )
        return held

    def split(cls, value: object, count: int | None = None, widen: bool = False) -> tuple[list[Item], Form]:
        """The items one thread brings."""
        cls.check_specialized()
        return split(cls.__name__, cls.dtype, value, count, widen)

    def count_up_to(cls, what: str, value: object, most: int) -> int | Int32:
        """A number of items, a Python int in its range or a run-time integer."""
        number = as_numeric(value)
        if number.is_float:
            raise DSLTypeError(f"{cls.__name__}: {what} must be an integer, got a {type(number)}")
        if is_runtime(number):
            return Int32(number)
        found = int(cast("int", number.value))
        if not 0 <= found <= most:
            raise DSLValueError(f"{cls.__name__}: {what} must be from 0 to {most}, got {found}")
        return found


def _block_size(owner: str, size: object) -> tuple[int, int, int]:
    parts = cast("Sequence[object]", size) if isinstance(size, (tuple, list)) else [size]
    given = [n.value if isinstance(n, Numeric) else n for n in parts]
    extents = [n for n in given if isinstance(n, int) and not isinstance(n, bool) and n > 0]
    if not 1 <= len(extents) <= 3 or len(extents) != len(parts):
        raise DSLValueError(f"{owner}: block_size is an int or (x, y, z) of positive ints, got {size!r}")
    x, y, z = [*extents, 1, 1][:3]
    return x, y, z


class Collective(metaclass=BlockMeta):
    """What all collectives have, before they are specialized."""

    dtype = cast("ItemType", None)
    key_dtype = cast("ItemType", None)
    value_dtype: ItemType | None = None
    block_size = cast("tuple[int, int, int]", None)
    items_per_thread = cast("int", None)
    algorithm = cast("Enum", None)
    algorithms: dict[Enum, MakesStorage] = {}
    sized_by = ""
    pairs = ""


# --- shared memory and loops --------------------------------------------------------------------------------------


def record(**fields: object) -> type[StructValue]:
    """A struct of shared memory."""
    return cast("type[StructValue]", Struct[tuple(slice(name, type_) for name, type_ in fields.items())])


def array(held: StructValue, *path: str) -> Array:
    """An array of the storage, by the names that lead to it."""
    found: object = held
    for name in path:
        found = getattr(found, name)
    return cast("Array", found.peek() if isinstance(found, Storage) else found)


def part(held: StructValue, name: str) -> StructValue:
    """The storage of another collective inside the storage."""
    return cast("StructValue", getattr(held, name))


def store_if(condition: Boolean, slots: Array, at: Int32, value: Item) -> None:
    """Some threads write a slot each."""

    def body() -> None:
        slots[at] = value

    if_(condition, body, None, ())


def loop(
    steps: object, state: Sequence[Item], body: Callable[[Int32, list[Item]], list[Item]], unroll: int | None = None
) -> list[Item]:
    """A run-time loop that carries a state: `body(i, state)` gives the next one."""

    def step(i: Numeric, now: Sequence[Item]) -> list[Item]:
        return body(Int32(i), list(now))

    made = for_init(step, (), 0, steps, 1, init=list(state), unroll=unroll)
    return [cast("Item", made)] if len(state) == 1 else list(cast("Sequence[Item]", made))


def least(a: Int32 | int, b: Int32 | int) -> Int32:
    """The smaller of two numbers."""
    return Int32(arith.min(Int32(a), Int32(b)))


def most(a: Int32 | int, b: Int32 | int) -> Int32:
    """The larger of two numbers."""
    return Int32(arith.max(Int32(a), Int32(b)))
