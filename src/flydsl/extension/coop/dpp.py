"""Reductions and scans of AMD's waves in registers: DPP and permlane instructions, no access to shared memory.

After a step of a reduction the lanes of a group all hold its total, so a mirror image of twice the group serves as
well as an exchange of neighbours, and each step is one operand of the instruction that combines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from ...expr.gpu import lane_id
from ...expr.numeric import CLASSES, Boolean, Int32, Numeric
from ...expr.rocdl import instructions
from ...expr.rocdl.target import trace_target
from ...expr.vector import Vector
from ...ir.enums import ReductionOp
from .operators import combine, identity

if TYPE_CHECKING:
    from ...expr.annotations import ScalarT
    from ...target import GPUTarget

_ROW = 16
_WIDTHS = {False: (1, 8, 16, 32, 64), True: (16, 32, 64)}
"""Bits of the integers and floats that can be moved."""
_IN_ROWS = ((1, 0xB1), (2, 0x4E), (4, 0x141), (8, 0x140))
"""Lanes already combined, and the move that brings the others: quad_perm [1,0,3,2], [2,3,0,1], row_half_mirror,
row_mirror."""
_BROADCAST_15, _BROADCAST_31 = 0x142, 0x143
"""The last lane of a row to the next row, of the first half to the second."""
_ROW_SHIFT, _WAVE_SHIFT = 0x110, 0x138
"""Each lane gets what the lane so many places before it has: in its row, and by one place in the whole wave."""
_LAST = (-1, -1)
"""The last lane of a row for all, for permlanex16."""
_ORDER = (0x76543210, 0xFEDCBA98 - (1 << 32))
"""Lanes of a row in order, for permlanex16."""


def _words(x: Numeric) -> list[Int32]:
    """The words of a value; one of less than 32 bits is in the low part of one."""
    cls = type(x)
    if cls.width > 32:
        words = Vector.from_elements([x], cls).bitcast(Int32)
        return [Int32(words[i]) for i in range(cls.width // 32)]
    if cls.is_float:
        return [Int32(x.bitcast(Int32 if cls.width == 32 else CLASSES[f"Uint{cls.width}"]))]
    return [Int32(x)]


def _of_words(words: Sequence[Int32], cls: type[Numeric]) -> Numeric:
    """The value of a class that has these words."""
    if cls.width > 32:
        return Vector.from_elements(list(words), Int32).bitcast(cls)[0]
    if cls.is_float:
        bits = words[0] if cls.width == 32 else CLASSES[f"Uint{cls.width}"](words[0])
        return bits.bitcast(cls)
    return words[0] != 0 if cls is Boolean else cls(words[0])


def _moved(x: Numeric, move: Callable[[Int32], Int32]) -> Numeric:
    """A value whose words are moved between lanes."""
    return _of_words([move(word) for word in _words(x)], type(x))


def _dpp(x: Numeric, control: int) -> Numeric:
    """What the lanes have that a control names; every lane has one."""
    return _moved(x, lambda word: instructions.update_dpp(Int32, Int32(0), word, control, 0xF, 0xF, True))


def _broadcast(x: Numeric, control: int, rows: int, nothing: Numeric) -> Numeric:
    """What another row has, in the rows of a mask; `nothing` in the others."""
    words = [
        instructions.update_dpp(Int32, old, word, control, rows, 0xF, False)
        for word, old in zip(_words(x), _words(nothing), strict=True)
    ]
    return _of_words(words, type(x))


def _swapped(x: Numeric) -> tuple[Numeric, Numeric]:
    """What the even and what the odd rows have, in both."""
    pairs = [instructions.permlane16_swap(Int32, word, word) for word in _words(x)]
    first, second = (_of_words([pair[i] for pair in pairs], type(x)) for i in range(2))
    return first, second


def _target(dtype: type[Numeric]) -> GPUTarget | None:
    """The target, if it moves values of this class between lanes."""
    target = trace_target()
    if target is None or target.on_host or not target.has("amd") or dtype.width not in _WIDTHS[dtype.is_float]:
        return None
    return target


def warp_reduce(value: ScalarT, op: ReductionOp, lanes: int) -> ScalarT | None:
    """All values of a segment combined, in all its lanes; None where the target has no such instructions."""
    target = _target(type(value))
    if target is None:
        return None
    made = cast(Numeric, value)
    for done, control in _IN_ROWS:
        if done < lanes:
            made = combine(op, made, _dpp(made, control))
    return cast("ScalarT", made if lanes <= _ROW else _over_rows(made, op, lanes, target))


def _over_rows(made: Numeric, op: ReductionOp, lanes: int, target: GPUTarget) -> Numeric:
    """The totals of rows of 16 lanes combined."""
    if not target.has("dpp_wave"):
        return combine(op, made, _moved(made, _other_row))
    half = lanes == 2 * _ROW
    if half and target.has("permlane16_swap"):
        return combine(op, *_swapped(made))
    nothing = identity(op, type(made))
    made = combine(op, made, _broadcast(made, _BROADCAST_15, 0b1010, nothing))
    if half:
        low, high = (_read(made, at) for at in (lanes - 1, 2 * lanes - 1))
        return (lane_id() >= lanes).select(high, low)
    made = combine(op, made, _broadcast(made, _BROADCAST_31, 0b1100, nothing))
    return _read(made, lanes - 1)


def _read(x: Numeric, lane: int) -> Numeric:
    return _moved(x, lambda word: instructions.readlane(Int32, word, lane))


def inclusive_scan(value: ScalarT, op: ReductionOp, lanes: int, position: Numeric) -> ScalarT | None:
    """Each lane's value combined with those before it in its segment; None where there are no such instructions."""
    target = _target(type(value))
    if target is None:
        return None
    made, nothing = cast(Numeric, value), identity(op, type(cast(Numeric, value)))
    offset = 1
    while offset < min(lanes, _ROW):
        before = _broadcast(made, _ROW_SHIFT | offset, 0xF, nothing)
        added = combine(op, before, made)
        # A row is a segment or holds several: then what came from the one before does not count.
        made = added if lanes >= _ROW else (position >= offset).select(added, made)
        offset *= 2
    if lanes > _ROW and target.has("dpp_wave"):
        made = combine(op, _broadcast(made, _BROADCAST_15, 0b1010, nothing), made)
        if lanes == 4 * _ROW:
            made = combine(op, _broadcast(made, _BROADCAST_31, 0b1100, nothing), made)
    elif lanes > _ROW:
        added = combine(op, _moved(made, lambda word: _other_row(word, _LAST)), made)
        made = (position >= _ROW).select(added, made)
    return cast("ScalarT", made)


def one_before(value: ScalarT, op: ReductionOp, lanes: int, position: Numeric) -> ScalarT | None:
    """What the lane before has, the identity in the first lane of a segment; None without such instructions."""
    target = _target(type(value))
    if target is None:
        return None
    held, nothing = cast(Numeric, value), identity(op, type(cast(Numeric, value)))
    whole = target.has("dpp_wave") and lanes > _ROW
    moved = _broadcast(held, _WAVE_SHIFT if whole else _ROW_SHIFT | 1, 0xF, nothing)
    if lanes > _ROW and not whole:
        moved = (position == _ROW).select(_moved(held, lambda word: _other_row(word, _LAST)), moved)
    elif lanes not in (_ROW, target.warp_size):
        moved = (position == 0).select(nothing, moved)
    return cast("ScalarT", moved)


def last_of_segment(value: ScalarT, lanes: int) -> ScalarT | None:
    """What the last lane of a segment has, in all of them; None where that takes other means."""
    target = _target(type(value))
    if target is None or lanes != target.warp_size:
        return None
    return cast("ScalarT", _read(cast(Numeric, value), lanes - 1))


def _other_row(word: Int32, order: tuple[int, int] = _ORDER) -> Int32:
    """The same lane of the other row of 16, or the lanes of it that are named."""
    low, high = (Int32(n).ir_value() for n in order)
    no, yes = (Boolean(flag).ir_value() for flag in (False, True))
    return instructions.call("permlanex16.i32", Int32, word.ir_value(), word.ir_value(), low, high, no, yes)
