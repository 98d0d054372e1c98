"""What the cpu stack does instead of a GPU's instructions: ids are parameters or loops, and threads meet.

The rules of everything else are those of every target (`lowering/`). `CpuAbi` and its subclasses answer.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import ub
from xdsl.ir import Operation

from ...dialects import fly_cpu
from ...dialects.upstream import gpu, llvm, scf
from ...dialects.upstream.gpu import warp as gpu_warp
from ...llvm.text.control import CONTROL
from ...llvm.text.function_text import FunctionText, Handler
from ...llvm.text.structured import table
from ...lowering.rules.func_rules import print_text
from ...lowering.rules.math_rules import INTRINSICS, math_rules
from .registers import alloca, check_value


def _index(kind: str) -> Handler:
    def handle(f: FunctionText, op: Any) -> None:
        f.names[op.results[0]] = _abi(f).index(f, kind, op.dimension.data)

    return handle


def _abi(f: FunctionText) -> Any:
    return f.abi


def _lane_id(f: FunctionText, op: Operation) -> None:
    f.names[op.results[0]] = _abi(f).lane_id(f)


def _subgroup_size(f: FunctionText, op: Operation) -> None:
    f.names[op.results[0]] = _abi(f).subgroup_size(f)


def _barrier(f: FunctionText, op: gpu.BarrierOp) -> None:
    if op.of_warp:
        _abi(f).ballot(f, "true")  # lanes meet there; nobody reads it
    else:
        _abi(f).barrier(f, op)


def _shuffle(f: FunctionText, op: gpu.ShuffleOp) -> None:
    _abi(f).shuffle(f, op)


def _ballot(f: FunctionText, op: gpu_warp.BallotOp) -> None:
    f.names[op.results[0]] = _abi(f).ballot(f, f.names[op.predicate])


def _vote(f: FunctionText, op: gpu_warp.VoteOp) -> None:
    f.names[op.results[0]] = _abi(f).vote(f, f.names[op.predicate], op.mode.data)


def _broadcast(f: FunctionText, op: gpu_warp.SubgroupBroadcastOp) -> None:
    _abi(f).broadcast(f, op)


def _printf(f: FunctionText, op: gpu.PrintfOp) -> None:
    print_text(f, op.format.data, op.args)


def _if(f: FunctionText, op: scf.IfOp) -> None:
    if _abi(f).checked:
        check_value(f, _abi(f), op, op.cond, "what a branch depends on")
    CONTROL[scf.IfOp](f, op)


def _poison(f: FunctionText, op: ub.PoisonOp) -> None:
    """In checked mode zeros, or LLVM would leave out the report as well as what is reported."""
    f.names[op.results[0]] = "zeroinitializer" if _abi(f).checked else "poison"


def _synchronize(f: FunctionText, op: Operation) -> None:
    _abi(f).synchronize(f, op)


RULES: dict[type[Operation], Handler] = table(
    {
        **math_rules(INTRINSICS),
        gpu.ThreadIdOp: _index("thread_id"),
        gpu.BlockIdOp: _index("block_id"),
        gpu.BlockDimOp: _index("block_dim"),
        gpu.GridDimOp: _index("grid_dim"),
        gpu.LaneIdOp: _lane_id,
        gpu.SubgroupSizeOp: _subgroup_size,
        gpu.BarrierOp: _barrier,
        gpu.ShuffleOp: _shuffle,
        gpu_warp.BallotOp: _ballot,
        gpu_warp.VoteOp: _vote,
        gpu_warp.SubgroupBroadcastOp: _broadcast,
        gpu.PrintfOp: _printf,
        llvm.AllocaOp: alloca,
        scf.IfOp: _if,
        ub.PoisonOp: _poison,
        **dict.fromkeys(fly_cpu.FlyCpu.operations, _synchronize),
    }
)
"""What writes the ops of a kernel."""
