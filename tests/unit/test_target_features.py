"""The table of architectures against what others say of them: data sheets, LLVM's assembler, NVIDIA's.

The table is written by generation, feature upon feature. Here it is written the other way round, by feature and by
number, so that a word that is lost or lands in a wrong generation shows; and where the assemblers are installed, one
instruction of each feature is given to them for every architecture.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flydsl.llvm import tools
from flydsl.target import ARCHITECTURES, CUDA_ARCHES, FEATURES, KIB, ROCM_ARCHES, GPUTarget, caps_of, has
from flydsl.target.architectures import Simd
from flydsl.target.machines import MACHINES, Machine, machine_for
from flydsl.target.needs import FEATURE_NEEDS, ptx_version

GFX9 = "gfx900 gfx902 gfx904 gfx906 gfx908 gfx909 gfx90c "
GFX10_1, GFX10_3 = "gfx1010 gfx1011 gfx1012 gfx1013 ", "gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036 "
GFX11, GFX12 = "gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 ", "gfx1200 gfx1201 "
MI200, MI300, MI350, MI400 = "gfx90a ", "gfx942 ", "gfx950 ", "gfx1250 gfx1251 "
RDNA = GFX10_1 + GFX10_3 + GFX11 + GFX12
CDNA = MI200 + MI300 + MI350
ALL_AMD = GFX9 + CDNA + RDNA + MI400

AMD: dict[str, str] = {
    "amd": ALL_AMD,
    "buffer_atomic": ALL_AMD,
    "word_aligned_vectors": ALL_AMD,
    "rdna": RDNA,
    "unified_registers": CDNA,
    "shared_scalar_registers": GFX9 + CDNA,
    "buffer_bounds_select": RDNA,
    "buffer_wide_descriptor": MI400,
    "buffer_atomic_f64": CDNA,
    "buffer_fadd_f32": CDNA + GFX11 + GFX12 + MI400,
    "buffer_fadd_f16": CDNA + GFX12 + MI400,
    "buffer_fadd_bf16": MI350 + GFX12 + MI400,
    "buffer_fmax_f32": GFX11 + GFX12 + MI400,
    "global_fadd_bf16": MI300 + MI350 + GFX12 + MI400,
    "copy_to_lds_b32": CDNA,
    "copy_to_lds_b128": MI350,
    "asyncmark": GFX9 + CDNA,
    "lds_read_transpose": MI350,
    "tdm": MI400,
    "async_counter": MI400,
    "split_counters": GFX12 + MI400,
    "split_barrier": GFX12 + MI400,
    "waitcnt_lgkm_first": GFX11,
    "hw_id": GFX9 + CDNA,
    "xcc_id": MI300 + MI350,
    "wave_id": GFX12 + MI400,
    "dpp_wave": GFX9 + CDNA,
    "dpp_xmask": RDNA + MI400,
    "permlane16_swap": MI350 + MI400,
    "permlane32_swap": MI350,
    "cvt_fp8": MI300 + MI350 + GFX12 + MI400,
    "cvt_scale": MI350,
    "cvt_sr_bf16": MI350,
    "fp8_fnuz": MI300,
    "mfma": CDNA,
    "mfma_short_k": MI200,
    "mfma_xf32": MI300,
    "mfma_i8_k32": MI300 + MI350,
    "mfma_fp8_fnuz": MI300,
    "mfma_fp8_ocp": MI350,
    "mfma_long_k": MI350,
    "mfma_scale": MI350,
    "wmma_v1": GFX11,
    "wmma_v2": GFX12,
    "wmma_v3": MI400,
    "wmma_scale": MI400,
    "clusters": MI400,
    "far_registers": MI400,
    "packed_f32": CDNA + MI400,
}
"""Feature -> the AMD processors that have it."""

NVIDIA_SINCE: dict[str, int] = {
    "nvidia": 70, "l1_priority": 70, "cooperative_launch": 70,
    "ldmatrix": 75, "l2_prefetch": 75,
    "l2_prefetch_256": 80, "l2_policy": 80, "cp_async": 80, "mbarrier": 80, "named_barrier": 80, "uniform": 80,
    "mma_sync": 80, "mma_sync_fp8": 89,
    "stmatrix": 90, "mbarrier_count": 90, "mbarrier_tx": 90, "elect": 90, "bulk_copy": 90, "clusters": 90,
    "dependent_launch": 90, "setmaxnreg": 90, "mma_sync_f64_m16": 90, "wgmma": 90,
}  # fmt: skip
"""Feature -> the compute capability that brought it; later ones kept all but `wgmma`."""


def capability(arch: str) -> int:
    return int(arch.removeprefix("sm_").rstrip("af"))


def test_every_feature_is_written_here_too():
    assert AMD.keys() | NVIDIA_SINCE.keys() == FEATURES.keys()


@pytest.mark.parametrize("feature", FEATURES)
def test_who_has_a_feature(feature: str):
    expected = set(AMD.get(feature, "").split())
    if (first := NVIDIA_SINCE.get(feature)) is not None:
        last = 90 if feature == "wgmma" else 1000
        expected |= {arch for arch in CUDA_ARCHES if first <= capability(arch) <= last}
    assert {arch for arch in ARCHITECTURES if has(arch, feature)} == expected


LARGE = "gfx1100 gfx1101 gfx1151 gfx1200 gfx1201 "
SIMDS: dict[str, Simd] = {
    GFX9: Simd(waves=10, registers=256, granule=4, units=1),
    CDNA: Simd(waves=8, registers=512, granule=8, units=1),
    GFX10_1: Simd(waves=20, registers=1024, granule=8, units=2),
    GFX10_3 + "gfx1102 gfx1103 gfx1150 gfx1152 gfx1153 ": Simd(waves=16, registers=1024, granule=16, units=2),
    LARGE: Simd(waves=16, registers=1536, granule=24, units=2),
    MI400: Simd(waves=16, registers=1024, granule=16, units=1),
}
LDS = {MI350: 160, MI400: 320}
SWITCHES: dict[str, tuple[str, ...]] = {
    "gfx900 gfx902 gfx904 gfx909 gfx90c ": ("xnack",),
    "gfx906 gfx908 ": ("sramecc", "xnack"),
    CDNA: ("sramecc", "tgsplit", "xnack"),
    GFX10_1: ("cumode", "xnack"),
    GFX10_3 + GFX11 + GFX12: ("cumode",),
    MI400: ("cumode", "sramecc", "xnack"),
}
UNITS = {
    "gfx90a": 110, "gfx942": 304, "gfx950": 256, "gfx1100": 96, "gfx1101": 60, "gfx1102": 32, "gfx1151": 40,
    "gfx1200": 32, "gfx1201": 64, "sm_80": 108, "sm_86": 84, "sm_89": 142, "sm_90": 132, "sm_90a": 132,
}  # fmt: skip


FAMILIES = {GFX11: "gfx11xx", GFX12: "gfx120x", MI400: "gfx1250"}


def of(table: dict[str, int], arch: str, otherwise: int) -> int:
    return next((value for names, value in table.items() if arch in names.split()), otherwise)


@pytest.mark.parametrize("arch", ROCM_ARCHES)
def test_numbers_of_amd(arch: str):
    entry, caps = ARCHITECTURES[arch], caps_of(arch)
    assert entry.simd == next(simd for names, simd in SIMDS.items() if arch in names.split())
    assert tuple(sorted(entry.switches)) == next(words for names, words in SWITCHES.items() if arch in names.split())
    assert caps.shared_mem_per_block == caps.shared_mem_per_block_optin == of(LDS, arch, 64) * KIB
    assert caps.warp_size == entry.warp_size == (64 if arch in (GFX9 + CDNA).split() else 32)
    assert entry.multiprocessors == UNITS.get(arch)
    assert entry.family == next((family for names, family in FAMILIES.items() if arch in names.split()), arch)
    assert (caps.max_threads_per_block, caps.max_block_dim) == (1024, (1024, 1024, 1024))
    assert caps.clusters == (arch in MI400.split())


OPT_IN: dict[int, int | None] = {70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: None, 89: 99, 120: 99, 121: 99}
"""Compute capability -> KiB of shared memory a block may ask for; others have 227."""
PTX = {88: 90, 100: 86, 101: 86, 103: 88, 110: 90, 120: 87, 121: 88}
"""Compute capability -> the PTX that knew it first, where that is later than 8.3."""


@pytest.mark.parametrize("arch", CUDA_ARCHES)
def test_numbers_of_nvidia(arch: str):
    entry, caps, number = ARCHITECTURES[arch], caps_of(arch), capability(arch)
    limit = OPT_IN.get(number, 227)
    assert caps.shared_mem_per_block == 48 * KIB
    assert caps.shared_mem_per_block_optin == (None if limit is None else limit * KIB)
    assert caps.warp_size == entry.warp_size == 32
    assert (caps.max_threads_per_block, caps.max_block_dim) == (1024, (1024, 1024, 64))
    assert caps.max_grid_dim == (2**31 - 1, 65535, 65535)
    assert caps.clusters == (number >= 90)
    assert entry.multiprocessors == UNITS.get(arch)
    assert entry.ptx == max(PTX.get(number, 83), 88 if arch.endswith("f") else 0)
    assert entry.simd is None and entry.switches == () and entry.family == arch.rstrip("af")


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_gpus_are_what_their_architecture_is(machine: Machine):
    entry = ARCHITECTURES[machine.arch]
    assert machine.warp == entry.warp_size
    assert entry.multiprocessors is None or machine.units <= entry.multiprocessors
    if entry.simd is not None:
        # Registers of a lane, times lanes; two compute units of RDNA share four SIMDs.
        simds = 4 // entry.simd.units
        assert machine.registers == entry.simd.registers * simds * entry.warp_size
        assert machine.max_warps == entry.simd.waves * simds
        assert machine.shared_bytes == entry.shared_mem and machine.sector == 64
    else:
        assert entry.shared_mem_optin is not None
        # The driver takes a KiB of each block's.
        assert machine.registers == 65536 and machine.sector == 32
        assert machine.shared_bytes >= entry.shared_mem_optin + KIB
    assert machine.max_warps * machine.warp % 512 == 0
    assert machine.lanes in (64, 128) and machine.issue in (2.0, 4.0)
    assert {"f16", "bf16"} <= machine.matrix.keys() and machine.matrix["f16"] == machine.matrix["bf16"]
    # Narrower values go as fast at least, wider ones no faster.
    assert machine.matrix.get("i8", 1e9) >= machine.matrix["f16"] > machine.matrix.get("tf32", 0)
    assert machine.matrix.get("fp8", 1e9) >= machine.matrix["f16"] > machine.matrix.get("f64", 0)
    assert machine.cache_gbs > machine.memory_gbs and machine_for(GPUTarget.parse(machine.arch)).arch == machine.arch
    assert machine_for(GPUTarget.parse("sm_90"), machine.name.lower()) is machine


# --- assemblers -----------------------------------------------------------------------------------------------------

AMD_INSTRUCTIONS = {
    "buffer_atomic": "buffer_atomic_add v5, off, s[8:11], s3",
    "buffer_atomic_f64": "buffer_atomic_add_f64 v[4:5], off, s[8:11], s3",
    "buffer_fadd_f32": "buffer_atomic_add_f32 v5, off, s[8:11], s3",
    "buffer_fadd_f16": "buffer_atomic_pk_add_f16 v5, off, s[8:11], s3",
    "buffer_fadd_bf16": "buffer_atomic_pk_add_bf16 v5, off, s[8:11], s3",
    "buffer_fmax_f32": "buffer_atomic_max_f32 v5, off, s[8:11], s3",
    "global_fadd_bf16": "global_atomic_pk_add_bf16 v[2:3], v5, off",
    "copy_to_lds_b128": "global_load_lds_dwordx4 v[2:3], off",
    "lds_read_transpose": "ds_read_b64_tr_b16 v[2:3], v4",
    "tdm": "tensor_load_to_lds s[0:3], s[4:11]",
    "async_counter": "s_wait_asynccnt 0",
    "split_counters": "s_wait_loadcnt 0",
    "split_barrier": "s_barrier_signal -1",
    "xcc_id": "s_getreg_b32 s2, hwreg(HW_REG_XCC_ID)",
    "dpp_wave": "v_mov_b32_dpp v0, v1 wave_shr:1 row_mask:0xf bank_mask:0xf",
    "dpp_xmask": "v_mov_b32_dpp v0, v1 row_xmask:1 row_mask:0xf bank_mask:0xf",
    "permlane16_swap": "v_permlane16_swap_b32 v1, v2",
    "permlane32_swap": "v_permlane32_swap_b32 v1, v2",
    "cvt_fp8": "v_cvt_f32_fp8 v1, v2",
    "cvt_scale": "v_cvt_scalef32_f32_fp8 v1, v2, v3",
    "cvt_sr_bf16": "v_cvt_sr_bf16_f32 v1, v2, v3",
    "packed_f32": "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]",
    "unified_registers": "global_load_dword a0, v[2:3], off",
    "mfma": "v_mfma_f32_16x16x16f16 a[0:3], v[4:5], v[6:7], a[0:3]",
    "mfma_short_k": "v_mfma_i32_16x16x16i8 a[0:3], v4, v6, a[0:3]",
    "mfma_xf32": "v_mfma_f32_16x16x8_xf32 v[0:3], v[4:5], v[6:7], v[0:3]",
    "mfma_i8_k32": "v_mfma_i32_16x16x32_i8 v[0:3], v[4:5], v[6:7], v[0:3]",
    "mfma_long_k": "v_mfma_f32_16x16x32_f16 v[0:3], v[4:7], v[8:11], v[0:3]",
    "mfma_scale": "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3], v20, v21",
    "wmma_v1": "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]",
    "wmma_v3": "v_wmma_f32_16x16x32_f16 v[0:7], v[8:15], v[16:23], v[0:7]",
    "wmma_scale": "v_wmma_scale_f32_16x16x128_f8f6f4 v[0:7], v[8:23], v[24:39], v[40:47], v1, v2",
    "clusters": "cluster_load_async_to_lds_b32 v1, v[2:3], off",
}
UNUSED = {
    *((feature, "gfx908") for feature in ("mfma", "mfma_short_k", "buffer_fadd_f32", "buffer_fadd_f16")),
    *(("buffer_atomic_f64", arch) for arch in MI400.split()),
}
"""What processors have and nothing here makes use of."""


def test_llvm_assembles_what_the_table_says():
    assembler = shutil.which("llvm-mc-22")
    if assembler is None:
        pytest.skip("no llvm-mc-22 on this machine")
    for arch in ROCM_ARCHES:
        done = subprocess.run(
            [assembler, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=null"],
            input="\n".join(AMD_INSTRUCTIONS.values()) + "\n",
            capture_output=True,
            text=True,
        )
        refused = {int(line) for line in re.findall(r"<stdin>:(\d+):\d+: error", done.stderr)}
        taken = {feature for i, feature in enumerate(AMD_INSTRUCTIONS, 1) if i not in refused}
        assert taken - {f for f, a in UNUSED if a == arch} == {f for f in AMD_INSTRUCTIONS if has(arch, f)}, arch


NVIDIA_INSTRUCTIONS = {
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [s];",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [s], {r0};",
    "l1_priority": "ld.global.L1::evict_last.b32 r0, [g];",
    "l2_prefetch": "ld.global.L2::128B.b32 r0, [g];",
    "l2_prefetch_256": "ld.global.L2::256B.b32 r0, [g];",
    "l2_policy": "createpolicy.fractional.L2::evict_first.b64 d0;",
    "cp_async": "cp.async.ca.shared.global [s], [g], 16;",
    "mbarrier": "mbarrier.init.shared.b64 [s], 32;",
    "mbarrier_count": "mbarrier.arrive.shared.b64 d0, [s], 2;",
    "mbarrier_tx": "mbarrier.arrive.expect_tx.shared.b64 d0, [s], 32;",
    "elect": "elect.sync r0|p0, -1;",
    "bulk_copy": "cp.async.bulk.global.shared::cta.bulk_group [g], [s], 16;",
    "dependent_launch": "griddepcontrol.wait;",
    "setmaxnreg": "setmaxnreg.inc.sync.aligned.u32 96;",
    "mma_sync": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f,f,f,f}, {r0,r0,r0,r0}, {r0,r0}, {f,f,f,f};",
    "mma_sync_fp8": "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {f,f,f,f}, {r0,r0,r0,r0}, {r0,r0}, {f,f,f,f};",
    "mma_sync_f64_m16": "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {e,e,e,e}, {e,e}, {e}, {e,e,e,e};",
    "wgmma": "wgmma.fence.sync.aligned;",
    "clusters": "barrier.cluster.arrive;",
}
REGISTERS = ".reg .b32 r0, s; .reg .b64 g, d0; .reg .f32 f; .reg .f64 e; .reg .pred p0;"


def test_ptxas_assembles_what_the_table_says(tmp_path: Path):
    """With the PTX version of the table, which has to know every instruction of its architecture."""
    ptxas = tools.try_find_tool("ptxas")
    if ptxas is None:
        pytest.skip("no ptxas on this machine")
    known = subprocess.run([ptxas.path, "--help"], capture_output=True, text=True, check=True).stdout
    asked = 0
    for arch in CUDA_ARCHES:
        version = max(ARCHITECTURES[arch].ptx or 0, ptx_version(FEATURE_NEEDS.values()))
        own = arch[-1] in "af" or f"'{arch}a'" not in known
        if f"'{arch}'" not in known or not own:
            continue  # too new or too old for this ptxas, or code that needs the suffix is made with it
        asked += 1
        head = f".version {version / 10}\n.target {arch}\n.address_size 64\n.visible .entry k() {{ {REGISTERS}\n"
        text = tmp_path / f"{arch}.ptx"
        text.write_text(head + "\n".join(NVIDIA_INSTRUCTIONS.values()) + "\nret; }\n")
        done = subprocess.run([ptxas.path, f"-arch={arch}", text, "-o", "/dev/null"], capture_output=True, text=True)
        before = head.count("\n")
        refused = {int(line) - before for line in re.findall(r"line (\d+); error", done.stderr)}
        taken = {feature for i, feature in enumerate(NVIDIA_INSTRUCTIONS, 1) if i not in refused}
        assert taken == {f for f in NVIDIA_INSTRUCTIONS if has(arch, f)}, (arch, done.stderr)
    assert asked > 3
