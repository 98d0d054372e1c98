"""Attention forward in seven steps, each faster than the one before: what chapter 10 of the tutorial builds.

python examples/attention_steps                        # checks every step; without a GPU on the cpu stack as an H100
python examples/attention_steps --arch gfx942          # the steps that every GPU can do, as an MI300
python examples/attention_steps --bench --out FOLDER   # on an NVIDIA GPU: times, into FOLDER/attention-steps.jsonl
"""

import argparse
import json
import math
import os
import statistics
from pathlib import Path

STEPS = ("naive", "tiled", "matrix", "exp2", "registers", "pipelined", "specialized")
PORTABLE = STEPS[:4]


def call(step: str, q, k, v, out, scores, length: int, d: int) -> None:
    """One step on matrices (heads * length, d)."""
    import flydsl.compiler as flyc

    scale = d**-0.5
    if step == "naive":
        from naive import naive

        naive(q, k, v, out, scores, length, scale, d)
    elif step in ("tiled", "matrix", "exp2"):
        from tiled import tiled

        tiled(q, k, v, out, length, scale, d, step != "tiled", step == "exp2")
    else:
        wide = [flyc.from_dlpack(x, assumed_align=16).mark_layout_dynamic(divisibility=8) for x in (q, k, v, out)]
        if step == "specialized":
            from specialized import specialized

            specialized(*wide, length, scale, d)
        else:
            from pipelined import pipelined

            pipelined(*wide, length, scale, d, 1 + (step == "pipelined"))


def check(steps, heads: int, length: int, d: int) -> None:
    """Every element of every step against float64."""
    import numpy as np

    q, k, v = np.random.default_rng().standard_normal((3, heads * length, d)).astype(np.float16)
    heads64 = [x.astype(np.float64).reshape(heads, length, d) for x in (q, k, v)]
    weights = np.exp(heads64[0] @ heads64[1].transpose(0, 2, 1) * d**-0.5)
    expected = (weights / weights.sum(-1, keepdims=True) @ heads64[2]).reshape(-1, d)
    for step in steps:
        out = np.full_like(q, np.nan)
        scores = np.full((heads * length, length), np.nan, np.float32)
        call(step, q, k, v, out, scores, length, d)
        np.testing.assert_allclose(out, expected, rtol=2e-3, atol=2e-3, err_msg=step)
        print(f"{step}: right")


def bench(steps, heads: int, length: int, d: int, rounds: int, out_folder: Path) -> None:
    """Medians of CUDA events around graph replays; steps and torch's own take turns. A result counts if it is right."""
    import torch

    from flydsl.kernels import attention

    shape = (heads * length, d)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    scores = torch.empty(heads * length, length, device="cuda")
    rows = slice(length - 100, length)
    expected = torch.softmax(q[rows].double() @ k[:length].double().T * d**-0.5, -1) @ v[:length].double()
    by_heads = [x.view(1, heads, length, d) for x in (q, k, v)]
    calls, outs = {}, {}
    for step in steps:
        outs[step] = torch.full_like(q, math.nan)
        calls[step] = lambda step=step: call(step, q, k, v, outs[step], scores, length, d)
    outs["library"] = torch.full_like(q, math.nan)
    heads_out = outs["library"].view(1, heads, length, d).transpose(1, 2)
    calls["library"] = lambda: attention(*(x.transpose(1, 2) for x in by_heads), out=heads_out)
    calls["torch"] = lambda: torch.nn.functional.scaled_dot_product_attention(*by_heads)
    replays, times = {}, {who: [] for who in calls}
    for who, one in calls.items():
        one()
        torch.cuda.synchronize()
        if who in outs:
            error = ((outs[who][rows].double() - expected).norm() / expected.norm()).item()
            if not (error < 6e-3 and bool(torch.isfinite(outs[who]).all())):
                print(f"{who}: WRONG, relative error {error:.1e}, not timed", flush=True)
                continue
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            one()
        replays[who] = graph
    for _ in range(rounds):
        for who, graph in replays.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[who].append(start.elapsed_time(end))
    out_folder.mkdir(parents=True, exist_ok=True)
    flops = 4 * heads * length**2 * d
    with (out_folder / "attention-steps.jsonl").open("w") as file:
        for who in replays:
            ms = statistics.median(times[who])
            case = {"heads": heads, "length": length, "d": d, "dtype": "bf16"}
            line = {"case": case, "who": who, "us": ms * 1e3, "tflops": flops / ms / 1e9}
            line["device"] = torch.cuda.get_device_name()
            file.write(json.dumps(line) + "\n")
            print(f"{who:12} {ms:10.3f} ms {line['tflops']:8.1f} TFLOP/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", nargs="*", choices=STEPS)
    parser.add_argument("--arch", default="sm_90a", help="what the cpu stack is to be")
    parser.add_argument("--heads", type=int)
    parser.add_argument("--length", type=int)
    parser.add_argument("--d", type=int, choices=(64, 128))
    parser.add_argument("--bench", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("."))
    given = parser.parse_args()
    if given.bench:
        bench(
            given.steps or STEPS, given.heads or 32, given.length or 4096, given.d or 128, given.rounds, given.out
        )  # fmt: skip
        return
    # The check is on numpy arrays: the cpu stack, as the GPU that was named.
    os.environ["FLYDSL_COMPILE_BACKEND"] = "cpu"
    os.environ["FLYDSL_COMPILE_ARCH"] = given.arch
    steps = given.steps or (STEPS if given.arch.startswith("sm_90") else PORTABLE)
    check(steps, given.heads or 2, given.length or 128, given.d or 64)


if __name__ == "__main__":
    main()
