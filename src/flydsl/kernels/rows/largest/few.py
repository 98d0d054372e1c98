"""A few of the largest elements of rows that registers hold, in one look at them.

Each thread sorts integers that stand for its elements, and keeps as many as are looked for. Lists of two threads make
one: of the first of one list and the last of the other the larger counts, and so on; the result is bitonic, and sorted
in a few steps. Elements of 16 bits in rows of at most 65536 have 32 bits for value and number. Others are sorted by
value alone, and the numbers are looked up: the least that has the value, of equal ones the next.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.gpu import ballot

from ..form import Form
from ..lines import ADD, MIN, Lines, Place, carry, power, when
from ..softmax_kernels import blocks_for, row_of, top_and_sum
from .many import keys_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flydsl.expr.annotations import Value

FEW = 8
"""The most elements that are looked for."""
SHORT_ROW = 65536
"""Elements that 16 bits number."""

LOWEST, HIGHEST = -(2**31), 2**31 - 1
"""Below all elements, and above all numbers."""


def _short_key(value: fx.Numeric) -> fx.Int32:
    """An integer of 16 bits that sorts as the element does: a NaN above all numbers, both zeros alike."""
    infinity = 0x7C00 if type(value) is fx.Float16 else 0x7F80
    bits = fx.Int32(value.bitcast(fx.Int16))
    size = bits & 0x7FFF
    key = (bits < 0).select(-size, size)
    return (size > infinity).select(fx.Int32(0x7FFF), key)


class _Elements:
    """The elements of a thread as integers that sort as they do, and their numbers."""

    def __init__(self, lines: Lines, short: bool):
        self.lines, self.short = lines, short
        self.keys: list[fx.Int32] = []
        self.numbers: list[fx.Int32] = []
        lines.each(self._add)

    def _add(self, at: Place) -> None:
        values = self.lines.stored("x", at)
        numbers = [at.at + i for i in range(at.size)]
        if self.short:
            elements = [values[i] for i in range(at.size)] if isinstance(values, fx.Vector) else [values]
            # Of equal ones the first is the highest.
            keys = [_short_key(v) << 16 | SHORT_ROW - 1 - number for v, number in zip(elements, numbers, strict=True)]
        else:
            keys = keys_of(values.to(self.lines.wide), at.size)
        here = at.here
        self.keys += keys if isinstance(here, bool) else [here.select(key, fx.Int32(LOWEST)) for key in keys]
        self.numbers += numbers

    def numbers_of(self, keys: list[fx.Int32]) -> list[fx.Int32]:
        """The numbers of the row's elements with these keys, the highest in front."""
        if self.short:
            return [SHORT_ROW - 1 - (key & (SHORT_ROW - 1)) for key in keys]
        made = self._looked_up(keys)
        if len(keys) == 1:
            return made
        alike = functools.reduce(lambda a, b: a | b, [a == b for a, b in pairwise(keys)])
        # Rows of one warp go the same way: their threads meet there.
        return mended(made, ballot(alike) != 0, lambda: self._one_by_one(keys))

    def _looked_up(self, keys: list[fx.Int32]) -> list[fx.Int32]:
        """The numbers, where keys differ."""
        none, least = len(self.keys), list[fx.Int32]()
        for key in keys:
            found = fx.Int32(none)
            for slot in reversed(range(none)):
                found = (self.keys[slot] == key).select(fx.Int32(slot), found)
            least.append((found == none).select(fx.Int32(HIGHEST), self._number(found)))
        return self._met(least)

    def _number(self, slot: fx.Int32) -> fx.Int32:
        """The number of one of the thread's elements: constants in a row are cheaper to pick from than numbers are."""
        form, lines = self.lines.form, self.lines
        unit = form.unit
        number = lines.head + (lines.member + slot // unit * form.team) * unit + slot % unit
        edge = form.turns * unit
        return number if len(self.keys) == edge else (slot == edge).select(self.numbers[edge], number)

    def _one_by_one(self, keys: list[fx.Int32]) -> list[fx.Int32]:
        """The numbers; of equal ones the next is larger."""
        count = len(keys)

        def step(_: fx.Int32, carried: list[Value]) -> list[Value]:
            (key, *others), found = carried[:count], carried[count + 1 : 2 * count]
            before, number = carried[2 * count :]
            above = (key == before).select(number, fx.Int32(-1))
            least = fx.Int32(HIGHEST)
            for mine, other in zip(self.keys, self.numbers, strict=True):
                least = fx.min(least, ((mine == key) & (other > above)).select(other, fx.Int32(HIGHEST)))
            (number,) = self._met([least])
            if self.lines.form.team > fx.num_warp_threads():
                fx.barrier()  # before the next one uses the same shared memory
            return [*others, key, *found, number, key, number]

        start: list[Value] = [*keys, *keys, keys[0], fx.Int32(-1)]
        made = carry(fx.Int32(0), fx.Int32(count), 1, lambda number: number, start, step)
        return [cast("fx.Int32", number) for number in made[count : 2 * count]]

    def _met(self, least: list[fx.Int32]) -> list[fx.Int32]:
        return [cast("fx.Int32", number) for number in self.lines.meet(least, [MIN] * len(least))]


@flyc.jit
def mended(made: list[fx.Int32], wrong: fx.Boolean, work: Callable[[], list[fx.Int32]]) -> list[fx.Int32]:
    if wrong:
        made = work()
    return made


# --- sorted lists -----------------------------------------------------------------------------------------------------


def _clean(keys: Sequence[fx.Int32]) -> list[fx.Int32]:
    """A bitonic list, sorted: the highest first."""
    made, step = list(keys), len(keys) // 2
    while step:
        for i in range(len(made)):
            if not i & step:
                a, b = made[i], made[i + step]
                made[i], made[i + step] = fx.max(a, b), fx.min(a, b)
        step //= 2
    return made


def _sorted(keys: Sequence[fx.Int32]) -> list[fx.Int32]:
    """A power of two of keys, the highest first."""
    if len(keys) == 1:
        return list(keys)
    half = len(keys) // 2
    return _clean([*_sorted(keys[:half]), *reversed(_sorted(keys[half:]))])


def _merged(a: Sequence[fx.Int32], b: Sequence[fx.Int32]) -> list[fx.Int32]:
    """The highest of two sorted lists: as many as one has."""
    return _clean([fx.max(x, y) for x, y in zip(a, reversed(b), strict=True)])


def _of_thread(keys: list[fx.Int32], most: int) -> list[fx.Int32]:
    """The highest `most` of a thread's keys, sorted."""
    missing = -len(keys) % most
    padded = [*keys, *([fx.Int32(LOWEST)] * missing)]
    parts = [_sorted(padded[i : i + most]) for i in range(0, len(padded), most)]
    return functools.reduce(_merged, parts)


def _of_lanes(keys: list[fx.Int32], width: int) -> list[fx.Int32]:
    """The highest keys of `width` lanes, in all of them."""
    step = 1
    while step < width:
        keys = _merged(keys, [fx.shuffle_xor(rank, step) for rank in keys])
        step *= 2
    return keys


def _of_team(form: Form, keys: list[fx.Int32], shared: fx.SharedAllocator) -> list[fx.Int32]:
    """The highest keys of the threads of a row, in all of them."""
    lanes = fx.num_warp_threads()
    keys = _of_lanes(keys, min(form.team, lanes))
    warps, most = form.team // lanes, len(keys)
    if warps < 2:
        return keys
    slots = shared.allocate(fx.Array[fx.Int32, warps * most, 16]).peek()
    lane, warp = fx.thread_idx.x % lanes, fx.thread_idx.x // lanes

    def leave() -> None:
        for i, rank in enumerate(keys):
            slots[warp * most + i] = rank

    when(lane == 0, leave)
    fx.barrier()
    return _of_lanes([slots[lane % warps * most + i] for i in range(most)], warps)


# --- the kernel -------------------------------------------------------------------------------------------------------


@flyc.kernel
def few_largest_kernel(
    x: fx.Tensor,
    values: fx.Tensor | None,
    numbers: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    what: fx.Constexpr[str],
    most: fx.Constexpr[int],
    short: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
):
    shared = fx.SharedAllocator()
    lines = Lines(form, row_of(form), m, n, shared, x=x)
    lines.fetch("x")
    wide = lines.wide
    top, total = top_and_sum(lines, "x") if what != "values" else (wide(0.0), wide(1.0))
    elements = _Elements(lines, short)
    found = elements.numbers_of(_of_team(form, _of_thread(elements.keys, most), shared))
    _leave(lines, found, k, what, values, numbers, lambda value: power(value - top) / total)


class _Found(NamedTuple):
    """One of the elements that a thread writes."""

    place: fx.Int32
    here: fx.Boolean
    number: fx.Int32
    value: fx.Numeric


def _leave(
    lines: Lines,
    found: list[fx.Int32],
    k: fx.Int32,
    what: str,
    values: fx.Tensor | None,
    numbers: fx.Tensor,
    share: Callable[[fx.Numeric], Value],
) -> None:
    """Each thread of a row writes one of the elements, or several where there are fewer threads."""
    kept: list[_Found] = []
    for first in range(0, len(found), lines.form.team):
        some = found[first : first + lines.form.team]
        number = some[0]
        for i, other in enumerate(some[1:], 1):
            number = (lines.member == i).select(other, number)
        place = lines.member + first
        here = place < fx.min(k, fx.Int32(first + len(some)))
        number = here.select(number, fx.Int32(0))
        value = lines.wide(lines.line(lines.arrays["x"])[number])
        if what != "values":
            value = here.select(cast("fx.Numeric", share(value)), lines.wide(0.0))
        kept.append(_Found(place, here, number, value))
    if what == "normed gates":
        total = functools.reduce(lambda a, b: a + b, [one.value for one in kept])
        (chosen,) = lines.meet([total], [ADD])
        kept = [one._replace(value=one.value / chosen) for one in kept]
    for one in kept:

        def write(one: _Found = one) -> None:
            numbers[lines.row, one.place] = numbers.dtype(one.number)
            if values is not None:
                values[lines.row, one.place] = values.dtype(one.value)

        when(one.here if lines.exists is True else one.here & lines.exists, write)


@flyc.jit
def few_largest_rows(
    x: fx.Tensor,
    values: fx.Tensor | None,
    numbers: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    what: fx.Constexpr[str],
    most: fx.Constexpr[int],
    short: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """The `k` largest elements of each row, at most `most`, or their share of the row's softmax, and their numbers."""
    few_largest_kernel(x, values, numbers, m, n, k, what, most, short, form).launch(
        grid=blocks_for(form, m), block=form.block, stream=stream
    )


__all__ = ["FEW", "SHORT_ROW"]
