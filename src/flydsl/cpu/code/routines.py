"""Functions that kernels on the CPU call: barriers in memory, clusters, tensor copies, bulk copies.

`fly_cpu.call` names one; it is written into the module once, with those it uses. All take the block's state and the
thread in front of their operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...llvm.text.module_text import ModuleText
from ...llvm.text.routine import Routine
from . import bf16_atomics
from . import bulk as cpu_bulk
from . import clusters as cpu_clusters
from . import mbarrier as cpu_mbarrier
from . import tma as cpu_tma


class Entry(NamedTuple):
    """A routine: what writes it, and the routines it calls."""

    write: Callable[[bool], Routine]
    uses: tuple[str, ...] = ()
    moves: cpu_bulk.Moves | None = None
    """What it copies; in checked mode it is told last whether that may be touched."""
    asynchronous: bool = False
    """Whether what it counts at an mbarrier is the coming of a copy."""


UPDATE = "fly_mbarrier_update"
CHECKS = "fly_check_"
"""How the routines of checked mode begin; they are part of a checked module as a whole, and of no other."""

_OF_FLOATS = {op: (bf16_atomics.name_of(f"f{op}"),) for op in ("add", "min", "max")}

ROUTINES: dict[str, Entry] = {
    "fly_progress": Entry(cpu_mbarrier.progress),
    UPDATE: Entry(cpu_mbarrier.update, ("fly_owner",)),
    "fly_mbarrier_arrive_copied": Entry(cpu_mbarrier.arrive_copied, (UPDATE,), asynchronous=True),
    "fly_mbarrier_init": Entry(cpu_mbarrier.init),
    "fly_mbarrier_passed": Entry(cpu_mbarrier.passed),
    "fly_named_arrive": Entry(cpu_mbarrier.named_arrive),
    "fly_named_passed": Entry(cpu_mbarrier.named_passed),
    "fly_owner": Entry(cpu_clusters.owner),
    "fly_remote": Entry(cpu_clusters.remote),
    "fly_cluster_rank": Entry(cpu_clusters.rank),
    "fly_cluster_extent": Entry(cpu_clusters.extent),
    "fly_cluster_size": Entry(cpu_clusters.size),
    "fly_cluster_arrive": Entry(cpu_clusters.arrive),
    "fly_cluster_arrive_relaxed": Entry(cpu_clusters.arrive_relaxed),
    "fly_cluster_passed": Entry(cpu_clusters.passed),
    "fly_cluster_leave": Entry(cpu_clusters.leave),
    "fly_tma_load": Entry(cpu_tma.load, (UPDATE, "fly_remote"), asynchronous=True),
    "fly_tma_store": Entry(cpu_tma.store),
    **{
        f"fly_tma_reduce_{op}": Entry(
            cpu_tma.reducing(op), (bf16_atomics.name_of(f"f{op}"),) if op in _OF_FLOATS else ()
        )
        for op in cpu_tma.REDUCTIONS
    },
    **{bf16_atomics.name_of(word): Entry(bf16_atomics.updating(word)) for word in bf16_atomics.WORDS},
    **{
        bf16_atomics.pair_of(word): Entry(bf16_atomics.updating_pairs(word), (bf16_atomics.name_of(word),))
        for word in bf16_atomics.WORDS
    },
    "fly_bulk_load": Entry(cpu_bulk.load, (UPDATE,), cpu_bulk.LOADS, True),
    "fly_bulk_load_all": Entry(cpu_bulk.multicast, (UPDATE, "fly_remote"), cpu_bulk.SENDS, True),
    "fly_bulk_send": Entry(cpu_bulk.send, (UPDATE, "fly_remote"), cpu_bulk.SENDS, True),
    "fly_bulk_store": Entry(cpu_bulk.store, (), cpu_bulk.STORES),
}


def entry_of(name: str) -> Entry:
    """A routine by its name; bulk reductions are named by their operation and type, as in `fly_bulk_add_f32`."""
    found = ROUTINES.get(name)
    if found is not None:
        return found
    op, element = name.removeprefix(cpu_bulk.PREFIX).split("_")
    uses = (bf16_atomics.name_of(f"f{op}"),) if element == "bf16" else ()
    return Entry(cpu_bulk.reducing(op, element), uses, cpu_bulk.REDUCES)


def need(module: ModuleText, name: str, checked: bool, completes: str = UPDATE) -> str:
    """Write a routine into the module, once; gives its result type. `completes` counts the coming of copies."""
    if name.startswith(CHECKS):
        return "void"
    key = f"routine {name}"
    if key not in module.notes:
        entry = entry_of(name)
        for used in entry.uses:
            need(module, used, checked, completes)
        routine = entry.write(checked)
        module.notes[key] = routine.result
        text = routine.text()
        module.globals.append(text.replace(f"@{UPDATE}(", f"@{completes}(") if entry.asynchronous else text)
        module.declarations.update(routine.declarations)
    return module.notes[key]
