"""Scalar ops of upstream that xDSL lacks: `arith.remf` and `math.erfc`, with upstream's text form."""

from __future__ import annotations

from xdsl.dialects.arith import FloatingPointLikeBinaryOperation
from xdsl.dialects.math import FloatingPointLikeUnaryMathOperation
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure, SameOperandsAndResultType


@irdl_op_definition
class RemFOp(FloatingPointLikeBinaryOperation):
    """Float remainder with the sign of the dividend: `%r = arith.remf %a, %b : f32`."""

    name = "arith.remf"
    traits = traits_def(Pure())


@irdl_op_definition
class ErfcOp(FloatingPointLikeUnaryMathOperation):
    """Complementary error function: `%r = math.erfc %x : f32`."""

    name = "math.erfc"
    traits = traits_def(Pure(), SameOperandsAndResultType())
