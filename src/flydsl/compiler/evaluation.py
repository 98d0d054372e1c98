"""`flyc.evaluate`: what an expression of the language gives, run in a kernel of its own. For trying things out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, cast

from ..errors import DSLTypeError, DSLValueError
from ..expr.gpu import thread_idx
from ..expr.numeric import Boolean, Float32, Numeric, Uint8, scalar_or_none
from ..expr.structs import StructValue
from ..expr.tensor import Pointer, Tensor, recast_iter
from ..expr.tensors.algebra_values import IntTuple
from ..expr.vector import Vector
from .active_backend import resolve_backend
from .call.arguments import from_c_void_p
from .call.load import launch_place
from .jit_function import JitFunction, jit
from .kernel_function import kernel

SLOT = 16
"""Bytes of a result scalar, whatever its class."""
ROOM = 64 * 1024
"""Bytes for all results of all threads."""


_ARRAYS = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")
"""What tells an array from a compile-time value."""


class _Leaf(NamedTuple):
    """A run-time scalar of the result: where it was stored, and as what."""

    slot: int
    dtype: type[Numeric]


class _Results:
    """Takes a result apart while it is traced, and puts it together again from memory."""

    def __init__(self) -> None:
        self.scalars: list[Numeric] = []

    def shape(self, value: Any) -> Any:
        """The result with leaves for its run-time scalars; static parts stay as they are."""
        if isinstance(value, Tensor):
            value = value.load()
        if isinstance(value, Vector):
            return [self.shape(value[i]) for i in range(value.numel)]
        if isinstance(value, IntTuple):
            return value if value.is_static else self.shape(value.unpack())
        if isinstance(value, (list, tuple)):
            parts = [self.shape(v) for v in cast("Sequence[Any]", value)]
            return parts if isinstance(value, list) else tuple(parts)
        if isinstance(value, StructValue):
            return {name: self.shape(v) for name, v in vars(value).items()}
        if isinstance(value, (bool, int, float, str)) or value is None:
            return value
        number = scalar_or_none(value)
        if number is None:
            return value
        if number.is_static():
            return number.to(float if number.is_float else bool if isinstance(number, Boolean) else int)
        if number.dtype.numpy_dtype is None or number.width > 64:
            if number.is_integer:
                raise DSLTypeError(f"evaluate cannot show a run-time {number.dtype}; convert it to fx.Int64 first")
            number = number.to(Float32)
        self.scalars.append(number)
        return _Leaf(len(self.scalars) - 1, number.dtype)

    def store(self, out: Pointer) -> None:
        """Write the scalars of this thread."""
        base = thread_idx.x * (len(self.scalars) * SLOT)
        for i, number in enumerate(self.scalars):
            place = recast_iter(number.dtype, out + (base + i * SLOT))
            place.store(number)

    def read(self, shape: object, content: bytes, thread: int) -> object:
        if isinstance(shape, _Leaf):
            import numpy as np

            at = (thread * len(self.scalars) + shape.slot) * SLOT
            return np.frombuffer(content, shape.dtype.numpy_dtype, 1, at)[0].item()
        if isinstance(shape, dict):
            return {k: self.read(v, content, thread) for k, v in cast("dict[str, object]", shape).items()}
        if isinstance(shape, (list, tuple)):
            parts = [self.read(v, content, thread) for v in cast("Sequence[object]", shape)]
            return parts if isinstance(shape, list) else tuple(parts)
        return shape


def evaluate(function: Callable[..., Any], *args: Any, threads: int | None = None, target: str | None = None) -> Any:
    """Run a function as the body of a kernel and give its result as Python values.

    Python numbers and scalars of the language become run-time values, arrays become tensors; anything else is a
    compile-time value. A vector or tensor comes back as a list in the order of its elements, a tuple as a tuple, a
    layout as it is. With `threads` the block has as many and the result is a list, one entry for each thread. `target`
    is one this process can run: the cpu stack emulates GPUs, as `cpu:gfx942`.

    >>> evaluate(fx.exp2, 3.0)
    8.0
    >>> evaluate(lambda a, b: (a // b, a % b), 7, 2)
    (3, 1)
    >>> evaluate(lambda: fx.thread_idx.x * 10, threads=4)
    [0, 10, 20, 30]
    """
    if threads is not None and not 1 <= threads <= 1024:
        raise DSLValueError(f"evaluate runs one block of 1 to 1024 threads, got {threads}")
    traced: list[tuple[_Results, object]] = []
    body: object = function
    if isinstance(function, FunctionType) and function.__name__ != "<lambda>" and not _is_ours(function):
        body = jit(function)  # control flow on run-time values, as in a kernel
    numbers = [_is_number(a) or any(hasattr(a, name) for name in _ARRAYS) for a in args]

    def call(out: Pointer, given: Any) -> None:
        passed = iter(given)
        results = _Results()
        values = [next(passed) if run_time else a for a, run_time in zip(args, numbers, strict=True)]
        shape = results.shape(body(*values))
        if len(results.scalars) * SLOT * (threads or 1) > ROOM:
            raise DSLValueError(f"evaluate has room for {ROOM // SLOT} scalars, got {len(results.scalars)} per thread")
        results.store(out)
        traced.append((results, shape))

    launcher = _launcher(call, [i for i, run_time in enumerate(numbers) if run_time], threads or 1)
    content = _run(launcher, [a for a, run_time in zip(args, numbers, strict=True) if run_time], target)
    results, shape = traced[-1]
    if threads is None:
        return results.read(shape, content, 0)
    return [results.read(shape, content, thread) for thread in range(threads)]


def _is_ours(function: FunctionType) -> bool:
    return function.__module__.partition(".")[0] == "flydsl"


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float)) or isinstance(value, Numeric)


def _launcher(call: Callable[[Pointer, object], None], which: Sequence[int], threads: int) -> JitFunction:
    """A jit function of the output and the run-time arguments, made for their number."""
    names = [f"a{i}" for i in which]
    listed = "".join(f", {name}" for name in names)
    body = kernel(_function(f"def body(out{listed}):\n    call(out, [{', '.join(names)}])\n", {"call": call}))
    launch = f"def launch(out{listed}):\n    body(out{listed}).launch(grid=1, block={threads})\n"
    return jit(_function(launch, {"body": body}))


def _function(source: str, scope: dict[str, object]) -> FunctionType:
    """A function from text that the rewriter can read back."""
    import linecache

    name = f"<evaluate {abs(hash(source))}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope["__name__"] = __name__
    exec(compile(source, name, "exec"), scope)
    return next(v for v in scope.values() if isinstance(v, FunctionType) and v.__code__.co_filename == name)


def _run(launcher: JitFunction, args: Sequence[object], target: str | None) -> bytes:
    """Compile, run once and give what was written."""
    from ..runtime import get_device_runtime
    from .build.driver import compile_module
    from .frontend.error_notes import add_source_note
    from .frontend.trace_call import trace_call

    runtime = get_device_runtime()
    room = runtime.alloc(ROOM)
    try:
        call = launcher.bind((from_c_void_p(Uint8, room.ptr), *args), {})
        backend = resolve_backend(target)
        if (backend.runtime_kind or backend.name) != runtime.kind:
            raise DSLValueError(
                f"{target} needs the {backend.runtime_kind or backend.name} runtime, this is {runtime.kind}"
            )
        # Nothing of it is kept: the result's structure is known from tracing, which a cache would skip.
        try:
            traced = trace_call(launcher.__name__, launcher.rewritten.function, call.arguments, backend)
            artifact = compile_module(traced.name, traced.module, traced.kernels, backend, externs=traced.externs)
        except Exception as error:
            add_source_note(error)
            raise
        with launch_place(call.adapted):
            loaded = launcher.load(artifact, backend)
        loaded.call(list(call.adapted.values()))
        runtime.synchronize()
        content = bytearray(ROOM)
        room.copy_to(content)
        return bytes(content)
    finally:
        room.free()
