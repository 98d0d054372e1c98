"""Values that left the region that made them: through a list, an attribute, a closure, a global variable.

A branch may not run and a body may run many times, so what is made in one has no value outside. Variables are carried;
what Python code keeps elsewhere shows only here, once everything is traced, at the op that uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ...dialects.upstream import gpu
from ...errors import DSLRuntimeError
from ...ir.emitter import blocks_in, operands_of
from ...ir.locations import source_chain
from ...ir.values import OP_RESULTS
from ..build.ir_errors import place

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Block, Operation, Region, SSAValue

_STATEMENTS = {"scf.if": "'if'", "scf.for": "'for'", "scf.while": "'while'"}


def check_escapes(module: ModuleOp) -> None:
    """Refuse, at its line, what uses a value outside the region that made it."""
    _check(module.regions[0], {module.regions[0]})


def _check(region: Region, around: set[Region]) -> None:
    """Look at the ops of a region in order; `around` are the regions it stands in, and itself."""
    for block in blocks_in(region):
        op: Any = block.first_op
        while op is not None:
            for value in operands_of(op):
                home = _home(value)
                if home is not block and (home is None or home.parent not in around):
                    error = DSLRuntimeError(_explained(home and home.parent_op()))
                    place(error, op.location)
                    raise error
            for inner in op.regions:
                _check(inner, {*around, inner})
            op = op._next_op


def _home(value: SSAValue) -> Block | None:
    """The block that has a value; None where its op was dropped."""
    return cast(Any, value).op.parent if type(value) in OP_RESULTS else cast(Any, value).block


def _explained(owner: Operation | None) -> str:
    """Why a value has no meaning outside the op that has its region, and what to write instead."""
    if owner is None:
        return (
            "this uses a value of a function that was traced before: it was kept in a list, an attribute or a cache, "
            "such as functools.cache, and has no meaning now. Make the value anew in each function"
        )
    statement = _STATEMENTS.get(owner.name)
    if statement is None:
        what = f"kernel '{owner.sym_name.data}'" if isinstance(owner, gpu.FuncOp) else "the function that launches"
        return f"this uses a value of {what}, which has no meaning in others; pass it as an argument, or through memory"
    chain = source_chain(owner.location)
    where = f" at line {chain[-1].line}" if chain else ""
    return (
        f"this uses a value that was made inside the {statement}{where} and exists only there: it was kept in a list, "
        "an attribute or another object, which a run-time region does not carry. Give a variable its value, with its "
        f"type, before the {statement} and assign it inside"
    )
