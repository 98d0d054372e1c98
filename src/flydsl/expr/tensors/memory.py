"""Low-level memory functions: addresses as numbers, raw pointers, allocation, swizzled addresses."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from ...errors import DSLTypeError, DSLValueError
from ...ir.enums import AddressSpace
from ..aliases import also_called
from ..numeric import Index, Int32, Int64, as_numeric
from ..tensor import Pointer, Tensor
from .algebra_values import Layout, Swizzle, current_ir

if TYPE_CHECKING:
    from ..annotations import Attribute, ScalarLike, SSAValue
    from .algebra_values import IntTuple


@also_called(type_="result_type")
def make_ptr(
    result_type: Attribute, args: Sequence[object] = (), *, dict_attrs: Mapping[str, int | Attribute] | None = None
) -> Pointer:
    """A pointer of an IR type from its parts, or to fresh memory: `{"allocSize": n}`, `{"allocBytes": n, ...}`.

    >>> def scratch():
    ...     p = fx.make_ptr(fx.PointerType.get(fx.T.f32, fx.AddressSpace.Register, 4), dict_attrs={"allocSize": 2})
    ...     p[1] = 2.5
    ...     return p[1]
    >>> flyc.evaluate(scratch)
    2.5
    """
    return current_ir().make_pointer(result_type, args, dict_attrs)


@also_called(ptr_type="result_type", value="src")
def inttoptr(result_type: Attribute, src: ScalarLike) -> Pointer:
    """The pointer of an IR pointer type at an integer address.

    >>> def through_a_number(x):
    ...     p = fx.get_iter(x)
    ...     again = fx.inttoptr(fx.PointerType.get(fx.T.f32, fx.AddressSpace.Global, 4), fx.ptrtoint(p))
    ...     return again[1]
    >>> flyc.evaluate(through_a_number, np.array([1, 2], "f4"))
    2.0
    """
    return current_ir().int_to_pointer(result_type, as_numeric(src))


@also_called(pointer="ptr")
def ptrtoint(ptr: Pointer) -> Int32 | Int64:
    """The address as a number: `Int64` in global memory, `Int32` in shared memory.

    >>> flyc.evaluate(lambda x: fx.ptrtoint(fx.get_iter(x) + 3) - fx.ptrtoint(fx.get_iter(x)), np.zeros(4, "f4"))
    12
    """
    if not isinstance(ptr, Pointer):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"ptrtoint expects a Pointer, got {ptr!r}")
    if ptr.address_space not in (AddressSpace.Global, AddressSpace.Shared):
        raise DSLValueError(f"ptrtoint needs a Global or Shared pointer, got {ptr.address_space!r}")
    cls = Int32 if ptr.address_space is AddressSpace.Shared else Int64
    return cls(current_ir().pointer_to_int(ptr))


@also_called(pointer="ptr")
def to_llvm_ptr(ptr: Pointer, llvm_address_space: int | None = None) -> SSAValue:
    """The raw target pointer, an IR value of type `!llvm.ptr`.

    >>> flyc.evaluate(lambda x: str(fx.to_llvm_ptr(fx.get_iter(x)).type), np.zeros(4, "f4"))
    '!llvm.ptr<1>'
    """
    return current_ir().raw_pointer(ptr, llvm_address_space)


@also_called(pointer="ptr")
def apply_swizzle(ptr: Pointer, swizzle: Swizzle) -> Pointer:
    """The pointer whose byte address is swizzled at each access.

    >>> def swizzled(x):
    ...     p = fx.apply_swizzle(fx.get_iter(x), fx.static(fx.SwizzleType.get(1, 2, 1)))
    ...     return [p[i] for i in range(4)]
    >>> flyc.evaluate(swizzled, np.arange(4, dtype="i4"))
    [0, 1, 3, 2]
    """
    if not isinstance(swizzle, Swizzle):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(
            f"apply_swizzle expects a Swizzle, as in fx.static(fx.SwizzleType.get(3, 4, 3)), got {swizzle!r}"
        )
    return current_ir().swizzled_pointer(ptr, swizzle)


def memref_alloca(memref_type: Attribute, layout: Layout) -> Tensor:
    """A register tensor of an IR memref type; `make_rmem_tensor` is easier.

    >>> def registers():
    ...     layout = fx.make_layout(2, 1)
    ...     t = fx.memref_alloca(fx.MemRefType.get(fx.T.f32, fx.AddressSpace.Register, layout, 4), layout)
    ...     t.fill(1.5)
    ...     return t
    >>> flyc.evaluate(registers)
    [1.5, 1.5]
    """
    return current_ir().alloca(memref_type, layout)


@also_called(space="address_space")
def is_generic_address_space(address_space: object, expected: AddressSpace) -> bool:
    """Whether an address space of a pointer is this one of the four that every target has.

    >>> is_generic_address_space(AddressSpace.Shared, AddressSpace.Shared)
    True
    """
    return isinstance(address_space, AddressSpace) and address_space is expected


@also_called(space="address_space")
def is_target_address_space(address_space: object, expected: object) -> bool:
    """Whether an address space of a pointer is this one of the target's own.

    >>> is_target_address_space(AddressSpace.Shared, AddressSpace.Shared)
    False
    """
    return not isinstance(address_space, AddressSpace) and address_space == getattr(expected, "attr", expected)


@also_called(t="int_tuple", index="mode")
def get(int_tuple: IntTuple, mode: int) -> Index:
    """Deprecated: leaf `mode` of a tuple as an `Index`; write `int_tuple[i]` or `int_tuple.unpack()[i]`.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     third = flyc.evaluate(lambda n: fx.get(fx.make_shape(1, 2, n), 2), 7)
    >>> third
    7
    """
    from .layout_functions import get_scalar

    warnings.warn("fx.get is deprecated; use t[i] or t.unpack()", DeprecationWarning, stacklevel=2)
    return Index(get_scalar(int_tuple[mode]))


def assume(result_type: object = None, dst: object = None, src: object = None) -> NoReturn:
    """Exists in the name list of the language, and is not supported.

    >>> try:
    ...     fx.assume()
    ... except NotImplementedError as error:
    ...     print(error)
    fx.assume is not supported; promise alignment and divisibility in the host adapters
    """
    raise NotImplementedError("fx.assume is not supported; promise alignment and divisibility in the host adapters")
