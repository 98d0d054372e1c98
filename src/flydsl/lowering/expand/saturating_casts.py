"""Floats to integers on the CPU: what does not fit becomes the nearest integer that does.

LLVM leaves the result open, and x86 gives the smallest integer. GPUs saturate; integers narrower than 16 bits are what
is left of one of 16. NaN is zero, but on NVIDIA GPUs the top bit alone where f64 or 64 bits take part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import IntegerType, f32
from xdsl.ir import Operation

from ...ir import arith
from ...ir.builder import elem_of, operands_of
from ...ir.types import bit_width
from ..rebuild import Handler
from .small_floats import like

if TYPE_CHECKING:
    from ...passes.fly.convert_fly import FlyConversion

_NARROWEST = 16
_FLOATS = (16, 32, 64)


def _cast(word: str, signed: bool) -> Handler:
    def handle(r: FlyConversion, op: Operation) -> None:
        (x,) = operands_of(op)
        (result,) = op.results
        b, value, width = r.b, r.val(x), bit_width(elem_of(result.type))
        if bit_width(elem_of(value.type)) not in _FLOATS or width > 64:
            r.copy(op)
            return
        if bit_width(elem_of(value.type)) == 16:
            # The limits are no numbers of f16.
            value = b.cast("extf", value, like(value.type, f32))
        bits = max(width, _NARROWEST)
        type_ = like(result.type, IntegerType(bits))
        # The conversion of what does not fit is poison, which a selection may leave alone.
        made = b.cast(word, value, type_)
        low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
        least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, -1)
        made = b.select(b.cmpf("oge", value, b.const(low, value.type)), made, b.const(least, type_))
        made = b.select(b.cmpf("oge", value, b.const(high, value.type)), b.const(most, type_), made)
        wide = max(bits, bit_width(elem_of(value.type))) == 64 and r.has("nvidia")
        none = b.const(-(1 << (bits - 1)) if wide else 0, type_)
        made = b.select(b.cmpf("uno", value, value), none, made)
        r.vm[result] = b.cast("trunci", made, result.type)

    return cast(Handler, handle)


HANDLERS: dict[type[Operation], Handler] = {
    arith.FPToSIOp: _cast("fptosi", True),
    arith.FPToUIOp: _cast("fptoui", False),
}
