"""`MxMatrix`: rows in MX blocks as an operand of `matmul`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from flydsl.errors import DSLTypeError, DSLValueError

from ...mx.formats import BLOCK, FORMATS
from ..arrays import HostArray

Held = TypeVar("Held", bound="HostArray", covariant=True)


@dataclass(frozen=True, slots=True)
class MxMatrix(Generic[Held]):
    """Rows in MX blocks, as `quantize_mx` makes them: `MxMatrix(*quantize_mx(x, kind), kind)`.

    `matmul` takes two: (M, K) and, for the second matrix, its columns as rows, (N, K).

    >>> from flydsl.kernels import quantize_mx
    >>> MxMatrix(*quantize_mx(np.ones((4, 64), "f4"), "float4_e2m1fn"), "float4_e2m1fn")
    MxMatrix(4 x 64, float4_e2m1fn)
    """

    data: Held
    """Bytes, (rows, K * bits / 8)."""
    scales: Held
    """Biased exponents, (rows, K / 32)."""
    kind: str

    def __post_init__(self) -> None:
        if self.kind not in FORMATS:
            raise DSLValueError(f"MxMatrix: kind is {', '.join(FORMATS)}, got {self.kind!r}")
        shapes = tuple(self.data.shape), tuple(self.scales.shape)
        names = [str(x.dtype).removeprefix("torch.") for x in (self.data, self.scales)]
        if names != ["uint8", "uint8"] or [len(s) for s in shapes] != [2, 2]:
            raise DSLTypeError(f"MxMatrix: data and scales are matrices of uint8, got {names} of {shapes}")
        (rows, length), (other, blocks) = shapes
        if rows != other or length * 8 != blocks * BLOCK * FORMATS[self.kind].bits:
            raise DSLValueError(f"MxMatrix: {self.kind} has a scale for {BLOCK} elements of a row, got {shapes}")

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.data.shape[0]), int(self.scales.shape[1]) * BLOCK

    def __repr__(self) -> str:
        rows, k = self.shape
        return f"MxMatrix({rows} x {k}, {self.kind})"


__all__ = ["MxMatrix"]
