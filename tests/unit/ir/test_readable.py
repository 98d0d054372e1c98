"""Types and attributes that users read: equal to xDSL's in every way the compiler looks at them."""

import copy
import pickle
from typing import Any

import pytest
from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    FloatData,
    FunctionType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    VectorType,
)
from xdsl.dialects.llvm import LLVMArrayType, LLVMPointerType
from xdsl.ir import Attribute
from xdsl.irdl import AnyOf, BaseAttr
from xdsl.parser import Parser

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import arith
from flydsl.dialects.upstream import llvm
from flydsl.ir.readable import DenseArray, DenseElements, Dictionary, FloatConstant, IntegerConstant, readable
from flydsl.ir.registry import make_context
from flydsl.ir.stands import Array, Int, Number, Stand, stored
from flydsl.ir.types import vector_type

ATTRIBUTES: list[Attribute] = [
    builtin.i32,
    IntegerType(24, Signedness.UNSIGNED),
    builtin.bf16,
    builtin.IndexType(),
    VectorType(builtin.f32, [4, 8]),
    VectorType(builtin.i1, [4], scalable_dims=ArrayAttr([builtin.BoolAttr.from_bool(True)])),
    MemRefType(builtin.f16, [4, builtin.DYNAMIC_INDEX]),
    TensorType(builtin.i8, [2]),
    FunctionType.from_lists([builtin.i32], [builtin.f32]),
    LLVMPointerType(IntAttr(3)),
    LLVMArrayType(4, builtin.f32),
    IntegerAttr(5, builtin.i64),
    IntegerAttr(0, builtin.i1),
    FloatAttr(1.5, builtin.f32),
    StringAttr("text"),
    SymbolRefAttr("f"),
    ArrayAttr([IntegerAttr(1, builtin.i32), StringAttr("a")]),
    DictionaryAttr({"n": IntegerAttr(1, builtin.i32)}),
    DenseArrayBase.from_list(builtin.i32, [1, -2]),
    DenseArrayBase.from_list(builtin.f64, [1.5]),
    DenseIntOrFPElementsAttr.from_list(VectorType(builtin.i32, [2]), [1, 2]),
    DenseIntOrFPElementsAttr.from_list(TensorType(builtin.bf16, [2, 2]), [1.5]),
    IntAttr(3),
    FloatData(2.5),
    builtin.UnitAttr(),
]


STOOD_FOR = (
    IntAttr, FloatData, ArrayAttr, IntegerAttr, FloatAttr, DictionaryAttr, DenseArrayBase, DenseIntOrFPElementsAttr,
)  # fmt: skip


@pytest.mark.parametrize("attr", ATTRIBUTES, ids=str)
def test_it_is_the_same_to_xdsl(attr: Attribute):
    before = copy.deepcopy(vars(attr))
    made = readable(attr)
    assert made == attr and attr == made and made == made and not made != attr
    assert hash(made) == hash(attr) and {attr: 1}[made] == {made: 1}[attr] == 1
    assert made.__class__ is attr.__class__ and isinstance(made, type(attr))
    assert (type(made) is type(attr)) == (not isinstance(made, Stand)) == (not isinstance(attr, STOOD_FOR))
    assert type(stored(made)) is type(attr) and stored(made) == attr and stored(attr) is attr
    assert bool(made) == bool(attr)
    if isinstance(attr, IntAttr | FloatData):
        assert str(made) == str(attr.data) and repr(made) == repr(attr.data)
    else:
        assert str(made) == str(attr) and Parser(make_context(), str(made)).parse_attribute() == attr
    made._verify()
    BaseAttr(type(attr)).verify(made, Any)
    assert readable(made) is made and readable(attr) is made
    assert pickle.loads(pickle.dumps(made)) == attr == copy.deepcopy(made)
    assert vars(attr) == before, "xDSL's own object stays as it is"


def test_an_op_keeps_xdsls_own_also_inside():
    attr = ArrayAttr(
        [DictionaryAttr({"n": IntegerAttr(1, builtin.i32), "s": StringAttr("a")}), FloatAttr(1.5, builtin.f32)]
    )
    own: Any = stored(readable(attr))
    assert own == attr and [type(x) for x in own.data] == [DictionaryAttr, FloatAttr]
    assert type(own.data[0].data["n"]) is IntegerAttr
    module = ir.Module.parse("func.func @f() { return }")
    function: Any = module.body.operations[0]
    function.attributes["k"] = readable(attr)
    assert type(function.raw.attributes["k"].data[0].data["n"]) is IntegerAttr
    assert function.attributes["k"][0]["n"].value == 1 and "k = [{n = 1 : i32" in str(module)
    with ir.InsertionPoint(function.entry_block.operations[0]):
        made: Any = arith.constant(builtin.i32, ir.IntegerAttr.get(builtin.i32, 4)).owner
    assert type(made.raw.properties["value"]) is IntegerAttr and int(made.value) == 4


def test_constraints_that_look_a_class_up_find_it():
    either: Any = AnyOf((BaseAttr(IntAttr), BaseAttr(StringAttr)))
    either.verify(readable(IntAttr(3)), Any)
    LLVMPointerType.new([readable(IntAttr(3))])
    assert IntegerAttr.new([readable(IntAttr(3)), builtin.i32]) == IntegerAttr(3, builtin.i32)
    with pytest.raises(Exception, match="out of range"):
        IntegerAttr.new([readable(IntAttr(300)), builtin.i8])


def test_what_another_attribute_equals_is_not_changed():
    assert readable(builtin.i32) != builtin.i64 and builtin.i64 != readable(builtin.i32)
    assert readable(IntAttr(3)) != IntAttr(4) and readable(IntAttr(3)) != FloatData(3.0) != readable(IntAttr(3))
    assert readable(ArrayAttr([])) != readable(DictionaryAttr({})) and readable(IntAttr(3)) != "3"
    assert builtin.i32.width != 32 and not hasattr(builtin.f32, "width")


@pytest.mark.parametrize(("own", "theirs"), [
    (Int, IntAttr), (Number, FloatData), (Array, ArrayAttr), (IntegerConstant, IntegerAttr),
    (FloatConstant, FloatAttr), (DenseArray, DenseArrayBase),
    (DenseElements, DenseIntOrFPElementsAttr), (Dictionary, DictionaryAttr),
])  # fmt: skip
def test_a_stand_has_every_operator_of_what_it_stands_for(own: type, theirs: type):
    """Python looks operators up in the class, where what is held does not help."""
    defined = {n for base in theirs.__mro__[:-1] for n, f in vars(base).items() if n.startswith("__") and callable(f)}
    known = {n for base in own.__mro__[:-1] for n in vars(base)}
    construction = {"__init_subclass__", "__subclasshook__", "__class_getitem__", "__post_init__"}
    assert defined - construction <= known | {"__setattr__", "__delattr__"}  # which refuse: it has slots


def test_numbers_and_lists():
    width: Any = readable(IntegerType(24)).width
    assert width // 8 == 3 and 2 * width == 48 and 50 - width == 26 and width % 7 == 3 and width**2 == 576
    assert width == 24 and 24 == width and width != 25 and width > 8 and width <= 24 and 30 > width
    assert -width == -24 and abs(width) == 24 and int(width) == 24 and float(width) == 24.0 and width << 1 == 48
    assert f"i{width:03}" == "i024" and [*range(width)][-1] == 23 and "abc"[readable(IntAttr(1))] == "b"  # pyright: ignore
    assert width + readable(IntAttr(1)) == 25 and width + IntAttr(1) == 25 and str(width) == repr(width) == "24"
    value: Any = readable(FloatAttr(1.5, builtin.f32)).value
    assert value == 1.5 and value * 2 == 3.0 and -value < 0 and f"{value:.2f}" == "1.50"
    shape: Any = readable(VectorType(builtin.f32, [4, 8])).shape
    assert shape == [4, 8] == list(shape) and shape == (4, 8) and shape[1] == 8 and shape[-1:] == (8,) and 4 in shape
    assert len(shape) == 2 and shape != [4] and shape == ArrayAttr([IntAttr(4), IntAttr(8)])


def test_members_that_xdsl_lacks():
    """One that xDSL calls is a method too; were there another, it would have to be."""
    for attr in ATTRIBUTES:
        made = readable(attr)
        more = vars(made).keys() - vars(attr).keys() if hasattr(made, "__dict__") else set[str]()
        assert {name for name in more if hasattr(type(attr), name)} <= {"has_static_shape"}
    vector: Any = readable(VectorType(builtin.bf16, [4, 8]))
    assert (
        vector.rank == 2 and vector.has_static_shape and vector.has_static_shape() and vector.element_type.width == 16
    )
    memref: Any = readable(MemRefType(builtin.f16, [4, builtin.DYNAMIC_INDEX]))
    assert memref.rank == 2 and not memref.has_static_shape and not memref.has_static_shape()
    signs: Any = [readable(IntegerType(8, sign)) for sign in Signedness]
    assert [(t.is_signless, t.is_signed, t.is_unsigned) for t in signs] == [
        tuple(sign is s for s in (Signedness.SIGNLESS, Signedness.SIGNED, Signedness.UNSIGNED)) for sign in Signedness
    ]
    text: Any = readable(StringAttr("text"))
    symbol: Any = readable(SymbolRefAttr("f"))
    assert text.value == "text" and symbol.value == "f"
    inside: Any = readable(DictionaryAttr({"n": IntegerAttr(7, builtin.i32)})).data["n"]
    assert inside.value == 7 and inside.type.width == 32


def test_types_of_the_language_are_read_so():
    types: Any = [fx.T.bf16, fx.BFloat16.ir_type, fx.Int16.ir_type, fx.T.f32x4, vector_type(builtin.f16, 8)]
    assert [t.width for t in types[:3]] == [16] * 3
    assert [(t.shape, t.rank, t.element_type.width) for t in types[3:]] == [([4], 1, 32), ([8], 1, 16)]
    seen: list[Any] = []

    def look(x: Any, y: Any) -> Any:
        flag = x < 2
        wide = fx.Int64(x) + fx.Int64(fx.thread_idx.x)
        pair = fx.Vector.filled(4, x, fx.Int32)
        seen.extend(v.ir_value().type for v in (x, flag, wide, y, pair, fx.Index(x), y > 0.0))
        return wide

    flyc.evaluate(look, 3, fx.Float32(1.5), target="cpu:native")
    assert [t.width for t in seen[:4]] == [32, 1, 64, 32] and seen[4].shape == [4] and seen[6].width == 1
    assert llvm.ptr(3).addr_space == 3


def test_an_object_that_is_not_made_yet():
    """A tracer that looks at frames meets it before `__init__`, and asks for its class."""
    unmade = object.__new__(type(readable(IntAttr(3))))
    try:
        assert not isinstance(unmade, IntAttr)
    except AttributeError as error:  # before Python 3.14
        assert "held" in str(error)
    assert not hasattr(unmade, "data")


def test_a_stand_is_replaced_by_what_it_stands_for():
    """As `copy.replace` asks for it, from Python 3.13 on."""
    stand: Any = readable(IntAttr(3))
    assert stand.__replace__(data=4) == IntAttr(4) and stand == 3
