"""What the cpu stack does instead of a GPU's instructions: ids are parameters or loops, and threads meet.

The rules of everything else are those of every target (`lowering/`). `CpuAbi` and its subclasses answer.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from ...dialects import fly_cpu
from ...dialects.upstream import gpu
from ...dialects.upstream.extra_math import ErfcOp
from ...dialects.upstream.gpu import warp as gpu_warp
from ...dialects.upstream.math import Math
from ...ir.builder import elem_of, operands_of
from ...llvm.text.function_text import FunctionText, Handler
from ...llvm.text.spelling import type_text
from ...llvm.text.structured import table
from ...lowering.rules.func_rules import print_text
from ...lowering.rules.math_rules import INTRINSICS, math_rules
from ...lowering.rules.sink import Rule

_LIBM = ("expm1", "log1p", "asinh", "acosh", "atanh", "erf", "erfc", "cbrt")


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


def _barrier(f: FunctionText, op: Operation) -> None:
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


def _synchronize(f: FunctionText, op: Operation) -> None:
    _abi(f).synchronize(f, op)


def _libm(name: str, otherwise: Rule) -> Handler:
    """A function of the C library on f64, element by element."""

    def handle(f: FunctionText, op: Operation) -> None:
        args = [f.names[v] for v in operands_of(op)]
        type_ = op.results[0].type
        if type_text(elem_of(type_)) != "double":
            otherwise(f, op)
            return
        f.module.declare(name, "double", ["double"] * len(args))
        if not isinstance(type_, VectorType):
            f.names[op.results[0]] = f.assign(f"call double @{name}({', '.join(f'double {a}' for a in args)})")
            return
        t, whole = type_text(cast(VectorType, type_)), "poison"
        for i in range(type_.get_shape()[0]):
            parts = [f.assign(f"extractelement {t} {a}, i64 {i}") for a in args]
            one = f.assign(f"call double @{name}({', '.join(f'double {p}' for p in parts)})")
            whole = f.assign(f"insertelement {t} {whole}, double {one}, i64 {i}")
        f.names[op.results[0]] = whole

    return handle


def _functions() -> dict[type[Operation], Handler]:
    found: dict[type[Operation], Handler] = dict(math_rules(INTRINSICS))
    for cls in (*Math.operations, ErfcOp):
        name = cls.name.removeprefix("math.")
        if name in _LIBM:
            found[cls] = _libm(name, found[cls])
    return found


RULES: dict[type[Operation], Handler] = table(
    {
        **_functions(),
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
        **dict.fromkeys(fly_cpu.FlyCpu.operations, _synchronize),
    }
)
"""What writes the ops of a kernel."""

__all__ = ["RULES"]
