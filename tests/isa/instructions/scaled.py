"""Products with a scale for every 32 steps of k: MFMA of gfx950, WMMA of gfx1250.

On gfx950 the scale of rows and blocks of k lies in a byte of the lane row + rows * block. Numbers of 4 bits lie one
behind the other; those of 8 and 6 come as two runs of 16 steps, so that the lanes of a row have the first half of k in
the first half of their registers.

On gfx1250 a lane holds the scales of its row, one byte behind the other, also those of 16 steps each; the modifiers say
which half of the wave. The halves take turns in k: 16 steps of 8 or 6 bits, or 32 of 4 bits.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ..decode import Context, Step, instruction
from ..errors import IsaError
from ..operands import Operand, reader
from ..text import Instruction
from ..wave import Wave
from .matrix import accumulator, elements, product, put_result, result_rows

FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")


def steps_of_lanes(rows: int, name: str) -> NDArray[np.int64]:
    """The k of each lane and element: lanes by 32."""
    group, j = np.arange(64)[:, None] // rows, np.arange(32)[None, :]
    if name == "fp4":
        return 32 * group + j
    return 16 * group + j % 16 + 16 * (64 // rows) * (j // 16)


def _operand(w: Wave, operand: Operand, name: str, rows: int, k: int, arch: str) -> NDArray[np.float64]:
    laid = np.zeros((rows, k))
    laid[np.arange(64)[:, None] % rows, steps_of_lanes(rows, name)] = elements(w, operand, name, 32, arch)
    return laid


def _scales(w: Wave, operand: Operand, byte: int, rows: int, k: int) -> NDArray[np.float64]:
    """Powers of two by rows and steps of k."""
    word = np.broadcast_to(reader(operand, "u32")(w), (64,))
    blocks = _powers(word >> np.uint32(8 * byte) & np.uint32(255)).reshape(k // 32, rows).T
    return np.repeat(blocks, 32, axis=1)


def _powers(codes: NDArray[np.uint32]) -> NDArray[np.float64]:
    return np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(np.int64) - 127))


@instruction(
    *(f"v_mfma_scale_f32_{shape}_f8f6f4" for shape in ("16x16x128", "32x32x64")),
    *(f"v_mfma_f32_{shape}_f8f6f4" for shape in ("16x16x128", "32x32x64")),
)
def scaled(inst: Instruction, ctx: Context) -> Step:
    match = re.search(r"_(\d+)x\d+x(\d+)_", inst.mnemonic)
    if match is None:
        raise IsaError("its shape")
    rows, k = int(match[1]), int(match[2])
    operands = ctx.operands(inst)
    target, a, b, c = operands[:4]
    kinds = FORMATS[inst.number("cbsz")], FORMATS[inst.number("blgp")]
    low, high = inst.bits("op_sel", 3, 0), inst.bits("op_sel_hi", 3, 1)
    bytes_of = [low[at] + 2 * high[at] for at in range(2)]
    block, row, column, count = result_rows(rows, rows, 1, False)

    def step(w: Wave) -> None:
        left, right = (_operand(w, o, kind, rows, k, ctx.arch) for o, kind in zip((a, b), kinds, strict=True))
        if len(operands) == 6:
            left = left * _scales(w, operands[4], bytes_of[0], rows, k)
            right = right * _scales(w, operands[5], bytes_of[1], rows, k)
        whole = np.zeros((1, rows, rows))
        whole[block, row, column] = accumulator(w, c, "f32", count)
        result = product(left[None], right.T[None], whole)
        put_result(w, target, "f32", result[block, row, column])

    return step


# --- gfx1250 ----------------------------------------------------------------------------------------------------------

_NAMES = {f"MATRIX_FMT_{name.upper()}": name for name in FORMATS}
_K = 128


def _wmma_operand(w: Wave, operand: Operand, name: str, arch: str) -> NDArray[np.float64]:
    """16 rows of 128 steps."""
    run = 32 if name == "fp4" else 16
    half, j = np.arange(32)[:, None] // 16, np.arange(64)[None, :]
    laid = np.zeros((16, _K))
    laid[np.arange(32)[:, None] % 16, j // run * 2 * run + run * half + j % run] = elements(w, operand, name, 64, arch)
    return laid


def _wmma_scales(w: Wave, operand: Operand, first: int, rows: int, block: int) -> NDArray[np.float64]:
    """By rows and steps of k; the scales of row r lie in lane `first` + r."""
    words = [
        np.broadcast_to(w.v[operand.index + at] if operand.kind == "v" else reader(operand, "u32")(w), (32,))
        for at in range(_K // block // 4)
    ]
    codes = np.stack([word >> np.uint32(8 * byte) & np.uint32(255) for word in words for byte in range(4)], axis=1)
    return np.repeat(_powers(codes)[first : first + rows], block, axis=1)


@instruction(
    *(f"v_wmma_{scale}_f32_16x16x128_f8f6f4" for scale in ("scale", "scale16")),
    *(f"v_wmma_{scale}_f32_32x16x128_f4" for scale in ("scale", "scale16")),
    *("v_wmma_f32_16x16x128_f8f6f4", "v_wmma_f32_32x16x128_f4"),
)
def wmma_scaled(inst: Instruction, ctx: Context) -> Step:
    operands = ctx.operands(inst)
    target, a, b, c = operands[:4]
    rows, block = (32 if "32x16" in inst.mnemonic else 16), (16 if "scale16" in inst.mnemonic else 32)
    known = {f"matrix_{side}_{what}" for side in "ab" for what in ("fmt", "scale", "reuse")}
    if not inst.modifiers.keys() <= known:
        raise IsaError("its modifiers")
    kinds = [_NAMES[inst.modifiers.get(f"matrix_{side}_fmt", "MATRIX_FMT_FP8")] for side in "ab"]
    if inst.mnemonic.endswith("_f4"):
        kinds = ["fp4", "fp4"]
    firsts = [16 * (inst.modifiers.get(f"matrix_{side}_scale") == "MATRIX_SCALE_ROW1") for side in "ab"]
    if rows == 32 and firsts[0]:
        raise IsaError("scales of 32 rows in a half of the wave")
    parts = rows // 16
    half, v = np.arange(32)[:, None] // 16, np.arange(8)[None, :]
    column = np.arange(32)[:, None] % 16 + 0 * v

    def step(w: Wave) -> None:
        # The second 16 rows are the upper half of the registers.
        each = [Operand("v", a.index + 8 * part, a.count // parts, text=a.text) for part in range(parts)]
        left = np.concatenate([_wmma_operand(w, part, kinds[0], ctx.arch) for part in each])
        right = _wmma_operand(w, b, kinds[1], ctx.arch)
        if len(operands) == 6:
            left = left * _wmma_scales(w, operands[4], firsts[0], rows, block)
            right = right * _wmma_scales(w, operands[5], firsts[1], 16, block)
        total = left @ right.T
        for part in range(parts):
            row = 16 * part + 8 * half + v
            at = slice(8 * part, 8 * part + 8)
            before: NDArray[np.float64] | float = 0.0
            if c.kind == "v":
                before = w.vf[c.index :][at].T.astype(np.float64)
            elif c.text != "0":
                raise IsaError("a constant to add to")
            w.vf[target.index :][at] = (total[row, column] + before).astype(np.float32).T

    return step
