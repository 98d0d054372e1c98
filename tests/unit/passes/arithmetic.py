"""Straight-line IR of integers, floats and vectors: random programs, and an interpreter that knows what ops mean.

The interpreter is plain Python over numbers; None is poison, of which everything may be made.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr
from xdsl.ir import Block, Operation

BINARY = (
    *("addi", "subi", "muli", "andi", "ori", "xori", "shli", "shrui", "shrsi", "minsi", "maxsi", "minui", "maxui"),
    *("divui", "remui", "divsi", "remsi", "ceildivsi", "floordivsi", "ceildivui"),
)
FLOAT_BINARY = ("addf", "subf", "mulf", "divf")
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
Value = Any
"""A number, None for poison, or a list of those."""


def width(type_: str) -> int:
    return 64 if type_ == "index" else int(type_[1:])


def wrap(value: int, bits: int) -> int:
    """As a signed number of that many bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def binary(name: str, a: int, b: int, bits: int) -> int | None:
    ua, ub = unsigned(a, bits), unsigned(b, bits)
    if name in ("shli", "shrui", "shrsi") and ub >= bits:
        return None
    if ("div" in name or "rem" in name) and (b == 0 or (a == -(1 << (bits - 1)) and b == -1)):
        return None
    table: dict[str, Callable[[], int]] = {
        "addi": lambda: a + b, "subi": lambda: a - b, "muli": lambda: a * b,
        "andi": lambda: a & b, "ori": lambda: a | b, "xori": lambda: a ^ b,
        "shli": lambda: a << ub, "shrui": lambda: ua >> ub, "shrsi": lambda: a >> ub,
        "minsi": lambda: min(a, b), "maxsi": lambda: max(a, b), "minui": lambda: min(ua, ub),
        "maxui": lambda: max(ua, ub), "divui": lambda: ua // ub, "remui": lambda: ua % ub,
        "divsi": lambda: _truncated(a, b), "remsi": lambda: a - b * _truncated(a, b),
        "ceildivsi": lambda: -(-a // b), "floordivsi": lambda: a // b, "ceildivui": lambda: -(-ua // ub),
    }  # fmt: skip
    return wrap(table[name](), bits)


def compare(predicate: str, a: int, b: int, bits: int) -> int:
    if predicate.startswith("u"):
        a, b = unsigned(a, bits), unsigned(b, bits)
    found = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    return -int(found[predicate if predicate in ("eq", "ne") else predicate[1:]])


def float_binary(name: str, a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        return {"addf": a + b, "subf": a - b, "mulf": a * b, "divf": np.divide(a, b)}[name]


# --- the interpreter ------------------------------------------------------------------------------------------------


def _ints(attribute: object) -> list[int]:
    if isinstance(attribute, DenseArrayBase):
        return [int(x) for x in attribute.get_values()]
    assert isinstance(attribute, ArrayAttr)
    return [x.value.data for x in attribute.data if isinstance(x, IntegerAttr)]


def _lanes(type_: str) -> int:
    return int(np.prod([int(n) for n in re.findall(r"(\d+)x", type_)]))


def _element(type_: str) -> str:
    return re.sub(r"^vector<(\d+x)+|>$", "", type_)


def _each(count: int, function: Callable[..., Value], *lists: Value) -> Value:
    return [function(*(x[i] for x in lists)) for i in range(count)]


def _strict(function: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *xs: None if any(x is None for x in xs) else function(*xs)


def _constant(op: Operation, type_: str) -> Value:
    text = str(op.properties["value"])
    elem = _element(type_)
    numbers = re.findall(r"-?(?:0x[0-9a-fA-F]+|[\d.]+(?:e[+-]?\d+)?)|true|false", text.partition(" : ")[0])
    made = [_number(x, elem) for x in numbers]
    return made[0] if type_ == elem else made * (_lanes(type_) // len(made))


def _number(text: str, type_: str) -> Value:
    if type_ in FLOATS:
        if "0x" in text:
            return np.array([int(text, 16)], f"u{width(type_) // 8}").view(FLOATS[type_])[0]
        return FLOATS[type_](text)
    return -int(text == "true") if text in ("true", "false") else wrap(int(text), width(type_))


def run(body: Block, inputs: Sequence[Value]) -> list[Value]:
    """What a function of one block gives."""
    env: dict[object, Value] = dict(zip(body.args, inputs, strict=True))
    for op in body.ops:
        values = [env[x] for x in op.operands]
        if op.name == "gpu.return":
            return values
        (result,) = op.results
        env[result] = _step(op, values, [str(x.type) for x in op.operands], str(result.type))
    raise AssertionError("no return")


def _step(op: Operation, xs: list[Value], types: list[str], type_: str) -> Value:
    name = op.name.partition(".")[2]
    elem = _element(type_)
    source = _element(types[0]) if types else ""
    function: Callable[..., Value] | None = None
    if name == "constant":
        return _constant(op, type_)
    if name in BINARY:
        function = _strict(lambda a, b: binary(name, a, b, width(elem)))
    elif name in FLOAT_BINARY:
        function = _strict(lambda a, b: float_binary(name, a, b))
    elif name == "negf":
        function = _strict(lambda a: -a)
    elif name == "cmpi":
        predicate = PREDICATES[getattr(op.properties["predicate"], "value").data]  # noqa: B009
        function = _strict(lambda a, b: compare(predicate, a, b, width(source)))
    elif name == "select":
        function = lambda c, a, b: None if c is None else a if c else b  # noqa: E731
        if types[0] == "i1" and type_ != elem:
            xs = [[xs[0]] * _lanes(type_), *xs[1:]]
    elif name in ("extsi", "index_cast", "trunci"):
        function = _strict(lambda a: wrap(a, width(elem)))
    elif name == "extui":
        function = _strict(lambda a: unsigned(a, width(source)))
    if function is not None:
        return _each(_lanes(type_), function, *xs) if type_ != elem else function(*xs)
    return _moved(op, name, xs, types, type_)


def _moved(op: Operation, name: str, xs: list[Value], types: list[str], type_: str) -> Value:
    if name == "poison":
        return None if type_ == _element(type_) else [None] * _lanes(type_)
    if name == "from_elements":
        return list(xs)
    if name == "broadcast":
        return [xs[0]] * _lanes(type_)
    if name == "shape_cast":
        return list(xs[0])
    if name == "shuffle":
        both = [*xs[0], *xs[1]]
        return [None if i < 0 else both[i] for i in _ints(op.properties["mask"])]
    if name == "transpose":
        shape = [int(n) for n in re.findall(r"(\d+)x", types[0])]
        places = np.arange(len(xs[0])).reshape(shape).transpose(_ints(op.properties["permutation"])).ravel()
        return [xs[0][i] for i in places]
    if name == "extract":
        return xs[0][xs[1] if len(xs) > 1 else _ints(op.properties["static_position"])[0]]
    if name == "insert":
        at = xs[2] if len(xs) > 2 else _ints(op.properties["static_position"])[0]
        return [*xs[1][:at], xs[0], *xs[1][at + 1 :]]
    if name == "extract_strided_slice":
        (at,) = _ints(op.properties["offsets"])
        return xs[0][at : at + _lanes(type_)]
    if name == "insert_strided_slice":
        (at,) = _ints(op.properties["offsets"])
        return [*xs[1][:at], *xs[0], *xs[1][at + len(xs[0]) :]]
    if name == "mlir.undef":
        return {} if "struct" in type_ else None
    if name == "insertvalue":
        return {**xs[0], tuple(_ints(op.properties["position"])): xs[1]}
    if name == "extractvalue":
        return xs[0].get(tuple(_ints(op.properties["position"])))
    raise AssertionError(f"the interpreter does not know {op.name}")


# --- programs -------------------------------------------------------------------------------------------------------

INTS = ("i1", "i8", "i32", "i64", "index")
CONSTANTS = (0, 0, 1, 1, -1, -1, 2, 3, 4, 5, 7, 8, 16, 24, 48, 56, 64, 96, 100, 112, 127, -2, -8, -128)
FLOAT_CONSTANTS = ("0.0", "-0.0", "1.0", "-1.0", "2.0", "0.5", "3.0", "1.0e+04")


class Arithmetic:
    """The text of a random function, by type the values in scope."""

    def __init__(self, seed: int, length: int = 40):
        self.draw = random.Random(seed)
        self.lines: list[str] = []
        self.scope: dict[str, list[str]] = {}
        self.count = 0
        self.inputs: list[str] = []
        for type_ in (*INTS, *FLOATS, "i32", "vector<4xi32>", "vector<4xf32>"):
            self.inputs.append(type_)
            self.scope.setdefault(type_, []).append(f"%a{len(self.inputs)}")
        makers = (
            *(self.integer,) * 6, *(self.compared,) * 2, *(self.selected,) * 2, *(self.converted,) * 3,
            self.swizzled, self.swizzled, self.real, self.real, *(self.vector,) * 5, self.struct,
        )  # fmt: skip
        for _ in range(length):
            self.draw.choice(makers)()
        kept = [type_ for type_ in self.scope if "struct" not in type_ and "2x2x" not in type_]
        self.given = [(name, type_) for type_ in kept for name in self.scope[type_][-6:]]
        """What the function returns."""

    def emit(self, type_: str, text: str) -> str:
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"{name} = {text}")
        self.scope.setdefault(type_, []).append(name)
        return name

    def constant(self, type_: str) -> str:
        if type_ in FLOATS:
            return self.emit(type_, f"arith.constant {self.draw.choice(FLOAT_CONSTANTS)} : {type_}")
        value = wrap(self.draw.choice(CONSTANTS), width(type_))
        if type_ == "i1":
            return self.emit(type_, f"arith.constant {str(bool(value)).lower()}")
        return self.emit(type_, f"arith.constant {value} : {type_}")

    def one(self, type_: str) -> str:
        if type_ not in self.scope or ("<" not in type_ and self.draw.random() < 0.35):
            return self.constant(type_)
        return self.draw.choice(self.scope[type_][-5:])

    def integer(self) -> None:
        type_ = self.draw.choice(INTS)
        name = self.draw.choice(BINARY)
        if type_ == "i1" and ("div" in name or "rem" in name or "sh" in name):
            name = self.draw.choice(BINARY[:3])
        a, b = self.one(type_), self.one(type_)
        if self.draw.random() < 0.15:
            b = a
        self.emit(type_, f"arith.{name} {a}, {b} : {type_}")

    def compared(self) -> None:
        type_ = self.draw.choice(INTS)
        self.emit("i1", f"arith.cmpi {self.draw.choice(PREDICATES)}, {self.one(type_)}, {self.one(type_)} : {type_}")

    def selected(self) -> None:
        type_ = self.draw.choice((*INTS, "i1", "f32", "vector<4xi32>"))
        cond = self.draw.choice(self.scope["i1"][-5:])
        self.emit(type_, f"arith.select {cond}, {self.one(type_)}, {self.one(type_)} : {type_}")

    def converted(self) -> None:
        """Some conversions, one of the other; what comes out may be asked for being 0 or 1."""
        order = ["i1", "i8", "i32", "i64"]
        at = self.draw.choice((*order, "index"))
        value = self.one(at)
        for _ in range(self.draw.choice((1, 1, 2, 3))):
            if at == "index" or (at in ("i32", "i64") and self.draw.random() < 0.2):
                to = self.draw.choice(("i32", "i64")) if at == "index" else "index"
                value = self.emit(to, f"arith.index_cast {value} : {at} to {to}")
            else:
                to = self.draw.choice([type_ for type_ in order if type_ != at])
                kind = "trunci" if order.index(to) < order.index(at) else self.draw.choice(("extui", "extsi"))
                value = self.emit(to, f"arith.{kind} {value} : {at} to {to}")
            at = to
        if at != "i1" and self.draw.random() < 0.7:
            number = self.emit(at, f"arith.constant {self.draw.randrange(2)} : {at}")
            self.emit("i1", f"arith.cmpi {self.draw.choice(PREDICATES[:2])}, {value}, {number} : {at}")

    def swizzled(self) -> None:
        """`x ? ((x & mask) >> shift)` over a sum that has multiples of the period in it, or nearly so."""
        type_ = self.draw.choice(("i32", "i64"))
        low, bits = self.draw.randrange(5), self.draw.randint(1, 3)
        mask = ((1 << bits) - 1) << low
        if self.draw.random() < 0.2:
            mask ^= 1 << self.draw.randrange(6)
        period = 1 << low + bits
        factor = self.draw.choice((period, period, 2 * period, period // 2 or 1, 3))
        x = self.one(type_)
        for _ in range(self.draw.randint(1, 2)):
            more = self.multiple(type_, factor)
            if self.draw.random() < 0.3:
                cond = self.draw.choice(self.scope["i1"][-5:])
                more = self.emit(type_, f"arith.select {cond}, {more}, {self.multiple(type_, factor)} : {type_}")
            x = self.emit(type_, f"arith.addi {x}, {more} : {type_}")
        ones = self.emit(type_, f"arith.constant {mask} : {type_}")
        by = self.emit(type_, f"arith.constant {self.draw.randint(0, low + 1)} : {type_}")
        part = self.emit(type_, f"arith.andi {x}, {ones} : {type_}")
        part = self.emit(type_, f"arith.shrui {part}, {by} : {type_}")
        name = self.draw.choice(("xori", "xori", "xori", "addi", "ori", "subi"))
        self.emit(type_, f"arith.{name} {x}, {part} : {type_}")

    def multiple(self, type_: str, factor: int) -> str:
        """A number that is known to be a multiple of another, or nearly so."""
        kind = self.draw.choice(("number", "number", "product", "shift"))
        if kind == "number":
            number = factor * self.draw.randint(1, 5) + self.draw.choice((0, 0, 3))
            return self.emit(type_, f"arith.constant {number} : {type_}")
        power = factor.bit_length() - 1
        by = self.emit(type_, f"arith.constant {factor if kind == 'product' else power} : {type_}")
        word = "muli" if kind == "product" else "shli"
        return self.emit(type_, f"arith.{word} {self.one(type_)}, {by} : {type_}")

    def real(self) -> None:
        type_ = self.draw.choice(tuple(FLOATS))
        if self.draw.random() < 0.2:
            self.emit(type_, f"arith.negf {self.one(type_)} : {type_}")
        else:
            self.emit(type_, f"arith.{self.draw.choice(FLOAT_BINARY)} {self.one(type_)}, {self.one(type_)} : {type_}")

    def vector(self) -> None:
        elem, count = self.draw.choice(("i32", "f32")), 4
        whole = f"vector<{count}x{elem}>"
        v = self.draw.choice(self.scope[whole][-4:])
        kind = self.draw.choice(
            ("insert", "insert", "insert", "extract", "slice", "part", "all", "mix", "same", "turn")
        )
        at = self.draw.randrange(count)
        if kind == "insert":
            self.emit(whole, f"vector.insert {self.one(elem)}, {v} [{at}] : {elem} into {whole}")
        elif kind == "extract":
            self.emit(elem, f"vector.extract {v}[{at}] : {elem} from {whole}")
        elif kind in ("slice", "part"):
            size = self.draw.randint(1, count - 1)
            at = self.draw.randint(0, count - size)
            part = f"vector<{size}x{elem}>"
            if kind == "slice" or part not in self.scope:
                what = f"{{offsets = [{at}], sizes = [{size}], strides = [1]}}"
                self.emit(part, f"vector.extract_strided_slice {v} {what} : {whole} to {part}")
            else:
                what = f"{{offsets = [{at}], strides = [1]}}"
                given = self.draw.choice(self.scope[part])
                self.emit(whole, f"vector.insert_strided_slice {given}, {v} {what} : {part} into {whole}")
        elif kind == "all":
            if self.draw.random() < 0.5:  # the elements of one vector, in order or nearly so
                order = list(range(count)) if self.draw.random() < 0.6 else self.draw.choices(range(count), k=count)
                parts = [self.emit(elem, f"vector.extract {v}[{i}] : {elem} from {whole}") for i in order]
            else:
                parts = [self.one(elem) for _ in range(count)]
            self.emit(whole, f"vector.from_elements {', '.join(parts)} : {whole}")
        elif kind == "mix":
            other = self.draw.choice([v, self.draw.choice(self.scope[whole])])
            start = self.draw.randrange(count + 1)
            order = list(range(start, start + count))
            if self.draw.random() < 0.6:
                self.draw.shuffle(order)
            self.emit(whole, f"vector.shuffle {v}, {other} {order} : {whole}, {whole}")
        elif kind == "same":
            self.emit(whole, f"vector.broadcast {self.one(elem)} : {elem} to {whole}")
        else:
            square = f"vector<2x2x{elem}>"
            a = self.emit(square, f"vector.shape_cast {v} : {whole} to {square}")
            order = self.draw.choice(("[1, 0]", "[1, 0]", "[0, 1]"))
            a = self.emit(square, f"vector.transpose {a}, {order} : {square} to {square}")
            self.emit(whole, f"vector.shape_cast {a} : {square} to {whole}")

    def struct(self) -> None:
        type_ = "!llvm.struct<(i32, i32, i64)>"
        s = self.emit(type_, f"llvm.mlir.undef : {type_}") if type_ not in self.scope else self.scope[type_][-1]
        for _ in range(self.draw.randint(1, 3)):
            at = self.draw.randrange(3)
            s = self.emit(type_, f"llvm.insertvalue {self.one('i64' if at == 2 else 'i32')}, {s}[{at}] : {type_}")
        at = self.draw.randrange(3)
        self.emit("i64" if at == 2 else "i32", f"llvm.extractvalue {s}[{at}] : {type_}")

    @property
    def text(self) -> str:
        names, types = zip(*self.given, strict=True)
        takes = ", ".join(f"%a{i}: {type_}" for i, type_ in enumerate(self.inputs, 1))
        return "\n".join([
            "gpu.module @m {", f"gpu.func @f({takes}) -> ({', '.join(types)}) {{", *self.lines,
            f"gpu.return {', '.join(names)} : {', '.join(types)}", "} }",
        ])  # fmt: skip

    def arguments(self, seed: int) -> list[Value]:
        draw = random.Random(seed)

        def number(type_: str) -> Value:
            if type_ in FLOATS:
                return FLOATS[type_](draw.choice((0.0, -0.0, 1.0, draw.gauss(0, 3), float("inf"), float("nan"))))
            bits = width(type_)
            return wrap(draw.choice((draw.getrandbits(bits), draw.randrange(-9, 200), 0, 1 << (bits - 1))), bits)

        made: list[Value] = []
        for type_ in self.inputs:
            elem = _element(type_)
            made.append(number(elem) if type_ == elem else [number(elem) for _ in range(_lanes(type_))])
        return made


def same(a: Value, b: Value) -> bool:
    """Whether a result may stand for another: poison is anything, numbers are equal to the sign of a zero."""
    if isinstance(a, list):
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    if a is None:
        return True
    if isinstance(a, np.floating):
        return bool(np.isnan(a) and np.isnan(b)) or (a == b and np.signbit(a) == np.signbit(b))
    return a == b
