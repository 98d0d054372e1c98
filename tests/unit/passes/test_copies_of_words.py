"""Copies of words, as AMD GPUs get them: neighbours at once, reads under one predicate in one branch. The numbers come
from the cpu stack that emulates gfx942, with the pass of the GPU's pipeline in its own."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.backends.cpu import CpuBackend
from flydsl.dialects.fly.types import ptr_type
from flydsl.ir.enums import AddressSpace
from flydsl.passes.fly import adjacent_copies, fly_merge_guards

THREADS = 8


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")


@flyc.kernel
def turn_kernel(src: fx.Tensor, dst: fx.Tensor, tiled: fx.TiledCopy, atom: fx.CopyAtom):
    bx, by, _ = fx.block_idx
    mine = tiled.get_slice(fx.thread_idx.x)
    from_ = mine.partition_S(fx.flat_divide(src, tiled.tile_mn)[None, None, bx, by])
    to = mine.partition_D(fx.flat_divide(dst, tiled.tile_mn)[None, None, bx, by])
    held = fx.make_fragment_like(from_)
    fx.copy(atom, from_, held)
    fx.copy(atom, held, to)


def turn(values: tuple[int, int], order: tuple[int, int], wide: bool):
    @flyc.jit
    def run(src: fx.Tensor, dst: fx.Tensor):
        atom = fx.make_copy_atom(fx.UniversalCopy64b() if wide else fx.UniversalCopy32b(), dtype_of(wide))
        threads = fx.make_layout((2, THREADS // 2), (THREADS // 2, 1))
        tiled = fx.make_tiled_copy_tv(atom, threads, fx.make_layout(values, order))
        m, n = src.shape.unpack()
        tm, tn = tiled.tile_mn.unpack()
        turn_kernel(src, dst, tiled, atom).launch(grid=(m // tm, n // tn), block=THREADS)

    return run


def dtype_of(wide: bool) -> type[fx.Float32] | type[fx.Float64]:
    return fx.Float64 if wide else fx.Float32


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("values", "order"), [((4, 4), (4, 1)), ((3, 5), (1, 3)), ((1, 6), (6, 1)), ((7, 1), (1, 7))])
@pytest.mark.parametrize("columns", [(False, True), (True, False), (False, False)])
def test_copies_move_every_element(
    values: tuple[int, int], order: tuple[int, int], columns: tuple[bool, bool], wide: bool
) -> None:
    rng = np.random.default_rng()
    m, n = 2 * values[0] * 2, THREADS // 2 * values[1] * 3
    kind = np.float64 if wide else np.float32
    src, dst = (np.full((m, n), np.nan, kind, order="F" if c else "C") for c in columns)
    src[:] = rng.standard_normal((m, n))
    turn(values, order, wide)(src, dst)
    np.testing.assert_array_equal(dst, src)


class At:
    """A pointer, as far as it is looked at."""

    base_type = ptr_type(f32, AddressSpace.Global, 4)

    def __init__(self, dynamic: object, static: int):
        self.dynamic, self.static = dynamic, static


def test_the_last_of_several_elements_stays() -> None:
    here = object()
    places = [At(here, i) for i in (0, 1, 0, 1)]
    assert list(adjacent_copies._runs(places)) == [[0], [1], [2], [3]]


def test_neighbours_are_found_in_any_order() -> None:
    here, there = object(), object()
    rng = np.random.default_rng()
    for _ in range(50):
        places = [At((here, there)[rng.integers(2)], int(i)) for i in rng.permutation(20)[: rng.integers(1, 20)]]
        runs = list(adjacent_copies._runs(places))
        assert sorted(i for run in runs for i in run) == list(range(len(places)))
        for run in runs:
            assert len(run) in (1, 2, 4)
            assert all(places[i].dynamic is places[run[0]].dynamic for i in run)
            assert [places[i].static - places[run[0]].static for i in run] == list(range(len(run)))


@flyc.kernel
def guarded_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    inside = i < n
    whole = fx.make_layout(1, 1)
    ok = fx.make_fragment_like(fx.make_view(a.iter, whole), dtype=fx.Boolean)
    ok[0] = inside
    atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    held = [fx.make_fragment_like(fx.make_view(t.iter, whole)) for t in (a, b, c)]
    for tensor, register in zip((a, b, c), held, strict=True):
        register.fill(-1.0)
        fx.copy(atom, fx.make_view(tensor.iter + i, whole), register, pred=ok)
    if inside:
        c[i] = held[0][0] + 2.0 * held[1][0] + 4.0 * held[2][0]
    fx.copy(atom, fx.make_view(c.iter + i, whole), held[0], pred=ok)
    if inside:
        b[i] = held[0][0]


@flyc.jit
def guarded(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
    guarded_kernel(a, b, c, n).launch(grid=fx.ceildiv(n, 16), block=16)


def test_guarded_reads_see_what_was_written_before(monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[int] = []
    parts, merge = CpuBackend._pipeline_parts, fly_merge_guards._merged

    def with_pass(self: CpuBackend, **options: object):
        before, middle, last = parts(self, **options)
        return [*before, "fly-merge-guards"], middle, last

    monkeypatch.setattr(CpuBackend, "_pipeline_parts", with_pass)
    monkeypatch.setattr(fly_merge_guards, "_merged", lambda a, b: merged.append(1) or merge(a, b))
    rng = np.random.default_rng()
    n = int(rng.integers(33, 47))
    a, b, c = rng.standard_normal((3, 64)).astype(np.float32)
    wanted = (a + 2 * b + 4 * c).astype(np.float32)
    kept = b[n:].copy(), c[n:].copy()
    guarded(a, b, c, n)
    assert merged == [1, 1]  # the three reads in front; the one behind the write stays
    np.testing.assert_allclose(c[:n], wanted[:n], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(b[:n], c[:n])
    np.testing.assert_array_equal(b[n:], kept[0])
    np.testing.assert_array_equal(c[n:], kept[1])
