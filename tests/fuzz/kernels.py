"""Random small kernels in the language: text of a Python function, from a seed.

Programs are made to be compiled, not to be run: they may divide by zero or read what another thread writes. Each is
well typed, every name in it is defined where it is used, and most of what it computes is stored somewhere.
"""

from __future__ import annotations

import random

from .parts import Parts

INTS = ("Int32", "Int32", "Int64", "Int16", "Int8", "Uint32", "Uint8", "Uint16", "Uint64")
SMALL = ("Float8E4M3FN", "Float8E5M2", "Float8E4M3FNUZ", "Float8E5M2FNUZ")
FLOATS = ("Float32", "Float32", "Float16", "BFloat16", "Float64", *SMALL)
UNARY = ("exp", "log", "sqrt", "sin", "tanh", "exp2", "absf", "rsqrt", "log1p", "floor", "erf")
COMPARE = ("<", "<=", "==", "!=", ">", ">=")
DEFINITIONS = """
import flydsl.compiler as flyc
import flydsl.expr as fx


@fx.struct
class Pair:
    x: fx.Int32
    y: fx.Float32
    times: fx.Constexpr[int]

    @flyc.jit
    def step(self, by):
        y = self.y
        for _ in fx.range_constexpr(self.times):
            y = y * by
        if self.x > 3:
            y = y + 1.0
        return self.replace(y=y)
"""
KERNEL = """

@flyc.kernel
def {name}(a: fx.Tensor, c: fx.Tensor, n: fx.Int32, t: fx.Float32, w: fx.Constexpr[int]):
    i = fx.thread_idx.x
    shared = fx.SharedAllocator()
"""
HELPER = """

@flyc.jit
def {name}(a, c, i, n, t, w):
"""
HEAD = DEFINITIONS + KERNEL.format(name="kernel")
MORE = (
    "other(a, c, n, t, 1).launch(grid=2, block=64, stream=stream)",
    """if n > 3:
        other(a, c, n, t, 2).launch(grid=n, block=64, stream=stream)
    else:
        kernel(a, c, n + 1, t, 0).launch(grid=1, block=64, stream=stream)""",
)
TAIL = """

@flyc.jit
def run(a: fx.Tensor, c: fx.Tensor, n: fx.Int32, t: fx.Float32, stream: fx.Stream = fx.Stream(None)):
    kernel(a, c, n, t, 3).launch(grid=1, block=64, stream=stream)
    {more}
"""


class Program(Parts):
    """Text of a kernel: `names` are values in scope by their types, registers and shared arrays among them."""

    def __init__(self, seed: int, arch: str = ""):
        self.arch = arch
        self.rng = random.Random(seed)
        self.helpers: list[tuple[str, str]] = []
        self.begin()

    def begin(self) -> None:
        self.count = 0
        self.lines: list[str] = []
        self.names: dict[str, list[str]] = {"Int32": ["i", "n"], "Float32": ["t"], "Boolean": []}
        self.registers: list[tuple[str, str, int]] = []
        self.shared: list[tuple[str, str]] = []
        self.vectors: list[tuple[str, str, int]] = []
        self.pairs: list[str] = []
        self.nested = 0
        self.uniform = True
        self.inlined = False

    # --- expressions --------------------------------------------------------------------------------------------------

    def fresh(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def one_of(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def type(self) -> str:
        return self.rng.choice((*INTS, *FLOATS, "Int32", "Float32", "Int32", "Float32", "Boolean"))

    def constant(self, type_: str) -> str:
        if type_ == "Boolean":
            return f"fx.Boolean({self.one_of('True', 'False')})"
        if type_ in FLOATS:
            return f"fx.{type_}({self.one_of('0.0', '1.0', '-1.0', '0.5', '2.0', '3.0', '-0.0')})"
        return f"fx.{type_}({self.one_of('0', '0', '1', '1', '2', '3', '7', '64')})"

    def expr(self, type_: str, depth: int = 0) -> str:
        """An expression of a type."""
        known = self.names.get(type_, [])
        p = self.rng.random()
        if depth > 2 or p < 0.25:
            return self.rng.choice(known) if known and self.rng.random() < 0.8 else self.constant(type_)
        if p < 0.4:
            return self.converted(type_, depth)
        if p < 0.5 and self.registers:
            name, elem, size = self.rng.choice(self.registers)
            if elem == type_:
                return f"{name}[{self.rng.randrange(size)}]"
        if p < 0.58:
            x, y = self.expr(type_, depth + 1), self.expr(type_, depth + 1)
            return f"fx.arith.select({self.expr('Boolean', depth + 1)}, {x}, {y})"
        x, y = self.expr(type_, depth + 1), self.expr(type_, depth + 1)
        if type_ == "Boolean":
            return self.flag(x, y, depth)
        if type_ in FLOATS:
            return self.float(type_, x, y)
        return self.integer(type_, x, y)

    def flag(self, x: str, y: str, depth: int) -> str:
        if self.rng.random() < 0.3:
            return f"({x} {self.one_of('&', '|', '^')} {y})"
        other = self.one_of("Int32", "Float32", "Int64", "Int32")
        return f"({self.expr(other, depth + 1)} {self.rng.choice(COMPARE)} {self.expr(other, depth + 1)})"

    def float(self, type_: str, x: str, y: str) -> str:
        p = self.rng.random()
        if type_ == "Float32" and p < 0.1 and self.uniform:
            return f"fx.shuffle_xor({x}, {self.one_of('1', '2', '4')})"
        if type_ == "Float32" and p < 0.2:
            return self.one_of(f"a[{self.expr('Int32', 2)} & 63]", "a[i]")
        if type_ in ("Float32", "Float64") and p < 0.35:
            return f"fx.{self.rng.choice(UNARY)}({x})"
        if p < 0.5 and type_ not in SMALL:
            return f"fx.{self.one_of('max', 'min')}({x}, {y})"
        if p < 0.55:
            return f"(-{x})"
        return f"({x} {self.one_of('+', '-', '*', '*', '/')} {y})"

    def integer(self, type_: str, x: str, y: str) -> str:
        p = self.rng.random()
        if type_ == "Int32" and p < 0.1:
            return f"c[{self.expr('Int32', 2)} & 63]"
        if type_ == "Int32" and p < 0.15 and self.uniform:
            return f"fx.shuffle_xor({x}, {self.one_of('1', '2', '4')})"
        if type_ in ("Int32", "Int64") and p < 0.2:
            return f"fx.{self.one_of('ctlz', 'cttz', 'ctpop')}({x})"
        if p < 0.3:
            return f"fx.{self.one_of('max', 'min')}({x}, {y})"
        if p < 0.4:
            return f"({x} {self.one_of('<<', '>>')} {self.constant(type_)})"
        if p < 0.5:
            return f"({x} {self.one_of('//', '%')} fx.{type_}({self.one_of('3', '4', '7')}))"
        return f"({x} {self.one_of('+', '-', '*', '&', '|', '^')} {y})"

    def converted(self, type_: str, depth: int) -> str:
        from_ = self.type()
        if type_ == "Boolean":
            return f"({self.expr('Int32', depth + 1)} {self.rng.choice(COMPARE)} {self.constant('Int32')})"
        if from_ == "Boolean":
            return f"fx.arith.select({self.expr(from_, depth + 1)}, {self.constant(type_)}, {self.constant(type_)})"
        return f"fx.{type_}({self.expr(from_, depth + 1)})"

    # --- statements ---------------------------------------------------------------------------------------------------

    def emit(self, text: str) -> None:
        self.lines.append("    " * (1 + self.nested) + text)

    def block(self, least: int = 1, most: int = 4) -> None:
        """Some statements; what they name is out of scope behind them, unless this is the outermost block."""
        saved = {type_: list(names) for type_, names in self.names.items()}
        registers, shared = list(self.registers), list(self.shared)
        vectors, pairs = list(self.vectors), list(self.pairs)
        self.define()
        for _ in range(self.rng.randint(least, most)):
            self.statement()
        if self.nested:
            self.names, self.registers, self.shared = saved, registers, shared
            self.vectors, self.pairs = vectors, pairs

    def statement(self) -> None:
        kinds = {
            self.define: 5, self.assign: 4, self.store: 3, self.put: 3, self.register: 2, self.vector: 2,
            self.atomic: 0.6, self.barrier: 0.6, self.array: 0.6, self.exchange: 0.6, self.copy: 0.8, self.view: 0.8,
            self.row: 2, self.pair: 1.2, self.extents: 0.6, self.ternary: 0.8, self.returned: 0.5, self.told: 0.3,
            self.call: 0.8, self.function: 0.5, self.fast: 0.5, self.tiled: 0.5, self.product: 0.3,
        }  # fmt: skip
        if self.nested < 3:
            kinds |= {self.branch: 2.5, self.loop: 2, self.repeat: 0.8, self.known: 0.7, self.unrolled: 0.8}
        self.rng.choices(list(kinds), list(kinds.values()))[0]()

    def define(self) -> None:
        type_ = self.type()
        text, name = self.expr(type_), self.fresh()
        self.emit(f"{name} = fx.{type_}({text})" if type_ != "Boolean" else f"{name} = {text}")
        self.names.setdefault(type_, []).append(name)

    def assign(self) -> None:
        """A name of an enclosing block again, which loops and ifs then carry."""
        given = [(type_, name) for type_, names in self.names.items() for name in names if name not in ("i", "n", "t")]
        if not given:
            self.define()
            return
        type_, name = self.rng.choice(given)
        text = self.expr(type_)
        self.emit(f"{name} = fx.{type_}({text})" if type_ != "Boolean" else f"{name} = {text}")

    def store(self) -> None:
        name, type_ = self.rng.choice((("a", "Float32"), ("c", "Int32"), *self.shared))
        at = self.one_of("i", "i", f"{self.expr('Int32', 1)} & 63")
        self.emit(f"{name}[{at}] = {self.expr(type_)}")

    def register(self) -> None:
        name, type_ = self.fresh("r"), self.one_of("Float32", "Float32", "Int32", "Float16", "BFloat16", "Float64")
        size = self.rng.choice((1, 2, 3, 4, 4, 8))
        self.emit(f"{name} = fx.make_rmem_tensor({size}, fx.{type_})")
        if self.rng.random() < 0.8:
            self.emit(f"{name}.fill({self.constant(type_)})")
        self.registers.append((name, type_, size))

    def put(self) -> None:
        if not self.registers:
            self.register()
        name, type_, size = self.rng.choice(self.registers)
        self.emit(f"{name}[{self.rng.randrange(size)}] = {self.expr(type_)}")

    def vector(self) -> None:
        """The whole of a register tensor, computed with and put back or reduced."""
        if not self.registers:
            self.register()
        name, type_, size = self.rng.choice(self.registers)
        value = self.fresh("w")
        self.emit(f"{value} = {name}.load()")
        others = [x for x in self.registers if x[1:] == (type_, size)]
        other = self.rng.choice(others)[0]
        op = self.one_of("+", "-", "*")
        scalar = self.one_of(f"{other}.load()", self.expr(type_, 2))
        if self.rng.random() < 0.3:
            result = self.fresh()
            self.emit(f"{result} = ({value} {op} {scalar})[{self.rng.randrange(size)}]")
            self.names.setdefault(type_, []).append(result)
        else:
            self.emit(f"{self.rng.choice(others)[0]}.store({value} {op} {scalar})")

    def atomic(self) -> None:
        name, type_ = self.rng.choice((("a", "Float32"), ("c", "Int32")))
        self.emit(f"fx.atomic_add(fx.get_iter({name}) + ({self.expr('Int32', 2)} & 63), {self.expr(type_, 1)})")

    def barrier(self) -> None:
        if self.uniform:
            self.emit("fx.barrier()")

    def array(self) -> None:
        """An array of shared memory."""
        if self.nested or self.inlined:
            return
        name, type_ = self.fresh("s"), self.one_of("Float32", "Int32")
        at = f"shared.allocate(fx.Array[fx.{type_}, 64]).peek().ptr"
        self.emit(f"{name} = fx.make_view({at}, fx.make_layout(64, 1))")
        self.shared.append((name, type_))

    def exchange(self) -> None:
        """Through shared memory."""
        if not self.shared or not self.uniform:
            return
        name, type_ = self.rng.choice(self.shared)
        value = self.fresh()
        self.emit(f"{name}[i] = {self.expr(type_)}")
        self.emit("fx.barrier()")
        self.emit(f"{value} = {name}[{self.expr('Int32', 1)} & 63]")
        self.names.setdefault(type_, []).append(value)

    def copy(self) -> None:
        """Four elements by an atom, with a predicate or without, into registers or out of them."""
        given = [x for x in self.registers if x[1:] == ("Float32", 4)]
        if not given:
            return
        name = self.rng.choice(given)[0]
        part = self.fresh("p")
        self.emit(f"{part} = fx.zipped_divide(a, fx.make_tile(4))[None, {self.expr('Int32', 2)} & 15]")
        pair = (part, name) if self.rng.random() < 0.6 else (name, part)
        atom = "fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)"
        pred = ""
        if self.rng.random() < 0.5:
            mask = self.fresh("m")
            self.emit(f"{mask} = fx.make_rmem_tensor(1, fx.Boolean)")
            self.emit(f"{mask}[0] = {self.expr('Boolean', 1)}")
            pred = f", pred={mask}"
        self.emit(f"fx.copy({atom}, {pair[0]}, {pair[1]}{pred})")

    def view(self) -> None:
        """The same memory by another layout."""
        name = self.fresh("l")
        shape, stride = self.rng.choice((("(8, 8)", "(8, 1)"), ("(8, 8)", "(1, 8)"), ("(4, 16)", "(1, 4)")))
        value = self.fresh()
        self.emit(f"{name} = fx.make_view(fx.get_iter(a), fx.make_layout({shape}, {stride}))")
        self.emit(f"{value} = {name}[{self.expr('Int32', 2)} & 3, i & 7]")
        self.names["Float32"].append(value)

    # --- control flow -------------------------------------------------------------------------------------------------

    def inside(self, uniform: bool = False) -> None:
        self.nested += 1
        was, self.uniform = self.uniform, self.uniform and uniform
        self.block()
        self.uniform = was
        self.nested -= 1

    def branch(self) -> None:
        same = self.rng.random() < 0.3
        self.emit(f"if n {self.rng.choice(COMPARE)} 5:" if same else f"if {self.expr('Boolean')}:")
        self.inside(same)
        if self.rng.random() < 0.5:
            self.emit("else:")
            self.inside(same)

    def loop(self) -> None:
        name = self.fresh("k")
        bound = self.one_of("n", "n & 3", "3", "1", "0", f"{self.expr('Int32', 1)} & 7")
        call = self.one_of("range", "range", "fx.range")
        self.emit(f"for {name} in {call}({bound if call == 'range' else f'fx.Int32({bound})'}):")
        self.names["Int32"].append(name)
        self.inside(bound in ("n", "n & 3", "3", "1"))
        self.names["Int32"].remove(name)

    def repeat(self) -> None:
        name = self.fresh("j")
        self.emit(f"{name} = fx.Int32(0)")
        self.emit(f"while {name} < ({self.expr('Int32', 2)} & 3):")
        self.nested += 1
        self.emit(f"{name} = {name} + 1")
        self.nested -= 1
        self.names["Int32"].append(name)
        self.inside()
        self.names["Int32"].remove(name)

    def known(self) -> None:
        """A condition that folding settles."""
        self.emit(f"if {self.one_of('i * 0 < 1', '(n - n) == 1', '(i & 0) != 0', 'fx.max(i, i) >= i')}:")
        self.inside()

    def text(self) -> str:
        """The module: helpers, one kernel or two, and the function that launches them."""
        made = [DEFINITIONS]
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            made.append(self.helper())
        made += [KERNEL.format(name="kernel"), self.body()]
        launches = ""
        if self.rng.random() < 0.15:
            made += [KERNEL.format(name="other"), self.body()]
            launches = self.one_of(*MORE)
        return "".join(made) + TAIL.format(more=launches)

    def helper(self) -> str:
        """A function that kernels call, of what they have."""
        self.begin()
        self.inlined, self.uniform = True, False
        self.block(0, 3)
        name, type_ = f"helper{len(self.helpers)}", self.one_of("Int32", "Float32", "Float32", "Int8", "Float64")
        self.emit(f"return fx.{type_}({self.expr(type_)})")
        self.helpers.append((name, type_))
        return HELPER.format(name=name) + "\n".join(self.lines) + "\n"

    def body(self) -> str:
        self.begin()
        self.block(4, 9)
        for type_, names in sorted(self.names.items()):
            for name in names:
                if name in ("i", "n", "t") or self.rng.random() < 0.4:
                    continue
                if type_ == "Boolean":
                    self.emit(f"c[i] = fx.arith.select({name}, fx.Int32(1), fx.Int32(0))")
                else:
                    self.emit(f"a[i + {self.rng.randrange(2)}] = fx.Float32({name})")
        for name, _, size in self.registers:
            if self.rng.random() < 0.7:
                self.emit(f"a[i] = fx.Float32({name}[{self.rng.randrange(size)}])")
        self.emit("a[i] = a[i] + t")
        return "\n".join(self.lines) + "\n"
