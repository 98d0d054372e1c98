"""Tensor copies on the CPU: boxes of a tensor between global and shared memory, as the copy engine of sm_90 does them.

A tensor map is 128 bytes: address at 0, rank at 8, bytes per element at 12, bytes of the swizzle at 16, the driver's
number of the data type at 20, extents (innermost first) at 24, strides in bytes from the second dimension on at 64,
extents of the box at 96 (`cpu/runtime/native.py` writes it). Rows of a box lie packed in shared memory; a swizzle
exchanges 16-byte units by address bits 7 to 9. What lies outside the tensor is read as zero and not written.

A map may say more than its array has. In checked mode the host writes what it knows of the array behind the box
(`KNOWN`, `ROOM` of `dialects/fly_nvgpu/tma.py`), and elements that the map has and the array has not are reported, read
as zero and not written.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dialects.fly_nvgpu.tma import KNOWN, ROOM
from ...llvm.text.routine import Routine, Value
from . import bf16_atomics
from . import report as cpu_report
from .block import BLOCK_IDS
from .shadow import ATOMIC, GLOBAL_SITE, ISSUED, READS, WRITES

ADDRESS, RANK, ELEMENT, SWIZZLE, TYPE, EXTENTS, STRIDES, BOX = 0, 8, 12, 16, 20, 24, 64, 96
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_COORDS = "i32 c0, i32 c1, i32 c2, i32 c3, i32 c4"
_SAID = ", ptr flag, ptr said"
"""In checked mode the last parameters: what an access behind the array is reported with."""
_FAR = 1 << 62
"""Bytes of an array of which nothing is known."""

_TYPES = {
    0: ("i8", False), 1: ("i16", False), 2: ("i32", False), 3: ("i32", True), 4: ("i64", False), 5: ("i64", True),
    6: ("half", None), 7: ("float", None), 8: ("double", None), 9: ("i16", None),
}  # fmt: skip
"""LLVM type of a data type, and whether integers have a sign; bf16 is the float that is i16."""


def _elements(r: Routine, shared: Value, each: Callable[[Value, Value, Value, Value], None], checked: bool) -> Value:
    """Call `each(place in shared memory, place in the tensor, inside, bytes)` for the elements of a box.

    Whole 16-byte units inside the tensor come as one; gives the bytes of the box. In checked mode what lies behind the
    array is reported, and not inside.
    """
    tensor_map = r["map"]
    base = r.load("ptr", tensor_map)
    size = r.load("i32", tensor_map, ELEMENT).to("i64")
    width = r.load("i32", tensor_map, SWIZZLE).to("i64")
    # 32, 64, 128 bytes: one, two, three bits of the unit's number take part.
    mask = r.choose(width.is_(0), r.number(0), (width >> 4) - 1)
    rank = r.load("i32", tensor_map, RANK).to("i64")
    boxes: list[Value] = []
    for d in range(5):
        extent = r.load("i32", tensor_map, BOX + 4 * d).to("i64")
        boxes.append(r.choose(rank > d, extent, r.number(1)))
    extents = [r.load("i64", tensor_map, EXTENTS + 8 * d) for d in range(5)]
    coords = [r[f"c{d}"].to("i64", signed=True) for d in range(5)]
    row_bytes = boxes[0] * size
    first = r.address(shared)
    done = r.variable("i64", 0)
    known = r.load("i32", tensor_map, KNOWN).is_not(0) if checked else None
    room = None if known is None else r.choose(known, r.load("i64", tensor_map, ROOM), r.number(_FAR))

    def rows(d: int, offset: Value, inside: Value) -> None:
        if d == 0:
            row(offset, inside)
            return
        with r.loop(boxes[d]) as i:
            at = coords[d] + i
            used = rank > d
            step = r.choose(used, r.load("i64", tensor_map, STRIDES + 8 * (d - 1)), r.number(0))
            fits = (at < extents[d]) | ~used
            rows(d - 1, offset + at * step, inside & fits)

    def row(offset: Value, inside: Value) -> None:
        start = done.get()
        with r.loop(row_bytes, step=16) as x:
            place = first + start + x
            swizzled = place ^ (((place >> 7) & mask) << 4)
            unit = r.assign("ptr", f"inttoptr i64 {swizzled.name} to ptr")
            column = coords[0] + x // size
            begin = offset + column * size
            there = r.at(base, begin)
            last = column + r.number(16) // size
            # Coordinates may be negative; as unsigned numbers those are too large.
            whole = inside & (column < extents[0]) & (last <= extents[0])
            if room is not None:
                whole = whole & _in_room(room, begin + 16)

            def piece() -> None:
                with r.loop(r.number(16), step=size) as y:
                    one = column + y // size
                    mine, at, wanted = r.at(unit, y), r.at(there, y), inside & (one < extents[0])
                    if room is not None:
                        fits = _in_room(room, begin + y + size)
                        with r.when(wanted & ~fits):
                            _report(r, at, base, room)
                        wanted = wanted & fits
                    each(mine, at, wanted, size)

            r.either(whole, lambda: each(unit, there, whole, r.number(16)), piece)
        done.set(start + row_bytes)

    rows(4, r.number(0), r.number(1, "i1"))
    return done.get()


def _in_room(room: Value, end: Value) -> Value:
    """Whether an array reaches as far as that; what a map has in front of its address is nothing it is asked for."""
    return ((room - end) >> 63).is_(0)


def _report(r: Routine, there: Value, base: Value, room: Value) -> None:
    low = r.address(base)
    ids = [r.load("i64", r["state"], BLOCK_IDS + 8 * i) for i in range(3)]
    nothing = Value(r, "ptr", "null")
    r.call(
        "fly_report", "void", r["flag"], r["said"], ("i64", cpu_report.MISTAKE), r.address(there), low, low + room,
        r["tid"], *ids, nothing, ("i64", 0), nothing,
    )  # fmt: skip


def _move(r: Routine, to: Value, source: Value, nbytes: Value) -> None:
    def unit() -> None:
        r.store("<2 x i64>", r.load("<2 x i64>", source), to)

    def single() -> None:
        with r.loop(nbytes) as i:
            r.store("i8", r.load("i8", source, i), to, i)

    r.either(nbytes.is_(16), unit, single)


def _search(r: Routine, there: Value, nbytes: Value, how: int, differs: Value | None = None) -> None:
    """In checked mode: compare an access to the tensor with those of others."""
    ids = [r.load("i64", r["state"], BLOCK_IDS + 8 * i) for i in range(3)]
    table = r.load("ptr", r["state"], GLOBAL_SITE)
    r.call(
        "fly_check_global", "void", r["state"], r["tid"], *ids, there, nbytes, ("i32", how),
        ("i1", 1) if differs is None else differs, table, Value(r, "ptr", "null"), ("i64", 0), ("i64", 0),
    )  # fmt: skip


def load(checked: bool) -> Routine:
    """A box into the shared memory of the blocks in `mask`, its bytes counted on the barrier of each."""
    r = Routine(
        "fly_tma_load", "void",
        f"ptr state, i64 tid, ptr to, ptr barrier, ptr map, {_COORDS}, i32 mask, i1 several{_SAID * checked}",
    )  # fmt: skip
    with r.loop(16) as block:
        rank = block.to("i32")
        chosen = ((r["mask"] >> rank) & 1).is_not(0) & r["several"]
        alone = block.is_(0) & ~r["several"]
        with r.when(chosen | alone):
            to, barrier = r.variable("ptr", r["to"]), r.variable("ptr", r["barrier"])
            with r.when(r["several"]):
                for place in (to, barrier):
                    place.set(r.value_of("fly_remote", "ptr", r["state"], r["tid"], place.get(), rank))

            def each(shared: Value, there: Value, inside: Value, nbytes: Value) -> None:
                def zero() -> None:
                    with r.loop(nbytes) as i:
                        r.store("i8", 0, shared, i)

                def move() -> None:
                    if checked:
                        _search(r, there, nbytes, READS | ISSUED)
                    _move(r, shared, there, nbytes)

                r.either(inside, move, zero)

            nbytes = _elements(r, to.get(), each, checked)
            if checked:
                r.call("fly_check_async_load", "void", r["state"], r["tid"], to.get(), nbytes, barrier.get())
            due = r.number(0, "i32") - nbytes.to("i32")
            r.call("fly_mbarrier_update", "void", r["state"], r["tid"], barrier.get(), ("i32", 0), due)
    return r


def store(checked: bool) -> Routine:
    """A box of shared memory into the tensor."""
    r = Routine("fly_tma_store", "void", f"ptr state, i64 tid, ptr from, ptr map, {_COORDS}{_SAID * checked}")

    def each(shared: Value, there: Value, inside: Value, nbytes: Value) -> None:
        with r.when(inside):
            if checked:
                order = r.value_of("memcmp", "i32", there, shared, nbytes, external=True)
                _search(r, there, nbytes, WRITES | ISSUED, order.is_not(0))
            _move(r, there, shared, nbytes)

    nbytes = _elements(r, r["from"], each, checked)
    if checked:
        r.call("fly_check_async_store", "void", r["state"], r["tid"], r["from"], nbytes)
    return r


def reducing(op: str) -> Callable[[bool], Routine]:
    """A box of shared memory combined into the tensor, element by element, atomically."""

    def write(checked: bool) -> Routine:
        params = f"ptr state, i64 tid, ptr from, ptr map, {_COORDS}{_SAID * checked}"
        r = Routine(f"fly_tma_reduce_{op}", "void", params)
        kind = r.load("i32", r["map"], TYPE)
        size = r.load("i32", r["map"], ELEMENT).to("i64")

        def combine(shared: Value, there: Value) -> None:
            for code, (type_, signed) in _TYPES.items():
                word = _word(op, signed)
                if word is None:
                    continue
                with r.when(kind.is_(code)):
                    value = r.load(type_, shared)
                    bf16_atomics.update(r, word, there, value)

        def each(shared: Value, there: Value, inside: Value, nbytes: Value) -> None:
            with r.when(inside):
                if checked:
                    _search(r, there, nbytes, READS | WRITES | ATOMIC | ISSUED)
                with r.loop(nbytes, step=size) as i:
                    combine(r.at(shared, i), r.at(there, i))

        nbytes = _elements(r, r["from"], each, checked)
        if checked:
            r.call("fly_check_async_store", "void", r["state"], r["tid"], r["from"], nbytes)
        return r

    return write


def _word(op: str, signed: bool | None) -> str | None:
    """The operation of `atomicrmw`, None where the type has none."""
    if signed is None:
        return {"add": "fadd", "min": "fmin", "max": "fmax"}.get(op)
    words = {"add": "add", "inc": "uinc_wrap", "dec": "udec_wrap", "and": "and", "or": "or", "xor": "xor"}
    return words.get(op) or ("" if signed else "u") + op
