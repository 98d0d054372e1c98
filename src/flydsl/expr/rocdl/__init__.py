"""`fx.rocdl`: atoms, memory, scheduling and raw instructions of AMD GPUs.

Names resolve on first use, so importing this package loads no compiler. Everything here works while a kernel is traced
for `rocm:gfx*`, and on the cpu stack emulating such an architecture; what the architecture lacks is refused at the line
that asks for it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from ..aliases import raw_binding

_MODULES: dict[str, str] = {
    "atoms": (
        "MFMA WMMA BufferCopy BufferCopy8b BufferCopy16b BufferCopy32b BufferCopy64b BufferCopy128b BufferCopyLDS "
        "BufferCopyLDS32b BufferCopyLDS64b BufferCopyLDS128b BufferAtomic BufferAtomicAdd BufferAtomicMax "
        "BufferAtomicMin BufferAtomicPkAdd SyncScope"
    ),
    "atom_types": (
        "CopyOpCDNA3BufferAtomicType CopyOpCDNA3BufferCopyLDSType CopyOpCDNA3BufferCopyType "
        "CopyOpCDNA4BufferLoadAsyncLDSType CopyOpCDNA4GlobalLoadAsyncLDSType CopyOpCDNA4LdsReadTransposeType "
        "CopyOpCDNA5TensorLoadType CopyOpCDNA5TensorStoreType CopyOpGFX1250TDMType MmaOpCDNA3_MFMAType "
        "MmaOpCDNA4_MFMAScaleType MmaOpGFX11_WMMAType MmaOpGFX120X_WMMAType MmaOpGFX1250_WMMAScaleType "
        "MmaOpGFX1250_WMMAType"
    ),
    "raw_memory": (
        "raw_ptr_buffer_load raw_ptr_buffer_store raw_ptr_buffer_atomic_fadd raw_ptr_buffer_atomic_fmax "
        "raw_ptr_buffer_load_lds buffer_load_to_lds s_buffer_load lds_transpose_load cluster_load_async_to_lds"
    ),
    "conversions": (
        "cvt_pk_bf16_f32 cvt_off_f32_i4 cvt_scalef32_pk_f32_fp4 cvt_scalef32_pk_bf16_fp4 cvt_scalef32_pk_fp4_f32"
    ),
    "cdna5": "TDM TensorLoad TensorStore WMMAScale make_tdm_atom make_tiled_tdm_atom tdm_partition",
    "tdm_ops": "tensor_load_to_lds tensor_store_from_lds",
    "utils": "normalize_s_waitcnt_field require_lds_dma_support mask_mfma mask_vmem_rd mask_dsrd mask_dswr",
    "enum": "AddressSpace TargetAddressSpace",
    "cluster": "cluster_workgroup_id_x cluster_workgroup_id_y cluster_workgroup_id_z",
    "raw_matrix": (
        "mfma_scale_f32_16x16x128_f8f6f4 mfma_scale_f32_32x32x64_f8f6f4 wmma_f32_16x16x128_fp8_fp8 "
        "wmma_scale_f32_16x16x128_f8f6f4 wmma_scale_f32_32x16x128_f4"
    ),
    "buffers": "make_buffer_tensor make_buffer_ptr get_buffer_rsrc BufferDesc",
    "schedule": (
        "s_waitcnt sched_barrier sched_group_barrier sched_mfma sched_vmem sched_dsrd sched_dswr s_setprio s_barrier "
        "s_sleep s_nop iglp_opt asyncmark wait_asyncmark s_wait_loadcnt s_wait_storecnt s_wait_dscnt s_wait_kmcnt "
        "s_wait_tensorcnt s_wait_asynccnt s_barrier_signal s_barrier_wait disable_xdl_arb_stall"
    ),
    "instructions": (
        "readfirstlane readlane ballot ds_bpermute ds_permute ds_swizzle update_dpp mov_dpp perm_b32 rcp rsq exp2 log2 "
        "fmed3 permlane16_swap permlane32_swap cvt_pkrtz cvt_pk_fp8_f32 cvt_pk_bf8_f32 cvt_pk_f32_fp8 cvt_pk_f32_bf8 "
        "cvt_f32_fp8 cvt_f32_bf8 wave_id intrinsic"
    ),
}
_SUBMODULES = "cdna3 cdna4 cdna5 cluster enum inline_asm rdna3 rdna4 tdm_ops universal utils".split()
_LANGUAGE = (
    "Int16 Int32 Int64 Pointer Tensor Vector cosize get_iter get_layout get_scalar is_generic_address_space "
    "is_target_address_space make_ptr make_view"
).split()
"""Names of the language that FlyDSL's module of this name offers too."""
_WHERE: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _WHERE.get(name)
    if module is not None:
        value = getattr(import_module(f"{__name__}.{module}"), name)
    elif name in _SUBMODULES:
        value = import_module(f"{__name__}.{name}")
    elif name in _LANGUAGE:
        value = getattr(import_module("flydsl.expr"), name)
    elif name == "dsl_loc_tracing":
        value = import_module("flydsl.expr.meta").dsl_loc_tracing
    elif name == "get_rocm_arch":
        value = import_module("flydsl.runtime.device").get_rocm_arch
    else:
        value = _raw(name)
    globals()[name] = value
    return value


def _raw(name: str) -> object:
    """A matrix instruction by name, or what the bindings have of that name."""
    # Modules of this folder are asked for before they are loaded, and must not load the bindings.
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is not None:
        raise AttributeError(f"flydsl.expr.rocdl has no attribute {name!r}")
    try:
        return import_module(f"{__name__}.instructions").by_name(name)
    except AttributeError:
        pass
    try:
        return raw_binding("rocdl", name)
    except AttributeError:
        from difflib import get_close_matches

        close = get_close_matches(name, _WHERE, 1)
        from ...errors import DSLAttributeError

        hint = f"; did you mean fx.rocdl.{close[0]}?" if close else ""
        raise DSLAttributeError(f"flydsl.expr.rocdl has no attribute {name!r}{hint}") from None


def __dir__() -> list[str]:
    return sorted({*_WHERE, *_SUBMODULES})
