"""The architectures, one entry each: what a chip has and how much of it. All other code asks here, by feature.

A feature is a word for something an architecture has or lacks; numbers are fields. `FEATURES` says what each word
means, and `where` turns one into the list of architectures for a message. To add an architecture is to add its entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

KIB = 1024

FEATURES: dict[str, str] = {
    # AMD
    "amd": "an AMD GPU: gfx ISA, HSA code objects",
    "rdna": "a chip of the RDNA line",
    "unified_registers": "vector and accumulation registers share one file",
    "word_aligned_vectors": "global memory is read and written in vectors that are aligned to a word",
    "far_registers": "more than 256 vector registers, named with the help of s_set_vgpr_msb",
    "shared_scalar_registers": "the scalar registers of a SIMD are shared out among its waves",
    "buffer_bounds_select": "a buffer descriptor says whether offsets are checked",
    "buffer_wide_descriptor": "buffer descriptors of 57-bit addresses, whose last word has no format",
    "buffer_atomic": "integer atomics through a buffer descriptor",
    "buffer_atomic_f64": "buffer_atomic_{add,min,max}_f64",
    "buffer_fadd_f32": "buffer_atomic_add_f32",
    "buffer_fadd_f16": "buffer_atomic_pk_add_f16",
    "buffer_fadd_bf16": "buffer_atomic_pk_add_bf16",
    "buffer_fmax_f32": "buffer_atomic_max_f32",
    "global_fadd_bf16": "global_atomic_pk_add_bf16",
    "copy_to_lds_b32": "loads of 32 bits a lane straight into shared memory",
    "copy_to_lds_b128": "loads of 96 and 128 bits a lane straight into shared memory",
    "asyncmark": "loads into shared memory that are waited for in groups",
    "lds_read_transpose": "ds_read_*_tr_*: transposing reads of shared memory",
    "tdm": "the tensor data mover",
    "async_counter": "asynchronous copies into shared memory have a counter of their own",
    "split_counters": "one counter for each kind of memory access instead of vmcnt and lgkmcnt",
    "split_barrier": "a barrier is signalled and waited for apart",
    "waitcnt_lgkm_first": "the field lgkmcnt stands below vmcnt in the operand of s_waitcnt, six bits wide",
    "hw_id": "where a wave runs is in the register HW_ID; else it is in HW_ID1",
    "xcc_id": "the die a wave runs on is in a register",
    "wave_id": "the number of a wave in its workgroup is in a register",
    "dpp_wave": "DPP moves across the whole wave",
    "dpp_xmask": "DPP row_xmask",
    "permlane16_swap": "v_permlane16_swap",
    "permlane32_swap": "v_permlane32_swap",
    "packed_f32": "arithmetic of two f32 values at a time: v_pk_fma_f32",
    "cvt_fp8": "conversions between f32 and 8-bit floats",
    "cvt_scale": "conversions between wide and small floats with a scale: v_cvt_scalef32_*",
    "cvt_sr_bf16": "v_cvt_sr_bf16_f32: stochastic rounding to bf16",
    "fp8_fnuz": "8-bit floats are those without negative zero (FNUZ); else they are OCP's",
    "mfma": "matrix instructions of waves of 64 lanes",
    "mfma_short_k": "the short forms for bf16 and i8 of the first generations",
    "mfma_xf32": "MFMA of f32 rounded to xf32",
    "mfma_i8_k32": "MFMA of i8 with operands of eight values",
    "mfma_fp8_fnuz": "MFMA of FNUZ 8-bit floats",
    "mfma_fp8_ocp": "MFMA of OCP 8-bit floats",
    "mfma_long_k": "MFMA of twice the depth",
    "mfma_scale": "MFMA with a scale per block of k",
    "wmma_v1": "WMMA that wants A and B in both halves of a wave of 32 lanes",
    "wmma_v2": "WMMA with A and B spread over the wave",
    "wmma_v3": "WMMA of depth 32 and more, with modifiers of C",
    "wmma_scale": "WMMA with a scale per block of k",
    # NVIDIA
    "nvidia": "an NVIDIA GPU: PTX",
    "ldmatrix": "ldmatrix",
    "stmatrix": "stmatrix",
    "l1_priority": "loads and stores take an eviction priority of L1",
    "l2_prefetch": "loads take a prefetch size of L2 up to 128 bytes",
    "l2_prefetch_256": "loads take a prefetch size of L2 of 256 bytes",
    "l2_policy": "createpolicy and L2::cache_hint",
    "cp_async": "cp.async: copies of a thread into shared memory past its registers",
    "mbarrier": "barriers in shared memory",
    "mbarrier_count": "an arrival on a barrier in shared memory has a count, and a thread that waits may sleep",
    "mbarrier_tx": "barriers in shared memory count bytes",
    "named_barrier": "barriers of some warps of a block",
    "uniform": "a value is the same in the whole warp: shfl.sync",
    "elect": "elect.sync",
    "bulk_copy": "cp.async.bulk and tensor maps",
    "dependent_launch": "griddepcontrol: a kernel starts before the one it depends on has ended",
    "cooperative_launch": "launches whose blocks all run at once",
    "setmaxnreg": "warps trade registers",
    "mma_sync": "mma.sync of the shapes 16x8",
    "mma_sync_fp8": "mma.sync of 8-bit floats",
    "mma_sync_f64_m16": "mma.sync of f64 with 16 rows",
    "wgmma": "wgmma: products of four warps from shared memory",
    # both
    "clusters": "blocks are launched in clusters",
}
"""What every feature means."""


@dataclass(frozen=True, slots=True)
class Simd:
    """What limits the waves on a SIMD of an AMD GPU, and on the unit of compute units around its shared memory."""

    waves: int
    """Waves on a SIMD at most."""
    registers: int
    """Vector registers of a lane, over all waves of a SIMD."""
    granule: int
    """Registers are given in multiples of this."""
    units: int = 1
    """Compute units that share: two in a workgroup processor."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """One entry. None: not known, or not a matter of this architecture."""

    name: str
    backend: str
    """The stack that compiles for it."""
    family: str
    """What messages call it, together with those like it."""
    warp_size: int
    features: frozenset[str]
    switches: tuple[str, ...] = ()
    """Features of LLVM that can be turned on or off."""
    shared_mem: int | None = None
    """Bytes of shared memory (LDS) a block may use without asking."""
    shared_mem_optin: int | None = None
    """Bytes of shared memory a block may use at most."""
    max_block_dim: tuple[int, int, int] = (1024, 1024, 1024)
    simd: Simd | None = None
    multiprocessors: int | None = None
    """Of the largest GPU of the architecture."""
    ptx: int | None = None
    """PTX version: old enough for installed drivers, new enough for the instructions used."""

    def __post_init__(self) -> None:
        unknown = self.features - FEATURES.keys()
        if unknown:
            raise ValueError(f"{self.name}: features without a meaning in FEATURES: {', '.join(sorted(unknown))}")


# --- AMD ----------------------------------------------------------------------------------------------------------

_AMD = frozenset({"amd", "buffer_atomic", "word_aligned_vectors"})
_GFX9 = _AMD | {"hw_id", "dpp_wave", "asyncmark", "shared_scalar_registers"}
_CDNA2 = _GFX9 | {
    *("mfma", "mfma_short_k", "unified_registers", "copy_to_lds_b32", "buffer_fadd_f32", "buffer_fadd_f16"),
    *("buffer_atomic_f64", "packed_f32"),
}
_CDNA3 = (_CDNA2 - {"mfma_short_k"}) | {
    *("mfma_xf32", "mfma_i8_k32", "mfma_fp8_fnuz", "cvt_fp8", "fp8_fnuz", "global_fadd_bf16"),
    "xcc_id",
}
_CDNA4 = (_CDNA3 - {"mfma_xf32", "mfma_fp8_fnuz", "fp8_fnuz"}) | {
    *("mfma_fp8_ocp", "mfma_long_k", "mfma_scale", "copy_to_lds_b128", "lds_read_transpose", "buffer_fadd_bf16"),
    *("permlane16_swap", "permlane32_swap", "cvt_scale", "cvt_sr_bf16"),
}
_RDNA1 = _AMD | {"rdna", "buffer_bounds_select", "dpp_xmask"}
_RDNA3 = _RDNA1 | {"wmma_v1", "waitcnt_lgkm_first", "buffer_fadd_f32", "buffer_fmax_f32"}
_GFX12 = _AMD | {
    *("dpp_xmask", "split_counters", "split_barrier", "wave_id", "cvt_fp8"),
    *("buffer_fadd_f32", "buffer_fadd_f16", "buffer_fadd_bf16", "buffer_fmax_f32"),
    "global_fadd_bf16",
}
_RDNA4 = _GFX12 | {"rdna", "buffer_bounds_select", "wmma_v2"}
_CDNA5 = _GFX12 | {
    *("buffer_wide_descriptor", "wmma_v3", "wmma_scale", "tdm", "async_counter", "clusters", "permlane16_swap"),
    *("far_registers", "packed_f32"),
}

_GFX9_SIMD = Simd(10, 256, 4)
_CDNA_SIMD = Simd(8, 512, 8)
_RDNA1_SIMD = Simd(20, 1024, 8, 2)
_RDNA_SIMD = Simd(16, 1024, 16, 2)
_RDNA_LARGE_SIMD = Simd(16, 1536, 24, 2)
"""Half as many vector registers again."""
_CDNA5_SIMD = Simd(16, 1024, 16)

_ECC = ("sramecc", "xnack")


def _amd(
    number: str,
    features: frozenset[str],
    simd: Simd,
    switches: Iterable[str],
    *,
    family: str = "",
    lds: int = 64,
    units: int | None = None,
) -> Architecture:
    wide = "dpp_wave" in features
    size = lds * KIB
    name = f"gfx{number}"
    return Architecture(
        name,
        "rocm",
        family or name,
        64 if wide else 32,
        features,
        tuple(switches),
        size,
        size,
        simd=simd,
        multiprocessors=units,
    )


_AMD_TABLE = (
    _amd("900", _GFX9, _GFX9_SIMD, ("xnack",)),
    _amd("902", _GFX9, _GFX9_SIMD, ("xnack",)),
    _amd("904", _GFX9, _GFX9_SIMD, ("xnack",)),
    _amd("906", _GFX9, _GFX9_SIMD, _ECC),
    _amd("908", _GFX9, _GFX9_SIMD, _ECC),
    _amd("909", _GFX9, _GFX9_SIMD, ("xnack",)),
    _amd("90a", _CDNA2, _CDNA_SIMD, (*_ECC, "tgsplit"), units=110),
    _amd("90c", _GFX9, _GFX9_SIMD, ("xnack",)),
    _amd("942", _CDNA3, _CDNA_SIMD, (*_ECC, "tgsplit"), units=304),
    _amd("950", _CDNA4, _CDNA_SIMD, (*_ECC, "tgsplit"), lds=160, units=256),
    _amd("1010", _RDNA1, _RDNA1_SIMD, ("xnack", "cumode")),
    _amd("1011", _RDNA1, _RDNA1_SIMD, ("xnack", "cumode")),
    _amd("1012", _RDNA1, _RDNA1_SIMD, ("xnack", "cumode")),
    _amd("1013", _RDNA1, _RDNA1_SIMD, ("xnack", "cumode")),
    _amd("1030", _RDNA1, _RDNA_SIMD, ("cumode",)),
    _amd("1031", _RDNA1, _RDNA_SIMD, ("cumode",)),
    _amd("1032", _RDNA1, _RDNA_SIMD, ("cumode",)),
    _amd("1033", _RDNA1, _RDNA_SIMD, ("cumode",)),
    _amd("1034", _RDNA1, _RDNA_SIMD, ("cumode",)),
    _amd("1035", _RDNA1, _RDNA_SIMD, ("cumode",)),
    _amd("1036", _RDNA1, _RDNA_SIMD, ("cumode",)),
    _amd("1100", _RDNA3, _RDNA_LARGE_SIMD, ("cumode",), family="gfx11xx", units=96),
    _amd("1101", _RDNA3, _RDNA_LARGE_SIMD, ("cumode",), family="gfx11xx", units=60),
    _amd("1102", _RDNA3, _RDNA_SIMD, ("cumode",), family="gfx11xx", units=32),
    _amd("1103", _RDNA3, _RDNA_SIMD, ("cumode",), family="gfx11xx"),
    _amd("1150", _RDNA3, _RDNA_SIMD, ("cumode",), family="gfx11xx"),
    _amd("1151", _RDNA3, _RDNA_LARGE_SIMD, ("cumode",), family="gfx11xx", units=40),
    _amd("1152", _RDNA3, _RDNA_SIMD, ("cumode",), family="gfx11xx"),
    _amd("1153", _RDNA3, _RDNA_SIMD, ("cumode",), family="gfx11xx"),
    _amd("1200", _RDNA4, _RDNA_LARGE_SIMD, ("cumode",), family="gfx120x", units=32),
    _amd("1201", _RDNA4, _RDNA_LARGE_SIMD, ("cumode",), family="gfx120x", units=64),
    _amd("1250", _CDNA5, _CDNA5_SIMD, (*_ECC, "cumode"), lds=320),
    _amd("1251", _CDNA5, _CDNA5_SIMD, (*_ECC, "cumode"), family="gfx1250", lds=320),
)
"""AMD processors that LLVM 22 can emit HSA code objects for, from gfx9 on."""

# --- NVIDIA -------------------------------------------------------------------------------------------------------

_VOLTA = frozenset({"nvidia", "l1_priority", "cooperative_launch"})
_TURING = _VOLTA | {"ldmatrix", "l2_prefetch"}
_AMPERE = _TURING | {
    *("l2_prefetch_256", "l2_policy", "cp_async", "mbarrier", "named_barrier", "uniform", "mma_sync"),
}
_ADA = _AMPERE | {"mma_sync_fp8"}
_AFTER_ADA = _ADA | {
    *("stmatrix", "mbarrier_count", "mbarrier_tx", "elect", "bulk_copy", "clusters"),
    *("dependent_launch", "setmaxnreg", "mma_sync_f64_m16"),
}
_HOPPER = _AFTER_ADA | {"wgmma"}

_PTX = 83
_PTX_OF_FAMILIES = 88
"""The first PTX that knows code for a family of chips."""


def _nvidia(
    number: int,
    features: frozenset[str],
    optin: int | None,
    suffixes: str = "",
    *,
    ptx: int = _PTX,
    multiprocessors: int | None = None,
) -> list[Architecture]:
    """An entry, and one more for each suffix: `a` for instructions of this chip alone, `f` for those of its family."""
    return [
        Architecture(
            f"sm_{number}{suffix}",
            "cuda",
            f"sm_{number}",
            32,
            features,
            (),
            48 * KIB,
            None if optin is None else optin * KIB,
            (1024, 1024, 64),
            multiprocessors=multiprocessors,
            ptx=max(ptx, _PTX_OF_FAMILIES) if suffix == "f" else ptx,
        )
        for suffix in ("", *suffixes)
    ]


_NVIDIA_TABLE = (
    *_nvidia(70, _VOLTA, 96),
    *_nvidia(72, _VOLTA, 96),
    *_nvidia(75, _TURING, 64),
    *_nvidia(80, _AMPERE, 163, multiprocessors=108),
    *_nvidia(86, _AMPERE, 99, multiprocessors=84),
    *_nvidia(87, _AMPERE, 163),
    *_nvidia(88, _AMPERE, None, ptx=90),
    *_nvidia(89, _ADA, 99, multiprocessors=142),
    *_nvidia(90, _HOPPER, 227, "a", multiprocessors=132),
    *_nvidia(100, _AFTER_ADA, 227, "af", ptx=86),
    *_nvidia(101, _AFTER_ADA, 227, "af", ptx=86),
    *_nvidia(103, _AFTER_ADA, 227, "af", ptx=88),
    *_nvidia(110, _AFTER_ADA, 227, "af", ptx=90),
    *_nvidia(120, _AFTER_ADA, 99, "af", ptx=87),
    *_nvidia(121, _AFTER_ADA, 99, "af", ptx=88),
)
"""NVIDIA processors that LLVM 22 can emit PTX for, from Volta on."""

# --- asking -------------------------------------------------------------------------------------------------------

ARCHITECTURES: dict[str, Architecture] = {entry.name: entry for entry in (*_AMD_TABLE, *_NVIDIA_TABLE)}
"""By name, in the order of messages."""

USUAL = {"rocm": "gfx942", "cuda": "sm_90a"}
"""The architecture of each GPU stack that help texts name and that stands in where any will do."""
EXAMPLE = f"rocm:{USUAL['rocm']}"
"""A target for help texts."""
MLIR_DEFAULTS = {"rocdl": "gfx900", "nvvm": "sm_75"}
"""The processor of `#rocdl.target` and `#nvvm.target` where the text names none."""


def architecture(name: str | None) -> Architecture | None:
    """The entry of an architecture; None for what is in no table, such as `native`."""
    return None if name is None else ARCHITECTURES.get(name)


def names_of(backend: str) -> tuple[str, ...]:
    """The architectures a stack compiles for."""
    return tuple(entry.name for entry in ARCHITECTURES.values() if entry.backend == backend)


def has(name: str | None, feature: str) -> bool:
    """Whether an architecture has a feature; one that is in no table has none.

    >>> has("gfx942", "mfma"), has("gfx1100", "mfma"), has("native", "mfma")
    (True, False, False)
    """
    if feature not in FEATURES:
        raise KeyError(f"{feature!r} is no feature; those are the keys of flydsl.target.FEATURES")
    entry = architecture(name)
    return entry is not None and feature in entry.features


def features_of(backend: str | None = None) -> frozenset[str]:
    """What some architecture of a stack has, or some architecture of all."""
    found = [entry.features for entry in ARCHITECTURES.values() if backend in (None, entry.backend)]
    return frozenset[str]().union(*found)


def families(*features: str) -> tuple[str, ...]:
    """The families of architectures that have all of the features, in order.

    >>> families("mfma"), families("nvidia", "clusters")[0]
    (('gfx90a', 'gfx942', 'gfx950'), 'sm_90')
    """
    wanted = set(features)
    return tuple(dict.fromkeys(entry.family for entry in ARCHITECTURES.values() if wanted <= entry.features))


def where(*features: str) -> str:
    """Where one of the features exists, for messages.

    >>> where("wmma_v1", "wmma_v2", "wmma_v3")
    'gfx11xx, gfx120x and gfx1250'
    """
    wanted = dict.fromkeys(name for feature in features for name in families(feature))
    order = dict.fromkeys(entry.family for entry in ARCHITECTURES.values())
    *most, last = [name for name in order if name in wanted] or ["no architecture"]
    return f"{', '.join(most)} and {last}" if most else last


def since(*features: str) -> str:
    """What features need that later architectures keep: the first one with all of them, or the only one.

    >>> since("cp_async"), since("wgmma")
    ('sm_80', 'sm_90 alone')
    """
    first, *later = families(*features)
    return first if later else f"{first} alone"
