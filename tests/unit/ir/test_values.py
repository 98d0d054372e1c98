"""Values of the IR compute while a function is traced, whoever made them; xDSL's classes stay as they are."""

from typing import Any

import numpy as np
import pytest
from xdsl import ir as theirs
from xdsl.dialects import test
from xdsl.ir import Block, Region

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.ir import emitter
from flydsl.ir.builder import i32
from flydsl.ir.values import METHODS, OPERATORS, SSA_CLASSES, BlockArgument, Computes, OpResult, add_argument, own


@pytest.mark.parametrize("fast", [True, False])
def test_the_emitter_makes_values_that_compute(fast: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(emitter, "FAST", fast)
    block = emitter.new_block([i32, i32])
    one = emitter.emit1(block, test.TestOp, block.args, i32, {})
    two = emitter.emitn(block, test.TestOp, (one,), (i32, i32), {})
    head = emitter.emit_head(block, None, test.TestOp, i32, {})
    outer = emitter.emit_regions(Block(), test.TestOp, (), (i32,), {}, [Region(block)])
    assert {type(v) for v in (one, *two.results, *head.results, *outer.results)} == {OpResult}
    assert {type(v) for v in (*block.args, add_argument(block, i32))} == {BlockArgument}
    assert [a.index for a in block.args] == [0, 1, 2] and all(a.owner is block for a in block.args)


def test_what_xdsl_makes_becomes_ours_and_stays_the_same_object():
    made = test.TestOp(result_types=[i32], regions=[Region(Block(arg_types=[i32]))])
    result, argument = made.results[0], made.regions[0].block.args[0]
    user = test.TestOp([result])
    assert type(result) is theirs.OpResult and type(argument) is theirs.BlockArgument
    assert own(result) is result and own(own(argument)) is argument
    assert type(result) is OpResult and type(argument) is BlockArgument
    assert {type(result), type(argument)} <= SSA_CLASSES
    table = {result: 1, argument: 2}
    assert table[result] == 1 and table[own(argument)] == 2 and user.operands[0] is result
    assert result == result and result != argument and isinstance(result, theirs.OpResult)
    assert str(result).startswith("<OpResult[i32]")


def test_they_have_every_operator_but_equality():
    for name in (*OPERATORS, *METHODS):
        for cls in (OpResult, BlockArgument):
            assert next(base for base in cls.__mro__ if name in vars(base)) is Computes
    for cls in (OpResult, BlockArgument):
        assert cls.__eq__ is theirs.SSAValue.__eq__ and cls.__hash__ is object.__hash__  # the identity, both of them


def test_bare_values_compute_in_a_kernel_without_the_bindings():
    @flyc.kernel
    def kernel(a: fx.Tensor, out: fx.Tensor, n: fx.Int32):
        i = fx.thread_idx.x
        x: Any = a[i].ir_value()
        total = fx.Float32(0.0)
        for j in range(n):
            counter: Any = j.ir_value()
            carried: Any = total.ir_value()
            total = fx.Float32(2.0 * carried + x * fx.Float32(counter + 1))
        argument: Any = n.ir_value()
        flag: Any = (x > 0.0).ir_value()
        out[i] = fx.Float32(total - x) + fx.Float32(argument % 2) + flag.select(1.0, 0.0)

    @flyc.jit
    def launch(a: fx.Tensor, out: fx.Tensor, n: fx.Int32):
        kernel(a, out, n).launch(grid=(1, 1, 1), block=(8, 1, 1))

    a = np.random.default_rng().standard_normal(8).astype(np.float32)
    out = np.full(8, -77, np.float32)
    flyc.compile(launch, a, out, 3, target="cpu:native")(a, out, 3)
    total = np.zeros(8)
    for j in range(3):
        total = 2 * total + a.astype(np.float64) * (j + 1)
    np.testing.assert_allclose(out, total - a + 1 + (a > 0), rtol=1e-5, atol=1e-5)
