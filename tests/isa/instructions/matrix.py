"""Matrix instructions: which lane and register holds which element, as AMD's manuals lay it out.

MFMA, on waves of 64 lanes: an instruction multiplies `blocks` pairs of matrices of M x K and K x N. Lane l holds row
l % M of A and column l % N of B, `each` consecutive steps of k; the lanes beyond M hold other blocks, then other k.
Of the result a lane holds column l % N, and in groups of four consecutive rows.

WMMA, on waves of 32: gfx11 has all of k in each half of the wave; later ones split k between the halves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..decode import MAKERS, Context, Step
from ..errors import IsaError
from ..operands import Operand, reader
from ..text import Instruction
from ..wave import Wave
from . import floats
from .smallfloats import decode, unpack

F64 = NDArray[np.float64]
Values = Callable[[Wave, Operand, int], NDArray[Any]]
"""`each` elements of every lane, from the registers of an operand."""

WIDTHS = {
    "f64": 64,
    "f32": 32,
    "xf32": 32,
    "f16": 16,
    "bf16": 16,
    "i8": 8,
    "iu8": 8,
    "u8": 8,
    "iu4": 4,
    "i4": 4,
    "u4": 4,
}
WIDTHS |= {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}


def elements(w: Wave, operand: Operand, kind: str, count: int, arch: str) -> NDArray[Any]:
    """Numbers that a lane holds: lanes by count."""
    bits = WIDTHS[kind]
    words = max(1, -(-bits * count // 32))
    if operand.kind != "v":
        raise IsaError(f"a matrix operand {operand.text}")
    raw = np.ascontiguousarray(w.v[operand.index : operand.index + words].T)
    if kind == "f64":
        return raw.view(np.float64)[:, :count]
    if kind == "xf32":  # ten bits of mantissa are kept
        raw = (raw + np.uint32(0xFFF) + (raw >> np.uint32(13) & np.uint32(1))) & np.uint32(0xFFFFE000)
    if kind in ("f32", "xf32"):
        return raw.view(np.float32)[:, :count].astype(np.float64)
    if kind == "f16":
        return raw.view(np.float16)[:, :count].astype(np.float64)
    if kind == "bf16":
        return floats.bf16_to_f32(raw.view(np.uint16))[:, :count].astype(np.float64)
    found = unpack(raw, bits, count)
    if kind in ("fp8", "bf8", "fp6", "bf6", "fp4"):
        return decode(found, kind, arch).astype(np.float64)
    whole = found.astype(np.int64)
    if kind[0] == "i":
        whole = np.where(whole >> bits - 1 & 1, whole - (1 << bits), whole)
    return whole


# --- MFMA -------------------------------------------------------------------------------------------------------------

_MFMA = re.compile(
    r"v_mfma_(?P<out>f32|f64|i32)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)(?:_(?P<blocks>\d+)b)?_?(?P<kind>[a-z0-9]+?)(?P<onek>_1k)?(?:_(?P<other>fp8|bf8))?"
)


def _blocks(m: int, k: int, each: int, lanes: int) -> int:
    """How many products an instruction makes: lanes that rows and steps of k leave over."""
    return lanes // (m * (k // each))


def _each(kind: str, m: int, n: int, k: int, one_k: bool, arch: str) -> int:
    """Elements of k that a lane holds."""
    if kind == "f64" or kind == "f32":
        return 1
    if kind == "xf32":
        return 2
    if kind in ("i8", "fp8", "bf8"):
        if (m, k) in ((32, 8), (16, 16), (32, 4), (16, 4), (4, 4)):
            return 4
        return 16 if (m, k) in ((32, 32), (16, 64)) else 8
    if kind == "bf16" and arch == "gfx90a" and not one_k:
        return 2
    return 8 if (m, k) in ((32, 16), (16, 32)) else 4


def product(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
    return np.einsum("bik,bkj->bij", a, b) + c


def _gather(values: NDArray[Any], rows: int, blocks: int, steps: int, each: int) -> NDArray[Any]:
    """Lanes by each -> blocks by rows by k."""
    laid = values.reshape(steps // each, blocks, rows, each)
    return laid.transpose(1, 2, 0, 3).reshape(blocks, rows, steps)


def result_rows(
    m: int, n: int, blocks: int, wide: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]:
    """Block, row and column of each lane and register of a result, and how many registers there are."""
    lane = np.arange(64)[:, None]
    count = m * n * blocks // 64
    r = np.arange(count)[None, :]
    if m == 4:
        if wide:  # one f64 a lane: rows across lanes
            return lane // 4 % 4 + 0 * r, lane // 16 + 0 * r, lane % 4 + 0 * r, count
        return lane // 4 + 0 * r, r + 0 * lane, lane % 4 + 0 * r, count
    per = m * n // 64
    block, within = r // per, r % per
    column = lane % n
    if wide:
        row = 4 * within + lane // n
    elif m == 32:
        row = 8 * (within // 4) + 4 * (lane // 32) + within % 4
    else:
        row = 4 * (lane // 16) + within
    return block + 0 * lane, row + 0 * lane, column + 0 * r, count


def _mfma(inst: Instruction, ctx: Context) -> Step:
    match = _MFMA.fullmatch(inst.mnemonic)
    if match is None:
        raise IsaError("a matrix instruction that is not known")
    m, n, k = int(match["m"]), int(match["n"]), int(match["k"])
    out, kind, other = match["out"], match["kind"], match["other"] or match["kind"]
    each = _each(kind, m, n, k, bool(match["onek"]), ctx.arch)
    blocks = int(match["blocks"] or _blocks(m, k, each, 64))
    if m * k * blocks != 64 * each:
        raise IsaError(f"{each} elements a lane do not make {blocks} x {m} x {k}")
    for name in ("cbsz", "abid", "blgp"):
        if inst.number(name):
            raise IsaError(f"{name}:{inst.modifiers[name]}")
    target, a, b, c = ctx.operands(inst)
    block, row, column, count = result_rows(m, n, blocks, out == "f64")

    def step(w: Wave) -> None:
        left = _gather(elements(w, a, kind, each, ctx.arch), m, blocks, k, each)
        right = _gather(elements(w, b, other, each, ctx.arch), n, blocks, k, each).transpose(0, 2, 1)
        more = accumulator(w, c, out, count)
        whole = np.zeros((blocks, m, n), more.dtype)
        whole[block, row, column] = more
        result = product(left, right, whole)
        put_result(w, target, out, result[block, row, column])

    return step


def accumulator(w: Wave, operand: Operand, kind: str, count: int) -> NDArray[Any]:
    if operand.kind == "c":
        value = reader(operand, kind)(w)
        return np.full((w.lanes, count), value, np.float64 if kind != "i32" else np.int64)
    words = count * (2 if kind == "f64" else 1)
    raw = np.ascontiguousarray(w.v[operand.index : operand.index + words].T)
    if kind == "i32":
        return raw.view(np.int32).astype(np.int64)
    return raw.view(np.float64 if kind == "f64" else np.float32).astype(np.float64)


def put_result(w: Wave, target: Operand, kind: str, values: NDArray[Any]) -> None:
    """All lanes are written: matrix instructions do not look at EXEC."""
    if kind == "i32":
        raw = values.astype(np.int64).astype(np.uint32)
    elif kind == "f64":
        raw = np.ascontiguousarray(values).view(np.uint32)
    else:
        raw = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
    w.v[target.index : target.index + raw.shape[1]] = raw.T


def _register_mfma() -> None:
    shapes = {
        "f32": ["32x32x1_2b", "16x16x1_4b", "4x4x1_16b", "32x32x2", "16x16x4"],
        "xf32": ["16x16x8", "32x32x4"],
        "f16": ["32x32x4_2b", "16x16x4_4b", "4x4x4_16b", "32x32x8", "16x16x16", "16x16x32", "32x32x16"],
        "bf16": ["32x32x4_2b", "16x16x4_4b", "4x4x4_16b", "32x32x8", "16x16x16", "16x16x32", "32x32x16"],
    }
    for kind, names in shapes.items():
        for name in names:
            MAKERS[f"v_mfma_f32_{name}_{kind}"] = _mfma
            plain = name.partition("_")[0]
            MAKERS[f"v_mfma_f32_{plain}{kind}"] = _mfma
            MAKERS[f"v_mfma_f32_{plain}{kind}_1k"] = _mfma
    for name in ("16x16x8bf16", "32x32x4bf16", "32x32x2bf16", "16x16x2bf16", "4x4x2bf16"):
        MAKERS[f"v_mfma_f32_{name}"] = _mfma
    for name in (
        "32x32x4_2b",
        "16x16x4_4b",
        "4x4x4_16b",
        "32x32x8",
        "16x16x16",
        "32x32x16",
        "16x16x32",
        "16x16x64",
        "32x32x32",
    ):
        MAKERS[f"v_mfma_i32_{name}_i8"] = _mfma
        MAKERS[f"v_mfma_i32_{name.partition('_')[0]}i8"] = _mfma
    for a in ("fp8", "bf8"):
        for b in ("fp8", "bf8"):
            for name in ("16x16x32", "32x32x16"):
                MAKERS[f"v_mfma_f32_{name}_{a}_{b}"] = _mfma
    for name in ("16x16x4", "4x4x4_4b"):
        MAKERS[f"v_mfma_f64_{name}_f64"] = _mfma
        MAKERS[f"v_mfma_f64_{name.partition('_')[0]}f64"] = _mfma


_register_mfma()
