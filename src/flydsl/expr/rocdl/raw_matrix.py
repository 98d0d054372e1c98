"""Block-scaled matrix instructions on values, as FlyDSL names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ...errors import DSLValueError
from .. import numeric
from ..aliases import raw_binding
from ..numeric import Float32, Int32, Numeric, as_dsl_value, as_numeric
from ..tensor import Tensor, make_rmem_tensor
from ..tensors.matrix_product import mma_atom_call
from ..tensors.tiled import make_mma_atom
from .cdna4 import MFMA_Scale
from .instructions import bits_as
from .target import ir_type

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


def _wmma(name: str, result_type: ElementLike, values: Sequence[ValueLike], options: Mapping[str, int]) -> Vector:
    """An op of the dialect on values; options that are zero are left out."""
    build = cast("Callable[..., Any]", raw_binding("rocdl", name))
    given = {key: value for key, value in options.items() if value}
    return as_dsl_value(build(ir_type(result_type), *values, **given).result)


def wmma_f32_16x16x128_fp8_fp8(
    result_type: ElementLike,
    a: ValueLike,
    b: ValueLike,
    c: ValueLike,
    *,
    modC: int = 0,
    reuseA: bool = False,
    reuseB: bool = False,
) -> Vector:
    """gfx1250's product of OCP 8-bit floats on values: 16 words of A and of B a lane, 8 sums.

    >>> def example():
    ...     ones, sums = fx.full(16, 0x38383838, fx.Int32), fx.full(8, 0.5, fx.Float32)
    ...     return fx.rocdl.wmma_f32_16x16x128_fp8_fp8(fx.Vector.make_type(8, fx.Float32), ones, ones, sums)
    >>> flyc.evaluate(example, threads=32, target="cpu:gfx1250")[0][0]
    128.5
    """
    options = {"modC": modC, "reuseA": reuseA, "reuseB": reuseB}
    return _wmma("wmma_f32_16x16x128_fp8_fp8", result_type, [a, b, c], options)


def wmma_scale_f32_16x16x128_f8f6f4(
    result_type: ElementLike,
    a: ValueLike,
    b: ValueLike,
    c: ValueLike,
    scaleA: ValueLike,
    scaleB: ValueLike,
    *,
    fmtA: int = 4,
    fmtB: int = 4,
    modC: int = 0,
    scaleAType: int = 0,
    fmtScaleA: int = 0,
    scaleBType: int = 0,
    fmtScaleB: int = 0,
    reuseA: bool = False,
    reuseB: bool = False,
) -> Vector:
    """gfx1250's product with a scale for each block of 32 along K; `fmtA` and `fmtB` are 0 to 4, from fp8 to fp4.

    >>> def example():
    ...     ones, sums = fx.full(16, 0x38383838, fx.Int32), fx.full(8, 0.5, fx.Float32)
    ...     by = fx.Int32(0x80808080)
    ...     kind = fx.Vector.make_type(8, fx.Float32)
    ...     return fx.rocdl.wmma_scale_f32_16x16x128_f8f6f4(kind, ones, ones, sums, by, by, fmtA=0, fmtB=0)
    >>> flyc.evaluate(example, threads=32, target="cpu:gfx1250")[0][0]
    512.5
    """
    options = {
        "fmtA": fmtA, "fmtB": fmtB, "modC": modC, "scaleAType": scaleAType, "fmtScaleA": fmtScaleA,
        "scaleBType": scaleBType, "fmtScaleB": fmtScaleB, "reuseA": reuseA, "reuseB": reuseB,
    }  # fmt: skip
    return _wmma("wmma_scale_f32_16x16x128_f8f6f4", result_type, [a, b, c, scaleA, scaleB], options)


def wmma_scale_f32_32x16x128_f4(
    result_type: ElementLike, a: ValueLike, b: ValueLike, c: ValueLike, scaleA: ValueLike, scaleB: ValueLike, *,
    modC: int = 0, scaleAType: int = 0, fmtScaleA: int = 0, scaleBType: int = 0, fmtScaleB: int = 0,
    reuseA: bool = False, reuseB: bool = False,
) -> Vector:  # fmt: skip
    """The same of 4-bit floats, 32 rows at once.

    >>> def example():
    ...     ones, sums = fx.full(16, 0x22222222, fx.Int32), fx.full(16, 0.5, fx.Float32)
    ...     by = fx.Int32(0x7F7F7F7F)
    ...     kind = fx.Vector.make_type(16, fx.Float32)
    ...     return fx.rocdl.wmma_scale_f32_32x16x128_f4(kind, ones, fx.full(8, 0x22222222, fx.Int32), sums, by, by)
    >>> flyc.evaluate(example, threads=32, target="cpu:gfx1250")[0][0]
    128.5
    """
    options = {
        "modC": modC, "scaleAType": scaleAType, "fmtScaleA": fmtScaleA, "scaleBType": scaleBType,
        "fmtScaleB": fmtScaleB, "reuseA": reuseA, "reuseB": reuseB,
    }  # fmt: skip
    return _wmma("wmma_scale_f32_32x16x128_f4", result_type, [a, b, c, scaleA, scaleB], options)
