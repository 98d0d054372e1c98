"""Bulk copies on the CPU: bytes between global and shared memory, as the copy engine of sm_90 moves them.

In checked mode the caller has tested addresses and count (`cpu_check.check_bytes`) and gives the outcome in `fine`.
What is not fine is not copied, but counted on its barrier all the same, so that the mistake is the only thing reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...llvm.text.routine import Routine, Value
from . import bf16_atomics
from .shadow import READS, SITE

_TYPES = {
    "u32": "i32", "s32": "i32", "b32": "i32", "u64": "i64", "s64": "i64", "b64": "i64",
    "f16": "half", "bf16": "i16", "f32": "float", "f64": "double",
}  # fmt: skip
PREFIX = "fly_bulk_"


class Moves(NamedTuple):
    """Which operands of a routine are the address it reads at, the one it writes at, and the bytes."""

    reads: int
    writes: int
    nbytes: int
    overwrites: bool = False
    """Whether it writes global memory, and not atomically."""
    barrier: int | None = None
    """Operand of the barrier that its bytes are counted on, if that is the own block's."""


LOADS = Moves(2, 0, 3, barrier=1)
SENDS = Moves(2, 0, 3)
"""Of `multicast` and `send`."""
STORES = Moves(0, 1, 2, True)
REDUCES = Moves(0, 1, 2)
_SIZES = {"i32": 4, "i64": 8, "half": 2, "i16": 2, "float": 4, "double": 8}


def _begin(name: str, params: str, checked: bool) -> Routine:
    return Routine(name, "void", f"ptr state, i64 tid, {params}{', i1 fine' if checked else ''}")


def _if_fine(r: Routine, checked: bool, then: Callable[[], None]) -> None:
    if not checked:
        then()
        return
    with r.when(r["fine"]):
        then()


def _copy(r: Routine, to: Value, source: Value, nbytes: Value) -> None:
    r.call("llvm.memcpy.p0.p0.i64", "void", to, source, nbytes, ("i1", 0), external=True)


def _arrive(r: Routine, to: Value, barrier: Value, source: Value, checked: bool) -> None:
    """Bytes come to shared memory and are counted on a barrier of the same block."""
    nbytes = r["bytes"].to("i64")

    def move() -> None:
        _copy(r, to, source, nbytes)
        if checked:
            r.call("fly_check_async_load", "void", r["state"], r["tid"], to, nbytes, barrier)

    _if_fine(r, checked, move)
    due = r.number(0, "i32") - r["bytes"]
    r.call("fly_mbarrier_update", "void", r["state"], r["tid"], barrier, ("i32", 0), due)


def load(checked: bool) -> Routine:
    """Global memory into the shared memory of this block."""
    r = _begin("fly_bulk_load", "ptr to, ptr barrier, ptr from, i32 bytes", checked)
    _arrive(r, r["to"], r["barrier"], r["from"], checked)
    return r


def _remote(r: Routine, place: Value, rank: Value) -> Value:
    return r.value_of("fly_remote", "ptr", r["state"], r["tid"], place, rank)


def multicast(checked: bool) -> Routine:
    """Global memory into the shared memory of the blocks in `mask`, counted on the barrier of each."""
    r = _begin("fly_bulk_load_all", "ptr to, ptr barrier, ptr from, i32 bytes, i32 mask", checked)
    with r.loop(16) as block:
        rank = block.to("i32")
        with r.when(((r["mask"] >> rank) & 1).is_not(0)):
            _arrive(r, _remote(r, r["to"], rank), _remote(r, r["barrier"], rank), r["from"], checked)
    return r


def send(checked: bool) -> Routine:
    """Shared memory of this block into that of block `rank`, counted on its barrier."""
    r = _begin("fly_bulk_send", "ptr to, ptr barrier, ptr from, i32 bytes, i32 rank", checked)
    if checked:
        with r.when(r["fine"]):
            table = r.load("ptr", r["state"], SITE)
            size = r["bytes"].to("i64")
            r.call(
                "fly_check_access", "void", r["state"], r["tid"], r["state"], r["from"], size, ("i32", READS),
                ("i1", 1), table,
            )  # fmt: skip
    _arrive(r, _remote(r, r["to"], r["rank"]), _remote(r, r["barrier"], r["rank"]), r["from"], checked)
    return r


def _leave(r: Routine, checked: bool, move: Callable[[Value], None]) -> None:
    nbytes = r["bytes"].to("i64")

    def whole() -> None:
        move(nbytes)
        if checked:
            r.call("fly_check_async_store", "void", r["state"], r["tid"], r["from"], nbytes)

    _if_fine(r, checked, whole)


def store(checked: bool) -> Routine:
    """Shared memory into global memory."""
    r = _begin("fly_bulk_store", "ptr from, ptr to, i32 bytes", checked)
    _leave(r, checked, lambda nbytes: _copy(r, r["to"], r["from"], nbytes))
    return r


def reducing(op: str, element: str) -> Callable[[bool], Routine]:
    """Shared memory combined into global memory, element by element, atomically."""
    type_ = _TYPES[element]
    word = _word(op, element)

    def write(checked: bool) -> Routine:
        r = _begin(f"{PREFIX}{op}_{element}", "ptr from, ptr to, i32 bytes", checked)
        size = _SIZES[type_]

        def combine(nbytes: Value) -> None:
            with r.loop(nbytes, step=size) as i:
                value = r.load(type_, r["from"], i)
                there = r.at(r["to"], i)
                bf16_atomics.update(r, word, there, value)

        _leave(r, checked, combine)
        return r

    return write


def _word(op: str, element: str) -> str:
    """The operation of `atomicrmw`."""
    if element in ("f16", "bf16", "f32", "f64"):
        return f"f{op}"
    signed = "" if element.startswith("s") else "u"
    return {"min": f"{signed}min", "max": f"{signed}max", "inc": "uinc_wrap", "dec": "udec_wrap"}.get(op, op)
