"""Shared memory by byte offsets, as older kernels of FlyDSL lay it out: an allocator that counts, and typed places.

    allocator = SmemAllocator(None, arch="gfx942")
    offset = allocator.ptr
    allocator.ptr = offset + 64 * 4                       # 64 floats
    ...
    tile = SmemPtr(allocator.get_base(), offset, fx.Float32, shape=(64,))     # in the kernel
    tile.store(value, [i])

New code uses `fx.SharedAllocator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from ...errors import DSLRuntimeError, DSLTypeError, DSLValueError
from ..emit.trace import maybe_current
from ..numeric import Index, Int8, Numeric, as_numeric, dsl_class
from ..tensor import Pointer, Tensor, get_iter, make_view, recast_iter
from .algebra_values import current_ir
from .layout_functions import make_layout

if TYPE_CHECKING:
    from ..annotations import DTypeLike, IntLike, SSAValue, ValueLike

_ALIGN = 1024


class SmemAllocator:
    """Counts the bytes of shared memory that a kernel wants: `ptr` is where the next ones begin."""

    __dsl_captured__ = True

    def __init__(self, ctx: object, arch: str | None = None, global_sym_name: str = "smem_storage"):
        self.ctx = ctx
        self.arch = arch
        self.global_sym_name = global_sym_name
        self.ptr = 0
        """Bytes in use so far."""

    def __fly_cache_key__(self) -> object:
        return self.ptr, self.arch, self.global_sym_name

    @staticmethod
    def _align(offset: int, alignment: int) -> int:
        return -(-offset // alignment) * alignment

    def get_base(self) -> Pointer:
        """The first byte, in a kernel; the memory has the size that `ptr` says when it is first asked for."""
        tracer = maybe_current()
        frame = tracer.functions[-1] if tracer is not None and tracer.functions else None
        if not getattr(frame, "is_kernel", False):
            raise DSLRuntimeError("SmemAllocator.get_base is memory of a block: ask for it inside a @kernel function")
        if self.ptr <= 0:
            raise DSLValueError("nothing is allocated: set allocator.ptr to the number of bytes first")
        known = frame.__dict__.setdefault("smem_bases", {})
        found = known.get(id(self))
        if found is None:
            self.finalize()
            # The allocator is kept with it: another one may not get its id.
            found = known[id(self)] = (self.ptr, current_ir().shared_pointer(self.ptr, _ALIGN), self)
        if found[0] != self.ptr:
            raise DSLRuntimeError(
                f"the kernel has {found[0]} bytes from this allocator, and {self.ptr} were allocated since; allocate "
                "everything before the first get_base()"
            )
        return found[1]

    def finalize(self) -> None:
        """Check that a block of the architecture can have the memory."""
        import_module("flydsl.runtime.device").check_smem_capacity(self.ptr, self.arch)


class SmemPtr:
    """A place in shared memory: one element, or an array of a shape, row-major."""

    __dsl_captured__ = True

    def __init__(
        self,
        base_memref: Pointer | Tensor,
        byte_offset: IntLike,
        element_type: DTypeLike,
        shape: Sequence[int] | None = None,
    ):
        base = get_iter(base_memref) if isinstance(base_memref, Tensor) else base_memref
        if not isinstance(base, Pointer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"SmemPtr needs what SmemAllocator.get_base() gives, got {base_memref!r}")
        self.base_memref = base
        self.byte_offset = byte_offset
        self.element_type = dsl_class(element_type)
        self.shape = None if shape is None else tuple(shape)

    def get(self) -> Tensor:
        """The place as a tensor."""
        shape = (1,) if self.shape is None else self.shape
        steps = [1]
        for extent in reversed(shape[1:]):
            steps.insert(0, steps[0] * extent)
        at = recast_iter(Int8, self.base_memref) + self.byte_offset
        return make_view(recast_iter(self.element_type, at), make_layout(shape, tuple(steps)))

    def _coord(self, idxs: Sequence[IntLike] | None) -> tuple[IntLike, ...]:
        rank = 1 if self.shape is None else len(self.shape)
        if idxs is None:
            return (0,) * rank
        if len(idxs) != rank:
            raise DSLValueError(f"expected {rank} indices, got {len(idxs)}")
        return tuple(as_numeric(i) if not isinstance(i, int) else i for i in idxs)

    def load(self, idxs: Sequence[IntLike] | None = None) -> Numeric:
        """The element at an index; the first one without."""
        return self.get()[self._coord(idxs)]

    def store(self, val: ValueLike, idxs: Sequence[IntLike] | None = None) -> None:
        """Write the element at an index; the first one without."""
        self.get()[self._coord(idxs)] = val


class _HasResults(Protocol):
    results: Sequence[SSAValue]


def get_mlir_type_size(mlir_type: DTypeLike) -> int:
    """Bytes of a value of an IR type.

    >>> get_mlir_type_size(fx.T.f16)
    2
    """
    from ...ir.types import bit_width

    type_ = mlir_type.ir_type if isinstance(mlir_type, type) else mlir_type
    return max((bit_width(type_) + 7) // 8, 1)


def get_mlir_type_align(mlir_type: DTypeLike) -> int:
    """Alignment of a value of an IR type in bytes: its size."""
    return get_mlir_type_size(mlir_type)


def get_op_result_or_value(op_or_val: object) -> object:
    """The value that an operation gives, or the value itself."""
    return cast(_HasResults, op_or_val).results[0] if hasattr(op_or_val, "results") else op_or_val


def get_index_value(op_or_val: object) -> Index:
    """An index as a value of the language: of a number, an operation or a value."""
    return Index(as_numeric(get_op_result_or_value(op_or_val)))
