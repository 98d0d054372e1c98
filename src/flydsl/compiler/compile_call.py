"""Tracing and building the code of a call, one after the other.

A trace may use up what it reads: the next number of an iterator, the last item of a list. Its code is that of one call,
and the next one is traced again, but built only where it gives something else than traces before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..config import keeps_places
from .cache import lookup

if TYPE_CHECKING:
    from .backends.base import BaseBackend
    from .build.artifact import CompiledArtifact
    from .call.bind import BoundCall
    from .frontend.trace_call import Traced
    from .key.code_key import WantedCode


class Step(NamedTuple):
    """A trace that has changed what it reads: code of the state it found, and the state it left."""

    wanted: WantedCode
    text: str
    left: object


class Traces:
    """What the traces of one function gave that must be traced again."""

    def __init__(self) -> None:
        self.built: dict[str, CompiledArtifact] = {}
        self.last: Step | None = None
        """The last one that changed what it reads."""

    def clear(self) -> None:
        self.built.clear()
        self.last = None


def compile_call(
    name: str,
    function: Callable[..., object],
    call: BoundCall,
    backend: BaseBackend,
    wanted: WantedCode,
    key: str,
    traces: Traces,
) -> CompiledArtifact:
    """Trace and build; a mistake in user code is shown at its line.

    `wanted.kept` then tells whether the code may answer other calls.
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
        text = _note_state(traced, wanted, call, traces)
        problems = wanted.function.problems + call.problems
        if wanted.before is not None or not wanted.kept:
            made = traces.built.get(text) or (None if problems else lookup.find(text))
            if made is not None:
                traces.built[text] = made
                return made
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
        if not wanted.kept:
            traces.built[text] = made
            if not problems:
                lookup.store(text, name, name, made, wanted.passes)
        return made
    except Exception as error:
        add_source_note(error)
        raise


def _note_state(traced: Traced, wanted: WantedCode, call: BoundCall, traces: Traces) -> str:
    """Tell whether the code of a trace may be kept; gives the digest of what the trace gave where that is asked for.

    A trace that fills a memo changes what it reads as well. The next one, which finds it filled, changes nothing and
    gives the same: then the code may be kept of both.
    """
    before, after = _state(wanted, call, walked=True), _state(wanted, call, walked=False)
    changed = after != before or traced.outside.drawn
    wanted.kept = not (changed or wanted.function.problems or call.problems)
    last, traces.last = traces.last, None
    text = _text(traced, wanted, call) if last is not None or not wanted.kept else ""
    if traced.outside.drawn or traced.outside.found or wanted.function.outside:
        return text  # what an artifact says of its reads is of one trace
    if changed:
        traces.last = Step(wanted, text, after)
    elif last is not None and wanted.kept and (last.text, last.left) == (text, before):
        wanted.before = last.wanted
    return text


def _state(wanted: WantedCode, call: BoundCall, *, walked: bool) -> object:
    """What the function and its compile-time objects were when they were walked, or are now."""
    if walked:
        return wanted.function.now.digest, None if call.told is None else call.told.digest
    values = {name: call.given[name] for name in call.objects}
    held = call.told is None or call.told.holds()
    now = call.told if held else wanted.function.with_values(values)
    return wanted.function.after(), None if now is None else now.digest


def _text(traced: Traced, wanted: WantedCode, call: BoundCall) -> str:
    """A digest of what a trace gave, and of all that shapes code beside it."""
    from ..ir.printer import print_ir
    from .key.cache_key import digest
    from .key.product import environment_components

    linked = [(library.path, library.digest) for library in traced.externs.libraries.values()]
    passes, _, _, *around = wanted.memory_key
    plain = call.key if call.told is None else call.key[:-1]
    text = print_ir(traced.module, debuginfo=keeps_places())
    ours = [tuple(component) for component in environment_components()]
    return digest(("trace", passes, around, plain, ours, text, linked))
