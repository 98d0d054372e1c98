"""Random programs on scalars and vectors: chains of operations of one type, conversions, rounding modes, math."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .draw import FLOATS, FORMATS, INTEGERS, WIDE_FLOATS, Draw, values
from .program import Array, Call, Program, class_of, output, typed

N = 256
_INPUTS = 4

Operation = Callable[..., Any]

FLOAT_OPERATIONS: Mapping[str, tuple[int, Operation]] = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "mul": (2, lambda a, b: a * b),
    "div": (2, lambda a, b: a / b),
    "fma": (3, lambda a, b, c: fx.fma(a, b, c)),
    "mul_add": (3, lambda a, b, c: a * b + c),
    "neg": (1, lambda a: -a),
    "abs": (1, lambda a: fx.absf(a)),
    "sqrt": (1, lambda a: fx.sqrt(a)),
    "floor": (1, lambda a: fx.floor(a)),
    "ceil": (1, lambda a: fx.ceil(a)),
    "trunc": (1, lambda a: fx.trunc(a)),
    "round": (1, lambda a: fx.round(a)),
    "roundeven": (1, lambda a: fx.roundeven(a)),
    "maxnum": (2, lambda a, b: fx.maxnumf(a, b)),
    "minnum": (2, lambda a, b: fx.minnumf(a, b)),
    "maximum": (2, lambda a, b: fx.maximumf(a, b)),
    "minimum": (2, lambda a, b: fx.minimumf(a, b)),
    "copysign": (2, lambda a, b: fx.copysign(a, b)),
    "less": (4, lambda a, b, c, d: (a < b).select(c, d)),
    "equal": (4, lambda a, b, c, d: (a == b).select(c, d)),
    "unequal": (4, lambda a, b, c, d: (a != b).select(c, d)),
}
"""Those of which the result is defined to the last bit."""


def _shift(a: Any) -> Any:
    cls = getattr(a, "dtype", type(a))
    return (a & (cls.width - 1)).to(cls)


INT_OPERATIONS: Mapping[str, tuple[int, Operation]] = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "mul": (2, lambda a, b: a * b),
    "div": (2, lambda a, b: a // ((b & 63) | 1)),
    "rem": (2, lambda a, b: a % ((b & 1023) | 1)),
    "wide_div": (2, lambda a, b: (a >> 1) // (b | 1)),
    "and": (2, lambda a, b: a & b),
    "or": (2, lambda a, b: a | b),
    "xor": (2, lambda a, b: a ^ b),
    "shl": (2, lambda a, b: a << _shift(b)),
    "shr": (2, lambda a, b: a >> _shift(b)),
    "shru": (2, lambda a, b: fx.shrui(a, _shift(b))),
    "neg": (1, lambda a: -a),
    "not": (1, lambda a: ~a),
    "max": (2, lambda a, b: fx.max(a, b)),
    "min": (2, lambda a, b: fx.min(a, b)),
    "popcount": (1, lambda a: fx.ctpop(a)),
    "leading": (1, lambda a: fx.ctlz(a)),
    "trailing": (1, lambda a: fx.cttz(a)),
    "less": (4, lambda a, b, c, d: (a < b).select(c, d)),
    "equal": (4, lambda a, b, c, d: (a == b).select(c, d)),
}

Step = tuple[str, tuple[int, ...]]


def plan(draw: Draw, table: Mapping[str, tuple[int, Operation]], steps: int) -> tuple[Step, ...]:
    """Operations in a row; each takes inputs and earlier results, the later ones more often."""
    made: list[Step] = []
    names = list(table)
    for i in range(steps):
        name = draw.choice(names)
        known = _INPUTS + i
        made.append((name, tuple(max(draw.number(known), draw.number(known)) for _ in range(table[name][0]))))
    return tuple(made)


_SMALL_FLOATS = ("add", "sub", "mul", "div", "less", "equal", "unequal")
"""What floats of 8 bits have."""


def table_of(name: str) -> Mapping[str, tuple[int, Operation]]:
    """The operations of a type."""
    f = FORMATS[name]
    if not f.is_float:
        return INT_OPERATIONS
    return FLOAT_OPERATIONS if f.width > 8 else {op: FLOAT_OPERATIONS[op] for op in _SMALL_FLOATS}


def _evaluate(
    table: Mapping[str, tuple[int, Operation]], steps: Sequence[Step], inputs: Sequence[Any], cls: Any
) -> list[Any]:
    held = list(inputs)
    for name, operands in steps:
        # Operators on narrow integers give Int32.
        held.append(table[name][1](*(held[i] for i in operands)).to(cls))
    return held[len(inputs) :]


def chain(name: str, steps: tuple[Step, ...], lanes: int, last: bool) -> Callable[..., object]:
    """A function that does the steps on each element, or on vectors of `lanes`; `last`: only the last is stored."""
    cls = class_of(name)
    table = table_of(name)

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.block_idx.x * 32 + fx.thread_idx.x
        x, y = typed(x, cls), typed(y, cls)
        if fx.const_expr(lanes == 1):
            made = _evaluate(table, steps, [x[k, i] for k in range(_INPUTS)], cls)
            _store(y, i, made[-1:] if last else made)
        else:
            made = _evaluate(table, steps, [_vector(x, k, i) for k in range(_INPUTS)], cls)
            _store_vectors(y, i, made[-1:] if last else made)

    def _vector(x: Any, k: int, i: Any) -> Any:
        return fx.Vector.from_elements([x[k, i * lanes + j] for j in range(lanes)])

    def _store(y: Any, i: Any, made: Sequence[Any]) -> None:
        for k, value in enumerate(made):
            y[k, i] = value

    def _store_vectors(y: Any, i: Any, made: Sequence[Any]) -> None:
        for k, value in enumerate(made):
            for j in range(lanes):
                y[k, i * lanes + j] = value[j]

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=N // (32 * lanes), block=32)

    return run


def _chain(label: str, name: str, lanes: int) -> Call:
    draw = Draw(label)
    steps = plan(draw, table_of(name), 4 + draw.number(6))
    last = draw.number(4) == 0
    x = Array(values(draw, name, _INPUTS * N).reshape(_INPUTS, N), name)
    named = [f"{op}{at}" for op, at in steps]
    y = output((1 if last else len(steps), N), name, names=named[-1:] if last else named)
    return Call(chain(name, steps, lanes, last), (x, y))


def chains() -> Iterator[Program]:
    """The random programs."""
    counts = {"f32": 32, "f64": 20, "f16": 20, "bf16": 20, "e4m3": 4, "e5m2": 4}
    for name in (*FLOATS, *INTEGERS):
        for i in range(counts.get(name, 10)):
            label = f"chain {name} {i}"
            yield Program(label, "chains", partial(_chain, label, name, 1))
    for name in (*WIDE_FLOATS, "i32", "u8", "i16"):
        for lanes in (2, 4, 8):
            label = f"vector {name} x{lanes}"
            yield Program(label, "vectors", partial(_chain, label, name, lanes))


# --- conversions --------------------------------------------------------------------------------------------------


def convert(source: str, targets: tuple[str, ...], mode: str | None) -> Callable[..., object]:
    """A function that converts each element to each of the types, with a row of bits for each."""
    cls, classes = class_of(source), tuple(class_of(t) for t in targets)
    given = {} if mode is None else {"rounding_mode": fx.RoundingMode[mode]}

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.block_idx.x * 32 + fx.thread_idx.x
        value = typed(x, cls)[i]
        _store(y, i, value)

    def _store(y: Any, i: Any, value: Any) -> None:
        for k, target in enumerate(classes):
            bits = {8: fx.Uint8, 16: fx.Uint16, 32: fx.Uint32, 64: fx.Uint64}[target.width]
            made = value.to(target, **given)
            y[k, i] = (made if made.is_integer else made.bitcast(bits)).to(fx.Int64)

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=2 * N // 32, block=32)

    return run


def _convert(label: str, source: str, targets: tuple[str, ...], mode: str | None, kind: str) -> Call:
    draw = Draw(label)
    x = Array(values(draw, source, 2 * N, kind), source)
    names = [f"{source} to {t}{f' {mode}' if mode else ''}" for t in targets]
    return Call(convert(source, targets, mode), (x, output((len(targets), 2 * N), "i64", names=names, formats=targets)))


MODES = ("upward", "downward", "toward_zero", "to_nearest_away", "to_nearest_even")


def conversions() -> Iterator[Program]:
    """Every type to every other; numbers that do not fit an integer are a group of their own."""
    for source in FORMATS:
        floats = tuple(t for t in FLOATS if t != source)
        others = tuple(t for t in INTEGERS if t != source)
        label = f"convert {source} to floats"
        yield Program(label, "conversions", partial(_convert, label, source, floats, None, "mixed"))
        label = f"convert {source} to integers"
        kind = "near" if FORMATS[source].is_float else "mixed"
        yield Program(label, "conversions", partial(_convert, label, source, others, None, kind))
        if FORMATS[source].is_float:
            label = f"convert any {source} to integers"
            yield Program(label, "out of range", partial(_convert, label, source, others, None, "mixed"))
    for source, narrower in (("f64", ("f32",)), ("f32", ("f16", "bf16", "e4m3", "e5m2"))):
        for mode in MODES:
            label = f"round {source} {mode}"
            yield Program(label, "rounding modes", partial(_convert, label, source, narrower, mode, "mixed"))


# --- functions ----------------------------------------------------------------------------------------------------

UNARY = (
    "sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh cbrt "
    "erf erfc"
).split()
BINARY = "powf atan2".split()
FAST = "exp exp2 log log2 log10 sin cos".split()


def function(name: str, cls_name: str, arity: int, fast: bool) -> Callable[..., object]:
    """A function that applies one of `fx.math` to each element."""
    cls = class_of(cls_name)
    flags = {"fastmath": "afn"} if fast else {}

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.block_idx.x * 32 + fx.thread_idx.x
        x, y = typed(x, cls), typed(y, cls)
        y[0, i] = getattr(fx.math, name)(*[x[k, i] for k in range(arity)], **flags)

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=N // 32, block=32)

    return run


def _function(label: str, name: str, cls_name: str, arity: int, fast: bool) -> Call:
    x = Array(values(Draw(label), cls_name, arity * N).reshape(arity, N), cls_name)
    return Call(function(name, cls_name, arity, fast), (x, output((1, N), cls_name, names=[name])))


def functions() -> Iterator[Program]:
    """Math by its precise code, which is the same on both sides, and the hardware's approximations."""
    for name in (*UNARY, *BINARY):
        for cls_name in ("f32", "f64") if name in BINARY else ("f32", "f64", "f16"):
            label = f"{name} {cls_name}"
            arity = 2 if name in BINARY else 1
            yield Program(label, "functions", partial(_function, label, name, cls_name, arity, False))
    for name in FAST:
        label = f"{name} f32 afn"
        yield Program(label, "approximations", partial(_function, label, name, "f32", 1, True))


APPROXIMATE = "ex2 lg2 rcp rsqrt sqrt sin cos".split()


def intrinsic(name: str) -> Callable[..., object]:
    """A function that calls an intrinsic of NVIDIA on each f32."""

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.block_idx.x * 32 + fx.thread_idx.x
        typed(y, fx.Float32)[0, i] = fx.llvm_intrinsic(fx.Float32, name, [typed(x, fx.Float32)[0, i]])

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=N // 32, block=32)

    return run


def _intrinsic(label: str, name: str) -> Call:
    x = Array(values(Draw(label), "f32", N).reshape(1, N), "f32")
    return Call(intrinsic(name), (x, output((1, N), "f32", names=[name])))


def intrinsics() -> Iterator[Program]:
    """The approximate functions by their instructions, and the exact ones."""
    for word in APPROXIMATE:
        # LLVM has no reciprocal that keeps subnormal numbers.
        for flush in (".ftz",) if word == "rcp" else ("", ".ftz"):
            name = f"llvm.nvvm.{word}.approx{flush}.f"
            yield Program(name, "approximations", partial(_intrinsic, name, name))
    for word in ("rcp.rn", "sqrt.rn", "saturate"):
        for flush in ("", ".ftz"):
            name = f"llvm.nvvm.{word}{flush}.f"
            yield Program(name, "intrinsics", partial(_intrinsic, name, name))


def programs() -> Iterator[Program]:
    yield from chains()
    yield from conversions()
    yield from functions()
    yield from intrinsics()


__all__ = ["programs"]
