"""`attention` on AMD GPUs: every element against float64 in checked mode, places in shared memory, main loops."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flydsl.kernels import attention
from flydsl.kernels.attention import calls, entry
from flydsl.kernels.attention.amd import calls as amd_calls
from flydsl.kernels.attention.amd import places as typed_places
from flydsl.kernels.attention.amd.plan import machine_for, tile_for
from flydsl.kernels.attention.amd.tile import TOGETHER, Cut, Machine, Tile, keys_cut, shared_bytes, stages, values_cut
from flydsl.target import GPUTarget

from .oracle import compare, kept_of, oracle, random

ROOT = Path(__file__).resolve().parents[3]
ARCHES = ("gfx942", "gfx950", "gfx1201")
F16, F32, FP8 = torch.float16, torch.float32, torch.float8_e4m3fn


def small_tile(machine: Machine, d: int, dv: int, queries: int, shared: int) -> Tile:
    """As many cases, in less code; values of more than 32 elements in two parts."""
    n = max(16 * machine.each // machine.run, machine.span, 32)
    return Tile(d, min(dv, 32), n, 16 if queries > 16 else 32, 2)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, emulate):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    monkeypatch.setattr(amd_calls, "tile_for", small_tile)

    def refuse(*_: object) -> None:
        pytest.fail("attention took the general kernel")

    monkeypatch.setattr(calls, "anywhere", refuse)
    entry.forget()
    yield emulate
    entry.forget()


# --- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHES)
def test_ragged_rows_and_keys(arch: str, rng: np.random.Generator, small):
    """Ends inside tiles, several steps, heads that share keys; nothing is written outside the result."""
    small(arch)
    q, k, v = random(rng, 2, 37, 4, 64), random(rng, 2, 75, 2, 64), random(rng, 2, 75, 2, 32)
    whole = torch.full((2, 38, 4, 48), float("nan"), dtype=q.dtype)
    out, lse = attention(q, k, v, causal=True, return_lse=True, out=whole[:, :37, :, :32])
    compare((out, lse), q, k, v, causal=True)
    assert whole[:, 37:].isnan().all() and whole[..., 32:].isnan().all()
    # Rows that see nothing.
    out, lse = attention(q[:1, :, :1], k[:1, :9, :1], v[:1, :9, :1], causal=True, return_lse=True)
    compare((out, lse), q[:1, :, :1], k[:1, :9, :1], v[:1, :9, :1], causal=True)
    assert torch.isneginf(lse[0, 0, :28]).all() and not out[0, :28].any()


@pytest.mark.parametrize("arch", ARCHES)
def test_decoding_in_parts(arch: str, rng: np.random.Generator, small):
    """The heads that share keys are rows; parts of the keys are combined."""
    small(arch)
    q, k, v = random(rng, 2, 1, 6, 32), random(rng, 2, 130, 2, 32), random(rng, 2, 130, 2, 32)
    compare(attention(q, k, v, causal=True, return_lse=True), q, k, v)


def test_all_that_is_done_to_scores(rng: np.random.Generator, small):
    """In a kernel with columns of values in two parts."""
    small("gfx942")
    q, k, v = (random(rng, 2, rows, h, 64, dtype=F16) for rows, h in ((19, 2), (53, 1), (53, 1)))
    more: dict[str, Any] = {
        "bias": random(rng, 2, 1, 19, 53, dtype=F32), "alibi": random(rng, 2, 2, dtype=F32).abs(), "softcap": 2.0,
        "sinks": random(rng, 2, dtype=F32), "window": (30, 4), "scale": -0.7,
    }  # fmt: skip
    found = attention(q, k, v, return_lse=True, dropout=0.3, seed=7, **more)
    compare(found, q, k, v, kept=kept_of((2, 2, 19, 53), 0.3, 7), **more)


def test_maxima_that_grow_late(rng: np.random.Generator, small):
    """Sums are rescaled by little not at all, and by much where a later key has a far larger score."""
    small("gfx1201")
    q, k, v = random(rng, 1, 20, 1, 32), random(rng, 1, 130, 1, 32), random(rng, 1, 130, 1, 32)
    for place, size in ((40, 2.0), (70, 8.0), (100, 16.0), (129, 40.0)):
        k[0, place, 0] = q[0, 3, 0] * size
    k[0, :35, 0] = q[0, 5, 0] * -60  # a first maximum whose power of two is beyond all floats
    compare(attention(q, k, v, window=(200, 200), return_lse=True), q, k, v)


@pytest.mark.parametrize(("arch", "page"), [("gfx950", 4), ("gfx1201", 48)])
def test_pages(arch: str, page: int, rng: np.random.Generator, small):
    small(arch)
    lengths = [100, 0, 37]
    width = -(-max(lengths) // page)
    table = torch.from_numpy(rng.permutation(3 * width + 2)[: 3 * width].reshape(3, width).astype("i4"))
    k, v = (torch.full((3 * width + 2, page, 2, 32), float("nan"), dtype=torch.bfloat16) for _ in range(2))
    q, dense = random(rng, 3, 2, 4, 32), []
    for b, length in enumerate(lengths):
        dense.append((random(rng, 1, length, 2, 32), random(rng, 1, length, 2, 32)))
        for i in range(length):
            k[table[b, i // page], i % page], v[table[b, i // page], i % page] = dense[b][0][0, i], dense[b][1][0, i]
        table[b, -(-length // page) :] = -1
    used = torch.tensor(lengths, dtype=torch.int32)
    out, lse = attention(q, k, v, causal=True, block_table=table, seqlens_k=used, return_lse=True)
    for b in range(3):
        compare((out[b : b + 1], lse[b : b + 1]), q[b : b + 1], *dense[b], causal=True)


def test_packed_sequences(rng: np.random.Generator, small):
    """Neighbours in memory are not seen, not even if they are NaN."""
    small("gfx942")
    lengths_q, lengths_k = [40, 0, 3], [50, 5, 70]
    starts_q, starts_k = (torch.tensor([0, *np.cumsum(x)], dtype=torch.int32) for x in (lengths_q, lengths_k))
    q, k, v = random(rng, 43, 2, 32), random(rng, 125, 1, 32), random(rng, 125, 1, 32)
    more = {"window": (20, 2), "cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k}
    out, lse = attention(q, k, v, return_lse=True, **more)
    for b in (0, 2):
        of_q, of_k = (slice(x[b].item(), x[b + 1].item()) for x in (starts_q, starts_k))
        compare((out[None, of_q], lse[None, :, of_q]), q[None, of_q], k[None, of_k], v[None, of_k], window=(20, 2))
    v[55:] = float("nan")
    assert torch.equal(attention(q, k, v, **more)[:40], out[:40])


@pytest.mark.parametrize("d", [64, 128])
def test_fp8(d: int, rng: np.random.Generator, small):
    """By the instruction without scales and by that with them, whose operands are of 128 elements and keys."""
    small("gfx950")
    shapes = (1, 21, 2, d), (1, 150, 1, d), (1, 150, 1, 32)
    q, k, v = (random(rng, *shape, dtype=F32).to(FP8) for shape in shapes)
    factors = [torch.tensor([x], dtype=F32) for x in (0.5, 2.0, 0.25)]
    out, lse = attention(q, k, v, descale=(factors[0], factors[1], factors[2]), causal=True, return_lse=True)
    grown = [x.float() * f for x, f in zip((q, k, v), factors, strict=True)]
    want, want_lse, size = oracle(*grown, causal=True)
    assert (out.double() - want).abs().le(2.0**-4 * size + 2.0**-8 * want.abs() + 1e-5).all()
    assert (out.double() - want).norm() <= 0.045 * want.norm()
    torch.testing.assert_close(lse.double(), want_lse, rtol=1e-5, atol=2e-5)


# --- places -------------------------------------------------------------------------------------------------------

places: Any = typed_places
"""Arithmetic that integers do as well."""

MACHINES = {
    "mfma": Machine("mfma", 16),
    "long mfma": Machine("mfma", 32, direct=True),
    "wmma": Machine("wmma", 16, lanes=32),
    "fp8": Machine("mfma_scale", 128, 1, direct=True),
}
SHAPES = [(64, 64, 128), (128, 96, 64), (192, 128, 32), (96, 256, 64), (256, 64, 32)]


def unit_map(tile: Tile, machine: Machine, cut: Cut, mix: Any) -> dict[int, tuple[int, int]]:
    """Place of a unit in shared memory, in elements -> its row and first column."""
    threads = tile.threads(machine)
    found: dict[int, tuple[int, int]] = {}
    for thread in range(threads):
        for i in range(cut.moved):
            row, unit = places.unit_of(thread, i, cut, threads, mix)
            found[(thread + i * threads) * machine.unit] = row, unit * machine.unit
    return found


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_lanes_read_what_was_written(name: str, shape: tuple[int, int, int]):
    """Keys and values, element by element; neighbouring lanes read different banks, and writes are dealt evenly."""
    machine = MACHINES[name]
    d, dv, n = shape
    d, n = -(-d // machine.step) * machine.step, max(n, 16 * machine.each // machine.run)
    tile = Tile(d, dv, n, 16)
    keys, values = keys_cut(tile, machine), values_cut(tile, machine)
    of_keys = unit_map(tile, machine, keys, lambda row: places.mixed(row, keys.units))
    readers = [places.Reader(tile, machine, keys, values, lane) for lane in range(machine.lanes)]
    for t in range(n // 16):
        for r in range(d // machine.span):
            at = [reader.key_at(t, r) for reader in readers]
            for lane, place in enumerate(at):
                expected = (16 * t + lane % 16, (r * machine.groups + lane // 16) * machine.unit)
                assert of_keys[place] == expected
            for first in range(0, machine.lanes, 8):
                assert len({place * machine.size // 16 % 8 for place in at[first : first + 8]}) == 8
    if machine.direct:
        mix = lambda row: places.mixed_value(row, values.units, machine)  # noqa: E731
        of_values = unit_map(tile, machine, values, mix)
        count = 8 // machine.size
        for j in range(dv // 16):
            for r in range(n * 4 // (16 * count)):
                for lane, reader in enumerate(readers):
                    # A group of 16 lanes reads rows, and gets columns: of the keys whose scores it has.
                    place = reader.value_at(j, r)
                    row, column = of_values[place // machine.unit * machine.unit]
                    line = lane % 16 * count // 16
                    key = r * 4 * count + line // 4 * 16 + lane // 16 * 4 + line % 4
                    assert (row, column + place % machine.unit) == (key, 16 * j + lane % 16 * count % 16)
        return
    of_columns: dict[int, tuple[int, int]] = {}
    threads = tile.threads(machine)
    for i in range(values.moved):
        for e in range(machine.unit):
            written: list[int] = []
            for thread in range(threads):
                group, unit = places.group_of(thread, i, values, threads)
                place = places.column_place(group, unit, e, n // machine.unit)
                written.append(place)
                for x in range(TOGETHER):
                    of_columns[place + x] = places.key_of(group, machine) + x, unit * machine.unit + e
            if n >= 64 and values.units % 16 == 0:
                # 32 lanes write 256 bytes, twice all banks.
                banks = Counter(place * 2 // 8 % 16 for place in written[:32])
                assert set(banks.values()) == {2}
    assert len(of_columns) == values.elements
    for j in range(dv // 16):
        for r in range(n // machine.span):
            at = [reader.column_at(j, r) for reader in readers]
            for lane, place in enumerate(at):
                for e in range(machine.unit):
                    tile_of, inside = divmod(e, machine.run)
                    key = r * machine.span + 16 * tile_of + lane // 16 * machine.run + inside
                    assert of_columns[place + e] == (key, 16 * j + lane % 16)
            for first in range(0, machine.lanes, 8):
                assert len({place * 2 // 16 % 8 for place in at[first : first + 8]}) == 8


# --- the choice ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1200", "gfx1201", "gfx1250"])
def test_every_head_has_a_tile(arch: str):
    target = GPUTarget.parse(f"rocm:{arch}")
    shared = target.caps.shared_mem_per_block or 0
    for d, dv in ((64, 64), (96, 96), (128, 128), (192, 192), (192, 128), (256, 256), (32, 16), (64, 256)):
        for queries in (1, 100, 5000):
            machine = machine_for(target, "bfloat16", 2, d)
            assert machine is not None
            tile = tile_for(machine, d, dv, queries, shared)
            assert tile is not None and dv % tile.dv == 0
            # Two blocks on a compute unit.
            assert shared_bytes(tile, machine) * 2 <= max(shared, 1 << 16)


def test_what_has_no_instruction():
    """Of WMMA's first version both halves of a wave hold all of an operand; 8 bits want transposing reads."""
    assert machine_for(GPUTarget.parse("rocm:gfx1100"), "float16", 2, 64) is None
    assert machine_for(GPUTarget.parse("rocm:gfx942"), "float8_e4m3fn", 1, 128) is None
    assert machine_for(GPUTarget.parse("rocm:gfx942"), "float32", 4, 64) is None
    found = machine_for(GPUTarget.parse("rocm:gfx950"), "float8_e4m3fn", 1, 128)
    assert found is not None and found.atom_k == 128


@pytest.mark.parametrize(
    "change",
    [
        lambda q, k, v: ((q[..., :40], k[..., :40], v), {}),
        lambda q, k, v: ((q, torch.cat([k, k], -1)[..., 4:68], v), {}),
        lambda q, k, v: ((q, k.as_strided(k.shape, (0, 8, 0, 1)), v), {}),
        lambda q, k, v: ((q, k, v), {"scale": -0.5}),
        lambda q, k, v: ((q, k, v), {"out": torch.zeros(1, 5, 1, 65, dtype=F16)[..., 1:]}),
    ],
    ids=["extent", "alignment", "overlap", "scale", "result"],
)
def test_what_the_general_kernel_does(change, emulate, monkeypatch: pytest.MonkeyPatch):
    """Rows that are no 16-byte units, or that overlap; a factor that turns the order of scores around."""
    emulate("gfx942")
    called: list[str] = []

    def instead(*_: object) -> Any:
        called.append("general")
        return lambda *_: None

    monkeypatch.setattr(calls, "anywhere", instead)
    entry.forget()
    arrays, more = change(*(torch.zeros(1, 5, 1, 64, dtype=F16) for _ in range(3)))
    attention(*arrays, **more)
    entry.forget()
    assert called == ["general"]


# --- main loops ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench():
    """The benchmark that counts, which is also what the documentation's table comes from."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import main_loop  # pyright: ignore[reportMissingImports]

        yield main_loop
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


LOOPS = {
    "bf16 on gfx942, d = 128": ("v_mfma_f32_16x16x16_bf16", 128, 1.15, 8),
    "bf16 on gfx950, d = 128": ("v_mfma_f32_16x16x32_bf16", 128, 1.57, 16),
    "fp8 on gfx950, d = 128": ("v_mfma_scale_f32_16x16x128_f8f6f4", 64, 6.2, 16),
    "bf16 on gfx1201, d = 256": ("v_wmma_f32_16x16x16_bf16", 48, 1.9, 8),
}
"""Instruction, how often it stands in the loop, vector instructions beside each, and loads of 16 bytes a lane."""


@pytest.mark.parametrize("name", LOOPS)
def test_main_loop(name: str, bench):
    """Nothing spills, every wait for loads leaves others under way, and each exponential is one instruction."""
    mnemonic, count, vectors, loads = LOOPS[name]
    case = bench.attentions()[name]
    asm = bench.ours(case)
    loop = bench.read_loop(asm)
    names = Counter(line.split()[0] for line in bench.main_loop(asm))
    assert names[mnemonic] == loop.counts["matrix"] == count
    assert loop.spills == 0 and loop.registers <= 256 and loop.counts["other memory"] <= 4
    assert loop.per_product("vector") <= vectors
    assert loop.counts["load"] + loop.counts["to shared"] == loads and min(loop.waits) > 0
    steps = stages(case.machine)
    if case.machine.direct:
        # Behind what is waited for, a step's keys and values have been asked for.
        assert loop.waits == [loads // steps] * 2 * steps
    tile = case.tile
    assert names["v_exp_f32_e32"] == steps * tile.rows * tile.n // case.machine.lanes
    assert loop.counts["barrier"] in (2, 4)
