"""`fly predict kernel.py --target cuda:sm_90a`: what a script's launches would take on a GPU, and why."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from flydsl.target import EXAMPLE, USUAL
from flydsl.tools.console import failed

if TYPE_CHECKING:
    from flydsl.autotune.model.predict import Prediction
    from flydsl.compiler.build.artifact import CompiledArtifact
    from flydsl.compiler.call.bind import BoundCall


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("file", help="the script; it is run, but nothing it launches is")
    parser.add_argument("--target", required=True, help=f"e.g. {EXAMPLE} or cuda:{USUAL['cuda']}")
    parser.add_argument("--device", help="a GPU of the table, e.g. H200 (default: the usual one of the target)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a launch")
    parser.add_argument(
        "arguments", nargs="*", help="arguments of the script; behind `--` where they look like options"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Predict every launch of the script."""
    from flydsl.autotune.model.predict import predict
    from flydsl.compiler.listeners import watching_calls
    from flydsl.errors import DSLValueError
    from flydsl.target import GPUTarget
    from flydsl.target.machines import machine_for
    from flydsl.tools.script_runs import Compiled, compiled_by, environment

    script = Path(options.file)
    if not script.is_file():
        return failed(f"fly predict: there is no file {script}")
    try:
        machine = machine_for(GPUTarget.parse(options.target), options.device)
    except DSLValueError as error:
        return failed(f"fly predict: {error}")
    found: list[Prediction] = []

    def watch(artifact: CompiledArtifact, call: BoundCall) -> None:
        found.extend(predict(artifact, list(call.adapted.values()), machine))

    with environment(FLYDSL_DEBUG_ENABLE_DEBUG_INFO="1"), watching_calls(watch):
        made: list[Compiled[None]] = compiled_by(script, options.target, options.arguments)
    if not made:
        return failed(f"fly predict: {script} compiled nothing for {options.target}", 1)
    for prediction in found:
        print(json.dumps(as_dict(prediction)) if options.json else prediction.table())
    return 0


def as_dict(found: Prediction) -> dict[str, object]:
    """A prediction as plain data."""
    return {
        "kernel": found.kernel,
        "device": found.machine.name,
        "us": found.us,
        "limiter": found.limiter,
        "parts_us": found.parts,
        "grid": found.launch.grid,
        "block": found.launch.block,
        "resident": found.resident,
        "resident_by": found.resident_by,
        "waves": found.waves,
        "operations": found.operations,
        "memory_bytes": found.memory_bytes,
        "hints": found.hints,
    }
