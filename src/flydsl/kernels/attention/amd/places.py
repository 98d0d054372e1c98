"""Where units of keys and values lie in shared memory, how they come there, and how lanes read their operands.

Rows lie one behind the other. Low bits of a row's number permute its 16-byte units, so that lanes that read a unit of
neighbouring rows find them in different banks; a copy has its units in the order of lanes, and it is what lanes load
that is permuted.

The second product sums over keys, and wants of a lane those whose scores it has: `run` neighbours of each 16. Where
reads of shared memory do not transpose, values are turned on their way through registers, and then it is the keys of a
column that lie together, in the order in which a lane takes them.
"""

from __future__ import annotations

from collections.abc import Callable

import flydsl.expr as fx

from .tile import TOGETHER, Cut, Machine, Tile


def mixed(row: fx.Int32, units: int) -> fx.Int32:
    """What the units of a row are permuted by: rows of 128 bytes differ all, shorter ones by pairs."""
    if units % 8 == 0:
        return row % 8
    if units % 4 == 0:
        return row // 2 % 4
    return row // 4 % 2 if units % 2 == 0 else row * 0


def mixed_value(row: fx.Int32, units: int, machine: Machine) -> fx.Int32:
    """The same for rows that are read transposed; in 16 bits, two units of a row are read together."""
    if machine.size == 1:
        return mixed(row, units)
    return mixed(row, units // 2) * 2


def mixed_column(row: fx.Int32 | int, eighth: fx.Int32, units: int) -> fx.Int32:
    """The same for columns of values, of which lanes write every eighth and read neighbours."""
    return (row ^ eighth) % 8 if units % 8 == 0 else (row // 2 ^ eighth) % 4


def unit_of(
    thread: fx.Int32, i: int, cut: Cut, threads: int, mix: Callable[[fx.Int32], fx.Int32]
) -> tuple[fx.Int32, fx.Int32]:
    """The row and the unit that a thread's copy `i` brings."""
    at = thread + i * threads
    row = at // cut.units
    return row, at % cut.units ^ mix(row)


def group_of(thread: fx.Int32, i: int, cut: Cut, threads: int) -> tuple[fx.Int32, fx.Int32]:
    """Which keys, counted in groups as they lie in a column, and which unit of them a thread turns."""
    at = thread + i * threads
    if cut.units % 16:
        return at // cut.units, at % cut.units
    # 32 lanes have both halves of 16 columns' units: they write to all banks.
    rest, wide = at // 32, cut.units // 16
    return rest // wide * 2 + at // 16 % 2, rest % wide * 16 + at % 16


def key_of(group: fx.Int32, machine: Machine) -> fx.Int32:
    """The first key of a group."""
    if machine.run == 8:
        return group * TOGETHER
    # A unit of a column has what a lane gives two instructions of 16 keys.
    return group // 8 * 32 + group % 2 * 16 + group // 2 % 4 * TOGETHER


def column_place(group: fx.Int32, unit: fx.Int32, e: int, long: int) -> fx.Int32:
    """Where element `e` of a unit, of the keys of a group, lies among turned columns of `long` units."""
    mix = mixed_column(e, unit, long)
    return ((unit * 8 + e) * long + (group // 2 ^ mix)) * 8 + group % 2 * TOGETHER


def turned(rows: list[fx.Vector]) -> list[fx.Vector]:
    """A unit of 16-bit elements from each of four keys: for each element, that of the four keys."""
    dtype = rows[0].dtype
    words = [row.bitcast(fx.Int32) for row in rows]
    found: list[fx.Vector] = []
    for i in range(words[0].numel):
        for chosen in (0x05040100, 0x07060302):
            pairs = [fx.rocdl.perm_b32(words[k + 1][i], words[k][i], chosen) for k in (0, 2)]
            found.append(fx.Vector.from_elements(pairs, fx.Int32).bitcast(dtype))
    return found


def load_unit(source: fx.Pointer, to: fx.Tensor) -> None:
    """16 bytes through a descriptor into registers."""
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), source.dtype)
    fx.copy_atom_call(atom, fx.make_view(source, to.layout), to)


def copy_unit(source: fx.Pointer, to: fx.Pointer, unit: int) -> None:
    """16 bytes of each lane straight into shared memory, where lanes follow each other."""
    atom = fx.make_copy_atom(fx.rocdl.cdna4.BufferLoadAsyncLDS128b(), source.dtype)
    piece = fx.make_layout(unit, 1)
    fx.copy_atom_call(atom, fx.make_view(source, piece), fx.make_view(to, piece))


def read(place: fx.Pointer, count: int) -> fx.Vector:
    """Neighbouring elements of shared memory."""
    atom = fx.make_copy_atom(fx.UniversalCopy(count * place.dtype.width), place.dtype)
    made = registers(count, place.dtype)
    fx.copy_atom_call(atom, fx.make_view(place, fx.make_layout(count, 1)), made)
    return made.load()


def write(place: fx.Pointer, value: fx.Vector) -> None:
    atom = fx.make_copy_atom(fx.UniversalCopy(value.numel * place.dtype.width), place.dtype)
    made = held(value)
    fx.copy_atom_call(atom, made, fx.make_view(place, made.layout))


def read_turned(place: fx.Pointer) -> fx.Vector:
    """64 bits, transposed among 16 lanes."""
    dtype = place.dtype
    atom = fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans(dtype.width, 64), dtype)
    made = registers(64 // dtype.width, dtype)
    fx.copy_atom_call(atom, fx.make_view(place, made.layout), made)
    return made.load()


def registers(count: int, dtype: type[fx.Numeric]) -> fx.Tensor:
    return fx.make_rmem_tensor(fx.make_layout(count, 1), dtype)


def held(value: fx.Vector) -> fx.Tensor:
    made = registers(value.numel, value.dtype)
    made.store(value)
    return made


def operands(parts: list[fx.Vector], each: int) -> list[fx.Vector]:
    """What was read of a row, in pieces of what a lane gives an instruction."""
    count = parts[0].numel
    if each < count:
        return [x.shuffle(x, range(at, at + each)) for x in parts for at in range(0, count, each)]
    together = each // count
    return [joined(parts[at : at + together]) for at in range(0, len(parts), together)]


def joined(parts: list[fx.Vector]) -> fx.Vector:
    """Vectors of one length, a power of two of them, as one."""
    while len(parts) > 1:
        parts = [a.shuffle(b, range(2 * a.numel)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


class Reader:
    """A lane's operands from shared memory, one read or one instruction's at a time.

    What permutes units is of a lane and of the place that is read; the second part is a constant, of which few differ:
    there is an address for each, and the rest is added to it by the instruction.
    """

    def __init__(self, tile: Tile, machine: Machine, keys: Cut, values: Cut, lane: fx.Int32) -> None:
        self.tile, self.machine, self.keys, self.values = tile, machine, keys, values
        self.low, self.part = lane % 16, lane // 16
        self.first: dict[tuple[str, int], fx.Int32] = {}
        """Where a lane's units are, by what they are and by the constant that permutes them."""
        self.long = tile.n // machine.unit
        """Units of a column that was turned."""
        # In front of all steps.
        for r in range(self.key_items * self.key_reads):
            self.key_at(0, r)
        at = self.value_at if machine.direct else self.column_at
        for j in range(tile.dv // 16):
            for r in range(self.value_items * self.value_reads):
                at(j, r)

    @property
    def key_reads(self) -> int:
        """Of an item."""
        return max(1, self.machine.each // self.machine.unit)

    @property
    def value_reads(self) -> int:
        """Of an item."""
        m = self.machine
        return m.each * m.size // 8 if m.direct else max(1, m.each // m.unit)

    @property
    def key_items(self) -> int:
        """Of 16 keys."""
        return self.tile.d // self.machine.step

    @property
    def value_items(self) -> int:
        """Of 16 columns."""
        m = self.machine
        return self.tile.n // (16 * m.each // m.run) if m.direct else self.tile.n // m.step

    def key(self, base: fx.Pointer, t: int, item: int) -> list[fx.Vector]:
        """Operands of 16 keys."""
        m, count = self.machine, self.key_reads
        reads = range(item * count, (item + 1) * count)
        return operands([read(base + self.key_at(t, r), m.unit) for r in reads], m.each)

    def value(self, base: fx.Pointer, j: int, item: int) -> list[fx.Vector]:
        """Operands of 16 columns."""
        m, count = self.machine, self.value_reads
        reads = range(item * count, (item + 1) * count)
        if m.direct:
            return operands([read_turned(base + self.value_at(j, r)) for r in reads], m.each)
        return operands([read(base + self.column_at(j, r), m.unit) for r in reads], m.each)

    def key_at(self, t: int, r: int) -> fx.Int32:
        """Where read `r` of the 16 keys `t` is."""
        m, units = self.machine, self.keys.units
        mask = bits(units)
        return self._place("k", r * m.groups & mask) + (t * 16 * units + (r * m.groups & ~mask)) * m.unit

    def column_at(self, j: int, r: int) -> fx.Int32:
        """Where read `r` of 16 columns is that were turned."""
        m, mask = self.machine, bits(self.long)
        place = self._place("c", (r * m.groups ^ 2 * j) & mask)
        return place + (16 * j * self.long + (r * m.groups & ~mask)) * m.unit

    def value_at(self, j: int, r: int) -> fx.Int32:
        """Where a lane's part of read `r` of 16 columns is, which transposes them."""
        m, units = self.machine, self.values.units
        high, unit = (16, 2 * j) if m.size == 2 else (32, j)
        mask = 2 * bits(units // 2) if m.size == 2 else bits(units)
        return self._place("v", unit & mask) + (r * high * units + (unit & ~mask)) * m.unit

    def _place(self, what: str, constant: int) -> fx.Int32:
        if (what, constant) not in self.first:
            self.first[what, constant] = self._compute(what, constant)
        return self.first[what, constant]

    def _compute(self, what: str, constant: int) -> fx.Int32:
        m, low, part = self.machine, self.low, self.part
        if what == "k":
            units = self.keys.units
            return (low * units + (part ^ mixed(low, units) ^ constant)) * m.unit
        if what == "c":
            mix = mixed_column(low, low // 8, self.long)
            return (low * self.long + (part ^ mix ^ constant)) * m.unit
        units = self.values.units
        if m.size == 2:
            row = part * 4 + low // 4
            return (row * units + (low % 4 // 2 ^ mixed_value(row, units, m) ^ constant)) * m.unit + low % 2 * 4
        row = low // 8 * 16 + part * 4 + low // 2 % 4
        return (row * units + (mixed_value(row, units, m) ^ constant)) * m.unit + low % 2 * 8


def bits(units: int) -> int:
    """Of a unit's number, those that are permuted."""
    return 7 if units % 8 == 0 else 3 if units % 4 == 0 else 1 if units % 2 == 0 else 0


__all__ = [
    "Reader", "column_place", "copy_unit", "group_of", "held", "joined", "key_of", "load_unit", "mixed",
    "mixed_column", "mixed_value", "operands", "registers", "turned", "unit_of", "write",
]  # fmt: skip
