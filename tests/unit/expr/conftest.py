"""Fixtures: traces without a device."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest


def trace_text(function: Any, *args: Any, target: str = "rocm:gfx942") -> str:
    """The verified IR of a jit function for these arguments, as text."""
    from flydsl.compiler.frontend.tracing import trace_host
    from flydsl.ir.printer import print_ir
    from flydsl.target import GPUTarget

    call = function.bind(args, {})
    module, *_ = trace_host(function.__name__, function.rewritten.function, call.arguments, GPUTarget.parse(target))
    module.verify()
    return print_ir(module, hints=True)


@pytest.fixture
def traced() -> Callable[..., str]:
    return trace_text


@pytest.fixture
def in_kernel() -> Callable[..., str]:
    """Runs a plain function as the body of a kernel, with one float pointer; gives the IR."""

    def run(body: Callable[[Any], None], target: str = "rocm:gfx942", block: int = 64) -> str:
        import flydsl.compiler as flyc
        import flydsl.expr as fx

        @flyc.kernel
        def kernel(p: fx.Pointer):
            body(p)

        @flyc.jit
        def launch(p: fx.Pointer):
            kernel(p).launch(block=block)

        return trace_text(launch, flyc.from_c_void_p(fx.Float32, 0), target=target)

    return run


@pytest.fixture
def host_trace() -> Iterator[Any]:
    """A trace in progress outside any kernel."""
    from xdsl.ir import Block

    from flydsl.expr.emit import trace
    from flydsl.expr.emit.tracer import Tracer

    tracer, block = Tracer(), Block()
    with tracer.open_function(block):
        token = trace.active.set(tracer)
        yield tracer
        trace.active.reset(token)
