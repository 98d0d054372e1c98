"""Random kernels with results: a text in the language, and the same program as functions of numpy (`lanes.py`).

Each thread writes its own places, blocks exchange through shared memory between barriers, lanes meet where all are
there, and nothing is divided by zero or shifted too far: what comes out is one thing, on every target.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flydsl.errors import DSLOverflowError, DSLValueError

from . import lanes
from .lanes import FLOATS, INTS, SMALL, TYPES, Lanes
from .written import written

BLOCK, BLOCKS = 64, 2
COUNT = BLOCK * BLOCKS
ROOM = 4
"""Places of a thread in each array; what lies behind them is only read."""
SHOWN = 48
"""Values that a program writes at most."""
ARRAYS = {"a": "Float32", "b": "Int8", "c": "Int32", "d": "Float64", "h": "Float16", "l": "Int64", "u": "Uint16"}
CHOSEN = ("Int32", "Int32", "Int32", "Float32", "Float32", "Float32", *INTS, *FLOATS)
WARPS = {"native": 32, "gfx942": 64, "sm_90a": 32, "gfx1100": 32}
"""Lanes of a warp, by what the cpu stack emulates."""
NONE_IS_LARGE = ("native", "sm_90a")
"""Where NaN is the integer of the top bit alone, if 64 bits take part."""
HEAD = """
import flydsl.compiler as flyc
import flydsl.expr as fx


@fx.struct
class Pair:
    x: fx.Int32
    y: fx.Float32
"""
KERNEL = """

@flyc.kernel
def kernel(
    of: fx.Tensor, oi: fx.Tensor, a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, d: fx.Tensor, h: fx.Tensor, l: fx.Tensor,
    u: fx.Tensor, hist: fx.Tensor, n: fx.Int32, t: fx.Float32,
):
    i = fx.thread_idx.x
    g = fx.block_idx.x * 64 + i
    shared = fx.SharedAllocator()
"""
INSIDE = """

def inside(x, low, high):
    return fx.arith.select((x >= low) & (x <= high), x, type(x)(0.0))
"""
TAIL = """

@flyc.jit
def run(
    of: fx.Tensor, oi: fx.Tensor, a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, d: fx.Tensor, h: fx.Tensor, l: fx.Tensor,
    u: fx.Tensor, hist: fx.Tensor, n: fx.Int32, t: fx.Float32,
):
    kernel(of, oi, a, b, c, d, h, l, u, hist, n, t).launch(grid=2, block=64)
"""


class Env:
    """A launch under way: names, arrays, and which lanes are there."""

    def __init__(self, arrays: dict[str, Lanes], n: int, t: float, warp: int, nvidia: bool):
        self.memory = arrays
        self.warp, self.nvidia = warp, nvidia
        self.mask = np.ones(COUNT, np.bool_)
        g = np.arange(COUNT, dtype=np.int32)
        self.values: dict[str, Any] = {
            "g": g, "i": g % np.int32(BLOCK), "n": np.full(COUNT, n, np.int32), "t": np.full(COUNT, t, np.float32),
        }  # fmt: skip

    def assign(self, name: str, value: Lanes) -> None:
        old = self.values.get(name)
        self.values[name] = value if old is None else np.where(self.mask, value, old).astype(value.dtype)

    def store(self, array: str, at: Lanes, value: Lanes) -> None:
        self.memory[array][at[self.mask]] = value[self.mask]


class Expr(NamedTuple):
    """A value: its text, its type, and how it is computed."""

    text: str
    type: str
    run: Callable[[Env], Lanes]


Step = Callable[[Env], None]
Run = Callable[[Env], Lanes]


def constant(type_: str, text: str, value: Any) -> Expr:
    made = np.full(COUNT, value).astype(np.float32) if type_ in SMALL or type_ == "BFloat16" else np.full(COUNT, value)
    return Expr(text, type_, lambda env: made.astype(TYPES[type_]))


def inside(x: Expr, type_: str) -> Expr:
    """A float, or zero in place of what does not fit into an integer."""
    wide = x.type if x.type in ("Float32", "Float64") else "Float32"
    high = 2.0 ** (lanes.width(type_) - 2)
    low = -high if lanes.signed(type_) else 0.0

    def run(env: Env) -> Lanes:
        made = lanes.convert(x.run(env), x.type, wide)
        return np.where((made >= low) & (made <= high), made, made.dtype.type(0))

    return Expr(f"inside(fx.{wide}({x.text}), {low}, {high})", wide, run)


class Results:
    """The text and the steps of a program."""

    def __init__(self, seed: int, *, defined: bool = False):
        """`defined`: no float that does not fit becomes an integer, which every target has its own answer to."""
        self.rng = random.Random(seed)
        self.defined = defined
        self.count = self.shown = 0
        self.lines: list[str] = []
        self.helpers: list[str] = [INSIDE] if defined else []
        self.steps: list[Step] = []
        self.names: dict[str, list[str]] = {"Int32": ["i", "g", "n"], "Float32": ["t"]}
        self.fixed = {"i", "g", "n", "t"}
        self.registers: list[tuple[str, str, int]] = []
        self.vectors: list[tuple[str, str, int]] = []
        self.pairs: list[str] = []
        self.nested = 0
        self.uniform = True
        self.pure = False

    def fresh(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def one_of(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def emit(self, text: str, step: Step | None = None) -> None:
        self.lines.append("    " * (1 + self.nested) + text)
        if step is not None:
            self.steps.append(step)

    # --- expressions --------------------------------------------------------------------------------------------------

    def constant(self, type_: str) -> Expr:
        if type_ == "Boolean":
            flag = self.one_of(True, False)
            return constant(type_, f"fx.Boolean({flag})", flag)
        if type_ in FLOATS:
            value = self.one_of(0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -0.0, 0.1, -7.25, 100.0)
            if type_ == "Float32" and value == 0.1:
                value = 0.125  # known while tracing it stays what was written
            exact = lanes.narrow(np.array([value]), type_).astype(np.float64)[0]
            return constant(type_, f"fx.{type_}({value})", exact)
        value = self.one_of(
            0, 1, 1, 2, 3, 7, 64, 100, -1, -5, 127, 255, 32767, 65535, 1 << 31, (1 << 63) - 1, -(1 << 31)
        )  # fmt: skip
        bits = lanes.width(type_)
        wrapped = value & ((1 << bits) - 1)
        if lanes.signed(type_) and wrapped >> (bits - 1):
            wrapped -= 1 << bits
        return constant(type_, f"fx.{type_}({value})", np.array(wrapped).astype(TYPES[type_]))

    def expr(self, type_: str, depth: int = 0) -> Expr:
        known = self.names.get(type_, [])
        p = self.rng.random()
        if depth > 3 or p < 0.22:
            if known and self.rng.random() < 0.8:
                name = self.rng.choice(known)
                return Expr(name, type_, lambda env: env.values[name])
            return self.constant(type_)
        if p < 0.36:
            return self.converted(type_, depth)
        if p < 0.44:
            # Python's choice is a branch, where not all lanes may be: none meet there.
            was, self.uniform = self.uniform, False
            x, y = self.expr(type_, depth + 1), self.expr(type_, depth + 1)
            self.uniform = was
            c = self.expr("Boolean", depth + 1)
            text = f"fx.arith.select({c.text}, {x.text}, {y.text})"
            text = self.one_of(text, f"({x.text} if {c.text} else {y.text})")
            return Expr(text, type_, lambda env: np.where(c.run(env), x.run(env), y.run(env)))
        if p < 0.52:
            found = self.read(type_)
            if found is not None:
                return found
        if type_ == "Boolean":
            return self.flag(depth)
        return self.float(type_, depth) if type_ in FLOATS else self.integer(type_, depth)

    def index(self, size: int) -> Expr:
        """A place below a power of two."""
        x = self.expr("Int32", 2)
        return Expr(f"({x.text} & {size - 1})", "Int32", lambda env: x.run(env) & np.int32(size - 1))

    def read(self, type_: str) -> Expr | None:
        """From memory that nobody writes, a place of one's own, a register, a vector or a struct."""
        kinds: list[Callable[[], Expr | None]] = []
        arrays = [name for name, elem in ARRAYS.items() if elem == type_] if not self.pure else []
        if arrays:
            kinds += [lambda: self.from_array(arrays[0], False), lambda: self.from_array(arrays[0], True)]
        registers = [x for x in self.registers if x[1] == type_]
        if registers:
            name, _, size = self.rng.choice(registers)
            at = self.rng.randrange(size)
            kinds.append(lambda: Expr(f"{name}[{at}]", type_, lambda env: env.values[name][at]))
        vectors = [x for x in self.vectors if x[1] == type_]
        if vectors:
            v, _, length = self.rng.choice(vectors)
            kinds.append(lambda: self.of_vector(v, type_, length))
        if self.pairs and type_ in ("Int32", "Float32"):
            pair, field = self.rng.choice(self.pairs), "x" if type_ == "Int32" else "y"
            kinds.append(lambda: Expr(f"{pair}.{field}", type_, lambda env: env.values[f"{pair}.{field}"]))
        return self.rng.choice(kinds)() if kinds else None

    def from_array(self, array: str, own: bool) -> Expr:
        type_ = ARRAYS[array]
        if own:
            k = self.rng.randrange(ROOM)
            return Expr(f"{array}[g + {COUNT * k}]", type_, lambda env: env.memory[array][env.values["g"] + COUNT * k])
        at = self.index(128)
        first = COUNT * ROOM
        return Expr(f"{array}[{at.text} + {first}]", type_, lambda env: env.memory[array][at.run(env) + first])

    def of_vector(self, name: str, type_: str, size: int) -> Expr:
        op = self.one_of("max", "min", "add", "at")
        if op == "at" or (op == "add" and type_ in FLOATS) or type_ in SMALL or type_ in FLOATS:
            at = self.rng.randrange(size)
            return Expr(f"{name}[{at}]", type_, lambda env: env.values[name][at])
        combine = {"max": np.maximum, "min": np.minimum, "add": np.add}[op]
        return Expr(
            f"{name}.reduce('{op}')", type_, lambda env: combine.reduce(env.values[name], axis=0).astype(TYPES[type_])
        )

    def flag(self, depth: int) -> Expr:
        p = self.rng.random()
        if p < 0.25:
            x, y, op = self.expr("Boolean", depth + 1), self.expr("Boolean", depth + 1), self.one_of("&", "|", "^")
            word = {"&": self.one_of("&", "and"), "|": self.one_of("|", "or"), "^": "^"}[op]
            ops = {"&": np.logical_and, "|": np.logical_or, "^": np.logical_xor}
            return Expr(f"({x.text} {word} {y.text})", "Boolean", lambda env: ops[op](x.run(env), y.run(env)))
        if p < 0.35:
            x = self.expr("Boolean", depth + 1)
            # Python's own `not` gives a flag of Python's for what is known, whose `~` is a number.
            text = self.one_of(f"(~fx.Boolean({x.text}))", f"(not {x.text})")
            return Expr(text, "Boolean", lambda env: ~x.run(env))
        type_, name = self.rng.choice(CHOSEN), self.one_of("<", "<=", "==", "!=", ">", ">=")
        if type_ == "Boolean":
            type_ = "Int32"
        if p < 0.42 and type_ in ("Float32", "Float64", "Float16"):
            x, test = self.expr(type_, depth + 1), self.one_of("isnan", "isinf", "isfinite")
            return Expr(f"fx.{test}({x.text})", "Boolean", lambda env: getattr(np, test)(x.run(env)))
        x, y = self.expr(type_, depth + 1), self.expr(type_, depth + 1)
        return Expr(
            f"({x.text} {name} {y.text})", "Boolean", lambda env: lanes.compare(name, x.run(env), y.run(env), type_)
        )

    def float(self, type_: str, depth: int) -> Expr:
        x = self.expr(type_, depth + 1)
        p = self.rng.random()
        if type_ == "Float32" and p < 0.1 and self.uniform and not self.pure:
            return self.shuffled(x)
        if p < 0.22 and type_ in ("Float32", "Float64"):
            name = self.one_of("sqrt", "floor", "ceil", "trunc", "roundeven", "absf")
            return Expr(f"fx.{name}({x.text})", type_, lambda env: lanes.float_function(name, x.run(env), type_))
        if p < 0.28:
            return Expr(f"(-{x.text})", type_, lambda env: lanes.narrow(-lanes.computed(x.run(env), type_), type_))
        y = self.expr(type_, depth + 1)
        if p < 0.42 and type_ not in SMALL:
            op = self.one_of("max", "min")
            return Expr(
                f"fx.{op}({x.text}, {y.text})", type_, lambda env: lanes.float_op(op, x.run(env), y.run(env), type_)
            )
        op = self.one_of("+", "-", "*", "*", "/")
        return Expr(f"({x.text} {op} {y.text})", type_, lambda env: lanes.float_op(op, x.run(env), y.run(env), type_))

    def integer(self, type_: str, depth: int) -> Expr:
        x = self.expr(type_, depth + 1)
        p = self.rng.random()
        if type_ == "Int32" and p < 0.06 and self.uniform and not self.pure:
            return self.shuffled(x)
        if p < 0.14:
            name = self.one_of("ctlz", "cttz", "ctpop")
            return Expr(f"fx.{name}({x.text})", type_, lambda env: lanes.bits_of(name, x.run(env), type_))
        if p < 0.18:
            return Expr(f"(~{x.text})", type_, lambda env: ~x.run(env))
        if p < 0.22:
            return Expr(f"(-{x.text})", type_, lambda env: (-x.run(env)).astype(TYPES[type_]))
        y = self.expr(type_, depth + 1)
        op = self.one_of("+", "-", "*", "&", "|", "^", "+", "-", "*", "//", "%", "<<", ">>", "max", "min")
        text, right = f"({x.text} {op} {y.text})", y.run
        if op in ("//", "%"):
            # Positive, and no zero.
            if self.rng.random() < 0.6:
                by = self.one_of(1, 2, 3, 4, 5, 7, 8, 64, 100)
                text, right = f"({x.text} {op} fx.{type_}({by}))", lambda env: np.full(COUNT, by, TYPES[type_])
            else:
                text = f"({x.text} {op} (({y.text} & fx.{type_}(7)) + fx.{type_}(1)))"
                right = lambda env: (y.run(env) & TYPES[type_](7)) + TYPES[type_](1)  # noqa: E731
        elif op in ("<<", ">>"):
            if self.rng.random() < 0.6:
                by = self.rng.randrange(lanes.width(type_))
                text, right = f"({x.text} {op} fx.{type_}({by}))", lambda env: np.full(COUNT, by, TYPES[type_])
            else:
                text = f"({x.text} {op} ({y.text} & fx.{type_}({lanes.width(type_) - 1})))"
        elif op in ("max", "min"):
            text = f"fx.{op}({x.text}, {y.text})"
        return Expr(text, type_, lambda env: lanes.int_op(op, x.run(env), right(env), type_))

    def shuffled(self, x: Expr) -> Expr:
        """What another lane of the warp has."""
        kind, by = self.one_of("xor", "up", "down", "idx"), self.one_of(1, 2, 3, 5, 8, 16)
        width = self.one_of(None, 8, 16, 32)

        def run(env: Env) -> Lanes:
            value, size = x.run(env), width or env.warp
            lane = np.arange(COUNT) % env.warp
            first = lane // size * size
            at = {"xor": lane ^ by, "up": lane - by, "down": lane + by, "idx": np.full(COUNT, by)}[kind]
            inside = (at >= first) & (at < first + size) | (kind == "idx")
            return value[np.arange(COUNT) - lane + np.where(inside, at, lane)]

        rest = "" if width is None else f", {width}"
        return Expr(f"fx.shuffle_{kind}({x.text}, {by}{rest})", x.type, run)

    def converted(self, type_: str, depth: int) -> Expr:
        from_ = self.rng.choice(CHOSEN)
        if self.rng.random() < 0.12 and lanes.width(type_) > 8 and type_ in ("Float32", "Float64", "Float16"):
            ints = "Int" + str(lanes.width(type_))
            x = self.expr(ints, depth + 1)
            return Expr(f"{x.text}.bitcast(fx.{type_})", type_, lambda env: x.run(env).view(TYPES[type_]))
        mixed = None
        if type_ not in ("Boolean", *SMALL) and self.rng.random() < 0.25:
            mixed = self.mixed(depth)
        x = mixed or self.expr(from_, depth + 1)
        if self.defined and x.type in FLOATS and type_ in INTS:
            x = inside(x, type_)
        return Expr(f"fx.{type_}({x.text})", type_, lambda env: lanes.convert(x.run(env), x.type, type_, env.nvidia))

    def mixed(self, depth: int) -> Expr | None:
        """Operands of two types, which meet in one."""
        kinds = [t for t in CHOSEN if t not in SMALL and t != "Boolean"]
        a, b = self.rng.choice(kinds), self.rng.choice(kinds)
        meet = lanes.common(a, b)
        x, y, op = self.expr(a, depth + 1), self.expr(b, depth + 1), self.one_of("+", "-", "*", "max", "min")
        apply = lanes.float_op if meet in FLOATS else lanes.int_op
        text = f"fx.{op}({x.text}, {y.text})" if op in ("max", "min") else f"({x.text} {op} {y.text})"

        def run(env: Env) -> Lanes:
            return apply(op, lanes.convert(x.run(env), a, meet), lanes.convert(y.run(env), b, meet), meet)

        return Expr(text, meet, run)

    # --- statements ---------------------------------------------------------------------------------------------------

    def block(self, least: int = 1, most: int = 4) -> None:
        saved = {type_: list(names) for type_, names in self.names.items()}
        kept = list(self.registers), list(self.vectors), list(self.pairs)
        self.define()
        for _ in range(self.rng.randint(least, most)):
            self.statement()
        if self.nested:
            self.names = saved
            self.registers, self.vectors, self.pairs = kept

    def statement(self) -> None:
        kinds: dict[Callable[[], None], float] = {
            self.define: 5, self.assign: 5, self.register: 1.5, self.put: 3, self.whole: 1.5, self.vector: 2,
            self.pair: 1,
        }  # fmt: skip
        if not self.pure:
            kinds |= {
                self.store: 3, self.show: 1, self.exchange: 1, self.histogram: 0.7, self.function: 0.5,
                self.moved: 0.5, self.product: 0.3, self.returned: 0.5,
            }  # fmt: skip
        if self.nested < 3:
            kinds |= {self.branch: 2.5, self.loop: 1.8, self.repeat: 0.8, self.unrolled: 0.6}
        self.rng.choices(list(kinds), list(kinds.values()))[0]()

    def add(self, value: Expr, name: str | None = None) -> None:
        name = name or self.fresh()

        def step(env: Env) -> None:
            env.values[name] = value.run(env)

        self.emit(f"{name} = {value.text}", step)
        self.names.setdefault(value.type, []).append(name)

    def typed(self, type_: str, depth: int = 0) -> Expr:
        """A value as one of run time or compile time, whichever it is, but never a Python number."""
        x = self.expr(type_, depth)
        return Expr(f"fx.{type_}({x.text})", type_, x.run)

    def define(self) -> None:
        self.add(self.typed(self.rng.choice(CHOSEN)))

    def assign(self) -> None:
        given = [(t, name) for t, names in self.names.items() for name in names if name not in self.fixed]
        if not given:
            self.define()
            return
        type_, name = self.rng.choice(given)
        value = self.typed(type_)
        self.emit(f"{name} = {value.text}", lambda env: env.assign(name, value.run(env)))

    def show(self, value: Expr | None = None) -> None:
        """A value written where only this thread writes, and nobody reads."""
        if self.shown >= SHOWN:
            return
        value = value or self.expr(self.rng.choice(CHOSEN))
        array, wide = ("of", "Float64") if value.type in FLOATS else ("oi", "Int64")
        at = COUNT * self.shown
        self.shown += 1
        self.emit(
            f"{array}[g + {at}] = fx.{wide}({value.text})",
            lambda env: env.store(array, env.values["g"] + at, lanes.convert(value.run(env), value.type, wide)),
        )

    def store(self) -> None:
        array = self.rng.choice(list(ARRAYS))
        value, k = self.expr(ARRAYS[array]), self.rng.randrange(ROOM)
        # Under a name first: an array takes values of its type, and Python's numbers.
        self.emit(
            f"{array}[g + {COUNT * k}] = fx.{ARRAYS[array]}({value.text})",
            lambda env: env.store(array, env.values["g"] + COUNT * k, value.run(env)),
        )

    def histogram(self) -> None:
        """Integers added up by everybody, which nobody reads."""
        at, value = self.index(64), self.expr("Int32", 1)

        def step(env: Env) -> None:
            np.add.at(env.memory["hist"], at.run(env)[env.mask], value.run(env)[env.mask])

        self.emit(f"fx.atomic_add(fx.get_iter(hist) + {at.text}, fx.Int32({value.text}))", step)

    def returned(self) -> None:
        """An atomic operation on a place of one's own, and what was there."""
        array, type_ = self.one_of(("c", "Int32"), ("c", "Int32"), ("l", "Int64"))
        value, than, at, name = self.typed(type_), self.typed(type_), COUNT * self.rng.randrange(ROOM), self.fresh()
        op = self.one_of("add", "sub", "max", "min", "and", "or", "xor", "xchg", "cas")
        given = f"{than.text}, {value.text}" if op == "cas" else value.text

        def step(env: Env) -> None:
            place = env.values["g"] + at
            old, new = env.memory[array][place], value.run(env)
            if op == "cas":
                env.values[name] = old
                env.store(array, place, np.where(old == than.run(env), new, old))
                return
            words = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
            made = new if op == "xchg" else lanes.int_op(words.get(op, op), old, new, type_)
            env.values[name] = old
            env.store(array, place, made)

        which = "[0]" if op == "cas" else ""
        self.emit(f"{name} = fx.atomic_{op}(fx.get_iter({array}) + (g + {at}), {given}){which}", step)
        self.names.setdefault(type_, []).append(name)

    def register(self) -> None:
        name, type_ = self.fresh("r"), self.rng.choice([t for t in CHOSEN if t != "Boolean"])
        size, first = self.rng.choice((1, 2, 3, 4, 4, 8)), self.constant(type_)
        self.emit(f"{name} = fx.make_rmem_tensor({size}, fx.{type_})")

        def fill(env: Env) -> None:
            env.values[name] = np.stack([first.run(env)] * size)

        self.emit(f"{name}.fill({first.text})", fill)
        self.registers.append((name, type_, size))

    def put(self) -> None:
        if not self.registers:
            self.register()
        name, type_, size = self.rng.choice(self.registers)
        value, at = self.typed(type_), self.rng.randrange(size)

        def step(env: Env) -> None:
            held = env.values[name].copy()
            held[at] = np.where(env.mask, value.run(env), held[at])
            env.values[name] = held

        self.emit(f"{name}[{at}] = {value.text}", step)

    def combined(self, type_: str, x: Run, y: Run, op: str) -> Run:
        apply = lanes.float_op if type_ in FLOATS else lanes.int_op
        return lambda env: apply(op, x(env), y(env), type_)

    def whole(self) -> None:
        """A register tensor as a vector, computed with, and put back."""
        if not self.registers:
            self.register()
        name, type_, size = self.rng.choice(self.registers)
        others = [x[0] for x in self.registers if x[1:] == (type_, size)]
        other, to, op = self.rng.choice(others), self.rng.choice(others), self.one_of("+", "-", "*")
        scalar = self.typed(type_, 2) if self.rng.random() < 0.5 else None
        right = (lambda env: env.values[other]) if scalar is None else scalar.run
        made = self.combined(type_, lambda env: env.values[name], right, op)

        def step(env: Env) -> None:
            env.values[to] = np.where(env.mask, made(env), env.values[to])

        self.emit(f"{to}.store({name}.load() {op} {f'{other}.load()' if scalar is None else scalar.text})", step)

    def gathered(self) -> None:
        """A vector of values."""
        type_, size = self.rng.choice([t for t in CHOSEN if t != "Boolean"]), self.one_of(2, 3, 4, 4, 8)
        name = self.fresh("w")
        items = [self.expr(type_, 2) for _ in range(size)]
        text = ", ".join(x.text for x in items)

        def step(env: Env) -> None:
            env.values[name] = np.stack([x.run(env) for x in items])

        self.emit(f"{name} = fx.Vector.from_elements([{text}], fx.{type_})", step)
        self.vectors.append((name, type_, size))

    def vector(self) -> None:
        if not self.vectors or self.rng.random() < 0.3:
            self.gathered()
        name, type_, size = self.rng.choice(self.vectors)
        other = self.rng.choice([x[0] for x in self.vectors if x[1:] == (type_, size)])
        to, length, kind = type_, size, self.rng.randrange(4)
        x, y = (lambda env: env.values[name]), (lambda env: env.values[other])
        if kind == 0:
            length = self.one_of(2, 4, 8, size)
            mask = [self.rng.randrange(2 * size) for _ in range(length)]
            text = f"{name}.shuffle({other}, {mask})"
            made: Callable[[Env], Lanes] = lambda env: np.concatenate([x(env), y(env)])[mask]  # noqa: E731
        elif kind == 1:
            op = self.one_of("<", "==", ">=")
            text = f"({name} {op} {other}).select({name}, {other})"
            made = lambda env: np.where(lanes.compare(op, x(env), y(env), type_), x(env), y(env))  # noqa: E731
        elif kind == 2:
            to = self.rng.choice([t for t in CHOSEN if t != "Boolean"])
            if self.defined and type_ in FLOATS and to in INTS:
                to = "Float32"
            text = f"{name}.to(fx.{to})"
            made = lambda env: lanes.convert(x(env), type_, to, env.nvidia)  # noqa: E731
        else:
            op = self.one_of("+", "-", "*")
            text, made = f"{name} {op} {other}", self.combined(type_, x, y, op)
        if to == type_ and length == size and self.rng.random() < 0.5:

            def carry(env: Env) -> None:
                env.values[other] = np.where(env.mask, made(env), env.values[other])

            self.emit(f"{other} = {text}", carry)
            return
        result = self.fresh("w")

        def step(env: Env) -> None:
            env.values[result] = made(env)

        self.emit(f"{result} = {text}", step)
        self.vectors.append((result, to, length))

    def pair(self) -> None:
        x, y = self.expr("Int32", 1), self.expr("Float32", 1)
        if not self.pairs or self.rng.random() < 0.3:
            name = self.fresh("p")

            def step(env: Env) -> None:
                env.values[f"{name}.x"], env.values[f"{name}.y"] = x.run(env), y.run(env)

            self.emit(f"{name} = Pair({x.text}, {y.text})", step)
            self.pairs.append(name)
            return
        name, value, field = self.rng.choice(self.pairs), *self.one_of((x, "x"), (y, "y"))
        text = f"{name} = {name}.replace({field}={value.text})"
        self.emit(text, lambda env: env.assign(f"{name}.{field}", value.run(env)))

    def exchange(self) -> None:
        """Through shared memory, everybody there."""
        if not self.uniform or self.nested:
            return
        type_ = self.one_of("Float32", "Int32", "Int8", "Float16", "Int64")
        name, value, at = self.fresh("s"), self.expr(type_), self.index(64)
        place = f"shared.allocate(fx.Array[fx.{type_}, 64]).peek().ptr"
        swizzle, layout = self.rng.random() < 0.3, "fx.make_layout(64, 1)"
        if swizzle:
            layout = f"fx.make_composed_layout(fx.static(fx.SwizzleType.get(2, 0, 3)), {layout})"
        self.emit(f"{name} = fx.make_view({place}, {layout})")
        self.emit(f"{name}[i] = fx.{type_}({value.text})")
        self.emit("fx.barrier()")
        result = self.fresh()

        def step(env: Env) -> None:
            held = value.run(env)
            env.values[result] = held[np.arange(COUNT) // BLOCK * BLOCK + at.run(env)]

        self.emit(f"{result} = {name}[{at.text}]", step)
        self.names.setdefault(type_, []).append(result)

    def function(self) -> None:
        """A helper of the module, called twice."""
        if self.nested:
            return
        name, type_ = self.fresh("helper"), self.one_of("Int32", "Float32", "Float64", "Int8")
        saved = self.lines, self.steps, self.names, self.registers, self.vectors, self.pairs, self.uniform
        x, y = self.fresh("x"), self.fresh("y")
        self.lines, self.steps, self.names = [], [], {"Int32": [x], "Float32": [y]}
        self.fixed |= {x, y}
        self.registers, self.vectors, self.pairs, self.uniform, self.pure = [], [], [], False, True
        self.define()
        for _ in range(self.rng.randint(0, 4)):
            self.statement()
        result = self.typed(type_)
        self.emit(f"return {result.text}")
        body, steps = self.lines, self.steps
        self.lines, self.steps, self.names, self.registers, self.vectors, self.pairs, self.uniform = saved
        self.pure = False
        self.helpers.append(f"\n\n@flyc.jit\ndef {name}({x}, {y}):\n" + "\n".join(body) + "\n")
        for _ in range(2):
            at, of, made = self.typed("Int32", 1), self.typed("Float32", 1), self.fresh()

            def step(env: Env, at: Expr = at, of: Expr = of, made: str = made) -> None:
                env.values[x], env.values[y] = at.run(env), of.run(env)
                for each in steps:
                    each(env)
                env.values[made] = result.run(env)

            self.emit(f"{made} = {name}({at.text}, {of.text})", step)
            self.names.setdefault(type_, []).append(made)

    # --- tensors ------------------------------------------------------------------------------------------------------

    def moved(self) -> None:
        """A tile of an array that nobody writes into shared memory by a tiled copy, and elements of it back."""
        if not self.uniform or self.nested:
            return
        array = self.one_of("a", "c", "h", "b")
        type_ = ARRAYS[array]
        threads = self.one_of(((8, 8), (8, 1)), ((8, 8), (1, 8)), ((4, 16), (16, 1)), ((16, 4), (4, 1)))
        values = self.one_of(((1, 1), (1, 1)), ((1, 2), (2, 1)), ((2, 1), (1, 2)), ((2, 2), (2, 1)))
        rows, columns = threads[0][0] * values[0][0], threads[0][1] * values[0][1]
        size = rows * columns
        source, target = self.one_of((columns, 1), (1, rows)), self.one_of((columns, 1), (1, rows), (columns + 4, 1))
        swizzled = target == (columns, 1) and self.rng.random() < 0.5
        bits = lanes.width(type_)
        wide = values[0][1] if source[1] == 1 and target[1] == 1 and not swizzled and self.rng.random() < 0.5 else 1
        tc, mine, held, view, name = (self.fresh(p) for p in ("tc", "mine", "held", "x", "s"))
        room = 1 + (rows - 1) * target[0] + (columns - 1) * target[1]
        start = f"fx.get_iter({array}) + {COUNT * ROOM}"
        self.emit(f"{view} = fx.make_view({start}, fx.make_layout(({rows}, {columns}), {source}))")
        layout = f"fx.make_layout(({rows}, {columns}), {target})"
        if swizzled:
            layout = f"fx.make_composed_layout(fx.static(fx.SwizzleType.get(2, 0, 3)), {layout})"
        place = f"shared.allocate(fx.Array[fx.{type_}, {max(room, size)}, 16]).peek().ptr"
        self.emit(f"{name} = fx.make_view({place}, {layout})")
        atom = f"fx.make_copy_atom(fx.UniversalCopy({bits * wide}), fx.{type_})"
        self.emit(f"{tc} = fx.make_tiled_copy_tv({atom}, fx.make_layout{threads}, fx.make_layout{values})")
        self.emit(f"{mine} = {tc}.get_slice(i)")
        self.emit(f"{held} = fx.make_fragment_like({mine}.partition_S({view}))")
        zero = "0" if type_ in INTS else "0.0"
        self.emit(f"{held}.fill({zero})")
        pred, limits = "", (rows, columns)
        if self.rng.random() < 0.5:
            limits = (self.rng.randint(0, rows), self.rng.randint(0, columns))
            where, mask, k = self.fresh("x"), self.fresh("m"), self.fresh("k")
            whole = f"fx.make_view((0, 0), fx.make_identity_layout(({rows}, {columns})))"
            self.emit(f"{where} = {mine}.partition_S({whole})[(0, None), None, None]")
            self.emit(f"{mask} = fx.make_fragment_like({where}, dtype=fx.Boolean)")
            self.emit(f"for {k} in fx.range_constexpr(fx.size({mask}.shape).unpack()):")
            self.emit(f"    {mask}[{k}] = fx.elem_less({where}[{k}], {limits})")
            pred = f", pred={mask}"
        self.emit(f"fx.copy({tc}, {mine}.partition_S({view}), {held}{pred})")
        scale = self.constant(type_)
        op = self.one_of("+", "*", "-")
        self.emit(f"{held}.store({held}.load() {op} {scale.text})")
        self.emit(f"fx.copy({tc}, {held}, {mine}.partition_D({name}))")
        self.emit("fx.barrier()")
        result, at_r, at_c = self.fresh(), self.index(8), self.index(8)
        rr, cc = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
        # The first of the elements of a call decides for all of them.
        first = cc // wide * wide
        inside = (rr < limits[0]) & (first < limits[1])

        def step(env: Env) -> None:
            given = env.memory[array][COUNT * ROOM + rr * source[0] + cc * source[1]]
            given = np.where(inside, given, np.zeros_like(given))
            by = scale.run(env)[:1]
            apply = lanes.float_op if type_ in FLOATS else lanes.int_op
            made = apply(op, given, by, type_)
            env.values[result] = made[at_r.run(env) % rows, at_c.run(env) % columns]

        self.emit(f"{result} = {name}[{at_r.text} % {rows}, {at_c.text} % {columns}]", step)
        self.names.setdefault(type_, []).append(result)

    def product(self) -> None:
        """A product of small integers, exact in every order, by scalar atoms over a block."""
        if not self.uniform or self.nested:
            return
        depth, twice = self.one_of(1, 2, 4), self.one_of(1, 2)
        rows, columns = 8 * twice, 8
        names = [self.fresh("x") for _ in range(3)]
        mma, mine, ra, rb, rc, result = (self.fresh(p) for p in ("mma", "mine", "h", "h", "h", "v"))
        stride_a, stride_b = self.one_of((depth, 1), (1, rows)), self.one_of((depth, 1), (1, columns))
        first = COUNT * ROOM
        source = f"fx.get_iter(b) + {first}"
        self.emit(f"{names[0]} = fx.make_view({source}, fx.make_layout(({rows}, {depth}), {stride_a}))")
        self.emit(f"{names[1]} = fx.make_view({source} + 32, fx.make_layout(({columns}, {depth}), {stride_b}))")
        place = f"shared.allocate(fx.Array[fx.Float32, {rows * columns}]).peek().ptr"
        self.emit(f"{names[2]} = fx.make_view({place}, fx.make_layout(({rows}, {columns}), ({columns}, 1)))")
        atom = "fx.make_mma_atom(fx.UniversalFMA(fx.Float32))"
        self.emit(f"{mma} = fx.make_tiled_mma({atom}, fx.make_layout((8, 8, 1), (1, 8, 0)))")
        self.emit(f"{mine} = {mma}.get_slice(i)")
        for held, letter, view in ((ra, "A", names[0]), (rb, "B", names[1])):
            self.emit(f"{held} = {mine}.make_fragment_{letter}({view})")
            self.emit(f"{held}.store({mine}.partition_{letter}({view}).load().to(fx.Float32))")
        self.emit(f"{rc} = {mine}.make_fragment_C({names[2]})")
        self.emit(f"{rc}.fill(1.0)")
        self.emit(f"fx.gemm({mma}, {rc}, {ra}, {rb}, {rc})")
        self.emit(f"{mine}.partition_C({names[2]}).store({rc}.load())")
        self.emit("fx.barrier()")
        at_r, at_c = self.index(8), self.index(8)

        def step(env: Env) -> None:
            x = np.arange(rows)[:, None] * stride_a[0] + np.arange(depth) * stride_a[1]
            y = np.arange(columns)[:, None] * stride_b[0] + np.arange(depth) * stride_b[1]
            given = env.memory["b"].astype(np.float64)
            left, right = given[first + x], given[first + 32 + y]
            made = (left @ right.T + 1.0).astype(np.float32)
            env.values[result] = made[at_r.run(env), at_c.run(env)]

        self.emit(f"{result} = {names[2]}[{at_r.text}, {at_c.text}]", step)
        self.names["Float32"].append(result)

    # --- control flow -------------------------------------------------------------------------------------------------

    def inside(self, uniform: bool = False) -> list[Step]:
        """A block further in, and its steps."""
        self.nested += 1
        was, self.uniform = self.uniform, self.uniform and uniform
        outer, self.steps = self.steps, []
        self.block()
        found, self.steps = self.steps, outer
        self.uniform = was
        self.nested -= 1
        return found

    def branch(self) -> None:
        same = self.rng.random() < 0.3 and not self.pure
        by = self.rng.randrange(8)
        cond = Expr(f"n > {by}", "Boolean", lambda env: env.values["n"] > by) if same else self.expr("Boolean")
        self.emit(f"if {cond.text}:")
        then, otherwise = self.inside(same), []
        kind = self.rng.random()
        if kind < 0.5:
            self.emit("else:")
            otherwise = self.inside(same)

        def step(env: Env) -> None:
            was, taken = env.mask, cond.run(env)
            for steps, mask in ((then, was & taken), (otherwise, was & ~taken)):
                env.mask = mask
                if mask.any():
                    for each in steps:
                        each(env)
            env.mask = was

        self.steps.append(step)

    def loop(self) -> None:
        name = self.fresh("k")
        same = self.rng.random() < 0.4 and not self.pure
        count = Expr("(n & 3)", "Int32", lambda env: env.values["n"] & np.int32(3)) if same else self.index(4)
        low, by = self.one_of(0, 0, 1, -2), self.one_of(1, 1, 2, 3)
        text = f"range({low}, {count.text}, {by})" if low or by > 1 else f"range({count.text})"
        self.emit(f"for {name} in {self.one_of('', 'fx.') if text.count(',') else ''}{text}:")
        self.names["Int32"].append(name)
        self.fixed.add(name)
        body = self.inside(same)
        self.names["Int32"].remove(name)

        def step(env: Env) -> None:
            was, last = env.mask, count.run(env)
            at = low
            while True:
                env.mask = was & (at < last)
                if not env.mask.any():
                    break
                env.values[name] = np.full(COUNT, at, np.int32)
                for each in body:
                    each(env)
                at += by
            env.mask = was

        self.steps.append(step)

    def repeat(self) -> None:
        name, was = self.fresh("j"), self.uniform
        # Lanes leave one by one: they do not meet in the condition.
        self.uniform = False
        bound = self.index(4)
        self.uniform = was
        self.emit(f"{name} = fx.Int32(0)")
        # What the condition reads may change in the loop: the counter alone ends it.
        self.emit(f"while {name} < {bound.text}:")
        self.lines.append("    " * (2 + self.nested) + f"{name} = {name} + 1")
        self.names["Int32"].append(name)
        self.fixed.add(name)
        body = self.inside()
        self.names["Int32"].remove(name)

        def step(env: Env) -> None:
            was = env.mask
            env.values[name] = np.zeros(COUNT, np.int32)
            while True:
                env.mask = env.mask & (env.values[name] < bound.run(env))
                if not env.mask.any():
                    break
                env.assign(name, env.values[name] + np.int32(1))
                for each in body:
                    each(env)
            env.mask = was

        self.steps.append(step)

    def unrolled(self) -> None:
        """A loop that Python runs."""
        name, at, count = self.fresh("k"), self.fresh("v"), self.one_of(0, 1, 2, 3)
        self.emit(f"for {name} in fx.range_constexpr({count}):")
        self.lines.append("    " * (2 + self.nested) + f"{at} = fx.Int32({name})")
        self.names["Int32"].append(at)
        self.fixed.add(at)
        body = self.inside(self.uniform)
        self.names["Int32"].remove(at)

        def step(env: Env) -> None:
            for k in range(count):
                env.values[at] = np.full(COUNT, k, np.int32)
                for each in body:
                    each(env)

        self.steps.append(step)

    # --- all of it ----------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The module."""
        self.block(4, 9)
        for type_, names in sorted(self.names.items()):
            for name in names:
                if name not in self.fixed and self.rng.random() < 0.8:
                    self.show(Expr(name, type_, lambda env, name=name: env.values[name]))
        for held in (self.registers, self.vectors):
            for name, type_, size in held:
                at = self.rng.randrange(size)
                self.show(Expr(f"{name}[{at}]", type_, lambda env, name=name, at=at: env.values[name][at]))
        for name in self.pairs:
            self.show(Expr(f"{name}.y", "Float32", lambda env, name=name: env.values[f"{name}.y"]))
        return HEAD + "".join(self.helpers) + KERNEL + "\n".join(self.lines) + "\n" + TAIL

    def expected(self, arrays: dict[str, Lanes], n: int, t: float, warp: int, nvidia: bool) -> dict[str, Lanes]:
        """What the arrays hold after the launch."""
        env = Env({name: x.copy() for name, x in arrays.items()}, n, t, warp, nvidia)
        with np.errstate(all="ignore"):
            for step in self.steps:
                step(env)
        return env.memory


def arrays(seed: int) -> dict[str, Lanes]:
    """Arguments: random numbers, some of them odd."""
    rng = np.random.default_rng(seed)
    made: dict[str, Lanes] = {"of": np.zeros(COUNT * SHOWN), "oi": np.zeros(COUNT * SHOWN, np.int64)}
    for name, type_ in ARRAYS.items():
        size, dtype = COUNT * (ROOM + 2), TYPES[type_]
        if type_ in FLOATS:
            x = rng.standard_normal(size) * rng.choice([1.0, 1.0, 10.0, 1000.0, 1e-5], size)
            odd = rng.choice([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 65504.0], size)
            x = np.where(rng.random(size) < 0.05, odd, x)
            made[name] = x.astype(dtype)
            continue
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, size, endpoint=True, dtype=dtype)
        made[name] = np.where(rng.random(size) < 0.6, rng.integers(0, 100, size).astype(dtype), x)
    made["hist"] = np.zeros(64, np.int32)
    return made


TOLD = (DSLValueError, DSLOverflowError)


def is_told(error: Exception) -> bool:
    """What is known while tracing may be infinite or large: that is told, where it is used."""
    return any(words in str(error) for words in ("no integer value", "does not fit"))


def wrong(seed: int, arch: str, path: Path) -> str | None:
    """What differs when a program runs: on the cpu stack, which emulates an architecture."""
    program, given = Results(seed), arrays(seed)
    text, n, t = program.text(), seed % 9, (1.5, -0.0, 0.1, 3e5)[seed % 4]
    wanted = program.expected(given, n, t, WARPS[arch], arch in NONE_IS_LARGE)
    try:
        written(text, path).run(*given.values(), n, t)
    except TOLD as error:
        if is_told(error):
            return None
        raise
    found = differences(given, wanted)
    return f"Results({seed}).text() for {arch}: {'; '.join(found)}" if found else None


def differences(found: dict[str, Lanes], wanted: dict[str, Lanes]) -> list[str]:
    """Where arrays differ: NaN is NaN, zeros have signs."""
    told: list[str] = []
    for name, x in found.items():
        y = wanted[name]
        same = x == y
        if x.dtype.kind == "f":
            same = (same & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))
        for at in np.flatnonzero(~same)[:3]:
            told.append(f"{name}[{at % COUNT} + {at - at % COUNT}] is {x[at]!r}, not {y[at]!r}")
    return told
