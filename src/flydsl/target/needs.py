"""What instructions ask of the assembler beyond their architecture: the chip's own variant of it, or a later PTX.

Features say what they need (`FEATURE_NEEDS`). Lowering notes it, the conversion leaves it as the attribute
`nvvm.needs` of the device module, and LLVM IR text carries it as named metadata (`!fly.needs.ptx84 = !{}`), which
outlives passes, linking and a look at it by people. Assembly and intrinsics that a user writes declare nothing: their
own text tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

ATTRIBUTE = "nvvm.needs"
"""Attribute of a device module: the words below, in order."""
ARCH_SPECIFIC = "arch-specific"
"""The variant of an architecture that no later chip has: `sm_90a`."""

FEATURE_NEEDS: dict[str, str] = {"wgmma": ARCH_SPECIFIC, "setmaxnreg": ARCH_SPECIFIC, "mma_sync_fp8": "ptx84"}

_WRITTEN = (
    (re.compile(r"wgmma|tcgen05|setmaxnreg|\bmma\.sync\S*block_scale"), ARCH_SPECIFIC),
    (re.compile(r"\bmma\.(?:sync\.aligned\.)?m16n8k\d+\.row\.col\.\w+\.e\dm\d"), "ptx84"),
)
_LINE = re.compile(r"^!fly\.needs\.([\w-]+) = ", re.MULTILINE)


@lru_cache(maxsize=256)
def of_code(text: str) -> frozenset[str]:
    """What assembly, or an intrinsic by its name, needs."""
    return frozenset(word for written, word in _WRITTEN if written.search(text))


def lines(needs: Iterable[str]) -> list[str]:
    """Needs as lines of LLVM IR."""
    return [f"!fly.needs.{word} = !{{}}" for word in sorted(needs)]


def read(llvm_ir: str) -> frozenset[str]:
    """The needs that LLVM IR declares."""
    return frozenset(_LINE.findall(llvm_ir)) if "!fly.needs." in llvm_ir else frozenset()


def ptx_version(needs: Iterable[str]) -> int:
    """The PTX version among needs; 0 if there is none."""
    return max((int(word[3:]) for word in needs if word.startswith("ptx")), default=0)
