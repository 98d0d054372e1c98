"""`fly coverage script.py`: run a script on the cpu stack and say which lines and branches of its kernels ran."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from flydsl.target import USUAL
from flydsl.tools.console import failed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--arch", help=f"architecture to emulate, e.g. {' or '.join(USUAL.values())} (default: native)")
    parser.add_argument("-o", "--output", help="data file of coverage.py to write, e.g. .coverage")
    parser.add_argument("--lines", action="store_true", help="write lines without branches")
    parser.add_argument("--fail-under", type=float, default=0.0, help="exit with 2 if fewer percent of the lines ran")
    parser.add_argument("file", help="the script to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script; its own exit status is kept."""
    script = Path(options.file)
    if not script.is_file():
        return failed(f"fly coverage: there is no file {script}")
    from flydsl.debug.coverage import kernel_coverage
    from flydsl.debug.program import cpu_variables, environment, run_program

    with environment(**cpu_variables(options.arch)), kernel_coverage() as found:
        status = run_program(script, options.arguments)
    sys.stdout.flush()
    if not found.files:
        return failed(f"fly coverage: {script} ran no kernel", status or 1)
    print(found.text())
    if options.output:
        print(found.write(options.output, branch=not options.lines))
    lines = sum(len(found.runs(file)) for file in found.files)
    missing = sum(len(found.missing(file)) for file in found.files)
    return status or 2 * int(100 * (lines - missing) < options.fail_under * lines)
