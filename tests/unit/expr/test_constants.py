"""Constants keep their value in memory and vectors or are refused; coordinates and extents known early are checked."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLOverflowError, DSLRuntimeError, DSLValueError
from flydsl.expr.scalars.constants import constant
from flydsl.expr.scalars.scalar_ops import CLASSES
from flydsl.ir.fold import FORMATS, round_float

REFUSED: list[tuple[type[fx.Numeric], float]] = [
    (fx.Int32, 1.5),
    (fx.Int32, float("inf")),
    (fx.Int32, float("nan")),
    (fx.Int32, 2**31),
    (fx.Int32, -(2**31) - 1),
    (fx.Int8, 300),
    (fx.Int8, 128),
    (fx.Uint8, 256),
    (fx.Uint8, -1),
    (fx.Uint64, -1),
    (fx.Int4, 8),
    (fx.Boolean, 2),
    (fx.Float16, 1e6),
    (fx.Float16, 70000),
    (fx.Float16, 1e-12),
    (fx.Float32, 1e39),
    (fx.Float32, 2**24 + 1),
    (fx.BFloat16, 257),
    (fx.BFloat16, -1e39),
    (fx.Float8E4M3FN, 500.0),
    (fx.Float8E4M3FN, float("inf")),
    (fx.Float4E2M1FN, 8.0),
    (fx.Float4E2M1FN, float("nan")),
    (fx.Float8E8M0FNU, 0),
    (fx.Float8E8M0FNU, -1.0),
    (fx.Float64, 2**53 + 1),
    (fx.Float64, 10**400),
]


@pytest.mark.parametrize(("cls", "value"), REFUSED, ids=lambda x: str(x)[:12])
def test_a_value_that_would_change_is_refused(cls: type[fx.Numeric], value: float):
    with pytest.raises((DSLValueError, DSLOverflowError), match=str(cls)):
        constant(cls, value)


@pytest.mark.parametrize("cls", [fx.Int4, fx.Int8, fx.Uint16, fx.Int32, fx.Uint64], ids=str)
def test_the_ends_of_integers(cls: type[fx.Numeric]):
    low = -(1 << (cls.width - 1)) if cls.signed else 0
    high = low + (1 << cls.width) - 1
    for value in (low, high, float(0), True):
        assert int(constant(cls, value)) == value
    for value in (low - 1, high + 1, -0.5):
        with pytest.raises((DSLValueError, DSLOverflowError)):
            constant(cls, value)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f8E4M3FN", "f8E5M2", "f4E2M1FN", "f6E2M3FN"])
def test_floats_round_but_stay_in_range(name: str):
    cls = next(c for c in CLASSES.values() if c.ir_name == name)
    largest = FORMATS[name].max
    for value in (largest, -largest, 0.6, 0, 1, float(np.nextafter(largest, np.inf))):
        assert round_float(float(constant(cls, value)), name) == round_float(value, name)
    with pytest.raises(DSLOverflowError):
        constant(cls, largest * 1.5)


STORES: list[Callable[[fx.Tensor], object]] = [
    lambda x: x.__setitem__(0, 1.5),
    lambda x: x.__setitem__(0, fx.Float32(1.5)),
    lambda x: x.__setitem__(0, 2**31),
    lambda x: x.__setitem__(0, np.float64(0.5)),
    lambda x: fx.get_iter(x).store(1.5),
    lambda x: fx.get_iter(x).__setitem__(1, 1.5),
    lambda x: fx.make_view(fx.get_iter(x), fx.make_layout(4, 1)).fill(1.5),
    lambda x: fx.make_view(fx.get_iter(x), fx.make_layout(4, 1)).store(fx.Float32(1.5)),
    lambda x: fx.atomic_add(fx.get_iter(x), 1.5),
    lambda x: fx.atomic_cas(fx.get_iter(x), 0, 2**40),
    lambda x: fx.Vector.filled(4, 1.5, fx.Int32),
    lambda x: fx.Vector.from_elements([1, 2**31], fx.Int32),
    lambda x: fx.make_rmem_tensor(4, fx.Int32).fill(0.5),
]


@pytest.mark.parametrize("store", STORES)
def test_every_way_to_store_refuses(store: Callable[[fx.Tensor], object]):
    with pytest.raises((DSLValueError, DSLOverflowError), match="Int32"):
        flyc.evaluate(store, np.zeros(4, "i4"))


@pytest.mark.parametrize("value", [1e39, fx.Float32(1e39), np.float64(1e300)], ids=str)
def test_a_float_beyond_its_type_is_refused(value: fx.Float32):
    """Wherever it becomes a constant: stored, in arithmetic, in a vector."""
    uses: list[Callable[[fx.Tensor], object]] = [
        lambda x: x.__setitem__(0, value),
        lambda x: x[0] * value,
        lambda x: fx.Vector.from_elements([fx.Float32(1.0), value]),
    ]
    for use in uses:
        with pytest.raises(DSLOverflowError, match="does not fit"):
            flyc.evaluate(use, np.zeros(4, "f4"))


def test_values_that_fit_and_casts_are_taken():
    def put(x: fx.Tensor, y: fx.Tensor):
        x[0] = 2.0
        x[1] = fx.Int8(300)
        x[2] = True
        x[3] = fx.Float32(-4.0)
        y[0] = float("-inf")
        y[1] = 0.1
        return tuple(x[i] for i in range(4)), y[0], y[1]

    ints, low, tenth = flyc.evaluate(put, np.zeros(4, "i4"), np.zeros(2, "f2"))
    assert ints == (2, 44, 1, -4)
    assert low == -np.inf
    assert tenth == np.float16(0.1)


COORDINATES: list[tuple[object, str]] = [
    (-1, "index -1 is negative"),
    (8, "index 8 is out of bounds"),
    ((4, 0), "index 4 of"),
    ((0, 2), "index 2 of"),
    ((-1, 0), "negative"),
    ((None, 2), "index 2 of"),
    ((fx.thread_idx, 5), "index 5 of"),
]


@pytest.mark.parametrize(("coord", "message"), COORDINATES, ids=lambda x: str(x)[:20])
def test_constant_coordinates_are_inside(coord: Any, message: str):
    def at(x: fx.Tensor):
        where = (fx.thread_idx.x, coord[1]) if isinstance(coord, tuple) and coord[0] is fx.thread_idx else coord
        return fx.make_view(fx.get_iter(x), fx.make_layout((4, 2), (1, 4)))[where]

    with pytest.raises(DSLValueError, match=message):
        flyc.evaluate(at, np.zeros(8, "i4"))


def test_negative_coordinates_of_run_time_extents_and_the_last_element():
    with pytest.raises(DSLValueError, match="negative"):
        flyc.evaluate(lambda x: x[0, -1], np.zeros((2, 4), "f4"))
    view = flyc.evaluate(
        lambda x: fx.make_view(fx.get_iter(x), fx.make_layout((4, 2), (1, 4)))[3, 1], np.arange(8, dtype="i4")
    )
    assert view == 7
    # A pointer is not a tensor: it may go back. Coordinate tensors have no memory.
    assert flyc.evaluate(lambda x: (fx.get_iter(x) + 2)[-1], np.arange(8, dtype="i4")) == 1
    assert str(fx.make_view((0, 0), fx.make_identity_layout((4, 8)))[5, -1]) == "IntTuple<(5,-1)>"


@flyc.kernel
def _touch(x: fx.Tensor):
    x[0] = 1


@flyc.jit
def _start(x: fx.Tensor, grid: fx.Constexpr, block: fx.Constexpr):
    _touch(x).launch(grid=grid, block=block)


GEOMETRY = [
    (2**64 + 3, 1, "cpu:native"),
    (2**31, 1, "cuda:sm_90"),
    (-1, 1, "cpu:native"),
    (1, 0, "rocm:gfx942"),
    (1, 2048, "rocm:gfx942"),
    (1, 2048, "cuda:sm_80"),
    (1, 2048, "cpu:native"),
    (1, (33, 32), "cuda:sm_90"),
    (1, (1, 1, 65), "cuda:sm_90"),
    (1, 2**31, "cpu:native"),
    (1, -(2**70), "cpu:native"),
    ((1, 65536), 1, "cuda:sm_90"),
    (2**24, 256, "rocm:gfx942"),
    (10**5000, 1, "cpu:native"),
]


@pytest.mark.parametrize(("grid", "block", "target"), GEOMETRY, ids=lambda x: str(x)[:12] if type(x) is not int else "")
def test_extents_out_of_range_are_refused(grid: object, block: object, target: str):
    with pytest.raises(DSLValueError, match="grid|block"):
        flyc.compile(_start, np.zeros(4, "i4"), grid, block, target=target)


def test_a_kernel_that_is_not_launched_is_refused_at_its_line():
    @flyc.jit
    def forgets(x: fx.Tensor):
        _touch(x).launch(grid=1, block=1)
        _touch(x)  # here

    with pytest.raises(DSLRuntimeError, match="never launched") as caught:
        forgets(np.zeros(4, "i4"))
    notes = "".join(caught.value.__notes__)
    line = int(notes.split("line ")[1].split()[0])
    assert "# here" in linecache.getline(__file__, line)
