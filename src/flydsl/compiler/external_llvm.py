"""The functions of FlyDSL's own custom-pass support under their names there, for code that calls them.

They are `custom_passes.resolve` and `run_flow` with fewer choices; new code uses those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from flydsl.compiler.build.custom_passes import PassConfig, resolve, run_flow
from flydsl.errors import DSLValueError

if TYPE_CHECKING:
    from flydsl.compiler.backends.base import BaseBackend, DeviceBinary


def _config(**options: object) -> PassConfig:
    # Nothing of the environment: every level below the given one is switched off.
    off: dict[str, object] = {
        "llvm_pass_pipeline": "",
        "llvm_codegen_passes": [],
        "llvm_codegen_plugins": [],
        "ir_passes": [],
    }
    found = resolve(off, options)
    if found is None:
        raise DSLValueError("no pass was named")
    return found


def run_llvm_opt_then_binary(
    llvm_ir: str,
    backend: BaseBackend,
    *,
    pipeline: str,
    plugins: Iterable[object] = (),
    compile_hints: Mapping[str, object] | None = None,
) -> DeviceBinary:
    """Run a pipeline over LLVM IR, then generate and link code."""
    config = _config(llvm_pass_pipeline=pipeline, llvm_pass_plugins=list(plugins))
    return run_flow(llvm_ir, backend, backend.parse_options(compile_hints), config)


def run_fly_llc_codegen(
    llvm_ir: str,
    backend: BaseBackend,
    *,
    passes: object,
    plugins: Iterable[object] = (),
    compile_hints: Mapping[str, object] | None = None,
) -> DeviceBinary:
    """Generate code with machine passes, then link it."""
    config = _config(llvm_codegen_passes=passes, llvm_codegen_plugins=list(plugins))
    return run_flow(llvm_ir, backend, backend.parse_options(compile_hints), config)


def llvm_opt_fingerprint(pipeline: str, plugins: Iterable[object] = ()) -> str:
    """What a pipeline and its plugins contribute to a cache key; empty for no pipeline."""
    return _config(llvm_pass_pipeline=pipeline, llvm_pass_plugins=list(plugins)).fingerprint() if pipeline else ""


def fly_llc_codegen_fingerprint(passes: object, plugins: Iterable[object] = ()) -> str:
    """What machine passes and their plugins contribute to a cache key; empty for none."""
    return _config(llvm_codegen_passes=passes, llvm_codegen_plugins=list(plugins)).fingerprint() if passes else ""
