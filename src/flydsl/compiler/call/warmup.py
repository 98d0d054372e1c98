"""`flyc.warmup`: compile and load many signatures before they are needed, in parallel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import cast

from ... import config
from ...errors import DSLTypeError, DSLValueError
from ..active_backend import resolve_backend
from ..compiled_function import CompiledFunction
from ..jit_function import JitFunction
from .arguments import TensorArgument
from .load import launch_place
from .specs import SPEC_DEVICE


def warmup(
    what: JitFunction | Iterable[tuple[JitFunction, Sequence[object]]],
    arguments: Iterable[Sequence[object]] | None = None,
    *,
    workers: int | None = None,
    load: bool = True,
) -> list[CompiledFunction]:
    """Compile for every list of arguments (arrays, numbers or specs) and load the code on the current device.

    `warmup(fn, [args, ...])`, or `warmup([(fn, args), ...])` for several functions. `workers` (default
    FLYDSL_COMPILE_JOBS) compilations run at once, their code generation in worker processes. Gives the compiled
    functions in order. If some fail, the others are finished first and the first failure is raised.

    >>> from flydsl.kernels.vector_add import vector_add
    >>> x = flyc.TensorSpec((1024,), "float32")
    >>> len(flyc.warmup(vector_add, [(x, x, x)], workers=1))
    1
    """
    jobs = _jobs(what, arguments)
    count = config.compile.jobs if workers is None else workers
    if count < 1:
        raise DSLValueError(f"warmup needs at least one worker, got workers={count}")
    if count == 1 or len(jobs) < 2:
        return [_one(fn, args, load, parallel=False) for fn, args in jobs]
    with ThreadPoolExecutor(min(count, len(jobs)), "flydsl-warmup") as pool:
        # Hints and flags of the caller's context hold in the threads as well.
        started = [pool.submit(copy_context().run, _one, fn, args, load, True) for fn, args in jobs]
    return [each.result() for each in started]


def _jobs(
    what: JitFunction | Iterable[tuple[JitFunction, Sequence[object]]], arguments: Iterable[Sequence[object]] | None
) -> list[tuple[JitFunction, tuple[object, ...]]]:
    pairs = [(what, args) for args in arguments] if arguments is not None else list(cast("Iterable[object]", what))
    return [_job(pair) for pair in pairs]


def _job(pair: object) -> tuple[JitFunction, tuple[object, ...]]:
    """One function with its arguments, as the caller should have given them."""
    parts = list(cast("Sequence[object]", pair)) if isinstance(pair, (tuple, list)) else []
    if len(parts) != 2:
        raise DSLTypeError(f"flyc.warmup takes pairs of a function and its arguments, got {pair!r}")
    fn, args = parts
    if not isinstance(fn, JitFunction):
        raise DSLTypeError(f"flyc.warmup expects @flyc.jit functions, got {fn!r}")
    if not isinstance(args, (tuple, list)):
        raise DSLTypeError(f"flyc.warmup takes the arguments of a call as a tuple or list, got {args!r}")
    return fn, tuple(cast("Sequence[object]", args))


def _one(fn: JitFunction, args: tuple[object, ...], load: bool, parallel: bool) -> CompiledFunction:
    from ..build.isolation import generating_elsewhere

    backend = resolve_backend(None)
    call = fn.bind_given(args)
    with generating_elsewhere(parallel):
        artifact = fn.artifact(call, backend)
    compiled = CompiledFunction(fn, call, artifact, backend)
    if load and not config.compile.compile_only:
        tensors = [a for a in call.adapted.values() if isinstance(a, TensorArgument)]
        # Arrays say where they are; what stands for one does not.
        if any(tensor.info.device == SPEC_DEVICE for tensor in tensors):
            fn.load(artifact, backend)
        else:
            with launch_place(call.adapted):
                fn.load(artifact, backend)
    return compiled
