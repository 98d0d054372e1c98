"""The values a lane has of the result of a matrix instruction, in runs of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from ... import layout as L
from ...dialects.fly.atoms import MmaOpType
from ...errors import DSLCompileError
from ...layout import Layout


class Run(NamedTuple):
    """Values of D next to each other along m or n."""

    first: int
    length: int
    along_m: bool
    m: int
    n: int


MOST_RUNS = 8
"""Runs that are computed at once."""
_runs: dict[MmaOpType, list[Run]] = {}


def result_runs(op: MmaOpType) -> list[Run]:
    """The values a lane has of D, in runs; positions are those of lane 0."""
    found = _runs.get(op)
    if found is None:
        found = _runs[op] = _find_runs(op)
    return found


def _find_runs(op: MmaOpType) -> list[Run]:
    m_extent = op.shape_mnk[0]
    layout = op.tv_layout(2)
    count = cast(int, L.size(layout[1]))
    starts = [cast(int, L.crd2idx(v, layout[1])) for v in range(count)]
    places = [(start % m_extent, start // m_extent) for start in starts]
    _check_separable(op, layout, places)
    runs: list[Run] = []
    v = 0
    while v < count:
        m, n = places[v]
        lengths: list[int] = []
        for dm, dn in ((1, 0), (0, 1)):
            k = 1
            while v + k < count and k < 8 and places[v + k] == (m + k * dm, n + k * dn):
                k += 1
            lengths.append(k)
        along_m = lengths[0] >= lengths[1]
        length = 1 << (max(lengths).bit_length() - 1)
        runs.append(Run(v, length, along_m, m, n))
        v += length
    return runs


def repeats(runs: Sequence[Run]) -> tuple[int, int]:
    """How many runs make a part that D is repetitions of along n, few of them, and the columns from one to the next."""
    for count in range(min(len(runs) - 1, MOST_RUNS), 0, -1):
        step = runs[count].n - runs[0].n
        alike = zip(runs, runs[count:], strict=False)
        if len(runs) % count == 0 and all(y[1:] == (*x[1:4], x.n + step) for x, y in alike):
            return count, step
    return len(runs), 0


def _check_separable(op: MmaOpType, layout: Layout, places: Sequence[tuple[int, int]]) -> None:
    """The row and column of a value must be those of its lane plus those of its index, within the tile."""
    m_extent = op.shape_mnk[0]
    for t in range(cast(int, L.size(layout[0]))):
        start = cast(int, L.crd2idx(t, layout[0]))
        m, n = start % m_extent, start // m_extent
        for dm, dn in {places[0], places[-1]}:
            if m + dm >= m_extent or n + dn >= op.shape_mnk[1]:
                raise DSLCompileError(f"{op}: lane {t} reaches outside the tile of D")
