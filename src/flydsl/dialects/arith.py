"""xDSL's `arith` dialect with the ops it lacks."""

from __future__ import annotations

from xdsl.dialects import arith as xarith
from xdsl.ir import Dialect

from .extra_math import RemFOp

Arith = Dialect(
    "arith",
    [*xarith.Arith.operations, RemFOp],
    [*xarith.Arith.attributes],
    [*xarith.Arith._interfaces],  # pyright: ignore[reportPrivateUsage]
)
