"""Enumerations shared by the language and the dialects.

Standard library only: annotations need them before xDSL loads.
"""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum


class AddressSpace(IntEnum):
    """Where a pointer points; targets map these to their own numbers late."""

    Generic = 0
    Global = 1
    Shared = 2
    Register = 3

    @property
    def keyword(self) -> str:
        """The word used in IR text."""
        return self.name.lower()


class CachePolicy(IntEnum):
    """Cache hints of global accesses."""

    CacheGlobal = 0
    CacheAlways = 1


class MmaOperand(IntEnum):
    """Operands of a matrix multiply-accumulate `D = A * B + C`."""

    A = 0
    B = 1
    C = 2
    D = 3


class AtomicOp(IntEnum):
    """Read-modify-write operations of the atomic copy atoms; `Inc` and `Dec` wrap as unsigned increments."""

    Add = 0
    Max = 1
    Min = 2
    And = 3
    Or = 4
    Inc = 5
    Dec = 6


class GemmTraversalOrder(IntEnum):
    """Order in which `gemm` visits (m, n, k); the first letter is the innermost loop."""

    KMN = 0
    KNM = 1
    MKN = 2
    MNK = 3
    NKM = 4
    NMK = 5
    KMN_Serpentine = 6
    KNM_Serpentine = 7
    MKN_Serpentine = 8
    MNK_Serpentine = 9
    NKM_Serpentine = 10
    NMK_Serpentine = 11


class SyncScope(StrEnum):
    """Scope of an atomic access, as LLVM spells it; targets add their own."""

    System = ""
    SingleThread = "singlethread"


class RoundingMode(IntEnum):
    """How a float conversion to a narrower type rounds."""

    to_nearest_even = 0
    downward = 1
    upward = 2
    toward_zero = 3
    to_nearest_away = 4


class ReductionOp(Enum):
    """Combining operations of reductions and scans."""

    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"
