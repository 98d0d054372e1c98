"""The second step of a call: what decides its code, as a key in memory and on disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

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
    from .dependencies import FunctionKey


class WantedCode(NamedTuple):
    """What decides the code of a call beside its arguments."""

    memory_key: tuple[object, ...]
    function: FunctionKey
    hints: dict[str, object]
    passes: PassConfig | None

    def key(self) -> str:
        """The key of the code on disk."""
        return digest(self.memory_key)

    def renewed(self) -> WantedCode:
        """The same after the function's key has learned of more reads."""
        passes, _, *rest = self.memory_key
        return self._replace(memory_key=(passes, self.function.digest, *rest))


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
        config.cache_relevant_env(),
        overrides.fingerprint(),
    )
    return WantedCode(key, function, merged, passes)
