"""Functions from outside: `ffi("my_function", ["float32"], "float32")` is callable in a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import DSLRuntimeError, DSLTypeError, DSLValueError
from .numeric import Float32, Float64, Int32, Int64, Numeric, Uint32, Uint64, scalar_or_none
from .trace import maybe_current

TYPES: dict[str, type[Numeric] | None] = {
    "int32": Int32, "uint32": Uint32, "int64": Int64, "uint64": Uint64, "float32": Float32, "float64": Float64,
    "void": None,
}  # fmt: skip
"""Type names, and the classes they stand for."""


class ExternFunction:
    """A device function known by its symbol."""

    __dsl_captured__ = True

    def __init__(self, symbol: str, arg_types: Sequence[str], ret_type: str, is_pure: bool = False):
        for name in (*arg_types, ret_type):
            if name not in TYPES:
                raise DSLValueError(f"{symbol}: unknown type {name!r}; expected one of {', '.join(TYPES)}")
        if "void" in arg_types:
            raise DSLValueError(f"{symbol}: an argument cannot be void")
        self.symbol = symbol
        self.arg_types = tuple(arg_types)
        self.ret_type = ret_type
        self.is_pure = is_pure

    def __call__(self, *args: Any) -> Any:
        tracer = maybe_current()
        if tracer is None or not getattr(tracer.functions[-1] if tracer.functions else None, "is_kernel", False):
            raise DSLRuntimeError(f"extern function '{self.symbol}' can only be called inside a @flyc.kernel function")
        if len(args) != len(self.arg_types):
            raise DSLTypeError(f"extern function '{self}' takes {len(self.arg_types)} arguments, got {len(args)}")
        operands = [self._argument(i, x) for i, x in enumerate(args)]
        from .extern_ir import emit_call

        result = TYPES[self.ret_type]
        value = emit_call(self.symbol, operands, None if result is None else result.ir_type)
        return None if result is None else result(value)

    def _argument(self, at: int, x: Any) -> Any:
        wanted = TYPES[self.arg_types[at]]
        number = scalar_or_none(x)
        if number is None or wanted is None or (number.is_float and not wanted.is_float):
            raise DSLTypeError(f"extern function '{self}': argument {at} must be a {self.arg_types[at]}, got {x!r}")
        if number.is_integer and wanted.is_integer:
            # The declared name's signedness decides how a narrower integer is extended.
            number = number.with_signedness(bool(wanted.signed))
        return wanted(number).ir_value()

    def __fly_cache_key__(self) -> Any:
        return self.symbol, self.arg_types, self.ret_type, self.is_pure

    def __repr__(self) -> str:
        return f"{self.symbol}({', '.join(self.arg_types)}) -> {self.ret_type}"


def ffi(symbol: str, arg_types: Sequence[str], ret_type: str, is_pure: bool = False) -> ExternFunction:
    """Declare a device function: type names are int32, uint32, int64, uint64, float32, float64 and void.

    >>> ffi("my_exp", ["float32"], "float32")
    my_exp(float32) -> float32
    """
    return ExternFunction(symbol, arg_types, ret_type, is_pure)


__all__ = ["ExternFunction", "ffi"]
