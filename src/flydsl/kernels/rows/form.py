"""How threads share rows: a rule from extents, types and alignment, followed at launch.

* Rows are read in 16-byte units. A row that does not begin or end at such a unit has `edges`: at most a unit's elements
  at either end, which single threads take, and whole units between them. Short ones are read by the element.
* Two units of a thread keep enough reads under way, and up to a warp a team of threads grows with the row. Then four:
  teams that meet at a barrier had better be small, so that a multiprocessor works on many rows. Six, where a block
  would have all threads of a multiprocessor otherwise, or where there is more to do between the meetings.
* A multiprocessor that has two blocks is faster than one with a single block: where eight units of a thread would let
  another block have too few registers, the last ones wait in shared memory between the passes.
* Longer rows are shared by the blocks of a cluster where there are any. Else, and if they are longer still, each pass
  reads them anew: the second time they come from L2.
* Short rows share a block of two warps; teams of at most a warp meet without a barrier.
* Few rows get larger teams, so that all multiprocessors have some.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .arrays import Array

UNIT_BYTES = 16
MOST_THREADS = 1024
SHORT_WARP, WARP = 32, 64
"""Threads of the shortest and of the longest warp; blocks that rows share have as many as the latter."""
LOOP_THREADS = 256
"""Threads that read a row in a loop and write nothing."""
SHARED_THREADS = 128
"""The least threads of a block of a cluster: small ones leave room for several rows on a multiprocessor."""
MOST_BLOCKS = 8
"""Blocks of a cluster that every device has."""
FEW_TURNS, SOME_TURNS, MANY_TURNS, MOST_TURNS = 2, 4, 6, 8
MOST_NARROW = 10
"""16-bit units that a thread has registers for as they are, where a multiprocessor has two blocks of 512."""
KEPT_BYTES = 1024
"""Shared memory of a block that the device keeps for itself; what barriers take is less."""
LEAST_PARKED = 2
"""Units that wait where a block has all threads of a multiprocessor, of seven or eight."""
NARROW_BYTES = 16
"""What a unit takes in registers as it is; one of 16-bit elements takes twice as much while it is summed."""
HELD_BYTES = 256
"""What a thread keeps of a row: half the registers it has in a block of 512 threads."""
RING_THREADS = 512
"""Threads of a multiprocessor that sum columns of rows with several units a thread."""
RING_TEAMS = {128: 192, 256: 768, 512: 2048}
"""Threads of a block that does, and the most units of its rows."""
LEAST_RING, LEAST_CHUNKS = {1: 96, 2: 128}, 8
"""Units of the shortest such rows for one or two kinds of sums, and units of a thread on their way at least."""
RAGGED, ELEMENTS = 256, 16
"""Rows that begin anywhere and are so short that finding their units costs more than reading by the element; what a
thread has of them."""
PROCESSORS = 132
"""Multiprocessors that gradients are summed for; a constant, so that sums are the same everywhere."""
BUSY = PROCESSORS * 1024
"""Threads that keep a large GPU busy."""


SLICES, SLICE = 64, 8
"""Parts of the rows of a tall matrix whose columns are summed at most, and rows of one at least."""


class Form(NamedTuple):
    """How rows are read; a constant of the kernel."""

    unit: int
    """Elements of an access."""
    team: int
    """Threads of a row, a power of two."""
    rows: int
    """Rows of a block."""
    turns: int
    """Units of a thread, kept in registers; 0: there are too many, and each pass reads them."""
    edges: bool
    """Rows begin and end within units."""
    aligned: tuple[str, ...]
    """The arrays whose units begin at multiples of their size, up to 16 bytes; others are read by the element."""
    cluster: int = 1
    """Blocks of a row, where it has several."""
    shifted: tuple[str, ...] = ()
    """Vectors along rows with edges that are read in the two units that a unit of the row lies across."""
    parked: int = 0
    """Units of a thread, the last ones, that wait in shared memory for the next pass, not in registers."""
    constant: bool = False
    """Vectors are read as what nobody writes: their units need not wait for the stores of others."""
    streamed: bool = False
    """Rows pass by, and leave the caches to the vectors."""
    ahead: int = 1
    """Units that a thread reads at once where it reads them in a loop."""
    narrow: bool = False
    """Units of 16-bit elements stay as they are in registers, and each pass widens them anew."""
    pooled: bool = False
    """Sums of columns wait in shared memory from row to row, not in registers."""
    resident: int = 0
    """Blocks that a multiprocessor is to have registers for; 0: as many as it turns out."""
    ring: int = 0
    """Units of a thread that are on their way through shared memory, where blocks stay and go from row to row."""
    stays: int = 0
    """Blocks, or clusters of them, that share all rows, where they stay."""

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.team * self.rows // self.cluster


_known: dict[Form, Form] = {}
"""Each form once: a call is known again by the very same constants."""


def form_of(
    m: int,
    n: int,
    arrays: Mapping[str, Array | None],
    held: int,
    *,
    edges: bool = True,
    few: bool = True,
    clusters: bool = False,
    each: int = FEW_TURNS,
    most: int = SOME_TURNS,
    parks: Mapping[int, int] | None = None,
    longest: int = MOST_TURNS,
) -> Form:
    """For `m` rows of `n` elements; the first array leads, its units are those of the threads.

    A matrix has its rows in the last direction, each in one piece, and a vector is read along with each row. `held` is
    how many bytes a kernel keeps in registers for an element of a row. Without `edges` rows that have some are read by
    the element, and without `few` teams stay small for few rows, too. With `clusters` the blocks of one may share a
    row: the kernel is launched so. Up to a warp a team grows so that threads have `each` units; then `most` units of a
    thread are better than a larger team. `parks` says how many of so many units of whole rows wait in shared memory;
    without it kernels cannot do that. `longest` is how many units the threads of the largest blocks have, where
    elements need no more registers than they have bits.
    """
    lead = next(x for x in arrays.values() if x is not None)
    unit = UNIT_BYTES // lead.itemsize
    given = {name: x for name, x in arrays.items() if x is not None}
    whole = n % unit == 0 and all(_at_units(x, unit) for x in given.values() if x.itemsize == lead.itemsize)
    short = edges and not whole and n <= RAGGED
    if n < 2 * unit or short or not (whole or edges):
        unit, whole = 1, True
    if short:
        each = most = ELEMENTS
    aligned = tuple(name for name, x in given.items() if unit > 1 and _follows(x, lead, unit, whole))
    shifted = () if whole else tuple(name for name, x in given.items() if _shifts(x, lead, unit))
    # Each element at an edge has a thread; where two units of a vector are read, the row's last unit is at the edge.
    least = 1 if whole else 4 * unit if shifted else 2 * unit
    units = max(n // unit - bool(shifted), 1)
    parks = parks if whole and unit > 1 else None
    team, turns = _team(m, units, held * unit, least, few, each, most, parks is not None, longest)
    parked, cluster = 0, 1
    if parks is not None and held * unit > NARROW_BYTES and 2 * team >= MOST_THREADS:
        parked = parks.get(turns, 0) if team < MOST_THREADS else LEAST_PARKED if turns > MANY_TURNS else 0
    if clusters and not turns:
        team, turns, cluster = _shared(units, held * unit)
    # Shuffles want whole warps.
    rows = max(WARP // team, 1) if turns else 1
    return known_form(Form(unit, team, rows, turns, not whole, aligned, cluster, shifted, parked))


def known_form(form: Form) -> Form:
    """The one form that is equal to this one."""
    return _known.setdefault(form, form)


def two_blocks(form: Form, m: int, n: int, size: int, kind: str, memory: int) -> Form | None:
    """Rows of more than half of a multiprocessor's registers, of which it has two all the same; None: as they are.

    16-bit elements are kept as they are. Ragged rows want more registers for other things: smaller blocks. Of 32-bit
    elements most wait in shared memory, of which a block can have `memory` bytes. `kind` is softmax, rms or layer.
    """
    if form.unit == 1:
        return None
    units = max(n // form.unit - bool(form.shifted), 1)
    turns = {block: -(-units // block) for block in (MOST_THREADS // 2, MOST_THREADS)}
    block, parked = 0, 0
    if size == 2 and form.edges and MANY_TURNS < turns[512] <= MOST_NARROW and m >= PROCESSORS:
        block = 512
    elif size == 2 and not form.edges and kind != "softmax" and MANY_TURNS < turns[512] <= MOST_TURNS:
        block = MOST_THREADS
    elif size == 2 and not form.edges and kind != "rms" and MOST_TURNS < turns[512] <= MOST_NARROW and m >= PROCESSORS:
        block = 512
    elif size == 4 and not form.edges and kind != "softmax" and MANY_TURNS < turns[MOST_THREADS] <= MOST_TURNS:
        block, parked = MOST_THREADS, turns[MOST_THREADS] - FEW_TURNS
    if not block or 2 * parked * block * UNIT_BYTES > memory:
        return None
    return known_form(
        form._replace(
            team=block, rows=1, turns=turns[block], cluster=1, parked=parked, narrow=size == 2, constant=False,
            streamed=False, resident=2,
        )
    )  # fmt: skip


def in_a_ring(form: Form, m: int, n: int, size: int, kind: str, memory: int) -> Form | None:
    """Rows of 16-bit elements that are too long for a block, or for its registers, in clusters that stay; None: others.

    Two blocks of a cluster have all of a multiprocessor's memory each, of which they can have `memory` bytes. Eight
    have half of it, and come in several times as many clusters as find a place: how many do differs among devices.
    """
    vectors = {"softmax": 0, "rms": 1, "layer": 2}[kind]
    units, block = max(n // form.unit - bool(form.shifted), 1), MOST_THREADS // 2
    # Beside longer rows L1 does not hold weight and bias; rows with edges find no registers for a block of all threads.
    crowded = -(-units // block) > MOST_NARROW and (form.edges or vectors == 2)
    if size != 2 or form.unit == 1 or not (form.cluster > 1 or not form.turns or crowded):
        return None
    for cluster, resident, waves, most in ((2, 1, 1, MOST_TURNS), (MOST_BLOCKS, 2, 4, SOME_TURNS)):
        turns = -(-units // (cluster * block))
        room = (memory + KEPT_BYTES) // resident - 2 * KEPT_BYTES - (cluster + 1) * block
        ring = (room // UNIT_BYTES - vectors * turns * (block + bool(form.shifted))) // block
        ring = 2 * turns if ring >= 2 * turns else min(ring, turns + 1)
        resides = resident * PROCESSORS // cluster
        fits = FEW_TURNS <= turns <= most and ring > turns and m >= 4 * resides
        if not fits or (form.edges and cluster > 2):
            continue
        return known_form(
            form._replace(
                team=cluster * block, rows=1, turns=turns, cluster=cluster, parked=0, narrow=False, constant=False,
                streamed=False, resident=resident, ring=ring, stays=waves * resides,
            )
        )  # fmt: skip
    return None


def gradients_in_a_ring(
    form: Form, m: int, units: int, matrices: int, weight: bool, kinds: int, memory: int
) -> Form | None:
    """Rows of 16-bit units of as many `matrices`, of which a block that stays sums `kinds` columns; None: too short.

    A multiprocessor has the threads that find registers for sums and a row: 768 with a unit each, 512 with several.
    Sums of two kinds wait in shared memory where a thread has three or four units of the longest rows.
    """
    if units < LEAST_RING[kinds]:
        return None
    team = next(team for team, most in RING_TEAMS.items() if units <= most) if units <= max(RING_TEAMS.values()) else 0
    turns = -(-units // team) if team else MOST_TURNS
    if turns > SOME_TURNS or (kinds > 1 and team == MOST_THREADS // 2 and turns == FEW_TURNS):
        return None
    resident = (RING_THREADS if turns > 1 else RING_THREADS * 3 // 2) // team
    pooled = kinds > 1 and team == MOST_THREADS // 2
    narrow = not pooled and (turns > 3 or (turns > FEW_TURNS and kinds > 1))
    room = (memory + KEPT_BYTES) // resident - 2 * KEPT_BYTES - 2 * team
    room = room // UNIT_BYTES - turns * team * (weight + pooled * kinds * form.unit * 4 // UNIT_BYTES)
    row, room = matrices * turns, room // team
    ring = max(2 * row, LEAST_CHUNKS) if room >= max(2 * row, LEAST_CHUNKS) else min(room, row)
    stays = resident * PROCESSORS
    if ring < row or m < 4 * stays:
        return None
    return form._replace(
        team=team, rows=1, turns=turns, narrow=narrow, pooled=pooled, resident=resident, ring=ring, stays=stays
    )


def slices_of(m: int) -> int:
    """Parts of so many rows that columns are summed of first."""
    return min(SLICES, -(-m // SLICE))


def looped(form: Form, m: int) -> Form:
    """The same for a kernel that writes no rows: a loop of few threads is faster than a block that holds a row."""
    if form.team <= LOOP_THREADS:
        return form
    team = LOOP_THREADS
    while team < MOST_THREADS and team * m < BUSY:
        team *= 2
    return known_form(form._replace(team=team, rows=1, turns=0, cluster=1))


def _at_units(x: Array, unit: int) -> bool:
    step = min(UNIT_BYTES, unit * x.itemsize)
    return x.address % step == 0 and (_step(x) * x.itemsize) % step == 0


def _step(x: Array) -> int:
    """Elements from a row to the next."""
    return x.strides[0] if len(x.shape) == 2 and x.shape[0] > 1 else 0


def _follows(x: Array, lead: Array, unit: int, whole: bool) -> bool:
    """Whether units of `x` are aligned where those of `lead` are."""
    if whole:
        return _at_units(x, unit)
    if x.itemsize != lead.itemsize or len(x.shape) != len(lead.shape):
        return False
    return (x.address - lead.address) % UNIT_BYTES == 0 and (_step(x) - _step(lead)) * x.itemsize % UNIT_BYTES == 0


def _shifts(x: Array, lead: Array, unit: int) -> bool:
    """Whether a vector has units of its own, which rows do not keep to; one warp has all edges."""
    return len(x.shape) == 1 and x.itemsize == lead.itemsize and x.address % UNIT_BYTES == 0 and 3 * unit <= SHORT_WARP


def _power(x: int) -> int:
    """The power of two that is not less."""
    return 1 << (x - 1).bit_length()


def _team(
    m: int, units: int, held: int, least: int, few: bool, each: int, most: int, parks: bool, longest: int
) -> tuple[int, int]:
    """Threads of a row, and units of a thread (0: too many)."""

    def limit(team: int) -> int:
        if 2 * team < MOST_THREADS:
            return min(most, _most(team, held))
        if parks:
            return longest if team == MOST_THREADS and held <= NARROW_BYTES else MOST_TURNS
        return min(MANY_TURNS, _most(team, held)) if team < MOST_THREADS else _most(team, held)

    team = min(_power(-(-units // each)), SHORT_WARP)
    team = max(team, least)
    while team < MOST_THREADS and -(-units // team) > limit(team):
        team *= 2
    if few:
        while team < min(MOST_THREADS, _power(units)) and team * m < BUSY // 2:
            team *= 2
    turns = -(-units // team)
    return (team, turns) if turns <= max(limit(team), _most(team, held)) else (MOST_THREADS, 0)


def _shared(units: int, held: int) -> tuple[int, int, int]:
    """Threads of a row that blocks share, units of a thread (0: too many), and blocks."""
    block = SHARED_THREADS
    while block < MOST_THREADS and -(-units // (MOST_BLOCKS * block)) > _most(block, held):
        block *= 2
    team = MOST_BLOCKS * block
    turns = -(-units // team)
    return (team, turns, MOST_BLOCKS) if turns <= _most(block, held) else (MOST_THREADS, 0, 1)


def _most(team: int, held: int) -> int:
    """Units of a thread that registers have room for, `held` bytes each."""
    return (HELD_BYTES if team < MOST_THREADS else HELD_BYTES // 2) // held


__all__ = ["Form", "form_of", "gradients_in_a_ring", "in_a_ring", "known_form", "looped", "slices_of", "two_blocks"]
