"""Run-time control flow: traces bodies into blocks and emits `scf.if`, `scf.for`, `scf.while`.

Every body is traced once, into a block that is in no operation yet. What it leaves in the carried variables decides
what the operation carries: a value that comes out as it went in is not a result, and no argument of a loop.
"""

from __future__ import annotations

import numbers
import operator
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from xdsl.ir import Attribute, Block, Region, SSAValue

from ...dialects.upstream import scf
from ...errors import DSLTypeError, DSLValueError, FlyDSLWarning
from ...ir.builder import i1, i32, index
from ...ir.emitter import new_block
from ...ir.values import add_argument
from ..emit.trace import current
from ..emit.tracer import Tracer
from ..numeric import Index, Int32, Numeric, as_numeric
from ..scalars.scalar_ops import is_ir_value, make
from ..tensors.leaf_numbers import scalar_of
from .carried import ARMS, Variables, children_of, describe, is_dsl, tree_of, with_items
from .control_flow import Body, Exit, Names, last_state, refuse_exit, truth

if TYPE_CHECKING:
    from ..numeric import Boolean


@contextmanager
def detached(*blocks: Block) -> Generator[None]:
    """Blocks that are in no operation yet. If tracing them fails, the values they used forget them."""
    try:
        yield
    except BaseException:
        for block in blocks:
            block.drop_all_references()
        raise


def yield_(tracer: Tracer, block: Block, values: Sequence[SSAValue]) -> None:
    """End a block."""
    with tracer.region(block):
        tracer.opn(scf.YieldOp, values, ())


# --- if -----------------------------------------------------------------------------------------------------------


def if_region(cond: Boolean, then: Body, orelse: Body | None, names: Names) -> None:
    """An `if` statement on a run-time condition."""
    tracer = current()
    blocks = [Block(), Block()]
    with Variables(names, then, orelse) as variables, detached(*blocks):
        exits: list[list[SSAValue]] = []
        for block, body, end in zip(blocks, (then, orelse), ("then-branch", "else-branch"), strict=True):
            if body is None:
                tracer.no_branch(block)
                exits.append(variables.leaves)
                continue
            with tracer.region(block):
                variables.bind_fresh()
                refuse_exit(body())
                exits.append(variables.leave(end))
            variables.forget_new()
        variables.finish(emit_if(tracer, cond.ir_value(), blocks, exits))


def emit_if(tracer: Tracer, cond: SSAValue, blocks: list[Block], exits: list[list[SSAValue]]) -> list[SSAValue]:
    """`scf.if` over two filled blocks; the values after it."""
    # A value that both branches give was made before the `if`: it needs no result.
    differ = [i for i, (a, b) in enumerate(zip(*exits, strict=True)) if a is not b]
    if not differ and all(block.first_op is None for block in blocks):
        return exits[0]
    has_else = bool(differ) or blocks[1].first_op is not None
    for block, values in zip(blocks[: 1 + has_else], exits, strict=False):
        yield_(tracer, block, [values[i] for i in differ])
    regions = [Region(blocks[0]), Region(blocks[1]) if has_else else Region()]
    op = tracer.with_regions(scf.IfOp, (cond,), [exits[0][i].type for i in differ], regions)
    values = list(exits[0])
    for i, result in zip(differ, op.results, strict=True):
        values[i] = result
    return values


def if_value(cond: Boolean, then: Body, orelse: Body, names: Names, cells: Body | None) -> object:
    """`then if cond else orelse` on a run-time condition."""
    tracer = current()
    blocks = [Block(), Block()]
    with Variables(names, cells) as variables, detached(*blocks):
        arms: list[object] = []
        exits: list[list[SSAValue]] = []
        for block, arm, end in zip(blocks, (then, orelse), ("first arm", "second arm"), strict=True):
            with tracer.region(block):
                variables.bind_fresh()
                arms.append(arm())
                exits.append(variables.leave(end))
        if any(arm is None for arm in arms):
            raise DSLTypeError(
                "an arm of a conditional expression on a run-time condition is None, which has no type; give both arms "
                "a value, or write const_expr(...) around a compile-time condition"
            )
        first, second = promote(arms[0], arms[1]), promote(arms[1], arms[0])
        with tracer.region(blocks[0]):
            tree = tree_of(first, "the value")
        with tracer.region(blocks[1]):
            leaves = tree.leave(second, "the value", ARMS)
        count = len(tree.leaves)
        values = emit_if(tracer, cond.ir_value(), blocks, [[*tree.leaves, *exits[0]], [*leaves, *exits[1]]])
        variables.finish(values[count:])
    return tree.rebuild(iter(values[:count]))


def promote(x: object, other: object) -> object:
    """Python numbers in one arm take the class of what stands at their place in the other one."""
    if isinstance(x, numbers.Real):
        if is_ir_value(other):
            other = as_numeric(other)
        cls = type(as_numeric(other)) if isinstance(other, (numbers.Real, Numeric)) else None
        return cls(x) if cls is not None and fits(x, cls) else as_numeric(x)
    mine, theirs = children_of(x), children_of(other)
    if mine is not None and theirs is not None:
        at = dict(theirs)
        return with_items(x, [promote(item, at.get(key)) for key, item in mine])
    return x


def fits(x: Any, cls: type[Numeric]) -> bool:
    """Whether a literal can be of a class without being cut."""
    if cls.is_float:
        return True
    if cls.width == 1 or isinstance(x, float):
        return isinstance(x, bool)
    low = -(1 << (cls.width - 1)) if cls.signed else 0
    return low <= x < low + (1 << cls.width)


# --- loops --------------------------------------------------------------------------------------------------------


def drop_invariant(inits: Sequence[SSAValue], blocks: Sequence[tuple[Block, int, list[SSAValue]]]) -> list[int]:
    """Take the values that a loop leaves alone out of its blocks; the positions of those that stay.

    Each block is given with the position of its first carried argument and the values it passes on. A value is left
    alone if every block passes on its own argument, or the initial value itself.
    """
    carried = [
        i
        for i, init in enumerate(inits)
        if not all(exits[i] is block.args[first + i] or exits[i] is init for block, first, exits in blocks)
    ]
    kept = set(carried)
    for block, first, exits in blocks:
        dropped = {block.args[first + i]: init for i, init in enumerate(inits) if i not in kept}
        for arg, init in dropped.items():
            arg.replace_all_uses_with(init)
            block.erase_arg(arg)
        # One variable may have been set to another one that is dropped.
        exits[:] = [dropped.get(v, v) for v in exits]  # pyright: ignore[reportArgumentType, reportCallIssue]
    return carried


def for_region(
    body: Body, names: Names, bounds: Sequence[object], hints: dict[str, int], state: list[object] | None = None
) -> object:
    """`for ... in range(...)`; with `state` the explicit form, which gives the last state."""
    tracer = current()
    as_index = state is not None
    words = ("start", "stop", "step")
    limits: list[SSAValue] = []
    for x, word in zip(bounds, words, strict=True):  # no comprehension: it would be a frame more for the warning
        limits.append(bound(tracer, x, word, as_index))
    with Variables(names, body) as variables:
        carried_state = None if state is None else variables.add_state("init", state)
        inits = variables.leaves
        block = new_block([index if as_index else i32, *(v.type for v in inits)])
        counter = make(Index if as_index else Int32, block.args[0])
        with detached(block), tracer.region(block):
            variables.bind(block.args[1:])
            if carried_state is None:
                refuse_exit(body(counter), but="continue")
            else:
                made = body(counter, carried_state.cell_contents)
                if isinstance(made, Exit):
                    made.refuse()
                carried_state.cell_contents = as_list(made)
            exits = variables.leave("for-body")
        carried = drop_invariant(inits, [(block, 1, exits)])
        yield_(tracer, block, [exits[i] for i in carried])
        attrs: dict[str, Attribute] = {}
        if hints:
            from ...dialects.upstream.llvm.attrs import LOOP_ATTRIBUTE, unroll_annotation

            attrs[LOOP_ATTRIBUTE] = unroll_annotation(hints.get("count"))
        op = tracer.with_regions(
            scf.ForOp,
            (*limits, *(inits[i] for i in carried)),
            [inits[i].type for i in carried],
            [Region(block)],
            attrs=attrs,
        )
        variables.finish(after(inits, carried, op.results))
        return None if carried_state is None else last_state(carried_state.cell_contents)


def as_list(state: object) -> list[object]:
    """What a body yields, as the list its loop carries."""
    if not isinstance(state, (list, tuple)):
        raise DSLTypeError(
            f"the body of a loop over range(..., init=...) must yield a list, got {type(state).__name__}"
        )
    return list(cast("Sequence[object]", state))


def after(inits: Sequence[SSAValue], carried: Sequence[int], results: Sequence[SSAValue]) -> list[SSAValue]:
    """Values after a loop: results where it carries, the initial ones elsewhere."""
    values = list(inits)
    for i, result in zip(carried, results, strict=False):
        values[i] = result
    return values


def while_region(cond: Body, body: Body, names: Names) -> None:
    """A `while` statement."""
    tracer = current()
    before, inner = Block(), Block()
    with Variables(names, cond, body) as variables, detached(before, inner):
        inits = variables.leaves
        for block in (before, inner):
            for value in inits:
                add_argument(block, value.type)
        with tracer.region(before):
            variables.bind(before.args)
            known = truth(cond())
            test = tracer.const(int(known), i1) if isinstance(known, bool) else known.ir_value()
            middle = variables.leave("while-condition")
            # Names that the condition binds with := are seen by the body, but by nothing after the loop.
            extra = [
                (cell, tree_of(cell.cell_contents, name, lenient=True)) for name, cell in variables.bound_now().items()
            ]
        extra_leaves = [leaf for _, tree in extra for leaf in tree.leaves]
        for leaf in extra_leaves:
            add_argument(inner, leaf.type)
        with tracer.region(inner):
            variables.bind(inner.args)
            source = iter(inner.args[len(inits) :])
            for cell, tree in extra:
                cell.cell_contents = tree.rebuild(source)
            refuse_exit(body(), but="continue")
            exits = variables.leave("while-body")
        carried = drop_invariant(inits, [(before, 0, middle), (inner, 0, exits)])
        passed = [*(middle[i] for i in carried), *extra_leaves]
        with tracer.region(before):
            tracer.opn(scf.ConditionOp, (test, *passed), ())
        yield_(tracer, inner, [exits[i] for i in carried])
        op = tracer.with_regions(
            scf.WhileOp, [inits[i] for i in carried], [v.type for v in passed], [Region(before), Region(inner)]
        )
        variables.finish(after(inits, carried, op.results))


# --- bounds -------------------------------------------------------------------------------------------------------


def bound(tracer: Tracer, x: Any, word: str, as_index: bool) -> SSAValue:
    """A bound of a loop as i32, or as index in the explicit form."""
    type_ = index if as_index else i32
    given, x = x, scalar_of(x)
    if x is None and given is not None:
        raise DSLTypeError(f"the {word} of range must be i32, got {given}; take one number of it, as in x.shape[0]")
    if not isinstance(x, Numeric) and not is_ir_value(x):
        x = plain_bound(x, word)
        check_step(x, word)
        if not as_index and not -(1 << 31) <= x < 1 << 31:
            raise DSLTypeError(f"the {word} of range must be i32, and {x} does not fit; loop in two levels")
        return tracer.const(x, type_)
    if isinstance(x, Numeric) and x.is_static() and x.is_integer:
        check_step(int(x), word)
    value: SSAValue = x.ir_value() if isinstance(x, Numeric) else x
    if value.type == type_:
        return value
    if value.type == index:
        warnings.warn(f"the {word} of range is an index value and is cut to i32", FlyDSLWarning, stacklevel=4)
        return tracer.cast("index_cast", value, i32)
    if as_index and value.type == i32:
        return tracer.cast("index_cast", value, index)
    raise DSLTypeError(f"the {word} of range must be i32, got {describe(x)}; convert it with fx.Int32(...)")


def plain_bound(x: Any, word: str) -> int:
    """A bound that is no number of the language: something Python takes as an integer."""
    try:
        return operator.index(x)
    except TypeError:
        shown = describe(x) if is_dsl(x) else f"{type(x).__name__} {x!r}"
        raise DSLTypeError(f"the {word} of range must be i32, got {shown}; convert it with fx.Int32(...)") from None


def check_step(value: int, word: str) -> None:
    if word == "step" and value <= 0:
        raise DSLValueError(
            f"the step of range must be positive, got {value}; count upwards and compute the descending index in "
            "the body"
        )
