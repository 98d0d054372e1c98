"""The public name of `flydsl.config`: `env.compile`, `env.debug`, `env.runtime`, `env.cpu`."""

from flydsl.config import (
    GROUPS,
    cache_relevant_env,
    compile,
    cpu,
    debug,
    describe,
    environment_snapshot,
    runtime,
    system,
)

__all__ = [
    "GROUPS",
    "cache_relevant_env",
    "compile",
    "cpu",
    "debug",
    "describe",
    "environment_snapshot",
    "runtime",
    "system",
]
