"""`repro.sh` of a dump: the command that compiles the kernel again from its traced IR."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from ... import config

_LEFT_OUT = ("FLYDSL_COMPILE_BACKEND", "FLYDSL_COMPILE_OVERRIDE_DIR")
"""Variables the command line says, or that would defeat the purpose."""


def script(name: str, target: str, hints: Mapping[str, Any], user_passes: bool) -> str:
    """The text of the file: the settings that shape code, then the command."""
    plain = {key: value for key, value in hints.items() if isinstance(value, str | int | float | bool)}
    lines = [
        "#!/bin/sh",
        f"# Compiles {name} for {target} again from the IR that was traced for it, and compares every stage.",
        "# The result goes to again/, or where -o says.",
    ]
    if user_passes or len(plain) < len(hints):
        lost = sorted(set(hints) - set(plain))
        lines.append(
            f"# Passes and hints that are Python objects are not part of it{': ' if lost else ''}{lost or ''}."
        )
    lines += ["set -eu", 'here=$(cd "$(dirname "$0")" && pwd)']
    lines += [f"export {variable}={shlex.quote(value)}" for variable, value in _settings()]
    words = ["-m", "flydsl.tools.fly", "recompile", '"$here/00_origin.mlir"', "--target", shlex.quote(target)]
    words += ["--name", shlex.quote(name)]
    if plain:
        words += ["--hints", shlex.quote(json.dumps(plain, sort_keys=True))]
    lines.append(f'exec "${{PYTHON:-{sys.executable}}}" {" ".join(words)} -o "$here/again" "$@"')
    return "\n".join(lines) + "\n"


def _settings() -> list[tuple[str, str]]:
    """Variables that are set and take part in the key."""
    relevant = {name for name, _ in config.cache_relevant_env()} | {name for name, _ in config.content_relevant_env()}
    return [(name, os.environ[name]) for name in sorted(relevant - set(_LEFT_OUT)) if name in os.environ]
