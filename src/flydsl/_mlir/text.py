"""Operations as text and back, and whether they are well formed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Block, SSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator
from xdsl.utils.exceptions import ParseError

from ..errors import MLIRError
from ..ir.names import name_all
from ..ir.parser import LocatedParser
from ..ir.printer import IRPrinter
from ..passes.verifier import Failure, failures
from .insertion import Location, raw_context

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation


def _named_in(op: Operation, use_local_scope: bool) -> Operation:
    """The operation whose values are numbered together."""
    while True:
        if use_local_scope and op.has_trait(IsolatedFromAbove, value_if_unregistered=False):
            return op
        outer = op.parent_op()
        if outer is None:
            return op
        op = outer


def op_text(op: Operation, *, generic: bool = False, debuginfo: bool = False, use_local_scope: bool = False) -> str:
    """The text of an operation, with the names its values have in the module."""
    generic = generic or bool(mistakes(op))
    names = name_all(_named_in(op, use_local_scope), generic=generic)
    printer = IRPrinter(generic=generic, debuginfo=debuginfo, names=names)
    printer.print_op(op)
    return printer.text()


def block_text(block: Block) -> str:
    """The text of a block with its name."""
    outer = block.parent_op()
    names = None if outer is None else name_all(_named_in(outer, False))
    printer = IRPrinter(names=names)
    printer.print_block(block)
    return printer.text().strip("\n") + "\n"


def value_name(value: SSAValue, use_local_scope: bool) -> str:
    """The name of a value in print."""
    owner = value.owner
    op = owner.parent_op() if isinstance(owner, Block) else owner
    if op is None:
        return "<<UNKNOWN SSA VALUE>>"
    return name_all(_named_in(op, use_local_scope)).values[value]


def mistakes(op: Operation) -> list[Failure]:
    """What is wrong inside an operation. Where it stands is looked at with the operation around it."""
    if op.parent is not None and op.next_op is None and not op.has_trait(IsTerminator, value_if_unregistered=False):
        op = op.clone()  # as the last of a block that is still being filled
    made: set[SSAValue] = set()
    used: set[SSAValue] = set()
    for inner in op.walk():
        used.update(inner.operands)
        made.update(inner.results)
        made.update(arg for region in inner.regions for block in region.blocks for arg in block.args)
    return failures(op, used - made)


def verify(op: Operation) -> None:
    """Raise what is wrong with an operation."""
    found = mistakes(op)
    if found:
        where = "\n".join(f"{Location(each.op.location)}: {each.message}" for each in found)
        raise MLIRError(f"verification failed: {where}")


def parse_module(text: str, name: str) -> ModuleOp:
    """The module of a text."""
    try:
        made = LocatedParser(raw_context(), text, name).parse_module()
    except ParseError as error:
        raise MLIRError(f"cannot parse the module: {error}") from error
    verify(made)
    return made


__all__ = ["block_text", "mistakes", "op_text", "parse_module", "value_name", "verify"]
