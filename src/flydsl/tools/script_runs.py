"""Running a user's script for what it compiles: each jit function it calls, without launching anything."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from flydsl.debug.program import as_program, environment
from flydsl.errors import FlyDSLError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from flydsl.compiler.build.artifact import CompiledArtifact


S = TypeVar("S")


class Compiled(NamedTuple, Generic[S]):
    """What came of a jit function that a script called."""

    artifact: CompiledArtifact
    stages: list[tuple[str, S]]
    """Name and module of each stage, as far as `watch` keeps them."""


def target_variables(target: str | None) -> Mapping[str, str]:
    """The variables that choose a target written as `backend:arch`; none leave the active one."""
    if target is None:
        return {}
    from flydsl.target import GPUTarget

    parsed = GPUTarget.parse(target)
    arch = ":".join((parsed.arch, *(f"{f[1:]}{f[0]}" for f in parsed.features)))
    return {"FLYDSL_COMPILE_BACKEND": parsed.backend, "FLYDSL_COMPILE_ARCH": arch}


def compiled_by(
    script: Path, target: str | None, arguments: Sequence[str] = (), watch: Callable[[str, ModuleOp], S] | None = None
) -> list[Compiled[S]]:
    """What a script compiles for a target; `watch(name, module)` may turn each stage into what is kept of it."""
    from flydsl.compiler.build.dumps import watching
    from flydsl.compiler.listeners import compile_listener

    made: list[Compiled[S]] = []
    stages: list[tuple[str, S]] = []

    def keep(name: str, module: ModuleOp) -> None:
        if name == "origin":
            stages.clear()
        if watch is not None:
            stages.append((name, watch(name, module)))

    def done(name: str, key: str, target: str, times: object, cache_hit: bool, artifact: CompiledArtifact) -> None:
        made.append(Compiled(artifact, list(stages)))

    # What is stored would not be compiled, and so not be seen.
    seen = {"FLYDSL_COMPILE_ONLY": "1", "FLYDSL_COMPILE_ALWAYS": "1"}
    with (
        environment(**seen, **target_variables(target)),
        as_program(script, arguments),
        compile_listener(done),
        watching(keep) if watch is not None else nullcontext(),
    ):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except FlyDSLError:
            raise
        except Exception as error:  # noqa: BLE001 - the script works on results that were not computed
            if not made:
                raise
            first = (str(error).strip().splitlines() or [""])[0]
            print(f"{script}: stopped after compiling: {type(error).__name__}: {first}", file=sys.stderr)
        except SystemExit as stop:
            if stop.code and not made:
                raise
    return made
