"""Intrinsics as machine code against their rules on the cpu stack: two accounts of each instruction, made apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.instructions.harness import run, shape
from tests.instructions.signatures import NOT_IN_LLVM, ROWS, parts

ARCHES = ("gfx942", "gfx950", "gfx1201", "gfx1250")
FLOATS: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
SPECIAL = np.array(
    [0, 1 << 31, 1, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000]
    + [0x3C003C00, 0x7BFF7BFF, 0x7C00FC00, 0x7E00FE00, 0x80008000, 0x00010001, 0xB2000000, 0x7FFFFFFF, 0xFFFFFFFF],
    np.uint32,
).view(np.int32)
"""Zeros, the smallest and largest numbers, infinities and no numbers of f32 and of pairs of f16."""
ROUNDED = re.compile(r"(exp2|log|sqrt|rsq|rcp|sin|cos|tanh)\b")
"""Instructions that chips compute to a few bits, and without subnormal numbers."""
LEFT_OUT = re.compile(
    r"(readlane|writelane|permlanex?16|inverse\.ballot)\..*"  # what must be the same in all lanes
    r"|cvt\.(scalef32\.)?sr\..*|prng.*|cvt\.scalef32\..*|cvt\.(pk\.)?(fp8|bf8|f16)\.(fp8|bf8|f16)|cvt\.pknorm.*"
    r"|permlanex?16\.var|[fsu]dot2.*|dot4\.f32.*|fma\.legacy"
)
"""Besides: what the executor does not know."""
MISSING = {
    "gfx942": r"permlane64.*|mov\.dpp8.*|tanh.*|log\.clamp.*|bitop3.*|add\..*|sudot.*",
    "gfx950": r"permlane64.*|mov\.dpp8.*|tanh.*|log\.clamp.*|add\..*|sudot.*",
    "gfx1201": r"tanh.*|log\.clamp.*|bitop3.*|add\..*",
    "gfx1250": r"log\.clamp.*",
}
"""What LLVM has no instruction for."""


def rows_of(arch: str) -> dict[str, str]:
    """Intrinsics of an architecture that take numbers and give one, with their types."""
    missing = re.compile(MISSING[arch])
    return {
        f"llvm.amdgcn.{name}": row
        for name, row in ROWS.items()
        if re.match(r"(v\d+)?(i|f|bf)\d+ <- .*[if]\d+( |$)", row)
        and not re.search(r"\bp\d|v4i32", row)
        and not any(each.fullmatch(name) for each in (NOT_IN_LLVM, LEFT_OUT, missing))
    }


def words(rng: np.random.Generator) -> Callable[[str, int], np.ndarray]:
    """Any words, numbers of all sizes, and the odd ones."""

    def fill(kind: str, count: int) -> np.ndarray:
        sizes = np.float32(10) ** rng.integers(-6, 7, count).astype(np.float32)
        numbers = (rng.standard_normal(count).astype(np.float32) * sizes).view(np.int32)
        drawn = rng.integers(-(2**31), 2**31, count).astype(np.int32), numbers, rng.choice(SPECIAL, count)
        return np.choose(rng.integers(0, 3, count), drawn)

    return fill


def same(name: str, row: str, given: list[np.ndarray], one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Lanes whose results are equal: no number is one whatever its bits, and rounded results may differ a little."""
    elem, _ = shape(parts(row)[0])
    if elem not in FLOATS:
        return np.asarray((one == other).all(1))
    with np.errstate(invalid="ignore"):
        a, b = (np.ascontiguousarray(x).view(FLOATS[elem]).astype(np.float64) for x in (one, other))
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    if elem == "f32" and ROUNDED.match(name.removeprefix("llvm.amdgcn.")):
        x = given[0].view(np.float32).astype(np.float64)
        small = [(np.abs(v) < 2.0**-126) & (v != 0) for v in (a, b, x)]
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= 2.0**-21 * np.maximum(np.abs(b), 1)
        equal |= near | small[0] | small[1] | small[2]
    return np.asarray(equal.all(1))


@pytest.mark.parametrize("arch", ARCHES)
def test_machine_code_gives_what_the_rules_give(
    arch: str, gpu: Callable[[str], object], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    rows, lanes, seed = rows_of(arch), 64 if arch.startswith("gfx9") else 32, int(rng.integers(1 << 30))
    assert len(rows) > 60
    with monkeypatch.context() as patch:
        patch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        patch.setenv("FLYDSL_COMPILE_ARCH", arch)
        patch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "0")
        again = np.random.default_rng(seed)
        emulated = run(rows, arch, lanes, again, words(again))
    gpu(arch)
    again = np.random.default_rng(seed)
    executed = run(rows, arch, lanes, again, words(again))
    wrong = list[str]()
    for name, row in rows.items():
        given, one = executed[name]
        other = emulated[name][1]
        for at in np.flatnonzero(~same(name, row, given, one, other))[:2]:
            shown = ["/".join(f"{word & 0xFFFFFFFF:08x}" for word in x[at].tolist()) for x in (*given, one, other)]
            wrong.append(f"{name}({', '.join(shown[:-2])}): executed {shown[-2]}, emulated {shown[-1]}")
    assert not wrong, "\n".join(wrong)
