"""What to write instead of a name that is not ours: words of other languages, and misspellings.

Asked only when something failed, so nothing here is loaded by a program that is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

WORDS = {
    "threadidx": "fx.thread_idx", "blockidx": "fx.block_idx", "blockdim": "fx.block_dim", "griddim": "fx.grid_dim",
    "tid": "fx.thread_idx.x", "laneid": "fx.lane_id()", "programid": "fx.block_idx.x", "numprograms": "fx.grid_dim.x",
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
    "deviceprint": "fx.printf", "print": "fx.printf", "deviceassert": "FLYDSL_CPU_CHECK=1",
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
    near = get_close_matches(word, known, 1, 0.75) if close else []
    return prefix + known[near[0]] if near else None


__all__ = ["WORDS", "suggest"]
