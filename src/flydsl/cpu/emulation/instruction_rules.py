"""What the instructions of GPUs mean: one table for AMD's intrinsics, one for NVIDIA's.

`rocdl` and `nvvm` ops are looked up by the intrinsic they stand for. The names of types that LLVM appends to a name do
not matter.
"""

from __future__ import annotations

import re

from . import arithmetic_rules, conversion_rules, lane_rules, memory_rules, nvidia_rules
from .conversion_rules import scaled
from .matrix_rules import matrix_rule
from .rule_tools import Rule

AMD: dict[str, Rule] = {
    **lane_rules.RULES,
    **memory_rules.RULES,
    **arithmetic_rules.RULES,
    **conversion_rules.RULES,
}
"""The rule of an intrinsic by its name behind `llvm.amdgcn.`, but for families whose names say what they do."""
_TABLES = {"llvm.amdgcn.": AMD, "llvm.nvvm.": nvidia_rules.RULES}
_TYPE = re.compile(r"(v\d+)?(i|f|bf)\d+|p\d+|sl_\w+")


def rule_of(intrinsic: str) -> Rule | None:
    """The meaning of an intrinsic; None where there is no rule."""
    prefix = next((p for p in _TABLES if intrinsic.startswith(p)), None)
    if prefix is None:
        return None
    table, parts = _TABLES[prefix], intrinsic.removeprefix(prefix).split(".")
    while parts:
        name = ".".join(parts)
        found = table.get(name)
        if found is None and prefix == "llvm.amdgcn.":
            found = matrix_rule(name) or scaled(name)
        if found is not None:
            return found
        if _TYPE.fullmatch(parts.pop()) is None:
            return None
    return None
