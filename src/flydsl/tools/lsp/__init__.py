"""`fly lsp`: a language server on standard input and output, for editors."""

from __future__ import annotations

import argparse
import importlib.util

from flydsl.target import EXAMPLE
from flydsl.tools.console import failed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--target", help=f"what files without a hint are compiled for, e.g. {EXAMPLE}")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds a file may take (default: 60)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Speak the protocol until the editor ends it."""
    if importlib.util.find_spec("pygls") is None:
        return failed("fly lsp: it needs the package pygls: pip install 'flydsl[lsp]'")
    if options.target is not None:
        from flydsl.target import GPUTarget

        GPUTarget.parse(options.target)
    from flydsl.tools.lsp.server import serve

    serve(options.target, options.timeout)
    return 0
