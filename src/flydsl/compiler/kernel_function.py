"""`@flyc.kernel`: device code. Calling one inside a jit function gives a launcher; `launch` traces and emits it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from ..errors import DSLRuntimeError, DSLTypeError, DSLValueError, PortabilityWarning
from ..expr.emit.trace import maybe_current
from ..expr.numeric import Numeric
from ..llvm.stub_abi import CLUSTER_ATTRIBUTE
from ..target import families, since
from .diagnostics import user_frames_only
from .frontend.ast_rewriter import RewrittenFunction, rewrite_function
from .frontend.geometry import check_geometry
from .frontend.signature import Signature, remember_locals
from .hints import CompilationContext, merge_compile_hints
from .key.changes import changes
from .key.origin import note_decorated

if TYPE_CHECKING:
    from xdsl.ir import Attribute

    from ..expr.annotations import IntLike
    from ..target import GPUTarget

    Dimensions: TypeAlias = IntLike | Sequence[IntLike]

P = ParamSpec("P")
Q = ParamSpec("Q")
Owner = TypeVar("Owner")

RESERVED = frozenset(("grid", "block", "smem", "stream", "cluster", "unit_attrs", "value_attrs"))
"""Names the launch call takes for itself, whatever the backend."""


def _tracing() -> ModuleType:
    from .frontend import tracing

    return tracing


class KernelFunction(Generic[P]):
    """A device function.

    >>> @flyc.kernel(known_block_size=(64, 1, 1))
    ... def nothing(x: fx.Tensor):
    ...     pass
    >>> nothing
    <kernel nothing>
    """

    def __init__(
        self, func: FunctionType, name: str | None = None, known_block_size: object = None, *, owner: object = None
    ):
        self.__wrapped__ = func
        self.__name__ = func.__name__
        self.__qualname__ = func.__qualname__
        self.__doc__ = func.__doc__
        self.__module__ = func.__module__
        self.name = name
        self.known_block_size = check_block_size(known_block_size)
        self.rewritten = rewrite_function(func)
        note_decorated(func.__module__)
        remember_locals(func)
        self._owner = owner
        self._signatures: list[Signature] = []
        """The one that is current, shared with bound methods."""
        taken = RESERVED & set(func.__code__.co_varnames[: func.__code__.co_argcount])
        if taken:
            raise DSLTypeError(
                f"{self.__qualname__}: parameter {', '.join(sorted(taken))!r} is reserved for the launch call; "
                "rename it"
            )

    @property
    def func(self) -> FunctionType:
        """The function as its author wrote it."""
        return self.__wrapped__

    @property
    def __fly_function__(self) -> RewrittenFunction:
        """What the kernel was written as; read for the cache key."""
        return self.rewritten

    @property
    def __fly_options__(self) -> tuple[str | None, tuple[int, int, int] | None]:
        """Decorator options, for the cache keys of functions that call this one."""
        return (self.name, self.known_block_size)

    def __setattr__(self, name: str, value: object) -> None:
        changes.count += 1  # calls that do not look at the options are told by it
        object.__setattr__(self, name, value)

    @property
    def signature(self) -> Signature:
        """Parameters, resolved at the first call, when all annotations can be."""
        known = self._signatures
        if not known or not known[0].is_current():
            known[:] = [Signature(self.__wrapped__)]
            self._warn_portability(known[0])
        return known[0]

    def _warn_portability(self, signature: Signature) -> None:
        from .backends import all_reserved_launch_param_names

        clash = sorted(all_reserved_launch_param_names() & set(signature.parameters))
        if clash:
            warnings.warn(
                f"{self.__qualname__}: parameter {', '.join(clash)!r} is a launch option of some backends",
                PortabilityWarning,
                stacklevel=4,
            )

    def __reduce__(self) -> str | tuple[object, ...]:
        """By reference, as functions are: another process imports it, and compiles or loads for itself."""
        return self.__qualname__ if self._owner is None else (getattr, (self._owner, self.__name__))

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: KernelFunction[Concatenate[Owner, Q]], instance: Owner, owner: type | None = None
    ) -> KernelFunction[Q]: ...
    def __get__(self, instance: object, owner: type | None = None) -> object:
        if instance is None:
            return self
        bound = object.__new__(KernelFunction)
        bound.__dict__.update(self.__dict__)
        bound._owner = instance
        return bound

    if TYPE_CHECKING:

        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> KernelLauncher: ...
        @overload
        def __call__(
            self, *args: Any, value_attrs: Mapping[str, Any], unit_attrs: Iterable[str] | None = None, **kwargs: Any
        ) -> KernelLauncher: ...
        @overload
        def __call__(self, *args: Any, unit_attrs: Iterable[str], **kwargs: Any) -> KernelLauncher: ...
        def __call__(self, *args: Any, **kwargs: Any) -> KernelLauncher:
            """The kernel with its arguments, to be launched."""
            ...

    else:

        def __call__(self, *args, unit_attrs=None, value_attrs=None, **kwargs):
            return self._bind(args, kwargs, unit_attrs, value_attrs)

    def _bind(
        self,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        unit_attrs: Iterable[str] | None,
        value_attrs: Mapping[str, object] | None,
    ) -> KernelLauncher:
        tracer = maybe_current()
        if tracer is None:
            raise DSLRuntimeError(
                f"kernel '{self.__qualname__}' was called outside a jit function; call it inside a @flyc.jit function "
                "and launch it: kernel(...).launch(grid=..., block=...)"
            )
        frame = _tracing().host_frame(tracer)
        if self._owner is not None:
            args = (self._owner, *args)
        arguments = self.signature.bind(args, kwargs)
        launcher = KernelLauncher(self, arguments, unit_attrs, value_attrs)
        frame.waiting[launcher] = tracer.loc
        return launcher

    def __getitem__(self, grid: object) -> NoReturn:
        raise DSLTypeError(
            f"kernel '{self.__qualname__}' takes no [...]: it is launched inside a @flyc.jit function, with "
            f"{self.__name__}(...).launch(grid=..., block=...)"
        )

    def __repr__(self) -> str:
        return f"<kernel {self.__qualname__}>"


class KernelLauncher:
    """A kernel with its arguments, ready to launch."""

    __dsl_captured__ = True

    def __init__(
        self,
        kernel: KernelFunction[...],
        arguments: dict[str, object],
        unit_attrs: Iterable[str] | None,
        value_attrs: Mapping[str, object] | None,
    ):
        self.kernel = kernel
        self.arguments = arguments
        self.unit_attrs = unit_attrs
        self.value_attrs = value_attrs

    def __repr__(self) -> str:
        return f"kernel '{self.kernel.__qualname__}'"

    def launch(
        self,
        *,
        grid: Dimensions = (1, 1, 1),
        block: Dimensions = (1, 1, 1),
        smem: IntLike | None = None,
        stream: object = None,
        cluster: Dimensions | None = None,
        pdl: bool = False,
        cooperative: bool = False,
        unit_attrs: Iterable[str] | None = None,
        value_attrs: Mapping[str, object] | None = None,
    ) -> None:
        """Trace the kernel for these arguments and emit its launch.

        With `pdl` it may start before the kernel in front of it in the stream is done (programmatic dependent launch);
        it waits by `fx.nvgpu.griddepcontrol_wait()`. `cooperative` asks that all blocks run at the same time.
        """
        from .frontend.kernel_arguments import check_tensor, flatten_kernel_arguments

        tracing = _tracing()
        tracer = maybe_current()
        frame = tracing.host_frame(tracer)
        assert tracer is not None
        frame.waiting.pop(self, None)
        kernel = self.kernel
        dims, threads = tracing.dimensions("grid", grid), tracing.dimensions("block", block)
        check_geometry(kernel.__qualname__, frame.target, dims, threads)
        size = self._block_size(threads)
        constant = {
            p.name
            for p in kernel.signature.parameters.values()
            if p.kind != "value" or (p.optional and self.arguments[p.name] is None)
        }
        for p in kernel.signature.parameters.values():
            if p.kind == "constexpr" and hasattr(p.annotation, "check"):
                p.annotation.check(p.name, self.arguments[p.name])
            elif p.kind == "value":
                check_tensor(kernel.__qualname__, p.name, p.annotation, self.arguments[p.name])
        if kernel._owner is not None:  # pyright: ignore[reportPrivateUsage]
            constant.add(next(iter(kernel.signature.parameters)))
        flat = flatten_kernel_arguments(kernel.__qualname__, self.arguments, constant, kernel.signature.numbers)
        attributes = _attributes((self.unit_attrs, unit_attrs), (self.value_attrs, value_attrs))
        clusters = None if cluster is None else tracing.dimensions("cluster", cluster)
        if clusters is not None:
            attributes.update(_cluster_attribute(kernel.__qualname__, frame.target, clusters))
        switches = _switches(kernel.__qualname__, frame.target, pdl, cooperative)
        if clusters is not None and "rocdl.cluster_dims" in attributes and any(c != 1 for c in clusters):
            switches.append(CLUSTER_ATTRIBUTE)
        taken = tracing.given_to(frame, flat)
        made = tracing.trace_kernel(
            tracer,
            frame,
            kernel.name or kernel.__name__,
            kernel.name is not None,
            kernel.rewritten.function,
            self.arguments,
            flat,
            taken,
            size,
            attributes,
            kernel.__wrapped__,
        )
        tracing.emit_launch(
            tracer,
            made.symbol,
            dims,
            threads,
            tracing.shared_bytes(kernel.__qualname__, made.dynamic_shared, smem),
            stream,
            clusters,
            [one.value for one in taken],
            switches,
            made.side_buffers,
        )

    def _block_size(self, threads: list[object]) -> tuple[int, int, int] | None:
        declared = self.kernel.known_block_size
        known = [t for t in threads if isinstance(t, int)]
        if len(known) != len(threads):
            return declared
        size = (known[0], known[1], known[2])
        if declared is not None and declared != size:
            raise DSLValueError(
                f"launch of {self.kernel.__qualname__}: block {size} differs from known_block_size {declared}"
            )
        return size


def _cluster_attribute(name: str, target: GPUTarget, clusters: list[object]) -> dict[str, Attribute]:
    """The extents of clusters are a property of the code; CUDA's launch goes by that, HIP's has to be told as well."""
    amd = target.has("amd") and not target.on_host
    if not amd and not target.on_host and not target.has("nvidia"):
        return {}
    if not all(isinstance(c, int) for c in clusters):
        raise DSLValueError(f"launch of {name}: a cluster has constant extents")
    if amd and not target.has("clusters"):
        if all(c == 1 for c in clusters):
            return {}
        have = ", ".join(families("amd", "clusters"))
        raise DSLValueError(f"launch of {name}: {target.arch} has no clusters; {have} has")
    key = "rocdl.cluster_dims" if amd else "nvvm.cluster_dim"
    return _attributes(((), ()), ({key: ",".join(map(str, clusters))}, {}))


def _switches(kernel: str, target: GPUTarget, pdl: object, cooperative: object) -> list[str]:
    """Launch attributes that are on, as the IR names them; refuses what the target lacks."""
    found: list[str] = []
    wanted = (("pdl", pdl, "dependent_launch"), ("cooperative", cooperative, "cooperative_launch"))
    for name, on, feature in wanted:
        if not isinstance(on, bool):
            raise DSLTypeError(f"launch of {kernel}: {name} is True or False, got {on!r}")
        if not on:
            continue
        if name == "pdl" and target.on_host:
            continue  # launches of a stream run one after the other there, which is what the wait asks for
        if target.on_host or not target.has("nvidia"):
            raise DSLValueError(f"launch of {kernel}: {name}=True needs an NVIDIA GPU, this is {target.backend}")
        if not target.has(feature):
            raise DSLValueError(f"launch of {kernel}: {name}=True needs {since(feature)}, this is {target.arch}")
        found.append(f"fly.{name}")
    return found


def _attributes(
    unit: Iterable[Iterable[str] | None], value: Iterable[Mapping[str, object] | None]
) -> dict[str, Attribute]:
    """Attributes for the device function."""
    from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i32

    made: dict[str, Attribute] = {}
    for names in unit:
        for name in names or ():
            made[name] = UnitAttr()
    for table in value:
        for name, v in (table or {}).items():
            if isinstance(v, int):
                v = IntegerAttr(v, i32)
            made[name] = StringAttr(v) if isinstance(v, str) else cast("Attribute", v)
    return made


def check_block_size(size: object) -> tuple[int, int, int] | None:
    """Three positive ints, or None."""
    if size is None:
        return None
    if isinstance(size, (str, bytes)) or not hasattr(size, "__len__") or not hasattr(size, "__iter__"):
        raise DSLTypeError(f"known_block_size must be a sequence of 3 positive integers, got {size!r}")
    parts = list(cast("Iterable[object]", size))
    if len(parts) != 3:
        raise DSLValueError(f"known_block_size must have exactly 3 elements, got {len(parts)}")
    found: list[int] = []
    for given in parts:
        p = int(given) if isinstance(given, Numeric) and given.is_static() and given.is_integer else given
        if not isinstance(p, int) or isinstance(p, bool):
            raise DSLTypeError(f"each element of known_block_size must be an int, got {p!r}")
        if p <= 0:
            raise DSLValueError(f"each element of known_block_size must be positive, got {p}")
        found.append(p)
    return found[0], found[1], found[2]


@overload
def kernel(func: Callable[P, object], /) -> KernelFunction[P]: ...


@overload
def kernel(
    *, name: str | None = None, known_block_size: object = None
) -> Callable[[Callable[P, object]], KernelFunction[P]]: ...


def kernel(
    func: Callable[..., object] | None = None, *, name: str | None = None, known_block_size: object = None
) -> KernelFunction[...] | Callable[[Callable[..., object]], KernelFunction[...]]:
    """Decorate a function as device code; `name` sets the symbol, `known_block_size` declares the block.

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> x = np.arange(4, dtype="f4")
    >>> scale(x, 2.0)
    >>> x
    array([0., 2., 4., 6.], dtype=float32)
    """

    def decorate(fn: Callable[..., object]) -> KernelFunction[...]:
        if not isinstance(fn, FunctionType):
            raise DSLTypeError(f"@flyc.kernel decorates a Python function, got {fn!r}")
        with user_frames_only():
            return KernelFunction(fn, name=name, known_block_size=known_block_size)

    with user_frames_only():
        return decorate(func) if func is not None else decorate


__all__ = ["CompilationContext", "KernelFunction", "KernelLauncher", "kernel", "merge_compile_hints"]
