"""Coordinates known at compile time against shapes known at compile time: an element must be one of the tensor's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import layout as L
from ...errors import DSLValueError

if TYPE_CHECKING:
    from ..tensor import Tensor


def check_coordinate(t: Tensor, coord: L.IntTuple) -> None:
    """Refuse a constant coordinate outside a tensor; a negative one does not count from the end.

    What is known at run time only is left to checked mode. Tensors of coordinates have no memory: they may be asked
    about any place.
    """
    if type(coord) is not int and (type(coord) is not tuple or not _has_constant(coord)):
        return
    if getattr(t.data.iter, "data", None) is None:
        return
    shape = t.data.layout.shape
    wrong = _outside(coord, shape)
    if wrong is None:
        return
    at, extent = wrong
    what = f"index {at} of {L.format_int_tuple(coord)}" if type(coord) is tuple else f"index {at}"
    if at < 0:
        raise DSLValueError(
            f"{what} is negative: the elements of {L.format_any(t.data.layout)} are counted from 0; "
            "from the end it is x.shape[0] - 1"
        )
    raise DSLValueError(f"{what} is out of bounds: {L.format_any(t.data.layout)} has 0 to {extent - 1} there")


def _has_constant(coord: tuple[L.IntTuple, ...]) -> bool:
    for c in coord:
        if type(c) is int or (type(c) is tuple and _has_constant(c)):
            return True
    return False


def _outside(coord: L.IntTuple, shape: L.IntTuple) -> tuple[int, int] | None:
    """The first constant that is no coordinate of its mode, and the extent of the mode (0 where it is not known)."""
    if type(coord) is int:
        extent = L.size(shape)
        if coord < 0 or (type(extent) is int and coord >= extent):
            return coord, extent if type(extent) is int else 0
    elif type(coord) is tuple and type(shape) is tuple and len(coord) == len(shape):
        for c, s in zip(coord, shape, strict=True):
            found = _outside(c, s)
            if found is not None:
                return found
    return None
