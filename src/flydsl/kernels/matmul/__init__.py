"""Matrix products: `matmul` picks the kernel and its tile from extents, types, layout and device."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .amd.blocks import MxMatrix
    from .amd.weights import PreshuffledWeight, preshuffle_weight
    from .entry import matmul
    from .grouped import grouped_matmul
    from .weights import QuantizedWeight, dequantize_weight, quantize_weight

_WHERE = {
    "matmul": ".entry", "grouped_matmul": ".grouped", "QuantizedWeight": ".weights", "dequantize_weight": ".weights",
    "quantize_weight": ".weights", "PreshuffledWeight": ".amd.weights", "MxMatrix": ".amd.blocks",
    "preshuffle_weight": ".amd.weights",
}  # fmt: skip


if not TYPE_CHECKING:
    # A type checker takes every name for one of a module that has this.
    def __getattr__(name: str) -> object:
        """Names are loaded on first use: others read the arrays' words here, and need no product."""
        if name not in _WHERE:
            raise AttributeError(f"flydsl.kernels.matmul has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_WHERE[name], __name__), name)
        return value


__all__ = [
    "MxMatrix", "PreshuffledWeight", "QuantizedWeight", "dequantize_weight", "grouped_matmul", "matmul",
    "preshuffle_weight", "quantize_weight",
]  # fmt: skip
