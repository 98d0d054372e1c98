"""`fly profile --lines script.py`: run a script on the cpu stack and print how often each line of its kernels ran."""

from __future__ import annotations

import argparse
import linecache
import sys
from collections.abc import Mapping
from pathlib import Path

from flydsl.target import USUAL
from flydsl.tools.console import failed

CONTEXT = 1
"""Lines without a count that are shown around those with one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--lines", action="store_true", required=True, help="count how often each source line runs")
    parser.add_argument("--arch", help=f"architecture to emulate, e.g. {' or '.join(USUAL.values())} (default: native)")
    parser.add_argument("file", help="the script to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script; its own exit status is kept."""
    script = Path(options.file)
    if not script.is_file():
        return failed(f"fly profile: there is no file {script}")
    from flydsl.debug.program import cpu_variables, environment, run_program

    with environment(FLYDSL_CPU_PROFILE="1", **cpu_variables(options.arch)):
        status = run_program(script, options.arguments)
        counts = _counts()
    sys.stdout.flush()
    if not counts:
        return failed(f"fly profile: {script} ran no kernel", status or 1)
    print(listing(counts))
    return status


def _counts() -> Mapping[tuple[str, int], int]:
    from flydsl.cpu.runtime import CpuDeviceRuntime
    from flydsl.runtime.device_runtime import get_device_runtime

    runtime = get_device_runtime()
    return runtime.line_counts() if isinstance(runtime, CpuDeviceRuntime) else {}


def listing(counts: Mapping[tuple[str, int], int]) -> str:
    """The source beside the counts, a stretch for each part of a file that has some."""
    out: list[str] = []
    for file in dict.fromkeys(name for name, _ in counts):
        mine = {line: n for (name, line), n in counts.items() if name == file}
        width = max(len("runs"), *(len(f"{n:,}") for n in mine.values()))
        out += ["", file, f"{'runs':>{width}}  line"]
        source = linecache.getlines(file)
        last = 0
        for line in _shown(mine, len(source)):
            if last and line != last + 1:
                out.append(f"{'...':>{width}}")
            runs = f"{mine[line]:,}" if line in mine else ""
            text = source[line - 1].rstrip("\n") if line <= len(source) else ""
            out.append(f"{runs:>{width}}  {line:4d}  {text}".rstrip())
            last = line
    return "\n".join(out[1:])


def _shown(mine: Mapping[int, int], length: int) -> list[int]:
    """Lines with a count, some around them, and short gaps between them."""
    found: set[int] = set()
    for line in mine:
        found.update(range(max(1, line - CONTEXT), min(length, line + CONTEXT) + 1))
    ordered = sorted(found | set(mine))
    for before, after in zip(ordered, ordered[1:], strict=False):
        if after - before <= 4:
            found.update(range(before, after))
    return sorted(found | set(mine))
