"""`Communicator`: the collectives of a rank, with their flags and scratch memory."""

from __future__ import annotations

from typing import Protocol

from flydsl.errors import DSLValueError
from flydsl.runtime.dist import SymmetricTensor, World

from .experts import PARTS, combine, dispatch
from .gather import all_gather
from .matmul import all_gather_matmul, matmul_reduce_scatter
from .reduce import all_reduce_one_shot, all_reduce_two_shot, reduce_scatter
from .sync import TILES
from .tile import TILE

ONE_SHOT_BYTES = 256 * 1024
"""Up to here the ranks read everything; beyond, the traffic of two shots is less than their waiting costs."""
ALGORITHMS = ("auto", "one_shot", "two_shot", "switch")


class Shaped(Protocol):
    """An array of this rank: of numpy, of torch, or anything else a kernel takes."""

    @property
    def shape(self) -> object: ...


def part_of(n: int, ranks: int, rank: int) -> range:
    """A rank's part of n: n / ranks, rounded up, for each; the last ones may be shorter or empty.

    >>> part_of(10, 4, 3), len(part_of(9, 8, 5))
    (range(9, 10), 0)
    """
    part = -(-n // ranks)
    return range(min(rank * part, n), min((rank + 1) * part, n))


class Communicator:
    """Collectives of one rank. All ranks make one and call the same operations in the same order.

    Inputs that other ranks read are symmetric tensors of `world.symmetric`; results are arrays of this rank. When an
    operation has ended in this rank, nobody reads its inputs any more. Sums are those of the ranks in their order.
    """

    def __init__(self, world: World, *, blocks: int = 64):
        """At most `blocks` blocks of a rank take part in an operation that is not a product."""
        self.world = world
        self._rows = max(blocks, world.size * PARTS)
        self._flags = world.symmetric((self._rows, world.size + 1), "int32")
        self._tile_flags: SymmetricTensor | None = None
        self._scratch: dict[str, SymmetricTensor] = {}

    def _symmetric(self, what: str, x: SymmetricTensor, *shape: int | None) -> None:
        """Refuse a tensor of another world or rank of dimensions."""
        fits = len(x.shape) == len(shape) and all(s in (None, n) for s, n in zip(shape, x.shape, strict=True))
        if x.world != self.world.size or x.rank != self.world.rank or not fits:
            wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
            raise DSLValueError(
                f"{what} must be a symmetric tensor of shape {wanted} of rank {self.world.rank} of {self.world.size}, "
                f"got {x!r}"
            )

    @staticmethod
    def _local(what: str, x: Shaped, *shape: int) -> None:
        given = tuple(int(n) for n in x.shape)  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType, reportUnknownArgumentType]
        if given != shape:
            raise DSLValueError(f"{what} must have the shape {shape}, got {given}")

    def _room(self, key: str, shape: tuple[int, ...], dtype: str) -> SymmetricTensor:
        """Scratch memory, kept for the next call: a row may be longer than asked for. All ranks ask for the same."""
        kept = self._scratch.get(f"{key} {dtype}")
        fits = kept is not None and (kept.shape == shape or (len(shape) == 1 and kept.shape > shape))
        if kept is None or not fits:
            kept = self._scratch[f"{key} {dtype}"] = self.world.symmetric(shape, dtype)
        return kept

    def all_reduce(self, x: SymmetricTensor, out: Shaped, *, algorithm: str = "auto") -> None:
        """`out = sum of x over the ranks`, for x and out of n elements.

        `one_shot` reads all of x from all ranks, `two_shot` adds up a part in each and shares those; `auto` takes the
        first for small x. `switch`, where the switch between the devices adds up, is refused: its memory is not mapped yet.
        """
        if algorithm not in ALGORITHMS:
            raise DSLValueError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {algorithm!r}")
        if algorithm == "switch":
            self.world.need_multicast("all_reduce in the switch")
        self._symmetric("all_reduce: x", x, None)
        (n,) = x.shape
        self._local("all_reduce: out", out, n)
        rank, ranks = self.world.rank, self.world.size
        if algorithm == "one_shot" or (algorithm == "auto" and x.nbytes <= ONE_SHOT_BYTES):
            all_reduce_one_shot(x, out, self._flags, rank, ranks)
            return
        sums = self._room("sums", (max(-(-n // ranks), 1),), x.dtype)
        all_reduce_two_shot(x, sums, out, self._flags, rank, ranks)

    def reduce_scatter(self, x: SymmetricTensor, out: Shaped) -> None:
        """`out = part_of(n, ranks, rank) of the sum of x`."""
        self._symmetric("reduce_scatter: x", x, None)
        rank, ranks = self.world.rank, self.world.size
        self._local("reduce_scatter: out", out, len(part_of(x.shape[0], ranks, rank)))
        reduce_scatter(x, out, self._flags, rank, ranks)

    def all_gather(self, x: SymmetricTensor, out: Shaped) -> None:
        """`out[r] = x of rank r`, for x of n elements and out of shape (ranks, n)."""
        self._symmetric("all_gather: x", x, None)
        self._local("all_gather: out", out, self.world.size, x.shape[0])
        all_gather(x, out, self._flags, self.world.rank, self.world.size)

    def _product_flags(self, tiles: int) -> SymmetricTensor:
        if self._tile_flags is None or self._tile_flags.shape[0] < TILES + tiles:
            rows = TILES + max(tiles, 64)
            self._tile_flags = self.world.symmetric((rows, max(self.world.size + 1, 2)), "int32")
        return self._tile_flags

    def all_gather_matmul(self, a: SymmetricTensor, b: Shaped, c: Shaped) -> None:
        """`c[r] = a of rank r @ b^T`, for a of shape (m, k), b (n, k) and c (ranks, m, n)."""
        self._symmetric("all_gather_matmul: a", a, None, None)
        n = _extents(b)[0]
        self._local("all_gather_matmul: b", b, n, a.shape[1])
        self._local("all_gather_matmul: c", c, self.world.size, a.shape[0], n)
        all_gather_matmul(a, b, c, self._product_flags(0), self.world.rank, self.world.size)

    def matmul_reduce_scatter(self, a: Shaped, b: Shaped, out: Shaped) -> None:
        """`out = rows part_of(m, ranks, rank) of the sum of a @ b^T`, for a of shape (m, k) and b (n, k)."""
        (m, k), n = _extents(a), _extents(b)[0]
        rank, ranks = self.world.rank, self.world.size
        self._local("matmul_reduce_scatter: b", b, n, k)
        self._local("matmul_reduce_scatter: out", out, len(part_of(m, ranks, rank)), n)
        tiles = -(-max(-(-m // ranks), 1) // TILE) * -(-max(n, 1) // TILE)
        flags = self._product_flags(tiles)
        partial = self._room("partial", (m, n), "float32")
        matmul_reduce_scatter(a, b, partial, out, flags, rank, ranks)


def _extents(x: Shaped) -> tuple[int, int]:
    shape = tuple(int(n) for n in x.shape)  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType, reportUnknownArgumentType]
    if len(shape) != 2:
        raise DSLValueError(f"expected a matrix, got the shape {shape}")
    return shape


class Experts:
    """The all-to-alls of a mixture of experts, with their memory.

    Each rank has `per_rank` experts and gets at most `room` rows from each rank at a time; rows beyond are left out, and
    none are with room for a rank's tokens times k.
    """

    def __init__(self, comm: Communicator, *, per_rank: int, room: int, columns: int, dtype: object = "float32"):
        if per_rank < 1 or room < 1 or columns < 1:
            raise DSLValueError(f"Experts needs positive numbers, got {per_rank=}, {room=}, {columns=}")
        self._comm, self.per_rank = comm, per_rank
        world = comm.world
        self.received = world.symmetric((world.size, room, columns), dtype)
        """Rows that came, by the rank they are of."""
        self.owners = world.symmetric((world.size, room), "int32")
        """The expert of each."""
        self.counts = world.symmetric(world.size, "int32")
        """How many came from each rank."""
        self.results = world.symmetric((world.size, room, columns), dtype)
        """Where this rank writes what its experts make of the rows, before `combine`."""

    def dispatch(self, tokens: Shaped, experts: Shaped, slots: Shaped) -> None:
        """Send rows of `tokens (t, h)` to the ranks of their `experts (t, k)`; `slots (t, k)` say where they went."""
        comm, (t, k) = self._comm, _extents(experts)
        comm._local("dispatch: tokens", tokens, t, self.received.shape[2])  # pyright: ignore[reportPrivateUsage]
        comm._local("dispatch: slots", slots, t, k)  # pyright: ignore[reportPrivateUsage]
        flags, world = comm._flags, comm.world  # pyright: ignore[reportPrivateUsage]
        dispatch(
            *(tokens, experts, self.received, self.owners, self.counts, slots, flags),
            *(world.rank, self.per_rank, world.size, k),
        )

    def combine(self, experts: Shaped, slots: Shaped, weights: Shaped, out: Shaped) -> None:
        """`out[t] = sum of weights[t, j] * the row of token t in results of the rank of its expert j`."""
        comm, (t, k) = self._comm, _extents(experts)
        comm._local("combine: slots", slots, t, k)  # pyright: ignore[reportPrivateUsage]
        comm._local("combine: weights", weights, t, k)  # pyright: ignore[reportPrivateUsage]
        comm._local("combine: out", out, t, self.received.shape[2])  # pyright: ignore[reportPrivateUsage]
        flags, world = comm._flags, comm.world  # pyright: ignore[reportPrivateUsage]
        combine(self.results, experts, slots, weights, out, flags, world.rank, self.per_rank, world.size, k)


__all__ = ["Communicator", "Experts", "part_of"]
