"""The dialect `fly_rocdl`, with its types."""

from __future__ import annotations

from ...expr.rocdl.atom_types import (
    CopyOpCDNA3BufferAtomicType,
    CopyOpCDNA3BufferCopyLDSType,
    CopyOpCDNA3BufferCopyType,
    CopyOpCDNA4BufferLoadAsyncLDSType,
    CopyOpCDNA4GlobalLoadAsyncLDSType,
    CopyOpCDNA4LdsReadTransposeType,
    CopyOpCDNA5TensorLoadType,
    CopyOpCDNA5TensorStoreType,
    CopyOpGFX1250TDMType,
    MmaOpCDNA3_MFMAType,
    MmaOpCDNA4_MFMAScaleType,
    MmaOpGFX11_WMMAType,
    MmaOpGFX120X_WMMAType,
    MmaOpGFX1250_WMMAScaleType,
    MmaOpGFX1250_WMMAType,
)
from .generated import module

__getattr__, __dir__ = module("fly_rocdl", globals())

__all__ = [
    "CopyOpCDNA3BufferAtomicType",
    "CopyOpCDNA3BufferCopyLDSType",
    "CopyOpCDNA3BufferCopyType",
    "CopyOpCDNA4BufferLoadAsyncLDSType",
    "CopyOpCDNA4GlobalLoadAsyncLDSType",
    "CopyOpCDNA4LdsReadTransposeType",
    "CopyOpCDNA5TensorLoadType",
    "CopyOpCDNA5TensorStoreType",
    "CopyOpGFX1250TDMType",
    "MmaOpCDNA3_MFMAType",
    "MmaOpCDNA4_MFMAScaleType",
    "MmaOpGFX11_WMMAType",
    "MmaOpGFX120X_WMMAType",
    "MmaOpGFX1250_WMMAScaleType",
    "MmaOpGFX1250_WMMAType",
]
