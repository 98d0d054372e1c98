"""Bulk copies: plain bytes between global and shared memory, issued by one thread, without a map of a tensor.

Addresses and counts are multiples of 16 bytes. Operands are tensors, pointers or arrays. What a tensor holds is copied
as it lies, so the count follows from its layout where that is static and leaves no gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ... import layout as L
from ...errors import DSLTypeError, DSLValueError
from ...ir.enums import AddressSpace
from ..numeric import Int32, Numeric, Uint16
from ..tensor import Pointer, Tensor, get_iter
from ..tensors.storage import Array
from .sync import MBarrier
from .target import emitter, need_trace
from .tma import cache_policy

if TYPE_CHECKING:
    from ..annotations import IntLike, Place, SSAValue


UNIT = 16
_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


class _Place(NamedTuple):
    """An operand: its pointer, what it is called in errors, and its tensor if it has one."""

    pointer: Pointer
    name: str
    tensor: Tensor | None

    @property
    def layout(self) -> Any:
        return None if self.tensor is None else self.tensor.data.layout


def _place(what: str, name: str, operand: object, space: AddressSpace) -> _Place:
    """Check where an operand lies and how it is aligned."""
    tensor, pointer = _tensor_and_pointer(operand)
    if pointer is None:
        raise DSLTypeError(f"{what}: {name} is a tensor or pointer in {space.name.lower()} memory, got {operand!r}")
    if pointer.address_space is not space:
        where = pointer.address_space.name.lower()
        raise DSLTypeError(f"{what}: {name} lies in {space.name.lower()} memory, got {operand!r} in {where} memory")
    if pointer.type.data.swizzle.mask or (tensor is not None and not isinstance(tensor.data.layout, L.Layout)):
        raise DSLValueError(
            f"{what}: bytes are copied as they lie, but {name} is swizzled: {operand!r}; make a plain view of it"
        )
    _check_alignment(what, name, pointer, space)
    return _Place(pointer, name, tensor)


def _tensor_and_pointer(operand: object) -> tuple[Tensor | None, Pointer | None]:
    if isinstance(operand, Array) and isinstance(operand.dtype, type) and issubclass(operand.dtype, Numeric):
        from ..tensors.layout_functions import make_layout

        operand = operand.view(make_layout(len(operand), 1))
    if isinstance(operand, Tensor) and hasattr(operand.data.iter, "data"):
        return operand, get_iter(operand)
    return None, operand if isinstance(operand, Pointer) else None


def _check_alignment(what: str, name: str, pointer: Pointer, space: AddressSpace) -> None:
    known = pointer.alignment
    if known % UNIT == 0:
        return
    if space is AddressSpace.Shared:
        raise DSLValueError(
            f"{what}: {name} must be known to start at a multiple of {UNIT} bytes, and of {pointer!r} only {known} is "
            f"known; allocate it so, as in fx.Array[dtype, n, {UNIT}], and step through it by slices of a view with "
            f"static strides"
        )
    off = _certain_remainder(pointer)
    natural = max(pointer.dtype.width // 8, 1)
    if off:
        raise DSLValueError(f"{what}: {name} must start at a multiple of {UNIT} bytes, it is {off} behind one")
    if known > natural:
        # More than the element's own alignment is what somebody promised, and then too little.
        raise DSLValueError(f"{what}: {name} must start at a multiple of {UNIT} bytes, {pointer!r} promises {known}")


def _certain_remainder(pointer: Pointer) -> int:
    """Bytes by which constants moved a pointer off a place that is known to be aligned; 0 if none is known."""
    value: Any = pointer.value
    bits = 0
    while value.type.data.align % UNIT:
        owner = value.owner
        if getattr(owner, "name", "") != "fly.add_offset":
            return 0
        base, by = owner.operands
        step = L.unwrap(by.type.data)
        if type(step) is not int:
            return 0
        bits += step * pointer.dtype.width
        value = base
    return bits // 8 % UNIT


def _packed_bytes(layout: L.Layout, width: int) -> int | None:
    """Bytes of what a layout covers, if it is static and has no gaps."""
    shape, stride = L.flatten(layout.shape), L.flatten(layout.stride)
    if not all(type(x) is int for x in (*shape, *stride)):
        return None
    step = 1
    for s, n in sorted((cast(int, s), cast(int, n)) for n, s in zip(shape, stride, strict=True) if n != 1):
        if s != step:
            return None
        step *= n
    return step * width // 8 if step * width % 8 == 0 else None


def _derived(what: str, places: tuple[_Place, ...]) -> int:
    """The count that the tensors agree on."""
    found: dict[str, int] = {}
    for place in places:
        if place.tensor is None:
            continue
        nbytes = _packed_bytes(place.layout, place.tensor.dtype.width)
        if nbytes is None:
            raise DSLValueError(
                f"{what}: the layout {L.format_any(place.layout)} of {place.name} is not static and without gaps, so "
                f"it does not say how many bytes to copy: give nbytes"
            )
        found[place.name] = nbytes
    if not found:
        raise DSLValueError(f"{what}: pointers do not say how many bytes to copy: give nbytes")
    if len(set(found.values())) > 1:
        sizes = ", ".join(f"{name} {n}" for name, n in found.items())
        raise DSLValueError(f"{what}: the tensors differ in bytes: {sizes}")
    _check_order(what, places)
    return next(iter(found.values()))


def _check_order(what: str, places: tuple[_Place, ...]) -> None:
    """Tensors of one shape must have their elements in the same order."""
    if any(p.tensor is None for p in places) or len(places) != 2:
        return
    (a, b), (m, n) = (p.layout for p in places), (cast(Tensor, p.tensor).dtype.width for p in places)
    if a.shape != b.shape or m != n:
        return
    steps = (zip(L.flatten(a.shape), L.flatten(x.stride), strict=True) for x in (a, b))
    first, second = ([s for n, s in pairs if n != 1] for pairs in steps)
    if first != second:
        raise DSLValueError(
            f"{what}: bytes are copied as they lie, but {places[0].name} has the layout {L.format_any(a)} and "
            f"{places[1].name} {L.format_any(b)}"
        )


def _count(what: str, nbytes: IntLike | None, *places: _Place) -> SSAValue:
    """The bytes to copy, as a value of 32 bits."""
    if nbytes is None:
        nbytes = _derived(what, places)
    if isinstance(nbytes, Numeric) and nbytes.is_static():
        nbytes = nbytes.value
    if isinstance(nbytes, bool) or not isinstance(nbytes, (int, Numeric)) or getattr(nbytes, "is_float", False):
        raise DSLTypeError(f"{what}: nbytes is a number of bytes, got {nbytes!r}")
    if isinstance(nbytes, int):
        if nbytes <= 0 or nbytes % UNIT:
            raise DSLValueError(f"{what}: copies a positive multiple of {UNIT} bytes, got {nbytes}")
        for place in places:
            last = None if place.tensor is None else L.cosize(place.layout)
            if type(last) is int and nbytes * 8 > last * place.pointer.dtype.width:
                have = last * place.pointer.dtype.width // 8
                raise DSLValueError(f"{what}: {nbytes} bytes do not fit {place.name}, which has {have}")
    return Int32(nbytes).ir_value()


def _barrier(what: str, barrier: object) -> SSAValue:
    if not isinstance(barrier, MBarrier):
        raise DSLTypeError(f"{what}: the bytes are counted on an MBarrier, got {barrier!r}")
    return barrier.ptr.value


def bulk_load(
    src: Place,
    dst: Place,
    barrier: MBarrier,
    *,
    nbytes: IntLike | None = None,
    evict: str | None = None,
    multicast: IntLike | None = None,
) -> None:
    """Copy bytes from global to shared memory, and count them on `barrier`; by one thread.

    `barrier.expect_tx(...)` must announce them. `nbytes` is a multiple of 16, by default what the tensors hold; a
    run-time value is allowed. `multicast` is the mask of the blocks of the cluster that all get the bytes, each at the
    same place and with its own barrier. `evict` is what L2 does with the lines: "normal", "first" or "last".

    >>> def fetch(x):
    ...     shared = fx.SharedAllocator()
    ...     row = shared.allocate(fx.Array[fx.Float32, 4, 16]).peek()
    ...     barrier = shared.allocate(fx.nvgpu.MBarrier).peek()
    ...     barrier.init(1)
    ...     barrier.expect_tx(16)
    ...     fx.nvgpu.bulk_load(fx.get_iter(x) + 4, row, barrier)
    ...     barrier.wait(0)
    ...     return row[2]
    >>> flyc.evaluate(fetch, np.arange(8, dtype="f4"), target="cpu:sm_90")
    6.0
    """
    what = "bulk_load"
    need_trace(what, "bulk_copy")
    source, to = _place(what, "src", src, AddressSpace.Global), _place(what, "dst", dst, AddressSpace.Shared)
    signal = _barrier(what, barrier)
    count = _count(what, nbytes, source, to)
    mask = None if multicast is None else Uint16(multicast).ir_value()
    emitter().bulk_load(to.pointer.value, signal, source.pointer.value, count, mask, cache_policy(what, evict))


def bulk_send(src: Place, dst: Place, barrier: MBarrier, rank: IntLike, *, nbytes: IntLike | None = None) -> None:
    """Copy bytes from shared memory to that of block `rank` of the cluster; by one thread.

    `dst` and `barrier` are places of this block and stand for the same ones of the other, which waits for the bytes.
    Threads that wrote `src` must have met at a barrier before, and all blocks must run: `cluster.sync()`.

    >>> @flyc.kernel
    ... def exchange(out: fx.Tensor):
    ...     nv, rank, shared = fx.nvgpu, fx.nvgpu.cluster.rank(), fx.SharedAllocator()
    ...     mine, theirs = (shared.allocate(fx.Array[fx.Int32, 4, 16]).peek() for _ in range(2))
    ...     barrier = shared.allocate(nv.MBarrier).peek()
    ...     mine[fx.thread_idx.x] = 10 * rank + fx.thread_idx.x
    ...     if fx.thread_idx.x == 0:
    ...         barrier.init(1)
    ...         barrier.expect_tx(16)
    ...     nv.cluster.sync()
    ...     if fx.thread_idx.x == 0:
    ...         nv.bulk_send(mine, theirs, barrier, 1 - rank)
    ...     barrier.wait(0)
    ...     out[rank, fx.thread_idx.x] = theirs[fx.thread_idx.x]
    ...     nv.cluster.sync()
    >>> @flyc.jit
    ... def run(out: fx.Tensor):
    ...     exchange(out).launch(grid=2, block=4, cluster=2)
    >>> compiled = flyc.compile(run, np.zeros((2, 4), "i4"), target="cuda:sm_90")
    >>> "cp.async.bulk.shared::cluster.shared::cta.mbarrier" in compiled.artifact.asm
    True
    """
    what = "bulk_send"
    need_trace(what, "bulk_copy")
    source, to = _place(what, "src", src, AddressSpace.Shared), _place(what, "dst", dst, AddressSpace.Shared)
    signal = _barrier(what, barrier)
    count = _count(what, nbytes, source, to)
    emitter().bulk_send(to.pointer.value, signal, source.pointer.value, count, Int32(rank).ir_value())


def bulk_store(src: Place, dst: Place, *, nbytes: IntLike | None = None, evict: str | None = None) -> None:
    """Copy bytes from shared to global memory; by one thread, then `tma_commit()` and `tma_wait()`.

    Threads that wrote `src` must have met at a barrier before. `nbytes` and `evict` are as those of `bulk_load`.

    >>> def fill(x):
    ...     row = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 4, 16]).peek()
    ...     for i in fx.range_constexpr(4):
    ...         row[i] = i + 0.5
    ...     fx.nvgpu.bulk_store(row, fx.get_iter(x))
    ...     fx.nvgpu.tma_commit()
    ...     fx.nvgpu.tma_wait(0)
    ...     return x[3]
    >>> flyc.evaluate(fill, np.zeros(4, "f4"), target="cpu:sm_90")
    3.5
    """
    what = "bulk_store"
    need_trace(what, "bulk_copy")
    source, to = _place(what, "src", src, AddressSpace.Shared), _place(what, "dst", dst, AddressSpace.Global)
    count = _count(what, nbytes, source, to)
    emitter().bulk_store(source.pointer.value, to.pointer.value, count, cache_policy(what, evict))


def bulk_reduce(src: Place, dst: Place, op: str, *, nbytes: IntLike | None = None, evict: str | None = None) -> None:
    """Combine shared memory into global memory, element by element; by one thread, then like `bulk_store`.

    `op` is add, min, max, inc, dec, and, or, xor; elements of 32 and 64 bits, f16 and bf16 as the operation allows.

    >>> def collect(x):
    ...     row = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 4, 16]).peek()
    ...     for i in fx.range_constexpr(4):
    ...         row[i] = 7
    ...     fx.nvgpu.bulk_reduce(row, fx.get_iter(x), "max")
    ...     fx.nvgpu.tma_commit()
    ...     fx.nvgpu.tma_wait(0)
    ...     return x[0], x[3]
    >>> flyc.evaluate(collect, np.array([5, 6, 8, 9], "i4"), target="cpu:sm_90")
    (7, 9)
    """
    what = "bulk_reduce"
    need_trace(what, "bulk_copy")
    _check_reduction(what, op)
    source, to = _place(what, "src", src, AddressSpace.Shared), _place(what, "dst", dst, AddressSpace.Global)
    reduction = op, _element(what, op, source.pointer.dtype, to.pointer.dtype)
    count = _count(what, nbytes, source, to)
    emitter().bulk_store(source.pointer.value, to.pointer.value, count, cache_policy(what, evict), reduction)


def _check_reduction(what: str, op: object) -> None:
    if op not in _REDUCTIONS:
        raise DSLValueError(f"{what} does {', '.join(_REDUCTIONS)}, got {op!r}")


def _element(what: str, op: str, source: type[Numeric], to: type[Numeric]) -> str:
    """The elements' type in PTX's words."""
    from ...dialects.fly_nvgpu.bulk import REDUCTIONS

    if source is not to:
        raise DSLTypeError(f"{what}: src holds {source}, dst {to}; they are combined element by element")
    known = REDUCTIONS[op]
    width = source.width
    if source.is_float:
        word = str(source.ir_type)
    elif op in ("and", "or", "xor"):
        word = f"b{width}"
    else:
        # Sums have no sign, and there is none of s64.
        signed = source.signed and not (op == "add" and width == 64)
        word = f"{'s' if signed else 'u'}{width}"
    if word not in known:
        raise DSLTypeError(f"{what}: the copy engine does {op} on elements of {', '.join(known)}, got {source}")
    return word


def bulk_prefetch(src: Place, *, nbytes: IntLike | None = None, evict: str | None = None) -> None:
    """Fetch bytes of global memory into L2; by one thread, early. `nbytes` and `evict` are as those of `bulk_load`.

    >>> flyc.evaluate(lambda x: fx.nvgpu.bulk_prefetch(x, nbytes=32), np.zeros(8, "f4"), target="cpu:sm_90")
    """
    what = "bulk_prefetch"
    need_trace(what, "bulk_copy")
    source = _place(what, "src", src, AddressSpace.Global)
    emitter().bulk_prefetch(source.pointer.value, _count(what, nbytes, source), cache_policy(what, evict))


class BulkLoad(NamedTuple):
    """`bulk_load` as an atom.

    >>> def fetch(x):
    ...     shared = fx.SharedAllocator()
    ...     row = shared.allocate(fx.Array[fx.Float32, 4, 16]).peek()
    ...     barrier = shared.allocate(fx.nvgpu.MBarrier).peek()
    ...     barrier.init(1)
    ...     barrier.expect_tx(16)
    ...     fx.copy(fx.nvgpu.BulkLoad(barrier), fx.flat_divide(x, (4,))[None, 1], row)
    ...     barrier.wait(0)
    ...     return row[2]
    >>> flyc.evaluate(fetch, np.arange(8, dtype="f4"), target="cpu:sm_90")
    6.0
    """

    barrier: MBarrier
    evict: str | None = None
    multicast: IntLike | None = None

    def __copy_tile__(self, src: Place, dst: Place) -> None:
        bulk_load(src, dst, self.barrier, evict=self.evict, multicast=self.multicast)


class BulkStore(NamedTuple):
    """`bulk_store` as an atom.

    >>> fx.nvgpu.BulkStore(evict="first")
    BulkStore(evict='first')
    """

    evict: str | None = None

    def __copy_tile__(self, src: Place, dst: Place) -> None:
        bulk_store(src, dst, evict=self.evict)


class BulkReduce(NamedTuple):
    """`bulk_reduce` as an atom.

    >>> fx.nvgpu.BulkReduce("add")
    BulkReduce(op='add', evict=None)
    """

    op: str
    evict: str | None = None

    def __copy_tile__(self, src: Place, dst: Place) -> None:
        bulk_reduce(src, dst, self.op, evict=self.evict)
