"""What the first call costs a fresh process beyond torch: from nothing, and with the kernel on disk.

    python benchmarks/first_call.py                 the active stack
    python benchmarks/first_call.py --imports       the modules that take longest, by `python -X importtime`

Each figure is the best of some processes, each of which imports torch, makes tensors, calls softmax once, and prints a
sum; torch alone does all but the softmax. Triton is measured with a kernel for the same, where it is installed and
there is a GPU.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETUP = """
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.randn(1024, 4096, device=device).bfloat16()
if device == "cuda":
    torch.cuda.synchronize()
"""
ALONE = (
    SETUP
    + """
y = torch.empty_like(x)
print(float(y[0].float().sum()))
"""
)
CALL = (
    SETUP
    + """
from flydsl.kernels import softmax
y = softmax(x)
print(float(y[0].float().sum()))
"""
)
TRITON = """
import triton
import triton.language as tl

@triton.jit
def softmax(x, out, n, block: tl.constexpr):
    at = tl.arange(0, block)
    v = tl.load(x + tl.program_id(0) * n + at, at < n, -float("inf")).to(tl.float32)
    v = tl.exp2((v - tl.max(v, 0)) * 1.4426950408889634)
    tl.store(out + tl.program_id(0) * n + at, (v / tl.sum(v, 0)).to(out.dtype.element_ty), at < n)
"""
TRITON_CALL = (
    SETUP
    + """
import importlib.util
spec = importlib.util.spec_from_file_location("kernel", KERNEL)
kernel = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kernel)
y = torch.empty_like(x)
kernel.softmax[(1024,)](x, y, 4096, block=4096)
print(float(y[0].float().sum()))
"""
)


def once(code: str, env: dict[str, str]) -> float:
    # Installed packages have their bytecode: a tree is measured as if it were one, from its second process on.
    env = {name: value for name, value in {**os.environ, **env}.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=env, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def both(code: str, variable: str, rounds: int) -> tuple[float, float]:
    """Best times from nothing, and from the disk."""
    cold: list[float] = []
    warm: list[float] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(once(code, {variable: folder}))
            warm.append(once(code, {variable: folder}))
    return min(cold), min(warm)


def imports(count: int = 25) -> None:
    """The modules that take longest, in a process that finds its kernel on disk."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": folder}
        once(CALL, env)
        made = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", CALL], check=True, env=env, capture_output=True, text=True
        )
    found = [
        (int(own), int(total), name.strip())
        for own, total, name in re.findall(r"import time:\s+(\d+) \|\s+(\d+) \|(.*)", made.stderr)
    ]
    after = next(i for i, row in enumerate(found) if row[2] == "torch") + 1
    later = found[after:]
    print(f"after torch: {len(later)} modules, {sum(own for own, _, _ in later) / 1000:.0f} ms of their own")
    for own, total, name in sorted(later, reverse=True)[:count]:
        print(f"{own / 1000:8.1f} ms, {total / 1000:8.1f} with all below  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--imports", action="store_true")
    args = parser.parse_args()
    if args.imports:
        imports()
        return
    alone = min(once(ALONE, {}) for _ in range(args.rounds))
    print(f"torch alone: {alone:.2f} s")
    cold, warm = both(CALL, "FLYDSL_RUNTIME_CACHE_DIR", args.rounds)
    print(f"flydsl adds {cold - alone:.2f} s from nothing, {warm - alone:.2f} s from the disk")
    try:
        import torch
        import triton  # noqa: F401
    except ImportError:
        return
    if torch.cuda.is_available():
        with tempfile.TemporaryDirectory() as folder:
            kernel = Path(folder) / "kernel.py"
            kernel.write_text(TRITON, encoding="utf-8")
            code = TRITON_CALL.replace("KERNEL", repr(str(kernel)))
            cold, warm = both(code, "TRITON_CACHE_DIR", args.rounds)
        print(f"triton adds {cold - alone:.2f} s from nothing, {warm - alone:.2f} s from the disk")


if __name__ == "__main__":
    main()
