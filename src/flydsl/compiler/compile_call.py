"""Tracing and building the code of a call, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .backends.base import BaseBackend
    from .build.artifact import CompiledArtifact
    from .call.bind import BoundCall
    from .key.code_key import WantedCode


def compile_call(
    name: str,
    function: Callable[..., object],
    call: BoundCall,
    backend: BaseBackend,
    wanted: WantedCode,
    key: str,
) -> CompiledArtifact:
    """Trace and build; a mistake in user code is shown at its line."""
    from .build.driver import compile_module
    from .frontend.error_notes import add_source_note
    from .frontend.trace_call import trace_call

    known = {
        "signature": [[name, repr(argument)] for name, argument in call.adapted.items()],
        "components": [list(c) for c in wanted.function.components],
    }
    try:
        traced = trace_call(name, function, call.arguments, backend, hints=wanted.hints, known=known)
        return compile_module(
            traced.name,
            traced.module,
            traced.kernels,
            backend,
            hints=wanted.hints,
            key=key,
            known=traced.known,
            times=traced.times,
            externs=traced.externs,
            custom=wanted.passes,
        )
    except Exception as error:
        add_source_note(error)
        raise
