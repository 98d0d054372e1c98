"""Random layouts through `fly-layout-lowering`, run on the CPU, give the index that `flydsl.layout` computes."""

import random

import numpy as np
import pytest
from tests.covering import some_of

import flydsl.layout as fl
from flydsl.layout import Layout, format_any

PASSES = "fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,canonicalize,convert-fly-to-cpu,canonicalize"
PER_MODULE, MODULES = 100, 12
CELLS = 8
"""Run-time numbers one case may use."""


class Case:
    """A layout, some of whose leaves are run-time numbers, and a coordinate; `numbers` are what those leaves hold."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.numbers: list[int] = []
        self.dynamic = rng.random() < 0.7
        shape, stride = self.modes(rng.randint(1, 3), 0)
        self.layout = Layout(shape, stride)
        self.shape = self.typed(shape, 0.5)
        self.stride = self.typed(stride, 0.5)
        self.coord_value = self.coordinate(shape)
        self.coord = self.typed(self.coord_value, 0.7)

    def modes(self, rank: int, depth: int):
        shape, stride = [], []
        for _ in range(rank):
            if depth < 2 and self.rng.random() < 0.25:
                s, d = self.modes(self.rng.randint(1, 2), depth + 1)
            else:
                s, d = self.rng.choice((1, 2, 3, 4, 5, 8)), self.rng.choice((0, 1, 2, 3, 4, 7, 8, 16, 24))
            shape.append(s)
            stride.append(d)
        return tuple(shape), tuple(stride)

    def coordinate(self, shape):
        if isinstance(shape, tuple) and self.rng.random() < 0.75:
            return tuple(self.coordinate(s) for s in shape)
        return self.rng.randrange(fl.size(Layout(shape, shape)) if isinstance(shape, tuple) else shape)

    def typed(self, tree, share: float):
        """The tree with some leaves replaced by `?`, whose numbers are noted in order."""
        if isinstance(tree, tuple):
            return tuple(self.typed(x, share) for x in tree)
        if not self.dynamic or len(self.numbers) >= CELLS or self.rng.random() > share:
            return tree
        self.numbers.append(tree)
        div = self.rng.choice([d for d in (1, 2, 4, 8) if tree % d == 0])
        return fl.Dyn.get(32, div)

    def text(self, index: int) -> str:
        """IR that computes the index and stores it."""
        lines, used = [], iter(range(CELLS))

        def make(name, tree):
            leaves = list(fl.dynamic_leaves(tree))
            values = []
            for _ in leaves:
                cell = next(used)
                values.append(f"%c{index}_{cell}")
                position = index * CELLS + cell
                lines.append(f"%k{index}_{cell} = fly.make_int_tuple() : () -> !fly.int_tuple<{position}>")
                lines.append(
                    f"{values[-1]} = fly.memref.load(%in, %k{index}_{cell}) : (!fly.memref<i32, global, {SIZE}:1>, "
                    f"!fly.int_tuple<{position}>) -> i32"
                )
            type_ = f"!fly.int_tuple<{format_any(tree)}>"
            lines.append(
                f"%{name}{index} = fly.make_int_tuple({', '.join(values)}) : "
                f"({', '.join(['i32'] * len(values))}) -> {type_}"
            )
            return type_

        shape, stride, coord = make("s", self.shape), make("d", self.stride), make("x", self.coord)
        layout = Layout(self.shape, self.stride)
        type_ = f"!fly.layout<{layout}>"
        result = fl.crd2idx(self.coord, layout)
        found = f"!fly.int_tuple<{format_any(result)}>"
        lines += [
            f"%l{index} = fly.make_layout(%s{index}, %d{index}) : ({shape}, {stride}) -> {type_}",
            f"%i{index} = fly.crd2idx(%x{index}, %l{index}) : ({coord}, {type_}) -> {found}",
            f"%v{index} = fly.get_scalar(%i{index}) : ({found}) -> i32",
            f"%o{index} = fly.make_int_tuple() : () -> !fly.int_tuple<{index}>",
            f"fly.memref.store(%v{index}, %out, %o{index}) : (i32, !fly.memref<i32, global, {PER_MODULE}:1>, "
            f"!fly.int_tuple<{index}>) -> ()",
        ]
        return "\n".join(lines)


SIZE = PER_MODULE * CELLS


def kernel(cases: list[Case]) -> str:
    """A kernel that computes all cases."""
    body = "\n".join(case.text(i) for i, case in enumerate(cases))
    return f"""
    gpu.module @m {{
      gpu.func @k(%in: !fly.memref<i32, global, {SIZE}:1>, %out: !fly.memref<i32, global, {PER_MODULE}:1>)
      kernel attributes {{known_block_size = array<i32: 1, 1, 1>}} {{ {body} gpu.return }} }}"""


@pytest.mark.parametrize("seed", some_of(range(MODULES), 4))
def test_random_layouts(seed, run_kernel):
    rng = random.Random(seed)
    cases = [Case(rng) for _ in range(PER_MODULE)]
    inputs = np.zeros(SIZE, np.int32)
    for i, case in enumerate(cases):
        inputs[i * CELLS : i * CELLS + len(case.numbers)] = case.numbers
    expected = [fl.crd2idx(case.coord_value, case.layout) for case in cases]
    np.testing.assert_array_equal(run_kernel(kernel(cases), PASSES, inputs, PER_MODULE), expected)
