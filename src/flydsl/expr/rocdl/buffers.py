"""Buffer memory: bounds-checked views of global memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import layout as L
from ...errors import DSLTypeError, DSLValueError
from ...ir.enums import AddressSpace
from ..aliases import also_called
from ..numeric import Int64, as_numeric
from ..tensor import Pointer, Tensor, get_iter, make_view
from ..tensors.layout_functions import cosize
from .target import emitter, usual_gfx

if TYPE_CHECKING:
    from ..annotations import Attribute, IntLike, SSAValue


class _BufferDesc:
    """The address space of buffer pointers, as `tensor.memspace` gives it.

    >>> def space(x):
    ...     return fx.rocdl.make_buffer_tensor(x).memspace == fx.rocdl.BufferDesc
    >>> flyc.evaluate(space, np.zeros(4, "f4"), target="cpu:gfx942")
    True
    """

    @property
    def attr(self) -> Attribute:
        """The IR attribute."""
        from ...dialects.fly_rocdl.buffer import BUFFER

        return BUFFER

    def __eq__(self, other: object) -> bool:
        return other is self or other == self.attr

    def __hash__(self) -> int:
        return hash("fly_rocdl.buffer_desc")

    def __repr__(self) -> str:
        return "BufferDesc"


BufferDesc = _BufferDesc()


@also_called(p="ptr")
def make_buffer_ptr(ptr: Pointer, num_records_bytes: IntLike | None = None) -> Pointer:
    """A buffer pointer to the place of a global one; accesses `num_records_bytes` or more behind it do nothing.

    >>> def example(x):
    ...     return fx.rocdl.make_buffer_ptr(fx.get_iter(x))[2]
    >>> flyc.evaluate(example, np.arange(4, dtype="f4"), target="cpu:gfx942")
    2.0
    """
    from ...dialects.fly_rocdl.buffer import UNBOUNDED, descriptor_flags

    if not isinstance(ptr, Pointer):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"make_buffer_ptr expects a Pointer, got {ptr!r}")
    if ptr.address_space is not AddressSpace.Global:
        raise DSLValueError(f"make_buffer_ptr needs a global pointer, got one in {ptr.address_space!r}")
    arch = usual_gfx("make_buffer_ptr")
    bounded = num_records_bytes is not None
    size = Int64(as_numeric(num_records_bytes)) if bounded else Int64(UNBOUNDED)
    return emitter().buffer_pointer(ptr, size, descriptor_flags(arch, bounded=bounded))


@also_called(t="tensor")
def make_buffer_tensor(tensor: Tensor, max_size: bool = True, *, num_records_bytes: IntLike | None = None) -> Tensor:
    """A global tensor seen through a descriptor: same layout; loads out of range give 0, stores there vanish.

    The range is all the descriptor can express, or `num_records_bytes`, or with `max_size=False` what the layout
    reaches.

    >>> def example(x):
    ...     return fx.rocdl.make_buffer_tensor(x, num_records_bytes=8, max_size=False)[3]
    >>> flyc.evaluate(example, np.arange(4, dtype="f4"), target="cpu:gfx942")
    0.0
    """
    if not isinstance(tensor, Tensor) or not hasattr(tensor.data.iter, "data"):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"make_buffer_tensor expects a tensor of data, got {tensor!r}")
    if tensor.address_space is not AddressSpace.Global:
        raise DSLValueError(f"make_buffer_tensor needs a global tensor, got one in {tensor.address_space!r}")
    size = num_records_bytes
    if size is None and not max_size:
        size = tensor_bytes(tensor)
    return make_view(make_buffer_ptr(get_iter(tensor), size), tensor.layout)


def tensor_bytes(t: Tensor) -> IntLike:
    """Bytes from the first element to the end of the last one a layout reaches."""
    count = cosize(t.layout)
    number = L.unwrap(count.data)
    bits = t.dtype.width
    if type(number) is int:
        return (number * bits + 7) // 8
    wide = Int64(as_numeric(count.unpack()))
    return wide * (bits // 8) if bits % 8 == 0 else (wide * bits + 7) // 8


@also_called(p="ptr")
def get_buffer_rsrc(ptr: Pointer | Tensor) -> SSAValue:
    """The raw descriptor of a buffer pointer, an IR value of type `!llvm.ptr<8>`.

    >>> def example(x):
    ...     return str(fx.rocdl.get_buffer_rsrc(fx.rocdl.make_buffer_ptr(fx.get_iter(x))).type)
    >>> flyc.evaluate(example, np.arange(4, dtype="f4"), target="cpu:gfx942")
    '!llvm.ptr<8>'
    """
    if isinstance(ptr, Tensor):
        ptr = get_iter(ptr)
    if not isinstance(ptr, Pointer) or ptr.address_space != BufferDesc:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLValueError(f"get_buffer_rsrc needs a buffer pointer, as make_buffer_ptr gives it, got {ptr!r}")
    return emitter().descriptor(ptr)
