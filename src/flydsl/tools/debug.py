"""`fly debug script.py`: run a script and step through its kernels, at a console or from an editor."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from flydsl.target import USUAL
from flydsl.tools.console import failed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--arch", help=f"architecture to emulate, e.g. {' or '.join(USUAL.values())} (default: native)")
    parser.add_argument(
        "--dap", action="store_true", help="speak the Debug Adapter Protocol on standard input and output"
    )
    parser.add_argument("--port", type=int, help="speak it to one client on this port of 127.0.0.1; 0 picks a free one")
    parser.add_argument("-b", "--break", dest="places", action="append", default=[], metavar="[FILE:]LINE[ if COND]",
                        help="stop there; may be repeated")  # fmt: skip
    parser.add_argument("file", nargs="?", help="the script to run; over the protocol, the client names it")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """A protocol, or a console."""
    if options.dap or options.port is not None:
        return _protocol(options)
    if options.file is None or not Path(options.file).is_file():
        return failed(f"fly debug: there is no file {options.file}")
    from flydsl.debug.program import cpu_variables, environment, run_program

    with environment(**cpu_variables(options.arch)):
        from flydsl.debug.console import Console
        from flydsl.debug.debugger import Quit
        from flydsl.debug.session import Session

        console = Console(str(Path(options.file).resolve()))
        for place in options.places:
            console.onecmd(f"b {place}")
        console.debugger.stop_at_entry = not options.places
        try:
            with Session(console.debugger.run, wanted=console.debugger.wants).open():
                return run_program(Path(options.file), options.arguments)
        except Quit:
            return 0


def _protocol(options: argparse.Namespace) -> int:
    from flydsl.debug.program import cpu_variables, environment

    with environment(**cpu_variables(options.arch)):
        from flydsl.debug import dap

        if options.port is not None:
            return dap.listen(options.port)
        # The protocol has standard output to itself; what else is printed there goes to standard error.
        own = os.dup(1)
        os.dup2(2, 1)
        with os.fdopen(own, "wb") as writer:
            return dap.serve(sys.stdin.buffer, writer)
