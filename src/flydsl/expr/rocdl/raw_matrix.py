"""Block-scaled matrix instructions on values, as FlyDSL names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import DSLValueError
from .. import numeric
from ..numeric import Float32, Int32, Numeric, as_numeric
from ..tensor import Tensor, make_rmem_tensor
from ..tensors.matrix_product import mma_atom_call
from ..tensors.tiled import make_mma_atom
from .cdna4 import MFMA_Scale
from .instructions import bits_as

if TYPE_CHECKING:
    from ..annotations import ElementLike, ValueLike
    from ..vector import Vector

_FORMATS = ("Float8E4M3FN", "Float8E5M2", "Float6E2M3FN", "Float6E3M2FN", "Float4E2M1FN")
"""Types of A and B by the numbers that `cbsz` and `blgp` are."""


def _format(name: str, number: ValueLike) -> type[Numeric]:
    at = int(as_numeric(number))
    if at not in range(len(_FORMATS)):
        raise DSLValueError(f"{name} is the format of an operand, 0 to 4 for {', '.join(_FORMATS)}; got {at}")
    return getattr(numeric, _FORMATS[at])


def _scaled(m: int, k: int, operands: Sequence[ValueLike]) -> Vector:
    a, b, c, cbsz, blgp, opsel_a, scale_a, opsel_b, scale_b = operands
    types = _format("cbsz", cbsz), _format("blgp", blgp)
    op = MFMA_Scale(m, m, k, *types, opsel_a=int(as_numeric(opsel_a)), opsel_b=int(as_numeric(opsel_b)))
    fragments: list[Tensor] = []
    for value, cls in zip((a, b, c), (*types, Float32), strict=True):
        count = m * m // 64 if cls is Float32 else m * k // 64
        fragment = make_rmem_tensor(count, cls)
        # The instruction takes registers for 8-bit values; narrower ones leave the rest of them unused.
        fragment.store(bits_as(value, cls, count))
        fragments.append(fragment)
    scales = {"scale_a": Int32(as_numeric(scale_a)), "scale_b": Int32(as_numeric(scale_b))}
    mma_atom_call(make_mma_atom(op), fragments[2], fragments[0], fragments[1], fragments[2], **scales)
    return fragments[2].load()


def mfma_scale_f32_16x16x128_f8f6f4(result_type: ElementLike, operands: Sequence[ValueLike]) -> Vector:
    """`[a, b, c, cbsz, blgp, opsel_a, scale_a, opsel_b, scale_b]`: 16x16x128 on scaled values.

    >>> def example():
    ...     ones = fx.full(8, 0x38383838, fx.Int32)
    ...     one = fx.Int32(0x7F7F7F7F)
    ...     operands = [ones, ones, fx.full(4, 0.0, fx.Float32), 0, 0, 0, one, 0, one]
    ...     return fx.rocdl.mfma_scale_f32_16x16x128_f8f6f4(fx.T.f32x4, operands)[0]
    >>> flyc.evaluate(example, threads=64, target="cpu:gfx950")[0]
    128.0
    """
    return _scaled(16, 128, operands)


def mfma_scale_f32_32x32x64_f8f6f4(result_type: ElementLike, operands: Sequence[ValueLike]) -> Vector:
    """`[a, b, c, cbsz, blgp, opsel_a, scale_a, opsel_b, scale_b]`: 32x32x64 on scaled values.

    >>> def example():
    ...     ones = fx.full(8, 0x38383838, fx.Int32)
    ...     one = fx.Int32(0x7F7F7F7F)
    ...     operands = [ones, ones, fx.full(16, 0.0, fx.Float32), 0, 0, 0, one, 0, one]
    ...     return fx.rocdl.mfma_scale_f32_32x32x64_f8f6f4(fx.T.f32x4, operands)[0]
    >>> flyc.evaluate(example, threads=64, target="cpu:gfx950")[0]
    64.0
    """
    return _scaled(32, 64, operands)


__all__ = ["mfma_scale_f32_16x16x128_f8f6f4", "mfma_scale_f32_32x32x64_f8f6f4"]
