"""Scalar classes: construction, casts, promotion, operators, folding, protocols, and fast-math flags around them."""

import ctypes
import math
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.expr import numeric as n
from flydsl.expr.emit import trace
from flydsl.expr.numeric import (
    BFloat16,
    Boolean,
    Float,
    Float4E2M1FN,
    Float6E2M3FN,
    Float8E4M3FN,
    Float8E5M2,
    Float16,
    Float32,
    Float64,
    Index,
    Int4,
    Int8,
    Int16,
    Int32,
    Int64,
    Int128,
    Integer,
    Numeric,
    RoundingMode,
    T,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Uint128,
    as_dsl_value,
    as_ir_value,
    as_numeric,
)
from flydsl.expr.protocol import DslType, JitArgument, construct_from_ir_values, dsl_align_of, dsl_size_of
from flydsl.expr.scalars.fastmath import FastMathFlags, effective, fastmath, parse_flags, set_default
from flydsl.expr.scalars.scalar_ops import CLASSES, common_type
from flydsl.ir import fold

ALL = sorted(CLASSES.values(), key=str)
STORAGE = [c for c in ALL if c.is_float and c.width < 16]


class Tracing:
    """A trace in progress; `arg` gives run-time scalars, `since` the ops emitted in a block."""

    def __init__(self, tracer: Any, block: Any):
        self.tracer, self.block = tracer, block

    def raw(self, cls: Any) -> Any:
        return self.block.insert_arg(cls.ir_type, len(self.block.args))

    def arg(self, cls: Any) -> Any:
        return cls(self.raw(cls))

    def ops(self) -> list[Any]:
        return [op for op in self.block.ops if op.name != "arith.constant"]

    @contextmanager
    def since(self) -> Iterator[list[str]]:
        """Names of the ops emitted inside, constants left out; comparisons with their predicate."""
        before, found = set(self.block.ops), []
        yield found
        found.extend(describe(op) for op in self.block.ops if op not in before and op.name != "arith.constant")


def describe(op: Any) -> str:
    from flydsl.ir.builder import CMPF, CMPI

    predicate = op.properties.get("predicate")
    if predicate is None:
        return op.name.split(".")[1]
    table = CMPI if op.name == "arith.cmpi" else CMPF
    return next(name for name, number in table.items() if number == predicate.value.data)


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


# --- classes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "width", "log_width", "signed", "ir"),
    [
        (Boolean, 1, 0, True, "i1"),
        (Int4, 4, 2, True, "i4"),
        (Int8, 8, 3, True, "i8"),
        (Int32, 32, 5, True, "i32"),
        (Int128, 128, 7, True, "i128"),
        (Uint8, 8, 3, False, "i8"),
        (Uint64, 64, 6, False, "i64"),
        (Index, 64, 6, False, "index"),
        (Float16, 16, 4, None, "f16"),
        (BFloat16, 16, 4, None, "bf16"),
        (Float64, 64, 6, None, "f64"),
        (Float8E4M3FN, 8, 3, None, "f8E4M3FN"),
        (Float6E2M3FN, 6, 3, None, "f6E2M3FN"),
        (Float4E2M1FN, 4, 2, None, "f4E2M1FN"),
    ],
)
def test_class_attributes(cls: Any, width: int, log_width: int, signed: bool | None, ir: str):
    assert (cls.width, cls.log_width, cls.signed) == (width, log_width, signed)
    assert cls.is_float == (signed is None) and cls.is_integer == (signed is not None)
    assert str(cls.ir_type) == ir
    assert str(cls) == cls.__name__


def test_there_are_27_classes():
    assert len(ALL) == 27
    assert all(issubclass(c, Integer if c.is_integer else Float) for c in ALL)


@pytest.mark.parametrize("cls", ALL, ids=str)
def test_ir_type_leads_back_to_the_signed_class(cls: Any):
    back = Numeric.from_ir_type(cls.ir_type)
    assert back.ir_type == cls.ir_type
    assert back.signed in (True, None) or back is Index
    assert back is cls or cls.signed is False


def test_from_ir_type_of_something_else():
    from xdsl.dialects.builtin import IntegerType, NoneType

    with pytest.raises(ValueError, match="no scalar class"):
        Numeric.from_ir_type(NoneType())
    with pytest.raises(ValueError, match="no scalar class"):
        Numeric.from_ir_type(IntegerType(3))


def test_numpy_dtypes():
    assert Uint16.numpy_dtype == np.uint16
    assert Boolean.numpy_dtype == np.bool_
    assert [c.numpy_dtype for c in (BFloat16, Int4, Int128, Float8E5M2)] == [None] * 4


def test_zero():
    assert repr((Float32.zero, Int8.zero, Boolean.zero)) == "(0.0, 0, 0)"


@pytest.mark.parametrize("cls", [Numeric, Integer, Float])
def test_abstract_classes_cannot_be_made(cls: Any):
    with pytest.raises(TypeError, match="abstract"):
        cls(1)


# --- compile-time construction ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "source", "value"),
    [
        (Int8, 200, -56),
        (Uint64, -1, 2**64 - 1),
        (Int4, 20, 4),
        (Boolean, 2, True),
        (Boolean, 0.5, True),
        (Boolean, math.nan, True),
        (Boolean, 0, False),
        (Int32, 2.9, 2),
        (Int32, -2.9, -2),
        (Int32, True, 1),
        (Float32, 0.1, 0.1),
        (Float16, 3, 3.0),
        (Int32, Float32(-7.9), -7),
        (Float64, Float32(0.1), 0.1),
        (Float16, 0.1, 0.0999755859375),
        (Float32, Float64(0.1), 0.10000000149011612),
        (Float64, Float8E4M3FN(100.0), 96.0),
        (Float64, Float8E5M2(1e6), math.inf),
        (Float32, Int64(2**60 - 1), 2.0**60),
        (Uint64, -1.0, 0),
        (Int32, 3e9, 2**31 - 1),
        (Uint8, Float32(-2.0), 0),
        (Int8, 300.0, 44),
        (Int8, 1e9, -1),
        (Uint8, Int32(-1), 255),
        (Int64, Uint64(2**64 - 1), -1),
        (Int32, np.int64(7), 7),
        (Float32, np.float32(0.5), 0.5),
        (Int128, 2**127, -(2**127)),
    ],
)
def test_construction(cls: Any, source: Any, value: Any):
    made = cls(source)
    assert type(made) is cls and made.is_static()
    assert made.value == value and type(made.value) is type(value)


@pytest.mark.parametrize(
    ("source", "error"),
    [(math.nan, ValueError), (math.inf, OverflowError), (-math.inf, OverflowError)],
)
def test_non_finite_floats_are_no_integers(source: float, error: type[Exception]):
    with pytest.raises(error, match="no integer value"):
        Int32(source)


@pytest.mark.parametrize("source", ["1", [1], None, object(), 1j])
def test_construction_from_something_else(source: Any):
    with pytest.raises(ValueError, match="expects a number"):
        Int32(source)


def test_as_numeric():
    values = [True, 5, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**64 - 1, 0.5]
    assert [str(type(as_numeric(v))) for v in values] == [
        "Boolean", "Int32", "Int32", "Int64", "Int32", "Int64", "Int64", "Float32",
    ]  # fmt: skip
    x = Uint8(3)
    assert as_numeric(x) is x and Numeric.from_python_value(x) is x
    with pytest.raises(ValueError, match="expected a number"):
        as_numeric("3")
    with pytest.raises(OverflowError, match="Int128"):
        as_numeric(2**64)


def test_python_representations():
    assert (int(Float32(2.5)), float(Float32(2.5)), bool(Int32(3)), operator.index(Int8(4))) == (2, 2.5, True, 4)
    assert list(range(Int32(3))) == [0, 1, 2]
    assert [10, 20][Int32(1)] == 20
    assert (repr(Int32(5)), str(Int32(5)), f"{Int32(5):03d}") == ("Int32(5)", "?", "005")
    assert hash(Int32(5)) == hash(5) and {Int32(5): "x"}[Int32(5)] == "x"
    with pytest.raises(TypeError, match="cannot be an index"):
        operator.index(Float32(1.0))


def test_forcing_a_runtime_value_says_what_to_do(tracing: Tracing):
    x = tracing.arg(Int32)
    with pytest.raises(RuntimeError, match="cannot evaluate dynamic Int32 as Python bool.*select"):
        bool(x)
    for force in (int, operator.index):
        with pytest.raises(RuntimeError, match="dynamic Int32 has no Python integer representation.*Constexpr"):
            force(x)
    with pytest.raises(RuntimeError, match="has no Python float representation"):
        float(x)
    with pytest.raises(RuntimeError, match="formatted"):
        f"{x:d}"
    assert (repr(x), str(x)) == ("Int32(?)", "?")
    assert len({x, tracing.arg(Int32)}) == 2


# --- casts of run-time values -----------------------------------------------------------------------------------------

CASTS: list[tuple[Any, Any, list[str]]] = [
    (Int32, Int16, ["trunci"]),
    (Int32, Int64, ["extsi"]),
    (Uint32, Int64, ["extui"]),
    (Boolean, Int32, ["extui"]),
    (Int32, Uint32, []),
    (Int8, Float32, ["sitofp"]),
    (Uint8, Float32, ["uitofp"]),
    (Boolean, Float32, ["uitofp"]),
    (Float32, Int32, ["fptosi"]),
    (Float32, Uint32, ["fptoui"]),
    (Float16, Float32, ["extf"]),
    (Float32, BFloat16, ["truncf"]),
    (Float16, BFloat16, ["extf", "truncf"]),
    (Float8E4M3FN, Float8E5M2, ["extf", "truncf"]),
    (Int8, Float8E4M3FN, ["sitofp", "truncf"]),
    (Uint32, Float8E5M2, ["uitofp", "truncf"]),
    (Float8E4M3FN, Int8, ["extf", "fptosi"]),
    (Float32, Float4E2M1FN, ["truncf"]),
    (Int32, Boolean, ["ne"]),
    (Float32, Boolean, ["une"]),
    (Int32, Index, ["index_cast"]),
    (Uint32, Index, ["extui", "index_cast"]),
    (Uint64, Index, ["index_cast"]),
    (Boolean, Index, ["extui", "index_cast"]),
    (Index, Int32, ["index_cast"]),
    (Index, Float32, ["index_cast", "uitofp"]),
    (Float32, Index, ["fptoui", "index_cast"]),
    (Index, Int128, ["index_cast", "extui"]),
    (Index, Boolean, ["ne"]),
]


@pytest.mark.parametrize(("source", "target", "ops"), CASTS, ids=[f"{a}-{b}" for a, b, _ in CASTS])
def test_runtime_casts(tracing: Tracing, source: Any, target: Any, ops: list[str]):
    x = tracing.arg(source)
    with tracing.since() as emitted:
        made = target(x)
    assert emitted == ops
    assert type(made) is target and made.value.type == target.ir_type and not made.is_static()


def test_to_its_own_class_is_itself(tracing: Tracing):
    x, y = tracing.arg(Int32), Float32(1.0)
    assert x.to(Int32) is x and y.to(Float32) is y


@pytest.mark.parametrize(
    ("ir", "target", "ops"),
    [(Int8, Int32, ["extsi"]), (Int8, Uint32, ["extui"]), (Int64, Uint8, ["trunci"]), (Index, Uint32, ["index_cast"])],
)
def test_untyped_integers_extend_as_the_destination_says(tracing: Tracing, ir: Any, target: Any, ops: list[str]):
    raw = tracing.raw(ir)
    with tracing.since() as emitted:
        target(raw)
    assert emitted == ops


def test_untyped_integer_to_float(tracing: Tracing):
    raw = tracing.raw(Int32)
    with pytest.raises(ValueError, match="signedness is unknown"):
        Float32(raw)
    assert Float64(tracing.raw(Float32)).value.type == Float64.ir_type


def test_payload_extraction(tracing: Tracing):
    assert (Float32(2.5).to(int), Int32(3).to(float), Int32(3).to(bool)) == (2, 3.0, True)
    with pytest.raises(ValueError, match="no compile-time payload"):
        tracing.arg(Int32).to(int)
    with pytest.raises(TypeError, match="Numeric class"):
        Int32(3).to("f32")


def test_rounding_mode(tracing: Tracing):
    x = tracing.arg(Float32)
    x.to(BFloat16, rounding_mode=RoundingMode.toward_zero)
    assert str(tracing.ops()[-1].properties["roundingmode"]) == "3 : i32"
    tracing.arg(Float16).to(BFloat16, rounding_mode=RoundingMode.upward)
    assert [op.properties.get("roundingmode") is None for op in tracing.ops()[-2:]] == [True, False]
    with tracing.since() as emitted:
        x.to(Float64, rounding_mode=RoundingMode.downward)
    assert emitted == ["extf"] and "roundingmode" not in tracing.ops()[-1].properties
    with pytest.raises(TypeError, match="float-to-float"):
        x.to(Int32, rounding_mode=RoundingMode.upward)
    with pytest.raises(ValueError, match="run-time value"):
        Float32(1.0).to(Float16, rounding_mode=RoundingMode.upward)
    with pytest.raises(TypeError, match="fx.RoundingMode"):
        x.to(Float16, rounding_mode="up")  # pyright: ignore[reportArgumentType]


def test_bitcast(tracing: Tracing):
    assert repr(Float32(1.0).bitcast(Uint32)) == "Uint32(1065353216)"
    assert repr(Int16(-1).bitcast(Uint16)) == "Uint16(65535)"
    assert repr(Uint8(0x7E).bitcast(Float8E4M3FN)) == "Float8E4M3FN(448.0)"
    assert repr(Float64(-0.0).bitcast(Int64)) == f"Int64({-(2**63)})"
    with tracing.since() as emitted:
        made = tracing.arg(Float32).bitcast(Int32)
        tracing.arg(Int32).bitcast(Uint32)
        tracing.arg(Float64).bitcast(Index)
    assert emitted == ["bitcast", "bitcast", "index_cast"] and type(made) is Int32
    with pytest.raises(TypeError, match="32 bits"):
        Float32(1.0).bitcast(Int16)
    with pytest.raises(TypeError, match="Numeric class"):
        Float32(1.0).bitcast(int)


def test_conversion_methods_of_raw_values(tracing: Tracing):
    x, f, h = tracing.arg(Int32), tracing.arg(Float32), tracing.arg(Float16)
    with tracing.since() as emitted:
        made = [h.extf(T.f32), f.truncf(T.bf16), x.extui(T.i64), x.extsi(Int64), x.trunci(T.i8), x.index_cast(T.index)]
    assert emitted == ["extf", "truncf", "extui", "extsi", "trunci", "index_cast"]
    assert [str(type(m)) for m in made] == ["Float32", "BFloat16", "Int64", "Int64", "Int8", "Index"]
    assert repr(Int32(-1).with_signedness(False)) == "Uint32(4294967295)"
    assert repr(Boolean(True).extsi(Int32)) == "Int32(-1)" and repr(Int32(3).trunci(T.i1)) == "Boolean(True)"
    with pytest.raises(TypeError, match="float to a float"):
        x.extf(T.f32)


# --- promotion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        (Int8, Int8, Int8),
        (Int8, Int32, Int32),
        (Uint8, Uint64, Uint64),
        (Int32, Uint32, Uint32),
        (Int64, Uint32, Int64),
        (Int32, Uint64, Uint64),
        (Boolean, Uint8, Uint8),
        (Boolean, Int8, Int8),
        (Index, Int32, Index),
        (Index, Int128, Int128),
        (Float16, Int32, Float32),
        (Float16, Int16, Float16),
        (Float32, Int64, Float64),
        (Float8E4M3FN, Int8, Float8E4M3FN),
        (Float8E4M3FN, Int128, Float64),
        (Float16, Float64, Float64),
        (Float8E5M2, BFloat16, BFloat16),
        (Float16, BFloat16, Float32),
    ],
)
def test_common_type(a: Any, b: Any, common: Any):
    assert common_type(a, b) is common and common_type(b, a) is common


def test_of_two_unsigned_classes_of_64_bits_the_left_one_counts():
    assert common_type(Uint64, Index) is Uint64 and common_type(Index, Uint64) is Index
    assert type(Uint64(7) + Index(1)) is Uint64 and type(Index(7) // Uint64(2)) is Index


@pytest.mark.parametrize(("a", "b"), [(Float8E4M3FN, Float8E5M2), (Float8E5M2, Float4E2M1FN)])
def test_no_common_float_type(a: Any, b: Any):
    with pytest.raises(ValueError, match="no common float type"):
        a(1.0) + b(1.0)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod"])
def test_booleans_count_as_int32_in_arithmetic(name: str):
    assert type(getattr(operator, name)(Boolean(True), Boolean(True))) is Int32


def test_result_classes():
    assert type(Boolean(True) / Boolean(True)) is Float32
    assert type(Int64(1) / Int8(2)) is Float64
    assert type(Float16(1) / Int8(2)) is Float16
    assert type(Boolean(True) & Boolean(True)) is Boolean
    assert type(Boolean(True) << Boolean(False)) is Boolean
    assert type(Int8(1) < Int64(2)) is Boolean
    assert type(1 + Uint8(1)) is Int32
    assert type(2**40 + Int32(1)) is Int64
    assert type(0.5 * Float16(1)) is Float32
    assert type(True + Int8(1)) is Int32


# --- operators on run-time values -------------------------------------------------------------------------------------

OPERATORS: list[tuple[str, str | None, str | list[str] | None, list[str] | None]] = [
    # operator, signed, unsigned, float
    ("add", "addi", "addi", ["addf"]),
    ("sub", "subi", "subi", ["subf"]),
    ("mul", "muli", "muli", ["mulf"]),
    ("floordiv", "floordivsi", "divui", ["divf", "floor"]),
    ("mod", "remsi", "remui", ["remf"]),
    ("pow", "ipowi", ["andi", "ipowi", "andi", "eq", "slt", "andi", "select"], ["powf"]),
    ("and_", "andi", "andi", None),
    ("or_", "ori", "ori", None),
    ("xor", "xori", "xori", None),
    ("lshift", "shli", "shli", None),
    ("rshift", "shrsi", "shrui", None),
    ("eq", "eq", "eq", ["oeq"]),
    ("ne", "ne", "ne", ["une"]),
    ("lt", "slt", "ult", ["olt"]),
    ("le", "sle", "ule", ["ole"]),
    ("gt", "sgt", "ugt", ["ogt"]),
    ("ge", "sge", "uge", ["oge"]),
]


@pytest.mark.parametrize(("name", "signed", "unsigned", "real"), OPERATORS, ids=[o[0] for o in OPERATORS])
def test_operators_choose_by_signedness(
    tracing: Tracing, name: str, signed: str, unsigned: str | list[str], real: list[str] | None
):
    op: Callable[[Any, Any], Any] = getattr(operator, name)
    compared = name in ("eq", "ne", "lt", "le", "gt", "ge")
    as_unsigned = unsigned if isinstance(unsigned, list) else [unsigned]
    for cls, expected in ((Int32, [signed]), (Uint32, as_unsigned), (Index, as_unsigned), (Float32, real)):
        x, y = tracing.arg(cls), tracing.arg(cls)
        if expected is None:
            with pytest.raises(TypeError, match="requires integer operands"):
                op(x, y)
            continue
        with tracing.since() as emitted:
            made = op(x, y)
        assert emitted == expected
        assert type(made) is (Boolean if compared else cls)


@pytest.mark.parametrize(("name", "signed", "unsigned", "real"), OPERATORS, ids=[o[0] for o in OPERATORS])
def test_literals_on_either_side(tracing: Tracing, name: str, signed: str, unsigned: str, real: list[str] | None):
    op: Callable[[Any, Any], Any] = getattr(operator, name)
    x = tracing.arg(Int32)
    with tracing.since() as emitted:
        op(x, 3), op(3, x)
    assert emitted in (
        [signed] * 2,
        [signed],
        [signed, {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}.get(signed)],
    )


def test_division_of_integers(tracing: Tracing):
    with tracing.since() as emitted:
        a = tracing.arg(Int32) / tracing.arg(Int32)
        b = tracing.arg(Uint64) / 2
    assert emitted == ["sitofp", "sitofp", "divf", "uitofp", "uitofp", "divf"]
    assert (type(a), type(b)) == (Float32, Float64)


def test_booleans_compare_as_unsigned(tracing: Tracing):
    with tracing.since() as emitted:
        tracing.arg(Boolean) < tracing.arg(Boolean)  # noqa: B015
    assert emitted == ["ult"]


def test_mixed_operands_convert(tracing: Tracing):
    x, f, h = tracing.arg(Int32), tracing.arg(Float32), tracing.arg(Float16)
    with tracing.since() as emitted:
        made = [h + x, f * tracing.arg(Int64), tracing.arg(Int8) + x, tracing.arg(Boolean) + x]
    assert emitted == ["extf", "sitofp", "addf", "extf", "sitofp", "mulf", "extsi", "addi", "extui", "addi"]
    assert [str(type(m)) for m in made] == ["Float32", "Float64", "Int32", "Int32"]


def test_literals_keep_their_precision(tracing: Tracing):
    made = tracing.arg(Float64) + 0.1
    (constant,) = [op for op in tracing.block.ops if op.name == "arith.constant"]
    assert constant.properties["value"].value.data == 0.1 and type(made) is Float64


def test_raw_values_mix(tracing: Tracing):
    raw, x = tracing.raw(Int32), tracing.arg(Uint32)
    assert type(raw + x) is Uint32 and type(x * raw) is Uint32 and type(Int32(3) - raw) is Int32


def test_unary(tracing: Tracing):
    i, u, f, b = (tracing.arg(c) for c in (Int32, Uint32, Float32, Boolean))
    with tracing.since() as emitted:
        made = [-i, -u, -f, abs(i), abs(u), abs(f), ~i, ~b, +i]
    assert emitted == ["subi", "subi", "negf", "absi", "absf", "xori", "xori"]
    assert made[4] is not u and made[4].value is u.value and made[-1] is i
    assert [str(type(m)) for m in made[:8]] == [
        "Int32", "Uint32", "Float32", "Int32", "Uint32", "Float32", "Int32", "Boolean",
    ]  # fmt: skip
    for bad, text in ((lambda: -b, "unary -"), (lambda: abs(b), "abs"), (lambda: ~f, "~ requires an integer")):
        with pytest.raises(TypeError, match=text):
            bad()


def test_foreign_operands(tracing: Tracing):
    for x in (Int32(1), tracing.arg(Int32)):
        for bad in (None, [1], "1"):
            with pytest.raises(TypeError):
                x + bad
            with pytest.raises(TypeError):
                bad + x
            assert (x == bad) is False and (x != bad) is True
    with pytest.raises(TypeError):
        divmod(Int32(1), None)  # pyright: ignore[reportArgumentType]


def test_divmod_both_ways():
    assert [int(v) for v in divmod(Int32(-7), 3)] == [-3, -1]
    assert [int(v) for v in divmod(7, Int32(3))] == [2, 1]


# --- folding ----------------------------------------------------------------------------------------------------------

NUMPY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and_": np.bitwise_and, "or_": np.bitwise_or,
    "xor": np.bitwise_xor, "floordiv": np.floor_divide, "mod": np.fmod, "lshift": np.left_shift,
    "rshift": np.right_shift, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


@given(st.sampled_from([Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64]), st.data())
def test_integers_fold_as_the_machine_computes(cls: Any, data: st.DataObject):
    low = -(1 << (cls.width - 1)) if cls.signed else 0
    numbers = st.integers(low, low + (1 << cls.width) - 1)
    a, b = data.draw(numbers), data.draw(numbers)
    name = data.draw(st.sampled_from(sorted(NUMPY)))
    if name in ("floordiv", "mod") and (b == 0 or (a == low and b == -1)):
        return
    if name in ("lshift", "rshift"):
        b = data.draw(st.integers(0, cls.width - 1))
    with np.errstate(over="ignore"):
        expected = NUMPY[name](cls.numpy_dtype.type(a), cls.numpy_dtype.type(b))
    made = getattr(operator, name)(cls(a), cls(b))
    assert made.value == expected
    assert made.is_static() and type(made) is (Boolean if expected.dtype == np.bool_ else cls)


@given(st.sampled_from([Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64]), st.data())
def test_powers_of_integers_fold_modulo_their_width(cls: Any, data: st.DataObject):
    low = -(1 << (cls.width - 1)) if cls.signed else 0
    numbers = st.integers(low, low + (1 << cls.width) - 1)
    base, exponent = (
        data.draw(st.integers(max(low, -3), 3) | numbers),
        data.draw(st.integers(max(low, -3), 9) | numbers),
    )
    if base == 0 and exponent < 0:
        return
    if exponent < 0:  # A fraction, towards zero.
        whole = base ** (exponent & 1) if base in (1, -1) else 0
    else:
        whole = pow(base, exponent, 1 << cls.width)
    assert (cls(base) ** cls(exponent)).value == (whole - low) % (1 << cls.width) + low


@given(st.floats(), st.floats(), st.sampled_from(["add", "sub", "mul", "truediv", "lt", "ge", "eq", "ne", "mod"]))
@pytest.mark.parametrize(
    ("cls", "dtype"),
    [(Float32, np.float32), (Float16, np.float16), (BFloat16, ml_dtypes.bfloat16), (Float64, np.float64)],
)
def test_floats_fold_as_the_machine_computes(cls: Any, dtype: Any, a: float, b: float, name: str):
    with np.errstate(all="ignore"):
        x, y = np.float64(a).astype(dtype), np.float64(b).astype(dtype)
        numpy: Any = {"truediv": np.divide, **NUMPY}[name]
        expected = numpy(x.astype(np.float64), y.astype(np.float64)).astype(
            bool if name in ("lt", "ge", "eq", "ne") else dtype
        )
    made = getattr(operator, name)(cls(a), cls(b)).value
    assert made == float(expected) or (math.isnan(made) and math.isnan(float(expected)))
    if type(made) is float and made == 0:
        assert math.copysign(1, made) == math.copysign(1, float(expected))


def test_folding_quirks():
    assert (Int32(-7) % 3).value == -1 and (Int32(-7) // 3).value == -3 and (Uint32(2**31) // -1).value == 0
    assert (Int32(2**31 - 1) + 1).value == -(2**31) and (Uint8(0) - Uint8(1)).value == 255
    assert (Int32(1) << 40).value == 0 and (Int32(-1) >> 40).value == -1 and (Uint32(5) >> 99).value == 0
    assert (Int32(-8) >> 1).value == -4 and (Uint8(0x80) >> Uint8(1)).value == 0x40
    assert (Float32(0.1) + Float32(0.2)).value == float(np.float32(0.1) + np.float32(0.2))
    assert (Float32(1e38) * 10.0).value == math.inf
    assert (Float32(1.0) / 0.0).value == math.inf and math.isnan((Float32(0.0) / 0.0).value)
    assert (Int32(1) / Int32(3)).value == float(np.float32(1) / np.float32(3))
    assert (Float32(-7.5) // 2.0).value == -4.0 and (Float32(-7.5) % 2.0).value == -1.5
    assert (
        (Int32(3) ** 4).value == 81
        and (Int32(2) ** -1).value == 0
        and (Float32(2.0) ** 0.5).value == float(np.float32(2**0.5))
    )
    assert (-Uint8(1)).value == 255 and abs(Int8(-128)).value == -128 and (~Uint8(1)).value == 254
    assert (~Boolean(True)).value is False and (Boolean(True) ^ Boolean(True)).value is False
    for bad in (lambda: Int32(1) // 0, lambda: Int32(1) % 0, lambda: Int32(0) ** -1):
        with pytest.raises(ZeroDivisionError):
            bad()


@pytest.mark.parametrize("cls", [*STORAGE, Float16, BFloat16], ids=str)
def test_rounding_and_encoding_of_narrow_floats(cls: Any):
    """Against ml_dtypes: every pattern, the midpoints between neighbours, and values out of range."""
    names = {"f16": "float16", "bf16": "bfloat16", "f8E4M3": "float8_e4m3", "f8E5M2": "float8_e5m2"}
    name = names.get(cls.ir_name, "float" + cls.ir_name[1:2] + "_" + cls.ir_name[2:].lower())
    dtype = np.float16 if name == "float16" else getattr(ml_dtypes, name)
    store = np.uint16 if cls.width == 16 else np.uint8
    patterns = np.arange(1 << cls.width, dtype=np.uint32).astype(store)
    with np.errstate(invalid="ignore"):
        values = patterns.view(dtype).astype(np.float64)
    for bits, value in zip(patterns.tolist(), values.tolist(), strict=True):
        made = fold.float_from_bits(bits, cls.ir_name)
        assert made == value or (math.isnan(made) and math.isnan(value)), hex(bits)
        if not math.isnan(value):
            assert fold.float_bits(value, cls.ir_name) == bits
    finite = np.unique(values[np.isfinite(values)])
    probes = [
        *(finite[:-1] + finite[1:]) / 2,
        *finite * 1.01,
        finite[-1] * 1.2,
        finite[-1] * 4,
        0.0,
        math.inf,
        math.nan,
    ]
    for probe in probes:
        if not np.isfinite(probe) and cls.ir_name[:2] in ("f4", "f6"):
            continue  # without infinities and NaN these formats saturate, which ml_dtypes does for infinities only
        if cls.ir_name == "f8E8M0FNU" and probe < 2.0**-126:
            continue  # ml_dtypes goes through float32, where these are subnormal; LLVM makes zero the smallest value
        with np.errstate(all="ignore"):
            expected = float(np.float64(probe).astype(dtype))
        made = fold.round_float(float(probe), cls.ir_name)
        assert made == expected or (math.isnan(made) and math.isnan(expected)), probe


def test_round_float_is_exact_arithmetic():
    """Ties to even, checked with fractions, for a value double rounding would get wrong."""
    x = 1 + 2**-8 + 2**-30
    assert fold.round_float(x, "bf16") == 1 + 2**-7
    assert Fraction(fold.round_float(1 + 2**-8, "bf16")) == 1


def test_cmpf_folds():
    nan = math.nan
    assert [fold.fold_cmpf(p, nan, 1.0) for p in ("oeq", "one", "ord", "ueq", "une", "uno", "true", "false")] == [
        False, False, False, True, True, True, True, False,
    ]  # fmt: skip
    assert fold.fold_cmpf("one", 1.0, 2.0) and not fold.fold_cmpf("ult", 2.0, 1.0)


# --- choosing ---------------------------------------------------------------------------------------------------------


def test_select(tracing: Tracing):
    cond, x, f = tracing.arg(Boolean), tracing.arg(Int32), tracing.arg(Float32)
    with tracing.since() as emitted:
        made = [cond.select(x, 1), cond.select(x, f), x.select(f, 0)]
    assert emitted == ["select", "sitofp", "select", "ne", "select"]
    assert [str(type(m)) for m in made] == ["Int32", "Float32", "Float32"]
    with tracing.since() as emitted:
        chosen = Boolean(True).select(tracing.arg(Int32), f)
        Boolean(True).select(f, tracing.arg(Int32))
        assert Int32(0).select(1, 2).value == 2
    assert emitted == ["sitofp"] and type(chosen) is Float32
    with pytest.raises(TypeError, match="expected a DSL value, got 'a'"):
        cond.select(x, "a")


def test_logic_hooks(tracing: Tracing):
    x, b = tracing.arg(Int32), tracing.arg(Boolean)
    with tracing.since() as emitted:
        made = [x.__dsl_bool__(), x.__dsl_not__(), b.__dsl_and__(x), b.__dsl_or__(1), Boolean(False).__dsl_and__(x)]
    assert emitted == ["ne", "xori", "andi"]
    assert all(type(m) is Boolean for m in made)
    assert made[3].value is True and made[4].value is False
    assert Int32(3).__dsl_not__().value is False and Boolean(True).__dsl_and__(b).value is b.value


def test_deprecated_methods(tracing: Tracing):
    f, i = tracing.arg(Float32), tracing.arg(Int32)
    with tracing.since() as emitted:
        made = [f.addf(1.0, fastmath="fast"), f.maximumf(f), f.minimumf(2.0), f.exp2(), f.rsqrt(), i.shrui(3)]
    assert emitted == ["addf", "maximumf", "minimumf", "exp2", "rsqrt", "shrui"]
    assert type(made[-1]) is Int32
    assert str(tracing.ops()[0].properties["fastmath"]) == "#arith.fastmath<fast>"


# --- IR values --------------------------------------------------------------------------------------------------------


def test_as_ir_value(tracing: Tracing):
    x = tracing.arg(Int32)
    assert as_ir_value(x) is x.value and as_ir_value(x.value) is x.value and as_ir_value(None) is None
    made = as_ir_value([1, (2.5, x)])
    assert isinstance(made, list) and str(made[0].type) == "i32" and isinstance(made[1], tuple)
    assert as_ir_value([1, (2.5, True)], keep_static=True) == [1, (2.5, True)]
    with pytest.raises(TypeError, match="expected a DSL value"):
        as_ir_value(object())


def test_as_dsl_value(tracing: Tracing):
    raw = tracing.raw(Int32)
    assert type(as_dsl_value(raw)) is Int32 and type(as_dsl_value(raw, Uint32(0))) is Uint32
    assert type(as_dsl_value(raw, Uint32)) is Uint32
    x = Int8(1)
    assert as_dsl_value(x) is x
    with pytest.raises(TypeError, match="no DSL class fits"):
        as_dsl_value("x")


def test_constants_are_made_once(tracing: Tracing):
    assert Int32(5).ir_value() is Int32(5).ir_value()
    assert Uint64(2**64 - 1).ir_value() is Int64(-1).ir_value()
    assert str(Boolean(True).ir_value().owner) == "%0 = arith.constant true"


def test_type_namespace():
    assert [str(t) for t in (T.i32, T.f32x4, T.bf16x8, T.index, T.vec(3, Float16), T.vec(2, T.i8))] == [
        "i32", "vector<4xf32>", "vector<8xbf16>", "index", "vector<3xf16>", "vector<2xi8>",
    ]  # fmt: skip
    with pytest.raises(AttributeError, match="no type 'i33'"):
        _ = T.i33


def test_operations_need_a_trace():
    with pytest.raises(RuntimeError, match="no active trace"):
        Int32(3).ir_value()


# --- protocols --------------------------------------------------------------------------------------------------------


def test_protocols(tracing: Tracing):
    x = tracing.arg(Uint16)
    assert isinstance(x, DslType) and isinstance(x, JitArgument)
    (value,) = x.__extract_to_ir_values__()
    back = construct_from_ir_values(x, [value])
    assert type(back) is Uint16 and back.value is value
    assert x.__get_ir_types__() == [Uint16.ir_type]
    assert Int32(3).__cache_signature__() == Int32(4).__cache_signature__() != Uint32(3).__cache_signature__()


@pytest.mark.parametrize(
    ("cls", "arg", "ctype", "stored"),
    [
        (Boolean, True, ctypes.c_bool, True),
        (Int8, -3, ctypes.c_int8, -3),
        (Uint32, 2**32 - 1, ctypes.c_uint32, 2**32 - 1),
        (Int64, Int64(-1), ctypes.c_int64, -1),
        (Index, 7, ctypes.c_uint64, 7),
        (Float16, 1.0, ctypes.c_uint16, 0x3C00),
        (BFloat16, -2.0, ctypes.c_uint16, 0xC000),
        (Float8E4M3FN, 448.0, ctypes.c_uint8, 0x7E),
        (Float32, 0.5, ctypes.c_float, 0.5),
        (Float32, 3, ctypes.c_float, 3.0),
        (Float64, np.float64(0.1), ctypes.c_double, 0.1),
        (Int32, np.int32(9), ctypes.c_int32, 9),
    ],
)
def test_host_slots(cls: Any, arg: Any, ctype: Any, stored: Any):
    ((found, fill),) = cls(0).__c_abi_spec__()
    storage = found()
    fill(arg, storage)
    assert found is ctype and storage.value == stored


def test_host_slots_refuse(tracing: Tracing):
    ((ctype, fill),) = Int32(0).__c_abi_spec__()
    with pytest.raises(OverflowError, match="does not fit Int32"):
        fill(2**31, ctype())
    with pytest.raises(TypeError, match="takes an integer"):
        fill(1.5, ctype())
    with pytest.raises(TypeError, match="expected a number"):
        fill("1", ctype())
    with pytest.raises(RuntimeError, match="host argument"):
        fill(tracing.arg(Int32), ctype())
    ((ctype, fill),) = Boolean(0).__c_abi_spec__()
    with pytest.raises(TypeError, match="True or False"):
        fill(2, ctype())
    for cls in (Int128, Uint128, Int4, Float6E2M3FN):
        with pytest.raises(TypeError, match="host argument"):
            cls(0).__c_abi_spec__()


def test_storable():
    assert [(dsl_size_of(c), dsl_align_of(c)) for c in (Boolean, Int8, BFloat16, Float64, Int128)] == [
        (1, 1), (1, 1), (2, 2), (8, 8), (16, 16),
    ]  # fmt: skip
    for cls in (Int4, Float6E2M3FN, Float4E2M1FN):
        with pytest.raises(TypeError, match="sub-byte"):
            dsl_size_of(cls)

    class Slot:
        def __init__(self):
            self.held: Any = 7

        def load(self) -> Any:
            return self.held

        def store(self, value: Any) -> None:
            self.held = value

    slot = Slot()
    assert repr(Int32.__peek_from_ptr__(slot)) == "Int32(7)"
    Float32.__poke_into_ptr__(slot, 2)
    assert repr(slot.held) == "Float32(2.0)"
    with pytest.raises(TypeError, match="cannot use 'x' as a Int32"):
        Int32.__coerce__("x")


# --- fast-math --------------------------------------------------------------------------------------------------------


def flags_of(op: Any) -> str:
    attr = op.properties.get("fastmath")
    return "none" if attr is None else ",".join(sorted(f.value for f in attr.data)) or "none"


def test_parse_flags():
    both = FastMathFlags.nnan | FastMathFlags.contract
    for form in (both, "nnan,contract", ["nnan", FastMathFlags.contract], ("nnan", "contract"), {"contract", "nnan"}):
        assert parse_flags(form) == both
    with pytest.raises(ValueError, match="unknown fast-math flag 'quick'; the flags are none, reassoc"):
        parse_flags("quick")
    with pytest.raises(TypeError, match="fast-math flags are"):
        parse_flags(3.5)


def test_ambient_flags(tracing: Tracing):
    f, i, h = tracing.arg(Float32), tracing.arg(Int32), tracing.arg(Float16)
    with fastmath("nnan,contract"):
        _ = f * f, f < f, -f, h + f, i + i
        with fastmath("none"):
            _ = f + f
    _ = f - f
    assert [(op.name, flags_of(op)) for op in tracing.ops()] == [
        ("arith.mulf", "contract,nnan"),
        ("arith.cmpf", "contract,nnan"),
        ("arith.negf", "contract,nnan"),
        ("arith.extf", "contract,nnan"),
        ("arith.addf", "contract,nnan"),
        ("arith.addi", "none"),
        ("arith.addf", "none"),
        ("arith.subf", "none"),
    ]


def test_flag_precedence():
    with set_default("afn"):
        assert effective().text == "afn"
        with fastmath("nsz"):
            assert effective().text == "nsz" and effective("fast").text == "fast" and effective("none").text == "none"
            with set_default("fast"):
                assert effective().text == "nsz"
    assert effective().text == "none"


def test_flags_do_not_leak_on_errors():
    with pytest.raises(KeyError), fastmath("fast"):
        raise KeyError
    assert effective().text == "none"


def test_package_attribute_is_callable():
    import flydsl.expr as fx

    with fx.fastmath("fast"):
        assert effective() == FastMathFlags.fast


# --- imports ----------------------------------------------------------------------------------------------------------


def test_importing_and_folding_loads_nothing_heavy():
    program = (
        "import sys; import flydsl.expr.numeric as n, flydsl.expr.vector as v, flydsl.expr.arith as a;"
        "import flydsl.expr.math;"
        "n.Int32(3) * 4 + n.Float32(0.5); a.max(1, 2); v.Float32x4; n.Int32(1).__c_abi_spec__();"
        "print([m for m in ('xdsl', 'numpy', 'llvmlite', 'torch') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(n.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "[]", done.stderr


def test_module_exports():
    assert all(hasattr(n, name) for name in n.__all__)
