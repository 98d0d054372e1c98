"""`flydsl._mlir`: IR that is changed while it is built, and members that no table of texts shows."""

from typing import Any

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import arith, func, gpu, llvm
from flydsl._mlir.extras import types as T
from flydsl.errors import DSLRuntimeError, DSLTypeError, DSLValueError

TEXT = """func.func @f(%x: i32, %y: i32) -> i32 {
  %a = arith.addi %x, %y : i32
  %b = arith.muli %a, %y : i32
  return %b : i32
}"""


def parsed() -> tuple[Any, Any, list[Any]]:
    module = ir.Module.parse(TEXT)
    function: Any = module.body.operations[0]
    return module, function, list(function.entry_block)


def names(block: Any) -> list[str]:
    return [op.operation.name.partition(".")[2] for op in block]


def test_the_module_is_whole_inside_an_insertion_point() -> None:
    module, function, (a, b, ret) = parsed()
    with ir.InsertionPoint(b):
        assert names(function.entry_block) == ["addi", "muli", "return"] and module.operation.verify()
        one = arith.ConstantOp(T.i32(), 1)
        two = arith.ConstantOp(T.i32(), 2, ip=ir.InsertionPoint.at_block_terminator(function.entry_block))
        b.move_before(a)
        arith.ConstantOp(T.i32(), 3)  # where b is now
    assert names(function.entry_block) == ["constant", "muli", "addi", "constant", "constant", "return"]
    assert one == function.entry_block.operations[3] and two == function.entry_block.operations[4]
    b.move_after(a)
    assert module.operation.verify() and ret.attached


def test_an_insertion_point_before_what_was_taken_out_says_so() -> None:
    _, function, (_, _, ret) = parsed()
    with ir.InsertionPoint(ret):
        ret.detach_from_parent()
        with pytest.raises(DSLRuntimeError, match=r"go in front of 'func.return', which was taken out of its block"):
            arith.ConstantOp(T.i32(), 1)
        function.entry_block.append(ret)
    assert names(function.entry_block) == ["addi", "muli", "return"]


def test_the_same_place_is_entered_twice() -> None:
    _, function, (_, b, _) = parsed()
    place = ir.InsertionPoint(b)
    with place, place:
        arith.ConstantOp(T.i32(), 1)
    with place:
        arith.ConstantOp(T.i32(), 2)
    assert names(function.entry_block) == ["addi", "constant", "constant", "muli", "return"]


def test_an_erased_op_is_not_used_again() -> None:
    def kernel(x: fx.Int32) -> fx.Int32:
        y = x + 5
        y.owner.erase()
        return x + 5

    assert flyc.evaluate(kernel, 3, target="cpu:native") == 8


def test_what_is_used_cannot_be_erased() -> None:
    _, function, (a, b, ret) = parsed()
    with pytest.raises(DSLValueError, match=r"'arith.addi' cannot be erased: its results are used by 'arith.muli'"):
        a.erase()
    assert names(function.entry_block) == ["addi", "muli", "return"]
    with pytest.raises(DSLValueError, match=r"argument 1 of the block cannot be erased"):
        function.entry_block.erase_argument(1)
    a.result.replace_all_uses_with(function.arguments[0])
    a.erase()
    assert str(b) == "%0 = arith.muli %arg0, %arg1 : i32" and ret.operands[0].get_name() == "%0"


def test_what_does_not_verify_is_named_with_its_place() -> None:
    module, _, (_, _, ret) = parsed()
    ret.erase()
    with pytest.raises(ir.MLIRError, match=r'loc\("-":3:8\): .*arith.muli'):
        module.operation.verify()
    with pytest.raises(ir.MLIRError, match="cannot parse the module"):
        ir.Module.parse("func.func @x() { return ")


def test_blocks_are_made_around_another_and_moved() -> None:
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        first, second = (func.FuncOp(name, ([], [])) for name in "ab")
    assert first.is_external and second.is_external
    entry = first.add_entry_block()
    after, before = entry.create_after(T.f32()), entry.create_before()
    assert list(first.body.blocks) == [before, entry, after] and not first.is_external
    after.append_to(second.body)
    assert list(first.body.blocks) == [before, entry] and second.body.blocks[0] == after
    assert after.arguments.types == [T.f32()]
    with pytest.raises(DSLValueError, match="already has an entry block"):
        first.add_entry_block()
    with ir.InsertionPoint(entry), pytest.raises(DSLValueError, match="no terminator to insert in front of"):
        ir.InsertionPoint.at_block_terminator(entry)


def test_numbers_of_constants() -> None:
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        assert arith.ConstantOp(T.i32(), 5).literal_value == 5 and arith.ConstantOp(T.f32(), 0.5).literal_value == 0.5
        vector = arith.ConstantOp(T.vector(2, T.i32()), [1, 2])
        with pytest.raises(DSLValueError, match="is no number"):
            _ = vector.literal_value
        with pytest.raises(DSLTypeError, match=r"expected an integer for i32, got 1.5"):
            arith.ConstantOp(T.i32(), 1.5)
    assert ir.FloatAttr.get_f64(2.5).type == T.f64() and ir.FloatAttr.get_f32(2.5).value == 2.5
    assert llvm.md_const(3, width=8).type == T.i8() and llvm.md_str("a").value == "a"


def test_a_function_of_the_gpu_by_hand() -> None:
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        kernels = gpu.GPUModuleOp("k")
        with ir.InsertionPoint(kernels.bodyRegion.blocks.append()):
            made = gpu.GPUFuncOp(
                ir.FunctionType.get([T.i32()], []), "f", kernel=True, known_block_size=[64, 1, 1],
                body_builder=lambda function: gpu.ReturnOp([]),
            )  # fmt: skip
    assert made.is_kernel and made.name.value == "f" and made.arguments[0].get_name() == "%arg0"
    assert str(made.known_block_size) == "array<i32: 64, 1, 1>" and module.operation.verify()
    assert "gpu.func @f(%arg0: i32) kernel attributes {known_block_size = array<i32: 64, 1, 1>}" in str(module)


def test_an_attribute_is_set_as_a_member() -> None:
    _, _, (a, _, _) = parsed()
    a.overflowFlags = ir.Attribute.parse("#arith.overflow<nsw>")
    assert str(a) == "%0 = arith.addi %arg0, %arg1 overflow<nsw> : i32"
    with pytest.raises(DSLTypeError, match="overflowFlags must be an attribute, got 3"):
        a.overflowFlags = 3


def test_what_is_not_written_says_so() -> None:
    module, _, _ = parsed()
    with pytest.raises(DSLValueError, match="bytecode is not written here"):
        module.operation.write_bytecode(None)
    with pytest.raises(AttributeError, match="IntegerSet"):
        ir.IntegerSet  # noqa: B018  # pyright: ignore


def test_blocks_of_a_region_by_slices() -> None:
    module = ir.Module.parse("func.func @f() {\n  cf.br ^bb1\n^bb1:\n  return\n}")
    blocks = module.body.operations[0].regions[0].blocks
    assert blocks[:] == list(blocks) == [blocks[0], blocks[-1]] and blocks[1:] == [blocks[1]] and len(blocks) == 2
