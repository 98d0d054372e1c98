"""Arithmetic functions and the builders of the `arith` dialect."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flydsl.expr import arith as a
from flydsl.expr.emit import trace
from flydsl.expr.numeric import (
    Boolean,
    Float8E4M3FN,
    Float16,
    Float32,
    Float64,
    Index,
    Int8,
    Int32,
    Int64,
    T,
    Uint8,
    Uint32,
)
from flydsl.expr.vector import Vector


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


# --- max, min ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("xs", "largest", "smallest"),
    [
        ((1, 2, 3), "Int32(3)", "Int32(1)"),
        ((1, [2.5, (2,)]), "Float32(2.5)", "Float32(1.0)"),
        ((True, False), "Int32(1)", "Int32(0)"),
        ((Uint8(200), Int8(-1)), "Uint8(255)", "Uint8(200)"),
        ((0.0, -0.0), "Float32(0.0)", "Float32(-0.0)"),
        ((1.0, math.nan), "Float32(nan)", "Float32(nan)"),
        ((Float64(1),), "Float64(1.0)", "Float64(1.0)"),
        ((True,), "Int32(1)", "Int32(1)"),
    ],
)
def test_static_extrema(xs: Any, largest: str, smallest: str):
    assert repr(a.max(*xs)) == largest and repr(a.min(*xs)) == smallest


def test_runtime_extrema(tracing: Tracing):
    i, u, f, v = tracing.arg(Int32), tracing.arg(Uint32), tracing.arg(Float32), tracing.vec(Float32, (2, 2))
    with tracing.since() as emitted:
        made = [a.max(i, 3), a.min(u, u, 1), a.max(f, i), a.min(v, f)]
    assert emitted == [
        "arith.maxsi", "arith.minui", "arith.minui", "arith.sitofp", "arith.maximumf", "vector.broadcast",
        "arith.minimumf",
    ]  # fmt: skip
    assert [m.dtype for m in made] == [Int32, Uint32, Float32, Float32] and made[-1].shape == (2, 2)
    a.max(f, 1.0, fastmath="nsz")
    assert "fastmath<nsz>" in str(tracing.ops()[-1])
    assert a.max(v).value is v.value


def test_extrema_refuse(tracing: Tracing):
    with pytest.raises(ValueError, match="at least one operand"):
        a.max()
    with pytest.raises(ValueError, match="at least one operand"):
        a.min([])
    for bad in (Index(1), Float8E4M3FN(1.0), "1", None):
        with pytest.raises(TypeError):
            a.max(1, bad)


# --- ceildiv ----------------------------------------------------------------------------------------------------------


def test_ceildiv(tracing: Tracing):
    assert [int(a.ceildiv(x, y)) for x, y in ((7, 2), (-7, 2), (8, 2), (0, 5), (7, -2))] == [4, -3, 4, 0, -3]
    assert repr(a.ceildiv(Uint8(255), Uint8(2))) == "Uint8(128)" and type(a.ceildiv(Int64(1), 2)) is Int64
    with tracing.since() as emitted:
        made = [
            a.ceildiv(tracing.arg(Int32), 64),
            a.ceildiv(tracing.arg(Uint32), Uint32(4)),
            a.ceildiv(tracing.vec(Int32, 4), 3),
        ]
    assert emitted == ["arith.ceildivsi", "arith.ceildivui", "arith.ceildivsi"]
    assert made[2].shape == (4,)
    with pytest.raises(ZeroDivisionError):
        a.ceildiv(1, 0)
    with pytest.raises(OverflowError, match="does not fit Int32"):
        a.ceildiv(-(2**31), -1)
    for bad in (True, Index(4), 2.0, "4"):
        with pytest.raises(TypeError):
            a.ceildiv(8, bad)


# --- comparisons and choices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("predicate", list(a.CmpIPredicate), ids=lambda p: p.name)
def test_cmpi(tracing: Tracing, predicate: Any):
    made = a.cmpi(predicate, tracing.arg(Int32), 3)
    assert type(made) is Boolean and f"cmpi {predicate.name}," in str(made.value.owner)
    assert a.cmpi(predicate.name, tracing.vec(Uint8, 4), tracing.vec(Uint8, 4)).shape == (4,)


@pytest.mark.parametrize("predicate", list(a.CmpFPredicate), ids=lambda p: p.name)
def test_cmpf(tracing: Tracing, predicate: Any):
    made = a.cmpf(predicate, tracing.arg(Float32), 3.0, fastmath="nsz")
    name = {"AlwaysFalse": "false", "AlwaysTrue": "true"}.get(predicate.name, predicate.name.lower())
    assert type(made) is Boolean and f"cmpf {name}," in str(made.value.owner)


def test_comparisons_fold_and_refuse(tracing: Tracing):
    assert repr(a.cmpi("ult", -1, 1)) == "Boolean(False)" and repr(a.cmpi("slt", -1, 1)) == "Boolean(True)"
    assert repr(a.cmpf(a.CmpFPredicate.uno, math.nan, 1.0)) == "Boolean(True)"
    assert a.CmpFPredicate.olt is a.CmpFPredicate.OLT
    with pytest.raises(ValueError, match="arith.CmpIPredicate.*eq, ne, slt"):
        a.cmpi("lt", 1, 2)
    with pytest.raises(TypeError, match="use cmpf"):
        a.cmpi("eq", tracing.arg(Float32), 1.0)
    with pytest.raises(TypeError, match="use cmpi"):
        a.cmpf("oeq", tracing.arg(Int32), 1)
    with pytest.raises(TypeError, match="one class"):
        a.cmpi("eq", tracing.arg(Int32), tracing.arg(Int64))
    with pytest.raises(TypeError, match="one class"):
        a.cmpi("eq", Int32(1), Int64(1))


def test_select(tracing: Tracing):
    c, v = tracing.arg(Boolean), tracing.vec(Float32, 4)
    assert type(a.select(c, 1, 2.0)) is Float32 and a.select(v > 0.0, v, 0.0).shape == (4,)
    assert type(a.select(tracing.raw(T.i1), 1, 2)) is Int32


def test_shrui(tracing: Tracing):
    assert repr(a.shrui(Int32(-1), 28)) == "Int32(15)" and repr(a.shrui(Int32(-1), 40)) == "Int32(0)"
    with tracing.since() as emitted:
        made = [a.shrui(tracing.arg(Int64), tracing.arg(Int32)), a.shrui(tracing.vec(Int32, 4), 2)]
    assert emitted == ["arith.extsi", "arith.shrui", "arith.shrui"]
    assert type(made[0]) is Int64 and made[1].dtype is Int32
    with pytest.raises(TypeError, match="requires an integer"):
        a.shrui(1.0, 1)


# --- builders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    (
        "addi subi muli divsi divui remsi remui floordivsi ceildivsi ceildivui andi ori xori shli shrsi minsi maxsi "
        "minui maxui"
    ).split(),
)
def test_integer_builders(tracing: Tracing, name: str):
    build: Any = getattr(a, name)
    with tracing.since() as emitted:
        one, raw, many = (
            build(tracing.arg(Uint32), 3),
            build(tracing.raw(T.i32), 3),
            build(tracing.vec(Int8, 2), tracing.vec(Int8, 2)),
        )
    assert emitted == [f"arith.{name}"] * 3
    assert (type(one), type(raw), many.dtype) == (Uint32, Int32, Int8)
    with pytest.raises(TypeError, match="requires integers"):
        build(tracing.arg(Float32), 1.0)


@pytest.mark.parametrize("name", "addf subf mulf divf remf maximumf minimumf maxnumf minnumf".split())
def test_float_builders(tracing: Tracing, name: str):
    build: Any = getattr(a, name)
    x = tracing.arg(Float32)
    made = build(x, 2.0, fastmath="fast")
    assert (
        type(made) is Float32 and "fastmath<fast>" in str(made.value.owner) and made.value.owner.name == f"arith.{name}"
    )
    with pytest.raises(TypeError, match="one class"):
        build(x, tracing.arg(Float64))
    with pytest.raises(TypeError, match="requires floats"):
        build(1, 2)


def test_op_classes(tracing: Tracing):
    x = tracing.arg(Float32)
    assert type(a.AddFOp(x, 1.0).result) is Float32 and type(a.NegFOp(x).result) is Float32
    assert type(a.ConstantOp(3).result) is Int32
    with pytest.raises(AttributeError):
        _ = a.NoSuchOp
    with pytest.raises(AttributeError):
        _ = a.nothing


def test_constants(tracing: Tracing):
    assert repr(a.constant(3)) == "Int32(3)" and repr(a.index(3)) == "Index(3)"
    assert [repr(a.constant(2, type=t)) for t in (T.i64, Float16, T.i1)] == [
        "Int64(2)",
        "Float16(2.0)",
        "Boolean(True)",
    ]
    assert a.constant(0.0, type=T.f32x4).shape == (4,) and a.constant_vector(1, T.i8x4).dtype is Int8
    assert type(a.index(tracing.arg(Int32))) is Index
    assert str(a.unwrap(3).type) == "i32" and str(a.unwrap(3, index=True).type) == "index"
    assert str(a.unwrap(tracing.arg(Int32), type=T.f32).type) == "f32"
    with pytest.raises(TypeError, match="IR vector type"):
        a.constant_vector(1, T.i8)


def test_conversions(tracing: Tracing):
    i, u, f, h, v = (
        tracing.arg(Int32),
        tracing.arg(Uint32),
        tracing.arg(Float32),
        tracing.arg(Float16),
        tracing.vec(Uint8, 4),
    )
    with tracing.since() as emitted:
        made = [
            a.sitofp(T.f32, u), a.uitofp(T.f32, i), a.int_to_fp(T.f32, u), a.int_to_fp(i, Float32, True),
            a.fptosi(Uint32, f), a.fptoui(T.i32, f), a.extf(T.f32, h), a.trunc_f(T.f16, f), a.extsi(T.i64, u),
            a.extui(Int64, i),
            a.trunci(T.i8, i), a.index_cast(T.index, i), a.bitcast(T.i32, f), a.sitofp(T.vec(4, T.f32), v),
        ]  # fmt: skip
    assert [name.removeprefix("arith.") for name in emitted] == [
        "sitofp", "uitofp", "uitofp", "sitofp", "fptosi", "fptoui", "extf", "truncf", "extsi", "extui", "trunci",
        "index_cast", "bitcast", "sitofp",
    ]  # fmt: skip
    assert [str(m.dtype) for m in made] == [
        "Float32", "Float32", "Float32", "Float32", "Int32", "Uint32", "Float32", "Float16", "Int64", "Int64", "Int8",
        "Index", "Int32", "Float32",
    ]  # fmt: skip
    with pytest.raises(TypeError, match="sitofp does not convert Float32 to Float32"):
        a.sitofp(T.f32, f)


def test_names():
    assert all(hasattr(a, name) for name in a.__all__)
    assert "select" not in a.__all__, "fx.select picks modes of a layout"
