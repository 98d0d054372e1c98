"""The older, lower-level door to buffer memory: resources, and loads and stores at run-time offsets.

`rsrc = create_buffer_resource(t)`, then `buffer_load(rsrc, offset, vec_width=4, dtype=fx.Float32)`. Offsets count
elements of the type moved. Where the resource has a size, a false `mask` becomes an offset beyond it, so the hardware
drops the access; a resource of all a descriptor can express has nothing beyond it, and is accessed in a branch. The
resource is a buffer pointer to bytes, an ordinary DSL value; `fx.rocdl.get_buffer_rsrc` gives the raw descriptor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import DSLTypeError, DSLValueError
from ..ir.enums import AddressSpace
from .control.control_flow import if_, if_expr
from .numeric import Boolean, Float32, Int8, Int32, Int64, Numeric, as_dsl_value, as_numeric
from .rocdl.buffers import BufferDesc, make_buffer_ptr, tensor_bytes
from .tensor import Pointer, Tensor, get_iter, recast_iter
from .tensors.memory import inttoptr
from .vector import Vector

if TYPE_CHECKING:
    from .annotations import DTypeLike, IntLike, ScalarLike, SSAValue, Value, ValueLike


_NOWHERE = 0x7FFFFFFF
"""A byte offset out of range of every buffer smaller than 2 GiB, as those given by a size are promised to be."""
_SCALAR_BITS = (32, 64, 96, 128, 256, 512)


def _emit():
    from .rocdl import emit

    return emit


def create_buffer_resource(
    tensor: object,
    stride: int = 0,
    max_size: bool = True,
    *,
    num_records_bytes: IntLike | None = None,
    base_byte_offset: IntLike | None = None,
) -> Pointer:
    """The resource of a global tensor or pointer.

    Its size is all a descriptor can express, or `num_records_bytes`, or with `max_size=False` what the tensor reaches.

    >>> def second(x):
    ...     rsrc = fx.buffer_ops.create_buffer_resource(x)
    ...     return fx.buffer_ops.buffer_load(rsrc, 1, vec_width=2)
    >>> flyc.evaluate(second, np.arange(4, dtype="f4"), target="cpu:gfx942")
    [1.0, 2.0]
    """
    if stride:
        raise DSLValueError(f"only raw buffers (stride 0) are supported, got stride {stride}")
    if isinstance(tensor, Tensor):
        base = get_iter(tensor)
    elif isinstance(tensor, Pointer):
        base = tensor
    else:
        raise DSLTypeError(f"create_buffer_resource expects a tensor or a pointer, got {tensor!r}")
    size = num_records_bytes
    if size is None and not max_size:
        if not isinstance(tensor, Tensor):
            raise DSLValueError("create_buffer_resource: a pointer has no size; give num_records_bytes")
        size = tensor_bytes(tensor)
    base = recast_iter(Int8, base)
    if base_byte_offset is not None:
        base = base + as_numeric(base_byte_offset)
    return make_buffer_ptr(base, size)


def create_buffer_resource_from_addr(addr: ScalarLike, *, num_records_bytes: IntLike | None = None) -> Pointer:
    """The resource of an address in global memory.

    >>> def second(x):
    ...     rsrc = fx.buffer_ops.create_buffer_resource_from_addr(fx.ptrtoint(fx.get_iter(x)))
    ...     return fx.buffer_ops.buffer_load(rsrc, 1, vec_width=1)
    >>> flyc.evaluate(second, np.arange(4, dtype="f4"), target="cpu:gfx942")
    1.0
    """
    from .emit.ir_types import PointerType

    return make_buffer_ptr(
        inttoptr(PointerType.get(Int8.ir_type, AddressSpace.Global), Int64(as_numeric(addr))), num_records_bytes
    )


def _check(rsrc: object) -> Pointer:
    if not isinstance(rsrc, Pointer) or rsrc.address_space != BufferDesc:
        raise DSLTypeError(f"expected a buffer resource, as create_buffer_resource gives it, got {rsrc!r}")
    return rsrc


def _place(rsrc: Pointer, offset: ScalarLike, nbytes: int, mask: ScalarLike | None) -> Pointer:
    """The byte pointer of an access; where `mask` is false, one out of range."""
    at = Int32(as_numeric(offset)) * nbytes if nbytes != 1 else Int32(as_numeric(offset))
    if mask is not None:
        at = Boolean(as_numeric(mask)).select(at, Int32(_NOWHERE))
    return rsrc + at


def _soffset(soffset_bytes: IntLike | None) -> SSAValue:
    return Int32(0 if soffset_bytes is None else as_numeric(soffset_bytes)).ir_value()


def as_class(dtype: DTypeLike) -> type[Numeric]:
    """A scalar class, also from an IR type."""
    found = dtype if isinstance(dtype, type) else Numeric.from_ir_type(dtype)
    return found


def buffer_load(
    rsrc: Pointer,
    offset: ScalarLike,
    vec_width: int = 4,
    dtype: type[Numeric] | None = None,
    mask: ScalarLike | None = None,
    cache_modifier: int = 0,
    soffset_bytes: IntLike | None = None,
    is_scalar: bool = False,
) -> Any:
    """`vec_width` values of `dtype` (Float32) from element `offset` on: a Vector, or a scalar when it is one.

    `is_scalar` promises that the address is the same in all lanes: a scalar load (`s_buffer_load`) of whole dwords.

    >>> def example(x):
    ...     return fx.buffer_ops.buffer_load(fx.buffer_ops.create_buffer_resource(x), 2, vec_width=1)
    >>> flyc.evaluate(example, np.arange(4, dtype="f4"), target="cpu:gfx942")
    2.0
    """
    cls = Float32 if dtype is None else as_class(dtype)
    if vec_width not in (1, 2, 3, 4, 8, 16):
        raise DSLValueError(f"buffer_load: vec_width must be 1, 2, 3, 4, 8 or 16, got {vec_width}")
    if is_scalar and cls.width * vec_width not in _SCALAR_BITS:
        raise DSLValueError(
            f"buffer_load: a scalar load reads {', '.join(map(str, _SCALAR_BITS))} bits, "
            f"{vec_width} values of {cls} are {cls.width * vec_width}"
        )
    rsrc = _check(rsrc)
    type_ = cls.ir_type
    if vec_width > 1:
        from ..ir.types import vector_type

        type_ = vector_type(cls.ir_type, vec_width)

    def load(mask: ScalarLike | None = None) -> Value:
        pointer = _place(rsrc, offset, cls.width // 8, mask)
        value = _emit().buffer_load(pointer, type_, _soffset(soffset_bytes), cache_modifier, is_scalar)
        return cls(value) if vec_width == 1 else Vector(value, (vec_width,), cls)

    if mask is None or _emit().is_bounded(rsrc, _NOWHERE):
        return load(mask)
    return if_expr(
        Boolean(as_numeric(mask)), load, lambda: cls(0) if vec_width == 1 else Vector.filled(vec_width, cls(0), cls)
    )


def buffer_store(
    data: ValueLike,
    rsrc: Pointer,
    offset: ScalarLike,
    mask: ScalarLike | None = None,
    cache_modifier: int = 0,
    *,
    soffset_bytes: IntLike | None = None,
    offset_is_bytes: bool = False,
) -> None:
    """Write a scalar or a Vector at element `offset`, or at a byte offset.

    >>> def put(x):
    ...     fx.buffer_ops.buffer_store(fx.Float32(9.0), fx.buffer_ops.create_buffer_resource(x), 1)
    ...     return x[1]
    >>> flyc.evaluate(put, np.arange(4, dtype="f4"), target="cpu:gfx942")
    9.0
    """
    value: Vector | Numeric = as_dsl_value(data)
    cls = value.dtype
    rsrc = _check(rsrc)

    def store(mask: ScalarLike | None = None) -> None:
        pointer = _place(rsrc, offset, 1 if offset_is_bytes else cls.width // 8, mask)
        _emit().buffer_store(value.ir_value(), pointer, _soffset(soffset_bytes), cache_modifier)

    if mask is None or _emit().is_bounded(rsrc, _NOWHERE):
        store(mask)
    else:
        if_(Boolean(as_numeric(mask)), store, None, ())


__all__ = ["buffer_load", "buffer_store", "create_buffer_resource", "create_buffer_resource_from_addr"]
