"""`fly explore`: a page that shows a kernel at every stage of its compilation, line beside line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from flydsl.target import EXAMPLE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("file", help="a script that calls jit functions; what it calls is compiled, nothing runs")
    parser.add_argument("--target", action="append", help=f"e.g. {EXAMPLE}; may be repeated (default: the active one)")
    parser.add_argument("-o", "--output", help="the page to write (default: the script's name with .html, here)")
    parser.add_argument("--open", action="store_true", help="show it in the browser")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compile, gather, write."""
    from flydsl.errors import FlyDSLError
    from flydsl.tools.explore.collect import collect
    from flydsl.tools.explore.page import page

    script = Path(options.file)
    if not script.is_file():
        print(f"fly explore: there is no file {script}", file=sys.stderr)
        return 2
    try:
        data = collect(script, options.target)
    except FlyDSLError as error:
        print("\n".join([f"fly explore: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 1
    if not data["functions"]:
        print(f"fly explore: {script} called no jit function, so nothing was compiled", file=sys.stderr)
        return 1
    out = Path(options.output) if options.output else Path(script.stem + ".html")
    out.write_text(page(data), encoding="utf-8")
    names = ", ".join(f"{f['name']} for {', '.join(t['target'] for t in f['targets'])}" for f in data["functions"])
    print(f"{out}: {names}")
    if options.open:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())
    return 0
