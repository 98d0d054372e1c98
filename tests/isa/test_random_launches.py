"""Launches with arguments of every kind in any order: each thread is there once, and reads what was given.

Blocks and grids have up to three dimensions, blocks need not be a multiple of the wave, and their extents are known
when the kernel is compiled or not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fuzz.lanes import FLOATS, SMALL, TYPES
from tests.fuzz.written import written

import flydsl.expr as fx

SCALARS = tuple(name for name in TYPES if name not in SMALL)
BLOCKS = ((64, 1, 1), (7, 1, 1), (33, 5, 1), (3, 4, 5), (96, 1, 1), (1, 65, 1), (10, 10, 2), (2, 3, 64), (1000, 1, 1))
GRIDS = ((1, 1, 1), (3, 1, 1), (2, 3, 1), (2, 1, 3), (1, 1, 2))
ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
LAUNCHES = 8


def number(rng: random.Random, type_: str) -> Any:
    """A value of a type, exact in it."""
    if type_ == "Boolean":
        return rng.random() < 0.5
    if type_ in FLOATS:
        return float(np.array(rng.gauss(0, 100)).astype(TYPES[type_]))
    info = np.iinfo(TYPES[type_])
    return rng.choice([int(info.min), int(info.max), rng.randint(int(info.min), int(info.max)), rng.randrange(100)])


@dataclass
class Parameter:
    """What is given, and what a kernel reads of it: an expression, its type, the number."""

    annotation: str
    given: Any
    parts: list[tuple[str, str, Any]]


def scalar(rng: random.Random, name: str) -> Parameter:
    type_ = rng.choice(SCALARS)
    value = number(rng, type_)
    return Parameter(f"fx.{type_}", value, [(name, type_, value)])


def array(rng: random.Random, name: str) -> Parameter:
    type_, shape = rng.choice(SCALARS), [rng.randint(1, 5) for _ in range(rng.randint(1, 3))]
    values = np.array([number(rng, type_) for _ in range(prod(shape))], TYPES[type_]).reshape(shape)
    values = values.T if rng.random() < 0.3 else values
    at = tuple(rng.randrange(extent) for extent in values.shape)
    extents = [(f"{name}.shape[{d}]", "Int32", extent) for d, extent in enumerate(values.shape)]
    return Parameter("fx.Tensor", values, [(f"{name}{list(at)}", type_, values[at]), *extents])


def struct(rng: random.Random, name: str) -> Parameter:
    types = {f"f{at}": rng.choice(SCALARS) for at in range(rng.randint(1, 6))}
    values = {field: number(rng, type_) for field, type_ in types.items()}
    given = {field: getattr(fx, types[field])(value) for field, value in values.items()}
    return Parameter(f"Struct_{name}", given, [(f"{name}.{f}", types[f], value) for f, value in values.items()])


class Launch:
    """A random launch, and its text."""

    def __init__(self, seed: int):
        rng = random.Random(seed)
        kinds = rng.choices((scalar, array, struct), (6, 3, 2), k=rng.randint(1, 9))
        self.parameters = {f"p{at}": kind(rng, f"p{at}") for at, kind in enumerate(kinds)}
        self.block, self.grid, self.known = rng.choice(BLOCKS), rng.choice(GRIDS), rng.random() < 0.6
        self.count = prod(self.block) * prod(self.grid)
        self.reader = rng.randrange(self.count)
        self.order = rng.sample(list(self.parameters), len(self.parameters))

    def parts(self) -> Iterator[tuple[int, str, str, Any]]:
        """Where a part is written to, and what it is."""
        found = [part for parameter in self.parameters.values() for part in parameter.parts]
        for at, (text, type_, value) in enumerate(found):
            yield at, text, type_, value

    def structs(self) -> str:
        found = ""
        for parameter in self.parameters.values():
            if isinstance(parameter.given, dict):
                fields = "".join(f"    {text.partition('.')[2]}: fx.{type_}\n" for text, type_, _ in parameter.parts)
                found += f"@fx.struct\nclass {parameter.annotation}:\n{fields}\n\n"
        return found

    def text(self) -> str:
        names = lambda order: ", ".join(f"{name}: {self.parameters[name].annotation}" for name in order)  # noqa: E731
        stores = "".join(
            f"        {'of' if type_ in FLOATS else 'oi'}[{at}] = "
            f"fx.{'Float64' if type_ in FLOATS else 'Int64'}({text})\n"
            for at, text, type_, _ in self.parts()
        )
        sizes = f"grid={self.grid}, block={self.block}"
        if not self.known:
            sizes = f"grid=(gx, {self.grid[1]}, {self.grid[2]}), block=(bx, {self.block[1]}, {self.block[2]})"
        return f"""
import flydsl.compiler as flyc
import flydsl.expr as fx


{self.structs()}@flyc.kernel
def kernel(oi: fx.Tensor, of: fx.Tensor, ids: fx.Tensor, {names(self.order)}):
    t = fx.thread_idx.x + fx.block_dim.x * (fx.thread_idx.y + fx.block_dim.y * fx.thread_idx.z)
    b = fx.block_idx.x + fx.grid_dim.x * (fx.block_idx.y + fx.grid_dim.y * fx.block_idx.z)
    g = b * (fx.block_dim.x * fx.block_dim.y * fx.block_dim.z) + t
    ids[g] = ids[g] + g + 1
    if g == {self.reader}:
{stores}

@flyc.jit
def run(oi: fx.Tensor, of: fx.Tensor, ids: fx.Tensor, gx: fx.Int32, bx: fx.Int32, {names(self.parameters)}):
    kernel(oi, of, ids, {", ".join(self.order)}).launch({sizes})
"""

    def check(self, path: Path) -> None:
        module = written(self.text(), path)
        oi, of, ids = np.zeros(100, np.int64), np.zeros(100), np.zeros(self.count, np.int32)
        given = [
            getattr(module, p.annotation)(**p.given) if isinstance(p.given, dict) else p.given
            for p in self.parameters.values()
        ]
        module.run(oi, of, ids, self.grid[0], self.block[0], *given)
        np.testing.assert_array_equal(ids, np.arange(1, self.count + 1))
        for at, text, type_, value in self.parts():
            wanted = np.array(value).astype(TYPES[type_])
            found = of[at] if type_ in FLOATS else oi[at]
            assert found == wanted.astype(np.float64 if type_ in FLOATS else np.int64), (text, type_, value)


@pytest.mark.parametrize("arch", ARCHES)
def test_random_launches(arch: str, gpu: Any, rng: np.random.Generator, tmp_path: Path):
    gpu(arch)
    for _ in range(LAUNCHES):
        seed = int(rng.integers(1 << 31))
        print(f"Launch({seed})")
        Launch(seed).check(tmp_path / f"launch_{seed}.py")
