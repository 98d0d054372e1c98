"""How an attention on an AMD GPU is cut: rows of queries, steps of keys, waves. Plain numbers, no compiler."""

from __future__ import annotations

from typing import NamedTuple

UNIT_BYTES = 16
"""What a lane loads, and reads of shared memory, at once."""
TOGETHER = 4
"""Keys of which a lane turns a unit each on the way to shared memory."""


class Machine(NamedTuple):
    """The matrix instruction of a type, and how data comes to it."""

    instruction: str
    """"mfma", "mfma_scale" or "wmma"."""
    atom_k: int
    """What it sums over."""
    size: int = 2
    """Bytes of an element."""
    lanes: int = 64
    """Of a wave."""
    direct: bool = False
    """Copies go straight into shared memory, and values are transposed by reading them."""
    wait: str = ""
    """Shared memory's counter, where a fence at a barrier would also wait for loads into registers."""
    rounds: bool = False
    """Pairs of f32 become bf16 by an instruction."""
    dies: int = 1
    """Dies with an L2 each, to which blocks are dealt in turn."""
    swaps: bool = False
    """Rows of 16 lanes change places by instructions on registers."""

    @property
    def groups(self) -> int:
        """Parts of a wave, of 16 lanes, that share the rows of an operand."""
        return self.lanes // 16

    @property
    def unit(self) -> int:
        """Elements of a unit."""
        return UNIT_BYTES // self.size

    @property
    def run(self) -> int:
        """Neighbouring rows of an instruction's result that a lane has."""
        return 16 // self.groups

    @property
    def each(self) -> int:
        """Elements that a lane gives an instruction."""
        return self.atom_k // self.groups

    @property
    def span(self) -> int:
        """Elements of a row that a wave reads at once."""
        return self.unit * self.groups

    @property
    def step(self) -> int:
        """Keys, and elements of a row, come in multiples of what one read and one instruction take."""
        return max(self.span, self.atom_k)


class Tile(NamedTuple):
    """A block of threads has `rows` of queries for each of its waves, and walks along the keys, `n` at a time."""

    d: int
    """Elements of a query and of a key."""
    dv: int
    """Elements of a value."""
    n: int
    rows: int = 32
    """A multiple of 16."""
    waves: int = 4
    page: int = 0
    """Keys of a page where they are a power of two: no lane divides then."""

    @property
    def m(self) -> int:
        return self.rows * self.waves

    def threads(self, machine: Machine) -> int:
        return self.waves * machine.lanes


class Cut(NamedTuple):
    """Units of a step of keys or values in shared memory, and what a thread has of them."""

    units: int
    """Of a row."""
    moved: int
    """Units, or groups of them that are turned, that a thread moves."""
    elements: int
    """Of a stage."""


def keys_cut(tile: Tile, machine: Machine) -> Cut:
    """Rows as they are, without space between them."""
    return _rows_cut(tile.d // machine.unit, tile, machine)


def values_cut(tile: Tile, machine: Machine) -> Cut:
    """Rows as they are where reading transposes them; else columns, `TOGETHER` keys of a unit to a thread."""
    units = tile.dv // machine.unit
    if machine.direct:
        return _rows_cut(units, tile, machine)
    high, threads = tile.n // TOGETHER, tile.threads(machine)
    while high * units % threads:
        units += 1
    return Cut(units, high * units // threads, units * machine.unit * tile.n)


def _rows_cut(units: int, tile: Tile, machine: Machine) -> Cut:
    threads = tile.threads(machine)
    count = -(-tile.n * units // threads)
    return Cut(units, count, count * threads * machine.unit)


def stages(machine: Machine) -> int:
    """Steps in shared memory: by way of registers, these are the second stage."""
    return 2 if machine.direct else 1


def shared_bytes(tile: Tile, machine: Machine) -> int:
    both = keys_cut(tile, machine).elements + values_cut(tile, machine).elements
    return both * machine.size * stages(machine)


def problem(tile: Tile, machine: Machine, shared: int) -> str | None:
    """Why there is no such kernel; None if there is."""
    if tile.d % machine.step or tile.dv % 16 or not tile.d <= 256 >= tile.dv:
        return f"rows have multiples of {machine.step} elements, values of 16, up to 256, got {tile.d} and {tile.dv}"
    if tile.n % (16 * machine.each // machine.run) or tile.n % machine.span or tile.rows % 16:
        return f"a step has a multiple of {16 * machine.each // machine.run} keys, got {tile.n}"
    if shared_bytes(tile, machine) > shared:
        return f"{tile} needs {shared_bytes(tile, machine)} bytes of shared memory, and there are {shared}"
    return None


__all__ = [
    "TOGETHER", "UNIT_BYTES", "Cut", "Machine", "Tile", "keys_cut", "problem", "shared_bytes", "stages",
    "values_cut",
]  # fmt: skip
