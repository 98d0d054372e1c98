"""What to write instead of a name that is not ours: words of other languages, and misspellings.

Asked only when something failed, so nothing here is loaded by a program that is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module

WORDS = {
    "threadidx": "fx.thread_idx", "blockidx": "fx.block_idx", "blockdim": "fx.block_dim", "griddim": "fx.grid_dim",
    "tid": "fx.thread_idx.x", "threadid": "fx.thread_idx", "laneid": "fx.lane_id()", "programid": "fx.block_idx.x",
    "numprograms": "fx.grid_dim.x", "arange": "fx.thread_idx.x",
    "globalid": "fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x",
    "getglobalid": "fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x",
    "syncthreads": "fx.barrier()", "blocksync": "fx.barrier()", "syncwarp": "fx.coop", "shared": "fx.SharedAllocator",
    "warpsize": "fx.num_warp_threads", "wavesize": "fx.num_warp_threads",
    "shflxorsync": "fx.shuffle_xor", "shfldownsync": "fx.shuffle_down", "shflupsync": "fx.shuffle_up",
    "shflsync": "fx.shuffle_idx", "atomicadd": "fx.atomic_add", "atomicmax": "fx.atomic_max",
    "atomicmin": "fx.atomic_min", "atomiccas": "fx.atomic_cas", "atomicexch": "fx.atomic_xchg",
    "threadfence": "fx.memory_fence", "cdiv": "fx.ceildiv", "where": "cond.select(a, b)",
    "maximum": "fx.max", "minimum": "fx.min", "fmaxf": "fx.max", "fminf": "fx.min", "fabs": "fx.absf", "abs": "abs(x)",
    "absolute": "abs(x)", "sqrtf": "fx.sqrt", "expf": "fx.exp", "logf": "fx.log", "power": "a ** b", "pow": "a ** b",
    "rint": "fx.roundeven", "float": "fx.Float32", "half": "fx.Float16", "bfloat16": "fx.BFloat16",
    "int": "fx.Int32", "bool": "fx.Boolean", "staticrange": "fx.range_constexpr", "constexpr": "fx.Constexpr",
    "fp32": "fx.Float32", "fp16": "fx.Float16", "bf16": "fx.BFloat16", "double": "fx.Float64",
    "makefragment": "fx.make_fragment_like", "makermemtensor": "fx.make_rmem_tensor", "localtile": "fx.flat_divide",
    "deviceprint": "fx.printf", "print": "fx.printf", "printtensor": "fx.printf", "deviceassert": "FLYDSL_CPU_CHECK=1",
    "atomicload": "fx.generic_load(p, memory_order=fx.AtomicOrdering.Acquire)",
    "loadacquire": "fx.generic_load(p, memory_order=fx.AtomicOrdering.Acquire)",
    "ldacquire": "fx.generic_load(p, memory_order=fx.AtomicOrdering.Acquire)",
    "atomicstore": "fx.generic_store(p, value, memory_order=fx.AtomicOrdering.Release)",
    "storerelease": "fx.generic_store(p, value, memory_order=fx.AtomicOrdering.Release)",
    "strelease": "fx.generic_store(p, value, memory_order=fx.AtomicOrdering.Release)",
    "atomicinc": "fx.UniversalAtomicInc", "atomicdec": "fx.UniversalAtomicDec", "atomicexchange": "fx.atomic_xchg",
    "atomiccompareexchange": "fx.atomic_cas", "popc": "fx.ctpop", "popcll": "fx.ctpop", "popcount": "fx.ctpop",
    "clz": "fx.ctlz", "ffs": "fx.cttz(x) + 1", "ctz": "fx.cttz", "umulhi": "fx.Uint32(fx.Uint64(a) * b >> 32)",
    "mulhi": "fx.Int32(fx.Int64(a) * b >> 32)", "rcp": "1.0 / x", "reciprocal": "1.0 / x",
    "sigmoid": "1.0 / (1.0 + fx.exp(-x))", "hypot": "fx.sqrt(x * x + y * y)", "lerp": "a + t * (b - a)",
    "sign": "fx.copysign(1.0, x)", "fmod": "a % b", "remainder": "a % b", "mod": "a % b",
    "clamp": "fx.min(fx.max(x, low), high)", "clip": "fx.min(fx.max(x, low), high)",
    "saturate": "fx.clampf(x, 0.0, 1.0)", "ballotsync": "fx.rocdl.ballot", "anysync": "fx.nvgpu.any_lane",
    "sum": "fx.coop.BlockReduce", "reduce": "fx.coop.BlockReduce", "cumsum": "fx.coop.BlockScan",
    "associativescan": "fx.coop.BlockScan", "histogram": "fx.coop.BlockHistogram", "sort": "fx.coop.BlockRadixSort",
    "dot": "fx.gemm", "trans": "fx.select(layout, [1, 0])", "zeros": "fx.full", "ones": "fx.full",
    "load": "x[i], x.load() or fx.copy", "store": "x[i] = value, x.store(vector) or fx.copy",
    "cpasynccommitgroup": "fx.nvgpu.cp_async_commit", "commitgroup": "fx.nvgpu.cp_async_commit",
    "cpasyncwaitgroup": "fx.nvgpu.cp_async_wait", "waitgroup": "fx.nvgpu.cp_async_wait", "mmasync": "fx.nvgpu.MMA",
    "electone": "fx.nvgpu.elect", "barriersync": "fx.nvgpu.named_barrier", "setmaxregister": "fx.nvgpu.setmaxnreg",
    "maketensor": "fx.make_view", "makegmemptr": "fx.make_ptr", "makesmemptr": "fx.make_ptr", "clear": "x.fill(0)",
    "fill": "x.fill(value)", "recast": "fx.recast_iter", "recastptr": "fx.recast_iter",
    "warpidx": "fx.thread_idx.x // fx.num_warp_threads()", "warpid": "fx.thread_idx.x // fx.num_warp_threads()",
    "threadfenceblock": 'fx.memory_fence(syncscope="workgroup")',
    "threadfencesystem": 'fx.memory_fence(syncscope="system")',
    "range": "for i in range(n)", "rangedynamic": "for i in range(n)", "foriloop": "for i in range(n)",
    "whileloop": "while condition:", "cond": "if condition:", "unroll": "fx.range_constexpr",
    "staticassert": "assert", "staticprint": "print", "multipleof": "fx.assume", "maxcontiguous": "fx.assume",
    "assumealigned": "fx.assume", "builtinassume": "fx.assume", "fp8": "fx.Float8E4M3FN", "e4m3": "fx.Float8E4M3FN",
    "e5m2": "fx.Float8E5M2", "f16": "fx.Float16", "f32": "fx.Float32", "f64": "fx.Float64", "u32": "fx.Uint32",
    "half2": "fx.Vector", "float2": "fx.Vector", "float4": "fx.Vector", "uint4": "fx.Vector",
    "bfloat162": "fx.Vector", "makefloat4": "fx.Vector.from_elements", "ptr": "fx.Pointer",
    "sharedmemory": "fx.SharedAllocator", "allocsmem": "fx.SharedAllocator", "smem": "fx.SharedAllocator",
    "smemallocator": "fx.SharedAllocator", "getsmem": "fx.get_dyn_shared", "dynamicsmem": "fx.get_dyn_shared",
    "externshared": "fx.get_dyn_shared", "localarray": "fx.make_rmem_tensor", "local": "fx.make_rmem_tensor",
    "kernel": "flyc.kernel, with import flydsl.compiler as flyc",
    "jit": "flyc.jit, with import flydsl.compiler as flyc",
    "swap": "a, b = b, a", "cvt": "x.to(dtype)", "convert": "x.to(dtype)", "astype": "x.to(dtype)",
    "cast": "x.to(dtype)", "bitcast": "x.bitcast(dtype)", "reinterpretcast": "x.bitcast(dtype)",
}  # fmt: skip
"""Words of CUDA C++, Triton, CuTe and numpy, without case and underscores."""


def bare(name: str) -> str:
    """A name without case and underscores."""
    return name.replace("_", "").lower()


def suggest(name: str, names: Iterable[str], prefix: str = "fx.", *, close: bool = True) -> str | None:
    """The one thing to write for a name that does not exist: another language's word for it, or a close name."""
    known = {bare(n): n for n in names}
    word = bare(name)
    if word in known:
        return prefix + known[word]
    if word in WORDS:
        return WORDS[word]
    if found := _in_namespaces(word):
        return found
    if not close:
        return None
    candidates = {**{w: t for w, t in WORDS.items() if len(w) > 6}, **{w: prefix + n for w, n in known.items()}}
    near = [w for w in get_close_matches(word, candidates, 3, 0.75) if _same_size(w, word)]
    return candidates[near[0]] if near else None


def _in_namespaces(word: str) -> str:
    """Where else the language has a name; empty where it has none."""
    language = import_module("flydsl.expr")
    spaces = {space: getattr(language, space) for space in ("random", "coop", "dist", "nvgpu", "rocdl")}
    names = [(space, n) for space, module in spaces.items() for n in getattr(module, "__all__", dir(module))]
    return " or ".join(f"fx.{space}.{n}" for space, n in names if bare(n) == word)


def _same_size(meant: str, word: str) -> bool:
    """Whether the digits are the same, or the last ones are missing: another size is another thing."""
    meant, word = ("".join(filter(str.isdigit, each)) for each in (meant, word))
    return meant.startswith(word)


__all__ = ["WORDS", "bare", "suggest"]
