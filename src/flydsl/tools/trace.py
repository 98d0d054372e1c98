"""`fly trace script.py`: run a script with the ranges and marks of its kernels recorded, and write the trace."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from flydsl import config
from flydsl.target import EXAMPLE
from flydsl.tools.console import failed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--target", help=f"what to run on, e.g. cpu:native or {EXAMPLE} (default: the active stack)")
    parser.add_argument(
        "-o",
        "--output",
        help="file to write: .perfetto-trace, .pftrace, .json, .svg, .html or .txt (default: SCRIPT.perfetto-trace)",
    )
    parser.add_argument("--events", type=int, help="events kept of a warp (default: FLYDSL_KTRACE_EVENTS)")
    parser.add_argument("--blocks", help="blocks of each grid to record: x,y,z, first:last or a number (default: all)")
    parser.add_argument("file", help="the script to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script; its own exit status is kept."""
    from flydsl.debug.program import environment, run_program
    from flydsl.runtime.ktrace.recorder import Recorder, parse_blocks
    from flydsl.tools.script_runs import target_variables

    script = Path(options.file)
    if not script.is_file():
        return failed(f"fly trace: there is no file {script}")
    variables = {"FLYDSL_KTRACE_ENABLE": "1", **target_variables(options.target)}
    if options.events is not None:
        variables["FLYDSL_KTRACE_EVENTS"] = str(options.events)
    recorder = Recorder(parse_blocks(options.blocks or config.ktrace.blocks))
    with environment(**variables):
        recorder.open()
        try:
            status = run_program(script, options.arguments)
        finally:
            recorder.close()
        found = recorder.read()
    sys.stdout.flush()
    if not found.launches:
        return failed(f"fly trace: {script} launched no kernel with ranges or marks of fx.ktrace", status or 1)
    file = found.write(options.output or f"{script.stem}.perfetto-trace")
    print(found.text())
    print(f"{file}: {len(found.launches)} launches, {len(found.events)} events")
    return status
