"""Loads and stores of global memory that tell the caches what to do: copy operations, and single vector accesses.

The words are those of NVIDIA's `ld.global` and `st.global`, but kernels that use them compile for every target: on AMD
what is not used again soon is `nontemporal`, the cpu stack makes plain accesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ... import layout as L
from ...errors import DSLTypeError, DSLValueError
from ...ir.enums import AddressSpace
from ..atomics import atomic_add
from ..numeric import Float32
from ..tensor import Pointer, Tensor, get_iter, make_rmem_tensor, make_view
from ..tensors.layout_functions import make_layout
from ..tensors.tiled import copy, make_copy_atom
from ..vector import Vector
from .target import trace_target

if TYPE_CHECKING:
    from ...dialects.fly_nvgpu.global_access import Access
    from ..annotations import Attribute, Value, ValueLike


class GlobalAccessOp:
    """A copy operation on global memory; `make_copy_atom` takes it."""

    __slots__ = ("_access", "_load")

    def __init__(self, load: bool, access: Access):
        from ...dialects.fly_nvgpu.global_access import problem

        found = problem(access, load=load)
        if found is not None:
            raise DSLValueError(found)
        self._load = load
        self._access = access

    @property
    def type(self) -> Attribute:
        """The IR type."""
        from ...dialects.fly_nvgpu.global_access import LoadGlobalType, StoreGlobalType

        return (LoadGlobalType if self._load else StoreGlobalType)(self._access)

    def __fly_cache_key__(self) -> object:
        """Kernels may use one that was made outside of them."""
        return self._load, *self._access

    def __repr__(self) -> str:
        bits, *said = self._access._asdict().items()
        words = [str(bits[1]), *(f"{name}={value!r}" for name, value in said if value not in (None, False))]
        return f"{'LoadGlobal' if self._load else 'StoreGlobal'}({', '.join(words)})"


def LoadGlobal(
    bits: int,
    *,
    read_only: bool = False,
    cache: str | None = None,
    l1: str | None = None,
    l2_prefetch: int | None = None,
    evict: str | None = None,
) -> GlobalAccessOp:
    """A load of 8 to 128 bits from global memory into registers (or shared memory).

    `read_only` promises that nobody writes the data while the kernel runs. `cache` is an operator: "ca" all caches,
    "cg" L2 alone, "cs" streaming, "lu" last use (not of read-only data); or `l1` is a priority: "evict_normal",
    "evict_unchanged", "evict_first", "evict_last", "no_allocate". `l2_prefetch` is 64, 128 or 256 bytes, and `evict`
    how L2 holds the data: "normal", "unchanged", "first" or "last" to go.

    >>> fx.make_copy_atom(fx.nvgpu.LoadGlobal(128, read_only=True, l1="no_allocate"), fx.Float32).layout_dst_tv
    Layout<(1,4):(1,1)>
    >>> fx.nvgpu.LoadGlobal(64, cache="cs", evict="first")
    LoadGlobal(64, cache='cs', evict='first')
    """
    from ...dialects.fly_nvgpu.global_access import Access

    return GlobalAccessOp(True, Access(bits, bool(read_only), cache, l1, l2_prefetch, evict))


def StoreGlobal(
    bits: int, *, cache: str | None = None, l1: str | None = None, evict: str | None = None
) -> GlobalAccessOp:
    """A store of 8 to 128 bits from registers (or shared memory) to global memory.

    `cache` is an operator: "wb" write back, "cg" L2 alone, "cs" streaming, "wt" write through; or `l1` is a priority.
    That and `evict` are as `LoadGlobal` has them.

    >>> fx.nvgpu.StoreGlobal(128, cache="cs")
    StoreGlobal(128, cache='cs')
    """
    from ...dialects.fly_nvgpu.global_access import Access

    return GlobalAccessOp(False, Access(bits, False, cache, l1, None, evict))


def _place(what: str, place: object, count: int | None) -> tuple[Pointer, int]:
    """Where an access goes, and how many elements it has."""
    if isinstance(place, Tensor):
        if count is not None:
            raise DSLValueError(f"{what}: a tensor says itself how many elements it has; give its pointer with a count")
        layout = place.data.layout
        elements = L.size(layout)
        flat = L.coalesce(layout) if type(layout) is L.Layout else None
        if type(elements) is not int or flat is None or (elements > 1 and flat.stride != 1):
            raise DSLValueError(f"{what}: the elements must lie one behind the other, got {L.format_any(layout)}")
        place, count = get_iter(place), elements
    if not isinstance(place, Pointer):
        raise DSLTypeError(f"{what} expects a pointer or a tensor in global memory, got {place!r}")
    if place.address_space is not AddressSpace.Global:
        raise DSLTypeError(f"{what} is for global memory, got {place!r}")
    count = 1 if count is None else count
    if type(count) is not int or count < 1:  # pyright: ignore[reportUnnecessaryComparison]
        raise DSLValueError(f"{what}: count must be a positive number, got {count!r}")
    return place, count


def _shape(what: str, pointer: Pointer, count: int) -> tuple[int, Tensor, Tensor]:
    """Bits of one access, the memory as as many of them as are needed, and registers for it."""
    width = pointer.dtype.width
    total = count * width
    bits = 128 if total % 128 == 0 else total
    if width < 8 or bits not in (8, 16, 32, 64, 128):
        raise DSLValueError(f"{what} moves 8, 16, 32, 64 or multiples of 128 bits, got {count} values of {width} bits")
    per = bits // width
    layout = make_layout((per, count // per), (1, per))
    return bits, make_view(pointer, layout), make_rmem_tensor(layout, pointer.dtype)


def load_global(place: Tensor | Pointer, count: int | None = None, **hints: Any) -> Value:
    """Read a value, or `count` of them as a Vector, as `LoadGlobal(..., **hints)` does.

    `place` is a pointer, or a tensor whose elements lie one behind the other. Each access of up to 128 bits must be
    aligned to its size, as for a copy of that width.

    >>> def pick(x):
    ...     return fx.nvgpu.load_global(fx.get_iter(x) + 4, 4, read_only=True, l1="no_allocate")
    >>> flyc.evaluate(pick, np.arange(8, dtype="f4"))
    [4.0, 5.0, 6.0, 7.0]
    """
    pointer, elements = _place("load_global", place, count)
    bits, memory, registers = _shape("load_global", pointer, elements)
    copy(make_copy_atom(LoadGlobal(bits, **hints), pointer.dtype), memory, registers)
    return registers.load().reshape(elements) if elements > 1 or isinstance(place, Tensor) else registers[0, 0]


def store_global(place: Tensor | Pointer, value: ValueLike, **hints: Any) -> None:
    """Write a value or a Vector, as `StoreGlobal(..., **hints)` does; `place` is as for `load_global`.

    >>> def put(x):
    ...     fx.nvgpu.store_global(fx.get_iter(x), fx.Vector.filled(4, 2.5, fx.Float32), cache="cs")
    ...     return [x[i] for i in range(4)]
    >>> flyc.evaluate(put, np.zeros(4, "f4"))
    [2.5, 2.5, 2.5, 2.5]
    """
    given = value.numel if isinstance(value, Vector) else 1
    pointer, elements = _place("store_global", place, None if isinstance(place, Tensor) else given)
    if elements != given:
        raise DSLValueError(f"store_global: the tensor has {elements} elements, the value {given}")
    bits, memory, registers = _shape("store_global", pointer, elements)
    registers.store(value)
    copy(make_copy_atom(StoreGlobal(bits, **hints), pointer.dtype), registers, memory)


def add_global(place: Pointer, value: Vector) -> None:
    """Add a Vector of 2 or 4 floats to as many in global memory, each for itself, in one instruction from sm_90 on.

    Nobody gets the old values, and nobody waits. Places are aligned to the vector's size.

    >>> def bump(x):
    ...     fx.nvgpu.add_global(fx.get_iter(x), fx.Vector.filled(4, 2.5, fx.Float32))
    ...     return [x[i] for i in range(4)]
    >>> flyc.evaluate(bump, np.ones(4, "f4"))
    [3.5, 3.5, 3.5, 3.5]
    """
    pointer, count = _place("add_global", place, value.numel)
    if pointer.dtype is not Float32 or value.dtype is not Float32 or count not in (2, 4):
        raise DSLTypeError(f"add_global takes 2 or 4 values of Float32, got {value.dtype}x{count} for {pointer.dtype}")
    target = trace_target()
    flat = value.reshape(count)
    elements = [cast("Float32", flat[i]) for i in range(count)]
    if target is not None and target.has("bulk_copy"):
        from . import emit

        emit.add_global(pointer.value, [x.ir_value() for x in elements])
        return
    for i, x in enumerate(elements):
        atomic_add(pointer + i, x, syncscope="device")
