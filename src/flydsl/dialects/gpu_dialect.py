"""The whole `gpu` dialect."""

from __future__ import annotations

from xdsl.ir import Dialect

from .gpu import GPU_OPS, AsyncTokenType, DimensionAttr, ShuffleModeAttr
from .gpu_binary import BINARY_ATTRS, BINARY_OPS
from .gpu_ids import ID_OPS
from .gpu_memory import AddressSpaceAttr
from .gpu_warp import WARP_ATTRS, WARP_OPS

Gpu = Dialect(
    "gpu",
    [*GPU_OPS, *ID_OPS, *WARP_OPS, *BINARY_OPS],
    [DimensionAttr, ShuffleModeAttr, AsyncTokenType, AddressSpaceAttr, *WARP_ATTRS, *BINARY_ATTRS],
)

__all__ = ["Gpu"]
