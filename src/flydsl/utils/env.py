"""The public name of `flydsl.config`: `env.compile`, `env.debug`, `env.runtime`, `env.cpu`, `env.ktrace` ..."""

from flydsl.config import (
    GROUPS,
    autotune,
    cache_relevant_env,
    compile,
    cpu,
    debug,
    describe,
    environment_snapshot,
    ktrace,
    runtime,
    system,
)

__all__ = [
    "GROUPS", "autotune", "cache_relevant_env", "compile", "cpu", "debug", "describe", "environment_snapshot", "ktrace",
    "runtime", "system",
]  # fmt: skip
