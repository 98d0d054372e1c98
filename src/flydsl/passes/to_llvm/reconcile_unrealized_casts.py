"""`reconcile-unrealized-casts`: casts that undo each other go; one that stays is an error."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp
from xdsl.ir import SSAValue

from ...lowering.rebuild import failure_at
from ..base import Pass


def _source(value: SSAValue, types: object) -> SSAValue | None:
    """The value a chain of casts started from, if it has the type wanted."""
    while True:
        if value.type == types:
            return value
        owner = value.owner
        if not isinstance(owner, UnrealizedConversionCastOp) or len(owner.operands) != 1 or len(owner.results) != 1:
            return None
        value = owner.operands[0]


@dataclass(frozen=True)
class ReconcileUnrealizedCastsPass(Pass):
    """Remove casts between dialects that undo each other."""

    name = "reconcile-unrealized-casts"

    def run(self, module: ModuleOp) -> ModuleOp:
        casts = [op for op in module.walk() if isinstance(op, UnrealizedConversionCastOp)]
        for op in casts:
            if len(op.operands) == 1 and len(op.results) == 1:
                source = _source(op.operands[0], op.results[0].type)
                if source is not None:
                    op.results[0].replace_all_uses_with(source)
        for op in reversed(casts):
            if all(r.first_use is None for r in op.results):
                op.detach()
                op.erase()
            else:
                raise failure_at(
                    op,
                    "failed to legalize operation 'builtin.unrealized_conversion_cast' that was explicitly marked "
                    f"illegal: {', '.join(str(v.type) for v in op.operands)} to "
                    f"{', '.join(str(r.type) for r in op.results)}",
                )
        return module
