"""`repro.sh` of a dump: the command that compiles the kernel again from its traced IR."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ... import config
from .pass_options import NAMES
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
    overridden: bool = False,
) -> str:
    """The text of the file: the settings that shape code, then the command; and how `fly-opt` runs the passes alone."""
    # Passes are said by their names, whatever the hints had.
    wanted = {
        **{name: value for name, value in hints.items() if name not in NAMES or is_plain(value)},
        **_passes(custom),
    }
    modules, folders, unknown = _modules_of(custom)
    plain = {key: value for key, value in wanted.items() if is_plain(value)}
    lines = [
        "#!/bin/sh",
        f"# Compiles {name} for {target} again from the IR that was traced for it, and compares every stage.",
        "# The result goes to again/, or where -o says.",
    ]
    lost = sorted({*wanted} - {*plain}) + unknown
    if lost:
        lines.append(f"# Passes and hints that only the program has are not part of it: {lost}.")
        if "ir_passes" in plain:
            plain["ir_passes"] = [each for each in plain["ir_passes"] if each not in unknown]
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
    settings = dict(_settings())
    if modules:
        settings["FLYDSL_COMPILE_IR_PASS_MODULES"] = ",".join(modules)
    lines += [f"export {variable}={shlex.quote(value)}" for variable, value in settings.items()]
    if folders:
        lines.append(f'export PYTHONPATH={shlex.quote(os.pathsep.join(folders))}"${{PYTHONPATH:+:$PYTHONPATH}}"')
    if overridden:
        lines.append('export FLYDSL_COMPILE_OVERRIDE_DIR="$here/overrides"')
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
    """The passes in effect as hints, where the environment alone would ask for others: none are an empty value."""
    env = config.compile
    asked = custom is not None
    now: dict[str, Any] = {
        "llvm_pass_pipeline": (asked and custom.pipeline) or "",
        "llvm_pass_plugins": [str(plugin.path) for plugin in custom.plugins] if asked else [],
        "llvm_codegen_passes": [str(each) for each in custom.codegen_passes] if asked else [],
        "llvm_codegen_plugins": [str(plugin.path) for plugin in custom.codegen_plugins] if asked else [],
        "ir_passes": [str(each) for each in custom.ir_passes] if asked else [],
    }
    usual: dict[str, Any] = {name: [str(each) for each in getattr(env, name)] for name in now if name[-1] != "e"}
    usual["llvm_pass_pipeline"] = env.llvm_pass_pipeline or ""
    if usual["ir_passes"]:
        from .user_passes import split_activations

        usual["ir_passes"] = split_activations(",".join(usual["ir_passes"]))
    return {name: value for name, value in now.items() if value != usual[name]}


def _modules_of(custom: PassConfig | None) -> tuple[list[str], list[str], list[str]]:
    """Modules that register the Python passes in effect, folders they are found in, and passes no module registers."""
    modules, folders, lost = list(config.compile.ir_pass_modules), list[str](), list[str]()
    for each in custom.ir_passes if custom is not None else ():
        name = each.what.function.__module__
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if name == "__main__" or file is None or not any(value is each.what for value in vars(module).values()):
            lost.append(str(each))
            continue
        modules += [name] if name not in modules else []
        # A package is found from the folder its outermost one is in.
        depth = name.count(".") + (os.path.basename(file) == "__init__.py")
        folder = os.path.dirname(os.path.abspath(file))
        for _ in range(depth):
            folder = os.path.dirname(folder)
        folders += [folder] if folder not in folders else []
    return modules, folders, lost


def _settings() -> list[tuple[str, str]]:
    """Variables that are set and take part in the key."""
    relevant = {name for name, _ in config.cache_relevant_env()} | {name for name, _ in config.content_relevant_env()}
    return [(name, os.environ[name]) for name in sorted(relevant - set(_LEFT_OUT)) if name in os.environ]
