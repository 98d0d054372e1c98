"""Intrinsics that LLVM selects for chips without their instruction: it asks for no feature."""

from __future__ import annotations

import re

from flydsl.errors import DSLCompileError
from flydsl.llvm.binding import quote
from flydsl.target import GPUTarget
from flydsl.target.architectures import FEATURES

_UNASKED = {
    # The forms for 8 and 16 values are gfx1250's, and LLVM asks for those.
    "cvt_scale": re.compile(r"\bcall\b[^\n]*@(llvm\.amdgcn\.cvt\.scalef32\.(?!(?:sr\.)?pk(?:8|16)\.)[\w.]+)\("),
}
"""Calls by the feature that their chip must have."""


def refuse_absent(llvm_ir: str, target: GPUTarget) -> None:
    """Refuse IR that calls what a chip does not have and LLVM would make code of all the same."""
    if ".cvt.scalef32." not in llvm_ir:
        return
    for feature, calls in _UNASKED.items():
        found = None if target.has(feature) else calls.search(llvm_ir)
        if found is not None:
            line = llvm_ir.count("\n", 0, found.start()) + 1
            shown = quote(llvm_ir.split("\n"), line)
            raise DSLCompileError(f"{target.arch} has no {found[1]}: it lacks {FEATURES[feature]}\n{shown}")
