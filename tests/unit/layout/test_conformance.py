"""The conformance vectors of the dialect reference 2.9 that concern the algebra, as text in and text out."""

import pytest

import flydsl.layout as fl
from flydsl.layout import (
    Dyn,
    Layout,
    format_int_tuple,
    parse_any_layout,
    parse_coord_swizzle,
    parse_int_tuple,
    parse_layout,
    parse_swizzle,
    parse_tile,
)

VECTORS = """
int_tuple_add (2,?) ; (?{div=4},3) => (?{div=2},?)
int_tuple_add ?{div=6} ; ?{i64 div=4} => ?{i64 div=2}
int_tuple_add 4E0 ; ?{div=6}E1 => (4,?{div=6})
int_tuple_sub 0 ; ?{div=6} => ?{div=6}
int_tuple_mul ?{div=6} ; 4 => ?{div=24}
int_tuple_mod ?{div=8} ; 12 => ?{div=4}
int_tuple_product_like ((3,5),(2,7)) ; (1,(1,1)) => (15,(2,7))
shape_div (3,8) ; 6 => (1,4)
ceil_div (11,?) ; (3,4) => (4,?)
crd2idx 17 ; (5,(3,4)):(12,(4,1)) => 25
crd2idx (?{div=2},3) ; (5,6):(6,1) => ?{div=3}
crd2idx (2,3) ; (5,6):(1E0,1E1) => (2,3)
crd2idx (2,3) ; S<1,1,3> o 6 o (4,8):(8,1) => 27
crd2idx 44 ; S<2,2,2> => 36
crd2idx ?{div=24} ; S<2,2,2> => ?{div=4}
crd2idx (6,9) ; CS<2,1,[0],2,[1]> => (6,5)
crd2idx (?,?{div=12}) ; CS<2,1,[0],2,[1]> => (?,?{div=4})
idx2crd 23 ; (5,6):(6,1) => (3,5)
idx2crd ? ; (5,1,6):(6,0,1) => (?,0,?)
get_flat_coord 23 ; ((3,2),6):((6,18),1) => (3,5)
get_1d_coord 23 ; (5,6):(6,1) => 28
coshape (5,6):(3E0,1E1) => (13,6)
cosize (5,6):(1,7) => 40
size (5,?):(1,5) => ?{div=5}
coalesce (3,(1,7)):(1,(9,3)) => 21:1
coalesce ((3,2),(5,1)):((1,3),(6,4)) ; (1,1) => (6,5):(1,6)
coalesce (1,(1,1)):(7,(2,3)) => 1:0
composition 24:3 ; (6,4):(4,1) => (6,4):(12,3)
composition (6,4):(20,5) ; (3,8):(1,3) => (3,(2,4)):(20,(60,5))
composition (8,3):(9,2) ; (6,2):(4,1) => ((2,3),2):((36,2),9)
composition (15,(6,4)):(70,(11,1)) ; [5:3|4:3] => (5,(2,2)):(210,(33,1))
composition (?,6):(?{i64},1) ; [5|*] => (5,6):(?{i64},1)
composition (5,6):(1E0,1E1) ; (5,3):(1,10) => (5,3):(1E0,2E1)
composition (?,4):(1,8) ; (2,2):(2,1) => ((?,?),(?,?)):((2,?{div=8}),(1,8))
complement 5:1 ; 30 => 6:5
complement (3,2):(1,9) ; 54 => (3,3):(3,18)
complement 4:? ; 32 => (?,?):(1,?{div=4})
right_inverse (3,5):(5,1) => (5,3):(3,1)
right_inverse (3,5):(10,1) => 5:3
left_inverse (3,5):(10,1) => (10,3):(3,1)
logical_divide (6,2,5):(2,1,12) ; 3:2 => (3,(2,(2,5))):(4,(2,(1,12)))
logical_divide (12,10):(10,1) ; [*|5] => (12,(5,2)):(10,(1,5))
zipped_divide (10,(6,4)):(50,(8,2)) ; [5:2|(3,2):(1,12)] => ((5,(3,2)),(2,(2,2))):((100,(8,4)),(50,(24,2)))
tiled_divide (10,(6,4)):(50,(8,2)) ; [5:2|(3,2):(1,12)] => ((5,(3,2)),2,(2,2)):((100,(8,4)),50,(24,2))
zipped_divide (12,10,7):(10,1,120) ; [3|5] => ((3,5),(4,2,7)):((10,1),(30,5,120))
zipped_divide (?{div=16},?):(?{i64 div=8},1) ; [16|32] => ((16,32),(?,?)):((?{i64 div=8},1),(?{i64 div=128},32))
zipped_divide (16,8):(8,1) ; [4] => ((4),(4,8)):((8),(32,1))
zipped_divide (16,8):(8,1) ; 4 => (4,(4,8)):(8,(32,1))
flat_divide (12,?):(?{i64},1) ; [3|5] => (3,5,4,?):(?{i64},1,?{i64 div=3},5)
logical_product (3,2):(2,1) ; 5:1 => ((3,2),5):((2,1),6)
zipped_product (3,2):(1,3) ; (5,4):(4,1) => ((3,2),(5,4)):((1,3),(24,6))
blocked_product (3,4):(4,1) ; (5,2):(1,5) => ((3,5),(4,2)):((4,12),(1,60))
raked_product (3,4):(4,1) ; (5,2):(1,5) => ((5,3),(2,4)):((12,4),(60,1))
blocked_product 6:1 ; (5,2):(1,5) => ((6,5),(1,2)):((1,6),(0,30))
recast_8_32 (12,5):(1,12) => (3,5):(1,3)
recast_16_4 (12,5):(1,12) => (48,5):(1,48)
recast_8_32 S<1,4,3> o 32 o (4,16):(16,1) => S<1,2,3> o 8 o (4,4):(4,1)
tile_to_shape (3,2):(2,1) ; (6,10) ; (1,0) => ((3,2),(2,5)):((2,30),(1,6))
make_ordered_layout (5,3,2) ; (1,2,0) => (5,3,2):(2,10,1)
make_layout_like (5,3,2):(6,0,3) => (5,3,2):(2,1,1)
make_fragment_layout_like ((6,2),5):((1,0),100) => ((6,2),5):((1,6),12)
make_fragment_layout_like (6,5,3):(1,90,6) => (6,5,3):(1,18,6)
make_identity_layout (5,(3,?)) => (5,(3,?)):(1E0,(1E1E0,1E1E1))
slice S<1,3,3> o 2 o (6,5):(1,6) ; (*,4) => S<1,3,3> o 26 o 6:1
"""


def parse(text):
    if text.startswith("["):
        return parse_tile(text)
    if text.startswith("CS<"):
        return parse_coord_swizzle(text)
    if text.startswith("S<") and " o " not in text:
        return parse_swizzle(text)
    return parse_any_layout(text) if ":" in text else parse_int_tuple(text)


def split(line):
    name, rest = line.split(" ", 1)
    operands, result = rest.split(" => ")
    return name, operands.split(" ; "), result


CASES = [split(line) for line in VECTORS.strip().splitlines()]


@pytest.mark.parametrize("name, operands, result", CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_vector(name, operands, result):
    args = [parse(text) for text in operands]
    if name.startswith("recast"):
        _, old, new = name.split("_")
        out = fl.recast_layout(args[0], int(old), int(new))
    else:
        out = getattr(fl, name)(*args)
    assert (format_int_tuple(out) if isinstance(out, (int, tuple, Dyn)) else str(out)) == result


P = parse_layout
TC = (P("((4,8),4):((32,1),8)"), (8, 16))
UNIVERSAL_64B_F16 = P("(1,4):(1,1)")
MFMA_32_A = P("((32,2),4):((1,128),32)")
MFMA_32_C = P("((32,2),(4,4)):((32,4),(1,8))")
MFMA_16_A = P("((16,4),4):((1,64),16)")
MFMA_16_C = P("((16,4),(4,1)):((16,4),(1,16))")


def test_tiled_copy_vectors():
    offset, part = fl.copy_partition(P("(16,32):(32,1)"), *TC, UNIVERSAL_64B_F16, UNIVERSAL_64B_F16, Dyn.get())
    assert str(part) == "((4,1),2,2):((1,0),256,16)" and offset is Dyn.get(div=4)
    assert str(fl.copy_retile(P("(4,2,2):(1,4,8)"), *TC, UNIVERSAL_64B_F16)) == "((4,1),2,2):((1,0),4,8)"
    assert str(fl.tiled_copy_tv(*TC, UNIVERSAL_64B_F16, UNIVERSAL_64B_F16)) == "((4,8),(4,1)):((32,1),(8,0))"


def test_tiled_mma_vectors():
    atoms, threads = P("(2,1,1):(1,0,0)"), P("64:1")
    X = P("(64,16):(16,1)")
    offset, part = fl.mma_partition(X, "a", (32, 32, 8), MFMA_32_A, atoms, None, threads, Dyn.get())
    assert str(part) == "(4,1,2):(1,0,8)" and offset is Dyn.get(div=4)
    assert fl.mma_partition_shape((64, 32), "c", (32, 32, 8), MFMA_32_C, atoms) == ((4, 4), 1, 1)
    assert str(fl.mma_fragment_layout(X, "a", (32, 32, 8), MFMA_32_A, atoms)) == "(4,1,2):(1,0,4)"


def test_tiled_mma_thread_value_vectors():
    shape, atoms, threads = (16, 16, 16), P("(2,2,1):(1,2,0)"), P("64:1")
    assert fl.tile_size_mnk(shape, atoms) == (32, 32, 16)
    assert str(fl.thr_layout_vmnk(threads, atoms)) == "(64,2,2,1):(1,64,128,0)"
    expected = {
        "a": "((16,4,2,2),(4,(1,1))):((1,128,16,0),(32,(0,0)))",
        "b": "((16,4,2,2),(4,(1,1))):((1,128,0,16),(32,(0,0)))",
        "c": "((16,8,2),((4,1),(1,1))):((32,4,512),((1,0),(0,0)))",
    }
    for operand, text in expected.items():
        tv = MFMA_16_C if operand == "c" else MFMA_16_A
        assert str(fl.mma_tiled_tv(operand, shape, tv, atoms, None, threads)) == text
    assert isinstance(threads, Layout)
