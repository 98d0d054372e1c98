"""The tensor data mover of gfx1250 by its descriptors: tiles of two dimensions, and rows by their numbers.

A descriptor is made of groups of words (`TdmType` has their table); every wave makes its own and issues one
instruction. Strides, shapes and padding count elements; the last of two dimensions is contiguous.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from ...errors import DSLTypeError, DSLValueError
from ..gpu import thread_idx
from ..numeric import Int32, Int64, Numeric, as_numeric
from ..tensor import Pointer, Tensor, get_iter
from ..tensors.memory import inttoptr, ptrtoint, to_llvm_ptr
from ..tensors.storage import Array
from ..tensors.tiled import copy_atom_call
from ..vector import Vector
from .cdna5 import make_tdm_atom
from .instructions import wave_id
from .schedule import s_wait_tensorcnt
from .target import need

if TYPE_CHECKING:
    from ..annotations import AtomState, IntLike, Place, SSAValue

PREFETCH_SCOPE_SE = 8
"""Into the second-level cache of a shader engine."""
PREFETCH_SCOPE_DEVICE = 16

_TYPE_BITS = -(1 << 31)
"""Says that the words are a descriptor of this kind."""
_ADDRESS_HIGH = (1 << 30) - 1
"""Of the word with the upper half of an address: the rest says the kind."""
_GATHER, _WIDE_ROWS = -(1 << 31), 1 << 30
"""Rows by their numbers, of 32 bits."""


@dataclass(frozen=True)
class TDMDescriptor2D:
    """A tile of two dimensions, as the first two groups of words."""

    dgroup0: Vector
    dgroup1: Vector


@dataclass(frozen=True)
class TDMGatherDescriptor:
    """Rows by their numbers, as all groups of words; the last two hold the numbers."""

    dgroup0: Vector
    dgroup1: Vector
    dgroup2: Vector
    dgroup3: Vector


def tensor_copy(
    src: Tensor, dst: Tensor, *, num_warps: int = 1, state: Mapping[str, AtomState] | None = None, **options: Any
) -> None:
    """Copy the whole tile between a global and a shared tensor; `state` are fields such as `extent_0`."""
    rank = max(src.rank, 1)
    atom = make_tdm_atom(src.dtype, rank, num_warps=num_warps, **options)
    copy_atom_call(atom.set_value(dict(state)) if state else atom, src, dst)


def tensor_wait(count: int = 0) -> None:
    """Wait until at most `count` of this wave's copies are outstanding."""
    s_wait_tensorcnt(count)


def compute_padding_encoding(pad_interval_elems: int, pad_amount_elems: int, elem_bits: int = 16) -> tuple[int, int]:
    """The codes of a padding: after every interval so many elements of shared memory are left out.

    >>> compute_padding_encoding(64, 8)
    (4, 3)
    """
    if not pad_interval_elems and not pad_amount_elems:
        return 0, 0
    interval, rest = divmod(pad_interval_elems * elem_bits, 32)
    amount, more = divmod(pad_amount_elems * elem_bits, 32)
    if rest or more or interval & (interval - 1) or not 2 <= interval <= 256 or not 1 <= amount <= 128:
        raise DSLValueError(
            f"padding of {pad_amount_elems} elements after {pad_interval_elems} of {elem_bits} bits cannot be encoded: "
            "the interval is a power of two of 2 to 256 words of 32 bits, the amount 1 to 128 words"
        )
    return interval.bit_length() - 2, amount - 1


def compute_warp_distribution(block_shape: Sequence[int], num_warps: int) -> tuple[list[int], list[int]]:
    """Warps along each dimension of a tile, outer ones first, and the block that each of them copies.

    >>> compute_warp_distribution([64, 32], 4), compute_warp_distribution([2, 32], 8)
    (([4, 1], [16, 32]), ([2, 4], [1, 8]))
    """
    if num_warps < 1 or num_warps & (num_warps - 1):
        raise DSLValueError(f"num_warps must be a power of two, got {num_warps}")
    left, warps = num_warps, [1] * len(block_shape)
    for i, extent in enumerate(block_shape):
        while left > 1 and 2 * warps[i] <= extent:
            warps[i] *= 2
            left //= 2
    warps[-1] *= left
    return warps, [-(-extent // n) for extent, n in zip(block_shape, warps, strict=True)]


# --- words --------------------------------------------------------------------------------------------------------


def _i32(x: IntLike | Numeric) -> Int32:
    return Int32(as_numeric(x))


def _i64(x: IntLike | Numeric) -> Int64:
    return Int64(as_numeric(x))


def _vector(*words: IntLike) -> Vector:
    return Vector.from_elements([_i32(_signed(word)) for word in words], Int32)


def _signed(word: IntLike) -> IntLike:
    """A word as a number of Int32."""
    return word - (1 << 32) if isinstance(word, int) and word >= 1 << 31 else word


def _either(a: IntLike, b: IntLike) -> IntLike:
    """Bits of both; known ones stay known."""
    if isinstance(a, int) and isinstance(b, int):
        return a | b
    return _i32(_signed(a)) | _i32(_signed(b))


def _parts(x: IntLike) -> tuple[IntLike, IntLike]:
    """The lower and the upper 16 bits of a number of 32, the lower ones in the upper half of a word."""
    if isinstance(x, int):
        return (x & 0xFFFF) << 16, x >> 16 & 0xFFFF
    number = _i32(x)
    return (number & 0xFFFF) << 16, (number >> 16) & 0xFFFF


def _known(x: IntLike) -> IntLike:
    """An int where the number is known while tracing."""
    number = as_numeric(x)
    return int(number) if number.is_static() else number


def _address(place: object, what: str) -> Numeric:
    """The address of a tensor, pointer or array."""
    at = get_iter(place) if isinstance(place, Tensor) else place.ptr if isinstance(place, Array) else place
    if not isinstance(at, Pointer):
        raise DSLTypeError(f"{what} must be a tensor, a pointer or an array, got {place!r}")
    return ptrtoint(at)


def _group0(first: int, shared: Int32, address: Int64) -> Vector:
    low, high = address.to(Int32), (address >> 32).to(Int32)
    return _vector(first, shared, low, high | _TYPE_BITS)


def _flags(elem_bytes: int, padding: tuple[int, int] | None, mask: IntLike, barrier: bool, timeout: bool) -> IntLike:
    if elem_bytes not in (1, 2, 4, 8):
        raise DSLValueError(f"elem_bytes must be 1, 2, 4 or 8, got {elem_bytes}")
    word = (elem_bytes.bit_length() - 1) << 16 | barrier << 18 | timeout << 21
    if padding is not None:
        word |= 1 << 20 | padding[0] << 22 | padding[1] << 25
    known = _known(mask)
    return _either(word, known & 0xFFFF if isinstance(known, int) else _i32(known) & 0xFFFF)


def _group1(flags: IntLike, tensor: tuple[IntLike, IntLike], tile: tuple[int, IntLike], stride: IntLike) -> Vector:
    """Extents that are left, the tile and the stride of its rows; both innermost first."""
    (low0, high0), (low1, high1) = (_parts(n) for n in tensor)
    step = _known(stride)
    if isinstance(step, int):
        words: tuple[IntLike, IntLike] = (step & 0xFFFFFFFF, step >> 32 & 0xFFFF)
    elif as_numeric(step).width == 64:
        words = (_i64(step).to(Int32), (_i64(step) >> 32).to(Int32) & 0xFFFF)
    else:
        words = (step, 0)
    return _vector(flags, low0, _either(high0, low1), _either(high1, tile[0] << 16), tile[1], *words, 0)


# --- tiles --------------------------------------------------------------------------------------------------------


def make_tensor_descriptor_2d(
    global_ptr: Place,
    lds_memref: Place,
    global_offset: tuple[IntLike, IntLike],
    tensor_shape: tuple[IntLike, IntLike],
    strides: tuple[IntLike, int],
    tile_shape: tuple[int, int],
    elem_bytes: int = 2,
    pad_interval: int = 0,
    pad_amount: int = 0,
    num_warps: int = 1,
    cache_policy: int = 0,
    pred: int = 1,
    workgroup_mask: IntLike = 0,
    lds_byte_offset: IntLike | None = None,
    for_store: bool = False,
    atomic_barrier_enable: bool = False,
    early_timeout: bool = False,
    oob_outer_bound: IntLike | None = None,
    oob_inner_bound: IntLike | None = None,
) -> TDMDescriptor2D:
    """The part of this wave of a tile of two dimensions: rows of `tile_shape[1]` neighbouring elements.

    All of the tile is copied, but rows from `oob_outer_bound` of the tensor on, and elements of a row from
    `oob_inner_bound` of the tile on: loads give 0 for them, stores leave them out. `tensor_shape` is for the reader;
    so is `cache_policy`, which the copy is told.
    """
    need("tdm_ops.make_tensor_descriptor_2d", "tdm")
    del tensor_shape, cache_policy
    if strides[1] != 1:
        raise DSLValueError(f"the last dimension must be contiguous, got the strides {strides}")
    warps, block = compute_warp_distribution(tile_shape, num_warps)
    padding = compute_padding_encoding(pad_interval, pad_amount, 8 * elem_bytes) if pad_interval else None
    row = tile_shape[1] + (pad_amount if pad_interval else 0)
    outer, inner = _i64(global_offset[0]), _i64(global_offset[1])
    shared = _i32(_address(lds_memref, "lds_memref"))
    if num_warps > 1:
        wave = wave_id()
        at = (wave % warps[0]) * block[0], (wave // warps[0]) * block[1]
        outer, inner = outer + at[0].to(Int64), inner + at[1].to(Int64)
        shared = shared + (at[0] * row + at[1]) * elem_bytes
    if lds_byte_offset is not None:
        shared = shared + _i32(lds_byte_offset)
    offset = (outer * _i64(strides[0]) + inner) * elem_bytes
    left: list[IntLike] = [block[1], block[0]]
    if oob_outer_bound is not None:
        left[1] = _at_least_zero(_i32(oob_outer_bound) - outer.to(Int32))
    if oob_inner_bound is not None:
        if num_warps > 1 or _known(global_offset[1]) != 0:
            raise DSLValueError("oob_inner_bound is for one warp, and for tiles that begin with their rows")
        left[0] = _at_least_zero(_i32(oob_inner_bound))
    # A store walks shared memory as it is: what is padding there lies outside of the row.
    width = block[1] + (pad_amount if for_store and padding is not None else 0)
    flags = _flags(elem_bytes, None if for_store else padding, workgroup_mask, atomic_barrier_enable, early_timeout)
    return TDMDescriptor2D(
        _group0(pred, shared, _i64(_address(global_ptr, "global_ptr")) + offset),
        _group1(flags, (left[0], left[1]), (width, block[0]), strides[0]),
    )


def _at_least_zero(x: Int32) -> Int32:
    return (x > 0).select(x, Int32(0))


def tensor_load_2d(desc: TDMDescriptor2D, cache_policy: int = 0) -> None:
    """Copy a tile from global to shared memory; `tensor_wait` says when it is there."""
    _issue("load.to.lds", (desc.dgroup0, desc.dgroup1), cache_policy)


def tensor_store_2d(desc: TDMDescriptor2D, cache_policy: int = 0) -> None:
    """Copy a tile from shared to global memory."""
    _issue("store.from.lds", (desc.dgroup0, desc.dgroup1), cache_policy)


def tensor_load_to_lds(
    dgroup0: Vector | SSAValue,
    dgroup1: Vector | SSAValue,
    dgroup2: Vector | SSAValue,
    dgroup3: Vector | SSAValue,
    dgroup4: Vector | SSAValue | None = None,
    cache_policy: int | None = None,
    **kw: object,
) -> None:
    """The instruction by the groups of its descriptor; the fifth must be zero, which hardware has no use for yet.

    >>> def move():
    ...     none, more = fx.Vector.filled(4, 0, fx.Int32), fx.Vector.filled(8, 0, fx.Int32)
    ...     fx.rocdl.tensor_load_to_lds(none, more, none, none, more)
    >>> flyc.evaluate(move, target="cpu:gfx1250")
    """
    _raw("load.to.lds", (dgroup0, dgroup1, dgroup2, dgroup3), dgroup4, cache_policy, kw)


def tensor_store_from_lds(
    dgroup0: Vector | SSAValue, dgroup1: Vector | SSAValue, dgroup2: Vector | SSAValue, dgroup3: Vector | SSAValue,
    dgroup4: Vector | SSAValue | None = None, cache_policy: int | None = None, **kw: object,
) -> None:  # fmt: skip
    """The instruction from shared to global memory; see `tensor_load_to_lds`.

    >>> def move():
    ...     none, more = fx.Vector.filled(4, 0, fx.Int32), fx.Vector.filled(8, 0, fx.Int32)
    ...     fx.rocdl.tensor_store_from_lds(none, more, none, none, more)
    >>> flyc.evaluate(move, target="cpu:gfx1250")
    """
    _raw("store.from.lds", (dgroup0, dgroup1, dgroup2, dgroup3), dgroup4, cache_policy, kw)


def _raw(
    name: str,
    groups: Sequence[Vector | SSAValue],
    fifth: Vector | SSAValue | None,
    cache_policy: int | None,
    more: Mapping[str, object],
) -> None:
    from . import emit

    unknown = sorted(set(more) - {"loc", "ip"})
    if unknown:
        raise DSLTypeError(f"tensor.{name}: unexpected keyword {', '.join(unknown)}")
    if fifth is not None and not emit.is_zero(fifth.ir_value() if isinstance(fifth, Vector) else fifth):
        raise DSLValueError(f"tensor.{name}: the fifth group must be a constant 0, got {fifth!r}")
    _issue(name, groups, cache_policy or 0)


def _issue(name: str, groups: Sequence[Vector | SSAValue], cache_policy: int) -> None:
    from . import emit

    need(f"tensor.{name}", "tdm")
    values = [group.ir_value() if isinstance(group, Vector) else group for group in groups]
    short = len(values) == 2 or all(emit.is_zero(value) for value in values[2:])
    form, used = (".d2", values[:2]) if short else ("", values)
    emit.intrinsic(f"llvm.amdgcn.tensor.{name}{form}", None, [*used, Int32(cache_policy).ir_value()])


# --- rows by their numbers ----------------------------------------------------------------------------------------


def make_tensor_gather_dgroup0(
    global_ptr: Place,
    lds_memref: Place,
    *,
    index_size: int = 32,
    lds_byte_offset: IntLike | None = None,
    global_byte_offset: IntLike | None = None,
) -> Vector:
    """The group of a gather that holds the addresses."""
    need("tdm_ops.make_tensor_gather_dgroup0", "tdm")
    if index_size not in (16, 32):
        raise DSLValueError(f"index_size must be 16 or 32, got {index_size}")
    shared = _i32(_address(lds_memref, "lds_memref"))
    address = _i64(_address(global_ptr, "global_ptr"))
    if lds_byte_offset is not None:
        shared = shared + _i32(lds_byte_offset)
    if global_byte_offset is not None:
        address = address + _i64(global_byte_offset)
    return _group0(1 | _GATHER | (_WIDE_ROWS if index_size == 32 else 0), shared, address)


def make_tensor_gather_descriptor(
    global_ptr: Place,
    lds_memref: Place,
    row_indices: Sequence[IntLike],
    row_width: int,
    tensor_dim0: int,
    tensor_dim1: IntLike,
    stride: IntLike,
    elem_bytes: int = 1,
    pad_interval: int = 0,
    pad_amount: int = 0,
    index_size: int = 32,
    gather_tile_dim1: IntLike | None = None,
    lds_byte_offset: IntLike | None = None,
    global_byte_offset: IntLike | None = None,
    workgroup_mask: IntLike = 0,
) -> TDMGatherDescriptor:
    """Rows of a tensor by their numbers, one after the other in shared memory: up to 8, or 16 of 16 bits.

    `tensor_dim0` and `tensor_dim1` are the extents of the tensor: elements and rows beyond arrive as 0 and are not
    written. `gather_tile_dim1` says how many of the numbers count.
    """
    most = 8 if index_size == 32 else 16
    if not 1 <= len(row_indices) <= most:
        raise DSLValueError(f"a gather takes 1 to {most} rows by numbers of {index_size} bits, got {len(row_indices)}")
    if row_width * elem_bytes % 4:
        raise DSLValueError(f"a row must be whole words of 4 bytes, got {row_width} elements of {elem_bytes}")
    padding = compute_padding_encoding(pad_interval, pad_amount, 8 * elem_bytes) if pad_interval else None
    count = _known(len(row_indices) if gather_tile_dim1 is None else gather_tile_dim1)
    rows = [_i32(row) for row in row_indices]
    rows += [Int32(0)] * (most - len(rows))
    if index_size == 16:
        rows = [(rows[i] & 0xFFFF) | (rows[i + 1] << 16) for i in range(0, most, 2)]
    flags = _flags(elem_bytes, padding, workgroup_mask, False, False)
    group0 = make_tensor_gather_dgroup0(
        global_ptr, lds_memref, index_size=index_size, lds_byte_offset=lds_byte_offset,
        global_byte_offset=global_byte_offset,
    )  # fmt: skip
    group1 = _group1(flags, (tensor_dim0, _known(tensor_dim1)), (row_width, count), stride)
    return TDMGatherDescriptor(group0, group1, _vector(*rows[:4]), _vector(*rows[4:]))


def tensor_load_gather(desc: TDMGatherDescriptor, cache_policy: int = 0) -> None:
    """Copy rows from global to shared memory."""
    _gather("load.to.lds", desc, cache_policy)


def tensor_store_gather(desc: TDMGatherDescriptor, cache_policy: int = 0) -> None:
    """Copy rows from shared to global memory."""
    _gather("store.from.lds", desc, cache_policy)


def _gather(name: str, desc: TDMGatherDescriptor, cache_policy: int) -> None:
    from . import emit

    need(f"tensor.{name}", "tdm")
    values = [group.ir_value() for group in (desc.dgroup0, desc.dgroup1, desc.dgroup2, desc.dgroup3)]
    emit.intrinsic(f"llvm.amdgcn.tensor.{name}", None, [*values, Int32(cache_policy).ir_value()])


# --- another address ----------------------------------------------------------------------------------------------


def _with_words(group: Vector, words: Mapping[int, IntLike]) -> Vector:
    items: list[Any] = [_i32(words[i]) if i in words else group[i] for i in range(4)]
    return Vector.from_elements(items, Int32)


def add_addr_with_carry(base_addr_lo: IntLike, base_addr_hi: IntLike, delta_i32: IntLike) -> tuple[Int32, Int32]:
    """The words of an address so many bytes further on; what the upper one says besides the address stays."""
    low, high = _i32(base_addr_lo), _i32(base_addr_hi)
    total = (low.to(Int64) & 0xFFFFFFFF) + (_i32(delta_i32).to(Int64) & 0xFFFFFFFF)
    upper = ((high & _ADDRESS_HIGH) + (total >> 32).to(Int32)) & _ADDRESS_HIGH
    return total.to(Int32), upper | (high & ~_ADDRESS_HIGH)


def update_tensor_descriptor_2d_addr_lo(desc: TDMDescriptor2D, new_addr_lo: IntLike) -> TDMDescriptor2D:
    """Another lower word of the address."""
    return replace(desc, dgroup0=_with_words(desc.dgroup0, {2: new_addr_lo}))


def update_tensor_descriptor_2d_addr_lo_hi(
    desc: TDMDescriptor2D, new_addr_lo: IntLike, new_addr_hi: IntLike
) -> TDMDescriptor2D:
    """Both words of another address."""
    return replace(desc, dgroup0=_with_words(desc.dgroup0, {2: new_addr_lo, 3: new_addr_hi}))


def update_tensor_descriptor_2d_lds_addr(desc: TDMDescriptor2D, new_lds_addr: IntLike) -> TDMDescriptor2D:
    """Another place in shared memory."""
    return replace(desc, dgroup0=_with_words(desc.dgroup0, {1: new_lds_addr}))


def update_tensor_descriptor_2d_addr64(
    desc: TDMDescriptor2D, base_addr_lo: IntLike, base_addr_hi: IntLike, delta_i32: IntLike
) -> TDMDescriptor2D:
    """An address so many bytes behind a base."""
    return update_tensor_descriptor_2d_addr_lo_hi(desc, *add_addr_with_carry(base_addr_lo, base_addr_hi, delta_i32))


def update_tensor_gather_descriptor_addr_lo(desc: TDMGatherDescriptor, new_addr_lo: IntLike) -> TDMGatherDescriptor:
    """Another lower word of the address."""
    return replace(desc, dgroup0=_with_words(desc.dgroup0, {2: new_addr_lo}))


def update_tensor_gather_descriptor_addr_lo_hi(
    desc: TDMGatherDescriptor, new_addr_lo: IntLike, new_addr_hi: IntLike
) -> TDMGatherDescriptor:
    """Both words of another address."""
    return replace(desc, dgroup0=_with_words(desc.dgroup0, {2: new_addr_lo, 3: new_addr_hi}))


def update_tensor_gather_descriptor_addr64(
    desc: TDMGatherDescriptor, base_addr_lo: IntLike, base_addr_hi: IntLike, delta_i32: IntLike
) -> TDMGatherDescriptor:
    """An address so many bytes behind a base."""
    return update_tensor_gather_descriptor_addr_lo_hi(desc, *add_addr_with_carry(base_addr_lo, base_addr_hi, delta_i32))


def l2_prefetch_tile(
    global_ptr: Place,
    global_offset: tuple[IntLike, IntLike],
    tile_shape: tuple[int, int],
    strides: tuple[IntLike, int],
    elem_bytes: int = 2,
    num_warps: int = 1,
    wave_id: IntLike | None = None,
    thread_id: IntLike | None = None,
    block_threads: int = 256,
    scope: int = PREFETCH_SCOPE_SE,
) -> None:
    """Ask for the begin of the rows of a tile, a row for each thread, to be in the cache soon.

    `num_warps`, `wave_id` and `block_threads` change nothing: the number of the thread says its row.
    """
    from . import emit

    need("tdm_ops.l2_prefetch_tile", "tdm")
    del num_warps, wave_id, block_threads
    thread = thread_idx.x if thread_id is None else thread_id
    row = _i64(global_offset[0]) + _i64(_i32(thread) % tile_shape[0])
    offset = (row * _i64(strides[0]) + _i64(global_offset[1]) * strides[1]) * elem_bytes
    at = get_iter(global_ptr) if isinstance(global_ptr, Tensor) else cast("Pointer", global_ptr)
    place = inttoptr(cast("Any", at.type), _i64(_address(global_ptr, "global_ptr")) + offset)
    emit.intrinsic("llvm.amdgcn.global.prefetch", None, [to_llvm_ptr(place), Int32(scope).ir_value()])


__all__ = [
    "PREFETCH_SCOPE_DEVICE", "PREFETCH_SCOPE_SE", "TDMDescriptor2D", "TDMGatherDescriptor", "add_addr_with_carry",
    "compute_padding_encoding", "compute_warp_distribution", "l2_prefetch_tile", "make_tensor_descriptor_2d",
    "make_tensor_gather_descriptor", "make_tensor_gather_dgroup0", "tensor_copy", "tensor_load_2d",
    "tensor_load_gather", "tensor_load_to_lds", "tensor_store_2d", "tensor_store_from_lds", "tensor_store_gather",
    "tensor_wait", "update_tensor_descriptor_2d_addr64", "update_tensor_descriptor_2d_addr_lo",
    "update_tensor_descriptor_2d_addr_lo_hi", "update_tensor_descriptor_2d_lds_addr",
    "update_tensor_gather_descriptor_addr64", "update_tensor_gather_descriptor_addr_lo",
    "update_tensor_gather_descriptor_addr_lo_hi",
]  # fmt: skip
