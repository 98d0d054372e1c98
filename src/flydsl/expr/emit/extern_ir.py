"""Emission for `extern`; needs xDSL."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import SymbolRefAttr, UnitAttr
from xdsl.ir import Attribute, Block, SSAValue

from ...errors import DSLTypeError
from ...ir.dead_code import PURE_CALL
from .trace import current


def emit_call(
    symbol: str, operands: Sequence[SSAValue], result: Attribute | None, is_pure: bool = False
) -> SSAValue | None:
    """`func.call` of a device symbol, with its declaration in the device module."""
    types = () if result is None else (result,)
    tracer = current()
    declare(tracer.functions[0].device, symbol, [v.type for v in operands], types)
    op = tracer.opn(func.CallOp, operands, types, {"callee": SymbolRefAttr(symbol)})
    if is_pure:
        op.attributes[PURE_CALL] = UnitAttr()
    return op.results[0] if result is not None else None


def declare(device: Block, symbol: str, inputs: Sequence[Attribute], outputs: Sequence[Attribute]) -> None:
    """A private `func.func` without a body, once per symbol."""
    made = func.FuncOp.external(symbol, inputs, outputs)
    for op in device.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == symbol:
            if op.function_type != made.function_type:
                raise DSLTypeError(f"extern function '{symbol}' is declared twice with different types")
            return
    device.add_op(made)
