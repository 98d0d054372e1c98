"""Math functions: every one emits its op on scalars and vectors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flydsl.expr import math as m
from flydsl.expr.emit import trace
from flydsl.expr.numeric import (
    BFloat16,
    Boolean,
    Float4E2M1FN,
    Float8E4M3FN,
    Float16,
    Float32,
    Float64,
    Int32,
    Int64,
    T,
    Uint8,
    Uint32,
)
from flydsl.expr.scalars.fastmath import fastmath
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


UNARY = (
    "absf ceil floor trunc round roundeven exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt sin cos tan asin acos "
    "atan sinh cosh tanh asinh acosh atanh erf erfc"
).split()


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("cls", [Float32, Float16, BFloat16, Float64], ids=str)
def test_unary(tracing: Tracing, name: str, cls: Any):
    f: Any = getattr(m, name)
    with tracing.since() as emitted:
        made, many = f(tracing.arg(cls)), f(tracing.vec(cls, (2, 2)), fastmath="afn")
    assert emitted == [f"math.{name}"] * 2
    assert type(made) is cls and (many.dtype, many.shape) == (cls, (2, 2))
    assert "fastmath<afn>" in str(tracing.ops()[-1])


@pytest.mark.parametrize("name", UNARY)
def test_unary_needs_a_float(tracing: Tracing, name: str):
    with pytest.raises(TypeError, match=f"{name} requires a float type, got Int32"):
        getattr(m, name)(tracing.arg(Int32))
    with pytest.raises(TypeError, match="requires a float type"):
        getattr(m, name)(2)


def test_literals_and_raw_values(tracing: Tracing):
    assert type(m.exp(1.0)) is Float32
    assert type(m.exp(Float16(1.0))) is Float16
    assert type(m.exp(tracing.raw(T.f64))) is Float64
    assert m.exp(tracing.raw(T.f32x4)).shape == (4,)
    assert [op.name for op in tracing.ops()] == ["math.exp"] * 4, "compile-time inputs are not folded"
    with pytest.raises(TypeError, match="takes scalars, vectors and numbers"):
        m.exp("1")
    assert type(m.exp(1.0, loc=None, ip=None)) is Float32


@pytest.mark.parametrize("name", ["absi", "ctlz", "cttz", "ctpop"])
def test_integer_functions_keep_the_class(tracing: Tracing, name: str):
    f: Any = getattr(m, name)
    with tracing.since() as emitted:
        made = [type(f(tracing.arg(c))) for c in (Int32, Uint32, Uint8)]
    assert made == [Int32, Uint32, Uint8] and emitted == [f"math.{name}"] * 3
    with pytest.raises(TypeError, match="requires an integer"):
        f(tracing.arg(Float32))


@pytest.mark.parametrize("name", ["powf", "atan2", "copysign"])
def test_binary(tracing: Tracing, name: str):
    f: Any = getattr(m, name)
    x = tracing.arg(Float32)
    with tracing.since() as emitted:
        f(x, x), f(x, 2), f(2.0, x)
        many = f(tracing.vec(Float32, 4), 2.0)
    assert set(emitted) == {f"math.{name}"} and len(emitted) == 4 and many.shape == (4,)
    with pytest.raises(TypeError, match="operands of one class, got Float32 and Float64"):
        f(x, tracing.arg(Float64))
    with pytest.raises(ValueError, match="vectors of one shape"):
        f(tracing.vec(Float32, 4), tracing.vec(Float32, 2))


def test_integer_powers(tracing: Tracing):
    x, n, v = tracing.arg(Float32), tracing.arg(Int32), tracing.vec(Float32, 4)
    with tracing.since() as emitted:
        a, b, c = m.fpowi(x, n), m.fpowi(v, 3), m.fpowi(x, tracing.vec(Int64, 2))
        d = m.ipowi(tracing.arg(Int64), 2)
    assert emitted == ["math.fpowi", "vector.broadcast", "math.fpowi", "vector.broadcast", "math.fpowi", "math.ipowi"]
    assert type(a) is Float32 and b.shape == (4,) and c.shape == (2,) and type(d) is Int64
    with pytest.raises(TypeError, match="integer power"):
        m.fpowi(x, 2.0)
    with pytest.raises(TypeError, match="requires an integer"):
        m.ipowi(x, 2)


def test_ternary(tracing: Tracing):
    x, v = tracing.arg(Float16), tracing.vec(Float32, 4)
    with tracing.since() as emitted:
        a, b, c = m.fma(x, x, 1.0), m.fma(v, tracing.arg(Float32), v), m.clampf(x, 0.0, 6.0, fastmath="nnan")
    assert emitted == ["math.fma", "vector.broadcast", "math.fma", "arith.maximumf", "arith.minimumf"]
    assert type(a) is type(c) is Float16 and b.shape == (4,)
    assert "fastmath<nnan>" in str(tracing.ops()[-1])


def test_sincos(tracing: Tracing):
    with tracing.since() as emitted:
        s, c = m.sincos(tracing.arg(Float32))
    assert emitted == ["math.sin", "math.cos"] and type(s) is type(c) is Float32


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("isnan", ["arith.cmpf"]),
        ("isinf", ["math.absf", "arith.cmpf"]),
        ("isfinite", ["math.absf", "arith.cmpf"]),
        ("isnormal", ["math.absf", "arith.cmpf", "arith.cmpf", "arith.andi"]),
    ],
)
def test_predicates(tracing: Tracing, name: str, ops: list[str]):
    f: Any = getattr(m, name)
    with fastmath("fast"), tracing.since() as emitted:
        one = f(tracing.arg(Float32))
    assert emitted == ops and type(one) is Boolean
    assert "fastmath" not in "".join(str(op) for op in tracing.ops()), "flags would decide the answer"
    many = f(tracing.vec(Float16, 4))
    assert many.dtype is Boolean and many.shape == (4,)
    for cls in (Float8E4M3FN, Float4E2M1FN):
        assert type(f(tracing.arg(cls))) is Boolean


def test_ambient_flags_reach_math(tracing: Tracing):
    with fastmath("contract"):
        m.exp(tracing.arg(Float32))
        m.exp(tracing.arg(Float32), fastmath="none")
    assert ["fastmath<contract>" in str(op) for op in tracing.ops()] == [True, False]


def test_names():
    assert set(UNARY) < set(m.__all__) and len(m.__all__) == 47
    assert all(getattr(m, name).__doc__ for name in m.__all__)
