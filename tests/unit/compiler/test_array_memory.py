"""Memory that kernels store to must be writable, and array interfaces must name memory that is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError


@flyc.kernel
def _copy_kernel(x: fx.Tensor, y: fx.Tensor):
    y[fx.thread_idx.x] = x[fx.thread_idx.x]


@flyc.jit
def _copy(x: fx.Tensor, y: fx.Tensor):
    _copy_kernel(x, y).launch(grid=1, block=4)


def _read_only(path: Path) -> list[np.ndarray[Any, Any]]:
    np.arange(4, dtype="f4").tofile(path)
    locked = np.zeros(4, "f4")
    locked.flags.writeable = False
    return [
        np.frombuffer(b"\0" * 16, "f4"),
        np.memmap(path, "f4", "r"),
        np.broadcast_to(np.zeros(4, "f4"), (4,)),
        locked,
    ]


def test_a_read_only_array_is_refused_by_name(tmp_path: Path):
    x, y = np.arange(4, dtype="f4"), np.zeros(4, "f4")
    for frozen in _read_only(tmp_path / "data"):
        before = frozen.copy()
        for _ in range(3):  # cold, and as the calls before it
            with pytest.raises(DSLValueError, match="parameter 'y': the array is read-only"):
                _copy(x, frozen)
            _copy(x, y)
        with pytest.raises(DSLValueError, match="read-only"):
            _copy(x, flyc.from_dlpack(frozen))
        np.testing.assert_array_equal(frozen, before)
        _copy(frozen, y)  # it may be read
        np.testing.assert_array_equal(y, before)


def test_an_array_that_is_locked_between_calls():
    x, y = np.arange(4, dtype="f4"), np.zeros(4, "f4")
    compiled = flyc.compile(_copy, x, y)
    prepared = compiled.prepare(x, y)
    for _ in range(2):
        _copy(x, y)
    y.flags.writeable = False
    for call in (lambda: _copy(x, y), lambda: compiled(x, y), lambda: prepared.update(y=y)):
        with pytest.raises(DSLValueError, match="'y'"):
            call()


def _stores(body: Callable[..., object]) -> list[str]:
    """Parameters of a kernel with three arrays that are known to be stored to."""

    @flyc.jit
    def run(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
        flyc.kernel(body)(a, b, c, n).launch(grid=1, block=1)

    arrays = [np.zeros(8, "i4") for _ in range(3)]
    return [name for _, name in flyc.compile(run, *arrays, 3).artifact.metadata["stores"]]


def _vector(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
    view = fx.make_view(fx.get_iter(b) + 1, fx.make_layout(4, 1))
    view.store(fx.make_view(fx.get_iter(a), fx.make_layout(4, 1)).load())


def _atom(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
    atom, got = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Int32), fx.make_rmem_tensor((1, 4), fx.Int32)
    fx.copy(atom, fx.make_view(fx.get_iter(a), fx.make_layout((1, 4), (1, 1))), got)
    fx.copy(atom, got, fx.make_view(fx.get_iter(c), fx.make_layout((1, 4), (1, 1))))


def _atomic(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
    fx.atomic_add(fx.get_iter(a), c[0])


def _carried(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
    at = fx.get_iter(b)
    for _ in range(n):
        at.store(a[0])
        at = at + 1


def _chosen(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
    at = fx.get_iter(a)
    if n > 2:
        at = fx.get_iter(b)
    at.store(c[0])


@pytest.mark.parametrize(
    ("body", "names"), [(_vector, "b"), (_atom, "c"), (_atomic, "a"), (_carried, "b"), (_chosen, "ab")]
)
def test_stores_are_found_whatever_way_they_take(body: Callable[..., object], names: str):
    assert _stores(body) == list(names)


class _Forged:
    """An array interface that says what it is told to."""

    def __init__(self, **more: object):
        self.held = np.zeros(4, "f4")
        self.__array_interface__ = {
            "shape": (4,), "typestr": "<f4", "data": (self.held.ctypes.data, False), "version": 3, **more,
        }  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {"data": (8, False)},
        {"data": (0, False)},
        {"data": (-8, False)},
        {"data": (1 << 70, False)},
        {"data": ("here", False)},
        {"data": 5},
        {"shape": (-1,)},
        {"shape": (1 << 62,)},
        {"shape": "abc"},
        {"shape": None},
        {"strides": (4, 4)},
        {"strides": (1 << 62,)},
        {"typestr": "<f3"},
        {"typestr": 4},
    ],
    ids=str,
)
def test_a_forged_interface_raises(more: dict[str, object]):
    _copy(np.zeros(4, "f4"), _Forged())
    with pytest.raises((DSLTypeError, DSLValueError)):
        _copy(np.zeros(4, "f4"), _Forged(**more))
