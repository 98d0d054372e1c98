"""What writes functions of the upper dialects: the rules of `lowering/` through the text sink, and control flow."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from ...lowering.rules.arith_rules import ARITH
from ...lowering.rules.func_rules import CALLS
from ...lowering.rules.sink import Rule
from ...lowering.rules.vector_rules import VECTOR
from .control import CONTROL
from .function_text import Handler
from .memory_ops import MEMORY_OPS


def table(rules: Mapping[type[Operation], Rule]) -> dict[type[Operation], Handler]:
    """The table of a target with rules beyond the common ones, or instead of them."""
    return {**MEMORY_OPS, **ARITH, **VECTOR, **CALLS, **CONTROL, **rules}
