"""The cpu stack's native launcher: LLVM IR with the signatures of the GPU drivers' launch calls.

Compiled once per process. A kernel handle is the address of a `KernelDescriptor`; no Python runs inside a launch.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
from typing import Any, ClassVar

FLAG_CLUSTERS = 1
"""Descriptor flag: the kernel was compiled for clusters of the extents in its descriptor and runs in them."""
FLAG_COOPERATIVE = 2
"""Descriptor flag: the kernel synchronises the whole grid itself when it is given all blocks in one call."""

GEOMETRY_WORDS = 12
"""Grid x, y, z; block x, y, z; cluster x, y, z; dynamic shared bytes; bytes from one block's shared memory to the next
in a cluster; the number of the launch, for kernels that report."""
FAILED_CHECKS = 719
"""Status of a launch in which checked mode found something wrong; the drivers' code for a kernel that failed."""
SHARED_ALIGNMENT = 1024
MAX_BLOCK_THREADS = 1024
SERIAL_BELOW_THREADS = 8192
"""Launches with fewer threads in all run on the calling thread."""


class KernelDescriptor(ctypes.Structure):
    """What a kernel handle of the cpu stack points to.

    `block_fn(params, geometry, shared, first_block, last_block)` runs the blocks `first_block <= i < last_block`,
    counted with x fastest.
    """

    _fields_: ClassVar = [
        ("block_fn", ctypes.c_void_p),
        ("shared_static_bytes", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("reports", ctypes.c_void_p),
        ("cluster", ctypes.c_uint32 * 3),
    ]


def cluster_of(library: Any, name: str) -> tuple[int, int, int]:
    """Extents of the clusters a kernel of a library was compiled for; zeros for none."""
    symbol = f"{name}.cluster"
    if symbol not in library.symbols:
        return 0, 0, 0
    packed = ctypes.CFUNCTYPE(ctypes.c_uint32)(library.address(symbol))()
    return packed & 1023, packed >> 10 & 1023, packed >> 20


LAUNCH_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    *(ctypes.c_uint32,) * 7,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
"""Prototype of the launch symbol of every stack: fn, grid, block, shared bytes, stream, params, extra."""

LAUNCH_EX_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
"""Prototype of the extended launch symbol: config, fn, params, extra."""

_LAUNCH_IR = f"""
%descriptor = type {{ ptr, i64, i64, ptr, [3 x i32] }}
; block_fn, params, geometry, shared bytes, blocks, chunk, next block, blocks done, threads that hold the job
%job = type {{ ptr, ptr, ptr, i64, i64, i64, i64, i64, i64 }}

@launches = internal global i32 0, align 4
@flydsl_cpu_threads = global i32 1, align 4
@flydsl_cpu_serial_below = global i64 {SERIAL_BELOW_THREADS}, align 8

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @sched_yield()
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; Helpers that have not ended; the process waits for them before it takes their code away.
@flydsl_cpu_helpers = global i64 0, align 8

; A helper. When it starts late, all may be done and what the job points to gone: then it touches nothing but the job.
define internal ptr @worker(ptr %job) {{
entry:
  call void @work(ptr %job)
  call void @drop(ptr %job)
  %left = atomicrmw sub ptr @flydsl_cpu_helpers, i64 1 release
  ret ptr null
}}

; The last one frees the job.
define internal void @drop(ptr %job) {{
entry:
  %holders = getelementptr %job, ptr %job, i32 0, i32 8
  %before = atomicrmw sub ptr %holders, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %release, label %out
release:
  call void @free(ptr %job)
  br label %out
out:
  ret void
}}

; Takes chunks of blocks until none is left. Without memory for shared data it takes none: others, or nobody, do.
define internal void @work(ptr %job) {{
entry:
  %fn = load ptr, ptr %job
  %params.at = getelementptr %job, ptr %job, i32 0, i32 1
  %params = load ptr, ptr %params.at
  %geometry.at = getelementptr %job, ptr %job, i32 0, i32 2
  %geometry = load ptr, ptr %geometry.at
  %bytes.at = getelementptr %job, ptr %job, i32 0, i32 3
  %bytes = load i64, ptr %bytes.at
  %total.at = getelementptr %job, ptr %job, i32 0, i32 4
  %total = load i64, ptr %total.at
  %chunk.at = getelementptr %job, ptr %job, i32 0, i32 5
  %chunk = load i64, ptr %chunk.at
  %next = getelementptr %job, ptr %job, i32 0, i32 6
  %done = getelementptr %job, ptr %job, i32 0, i32 7
  %peek = load atomic i64, ptr %next monotonic, align 8
  %late = icmp uge i64 %peek, %total
  br i1 %late, label %out, label %begin
begin:
  %has = icmp ne i64 %bytes, 0
  br i1 %has, label %allocate, label %loop
allocate:
  %memory = call ptr @aligned_alloc(i64 {SHARED_ALIGNMENT}, i64 %bytes)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %out, label %loop
loop:
  %shared = phi ptr [ null, %begin ], [ %memory, %allocate ], [ %shared, %run ]
  %first = atomicrmw add ptr %next, i64 %chunk monotonic
  %more = icmp ult i64 %first, %total
  br i1 %more, label %run, label %release
run:
  %end = add i64 %first, %chunk
  %last = call i64 @llvm.umin.i64(i64 %end, i64 %total)
  call void %fn(ptr %params, ptr %geometry, ptr %shared, i64 %first, i64 %last)
  %ran = sub i64 %last, %first
  %done.before = atomicrmw add ptr %done, i64 %ran release
  br label %loop
release:
  br i1 %has, label %release.memory, label %out
release.memory:
  call void @free(ptr %shared)
  br label %out
out:
  ret void
}}

; Status codes are those of the GPU drivers: 1 invalid value, 2 out of memory, 400 invalid handle, 801 not supported.
define internal i32 @launch(ptr %fn, ptr %geometry, i32 %cooperative, ptr %params) {{
entry:
  %thread.at = alloca i64, align 16
  %job.here = alloca %job, align 16
  %gx.32 = load i32, ptr %geometry
  %gy.at = getelementptr i32, ptr %geometry, i32 1
  %gy.32 = load i32, ptr %gy.at
  %gz.at = getelementptr i32, ptr %geometry, i32 2
  %gz.32 = load i32, ptr %gz.at
  %bx.at = getelementptr i32, ptr %geometry, i32 3
  %bx.32 = load i32, ptr %bx.at
  %by.at = getelementptr i32, ptr %geometry, i32 4
  %by.32 = load i32, ptr %by.at
  %bz.at = getelementptr i32, ptr %geometry, i32 5
  %bz.32 = load i32, ptr %bz.at
  %cx.at = getelementptr i32, ptr %geometry, i32 6
  %given.x = load i32, ptr %cx.at
  %cy.at = getelementptr i32, ptr %geometry, i32 7
  %given.y = load i32, ptr %cy.at
  %cz.at = getelementptr i32, ptr %geometry, i32 8
  %given.z = load i32, ptr %cz.at
  %smem.at = getelementptr i32, ptr %geometry, i32 9
  %smem.32 = load i32, ptr %smem.at
  %no.fn = icmp eq ptr %fn, null
  br i1 %no.fn, label %invalid.handle, label %check.block
check.block:
  %bx = zext i32 %bx.32 to i64
  %by = zext i32 %by.32 to i64
  %bz = zext i32 %bz.32 to i64
  %bxy.max = call i64 @llvm.umax.i64(i64 %bx, i64 %by)
  %b.max = call i64 @llvm.umax.i64(i64 %bxy.max, i64 %bz)
  %b.large = icmp ugt i64 %b.max, {MAX_BLOCK_THREADS}
  %bxy = mul i64 %bx, %by
  %bxyz = mul i64 %bxy, %bz
  %b.zero = icmp eq i64 %bxyz, 0
  %b.over = icmp ugt i64 %bxyz, {MAX_BLOCK_THREADS}
  %b.bad.0 = or i1 %b.large, %b.zero
  %b.bad = or i1 %b.bad.0, %b.over
  br i1 %b.bad, label %invalid.value, label %check.grid
check.grid:
  %gx = zext i32 %gx.32 to i64
  %gy = zext i32 %gy.32 to i64
  %gz = zext i32 %gz.32 to i64
  %gxy = mul i64 %gx, %gy
  %product = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %gxy, i64 %gz)
  %total = extractvalue {{ i64, i1 }} %product, 0
  %overflow = extractvalue {{ i64, i1 }} %product, 1
  %too.many = icmp ugt i64 %total, {1 << 48}
  %g.bad = or i1 %overflow, %too.many
  br i1 %g.bad, label %invalid.value, label %check.empty
check.empty:
  %empty = icmp eq i64 %total, 0
  br i1 %empty, label %success, label %check.cluster
; A kernel compiled for clusters says so itself, others have zeros there; a launch may repeat it.
check.cluster:
  %own.at = getelementptr %descriptor, ptr %fn, i32 0, i32 4
  %own.x = load i32, ptr %own.at
  %own.y.at = getelementptr i32, ptr %own.at, i32 1
  %own.y = load i32, ptr %own.y.at
  %own.z.at = getelementptr i32, ptr %own.at, i32 2
  %own.z = load i32, ptr %own.z.at
  %given.xy = or i32 %given.x, %given.y
  %given.xyz = or i32 %given.xy, %given.z
  %is.given = icmp ne i32 %given.xyz, 1
  %open = icmp eq i32 %own.x, 0
  %take = or i1 %is.given, %open
  %cx = select i1 %take, i32 %given.x, i32 %own.x
  %cy = select i1 %take, i32 %given.y, i32 %own.y
  %cz = select i1 %take, i32 %given.z, i32 %own.z
  %same.x = icmp eq i32 %cx, %own.x
  %same.y = icmp eq i32 %cy, %own.y
  %same.z = icmp eq i32 %cz, %own.z
  %same.xy = and i1 %same.x, %same.y
  %same.xyz = and i1 %same.xy, %same.z
  %same = or i1 %same.xyz, %open
  %c.zero.x = icmp eq i32 %cx, 0
  %c.zero.y = icmp eq i32 %cy, 0
  %c.zero.z = icmp eq i32 %cz, 0
  %c.zero.xy = or i1 %c.zero.x, %c.zero.y
  %c.zero = or i1 %c.zero.xy, %c.zero.z
  br i1 %c.zero, label %invalid.value, label %check.divides
check.divides:
  %rest.x = urem i32 %gx.32, %cx
  %rest.y = urem i32 %gy.32, %cy
  %rest.z = urem i32 %gz.32, %cz
  %rest.xy = or i32 %rest.x, %rest.y
  %rest = or i32 %rest.xy, %rest.z
  %uneven = icmp ne i32 %rest, 0
  br i1 %uneven, label %invalid.value, label %check.flags
check.flags:
  %cxy = or i32 %cx, %cy
  %cxyz = or i32 %cxy, %cz
  %clustered = icmp ne i32 %cxyz, 1
  %is.cooperative = icmp ne i32 %cooperative, 0
  %need.cluster = select i1 %clustered, i64 {FLAG_CLUSTERS}, i64 0
  %need.cooperative = select i1 %is.cooperative, i64 {FLAG_COOPERATIVE}, i64 0
  %need = or i64 %need.cluster, %need.cooperative
  %flags.at = getelementptr %descriptor, ptr %fn, i32 0, i32 2
  %flags = load i64, ptr %flags.at
  %have = and i64 %flags, %need
  %lacks.0 = icmp ne i64 %have, %need
  %differs = xor i1 %same, true
  %lacks = or i1 %lacks.0, %differs
  br i1 %lacks, label %not.supported, label %prepare
prepare:
  %table.at = getelementptr %descriptor, ptr %fn, i32 0, i32 3
  %table = load ptr, ptr %table.at
  %silent = icmp eq ptr %table, null
  br i1 %silent, label %measure, label %number
number:
  %launches = atomicrmw add ptr @launches, i32 1 monotonic
  %this = add i32 %launches, 1
  %number.at = getelementptr i32, ptr %geometry, i32 11
  store i32 %this, ptr %number.at
  br label %measure
measure:
  %static.at = getelementptr %descriptor, ptr %fn, i32 0, i32 1
  %static = load i64, ptr %static.at
  %smem = zext i32 %smem.32 to i64
  %bytes.0 = add i64 %static, %smem
  %bytes.1 = add i64 %bytes.0, {SHARED_ALIGNMENT - 1}
  %stride = and i64 %bytes.1, {-SHARED_ALIGNMENT}
  %stride.32 = trunc i64 %stride to i32
  %stride.at = getelementptr i32, ptr %geometry, i32 10
  store i32 %stride.32, ptr %stride.at
  %cluster.xy = mul i32 %cx, %cy
  %cluster.32 = mul i32 %cluster.xy, %cz
  %cluster = zext i32 %cluster.32 to i64
  %bytes = mul i64 %stride, %cluster
  %limit.32 = load atomic i32, ptr @flydsl_cpu_threads monotonic, align 4
  %limit = zext i32 %limit.32 to i64
  %limit.256 = call i64 @llvm.umin.i64(i64 %limit, i64 256)
  %count.0 = call i64 @llvm.umin.i64(i64 %limit.256, i64 %total)
  %count = call i64 @llvm.umax.i64(i64 %count.0, i64 1)
  %all.threads = mul i64 %total, %bxyz
  %serial.below = load atomic i64, ptr @flydsl_cpu_serial_below monotonic, align 8
  %small = icmp ult i64 %all.threads, %serial.below
  %one = icmp eq i64 %count, 1
  %together = icmp ne i64 %need.cooperative, 0
  %serial.0 = or i1 %small, %one
  %serial = or i1 %serial.0, %together
  br i1 %serial, label %describe, label %own
own:
  %job.own = call ptr @aligned_alloc(i64 64, i64 128)
  %no.job = icmp eq ptr %job.own, null
  br i1 %no.job, label %out.of.memory, label %describe
describe:
  %job = phi ptr [ %job.here, %measure ], [ %job.own, %own ]
  %block.fn = load ptr, ptr %fn
  store ptr %block.fn, ptr %job
  %job.1 = getelementptr %job, ptr %job, i32 0, i32 1
  store ptr %params, ptr %job.1
  %job.2 = getelementptr %job, ptr %job, i32 0, i32 2
  store ptr %geometry, ptr %job.2
  %job.3 = getelementptr %job, ptr %job, i32 0, i32 3
  store i64 %bytes, ptr %job.3
  %job.4 = getelementptr %job, ptr %job, i32 0, i32 4
  store i64 %total, ptr %job.4
  %job.5 = getelementptr %job, ptr %job, i32 0, i32 5
  %next = getelementptr %job, ptr %job, i32 0, i32 6
  store i64 0, ptr %next
  %done = getelementptr %job, ptr %job, i32 0, i32 7
  store i64 0, ptr %done
  %holders = getelementptr %job, ptr %job, i32 0, i32 8
  store i64 1, ptr %holders
  br i1 %serial, label %alone, label %spread
alone:
  store i64 %total, ptr %job.5
  call void @work(ptr %job)
  br label %finish
spread:
  %pieces = shl i64 %count, 3
  %chunk.0 = udiv i64 %total, %pieces
  %chunk.1 = udiv i64 %chunk.0, %cluster
  %chunk.2 = call i64 @llvm.umax.i64(i64 %chunk.1, i64 1)
  %chunk = mul i64 %chunk.2, %cluster
  store i64 %chunk, ptr %job.5
  br label %create
create:
  %made = phi i64 [ 0, %spread ], [ %made.next, %created ]
  %helpers = sub i64 %count, 1
  %wanted = icmp ult i64 %made, %helpers
  br i1 %wanted, label %create.one, label %work
create.one:
  %held = atomicrmw add ptr %holders, i64 1 monotonic
  %helping = atomicrmw add ptr @flydsl_cpu_helpers, i64 1 monotonic
  %refused = call i32 @pthread_create(ptr %thread.at, ptr null, ptr @worker, ptr %job)
  %no = icmp ne i32 %refused, 0
  br i1 %no, label %uncreated, label %created
uncreated:
  %unheld = atomicrmw sub ptr %holders, i64 1 monotonic
  %unhelping = atomicrmw sub ptr @flydsl_cpu_helpers, i64 1 monotonic
  br label %work
created:
  %thread = load i64, ptr %thread.at
  %detached = call i32 @pthread_detach(i64 %thread)
  %made.next = add i64 %made, 1
  br label %create
; Others finish what they took. Helpers that have not even started are not waited for: on a busy machine that takes
; longer than the work. If all are gone and blocks are left, nobody had memory for them.
work:
  call void @work(ptr %job)
  br label %await
await:
  %done.now = load atomic i64, ptr %done acquire, align 8
  %done.all = icmp uge i64 %done.now, %total
  br i1 %done.all, label %leave, label %await.who
await.who:
  %holders.now = load atomic i64, ptr %holders acquire, align 8
  %only.me = icmp eq i64 %holders.now, 1
  br i1 %only.me, label %leave, label %await.more
await.more:
  %yielded = call i32 @sched_yield()
  br label %await
leave:
  %done.last = load atomic i64, ptr %done acquire, align 8
  call void @drop(ptr %job)
  br label %outcome
finish:
  %done.alone = load i64, ptr %done
  br label %outcome
outcome:
  %finished = phi i64 [ %done.alone, %finish ], [ %done.last, %leave ]
  %complete = icmp uge i64 %finished, %total
  br i1 %complete, label %checked, label %out.of.memory
; In checked mode a kernel counts what it found wrong.
checked:
  %reports.at = getelementptr %descriptor, ptr %fn, i32 0, i32 3
  %reports = load ptr, ptr %reports.at
  %unchecked = icmp eq ptr %reports, null
  br i1 %unchecked, label %success, label %count.reports
count.reports:
  %found = load atomic i32, ptr %reports monotonic, align 4
  %clean = icmp eq i32 %found, 0
  br i1 %clean, label %success, label %failed.checks
failed.checks:
  ret i32 {FAILED_CHECKS}
success:
  ret i32 0
invalid.value:
  ret i32 1
out.of.memory:
  ret i32 2
invalid.handle:
  ret i32 400
not.supported:
  ret i32 801
}}

define i32 @flydsl_cpu_launch(ptr %fn, i32 %gx, i32 %gy, i32 %gz, i32 %bx, i32 %by, i32 %bz, i32 %smem, ptr %stream,
                              ptr %params, ptr %extra) {{
entry:
  %geometry = alloca [{GEOMETRY_WORDS} x i32], align 16
  call void @llvm.memset.p0.i64(ptr %geometry, i8 0, i64 {4 * GEOMETRY_WORDS}, i1 false)
  store i32 %gx, ptr %geometry
  %at.1 = getelementptr i32, ptr %geometry, i32 1
  store i32 %gy, ptr %at.1
  %at.2 = getelementptr i32, ptr %geometry, i32 2
  store i32 %gz, ptr %at.2
  %at.3 = getelementptr i32, ptr %geometry, i32 3
  store i32 %bx, ptr %at.3
  %at.4 = getelementptr i32, ptr %geometry, i32 4
  store i32 %by, ptr %at.4
  %at.5 = getelementptr i32, ptr %geometry, i32 5
  store i32 %bz, ptr %at.5
  %at.6 = getelementptr i32, ptr %geometry, i32 6
  store i32 1, ptr %at.6
  %at.7 = getelementptr i32, ptr %geometry, i32 7
  store i32 1, ptr %at.7
  %at.8 = getelementptr i32, ptr %geometry, i32 8
  store i32 1, ptr %at.8
  %at.9 = getelementptr i32, ptr %geometry, i32 9
  store i32 %smem, ptr %at.9
  %packed = icmp ne ptr %extra, null
  br i1 %packed, label %refuse, label %go
refuse:
  ret i32 801
go:
  %status = call i32 @launch(ptr %fn, ptr %geometry, i32 0, ptr %params)
  ret i32 %status
}}

; The config record is the drivers': grid and block at 0, shared bytes at 24, attributes at 40, their number at 48;
; an attribute has 72 bytes with its value at 8. Known: 2 cooperative, 4 cluster dimension, 6 early start (no effect).
define i32 @flydsl_cpu_launch_ex(ptr %config, ptr %fn, ptr %params, ptr %extra) {{
entry:
  %geometry = alloca [{GEOMETRY_WORDS} x i32], align 16
  call void @llvm.memset.p0.i64(ptr %geometry, i8 0, i64 {4 * GEOMETRY_WORDS}, i1 false)
  %dims = load <4 x i32>, ptr %config, align 4
  store <4 x i32> %dims, ptr %geometry, align 4
  %from.16 = getelementptr i8, ptr %config, i64 16
  %dims.2 = load <2 x i32>, ptr %from.16, align 4
  %to.16 = getelementptr i8, ptr %geometry, i64 16
  store <2 x i32> %dims.2, ptr %to.16, align 4
  %from.24 = getelementptr i8, ptr %config, i64 24
  %smem = load i32, ptr %from.24
  %to.36 = getelementptr i8, ptr %geometry, i64 36
  store i32 %smem, ptr %to.36
  %cluster = getelementptr i8, ptr %geometry, i64 24
  store <2 x i32> <i32 1, i32 1>, ptr %cluster, align 4
  %cluster.z = getelementptr i8, ptr %geometry, i64 32
  store i32 1, ptr %cluster.z
  %attributes.at = getelementptr i8, ptr %config, i64 40
  %attributes = load ptr, ptr %attributes.at
  %count.at = getelementptr i8, ptr %config, i64 48
  %count = load i32, ptr %count.at
  %packed = icmp ne ptr %extra, null
  br i1 %packed, label %refuse, label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i.next, %next ]
  %cooperative = phi i32 [ 0, %entry ], [ %cooperative.next, %next ]
  %more = icmp ult i32 %i, %count
  br i1 %more, label %attribute, label %go
attribute:
  %i.64 = zext i32 %i to i64
  %offset = mul i64 %i.64, 72
  %record = getelementptr i8, ptr %attributes, i64 %offset
  %id = load i32, ptr %record
  %value = getelementptr i8, ptr %record, i64 8
  switch i32 %id, label %refuse [ i32 2, label %is.cooperative
                                  i32 4, label %is.cluster
                                  i32 6, label %next ]
is.cooperative:
  %wish = load i32, ptr %value
  br label %next
is.cluster:
  %xy = load <2 x i32>, ptr %value, align 4
  store <2 x i32> %xy, ptr %cluster, align 4
  %value.z = getelementptr i8, ptr %value, i64 8
  %z = load i32, ptr %value.z
  store i32 %z, ptr %cluster.z
  br label %next
next:
  %cooperative.next = phi i32 [ %wish, %is.cooperative ], [ %cooperative, %is.cluster ], [ %cooperative, %attribute ]
  %i.next = add i32 %i, 1
  br label %loop
refuse:
  ret i32 801
go:
  %status = call i32 @launch(ptr %fn, ptr %geometry, i32 %cooperative, ptr %params)
  ret i32 %status
}}
"""


_TENSOR_TYPE_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2)
"""Bytes of the data types of a tensor map by the driver's numbers."""

_TENSOR_MAP_IR = f"""
@type.bytes = internal constant [10 x i32] [{", ".join(f"i32 {n}" for n in _TENSOR_TYPE_BYTES)}]

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Signature of cuTensorMapEncodeTiled, and its refusals: the address and the strides are multiples of 16 bytes. What is
; written is described in cpu/code/tma.py.
define i32 @flydsl_cpu_tensor_map(ptr %map, i32 %type, i32 %rank, ptr %address, ptr %dims, ptr %strides, ptr %box,
                                  ptr %steps, i32 %interleave, i32 %swizzle, i32 %promotion, i32 %fill) {{
entry:
  %known = icmp ult i32 %type, 10
  %few = icmp ult i32 %rank, 6
  %some = icmp ne i32 %rank, 0
  %address.i = ptrtoint ptr %address to i64
  %rest = and i64 %address.i, 15
  %aligned = icmp eq i64 %rest, 0
  %ok.0 = and i1 %known, %few
  %ok.1 = and i1 %ok.0, %some
  %ok.2 = and i1 %ok.1, %aligned
  br i1 %ok.2, label %steps.check, label %refuse
steps.check:
  %rank.64 = zext i32 %rank to i64
  %outer = sub i64 %rank.64, 1
  br label %loop
loop:
  %i = phi i64 [ 0, %steps.check ], [ %i.next, %next ]
  %more = icmp ult i64 %i, %outer
  br i1 %more, label %look, label %write
look:
  %stride.at = getelementptr i64, ptr %strides, i64 %i
  %stride = load i64, ptr %stride.at
  %stride.rest = and i64 %stride, 15
  %stride.fine = icmp eq i64 %stride.rest, 0
  br i1 %stride.fine, label %next, label %refuse
next:
  %i.next = add i64 %i, 1
  br label %loop
write:
  call void @llvm.memset.p0.i64(ptr %map, i8 0, i64 128, i1 false)
  store ptr %address, ptr %map
  %rank.at = getelementptr i8, ptr %map, i64 8
  store i32 %rank, ptr %rank.at
  %bytes.from = getelementptr i32, ptr @type.bytes, i32 %type
  %bytes = load i32, ptr %bytes.from
  %bytes.at = getelementptr i8, ptr %map, i64 12
  store i32 %bytes, ptr %bytes.at
  %plain = icmp eq i32 %swizzle, 0
  %width.0 = shl i32 16, %swizzle
  %width = select i1 %plain, i32 0, i32 %width.0
  %width.at = getelementptr i8, ptr %map, i64 16
  store i32 %width, ptr %width.at
  %type.at = getelementptr i8, ptr %map, i64 20
  store i32 %type, ptr %type.at
  %dims.bytes = mul i64 %rank.64, 8
  %dims.at = getelementptr i8, ptr %map, i64 24
  call void @llvm.memcpy.p0.p0.i64(ptr %dims.at, ptr %dims, i64 %dims.bytes, i1 false)
  %strides.bytes = mul i64 %outer, 8
  %strides.at = getelementptr i8, ptr %map, i64 64
  call void @llvm.memcpy.p0.p0.i64(ptr %strides.at, ptr %strides, i64 %strides.bytes, i1 false)
  %box.bytes = mul i64 %rank.64, 4
  %box.at = getelementptr i8, ptr %map, i64 96
  call void @llvm.memcpy.p0.p0.i64(ptr %box.at, ptr %box, i64 %box.bytes, i1 false)
  ret i32 0
refuse:
  ret i32 1
}}
"""


LAUNCHER_IR = _LAUNCH_IR + _TENSOR_MAP_IR


class Launcher:
    """The compiled launcher; its addresses stay valid as long as it lives."""

    EXPORTS: ClassVar = (
        "flydsl_cpu_launch",
        "flydsl_cpu_launch_ex",
        "flydsl_cpu_threads",
        "flydsl_cpu_serial_below",
        "flydsl_cpu_tensor_map",
        "flydsl_cpu_helpers",
    )

    def __init__(self) -> None:
        from flydsl.llvm import host_jit

        # pthread_create, sched_yield, aligned_alloc and free come from the C library of this process.
        # Hand-written code: optimising it takes 40 ms of every process and saves 10 ns of a launch.
        self._library = host_jit.load_ir(LAUNCHER_IR, opt_level=0, exports=self.EXPORTS, name="cpu-launcher")
        self.launch_address = self._library.address("flydsl_cpu_launch")
        self.launch_ex_address = self._library.address("flydsl_cpu_launch_ex")
        self.tensor_map_address = self._library.address("flydsl_cpu_tensor_map")
        self.launch = LAUNCH_PROTOTYPE(self.launch_address)
        self.launch_ex = LAUNCH_EX_PROTOTYPE(self.launch_ex_address)
        self._helpers = ctypes.c_int64.from_address(self._library.address("flydsl_cpu_helpers"))
        atexit.register(self.wait_for_helpers)
        self._threads = ctypes.c_int32.from_address(self._library.address("flydsl_cpu_threads"))
        self._serial_below = ctypes.c_int64.from_address(self._library.address("flydsl_cpu_serial_below"))

    def wait_for_helpers(self, seconds: float = 10.0) -> None:
        """Wait until no helper runs this code any more; some may start after the launch they were made for."""
        end = time.monotonic() + seconds
        while self._helpers.value > 0 and time.monotonic() < end:
            time.sleep(0.001)

    def forget_helpers(self) -> None:
        """In a forked child: its parent's helpers are not here."""
        self._helpers.value = 0

    @property
    def threads(self) -> int:
        """How many threads a launch may use."""
        return self._threads.value

    @threads.setter
    def threads(self, count: int) -> None:
        self._threads.value = max(1, min(count, 256))

    @property
    def serial_below(self) -> int:
        """Launches of fewer threads in all stay on the calling thread."""
        return self._serial_below.value

    @serial_below.setter
    def serial_below(self, threads: int) -> None:
        self._serial_below.value = threads


_lock = threading.Lock()
_launcher: list[Launcher] = []


def launcher() -> Launcher:
    """The process's launcher, compiled at the first call."""
    if not _launcher:
        with _lock:
            if not _launcher:
                _launcher.append(Launcher())
    return _launcher[0]


def reset_lock_after_fork() -> None:
    """Give a forked child a lock of its own: another thread may have held this one."""
    global _lock
    _lock = threading.Lock()
    for made in _launcher:
        made.forget_helpers()
