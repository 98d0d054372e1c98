"""Attention kernels for AMD GPUs whose main loops `main_loop.py --attention` counts."""

from typing import Any, NamedTuple

import torch

from flydsl.kernels.attention.amd.entry import amd_attention
from flydsl.kernels.attention.amd.plan import machine_for, tile_for
from flydsl.kernels.attention.amd.tile import Machine, Tile
from flydsl.kernels.attention.plain import Kind
from flydsl.target import GPUTarget

ROWS, HEADS = 4096, 8


class Attention(NamedTuple):
    """An attention of an architecture, in the tile that the entry point takes."""

    arch: str
    dtype: str
    d: int
    dv: int
    queries: int = ROWS
    causal: bool = True

    @property
    def target(self) -> GPUTarget:
        return GPUTarget.parse(f"rocm:{self.arch}")

    @property
    def machine(self) -> Machine:
        kind = getattr(torch, self.dtype)
        machine = machine_for(self.target, self.dtype, kind.itemsize, self.d, HEADS)
        assert machine is not None
        return machine

    @property
    def tile(self) -> Tile:
        tile = tile_for(self.machine, self.d, self.dv, self.queries, self.target.caps.shared_mem_per_block or 0)
        assert tile is not None
        return tile

    @property
    def function(self) -> Any:
        return amd_attention

    @property
    def arrays(self) -> list[Any]:
        kind = getattr(torch, self.dtype)
        q, k, v = (
            torch.zeros(1, rows, HEADS, x).to(kind)
            for rows, x in ((self.queries, self.d), (ROWS, self.d), (ROWS, self.dv))
        )
        out = torch.zeros(1, self.queries, HEADS, self.dv).to(kind if kind.itemsize == 2 else torch.bfloat16)
        strides = [s for x in (q, k, v, out) for s in x.stride()[:3]]
        lengths = [1, self.queries, ROWS, HEADS, HEADS, 1, 0, 0, 0]
        numbers = [*[0] * 4, self.queries, HEADS * self.queries, *[0] * 4, 0, 0, self.d**-0.5, 0.0, self.d**-0.5]
        form = Kind(self.d, self.dv, False, self.causal, False, False, False)
        return [
            q.reshape(-1), k.reshape(-1), v.reshape(-1), out.reshape(-1), torch.zeros(HEADS * self.queries),
            *[None] * 10, *lengths, 0, 0, 1, 0, 0, 0, 0, *strides, *numbers, 0, 0, 1.0, self.tile, self.machine, form,
        ]  # fmt: skip


CASES = {
    **{f"bf16 on {a}, d = {d}": Attention(a, "bfloat16", d, d)
       for a in ("gfx942", "gfx950", "gfx1201") for d in (64, 96, 128, 192, 256)},
    **{f"bf16 on {a}, d = 192 and 128": Attention(a, "bfloat16", 192, 128) for a in ("gfx942", "gfx950", "gfx1201")},
    **{f"f16 on {a}, d = 128": Attention(a, "float16", 128, 128) for a in ("gfx90a", "gfx942", "gfx1250")},
    **{f"fp8 on gfx950, d = {d}": Attention("gfx950", "float8_e4m3fn", d, d) for d in (64, 128, 256)},
    **{f"bf16 on {a}, d = 128, 16 queries": Attention(a, "bfloat16", 128, 128, 16, False)
       for a in ("gfx942", "gfx950", "gfx1201")},
}  # fmt: skip
