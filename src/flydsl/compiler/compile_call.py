"""Tracing and building the code of a call, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .backends.base import BaseBackend
    from .build.artifact import CompiledArtifact
    from .call.bind import BoundCall
    from .frontend.trace_call import Traced
    from .key.code_key import WantedCode


def compile_call(
    name: str,
    function: Callable[..., object],
    call: BoundCall,
    backend: BaseBackend,
    wanted: WantedCode,
    key: str,
    traced_before: dict[str, CompiledArtifact] | None = None,
) -> CompiledArtifact:
    """Trace and build; a mistake in user code is shown at its line.

    With `traced_before` code is built only where no trace before gave the same IR.
    """
    from ..ir.format_on_use import formats_on_use

    with formats_on_use():
        from .build.driver import compile_module
        from .frontend.error_notes import add_source_note
        from .frontend.trace_call import trace_call

    known = {
        "signature": [[name, repr(argument)] for name, argument in call.adapted.items()],
        "components": [list(c) for c in wanted.function.components],
    }
    try:
        traced = trace_call(
            name, function, call.arguments, backend, hints=wanted.hints, known=known, key=wanted.function
        )
        wanted.function.note_outside(traced.outside.found, traced.outside.unrepeatable, traced=True)
        text = ""
        if traced_before is not None:
            text = _text(traced, wanted)
            if text in traced_before:
                return traced_before[text]
        with formats_on_use():  # stacks import their rules while they build
            made = compile_module(
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
        if traced_before is not None:
            traced_before[text] = made
        return made
    except Exception as error:
        add_source_note(error)
        raise


def _text(traced: Traced, wanted: WantedCode) -> str:
    """A digest of what a trace gave."""
    from ..ir.printer import print_ir
    from .key.cache_key import digest

    linked = [(library.path, library.digest) for library in traced.externs.libraries.values()]
    return digest((wanted.key, print_ir(traced.module), linked))
