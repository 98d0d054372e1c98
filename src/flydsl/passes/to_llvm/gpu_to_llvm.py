"""`gpu-to-llvm`: host code to `llvm`. Tokens are streams; launches keep their op, on operands of `llvm`.

What a launch becomes is decided at the translation: `llvm/text/host_stub.py` calls the driver directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ...dialects.upstream import gpu
from ...lowering.rebuild import Handler
from ...lowering.rules.arith_rules import ARITH
from ...lowering.rules.func_rules import PRINTS
from ...lowering.rules.math_rules import MATH
from ...lowering.rules.sink import refuse
from ...lowering.rules.vector_rules import VECTOR
from ..base import Pass
from .convert_cf_to_llvm import HANDLERS as CF
from .convert_func_to_llvm import HANDLERS as FUNC
from .llvm_conversion import LlvmConversion


def _launch(r: LlvmConversion, op: gpu.LaunchFuncOp) -> None:
    parts = op.parts
    if len(parts.dependencies) > 1:
        raise refuse(op, "with more than one async dependency")
    streams = r.lls(parts.dependencies)
    if parts.stream is not None:
        streams = [r.ll(parts.stream)]
    stream = None if streams or op.asyncToken is not None else _own_stream(op)
    if stream is not None:
        streams = [r.ll(stream)]
    sizes = r.lls((*parts.grid, *parts.block, *parts.cluster))
    shared = [] if parts.shared is None else [r.ll(parts.shared)]
    # What a tensor map is made of is not known to `llvm`: it stays what it is.
    args = [_argument(r, v) for v in parts.arguments]
    segments = gpu.LaunchFuncOp.segments(0, bool(parts.cluster), bool(shared), len(args), bool(streams))
    made = r.b.opn(
        gpu.LaunchFuncOp, [*sizes, *shared, *args, *streams], (), {"kernel": op.kernel, "operandSegmentSizes": segments}
    )
    made.attributes = dict(op.attributes)
    if op.asyncToken is not None:
        if not streams:
            raise refuse(op, "that gives a token without taking one")
        r.vm[op.asyncToken] = streams[0]


def _own_stream(op: Operation) -> SSAValue | None:
    """The stream a host function was called with: its last argument, if that is a token."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, func.FuncOp):
        parent = parent.parent_op()
    entry = None if parent is None else parent.body.blocks.first
    found = entry.args[-1] if entry is not None and entry.args else None
    return found if found is not None and isinstance(found.type, gpu.AsyncTokenType) else None


def _argument(r: LlvmConversion, value: SSAValue) -> SSAValue:
    return r.val(value) if getattr(value.type, "by_value", False) else r.ll(value)


class _Conversion(LlvmConversion):
    handlers = {**ARITH, **MATH, **VECTOR, **PRINTS, **CF, **FUNC, gpu.LaunchFuncOp: cast(Handler, _launch)}
    converts_blocks = True
    skips_device = True


@dataclass(frozen=True)
class GpuToLlvmPass(Pass):
    """Convert host code, its launches included, to the llvm dialect."""

    name = "gpu-to-llvm"
    needs = "no `scf` in host code (`convert-scf-to-cf`)"
    use_bare_pointers_for_host: bool = False
    use_bare_pointers_for_kernels: bool = False

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Conversion.rebuild(module)
