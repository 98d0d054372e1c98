"""`fly explore`: a page that shows a kernel at every stage of its compilation, line beside line."""

from __future__ import annotations

import argparse
from pathlib import Path

from flydsl.target import EXAMPLE
from flydsl.tools.console import failed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("file", help="a script that calls jit functions; what it calls is compiled, nothing runs")
    parser.add_argument("--target", action="append", help=f"e.g. {EXAMPLE}; may be repeated (default: the active one)")
    parser.add_argument("--against", metavar="FILE", help="another version of the script, to compare with")
    parser.add_argument("-o", "--output", help="the page to write (default: the script's name with .html, here)")
    parser.add_argument("--open", action="store_true", help="show it in the browser")
    parser.add_argument(
        "--serve", action="store_true", help="serve the page on 127.0.0.1 and compile again whenever a file is saved"
    )
    parser.add_argument("--port", type=int, default=0, help="with --serve: the port (default: a free one)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the page, or serve it."""
    script = Path(options.file)
    for file in (script, *([Path(options.against)] if options.against else [])):
        if not file.is_file():
            return failed(f"fly explore: there is no file {file}")
    if not options.serve:
        return _write(script, options)
    if options.output or options.against:
        given = "--output" if options.output else "--against"
        return failed(f"fly explore: {given} is for the page in a file; --serve keeps the versions it has seen")
    return _serve(script, options)


def _write(script: Path, options: argparse.Namespace) -> int:
    from flydsl.errors import FlyDSLError
    from flydsl.tools.explore.collect import collect
    from flydsl.tools.explore.page import page

    try:
        data = collect(script, options.target)
        if options.against:
            data["others"] = [collect(Path(options.against), options.target)]
    except FlyDSLError as error:
        return failed("\n".join([f"fly explore: {error}", *getattr(error, "__notes__", ())]), 1)
    if not data["functions"]:
        return failed(f"fly explore: {script} called no jit function, so nothing was compiled", 1)
    out = Path(options.output) if options.output else Path(script.stem + ".html")
    out.write_text(page(data), encoding="utf-8")
    names = ", ".join(f"{f['name']} for {', '.join(t['target'] for t in f['targets'])}" for f in data["functions"])
    print(f"{out}: {names}")
    if options.open:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())
    return 0


def _serve(script: Path, options: argparse.Namespace) -> int:
    from flydsl.target import GPUTarget
    from flydsl.tools.explore.serve import ExploreServer
    from flydsl.tools.explore.watch import Watcher

    for target in options.target or ():
        GPUTarget.parse(target)  # a mistake is told here, not in the page
    watcher = Watcher(script, options.target or ())
    with ExploreServer(watcher, options.port) as server:
        watcher.start()
        print(f"fly explore: {server.url}", flush=True)
        if options.open:
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
        finally:
            watcher.stop()
    return 0
