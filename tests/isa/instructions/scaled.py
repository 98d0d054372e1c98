"""MFMA with a scale for every 32 steps of k, on gfx950.

The scale of rows and blocks of k lies in a byte of the lane row + rows * block. Numbers of 4 bits lie one behind the
other; those of 8 and 6 come as two runs of 16 steps, so that the lanes of a row have the first half of k in the first
half of their registers.
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
    power = (word >> np.uint32(8 * byte) & np.uint32(255)).astype(np.int64) - 127
    blocks = power.reshape(k // 32, rows).T
    return np.ldexp(1.0, np.repeat(blocks, 32, axis=1))


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
