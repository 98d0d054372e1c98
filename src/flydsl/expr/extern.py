"""Functions from outside: `ffi("my_function", ["float32"], "float32")` is callable in a kernel."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import DSLRuntimeError, DSLTypeError, DSLValueError
from .emit.trace import maybe_current
from .numeric import Float32, Float64, Int32, Int64, Numeric, Uint32, Uint64, scalar_or_none

if TYPE_CHECKING:
    from .annotations import SSAValue, ValueLike


TYPES: dict[str, type[Numeric] | None] = {
    "int32": Int32, "uint32": Uint32, "int64": Int64, "uint64": Uint64, "float32": Float32, "float64": Float64,
    "void": None,
}  # fmt: skip
"""Type names, and the classes they stand for."""


class Library(NamedTuple):
    """A file of LLVM bitcode (or IR text), as it was when it was first needed."""

    path: str
    content: bytes
    digest: str

    @staticmethod
    def read(path: str | os.PathLike[str], symbol: str) -> Library:
        """The file at `path`, which is to define `symbol`."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise DSLValueError(
                f"the bitcode of extern function '{symbol}' cannot be read: {os.fspath(path)}: {error.strerror}"
            ) from error
        return Library(os.fspath(path), content, hashlib.sha256(content).hexdigest())


Resolver = Callable[[str], "str | os.PathLike[str] | None"]

_resolvers: list[Resolver] = []


def register_extern_resolver(resolver: Resolver) -> Resolver:
    """Install a hook that finds the bitcode file of a symbol, or None; gives it back, so that it can decorate.

    >>> @register_extern_resolver
    ... def in_my_folder(symbol):
    ...     return f"/opt/mine/{symbol}.bc" if symbol.startswith("mine_") else None
    >>> resolve_bitcode("mine_exp"), resolve_bitcode("other")
    ('/opt/mine/mine_exp.bc', None)
    >>> unregister_extern_resolver(in_my_folder)
    """
    if not callable(resolver):
        raise DSLTypeError(f"an extern resolver is a function of a symbol, got {resolver!r}")
    _resolvers.append(resolver)
    return resolver


def unregister_extern_resolver(resolver: Resolver) -> None:
    """Take a hook out again; one that is not installed is a `ValueError`.

    >>> unregister_extern_resolver(register_extern_resolver(lambda symbol: None))
    """
    if resolver not in _resolvers:
        raise DSLValueError(f"{resolver!r} is not a registered extern resolver")
    _resolvers.remove(resolver)


def resolve_bitcode(symbol: str) -> str | None:
    """The bitcode file of a symbol, from the first resolver that knows one."""
    found = next((path for resolver in _resolvers if (path := resolver(symbol)) is not None), None)
    return None if found is None else os.fspath(found)


class ExternFunction:
    """A device function known by its symbol.

    >>> f = ExternFunction("my_exp", ["float32"], "float32", is_pure=True)
    >>> f.symbol, f.arg_types, f.ret_type
    ('my_exp', ('float32',), 'float32')
    """

    __dsl_captured__ = True
    __fly_snapshot__ = True

    def __init__(
        self,
        symbol: str,
        arg_types: Sequence[str],
        ret_type: str,
        is_pure: bool = False,
        bitcode_path: str | os.PathLike[str] | None = None,
        module_init_fn: Callable[[int], object] | None = None,
    ):
        for name in (*arg_types, ret_type):
            if name not in TYPES:
                raise DSLValueError(f"{symbol}: unknown type {name!r}; expected one of {', '.join(TYPES)}")
        if "void" in arg_types:
            raise DSLValueError(f"{symbol}: an argument cannot be void")
        self.symbol = symbol
        self.arg_types = tuple(arg_types)
        self.ret_type = ret_type
        self.is_pure = is_pure
        self.bitcode_path = None if bitcode_path is None else os.fspath(bitcode_path)
        if module_init_fn is not None and not callable(module_init_fn):
            raise DSLTypeError(f"module_init_fn is a function of a module's handle, got {module_init_fn!r}")
        self.module_init_fn = module_init_fn
        self._library: Library | None = None

    @property
    def library(self) -> Library | None:
        """The bitcode given or found by a resolver for the symbol, read once; None if there is none."""
        path = self.bitcode_path or resolve_bitcode(self.symbol)
        if self._library is None and path is not None:
            self._library = Library.read(path, self.symbol)
        return self._library

    def __call__(self, *args: ValueLike) -> Any:
        tracer = maybe_current()
        if tracer is None or not getattr(tracer.functions[-1] if tracer.functions else None, "is_kernel", False):
            raise DSLRuntimeError(f"extern function '{self.symbol}' can only be called inside a @flyc.kernel function")
        if len(args) != len(self.arg_types):
            raise DSLTypeError(f"extern function '{self}' takes {len(self.arg_types)} arguments, got {len(args)}")
        operands = [self._argument(i, x) for i, x in enumerate(args)]
        from .emit.extern_ir import emit_call

        result = TYPES[self.ret_type]
        value = emit_call(self.symbol, operands, None if result is None else result.ir_type, self.is_pure)
        externs = tracer.functions[0].externs
        externs.use(self.library)
        if self.module_init_fn is not None and self.module_init_fn not in externs.load_hooks:
            externs.load_hooks.append(self.module_init_fn)
        return None if result is None else result(value)

    def _argument(self, at: int, x: object) -> SSAValue:
        wanted = TYPES[self.arg_types[at]]
        number = scalar_or_none(x)
        if number is None or wanted is None or (number.is_float and not wanted.is_float):
            raise DSLTypeError(f"extern function '{self}': argument {at} must be a {self.arg_types[at]}, got {x!r}")
        if number.is_integer and wanted.is_integer:
            # The declared name's signedness decides how a narrower integer is extended.
            number = number.with_signedness(bool(wanted.signed))
        return wanted(number).ir_value()

    def __fly_cache_key__(self) -> object:
        library = self.library
        return self.symbol, self.arg_types, self.ret_type, self.is_pure, library and library.digest

    def __repr__(self) -> str:
        return f"{self.symbol}({', '.join(self.arg_types)}) -> {self.ret_type}"


def ffi(
    symbol: str,
    arg_types: Sequence[str],
    ret_type: str,
    is_pure: bool = False,
    bitcode_path: str | os.PathLike[str] | None = None,
    module_init_fn: Callable[[int], object] | None = None,
) -> ExternFunction:
    """Declare a device function: type names are int32, uint32, int64, uint64, float32, float64 and void.

    `bitcode_path` is the library to link for it, `module_init_fn` a host hook that gets the handle of a loaded module.

    >>> ffi("my_exp", ["float32"], "float32")
    my_exp(float32) -> float32
    """
    return ExternFunction(symbol, arg_types, ret_type, is_pure, bitcode_path, module_init_fn)


__all__ = ["ExternFunction", "ffi", "register_extern_resolver", "unregister_extern_resolver"]
