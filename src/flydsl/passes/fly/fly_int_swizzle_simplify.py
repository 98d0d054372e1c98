"""`fly-int-swizzle-simplify`: `swizzle(a + d) = swizzle(a) + d` when `d` is a multiple of the swizzle's period.

A swizzle is `x ^ ((x & mask) >> shift)` with a mask of M ones from bit K; adding a multiple of `2^(M+K)` changes
neither the masked bits nor those they are xored into. Offsets that are the same in every iteration of a loop thus stay
out of the swizzle and can be shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from ...dialects.fly.ops import OPS
from ...dialects.upstream import gpu
from ...ir import arith
from ...ir.builder import operands_of
from ...layout import dynamic_leaves
from ...lowering.rebuild import Handler, Rebuilder
from ...lowering.swizzles import computed_divisor, match
from ..base import Form, Part, Pass

_TUPLES = tuple(OPS[name] for name in ("make_int_tuple", "make_shape", "make_stride", "make_coord"))


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp):
        attr = owner.properties["value"]
        if isinstance(attr, IntegerAttr):
            return cast(Any, attr).value.data
    return None


class _Simplify(Rebuilder):
    def __init__(self) -> None:
        super().__init__()
        self.kernel = False
        self.known: dict[SSAValue, int] = {}

    def function(self, op: Any, cls: type[Operation]) -> None:
        outer, self.kernel, self.known = self.kernel, cls is gpu.FuncOp, {}
        super().function(op, cls)
        self.kernel = outer

    def divisor(self, value: SSAValue) -> int:
        """A number the value is a multiple of; 0 for zero itself."""
        found = self.known.get(value)
        if found is None:
            self.known[value] = 1  # a loop-carried value does not get here twice, but a cycle must end
            number = _constant(value)
            computed = computed_divisor(value, _constant, self.divisor) if number is None else abs(number)
            found = self.known[value] = self._said(value, computed)
        return found

    @staticmethod
    def _said(value: SSAValue, computed: int) -> int:
        """What the tuples a value is a leaf of say about it, if that is more."""
        best = computed
        if best:
            for use in value.uses:
                if isinstance(use.operation, _TUPLES):
                    type_: Any = use.operation.results[0].type
                    leaves = list(dynamic_leaves(type_.data))
                    if use.index < len(leaves):
                        best = max(best, leaves[use.index].div)
        return best

    def peel(self, value: SSAValue, period: int) -> tuple[SSAValue | None, list[SSAValue]]:
        """What is left of a sum without its multiples of `period`, and those multiples, innermost first."""
        peeled: list[SSAValue] = []
        while True:
            owner = value.owner
            if isinstance(owner, arith.AddiOp):
                a, b = operands_of(owner)
                if self.divisor(b) % period == 0:
                    value = a
                    peeled.append(b)
                    continue
                if self.divisor(a) % period == 0:
                    value = b
                    peeled.append(a)
                    continue
                return value, peeled[::-1]
            if self.divisor(value) % period == 0:
                return None, [value, *peeled[::-1]]
            return value, peeled[::-1]


def _xori(r: _Simplify, op: arith.XOrIOp) -> None:
    source, high = operands_of(op)
    found = match(source, high, _constant) if r.kernel else None
    if found is not None:
        base, peeled = r.peel(source, found.period)
        if peeled:
            b = r.b
            x = b.const(0, source.type) if base is None else r.val(base)
            bits = b.int_binary("andi", x, r.val(found.mask))
            result = b.int_binary("xori", x, b.int_binary("shrui", bits, r.val(found.shift)))
            for part in peeled:
                result = b.addi(result, r.val(part))
            r.vm[op.results[0]] = result
            return
    r.copy(op)


_Simplify.handlers = cast(dict[type[Operation], Handler], {arith.XOrIOp: _xori})


@dataclass(frozen=True)
class FlyIntSwizzleSimplifyPass(Pass):
    """Keep multiples of its period out of an integer swizzle."""

    name = "fly-int-swizzle-simplify"
    needs = "swizzles as `arith` (`fly-layout-lowering`)"
    part = Part({Form.LOWERED: Form.SIMPLE})

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Simplify.rebuild(module)
