"""The dialect object of `fly_nvgpu`."""

from __future__ import annotations

from xdsl.ir import Dialect

from . import bulk, ops
from .cp_async import CpAsyncType, CpAsyncZeroFillType
from .global_access import LoadGlobalType, StoreGlobalType
from .matrix_copy import LdMatrixType, StMatrixType
from .mma_sync import MmaSyncType
from .tma import MakeTensorMapOp, TensorMapType
from .wgmma import WgmmaType

FlyNvgpu = Dialect(
    "fly_nvgpu",
    [
        ops.CallOp,
        ops.MBarrierWaitOp,
        ops.MBarrierArriveRemoteOp,
        ops.AsmOp,
        ops.PeerOp,
        ops.ElectOp,
        ops.UniformOp,
        ops.WgmmaWaitOp,
        ops.HoldOp,
        ops.AddGlobalOp,
        ops.TmaLoadOp,
        ops.TmaStoreOp,
        *bulk.OPS,
        MakeTensorMapOp,
    ],
    [
        CpAsyncType,
        CpAsyncZeroFillType,
        LoadGlobalType,
        StoreGlobalType,
        LdMatrixType,
        StMatrixType,
        MmaSyncType,
        WgmmaType,
        TensorMapType,
    ],
)
