"""The trace in progress, if any. Light: importing it loads neither xDSL nor the dialects.

While a function is traced, `current()` gives the `Tracer`, whose methods append operations. Values of the language call
it and nothing else, so the classes an author writes in annotations can be imported without a compiler.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from ...errors import DSLRuntimeError

if TYPE_CHECKING:
    from ...target import GPUTarget
    from .tracer import Tracer

active: ContextVar[Tracer | None] = ContextVar("flydsl_trace", default=None)


def maybe_current() -> Tracer | None:
    """The tracer at work in this context, or None."""
    return active.get()


def current() -> Tracer:
    """The tracer at work in this context; an error outside a traced function."""
    tracer = active.get()
    if tracer is None:
        raise DSLRuntimeError(
            "no active trace: DSL values can only be built inside a @flyc.jit or @flyc.kernel function; to try "
            "something out, flyc.evaluate(lambda: ...) runs it as a kernel"
        )
    return tracer


def trace_target() -> GPUTarget | None:
    """What the trace compiles for; None outside a trace."""
    tracer = maybe_current()
    if tracer is None:
        return None
    for function in tracer.functions:
        target = getattr(function, "target", None)
        if target is not None:
            return target
    return None
