"""How decoding with latent keys is cut on Hopper, and how a step's rows are found in their pages."""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..tile import BARRIER_BYTES, BOXES, SHARED_BYTES

ROWS = 64
WIDE = 64
"""Columns of a box in shared memory."""
CHUNK = 32
"""Keys of one byte that come together."""


class Latent(NamedTuple):
    """What is compiled in."""

    d: int
    """Elements of a query and of a key."""
    dv: int
    """Those of them, from the first on, that are the value."""
    n: int = 64
    """Keys of a step."""
    stages: int = 2
    page: int = 0
    """Rows of a page that come together, where keys are paged."""
    causal: bool = False
    used_k: bool = False
    split: bool = False
    raw: int = 0
    """Stages of keys of one byte, which are widened on their way to the others; 0 where keys are as queries are."""
    each: bool = False
    """Sequences have factors of their own."""
    held: int = 0
    """Products of a step's scores, of 16 elements each, whose queries the first consumer has in registers. It has less
    of the sums then."""

    @property
    def lent(self) -> int:
        """Boxes of queries that come to the last stage of keys, on their way to registers."""
        boxes = self.held * 16 // WIDE
        return boxes if boxes * ROWS * WIDE <= self.n * self.d else 0

    @property
    def kept(self) -> int:
        """Boxes of queries that stay in shared memory."""
        return self.d // WIDE - self.lent

    @property
    def together(self) -> int:
        """Keys that the copy engine brings together."""
        return CHUNK if self.raw else self.n

    @property
    def asks(self) -> int:
        """Threads that ask for them: one, or where pages are many, as many as a warp has."""
        return 1 if self.together <= BOXES * (self.page or self.together) else 32

    @property
    def left(self) -> int:
        """Columns of the sums that the first consumer has."""
        return 128 if self.held else self.dv // 2

    @property
    def parts(self) -> int:
        """Products that the others are cut into."""
        return -(-(self.dv - self.left) // 256)

    @property
    def right(self) -> int:
        """Columns of each of these."""
        return (self.dv - self.left) // self.parts

    @property
    def smem(self) -> int:
        rows = 2 * ROWS * WIDE * self.kept + 2 * self.stages * self.n * self.d + self.raw * CHUNK * self.d
        return rows + 2 * ROWS * self.n + 2 * 4 * ROWS + BARRIER_BYTES


def problem(form: Latent) -> str | None:
    """Why there is no such kernel; None if there is."""
    if form.d % WIDE or form.dv % (2 * WIDE) or not 0 < form.dv <= min(512, form.d):
        return f"keys have a multiple of 64 elements, the value up to 512 in steps of 128, got {form.d} and {form.dv}"
    if form.held and (form.dv <= 128 or form.right % WIDE or form.held % 4 or form.held > form.d // 16):
        return f"with queries in registers, 64 elements at a time, values have over 128, in parts of 64, got {form}"
    if form.raw and form.n % CHUNK:
        return f"a step of keys of one byte has a multiple of {CHUNK}, got {form.n}"
    if form.n % 16 or form.stages < 2 or form.smem > SHARED_BYTES:
        return f"{form} needs {form.smem} bytes of shared memory, and there are {SHARED_BYTES}"
    return None


class Rows(NamedTuple):
    """What a launch is told in numbers."""

    rows: fx.Int32
    """Queries times heads."""
    heads: fx.Int32
    queries: fx.Int32
    keys: fx.Int32
    splits: fx.Int32
    page: fx.Int32
    table_row: fx.Int32
    factor: fx.Float32
    """Of scores in front of exp2."""
    out_split: fx.Int64
    out_batch: fx.Int64
    out_row: fx.Int64
    lse_split: fx.Int64


def page_of(row: fx.Int32, keys: fx.Int32, batch: fx.Int32, table: fx.Pointer, numbers: Rows) -> fx.Int32:
    """Where a key is; behind the last one come others of its page."""
    which = fx.min(row, fx.max(keys - 1, 0)) // numbers.page
    return fx.Int32(table[batch * numbers.table_row + which])


def pages_of(
    row: fx.Int32, keys: fx.Int32, batch: fx.Int32, table: fx.Pointer | None, numbers: Rows, form: Latent
) -> list[fx.Int32]:
    """Those of rows that come together which a thread asks for."""
    if table is None:
        return []
    rows, first = range(0, form.together, form.page), row
    if form.asks > 1:
        rows, first = range(0, form.together, 32 * form.page), row + fx.thread_idx.x * form.page
    return [page_of(first + i, keys, batch, table, numbers) for i in rows]


@flyc.jit
def fetch_pages(
    load: fx.nvgpu.TmaAtom,
    smem: fx.Pointer,
    barrier: fx.nvgpu.MBarrier,
    row: fx.Int32,
    pages: list[fx.Int32],
    numbers: Rows,
    form: Latent,
):
    """Rows that come together, from their pages, `form.page` rows at a time."""
    n = form.together
    for j in fx.range_constexpr(len(pages)):
        i = fx.Int32(j) if form.asks == 1 else fx.thread_idx.x + j * 32
        if i < n // form.page:
            at = row + i * form.page
            which = at // numbers.page
            for box in fx.range_constexpr(form.d // WIDE):
                target = smem + (box * (n * WIDE) + i * (form.page * WIDE))
                load.load((at - which * numbers.page, box * WIDE, 0, pages[j]), target, barrier)


__all__ = ["CHUNK", "ROWS", "WIDE", "Latent", "Rows", "fetch_pages", "pages_of", "problem"]
