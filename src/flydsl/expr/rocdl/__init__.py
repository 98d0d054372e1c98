"""`fx.rocdl`: atoms, memory, scheduling and raw instructions of AMD GPUs.

Names resolve on first use, so importing this package loads no compiler. Everything here works while a kernel is traced
for `rocm:gfx*`, and on the cpu stack emulating such an architecture; what the architecture lacks is refused at the line
that asks for it.
"""

from __future__ import annotations

from importlib import import_module

_MODULES: dict[str, str] = {
    "atoms": (
        "MFMA WMMA BufferCopy BufferCopy8b BufferCopy16b BufferCopy32b BufferCopy64b BufferCopy128b BufferCopyLDS "
        "BufferCopyLDS32b BufferCopyLDS64b BufferCopyLDS128b BufferAtomic BufferAtomicAdd BufferAtomicMax "
        "BufferAtomicMin BufferAtomicPkAdd SyncScope"
    ),
    "buffers": "make_buffer_tensor make_buffer_ptr get_buffer_rsrc BufferDesc",
    "schedule": (
        "s_waitcnt sched_barrier sched_group_barrier sched_mfma sched_vmem sched_dsrd sched_dswr s_setprio s_barrier "
        "s_sleep s_nop iglp_opt asyncmark wait_asyncmark s_wait_loadcnt s_wait_storecnt s_wait_dscnt s_wait_kmcnt "
        "s_wait_tensorcnt s_wait_asynccnt s_barrier_signal s_barrier_wait"
    ),
    "instructions": (
        "readfirstlane readlane ballot ds_bpermute ds_permute ds_swizzle update_dpp mov_dpp perm_b32 rcp rsq exp2 log2 "
        "fmed3 permlane16_swap permlane32_swap cvt_pkrtz cvt_pk_fp8_f32 cvt_pk_bf8_f32 cvt_pk_f32_fp8 cvt_pk_f32_bf8 "
        "cvt_f32_fp8 cvt_f32_bf8 wave_id intrinsic"
    ),
}
_SUBMODULES = ("cdna3", "cdna4", "cdna5", "cluster", "tdm_ops")
_WHERE: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _WHERE.get(name)
    if module is not None:
        value = getattr(import_module(f"{__name__}.{module}"), name)
    elif name in _SUBMODULES:
        value = import_module(f"{__name__}.{name}")
    elif name.startswith(("mfma_", "cvt_scalef32_")):
        value = import_module(f"{__name__}.instructions").by_name(name)
    else:
        from difflib import get_close_matches

        close = get_close_matches(name, _WHERE, 1)
        hint = f"; did you mean fx.rocdl.{close[0]}?" if close else ""
        raise AttributeError(f"flydsl.expr.rocdl has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_WHERE, *_SUBMODULES})
