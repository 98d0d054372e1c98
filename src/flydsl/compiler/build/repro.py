"""`repro.sh` of a dump: the command that compiles the kernel again from its traced IR."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ... import config
from .traced_for import is_plain

if TYPE_CHECKING:
    from .custom_passes import PassConfig

_LEFT_OUT = ("FLYDSL_COMPILE_BACKEND", "FLYDSL_COMPILE_OVERRIDE_DIR")
"""Variables the command line says, or that would defeat the purpose."""


def script(
    name: str,
    target: str,
    hints: Mapping[str, Any],
    custom: PassConfig | None,
    libraries: Iterable[str] = (),
    passes: Sequence[str] = (),
    *,
    located: bool = False,
) -> str:
    """The text of the file: the settings that shape code, then the command; and how `fly-opt` runs the passes alone."""
    wanted = {**hints, **_passes(custom)}
    plain = {key: value for key, value in wanted.items() if is_plain(value)}
    lines = [
        "#!/bin/sh",
        f"# Compiles {name} for {target} again from the IR that was traced for it, and compares every stage.",
        "# The result goes to again/, or where -o says.",
    ]
    lost = sorted(set(wanted) - set(plain))
    if lost:
        lines.append(f"# Passes and hints that are Python objects are not part of it: {lost}.")
    if passes:
        words = [
            "fly-opt",
            *["--mlir-print-debuginfo"] * located,
            f"--pass-pipeline={pipeline(passes)}",
            "00_origin.mlir",
        ]
        lines += [
            "# The passes of the compiler alone, from the traced IR to the last stage of IR:",
            f"# {shlex.join(words)}",
        ]
    lines += ["set -eu", 'here=$(cd "$(dirname "$0")" && pwd)']
    lines += [f"export {variable}={shlex.quote(value)}" for variable, value in _settings()]
    words = ["-m", "flydsl.tools.fly", "recompile", '"$here/00_origin.mlir"', "--target", shlex.quote(target)]
    words += ["--name", shlex.quote(name)]
    if plain:
        words += ["--hints", shlex.quote(json.dumps(plain, sort_keys=True))]
    words += [f"--link {shlex.quote(os.path.abspath(path))}" for path in libraries]
    lines.append(f'exec "${{PYTHON:-{sys.executable}}}" {" ".join(words)} -o "$here/again" "$@"')
    return "\n".join(lines) + "\n"


def pipeline(passes: Sequence[str]) -> str:
    """Passes as one text, as `fly-opt --pass-pipeline` takes it."""
    return f"builtin.module({','.join(passes)})"


def _passes(custom: PassConfig | None) -> dict[str, Any]:
    """The passes in effect as hints; those of the environment are in its variables."""
    if custom is None:
        return {}
    from .user_passes import split_activations

    found = {
        "llvm_pass_pipeline": custom.pipeline,
        "llvm_pass_plugins": [str(plugin.path) for plugin in custom.plugins],
        "llvm_codegen_passes": [str(each) for each in custom.codegen_passes],
        "llvm_codegen_plugins": [str(plugin.path) for plugin in custom.codegen_plugins],
    }
    wanted: dict[str, Any] = {key: value for key, value in found.items() if value}
    named = {str(each) for each in custom.ir_passes}
    if not named <= set(split_activations(",".join(config.compile.ir_passes))):
        wanted["ir_passes"] = custom.ir_passes
    return wanted


def _settings() -> list[tuple[str, str]]:
    """Variables that are set and take part in the key."""
    relevant = {name for name, _ in config.cache_relevant_env()} | {name for name, _ in config.content_relevant_env()}
    return [(name, os.environ[name]) for name in sorted(relevant - set(_LEFT_OUT)) if name in os.environ]
