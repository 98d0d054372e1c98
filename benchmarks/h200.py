"""Speed on an NVIDIA GPU beside cuBLAS (through torch) and Triton, in one run: bandwidth, products, launches, compile.

    python benchmarks/h200.py [--out results.jsonl] [--plot results.svg] [--only add,rows,gemm,launch,compile]

Results are checked before anything is timed. Times are medians of CUDA events on random data. Prints a table, and with
`--out` one JSON object per measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import torch

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cuda")
import flydsl.compiler as flyc
from flydsl.kernels.vector_add import vector_add

ROWS: list[dict] = []


def note(what: str, who: str, value: float, unit: str, **more) -> None:
    ROWS.append({"what": what, "who": who, "value": value, "unit": unit, **more})
    print(f"{what:34} {who:10} {value:10.2f} {unit}", flush=True)


def interleaved(calls, rounds: int, inner: int) -> dict[str, float]:
    """Median milliseconds of each call; they take turns, since the card slows down as it warms up.

    `inner` calls are captured in a graph, so that the host's speed does not count.
    """
    times: dict[str, list[float]] = {who: [] for who in calls}
    graphs = {}
    for who, call in calls.items():
        graphs[who] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[who]):
            for _ in range(inner):
                call()
    for turn in range(rounds + 1):
        for who, graph in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            if turn:
                times[who].append(start.elapsed_time(end) / inner)
    return {who: statistics.median(found) for who, found in times.items()}


def aligned(t: torch.Tensor):
    return flyc.from_torch_tensor(t, assumed_align=16).mark_layout_dynamic(divisibility=4)


def triton_add():
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(x, y, z, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        inside = at < n
        tl.store(z + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)

    return lambda a, b, c: kernel[(triton.cdiv(a.numel(), 4096),)](a, b, c, a.numel(), block=4096, num_warps=8)


def bench_add() -> None:
    n = 1 << 28
    a, b = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    c = torch.full_like(a, float("nan"))
    args = [aligned(t) for t in (a, b, c)]
    vector_add(*args)
    assert torch.equal(c, a + b)
    run = triton_add()
    c.fill_(float("nan"))
    run(a, b, c)
    assert torch.equal(c, a + b)
    calls = {
        "flydsl": lambda: vector_add(*args),
        "triton": lambda: run(a, b, c),
        "torch": lambda: torch.add(a, b, out=c),
    }
    for who, found in interleaved(calls, rounds=15, inner=2).items():
        note("vector add 2^28 f32", who, 12 * n / found / 1e9, "TB/s")


TRITON_CONFIGS = ((128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4))
"""Tiles, warps and stages; the one that is fastest at a size counts."""


def triton_gemm():
    """Triton's TMA product: descriptors, one tile per program, groups of eight rows."""
    import triton
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    @triton.jit
    def kernel(da, db, dc, m, n, k, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr):
        pid = tl.program_id(0)
        rows, columns = tl.cdiv(m, bm), tl.cdiv(n, bn)
        per = 8 * columns
        first = pid // per * 8
        height = min(rows - first, 8)
        row, column = first + (pid % per) % height, (pid % per) // height
        acc = tl.zeros((bm, bn), tl.float32)
        for i in range(tl.cdiv(k, bk)):
            x, y = da.load([row * bm, i * bk]), db.load([column * bn, i * bk])
            acc = tl.dot(x, y.T, acc)
        dc.store([row * bm, column * bn], acc.to(dc.dtype))

    def run(a, b, c, config=TRITON_CONFIGS[0]):
        m, k = a.shape
        n = b.shape[0]
        bm, bn, bk, warps, stages = config
        da, db, dc = (TensorDescriptor.from_tensor(t, s) for t, s in ((a, [bm, bk]), (b, [bn, bk]), (c, [bm, bn])))
        kernel[(triton.cdiv(m, bm) * triton.cdiv(n, bn),)](
            da, db, dc, m, n, k, bm=bm, bn=bn, bk=bk, num_warps=warps, num_stages=stages
        )

    return run


def bench_gemm() -> None:
    from flydsl.kernels.gemm_sm80 import gemm_sm80
    from flydsl.kernels.gemm_sm90 import gemm_sm90

    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    other = triton_gemm()
    for size in (2048, 4096, 8192):
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        c = torch.full_like(a, float("nan"))
        reference = a @ b.T
        wide = [flyc.from_torch_tensor(t, assumed_align=16).mark_layout_dynamic(divisibility=8) for t in (a, b, c)]
        calls = {
            "flydsl": lambda: gemm_sm90(a, b, c, blocks),  # noqa: B023
            "no cluster": lambda: gemm_sm90(a, b, c, blocks, 1),  # noqa: B023
            "cublas": lambda: torch.mm(a, b.T, out=c),  # noqa: B023
            "mma.sync": lambda: gemm_sm80(*wide),  # noqa: B023
        }
        for config in TRITON_CONFIGS:
            calls[f"triton/{config}"] = lambda config=config: other(a, b, c, config)  # noqa: B023
        worst: dict[str, float] = {}
        for who, call in list(calls.items()):
            c.fill_(float("nan"))
            try:
                call()
            except Exception as error:  # noqa: BLE001 - a peer that cannot run is reported, not fatal
                print(f"GEMM {size}: {who} failed: {error}")
                del calls[who]
                continue
            torch.cuda.synchronize()
            worst[who] = (c.float() - reference.float()).abs().max().item()
            assert worst[who] <= 2**-6 * reference.float().abs().max().item(), (who, worst)
        times = interleaved(calls, rounds=9, inner=max(4, 2**38 // size**3))
        best = min((who for who in times if who.startswith("triton")), key=times.__getitem__, default=None)
        for who, found in times.items():
            if who.startswith("triton") and who != best:
                continue
            more = {"config": who.partition("/")[2]} if who == best else {}
            speed = 2 * size**3 / found / 1e9
            label = who.partition("/")[0]
            note(f"GEMM bf16 {size}^3", label, speed, "TFLOP/s", max_difference=worst[who], **more)


def bench_rows() -> None:
    from h200_rows import bench_rows as run

    run(note, interleaved)


def bench_launch() -> None:
    a, b, c = (torch.zeros(4096, device="cuda") for _ in range(3))
    args = [aligned(t) for t in (a, b, c)]
    run = triton_add()
    loaded = flyc.compile(vector_add, *args)
    calls = {
        "flydsl": lambda: vector_add(a4, b4, c4),
        "adapted": lambda: vector_add(*args),
        "compiled": lambda: loaded(*args),
        "triton": lambda: run(a, b, c),
        "torch": lambda: torch.add(a, b, out=c),
    }
    a4, b4, c4 = a, b, c
    for who, call in calls.items():
        for _ in range(100):
            call()
        times = []
        for _ in range(10):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                call()
            times.append((time.perf_counter() - start) / 200 * 1e6)
        torch.cuda.synchronize()
        note("host time per launch", who, statistics.median(times), "us")


_COLD = """
import time, torch
torch.zeros(1, device="cuda")
{setup}
torch.cuda.synchronize()
start = time.perf_counter()
{run}
torch.cuda.synchronize()
print("COLD", time.perf_counter() - start)
"""
_OURS = """
import sys; sys.path.insert(0, {folder!r})
import h200
import flydsl.compiler.build.driver, flydsl.compiler.backends.cuda, flydsl.llvm.codegen, flydsl.llvm.text.abi_nvptx
{args}
"""


def bench_compile() -> None:
    """First call in a fresh process with an empty cache; modules are imported before the clock starts."""
    folder = str(Path(__file__).parent)
    vectors = "a, b, c = (torch.randn(1 << 20, device='cuda') for _ in range(3))"
    matrices = "a, b, c = (torch.randn(512, 512, device='cuda').bfloat16() for _ in range(3))"
    again = "h200.vector_add(*[h200.aligned(t) for t in (a, b, c)]); torch.cuda.synchronize()"
    cases = {
        ("cold compile, vector add", "flydsl"): (
            vectors + "\nx = [h200.aligned(t) for t in (a, b, c)]", "h200.vector_add(*x)"),
        ("cold compile, vector add", "triton"): (vectors + "\nrun = h200.triton_add()", "run(a, b, c)"),
        ("cold compile, GEMM", "flydsl"): (
            matrices + "\nfrom flydsl.kernels.gemm_sm90 import gemm_sm90", "gemm_sm90(a, b, c, 132)"),
        ("compile, GEMM as second kernel", "flydsl"): (
            vectors + "\n" + again + "\n" + matrices + "\nfrom flydsl.kernels.gemm_sm90 import gemm_sm90",
            "gemm_sm90(a, b, c, 132)"),
        ("compile, GEMM as second kernel", "triton"): (
            vectors + "\nh200.triton_add()(a, b, c)\n" + matrices + "\nrun = h200.triton_gemm()", "run(a, b, c)"),
        ("cold compile, GEMM", "triton"): (matrices + "\nrun = h200.triton_gemm()", "run(a, b, c)"),
    }  # fmt: skip
    for (what, who), (setup, run) in cases.items():
        times = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as home:
                env = {
                    **os.environ,
                    "TRITON_CACHE_DIR": home,
                    "FLYDSL_RUNTIME_CACHE_DIR": home,
                    "CUDA_CACHE_PATH": home,
                }
                text = _COLD.format(setup=_OURS.format(folder=folder, args=setup), run=run)
                done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=env)
                found = [line for line in done.stdout.splitlines() if line.startswith("COLD")]
                if not found:
                    print(f"{what}: {who} failed: {done.stderr[-500:]}")
                    break
                times.append(float(found[0].split()[1]) * 1e3)
        if times:
            note(what, who, statistics.median(times), "ms")


def driver_version() -> str:
    """The driver's own name for its version."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="file for one JSON object per measurement")
    parser.add_argument("--plot", help="file for a drawing, SVG")
    parser.add_argument("--only", default="add,rows,gemm,launch,compile")
    options = parser.parse_args()
    properties = torch.cuda.get_device_properties(0)
    versions = {
        "device": properties.name, "date": time.strftime("%Y-%m-%d"), "torch": torch.__version__,
        "cuda": torch.version.cuda, "triton": version("triton"), "driver": driver_version(),
    }  # fmt: skip
    print(json.dumps(versions))
    for name in options.only.split(","):
        globals()[f"bench_{name}"]()
    if options.out:
        Path(options.out).write_text("\n".join(json.dumps({**versions, **row}) for row in ROWS) + "\n")
    if options.plot:
        from bars import svg

        drawn = [row for row in ROWS if row["unit"] in ("TB/s", "TFLOP/s")]
        Path(options.plot).write_text(svg(drawn, f"{versions['device']}, {versions['date']}: longer is faster"))


if __name__ == "__main__":
    main()
