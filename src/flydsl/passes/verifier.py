"""Verification that names the op: every error with the location of the op it is about.

xDSL's `verify` stops at the first error of a module and does not check dominance. Here each function is checked by
itself, so that several errors are found at once, and a use before its definition is one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove, NoTerminator
from xdsl.utils.exceptions import VerifyException

from ..ir.builder import operands_of
from ..lowering.dominance import DominatorTree


class Failure(NamedTuple):
    """An op that does not verify, and why."""

    op: Operation
    message: str


def failures(root: Operation, visible: Iterable[SSAValue] = ()) -> list[Failure]:
    """The first error of each function of a module, and of what stands around them; of a part of one, with the values
    that it may use of what is around it."""
    found: list[Failure] = []
    try:
        _check(root, set(visible), found)
    except _Found as error:
        found.append(error.failure)
    return found


class _Found(Exception):
    def __init__(self, op: Operation, message: str):
        super().__init__(message)
        self.failure = Failure(op, message)


def _check(op: Operation, visible: set[SSAValue], found: list[Failure]) -> None:
    for i, value in enumerate(operands_of(op)):
        if value not in visible:
            raise _Found(op, f"'{op.name}' op operand #{i} does not dominate this use")
    isolated = op.has_trait(IsolatedFromAbove, value_if_unregistered=False)
    try:
        for region in op.regions:
            _check_region(region, set() if isolated else visible, found)
        _check_op(op)
    except _Found as error:
        if not isolated:
            raise
        found.append(error.failure)


def _check_op(op: Operation) -> None:
    try:
        op.verify(verify_nested_ops=False)
    except VerifyException as error:
        cause: BaseException = error
        while isinstance(cause.__cause__, VerifyException):
            cause = cause.__cause__
        text = str(cause).strip()
        raise _Found(
            op, text if op.name.startswith("fly") or text.startswith("'") else f"'{op.name}' op {text}"
        ) from None
    except Exception as error:  # xDSL's own ops raise what they like, also by looking for what is not there
        raise _Found(op, f"'{op.name}' op is malformed: {str(error).strip() or type(error).__name__}") from error


def _check_region(region: Region, visible: set[SSAValue], found: list[Failure]) -> None:
    entry = region.blocks.first
    if entry is None:
        return
    tree = DominatorTree(region)
    parent = region.parent
    if parent is not None and entry.first_op is None and not parent.has_trait(NoTerminator):
        raise _Found(parent, f"'{parent.name}' op expects a region with a terminator, but its block is empty")
    added: list[SSAValue] = []
    stack: list[tuple[Block, bool, int]] = [(entry, False, 0)]
    while stack:
        block, leaving, mark = stack.pop()
        if leaving:
            for value in added[mark:]:
                visible.discard(value)
            del added[mark:]
            continue
        stack.append((block, True, len(added)))
        added += block.args
        visible.update(block.args)
        for op in block.ops:
            _check(op, visible, found)
            added += op.results
            visible.update(op.results)
        stack += [(child, False, 0) for child in reversed(tree.children[block])]
