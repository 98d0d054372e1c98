"""What our share of compiling a matrix product is: everything between the trace and LLVM IR text, against LLVM's time.

python benchmarks/gemm_time.py [--repeat N]

Best of N, each step on its own; a repetition compiles anew, nothing is read from a cache.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["FLYDSL_RUNTIME_ENABLE_CACHE"] = "0"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np

STEPS = ("trace", "passes", "text", "LLVM")


def _arrays(m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    return np.zeros((m, k), np.float16), np.zeros((n, k), np.float16), np.zeros((m, n), np.float32)


def cdna(tile: tuple[int, int, int]) -> Callable[[], Any]:
    """The double-buffered product with a tile of this size."""

    def compile_it() -> Any:
        import flydsl.compiler as flyc

        module = importlib.reload(importlib.import_module("flydsl.kernels.gemm_cdna"))
        vars(module).update(zip(("BM", "BN", "BK"), tile, strict=True))
        return flyc.compile(module.gemm_cdna, *_arrays(256, 256, 64), target="rocm:gfx942").artifact

    return compile_it


def preshuffled(block_m: int, block_n: int) -> Callable[[], Any]:
    """The pipelined product with weights laid out beforehand."""

    def compile_it() -> Any:
        import flydsl.compiler as flyc

        importlib.reload(importlib.import_module("flydsl.kernels.matmul.amd.kernel"))
        module = importlib.reload(importlib.import_module("flydsl.kernels.gemm_preshuffle"))
        a, w, c = _arrays(256, 256, 512)
        function, weights = module.gemm_preshuffle, module.preshuffle_weights(w)
        return flyc.compile(function, a, weights, c.astype(np.float16), block_m, block_n, target="rocm:gfx942").artifact

    return compile_it


KERNELS = {
    "`gemm_cdna`, 128x128x32": cdna((128, 128, 32)),
    "`gemm_cdna`, 256x256x32": cdna((256, 256, 32)),
    "`gemm_preshuffle`, 128x128": preshuffled(128, 128),
    "`gemm_preshuffle`, 256x256": preshuffled(256, 256),
}


def measure(compile_it: Callable[[], Any], repeat: int) -> tuple[int, dict[str, float]]:
    """Lines of LLVM IR, and the best time of each step in milliseconds."""
    best: dict[str, float] = {}
    lines = 0
    for _ in range(repeat):
        artifact = compile_it()
        times = artifact.metadata["times"]
        spent = (times["trace"], sum(times["passes"].values()), times["translate"], sum(times["llvm"].values()))
        for name, seconds in zip(STEPS, spent, strict=True):
            best[name] = min(best.get(name, seconds * 1e3), seconds * 1e3)
        lines = len(artifact.llvm_ir.splitlines())
    return lines, best


def table(repeat: int) -> str:
    """The figures as a Markdown table."""
    rows = ["| gfx942 | lines of LLVM IR | trace | passes | LLVM IR text | LLVM | (passes + text) / LLVM |"]
    rows.append("|---|" + "---|" * 6)
    for name, compile_it in KERNELS.items():
        lines, best = measure(compile_it, repeat)
        ratio = (best["passes"] + best["text"]) / best["LLVM"]
        cells = " | ".join(f"{best[step]:.0f}" for step in STEPS)
        rows.append(f"| {name} | {lines:,} | {cells} | {ratio:.2f} |")
    return "\n".join(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    print(table(parser.parse_args().repeat))
    print("\nmilliseconds; the last column is to be at most a third.")


if __name__ == "__main__":
    main()
