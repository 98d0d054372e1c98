"""The `arith` dialect: xDSL's, with the ops of `ir/arith.py` in place of those it limits, and those it lacks."""

from __future__ import annotations

from xdsl.dialects import arith as xarith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ...ir.arith import WIDENED
from ...ir.builder import elem_of
from .extra_math import RemFOp


@irdl_op_definition
class IndexCastUIOp(IRDLOperation):
    """Between an index and an integer, filling with zeros: `%j = arith.index_castui %i : i32 to index`."""

    name = "arith.index_castui"
    input = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def verify_(self) -> None:
        if isinstance(elem_of(self.input.type), IndexType) == isinstance(elem_of(self.result.type), IndexType):
            raise VerifyException("'arith.index_castui' op converts between index and an integer")


Arith = Dialect(
    "arith",
    [*(WIDENED.get(op, op) for op in xarith.Arith.operations), RemFOp, IndexCastUIOp],
    [*xarith.Arith.attributes],
    [*xarith.Arith._interfaces],  # pyright: ignore[reportPrivateUsage]
)
