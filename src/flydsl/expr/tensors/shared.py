"""`fx.SharedAllocator`: memory shared by the threads of a block."""

from __future__ import annotations

from ...errors import DSLCompileError, DSLRuntimeError
from ..emit.trace import current, maybe_current
from ..protocol import dsl_align_of, dsl_size_of
from ..structs import is_struct_type, value_type
from ..tensor import Pointer, get_dyn_shared
from .algebra_values import current_ir
from .storage import Arena, Storage


class SharedAllocator(Arena):
    """Allocates shared memory inside a kernel; one per kernel.

    `tile = fx.SharedAllocator().allocate(Tile).peek()`. Static (the default): every leaf of a struct is an allocation
    of its own. `static=False`: all of it lies in the kernel's dynamic shared buffer, whose size the launch infers.

    >>> def neighbour():
    ...     cells = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 4]).peek()
    ...     cells[fx.thread_idx.x] = fx.thread_idx.x * 10
    ...     fx.barrier()
    ...     return cells[(fx.thread_idx.x + 1) % 4]
    >>> flyc.evaluate(neighbour, threads=4)
    [10, 20, 30, 0]
    """

    is_static: bool = True
    """Whether every allocation is static; otherwise they lie in the dynamic shared buffer."""

    def __init__(self, base_alignment: int = 16, *, static: bool = True):
        super().__init__(base_alignment)
        tracer = maybe_current()
        frame = tracer.functions[-1] if tracer is not None and tracer.functions else None
        if not getattr(frame, "is_kernel", False):
            raise DSLRuntimeError("SharedAllocator allocates memory of a block: make it inside a @kernel function")
        if getattr(frame, "shared", None) is not None:
            raise DSLRuntimeError(
                "Only one SharedAllocator can be made in a kernel: pass it on, or put all types into one struct"
            )
        frame.shared = self  # pyright: ignore[reportOptionalMemberAccess]
        self.is_static = bool(static)

    @property
    def base_ptr(self) -> Pointer:
        """First byte of the dynamic shared buffer."""
        if self.is_static:
            raise DSLRuntimeError(
                "there is no shared base pointer: static allocations are independent; use SharedAllocator(static=False)"
            )
        return get_dyn_shared()

    @property
    def dynamic_bytes(self) -> int:
        """Bytes of dynamic shared memory the launch must give."""
        return 0 if self.is_static else self.allocated_bytes

    def place(self, type_: object, offset: int, align: int) -> Storage:
        limit = self._limit()
        if limit is not None and self.allocated_bytes > limit:
            remedy = "use smaller tiles or fewer stages"
            if self.is_static:
                remedy += ", or dynamic memory, of which some targets have more: SharedAllocator(static=False)"
            raise DSLCompileError(
                f"the kernel needs {self.allocated_bytes} bytes of {'static' if self.is_static else 'dynamic'} shared "
                f"memory, the target has {limit}; {remedy}"
            )
        return self._scatter(type_, align) if self.is_static else super().place(type_, offset, align)

    def _limit(self) -> int | None:
        """Bytes the target gives a block; None where it sets no limit."""
        for function in current().functions:
            caps = getattr(getattr(function, "target", None), "caps", None)
            if caps is not None:
                return caps.shared_mem_per_block if self.is_static else caps.shared_mem_per_block_optin
        return None

    def _scatter(self, type_: object, align: int | None = None) -> Storage:
        """One static allocation per leaf."""
        inner = value_type(type_)
        if is_struct_type(inner):
            parts = {f.name: self._scatter(f.type) for f in inner.__fields__ if not f.is_constexpr}
            return Storage[type_](None, parts)
        return Storage[type_](current_ir().shared_pointer(dsl_size_of(type_), align or dsl_align_of(type_)))
