"""The tensor data mover by coordinates and by descriptors: ragged tiles there and back, rows by their numbers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError
from flydsl.expr import rocdl
from flydsl.expr.rocdl import tdm_ops

CDNA5: Any = rocdl.cdna5


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx1250")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")


SHAPES: list[tuple[int, tuple[int, int], Any]] = [
    (1, (16, 32), ((16, 32), (32, 1))),
    (4, (16, 32), ((16, 32), (40, 1))),
    (2, (8, 16), (((2, 4), 16), ((16, 32), 1))),
    (2, (32, 8), ((32, 8), (8, 1))),
]


@pytest.mark.parametrize(("warps", "tile", "shared"), SHAPES)
def test_tiles_there_and_back(
    warps: int, tile: tuple[int, int], shared: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows, columns = random.randint(tile[0] + 1, 3 * tile[0] - 1), random.randint(tile[1] + 1, 2 * tile[1] - 1)
    blocks = -(-rows // tile[0])

    @flyc.kernel
    def kernel(src: fx.Tensor, dst: fx.Tensor):
        cells = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 2048, 16]).peek()
        load, coords = CDNA5.make_tiled_tdm_atom(CDNA5.TensorLoad(), src, fx.make_layout(*shared), tile, warps)
        packed = fx.make_layout(tile, (tile[1], 1))
        store, places = CDNA5.make_tiled_tdm_atom(CDNA5.TensorStore(), dst, packed, tile, warps)
        here = fx.make_view(cells.ptr, fx.make_layout((shared[0], 1), (shared[1], 0)))
        there = fx.make_view(cells.ptr + 1024, fx.make_layout((tile, 1), ((tile[1], 1), 0)))
        order = fx.make_layout(warps, 1)
        wave = rocdl.wave_id()
        for i in fx.range_constexpr(2):
            from_src = fx.zipped_divide(coords, tile)[None, (fx.block_idx.x, None)]
            to_dst = fx.zipped_divide(places, tile)[None, (fx.block_idx.x, None)]
            a, b = CDNA5.tdm_partition(load, wave, order, here, from_src)
            fx.copy(load, b[None, i], a[None, 0])
            rocdl.s_wait_tensorcnt(0)
            fx.barrier()
            t = fx.thread_idx.x
            for j in fx.range_constexpr(tile[0] * tile[1] // (32 * warps)):
                n = j * 32 * warps + t
                at = (n // tile[1], n % tile[1])
                there[at, 0] = here[at, 0] + 1.0
            fx.barrier()
            c, d = CDNA5.tdm_partition(store, wave, order, there, to_dst)
            fx.copy(store, c[None, 0], d[None, i])
            rocdl.s_wait_tensorcnt(0)
            fx.barrier()

    @flyc.jit
    def launch(src: fx.Tensor, dst: fx.Tensor):
        kernel(src, dst).launch(grid=(blocks, 1, 1), block=(32 * warps, 1, 1))

    src, dst = np.random.rand(rows, columns).astype(np.float32), np.full((rows, columns), -7, np.float32)
    launch(src, dst)
    np.testing.assert_array_equal(dst, src + 1)
    if warps == 4:
        text = flyc.compile(launch, src, dst, target="rocm:gfx1250").artifact.asm
        assert text.count("tensor_load_to_lds") == text.count("tensor_store_from_lds") == 2
        monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
        made = [flyc.compile(launch, src, dst, target="rocm:gfx1250").artifact]
        monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
        monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
        flyc.invalidate_all()
        made.append(flyc.compile(launch, src, dst, target="rocm:gfx1250").artifact)
        ran = [a.metadata["times"]["passes"] for a in made]
        # The walk starts behind the pass that takes no part in it.
        assert {"fly-rocdl-expand-ops", "fly-to-llvm"} <= set(ran[0]) and "fly-layout-lowering" in ran[1]
        assert dict(made[0].sections) == dict(made[1].sections)


def test_unchecked_modes_reach_beyond_the_tensor() -> None:
    """With the check of a mode off, what lies behind the tensor in memory is read."""

    @flyc.kernel
    def kernel(src: fx.Tensor, dst: fx.Tensor, check: fx.Constexpr[tuple]):
        cells = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 8 * 8, 16]).peek()
        shared = fx.make_view(cells.ptr, fx.make_layout((8, 8), (8, 1)))
        part = fx.make_view(fx.get_iter(src), fx.make_layout((5, 8), (16, 1)))
        atom, coords = CDNA5.make_tiled_tdm_atom(CDNA5.TensorLoad(), part, shared.layout, (8, 8))
        fx.copy(atom.set_value("boundary_check", check), fx.zipped_divide(coords, (8, 8))[None, (0, 0)], shared)
        rocdl.s_wait_tensorcnt(0)
        fx.barrier()
        for j in fx.range_constexpr(2):
            n = j * 32 + fx.thread_idx.x
            dst[n // 8, n % 8] = shared[n // 8, n % 8]

    @flyc.jit
    def launch(src: fx.Tensor, dst: fx.Tensor, check: fx.Constexpr[tuple]):
        kernel(src, dst, check).launch(grid=1, block=32)

    src = np.arange(1, 129, dtype=np.int32).reshape(8, 16)
    for check in ((1, 1), (0, 1)):
        dst = np.full((8, 8), -7, np.int32)
        launch(src, dst, check)
        wanted = src[:, :8].copy()
        wanted[5:] *= 1 - check[0]
        np.testing.assert_array_equal(dst, wanted)


@pytest.mark.parametrize("check", ["0", "1"])
@pytest.mark.parametrize("mover", [False, True])
def test_a_wave_uses_what_it_copied_without_a_barrier(mover: bool, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_CPU_CHECK", check)
    rows = 3

    @flyc.kernel
    def kernel(src: fx.Tensor, dst: fx.Tensor):
        wave, lane = fx.thread_idx.x // 32, fx.thread_idx.x % 32
        cells = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek().ptr + wave * 32
        row = fx.make_layout(32, 1)
        for i in range(rows):
            source = fx.get_iter(src) + (wave * rows + i) * 32
            if fx.const_expr(mover):
                fx.copy_atom_call(
                    CDNA5.make_tdm_atom(fx.Float32, 1), fx.make_view(source, row), fx.make_view(cells, row)
                )
                rocdl.s_wait_tensorcnt(0)
            else:
                rocdl.intrinsic("wave.barrier", None, [])
                rocdl.cluster_load_async_to_lds(source + lane, cells + lane, 4)
                rocdl.s_wait_asynccnt(0)
            dst[wave * rows + i, lane] = cells[31 - lane]

    @flyc.jit
    def launch(src: fx.Tensor, dst: fx.Tensor):
        kernel(src, dst).launch(grid=1, block=64)

    src, dst = np.random.rand(2 * rows, 32).astype(np.float32), np.full((2 * rows, 32), -7, np.float32)
    launch(src, dst)
    np.testing.assert_array_equal(dst, src[:, ::-1])


@pytest.mark.parametrize(("warps", "pad"), [(1, 0), (2, 8), (4, 0)])
def test_descriptors(warps: int, pad: int) -> None:
    @flyc.kernel
    def kernel(src: fx.Tensor, dst: fx.Tensor, rows: fx.Int32):
        cells = fx.SharedAllocator().allocate(fx.Array[fx.Float16, 16 * (64 + pad), 16]).peek()
        shared = fx.make_view(cells.ptr, fx.make_layout((16, 64), (64 + pad, 1)))
        tile = {"tensor_shape": (41, 64), "strides": (64, 1), "tile_shape": (16, 64), "num_warps": warps,
                "pad_interval": 64 if pad else 0, "pad_amount": pad}  # fmt: skip
        at = (fx.block_idx.x * 16, 0)
        first = tdm_ops.make_tensor_descriptor_2d(src, shared, at, oob_outer_bound=41, **tile)
        tdm_ops.tensor_load_2d(first)
        tdm_ops.tensor_wait(0)
        fx.barrier()
        second = tdm_ops.make_tensor_descriptor_2d(dst, shared, at, for_store=True, oob_outer_bound=rows, **tile)
        none, more = fx.Vector.filled(4, 0, fx.Int32), fx.Vector.filled(8, 0, fx.Int32)
        rocdl.tensor_store_from_lds(second.dgroup0, second.dgroup1, none, none, more, cache_policy=0)
        tdm_ops.tensor_wait()
        tdm_ops.l2_prefetch_tile(src, at, (16, 64), (64, 1))

    @flyc.jit
    def launch(src: fx.Tensor, dst: fx.Tensor, rows: fx.Int32):
        kernel(src, dst, rows).launch(grid=(3, 1, 1), block=(32 * warps, 1, 1))

    rows = random.randint(33, 41)
    src, dst = np.random.rand(41, 64).astype(np.float16), np.full((41, 64), -7, np.float16)
    launch(src, dst, rows)
    np.testing.assert_array_equal(dst[:rows], src[:rows])
    assert (dst[rows:] == -7).all()
    if warps == 2:
        text = flyc.compile(launch, src, dst, rows, target="rocm:gfx1250").artifact.asm
        assert text.count("tensor_load_to_lds") == text.count("tensor_store_from_lds") == 1
        assert "global_prefetch" in text


@pytest.mark.parametrize("bits", [16, 32])
def test_rows_by_their_numbers(bits: int) -> None:
    """Loaded one behind the other and stored again; the last of them does not count, one is outside."""

    @flyc.kernel
    def kernel(src: fx.Tensor, dst: fx.Tensor, which: fx.Tensor, rows: fx.Int32):
        cells = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 8 * 16, 16]).peek()
        numbers = [which[i] for i in range(5)]
        options = {"row_width": 16, "tensor_dim0": 16, "tensor_dim1": rows, "stride": 20, "elem_bytes": 4,
                   "index_size": bits}  # fmt: skip
        load = tdm_ops.make_tensor_gather_descriptor(src, cells, numbers, **options)
        low, high = load.dgroup0[2], load.dgroup0[3]
        tdm_ops.tensor_load_gather(tdm_ops.update_tensor_gather_descriptor_addr64(load, low, high, 4))
        tdm_ops.tensor_wait()
        fx.barrier()
        tdm_ops.tensor_store_gather(
            tdm_ops.make_tensor_gather_descriptor(dst, cells, numbers, gather_tile_dim1=4, **options)
        )
        tdm_ops.tensor_wait()

    @flyc.jit
    def launch(src: fx.Tensor, dst: fx.Tensor, which: fx.Tensor, rows: fx.Int32):
        kernel(src, dst, which, rows).launch(grid=1, block=32)

    src, dst = np.random.randint(0, 1000, (12, 20)).astype(np.int32), np.full((12, 20), -1, np.int32)
    which = np.array([*random.sample(range(11), 3), 11, 5], np.int32)
    launch(src, dst, which, 11)
    wanted = np.full((12, 20), -1)
    for row in which[:3]:
        wanted[row, :16] = src[row, 1:17]
    np.testing.assert_array_equal(dst, wanted)


def test_addresses_carry_into_their_upper_word() -> None:
    def words() -> Any:
        high = fx.Int32(-(1 << 31) + 3)
        return tdm_ops.add_addr_with_carry(fx.Int32(-16), high, fx.Int32(32))

    assert flyc.evaluate(words, target="cpu:gfx1250") == (16, -(1 << 31) + 4)


NOWHERE: Any = 3
REFUSED: list[tuple[Any, str]] = [
    (lambda x, s: CDNA5.make_tiled_tdm_atom("load", x, s.layout, (8, 8)), r"TensorLoad\(\) or TensorStore\(\)"),
    (lambda x, s: CDNA5.make_tiled_tdm_atom(CDNA5.TensorLoad(), x, s.layout, (8, 8), internal_type=1), "must be None"),
    (lambda x, s: CDNA5.make_tiled_tdm_atom(CDNA5.TensorLoad(), x, s.layout, (8, 4)), "tiler holds 32 elements"),
    (lambda x, s: tdm_ops.compute_padding_encoding(3, 8), "cannot be encoded"),
    (lambda x, s: tdm_ops.compute_warp_distribution([8, 8], 3), "power of two"),
    (lambda x, s: tdm_ops.make_tensor_descriptor_2d(x, s, (0, 0), (8, 8), (8, 2), (8, 8)), "contiguous"),
    (lambda x, s: tdm_ops.make_tensor_descriptor_2d(x, NOWHERE, (0, 0), (8, 8), (8, 1), (8, 8)), "lds_memref must be"),
    (lambda x, s: tdm_ops.make_tensor_gather_descriptor(x, s, [0] * 9, 8, 8, 8, 8), "1 to 8 rows"),
]


@pytest.mark.parametrize("elem_bits", [8, 16, 32, 64])
def test_paddings_are_encoded_as_the_instruction_reads_them(elem_bits: int) -> None:
    """The interval is 2^(code + 1) words of 32 bits, the amount code + 1 words."""
    assert tdm_ops.compute_padding_encoding(0, 0, elem_bits) == (0, 0)
    for words in (2**k for k in range(1, 9)):
        for amount in (1, 2, 5, 127, 128):
            given = (words * 32 // elem_bits, amount * 32 // elem_bits, elem_bits)
            if elem_bits == 64 and amount % 2:
                continue
            interval_code, amount_code = tdm_ops.compute_padding_encoding(*given)
            assert (2 << interval_code, amount_code + 1) == (words, amount)
    word = 64 // elem_bits  # elements of two words
    for interval, amount in ((word, 0), (0, word), (3 * word, word), (256 * word, word), (4 * word, 65 * word)):
        with pytest.raises(DSLValueError, match="cannot be encoded"):
            tdm_ops.compute_padding_encoding(interval, amount, elem_bits)


def test_warps_share_a_tile_evenly() -> None:
    for shape in ([64, 32], [1, 64], [8, 4], [3, 16], [2, 2, 8]):
        for count in (1, 2, 4, 8, 16):
            warps, block = tdm_ops.compute_warp_distribution(shape, count)
            assert np.prod(warps) == count
            for extent, n, each in zip(shape, warps, block, strict=True):
                assert each * n >= extent > (each - 1) * n
            # Outer dimensions are divided first, and none into more parts than it has elements but the last.
            for i, n in enumerate(warps[:-1]):
                assert n <= shape[i] and (n * 2 > shape[i] or all(later == 1 for later in warps[i + 1 :]))


def test_refused() -> None:
    @flyc.kernel
    def kernel(x: fx.Tensor):
        cells = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 64, 16]).peek()
        shared = fx.make_view(cells.ptr, fx.make_layout((8, 8), (8, 1)))
        for call, words in REFUSED:
            with pytest.raises((TypeError, ValueError), match=words):
                call(x, shared)
        atom, coords = CDNA5.make_tiled_tdm_atom(CDNA5.TensorLoad(), x, shared.layout, (8, 8))
        tiles = fx.zipped_divide(coords, (8, 8))[None, (0, None)]
        staged = fx.make_view(cells.ptr, fx.make_layout(((8, 8), 1), ((8, 1), 0)))
        with pytest.raises(ValueError, match="no multiple of 128"):
            CDNA5.tdm_partition(atom, 0, fx.make_layout(2, 1), staged, tiles)
        with pytest.raises(ValueError, match="number 2 warps from 0 on"):
            CDNA5.tdm_partition(atom, 0, fx.make_layout(2, 2), staged, tiles)
        four = fx.make_view(cells.ptr, fx.make_layout((8, 4), (8, 1)))
        with pytest.raises(ValueError, match="moves 64 elements, got 64 and 32"):
            fx.copy(atom, tiles[None, 0], four)
        words = fx.Vector.from_elements([x[0, 0]] * 8, fx.Int32)
        none = fx.Vector.filled(4, 0, fx.Int32)
        with pytest.raises(ValueError, match="fifth group must be a constant 0"):
            rocdl.tensor_load_to_lds(none, words, none, none, words)

    @flyc.jit
    def launch(x: fx.Tensor):
        kernel(x).launch(grid=1, block=32)

    launch(np.zeros((16, 8), np.int32))
