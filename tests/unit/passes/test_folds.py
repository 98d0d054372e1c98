"""Folding changes no result: random straight-line programs before and after the clean-up passes, interpreted."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from flydsl.dialects.upstream import gpu
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.passes.pipeline import parse_pipeline

from .arithmetic import Arithmetic, run, same


def body_of(module: ModuleOp) -> Block:
    (device,) = module.body.block.ops
    assert isinstance(device, gpu.ModuleOp)
    (function,) = device.body.block.ops
    assert isinstance(function, gpu.FuncOp)
    return function.body.block


def parsed(text: str) -> ModuleOp:
    module = LocatedParser(make_context(), text, "program").parse_module()
    module.verify()
    return module


@pytest.mark.parametrize(
    ("passes", "count"), [("canonicalize", 40), ("cse", 6), ("canonicalize,fly-int-swizzle-simplify,canonicalize", 6)]
)
def test_folding_changes_no_result(passes: str, count: int):
    fewer = 0
    for seed in range(count):
        program = Arithmetic(seed)
        before, after = parsed(program.text), parsed(program.text)
        for each in parse_pipeline(passes):
            after = each.run(after)
        after.verify()
        fewer += len(list(before.walk())) - len(list(after.walk()))
        for inputs in range(5):
            arguments = program.arguments(100 * seed + inputs)
            expected, got = run(body_of(before), arguments), run(body_of(after), arguments)
            for (name, type_), a, b in zip(program.given, expected, got, strict=True):
                assert same(a, b), (name, type_, a, b, arguments, program.text, str(after))
    assert fewer > 4 * count
