"""Which shared memory each kernel uses, where the cpu stack puts it, and how GPUs are told.

Shared memory is an uninitialised global of the device module (`passes/fly/device_module.py`); size 0 is the dynamic
buffer.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from xdsl.ir import Block

from ...dialects.upstream import gpu, llvm
from ...ir.types import bit_width

DYNAMIC_ALIGN = 1024
SHARED_SPACES = (3,)
"""Address spaces of shared memory on GPUs."""


class Allocation(NamedTuple):
    """One global."""

    name: str
    nbytes: int
    align: int


class SharedLayout(NamedTuple):
    """Shared memory of one kernel."""

    static: int
    """Bytes of the static allocations, padding included."""
    offsets: dict[str, int]
    """Where each allocation starts in the block's memory."""
    sizes: dict[str, int]
    """Bytes of each allocation; 0 for the dynamic buffer."""
    dynamic: bool
    """Whether the kernel uses the dynamic buffer."""

    @property
    def reserved(self) -> int:
        """Bytes in front of the dynamic buffer; those of the static allocations if there is none."""
        return -(-self.static // DYNAMIC_ALIGN) * DYNAMIC_ALIGN if self.dynamic else self.static


def allocations(module: gpu.ModuleOp) -> list[Allocation]:
    """Shared memory of a device module in order."""
    found: list[Allocation] = []
    for op in module.body.block.ops:
        if isinstance(op, llvm.GlobalOp) and op.value is None:
            found.append(Allocation(op.sym_name.data, *allocation_of(op)))
    return found


def allocation_of(op: llvm.GlobalOp) -> tuple[int, int]:
    """Bytes and alignment of a global array."""
    array = cast(llvm.LLVMArrayType, op.global_type)
    nbytes = array.size.data * (bit_width(array.type) // 8)
    return nbytes, op.alignment.value.data if op.alignment is not None else 1


def _find_addresses(block: Block, found: set[str]) -> None:
    """Names of the globals whose address is taken; xDSL's own walk takes five times as long."""
    op = block.first_op
    while op is not None:
        if type(op) is llvm.AddressOfOp:
            found.add(op.global_name.string_value())
        for region in op.regions:
            for inner in region.blocks:
                _find_addresses(inner, found)
        op = op.next_op


def shared_layout(kernel: gpu.FuncOp, module: gpu.ModuleOp) -> SharedLayout:
    """What a kernel uses: its allocations one after the other, the dynamic buffer last."""
    known = allocations(module)
    if not known:
        return SharedLayout(0, {}, {}, False)
    used: set[str] = set()
    for block in kernel.body.blocks:
        _find_addresses(block, used)
    offsets: dict[str, int] = {}
    end = 0
    dynamic: list[str] = []
    for name, nbytes, align in known:
        if name not in used:
            continue
        if nbytes == 0:
            dynamic.append(name)
            continue
        offsets[name] = -(-end // align) * align
        end = offsets[name] + nbytes
    sizes = {name: nbytes for name, nbytes, _ in known if name in used}
    layout = SharedLayout(end, offsets, sizes, bool(dynamic))
    for name in dynamic:
        offsets[name] = layout.reserved
    return layout
