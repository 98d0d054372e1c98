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

from .architectures import ARCHITECTURES

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


def chip_for(arch: str, needs: Iterable[str]) -> str:
    """The processor to generate code for: the architecture, with the suffix `a` if the code says that it needs it."""
    return f"{arch}a" if ARCH_SPECIFIC in needs and f"{arch}a" in ARCHITECTURES else arch


def features_for(features: str, needs: Iterable[str]) -> str:
    """Features of LLVM with the PTX version that the code needs, where they have an older one."""
    wanted = ptx_version(needs)
    words = [word for word in features.split(",") if word]
    return ",".join(f"+ptx{max(int(w[4:]), wanted)}" if re.fullmatch(r"\+ptx\d+", w) else w for w in words)
