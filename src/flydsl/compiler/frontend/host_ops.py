"""What a host function cannot do: it is one thread of the CPU, does not reach the GPU's memory, and gives nothing."""

from __future__ import annotations

import warnings
from types import FunctionType
from typing import TYPE_CHECKING

from ...dialects.fly.types import MemRefType, PointerType
from ...errors import DSLRuntimeError, FlyDSLWarning
from ...ir.emitter import operands_of, ops_in
from ...ir.enums import AddressSpace
from ..build.ir_errors import place
from .stores import WRITTEN

if TYPE_CHECKING:
    from xdsl.ir import Block, Operation

_OF_BLOCKS = {
    "gpu.thread_id": "fx.thread_idx",
    "gpu.block_id": "fx.block_idx",
    "gpu.block_dim": "fx.block_dim",
    "gpu.grid_dim": "fx.grid_dim",
    "gpu.lane_id": "fx.lane_id()",
    "gpu.barrier": "fx.barrier()",
    "gpu.shuffle": "a shuffle",
    "gpu.ballot": "a ballot",
    "gpu.vote": "a vote",
}
_ACCESSES = frozenset({*WRITTEN, "fly.ptr.load", "fly.memref.load", "fly.memref.load_vec", "fly.load"})


def check_host_ops(name: str, entry: Block, on_host: bool) -> None:
    """Refuse what only threads of a kernel have, and accesses to memory of a GPU, at the line they were written."""
    for op in ops_in(entry):
        what = _OF_BLOCKS.get(op.name)
        if what is not None:
            why = f"{what} is for threads of a kernel, and '{name}' is host code, which runs once"
        elif not on_host and op.name in _ACCESSES and _is_global(op):
            why = f"'{name}' is host code, which cannot read or write the memory of the GPU"
        else:
            continue
        error = DSLRuntimeError(
            f"{why}; move the line into a @flyc.kernel function and launch that: "
            "kernel(...).launch(grid=..., block=...)"
        )
        place(error, op.location)
        raise error


def _is_global(op: Operation) -> bool:
    types = (v.type for v in operands_of(op))
    return any(isinstance(t, (PointerType, MemRefType)) and t.data.space is AddressSpace.Global for t in types)


def warn_of_result(name: str, function: FunctionType, result: object) -> None:
    """Tell that nobody gets what a function returns: its code runs later, and more than once."""
    if result is not None:
        code = function.__code__
        text = f"'{name}' returns a value, which its caller does not get: compiled functions give None"
        warnings.warn_explicit(
            f"{text}. Store results into an array", FlyDSLWarning, code.co_filename, code.co_firstlineno
        )
