"""Matrix instructions by their names on the cpu stack, against products in f64 of what the registers hold."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.parser import Parser

import flydsl.layout as L
from flydsl.dialects.fly_rocdl.cdna3 import MfmaType
from flydsl.dialects.fly_rocdl.scaled import MfmaScaleType, WmmaScaleType
from flydsl.dialects.fly_rocdl.wmma import Gfx11WmmaType, Gfx120xWmmaType, Gfx1250WmmaType
from flydsl.ir.registry import make_context
from flydsl.ir.types import bit_width

from .harness import run
from .test_conversions import codes

TYPES: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "f64": np.float64,
    "i4": ml_dtypes.int4, "i32": np.int32, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn, "f6E2M3FN": ml_dtypes.float6_e2m3fn,
}  # fmt: skip


def parse_type(text: str) -> Any:
    return Parser(make_context(), text).parse_type()


def case(name: str, row: str, arch: str, atom: Any, **options: Any) -> Any:
    return pytest.param(name, row, arch, atom, options, id=f"{name}-{arch}")


def mfma(name: str, row: str, mnk: tuple[int, int, int], a: str, b: str, acc: str, arch: str = "gfx942") -> Any:
    flags = " i32=0 i32=0 i32=0"
    return case(f"mfma.{name}", row + flags, arch, MfmaType.make(*mnk, *(parse_type(t) for t in (a, b, acc))))


def wmma(cls: Any, arch: str, name: str, row: str, k: int, a: str, b: str, acc: str, *flags: bool) -> Any:
    made = cls.make(16, 16, k, *(parse_type(t) for t in (a, b, acc)), *flags)
    return case(f"wmma.{name}", row, arch, made)


CASES = [
    mfma("f32.16x16x16f16", "v4f32 <- v4f16 v4f16 v4f32", (16, 16, 16), "f16", "f16", "f32"),
    mfma("f32.32x32x8bf16.1k", "v16f32 <- v4i16 v4i16 v16f32", (32, 32, 8), "bf16", "bf16", "f32"),
    mfma("f32.16x16x4f32", "v4f32 <- f32 f32 v4f32", (16, 16, 4), "f32", "f32", "f32"),
    mfma("i32.16x16x32.i8", "v4i32 <- i64 i64 v4i32", (16, 16, 32), "i8", "i8", "i32"),
    mfma("f32.16x16x32.fp8.bf8", "v4f32 <- i64 i64 v4f32", (16, 16, 32), "f8E4M3FNUZ", "f8E5M2FNUZ", "f32"),
    mfma("f32.16x16x32.bf16", "v4f32 <- v8bf16 v8bf16 v4f32", (16, 16, 32), "bf16", "bf16", "f32", "gfx950"),
    wmma(Gfx11WmmaType, "gfx1100", "f32.16x16x16.f16.v8f32.v16f16", "v8f32 <- v16f16 v16f16 v8f32", 16, "f16", "f16",
         "f32"),
    wmma(Gfx11WmmaType, "gfx1100", "i32.16x16x16.iu8.v8i32.v4i32", "v8i32 <- i1=1 v4i32 i1=0 v4i32 v8i32 i1=0", 16,
         "i8", "i8", "i32", True, False),
    wmma(Gfx120xWmmaType, "gfx1201", "f32.16x16x16.bf16.v8f32.v8i16", "v8f32 <- v8i16 v8i16 v8f32", 16, "bf16", "bf16",
         "f32"),
    wmma(Gfx120xWmmaType, "gfx1201", "f32.16x16x16.fp8.bf8.v8f32.v2i32", "v8f32 <- v2i32 v2i32 v8f32", 16, "f8E4M3FN",
         "f8E5M2", "f32"),
    wmma(Gfx120xWmmaType, "gfx1201", "f16.16x16x16.f16.v8f16.v8f16", "v8f16 <- v8f16 v8f16 v8f16 i1=0", 16, "f16",
         "f16", "f16"),
    wmma(Gfx120xWmmaType, "gfx1201", "i32.16x16x16.iu4.v8i32.i32", "v8i32 <- i1=0 i32 i1=1 i32 v8i32 i1=1", 16, "i4",
         "i4", "i32", False, True, True),
    wmma(Gfx1250WmmaType, "gfx1250", "f32.16x16x32.f16.v8f32.v16f16",
         "v8f32 <- i1=0 v16f16 i1=0 v16f16 i16=0 v8f32 i1=0 i1=0", 32, "f16", "f16", "f32"),
    wmma(Gfx1250WmmaType, "gfx1250", "f32.16x16x64.fp8.bf8.v8f32.v8i32", "v8f32 <- v8i32 v8i32 i16=0 v8f32 i1=0 i1=0",
         64, "f8E4M3FN", "f8E5M2", "f32"),
    case("mfma.scale.f32.32x32x64.f8f6f4.v8i32.v4i32",
         "v16f32 <- v8i32 v4i32 v16f32 i32=0 i32=4 i32=1 i32 i32=2 i32", "gfx950",
         MfmaScaleType.make(32, 32, 64, *(parse_type(t) for t in ("f8E4M3FN", "f4E2M1FN", "f32")), 1, 2)),
    case("wmma.scale.f32.16x16x128.f8f6f4.v8f32.v16i32.v16i32",
         "v8f32 <- i32=0 v16i32 i32=1 v16i32 i16=0 v8f32 i32=0 i32=0 i32 i32=1 i32=0 i32 i1=0 i1=0", "gfx1250",
         WmmaScaleType.make(16, 16, 128, *(parse_type(t) for t in ("f8E4M3FN", "f8E5M2", "f32")), 0, 1)),
]  # fmt: skip


def values(words: np.ndarray, elem: str, unsigned: bool = False) -> np.ndarray:
    """Elements in the registers of the lanes, as f64."""
    bits = bit_width(parse_type(elem))
    raw = codes(words, bits)
    holder = {64: np.uint64, 32: np.uint32, 16: np.uint16}.get(bits, np.uint8)
    if unsigned:
        return raw.astype(np.float64)
    if elem == "i4":
        return np.where(raw >= 8, raw.astype(np.float64) - 16, raw.astype(np.float64))
    return raw.astype(holder).view(TYPES[elem]).astype(np.float64)


def gathered(words: np.ndarray, atom: Any, operand: int, unsigned: bool = False) -> np.ndarray:
    """The matrix that the lanes hold: A and B by (row, k), C by (m, n)."""
    m, n, k = atom.shape_mnk
    extents = ((m, k), (n, k), (m, n))[operand]
    layout = atom.tv_layout(operand)
    held = values(words, str(atom.elem_types[operand]), unsigned)
    if operand == 2 and bit_width(atom.elem_types[2]) == 16:  # registers hold rows in order
        held = held[:, [2 * (v % 4) + v // 4 for v in range(8)]]
    made = np.zeros(extents[0] * extents[1])
    for lane in range(L.size(layout[0])):
        for v in range(L.size(layout[1])):
            made[L.crd2idx((lane, v), layout)] = held[lane, v]
    return made.reshape(extents[1], extents[0]).T


def scales(words: list[np.ndarray], atom: Any) -> tuple[np.ndarray, np.ndarray]:
    """Factors of A and B by (row, k)."""
    m, n, k = atom.shape_mnk
    made: list[np.ndarray] = []
    for rows, register, sel in ((m, words[0], atom.data.opsel_a), (n, words[1], atom.data.opsel_b)):
        bytes_ = register.view(np.uint8).reshape(len(register), 4)
        factors = np.zeros((rows, k))
        for row in range(rows):
            for block in range(k // 32):
                if m * (k // 32) == 64 and isinstance(atom, MfmaScaleType):
                    code = bytes_[row + rows * block, sel]
                else:
                    code = bytes_[16 * sel + row, block]
                factors[row, 32 * block : 32 * block + 32] = np.ldexp(1.0, int(code) - 127)
        made.append(factors)
    return made[0], made[1]


@pytest.mark.parametrize(("name", "row", "arch", "atom", "options"), CASES)
def test_product(name: str, row: str, arch: str, atom: Any, options: Any, rng: np.random.Generator, emulate: Any):
    emulate(arch)
    lanes = 64 if arch.startswith("gfx9") else 32
    full = f"llvm.amdgcn.{name}"

    def fill(_: str, count: int) -> np.ndarray:
        # Small numbers in every format: bytes of fp8, halves of f16 and bf16, words of f32.
        low = rng.integers(0x30, 0x42, (4, count)) | (rng.integers(0, 2, (4, count)) << 7)
        return sum(low[i].astype(np.int64) << 8 * i for i in range(4)).astype(np.uint32).view(np.int32)

    ((operands, got),) = run({full: row}, arch, lanes, rng, fill).values()
    flags = getattr(atom.data, "sign_a", True), getattr(atom.data, "sign_b", True)
    integer = str(atom.elem_types[2]) == "i32"
    a, b = (gathered(operands[i], atom, i, integer and not flags[i]) for i in range(2))
    c = gathered(operands[2], atom, 2)
    if len(operands) > 3:
        left, right = scales(operands[3:], atom)
        wanted = (a * left) @ (b * right).T + c
    else:
        wanted = a @ b.T + c
    made = gathered(got, atom, 2)
    if integer:
        limited = np.clip(wanted, -(2.0**31), 2.0**31 - 1) if getattr(atom.data, "clamp", False) else wanted
        np.testing.assert_array_equal(made, (limited.astype(np.int64) + 2**31) % 2**32 - 2**31)
    else:
        half = str(atom.elem_types[2]) == "f16"
        tolerance = 2e-3 if half else 1e-6
        with np.errstate(over="ignore"):  # scales make some products too large for an f32
            wanted = wanted.astype(np.float16 if half else np.float32)
        finite = wanted[np.isfinite(wanted)]
        np.testing.assert_allclose(made, wanted, rtol=tolerance, atol=float(np.abs(finite).max()) * tolerance)
