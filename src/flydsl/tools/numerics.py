"""`fly numerics script.py`: run a script and say where its kernels make NaN, infinities and errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from flydsl.target import USUAL
from flydsl.tools.console import failed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--arch", help=f"architecture to emulate, e.g. {' or '.join(USUAL.values())} (default: native)")
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if a NaN, an infinity or an overflow was made"
    )
    parser.add_argument("file", help="the script to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the script; its own exit status is kept."""
    script = Path(options.file)
    if not script.is_file():
        return failed(f"fly numerics: there is no file {script}")
    from flydsl.debug.program import cpu_variables, environment, run_program

    with environment(**cpu_variables(options.arch)):
        from flydsl.debug.numerics import checking

        with checking() as report:
            status = run_program(script, options.arguments)
    sys.stdout.flush()
    if not report.launches:
        return failed(f"fly numerics: {script} ran no kernel", status or 1)
    print(report.listing())
    bad = any(f.trouble != "cancellation" for f in report.findings)
    return status or int(bad and options.strict)
