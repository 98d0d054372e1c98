"""Text of the functions around a kernel's thread on the CPU: loops over blocks and threads, and the scheduler.

Threads that meet are coroutines, resumed in order. The scheduler works on *units* of threads: a warp, or more where an
instruction spans several. A thread that suspends leaves in its status what it waits for:

| status | the thread |
|---|---|
| 0 | has finished |
| site `s` | waits at collective `s` for the threads of its unit |
| `BARRIER | s` | waits for the block |
| `WAIT | s` | waits at `s` until memory has changed, and for nothing else |
| `POLL | s` | looked at memory at `s` and may do something else when it looks again |

In a unit the threads at the lowest site go on together while the others wait, as the lanes of a GPU reconverge; sites
are numbered in program order. While some threads of a unit wait for memory, those at its collectives wait for them too,
unless nobody could go on otherwise. A barrier opens when no thread of the block can go on otherwise. So nothing waits
for ever, whatever the control flow, except on memory. Blocks of a cluster take turns: one runs until its threads wait
for memory alone. When that is so of all of them and a turn has changed nothing, the wait is reported and the cluster is
given up (`cpu_clusters.py`).

Threads of a unit pass data through two buffers. They write one; when a collective is complete the two are swapped, and
they read what was written. Threads that stay behind have their slots carried over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...llvm.text.module_text import ModuleText

MAX_THREADS = 1024
BARRIER = 0x40000000
WAIT = 0x60000000
POLL = 0x70000000
SITE_MASK = 0x0FFFFFFF
POLL_LIMIT = 1 << 22
"""Rounds in which threads only look at memory before they are given up."""

SHADOW, CLUSTER, RANK, PROGRESS, BLOCK_IDS, SHARED = 8, 24, 32, 40, 48, 72
STATUS = 128
HANDLES = STATUS + 4 * MAX_THREADS
DEPOSIT = HANDLES + 8 * MAX_THREADS
SHOWN = DEPOSIT + 8 * MAX_THREADS
TOOK = SHOWN + 8 * MAX_THREADS
NAMED = TOOK + MAX_THREADS
JOINED = NAMED + 64
EXCHANGE = JOINED + 4 * MAX_THREADS
"""Where things are in a block's state: addresses of the frames, of the shadow (checked mode) and of the cluster's
record, the block's rank in it, a count of what waiting threads achieved, its ids, its shared memory; then per thread
its status and its coroutine, per unit the buffers to write and to read, per thread whether it took part in the last
exchange, the named barriers, per thread the phase of the cluster's barrier it arrived in; the buffers last."""


class Synchronization(NamedTuple):
    """How the threads of a kernel synchronize."""

    unit: int
    """Threads that are scheduled together, a power of two."""
    slot: int
    """Bytes of exchange buffer per thread."""
    waits: bool = False
    """Whether threads wait for memory to change."""
    cluster: tuple[int, int, int] | None = None
    """Blocks of a cluster per dimension, where the kernel has to do with its cluster."""

    @property
    def blocks(self) -> int:
        """Blocks that are scheduled together."""
        x, y, z = self.cluster or (1, 1, 1)
        return x * y * z


class Check(NamedTuple):
    """What checked mode needs of a kernel."""

    warp: int
    static: int
    """Bytes of static shared memory."""


BY_VALUE = "by value"
"""In place of an argument's type: the kernel gets the address of the bytes that were passed."""
_DIMENSIONS = ("gx", "gy", "gz", "nx", "ny", "nz")


def prologue(arguments: Sequence[str], block: tuple[int, int, int] | None) -> tuple[list[str], list[str], list[str]]:
    """Reading arguments and geometry: lines, the arguments' text, names of grid and block dimensions."""
    lines: list[str] = []
    args: list[str] = []
    for i, t in enumerate(arguments):
        lines += [
            f"  %p{i} = getelementptr ptr, ptr %params, i64 {i}",
            f"  %q{i} = load ptr, ptr %p{i}",
        ]
        if t == BY_VALUE:
            args.append(f"ptr %q{i}")
            continue
        lines.append(f"  %a{i} = load {t}, ptr %q{i}, align 1")
        args.append(f"{t} %a{i}")
    for i, dim in enumerate(_DIMENSIONS):
        lines += [
            f"  %{dim}.at = getelementptr i32, ptr %geometry, i64 {i}",
            f"  %{dim}.32 = load i32, ptr %{dim}.at",
            f"  %{dim}.w = zext i32 %{dim}.32 to i64",
        ]
    lines += [
        "  %dyn.at = getelementptr i32, ptr %geometry, i64 9",
        "  %dyn.32 = load i32, ptr %dyn.at",
        "  %dyn = zext i32 %dyn.32 to i64",
    ]
    dims = [f"%{d}.w" for d in _DIMENSIONS]
    if block is not None:
        dims[3:] = map(str, block)
    return lines, args, dims


def thread_call(name: str, args: Sequence[str], dims: Sequence[str], *more: str, shared: str = "%shared") -> str:
    values = ", ".join(
        [
            *args,
            *(f"i64 {v}" for v in ("%tx", "%ty", "%tz", "%bx", "%by", "%bz", *dims)),
            f"ptr {shared}",
            "i64 %dyn",
            *more,
        ]
    )
    return f'  call void @"{name}.thread"({values})'


def function_head(name: str, lines: Sequence[str], dims: Sequence[str]) -> list[str]:
    return [
        f'define void @"{name}"(ptr %params, ptr %geometry, ptr %shared, i64 %first, i64 %last) nounwind {{',
        "entry:",
        *lines,
        f"  %gxy = mul i64 {dims[0]}, {dims[1]}",
    ]


def block_ids(gx: str) -> list[str]:
    return [
        "  %bz = udiv i64 %block, %gxy",
        "  %in.z = urem i64 %block, %gxy",
        f"  %by = udiv i64 %in.z, {gx}",
        f"  %bx = urem i64 %in.z, {gx}",
    ]


NUMBER_LAUNCH = [
    "  %launch.at = getelementptr i32, ptr %geometry, i64 11",
    "  %launch.32 = load i32, ptr %launch.at",
    "  %launch = zext i32 %launch.32 to i64",
    "  store i64 %launch, ptr @fly_launch",
]
"""In checked mode: which launch it is."""


def plain_function(
    name: str,
    arguments: Sequence[str],
    block: tuple[int, int, int] | None,
    checked: bool = False,
    first: Sequence[str] = (),
) -> str:
    """Loops over blocks and threads, behind the lines `first`."""
    lines, args, dims = prologue(arguments, block)
    lines += [*(NUMBER_LAUNCH if checked else []), *first]
    nx, ny, nz = dims[3:]
    return "\n".join(
        [
            *function_head(name, lines, dims),
            "  br label %blocks",
            "blocks:",
            "  %block = phi i64 [ %first, %entry ], [ %block.next, %done ]",
            "  %more = icmp ult i64 %block, %last",
            "  br i1 %more, label %start, label %out",
            "start:",
            *block_ids(dims[0]),
            "  br label %loop.z",
            "loop.z:",
            "  %tz = phi i64 [ 0, %start ], [ %tz.next, %next.z ]",
            "  br label %loop.y",
            "loop.y:",
            "  %ty = phi i64 [ 0, %loop.z ], [ %ty.next, %next.y ]",
            "  br label %loop.x",
            "loop.x:",
            "  %tx = phi i64 [ 0, %loop.y ], [ %tx.next, %loop.x ]",
            thread_call(name, args, dims),
            "  %tx.next = add nuw nsw i64 %tx, 1",
            f"  %again.x = icmp ult i64 %tx.next, {nx}",
            "  br i1 %again.x, label %loop.x, label %next.y",
            "next.y:",
            "  %ty.next = add nuw nsw i64 %ty, 1",
            f"  %again.y = icmp ult i64 %ty.next, {ny}",
            "  br i1 %again.y, label %loop.y, label %next.z",
            "next.z:",
            "  %tz.next = add nuw nsw i64 %tz, 1",
            f"  %again.z = icmp ult i64 %tz.next, {nz}",
            "  br i1 %again.z, label %loop.z, label %done",
            "done:",
            "  %block.next = add nuw i64 %block, 1",
            "  br label %blocks",
            "out:",
            "  ret void",
            "}",
            "",
        ]
    )


def phased_function(name: str, arguments: Sequence[str], block: tuple[int, int, int]) -> str:
    """A loop over blocks around a function of a whole block."""
    lines, args, dims = prologue(arguments, block)
    values = ", ".join([*args, *(f"i64 {v}" for v in ("%bx", "%by", "%bz", *dims)), "ptr %shared", "i64 %dyn"])
    return "\n".join(
        [
            *function_head(name, lines, dims),
            "  br label %blocks",
            "blocks:",
            "  %block = phi i64 [ %first, %entry ], [ %block.next, %start ]",
            "  %more = icmp ult i64 %block, %last",
            "  br i1 %more, label %start, label %out",
            "start:",
            *block_ids(dims[0]),
            f'  call void @"{name}.block"({values})',
            "  %block.next = add nuw i64 %block, 1",
            "  br label %blocks",
            "out:",
            "  ret void",
            "}",
            "",
        ]
    )


def make_states(how: Synchronization, origin: str, memory: str, more: Sequence[str], then: str) -> list[str]:
    """A loop from block `origin` that makes the state of each block of a cluster, in its part of the shared memory."""
    return [
        "make:",
        f"  %m = phi i64 [ 0, {origin} ], [ %m.next, %make ]",
        f"  %made = call ptr @fly_make_state(i64 %n, i64 {how.unit}, i64 {how.slot})",
        "  %made.at = getelementptr ptr, ptr %states, i64 %m",
        "  store ptr %made, ptr %made.at",
        f"  %made.cluster = getelementptr i8, ptr %made, i64 {CLUSTER}",
        "  store ptr %cluster, ptr %made.cluster",
        f"  %made.rank = getelementptr i8, ptr %made, i64 {RANK}",
        "  store i64 %m, ptr %made.rank",
        "  %made.offset = mul i64 %m, %stride",
        f"  %made.memory = getelementptr i8, ptr {memory}, i64 %made.offset",
        f"  %made.shared = getelementptr i8, ptr %made, i64 {SHARED}",
        "  store ptr %made.memory, ptr %made.shared",
        *more,
        "  %m.next = add nuw nsw i64 %m, 1",
        f"  %m.more = icmp ult i64 %m.next, {how.blocks}",
        f"  br i1 %m.more, label %make, label {then}",
    ]


def start_members(
    name: str,
    args: Sequence[str],
    dims: Sequence[str],
    how: Synchronization,
    origin: str,
    clear: Sequence[str],
    then: str,
) -> list[str]:
    """A loop from block `origin` over the blocks of a cluster that starts their threads, unit by unit."""
    nx, ny, _ = dims[3:]
    unit, slot = how.unit, how.slot
    return [
        "members:",
        f"  %rank = phi i64 [ 0, {origin} ], [ %rank.next, %member.done ]",
        "  %state.at = getelementptr ptr, ptr %states, i64 %rank",
        "  %state = load ptr, ptr %state.at",
        f"  %memory.at = getelementptr i8, ptr %state, i64 {SHARED}",
        "  %memory = load ptr, ptr %memory.at",
        *(block_ids(dims[0]) if how.blocks == 1 else member_ids(dims, how.cluster or (1, 1, 1))),
        *store_ids(),
        f"  %named = getelementptr i8, ptr %state, i64 {NAMED}",
        "  call void @llvm.memset.p0.i64(ptr %named, i8 0, i64 64, i1 false)",
        *clear,
        "  br label %units",
        "units:",
        "  %begin = phi i64 [ 0, %members ], [ %end, %drained ]",
        f"  %end.0 = add nuw nsw i64 %begin, {unit}",
        "  %end = call i64 @llvm.umin.i64(i64 %end.0, i64 %n)",
        "  br label %threads",
        "threads:",
        "  %tid = phi i64 [ %begin, %units ], [ %tid.next, %threads ]",
        f"  %tx = urem i64 %tid, {nx}",
        f"  %row = udiv i64 %tid, {nx}",
        f"  %ty = urem i64 %row, {ny}",
        f"  %tz = udiv i64 %row, {ny}",
        thread_call(name, args, dims, "ptr %state", "i64 %tid", shared="%memory"),
        "  %tid.next = add nuw nsw i64 %tid, 1",
        "  %again = icmp ult i64 %tid.next, %end",
        "  br i1 %again, label %threads, label %drained",
        "drained:",
        f"  %collectives = call i64 @fly_drain(ptr %state, i64 %begin, i64 %end, i64 {unit}, i64 {slot}, i1 false)",
        "  %units.left = icmp ult i64 %end, %n",
        "  br i1 %units.left, label %units, label %member.done",
        "member.done:",
        "  %rank.next = add nuw nsw i64 %rank, 1",
        f"  %members.left = icmp ult i64 %rank.next, {how.blocks}",
        f"  br i1 %members.left, label %members, label {then}",
    ]


def synchronizing_function(
    name: str,
    arguments: Sequence[str],
    block: tuple[int, int, int] | None,
    how: Synchronization,
    sites: str,
    check: Check | None = None,
) -> str:
    """Loops over blocks; in each, threads are started unit by unit and then scheduled until all have finished.

    Where a kernel has to do with its cluster, blocks come in the order of clusters and those of one run together.
    `sites` is the table of what to say of places where threads wait.
    """
    lines, args, dims = prologue(arguments, block)
    lines += NUMBER_LAUNCH if check is not None else []
    nx, ny, nz = dims[3:]
    unit, slot = how.unit, how.slot
    make, clear, free = _shadow_lines(check)
    count = how.blocks
    warp = check.warp if check else 0
    return "\n".join(
        [
            *function_head(name, lines, dims),
            f"  %nxy = mul i64 {nx}, {ny}",
            f"  %n = mul i64 %nxy, {nz}",
            f"  %states = alloca [{count} x ptr], align 8",
            "  %cluster = alloca [64 x i8], align 64",
            "  %stride.at = getelementptr i32, ptr %geometry, i64 10",
            "  %stride.32 = load i32, ptr %stride.at",
            "  %stride = zext i32 %stride.32 to i64",
            "  br label %make",
            *make_states(how, "%entry", "%shared", make, "%blocks"),
            "blocks:",
            "  %block = phi i64 [ %first, %make ], [ %block.next, %done ]",
            "  %more = icmp ult i64 %block, %last",
            "  br i1 %more, label %start, label %out",
            "start:",
            *start_cluster(how.cluster or (1, 1, 1)),
            "  br label %members",
            *start_members(name, args, dims, how, "%start", clear, "%run"),
            "run:",
            (
                f"  call void @fly_run_cluster(ptr %states, i64 {count}, i64 %n, i64 {unit}, i64 {slot}, i64 {warp}, "
                f"ptr {sites})"
                if how.waits
                else f"  %ran = call i32 @fly_run_block(ptr %state, i64 %n, i64 {unit}, i64 {slot}, i64 {warp}, "
                f"ptr {sites})"
            ),
            "  br label %done",
            "done:",
            f"  %block.next = add nuw i64 %block, {count}",
            "  br label %blocks",
            "out:",
            "  %f = phi i64 [ 0, %blocks ], [ %f.next, %out ]",
            "  %freed.at = getelementptr ptr, ptr %states, i64 %f",
            "  %freed = load ptr, ptr %freed.at",
            "  %arena = load ptr, ptr %freed",
            "  call void @free(ptr %arena)",
            *free,
            "  call void @free(ptr %freed)",
            "  %f.next = add nuw nsw i64 %f, 1",
            f"  %f.more = icmp ult i64 %f.next, {count}",
            "  br i1 %f.more, label %out, label %left",
            "left:",
            "  ret void",
            "}",
            "",
        ]
    )


def start_cluster(extents: tuple[int, int, int]) -> list[str]:
    """The record of a cluster, see `cpu_clusters.py`."""
    count = extents[0] * extents[1] * extents[2]
    return [
        "  call void @llvm.memset.p0.i64(ptr %cluster, i8 0, i64 64, i1 false)",
        f"  %everyone = mul i64 %n, {count}",
        "  %everyone.32 = trunc i64 %everyone to i32",
        "  %expected = getelementptr i8, ptr %cluster, i64 4",
        "  store i32 %everyone.32, ptr %expected",
        "  %cluster.stride = getelementptr i8, ptr %cluster, i64 16",
        "  store i64 %stride, ptr %cluster.stride",
        "  %cluster.states = getelementptr i8, ptr %cluster, i64 24",
        "  store ptr %states, ptr %cluster.states",
        "  %cluster.blocks = getelementptr i8, ptr %cluster, i64 32",
        f"  store i64 {count}, ptr %cluster.blocks",
        "  %cluster.extents = getelementptr i8, ptr %cluster, i64 40",
        f"  store [3 x i32] [i32 {extents[0]}, i32 {extents[1]}, i32 {extents[2]}], ptr %cluster.extents",
    ]


def member_ids(dims: Sequence[str], cluster: tuple[int, int, int]) -> list[str]:
    """Ids of the block of this rank in the cluster that starts at `%block`; x runs fastest in both."""
    cx, cy, cz = cluster
    lines = [
        f"  %which = udiv i64 %block, {cx * cy * cz}",
        f"  %across = udiv i64 {dims[0]}, {cx}",
        f"  %along = udiv i64 {dims[1]}, {cy}",
        "  %plane = mul i64 %across, %along",
        "  %cluster.z = udiv i64 %which, %plane",
        "  %in.plane = urem i64 %which, %plane",
        "  %cluster.y = udiv i64 %in.plane, %across",
        "  %cluster.x = urem i64 %in.plane, %across",
        f"  %rank.z = udiv i64 %rank, {cx * cy}",
        f"  %rank.xy = urem i64 %rank, {cx * cy}",
        f"  %rank.y = udiv i64 %rank.xy, {cx}",
        f"  %rank.x = urem i64 %rank.xy, {cx}",
    ]
    for dim, extent in zip("xyz", cluster, strict=True):
        lines += [f"  %from.{dim} = mul i64 %cluster.{dim}, {extent}", f"  %b{dim} = add i64 %from.{dim}, %rank.{dim}"]
    return lines


def store_ids() -> list[str]:
    lines: list[str] = []
    for i, dim in enumerate("xyz"):
        lines += [
            f"  %id.{dim} = getelementptr i8, ptr %state, i64 {BLOCK_IDS + 8 * i}",
            f"  store i64 %b{dim}, ptr %id.{dim}",
        ]
    return lines


def _shadow_lines(check: Check | None) -> tuple[list[str], list[str], list[str]]:
    """Lines that make, clear and free what checked mode knows of a block."""
    if check is None:
        return [], [], []
    make = [
        f"  %memory.n = add i64 %dyn, {check.static}",
        f"  call void @fly_check_make(ptr %made, i64 %memory.n, i64 {check.warp}, i64 %n)",
    ]
    return make, ["  call void @fly_check_clear(ptr %state)"], ["  call void @fly_check_free(ptr %freed)"]


_SCHEDULER = f"""
define internal ptr @fly_make_state(i64 %n, i64 %unit, i64 %slot) nounwind {{
entry:
  %up = add i64 %n, %unit
  %up.1 = sub i64 %up, 1
  %units = udiv i64 %up.1, %unit
  %unit.bytes = mul i64 %unit, %slot
  %half = mul i64 %units, %unit.bytes
  %both = shl i64 %half, 1
  %bytes.0 = add i64 %both, {EXCHANGE + 63}
  %bytes = and i64 %bytes.0, -64
  %state = call ptr @aligned_alloc(i64 64, i64 %bytes)
  call void @llvm.memset.p0.i64(ptr %state, i8 0, i64 %bytes, i1 false)
  %deposit = getelementptr i8, ptr %state, i64 {DEPOSIT}
  %shown = getelementptr i8, ptr %state, i64 {SHOWN}
  %exchange = getelementptr i8, ptr %state, i64 {EXCHANGE}
  br label %loop
loop:
  %u = phi i64 [ 0, %entry ], [ %u.next, %loop ]
  %offset = mul i64 %u, %unit.bytes
  %first = getelementptr i8, ptr %exchange, i64 %offset
  %second = getelementptr i8, ptr %first, i64 %half
  %deposit.u = getelementptr ptr, ptr %deposit, i64 %u
  store ptr %first, ptr %deposit.u
  %shown.u = getelementptr ptr, ptr %shown, i64 %u
  store ptr %second, ptr %shown.u
  %u.next = add i64 %u, 1
  %more = icmp ult i64 %u.next, %units
  br i1 %more, label %loop, label %out
out:
  ret ptr %state
}}

; Run the collectives of the threads begin <= t < end, which are one unit, until none of them waits at one, or some
; wait for memory and `force` is not set. Gives how many were run.
define internal i64 @fly_drain(ptr %state, i64 %begin, i64 %end, i64 %unit, i64 %slot, i1 %force) nounwind {{
entry:
  %statuses = getelementptr i8, ptr %state, i64 {STATUS}
  %handles = getelementptr i8, ptr %state, i64 {HANDLES}
  %took = getelementptr i8, ptr %state, i64 {TOOK}
  %u = udiv i64 %begin, %unit
  %deposits = getelementptr i8, ptr %state, i64 {DEPOSIT}
  %deposit.at = getelementptr ptr, ptr %deposits, i64 %u
  %showns = getelementptr i8, ptr %state, i64 {SHOWN}
  %shown.at = getelementptr ptr, ptr %showns, i64 %u
  ; A kernel without collectives has no slots.
  %alone = icmp eq i64 %slot, 0
  br i1 %alone, label %out, label %again
again:
  %count = phi i64 [ 0, %entry ], [ %count.next, %resumed ]
  br label %lowest
lowest:
  %t = phi i64 [ %begin, %again ], [ %t.next, %lowest ]
  %low = phi i32 [ {BARRIER}, %again ], [ %low.next, %lowest ]
  %most = phi i32 [ 0, %again ], [ %most.next, %lowest ]
  %status.at = getelementptr i32, ptr %statuses, i64 %t
  %status = load i32, ptr %status.at
  %waits = icmp ne i32 %status, 0
  %smaller = call i32 @llvm.umin.i32(i32 %low, i32 %status)
  %low.next = select i1 %waits, i32 %smaller, i32 %low
  %most.next = call i32 @llvm.umax.i32(i32 %most, i32 %status)
  %t.next = add nuw nsw i64 %t, 1
  %t.more = icmp ult i64 %t.next, %end
  br i1 %t.more, label %lowest, label %found
found:
  %none = icmp eq i32 %low.next, {BARRIER}
  %calm = icmp ult i32 %most.next, {WAIT}
  %may = or i1 %calm, %force
  %may.not = xor i1 %may, true
  %stop = or i1 %none, %may.not
  br i1 %stop, label %out, label %swap
swap:
  %old = load ptr, ptr %deposit.at
  %new = load ptr, ptr %shown.at
  store ptr %new, ptr %deposit.at
  store ptr %old, ptr %shown.at
  br label %mark
mark:
  %m = phi i64 [ %begin, %swap ], [ %m.next, %mark ]
  %behind = phi i1 [ false, %swap ], [ %behind.next, %mark ]
  %m.status.at = getelementptr i32, ptr %statuses, i64 %m
  %m.status = load i32, ptr %m.status.at
  %goes = icmp eq i32 %m.status, %low.next
  %goes.8 = zext i1 %goes to i8
  %took.at = getelementptr i8, ptr %took, i64 %m
  store i8 %goes.8, ptr %took.at
  %m.waits = icmp ne i32 %m.status, 0
  %m.site = icmp ult i32 %m.status, {BARRIER}
  %m.stays.0 = and i1 %m.waits, %m.site
  %m.other = xor i1 %goes, true
  %m.stays = and i1 %m.stays.0, %m.other
  %behind.next = or i1 %behind, %m.stays
  %m.next = add nuw nsw i64 %m, 1
  %m.more = icmp ult i64 %m.next, %end
  br i1 %m.more, label %mark, label %marked
marked:
  br i1 %behind.next, label %carry, label %resume
; Threads that wait elsewhere in the unit wrote to the buffer that is being read now.
carry:
  %c = phi i64 [ %begin, %marked ], [ %c.next, %carry.next ]
  %c.took.at = getelementptr i8, ptr %took, i64 %c
  %c.took = load i8, ptr %c.took.at
  %c.goes = icmp ne i8 %c.took, 0
  br i1 %c.goes, label %carry.next, label %carry.one
carry.one:
  %c.lane = sub i64 %c, %begin
  %c.offset = mul i64 %c.lane, %slot
  %c.from = getelementptr i8, ptr %old, i64 %c.offset
  %c.to = getelementptr i8, ptr %new, i64 %c.offset
  call void @llvm.memcpy.p0.p0.i64(ptr %c.to, ptr %c.from, i64 %slot, i1 false)
  br label %carry.next
carry.next:
  %c.next = add nuw nsw i64 %c, 1
  %c.more = icmp ult i64 %c.next, %end
  br i1 %c.more, label %carry, label %resume
resume:
@MEET@
  br label %go
go:
  %g = phi i64 [ %begin, %resume ], [ %g.next, %go.next ]
  %g.took.at = getelementptr i8, ptr %took, i64 %g
  %g.took = load i8, ptr %g.took.at
  %g.goes = icmp ne i8 %g.took, 0
  br i1 %g.goes, label %go.one, label %go.next
go.one:
  %g.handle.at = getelementptr ptr, ptr %handles, i64 %g
  %g.handle = load ptr, ptr %g.handle.at
  call void @llvm.coro.resume(ptr %g.handle)
  br label %go.next
go.next:
  %g.next = add nuw nsw i64 %g, 1
  %g.more = icmp ult i64 %g.next, %end
  br i1 %g.more, label %go, label %resumed
resumed:
  %count.next = add i64 %count, 1
  br label %again
out:
  %ran = phi i64 [ 0, %entry ], [ %count, %found ]
  ret i64 %ran
}}

; Open barriers until every thread has finished. Threads that wait for memory go first: they may come to the barrier.
; Gives 0 at the end, 1 after a round in which threads that wait for memory achieved nothing, 2 if some of them poll.
define internal i32 @fly_run_block(ptr %state, i64 %n, i64 %unit, i64 %slot, i64 %warp, ptr %sites) nounwind {{
entry:
  %progress = getelementptr i8, ptr %state, i64 {PROGRESS}
  %statuses = getelementptr i8, ptr %state, i64 {STATUS}
  %handles = getelementptr i8, ptr %state, i64 {HANDLES}
  br label %round
round:
  %before = load i64, ptr %progress
  br label %look
look:
  %t = phi i64 [ 0, %round ], [ %t.next, %look ]
  %most = phi i32 [ 0, %round ], [ %most.next, %look ]
  %few = phi i32 [ -1, %round ], [ %few.next, %look ]
  %status.at = getelementptr i32, ptr %statuses, i64 %t
  %status = load i32, ptr %status.at
  %most.next = call i32 @llvm.umax.i32(i32 %most, i32 %status)
  %few.next = call i32 @llvm.umin.i32(i32 %few, i32 %status)
  %t.next = add nuw nsw i64 %t, 1
  %t.more = icmp ult i64 %t.next, %n
  br i1 %t.more, label %look, label %seen
seen:
  %finished = icmp eq i32 %most.next, 0
  br i1 %finished, label %out, label %choose
choose:
  %memory = icmp uge i32 %most.next, {WAIT}
  %least = select i1 %memory, i32 {WAIT}, i32 1
  br i1 %memory, label %opened, label %open
open:
  %opens = add i64 %before, 1
  store i64 %opens, ptr %progress
@CHECK@
  br label %opened
opened:
  br label %units
units:
  %begin = phi i64 [ 0, %opened ], [ %end, %drained ]
  %end.0 = add nuw nsw i64 %begin, %unit
  %end = call i64 @llvm.umin.i64(i64 %end.0, i64 %n)
  %everyone = icmp uge i32 %few.next, %least
  br i1 %everyone, label %all, label %threads
; The usual case: nobody has left and all wait for the same.
all:
  %a = phi i64 [ %begin, %units ], [ %a.next, %all ]
  %a.handle.at = getelementptr ptr, ptr %handles, i64 %a
  %a.handle = load ptr, ptr %a.handle.at
  call void @llvm.coro.resume(ptr %a.handle)
  %a.next = add nuw nsw i64 %a, 1
  %a.more = icmp ult i64 %a.next, %end
  br i1 %a.more, label %all, label %drained
threads:
  %g = phi i64 [ %begin, %units ], [ %g.next, %threads.next ]
  %g.status.at = getelementptr i32, ptr %statuses, i64 %g
  %g.status = load i32, ptr %g.status.at
  %goes = icmp uge i32 %g.status, %least
  br i1 %goes, label %resume, label %threads.next
resume:
  %handle.at = getelementptr ptr, ptr %handles, i64 %g
  %handle = load ptr, ptr %handle.at
  call void @llvm.coro.resume(ptr %handle)
  br label %threads.next
threads.next:
  %g.next = add nuw nsw i64 %g, 1
  %g.more = icmp ult i64 %g.next, %end
  br i1 %g.more, label %threads, label %drained
drained:
  %ran = call i64 @fly_drain(ptr %state, i64 %begin, i64 %end, i64 %unit, i64 %slot, i1 false)
  %units.left = icmp ult i64 %end, %n
  br i1 %units.left, label %units, label %next.round
next.round:
  %now = load i64, ptr %progress
  %same = icmp eq i64 %now, %before
  br i1 %same, label %stalled, label %round
stalled:
  %polls = icmp uge i32 %most.next, {POLL}
  %code = select i1 %polls, i32 2, i32 1
  ret i32 %code
out:
  ret i32 0
}}
"""

_BALLOT = """
define internal i64 @fly_ballot(ptr %from, i64 %stride, ptr %took, i64 %lanes) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %mask = phi i64 [ 0, %entry ], [ %mask.next, %loop ]
  %offset = mul i64 %i, %stride
  %at = getelementptr i8, ptr %from, i64 %offset
  %vote = load i8, ptr %at
  %took.at = getelementptr i8, ptr %took, i64 %i
  %there = load i8, ptr %took.at
  %both = and i8 %vote, %there
  %bit = zext i8 %both to i64
  %placed = shl i64 %bit, %i
  %mask.next = or i64 %mask, %placed
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %i.next, %lanes
  br i1 %more, label %loop, label %out
out:
  ret i64 %mask.next
}
"""

_FIRST = """
define internal i64 @fly_first(ptr %took, i64 %lanes) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %at = getelementptr i8, ptr %took, i64 %i
  %there = load i8, ptr %at
  %yes = icmp ne i8 %there, 0
  br i1 %yes, label %out, label %next
next:
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %i.next, %lanes
  br i1 %more, label %loop, label %out
out:
  %lane = phi i64 [ %i, %loop ], [ 0, %next ]
  ret i64 %lane
}
"""


def once(text: ModuleText, code: str) -> bool:
    """Add a piece of the module's text unless it is there."""
    if code in text.globals:
        return False
    text.globals.append(code)
    return True


_MEET = "  call void @fly_check_meet(ptr %state, i64 %begin, i64 %end)"
_CHECK = "  call void @fly_check_barrier(ptr %state, i64 %n, i64 %warp, ptr %sites)"


def need_scheduler(text: ModuleText, checked: bool = False) -> None:
    """The scheduler's functions, once per module."""
    code = _SCHEDULER.replace("@CHECK@\n", f"{_CHECK}\n" if checked else "")
    code = code.replace("@MEET@\n", f"{_MEET}\n" if checked else "")
    if once(text, code):
        text.declare("aligned_alloc", "ptr", ["i64", "i64"])
        text.declare("free", "void", ["ptr"])
        text.declare("llvm.umin.i64", "i64", ["i64", "i64"])
        text.declare("llvm.umin.i32", "i32", ["i32", "i32"])
        text.declare("llvm.umax.i32", "i32", ["i32", "i32"])
        text.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
        text.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
        text.declare("llvm.coro.resume", "void", ["ptr"])


def need_ballot(text: ModuleText) -> None:
    """Votes of a warp as a mask."""
    once(text, _BALLOT)


def need_first(text: ModuleText) -> None:
    """The first lane that took part."""
    once(text, _FIRST)
