"""Extern functions with the bitcode that defines them: `link_extern(ffi(...), bitcode_path="lib.bc")`.

A call is traced as a call of the symbol; the file and the hook are noted in the host function being traced. The driver
links the files into the device module before it is optimised, and whoever loads the module runs the hooks.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..errors import ArtifactHookError, DSLTypeError, DSLValueError, LinkError, RuntimeStateError
from ..expr.aliases import also_called
from ..expr.emit.trace import current
from ..expr.extern import ExternFunction, Library, register_extern_resolver, resolve_bitcode, unregister_extern_resolver
from .build.load_hooks import check_hooks

if TYPE_CHECKING:
    from .backends.base import BaseBackend

LoadHook = Callable[[int], object]
"""Called with the driver's handle of a module that was just loaded."""


class Externs:
    """What the extern functions of one traced program need."""

    def __init__(self) -> None:
        self.libraries: dict[str, Library] = {}
        """By path, in the order of their first use."""
        self.load_hooks: list[LoadHook] = []

    def use(self, library: Library | None) -> None:
        """Note a library."""
        if library is not None:
            self.libraries.setdefault(library.path, library)


class LinkedExternFunction:
    """An extern function and where it is defined; what `link_extern` gives.

    >>> from flydsl.expr.extern import ffi
    >>> LinkedExternFunction(ffi("my_exp", ["float32"], "float32"), bitcode_path="my.bc")
    my_exp(float32) -> float32 from my.bc
    """

    __dsl_captured__ = True
    __fly_snapshot__ = True

    @also_called(function="extern")
    def __init__(
        self,
        extern: ExternFunction,
        *,
        bitcode_path: str | os.PathLike[str] | None = None,
        module_init_fn: LoadHook | None = None,
    ):
        if not isinstance(extern, ExternFunction):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"link_extern expects what ffi(...) gives, got {extern!r}")
        if module_init_fn is not None and not callable(module_init_fn):
            raise DSLTypeError(f"module_init_fn is a function of a module's handle, got {module_init_fn!r}")
        self.function = extern
        self.bitcode_path = None if bitcode_path is None else os.fspath(bitcode_path)
        if self.bitcode_path is not None and set(self.bitcode_path) & set(" \t\n,{}'\""):
            raise DSLValueError(
                f"Cannot pass external bitcode path {self.bitcode_path!r}: no spaces, commas, braces or quotes"
            )
        self.module_init_fn = module_init_fn
        self._library: Library | None = None

    @property
    def symbol(self) -> str:
        """Name of the device function."""
        return self.function.symbol

    @property
    def library(self) -> Library | None:
        """The bitcode, read once: an edited file counts from the next `link_extern` on."""
        if self.bitcode_path is None:
            return self.function.library
        if self._library is None:
            self._library = Library.read(self.bitcode_path, self.symbol)
        return self._library

    def __call__(self, *args: Any) -> Any:
        result = self.function(*args)
        externs: Externs = current().functions[0].externs
        externs.use(self.library)
        if self.module_init_fn is not None and self.module_init_fn not in externs.load_hooks:
            externs.load_hooks.append(self.module_init_fn)
        return result

    def __fly_cache_key__(self) -> object:
        library = self.library
        # What a hook does is the host's business: it is no part of the code, only which one to call is.
        hook = self.module_init_fn
        return self.function.__fly_cache_key__(), library and library.digest, hook and (hook_name(hook) or id(hook))

    def __repr__(self) -> str:
        return f"{self.function!r} from {self.bitcode_path or 'a resolver'}"


class BoundExternFunction:
    """An extern function whose arguments are prepared first: `preprocess(*args)` gives those of the call.

    >>> from flydsl.expr.extern import ffi
    >>> BoundExternFunction(ffi("scale", ["float32", "int32"], "float32"), lambda x: (x, 2))
    scale(float32, int32) -> float32, arguments prepared by <lambda>
    """

    __dsl_captured__ = True

    def __init__(self, function: ExternFunction | LinkedExternFunction, preprocess: Callable[..., Any]):
        self.function = function
        self.preprocess = preprocess

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        prepared: Any = self.preprocess(*args, **kwargs)
        if isinstance(prepared, (tuple, list)):
            return self.function(*cast("Sequence[Any]", prepared))
        return self.function(prepared)

    def __fly_cache_key__(self) -> object:
        return self.function.__fly_cache_key__(), self.preprocess

    def __repr__(self) -> str:
        name = getattr(self.preprocess, "__name__", repr(self.preprocess))
        return f"{self.function!r}, arguments prepared by {name}"


@also_called(function="extern")
def link_extern(
    extern: ExternFunction,
    *,
    bitcode_path: str | os.PathLike[str] | None = None,
    module_init_fn: LoadHook | None = None,
) -> LinkedExternFunction:
    """An extern function with a bitcode library to link, and a host hook to run after the module is loaded.

    The hook gets the driver's handle of the module (`hipModule_t`, `CUmodule`) as an int, once per module and device.

    >>> from flydsl.expr.extern import ffi
    >>> link_extern(ffi("my_exp", ["float32"], "float32"), bitcode_path="my.bc")
    my_exp(float32) -> float32 from my.bc
    """
    return LinkedExternFunction(extern, bitcode_path=bitcode_path, module_init_fn=module_init_fn)


# --- compiling ----------------------------------------------------------------------------------------------------


def link_externs(device_ir: str, externs: Externs, backend: BaseBackend) -> str:
    """LLVM IR of a device module together with the code of the extern functions it calls."""
    from ..llvm.bitcode import link_libraries

    def more(symbols: Sequence[str]) -> list[tuple[str, bytes]]:
        """What resolvers and the backend know of names the libraries themselves refer to."""
        found = [Library.read(path, name) for name in symbols if (path := resolve_bitcode(name)) is not None]
        known = {library.path: library for library in found if library.path not in externs.libraries}
        if known:
            return [(library.path, library.content) for library in known.values()]
        try:
            paths = backend.device_libs(symbols)
        except NotImplementedError:  # This backend brings no device library.
            return []
        except FileNotFoundError as error:
            raise LinkError(str(error)) from error
        return [(str(path), path.read_bytes()) for path in paths]

    linked = link_libraries(
        device_ir,
        [(library.path, library.content) for library in externs.libraries.values()],
        chip=backend.target.arch,
        keep_variables=bool(externs.load_hooks),
        find=more,
    )
    return backend.with_libraries(linked)


def hook_name(hook: LoadHook) -> str | None:
    """`module:qualname` of a hook that another process can import; None for one it cannot."""
    module, name = getattr(hook, "__module__", None), getattr(hook, "__qualname__", None)
    if not module or not name or "<" in name or module == "__main__":
        return None
    try:
        return f"{module}:{name}" if _import(f"{module}:{name}") is hook else None
    except (ImportError, AttributeError):
        return None


def _import(name: str) -> Any:
    module, _, qualname = name.partition(":")
    found: object = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def describe_hooks(hooks: Iterable[LoadHook]) -> tuple[list[str], str | None]:
    """The names of load hooks for an artifact's metadata; or why they keep it from being stored."""
    names: list[str] = []
    for hook in hooks:
        name = hook_name(hook)
        if name is None:
            return [], f"module_init_fn {hook!r} is not a function that can be imported by its name"
        names.append(name)
    return names, None


def run_load_hooks(artifact: Any, handle: int | None) -> None:
    """Call the hooks of an artifact with the module that was loaded for it."""
    hooks: Sequence[LoadHook] = artifact.load_hooks
    if not hooks:
        names = artifact.metadata.get("load_hooks") or ()
        check_hooks(artifact.name, names)
        try:
            hooks = [_import(name) for name in names]
        except (ImportError, AttributeError) as error:
            raise ArtifactHookError(f"{artifact.name} has a load hook that cannot be imported: {error}") from error
    for hook in hooks:
        if handle is None:
            raise RuntimeStateError(f"{artifact.name} has the module_init_fn {hook!r}, but no module was loaded")
        hook(handle)


__all__ = [
    "BoundExternFunction", "LinkedExternFunction", "link_extern", "register_extern_resolver",
    "unregister_extern_resolver",
]  # fmt: skip
