"""Enumerations shared by the language and the dialects.

Standard library only: annotations need them before xDSL loads.
"""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum


class AddressSpace(IntEnum):
    """Where a pointer points; targets map these to their own numbers late.

    >>> AddressSpace.Shared.keyword
    'shared'
    """

    Generic = 0
    Global = 1
    Shared = 2
    Register = 3

    @property
    def keyword(self) -> str:
        """The word used in IR text."""
        return self.name.lower()


class CachePolicy(IntEnum):
    """Cache hints of global accesses.

    >>> CachePolicy.CacheAlways.value
    1
    """

    CacheGlobal = 0
    CacheAlways = 1


class MmaOperand(IntEnum):
    """Operands of a matrix multiply-accumulate `D = A * B + C`.

    >>> [operand.name for operand in MmaOperand]
    ['A', 'B', 'C', 'D']
    """

    A = 0
    B = 1
    C = 2
    D = 3


class AtomicOp(IntEnum):
    """Read-modify-write operations of the atomic copy atoms; `Inc` and `Dec` wrap as unsigned increments.

    >>> AtomicOp.Max.value
    1
    """

    Add = 0
    Max = 1
    Min = 2
    And = 3
    Or = 4
    Inc = 5
    Dec = 6


class GemmTraversalOrder(IntEnum):
    """Order in which `gemm` visits (m, n, k); the first letter is the innermost loop.

    >>> GemmTraversalOrder.MNK.value, GemmTraversalOrder.MNK_Serpentine.value
    (3, 9)
    """

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
    """Among whom an atomic access or a fence is ordered; each target spells it its own way, and has more of its own.

    >>> def count(x):
    ...     return fx.atomic_add(fx.get_iter(x), 1, syncscope=fx.SyncScope.Device)
    >>> flyc.evaluate(count, np.array([7], "i4"))
    7
    """

    System = ""
    Device = "device"
    Block = "block"
    Warp = "warp"
    SingleThread = "singlethread"


class RoundingMode(IntEnum):
    """How a float conversion to a narrower type rounds.

    >>> flyc.evaluate(lambda x: x.to(fx.Float16, rounding_mode=fx.RoundingMode.upward), 0.1)
    0.10003...
    """

    to_nearest_even = 0
    downward = 1
    upward = 2
    toward_zero = 3
    to_nearest_away = 4


class ReductionOp(Enum):
    """Combining operations of reductions and scans.

    >>> flyc.evaluate(lambda x: fx.Vector.from_elements([x, x + 1]).reduce(fx.ReductionOp.MUL), 5)
    30
    """

    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"
