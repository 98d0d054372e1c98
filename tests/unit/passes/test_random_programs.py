"""Random structured programs over registers compute the same before and after the clean-up passes."""

import random

import numpy as np
import pytest
from tests.covering import some_of

SPACES = "!fly.memref<i32, global, 16:1>"
REG = "!fly.ptr<i32, register>"
SIZES = (4, 2, 1)
END = "fly-canonicalize,fly-layout-lowering,convert-fly-to-cpu"
PIPELINES = {
    "canonicalize": f"canonicalize,{END}",
    "canonicalize twice": f"canonicalize,canonicalize,{END}",
    "cse": f"cse,{END}",
    "promote": f"fly-promote-regmem-to-vectorssa,{END}",
    "promote and clean": f"fly-promote-regmem-to-vectorssa,canonicalize,cse,canonicalize,{END}",
    "clean behind": "fly-canonicalize,fly-layout-lowering,convert-fly-to-cpu,canonicalize,cse,canonicalize",
}
OPS = ("addi", "subi", "muli", "andi", "ori", "xori", "minsi", "maxsi")


class Program:
    """Text of a kernel: `values` are in scope, `fresh` names new ones."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.counter = 0
        self.lines: list[str] = []

    def fresh(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"

    def emit(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self) -> str:
        return self.emit(f"arith.constant {self.rng.choice((0, 0, 1, 1, 2, 3, -1, 7, 100))} : i32")

    def pointer(self) -> tuple[str, int]:
        """An allocation at a static offset, and how many elements follow."""
        which = self.rng.randrange(len(SIZES))
        at = self.rng.randrange(SIZES[which])
        if not at:
            return f"%r{which}", SIZES[which]
        offset = self.emit(f"fly.make_int_tuple() : () -> !fly.int_tuple<{at}>")
        return self.emit(f"fly.add_offset(%r{which}, {offset}) : ({REG}, !fly.int_tuple<{at}>) -> {REG}"), SIZES[
            which
        ] - at

    def block(self, values: list[str], depth: int) -> list[str]:
        """Some statements; gives the values in scope behind them."""
        values = list(values)
        for _ in range(self.rng.randint(2, 6)):
            kind = self.rng.random()
            if kind < 0.35:
                a, b = (self.rng.choice([*values, self.constant()]) for _ in range(2))
                values.append(self.emit(f"arith.{self.rng.choice(OPS)} {a}, {b} : i32"))
            elif kind < 0.55:
                self.store(values)
            elif kind < 0.7:
                p, _ = self.pointer()
                values.append(self.emit(f"fly.ptr.load({p}) : ({REG}) -> i32"))
            elif kind < 0.75:
                values.append(self.select(values))
            elif depth < 3:
                values += getattr(self, self.rng.choice(("branch", "branch", "loop")))(values, depth)
        return values

    def store(self, values: list[str]) -> None:
        p, room = self.pointer()
        x = self.rng.choice(values)
        if room > 1 and self.rng.random() < 0.4:
            pair = self.emit(f"vector.from_elements {x}, {self.rng.choice(values)} : vector<2xi32>")
            self.lines.append(f"fly.ptr.store({pair}, {p}) : (vector<2xi32>, {REG}) -> ()")
        else:
            self.lines.append(f"fly.ptr.store({x}, {p}) : (i32, {REG}) -> ()")

    def condition(self, values: list[str]) -> str:
        a, b = self.rng.choice(values), self.rng.choice([*values, self.constant()])
        return self.emit(f"arith.cmpi {self.rng.choice(('slt', 'eq', 'ne', 'sge'))}, {a}, {b} : i32")

    def select(self, values: list[str]) -> str:
        cond = self.condition(values)
        return self.emit(f"arith.select {cond}, {self.rng.choice(values)}, {self.rng.choice(values)} : i32")

    def branch(self, values: list[str], depth: int) -> list[str]:
        """One if, or two in a row on the same condition, with or without results."""
        cond = self.condition(values)
        found: list[str] = []
        for _ in range(self.rng.choice((1, 1, 2))):
            if self.rng.random() < 0.4:
                self.lines.append(f"scf.if {cond} {{")
                self.block([*values, *found], depth + 1)
                self.lines.append("}")
                continue
            name = self.fresh()
            self.lines.append(f"{name} = scf.if {cond} -> (i32) {{")
            for side in (0, 1):
                inner = self.block([*values, *found], depth + 1)
                self.lines.append(f"scf.yield {self.rng.choice(inner)} : i32")
                self.lines.append("} else {" if side == 0 else "}")
            found.append(name)
        return found

    def loop(self, values: list[str], depth: int) -> list[str]:
        """A loop of 0 to 3 trips that carries up to two values, one perhaps unchanged."""
        low, high, step = (self.emit(f"arith.constant {n} : i32") for n in (0, self.rng.randint(0, 3), 1))
        if self.rng.random() < 0.5:
            three = self.emit("arith.constant 3 : i32")
            high = self.emit(f"arith.andi {self.rng.choice(values)}, {three} : i32")
        name, other, index, a, b = (self.fresh() for _ in range(5))
        first, second = (self.rng.choice(values) for _ in range(2))
        self.lines.append(
            f"{name}, {other} = scf.for {index} = {low} to {high} step {step} iter_args({a} = {first}, {b} = {second})"
            " -> (i32, i32) : i32 {"
        )
        inner = self.block([*values, index, a, b], depth + 1)
        self.lines.append(f"scf.yield {self.rng.choice(inner)}, {self.rng.choice([b, *inner])} : i32, i32")
        self.lines.append("}")
        return [name, other] if self.rng.random() < 0.7 else [name]

    def text(self) -> str:
        values = []
        for i in range(4):
            at = self.emit(f"fly.make_int_tuple() : () -> !fly.int_tuple<{i}>")
            values.append(self.emit(f"fly.memref.load(%in, {at}) : ({SPACES}, !fly.int_tuple<{i}>) -> i32"))
        for which, size in enumerate(SIZES):
            attrs = f"{{dictAttrs = {{allocSize = {size} : i64}}}}"
            self.lines.append(f"%r{which} = fly.make_ptr() {attrs} : () -> {REG}")
            for at in range(size):
                offset = self.emit(f"fly.make_int_tuple() : () -> !fly.int_tuple<{at}>")
                p = self.emit(f"fly.add_offset(%r{which}, {offset}) : ({REG}, !fly.int_tuple<{at}>) -> {REG}")
                self.lines.append(f"fly.ptr.store({values[at]}, {p}) : (i32, {REG}) -> ()")
        values = self.block(values, 0)
        values += self.block(values, 0)
        for which, size in enumerate(SIZES):
            for at in range(size):
                offset = self.emit(f"fly.make_int_tuple() : () -> !fly.int_tuple<{at}>")
                p = self.emit(f"fly.add_offset(%r{which}, {offset}) : ({REG}, !fly.int_tuple<{at}>) -> {REG}")
                values.append(self.emit(f"fly.ptr.load({p}) : ({REG}) -> i32"))
        for i, value in enumerate(values[-16:]):
            at = self.emit(f"fly.make_int_tuple() : () -> !fly.int_tuple<{i}>")
            self.lines.append(f"fly.memref.store({value}, %out, {at}) : (i32, {SPACES}, !fly.int_tuple<{i}>) -> ()")
        body = "\n".join(self.lines)
        return f"""gpu.module @m {{
          gpu.func @k(%pin: !fly.ptr<i32, global>, %pout: !fly.ptr<i32, global>) kernel
              attributes {{known_block_size = array<i32: 1, 1, 1>}} {{
            %layout = fly.static : !fly.layout<16:1>
            %in = fly.make_view(%pin, %layout) : (!fly.ptr<i32, global>, !fly.layout<16:1>) -> {SPACES}
            %out = fly.make_view(%pout, %layout) : (!fly.ptr<i32, global>, !fly.layout<16:1>) -> {SPACES}
            {body}
            gpu.return
          }}
        }}"""


@pytest.mark.parametrize("seed", some_of(range(15), 5))
def test_random_programs(seed, run_kernel):
    text = Program(seed).text()
    inputs = np.random.default_rng(seed).integers(-5, 6, 16).astype(np.int32)
    expected = run_kernel(text, END, inputs, 16)
    for name, passes in PIPELINES.items():
        np.testing.assert_array_equal(run_kernel(text, passes, inputs, 16), expected, err_msg=name)
