"""Extern functions with the bitcode that defines them: `link_extern(ffi(...), bitcode_path="lib.bc")`.

A call is traced as a call of the symbol; the file and the hook are noted in the host function being traced. Linking
itself is not implemented: compiling such a kernel fails with `NotImplementedError`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..errors import DSLTypeError, DSLValueError
from ..expr.extern import ExternFunction
from ..expr.trace import current

Resolver = Callable[[str], "str | None"]

_resolvers: list[Resolver] = []


def register_extern_resolver(resolver: Resolver) -> Resolver:
    """Install a hook that finds the bitcode file of a symbol; gives it back, so that it can decorate."""
    if not callable(resolver):
        raise DSLTypeError(f"an extern resolver is a function of a symbol, got {resolver!r}")
    _resolvers.append(resolver)
    return resolver


def resolve_bitcode(symbol: str) -> str | None:
    """The bitcode file of a symbol, from the first resolver that knows one."""
    return next((path for resolver in _resolvers if (path := resolver(symbol)) is not None), None)


class LinkedExternFunction:
    """An extern function and where it is defined."""

    __dsl_captured__ = True

    def __init__(
        self,
        function: ExternFunction,
        *,
        bitcode_path: str | os.PathLike[str] | None = None,
        module_init_fn: Callable[[Any], Any] | None = None,
    ):
        if not isinstance(function, ExternFunction):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"link_extern expects what ffi(...) gives, got {function!r}")
        self.function = function
        self.bitcode_path = None if bitcode_path is None else os.fspath(bitcode_path)
        if self.bitcode_path is not None and set(self.bitcode_path) & set(" \t\n,{}'\""):
            raise DSLValueError(
                f"Cannot pass external bitcode path {self.bitcode_path!r}: no spaces, commas, braces or quotes"
            )
        self.module_init_fn = module_init_fn

    @property
    def symbol(self) -> str:
        """Name of the device function."""
        return self.function.symbol

    def __call__(self, *args: Any) -> Any:
        result = self.function(*args)
        path = self.bitcode_path or resolve_bitcode(self.symbol)
        host = current().functions[0]
        if path is not None and path not in host.link_libs:
            host.link_libs.append(path)
        if self.module_init_fn is not None and self.module_init_fn not in host.post_load:
            host.post_load.append(self.module_init_fn)
        return result

    def __fly_cache_key__(self) -> Any:
        return self.function.__fly_cache_key__(), self.bitcode_path

    def __repr__(self) -> str:
        return f"{self.function!r} from {self.bitcode_path or 'a resolver'}"


class BoundExternFunction:
    """An extern function whose arguments are prepared first: `preprocess(*args)` gives those of the call."""

    __dsl_captured__ = True

    def __init__(self, function: ExternFunction | LinkedExternFunction, preprocess: Callable[..., Any]):
        self.function = function
        self.preprocess = preprocess

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        prepared: Any = self.preprocess(*args, **kwargs)
        return self.function(*prepared) if isinstance(prepared, (tuple, list)) else self.function(prepared)  # pyright: ignore[reportUnknownArgumentType]

    def __fly_cache_key__(self) -> Any:
        return self.function.__fly_cache_key__(), self.preprocess


def link_extern(
    function: ExternFunction,
    *,
    bitcode_path: str | os.PathLike[str] | None = None,
    module_init_fn: Callable[[Any], Any] | None = None,
) -> LinkedExternFunction:
    """An extern function with a bitcode library to link, and a host hook to run after the module is loaded."""
    return LinkedExternFunction(function, bitcode_path=bitcode_path, module_init_fn=module_init_fn)


__all__ = ["BoundExternFunction", "LinkedExternFunction", "link_extern", "register_extern_resolver"]
