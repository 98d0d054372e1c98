"""Variants of the Hopper attention kernels beside each other: fp8, latent keys, gradients, tiles of 16-bit types.

    python benchmarks/h200_attention_forms.py [--only fp8,mla,backward,half] [--out FOLDER] [--budget SECONDS]

Every variant is checked first against float64, on ragged lengths, in a process of its own, which compiles it; the good
ones take turns at the timed shapes, where results are checked again. One JSON object per measurement goes to
FOLDER/attention-forms.jsonl.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cuda")
import torch
from h200_attention import Case, call_tile, error, queued, tensors, timed

from flydsl.kernels import attention, mla_decode
from flydsl.kernels.attention import attention_backward, backward
from flydsl.kernels.attention.backward_steps import Sides
from flydsl.kernels.attention.latent import entry as latent_entry
from flydsl.kernels.attention.latent.hopper import Latent
from flydsl.kernels.attention.tile import Tile, problem

PEAK, BANDWIDTH = 989e12, 4.8e12
FP8 = torch.float8_e4m3fn

FP8_TILES = {
    64: [(128, 3, 3, 0, "apart ones"), (128, 3, 2, 1, "early"), (128, 3, 2, 1, "")],
    128: [(128, 3, 3, 0, "apart ones"), (128, 2, 3, 0, "apart ones"), (128, 3, 3, 0, "apart"), (128, 2, 2, 1, "early")],
    256: [(128, 2, 2, 0, ""), (128, 2, 2, 1, "early")],
}  # fmt: skip
"""Keys of a step, consumers, stages, whether they take turns; late rescaling, early waits, steps' own sums, ones."""
HALF_TILES = {
    64: [(128, 3, 2, 1, "early"), (128, 3, 2, 1, "")],
    128: [(128, 2, 2, 1, "early"), (128, 2, 2, 1, "")],
    256: [(80, 2, 2, 0, "lazy"), (80, 2, 2, 1, "early"), (64, 2, 2, 0, "lazy"), (64, 2, 2, 1, "early")],
}  # fmt: skip
FP8_SHAPES = [
    (4, 32, 32, 4096, 128), (2, 64, 8, 8192, 128), (16, 32, 8, 1024, 128), (4, 32, 32, 4096, 64),
    (4, 16, 16, 4096, 256),
]  # fmt: skip
HALF_SHAPES = [
    (4, 32, 32, 4096, 64), (4, 32, 32, 4096, 128), (16, 32, 8, 1024, 128), (4, 16, 16, 4096, 256),
]  # fmt: skip
BACKWARD_SHAPES = [
    (4, 32, 32, 4096, 128), (2, 32, 8, 8192, 128), (16, 32, 8, 1024, 128), (8, 16, 16, 2048, 64), (4, 32, 32, 4096, 64),
]  # fmt: skip
MLA_SHAPES = [(132, 16, 4096), (64, 64, 8192), (132, 128, 4096), (1, 16, 131072), (4, 128, 32768)]
"""Sequences, heads, keys."""
MLA_FORMS = {"64 s2": (64, 2), "32 s4": (32, 4)}
BACKWARD_FORMS = {
    64: {"m128 s2": (128, False, 2), "m128 s3": (128, False, 3), "m128 s2 ordered": (128, True, 2)},
    128: {"m64 s2": (64, False, 2), "m64 s3": (64, False, 3), "m64 s2 ordered": (64, True, 2)},
}
"""Queries of a step, whether sums have an order, and stages."""


def tiles(kind: str, d: int) -> dict[str, Tile]:
    found = {}
    for n, consumers, stages, turns, words in (FP8_TILES if kind == "fp8" else HALF_TILES)[d]:
        tile = Tile(
            d, d, n, consumers, stages, bool(turns), 1 if kind == "fp8" else 2,
            *(word in words for word in ("lazy", "early", "apart", "ones")),
        )  # fmt: skip
        assert problem(tile) is None, problem(tile)
        found[f"{64 * consumers}x{n} s{stages}{' pp' if turns else ''} {words}".strip()] = tile
    return found


def latent(name: str) -> None:
    """Use a form of the kernel from now on."""
    n, stages = MLA_FORMS[name]

    def form(d: int, dv: int, rows: int, page: int, causal: bool, used: bool, split: bool) -> Latent:
        key = (name, d, dv, page, causal, used, split)
        return _forms.setdefault(key, Latent(d, dv, n, stages, min(page, n), causal, used, split))

    latent_entry.form_for = form
    latent_entry._decided.clear()


_forms: dict[object, Latent] = {}


def gradients(d: int, name: str) -> None:
    m, ordered, stages = BACKWARD_FORMS[d][name]
    key = (d, name)

    def form(d: int, right: bool, left: bool, _: bool, wide: bool, dropout: bool, *rest: object) -> Sides:
        made = Sides(d, right, left, m, ordered, wide, dropout, stages)
        return _sides.setdefault((*key, right, left, wide, dropout), made)

    backward.form_for = form


_sides: dict[object, Sides] = {}


def jobs(chosen: set[str], masks: str) -> list[tuple[str, str, int, bool, str]]:
    """Kind, group, elements, causal (or paged), name."""
    made = [("fp8", "", d, c, n) for d in FP8_TILES for c in (False, True) for n in tiles("fp8", d)]
    made += [("half", "", d, c, n) for d in HALF_TILES for c in (False, True) for n in tiles("half", d)]
    made += [("mla", "paged" if c else "plain", 576, c, n) for n in MLA_FORMS for c in (False, True)]
    made += [("backward", "", d, c, n) for d, names in BACKWARD_FORMS.items() for c in (False, True) for n in names]
    return [x for x in made if x[0] in chosen and (x[0] == "mla" or masks == "both" or x[3] == (masks == "yes"))]


def check(kind: str, d: int, causal: bool, name: str) -> str:
    """ "good", or what is wrong; ragged lengths."""
    if kind in ("fp8", "half"):
        for s, sk in ((333, 700), (1024, 1024)):
            q = tensors(Case(1, 4, 2, s, d, causal))[0]
            _, k, v = tensors(Case(1, 4, 2, sk, d, causal))
            if kind == "fp8":
                q, k, v = (x.to(FP8) for x in (q, k, v))
            out = torch.full(q.shape, math.nan, device="cuda", dtype=torch.bfloat16)
            call_tile(tiles(kind, d)[name], q, k, v, out, causal)
            torch.cuda.synchronize()
            found = error(*((x.float() for x in (q, k, v)) if kind == "fp8" else (q, k, v)), out, causal)
            if not found < (6e-2 if kind == "fp8" else 6e-3):
                return f"wrong {found:.1e} at {s}x{sk}"
    elif kind == "mla":
        latent(name)
        for b, h, s in ((3, 16, 333), (2, 128, 2049)):
            found = mla_error(*mla_call(b, h, s, causal))
            if not found < 6e-3:
                return f"wrong {found:.1e} at {b},{h},{s}"
    else:
        gradients(d, name)
        for s, sk in ((333, 700), (1024, 1024)):
            q = tensors(Case(1, 4, 2, s, d, causal))[0]
            _, k, v = tensors(Case(1, 4, 2, sk, d, causal))
            found = max(gradient_errors(q, k, v, causal))
            if not found < 1e-2:
                return f"wrong {found:.1e} at {s}x{sk}"
    return "good"


def gradient_errors(q, k, v, causal: bool) -> list[float]:
    """Of dq, dk and dv, against float64's."""
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    out, lse = attention(*turned, causal=causal, return_lse=True)
    grad = torch.randn_like(out)
    got = attention_backward(grad, *turned, out, lse, causal=causal)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    x, y, z = leaves
    y, z = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (y, z))
    scores = x @ y.mT * q.shape[-1] ** -0.5
    if causal:
        places = torch.arange(q.shape[2], device="cuda")[:, None] + k.shape[2] - q.shape[2]
        scores = scores.masked_fill(torch.arange(k.shape[2], device="cuda")[None] > places, -math.inf)
    (scores.softmax(-1) @ z * grad.transpose(1, 2).double()).sum().backward()
    want = [x.grad for x in leaves]
    return [((a.transpose(1, 2).double() - b).norm() / b.norm()).item() for a, b in zip(got, want, strict=True)]


def mla_call(b: int, h: int, s: int, paged: bool):
    """Arrays, and a function that computes."""
    q = torch.randn(b, 1, h, 576, device="cuda", dtype=torch.bfloat16)
    pages = -(-s // 64)
    kv = torch.randn(b, pages * 64, 576, device="cuda", dtype=torch.bfloat16)
    out = torch.full((b, 1, h, 512), math.nan, device="cuda", dtype=torch.bfloat16)
    if not paged:
        kv = kv[:, :s].contiguous()
        return q, kv, out, s, lambda: mla_decode(q, kv, out=out)
    order = torch.randperm(b * pages, device="cuda")
    table = order.argsort().to(torch.int32).reshape(b, pages)
    there = kv.reshape(-1, 64, 576)[order].contiguous()
    used = torch.full((b,), s, device="cuda", dtype=torch.int32)
    return q, kv, out, s, lambda: mla_decode(q, there, block_table=table, seqlens_k=used, out=out)


def mla_error(q, kv, out, s: int, call: Callable[[], object]) -> float:
    out.fill_(math.nan)
    call()
    torch.cuda.synchronize()
    if not bool(torch.isfinite(out).all()):
        return math.inf
    worst = 0.0
    for b in {0, q.shape[0] // 2, q.shape[0] - 1}:
        x, y = q[b, 0].double(), kv[b, :s].double()
        want = (x @ y.T * 576**-0.5).softmax(-1) @ y[:, :512]
        worst = max(worst, ((out[b, 0].double() - want).norm() / want.norm()).item())
    return worst


def check_all(chosen: set[str], masks: str, of: int, logs: Path, budget: float) -> set[str]:
    logs.mkdir(parents=True, exist_ok=True)
    for old in logs.glob("forms-*.txt"):
        old.unlink()
    workers = []
    for i in range(of):
        log = (logs / f"forms-worker-{i}.log").open("w")
        command = [sys.executable, __file__, "--check", f"{i}/{of}", "--logs", str(logs), "--only", ",".join(chosen)]
        command += ["--causal", masks]
        workers.append(subprocess.Popen(command, stderr=log, stdout=log))
    end = time.time() + budget
    for worker in workers:
        try:
            worker.wait(max(1.0, end - time.time()))
        except subprocess.TimeoutExpired:
            worker.kill()
    words = dict(line.split("|", 1) for log in logs.glob("forms-*.txt") for line in log.read_text().splitlines())
    for job in jobs(chosen, masks):
        word = words.get(str(job), "DIED or hangs")
        if word != "good":
            print(f"VARIANT {job}: {word}", flush=True)
    for i, worker in enumerate(workers):
        if worker.returncode:
            print(f"worker {i}:", (logs / f"forms-worker-{i}.log").read_text()[-600:], flush=True)
    return {what for what, word in words.items() if word == "good"}


def line(file, what: str, case: str, rates: dict[str, float], unit: str, extra: dict[str, str] | None = None) -> None:
    for who, rate in rates.items():
        file.write(json.dumps({"what": what, "case": case, "who": who, unit: rate, **(extra or {})}) + "\n")
    best = sorted(rates.items(), key=lambda x: -x[1])
    print(f"{what} {case}: " + ", ".join(f"{w} {r:.4g}" for w, r in best) + f" {unit}", flush=True)


def run_tiles(kind: str, case: Case, good: set[str], rounds: int, file) -> None:
    half = tensors(case)
    q, k, v = (x.to(FP8) for x in half) if kind == "fp8" else half
    out = torch.full(q.shape, math.nan, device="cuda", dtype=torch.bfloat16)
    calls = {"bf16": lambda: attention(*(x.transpose(1, 2) for x in half), causal=case.causal)} if kind == "fp8" else {}
    calls["entry"] = lambda: attention(
        *(x.transpose(1, 2) for x in (q, k, v)), causal=case.causal, out=out.transpose(1, 2)
    )
    for name, tile in tiles(kind, case.d).items():
        if str((kind, "", case.d, case.causal, name)) in good:
            calls[name] = lambda tile=tile: call_tile(tile, q, k, v, out, case.causal)
    errors = {}
    exact = [x.float() for x in (q, k, v)] if kind == "fp8" else [q, k, v]
    for who, one in list(calls.items()):
        if who == "bf16":
            continue
        out.fill_(math.nan)
        one()
        torch.cuda.synchronize()
        errors[who] = f"{error(*exact, out, case.causal):.1e}"
        if not float(errors[who]) < (6e-2 if kind == "fp8" else 6e-3):
            print(f"WRONG {kind} {case} {who} {errors[who]}", flush=True)
            del calls[who]
    del exact
    times = timed(calls, rounds)
    line(file, kind, str(case), {w: case.flops / t / 1e6 for w, t in times.items()}, "TFLOP/s", {"errors": str(errors)})
    print("   errors", errors, flush=True)


def run_mla(shape: tuple[int, int, int], good: set[str], rounds: int, file) -> None:
    b, h, s = shape
    nbytes, flops = 2 * b * (s * 576 + h * (576 + 512)), 2 * b * h * s * (576 + 512)
    limit = max(nbytes / BANDWIDTH, flops / PEAK)
    rates = {}
    for paged in (False, True):
        for name in MLA_FORMS:
            if str(("mla", "paged" if paged else "plain", 576, paged, name)) not in good:
                continue
            latent(name)
            q, kv, out, _, call = mla_call(b, h, s, paged)
            found = mla_error(q, kv, out, s, call)
            if not found < 6e-3:
                print(f"WRONG mla {shape} {name}: {found:.1e}", flush=True)
                continue
            time_us = timed({"x": call}, rounds)["x"]
            rates[
                f"{name}{' paged' if paged else ''} ({nbytes / time_us / 1e6:.2f} TB/s {flops / time_us / 1e6:.0f} TF)"
            ] = limit / time_us * 1e6
            del q, kv, out, call
            torch.cuda.empty_cache()
    line(
        file,
        "mla",
        f"{b},{h},{s} ({'memory' if nbytes / BANDWIDTH > flops / PEAK else 'products'})",
        rates,
        "of the limit",
    )


def run_backward(case: Case, good: set[str], rounds: int, file) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (x.requires_grad_() for x in tensors(case))
    grad = torch.randn_like(q)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        peer = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=case.causal, enable_gqa=case.h != case.hk
        )
    turned = [x.detach().transpose(1, 2) for x in (q, k, v)]
    out, lse = attention(*turned, causal=case.causal, return_lse=True)
    given = grad.transpose(1, 2)
    calls = {"cudnn": lambda: torch.autograd.grad(peer, (q, k, v), grad, retain_graph=True)}
    want = calls["cudnn"]()
    for name in BACKWARD_FORMS[case.d]:
        if str(("backward", "", case.d, case.causal, name)) not in good:
            continue

        def one(name: str = name):
            gradients(case.d, name)
            return attention_backward(given, *turned, out, lse, causal=case.causal)

        apart = [((a.transpose(1, 2) - b).norm() / b.norm()).item() for a, b in zip(one(), want, strict=True)]
        if not max(apart) < 2e-2:
            print(f"WRONG gradients {case} {name}: {apart}", flush=True)
            continue
        if "ordered" in name:
            same = all(torch.equal(a, b) for a, b in zip(one(), one(), strict=True))
            print(f"   {name}: {'the same bits twice' if same else 'NOT THE SAME BITS'}", flush=True)
        calls[name] = one
    times = queued(calls, rounds)
    line(file, "backward", str(case), {w: 2.5 * case.flops / t / 1e6 for w, t in times.items()}, "TFLOP/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="fp8,mla,backward,half")
    parser.add_argument("--causal", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--out", default=".")
    parser.add_argument("--logs", default=os.path.join(tempfile.gettempdir(), "attention-forms"))
    parser.add_argument("--check", default="")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=90.0)
    parser.add_argument("--check-budget", type=float, default=70.0)
    options = parser.parse_args()
    chosen = set(options.only.split(","))
    if options.check:
        share, of = map(int, options.check.split("/"))
        for job in jobs(chosen, options.causal)[share::of]:
            word = check(job[0], *job[2:])
            with Path(options.logs, f"forms-{share}.txt").open("a") as file:
                file.write(f"{job}|{word}\n")
        return
    begin = time.time()
    good = check_all(chosen, options.causal, options.workers, Path(options.logs), options.check_budget)
    print(f"checked in {time.time() - begin:.0f} s, {len(good)} variants are right", flush=True)
    end = time.time() + options.budget
    todo: list[Callable[[object], None]] = []
    for causal in {"no": (False,), "yes": (True,), "both": (False, True)}[options.causal]:
        for kind, shapes in (("half", HALF_SHAPES), ("fp8", FP8_SHAPES)):
            if kind in chosen:
                todo += [
                    lambda f, k=kind, s=s, c=causal: run_tiles(k, Case(*s, c), good, options.rounds, f) for s in shapes
                ]
        if "backward" in chosen:
            todo += [
                lambda f, s=s, c=causal: run_backward(Case(*s, c), good, options.rounds, f) for s in BACKWARD_SHAPES
            ]
        if "mla" in chosen and not causal:
            todo += [lambda f, s=s: run_mla(s, good, options.rounds, f) for s in MLA_SHAPES]
    with Path(options.out, "attention-forms.jsonl").open("w") as file:
        for one in todo:
            if time.time() > end:
                print("out of time", flush=True)
                break
            try:
                one(file)
            except torch.OutOfMemoryError:
                print("out of memory", flush=True)
            file.flush()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
