"""What the collectives of a warp are told: lanes of a segment, and one scalar per lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import DSLTypeError, DSLValueError
from ....expr.gpu import num_warp_threads
from ....expr.numeric import as_numeric
from ....expr.vector import Vector

if TYPE_CHECKING:
    from ....expr.annotations import ScalarT


def check_width(width: object) -> int:
    """Lanes of a segment: a power of two, at most a warp, which is the default."""
    warp = num_warp_threads()
    if width is None:
        return warp
    if not isinstance(width, int) or isinstance(width, bool) or width < 1 or width & (width - 1) or width > warp:
        raise DSLValueError(f"width must be a power of two from 1 to the warp size {warp}, got {width!r}")
    return width


def check_scalar(value: ScalarT) -> ScalarT:
    if isinstance(value, Vector):
        raise DSLTypeError("a warp collective takes one scalar per lane; fold a Vector first, with v.reduce(op)")
    return as_numeric(value)
