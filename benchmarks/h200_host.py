"""What the host takes for a call, on an NVIDIA GPU: plain calls of small problems, one behind the other, beside torch.

    python benchmarks/h200_host.py [--out FOLDER] [--only matmul,rows,...]

Every result is compared with the peer's first. Problems are so small that the device waits for the host; a figure is
the least of several rounds of 300 calls, microseconds a call, contenders in turns. One JSON object per call goes to
FOLDER/host.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cuda")
import torch
import torch.nn.functional as F

import flydsl.torch as ft
from flydsl.kernels import attention, grouped_matmul, matmul, quantize_weight

CALLS, ROUNDS = 300, 7


def bf16(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def products():
    a, b, c = bf16(64, 256), bf16(128, 256).T, bf16(64, 128)
    one, bias = bf16(1, 256), bf16(128)
    yield "matmul, out", lambda: matmul(a, b, out=c), lambda: torch.mm(a, b, out=c)
    yield "matmul", lambda: matmul(a, b), lambda: torch.mm(a, b)
    yield "matmul, 1 row", lambda: matmul(one, b), lambda: torch.mm(one, b)
    yield "matmul, bias", lambda: matmul(a, b, bias=bias), lambda: torch.addmm(bias, a, b)
    batch_a, batch_b = bf16(4, 64, 256), bf16(4, 256, 128)
    yield "matmul, batch", lambda: matmul(batch_a, batch_b), lambda: torch.bmm(batch_a, batch_b)
    x, y = a.to(torch.float8_e4m3fn), b.T.contiguous().to(torch.float8_e4m3fn).T
    scale = torch.ones(1, device="cuda")
    single = scale.reshape(())
    yield (
        "matmul, fp8",
        lambda: matmul(x, y, scale_a=scale, scale_b=scale),
        lambda: torch._scaled_mm(x, y, scale_a=single, scale_b=single, out_dtype=torch.bfloat16),
    )
    packed = quantize_weight(b)
    yield "matmul, 4 bits", lambda: matmul(one, packed), None
    weights, ends = bf16(4, 256, 128), torch.tensor([16, 32, 48, 64], device="cuda", dtype=torch.int32)
    yield "grouped", lambda: grouped_matmul(a, weights, ends), lambda: torch._grouped_mm(a, weights, ends)


def attentions():
    q, k, v = (bf16(1, 128, 4, 64) for _ in range(3))
    heads = [x.transpose(1, 2) for x in (q, k, v)]
    yield "attention", lambda: attention(q, k, v), lambda: F.scaled_dot_product_attention(*heads).transpose(1, 2)
    one, keys, values = bf16(1, 1, 8, 64), bf16(1, 2048, 2, 64), bf16(1, 2048, 2, 64)
    few = [x.transpose(1, 2) for x in (one, keys, values)]
    yield (
        "decoding",
        lambda: attention(one, keys, values),
        lambda: F.scaled_dot_product_attention(*few, enable_gqa=True).transpose(1, 2),
    )
    table = torch.arange(32, device="cuda", dtype=torch.int32)[None]
    length = torch.tensor([2048], device="cuda", dtype=torch.int32)
    pages = [x.reshape(32, 64, 2, 64) for x in (keys, values)]
    yield (
        "decoding, pages",
        lambda: attention(one, *pages, block_table=table, seqlens_k=length),
        lambda: F.scaled_dot_product_attention(*few, enable_gqa=True).transpose(1, 2),
    )


def rows():
    x, w, b = bf16(64, 256), bf16(256), bf16(256)
    yield "softmax", lambda: ft.softmax(x), lambda: torch.softmax(x, -1)
    yield "rms_norm", lambda: ft.rms_norm(x, w), lambda: F.rms_norm(x, (256,), w)
    yield "layer_norm", lambda: ft.layer_norm(x, w, b), lambda: F.layer_norm(x, (256,), w, b)


def gradients():
    grad = bf16(64, 256)
    for name, ours, peer, count in (
        ("softmax", lambda x: ft.softmax(x), lambda x: torch.softmax(x, -1), 0),
        ("rms_norm", ft.rms_norm, lambda x, w: F.rms_norm(x, (256,), w), 1),
        ("layer_norm", ft.layer_norm, lambda x, w, b: F.layer_norm(x, (256,), w, b), 2),
    ):
        leaves = [bf16(64, 256).requires_grad_(), *(bf16(256).requires_grad_() for _ in range(count))]

        def step(function, leaves=leaves):
            return torch.autograd.grad(function(*leaves), leaves, grad)

        yield (
            f"{name}, there and back",
            lambda step=step, ours=ours: step(ours),
            lambda step=step, peer=peer: step(peer),
        )


FAMILIES = {"matmul": products, "attention": attentions, "rows": rows, "gradients": gradients}


def close(found, wanted) -> bool:
    many = isinstance(found, tuple | list)
    pairs = zip(found, wanted, strict=True) if many else ((found, wanted),)
    return all((x.float() - y.float()).norm() <= 2e-2 * y.float().norm() for x, y in pairs)


def timed(calls: dict) -> dict[str, float]:
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for who, call in calls.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(CALLS):
                call()
            spent = (time.perf_counter() - begin) / CALLS
            torch.cuda.synchronize()
            least[who] = min(least[who], spent * 1e6)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(FAMILIES))
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    options = parser.parse_args()
    lines = []
    for family in options.only.split(","):
        for name, ours, peer in FAMILIES[family]():
            calls = {"flydsl": ours} if peer is None else {"flydsl": ours, "torch": peer}
            if peer is not None and not close(ours(), peer()):
                print(f"{name}: WRONG", flush=True)
                continue
            for call in calls.values():
                for _ in range(20):
                    call()
            found = timed(calls)
            lines.append({"call": name, "us": found})
            Path(options.out, "host.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
            print(f"{name:28} " + ", ".join(f"{who} {us:.1f} us" for who, us in found.items()), flush=True)


if __name__ == "__main__":
    main()
