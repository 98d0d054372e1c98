"""Traces of the library's pipelines on Hopper: the matrix product and attention, with what each warp does when.

    python benchmarks/trace_gemm.py --stack cuda -o docs      # on an H200
    python benchmarks/trace_gemm.py --stack cpu -o docs       # the cpu stack, playing one

Each writes `trace-gemm-STACK` and `trace-attention-STACK` as a picture (.svg) and for Perfetto (.perfetto-trace), and
prints how long the ranges take. Results are compared with torch's, so that a trace is of a kernel that works.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

SIZES = {"cuda": ((4096, 4096, 4096), (4, 2048, 16, 128)), "cpu": ((256, 512, 512), (1, 256, 1, 64))}
"""Rows, columns and terms of the product; batch, sequence, heads and width of the attention."""
EVENTS = {"cuda": 4096, "cpu": 256}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", choices=sorted(SIZES), required=True)
    parser.add_argument("-o", "--output", default=".", help="folder for the files")
    parser.add_argument("--blocks", type=int, default=2, help="blocks of each grid to record")
    options = parser.parse_args()
    os.environ["FLYDSL_COMPILE_BACKEND"] = options.stack
    if options.stack == "cpu":
        os.environ["FLYDSL_COMPILE_ARCH"] = "sm_90a"
    import torch

    import flydsl.expr as fx
    from flydsl.kernels import matmul
    from flydsl.kernels.attention import attention

    device = "cuda" if options.stack == "cuda" else "cpu"
    (m, n, k), (batch, length, heads, width) = SIZES[options.stack]
    torch.manual_seed(0)
    a, b = (torch.randn(shape, device=device).bfloat16() for shape in ((m, k), (k, n)))
    q, keys, values = (torch.randn(batch, length, heads, width, device=device).bfloat16() for _ in range(3))

    def close(got: torch.Tensor, want: torch.Tensor, scale: float) -> None:
        worst = (got.float() - want.float()).abs().max().item()
        assert worst <= 0.02 * scale, f"off by {worst}"

    def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)

    runs = {"gemm": lambda: matmul(a, b), "attention": lambda: attention(q, keys, values)}
    wanted = {
        "gemm": lambda: (a.float() @ b.float(), k**0.5 * 4),
        "attention": lambda: (attended(*(x.float().transpose(1, 2) for x in (q, keys, values))), 4.0),
    }
    for name, run in runs.items():
        with fx.ktrace.capture(events=EVENTS[options.stack], blocks=options.blocks) as capture:
            run()  # the first call of a process also loads the code
            capture.clear()
            result = run()
        got = result[0] if isinstance(result, tuple) else result
        close(got, *wanted[name]())
        trace = capture.read()
        print(f"--- {name} on {options.stack}\n{trace}")
        for suffix in ("svg", "perfetto-trace"):
            print(trace.write(Path(options.output) / f"trace-{name}-{options.stack}.{suffix}"))


if __name__ == "__main__":
    main()
