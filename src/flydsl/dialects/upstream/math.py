"""xDSL's `math` dialect with the ops it lacks."""

from __future__ import annotations

from xdsl.dialects import math as xmath
from xdsl.ir import Dialect

from .extra_math import ErfcOp
from .float_tests import FLOAT_TEST_OPS

Math = Dialect("math", [*xmath.Math.operations, ErfcOp, *FLOAT_TEST_OPS], [*xmath.Math.attributes])
