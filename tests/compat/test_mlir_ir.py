"""`flydsl._mlir.ir`: types, attributes, places and modules, without a kernel."""

import subprocess
import sys
from typing import Any, cast

import pytest
from xdsl.dialects.builtin import IntAttr

import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import arith, func, llvm, scf, vector
from flydsl._mlir.extras import types as T
from flydsl.errors import DSLRuntimeError, DSLTypeError, DSLValueError


def test_types_are_those_of_the_language() -> None:
    assert ir.IntegerType.get_signless(32) == fx.Int32.ir_type == T.i32()
    assert ir.F32Type.get() == fx.Float32.ir_type == T.f32()
    assert ir.VectorType.get([4], T.f32()) == ir.Type.parse("vector<4xf32>") == T.vector(4, T.f32())
    assert ir.Float8E4M3FNUZType.get() == fx.Float8E4M3FNUZ.ir_type
    assert str(llvm.PointerType.get(3)) == "!llvm.ptr<3>"
    assert str(llvm.StructType.get_literal([T.i32(), T.f32()])) == "!llvm.struct<(i32, f32)>"


def test_numbers_in_types_are_numbers() -> None:
    t = T.vector(4, 8, T.bf16())
    assert t.shape == [4, 8] and list(t.shape) == [4, 8] and t.shape[1] == 8 and len(t.shape) == 2
    assert t.rank == 2 and t.element_type.width == 16 and t.has_static_shape
    width = T.i(24).width
    assert width // 8 == 3 and 2 * width == 48 and width == 24 and width > 8 and f"i{width}" == "i24"
    assert list(range(T.vector(3, T.i8()).shape[0])) == [0, 1, 2]
    assert ir.IntegerAttr.get(T.i32(), 5).value == 5 and ir.StringAttr.get("a").value == "a"
    # Attributes are still told apart.
    assert IntAttr(3) == IntAttr(3) and IntAttr(3) != IntAttr(4) and hash(IntAttr(3)) == hash(IntAttr(3))


def test_classes_recognise_and_cast() -> None:
    t = T.vector(4, T.f32())
    assert isinstance(t, ir.VectorType) and ir.VectorType.isinstance(t) and not isinstance(t, ir.IntegerType)
    assert ir.VectorType(t).element_type == T.f32() and isinstance(T.f32(), ir.FloatType)
    with pytest.raises(DSLTypeError, match=r"cannot cast f32 to VectorType"):
        ir.VectorType(T.f32())


def test_text_that_does_not_parse_is_named() -> None:
    with pytest.raises(DSLValueError, match="cannot parse 'vector<4x'"):
        ir.Type.parse("vector<4x")
    with pytest.raises(DSLValueError, match="is left over"):
        ir.Type.parse("i32 i32")


def test_a_module_by_hand() -> None:
    module = ir.Module.create()
    with ir.Context(), ir.Location.unknown(), ir.InsertionPoint(module.body):
        function = func.FuncOp("f", ([T.i32(), T.i32()], [T.i32()]))
        with ir.InsertionPoint(function.add_entry_block()):
            a, b = function.arguments
            total = arith.AddIOp(a, b, overflowFlags=arith.IntegerOverflowFlags.nsw)
            assert total.lhs.ir_value() is a.ir_value() and total.operands[1].type == T.i32()
            assert total.result.owner.name == "arith.addi" and "overflowFlags" in total.attributes
            bigger = arith.cmpi(arith.CmpIPredicate.sgt, total, a)
            chosen = scf.IfOp(bigger, [T.i32()], has_else=True)
            with ir.InsertionPoint(chosen.then_block):
                scf.YieldOp([total])
            with ir.InsertionPoint(chosen.else_block):
                scf.yield_([a * 2])
            func.ReturnOp([chosen.results[0]])
    assert module.operation.verify()
    assert ir.SymbolTable(module.operation)["f"].operation.name == "func.func"
    text = str(module)
    assert "arith.addi" in text and "arith.cmpi sgt" in text and text.count("scf.yield") == 2
    assert str(ir.Module.parse(text)) == text


def test_inserting_in_front_of_an_op_keeps_what_stands_behind() -> None:
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        first = arith.ConstantOp(T.i32(), 1)
        last = arith.ConstantOp(T.i32(), 3)
    with ir.InsertionPoint(last):
        arith.ConstantOp(T.i32(), 2)
    arith.ConstantOp(T.i32(), 0, ip=ir.InsertionPoint.at_block_begin(module.body))
    arith.ConstantOp(T.i32(), 4, ip=ir.InsertionPoint.after(last))
    assert [cast(Any, op.attributes["value"]).value for op in module.body] == [0, 1, 2, 3, 4]
    assert first.operation == module.body.operations[1]


def test_an_operation_by_its_name() -> None:
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        one = arith.constant(T.vector(4, T.f32()), [1.0] * 4)
        made = ir.Operation.create("vector.extract", results=[T.f32()], operands=[one],
                                   attributes={"static_position": ir.DenseI64ArrayAttr.get([2])})  # fmt: skip
        assert made.result.type == T.f32() and isinstance(made.result, ir.OpResult)
        assert vector.extract(one, [], [1]).type == T.f32()
        with pytest.raises(DSLValueError, match="no operation 'vector.nonsense'"):
            ir.Operation.create("vector.nonsense")


def test_mistakes_name_the_op_and_the_argument() -> None:
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        a = arith.constant(T.i32(), 1)
        with pytest.raises(DSLTypeError, match="'arith.addi': rhs must be a value, got 3"):
            arith.addi(a, 3)
        with pytest.raises(DSLTypeError, match="'arith.addi' misses rhs"):
            arith.addi(a)
        with pytest.raises(DSLTypeError, match="'arith.addi' takes no 'flags'"):
            arith.addi(a, a, flags=1)
        with pytest.raises(DSLValueError, match="has no attribute roundingmode here"):
            arith.addf(
                arith.constant(T.f32(), 1.0), arith.constant(T.f32(), 1.0), roundingmode=arith.RoundingMode.upward
            )
        with pytest.raises(DSLTypeError, match="'llvm.load'"):
            llvm.load(T.f32(), a)
    with pytest.raises(DSLRuntimeError, match="no place for a new operation"):
        arith.constant(T.i32(), 1)
    with pytest.raises(AttributeError, match="dialect 'arith' has no op, function or enumeration 'NonsenseOp'"):
        arith.NonsenseOp  # noqa: B018


def test_mistakes_in_constants_of_many_numbers() -> None:
    two = T.vector(2, T.i32())
    for make, message in (
        (lambda: ir.DenseI8ArrayAttr.get([1, 300]), "array of i8 holds integers from -128 to 127, got 300"),
        (
            lambda: ir.DenseI32ArrayAttr.get([1.5]),
            "array of i32 holds integers from -2147483648 to 2147483647, got 1.5",
        ),
        (lambda: ir.DenseF32ArrayAttr.get(["a"]), "array of f32 holds numbers, got 'a'"),
        (lambda: ir.DictAttr.get([1]), r"expected attributes by name, got \[1\]"),
        (lambda: ir.DenseElementsAttr.get(5), "is made of a list of attributes or of an array, got 5"),
        (lambda: ir.DenseElementsAttr.get([]), "without elements must be given: type="),
        (lambda: ir.DenseElementsAttr.get(["a"], two), "are attributes or numbers, got 'a'"),
        (lambda: ir.DenseElementsAttr.get([1, 2, 3], two), "takes 2 elements, or one for all, got 3"),
        (lambda: ir.DenseElementsAttr.get(memoryview(b"abcd")[::2]), "lie in one piece; copy it first"),
        (lambda: ir.DenseElementsAttr.get(memoryview(b"ab").cast("c")), "the format 'c' cannot be"),
        (
            lambda: ir.DenseElementsAttr.get(b"abcd", type=T.i32()),
            "elements of 8 bits cannot be a dense constant of i32",
        ),
        (
            lambda: ir.DenseElementsAttr.get_splat(T.i32(), ir.UnitAttr.get()),
            "the type of a vector or a tensor, got i32",
        ),
        (lambda: ir.Attribute.parse("dense<[1, 2]> : vector<2xi32>").get_splat_value(), "are not all the same"),
    ):
        with pytest.raises((DSLTypeError, DSLValueError), match=message):
            make()


def test_nothing_of_it_is_loaded_by_others() -> None:
    """A program that compiles a kernel and does not import it."""
    program = (
        "import sys, numpy as np, flydsl.compiler as flyc, flydsl.expr as fx\n"
        "assert flyc.evaluate(lambda x: x + 1, 3, target='cpu:native') == 4\n"
        "loaded = [n for n in sys.modules if n.startswith('flydsl._mlir')]\n"
        "assert not loaded, loaded\n"
        "assert 'flydsl.cpu.emulation.instruction_rules' not in sys.modules\n"
        "assert 'flydsl.dialects.upstream.rocdl' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
