"""How threads share rows: every form that fits a row length, timed beside the one that `form_of` chooses.

    python benchmarks/row_forms.py [--ops layer_norm,softmax] [--lengths 4096,32768] [--dtypes bfloat16] [--out F.jsonl]

Forms are compiled by several processes first, which leave them in the disk cache, and each result is compared with
float64. Then calls of one operation and length run in CUDA graphs, one form after the other, the best of some rounds.
512x1:8p4c is a team of 512 threads, one row of a block, eight units a thread, four of which wait in shared memory, and
weights read as constants; n: kept as 16 bits, s: rows streamed, r2: registers for two blocks, /8: a cluster of eight
blocks, 0a4: a loop that reads four units at once, R9@66: a ring of nine units and 66 clusters that stay, e: by the
element. `shared memory` is the kernel of `rows/long.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional as F

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cuda")
from flydsl import kernels
from flydsl.errors import FlyDSLError
from flydsl.kernels.rows import annotated
from flydsl.kernels.rows.form import Form
from flydsl.kernels.rows.norm_kernels import norm_rows
from flydsl.kernels.rows.softmax_kernels import softmax_rows

ELEMENTS = 2**27
NAMES = ("x", "out", "weight", "bias")
EPS = 1e-5
MOST_TURNS = 16
SLACK = 1.4
"""Units that threads have, over those of the row, at most: the rest is waste."""
MOST_HELD = 160
"""Bytes that a thread keeps in registers."""
PARKED, PARKED_BYTES = (1, 2, 4, 8), 112 * 1024
"""Units that wait, and the shared memory of a block for them."""
REGISTERS, OTHER_REGISTERS = 65536, 20
"""Of a multiprocessor, and those that a thread needs for more than its row."""
LOOPS = ((512, 4, True), (1024, 4, False), (1024, 4, True))
"""Threads, units that are read at once, and whether rows are streamed."""
SHORT, MOST_ELEMENTS = 1024, 32
"""Ragged rows that may be read by the element, and how many a thread has then."""
SHARED_BYTES = 98304
"""Rows from which on a cluster may share one."""
RING_THREADS = 512
FEW_ROWS = 300
SHOWN = 10


class Job(NamedTuple):
    """One form of one operation."""

    op: str
    n: int
    dtype: str
    form: Form | str
    """A word instead: the choice of `flydsl.kernels`, or a kernel that has no forms."""

    @property
    def label(self) -> str:
        if isinstance(self.form, str):
            return self.form
        form = self.form
        several = f"/{form.cluster}" if form.cluster > 1 else ""
        waiting = f"p{form.parked}" if form.parked else f"a{form.ahead}" if form.ahead > 1 else ""
        tail = "e" if form.unit == 1 else ""
        hints = f"{'c' * form.constant}{'s' * form.streamed}{f'r{form.resident}' if form.resident else ''}"
        ring = f"R{form.ring}@{form.stays}" if form.ring else ""
        return f"{form.team}x{form.rows}:{form.turns}{several}{ring}{waiting}{'n' * form.narrow}{hints}{tail}"


def forms_of(op: str, n: int, size: int) -> Iterator[Form]:
    """All forms of an operation: with units that wait or stay narrow, with hints for caches, and loops."""
    teams = list(teams_of(n, size))
    if n % (16 // size) and n <= SHORT:
        yield from ragged_of(n, size)
        return
    hint = {"streamed": True} if op == "softmax" else {"constant": True, "streamed": True}
    for form in (*teams, *(each._replace(narrow=True) for each in teams if size == 2 and each.team > 32)):
        held = 32 if size == 2 and not form.narrow else 16
        room = PARKED_BYTES // (form.block * 16) if form.block >= 512 and form.cluster == 1 and not form.edges else 0
        parked = (0, *(k for k in PARKED if form.turns - k >= 2 and k <= room))
        for each in (form._replace(parked=k) for k in parked if (form.turns - k) * held <= MOST_HELD):
            blocks = REGISTERS // ((each.turns - each.parked) * held // 4 + OTHER_REGISTERS) // form.block
            some = [each] if form.block < 512 or form.cluster > 1 or blocks < 2 else [each._replace(resident=blocks)]
            yield from some
            yield from (one._replace(**hint) for one in some)
    yield from rings_of(op, n, size)
    unit = 16 // size
    if n * size > SHARED_BYTES and n % unit == 0:
        for team, ahead, streamed in LOOPS:
            yield Form(unit, team, 1, 0, False, NAMES, ahead=ahead, streamed=streamed)


def rings_of(op: str, n: int, size: int) -> Iterator[Form]:
    """Clusters that stay, with a ring of a unit more than a row and of two rows, where they fit."""
    unit, vectors = 16 // size, {"softmax": 0, "rms_norm": 1, "layer_norm": 2}[op]
    whole = n % unit == 0
    shifted = () if whole or not vectors else NAMES[2:]
    units = n // unit - bool(shifted)
    for cluster, resident, waves in ((2, 1, 1), (4, 2, 4), (8, 2, 4)) if n * size > SHARED_BYTES else ():
        turns = -(-units // (cluster * RING_THREADS))
        room = PARKED_BYTES * 2 // resident // (RING_THREADS * 16) - vectors * turns
        for ring in sorted({turns + 1, 2 * turns}):
            if 2 <= turns <= 8 // resident and ring <= room:
                yield Form(
                    unit, cluster * RING_THREADS, 1, turns, not whole, NAMES if whole else NAMES[:2], cluster, shifted,
                    resident=resident, ring=ring, stays=waves * resident * 132 // cluster,
                )  # fmt: skip


def ragged_of(n: int, size: int) -> Iterator[Form]:
    """Short rows that begin anywhere: in units with edges, and by the element."""
    yield from teams_of(n, size)
    for team in (4, 8, 16, 32, 64):
        if 2 <= (turns := -(-n // team)) <= MOST_ELEMENTS:
            yield Form(1, team, max(64 // team, 1), turns, False, ())


def teams_of(n: int, size: int) -> Iterator[Form]:
    """Teams of one block, from a warp's part to all threads, and of clusters."""
    unit = 16 // size
    whole = n % unit == 0
    units = n // unit - (not whole)
    aligned, shifted = (NAMES, ()) if whole else (NAMES[:2], NAMES[2:])
    for block in (4, 8, 16, 32, 64, 128, 256, 512, 1024):
        turns = -(-units // block)
        if turns <= MOST_TURNS and turns * block <= units * SLACK and (whole or block >= 4 * unit):
            yield Form(unit, block, max(64 // block, 1), turns, not whole, aligned, 1, shifted)
    for cluster in (2, 4, 8) if n * size > SHARED_BYTES else ():
        for block in (256, 512, 1024):
            turns = -(-units // (cluster * block))
            if 2 <= turns <= 8 and turns * cluster * block <= units * SLACK:
                yield Form(unit, cluster * block, 1, turns, not whole, aligned, cluster, shifted)


def jobs_of(ops: list[str], lengths: list[int], dtypes: list[str]) -> list[Job]:
    made: list[Job] = []
    for dtype in dtypes:
        for n in lengths:
            for op in ops:
                found = list(forms_of(op, n, getattr(torch, dtype).itemsize))
                made += [Job(op, n, dtype, form) for form in (*found, "shared memory", "chosen")]
    return made


def case_jobs(op: str, n: str, dtype: str) -> list[Job]:
    return jobs_of([op], [int(n)], [dtype])


class Rows:
    """Arrays of one length and type, made once for all forms."""

    def __init__(self, m: int, n: int, dtype: torch.dtype):
        self.m, self.n = m, n
        self.x = (torch.randn(m, n, device="cuda") * 2 + 1).to(dtype)
        self.weight, self.bias = (torch.randn(n, device="cuda").to(dtype) for _ in range(2))
        self.out = torch.full_like(self.x, float("nan"))

    def call(self, job: Job) -> Callable[[], object]:
        x, w, b, out, form = self.x, self.weight, self.bias, self.out, job.form
        if form == "chosen":
            return {
                "softmax": lambda: kernels.softmax(x, out=out),
                "rms_norm": lambda: kernels.rms_norm(x, w, eps=EPS, out=out),
                "layer_norm": lambda: kernels.layer_norm(x, w, b, eps=EPS, out=out),
            }[job.op]
        if isinstance(form, str):
            return {
                "softmax": lambda: annotated.softmax(x, out),
                "rms_norm": lambda: annotated.rms_norm(x, w, out, EPS),
                "layer_norm": lambda: annotated.layer_norm(x, w, b, out, EPS),
            }[job.op]
        if job.op == "softmax":
            return lambda: softmax_rows(x, out, self.m, self.n, False, form)
        centred = job.op == "layer_norm"
        return lambda: norm_rows(
            x, None, w, b if centred else None, out, None, None, None, self.m, self.n, EPS, centred, form
        )  # fmt: skip

    def check(self, job: Job) -> None:
        """The first and the last rows, to the format."""
        some = torch.cat([self.x[:8], self.x[-8:]]).double()
        w, b = self.weight.double(), self.bias.double()
        want = {
            "softmax": lambda: torch.softmax(some, -1),
            "rms_norm": lambda: F.rms_norm(some, (self.n,), w, EPS),
            "layer_norm": lambda: F.layer_norm(some, (self.n,), w, b, EPS),
        }[job.op]()
        got = torch.cat([self.out[:8], self.out[-8:]]).double()
        error = ((got - want).norm() / want.norm()).item()
        assert error < {torch.float32: 1e-5, torch.float16: 1e-3}.get(self.x.dtype, 4e-3), (job, error)


def compiled(job: Job) -> str | None:
    """Compile and check a form on a few rows; what went wrong, if something did."""
    try:
        rows = Rows(FEW_ROWS, job.n, getattr(torch, job.dtype))
        rows.call(job)()
        rows.check(job)
    except (FlyDSLError, RuntimeError, AssertionError) as error:
        # After a fault of the device nothing runs in this process any more: the first of its failures counts.
        where = f"process {os.getpid()} after {time.process_time():.1f} s"
        return f"{job.op} {job.n} {job.dtype} {job.label}: {where}: {type(error).__name__} {str(error)[:160]}"
    return None


def best_time(call: Callable[[], object], rounds: int = 3, inner: int = 6) -> float:
    """Milliseconds of a call."""
    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(inner):
            call()
    found: list[float] = []
    for _ in range(rounds + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) / inner)
    return min(found[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", default="softmax,rms_norm,layer_norm")
    parser.add_argument("--lengths", default="1024,4096,8192,16384,24576,28672,32768,40960,65536")
    parser.add_argument("--dtypes", default="bfloat16")
    parser.add_argument("--cases", default="", help="instead of all of these: layer_norm:32768:float32,...")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    jobs = [job for case in args.cases.split(",") if case for job in case_jobs(*case.split(":"))]
    jobs = jobs or jobs_of(args.ops.split(","), [int(n) for n in args.lengths.split(",")], args.dtypes.split(","))
    start, failed = time.perf_counter(), set[Job]()
    with ProcessPoolExecutor(14, mp_context=get_context("spawn"), max_tasks_per_child=32) as pool:
        for job, problem in zip(jobs, pool.map(compiled, jobs), strict=True):
            if problem is not None:
                failed.add(job)
                print(problem, flush=True)
    print(f"{len(jobs)} forms compiled in {time.perf_counter() - start:.0f} s", flush=True)
    lines: list[dict[str, object]] = []
    for n, dtype in dict.fromkeys((job.n, job.dtype) for job in jobs):
        rows = Rows(ELEMENTS // n, n, getattr(torch, dtype))
        for op in dict.fromkeys(job.op for job in jobs if (job.n, job.dtype) == (n, dtype)):
            found: dict[str, float] = {}
            for job in jobs:
                if (job.op, job.n, job.dtype) == (op, n, dtype) and job not in failed:
                    found[job.label] = 2 * rows.x.nbytes / best_time(rows.call(job)) / 1e9
                    form = job.form if isinstance(job.form, str) else list(job.form)
                    lines.append({"op": op, "n": n, "dtype": dtype, "form": form, "value": found[job.label]})
            best = sorted(found, key=found.__getitem__, reverse=True)
            shown = " ".join(f"{label}={found[label]:.2f}" for label in best[:SHOWN])
            print(f"{op:10} {dtype:8} {n:6}  chosen {found['chosen']:.2f}  {shown}", flush=True)
    print(f"done in {time.perf_counter() - start:.0f} s")
    if args.out:
        args.out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
