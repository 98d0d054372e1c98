"""What the first call costs a fresh process beyond torch: from nothing, and with the kernel on disk.

    python benchmarks/first_call.py                 the active stack
    python benchmarks/first_call.py --imports       the modules that take longest, by `python -X importtime`

Each process imports torch, makes tensors, calls softmax once, and sums what it got; torch alone does all but the
softmax. Triton is measured with a kernel for the same, where it is installed and there is a GPU. The contenders take
turns. What a call adds is timed inside its process, from the tensors to the sum, less what torch alone takes for that:
`import torch` differs by more from process to process than is to be seen. Medians, with the worst beside them; the
processes as a whole, in the last column, are there to show that nothing is put off to their end.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SETUP = """
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.randn(1024, 4096, device=device).bfloat16()
if device == "cuda":
    torch.cuda.synchronize()
import time
start = time.perf_counter()
"""
END = """
y[0].float().sum().item()
print(time.perf_counter() - start)
"""
ALONE = (
    SETUP
    + """
y = torch.empty_like(x)
"""
    + END
)
CALL = (
    SETUP
    + """
from flydsl.kernels import softmax
y = softmax(x)
"""
    + END
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
"""
    + END
)


class Spent(NamedTuple):
    """Seconds of one process."""

    inside: float
    """From the tensors to the sum."""
    whole: float


def once(code: str, env: Mapping[str, str]) -> Spent:
    # Installed packages have their bytecode: a tree is measured as if it were one, from its second process on.
    env = {name: value for name, value in {**os.environ, **env}.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    made = subprocess.run([sys.executable, "-c", code], check=True, env=env, stdout=subprocess.PIPE, text=True)
    return Spent(float(made.stdout.split()[-1]), time.perf_counter() - start)


def turns(contenders: Mapping[str, tuple[str, str]], rounds: int) -> dict[str, list[Spent]]:
    """`contenders` are programs and the variable that names their cache; from nothing, then from the disk."""
    found: dict[str, list[Spent]] = {}
    for _ in range(rounds):
        found.setdefault("torch alone", []).append(once(ALONE, {}))
        for who, (code, variable) in contenders.items():
            with tempfile.TemporaryDirectory() as folder:
                for how in ("from nothing", "from the disk"):
                    found.setdefault(f"{who} {how}", []).append(once(code, {variable: folder}))
    return found


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
    once(CALL, {})  # bytecode, and the files of all in the system's cache
    with tempfile.TemporaryDirectory() as folder:
        contenders = {"flydsl": (CALL, "FLYDSL_RUNTIME_CACHE_DIR")}
        if has_triton():
            kernel = Path(folder) / "kernel.py"
            kernel.write_text(TRITON, encoding="utf-8")
            contenders["triton"] = TRITON_CALL.replace("KERNEL", repr(str(kernel))), "TRITON_CACHE_DIR"
        found = turns(contenders, args.rounds)
    base = statistics.median(spent.inside for spent in found["torch alone"])
    for who, spent in found.items():
        added = [s.inside - base for s in spent]
        whole = statistics.median(s.whole for s in spent)
        print(f"{who:24} adds {statistics.median(added):6.3f} s, worst {max(added):6.3f}; process {whole:5.2f} s")


def has_triton() -> bool:
    """Whether Triton is installed and there is a GPU for it."""
    try:
        import torch
        import triton  # noqa: F401
    except ImportError:
        return False
    return torch.cuda.is_available()


if __name__ == "__main__":
    main()
