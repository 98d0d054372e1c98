"""What a copy atom asks of memory: refused where the types disprove it, never assumed where they do not prove it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError


def _moved(shape: Any, stride: Any, bits: int, offset: int = 0, *, out: bool = False) -> Any:
    """Copy a view of an argument to registers, or back, and give what arrived."""

    def parts(x: fx.Tensor):
        memory = fx.make_view(fx.get_iter(x) + offset, fx.make_layout(shape, stride))
        return fx.make_copy_atom(fx.UniversalCopy(bits), x.dtype), memory, fx.make_rmem_tensor(shape, x.dtype)

    def read(x: fx.Tensor):
        atom, memory, registers = parts(x)
        fx.copy(atom, memory, registers)
        return registers

    def write(x: fx.Tensor):
        atom, memory, registers = parts(x)
        registers.fill(0.0)
        fx.copy(atom, registers, memory)

    return flyc.evaluate(write if out else read, np.arange(64, dtype="f4"))


REFUSED = [
    ((4, 2), (2, 1), 128, "stride 2"),
    ((4, 2), (8, 1), 128, "stride 8"),
    ((2, 4), (4, 1), 64, "stride 4"),
    ((4, 2), (0, 4), 128, "stride 0"),
    ((4, 2), (1, 5), 128, "aligned to 16 bytes"),
    ((2, 3, 2), (1, 2, 7), 64, "aligned to 8 bytes"),
    ((2, 4), (1, 2), 128, "holds only 2 values"),
    ((1, 4), (4, 1), 128, "holds only 1 values"),
    ((8, 2), (1, 8), 128, "holds 8 values"),
]


@pytest.mark.parametrize("out", [False, True], ids=["load", "store"])
@pytest.mark.parametrize(("shape", "stride", "bits", "message"), REFUSED)
def test_constant_layouts_that_do_not_fit(shape: Any, stride: Any, bits: int, message: str, out: bool):
    with pytest.raises(DSLValueError, match=message) as caught:
        _moved(shape, stride, bits, out=out)
    assert str(bits) in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "stride", "bits"),
    [((4, 2), (1, 4), 128), ((4, 2), (1, 8), 128), ((1, 4), (1, 2), 32), ((2, 2, 2), (1, 4, 8), 64), ((4,), (1,), 128)],
)
def test_constant_layouts_that_fit(shape: Any, stride: Any, bits: int):
    wanted = [
        float(sum(c * d for c, d in zip(reversed(where), stride, strict=True)))
        for where in np.ndindex(*reversed(shape))
    ]
    assert _moved(shape, stride, bits) == wanted
    # Memory that is not known to be aligned is read right too.
    assert _moved(shape, stride, bits, 1) == [x + 1 for x in wanted]


def test_a_single_call_is_held_to_the_same():
    def call(shape: Any, stride: Any) -> Any:
        def move(x: fx.Tensor):
            got = fx.make_rmem_tensor(4, fx.Float32)
            atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
            fx.copy_atom_call(atom, fx.make_view(fx.get_iter(x), fx.make_layout(shape, stride)), got)
            return got

        return flyc.evaluate(move, np.arange(16, dtype="f4"))

    assert call((2, 2), (1, 2)) == [0, 1, 2, 3]
    assert call(1, 1) == [0, 1, 2, 3], "a view of one element stands for all that a call moves from there"
    for shape, stride in ((4, 2), ((2, 2), (2, 1)), (2, 1)):
        with pytest.raises(DSLValueError, match="128 bits"):
            call(shape, stride)


def test_a_swizzle_must_keep_the_values_together():
    def move(base: int) -> Any:
        def body(x: fx.Tensor):
            layout = fx.make_composed_layout(fx.static(fx.SwizzleType.get(1, base, 3)), fx.make_layout((4, 4), (1, 4)))
            atom, got = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32), fx.make_rmem_tensor((4, 4), fx.Float32)
            fx.copy(atom, fx.make_view(fx.get_iter(x), layout), got)
            return got

        return flyc.evaluate(body, np.arange(64, dtype="f4"))

    assert sorted(move(2)) == list(range(16))
    with pytest.raises(DSLValueError, match="keeps only 2 elements together"):
        move(1)


@flyc.kernel
def _copy_kernel(src: fx.Tensor, dst: fx.Tensor, tiled: fx.TiledCopy):
    mine = tiled.get_slice(fx.thread_idx.x)
    read = mine.partition_S(fx.flat_divide(src, tiled.tile_mn)[None, None, fx.block_idx.x, fx.block_idx.y])
    write = mine.partition_D(fx.flat_divide(dst, tiled.tile_mn)[None, None, fx.block_idx.x, fx.block_idx.y])
    registers = fx.make_fragment_like(read)
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), src.dtype)
    fx.copy(atom, read, registers)
    fx.copy(atom, registers, write)


@flyc.jit
def _copy(src: fx.Tensor, dst: fx.Tensor):
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), src.dtype)
    tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((4, 8), (8, 1)), fx.make_layout((1, 4), (4, 1)))
    m, n = src.shape.unpack()
    _copy_kernel(src, dst, tiled).launch(grid=(m // 4, n // 32), block=32)


@pytest.mark.parametrize("orders", ["CC", "FC", "CF", "FF"])
def test_run_time_strides_are_followed(orders: Any, rng: np.random.Generator):
    """One program for arrays whose rows or whose columns are contiguous."""
    src = np.asarray(rng.random((8, 64)), dtype="f4", order=orders[0])
    dst = np.zeros((8, 64), "f4", order=orders[1])
    _copy(src, dst)
    np.testing.assert_array_equal(dst, src)
    if orders == "FF":
        for target, wide in (("rocm:gfx942", "global_load_dwordx4"), ("cuda:sm_90", ".v4")):
            assert wide not in flyc.compile(_copy, src, dst, target=target).artifact.asm


@pytest.mark.parametrize("offset", [1, 2, 4])
def test_a_promise_that_an_offset_breaks(offset: int):
    """The memory is known to be aligned to 16 bytes, and so is a place that is not."""

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        atom, got = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32), fx.make_rmem_tensor(4, fx.Float32)
        fx.copy(atom, fx.make_view(fx.get_iter(x) + offset, fx.make_layout(4, 1)), got)
        fx.copy(atom, got, fx.make_view(fx.get_iter(y), fx.make_layout(4, 1)))

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=1, block=1)

    held = np.zeros(20, "f4")
    x = held[(-held.ctypes.data % 16) // 4 :][:16]
    x[:] = np.arange(16)
    y = np.zeros(4, "f4")
    promised = flyc.from_dlpack(x, assumed_align=16)
    if offset % 4:
        with pytest.raises(DSLValueError, match=f"offset of {offset}"):
            run(promised, y)
    else:
        run(promised, y)
        np.testing.assert_array_equal(y, x[offset : offset + 4])
