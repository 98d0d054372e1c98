"""`flyc.compile` and what it gives: a jit function for one signature."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from .. import config
from ..errors import DSLRuntimeError, DSLTypeError, DSLValueError
from ..target import on_host
from ..target.compatibility import runs_on
from .active_backend import resolve_backend
from .build.collector import collector_off
from .call.arguments import PointerArgument, TensorArgument
from .call.bind import BoundCall
from .call.load import launch_place
from .call.placement import check_capture
from .call.prepared import PreparedLaunch
from .call.specs import ScalarSpec, TensorSpec
from .call.warm import Served
from .call.warm_calls import WarmCalls
from .diagnostics import user_frames_only
from .jit_function import JitFunction

if TYPE_CHECKING:
    from .backends.base import BaseBackend
    from .build.artifact import CompiledArtifact
    from .call.dispatch import LoadedFunction
    from .frontend.signature import Signature


class CompiledFunction:
    """A jit function compiled for one signature; call it with arguments of that signature.

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> x = np.arange(4, dtype="f4")
    >>> compiled = flyc.compile(scale, x, 2.0, run=False)
    >>> compiled(x, 10.0)
    >>> x
    array([ 0., 10., 20., 30.], dtype=float32)
    """

    def __init__(self, function: JitFunction, call: BoundCall, artifact: CompiledArtifact, backend: BaseBackend):
        self._function = function
        self._key = call.key
        self.artifact = artifact
        self._backend = backend
        self._warm = WarmCalls(function.signature)
        self._repeat: Served | None = None
        named = call.adapted.items()
        self._pointers = {name: a for name, a in named if isinstance(a, PointerArgument)}
        """Parameters that are addresses; what they point to is known, so that a later call may give the number."""

    @property
    def signature(self) -> Signature:
        """The parameters of the jit function."""
        return self._function.signature

    def __call__(self, *args: object) -> None:
        repeat = self._repeat
        if repeat is not None:
            try:
                if repeat(*args):
                    return
            except TypeError as error:
                # Arguments that do not fit the parameters: said below. From inside it would come after a launch.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
        served = self._warm.serve(args, {}) if self._function.owner is None else None
        if served is not None:
            self._repeat = served
            return
        with user_frames_only():
            self._cold_call(args)

    def _cold_call(self, args: tuple[object, ...]) -> None:
        function = self._function
        call = self._bind(args)
        active = resolve_backend(None)
        made_for = self._backend.target
        if not runs_on(made_for, active.target, assembled="cubin" in self.artifact.sections):
            raise DSLTypeError(
                f"{function.__qualname__} was compiled for {made_for.key()}, "
                f"but this process runs {active.target.key()}"
            )
        if config.compile.compile_only:
            raise DSLRuntimeError("compile-only mode: the compiled function has an artifact but cannot be called")
        loaded = self.launch(call)
        if function.owner is None:
            self._repeat = self._warm.learn(call.key, args, {}, call, loaded, None) or self._repeat

    def launch(self, call: BoundCall) -> LoadedFunction:
        """Run it for arguments that are bound already."""
        loaded = self._load(call)
        loaded.call(list(call.adapted.values()))
        return loaded

    def _bind(self, args: tuple[object, ...]) -> BoundCall:
        call = self._function.bind_given(self._typed(args) if self._pointers else args)
        if call.key != self._key:
            raise DSLTypeError(
                f"{self._function.__qualname__} was compiled for another signature: expected {self._key}, "
                f"got {call.key}"
            )
        return call

    def _typed(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """The arguments, with bare addresses as pointers of the type the function was compiled for."""
        names = list(self._function.signature.parameters)[0 if self._function.owner is None else 1 :]
        typed: list[object] = []
        for name, given in zip(names, args, strict=False):
            like = self._pointers.get(name)
            address = given.value or 0 if isinstance(given, ctypes.c_void_p) else given
            if like is not None and isinstance(address, int) and not isinstance(address, bool):
                given = PointerArgument(like.dtype, address, like.space, like.align)
            typed.append(given)
        return (*typed, *args[len(typed) :])

    def _load(self, call: BoundCall) -> LoadedFunction:
        function = self._function
        with launch_place(call.adapted) as runtime:
            before = partial(check_capture, call.adapted, runtime, function.__qualname__)
            return function.load(self.artifact, self._backend, before)

    def prepare(self, *args: object, stream: object = None) -> PreparedLaunch:
        """Check and marshal these arguments once; `launch()` then repeats the call at next to no cost."""
        function = self._function
        call = self._bind(args)
        method = function.owner is not None
        return PreparedLaunch(self._load(call), call, function.signature, stream, method=method)

    def max_blocks_per_cu(self) -> int:
        """Blocks of its kernel that fit on a compute unit of the current device at once; nothing is launched.

        For a function with one kernel, launched with a block size that is known while it is traced.

        >>> @flyc.kernel
        ... def clear_kernel(x: fx.Tensor):
        ...     x[fx.thread_idx.x] = 0.0
        >>> @flyc.jit
        ... def clear(x: fx.Tensor):
        ...     clear_kernel(x).launch(grid=1, block=64)
        >>> flyc.compile(clear, np.zeros(64, "f4"), run=False).max_blocks_per_cu()
        1
        """
        kernels = self.artifact.metadata["kernels"]
        sizes = [kernel.get("block") for kernel in kernels]
        if len(kernels) != 1 or sizes[0] is None:
            names = ", ".join(kernel["name"] for kernel in kernels)
            raise DSLValueError(
                f"max_blocks_per_cu is for a function with one kernel of a known block size; "
                f"{self._function.__qualname__} launches {names}"
            )
        loaded = self._function.load(self.artifact, self._backend)
        dynamic = kernels[0].get("dynamic_smem") or 0
        return loaded.runtime.max_active_blocks(loaded.functions[0], math.prod(sizes[0]), dynamic)

    def __reduce__(self) -> NoReturn:
        raise DSLTypeError(
            f"{self!r} holds code that is loaded into this process and is not pickled; send the jit function, which is "
            "pickled by reference, or the code itself, .artifact"
        )

    def __repr__(self) -> str:
        return f"<compiled {self._function.__qualname__} for {self._backend.target.key()}>"

    def _repr_html_(self) -> str:
        return self.artifact._repr_html_()  # pyright: ignore[reportPrivateUsage] - the protocol of notebooks


class CompileCallable:
    """`flyc.compile(func, *args, target=None, run=None)` and `flyc.compile[hints](func, *args)`.

    Given real arrays for the active target, the compiled code runs once, so that outputs hold the first result. Nothing
    runs with `run=False`, with a `target`, for stand-ins such as `flyc.TensorSpec`, for arrays of another memory (host
    arrays on a GPU stack) and in compile-only mode.

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> x = np.arange(4, dtype="f4")
    >>> flyc.compile(scale, x, 2.0).artifact.target.backend
    'cpu'
    >>> x
    array([0., 2., 4., 6.], dtype=float32)
    >>> flyc.compile[{"maxnreg": 64}](scale, x, 2.0, target="cuda:sm_90").artifact.metadata["hints"]
    {'maxnreg': 64}
    """

    def __init__(self, compile_hints: Mapping[str, object] | None = None):
        self._hints = dict(compile_hints or {})

    def __getitem__(self, hints: Mapping[str, object]) -> CompileCallable:
        if not isinstance(hints, dict):
            raise DSLTypeError(f"flyc.compile[...] takes a dict of hints, got {hints!r}")
        return CompileCallable({**self._hints, **hints})

    def __call__(
        self,
        func: JitFunction,
        *args: object,
        target: str | None = None,
        run: bool | None = None,
        run_first: bool | None = None,
        **kwargs: object,
    ) -> CompiledFunction:
        """Compile `func` for arguments like these, and run it once where they are real arrays of the active target.

        `run_first` is `run` under the name it had before.
        """
        with user_frames_only():
            return self._compile(func, args, kwargs, target, run_first if run is None else run)

    def _compile(
        self, fn: object, args: tuple[object, ...], kwargs: dict[str, object], target: str | None, run: bool | None
    ) -> Any:
        if not isinstance(fn, JitFunction):
            raise DSLTypeError(f"flyc.compile expects a @flyc.jit function, got {fn!r}")
        if run and target is not None:
            raise DSLTypeError("flyc.compile(..., run=True) runs on the active target; leave target= out")
        if not args and not kwargs and self._hints and target is None:
            fn.add_hints(self._hints)
            return fn
        call = fn.bind_given(args, kwargs)
        backend = resolve_backend(target)
        with collector_off():
            compiled = CompiledFunction(fn, call, fn.artifact(call, backend, self._hints), backend)
        given = (*args, *kwargs.values())
        if run if run is not None else (target is None and _can_run(call, given, backend)):
            if kwargs:
                compiled.launch(call)
            else:
                compiled(*args)
        return compiled


def _can_run(call: BoundCall, given: tuple[object, ...], backend: BaseBackend) -> bool:
    """Whether a call holds what the active stack could run it on; asks no driver.

    Addresses count as real. A GPU is not asked to run a call that names no memory at all: there may be no GPU.
    """
    if config.compile.compile_only or any(isinstance(x, (TensorSpec, ScalarSpec)) for x in given):
        return False
    kind = backend.runtime_kind or backend.name
    host = on_host(kind)
    places = [a.info.device for a in call.adapted.values() if isinstance(a, TensorArgument)]
    if any(place != kind and not (host and on_host(place)) for place in places):
        return False
    return host or bool(places) or any(isinstance(a, PointerArgument) and a.address for a in call.adapted.values())


compile = CompileCallable()
