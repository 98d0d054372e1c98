"""Conversions to and from small formats on the cpu stack, against the formats of ml_dtypes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .harness import run
from .signatures import BITS, ROWS, parts

FORMATS: dict[str, Any] = {
    "fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2, "fp6": ml_dtypes.float6_e2m3fn,
    "bf6": ml_dtypes.float6_e3m2fn, "fp4": ml_dtypes.float4_e2m1fn, "f32": np.float32, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}  # fmt: skip
NAME = re.compile(r"cvt\.scalef32\.(sr\.)?(2x)?(pk\d*\.)?(\w+)\.(\w+)")
LANES = 64
ANY = 255
"""In the place of a code of a format that cannot say that it is no number."""


def numbers(rng: np.random.Generator) -> Callable[[str, int], np.ndarray]:
    """Words whose halves and bytes are numbers of moderate size in every format; special ones among them."""

    def words(_: str, count: int) -> np.ndarray:
        exponent = rng.integers(118, 135, count)
        made = (rng.integers(0, 2, count) << 31) | (exponent << 23) | rng.integers(0, 2**23, count)
        made[rng.integers(0, count, 3)] = [0x00000000, 0x7FC07FC0, 0x3F800000]
        return made.astype(np.uint32).view(np.int32)

    return words


def codes(words: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of so many bits in rows of words."""
    flat = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    groups = flat[:, : flat.shape[1] // bits * bits].reshape(len(words), -1, bits)
    return (groups.astype(np.uint64) << np.arange(bits, dtype=np.uint64)).sum(2)


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    """The other way round."""
    spread = (values.astype(np.uint64)[:, :, None] >> np.arange(bits, dtype=np.uint64)) & 1
    flat = spread.reshape(len(values), -1).astype(np.uint8)
    return np.packbits(flat, axis=1, bitorder="little")


def decoded(words: np.ndarray, name: str) -> np.ndarray:
    """Numbers in a format, as f64."""
    raw = codes(words, BITS[name])
    holder = {32: np.uint32, 16: np.uint16}.get(BITS[name], np.uint8)
    with np.errstate(all="ignore"):
        return raw.astype(holder).view(FORMATS[name]).astype(np.float64)


def encoded(values: np.ndarray, name: str) -> np.ndarray:
    """Numbers as codes of a format."""
    holder = {32: np.uint32, 16: np.uint16}.get(BITS[name], np.uint8)
    with np.errstate(all="ignore"):
        small = values.astype(np.float32).astype(FORMATS[name])
        if name in ("fp6", "bf6", "fp4"):  # these have no infinity: what is too large is their largest
            top = float(ml_dtypes.finfo(FORMATS[name]).max)
            small = np.clip(np.nan_to_num(values, nan=top), -top, top).astype(FORMATS[name])
            return np.where(np.isnan(values), ANY, small.view(holder))
    return small.view(holder)


def power(words: np.ndarray) -> np.ndarray:
    """The power of two of an f32's exponent; the largest exponent stands for no number."""
    exponent = ((words.view(np.uint32)[:, 0] >> 23) & 255).astype(int)
    return np.where(exponent == 255, np.nan, np.ldexp(1.0, exponent - 127))


def neighbours(x: np.ndarray, name: str) -> np.ndarray:
    """All finite numbers of a format, in order."""
    every = np.arange(1 << BITS[name], dtype=np.uint8).view(FORMATS[name]).astype(np.float64)
    return np.unique(every[np.isfinite(every)])


def at_random(values: np.ndarray, seed: np.ndarray, name: str) -> np.ndarray:
    """Between two numbers: the upper one if a fraction of 24 bits of the seed reaches it."""
    line = neighbours(values, name)
    size = np.abs(values)
    grid = line[line >= 0]
    step = np.diff(np.append(grid, grid[-1] + grid[-1] - grid[-2]))
    at = np.clip(np.searchsorted(grid, size, side="right") - 1, 0, len(grid) - 1)
    rest = (size - grid[at]) / step[at]
    chance = ((seed.view(np.uint32)[:, :1] >> 8) / 2.0**24).astype(np.float64)
    return np.copysign(grid[at] + step[at] * (rest + chance >= 1), values)


def expected(name: str, operands: list[np.ndarray], arguments: list[tuple[str, int | None]]) -> tuple[np.ndarray, int]:
    """Codes of the result and their width; parts of the old value are those of `operands[0]`."""
    random, twice, pack, to, source = NAME.fullmatch(name).groups()  # type: ignore[union-attr]
    fixed = [n for _, n in arguments if n is not None]
    lanes = 1 if pack is None else int(pack.strip("pk.") or 2)
    values = list(operands)
    old = values.pop(0) if (to not in ("f32", "f16", "bf16") and lanes <= 2) or (lanes == 1 and to == "f16") else None
    if to in ("f32", "f16", "bf16"):
        scale = power(values[1])
        first = (fixed[0] if fixed else 0) * lanes
        with np.errstate(all="ignore"):
            numbers_ = decoded(values[0], source)[:, first : first + lanes] * scale[:, None]
        found = encoded(numbers_, to)
        if old is None:
            return found, BITS[to]
        whole = codes(old, 16)
        whole[:, fixed[1]] = found[:, 0]
        return whole, 16
    count = 2 if twice or (source == "f32" and lanes == 2 and not random) else 1
    given = [decoded(values.pop(0), source) for _ in range(count)]
    wide = np.stack(given, 2).reshape(LANES, -1) if twice else np.concatenate(given, 1)
    wide = wide[:, : lanes * (2 if twice else 1)]
    seed = values.pop(0) if random else None
    with np.errstate(all="ignore"):
        small = wide / power(values.pop(0))[:, None]
    if seed is not None:
        finite = np.isfinite(small)
        small = np.where(finite, at_random(np.where(finite, small, 0), seed, to), small)
    found = encoded(small, to)
    if old is None:
        return found, BITS[to]
    parts_ = codes(old, BITS[to])
    parts_[:, fixed[0] * found.shape[1] : (fixed[0] + 1) * found.shape[1]] = found
    return parts_, BITS[to]


def same(got: np.ndarray, wanted: np.ndarray, bits: int, to: str) -> None:
    """Equal but for the bits of what is no number."""
    left, right = codes(got, bits)[:, : wanted.shape[1]], wanted.astype(np.uint64)
    if bits in (8, 16, 32) and to in FORMATS and to not in ("fp6", "bf6", "fp4"):
        holder = {32: np.uint32, 16: np.uint16}.get(bits, np.uint8)
        numbers_ = [x.astype(holder).view(FORMATS[to]).astype(np.float64) for x in (left, right)]
        skip = np.isnan(numbers_[0]) & np.isnan(numbers_[1])
        left, right = np.where(skip, 0, left), np.where(skip, 0, right)
    if bits < 8:
        left, right = np.where(right == ANY, 0, left), np.where(right == ANY, 0, right)
    np.testing.assert_array_equal(left, right)


SCALED = {f"llvm.amdgcn.{n}": row for n, row in ROWS.items() if n.startswith("cvt.scalef32")}


@pytest.mark.parametrize("kind", ["enlarging", "reducing", "random"])
def test_scaled(kind: str, rng: np.random.Generator, emulate: Any) -> None:
    emulate("gfx950")
    chosen: dict[str, str] = {}
    for full, row in SCALED.items():
        random, _, _, to, _ = NAME.fullmatch(full.removeprefix("llvm.amdgcn.")).groups()  # type: ignore[union-attr]
        if kind == ("random" if random else "enlarging" if to in ("f32", "f16", "bf16") else "reducing"):
            if not (random and re.search(r"pk(16|32).*f16", full)):  # much code, and nothing that the others lack
                chosen[full] = row
    assert len(chosen) > 15
    for full, (operands, got) in run(chosen, "gfx950", LANES, rng, numbers(rng)).items():
        name = full.removeprefix("llvm.amdgcn.")
        wanted, bits = expected(name, operands, parts(chosen[full])[1])
        try:
            same(got, wanted, bits, NAME.fullmatch(name).groups()[3])  # type: ignore[union-attr]
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


PLAIN = ["cvt.pk.fp8.f32", "cvt.pk.bf8.f32", "cvt.pk.f32.fp8", "cvt.pk.f32.bf8", "cvt.f32.fp8", "cvt.f32.bf8",
         "cvt.sr.fp8.f32", "cvt.sr.bf8.f32", "cvt.pk.i16", "cvt.pk.u16", "cvt.pknorm.i16", "cvt.pknorm.u16",
         "cvt.off.f32.i4", "cvt.pk.fp8.f16", "cvt.pk.f16.bf8", "cvt.pk.u8.f32"]  # fmt: skip


def test_plain(rng: np.random.Generator, emulate: Any) -> None:
    emulate("gfx950")
    rows = {f"llvm.amdgcn.{n}": ROWS[n] for n in PLAIN}
    got = {k.removeprefix("llvm.amdgcn."): v for k, v in run(rows, "gfx950", LANES, rng, numbers(rng)).items()}
    for word in ("fp8", "bf8"):
        (a, b, old), made = got[f"cvt.pk.{word}.f32"]
        pair = np.stack([encoded(decoded(x, "f32")[:, 0], word) for x in (a, b)], 1)
        same(made, np.concatenate([codes(old, 8)[:, :2], pair], 1), 8, word)
        (source,), made = got[f"cvt.pk.f32.{word}"]
        np.testing.assert_array_equal(made.view(np.float32), decoded(source, word)[:, 2:].astype(np.float32))
        (source,), made = got[f"cvt.f32.{word}"]
        np.testing.assert_array_equal(made.view(np.float32)[:, 0], decoded(source, word)[:, 2].astype(np.float32))
        (x, seed, old), made = got[f"cvt.sr.{word}.f32"]
        exact = decoded(x, "f32")
        finite = np.isfinite(exact)
        random = np.where(finite, at_random(np.where(finite, exact, 0), seed, word), exact)
        whole = codes(old, 8)
        whole[:, 1] = encoded(random, word)[:, 0]
        same(made, whole, 8, word)
    for word, low, high in (("i16", -(2**15), 2**15 - 1), ("u16", 0, 2**16 - 1)):
        (a, b), made = got[f"cvt.pk.{word}"]
        kind = np.int32 if word == "i16" else np.uint32
        wide = np.concatenate([a, b], 1).view(kind).astype(np.int64)
        np.testing.assert_array_equal(codes(made, 16), np.clip(wide, low, high) & 0xFFFF)
        (a, b), made = got[f"cvt.pknorm.{word}"]
        x = np.concatenate([a, b], 1).view(np.float32)
        scaled = np.rint(x * np.float32(high))
        limited = np.where(np.isnan(x), 0, np.clip(scaled, -high if low else 0, high)).astype(np.int64)
        np.testing.assert_array_equal(codes(made, 16), limited & 0xFFFF)
    (x,), made = got["cvt.off.f32.i4"]
    np.testing.assert_array_equal(made.view(np.float32), ((x << 28) >> 28) / np.float32(16))
    (pair,), made = got["cvt.pk.fp8.f16"]
    same(made, encoded(decoded(pair, "f16"), "fp8"), 8, "fp8")
    (pair,), made = got["cvt.pk.f16.bf8"]
    wanted = decoded(pair, "bf8")[:, :2].astype(np.float16)
    np.testing.assert_array_equal(codes(made, 16).astype(np.uint16).view(np.float16), wanted)
    (x, at, old), made = got["cvt.pk.u8.f32"]
    wanted = codes(old, 8)
    byte = np.clip(np.rint(np.nan_to_num(x.view(np.float32)[:, 0])), 0, 255)
    wanted[np.arange(LANES), at[:, 0] & 3] = byte
    np.testing.assert_array_equal(codes(made, 8), wanted)
