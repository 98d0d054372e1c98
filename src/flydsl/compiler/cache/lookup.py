"""Finding and keeping the code of a call on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ... import config
from ...errors import CacheWarning, DSLRuntimeError, DSLValueError
from ...target.compatibility import others_that_fit, runs_on
from ..build.step_times import timed_step
from ..key.function_key import FunctionKey, changed_components
from . import default_cache

if TYPE_CHECKING:
    from ..backends.base import BaseBackend
    from ..build.artifact import CompiledArtifact
    from ..build.custom_passes import PassConfig
    from ..key.code_key import WantedCode


def find(key: str) -> CompiledArtifact | None:
    """The code under a key, where the settings allow to take it from disk."""
    dumping = config.debug.dump_ir or config.debug.dump_asm
    if dumping and config.runtime.run_only:
        raise DSLValueError("FLYDSL_DUMP_IR and FLYDSL_RUNTIME_RUN_ONLY contradict each other: a dump compiles")
    cache = default_cache()
    return cache.get(key) if cache.enabled and not config.compile.always and not dumping else None


def may_be_there(key: str) -> bool:
    """Whether looking for a key again can find something: a file has come, or a store is asked."""
    cache = default_cache()
    return bool(cache.settings.store) or cache.contains(key)


def find_current(wanted: WantedCode) -> tuple[CompiledArtifact | None, WantedCode]:
    """The code of a key whose reads from outside are as they were, and the key with these reads.

    An entry made from other reads tells which they are: code for those of now is under a key that they are part of.
    """
    while True:
        found = find(wanted.key)
        if found is None:
            return None, wanted
        reads = {(kind, name): held for kind, name, held in found.metadata.get("reads", ())}
        more = wanted.function.note_outside(reads)
        holds = all(wanted.function.outside[read] == held for read, held in reads.items())
        if reads:
            wanted = wanted.renewed()
        if holds or not more:
            return (found if holds else None), wanted


def find_fitting(wanted: WantedCode, backend: BaseBackend) -> CompiledArtifact | None:
    """Code that was made for another target and runs on this one, for a process that must not compile."""
    from ..backends import backend_for_target
    from ..backends._native_files import identity

    mine = identity(backend)
    for target in others_that_fit(backend.target):
        theirs = identity(backend_for_target(target, name=backend.name))
        other = tuple(theirs if part == mine else part for part in wanted.memory_key)
        found, _ = find_current(wanted.under(other))
        if found is not None and runs_on(target, backend.target, assembled="cubin" in found.sections):
            return found
    return None


def with_texts(artifact: CompiledArtifact, compile_again: Callable[[], CompiledArtifact]) -> CompiledArtifact:
    """An artifact from disk holds what is needed to run it; texts for people are made again when asked for."""

    def make(section: str) -> str:
        return compile_again().text(section)

    return artifact.with_lazy(**{name: partial(make, name) for name in ("fly", "asm", "llvm_opt")})


def store(key: str, name: str, qualname: str, artifact: CompiledArtifact, passes: PassConfig | None) -> None:
    """Keep code for other processes."""
    # Made without the passes that were asked for, or with one that cannot be told from another: not for others.
    notes = artifact.metadata.get("notes", {})
    if "memory_only" in notes:
        config.warn(f"{qualname} is not kept on disk: {notes['memory_only']}", CacheWarning)
    elif "fallback" not in notes and (passes is None or passes.cacheable):
        with timed_step(name, "cache write"):
            # With reads, an entry that is there may have been made from others.
            overwrite = config.compile.always or bool(artifact.metadata.get("reads"))
            default_cache().put(key, artifact, overwrite=overwrite)


def run_only_miss(key: str, name: str, qualname: str, function: FunctionKey) -> DSLRuntimeError:
    """Why a process that must not compile has nothing to run."""
    from . import entries

    cache = default_cache()
    nearest = ""
    for entry in entries(function=name):
        theirs = cache.get(entry.key)
        if theirs is not None:
            changed = changed_components(function.components, theirs.metadata.get("components", ()))
            parts = ", ".join(f"{n} ({kind})" for n, kind in changed) or "the arguments, target or settings"
            nearest = f"; the nearest entry {entry.key[:12]} differs in {parts}"
            break
    return DSLRuntimeError(
        f"{qualname} is not in the cache, and FLYDSL_RUNTIME_RUN_ONLY forbids compiling it: "
        f"function key {function.digest[:12]}, key {key[:12]}, cache {cache.root}{nearest}"
    )
