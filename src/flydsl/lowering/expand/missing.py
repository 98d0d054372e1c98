"""Operations that LLVM's backends for GPUs have no code for: done another way, or refused before LLVM ends the process.

The remainder of bf16 is computed in f32, which is exact. Numbers of 128 bits are converted to and from floats by
functions of a library that NVIDIA's GPUs lack, and no GPU has atomics of 128 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import BFloat16Type, IntegerType, f32, i16, i32
from xdsl.ir import Attribute, Operation

from ...dialects.upstream.extra_math import RemFOp
from ...errors import DSLTypeError
from ...ir import arith
from ...ir.builder import elem_of, operands_of
from ...ir.types import bit_width
from .expand_math import NVIDIA_MATH
from .small_floats import like

if TYPE_CHECKING:
    from ...passes.fly.convert_fly import FlyConversion
    from ..rebuild import Handler

_WIDEST_ATOMIC = 64


def check_atomic(type_: Attribute) -> None:
    """Refuse an atomic access that is wider than any target's."""
    elem = elem_of(type_)
    bits = _int_width(elem)
    if bits > _WIDEST_ATOMIC:
        raise DSLTypeError(f"atomic accesses are of {_WIDEST_ATOMIC} bits at most, got {bits}")


def _int_width(elem: Attribute) -> int:
    """Bits of an integer type; 0 for others."""
    return bit_width(elem) if type(elem) is IntegerType else 0


def _remainder(r: FlyConversion, op: Operation) -> None:
    type_ = op.results[0].type
    if not isinstance(elem_of(type_), BFloat16Type):
        r.copy(op)
        return
    # By their bits: LLVM would take casts between the two formats back.
    b = r.b
    half, word, single = like(type_, i16), like(type_, i32), like(type_, f32)
    upper = b.const(16, word)
    wide = [
        b.cast("bitcast", b.int_binary("shli", b.cast("extui", b.cast("bitcast", x, half), word), upper), single)
        for x in r.vals(operands_of(op))
    ]
    made = b.cast("bitcast", b.pure(RemFOp, wide, wide[0].type, dict(op.properties)), word)
    bits = b.cast("trunci", b.int_binary("shrui", made, upper), half)
    r.vm[op.results[0]] = b.cast("bitcast", bits, type_)


def _conversion(r: FlyConversion, op: Operation) -> None:
    source, target = elem_of(operands_of(op)[0].type), elem_of(op.results[0].type)
    if r.native_math is NVIDIA_MATH and any(_int_width(t) > 64 for t in (source, target)):
        raise DSLTypeError(
            f"NVIDIA GPUs do not convert {source} to {target}: convert the halves of 64 bits, as in "
            "fx.Float64(fx.Int64(x >> 64)) * 2.0**64 + fx.Float64(fx.Uint64(x))"
        )
    r.copy(op)


HANDLERS = cast(
    "dict[type[Operation], Handler]",
    {
        RemFOp: _remainder,
        **dict.fromkeys((arith.SIToFPOp, arith.UIToFPOp, arith.FPToSIOp, arith.FPToUIOp), _conversion),
    },
)
