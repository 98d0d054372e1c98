"""`fx.rocdl`, for type checkers.

Written by scripts/type_stubs.py; change the tables of the package and run it again.
"""

from . import cdna3 as cdna3
from . import cdna4 as cdna4
from . import cdna5 as cdna5
from . import cluster as cluster
from . import enum as enum
from . import inline_asm as inline_asm
from . import rdna3 as rdna3
from . import rdna4 as rdna4
from . import tdm_ops as tdm_ops
from . import universal as universal
from . import utils as utils
from .atom_types import (
    CopyOpCDNA3BufferAtomicType as CopyOpCDNA3BufferAtomicType,
    CopyOpCDNA3BufferCopyLDSType as CopyOpCDNA3BufferCopyLDSType,
    CopyOpCDNA3BufferCopyType as CopyOpCDNA3BufferCopyType,
    CopyOpCDNA4BufferLoadAsyncLDSType as CopyOpCDNA4BufferLoadAsyncLDSType,
    CopyOpCDNA4GlobalLoadAsyncLDSType as CopyOpCDNA4GlobalLoadAsyncLDSType,
    CopyOpCDNA4LdsReadTransposeType as CopyOpCDNA4LdsReadTransposeType,
    CopyOpCDNA5TensorLoadType as CopyOpCDNA5TensorLoadType, CopyOpCDNA5TensorStoreType as CopyOpCDNA5TensorStoreType,
    CopyOpGFX1250TDMType as CopyOpGFX1250TDMType, MmaOpCDNA3_MFMAType as MmaOpCDNA3_MFMAType,
    MmaOpCDNA4_MFMAScaleType as MmaOpCDNA4_MFMAScaleType, MmaOpGFX11_WMMAType as MmaOpGFX11_WMMAType,
    MmaOpGFX120X_WMMAType as MmaOpGFX120X_WMMAType, MmaOpGFX1250_WMMAScaleType as MmaOpGFX1250_WMMAScaleType,
    MmaOpGFX1250_WMMAType as MmaOpGFX1250_WMMAType,
)
from .atoms import (
    BufferAtomic as BufferAtomic, BufferAtomicAdd as BufferAtomicAdd, BufferAtomicMax as BufferAtomicMax,
    BufferAtomicMin as BufferAtomicMin, BufferAtomicPkAdd as BufferAtomicPkAdd, BufferCopy as BufferCopy,
    BufferCopy128b as BufferCopy128b, BufferCopy16b as BufferCopy16b, BufferCopy32b as BufferCopy32b,
    BufferCopy64b as BufferCopy64b, BufferCopy8b as BufferCopy8b, BufferCopyLDS as BufferCopyLDS,
    BufferCopyLDS128b as BufferCopyLDS128b, BufferCopyLDS32b as BufferCopyLDS32b, BufferCopyLDS64b as BufferCopyLDS64b,
    MFMA as MFMA, SyncScope as SyncScope, WMMA as WMMA,
)
from .buffers import (
    BufferDesc as BufferDesc, get_buffer_rsrc as get_buffer_rsrc, make_buffer_ptr as make_buffer_ptr,
    make_buffer_tensor as make_buffer_tensor,
)
from .cdna5 import (
    TDM as TDM, TensorLoad as TensorLoad, TensorStore as TensorStore, WMMAScale as WMMAScale,
    make_tdm_atom as make_tdm_atom, make_tiled_tdm_atom as make_tiled_tdm_atom, tdm_partition as tdm_partition,
)
from .cluster import (
    cluster_workgroup_id_x as cluster_workgroup_id_x, cluster_workgroup_id_y as cluster_workgroup_id_y,
    cluster_workgroup_id_z as cluster_workgroup_id_z,
)
from .conversions import (
    cvt_off_f32_i4 as cvt_off_f32_i4, cvt_pk_bf16_f32 as cvt_pk_bf16_f32,
    cvt_scalef32_pk_bf16_fp4 as cvt_scalef32_pk_bf16_fp4, cvt_scalef32_pk_f32_fp4 as cvt_scalef32_pk_f32_fp4,
    cvt_scalef32_pk_fp4_f32 as cvt_scalef32_pk_fp4_f32,
)
from .enum import AddressSpace as AddressSpace, TargetAddressSpace as TargetAddressSpace
from .instructions import (
    ballot as ballot, cvt_f32_bf8 as cvt_f32_bf8, cvt_f32_fp8 as cvt_f32_fp8, cvt_pk_bf8_f32 as cvt_pk_bf8_f32,
    cvt_pk_f32_bf8 as cvt_pk_f32_bf8, cvt_pk_f32_fp8 as cvt_pk_f32_fp8, cvt_pk_fp8_f32 as cvt_pk_fp8_f32,
    cvt_pkrtz as cvt_pkrtz, ds_bpermute as ds_bpermute, ds_permute as ds_permute, ds_swizzle as ds_swizzle,
    exp2 as exp2, fmed3 as fmed3, intrinsic as intrinsic, log2 as log2, mov_dpp as mov_dpp, perm_b32 as perm_b32,
    permlane16_swap as permlane16_swap, permlane32_swap as permlane32_swap, rcp as rcp, readfirstlane as readfirstlane,
    readlane as readlane, rsq as rsq, update_dpp as update_dpp, wave_id as wave_id,
)
from .raw_matrix import (
    mfma_scale_f32_16x16x128_f8f6f4 as mfma_scale_f32_16x16x128_f8f6f4,
    mfma_scale_f32_32x32x64_f8f6f4 as mfma_scale_f32_32x32x64_f8f6f4,
    wmma_f32_16x16x128_fp8_fp8 as wmma_f32_16x16x128_fp8_fp8,
    wmma_scale_f32_16x16x128_f8f6f4 as wmma_scale_f32_16x16x128_f8f6f4,
    wmma_scale_f32_32x16x128_f4 as wmma_scale_f32_32x16x128_f4,
)
from .raw_memory import (
    buffer_load_to_lds as buffer_load_to_lds, cluster_load_async_to_lds as cluster_load_async_to_lds,
    lds_transpose_load as lds_transpose_load, raw_ptr_buffer_atomic_fadd as raw_ptr_buffer_atomic_fadd,
    raw_ptr_buffer_atomic_fmax as raw_ptr_buffer_atomic_fmax, raw_ptr_buffer_load as raw_ptr_buffer_load,
    raw_ptr_buffer_load_lds as raw_ptr_buffer_load_lds, raw_ptr_buffer_store as raw_ptr_buffer_store,
    s_buffer_load as s_buffer_load,
)
from .schedule import (
    asyncmark as asyncmark, disable_xdl_arb_stall as disable_xdl_arb_stall, iglp_opt as iglp_opt,
    s_barrier as s_barrier, s_barrier_signal as s_barrier_signal, s_barrier_wait as s_barrier_wait, s_nop as s_nop,
    s_setprio as s_setprio, s_sleep as s_sleep, s_wait_asynccnt as s_wait_asynccnt, s_wait_dscnt as s_wait_dscnt,
    s_wait_kmcnt as s_wait_kmcnt, s_wait_loadcnt as s_wait_loadcnt, s_wait_storecnt as s_wait_storecnt,
    s_wait_tensorcnt as s_wait_tensorcnt, s_waitcnt as s_waitcnt, sched_barrier as sched_barrier,
    sched_dsrd as sched_dsrd, sched_dswr as sched_dswr, sched_group_barrier as sched_group_barrier,
    sched_mfma as sched_mfma, sched_vmem as sched_vmem, wait_asyncmark as wait_asyncmark,
)
from .tdm_ops import tensor_load_to_lds as tensor_load_to_lds, tensor_store_from_lds as tensor_store_from_lds
from .utils import (
    mask_dsrd as mask_dsrd, mask_dswr as mask_dswr, mask_mfma as mask_mfma, mask_vmem_rd as mask_vmem_rd,
    normalize_s_waitcnt_field as normalize_s_waitcnt_field, require_lds_dma_support as require_lds_dma_support,
)

from collections.abc import Callable, Sequence
from typing import Any

from ..annotations import ElementLike as _ElementLike
from ..annotations import ValueLike as _ValueLike

_ByName = Callable[[_ElementLike | None, Sequence[_ValueLike]], Any]

def __getattr__(name: str) -> _ByName: ...  # pyright: ignore[reportIncompleteStub]
