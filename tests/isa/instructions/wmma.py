"""WMMA on waves of 32 lanes.

gfx11 wants all steps of k of a row in both halves of the wave, and rows of a result alternate between the halves. gfx12
splits k, and a half holds eight consecutive rows of the result.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..decode import MAKERS, Context, Step
from ..errors import IsaError
from ..operands import Operand, reader
from ..text import Instruction
from ..wave import Wave
from . import floats
from .matrix import elements

_NAME = re.compile(
    r"v_wmma_(?P<out>f32|f16|bf16|i32|bf16f32)_16x16x(?P<k>\d+)_(?P<kind>f32|f16|bf16|iu8|iu4|fp8|bf8)(?:_(?P<other>fp8|bf8))?"
)


def steps_of_lanes(ctx: Context, kind: str, k: int) -> NDArray[np.int64]:
    """The k of each lane and element: lanes by elements."""
    half = np.arange(32)[:, None] // 16
    if ctx.family == "gfx11":
        return np.arange(k)[None, :] + 0 * half
    j = np.arange(k // 2)[None, :]
    if ctx.arch == "gfx1250":
        if kind == "f32":
            return j + 2 * half
        return 16 * (j // 8) + 8 * half + j % 8
    if kind in ("f16", "bf16"):
        return j % 4 + 4 * half + 8 * (j // 4)
    return j + k // 2 * half


def rows_of_result(ctx: Context) -> NDArray[np.int64]:
    half, v = np.arange(32)[:, None] // 16, np.arange(8)[None, :]
    return 2 * v + half if ctx.family == "gfx11" else v + 8 * half


def _laid(w: Wave, operand: Operand, kind: str, steps: NDArray[np.int64], k: int, ctx: Context) -> NDArray[Any]:
    found = elements(w, operand, kind, steps.shape[1], ctx.arch)
    if ctx.family == "gfx11" and not np.array_equal(found[:16], found[16:], equal_nan=found.dtype.kind == "f"):
        raise IsaError(f"the halves of the wave hold different numbers in {operand.text}")
    out = np.zeros((16, k), found.dtype)
    out[np.arange(32)[:, None] % 16, steps] = found
    return out


def _accumulator(w: Wave, operand: Operand, kind: str, ctx: Context, high: bool) -> NDArray[Any]:
    """Eight numbers of each lane."""
    if operand.kind == "c":
        return np.full(
            (32, 8), reader(operand, "i32" if kind == "i32" else "f32")(w), np.int64 if kind == "i32" else np.float64
        )
    if kind in ("f32", "i32"):
        raw = np.ascontiguousarray(w.v[operand.index : operand.index + 8].T)
        return raw.view(np.int32).astype(np.int64) if kind == "i32" else raw.view(np.float32).astype(np.float64)
    if ctx.family == "gfx11":
        words = w.v[operand.index : operand.index + 8].T >> np.uint32(16 if high else 0)
        bits = words.astype(np.uint16)
    else:
        bits = np.ascontiguousarray(w.v[operand.index : operand.index + 4].T).view(np.uint16)
    if kind == "f16":
        return np.ascontiguousarray(bits).view(np.float16).astype(np.float64)
    return floats.bf16_to_f32(bits).astype(np.float64)


def _put(w: Wave, target: Operand, kind: str, values: NDArray[Any], ctx: Context, high: bool) -> None:
    if kind == "i32":
        w.v[target.index : target.index + 8] = values.astype(np.int64).astype(np.uint32).T
        return
    if kind == "f32":
        w.v[target.index : target.index + 8] = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32).T
        return
    bits = values.astype(np.float16).view(np.uint16) if kind == "f16" else floats.f32_to_bf16(values.astype(np.float32))
    if ctx.family == "gfx11":
        for at in range(8):
            w.v[target.index + at].view(np.uint16)[int(high) :: 2] = bits[:, at]
        return
    w.v[target.index : target.index + 4] = np.ascontiguousarray(bits).view(np.uint32).T


def _wmma(inst: Instruction, ctx: Context) -> Step:
    match = _NAME.fullmatch(inst.mnemonic)
    if match is None or ctx.lanes != 32:
        raise IsaError("a matrix instruction that is not known")
    k, kind, out = int(match["k"]), match["kind"], match["out"]
    kinds = [kind, match["other"] or kind]
    flips = inst.bits("neg_lo", 3, 0)
    if kind.startswith("iu"):
        kinds = [("i" if flip else "u") + kind[2:] for flip in flips[:2]]
    elif any(flips) or any(inst.bits("neg_hi", 3, 0)) or "clamp" in inst.modifiers:
        raise IsaError("its modifiers")
    high = bool(inst.bits("op_sel", 3, 0)[2])
    target, a, b, c = ctx.operands(inst)
    steps, rows = steps_of_lanes(ctx, kind, k), rows_of_result(ctx)
    columns = np.arange(32)[:, None] % 16 + 0 * rows
    clamps = "clamp" in inst.modifiers
    result, given = (out, out) if out != "bf16f32" else ("bf16", "f32")

    def step(w: Wave) -> None:
        left = _laid(w, a, kinds[0], steps, k, ctx)
        right = _laid(w, b, kinds[1], steps, k, ctx)
        total = (left @ right.T)[rows, columns] + _accumulator(w, c, given, ctx, high)
        if clamps:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        _put(w, target, result, total, ctx, high)

    return step


for _kind in ("f16", "bf16"):
    for _out in ("f32", _kind):
        for _k in (16, 32):
            MAKERS[f"v_wmma_{_out}_16x16x{_k}_{_kind}"] = _wmma
MAKERS["v_wmma_bf16f32_16x16x32_bf16"] = MAKERS["v_wmma_f32_16x16x4_f32"] = _wmma
for _name in ("16x16x16_iu8", "16x16x16_iu4", "16x16x32_iu4", "16x16x64_iu8"):
    MAKERS[f"v_wmma_i32_{_name}"] = _wmma
for _a in ("fp8", "bf8"):
    for _b in ("fp8", "bf8"):
        for _k in (16, 64, 128):
            for _out in ("f32", "f16"):
                MAKERS[f"v_wmma_{_out}_16x16x{_k}_{_a}_{_b}"] = _wmma
