"""Buffer and shared memory by instruction, as FlyDSL names them: a resource, byte offsets, and what is moved.

A resource is a buffer pointer (`make_buffer_ptr`, `create_buffer_resource`), a buffer tensor, or a raw descriptor:
what `get_buffer_rsrc` made of one, or any other value of the IR that is one, such as `rocdl.make_buffer_rsrc` makes of
an address. Accesses out of its range give 0 or do nothing, on the cpu stack too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...errors import DSLTypeError, DSLValueError
from ...ir.enums import AddressSpace, AtomicOp
from ..numeric import Int8, Int32, Numeric, as_dsl_value, as_numeric, dsl_class, is_ir_value
from ..tensor import Pointer, Tensor, get_iter, make_rmem_tensor, make_view, recast_iter
from ..tensors.layout_functions import make_layout
from ..tensors.memory import to_llvm_ptr
from ..tensors.tiled import copy_atom_call, make_copy_atom
from ..vector import Vector, VectorAlias
from .atoms import BufferAtomic, BufferAtomicPkAdd, BufferCopyLDS
from .buffers import BufferDesc
from .cdna4 import LDSReadTrans
from .target import emitter, ir_type, need

if TYPE_CHECKING:
    from ..annotations import ElementLike, IntLike, SSAValue, Value, ValueLike


def resource(rsrc: object) -> Pointer:
    """The byte pointer into buffer memory that a resource stands for."""
    found = get_iter(rsrc) if isinstance(rsrc, Tensor) else rsrc
    if is_ir_value(found):
        made = emitter().pointer_behind(found)
        found = found if made is None else made
    if not isinstance(found, Pointer) or found.address_space != BufferDesc:
        raise DSLTypeError(
            f"expected a buffer resource, as fx.rocdl.make_buffer_ptr or buffer_ops.create_buffer_resource gives it, "
            f"got {rsrc!r}"
        )
    return recast_iter(Int8, found)


def _tracked(rsrc: object) -> Pointer | None:
    """The pointer behind a resource; None for a descriptor that something else made."""
    if is_ir_value(rsrc) and emitter().pointer_behind(rsrc) is None and emitter().is_descriptor(rsrc):
        return None
    return resource(rsrc)


def _descriptor(rsrc: object) -> SSAValue:
    """The raw descriptor of a resource."""
    pointer = _tracked(rsrc)
    return cast("SSAValue", rsrc) if pointer is None else emitter().descriptor(pointer)


def _bytes(x: IntLike) -> Int32:
    return Int32(as_numeric(x))


def _number(what: str, x: object) -> int:
    """A number that is part of the instruction: an int, a constant of the IR or an integer attribute."""
    if x is None:
        return 0
    found = emitter().constant_behind(x)
    if found is None:
        raise DSLTypeError(f"{what} is part of the instruction and must be known while tracing, got {x!r}")
    return found


def _moved(res: ElementLike) -> tuple[type[Numeric], int]:
    """Class and count of the values that a result type names."""
    from ..emit.scalar_types import vector_parts

    type_ = ir_type(res)
    parts = vector_parts(type_)
    return (dsl_class(type_), 1) if parts is None else (dsl_class(parts[0]), parts[1])


def _only(name: str, given: dict[str, object]) -> None:
    """Refuse keywords that would change what an instruction does; places and types follow from the trace."""
    for key in given.keys() - {"loc", "ip", "results", "alias_scopes", "noalias_scopes", "tbaa"}:
        raise DSLTypeError(f"fx.rocdl.{name} has no parameter {key!r}")


def raw_ptr_buffer_load(
    res: ElementLike, rsrc: object, offset: IntLike, soffset: IntLike, aux: IntLike | None = None, **kw: object
) -> Value:
    """What a buffer holds at a byte offset.

    >>> def example(x):
    ...     return fx.rocdl.raw_ptr_buffer_load(fx.T.f32x2, fx.rocdl.make_buffer_tensor(x), 4, 4)
    >>> flyc.evaluate(example, np.arange(4, dtype="f4"), target="cpu:gfx942")
    [2.0, 3.0]
    """
    _only("raw_ptr_buffer_load", kw)
    cls, count = _moved(res)
    target = cls if count == 1 else VectorAlias(cls, count)
    policy, pointer = _number("aux", aux), _tracked(rsrc)
    if pointer is None:
        operands = _descriptor(rsrc), _bytes(offset).ir_value(), _bytes(soffset).ir_value(), Int32(policy).ir_value()
        return target(emitter().raw_buffer("load", target.ir_type, target.ir_type, operands))
    return target(emitter().buffer_load(pointer + _bytes(offset), target.ir_type, _bytes(soffset).ir_value(), policy))


def raw_ptr_buffer_store(
    vdata: ValueLike, rsrc: object, offset: IntLike, soffset: IntLike, aux: IntLike | None = None, **kw: object
) -> None:
    """Write a value into a buffer at a byte offset.

    >>> def put(x):
    ...     fx.rocdl.raw_ptr_buffer_store(fx.Float32(9.0), fx.rocdl.make_buffer_tensor(x), 4, 0)
    ...     return x[1]
    >>> flyc.evaluate(put, np.arange(4, dtype="f4"), target="cpu:gfx942")
    9.0
    """
    _only("raw_ptr_buffer_store", kw)
    value, policy, pointer = as_dsl_value(vdata).ir_value(), _number("aux", aux), _tracked(rsrc)
    if pointer is None:
        places = _bytes(offset).ir_value(), _bytes(soffset).ir_value(), Int32(policy).ir_value()
        emitter().raw_buffer("store", None, value.type, [value, _descriptor(rsrc), *places])
        return
    emitter().buffer_store(value, pointer + _bytes(offset), _bytes(soffset).ir_value(), policy)


def _atomic(op: AtomicOp, vdata: ValueLike, rsrc: object, offset: IntLike, soffset: IntLike, aux: object) -> None:
    value, policy, pointer = as_dsl_value(vdata), _number("aux", aux), _tracked(rsrc)
    if pointer is None or policy:
        places = _bytes(offset).ir_value(), _bytes(soffset).ir_value(), Int32(policy).ir_value()
        made, name = value.ir_value(), {AtomicOp.Add: "fadd", AtomicOp.Max: "fmax"}[op]
        emitter().raw_buffer(f"atomic.{name}", made.type, made.type, [made, _descriptor(rsrc), *places])
        return
    cls = value.dtype
    place = recast_iter(cls, pointer + (_bytes(offset) + _bytes(soffset)))
    count = value.numel if isinstance(value, Vector) else 1
    held = make_rmem_tensor(count, cls)
    held.store(value)
    if count == 1:
        atom = make_copy_atom(BufferAtomic(op, cls), cls)
    elif count == 2 and op is AtomicOp.Add:
        atom = make_copy_atom(BufferAtomicPkAdd(cls), cls)
    else:
        raise DSLValueError(f"a buffer atomic takes one value, or adds a pair of 16-bit floats; got {value!r}")
    copy_atom_call(atom, held, make_view(place, make_layout(count, 1)))


def raw_ptr_buffer_atomic_fadd(
    vdata: ValueLike, rsrc: object, offset: IntLike, soffset: IntLike, aux: IntLike | None = None, **kw: object
) -> None:
    """Add a float, or a pair of 16-bit floats, to what a buffer holds at a byte offset.

    >>> def add(x):
    ...     fx.rocdl.raw_ptr_buffer_atomic_fadd(fx.Float32(0.5), fx.rocdl.make_buffer_tensor(x), 4, 0)
    ...     return x[1]
    >>> flyc.evaluate(add, np.arange(4, dtype="f4"), target="cpu:gfx942")
    1.5
    """
    _only("raw_ptr_buffer_atomic_fadd", kw)
    _atomic(AtomicOp.Add, vdata, rsrc, offset, soffset, aux)


def raw_ptr_buffer_atomic_fmax(
    vdata: ValueLike, rsrc: object, offset: IntLike, soffset: IntLike, aux: IntLike | None = None, **kw: object
) -> None:
    """The larger of a float and what a buffer holds at a byte offset, kept there.

    >>> def top(x):
    ...     fx.rocdl.raw_ptr_buffer_atomic_fmax(fx.Float32(2.5), fx.rocdl.make_buffer_tensor(x), 4, 0)
    ...     return x[1]
    >>> flyc.evaluate(top, np.arange(4, dtype="f4"), target="cpu:gfx1201")
    2.5
    """
    _only("raw_ptr_buffer_atomic_fmax", kw)
    _atomic(AtomicOp.Max, vdata, rsrc, offset, soffset, aux)


def raw_ptr_buffer_load_lds(
    rsrc: object,
    lds_ptr: object,
    size: IntLike,
    voffset: IntLike,
    soffset: IntLike,
    offset: IntLike,
    aux: IntLike | None = None,
    **kw: object,
) -> None:
    """Copy `size` bytes a lane from a buffer into shared memory: lane `i` of the wave writes behind lane `i - 1`.

    >>> def example(x):
    ...     cells = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek()
    ...     rsrc = fx.rocdl.make_buffer_tensor(x)
    ...     fx.rocdl.raw_ptr_buffer_load_lds(rsrc, cells.ptr, 4, fx.thread_idx.x * 4, 0, 0)
    ...     fx.rocdl.s_waitcnt(vmcnt=0)
    ...     fx.barrier()
    ...     return cells[63 - fx.thread_idx.x]
    >>> flyc.evaluate(example, np.arange(64, dtype="f4"), threads=64, target="cpu:gfx942")[:3]
    [63.0, 62.0, 61.0]
    """
    _only("raw_ptr_buffer_load_lds", kw)
    nbytes, policy, pointer = _number("size", size), _number("aux", aux), _tracked(rsrc)
    known = emitter().constant_behind(offset)
    if pointer is None or policy:
        immediate = Int32(_number("offset", offset)).ir_value()
        numbers = Int32(nbytes).ir_value(), _bytes(voffset).ir_value(), _bytes(soffset).ir_value()
        place = emitter().shared_address(lds_ptr)
        if place is None:
            raise DSLTypeError(f"expected a pointer into shared memory, got {lds_ptr!r}")
        operands = _descriptor(rsrc), place, *numbers, immediate, Int32(policy).ir_value()
        emitter().intrinsic("llvm.amdgcn.raw.ptr.buffer.load.lds", None, list(operands))
        return
    shared = get_iter(lds_ptr) if isinstance(lds_ptr, Tensor) else lds_ptr
    if is_ir_value(shared):
        shared = emitter().shared_pointer(shared)
    if not isinstance(shared, Pointer) or shared.address_space is not AddressSpace.Shared:
        raise DSLTypeError(f"expected a pointer into shared memory, got {lds_ptr!r}")
    inside = _bytes(offset if known is None else known)
    source = recast_iter(Int32, pointer + (_bytes(voffset) + _bytes(soffset) + inside))
    place = recast_iter(Int32, recast_iter(Int8, shared) + inside)
    words = make_layout(nbytes // 4, 1)
    copy_atom_call(make_copy_atom(BufferCopyLDS(nbytes * 8), Int32), make_view(source, words), make_view(place, words))


def buffer_load_to_lds(
    rsrc: object,
    lds_ptr: object,
    voffset: IntLike,
    size_bytes: int = 4,
    soffset: IntLike = 0,
    offset: IntLike = 0,
    **kw: object,
) -> None:
    """`raw_ptr_buffer_load_lds` with its usual arguments.

    >>> def example(x):
    ...     cells = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek()
    ...     fx.rocdl.buffer_load_to_lds(fx.rocdl.make_buffer_tensor(x), cells.ptr, fx.thread_idx.x * 4)
    ...     fx.rocdl.s_waitcnt(vmcnt=0)
    ...     fx.barrier()
    ...     return cells[63 - fx.thread_idx.x]
    >>> flyc.evaluate(example, np.arange(64, dtype="f4"), threads=64, target="cpu:gfx942")[:3]
    [63.0, 62.0, 61.0]
    """
    raw_ptr_buffer_load_lds(rsrc, lds_ptr, size_bytes, voffset, soffset, offset, **kw)  # pyright: ignore[reportArgumentType]


def cluster_load_async_to_lds(
    global_ptr: object, lds_ptr: object, size_bytes: int, offset: int = 0, cpol: int = 0, mask: IntLike = 0
) -> None:
    """Copy 1, 4, 8 or 16 bytes a lane from global memory into the shared memory of the blocks of the cluster in `mask`.

    >>> def example(x):
    ...     cells = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 32]).peek()
    ...     t = fx.thread_idx.x
    ...     fx.rocdl.cluster_load_async_to_lds(fx.get_iter(x) + t, cells.ptr + t, 4, mask=1)
    ...     fx.rocdl.s_wait_asynccnt(0)
    ...     fx.barrier()
    ...     return cells[31 - t]
    >>> flyc.evaluate(example, np.arange(32, dtype="f4"), threads=32, target="cpu:gfx1250")[:3]
    [31.0, 30.0, 29.0]
    """
    need("cluster_load_async_to_lds", "clusters")
    if size_bytes not in (1, 4, 8, 16):
        raise DSLValueError(f"cluster_load_async_to_lds copies 1, 4, 8 or 16 bytes a lane, got {size_bytes}")
    source = get_iter(global_ptr) if isinstance(global_ptr, Tensor) else global_ptr
    place = emitter().shared_address(lds_ptr)
    if place is None:
        raise DSLTypeError(f"expected a pointer into shared memory, got {lds_ptr!r}")
    at = to_llvm_ptr(source) if isinstance(source, Pointer) else cast("SSAValue", source)
    numbers = [Int32(as_numeric(n)).ir_value() for n in (offset, cpol, mask)]
    name = f"llvm.amdgcn.cluster.load.async.to.lds.b{8 * size_bytes}"
    emitter().intrinsic(name, None, [at, place, *numbers])


def s_buffer_load(ptr: object, offset: IntLike, *, count: int = 1, cache_modifier: int = 0) -> Value:
    """`count` words of 32 bits, from word `offset` on, which is the same in all lanes, through the scalar cache.

    >>> def example(x):
    ...     return fx.rocdl.s_buffer_load(fx.rocdl.make_buffer_tensor(x), 2)
    >>> flyc.evaluate(example, np.arange(4, dtype="i4"), target="cpu:gfx942")
    2
    """
    target = Int32 if count == 1 else VectorAlias(Int32, count)
    place = resource(ptr) + _bytes(offset) * 4
    return target(emitter().buffer_load(place, target.ir_type, Int32(0).ir_value(), int(cache_modifier), True))


def lds_transpose_load(
    result_type: ElementLike, lds_memref: Tensor | Pointer, elem_offset: IntLike, elem_bytes: int
) -> Vector:
    """A transposing read of shared memory, by the type of its result: 64 bits of 16- or 8-bit values.

    >>> def example():
    ...     cells = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 256]).peek()
    ...     for i in fx.range_constexpr(4):
    ...         cells[fx.thread_idx.x * 4 + i] = fx.Float16(fx.thread_idx.x * 4 + i)
    ...     fx.barrier()
    ...     return fx.rocdl.lds_transpose_load(fx.T.f16x4, cells.ptr, fx.thread_idx.x * 4, 2)
    >>> flyc.evaluate(example, threads=64, target="cpu:gfx950")[1]
    [1.0, 17.0, 33.0, 49.0]
    """
    cls, count = _moved(result_type)
    pointer = get_iter(lds_memref) if isinstance(lds_memref, Tensor) else lds_memref
    got = make_rmem_tensor(count, cls)
    place = recast_iter(cls, recast_iter(Int8, pointer) + _bytes(elem_offset) * elem_bytes)
    atom = make_copy_atom(LDSReadTrans(cls.width, cls.width * count), cls)
    copy_atom_call(atom, make_view(place, make_layout(count, 1)), got)
    return got.load()
