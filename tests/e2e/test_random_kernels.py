"""Random kernels: whoever looks, and wherever passes are run one by one, the code is the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from tests.e2e.test_one_compiler import TARGETS, check
from tests.fuzz.kernels import HEAD, TAIL, Program
from tests.fuzz.written import written

from flydsl.errors import DSLOverflowError, DSLValueError

ARGUMENTS = (torch.zeros(128), torch.zeros(128, dtype=torch.int32), 3, 1.5)


def compiled_alike(text: str, folder: Path, target: str, seed: int, through_text: bool) -> None:
    module = written(text, folder / f"kernel_{seed}_{target.replace(':', '_')}.py")
    try:
        check(module.run, ARGUMENTS, target, seed, text=through_text)
    except (DSLValueError, DSLOverflowError) as error:
        # What is known while tracing may be infinite or large: infinity is no integer, and float16 ends early.
        assert "it has no integer value" in str(error) or "does not fit f16" in str(error)


FIRST = int(os.environ.get("RANDOM_KERNELS_FROM", "0"))
COUNT = int(os.environ.get("RANDOM_KERNELS", "8"))
"""How many kernels for each target, and the first seed: a search takes thousands, each run of the tests these few."""
COUNT = int(os.environ.get("RANDOM_KERNELS", "6"))
"""How many kernels for each target, and the first seed: a search takes thousands, the tests the same few."""


@pytest.mark.parametrize("target", TARGETS)
def test_random(target: str, tmp_path: Path):
    first = FIRST + TARGETS.index(target) * COUNT
    for seed in range(first, first + COUNT):
        arch = target.split(":")[1]
        print(f"Program({seed}, {arch!r}).text()")
        compiled_alike(Program(seed, arch).text(), tmp_path, target, seed, through_text=seed % 8 == 0)


FOUND = {
    "an exchange for a register that nobody reads": """
    r = fx.make_rmem_tensor(1, fx.Int32)
    r[0] = fx.shuffle_xor(i, 1)
    a[i] = t
""",
    "an exchange that cancels itself": """
    for k in range(3):
        v = fx.shuffle_xor(i, 2)
        c[((v ^ v) - c[(k | n) & 63]) & 63] = n * k
""",
    "an exchange for a known choice": """
    if fx.arith.select(fx.shuffle_xor(fx.Float32(0.5), 4) == fx.Float32(n), fx.Int32(3) >= 2, (i > 1) | True):
        j = fx.Int32(0)
        while j < (n & 3):
            j = j + 1
""",
    "a register nobody reads, multiplied by itself": """
    r = fx.make_rmem_tensor(8, fx.Float16)
    if n > 5:
        r[7] = fx.Float16(1.0)
    r.store(r.load() * r.load())
""",
    "a choice between 8-bit zeros, seen as bits and back": """
    a[i] = -1.0 * fx.arith.select(i != 0, fx.Float8E4M3FNUZ(0.0), fx.Float8E4M3FNUZ(0.0))
""",
    "a vector of zeros of both signs": """
    w = fx.Vector.from_elements([-0.0, 0.0], fx.Float8E4M3FN)
    a[i] = fx.Float32(w[0])
""",
    "a conversion for a stride that nobody needs": """
    x = fx.make_view(fx.get_iter(a), fx.make_layout((n, 4), (4, fx.Int32(t))))
    x[i & 0] = fx.Float32(fx.Int8(t))
""",
    "an old value and whether it was exchanged, on both sides of an exchange": """
    v = fx.atomic_cas(fx.get_iter(c) + n, n, i)[0]
    a[i] = fx.Float32(fx.shuffle_xor(i, 2) + v)
""",
    "predicates of values in two directions": """
    word = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    copy = fx.make_tiled_copy_tv(word, fx.make_layout((8, 8), (8, 1)), fx.make_layout((2, 2), (2, 1)))
    mine = copy.get_slice(i)
    part = mine.partition_S(fx.make_view(fx.get_iter(a), fx.make_layout((16, 16), (16, 1))))
    where = mine.partition_S(fx.make_view((0, 0), fx.make_identity_layout((16, 16))))[(0, None), None, None]
    inside = fx.make_fragment_like(where, dtype=fx.Boolean)
    for k in fx.range_constexpr(fx.size(inside.shape).unpack()):
        inside[k] = fx.elem_less(where[k], (n, n))
    held = fx.make_fragment_like(part)
    held.fill(0.0)
    fx.copy(copy, part, held, pred=inside)
    a[i] = held.load().reduce("add")
""",
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, tmp_path: Path):
    for target in TARGETS:
        compiled_alike(HEAD + FOUND[name] + TAIL.format(more=""), tmp_path, target, 7, through_text=True)
