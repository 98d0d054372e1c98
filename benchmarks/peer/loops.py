"""Matrix products whose main loops are compared: `loops.py CASE`, a case in JSON, compiles one under FlyDSL itself.

Loaded by `main_loop.py` under this package, and run in the peer's virtual environment in compile-only mode.
"""

import json
import sys
from typing import Any, NamedTuple

import torch

import flydsl.compiler as flyc
from kernels import Form, Tile, product


class Case(NamedTuple):
    """A kernel for an architecture: the type of operands, the tile and the instruction."""

    arch: str
    dtype: str
    tile: Any
    form: Any

    @property
    def arrays(self) -> list[torch.Tensor]:
        out = torch.int32 if self.dtype == "int8" else torch.float16
        kind = getattr(torch, self.dtype)
        found = [torch.zeros(512, 8192).to(kind), torch.zeros(512, 8192).to(kind), torch.zeros(512, 512).to(out)]
        return found + [torch.zeros(64, 4), torch.zeros(512, 64)] * self.form.blocked

    @property
    def function(self) -> Any:
        return product(self.tile, self.form)


PLAIN, SHUFFLED = Tile(128, 128, 64, 2, 2), Tile(128, 128)
WIDE, ASYNC_WIDE = Tile(128, 128, 128, 2, 2), Tile(128, 128, 128, 2, 4, 4)
DIRECT, LONG = Tile(128, 128, 64, 2, 2, 4), Tile(128, 128, 128, 2, 2, 4)
WAVES_OF_32 = Tile(128, 128, 64, 2, 4)
MFMA, BYTES = Form("mfma", 16), Form("mfma", 32, part=8)
MFMA_LONG = Form("mfma", 32, part=8, direct="buffer")
SCALED, BYTES_LONG = Form("mfma_scale", 128, part=32, direct="buffer"), Form("mfma", 64, part=16, direct="buffer")
WMMA_1 = Form("wmma", 16, 32, part=16, doubled=True, wait="lgkm", store=1)
WMMA_2 = Form("wmma", 16, 32, part=8, wait="ds", store=4, paired=True)
WMMA_3, ASYNC = WMMA_2._replace(atom_k=32, direct="tensor", paired=False), Tile(128, 128, 64, 2, 4, 4)

CASES = {
    "f16": Case("gfx942", "float16", PLAIN, MFMA),
    "f16, 256 x 256": Case("gfx942", "float16", Tile(256, 256, 64, 2, 4), MFMA),
    "bf16": Case("gfx942", "bfloat16", PLAIN, MFMA),
    "fp8": Case("gfx942", "float8_e4m3fnuz", PLAIN, BYTES),
    "int8": Case("gfx942", "int8", PLAIN, BYTES),
    "f16, preshuffled": Case("gfx942", "float16", SHUFFLED, MFMA._replace(shuffled=True)),
    "fp8, preshuffled": Case("gfx942", "float8_e4m3fnuz", SHUFFLED, BYTES._replace(shuffled=True)),
    "f16 on gfx950": Case("gfx950", "float16", DIRECT, MFMA_LONG),
    "f16 on gfx950, 256 x 256": Case("gfx950", "float16", Tile(256, 256, 64, 2, 4, 4), MFMA_LONG),
    "fp8 on gfx950": Case("gfx950", "float8_e4m3fn", LONG, SCALED),
    "int8 on gfx950": Case("gfx950", "int8", DIRECT, BYTES_LONG),
    "f16 on gfx950, preshuffled": Case("gfx950", "float16", SHUFFLED, MFMA_LONG._replace(shuffled=True)),
    "fp8 on gfx950, preshuffled": Case("gfx950", "float8_e4m3fn", SHUFFLED, SCALED._replace(shuffled=True)),
    "f16 on gfx1100": Case("gfx1100", "float16", WAVES_OF_32, WMMA_1),
    "f16 on gfx1201": Case("gfx1201", "float16", WAVES_OF_32, WMMA_2),
    "fp8 on gfx1201": Case("gfx1201", "float8_e4m3fn", WAVES_OF_32, WMMA_2),
    "f16 on gfx1250": Case("gfx1250", "float16", ASYNC, WMMA_3),
    "fp8 on gfx1250": Case("gfx1250", "float8_e4m3fn", ASYNC, WMMA_3._replace(atom_k=64)),
    "fp8, blocks": Case("gfx942", "float8_e4m3fnuz", WIDE, BYTES._replace(blocked=True)),
    "fp8 on gfx950, blocks": Case("gfx950", "float8_e4m3fn", LONG, SCALED._replace(blocked=True)),
    "fp8 on gfx1201, blocks": Case("gfx1201", "float8_e4m3fn", WAVES_OF_32, WMMA_2._replace(blocked=True)),
    "fp8 on gfx1250, blocks": Case("gfx1250", "float8_e4m3fn", ASYNC_WIDE, WMMA_3._replace(atom_k=64, blocked=True)),
}

if __name__ == "__main__":
    arch, dtype, tile, form = json.loads(sys.argv[1])
    case = Case(arch, dtype, Tile(*tile), Form(*(tuple(x) if isinstance(x, list) else x for x in form)))
    flyc.compile(case.function, *case.arrays)
