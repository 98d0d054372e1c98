"""The second step of a call: what decides its code, as a key in memory and on disk."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from ... import config
from ...expr.meta import tracing_options
from ...expr.scalars.fastmath import effective as ambient_fastmath
from ..backends._native_files import identity
from ..build import overrides
from ..build.pass_options import NAMES as PASS_NAMES
from ..build.pass_options import requested as passes_requested
from ..hints import ambient, merge
from .cache_key import digest
from .constant_keys import hint_key

if TYPE_CHECKING:
    from ..backends.base import BaseBackend
    from ..build.custom_passes import PassConfig
    from .function_key import FunctionKey


class WantedCode:
    """What decides the code of a call beside its arguments."""

    def __init__(
        self, memory_key: tuple[object, ...], function: FunctionKey, hints: dict[str, object], passes: PassConfig | None
    ):
        self.memory_key = memory_key
        self.function = function
        self.hints = hints
        self.passes = passes
        self.kept = True
        """Whether the code may answer other calls: not where tracing it again may give something else."""
        self.before: WantedCode | None = None
        """The call before, if its trace has led to the state of this one and the code of both is the same."""

    @cached_property
    def key(self) -> str:
        """The key of the code on disk."""
        return digest(self.memory_key)

    def renewed(self) -> WantedCode:
        """The same after the function's key has learned of more reads."""
        passes, before, *rest = self.memory_key
        now = self.function.digest
        return self if now == before else self.under((passes, now, *rest))

    def under(self, memory_key: tuple[object, ...]) -> WantedCode:
        """The same under another key."""
        made = WantedCode(memory_key, self.function, self.hints, self.passes)
        made.kept = self.kept
        return made

    def of(self, function: FunctionKey) -> WantedCode:
        """The same with the function's key as it is now."""
        return WantedCode(self.memory_key, function, self.hints, self.passes)


def wanted_code(
    function: FunctionKey,
    arguments: tuple[object, ...],
    backend: BaseBackend,
    hints: Mapping[str, object],
    more_hints: Mapping[str, object],
    pass_options: Mapping[str, object],
) -> WantedCode:
    """The key of a function for arguments of some kind, with hints from weak to strong."""
    merged = merge(hints, more_hints, ambient())
    passes = None
    if passes_requested(pass_options, merged):
        from ..build.custom_passes import resolve

        passes = resolve(pass_options, merged)
        merged = {name: value for name, value in merged.items() if name not in PASS_NAMES}
    key = (
        None if passes is None else passes.fingerprint(),
        function.digest,
        arguments,
        identity(backend),
        tuple(sorted((k, hint_key(v)) for k, v in merged.items())),
        str(ambient_fastmath()),
        tuple(sorted((k, hint_key(v)) for k, v in tracing_options().items())),
        _settings(config.environment_snapshot()),
        overrides.fingerprint(),
    )
    return WantedCode(key, function, merged, passes)


@lru_cache(maxsize=16)
def _settings(_environment: tuple[object, ...]) -> str:
    """A digest of the settings that shape code, which follow from the environment: it is asked more than it changes."""
    return digest(config.cache_relevant_env())
