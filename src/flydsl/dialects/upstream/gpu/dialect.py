"""The whole `gpu` dialect."""

from __future__ import annotations

from xdsl.ir import Dialect

from . import GPU_OPS, AsyncTokenType, BarrierScopeAttr, DimensionAttr, ShuffleModeAttr
from .binary import BINARY_ATTRS, BINARY_OPS
from .ids import ID_OPS
from .memory import AddressSpaceAttr
from .warp import WARP_ATTRS, WARP_OPS

Gpu = Dialect(
    "gpu",
    [*GPU_OPS, *ID_OPS, *WARP_OPS, *BINARY_OPS],
    [DimensionAttr, ShuffleModeAttr, BarrierScopeAttr, AsyncTokenType, AddressSpaceAttr, *WARP_ATTRS, *BINARY_ATTRS],
)
