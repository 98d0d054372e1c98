"""Every public operation on values, as a table, and kernels that hold many of them on one type.

For a type and a target each operation compiles or is refused by this package: never by LLVM, which ends the process.
`sweep` compiles all of them together in a worker process and takes the ones apart that fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import CodegenAbortError, FlyDSLError
from flydsl.expr.scalars.scalar_ops import CLASSES

assert fx.Int32  # the table of classes is filled with the first of them
TYPES: dict[str, Any] = {name: cls for name, cls in CLASSES.items() if name != "Index"}

Operation = Callable[[Any, Any, Any, Any], Any]
"""Of three values of the type, and a pointer to elements of it."""

_UNARY_MATH = (
    "absf absi acos acosh asin asinh atan atanh cbrt ceil cos cosh ctlz ctpop cttz erf erfc exp exp2 expm1 floor "
    "isfinite isinf isnan isnormal log log10 log1p log2 round roundeven rsqrt sin sinh sqrt tan tanh trunc"
).split()
_BINARY_MATH = "atan2 copysign fpowi ipowi powf max min maximumf minimumf maxnumf minnumf ceildiv shrui".split()
_OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b, "&": lambda a, b: a & b,
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
}  # fmt: skip
_ATOMICS = "add sub min max and or xor xchg fmin fmax".split()


def _unary(name: str) -> Operation:
    return lambda a, b, c, p: getattr(fx, name)(a)


def _binary(name: str) -> Operation:
    return lambda a, b, c, p: getattr(fx, name)(a, b)


def _operator(of: Callable[[Any, Any], Any]) -> Operation:
    return lambda a, b, c, p: of(a, b)


def _atomic(name: str) -> Operation:
    return lambda a, b, c, p: getattr(fx, f"atomic_{name}")(p, a)


def _convert(target: Any) -> Operation:
    return lambda a, b, c, p: a.to(target)


def _vector(a: Any, b: Any, c: Any) -> Any:
    return fx.Vector.from_elements([a, b, c, a])


def _operations() -> Iterator[tuple[str, Operation]]:
    for name in _UNARY_MATH:
        yield name, _unary(name)
    for name in _BINARY_MATH:
        yield name, _binary(name)
    for name, of in _OPERATORS.items():
        yield name, _operator(of)
    for name in _ATOMICS:
        yield f"atomic_{name}", _atomic(name)
    for name, cls in TYPES.items():
        yield f"to {name}", _convert(cls)
    yield "neg", lambda a, b, c, p: -a
    yield "invert", lambda a, b, c, p: ~a
    yield "abs", lambda a, b, c, p: abs(a)
    yield "fma", lambda a, b, c, p: fx.fma(a, b, c)
    yield "clampf", lambda a, b, c, p: fx.clampf(a, b, c)
    yield "sincos", lambda a, b, c, p: fx.sincos(a)[0]
    yield "select", lambda a, b, c, p: (a == b).select(a, c)
    yield "bitcast", lambda a, b, c, p: a.bitcast({8: fx.Int8, 16: fx.Int16, 32: fx.Int32, 64: fx.Int64}[a.width])
    yield "cas", lambda a, b, c, p: fx.atomic_cas(p, a, b)[0]
    yield "load", lambda a, b, c, p: fx.generic_load(p, memory_order=fx.AtomicOrdering.Acquire)
    yield "store", lambda a, b, c, p: fx.generic_store(p, a, memory_order=fx.AtomicOrdering.Release)
    for kind in ("xor", "up", "down", "idx"):
        yield f"shuffle {kind}", lambda a, b, c, p, kind=kind: getattr(fx, f"shuffle_{kind}")(a, 1)
    yield "vector +", lambda a, b, c, p: (_vector(a, b, c) + _vector(c, b, a))[0]
    yield "vector *", lambda a, b, c, p: (_vector(a, b, c) * _vector(c, b, a))[1]
    yield "vector to Float32", lambda a, b, c, p: _vector(a, b, c).to(fx.Float32)[2]
    yield "vector reduce", lambda a, b, c, p: _vector(a, b, c).reduce("add")
    yield "vector store", lambda a, b, c, p: fx.make_view(p, fx.make_layout(4, 1)).store(_vector(a, b, c))


OPERATIONS: dict[str, Operation] = dict(_operations())


def _value(cls: Any, x: fx.Tensor, i: int) -> Any:
    """A value known at run time only, which LLVM cannot trace back to another type."""
    if cls.width < 8:
        return x[i] != 0 if cls is fx.Boolean else cls(x[i])
    return fx.recast_iter(cls, fx.get_iter(x) + 4 * i).load()


def _keep(out: Any, at: int, value: Any) -> None:
    """Use a value, or LLVM never sees what made it."""
    if value is None:
        return
    if isinstance(value, fx.Boolean):
        value = fx.Int32(value)
    if value.width < 8:
        value = value.to(fx.Float32 if value.is_float else fx.Int32)
    fx.recast_iter(type(value), out + 16 * at).store(value)


def kernel_of(cls: Any, names: Iterable[str]) -> tuple[Any, list[str]]:
    """A function that does these operations on a type, and the names of those that were refused when it was traced."""
    refused: list[str] = []
    chosen = list(names)

    @flyc.kernel
    def operations(x: fx.Tensor, y: fx.Tensor):
        a, b, c = (_value(cls, x, i) for i in range(3))
        out = fx.get_iter(y)
        at = fx.recast_iter(cls, out)
        for i, name in enumerate(chosen):
            _attempt(i, name, a, b, c, at, out)

    def _attempt(i: int, name: str, a: Any, b: Any, c: Any, at: Any, out: Any) -> None:
        try:
            _keep(out, i, OPERATIONS[name](a, b, c, at))
        except (FlyDSLError, KeyError, NotImplementedError):
            refused.append(name)

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        operations(x, y).launch(grid=1, block=32)

    return run, refused


def compiles(cls: Any, names: list[str], target: str) -> str:
    """`ok`, `refused` by us, or what LLVM said as it ended."""
    run, _ = kernel_of(cls, names)
    try:
        flyc.compile(run, np.zeros(16, "i4"), np.zeros(4096, "u1"), target=target)
    except CodegenAbortError as error:
        return str(error).replace("\n", " ")
    except (FlyDSLError, NotImplementedError):
        return "refused"
    return "ok"


def sweep(cls: Any, target: str, names: Iterable[str] = tuple(OPERATIONS)) -> Mapping[str, str]:
    """What LLVM ended over, by operation; to be run with FLYDSL_COMPILE_ISOLATE=always."""
    found: dict[str, str] = {}
    pending = [list(names)]
    while pending:
        some = pending.pop()
        result = compiles(cls, some, target)
        if result == "ok" or (result == "refused" and len(some) == 1):
            continue
        if len(some) == 1:
            found[some[0]] = result
        else:
            middle = len(some) // 2
            pending += [some[:middle], some[middle:]]
    return found
