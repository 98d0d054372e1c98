"""Main loop and registers of the pipelined matrix product (`kernels/gemm_preshuffle_kernel.py`), by instruction class.

    python benchmarks/main_loop.py                 # ours, for gfx942 and gfx950
    python benchmarks/main_loop.py --peer          # for gfx942, beside what FlyDSL makes of the same source

The loop works on two tiles of 128 x 128 x 64 f16 elements. Needs no GPU. `--peer` sets FlyDSL up as `compile_time.py`
does.
"""

import argparse
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from compile_time import ROOT, BenchmarkError, Subject, case, peer, run, table

CLASSES = {
    "mfma": "v_mfma",
    "ds_read": "ds_read",
    "ds_write": "ds_write",
    "buffer_load": "buffer_load",
    "waitcnt": "s_waitcnt",
    "barrier": "s_barrier",
    "other memory": r"(?:global|flat|scratch|buffer|ds|s_load|s_buffer)_?",
    "valu": "v_",
    "salu": "s_",
}
"""Row of the table -> what its mnemonics begin with; the first that fits counts."""
FIELDS = {
    "VGPRs": "vgpr_count", "AGPRs": "agpr_count", "SGPRs": "sgpr_count", "VGPR spills": "vgpr_spill_count",
    "SGPR spills": "sgpr_spill_count", "LDS bytes": "group_segment_fixed_size", "scratch": "private_segment_fixed_size",
}  # fmt: skip


def main_loop(asm: str) -> list[str]:
    """Mnemonics of the loop with the most matrix instructions."""
    parts = re.split(r"^(\.LBB\w+):", asm, flags=re.M)
    loops: list[list[str]] = []
    for label, body in zip(parts[1::2], parts[2::2], strict=True):
        head, branch, _ = re.sub(r";.*", "", body).partition(f"s_cbranch_scc1 {label}")
        if branch:
            loops.append([*re.findall(r"^\s+([a-z]\w+)", head, flags=re.M), "s_cbranch_scc1"])
    if not loops:
        raise BenchmarkError("the assembly has no loop")
    return max(loops, key=lambda names: sum("mfma" in name for name in names))


def column(asm: str) -> dict[str, str]:
    """One column of the table."""
    counts = Counter(next(k for k, p in CLASSES.items() if re.match(p, name)) for name in main_loop(asm))
    found = {name: str(counts[name]) for name in CLASSES}
    for name, field in FIELDS.items():
        match = re.search(rf"\.{field}:\s+(\d+)", asm)
        found[name] = match[1] if match else "0"
    return found


def ours(arch: str) -> str:
    import flydsl.compiler as flyc

    if arch == "gfx942":
        function, arguments = case("preshuffle_gemm", "peer")
        return flyc.compile(function, *arguments, target=f"rocm:{arch}").artifact.asm
    from flydsl.kernels.gemm_preshuffle import gemm_preshuffle

    _, arguments = case("preshuffle_gemm", "peer")
    return flyc.compile(gemm_preshuffle, *arguments, target=f"rocm:{arch}").artifact.asm


def theirs(subject: Subject) -> str:
    """What FlyDSL dumps as its last stage."""
    with tempfile.TemporaryDirectory(prefix="flydsl-bench-") as folder:
        dumps = Path(folder) / "dumps"
        environment = {
            **subject.environment,
            "FLYDSL_RUNTIME_CACHE_DIR": folder,
            "FLYDSL_DUMP_IR": "1",
            "FLYDSL_DUMP_DIR": str(dumps),
        }
        run([subject.python, *subject.command("preshuffle_gemm")], environment)
        files = [path for path in dumps.rglob("*.s") if "gemm_preshuffle" in path.parent.name]
        if not files:
            raise BenchmarkError(f"{subject.name} wrote no assembly")
        return max(files, key=os.path.getmtime).read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Counts instructions in the main loop of the pipelined matrix product."
    )
    parser.add_argument("--peer", action="store_true", help="also what FlyDSL makes of the same source")
    parser.add_argument("--peer-python", type=Path, help="interpreter of a ready environment with FlyDSL")
    arguments: Any = parser.parse_args()
    arguments.warm_up = "warm_up"
    sys.path.insert(0, str(ROOT / "src"))
    columns = {"gfx942": column(ours("gfx942")), "gfx950": column(ours("gfx950"))}
    if arguments.peer:
        subject = peer(arguments)
        columns[f"gfx942, {subject.name}"] = column(theirs(subject))
    rows = [[name, *(found[name] for found in columns.values())] for name in (*CLASSES, *FIELDS)]
    print(table(["", *columns], rows))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchmarkError as error:
        sys.exit(f"error: {error}")
