"""The fast emitter builds exactly what xDSL's own constructors build: every field, every use list, the same text."""

from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.utils.exceptions import VerifyException

from flydsl.ir import emitter
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.passes.pipeline import parse_pipeline

CASES = Path(__file__).resolve().parents[2] / "filecheck" / "passes"
PIPELINES = {
    "fly-layout-lowering": "fly-canonicalize,fly-layout-lowering",
    "fly-rewrite-func-signature": "fly-rewrite-func-signature",
    "fly-promote-regmem-to-vectorssa": "fly-promote-regmem-to-vectorssa",
    "fly-convert-atom-call-to-ssa-form": "fly-convert-atom-call-to-ssa-form",
    "canonicalize": "canonicalize,cse",
}


@cache
def context():
    return make_context(allow_unregistered=True)


def build(name: str, fast: bool) -> ModuleOp:
    path = CASES / f"{name}.mlir"
    module = LocatedParser(context(), path.read_text(), path.name).parse_module()
    before, emitter.FAST = emitter.FAST, fast
    try:
        for p in parse_pipeline(PIPELINES[name]):
            module = p.run(module)
    finally:
        emitter.FAST = before
    return module


def describe(module: ModuleOp) -> list[tuple]:
    """Every op with all its fields; ops, blocks and values by their number in the walk."""
    ops = list(module.walk())
    number = {id(op): i for i, op in enumerate(ops)}
    blocks = [b for op in ops for r in op.regions for b in r.blocks]
    number |= {id(b): i for i, b in enumerate(blocks)}

    def value(v):
        return (type(v.owner) is Block or isinstance(v.owner, Block), number[id(v.owner)], v.index, str(v.type))

    def uses(v):
        found, use, before = [], v.first_use, None
        while use is not None:
            assert use._prev_use is before
            found.append((number[id(use._operation)], use._index))
            use, before = use._next_use, use
        return found

    def op_fields(op: Operation):
        assert all(u._operation is op and u._index == i for i, u in enumerate(op._operand_uses))
        assert all(r.op is op and r.index == i for i, r in enumerate(op.results))
        near = [op.parent, op._prev_op, op._next_op]
        return (
            type(op),
            type(op._operands),
            [value(v) for v in op._operands],
            type(op.results),
            [(value(r), uses(r), r.name_hint) for r in op.results],
            {k: str(v) for k, v in op.properties.items()},
            {k: str(v) for k, v in op.attributes.items()},
            str(op.location),
            [None if x is None else number[id(x)] for x in near],
            [number[id(b)] for b in op.successors],
            [[number[id(b)] for b in r.blocks] for r in op.regions],
        )

    args = [[(str(a.type), a.index, uses(a)) for a in b.args] for b in blocks]
    ends = [[None if x is None else number[id(x)] for x in (b._first_op, b._last_op)] for b in blocks]
    return [*map(op_fields, ops), args, ends]


@pytest.mark.parametrize("name", PIPELINES)
def test_both_emitters_build_the_same(name):
    fast, slow = build(name, True), build(name, False)
    assert describe(fast) == describe(slow)
    assert str(fast) == str(slow)


def stock(module: ModuleOp) -> str:
    """What xDSL's own passes make of a module, or the error they end in (its canonicalize has bugs of its own)."""
    try:
        CanonicalizePass().apply(context(), module)
        CommonSubexpressionElimination().apply(context(), module)
        module.verify()
    except VerifyException as error:
        return f"error: {error}"
    return str(module)


@pytest.mark.parametrize("name", PIPELINES)
def test_stock_passes_work_on_both(name):
    fast, slow = build(name, True), build(name, False)
    for module in (fast, slow):
        module.verify()
    assert str(fast.clone()) == str(slow.clone()) == str(fast)
    outcome = stock(fast)
    assert outcome == stock(slow)
    if not outcome.startswith("error"):
        assert describe(fast) == describe(slow)


def test_properties_are_not_shared():
    module = build("canonicalize", True)
    ids = [id(op.properties) for op in module.walk()]
    assert len(ids) == len(set(ids))


def test_an_attribute_made_fast_is_the_one_xdsl_makes():
    parts = (StringAttr("kernel.py"), IntAttr(3), IntAttr(7))
    fast = emitter.make_attribute(FileLineColLoc, ("filename", "line", "column"), parts)
    assert fast == FileLineColLoc.new(parts) and hash(fast) == hash(FileLineColLoc.new(parts))
    assert fast.filename.data == "kernel.py" and str(fast) == str(FileLineColLoc.new(parts))
