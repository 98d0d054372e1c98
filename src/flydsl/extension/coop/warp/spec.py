"""What the collectives of a warp are told: the lanes of a logical warp, and classes that fix them and the elements."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr.emit.trace import maybe_current
from ....expr.gpu import lane_id, num_warp_threads
from ....expr.structs import CompositeMeta, Empty
from ....expr.tensors.storage import Storage
from ....expr.vector import Vector
from ..elements import ElementType, is_element_type, is_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....expr.numeric import Int32

C = TypeVar("C")


def check_width(width: object) -> int:
    """Lanes of a logical warp: a power of two, at most a warp of the target, which is the default."""
    warp = num_warp_threads()
    if width is None:
        return warp
    if not _is_width(width) or width > warp:
        raise DSLValueError(f"width must be a power of two from 1 to the warp size {warp}, got {width!r}")
    return width


def _is_width(width: object) -> TypeGuard[int]:
    return isinstance(width, int) and not isinstance(width, bool) and width > 0 and not width & (width - 1)


def place_in(width: int) -> Int32:
    """Number of the lane in its logical warp."""
    return lane_id() % width


class WarpMeta(type):
    """A collective for one class of elements and one logical warp: `WarpReduce[fx.Float32, 16]`."""

    tiled: bool = False
    """Whether the items of a lane are counted: `[dtype, width, items_per_thread]`."""
    pairs: bool = False
    """Whether the class of elements may be (key class, payload class)."""
    fewest_items: int = 1
    algorithms: type[Enum] | None = None
    algorithm: Enum | None = None
    """The default one, before there is another."""
    dtype: ElementType | None = None
    """The class of elements, of keys where there are pairs; None before there is one."""
    value_dtype: ElementType | None = None
    """The class of payloads."""
    width: int | None = None
    items_per_thread: int | None = None
    made: dict[object, WarpMeta]

    def __getitem__(cls: type[C], key: object) -> type[C]:
        return cast("type[C]", cast("WarpMeta", cls)._of(key))

    def _of(cls, key: object) -> WarpMeta:
        """The class for what was given in brackets."""
        if cls.dtype is not None:
            raise DSLTypeError(f"{cls.__name__} is already specialized")
        parts = cast("tuple[object, ...]", key if isinstance(key, tuple) else (key,))
        form = "dtype, width, items_per_thread" if cls.tiled else "dtype, width"
        least, most = (3, 3 + (cls.algorithms is not None)) if cls.tiled else (1, 2)
        if not least <= len(parts) <= most:
            more = ", algorithm" if cls.algorithms is not None else ""
            raise DSLTypeError(f"write {cls.__name__}[{form}{more}], got {key!r}")
        dtype, value_dtype = cls._element_types(parts[0])
        width = parts[1] if len(parts) > 1 else None
        if width is not None and not _is_width(width):
            raise DSLValueError(f"{cls.__name__}: width must be a power of two or None, got {width!r}")
        items = cls._item_count(parts[2]) if len(parts) > 2 else None
        algorithm = parts[3] if len(parts) > 3 else cls.algorithm
        if cls.algorithms is not None and not isinstance(algorithm, cls.algorithms):
            raise DSLTypeError(f"{cls.__name__}: algorithm must be a {cls.algorithms.__name__}, got {algorithm!r}")
        found = cls.__dict__.get("made", {}).get((dtype, value_dtype, width, items, algorithm))
        if found is None:
            found = cls._specialized(dtype, value_dtype, width, items, cast("Enum | None", algorithm))
        if maybe_current() is not None:
            found.lanes()
        return found

    def _specialized(
        cls,
        dtype: ElementType,
        value_dtype: ElementType | None,
        width: int | None,
        items: int | None,
        algorithm: Enum | None,
    ) -> WarpMeta:
        """The class for these, made once."""
        element = str(dtype) if value_dtype is None else f"({dtype}, {value_dtype})"
        words = [element, str(width), *([] if items is None else [str(items)])]
        body: dict[str, object] = {
            "__module__": cls.__module__, "__doc__": cls.__doc__, "dtype": dtype, "value_dtype": value_dtype,
            "width": width, "items_per_thread": items, "algorithm": algorithm,
        }  # fmt: skip
        name = ", ".join([*words, *([] if algorithm is None else [algorithm.name])])
        made = type(cls)(f"{cls.__name__}[{name}]", (cls,), body)
        made.check()
        if "made" not in cls.__dict__:
            cls.made = {}
        cls.made[dtype, value_dtype, width, items, algorithm] = made
        return made

    def _element_types(cls, given: object) -> tuple[ElementType, ElementType | None]:
        both = cast("tuple[object, ...]", given) if isinstance(given, tuple) else (given,)
        if len(both) > (2 if cls.pairs else 1) or not both or not all(is_element_type(t) for t in both):
            two = ", or (key class, payload class)" if cls.pairs else ""
            raise DSLTypeError(
                f"{cls.__name__}: the elements must be of a scalar class such as fx.Float32, of a vector alias or a "
                f"struct{two}; got {given!r}"
            )
        first, *rest = cast("tuple[ElementType, ...]", both)
        return first, rest[0] if rest else None

    def _item_count(cls, items: object) -> int:
        if not isinstance(items, int) or isinstance(items, bool) or items < cls.fewest_items:
            raise DSLValueError(
                f"{cls.__name__}: items_per_thread must be an int of at least {cls.fewest_items}, got {items!r}"
            )
        return items

    def check(cls) -> None:
        """What a specialization requires beyond the sorts of its parts."""

    def __call__(cls, *args: object, **kwargs: object) -> object:
        raise DSLTypeError(f"{cls.__name__} is not called itself; use one of its methods")

    @property
    def key_dtype(cls) -> ElementType | None:
        """The class of keys."""
        return cls.dtype

    @property
    def warp_threads(cls) -> int:
        """Lanes of the logical warp."""
        return cls.lanes()

    @property
    def SharedStorage(cls) -> CompositeMeta:
        """The struct of shared memory that one logical warp needs."""
        cls.lanes()
        return cls.storage_type()

    def storage_type(cls) -> CompositeMeta:
        """The struct of one specialization; most need no memory."""
        return Empty

    def lanes(cls) -> int:
        """Lanes of the logical warp, of a class that is specialized."""
        if cls.dtype is None:
            raise DSLTypeError(f"{cls.__name__} has no class of elements: specialize first, as in "
                               f"{cls.__name__}[fx.Int32, 8{', 2' if cls.tiled else ''}]")  # fmt: skip
        return check_width(cls.width)

    def start(cls, storage: object) -> int:
        """Checks of every call; gives the lanes of the logical warp."""
        lanes = cls.lanes()
        if storage is not None:
            cls.held(storage)
        return lanes

    def held(cls, storage: object) -> object:
        """The storage of one logical warp."""
        found = storage.peek() if isinstance(storage, Storage) else storage
        if not isinstance(found, cls.SharedStorage):
            raise DSLTypeError(
                f"{cls.__name__}: storage must be of {cls.__name__}.SharedStorage, one for each logical warp, as in "
                f"fx.SharedAllocator().allocate(fx.Array[{cls.__name__}.SharedStorage, warps]).peek()[warp]; "
                f"got {storage!r}"
            )
        return found

    def check_items(cls, value: object, what: str) -> None:
        """Refuse another number of items than that of the class."""
        wanted = cls.items_per_thread
        found = len(cast("Sequence[object]", value)) if isinstance(value, (list, tuple)) else 1
        found = value.numel if isinstance(value, Vector) and is_items(value, cls.dtype) else found
        if found != wanted:
            raise DSLValueError(f"{cls.__name__}: {what} must hold {wanted} items, got {found}")
