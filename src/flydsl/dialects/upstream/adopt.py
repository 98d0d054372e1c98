"""Ops that a user's pass made of xDSL's own classes, made ops of ours.

Passes find what to do with an op by its class, and some classes of `arith` and `scf` are ours
(`ir/arith.py`, `upstream/scf.py`); whoever writes a pass with xDSL need not know which.
"""

from __future__ import annotations

from xdsl.ir import Operation

from ...ir import arith
from . import scf

_OURS = {**arith.WIDENED, **scf.WIDENED}


def adopt(root: Operation) -> None:
    """Replace, in place, what has a class of ours by an op of it; nothing else of an op changes."""
    for op in [op for op in root.walk() if type(op) in _OURS]:
        block = op.parent
        if block is None:
            continue
        made = _OURS[type(op)].create(
            operands=op.operands,
            result_types=[result.type for result in op.results],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
            regions=[op.detach_region(region) for region in list(op.regions)],
            location=op.location,
        )
        block.insert_op_before(made, op)
        for old, new in zip(op.results, made.results, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        block.erase_op(op)
