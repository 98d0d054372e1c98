"""What random kernels do with tensors, atoms, vectors, structs, helpers and what is known while tracing."""

from __future__ import annotations

import random
from typing import Any

MATRIX: dict[str, tuple[tuple[str, tuple[int, int, int], str, str], ...]] = {
    "gfx942": (
        ("fx.rocdl.MFMA(16, 16, 16, fx.Float16)", (16, 16, 16), "Float16", "Float32"),
        ("fx.rocdl.MFMA(32, 32, 8, fx.BFloat16)", (32, 32, 8), "BFloat16", "Float32"),
        ("fx.rocdl.MFMA(16, 16, 4, fx.Float32)", (16, 16, 4), "Float32", "Float32"),
        ("fx.rocdl.MFMA(16, 16, 32, fx.Float8E4M3FNUZ)", (16, 16, 32), "Float8E4M3FNUZ", "Float32"),
        ("fx.rocdl.MFMA(16, 16, 32, fx.Int8, fx.Int32)", (16, 16, 32), "Int8", "Int32"),
    ),
    "gfx1100": (
        ("fx.rocdl.WMMA(16, 16, 16, fx.Float16)", (16, 16, 16), "Float16", "Float32"),
        ("fx.rocdl.WMMA(16, 16, 16, fx.BFloat16)", (16, 16, 16), "BFloat16", "Float32"),
    ),
    "sm_90a": (
        ("fx.nvgpu.MMA(16, 8, 16, fx.Float16, fx.Float32)", (16, 8, 16), "Float16", "Float32"),
        ("fx.nvgpu.MMA(16, 8, 8, fx.BFloat16, fx.Float32)", (16, 8, 8), "BFloat16", "Float32"),
        ("fx.nvgpu.MMA(16, 8, 16, fx.Float16, fx.Float16)", (16, 8, 16), "Float16", "Float16"),
        ("fx.nvgpu.MMA(16, 8, 32, fx.Int8, fx.Int32)", (16, 8, 32), "Int8", "Int32"),
    ),
}
"""By architecture: an atom's text, its shape, the types of its operands and of its sums."""
ANYWHERE = (("fx.UniversalFMA(fx.Float32)", (1, 1, 1), "Float32", "Float32"),)
LANES = {"gfx942": 64, "gfx1100": 32, "sm_90a": 32}
THREADS = (
    ("(8, 8)", "(8, 1)", 8, 8), ("(8, 8)", "(1, 8)", 8, 8), ("(16, 4)", "(4, 1)", 16, 4), ("(4, 16)", "(16, 1)", 4, 16),
)  # fmt: skip
VALUES = (
    ("(1, 1)", "(1, 1)", 1, 1), ("(1, 2)", "(2, 1)", 1, 2), ("(1, 4)", "(4, 1)", 1, 4), ("(2, 2)", "(2, 1)", 2, 2),
)  # fmt: skip
TILED = ("Float32", "Float32", "Float16", "Int32", "Int8", "BFloat16", "Float8E4M3FN")
WIDTHS = {"Float32": 32, "Float16": 16, "Int32": 32, "Int8": 8, "BFloat16": 16, "Float8E4M3FN": 8, "Float8E4M3FNUZ": 8}


class Parts:
    """Statements for `Program`, which has the expressions."""

    rng: random.Random
    names: dict[str, list[str]]
    vectors: list[tuple[str, str, int]]
    pairs: list[str]
    helpers: list[tuple[str, str]]
    arch: str
    nested: int
    uniform: bool
    block: Any
    define: Any
    emit: Any
    expr: Any
    fresh: Any
    one_of: Any
    inside: Any
    inlined: bool

    def add(self, type_: str, text: str) -> None:
        """A new name for an expression."""
        name = self.fresh()
        self.emit(f"{name} = {text}")
        self.names.setdefault(type_, []).append(name)

    # --- tensors and atoms --------------------------------------------------------------------------------------------

    def pointer(self, type_: str, size: int) -> str:
        """Somewhere in memory, seen as elements of a type."""
        if self.nested or self.inlined or self.rng.random() < 0.5:
            base = self.one_of("a", "a", "c")
            given = {"a": "Float32", "c": "Int32"}[base]
            pointer = f"fx.get_iter({base})"
            if self.rng.random() < 0.4:
                pointer = f"({pointer} + {self.expr('Int32', 2)} * 4)"
            return pointer if type_ == given else f"fx.recast_iter(fx.{type_}, {pointer})"
        return f"shared.allocate(fx.Array[fx.{type_}, {size}, 16]).peek().ptr"

    def laid_out(self, rows: int, columns: int, plain_only: bool) -> tuple[str, int, bool]:
        """A layout of a matrix, how much room it takes, and whether its rows are whole."""
        kind = self.rng.randrange(6)
        if kind == 0:
            return f"fx.make_layout(({rows}, {columns}), (1, {rows}))", rows * columns, False
        if kind == 1:
            return f"fx.make_layout(({rows}, {columns}), ({columns + 8}, 1))", rows * (columns + 8), True
        if kind == 2:
            return f"fx.make_layout(({rows}, {columns}), (n * 4, 1))", rows * columns, True
        plain = f"fx.make_layout(({rows}, {columns}), ({columns}, 1))"
        if kind == 3 and not plain_only:
            swizzle = f"fx.static(fx.SwizzleType.get({self.one_of('1', '2')}, 2, 2))"
            return f"fx.make_composed_layout({swizzle}, {plain})", rows * columns, False
        return plain, rows * columns, True

    def matrix(self, type_: str, rows: int, columns: int, plain_only: bool = False) -> tuple[str, bool]:
        layout, size, whole = self.laid_out(rows, columns, plain_only)
        name = self.fresh("x")
        self.emit(f"{name} = fx.make_view({self.pointer(type_, size)}, {layout})")
        return name, whole

    def tiled(self) -> None:
        """A tile by a tiled copy, through registers, computed with in between."""
        type_ = self.rng.choice(TILED)
        threads, values = self.rng.choice(THREADS), self.rng.choice(VALUES)
        rows, columns = threads[2] * values[2], threads[3] * values[3]
        source, whole = self.matrix(type_, rows * 2, columns)
        target, whole_too = self.matrix(type_, rows * 2, columns) if self.rng.random() < 0.7 else (source, whole)
        wide = values[3] if whole and whole_too and self.rng.random() < 0.7 else 1
        tiled, mine, at = self.fresh("tc"), self.fresh("mine"), self.one_of("0", "1", f"{self.expr('Int32', 2)} & 1")
        atom = f"fx.make_copy_atom(fx.UniversalCopy({wide * WIDTHS[type_]}), fx.{type_})"
        self.emit(
            f"{tiled} = fx.make_tiled_copy_tv({atom}, fx.make_layout({threads[0]}, {threads[1]}), "
            f"fx.make_layout({values[0]}, {values[1]}))"
        )
        self.emit(f"{mine} = {tiled}.get_slice(i & 63)")
        cut = f"fx.flat_divide({{}}, ({rows}, {columns}))[None, None, {at}, 0]"
        held, read, write = self.fresh("h"), self.fresh("x"), self.fresh("x")
        self.emit(f"{read} = {mine}.partition_S({cut.format(source)})")
        self.emit(f"{write} = {mine}.partition_D({cut.format(target)})")
        self.emit(f"{held} = fx.make_fragment_like({read})")
        pred = ""
        if self.rng.random() < 0.4:
            pred = self.predicate(mine, rows, columns)
            self.emit(f"{held}.fill(0)" if type_.startswith("Int") else f"{held}.fill(0.0)")
        self.emit(f"fx.copy({tiled}, {read}, {held}{pred})")
        for _ in range(self.rng.randrange(3)):
            self.emit(f"{held}.store({held}.load() {self.one_of('+', '*', '-')} {self.expr(type_, 1)})")
        self.emit(f"fx.copy({self.one_of(tiled, atom)}, {held}, {write}{self.one_of(pred, '')})")
        self.add(type_, f"{held}.load().reduce('{self.one_of('add', 'max')}')")

    def predicate(self, mine: str, rows: int, columns: int) -> str:
        where, mask, k = self.fresh("x"), self.fresh("m"), self.fresh("k")
        view = f"fx.make_view((0, 0), fx.make_identity_layout(({rows}, {columns})))"
        self.emit(f"{where} = {mine}.partition_S({view})[(0, None), None, None]")
        self.emit(f"{mask} = fx.make_fragment_like({where}, dtype=fx.Boolean)")
        self.emit(f"for {k} in fx.range_constexpr(fx.size({mask}.shape).unpack()):")
        self.emit(f"    {mask}[{k}] = fx.elem_less({where}[{k}], (n, {self.expr('Int32', 1)}))")
        return f", pred={mask}"

    def product(self) -> None:
        """A step of a tiled product, by an atom of the target or a scalar one."""
        if not self.uniform:
            return
        atoms = MATRIX.get(self.arch, ANYWHERE) if self.rng.random() < 0.8 else ANYWHERE
        atom, (m, n, k), given, sums = self.rng.choice(atoms)
        if atoms is ANYWHERE:
            (m, n, k), over = (8, 8, 1), "(8, 8, 1), (1, 8, 0)"
        else:
            over = "(1, 1, 1), (0, 0, 0)" if LANES[self.arch] == 64 else "(2, 1, 1), (1, 0, 0)"
            m *= 64 // LANES[self.arch]
        n *= self.rng.choice((1, 1, 2))
        k *= self.rng.choice((1, 2))
        mma, mine, views = self.fresh("mma"), self.fresh("mine"), []
        self.emit(f"{mma} = fx.make_tiled_mma(fx.make_mma_atom({atom}), fx.make_layout({over}))")
        self.emit(f"{mine} = {mma}.get_slice(i & 63)")
        for type_, shape, which in ((given, (m, k), "A"), (given, (n, k), "B"), (sums, (m, n), "C")):
            view, _ = self.matrix(type_, *shape, plain_only=True)
            held = self.fresh("h")
            self.emit(f"{held} = {mine}.make_fragment_{which}({view})")
            views.append((held, f"{mine}.partition_{which}({view})"))
        (a, from_a), (b, from_b), (acc, out) = views
        self.emit(f"{acc}.fill({'0' if sums == 'Int32' else '0.0'})")
        if self.rng.random() < 0.5:
            loop = self.fresh("k")
            self.emit(f"for {loop} in range({self.one_of('n', '2', '0')}):")
            self.nested += 1
            self.products(mma, acc, a, from_a, b, from_b)
            self.nested -= 1
        else:
            self.products(mma, acc, a, from_a, b, from_b)
        if self.rng.random() < 0.5:
            self.emit(f"{acc}.store({acc}.load() {self.one_of('+', '*')} {self.expr(sums, 1)})")
        self.emit(f"{out}.store({acc}.load())")

    def products(self, mma: str, acc: str, a: str, from_a: str, b: str, from_b: str) -> None:
        self.emit(f"{a}.store({from_a}.load())")
        self.emit(f"{b}.store({from_b}.load())")
        for _ in range(self.rng.choice((1, 1, 2))):
            self.emit(f"fx.gemm({mma}, {acc}, {a}, {b}, {acc})")

    def extents(self) -> None:
        """Layouts whose extents or strides are known at run time only."""
        name, view = self.fresh("l"), self.fresh("x")
        inner, at = self.expr("Int32", 2), f"(i & {self.expr('Int32', 2)} & 7)"
        layout = self.one_of(
            f"fx.make_layout((n, 4), (4, {inner}))",
            f"fx.make_layout((4, (2, {inner})), (1, (4, n)))",
            f"fx.logical_divide(fx.make_layout(n * 8, {inner}), fx.make_tile(4))",
            "fx.composition(fx.make_layout((n, 8), (8, 1)), fx.make_tile(2, 4))",
            f"fx.coalesce(fx.make_layout((2, 4, n), (1, 2, {inner})))",
            f"fx.make_ordered_layout((n, {inner}), (1, 0))",
        )
        self.emit(f"{name} = {layout}")
        self.add("Int32", f"fx.Int32(fx.get_scalar({self.one_of('fx.size', 'fx.cosize')}({name})))")
        self.add("Int32", f"fx.Int32(fx.get_scalar(fx.crd2idx({self.expr('Int32', 2)}, {name})))")
        self.emit(f"{view} = fx.make_view(fx.get_iter(a), {name})")
        self.add("Float32", f"{view}[{at}]")
        if self.rng.random() < 0.5:
            self.emit(f"{view}[{at}] = {self.expr('Float32', 1)}")

    # --- vectors ------------------------------------------------------------------------------------------------------

    def known_vector(self) -> tuple[str, str, int]:
        if not self.vectors or self.rng.random() < 0.3:
            type_ = self.one_of("Float32", "Int32", "Float16", "BFloat16", "Int8", "Float8E4M3FN")
            size = self.rng.choice((2, 4, 4, 8, 3))
            name = self.fresh("w")
            if type_ in ("Float32", "Int32") and size == 4 and self.rng.random() < 0.4:
                base = "a" if type_ == "Float32" else "c"
                self.emit(f"{name} = (fx.get_iter({base}) + ({self.expr('Int32', 2)} & 15) * 4).load(fx.{type_}x4)")
            else:
                items = ", ".join(self.expr(type_, 2) for _ in range(size))
                self.emit(f"{name} = fx.Vector.from_elements([{items}], fx.{type_})")
            self.vectors.append((name, type_, size))
        return self.rng.choice(self.vectors)

    def vectors_of(self, type_: str, size: int) -> str:
        return self.rng.choice([name for name, *kind in self.vectors if kind == [type_, size]])

    def row(self) -> None:
        """Arithmetic, reductions, shuffles, choices and conversions of vectors."""
        name, type_, size = self.known_vector()
        kind = self.rng.randrange(7)
        if kind == 0:
            op = self.one_of("add", "mul", "max", "min")
            self.add(type_, f"{name}.reduce('{op}')")
            return
        if kind == 1:
            self.add(type_, f"{name}[{self.rng.randrange(size)}]")
            return
        other = self.vectors_of(type_, size)
        made, to, length = f"{name} {self.one_of('+', '-', '*')} {other}", type_, size
        if kind == 2:
            length = self.rng.choice((2, 4, 8))
            made = f"{name}.shuffle({other}, {[self.rng.randrange(2 * size) for _ in range(length)]})"
        elif kind == 3:
            made = f"({name} {self.one_of('<', '==', '>=')} {other}).select({name}, {other})"
        elif kind == 4:
            to = self.one_of("Float32", "Float16", "BFloat16", "Float8E4M3FN", "Int32")
            made = f"{name}.to(fx.{to})"
        elif kind == 5:
            made = f"{name} {self.one_of('+', '*')} fx.{type_}({self.expr(type_, 2)})"
        if to == type_ and length == size and self.rng.random() < 0.5:
            self.emit(f"{other} = {made}")
            return
        result = self.fresh("w")
        self.emit(f"{result} = {made}")
        self.vectors.append((result, to, length))

    # --- records, helpers, what is known ------------------------------------------------------------------------------

    def pair(self) -> None:
        """A struct made, changed, stepped or read."""
        if not self.pairs or self.rng.random() < 0.2:
            name = self.fresh("p")
            given = self.expr("Int32", 1), self.expr("Float32", 1), self.one_of("0", "1", "2")
            self.emit(f"{name} = Pair({', '.join(given)})")
            self.pairs.append(name)
        name = self.rng.choice(self.pairs)
        kind = self.rng.randrange(4)
        if kind == 0:
            self.emit(f"{name} = {name}.replace(x={self.expr('Int32', 1)})")
        elif kind == 1:
            self.emit(f"{name} = {name}.step({self.expr('Float32', 1)})")
        elif kind == 2:
            self.add("Int32", f"{name}.x + {self.expr('Int32', 2)}")
        else:
            self.add("Float32", f"{name}.y * {self.expr('Float32', 2)}")

    def call(self) -> None:
        """A helper of the module, or a function in the kernel."""
        if self.helpers:
            name, type_ = self.rng.choice(self.helpers)
            at = [self.expr("Int32", 1) for _ in range(2)]
            self.add(type_, f"{name}(a, c, {at[0]}, {at[1]}, {self.expr('Float32', 1)}, {self.one_of('w', '2', '0')})")

    def function(self) -> None:
        """A function inside the kernel that sees what is there, called twice."""
        if self.nested or self.inlined:
            return
        name, was = self.fresh("f"), self.uniform
        self.emit(f"def {name}(n, t):")
        type_ = self.one_of("Int32", "Float32")
        self.nested, self.uniform = 1, False
        scope = {key: list(names) for key, names in self.names.items()}
        kept = list(self.vectors), list(self.pairs)
        self.inlined, self.names = True, {key: list(names) for key, names in scope.items()}
        self.names = {"Int32": ["n", "i"], "Float32": ["t"], "Boolean": []}
        self.vectors, self.pairs = [], []
        self.define()
        self.emit(f"return {self.expr(type_)}")
        self.inlined, self.names, self.nested, self.uniform = False, scope, 0, was
        self.vectors, self.pairs = kept
        for _ in range(2):
            self.add(type_, f"{name}({self.expr('Int32', 1)}, {self.expr('Float32', 1)})")

    def unrolled(self) -> None:
        """A loop that Python runs, or a choice that it makes."""
        if self.rng.random() < 0.5:
            self.emit(f"if {self.one_of('w > 2', 'w == 1', 'w % 2 == 1 and w > 0')}:")
            self.inside(self.uniform)
            return
        name, at = self.fresh("k"), self.fresh("v")
        self.emit(f"for {name} in fx.range_constexpr({self.one_of('w', '2')}):")
        self.nested += 1
        self.emit(f"{at} = fx.Int32({name})")
        self.nested -= 1
        self.names["Int32"].append(at)
        self.inside(self.uniform)
        self.names["Int32"].remove(at)

    def told(self) -> None:
        """Something printed."""
        values = [self.expr(self.one_of("Int32", "Float32", "Int64", "Float16", "Boolean"), 2) for _ in range(2)]
        self.emit(f'fx.printf("{self.one_of("{} and {}", "{}: {:>4}", "é {} {}")}\\n", {", ".join(values)})')

    def fast(self) -> None:
        """Statements of less exact floats."""
        flags = self.one_of("contract", "afn", "fast", "nnan,ninf", "reassoc")
        self.emit(f'with fx.fastmath("{flags}"):')
        self.nested += 1
        for _ in range(self.rng.randint(1, 3)):
            self.add("Float32", self.expr("Float32"))
        self.nested -= 1

    def ternary(self) -> None:
        """Python's own words for choices and logic."""
        type_ = self.one_of("Int32", "Float32")
        x, y, z = (self.expr("Int32", 2) for _ in range(3))
        other = self.expr("Boolean", 1)
        flag = self.one_of(f"{x} < {y} < {z}", f"{x} < {y} and not {other}", f"{x} > {y} or {z} == {y}")
        self.add(type_, f"fx.{type_}({self.expr(type_, 1)} if {flag} else {self.expr(type_, 1)})")

    def returned(self) -> None:
        """Atomics that give what was there."""
        op = self.one_of("atomic_add", "atomic_max", "atomic_xchg", "atomic_or", "atomic_sub")
        at = f"fx.get_iter(c) + ({self.expr('Int32', 2)} & 63)"
        if self.rng.random() < 0.3:
            self.add("Int32", f"fx.atomic_cas({at}, {self.expr('Int32', 1)}, {self.expr('Int32', 1)})[0]")
        else:
            self.add("Int32", f"fx.{op}({at}, {self.expr('Int32', 1)})")
