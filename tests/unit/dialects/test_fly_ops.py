"""The `fly` dialect as a table: inference speaks in names. What the lit files cover is in test_coverage.py."""

import pytest
from xdsl.dialects.builtin import f32, i32

from flydsl.dialects.fly.dialect import Fly
from flydsl.dialects.fly.ops import OPS, class_name
from flydsl.dialects.fly.types import int_tuple_type, layout_type
from flydsl.layout import Layout, parse_layout


def test_every_op_says_what_it_is():
    assert all(op.__doc__ for op in Fly.operations)


@pytest.mark.parametrize(
    "name, operands, message",
    [
        ("make_layout", [i32, int_tuple_type(2)], "MakeLayoutOp: expected IntTupleType for shape, got i32"),
        ("make_layout", [int_tuple_type(2), f32], "MakeLayoutOp: expected IntTupleType for stride, got f32"),
        (
            "crd2idx",
            [int_tuple_type(2), f32],
            "Crd2IdxOp: expected LayoutType or ComposedLayoutType or SwizzleType or CoordSwizzleType for layout, "
            "got f32",
        ),
        ("get_iter", [i32], "GetIterOp: expected CoordTensorType or MemRefType for tensor, got i32"),
        ("ptrtoint", [i32], "PtrToIntOp: expected PointerType for ptr, got i32"),
    ],
)
def test_inference_names_operands(name, operands, message):
    infer = OPS[name].INFER
    assert infer is not None
    with pytest.raises(TypeError) as error:
        infer(operands, {})
    assert str(error.value) == message


def test_inference_keeps_the_class_of_an_algebra_error():
    infer = OPS["shape_div"].INFER
    assert infer is not None
    with pytest.raises(ValueError, match="ShapeDivOp: shape_div: expected 7 and 3 to divide one another"):
        infer([int_tuple_type(7), int_tuple_type(3)], {})


def test_types_are_interned():
    assert layout_type(Layout((4, 8), (8, 1))) is layout_type(parse_layout("(4,8):(8,1)"))


def test_class_names():
    assert class_name("memref.load_vec") == "MemRefLoadVecOp" and class_name("get_1d_coord") == "Get1DCoordOp"
