"""Vectors: shapes, operators, elements, reductions, aliases."""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from flydsl.expr import vector as v_
from flydsl.expr.emit import trace
from flydsl.expr.numeric import (
    BFloat16,
    Boolean,
    Float8E5M2,
    Float16,
    Float32,
    Float64,
    Index,
    Int4,
    Int8,
    Int32,
    Int64,
    T,
    Uint8,
    Uint32,
    as_dsl_value,
    as_ir_value,
)
from flydsl.expr.protocol import DslType, construct_from_ir_values, dsl_align_of, dsl_size_of
from flydsl.expr.vector import (
    ALIASES,
    Vector,
    VectorAlias,
    broadcast_shapes,
    empty_like,
    full,
    full_like,
    ones_like,
    zeros_like,
)
from flydsl.ir.enums import ReductionOp, RoundingMode


class Tracing:
    """A trace in progress; `arg` and `vec` give run-time values, `since` the ops emitted in a block."""

    def __init__(self, tracer: Any, block: Any):
        self.tracer, self.block = tracer, block

    def raw(self, type_: Any) -> Any:
        return self.block.insert_arg(type_, len(self.block.args))

    def arg(self, cls: Any) -> Any:
        return cls(self.raw(cls.ir_type))

    def vec(self, cls: Any, shape: Any) -> Any:
        return Vector(self.raw(Vector.make_type(shape, cls)), shape, cls)

    def ops(self) -> list[Any]:
        return [op for op in self.block.ops if op.name != "arith.constant"]

    @contextmanager
    def since(self) -> Iterator[list[str]]:
        """The ops emitted inside, constants left out."""
        before, found = set(self.block.ops), []
        yield found
        found.extend(op.name for op in self.block.ops if op not in before and op.name != "arith.constant")


@pytest.fixture
def tracing() -> Iterator[Tracing]:
    from xdsl.ir import Block

    from flydsl.expr.emit.tracer import Tracer

    tracer, block = Tracer(), Block()
    with tracer.open_function(block):
        token = trace.active.set(tracer)
        yield Tracing(tracer, block)
        trace.active.reset(token)
    for op in block.ops:
        op.verify()


def element_type(op: Any) -> str:
    return str(op.results[0].type)


# --- making -----------------------------------------------------------------------------------------------------------


def test_wrapping_an_ir_vector(tracing: Tracing):
    raw = tracing.raw(T.i32x4)
    v = Vector(raw)
    assert (v.dtype, v.element_type, v.shape, v.numel, len(v)) == (Int32, Int32, (4,), 4, 4)
    assert v.ir_value() is raw and as_ir_value(v) is raw and as_dsl_value(raw).shape == (4,)
    assert Vector(raw, (2, 2), Uint32).dtype is Uint32
    assert Vector(raw, ((2, 2), 1)).numel == 4
    assert Vector(v).value is raw
    assert repr(Vector(raw, (2, 2))) == "Vector(Int32, shape=(2, 2))"


@pytest.mark.parametrize(
    ("shape", "dtype", "text"),
    [
        ((3,), None, "3 elements"),
        (4, Float32, "does not match the IR element type"),
        ((2, "n"), None, "dynamic vector shape"),
    ],
)
def test_wrapping_refuses(tracing: Tracing, shape: Any, dtype: Any, text: str):
    with pytest.raises(ValueError, match=text):
        Vector(tracing.raw(T.i32x4), shape, dtype)


def test_runtime_dimensions_are_refused(tracing: Tracing):
    with pytest.raises(ValueError, match="dynamic vector shape"):
        full((2, tracing.arg(Int32)), 0, Int32)
    with pytest.raises(ValueError, match="Vector wraps an IR vector"):
        Vector([1, 2])


def test_from_elements(tracing: Tracing):
    x, f = tracing.arg(Int32), tracing.arg(Float32)
    with tracing.since() as emitted:
        a = Vector.from_elements([x, 2, 3])
        b = Vector.from_elements([f, x], Float16)
        c = Vector.from_elements([1.5, 2.5])
        d = Vector.from_elements([x, x])
    assert emitted == [
        "vector.from_elements",
        "arith.truncf",
        "arith.sitofp",
        "vector.from_elements",
        "vector.broadcast",
    ]
    assert [(w.dtype, w.shape) for w in (a, b, c, d)] == [
        (Int32, (3,)),
        (Float16, (2,)),
        (Float32, (2,)),
        (Int32, (2,)),
    ]
    assert str(c.value.owner.properties["value"]) == "dense<[1.500000e+00, 2.500000e+00]> : vector<2xf32>"
    with pytest.raises(ValueError, match="at least one element"):
        Vector.from_elements([])


def test_filled(tracing: Tracing):
    f = tracing.arg(Float32)
    with tracing.since() as emitted:
        made = [full(4, 1, Float16), full((2, 2), f, Float16), Vector.filled(3, True, Boolean)]
    assert emitted == ["arith.truncf", "vector.broadcast"]
    assert [str(m.value.type) for m in made] == ["vector<4xf16>", "vector<4xf16>", "vector<3xi1>"]
    v = made[1]
    likes = [
        zeros_like(v),
        ones_like(v, Int8),
        empty_like(v),
        full_like(v, 2.0),
        Vector.zeros_like(v, Int32),
        Vector.filled_like(v, 3),
    ]
    assert [(m.dtype, m.shape) for m in likes] == [
        (Float16, (2, 2)), (Int8, (2, 2)), (Float16, (2, 2)), (Float16, (2, 2)), (Int32, (2, 2)), (Float16, (2, 2)),
    ]  # fmt: skip
    assert "dense<1> : vector<4xi8>" in str(likes[1].value.owner)


# --- operators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift"]
)
def test_operators_are_those_of_the_scalars(tracing: Tracing, name: str):
    """Same ops, same classes, with vectors and scalars on either side."""
    op = getattr(operator, name)
    for a, b in ((Int32, Int32), (Uint32, Uint8), (Int8, Float32), (Boolean, Boolean)):
        if name in ("and_", "or_", "xor", "lshift", "rshift") and Float32 in (a, b):
            with pytest.raises(TypeError, match="requires integer operands"):
                op(tracing.vec(a, 4), tracing.vec(b, 4))
            continue
        with tracing.since() as scalar:
            expected = type(op(tracing.arg(a), tracing.arg(b)))
        with tracing.since() as vector:
            made = op(tracing.vec(a, 4), tracing.vec(b, 4))
        assert vector == scalar and made.dtype is expected and made.shape == (4,)
        assert str(made.value.type) == f"vector<4x{expected.ir_name}>"
        assert op(tracing.vec(a, 4), tracing.arg(b)).dtype is expected
        assert op(tracing.arg(a), tracing.vec(b, 4)).dtype is expected


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_give_booleans(tracing: Tracing, name: str):
    op = getattr(operator, name)
    for made in (
        op(tracing.vec(Int32, 4), 3),
        op(3, tracing.vec(Int32, 4)),
        op(tracing.vec(Float32, 4), tracing.arg(Int32)),
    ):
        assert made.dtype is Boolean and str(made.value.type) == "vector<4xi1>"


def test_literals_become_splats(tracing: Tracing):
    v = tracing.vec(Float32, 4)
    with tracing.since() as emitted:
        made = 2 * v + 0.5
    assert emitted == ["arith.mulf", "arith.addf"] and made.dtype is Float32


def test_unary(tracing: Tracing):
    with tracing.since() as emitted:
        made = [-tracing.vec(Float32, 2), abs(tracing.vec(Int32, 2)), ~tracing.vec(Int8, 2), ~tracing.vec(Boolean, 2)]
    assert emitted == ["arith.negf", "math.absi", "arith.xori", "arith.xori"]
    assert [m.dtype for m in made] == [Float32, Int32, Int8, Boolean]
    v = tracing.vec(Int32, 4)
    quotient, rest = divmod(v, 3)
    assert +v is v and quotient.dtype is rest.dtype is Int32
    with pytest.raises(TypeError, match="~ requires an integer"):
        ~tracing.vec(Float32, 2)
    with pytest.raises(TypeError):
        v + None
    assert (v == None) is False  # noqa: E711
    assert len({v, tracing.vec(Int32, 4)}) == 2


@pytest.mark.parametrize(
    ("a", "b", "shape"),
    [
        ((4,), (4,), (4,)),
        ((2, 4), (4,), (2, 4)),
        ((2, 1), (1, 3), (2, 3)),
        ((2, 1), (3,), (2, 3)),
        ((1,), (2, 2), (2, 2)),
        ((2, 2), (1, 1, 1), (1, 2, 2)),
        (((2, 2), 3), ((2, 2), 3), ((2, 2), 3)),
        (((2, 2), 3), (2, 2, 3), (2, 2, 3)),
    ],
)
def test_broadcast_shapes(a: Any, b: Any, shape: Any):
    assert broadcast_shapes(a, b) == shape


def test_broadcasting_follows_numpy(tracing: Tracing):
    """The shuffle masks pick the elements numpy would."""
    for source, target in (((2, 1), (2, 3)), ((3,), (2, 3)), ((2, 1, 2), (2, 2, 2))):
        v = tracing.vec(Float32, source).broadcast_to(target)
        numbers = np.broadcast_to(np.arange(np.prod(source)).reshape(source), target).ravel()
        assert list(v.value.owner.properties["mask"].get_values()) == numbers.tolist() and v.shape == target
    with tracing.since() as emitted:
        made = tracing.vec(Float32, (2, 1)) + tracing.vec(Float32, (1, 3))
        tracing.vec(Float32, 1) * tracing.vec(Float32, 4)
    assert emitted == [
        "vector.shuffle",
        "vector.shuffle",
        "arith.addf",
        "vector.extract",
        "vector.broadcast",
        "arith.mulf",
    ]
    assert made.shape == (2, 3)
    with pytest.raises(ValueError, match="cannot broadcast"):
        tracing.vec(Float32, 4) + tracing.vec(Float32, 3)
    with pytest.raises(ValueError, match="cannot broadcast"):
        tracing.vec(Float32, 4).broadcast_to(2)


# --- elements ---------------------------------------------------------------------------------------------------------


def static_position(x: Any) -> list[int]:
    return list(x.value.owner.properties["static_position"].get_values())


def test_indexing(tracing: Tracing):
    v = tracing.vec(Uint8, 4)
    assert type(v[1]) is Uint8 and static_position(v[1]) == [1] and static_position(v[-1]) == [3]
    assert static_position(v[Int32(2)]) == [2]
    with tracing.since() as emitted:
        made = v[tracing.arg(Int32)]
        v[tracing.arg(Index)]
    assert emitted == ["arith.index_cast", "vector.extract", "vector.extract"] and type(made) is Uint8
    for bad in (4, -5):
        with pytest.raises(IndexError, match="outside a dimension of 4"):
            v[bad]
    with pytest.raises(TypeError, match="indexed with integers"):
        v[1.0]
    assert len(list(v)) == 4


def test_tuple_indexing_is_row_major(tracing: Tracing):
    v = tracing.vec(Float32, (2, 3, 4))
    numbers = np.arange(24).reshape(2, 3, 4)
    assert static_position(v[1, 2, 3]) == [numbers[1, 2, 3]] and static_position(v[0, -1, 2]) == [numbers[0, -1, 2]]
    for coord, shape in (
        ((None, 1, None), (2, 4)),
        ((1, None, 2), (3,)),
        ((None, None, 0), (2, 3)),
        ((0, None, None), (3, 4)),
    ):
        picked = v[coord]
        expected = numbers[tuple(slice(None) if c is None else c for c in coord)]
        assert picked.shape == shape
        assert list(picked.value.owner.properties["mask"].get_values()) == expected.ravel().tolist()
    with pytest.raises(ValueError, match="expected 3 coordinates"):
        v[1, 2]
    with pytest.raises(IndexError):
        v[0, 3, 0]
    for bad in ((slice(None), 1, 2), (1, slice(0, 2), 0)):
        with pytest.raises(TypeError, match="cannot be sliced"):
            v[bad]
    with pytest.raises(TypeError, match="cannot be sliced"):
        v[1:2]


def test_nested_shapes_take_top_level_or_flat_coordinates(tracing: Tracing):
    v = tracing.vec(Float32, ((2, 2), 3))
    assert static_position(v[3, 1]) == [10] and static_position(v[1, 1, 1]) == [10]
    assert v[None, 1].shape == ((2, 2),) and v[2, None].shape == (3,)


def test_runtime_coordinates(tracing: Tracing):
    v = tracing.vec(Float32, (2, 3))
    i = tracing.arg(Int32)
    with tracing.since() as emitted:
        one, row = v[1, i], v[i, None]
    assert one.dtype is Float32 and row.shape == (3,)
    assert emitted.count("vector.extract") == 4 and emitted[-1] == "vector.from_elements"


# --- conversions ------------------------------------------------------------------------------------------------------


def test_to(tracing: Tracing):
    v = tracing.vec(Float32, (2, 2))
    with tracing.since() as emitted:
        made = [
            v.to(Int32),
            v.to(Float16),
            v.to(Boolean),
            tracing.vec(Uint8, 4).to(Index),
            tracing.vec(Int32, 4).to(Float64),
        ]
    assert emitted == ["arith.fptosi", "arith.truncf", "arith.cmpf", "arith.extui", "arith.index_cast", "arith.sitofp"]
    assert made[0].shape == (2, 2) and v.to(Float32) is v
    v.to(BFloat16, rounding_mode=RoundingMode.upward)
    assert str(tracing.ops()[-1]).endswith("upward : vector<4xf32> to vector<4xbf16>")
    with pytest.raises(TypeError, match="float-to-float"):
        v.to(Int32, rounding_mode=RoundingMode.upward)


def test_bitcast(tracing: Tracing):
    v = tracing.vec(Float32, (2, 2))
    with tracing.since() as emitted:
        made = [v.bitcast(Uint8), v.bitcast(Float64), v.bitcast(Int32), tracing.vec(Int32, 2).bitcast(Uint32)]
        tracing.vec(Float64, 2).bitcast(Index)
    assert emitted == ["vector.bitcast"] * 4 + ["arith.index_cast"]
    assert [(m.dtype, m.shape) for m in made] == [(Uint8, (16,)), (Float64, (2,)), (Int32, (4,)), (Uint32, (2,))]
    with pytest.raises(ValueError, match="whole elements"):
        tracing.vec(Float32, 3).bitcast(Int64)
    with pytest.raises(TypeError, match="Numeric class"):
        v.bitcast(int)
    with pytest.raises(TypeError, match="Index vectors"):
        v.bitcast(Index)


def test_methods_of_raw_values(tracing: Tracing):
    h, f, i = tracing.vec(Float16, 4), tracing.vec(Float32, 4), tracing.vec(Int32, 4)
    with tracing.since() as emitted:
        made = [
            h.extf(T.f32x4), f.truncf(Float16), i.extui(T.i64), i.extsi(Int64), i.trunci(Int8), i.index_cast(T.index),
            f.addf(f, fastmath="fast"), f.maximumf(0.0), f.minimumf(f), f.exp2(), f.rsqrt(), i.shrui(2),
            f.bitcast(T.i32x4), h.to(v_.Float64x4),
        ]  # fmt: skip
    assert [name.split(".")[1] for name in emitted] == [
        "extf", "truncf", "extui", "extsi", "trunci", "index_cast", "addf", "maximumf", "minimumf", "exp2", "rsqrt",
        "shrui", "bitcast", "extf",
    ]  # fmt: skip
    assert made[2].dtype is Int64 and made[12].dtype is Int32 and made[13].dtype is Float64


def test_reshape(tracing: Tracing):
    v = tracing.vec(Float32, 6)
    assert v.reshape((2, 3)).shape == (2, 3) and v.reshape((2, 3)).value is v.value
    with pytest.raises(ValueError, match="cannot reshape 6"):
        v.reshape(4)


def test_shuffle(tracing: Tracing):
    v, w = tracing.vec(Float32, 4), tracing.vec(Float32, 2)
    made = v.shuffle(w, [0, 5, 3])
    assert made.shape == (3,) and "[0, 5, 3]" in str(made.value.owner)
    with pytest.raises(ValueError, match="from 0 to 5"):
        v.shuffle(w, [6])
    with pytest.raises(TypeError, match="another Vector of Float32"):
        v.shuffle(tracing.vec(Int32, 4), [0])


def test_select(tracing: Tracing):
    c, v = tracing.vec(Boolean, 4), tracing.vec(Float32, 4)
    with tracing.since() as emitted:
        made = [c.select(v, 0.0), c.select(1, 2), tracing.vec(Int32, 4).select(v, tracing.arg(Int32))]
    assert emitted == ["arith.select", "arith.select", "arith.cmpi", "arith.sitofp", "vector.broadcast", "arith.select"]
    assert [m.dtype for m in made] == [Float32, Int32, Float32]
    with pytest.raises(ValueError, match="4 lanes"):
        c.select(tracing.vec(Float32, 2), 0.0)
    with pytest.raises(TypeError, match="vectors and scalars"):
        c.select("a", v)


def test_scalar_condition_on_vectors(tracing: Tracing):
    c, v, w = tracing.arg(Boolean), tracing.vec(Float32, (2, 2)), tracing.vec(Float32, (2, 2))
    made = c.select(v, w)
    assert made.shape == (2, 2) and made.value.owner.name == "arith.select"
    assert Boolean(True).select(v, w) is v
    with pytest.raises(TypeError, match="equal type"):
        c.select(v, tracing.vec(Float16, 4))


# --- reductions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "cls", "kind"),
    [
        (ReductionOp.ADD, Int32, "add"),
        ("mul", Float32, "mul"),
        ("max", Float32, "maxnumf"),
        ("min", Float32, "minimumf"),
        ("max", Int32, "maxsi"),
        ("max", Uint32, "maxui"),
        (ReductionOp.MIN, Uint8, "minui"),
        ("min", Int8, "minsi"),
        ("max", Boolean, "or"),
        ("min", Boolean, "and"),
        ("maximumf", Float32, "maximumf"),
        ("xor", Int32, "xor"),
    ],
)
def test_reduce(tracing: Tracing, op: Any, cls: Any, kind: str):
    made = tracing.vec(cls, 4).reduce(op)
    assert type(made) is cls and made.value.owner.properties["kind"].data == kind


def test_reduce_options(tracing: Tracing):
    v = tracing.vec(Float32, 4)
    made = v.reduce("add", Float16(1.0), fastmath="reassoc")
    op = made.value.owner
    assert len(op.operands) == 2 and "fastmath<reassoc>" in str(op)
    assert v.reduce("add", tracing.raw(T.f32)).dtype is Float32
    with pytest.raises(ValueError, match="unknown reduction 'median'; expected one of add, mul, max, min"):
        v.reduce("median")
    with pytest.raises(TypeError, match="fx.ReductionOp"):
        v.reduce(3)
    with pytest.raises(TypeError, match="init_val"):
        v.reduce("add", 0.0)
    with pytest.raises(TypeError, match="Booleans"):
        tracing.vec(Boolean, 4).reduce("add")
    with pytest.raises(ValueError, match="full reductions"):
        v.reduce("add", None, (None, 1))


# --- memory, truth, protocols -----------------------------------------------------------------------------------------


def test_memref_access(tracing: Tracing):
    from xdsl.dialects.builtin import MemRefType, f32

    ref = tracing.raw(MemRefType(f32, [8, 8]))
    i = tracing.arg(Int32)
    with tracing.since() as emitted:
        v = Vector.load(T.f32x4, ref, [i, 0])
        v_.Float32x4  # noqa: B018
        w = Vector.load(v_.Float32x2, ref, [i, 0])
        v.store(ref, [0, i], alignment=16)
    assert emitted == ["arith.index_cast", "vector.load", "vector.load", "vector.store"]
    assert (v.shape, w.shape) == ((4,), (2,))
    with pytest.raises(TypeError, match="expected a memref"):
        v.store(tracing.raw(T.i32), [0])


def test_a_vector_has_no_truth(tracing: Tracing):
    with pytest.raises(TypeError, match="no single truth value"):
        bool(tracing.vec(Boolean, 4))


def test_protocols(tracing: Tracing):
    v = tracing.vec(Uint8, (2, 2))
    assert isinstance(v, DslType)
    (raw,) = v.__extract_to_ir_values__()
    back = construct_from_ir_values(v, [raw])
    assert (back.value, back.shape, back.dtype) == (raw, (2, 2), Uint8)
    assert as_dsl_value(raw, v).dtype is Uint8


# --- aliases ----------------------------------------------------------------------------------------------------------


def test_alias_table():
    assert {
        "Float16x1",
        "BFloat16x16",
        "Uint16x8",
        "Float8E8M0FNUx4",
        "Int32x8",
        "Float64x4",
        "Int4x32",
        "Int128x1",
    } <= set(ALIASES)
    assert not {"Float32x16", "Int64x8", "Int4x1", "Float6E2M3FNx2"} & set(ALIASES)
    assert len(ALIASES) == 13 * 5 + 3 * 4 + 3 * 3 + 2 * 5 + 2
    with pytest.raises(AttributeError):
        _ = v_.Float32x3


def test_aliases_are_made_once():
    assert Vector[Float32, 4] is v_.Float32x4 is VectorAlias(Float32, 4) is Vector[Float32, (4,)]
    nested = Vector[BFloat16, ((2, 2), 3)]
    assert nested is Vector[BFloat16, ((2, 2), 3)] and nested.shape == ((2, 2), 3) and nested.dtype is BFloat16
    assert str(nested) == "BFloat16x((2,2),3)" and str(v_.Float32x4) == "Float32x4"
    assert str(v_.Float32x4.ir_type) == "vector<4xf32>" and issubclass(v_.Float32x4, Vector)
    for bad in (Float32, (Float32, 4, 4)):
        with pytest.raises(TypeError, match="Vector.dtype, shape."):
            Vector[bad]
    with pytest.raises(TypeError, match="no IR type of its own"):
        _ = Vector.ir_type
    with pytest.raises(ValueError, match="positive dimensions"):
        VectorAlias(Float32, 0)


def test_calling_an_alias(tracing: Tracing):
    f = tracing.arg(Float32)
    for source in (
        f,
        1.0,
        2,
        [f, 1, 2.0, f],
        (1, 2, 3, 4),
        tracing.raw(T.f32x4),
        tracing.vec(Float32, (2, 2)),
        tracing.raw(T.f32),
    ):
        made = v_.Float32x4(source)
        assert str(made.value.type) == "vector<4xf32>" and made.shape == (4,) and made.dtype is Float32
        assert isinstance(made, v_.Float32x4)
    for bad in ([1.0, 2.0], tracing.raw(T.f32x2), tracing.raw(T.i32x4), tracing.vec(Int32, 4)):
        with pytest.raises(ValueError, match="Float32x4"):
            v_.Float32x4(bad)
    assert (v_.Float32x4(f) + 1).dtype is Float32


def test_aliases_are_storable(tracing: Tracing):
    aliases = [v_.Float32x4, v_.Float32x8, v_.Int8x2, v_.Int4x8, VectorAlias(Float8E5M2, 3), VectorAlias(Float32, 3)]
    assert [(dsl_size_of(a), dsl_align_of(a)) for a in aliases] == [(16, 16), (32, 16), (2, 2), (4, 4), (3, 1), (12, 4)]
    with pytest.raises(TypeError, match="not Storable"):
        dsl_size_of(Vector)
    with pytest.raises(TypeError, match="cannot use"):
        v_.Float32x4.__coerce__([1.0])
    assert Int4.width == 4 and Int64.width == 64
