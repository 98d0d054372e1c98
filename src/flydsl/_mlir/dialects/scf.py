"""The dialect `scf`. Blocks of its ops are filled inside `with InsertionPoint(op.then_block):` and end with a yield."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IndexType, i64
from xdsl.ir import Attribute, Region
from xdsl.ir import Block as XBlock

from ...dialects.upstream import scf as ours
from ...expr.emit.facade import Made
from ...expr.emit.trace import current
from ...ir.emitter import new_block
from ..blocks import Block
from ..insertion import InsertionPoint, emit
from ..operations import OpView
from ..signature import by_op
from ..values import unwrap
from .arith import constant
from .generated import module

_SIGNATURES = by_op("scf")


class IfOp(OpView):
    """`scf.if`."""

    OPERATION_NAME = "scf.if"
    SIGNATURE = _SIGNATURES["scf.if"]

    def __init__(
        self,
        cond: object,
        results_: Sequence[Attribute] | None = None,
        *,
        results: Sequence[Attribute] | None = None,
        has_else: bool = False,
        hasElse: bool = False,
        loc: object = None,
        ip: object = None,
    ):
        types = list(results_ or results or ())
        second = [XBlock()] if has_else or hasElse or types else []
        self.raw = ours.IfOp.create(
            operands=[unwrap(cond, "the condition of 'scf.if'")],
            result_types=types,
            regions=[Region(XBlock()), Region(second)],
        )
        emit(self.raw, loc, ip)

    @property
    def then_block(self) -> Block:
        """What runs where the condition holds."""
        return Block(self.raw.regions[0].block)

    @property
    def else_block(self) -> Block | None:
        """What runs where it does not."""
        first = self.raw.regions[1].blocks.first
        return None if first is None else Block(first)


def _bound(value: object) -> object:
    return current().const(value, IndexType()) if type(value) is int else value


class ForOp(OpView):
    """`scf.for`."""

    OPERATION_NAME = "scf.for"
    SIGNATURE = _SIGNATURES["scf.for"]

    def __init__(
        self,
        lower_bound: object,
        upper_bound: object,
        step: object,
        iter_args: object = None,
        *,
        loc: object = None,
        ip: object = None,
    ):
        bounds = [unwrap(_bound(b), "a bound of 'scf.for'") for b in (lower_bound, upper_bound, step)]
        given = iter_args.results if isinstance(iter_args, OpView) else cast("Sequence[object]", iter_args or ())
        carried = [unwrap(v, "a carried value of 'scf.for'") for v in given]
        body = new_block([bounds[0].type, *(v.type for v in carried)])
        self.raw = ours.ForOp.create(
            operands=[*bounds, *carried], result_types=[v.type for v in carried], regions=[Region(body)]
        )
        emit(self.raw, loc, ip)

    @property
    def body(self) -> Block:
        """The block of the loop."""
        return Block(self.raw.regions[0].block)

    @property
    def induction_variable(self) -> Made:
        """The counter."""
        return self.body.arguments[0]

    @property
    def inner_iter_args(self) -> list[Made]:
        """The carried values inside."""
        return self.body.arguments[1:]


def for_(
    start: object,
    stop: object = None,
    step: object = None,
    iter_args: Sequence[object] | None = None,
    *,
    loc: object = None,
    ip: object = None,
) -> Generator[Made]:
    """`for i in scf.for_(n):`, or `for i, carried, results in scf.for_(a, b, s, [x]):`; the body ends with `yield_`."""
    if stop is None:
        start, stop = 0, start
    op = ForOp(start, stop, 1 if step is None else step, iter_args, loc=loc, ip=ip)
    with InsertionPoint(op.body):
        inner = op.inner_iter_args
        if not inner:
            yield op.induction_variable
        elif len(inner) == 1:
            yield op.induction_variable, inner[0], op.results[0]
        else:
            yield op.induction_variable, inner, op.results


class WhileOp(OpView):
    """`scf.while`, with its two blocks already there."""

    OPERATION_NAME = "scf.while"
    SIGNATURE = _SIGNATURES["scf.while"]

    def __init__(
        self, results_: Sequence[Attribute], inits: Sequence[object], *, loc: object = None, ip: object = None
    ):
        values = [unwrap(v, "a carried value of 'scf.while'") for v in inits]
        self.raw = ours.WhileOp.create(operands=values, result_types=results_, regions=[Region(), Region()])
        emit(self.raw, loc, ip)


class IndexSwitchOp(OpView):
    """`scf.index_switch`; the builders fill a block each and are given it, and its number in the cases."""

    OPERATION_NAME = "scf.index_switch"
    SIGNATURE = _SIGNATURES["scf.index_switch"]

    def __init__(
        self,
        results: Sequence[Attribute],
        arg: object,
        cases: Sequence[int],
        case_body_builder: Callable[[IndexSwitchOp, int, int], object] | None = None,
        default_body_builder: Callable[[IndexSwitchOp], object] | None = None,
        loc: object = None,
        ip: object = None,
    ):
        regions = [Region(XBlock()) for _ in range(len(cases) + 1)]
        self.raw = ours.IndexSwitchOp.create(
            operands=[unwrap(arg, "the number of 'scf.index_switch'")],
            result_types=list(results),
            properties={"cases": DenseArrayBase.from_list(i64, list(cases))},
            regions=regions,
        )
        emit(self.raw, loc, ip)
        for i, case in enumerate(cases if case_body_builder is not None else ()):
            with InsertionPoint(self.case_block(i)):
                cast("Callable[..., object]", case_body_builder)(self, i, case)
        if default_body_builder is not None:
            with InsertionPoint(self.default_block):
                default_body_builder(self)

    @property
    def default_block(self) -> Block:
        """What runs for a number that is in no case."""
        return Block(self.raw.regions[0].block)

    def case_block(self, index: int) -> Block:
        """What runs for a case, by its place in the list."""
        return Block(self.raw.regions[1 + index].block)


__getattr__, __dir__ = module("scf", globals())

__all__ = ["ForOp", "IfOp", "IndexSwitchOp", "WhileOp", "constant", "for_"]
