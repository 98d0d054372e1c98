"""The model: what it counts is what the code does, and what it says follows from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.autotune.model.by_line import lines_of
from flydsl.autotune.model.evaluate import size_of
from flydsl.autotune.model.launches import Launch
from flydsl.autotune.model.predict import Prediction, predict, residency
from flydsl.compiler.active_backend import resolve_backend
from flydsl.compiler.jit_function import JitFunction
from flydsl.errors import DSLValueError
from flydsl.target import GPUTarget
from flydsl.target.machines import MACHINES, machine_for

TARGETS = ("cuda:sm_90a", "rocm:gfx942")
Spec = flyc.TensorSpec


def predicted(function: JitFunction, target: str, *args: object, **knobs: object) -> Prediction:
    call = function.bind_given(args, knobs)
    artifact = function.artifact(call, resolve_backend(target), {"debug_info": True})
    (found,) = predict(artifact, list(call.adapted.values()))
    return found


@flyc.kernel
def walk_kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, STEP: fx.Constexpr[int]):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    total = fx.Float32(0.0)
    for k in range(0, n, 1):
        total = total + x[i * STEP, k]
    y[i] = total


@flyc.jit
def walk(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, blocks: fx.Int32, STEP: fx.Constexpr[int]):
    walk_kernel(x, y, n, STEP).launch(grid=blocks, block=256)


@pytest.mark.parametrize("target", TARGETS)
def test_loops_are_followed_and_counted(target: str):
    """The bound of the loop is an argument: the amounts grow with it, exactly."""
    short, long = (
        predicted(walk, target, Spec((256 * 64, n), "float32"), Spec((256 * 64,), "float32"), n, 64, STEP=1)
        for n in (100, 300)
    )
    for found, n in ((short, 100), (long, 300)):
        assert found.launch.grid == (64, 1, 1) and found.launch.block == (256, 1, 1)
        total = found.work.total
        assert total.asked == pytest.approx(256 * 4 * (n + 1))
        assert total.floats == pytest.approx(256 * n)
        assert not found.work.unknown_loops
    assert long.us > short.us and long.limiter


@flyc.kernel
def copy_kernel(x: fx.Tensor, y: fx.Tensor, STEP: fx.Constexpr[int]):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    y[i] = x[i * STEP]


@flyc.jit
def copy(x: fx.Tensor, y: fx.Tensor, blocks: fx.Int32, STEP: fx.Constexpr[int]):
    copy_kernel(x, y, STEP).launch(grid=blocks, block=256)


@pytest.mark.parametrize("target", TARGETS)
def test_lanes_far_apart_move_whole_sectors(target: str):
    n = 1 << 20
    dense, spread = (
        predicted(copy, target, Spec((n * step,), "float32"), Spec((n,), "float32"), n // 256, STEP=step)
        for step in (1, 32)
    )
    assert dense.work.total.moved == dense.work.total.asked == 256 * 8
    sector = dense.machine.sector
    assert spread.work.total.moved == 256 * (sector + 4)
    assert spread.us > 2 * dense.us
    (hint,) = [h for h in spread.hints if "neighbours" in h]
    assert "test_model.py" in hint
    assert "x the bytes asked for" in spread.table() and "y[i] = x[i * STEP]" in spread.table()


@flyc.kernel
def banks_kernel(y: fx.Tensor, STEP: fx.Constexpr[int]):
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64 * STEP, 16]).peek()
    held = lds.view(fx.make_layout((64 * STEP,), (1,)))
    i = fx.thread_idx.x
    held[i * STEP] = fx.Float32(1.0)
    fx.barrier()
    y[i] = held[(63 - i) * STEP]


@flyc.jit
def banks(y: fx.Tensor, STEP: fx.Constexpr[int]):
    banks_kernel(y, STEP).launch(grid=1, block=64)


def test_bank_conflicts():
    clean, clashing, swizzled = (predicted(banks, "cuda:sm_90a", Spec((64,), "float32"), STEP=s) for s in (1, 32, 33))
    assert clean.work.total.shared == clean.work.total.shared_ideal == swizzled.work.total.shared
    assert clashing.work.total.shared == 32 * clashing.work.total.shared_ideal
    assert any("bank conflicts" in hint for hint in clashing.hints) and not any("bank" in h for h in clean.hints)
    assert clean.work.total.barriers == 2  # one each for two warps


def test_matrix_products_are_counted_whole():
    from flydsl.kernels.gemm_cdna import gemm_cdna

    n = 512
    half, single = Spec((n, n), "float16"), Spec((n, n), "float32")
    found = predicted(gemm_cdna, "rocm:gfx942", half, half, single)
    assert sum(found.work.total.matrix.values()) * found.launch.blocks == 2 * n**3
    assert set(found.work.total.matrix) == {"f16"}
    assert found.machine.name == "MI300X" and found.resident >= 1
    assert "idle" in " ".join(found.hints)  # 16 blocks on 304 units


def test_machines():
    assert machine_for(GPUTarget.parse("cuda:sm_90a")).name == "H200"
    assert (
        machine_for(GPUTarget.parse("cuda:sm_90a"), "h100").memory_gbs
        < machine_for(GPUTarget.parse("cuda:sm_90a")).memory_gbs
    )
    assert {m.name for m in MACHINES} >= {
        "H100",
        "H200",
        "A100",
        "MI300X",
        "MI325X",
        "MI355X",
        "RX 7900 XTX",
        "RX 9070 XT",
    }
    for machine in MACHINES:
        # Rates fit together: a unit does no more products a clock than the whole does in a second.
        assert 100 < machine.matrix_rate("f16") < 20000 and machine.memory_gbs < machine.cache_gbs
    with pytest.raises(DSLValueError, match="nothing is known of GPUs"):
        machine_for(GPUTarget.parse("rocm:gfx906"))
    with pytest.raises(DSLValueError, match="no GPU 'B9'"):
        machine_for(GPUTarget.parse("cuda:sm_90a"), "B9")


def test_sizes():
    assert size_of("[4 x <2 x half>]") == 16 and size_of("<{ <{ i32, i64 }> }>") == 12 and size_of("metadata") is None


SCRIPT = """
import numpy as np
import flydsl.compiler as flyc, flydsl.expr as fx
from flydsl.autotune import Config, autotune

@flyc.kernel
def add_kernel(a: fx.Tensor, c: fx.Tensor, n: fx.Int32, B: fx.Constexpr[int], STEP: fx.Constexpr[int]):
    i = fx.block_idx.x * B + fx.thread_idx.x
    if i < n:
        c[i] = a[i * STEP % n] + 1.0

@autotune([Config(B=64, STEP=33), Config(B=256, STEP=1), Config(B=2048, STEP=1)], key=["n"], rep=2)
@flyc.jit
def add(a: fx.Tensor, c: fx.Tensor, n: fx.Int32, B: fx.Constexpr[int], STEP: fx.Constexpr[int]):
    add_kernel(a, c, n, B, STEP).launch(grid=fx.ceildiv(n, B), block=B)

if __name__ == "__main__":
    a = np.ones(1 << 16, "f4")
    c = np.zeros_like(a)
    add(a, c, a.size)
"""


def fly(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "flydsl.tools.fly", *arguments], capture_output=True, text=True)


def test_fly_predict_and_the_choice_without_a_gpu(tmp_path: Path):
    script = tmp_path / "kernel.py"
    script.write_text(SCRIPT)
    done = fly("predict", str(script), "--target", "cuda:sm_90a", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["device"] == "H200" and found["block"] == [256, 1, 1]  # the model's choice of the three
    assert found["us"] > 0 and found["limiter"] in found["parts_us"]
    text = fly("predict", str(script), "--target", "rocm:gfx942", "--device", "MI325X")
    assert "on MI325X" in text.stdout and "c[i] = a[i * STEP % n] + 1.0" in text.stdout
    for arguments, status in (
        (("x.py", "--target", "cuda:sm_90a"), 2),
        ((str(script), "--target", "cuda:sm_90a", "--device", "B9"), 2),
    ):
        bad = fly("predict", *arguments)
        assert bad.returncode == status and bad.stderr.startswith("fly predict: ")


def test_fly_tune(tmp_path: Path, own_folders: Path):
    script = tmp_path / "kernel.py"
    script.write_text(SCRIPT)
    out = tmp_path / "out.json"
    done = fly("tune", "--timeout", "60", "--json", str(out), "--plot", str(tmp_path / "plots"), str(script))
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(out.read_text())
    assert sorted(t["status"] for t in report["trials"]) == ["failed", "ok", "ok"], done.stdout
    assert not report["notes"]  # they were timed in a process of their own
    assert len(list((tmp_path / "plots").glob("*.svg"))) == 1
    assert len(list(own_folders.glob("*.json"))) == 1
    bad = fly("tune", "--budget", "soon", str(script))
    assert bad.returncode == 2 and "a budget is" in bad.stderr


@flyc.kernel
def gather_kernel(at: fx.Tensor, x: fx.Tensor, y: fx.Tensor):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    where = at[i]
    y[i * 2] = x[where]


@flyc.jit
def gather(at: fx.Tensor, x: fx.Tensor, y: fx.Tensor, blocks: fx.Int32):
    gather_kernel(at, x, y).launch(grid=blocks, block=256)


@pytest.mark.parametrize("target", TARGETS)
def test_each_access_of_a_line_is_told(target: str):
    """A coalesced load, one whose addresses are data, a store to every other element."""
    args = (Spec((1 << 16,), "int32"), Spec((1 << 20,), "float32"), Spec((1 << 17,), "float32"))
    found = predicted(gather, target, *args, 256)
    by_what = {(a.what, a.known, a.factor): a for line in lines_of(found) for a in line.accesses}
    assert set(by_what) == {("load", True, 1.0), ("load", False, 1.0), ("store", True, 2.0)}
    warp = found.machine.warp
    assert all(a.space == "global" and a.used == 4 * warp and a.times == 256 // warp for a in by_what.values())
    assert "2x the bytes" in str(by_what["store", True, 2.0]) and "coalesced" in str(by_what["load", True, 1.0])
    assert "depend on data" in str(by_what["load", False, 1.0])
    assert sum(line.share for line in lines_of(found)) == pytest.approx(1.0)


def test_dynamic_shared_memory_counts_once():
    """Of the launch, whether or not the kernel's resources hold it too."""
    machine = machine_for(GPUTarget.parse("cuda:sm_90a"))
    launch = Launch("k", (1, 1, 1), (128, 1, 1), 65536, {})
    for uses in ({"shared": 1024}, {"shared": 1024, "dynamic_smem": 65536}):
        assert residency(machine, launch, uses) == (machine.shared_bytes // (65536 + 1024), "shared memory")
