"""`record` on a GPU, `compare` with the cpu stack; see the package."""

from __future__ import annotations

import argparse
import platform
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from .comparison import Difference, compare
from .golden import FILE, reduced
from .program import Program
from .runner import Result, programs, read, results, work, write


def _chosen(words: list[str]) -> list[tuple[int, Program]]:
    every = list(enumerate(programs()))
    return [(n, p) for n, p in every if not words or any(w in p.name or w == p.group for w in words)]


def _record(path: Path, device: str, words: list[str], workers: int, limit: float) -> None:
    import torch

    start = time.perf_counter()
    found = results(device, _chosen(words), workers, limit)
    name = torch.cuda.get_device_name() if device == "cuda" else f"cpu stack on {platform.processor() or 'this CPU'}"
    write(path, found, {"device": name})
    failed = {name: r.error for name, r in found.items() if r.error is not None}
    size = path.stat().st_size / 1e6
    print(
        f"{len(found)} programs on {name} in {time.perf_counter() - start:.1f} s, {len(failed)} failed, {size:.1f} MB"
    )
    for name, error in failed.items():
        print(f"  {name}: {error}")


def report(one: Mapping[str, Result], other: Mapping[str, Result], chosen: list[tuple[int, Program]]) -> list[str]:
    """Lines for people: what differs, then a table of the groups."""
    lines: list[str] = []
    groups: dict[str, list[tuple[str, list[Difference]]]] = defaultdict(list)
    for _, program in chosen:
        x, y = one.get(program.name), other.get(program.name)
        if x is None or y is None:
            continue
        if x.error or y.error:
            lines.append(f"{program.name}: not compared: {x.error or ''} | {y.error or ''}")
            continue
        if x.digest != y.digest:
            lines.append(f"{program.name}: not compared: the inputs differ")
            continue
        rows = list(compare(program.make(), x, y))
        groups[program.group].append((program.name, rows))
        for row in rows:
            if row.numbers:
                lines.append(
                    f"{program.name} {row.row}: {row.numbers} of {row.elements} differ, by {row.ulp:g} ulp "
                    f"of {row.format} at most {row.example}"
                )
    lines.append(f"{'group':18} programs  same  same but NaN bits  differ  elements  differing  largest ulp")
    for group, made in groups.items():
        different = [rows for _, rows in made if any(r.numbers for r in rows)]
        payload = [rows for _, rows in made if not any(r.numbers for r in rows) and any(r.nans for r in rows)]
        every = [r for _, rows in made for r in rows]
        lines.append(
            f"{group:18} {len(made):8} {len(made) - len(different) - len(payload):5} {len(payload):18} "
            f"{len(different):7} {sum(r.elements for r in every):9} {sum(r.numbers for r in every):10} "
            f"{max((r.ulp for r in every), default=0):12g}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bits")
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("programs", nargs="*", help="words of names, or groups; all without")
    shared.add_argument("--workers", type=int, default=2)
    shared.add_argument("--limit", type=float, default=20, help="seconds for one program")
    record = commands.add_parser("record", parents=[shared], help="run on a GPU and keep the outputs")
    record.add_argument("--out", type=Path, required=True)
    record.add_argument("--device", default="cuda")
    against = commands.add_parser("compare", parents=[shared], help="run on the cpu stack and compare")
    against.add_argument("--with", dest="recorded", type=Path, required=True)
    against.add_argument("--keep", type=Path, help="keep the outputs of the cpu stack")
    keep = commands.add_parser("golden", help="keep a small part of a recorded file")
    keep.add_argument("--with", dest="recorded", type=Path, required=True)
    keep.add_argument("--out", type=Path, default=FILE)
    child = commands.add_parser("work")
    child.add_argument("device")
    child.add_argument("folder", type=Path)
    child.add_argument("numbers", type=int, nargs="*")
    given = parser.parse_args()
    if given.command == "work":
        work(given.device, given.folder, given.numbers)
    elif given.command == "golden":
        about, recorded = read(given.recorded)
        write(given.out, reduced(recorded), about)
    elif given.command == "record":
        _record(given.out, given.device, given.programs, given.workers, given.limit)
    else:
        about, recorded = read(given.recorded)
        chosen = [(n, p) for n, p in _chosen(given.programs) if p.name in recorded]
        found = results("cpu", chosen, given.workers, given.limit)
        if given.keep:
            write(given.keep, found, {"device": "cpu stack"})
        print(f"recorded on {about.get('device')}")
        print("\n".join(report(recorded, found, chosen)))


if __name__ == "__main__":
    main()
