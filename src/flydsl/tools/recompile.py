"""`fly recompile 00_origin.mlir`: compile the traced IR of a dump again, and compare every stage with the dump."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flydsl.target import EXAMPLE
from flydsl.tools.console import failed

if TYPE_CHECKING:
    from flydsl.target import GPUTarget


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command; `repro.sh` of a dump has them all."""
    parser.add_argument("file", help="traced IR, such as 00_origin.mlir of a dump")
    parser.add_argument("--target", help=f"e.g. {EXAMPLE}; default: the one the file was traced for")
    parser.add_argument("--hints", type=json.loads, help="compile hints as JSON; default: those it was traced with")
    parser.add_argument("--name", default="module", help="name of the function that launches the kernels")
    parser.add_argument("--link", action="append", default=[], help="bitcode that extern functions are in; repeatable")
    parser.add_argument("-o", "--output", default="again", help="folder for the stages")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compile and compare; 1 if a stage differs."""
    from flydsl.errors import FlyDSLError

    source = Path(options.file)
    if not source.is_file():
        return failed(f"fly recompile: there is no file {source}")
    try:
        folder = compile_again(source, options.target, options.hints, options.name, Path(options.output), options.link)
    except FlyDSLError as error:
        return failed(f"fly recompile: {error}", 1)
    return compare(source.parent, folder)


def compile_again(
    source: Path,
    target: str | None,
    hints: dict[str, Any] | None,
    name: str,
    output: Path,
    link: Sequence[str] = (),
) -> Path:
    """Run the compiler on a file, for what it says it was traced for if nothing else is asked; where its stages are."""
    from flydsl.compiler.backends import backend_for_target, parse_target
    from flydsl.compiler.build.driver import compile_module
    from flydsl.compiler.build.overrides import parse_module
    from flydsl.compiler.build.pass_options import NAMES, requested
    from flydsl.compiler.build.traced_for import device_of, hints_of
    from flydsl.compiler.extern_link import Externs
    from flydsl.dialects.upstream import gpu
    from flydsl.errors import DSLCompileError
    from flydsl.expr.extern import Library
    from flydsl.passes.base import target_of
    from flydsl.tools.script_runs import environment

    module = parse_module(source.read_text(encoding="utf-8"), str(source))
    device = device_of(module)
    told = target_of(device)
    if target is None and told is None:
        raise DSLCompileError(f"{source} does not say what it was traced for: give it with --target, e.g. {EXAMPLE}")
    hints = (hints_of(module) or {}) if hints is None else hints
    kernels = [op.sym_name.data for op in device.body.block.ops if isinstance(op, gpu.FuncOp)]
    externs = Externs()
    for path in link:
        externs.use(Library.read(path, name))
    passes = {key: value for key, value in hints.items() if key in NAMES}
    custom = None
    if requested({}, hints):
        from flydsl.compiler.build.custom_passes import resolve

        custom = resolve(passes, hints)
    backend = backend_for_target(parse_target(target) if target is not None else cast("GPUTarget", told))
    with environment(FLYDSL_DUMP_IR="1", FLYDSL_DUMP_DIR=str(output)):
        compile_module(name, module, kernels, backend, hints=hints, externs=externs, custom=custom)
    return max(output.iterdir(), key=lambda path: path.stat().st_mtime)


def compare(before: Path, after: Path) -> int:
    """Say of each stage whether it is as it was."""
    different = 0
    for new in sorted(after.glob("[0-9][0-9]_*")):
        old = before / new.name
        word = "new" if not old.is_file() else "same" if old.read_bytes() == new.read_bytes() else "DIFFERS"
        different += word != "same"
        print(f"{word:8} {new.name}")
    return int(different > 0)
