"""Which tile a Hopper product takes: a model of its time, from extents and layout, for every tile there is.

Times are in clocks of a multiprocessor. A step along K takes what is slowest of the tensor cores, shared memory's
bandwidth (operands are read anew for each instruction) and the way from L2. Tiles come in waves over the
multiprocessors, the last one as long as a full one. What must come from memory is a floor under all of it. The
constants were fitted to times on an H200 (`benchmarks/h200_matmul.py --tune`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil, exp, gcd, inf, sqrt
from typing import NamedTuple

from .tile import LINE, MOST_SLICES, Tile, boxes, by_depth, limits, problem, span, stages, staging
from .winners import winner


class Rates(NamedTuple):
    """What the hardware does, by measurement."""

    clock: float = 2.011e9
    l2: float = 43.8
    """Bytes a multiprocessor gets from L2 in a clock, when all ask."""
    l2_alone: float = 95.7
    """The most it can take."""
    ragged: float = 1.98
    """How much more it asks for where rows do not start at cache lines."""
    memory: float = 4.5e12
    """Bytes a second, of reads."""
    overlap: float = 3.46
    """The power that times of multiprocessors and of memory are added in."""
    products: float = 1.042
    """Clocks for a clock's products."""
    shared: float = 0.275
    """How much of the time for reading operands from shared memory comes on top."""
    crowding: float = 9.05
    """The power that times of products and of their operands' way are added in."""
    step: float = 32.5
    """Clocks of a step for barriers, not hidden by another consumer."""
    latency: float = 2732.0
    """From the request of a stage to its arrival: a pipeline of few stages waits for it."""
    start: float = 5000.0
    """Until the first product: launch, maps, barriers, the first stage's way from memory; and behind the last one."""
    cluster: float = 106.0
    """More of it where blocks are clusters."""
    store: float = 25.0
    """Bytes of results a clock, while consumers store and do nothing else."""
    turns: float = 1.022
    """What taking turns costs the products."""
    part: float = 282.0
    """Clocks for each part of K that a cluster adds up."""
    peer: float = 10.9
    """Bytes of another block's shared memory, a clock."""
    gather: float = 14.2
    """Bytes of slices' sums a clock that who adds them up reads."""
    slices: float = 2131.0
    """Clocks from the last slice's sums to the news of them."""
    news: float = 4782.0
    """The same where blocks wait for each other."""
    shared_rows: float = 0.361
    """What rows that another block asked for cost of such that this one does: their way into it is the same."""
    met: float = 0.146
    """Requests of so many neighbours for the same rows meet on their way to L2: by this power of their number."""


OUTSIDE, INSIDE = 8.0, 1.5
"""Clocks of the copy engine for a row of a stage: zeros, where the matrix has none, come in units of 16 bytes."""

PAIR = 8.04e10
"""Bytes from memory a second, of two multiprocessors together, whatever the type."""

RATES = Rates()
OTHERS = Rates(
    clock=1.53e9, l2=54.1, l2_alone=59.2, ragged=1.94, memory=4.12e12, overlap=8.0, products=0.933, shared=0.145,
    crowding=32.0, step=56.8, latency=2838.0, start=2915.0, cluster=1367.0, store=55.4, turns=1.0, peer=15.95,
    gather=48.0, slices=4098.0, news=5000.0, part=0.0, shared_rows=0.0, met=0.0,
)  # fmt: skip
"""For operands of 32 bits, which were fitted at another time."""
BYTES = Rates(
    clock=1.686e9, l2=60.6, l2_alone=64.0, ragged=1.80, memory=3.2e12, overlap=5.51, products=0.829, shared=0.164,
    crowding=10.2, step=28.6, latency=3315.0, start=3432.0, cluster=1193.0, store=22.4, turns=1.03, peer=6.72,
    gather=40.6, slices=1738.0, news=4996.0, part=0.0, shared_rows=0.0, met=0.0,
)  # fmt: skip
"""For operands of 8 bits: 762 times of 66 random shapes; `store`, `turns` and what `promoted` has, 273 of 37 later."""


GROUPS = Rates(
    l2=54.1, memory=4.16e12, overlap=2.98, products=0.982, shared=0.393, crowding=5.92, step=49.4, latency=3835.0,
    start=4783.0, cluster=775.0, store=21.6, turns=1.08, part=163.0, peer=12.0, gather=18.1, slices=2770.0, news=4306.0,
    shared_rows=0.0, met=0.0,
)  # fmt: skip
"""For groups of rows: with these, what is below was fitted to their times."""
RAGGED = GROUPS._replace(cluster=115.0)
"""For rows that start anywhere in cache lines. Their times of earlier kernels say more of them than those of today."""


SLICES = (1, 2, 3, 4, 6, 8, 12, 16)
"""Parts of K that other types than 16 bits were measured with."""


def rates_of(bits: int) -> Rates:
    return {8: BYTES, 16: RATES}.get(bits, OTHERS)


def rates_for(given: Problem) -> Rates:
    """Of a problem: rows that start anywhere, and groups of them, were fitted apart."""
    if given.bits != 16 or not (given.tiles or any(given.ragged)):
        return rates_of(given.bits)
    return GROUPS if given.tiles else RAGGED


class Problem(NamedTuple):
    """D = X Y^T as the model sees it; `bits` of an operand's element, bytes of a result's."""

    m: int
    n: int
    k: int
    batches: int
    bits: int
    out: int
    a_major: str
    b_major: str
    direct: bool
    """Threads store C: it is f32, or its rows have no 16-byte units."""
    processors: int
    promote: bool = False
    """Threads add up the sums of 128 products, in as many registers again."""
    blocked: bool = False
    """With factors for 128 elements of a row of A, and for 128 x 128 of B."""
    ragged: tuple[float, float] = (0.0, 0.0)
    """Whether rows of A, and of B, start anywhere in cache lines: 1, or less where more of them start with one."""
    moved: float = 0.0
    """Bytes of a batch that memory moves, where that is not each matrix once."""
    tiles: float = 0.0
    """Of clusters, in all batches: where extents do not say how many."""
    spread: float = 0.0
    """How far that may be off: a standard deviation."""
    made: float = 1.0
    """What a tile costs of a whole one, on average."""
    integers: bool = False
    """For which `wgmma` has columns in steps of 16, above 32."""


class Plan(NamedTuple):
    """A tile, the blocks to launch and the rows of tiles that are walked together."""

    tile: Tile
    blocks: int
    group: int
    clocks: float

    def sums(self, given: Problem) -> tuple[int, int]:
        """Elements of f32 the slices' sums take in memory, and counters."""
        tile = self.tile
        if tile.slices == 1:
            return 0, 0
        rows, columns, _, _ = operands(given, tile.swap)
        units = ceildiv(rows, tile.m * tile.high) * ceildiv(columns, tile.n * tile.wide) * given.batches
        if tile.tail:
            units %= self.blocks // tile.blocks
        left = tile.slices if tile.together else tile.slices - 1
        return units * tile.cluster * left * tile.m * tile.n, units * tile.blocks * tile.consumers


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


SPLITS = (1, 2, 4, 8)
"""Parts of K for the blocks of a cluster. Clusters of 3, 5 and 6 blocks run, but of fewer at once than fit."""
SHARING = ((1, "y"), (2, "y"), (2, "x"), (4, "y"), (4, "x"), (4, "xy"), (8, "xy"))
"""Clusters, and whose rows their blocks have in common."""


@lru_cache(1)
def tiles() -> tuple[Tile, ...]:
    """Every tile that is worth a look."""
    found: list[Tile] = []
    for m, n, consumers, pingpong in _shapes():
        for splits in SPLITS:
            for cluster, shares in SHARING:
                tile = Tile(m, n, consumers, pingpong, cluster, shares, splits)
                large = splits == 1 and m * n >= 128 * 128
                if problem(tile) is not None or (cluster == 4 and not large and shares != "xy"):
                    continue
                found += [tile, tile._replace(swap=True)]
                if cluster == 1:
                    beside = (tile._replace(fits=fits) for fits in ((2, 3) if splits == 1 else (2,)))
                    found += [t._replace(swap=swap) for t in beside if problem(t) is None for swap in (False, True)]
    return tuple(found)


def _shapes() -> Iterator[tuple[int, int, int, bool]]:
    for n in range(16, 257, 16):
        yield 64, n, 1, False
        yield 128, n, 2, False
        if n <= 128:
            yield 256, n, 2, False
            if n % 64 == 0:
                # Narrower boxes of results cost three consumers more than their products gain.
                yield 192, n, 3, False
        if n >= 64:
            yield 64, n, 2, True
        if 64 <= n <= 160:
            yield 128, n, 2, True
    for n in range(24, 137, 16):
        yield 64, n, 1, False
        yield 128, n, 2, False
        if n > 64:
            yield 256, n, 2, False
    yield 256, 144, 2, False
    yield 256, 160, 2, False
    yield 192, 96, 3, False
    yield 192, 192, 3, False


def raggedness(step: int) -> float:
    """`Problem.ragged`, of rows so many bytes apart."""
    return (1 - gcd(step, LINE) / LINE) / (1 - 16 / LINE)


def operands(given: Problem, swap: bool) -> tuple[int, int, str, str]:
    """Rows of X and of Y and their contiguous directions."""
    if swap:
        return given.n, given.m, given.b_major, given.a_major
    return given.m, given.n, given.a_major, given.b_major


FIT = {1: 132, 2: 66, 4: 30, 8: 15}
"""Clusters that ran at the same time on an H200, by their blocks: they do not fit all groups of multiprocessors."""


def at_once(processors: int, blocks: int) -> int:
    """Clusters of so many blocks that run at the same time."""
    return FIT[blocks] * processors // 132


def plan(given: Problem, tile: Tile, rates: Rates | None = None) -> Plan | None:
    """What the model says of a tile; None where it cannot be used."""
    rates = rates or rates_for(given)
    tile = tile._replace(factors=given.blocked)
    rows, columns, x_major, y_major = operands(given, tile.swap)
    bk = LINE * 8 // given.bits
    high, wide = tile.high, tile.wide
    across, columns_of = ceildiv(rows, tile.m * high), ceildiv(columns, tile.n * wide)
    once = across * columns_of * given.batches
    clusters = ceil(given.tiles) or once * tile.slices
    steps = ceildiv(given.k, bk)
    parts = tile.splits * tile.slices
    room = at_once(given.processors, tile.blocks) * tile.fits
    if room == 0 or (parts > 1 and ((clusters > room and not tile.tail) or steps < 4 * parts)):
        return None
    if (rows <= tile.m // 2 and tile.m > 64) or (columns <= tile.n // 2 and tile.n > 32):
        return None  # half of it is enough
    if "mn" in (x_major, y_major) and problem(tile, x_major, y_major) is not None:
        return None
    if given.promote and not tile.promotes:
        return None
    if tile.swap and tile.n in (176, 208):
        return None  # their results would leave 16 columns at a time
    if not measured(given, tile):
        return None
    if given.blocked and tile.swap and tile.n > 64:
        return None
    waves = float(ceildiv(once if tile.tail else clusters, room))
    if given.spread:
        waves = sum(max(1, ceil((given.tiles + z * given.spread) / room)) for z in NORMAL) / len(NORMAL)
    mine = ceildiv(steps, parts)
    active = min(clusters, room) * tile.blocks

    # m64nNk32B: N / 2 clocks of the tensor cores for 16-bit types; 8-bit types have twice the depth in the same time.
    reads, multiplies = 16 + tile.n / 4, tile.n / 2
    products = tile.m // 64 * (max(multiplies, reads) + rates.shared * reads) * (LINE // 32) * rates.products
    if given.promote:
        products = promoted(given, tile, products)
    ragged_x, ragged_y = given.ragged[::-1] if tile.swap else given.ragged
    more_x, more_y = (1 + (rates.ragged - 1) * share for share in (ragged_x, ragged_y))
    few_x, few_y = limits(tile, rows, columns, x_major, y_major)
    high_x, high_y = few_x or tile.m, few_y or tile.n
    # Neighbours in turn have the same rows of X, or of Y.
    along_x = tile.shares == "y" and tile.cluster > 1
    run = (columns_of if along_x else across) if waves == 1 and tile.splits == tile.fits == 1 else 1
    met = run**-rates.met
    part_x, part_y = (
        1 / many + rates.shared_rows * (1 - 1 / many) if many > 1 else met if along_x == is_x else 1.0
        for many, is_x in ((wide, True), (high, False))
    )
    fetched = LINE * (high_x * part_x * more_x + high_y * part_y * more_y)
    # Few blocks have L2 to themselves, up to what a multiprocessor can take.
    feed = fetched / min(rates.l2_alone, rates.l2 * given.processors / active)
    # Copies of few rows cost the engine as much as longer ones.
    boxes_x, boxes_y = boxes(tile, rows, columns, x_major, y_major)
    copies = (boxes_x // wide if x_major == "k" else copies_of(tile.m, wide)) + (
        boxes_y // high if y_major == "k" else copies_of(tile.n, high)
    )
    depth = stages(tile)
    # What takes about as long as another gets in its way.
    near = rates.crowding
    together = (products**near + feed**near) ** (1 / near)
    step = max(together, rates.latency / depth, 60.0 * copies) + rates.step / tile.consumers
    # Tiles at the edges wait for the engine; how much of that counts depends on what else their blocks do.
    across_y = 1 / ceildiv(columns, tile.n * wide) if given.tiles else 0.0
    engine = rows_in_engine(rows, tile.m, high_x, boxes_x, x_major, bk, wide)
    engine += rows_in_engine(columns, tile.n, high_y, boxes_y, y_major, bk, high)
    step += max(0.0, engine - step) * max(1 / waves, across_y)
    if given.promote and tile.m > 64 and tile.two_sets:
        step += 0.15 * feed  # they get in each other's way
    body = mine * step

    stored = tile.m * tile.n * given.out / rates.store * (1.6 if given.direct else 1.0)
    if tile.by_threads and not tile.in_shares and not given.direct:
        stored *= 5.0 if tile.m > 64 else 3.0 if tile.n > 96 else 1.0  # in halves of sectors
    if given.tiles:
        apart = given.n * given.out % 32 and not tile.by_threads
        stored *= 1 + (APART * 64 / staging(tile).box if apart else 0.0)
    sums = 4 * tile.m * tile.n
    if tile.splits > 1:
        stored = stored / tile.splits * 1.3 + sums / 64 + sums / rates.peer + tile.splits * rates.part
    plain = stored
    if tile.together:
        stored = stored / tile.sharers * 1.3 + rates.news + sums / 64 + sums * tile.slices / tile.sharers / rates.gather
    elif tile.slices > 1:
        stored += rates.slices + (sums / 64 + (tile.slices - 1) * sums / rates.gather) / tile.splits
    if tile.pingpong:
        # Turns: one's results leave during the other's products, and only the last ones are waited for.
        busy = waves * max(body * rates.turns, (body + stored * (IN_TURNS if given.tiles else 1.0)) / 2)
    elif tile.tail:
        busy = (waves - 1) * (steps * step + plain) + body
    else:
        busy = waves * body + (waves - 1) * stored
    # A block's longest tile is a whole one.
    busy *= 1 - (1 - given.made) * (waves - 1) / waves

    size = given.bits // 8
    once_each = (rows + columns) * given.k * size + rows * columns * given.out
    unique = (given.moved or once_each) * given.batches
    memory = unique / rates.memory * rates.clock
    # What a multiprocessor has under way from memory is bounded, and pairs of them share that.
    all_blocks = clusters * tile.blocks
    # Clusters that fit twice have multiprocessors twice, while others have none of them.
    share = max(ceildiv(all_blocks, given.processors), ceildiv(clusters, room // tile.fits)) * unique / all_blocks
    pull = PAIR if 2 * all_blocks <= given.processors else PAIR / 2
    memory = max(memory, share / pull * rates.clock)
    # They overlap, but not perfectly. Behind the last products and the last bytes come results.
    near = rates.overlap
    clocks = (busy**near + memory**near) ** (1 / near) + stored + rates.start
    if tile.blocks > 1:
        clocks += rates.cluster
    if tile.swap:
        clocks *= 1.01
    if (given.bits == 8 or given.tiles) and tile.n > 64 and tile.n % 32:
        clocks *= 1.02 if given.bits == 8 else 1.01  # boxes of 16 columns
    group = max(1, round(sqrt(given.processors / parts * tile.n / tile.m) / high))
    if waves == 1:
        # Neighbours in turn have the rows in common that each block fetches for itself: requests for them meet on
        # their way to L2.
        group = 1 if along_x else across
    blocks = min(clusters, room) * tile.blocks
    return Plan(tile, blocks, min(group, across), clocks)


def copies_of(tiled: int, sharers: int) -> int:
    """Copies of a block for its part of rows that lie beside each other."""
    return tiled // span(tiled) // (1 if by_depth(tiled, sharers) else sharers)


def rows_in_engine(extent: int, tiled: int, fetched: int, boxes: int, major: str, depth: int, sharers: int) -> float:
    """Clocks of the copy engine for an operand's part of a step, in a tile at the edge.

    A row is what lies in one piece: along K for each row of the operand, else as many of its rows as a swizzle has.
    """
    if major == "k":
        outer = -extent % (fetched // boxes)
        return OUTSIDE * outer + INSIDE * (fetched / sharers - outer)
    lines = depth * tiled // span(tiled)
    outer = lines * (-extent % tiled) / tiled
    return OUTSIDE * outer + INSIDE * max(0.0, lines / sharers - outer)


def measured(given: Problem, tile: Tile) -> bool:
    """Whether a tile is of those that such operands were measured with."""
    along_k = (given.a_major, given.b_major) == ("k", "k")
    if given.bits == 16:
        _, _, x_major, y_major = operands(given, tile.swap)
        return long_rows(tile.m, x_major, tile.wide) and long_rows(tile.n, y_major, tile.high)
    if given.blocked and not tile.swap and 128 % tile.n and tile.n not in (160, 192):
        return False
    if given.integers and tile.n > 32 and tile.n % 16:
        return False
    few = tile.accumulators <= (64 if tile.consumers == 3 else 128)
    if not few or tile.splits not in (1, 2, 4, 8) or tile.slices not in SLICES or tile.cluster > 4:
        return False
    if given.bits == 8 and along_k:
        return (tile.n % 16 == 0 or tile.n < 64) and tile.fits <= 2
    return tile.n in (48, *range(32, 257, 32), 16) and tile.fits == 1 and tile.shares != "xy"


def long_rows(tiled: int, major: str, sharers: int) -> bool:
    """Whether an operand's rows come in pieces that the model knows: those of 32 bytes, and of 64 that four blocks
    share, took up to a third longer than it says."""
    return major == "k" or span(tiled) >= (64 if sharers >= 4 else 32)


def promoted(given: Problem, tile: Tile, products: float) -> float:
    """Clocks of a step whose sums threads add up: hidden, but not quite."""
    if tile.two_sets:
        # Narrow instructions have the tensor cores wait for shared memory; each 64 rows have factors of their own.
        slower = (1.6 if tile.n < 128 else 1.0) * (1.35 if given.blocked and tile.rows > 64 else 1.0)
        return products * slower + (1.75 if given.blocked else 0.6) * tile.accumulators
    if tile.consumers == 1 or tile.pingpong:
        return products * 1.1 + 3 * tile.accumulators
    if tile.rows == 64 and tile.consumers == 2:
        each = (2.4, 1.85) if tile.n % 64 == 0 else (2.5, 1.8)
    else:
        each = (4.1, 1.7) if tile.consumers == 3 else (3.3, 2.2)
    return products + each[0 if given.blocked else 1] * tile.accumulators


def candidates(given: Problem) -> list[Plan]:
    """All that can be used, the model's favourite first."""
    found: list[Plan] = []
    for tile in tiles():
        one = plan(given, tile)
        if one is not None:
            found.append(one)
            found += sliced(given, one)
            found += tails(given, one)
    return sorted(found, key=lambda p: p.clocks)


def sliced(given: Problem, whole: Plan) -> list[Plan]:
    """The same with slices of K for the blocks that have no tile."""
    tile = whole.tile
    if tile.splits > 1 or tile.pingpong or tile.n < 64 or tile.fits > 1 or 2 * whole.blocks > given.processors:
        return []
    room = at_once(given.processors, tile.cluster) // (whole.blocks // tile.cluster)
    steps = ceildiv(given.k * given.bits, 8 * LINE)
    most = min(room, steps // 4, MOST_SLICES)
    found: list[Plan | None] = []
    for slices in {most, most // 2}:
        if slices > 1:
            found.append(plan(given, tile._replace(slices=slices, together=True)))
        if 1 < slices <= 3:
            found.append(plan(given, tile._replace(slices=slices)))
    return [p for p in found if p is not None]


def tails(given: Problem, whole: Plan) -> list[Plan]:
    """The same with slices of the tiles that are left over, where these keep less than half of the blocks busy."""
    tile = whole.tile
    if tile.splits > 1 or tile.slices > 1 or tile.pingpong or tile.n < 64 or given.promote:
        return []
    rows, columns, _, _ = operands(given, tile.swap)
    once = ceildiv(rows, tile.m * tile.high) * ceildiv(columns, tile.n * tile.wide) * given.batches
    room = whole.blocks // tile.cluster
    left = once % room
    if once <= room or not 0 < 2 * left <= room:
        return []
    slices = min(16, room // left)
    cut = tile._replace(slices=slices, together=True, tail=True)
    found = plan(given, cut) if slices > 1 and problem(cut) is None else None
    return [] if found is None else [found]


NEAR = 1.15
NORMAL = (-1.4, -0.5, 0.0, 0.5, 1.4)
"""Standard deviations that stand for all."""


@lru_cache(4096)
def best(given: Problem, whole: bool = False, arch: str | None = None) -> Plan:
    """What won at about this shape on an architecture, else the model's favourite.

    `whole`: of those that sum K in one piece.
    """
    found = [p for p in candidates(given) if not whole or p.tile.splits == p.tile.slices == 1]
    won = None if whole or arch is None else winner(given, arch)
    if won is None:
        return found[0]
    # A few rows away not if the model finds it much slower: that may be another round of tiles.
    near = inf if won.here else NEAR * found[0].clocks
    return next((p for p in found if p.tile == won.tile and p.clocks < near), found[0])


# These were fitted to 462 times of 32 shapes of groups, equal and ragged.

APART = 0.1
"""How much longer results of groups take to leave in copies of 64 columns, where their rows begin inside of sectors."""

IN_TURNS = 4.0
"""And while the other consumer multiplies."""

SHORT = 0.55
"""What a tile costs of whose rows at most half belong to its group: one consumer has nothing to do."""

AGAIN = 0.35
"""How much of a group's matrix comes from memory again for the next rows of tiles: they do not run side by side."""


@lru_cache(1)
def tiles_in_groups() -> tuple[Tile, ...]:
    """Those that end where groups do: alone, or in pairs that are above or beside each other as rows are left."""
    found: list[Tile] = []
    for tile in tiles():
        if not tile.splits == tile.slices == tile.fits == 1 or tile.swap or tile.by_threads:
            continue
        if tile.cluster == 1:
            found.append(tile)
        elif tile.cluster == 2 and tile.shares == "x":
            found.append(tile._replace(shares="either"))
    return tuple(found)


class Rows(NamedTuple):
    """Rows of tiles that a group has: those that come in pairs, those that are left, and what one costs of a whole."""

    pairs: float
    left: float
    made: float

    @property
    def all(self) -> float:
        return 2 * self.pairs + self.left


def rows_of_tiles(given: Problem, tile: Tile) -> tuple[Rows, Rows]:
    """Of groups that are all as long, and of such of any lengths, on average.

    Short ones are many there, as if each row were the last of its group with the same chance.
    """
    short = SHORT if tile.consumers == 2 and tile.rows == 64 and not tile.pingpong else 1.0
    high = max(1, ceildiv(given.m, tile.m))
    last = short if 2 * (given.m - (high - 1) * tile.m) <= tile.m else 1.0
    equal = Rows(high // 2, high % 2, (high - 1 + last) / high)
    more, half = (exp(-part * tile.m / max(given.m, 1)) for part in (1.0, 0.5))
    made = 1 - (1 - short) * (1 - half)
    return equal, Rows(more / (1 - more * more), 1 / (1 + more), made)


def in_groups(given: Problem, tile: Tile, rows: Rows, *, even: bool) -> float:
    """Clocks for groups with so many rows of tiles each, all of them or on average."""
    size = given.bits // 8
    again = AGAIN * min(max((rows.pairs + rows.left if tile.either else rows.all) - 1, 0.0), 1.0)
    moved = given.n * size * given.k * (1 + again) + given.m * (given.k * size + given.n * given.out)
    columns = ceildiv(given.n, tile.n)
    above, beside = (rows.pairs * columns, rows.left * ceildiv(columns, 2)) if tile.either else (0, rows.all * columns)
    many = (above + beside) * given.batches
    given = given._replace(
        m=max(1, round(rows.all)) * tile.m, moved=moved, made=rows.made, tiles=many,
        spread=0.0 if even else sqrt(given.batches / 12) * columns / tile.cluster,
    )  # fmt: skip
    clocks = 0.0
    for part, shares in ((above, "y"), (beside, "x" if tile.either else tile.shares)):
        found = plan(given, tile._replace(shares=shares)) if part else None
        if part:
            clocks += inf if found is None else found.clocks * part / (above + beside)
    return clocks


def candidates_in_groups(given: Problem) -> list[Plan]:
    """For groups of about `m` rows each, whose true numbers only the device knows; the favourite first.

    Groups that are all as long count as much as such of any lengths.
    """
    found: list[Plan] = []
    for tile in tiles_in_groups():
        # Where three multiply, those who bring factors have too few registers to look for groups as well.
        if problem(tile, given.a_major, given.b_major) is not None or (given.blocked and tile.consumers == 3):
            continue
        equal, anywhere = rows_of_tiles(given, tile)
        clocks = in_groups(given, tile, equal, even=True) + in_groups(given, tile, anywhere, even=False)
        if clocks < inf:
            # As many rows as are beside as many columns in L2, if the group has them.
            group = max(1, round(sqrt(given.processors * tile.n / tile.m) / tile.high))
            found.append(Plan(tile, 0, group, clocks / 2))
    return sorted(found, key=lambda p: p.clocks)


@lru_cache(4096)
def best_in_groups(given: Problem) -> Plan:
    """The favourite for groups."""
    return candidates_in_groups(given)[0]


def blocks_in_groups(given: Problem, tile: Tile, rows: int) -> int:
    """To launch for `rows` rows of all groups together, however long each is."""
    most = (ceildiv(rows, tile.m * tile.high) + given.batches) * ceildiv(given.n, tile.n * tile.wide)
    return min(most, given.processors // tile.cluster) * tile.cluster


__all__ = [
    "RATES",
    "Plan",
    "Problem",
    "Rates",
    "best",
    "best_in_groups",
    "blocks_in_groups",
    "candidates",
    "candidates_in_groups",
    "operands",
    "plan",
    "raggedness",
    "rates_of",
]
