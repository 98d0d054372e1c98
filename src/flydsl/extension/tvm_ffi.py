"""Functions of `apache-tvm-ffi`: jit functions for every runtime that speaks it, and its functions for arrays here.

    add = export_function(vector_add, "mine.vector_add")     # tvm_ffi.get_global_func("mine.vector_add") finds it
    add(x, y, out)

    theirs = import_function("their.function")
    y = theirs(x)                                            # numpy in, numpy out; torch in, torch out

tvm_ffi is an optional package, imported when a function is exported or imported.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from .. import errors
from ..errors import DSLTypeError, DSLValueError, MissingPackageError
from ..expr.gpu import Stream
from ..target import on_host

if TYPE_CHECKING:
    from ..compiler.compiled_function import CompiledFunction
    from ..compiler.jit_function import JitFunction


class _Device(Protocol):
    type: str


class _Tensor(Protocol):
    device: _Device


class Function(Protocol):
    """A function of tvm_ffi: it takes and gives tensors, numbers, strings and None."""

    def __call__(self, *args: object) -> object: ...


class _Library(Protocol):
    """What is used of tvm_ffi."""

    Tensor: type
    Function: type

    def convert(self, value: object) -> Function: ...
    def register_global_func(self, name: str, f: object, *, override: bool) -> object: ...
    def get_global_func(self, name: str, allow_missing: bool) -> Function | None: ...
    def get_raw_stream(self, device: _Device) -> int: ...
    def register_error(self, name: str, cls: type) -> object: ...


@functools.cache
def _library() -> _Library:
    try:
        library = cast("_Library", import_module("tvm_ffi"))
    except ImportError as error:
        raise MissingPackageError("functions of tvm_ffi", "apache-tvm-ffi", "tvm-ffi") from error
    for cls in vars(errors).values():
        if isinstance(cls, type) and issubclass(cls, errors.FlyDSLError) and _made_of_text(cls):
            library.register_error(cls.__name__, cls)
    return library


def _made_of_text(cls: type[errors.FlyDSLError]) -> bool:
    """tvm_ffi keeps the class of an exception that it can make again, of its text alone; others are `RuntimeError`."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    named = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    return len(named) <= 1


def export_function(
    function: JitFunction | CompiledFunction, name: str | None = None, *, override: bool = False
) -> Function:
    """A jit function, or one compiled by `flyc.compile`, as a function of tvm_ffi; `name` registers it for all.

    It takes the parameters in their order but for streams: on a GPU it launches on the stream that tvm_ffi has for the
    device of the first tensor. Tensors are handed over by DLPack, without a copy.
    """
    library = _library()
    if not hasattr(function, "signature"):
        raise DSLTypeError(f"export_function: a jit function or a compiled one, got {function!r}")
    if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"export_function: the name to register is a string, got {name!r}")
    parameters = function.signature.parameters
    names = [k for k, p in parameters.items() if p.annotation is not Stream]
    streams = [i for i, p in enumerate(parameters.values()) if p.annotation is Stream]

    def run(*args: object) -> None:
        if len(args) > len(names):
            raise DSLTypeError(f"an exported function takes {', '.join(names)}, got {len(args)} arguments")
        given = list(args)
        place = next((cast("_Tensor", a).device for a in args if isinstance(a, library.Tensor)), None)
        hosted = place is None or on_host(place.type)
        for i in streams:
            if i <= len(given):
                given.insert(i, Stream(None) if hosted or place is None else library.get_raw_stream(place))
        cast("Callable[..., object]", function)(*given)

    made = library.convert(run)
    if name is not None:
        if not override and library.get_global_func(name, allow_missing=True) is not None:
            raise DSLValueError(f"export_function: there is a function {name!r} already; override=True replaces it")
        library.register_global_func(name, made, override=override)
    return made


def import_function(function: str | Function) -> Callable[..., object]:
    """A function of tvm_ffi, or the one registered by a name, for arrays of numpy, torch and JAX.

    Arrays are handed over without a copy. A tensor that it gives becomes an array of the library that the first array
    argument is of; without one it stays as it is.
    """
    library = _library()
    if isinstance(function, str):
        found = library.get_global_func(function, allow_missing=True)
        if found is None:
            raise DSLValueError(
                f"import_function: tvm_ffi has no function {function!r}; import what registers it first"
            )
    elif isinstance(function, library.Function):
        found = function
    else:
        raise DSLTypeError(f"import_function: a name or a function of tvm_ffi, got {function!r}")

    def run(*args: object) -> object:
        result = found(*args)
        if not isinstance(result, library.Tensor):
            return result
        first = next((maker for a in args if (maker := _maker(a)) is not None), None)
        if first is None:
            return result
        convert = cast("Callable[[object], object]", getattr(import_module(first), "from_dlpack"))  # noqa: B009
        return convert(result)

    return run


_MAKERS = {"numpy": "numpy", "torch": "torch", "jaxlib": "jax.numpy", "jax": "jax.numpy"}
"""Where `from_dlpack` is, by the package that an array's class or one it derives from is of."""


def _maker(x: object) -> str | None:
    if not hasattr(x, "__dlpack__"):
        return None
    packages = (cls.__module__.partition(".")[0] for cls in type(x).__mro__)
    return next((_MAKERS[package] for package in packages if package in _MAKERS), None)


__all__ = ["Function", "export_function", "import_function"]
