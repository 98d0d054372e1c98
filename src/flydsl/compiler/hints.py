"""Compile hints and where they come from: decorator, `flyc.compile[...]`, and a context around calls."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING

from ..errors import DSLRuntimeError, DSLTypeError
from ..expr.emit.trace import maybe_current
from .key.changes import changes

if TYPE_CHECKING:
    from .._mlir.blocks import Block
    from .._mlir.operations import OperationBase
    from .frontend.tracing import HostFrame

ambient_hints: ContextVar[tuple[tuple[str, object], ...]] = ContextVar("flydsl_hints", default=())


class HintTable(MutableMapping[str, object]):
    """The hints of a function. Calls that do not look at them are told of a change by its count."""

    def __init__(self, hints: Mapping[str, object] | None = None):
        self._hints = dict(hints or {})

    def __getitem__(self, name: str) -> object:
        return self._hints[name]

    def __setitem__(self, name: str, value: object) -> None:
        self._hints[name] = value
        changes.count += 1

    def __delitem__(self, name: str) -> None:
        del self._hints[name]
        changes.count += 1

    def __iter__(self) -> Iterator[str]:
        return iter(self._hints)

    def __len__(self) -> int:
        return len(self._hints)

    def __repr__(self) -> str:
        return repr(self._hints)


def merge(*layers: Mapping[str, object]) -> dict[str, object]:
    """Layers from weakest to strongest; a value of None says nothing."""
    merged: dict[str, object] = {}
    for layer in layers:
        merged.update({k: v for k, v in layer.items() if v is not None})
    return merged


def ambient() -> dict[str, object]:
    """Hints of the contexts around this call."""
    return dict(ambient_hints.get())


def _traced() -> HostFrame:
    """The jit function being traced."""
    tracer = maybe_current()
    if tracer is None:
        raise DSLRuntimeError("there is a module of kernels while a @flyc.jit function is traced, and none is")
    return tracer.functions[0]


class CompilationContext:
    """Settings for compilations started inside a `with` block.

    >>> from flydsl.compiler import CompilationContext
    >>> with CompilationContext.compile_hints({"maxnreg": 64}):
    ...     ambient()
    {'maxnreg': 64}
    """

    @staticmethod
    @contextmanager
    def compile_hints(hints: Mapping[str, object]) -> Generator[None]:
        """Add hints; nested contexts merge, the inner one wins."""
        if not isinstance(hints, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"compile_hints takes a dict of hints, got {hints!r}")
        token = ambient_hints.set(tuple(merge(ambient(), hints).items()))
        try:
            yield
        finally:
            ambient_hints.reset(token)

    @staticmethod
    def get_compile_hints() -> dict[str, object]:
        """The hints of the contexts around this call."""
        return ambient()

    @staticmethod
    def get_current() -> CompilationContext | None:
        """The compilation whose function is being traced; None outside a trace."""
        return None if maybe_current() is None else CompilationContext()

    @staticmethod
    @contextmanager
    def create() -> Generator[CompilationContext]:
        """A block in which compilations belong together; every trace has one of its own."""
        yield CompilationContext()

    @staticmethod
    def add_link_lib(path: str) -> None:
        """Link a bitcode library with the kernels being traced."""
        tracer = maybe_current()
        if tracer is None:
            raise DSLRuntimeError("add_link_lib needs a trace: call it in a @flyc.jit or @flyc.kernel function")
        from ..expr.extern import Library

        tracer.functions[0].externs.use(Library.read(path, path))

    @property
    def gpu_module_body(self) -> Block:
        """The block that the kernels are in, as `flydsl._mlir.ir` has blocks."""
        return import_module("flydsl._mlir.blocks").Block(_traced().device)

    @property
    def gpu_module_op(self) -> OperationBase | None:
        """The `gpu.module` of the kernels, as `flydsl._mlir.ir` has operations."""
        return self.gpu_module_body.owner

    @property
    def kernel_counter(self) -> int:
        """How many kernels were launched so far."""
        return len(_traced().kernels)

    def next_kernel_id(self) -> int:
        """A number that no other kernel of this process got from here."""
        return next(_kernel_ids)

    @staticmethod
    def unique_kernel_name(base_name: str, kernel_id: int) -> str:
        """A symbol for a kernel: its name and a number."""
        return f"{base_name}_{kernel_id}"


_kernel_ids = itertools.count()
merge_compile_hints = merge
