"""Low-level memory functions: addresses as numbers, raw pointers, allocation, swizzled addresses."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ..dialects.enums import AddressSpace
from ..errors import DSLTypeError, DSLValueError
from .algebra_values import Layout, Swizzle, current_ir
from .numeric import Index, Int32, Int64, as_numeric
from .tensor import Pointer, Tensor


def make_ptr(type_: Any, args: Sequence[Any] = (), *, dict_attrs: Mapping[str, Any] | None = None) -> Pointer:
    """A pointer of an IR type from its parts, or to fresh memory: `{"allocSize": n}`, `{"allocBytes": n, ...}`."""
    return current_ir().make_pointer(type_, args, dict_attrs)


def inttoptr(ptr_type: Any, value: Any) -> Pointer:
    """The pointer of an IR pointer type at an integer address."""
    return current_ir().int_to_pointer(ptr_type, as_numeric(value))


def ptrtoint(pointer: Pointer) -> Any:
    """The address as a number: `Int64` in global memory, `Int32` in shared memory."""
    if not isinstance(pointer, Pointer):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"ptrtoint expects a Pointer, got {pointer!r}")
    if pointer.address_space not in (AddressSpace.Global, AddressSpace.Shared):
        raise DSLValueError(f"ptrtoint needs a Global or Shared pointer, got {pointer.address_space!r}")
    cls = Int32 if pointer.address_space is AddressSpace.Shared else Int64
    return cls(current_ir().pointer_to_int(pointer))


def to_llvm_ptr(pointer: Pointer, llvm_address_space: int | None = None) -> Any:
    """The raw target pointer, an IR value of type `!llvm.ptr`."""
    return current_ir().raw_pointer(pointer, llvm_address_space)


def apply_swizzle(pointer: Pointer, swizzle: Swizzle) -> Pointer:
    """The pointer whose byte address is swizzled at each access."""
    if not isinstance(swizzle, Swizzle):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(
            f"apply_swizzle expects a Swizzle, as in fx.static(fx.SwizzleType.get(3, 4, 3)), got {swizzle!r}"
        )
    return current_ir().swizzled_pointer(pointer, swizzle)


def memref_alloca(memref_type: Any, layout: Layout) -> Tensor:
    """A register tensor of an IR memref type; `make_rmem_tensor` is easier."""
    return current_ir().alloca(memref_type, layout)


def is_generic_address_space(space: Any, expected: AddressSpace) -> bool:
    """Whether an address space of a pointer is this one of the four that every target has.

    >>> is_generic_address_space(AddressSpace.Shared, AddressSpace.Shared)
    True
    """
    return isinstance(space, AddressSpace) and space is expected


def is_target_address_space(space: Any, expected: Any) -> bool:
    """Whether an address space of a pointer is this one of the target's own.

    >>> is_target_address_space(AddressSpace.Shared, AddressSpace.Shared)
    False
    """
    return not isinstance(space, AddressSpace) and space == getattr(expected, "attr", expected)


def get(t: Any, index: int) -> Any:
    """Deprecated: leaf `index` of a tuple as an `Index`; write `t[i]` or `t.unpack()[i]`."""
    from .layout_functions import get_scalar

    warnings.warn("fx.get is deprecated; use t[i] or t.unpack()", DeprecationWarning, stacklevel=2)
    return Index(get_scalar(t[index]))


def assume(*_: Any) -> Any:
    """Exists in the name list of the language, and is not supported."""
    raise NotImplementedError("fx.assume is not supported; promise alignment and divisibility in the host adapters")


__all__ = [
    "apply_swizzle",
    "assume",
    "get",
    "inttoptr",
    "is_generic_address_space",
    "is_target_address_space",
    "make_ptr",
    "memref_alloca",
    "ptrtoint",
    "to_llvm_ptr",
]
