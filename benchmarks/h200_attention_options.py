"""What dropout costs, forward and backward, and what latent keys of fp8 gain, beside the same without.

    python benchmarks/h200_attention_options.py [--only dropout,latent] [--out FOLDER]

Dropout keeps nine of ten weights: that is checked by what it leaves of ones. Latent keys are compared with the same
numbers in bf16 before they are timed. One JSON object per measurement goes to FOLDER/attention-options.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cuda")
import torch
from h200_attention import timed

from flydsl.kernels import attention, mla_decode
from flydsl.kernels.attention import attention_backward

DROPOUT = [(4, 32, 32, 4096, 128), (4, 32, 32, 4096, 64), (2, 32, 8, 8192, 128)]
LATENT = [(132, 16, 4096), (64, 64, 8192), (132, 128, 4096), (1, 16, 131072)]
"""Sequences, heads, keys."""
RATE, SEED = 0.1, 7


def dropout(shape: tuple[int, int, int, int, int], causal: bool, out) -> None:
    b, h, h_kv, s, d = shape
    q, g = (torch.randn(b, s, h, d, device="cuda").bfloat16() for _ in range(2))
    k, v = (torch.randn(b, s, h_kv, d, device="cuda").bfloat16() for _ in range(2))
    options = {"without": {}, "with": {"dropout": RATE, "seed": SEED}}
    calls = {}
    for name, more in options.items():
        kept = attention(q, k, torch.ones_like(v), causal=causal, **more).float()
        assert abs(kept.mean().item() - 1) < 2e-3, (shape, name)
        done = attention(q, k, v, causal=causal, return_lse=True, **more)
        calls[f"forward {name}"] = lambda more=more: attention(q, k, v, causal=causal, **more)
        calls[f"backward {name}"] = lambda done=done, more=more: attention_backward(
            g, q, k, v, *done, causal=causal, **more
        )
    flops = 4 * b * h * s * s * d * (0.5 if causal else 1)
    for name, us in timed(calls, 3).items():
        speed = flops * (2.5 if name.startswith("backward") else 1) / us / 1e6
        row = {"what": f"dropout {shape} {'causal' if causal else 'full'}", "who": name, "value": speed}
        out.write(json.dumps({**row, "unit": "TFLOP/s"}) + "\n")
        print(f"{row['what']:44} {name:18} {speed:6.0f} TFLOP/s", flush=True)


def latent(shape: tuple[int, int, int], out) -> None:
    b, h, s = shape
    q, kv = torch.randn(b, 1, h, 576, device="cuda").bfloat16(), torch.randn(b, s, 576, device="cuda").bfloat16()
    narrow, scale = kv.to(torch.float8_e4m3fn), torch.ones(1, device="cuda")
    want, got = mla_decode(q, narrow.bfloat16()).float(), mla_decode(q, narrow, descale=scale).float()
    assert ((got - want).norm() / want.norm()).item() < 1e-2, shape
    calls = {"bf16": lambda: mla_decode(q, kv), "e4m3": lambda: mla_decode(q, narrow, descale=scale)}
    for name, us in timed(calls, 5).items():
        row = {"what": f"latent {shape}", "who": name, "value": us, "unit": "us"}
        out.write(json.dumps(row) + "\n")
        print(f"{row['what']:44} {name:18} {us:7.1f} us", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="latent,dropout")
    parser.add_argument("--out", default=".")
    options = parser.parse_args()
    torch.manual_seed(0)
    with (Path(options.out) / "attention-options.jsonl").open("w") as out:
        if "latent" in options.only:
            for case in LATENT:
                latent(case, out)
        if "dropout" in options.only:
            for shape in DROPOUT:
                for causal in (False, True):
                    dropout(shape, causal, out)


if __name__ == "__main__":
    main()
