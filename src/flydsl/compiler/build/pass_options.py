"""Whether a call asks for passes of the user at all; what they are is found out elsewhere, and only then."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from flydsl import config

NAMES = ("llvm_pass_pipeline", "llvm_pass_plugins", "llvm_codegen_passes", "llvm_codegen_plugins", "ir_passes")
"""Arguments of `@flyc.jit` and compile hints that name passes."""


def external_codegen(env: config.CompileEnv, hints: Mapping[str, object] | None) -> bool:
    """Whether LLVM's programs generate the code: a prefix of LLVM is set, or options only they take."""
    if hints and hints.get("llvm_options"):
        return True
    return env.codegen == "external" or (env.codegen == "auto" and env.llvm_dir is not None)


def requested(decorator_options: Mapping[str, object] | None, hints: Mapping[str, object] | None) -> bool:
    """Whether the decorator, the hints, the environment or `flyc.enable_pass` names any pass, or LLVM's programs."""
    for options in (hints, decorator_options):
        if options and any(options.get(name) is not None for name in NAMES):
            return True
    env = config.compile
    if (
        env.llvm_pass_pipeline
        or env.llvm_pass_plugins
        or env.llvm_codegen_passes
        or env.llvm_codegen_plugins
        or env.ir_passes
        or external_codegen(env, hints)
    ):
        return True
    registry = sys.modules.get("flydsl.compiler.build.user_passes")
    return registry is not None and bool(registry.enabled())
