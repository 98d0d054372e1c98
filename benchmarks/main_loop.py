"""Main loops and registers of the kernels for AMD GPUs (`kernels/{matmul,attention}/amd`), by instruction class.

    python benchmarks/main_loop.py                 # ours, for all architectures
    python benchmarks/main_loop.py --peer          # beside what FlyDSL makes of the same source
    python benchmarks/main_loop.py --tiles         # every tile that `matmul` may take
    python benchmarks/main_loop.py --attention     # the tiles of `attention`

A row is a kernel of 128 x 128 results where it says nothing else; counts are of the loop, which works on some tiles of
K, or on a step of keys that needs no mask and grows no maximum by much. v/m and s/m are vector and scalar instructions
for each matrix instruction. Needs no GPU, but torch. `--peer` sets FlyDSL up as `compile_time.py` does.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from compile_time import PEER_SOURCE, ROOT, BenchmarkError, Subject, peer, run, table

MATRIX = r"v_\w*(?:mfma|wmma)"
CLASSES = {
    "matrix": MATRIX,
    "wait": "s_wait|s_delay_alu|s_nop|s_clause",
    "barrier": "s_barrier",
    "to shared": r"buffer_load\w* lds|tensor_load_to_lds",
    "load": r"(?:buffer|global)_load",
    "read": r"ds_(?:read|load)",
    "write": r"ds_(?:write|store)",
    "other memory": r"(?:global|flat|scratch|buffer|ds|s_load|s_buffer)_?",
    "vector": "v_",
    "scalar": "s_",
}
"""Column of the table -> what its mnemonics begin with; the first that fits counts."""


class Loop(NamedTuple):
    """A main loop: how often each class comes, what loads it waits for, and what its kernel needs."""

    counts: dict[str, int]
    waits: list[int]
    """Loads that may be under way behind each wait for loads."""
    registers: int
    spills: int
    shared: int

    def per_product(self, name: str) -> float:
        return self.counts[name] / self.counts["matrix"]


class Block(NamedTuple):
    """Lines up to a branch or in front of a label, and the blocks that may come next."""

    lines: list[str]
    after: list[int]


def blocks_of(asm: str) -> list[Block]:
    labels: dict[str, int] = {}
    parts: list[list[str]] = [[]]
    for line in re.sub(r"[ \t]*;.*", "", asm).splitlines():
        label = re.match(r"(\.LBB\w+):", line)
        if parts[-1] and (label or re.match(r"s_c?branch|s_endpgm", parts[-1][-1])):
            parts.append([])
        if label:
            labels[label[1]] = len(parts) - 1
        elif re.match(r"\s+[a-z]", line):
            parts[-1].append(line.strip())
    found: list[Block] = []
    for i, lines in enumerate(parts):
        last = lines[-1] if lines else ""
        branch = re.match(r"s_c?branch\w* (\.LBB\w+)", last)
        after = [labels[branch[1]]] if branch and branch[1] in labels else []
        if not re.match("s_branch|s_endpgm", last) and i + 1 < len(parts):
            after.append(i + 1)
        found.append(Block(lines, after))
    return found


def main_loop(asm: str) -> list[str]:
    """Lines of the shortest way through the loop with the most matrix instructions, with all of these."""
    blocks = blocks_of(asm)
    best: tuple[int, int, list[str]] | None = None
    for head in range(len(blocks)):
        end = max((i for i, block in enumerate(blocks) if i >= head and head in block.after), default=-1)
        ways = [[head]] if end >= 0 else []
        while ways:
            way = ways.pop()
            for after in blocks[way[-1]].after:
                if after == head:
                    lines = [line for i in way for line in blocks[i].lines]
                    count = sum(re.match(MATRIX, line) is not None for line in lines)
                    if best is None or (-count, len(lines)) < best[:2]:
                        best = -count, len(lines), lines
                elif head < after <= end and after not in way:
                    ways.append([*way, after])
    if best is None:
        raise BenchmarkError("the assembly has no loop")
    return best[2]


def class_of(line: str) -> str:
    name, _, operands = line.partition(" ")
    whole = f"{name.split()[0]} lds" if re.search(r"\blds\b", operands) else name
    return next(kind for kind, pattern in CLASSES.items() if re.match(pattern, whole))


def read_loop(asm: str) -> Loop:
    lines = main_loop(asm)
    counts = Counter(class_of(line) for line in lines)
    waits: list[int] = []
    for line in lines:
        found = re.search(r"vmcnt\((\d+)\)|s_wait_(?:load|tensor)cnt(_dscnt)? (0x[0-9a-f]+)", line)
        if found:
            waits.append(int(found[1]) if found[1] else int(found[3], 16) >> (8 if found[2] else 0))

    def field(name: str) -> int:
        match = re.search(rf"\.{name}:\s+(\d+)", asm)
        return int(match[1]) if match else 0

    return Loop(
        {name: counts[name] for name in CLASSES}, waits, field("vgpr_count"),
        field("vgpr_spill_count") + field("sgpr_spill_count"), field("group_segment_fixed_size"),
    )  # fmt: skip


def cases() -> dict[str, Any]:
    sys.path[:0] = [str(ROOT / "src"), str(PEER_SOURCE)]
    from loops import CASES  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    return CASES  # pyright: ignore[reportUnknownVariableType]


def attentions() -> dict[str, Any]:
    sys.path[:0] = [str(ROOT / "src")]
    from attention_loops import CASES  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    return CASES  # pyright: ignore[reportUnknownVariableType]


def every_tile() -> dict[str, Any]:
    """All tiles of `matmul`, by name."""
    sys.path[:0] = [str(ROOT / "src"), str(PEER_SOURCE)]
    from flydsl.kernels.matmul.amd.plan import fits, form_for, shared_bytes, tiles
    from flydsl.target import GPUTarget
    from loops import Case  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    found: dict[str, Any] = {}
    for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"):
        target = GPUTarget.parse(f"rocm:{arch}")
        for dtype in ("float16", "float32", "int8", "float8_e4m3fn", "float8_e4m3fnuz"):
            plain = form_for(target, dtype)
            kinds = {"": {}, ", preshuffled": {"shuffled": True}, ", blocks": {"blocked": True}}
            for kind, changes in kinds.items():
                if plain is None:
                    break
                form = plain._replace(**changes, store=1)
                for tile in tiles(form):
                    if fits(tile, form) and shared_bytes(tile, form) <= (target.caps.shared_mem_per_block or 0):
                        words = f"{tile.m} x {tile.n} x {tile.row_bytes} B, {tile.stages} stages"
                        found[f"{arch} {dtype} {words}{kind}"] = Case(arch, dtype, tile, form)
    return found


def ours(case: Any) -> str:
    import flydsl.compiler as flyc

    return flyc.compile(case.function, *case.arrays, target=f"rocm:{case.arch}").artifact.asm


def theirs(subject: Subject, case: Any) -> str:
    """What FlyDSL dumps as its last stage."""
    with tempfile.TemporaryDirectory(prefix="flydsl-bench-") as folder:
        dumps = Path(folder) / "dumps"
        environment = {
            **subject.environment,
            "ARCH": case.arch,
            "FLYDSL_GPU_ARCH": case.arch,
            "FLYDSL_RUNTIME_CACHE_DIR": folder,
            "FLYDSL_DUMP_IR": "1",
            "FLYDSL_DUMP_DIR": str(dumps),
        }
        run([subject.python, str(PEER_SOURCE / "loops.py"), json.dumps(case)], environment)
        files = [*dumps.rglob("*.s")]
        if not files:
            raise BenchmarkError(f"{subject.name} wrote no assembly")
        return max(files, key=os.path.getmtime).read_text(encoding="utf-8")


def row(name: str, loop: Loop) -> list[str]:
    shown = ("matrix", "to shared", "load", "read", "write", "wait", "barrier", "vector", "scalar")
    each = [f"{loop.per_product(kind):.2f}" for kind in ("vector", "scalar")]
    least = str(min(loop.waits)) if loop.waits else "-"
    sizes = [str(loop.registers), str(loop.spills), f"{loop.shared // 1024}"]
    return [name, *(str(loop.counts[kind]) for kind in shown), *each, least, *sizes]


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts instructions in the main loops of the kernels for AMD GPUs.")
    parser.add_argument("names", nargs="*", help="parts of the names of cases; all of them by default")
    parser.add_argument("--peer", action="store_true", help="also what FlyDSL makes of the same source")
    parser.add_argument("--peer-python", type=Path, help="interpreter of a ready environment with FlyDSL")
    parser.add_argument("--tiles", action="store_true", help="every tile that the entry point may take")
    parser.add_argument("--attention", action="store_true", help="attentions instead of matrix products")
    arguments: Any = parser.parse_args()
    if arguments.attention and (arguments.peer or arguments.peer_python):
        parser.error("FlyDSL's package has no attention: leave --peer out, or --attention")
    arguments.warm_up, arguments.processor_time = "warm_up", False
    subject = peer(arguments) if arguments.peer else None
    rows: list[list[str]] = []
    found = attentions() if arguments.attention else every_tile() if arguments.tiles else cases()
    for name, case in found.items():
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        rows.append(row(name, read_loop(ours(case))))
        if subject is not None:
            try:
                rows.append(row(f"  {subject.name}", read_loop(theirs(subject, case))))
            except BenchmarkError as error:
                rows.append([f"  {subject.name}: {str(error).strip().splitlines()[-1][:90]}", *[""] * 15])
    header = ["", "matrix", "to shared", "load", "read", "write", "wait", "barrier", "vector", "scalar"]
    print(table([*header, "v/m", "s/m", "least wait", "VGPRs", "spills", "KiB"], rows))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchmarkError as error:
        sys.exit(f"error: {error}")
