"""The code of the cpu stack's native launcher: functions with the signatures of the GPU drivers' launch calls.

A launch describes its blocks in a job; the calling thread and its helpers take chunks of blocks from it until none is
left. Status codes are those of the GPU drivers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ...llvm.text.routine import Routine, Value
from .interrupt_ir import INTERRUPT_IR, INTERRUPTED, SUPPORTED

FLAG_CLUSTERS = 1
"""Descriptor flag: the kernel was compiled for clusters of the extents in its descriptor and runs in them."""
FLAG_COOPERATIVE = 2
"""Descriptor flag: the kernel synchronises the whole grid itself when it is given all blocks in one call."""

GEOMETRY_WORDS = 12
"""Grid x, y, z; block x, y, z; cluster x, y, z; dynamic shared bytes; bytes from one block's shared memory to the next
in a cluster; the number of the launch, for kernels that report."""
_CLUSTER, _DYNAMIC, _STRIDE, _NUMBER = 6, 9, 10, 11

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_HANDLE, NOT_SUPPORTED = 0, 1, 2, 400, 801
FAILED_CHECKS = 719
"""Status of a launch in which checked mode found something wrong; the drivers' code for a kernel that failed."""
SHARED_ALIGNMENT = 1024
MAX_BLOCK_THREADS = 1024
SERIAL_BELOW_THREADS = 8192
"""Launches with fewer threads in all run on the calling thread."""
_MAX_BLOCKS = 1 << 48
_MAX_HELPERS = 256

# Offsets in a kernel's descriptor (`KernelDescriptor`), and in a job.
_FN, _STATIC, _FLAGS, _REPORTS, _OWN_CLUSTER = 0, 8, 16, 24, 32
_JOB_FN, _PARAMS, _GEOMETRY, _BYTES, _TOTAL, _CHUNK, _NEXT, _DONE, _HOLDERS, _STOPPED = range(0, 80, 8)
_JOB_BYTES = 128
"""A multiple of the alignment of a cache line, 64."""

_TENSOR_TYPE_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2)
"""Bytes of the data types of a tensor map by the driver's numbers."""

_GLOBALS = f"""
@launches = internal global i32 0, align 4
@flydsl_cpu_threads = global i32 1, align 4
@flydsl_cpu_serial_below = global i64 {SERIAL_BELOW_THREADS}, align 8
@flydsl_cpu_helpers = global i64 0, align 8
@type.bytes = internal constant [10 x i32] [{", ".join(f"i32 {n}" for n in _TENSOR_TYPE_BYTES)}]
"""
"""`flydsl_cpu_helpers` counts those that have not ended: the process waits for them before it takes their code away."""


def _null(r: Routine) -> Value:
    return Value(r, "ptr", "null")


def _global(r: Routine, name: str) -> Value:
    return Value(r, "ptr", f"@{name}")


def _any(*flags: Value) -> Value:
    found = flags[0]
    for flag in flags[1:]:
        found = found | flag
    return found


def _work() -> Routine:
    """Take chunks of blocks until none is left. Without memory for shared data it takes none: others, or nobody, do."""
    r = Routine("work", "void", "ptr job")
    job = r["job"]
    fn, params, geometry = (r.load("ptr", job, at, align=8) for at in (_JOB_FN, _PARAMS, _GEOMETRY))
    nbytes, total, chunk = (r.load("i64", job, at, align=8) for at in (_BYTES, _TOTAL, _CHUNK))
    following, done = r.at(job, _NEXT), r.at(job, _DONE)
    with r.when(r.atomic_load("i64", following) >= total):
        r.give()  # All is done, and what the job points to may be gone.
    shared = r.variable("ptr", _null(r))
    with r.when(nbytes.is_not(0)):
        shared.set(r.value_of("aligned_alloc", "ptr", ("i64", SHARED_ALIGNMENT), nbytes, external=True))
        with r.when(shared.get().is_(_null(r))):
            r.give()
    first = r.variable("i64", 0)

    def more() -> Value:
        first.set(r.atomic("add", following, chunk))
        return first.get() < total

    with r.again(more):
        begin = first.get()
        end = r.least(begin + chunk, total)
        if SUPPORTED:
            left = r.value_of("guarded", "i32", fn, params, geometry, shared.get(), begin, end).is_not(0)
            with r.when(left):
                # Interrupted: nobody takes another block, and these count as not done.
                r.store("i64", 1, job, _STOPPED, align=8)
                r.atomic("add", following, total)
                with r.when(nbytes.is_not(0)):
                    r.call("free", "void", shared.get(), external=True)
                r.give()
        else:
            r.invoke(fn, params, geometry, shared.get(), begin, end)
        r.atomic("add", done, end - begin, "release")
    with r.when(nbytes.is_not(0)):
        r.call("free", "void", shared.get(), external=True)
    return r


def _drop() -> Routine:
    """Let go of a job; the last one frees it."""
    r = Routine("drop", "void", "ptr job")
    before = r.atomic("sub", r.at(r["job"], _HOLDERS), r.number(1), "acq_rel")
    with r.when(before.is_(1)):
        r.call("free", "void", r["job"], external=True)
    return r


def _worker() -> Routine:
    """A helper. When it starts late it touches nothing but the job."""
    r = Routine("worker", "ptr", "ptr job")
    r.call("work", "void", r["job"])
    r.call("drop", "void", r["job"])
    r.atomic("sub", _global(r, "flydsl_cpu_helpers"), r.number(1), "release")
    r.give(_null(r))
    return r


def _leave_if(r: Routine, flag: Value, status: int) -> None:
    with r.when(flag):
        r.give(status)


def _launch() -> Routine:
    """Check a launch, describe it and run it."""
    r = Routine("launch", "i32", "ptr fn, ptr geometry, i32 cooperative, ptr params")
    fn, geometry = r["fn"], r["geometry"]
    words = [r.load("i32", geometry, 4 * i, align=4) for i in range(_STRIDE)]
    _leave_if(r, fn.is_(_null(r)), INVALID_HANDLE)
    block = [word.to("i64") for word in words[3:6]]
    largest = r.most(r.most(block[0], block[1]), block[2])
    threads = block[0] * block[1] * block[2]
    _leave_if(r, _any(largest > MAX_BLOCK_THREADS, threads.is_(0), threads > MAX_BLOCK_THREADS), INVALID_VALUE)
    grid = [word.to("i64") for word in words[:3]]
    pair = r.value_of("llvm.umul.with.overflow.i64", "{ i64, i1 }", grid[0] * grid[1], grid[2], external=True)
    total = r.assign("i64", f"extractvalue {pair.type} {pair.name}, 0")
    overflow = r.assign("i1", f"extractvalue {pair.type} {pair.name}, 1")
    _leave_if(r, overflow | (total > _MAX_BLOCKS), INVALID_VALUE)
    _leave_if(r, total.is_(0), SUCCESS)
    cluster, lacks = _check_cluster(r, words)
    _leave_if(r, lacks, NOT_SUPPORTED)
    with r.when(r.load("ptr", fn, _REPORTS, align=8).is_not(_null(r))):
        number = r.atomic("add", _global(r, "launches"), r.number(1, "i32"))
        r.store("i32", number + 1, geometry, 4 * _NUMBER, align=4)
    needed = r.load("i64", fn, _STATIC, align=8) + words[_DYNAMIC].to("i64")
    stride = (needed + (SHARED_ALIGNMENT - 1)) & -SHARED_ALIGNMENT
    r.store("i32", stride.to("i32"), geometry, 4 * _STRIDE, align=4)
    limit = r.atomic_load("i32", _global(r, "flydsl_cpu_threads")).to("i64")
    count = r.most(r.least(r.least(limit, r.number(_MAX_HELPERS)), total), r.number(1))
    small = total * threads < r.atomic_load("i64", _global(r, "flydsl_cpu_serial_below"))
    serial = _any(small, count.is_(1), r["cooperative"].is_not(0))
    _run(r, stride * cluster, total, cluster, count, serial)
    _leave_if(r, r.load("ptr", fn, _REPORTS, align=8).is_(_null(r)), SUCCESS)
    # In checked mode a kernel counts what it found wrong.
    _leave_if(r, r.atomic_load("i32", r.load("ptr", fn, _REPORTS, align=8)).is_(0), SUCCESS)
    r.give(FAILED_CHECKS)
    return r


def _check_cluster(r: Routine, words: list[Value]) -> tuple[Value, Value]:
    """The number of blocks of a cluster, and whether the kernel cannot run as it is asked to.

    A kernel compiled for clusters says so itself, others have zeros there; a launch may repeat it.
    """
    given = words[_CLUSTER : _CLUSTER + 3]
    own = [r.load("i32", r["fn"], _OWN_CLUSTER + 4 * i, align=4) for i in range(3)]
    is_open = own[0].is_(0)
    take = (given[0] | given[1] | given[2]).is_not(1) | is_open
    extents = [r.choose(take, a, b) for a, b in zip(given, own, strict=True)]
    same = extents[0].is_(own[0]) & extents[1].is_(own[1]) & extents[2].is_(own[2])
    _leave_if(r, _any(*(extent.is_(0) for extent in extents)), INVALID_VALUE)
    rest = [word % extent for word, extent in zip(words[:3], extents, strict=True)]
    _leave_if(r, (rest[0] | rest[1] | rest[2]).is_not(0), INVALID_VALUE)
    clustered = (extents[0] | extents[1] | extents[2]).is_not(1)
    none = r.number(0)
    need = r.choose(clustered, r.number(FLAG_CLUSTERS), none)
    need = need | r.choose(r["cooperative"].is_not(0), r.number(FLAG_COOPERATIVE), none)
    lacks = (r.load("i64", r["fn"], _FLAGS, align=8) & need).is_not(need) | ~(same | is_open)
    return (extents[0] * extents[1] * extents[2]).to("i64"), lacks


def _run(r: Routine, nbytes: Value, total: Value, cluster: Value, count: Value, serial: Value) -> None:
    """Run all blocks: on the calling thread alone, or with helpers; leaves with a status if that is impossible."""
    thread_at, here = r.alloca(8, 16), r.alloca(_JOB_BYTES, 16)
    at = r.variable("ptr", here)
    with r.when(~serial):
        at.set(r.value_of("aligned_alloc", "ptr", ("i64", 64), ("i64", _JOB_BYTES), external=True))
        _leave_if(r, at.get().is_(_null(r)), OUT_OF_MEMORY)
    job = at.get()
    r.store("ptr", r.load("ptr", r["fn"], _FN, align=8), job, _JOB_FN, align=8)
    r.store("ptr", r["params"], job, _PARAMS, align=8)
    r.store("ptr", r["geometry"], job, _GEOMETRY, align=8)
    for offset, value in (
        (_BYTES, nbytes),
        (_TOTAL, total),
        (_CHUNK, total),
        (_NEXT, 0),
        (_DONE, 0),
        (_HOLDERS, 1),
        (_STOPPED, 0),
    ):
        r.store("i64", value, job, offset, align=8)
    holders, done = r.at(job, _HOLDERS), r.at(job, _DONE)
    finished, stopped = r.variable("i64", 0), r.variable("i64", 0)

    def alone() -> None:
        r.call("work", "void", job)
        finished.set(r.load("i64", done, align=8))
        stopped.set(r.load("i64", job, _STOPPED, align=8))

    def together() -> None:
        chunk = r.most(total // (count << 3) // cluster, r.number(1)) * cluster
        r.store("i64", chunk, job, _CHUNK, align=8)
        _start_helpers(r, job, holders, thread_at, count)
        r.call("work", "void", job)
        # Others finish what they took. Helpers that have not even started are not waited for: on a busy machine that
        # takes longer than the work. If all are gone and blocks are left, nobody had memory for them.
        with r.again(
            lambda: (r.atomic_load("i64", done, "acquire") < total) & r.atomic_load("i64", holders, "acquire").is_not(1)
        ):
            r.call("sched_yield", "i32", external=True)
        finished.set(r.atomic_load("i64", done, "acquire"))
        stopped.set(r.atomic_load("i64", r.at(job, _STOPPED)))
        r.call("drop", "void", job)

    r.either(serial, alone, together)
    _leave_if(r, stopped.get().is_not(0), INTERRUPTED)
    _leave_if(r, finished.get() < total, OUT_OF_MEMORY)


def _start_helpers(r: Routine, job: Value, holders: Value, thread_at: Value, count: Value) -> None:
    made = r.variable("i64", 1)
    helpers, worker, one = _global(r, "flydsl_cpu_helpers"), _global(r, "worker"), r.number(1)
    with r.again(lambda: made.get() < count):
        for counter in (holders, helpers):
            r.atomic("add", counter, one)
        refused = r.value_of("pthread_create", "i32", thread_at, _null(r), worker, job, external=True).is_not(0)

        def give_up() -> None:
            for counter in (holders, helpers):
                r.atomic("sub", counter, one)
            made.set(count)

        def detach() -> None:
            r.call("pthread_detach", "i32", r.load("i64", thread_at, align=8), external=True)
            made.set(made.get() + 1)

        r.either(refused, give_up, detach)


def _clear(r: Routine, at: Value, nbytes: int) -> None:
    r.call("llvm.memset.p0.i64", "void", at, ("i8", 0), ("i64", nbytes), ("i1", 0), external=True)


def _plain_launch() -> Routine:
    params = "ptr fn, i32 gx, i32 gy, i32 gz, i32 bx, i32 by, i32 bz, i32 smem, ptr stream, ptr params, ptr extra"
    r = Routine("flydsl_cpu_launch", "i32", params, linkage="")
    geometry = r.alloca(4 * GEOMETRY_WORDS, 16)
    _clear(r, geometry, 4 * GEOMETRY_WORDS)
    one = r.number(1, "i32")
    values = [*(r[name] for name in ("gx", "gy", "gz", "bx", "by", "bz")), one, one, one, r["smem"]]
    for i, value in enumerate(values):
        r.store("i32", value, geometry, 4 * i, align=4)
    _leave_if(r, r["extra"].is_not(_null(r)), NOT_SUPPORTED)
    r.give(r.value_of("launch", "i32", r["fn"], geometry, ("i32", 0), r["params"]))
    return r


def _extended_launch() -> Routine:
    """The config record is the drivers': grid and block at 0, shared bytes at 24, attributes at 40, their number at 48;
    an attribute has 72 bytes with its value at 8. Known: 2 cooperative, 4 cluster dimension, 6 early start (no effect).
    """
    r = Routine("flydsl_cpu_launch_ex", "i32", "ptr config, ptr fn, ptr params, ptr extra", linkage="")
    config, geometry = r["config"], r.alloca(4 * GEOMETRY_WORDS, 16)
    _clear(r, geometry, 4 * GEOMETRY_WORDS)
    for i in range(6):
        r.store("i32", r.load("i32", config, 4 * i, align=4), geometry, 4 * i, align=4)
        if i < 3:
            r.store("i32", 1, geometry, 4 * (_CLUSTER + i), align=4)
    r.store("i32", r.load("i32", config, 24, align=4), geometry, 4 * _DYNAMIC, align=4)
    _leave_if(r, r["extra"].is_not(_null(r)), NOT_SUPPORTED)
    attributes = r.load("ptr", config, 40, align=8)
    cooperative = r.variable("i32", 0)
    with r.loop(r.load("i32", config, 48, align=4).to("i64")) as i:
        record = r.at(attributes, i * 72)
        kind, value = r.load("i32", record, align=4), r.at(record, 8)
        _leave_if(r, ~_any(kind.is_(2), kind.is_(4), kind.is_(6)), NOT_SUPPORTED)
        with r.when(kind.is_(2)):
            cooperative.set(r.load("i32", value, align=4))
        with r.when(kind.is_(4)):
            for axis in range(3):
                r.store("i32", r.load("i32", value, 4 * axis, align=4), geometry, 4 * (_CLUSTER + axis), align=4)
    r.give(r.value_of("launch", "i32", r["fn"], geometry, cooperative.get(), r["params"]))
    return r


def _tensor_map() -> Routine:
    """Signature of cuTensorMapEncodeTiled, and its refusals: the address and the strides are multiples of 16 bytes.
    What is written is described in `cpu/code/tma.py`.
    """
    params = "ptr map, i32 type, i32 rank, ptr address, ptr dims, ptr strides, ptr box, ptr steps"
    r = Routine(
        "flydsl_cpu_tensor_map", "i32", f"{params}, i32 interleave, i32 swizzle, i32 promotion, i32 fill", linkage=""
    )
    kind, rank = r["type"], r["rank"].to("i64")
    misaligned = (r.address(r["address"]) & 15).is_not(0)
    _leave_if(r, _any(kind >= len(_TENSOR_TYPE_BYTES), rank > 5, rank.is_(0), misaligned), INVALID_VALUE)
    with r.loop(rank - 1) as i:
        _leave_if(r, (r.load("i64", r["strides"], i * 8, align=8) & 15).is_not(0), INVALID_VALUE)
    made = r["map"]
    _clear(r, made, 128)
    r.store("ptr", r["address"], made, align=8)
    r.store("i32", r["rank"], made, 8, align=4)
    r.store("i32", r.load("i32", _global(r, "type.bytes"), kind.to("i64") * 4, align=4), made, 12, align=4)
    swizzle, none = r["swizzle"], r.number(0, "i32")
    r.store("i32", r.choose(swizzle.is_(0), none, r.number(16, "i32") << swizzle), made, 16, align=4)
    r.store("i32", kind, made, 20, align=4)
    for at, source, nbytes in ((24, "dims", rank * 8), (64, "strides", (rank - 1) * 8), (96, "box", rank * 4)):
        r.call("llvm.memcpy.p0.p0.i64", "void", r.at(made, at), r[source], nbytes, ("i1", 0), external=True)
    r.give(SUCCESS)
    return r


_ROUTINES: tuple[Callable[[], Routine], ...] = (
    *(_work, _drop, _worker, _launch),
    *(_plain_launch, _extended_launch, _tensor_map),
)


@cache
def launcher_ir() -> str:
    """The whole module."""
    routines = [write() for write in _ROUTINES]
    declarations = {name: text for routine in routines for name, text in routine.declarations.items()}
    if SUPPORTED:
        declarations = {name: text for name, text in declarations.items() if f" @{name}(" not in INTERRUPT_IR}
    return "\n".join(
        [_GLOBALS, INTERRUPT_IR if SUPPORTED else "", *declarations.values(), *(routine.text() for routine in routines)]
    )
