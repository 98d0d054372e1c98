"""Tensor copies in checked mode: what a map has and its array has not is reported where it is copied, and left out."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import KernelCheckError

from .library.calls.products import slices

COLUMNS = 8
"""Elements of a row; the boxes have as many rows."""
BOX = COLUMNS * COLUMNS
nv = fx.nvgpu
OPS = {"load": nv.TMALoad, "multicast": lambda: nv.TMALoad(multicast=True), "store": nv.TMAStore}
HOW = [*OPS, "add", "max"]


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch, emulate: Any) -> None:
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")


@flyc.kernel
def box_kernel(atom: nv.TmaAtom, got: fx.Tensor, row: fx.Int32, how: fx.Constexpr[str]):
    """A box of a tensor into shared memory and from there to the threads, or the other way."""
    t = fx.thread_idx.x
    shared = fx.SharedAllocator()
    box = shared.allocate(fx.Array[fx.Float32, BOX, 128]).peek().view(fx.make_layout(BOX, 1))
    barrier = shared.allocate(nv.MBarrier).peek()
    if t == 0:
        barrier.init(1)
        nv.fence_mbarrier_init()
    box[t] = -1.0
    if fx.const_expr(how == "multicast"):
        nv.cluster.sync()
    else:
        fx.barrier()
    if fx.const_expr(how in OPS and how != "store"):
        if t == 0:
            barrier.expect_tx(atom.nbytes)
            if fx.const_expr(how == "load"):
                atom.load((row, 0), box, barrier)  # load
            elif fx.block_idx.x == 1:
                atom.load((row, 0), box, barrier, multicast=3)  # multicast
        barrier.wait(0)
        got[fx.block_idx.x, t] = box[t]
        if fx.const_expr(how == "multicast"):
            nv.cluster.sync()
    else:
        if t == 0:
            atom.store(box, (row, 0))  # store
            nv.tma_commit()
            nv.tma_wait(0)


@flyc.jit
def copy_box(
    x: fx.Tensor, got: fx.Tensor, rows: fx.Int32, row: fx.Int32, how: fx.Constexpr[str], taken: fx.Constexpr[str]
):
    """A box of `rows` rows that follow each other from where `x` begins, or from what is `taken` from it."""
    start: Any = fx.get_iter(x)
    if fx.const_expr(taken == "words"):
        start = fx.recast_iter(fx.Float32, start)
    elif fx.const_expr(taken == "offset"):
        start = start + 4 * COLUMNS
    elif fx.const_expr(taken == "row"):
        start = fx.get_iter(x[4, None])
    view = fx.make_view(start, fx.make_layout((rows, COLUMNS), (COLUMNS, 1)))
    if fx.const_expr(taken == "itself"):
        view = x
    elif fx.const_expr(taken == "view"):
        view = fx.make_view(fx.get_iter(view), fx.make_layout((rows, COLUMNS), (COLUMNS, 1)))
    op = OPS[how]() if how in OPS else nv.TMAReduce(how)
    atom = nv.make_tma_atom(op, view, None, (COLUMNS, COLUMNS))
    pair = 2 if how == "multicast" else 1
    box_kernel(atom, got, row, how).launch(grid=pair, block=BOX, cluster=pair)


def memory(rows: int = 24) -> np.ndarray:
    """Rows of numbers from 1 on, at a multiple of 64 bytes."""
    whole = np.arange(rows * COLUMNS + 16, dtype=np.float32)
    start = (-whole.ctypes.data // 4) % 16
    found = whole[start : start + rows * COLUMNS].reshape(rows, COLUMNS)
    found[:] = np.arange(1, found.size + 1).reshape(found.shape)
    return found


def got() -> np.ndarray:
    return np.zeros((2, BOX), np.float32)


def report_of(x: np.ndarray, out: np.ndarray, rows: int, row: int, how: str, taken: str = "") -> str:
    """What is said of a call, which is one line."""
    with pytest.raises(KernelCheckError) as caught:
        copy_box(x, out, rows, row, how, taken)
    _, line = str(caught.value).splitlines()
    return line.strip()


def place(how: str) -> str:
    """`file:line` of a copy of the kernel."""
    source, start = inspect.getsourcelines(inspect.unwrap(getattr(box_kernel, "function", box_kernel)))
    number = next(i for i, text in enumerate(source) if text.rstrip().endswith(f"# {how}"))
    return f"{__file__}:{start + number}:"


@pytest.mark.parametrize("how", HOW)
def test_a_copy_behind_the_array_is_reported_and_left_out(how: str):
    """A box whose last four rows the map has and the array has not; and one that the array has, which is no mistake."""
    loads = how in ("load", "multicast")
    whole = memory()
    before, x = whole.copy(), whole[:12]
    out = got()
    copy_box(x, out, 16, 0, how, "")
    np.testing.assert_array_equal(out[0], before[:8].ravel() if loads else 0)
    whole[:] = before
    line = report_of(x, out, 16, 8, how)
    at, word = (place(how), "read") if loads else (place("store"), "write")
    assert line.startswith(f"{at} {word} out of bounds of the tensor of argument 0 ('atom')")
    assert f"address {x.ctypes.data + x.nbytes:#x}, byte {x.nbytes} of {x.nbytes}" in line
    np.testing.assert_array_equal(whole[12:], before[12:])
    if loads:
        here = np.concatenate([before[8:12].ravel(), np.zeros(32, np.float32)])
        np.testing.assert_array_equal(out, [here, here if how == "multicast" else 0 * here])
    else:
        expected = {"store": -1 + 0 * x, "add": before[8:12] - 1, "max": before[8:12]}[how]
        np.testing.assert_array_equal(whole[8:12], expected[-4:])


def test_what_a_map_has_not_is_no_mistake():
    """Outside of the map zeros are read, whether the array is known to end there or not."""
    x, out = memory()[:12], got()
    copy_box(x, out, 12, 8, "load", "")
    np.testing.assert_array_equal(out[0], [*x[8:].ravel(), *[0] * 32])
    copy_box(x, out, 16, -4, "load", "")
    np.testing.assert_array_equal(out[0], [*[0] * 32, *x[:4].ravel()])
    copy_box(x, out, 0, 1 << 20, "load", "itself")


def test_an_array_ends_within_a_row():
    """At its last element, wherever rows begin; what lies between them belongs to it."""
    whole, out = memory(), got()
    report = report_of(whole[:12, :6], out, 16, 4, "load")
    assert f"byte {94 * 4} of {94 * 4}" in report
    np.testing.assert_array_equal(out[0], [*whole.ravel()[32:94], 0, 0])
    copy_box(whole[:12, :6], out, 11, 3, "load", "")


@pytest.mark.parametrize("taken", ["words", "view"])
def test_maps_of_views_have_the_bounds_of_the_array(taken: str):
    x = memory()[:12]
    report = report_of(x.view(np.int32) if taken == "words" else x, got(), 16, 8, "load", taken)
    assert "read out of bounds of the tensor of argument 0" in report


def test_maps_of_whole_arrays_are_clean():
    """Of an array whose rows lie apart, too."""
    x, out = memory(32).reshape(16, 16)[:, :8], got()
    copy_box(x, out, 0, 8, "load", "itself")
    np.testing.assert_array_equal(out[0], x[8:].ravel())


@pytest.mark.parametrize("taken", ["offset", "row"])
def test_of_what_the_host_took_from_inside_an_array_nothing_is_known(taken: str):
    """As with pointers: memory around it may be meant."""
    whole, out = memory(), got()
    copy_box(whole[:12], out, 16, 8, "load", taken)
    np.testing.assert_array_equal(out[0], whole[12:20].ravel())


def test_a_product_of_more_rows_than_there_are():
    """A kernel of the library that is told of 64 rows and gets memory for 8."""
    function, x, *rest = slices()
    with pytest.raises(
        KernelCheckError, match=r"fill\.py:\d+: read out of bounds of the tensor of argument 0 \('load_x'\)"
    ):
        function(x[:, :8].contiguous(), *rest)
