"""`fly`: what is on this machine, and compiling kernels from the command line."""

from __future__ import annotations

import argparse
import json
import re
import sys
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from flydsl.target import EXAMPLE
from flydsl.tools.console import failed, run_command, size_text


def doctor(options: argparse.Namespace) -> int:
    """Print versions, stacks, devices, tools, the cache and settings, and run one kernel per stack."""
    from flydsl.tools import doctor

    return doctor.run(options)


def env(options: argparse.Namespace) -> int:
    """Print every environment variable with its value, or the reference page about them."""
    from flydsl import config

    if options.markdown:
        from flydsl.tools import env_docs

        print(env_docs.page(), end="")
        return 0
    for name, value, default, source in config.describe():
        mark = "" if source == "default" else f"   (set by {source})"
        print(f"{name} = {value}   [default: {default}]{mark}")
    for name in config.unknown_variables():
        print(f"{name}: unknown, has no effect")
    return 0


_EXTENSIONS = {"llvm": "ll", "llvm_opt": "opt.ll", "fly": "mlir", "host": "host.ll", "asm": "s"}
"""Of files with a section of an artifact, where its name does not say what is in it."""


def compile_file(options: argparse.Namespace) -> int:
    """Run a file in compile-only mode once per target and write what its jit calls compiled.

    A file is named after the function, the target and what is in it; a second signature of a function also has the
    first digits of its key.
    """
    from flydsl.tools.script_runs import Compiled, compiled_by, environment

    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    taken: dict[str, str] = {}
    for target in options.target:
        with environment(**({"FLYDSL_DEBUG_ENABLE_DEBUG_INFO": "1"} if options.annotate else {})):
            made: list[Compiled[None]] = compiled_by(Path(options.file), target)
        for artifact, _ in made:
            about = artifact.target
            where = "-".join([about.backend, about.arch, *about.features])
            stem = f"{artifact.name}.{where}"
            if taken.setdefault(stem, artifact.key) != artifact.key:
                stem = f"{artifact.name}.{artifact.key[:8]}.{where}"
            for name, content in artifact.sections.items():
                (folder / f"{stem}.{_EXTENSIONS.get(name, name)}").write_bytes(content)
            (folder / f"{stem}.s").write_text(artifact.annotated_asm() if options.annotate else artifact.asm)
            print(f"{folder / stem}.{artifact.metadata['binary_ext']}: {len(artifact.binary())} bytes")
        if not made:
            return failed(f"fly compile: {options.file} compiled nothing for {target}", 1)
    return 0


def draw(options: argparse.Namespace) -> int:
    """Draw a layout, or a thread-value layout over a tile, as SVG."""
    from flydsl.errors import LayoutError
    from flydsl.layout import parse_any_layout, parse_layout
    from flydsl.layout.draw import draw_layout, draw_tv

    try:
        if options.tile is not None:
            rows, columns = (int(n) for n in options.tile.split("x"))
            picture = draw_tv(parse_layout(options.layout), (rows, columns))
        else:
            picture = draw_layout(parse_any_layout(options.layout), options.banks)
    except (LayoutError, ValueError) as error:
        return failed(f"fly draw: {error}", 1)
    if options.output == "-":
        sys.stdout.write(picture)
    else:
        Path(options.output).write_text(picture)
    return 0


def cache_command(options: argparse.Namespace) -> int:
    """Look at the disk cache, or clean it."""
    from flydsl.compiler import cache

    filters = {"function": options.function, "backend": options.backend, "arch": options.arch}
    if options.action == "info":
        found = cache.info()
        print(f"root     {found.root or 'none'} ({found.mode})")
        print(f"entries  {found.entries}")
        print(f"size     {size_text(found.size)} of {size_text(found.max_bytes) if found.max_bytes else 'unlimited'}")
    elif options.action == "list":
        for entry in cache.entries(**filters):
            print(f"{entry.key[:16]}  {size_text(entry.size):>10}  {entry.backend}:{entry.arch}  {entry.name}")
    elif options.action == "show":
        return _show_entry(options.key, filters)
    elif options.action == "verify":
        bad = cache.verify(remove=options.remove)
        for defect in bad:
            print(f"{defect.path}: {defect.problem}", file=sys.stderr)
        print(f"{len(bad)} defective" + (", removed" if bad and options.remove else ""))
        return 1 if bad and not options.remove else 0
    else:
        if options.action == "clear":
            removed = cache.clear(**filters)
        else:
            age = None if options.days is None else options.days * 86400.0
            removed = cache.prune(max_bytes=options.max_bytes, max_age=age)
        print(f"removed {removed.entries} entries, {size_text(removed.size)}")
    return 0


def _show_entry(key: str, filters: dict[str, Any]) -> int:
    """Print what is known of an entry: the header of its file, and the size of each section."""
    from flydsl.compiler import cache

    found = [entry for entry in cache.entries(**filters) if entry.key.startswith(key)]
    if len(found) != 1:
        which = ", ".join(entry.key[:16] for entry in found[:8]) or "none"
        return failed(f"fly cache: {len(found)} entries match {key!r}: {which}", 1)
    header = dict(found[0].header)
    sections = header.pop("sections", [])
    print(f"file      {found[0].path}")
    for name, value in sorted(header.items()):
        print(f"{name:<9} {json.dumps(value)}")
    for section in sections:
        print(f"section   {section['name']}  {size_text(section['size'])}")
    return 0


def _add_cache(commands: Any) -> None:
    parser = commands.add_parser("cache", help="look at or clean the cache of compiled kernels")
    parser.add_argument("action", choices=("info", "list", "show", "clear", "prune", "verify"))
    parser.add_argument("key", nargs="?", default="", help="show: the first digits of an entry's key")
    parser.add_argument("--function", help="list, clear: entries of this function only")
    parser.add_argument("--backend", help="list, clear: entries of this backend only")
    parser.add_argument("--arch", help="list, clear: entries of this architecture only")
    parser.add_argument("--days", type=float, help="prune: remove entries not used for so many days")
    parser.add_argument("--max-bytes", type=int, help="prune: remove the least recently used beyond this size")
    parser.add_argument("--remove", action="store_true", help="verify: remove what is defective")
    parser.set_defaults(run=cache_command)


def _add_version(parser: argparse.ArgumentParser) -> None:
    """`--version`, for a command and every one below it."""
    from flydsl import __version__

    parser.add_argument("--version", action="version", version=f"fly {__version__}", help="print the version")
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            below: dict[str, argparse.ArgumentParser] = dict(action.choices or {})  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            for command in set(below.values()):
                _add_version(command)


class _Parser(argparse.ArgumentParser):
    """A parser that knows which word was meant."""

    def error(self, message: str) -> NoReturn:
        found = re.match(r".*invalid choice: '([^']*)' \(choose from (.*)\)$", message)
        close = get_close_matches(found[1], re.findall(r"[\w-]+", found[2]), 1) if found else []
        super().error(f"{message}; did you mean '{close[0]}'?" if close else message)


_COMMANDS = {
    "explore": "a page with a kernel at every stage of its compilation",
    "recompile": "compile the IR of a dump again and compare",
    "profile": "run a script and count how often its lines run",
    "coverage": "run a script and say which lines of its kernels ran",
    "trace": "run a script and record what its kernels do when",
    "debug": "step through the kernels of a script",
    "lsp": "a language server for editors, on standard input and output",
    "numerics": "run a script and check the floats of its kernels",
    "predict": "what a script's launches would take on a GPU, and why",
    "tune": "search the best configurations of a script's tuned functions",
    "aot": "compile ahead of time what a manifest lists",
    "build-llc": "build fly-llc, which runs machine passes",
}
"""Commands with a module of their own, which `add_arguments` of it describes further."""


def main(argv: list[str] | None = None) -> int:
    """Entry point of `fly`."""
    parser = _Parser(prog="fly", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("doctor", help="what this machine has").set_defaults(run=doctor)
    settings = commands.add_parser("env", help="environment variables and their values")
    settings.add_argument("--markdown", action="store_true", help="print docs/environment.md instead")
    settings.set_defaults(run=env)
    _add_cache(commands)
    picture = commands.add_parser("draw", help="draw a layout as SVG")
    picture.add_argument("layout", help="e.g. '(4,8):(8,1)' or 'S<2,0,2> o 0 o (4,4):(4,1)'")
    picture.add_argument("--tile", help="draw a thread-value layout over a tile of this size, e.g. 8x64")
    picture.add_argument("--banks", type=int, default=16, help="colour offsets modulo this (default: 16)")
    picture.add_argument("-o", "--output", default="-", help="file to write (default: standard output)")
    picture.set_defaults(run=draw)
    build = commands.add_parser("compile", help="compile the kernels of a script without running them")
    build.add_argument("file")
    build.add_argument("--target", action="append", required=True, help=f"e.g. {EXAMPLE}; may be repeated")
    build.add_argument("-o", "--output", default=".", help="folder for the results")
    build.add_argument(
        "--annotate", action="store_true", help="with line tables, and the assembly under its source lines"
    )
    build.set_defaults(run=compile_file)
    for name, what in _COMMANDS.items():
        module = import_module(f"flydsl.tools.{name.replace('-', '_')}")
        module.add_arguments(commands.add_parser(name, help=what))
    _add_version(parser)
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(argv)
    return run_command("fly", lambda: options.run(options), getattr(options, "file", None))


if __name__ == "__main__":
    raise SystemExit(main())
