"""How NVIDIA's matrix units add up, as data per architecture and operand type.

Products are exact; some of them, together with the accumulator, are aligned to the largest exponent, cut off some bits
below it, added, and the sum is rounded. No document says so, the numbers are measured: those of Hopper were held
against an H200 (tests/bits). Other generations do likewise with other numbers, as papers report (Xie et al., MMA-Sim,
2025; Khattak and Mikaitis, Accurate Models of NVIDIA Tensor Cores, 2025); until one is measured, its sums are exact.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import Float16Type
from xdsl.ir import Attribute

from ..fly.atom_lowering import MmaSums

_HOPPER = 90
_F32_FRACTION = 23
_TF32_FRACTION = 10
_F16_LEAST = -14
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8}


class Unit(NamedTuple):
    """The matrix units of a generation."""

    since: int
    """The first architecture that has them, and the last."""
    until: int
    operand_bits: int
    """Bits of A in a row of products that are added at once."""
    fraction: int
    """Bits below the largest exponent."""
    fp8_fraction: int
    """The same for operands of 8 bits."""
    fp8_kept: int
    """Bits of fraction that f32 results of operands of 8 bits have."""
    converts_fp8: bool = False
    """Whether `mma.sync` of operands of 8 bits is two of f16, and an addition."""


UNITS = (Unit(90, 90, 256, 25, 13, 13, converts_fp8=True),)


def _generation(arch: str | None) -> int:
    """The number of an architecture: `sm_90a` is 90; code for any of them is taken as for Hopper."""
    digits = "".join(filter(str.isdigit, arch or ""))
    return int(digits) if digits else _HOPPER


def sums_of(arch: str | None, name: str, acc: Attribute, *, sync: bool) -> MmaSums | None:
    """What the unit of an architecture does with operands of a type (PTX's word).

    None for integers and f64, and for generations that were not measured. `sync`: by `mma.sync`, otherwise by `wgmma`.
    """
    if name not in _BITS:
        return None
    number = _generation(arch)
    unit = next((u for u in UNITS if u.since <= number <= u.until), None)
    if unit is None:
        return None
    nearest, bits = acc == Float16Type(), _BITS[name]
    if bits == 8 and not (sync and unit.converts_fp8):
        return MmaSums(unit.operand_bits // bits, unit.fp8_fraction, unit.fp8_kept, nearest)
    if bits == 8:
        # Of the four in a register the first two go into the first product.
        return MmaSums(
            unit.operand_bits // 16, unit.fraction, _F32_FRACTION, nearest,
            least=_F16_LEAST, neighbours=2, addend_last=True,
        )  # fmt: skip
    kept = _TF32_FRACTION if name == "tf32" else None
    return MmaSums(unit.operand_bits // bits, unit.fraction, _F32_FRACTION, nearest, kept)
