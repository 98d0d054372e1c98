"""The native cpu launcher against kernels written in LLVM IR."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from flydsl.cpu.runtime import native as cpu_native
from flydsl.cpu.runtime.launcher_ir import FLAG_CLUSTERS, FLAG_COOPERATIVE, launcher_ir
from flydsl.cpu.runtime.native import KernelDescriptor, Launcher
from flydsl.llvm import host_jit
from flydsl.runtime.launch_args import launch_config

# count(out): out[block] += 1. note(out): out[atomic cursor in out[0]] = first, last, shared address, geometry word 9.
KERNELS = """
define void @count(ptr %params, ptr %geometry, ptr %shared, i64 %first, i64 %last) {
entry:
  %slot = load ptr, ptr %params
  %out = load ptr, ptr %slot
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %at = getelementptr i32, ptr %out, i64 %i
  %old = atomicrmw add ptr %at, i32 1 monotonic
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}
define void @note(ptr %params, ptr %geometry, ptr %shared, i64 %first, i64 %last) {
  %slot = load ptr, ptr %params
  %out = load ptr, ptr %slot
  %index = atomicrmw add ptr %out, i64 4 monotonic
  %a = getelementptr i64, ptr %out, i64 %index
  store i64 %first, ptr %a
  %b = getelementptr i64, ptr %a, i64 1
  store i64 %last, ptr %b
  %c = getelementptr i64, ptr %a, i64 2
  %address = ptrtoint ptr %shared to i64
  store i64 %address, ptr %c
  %word = getelementptr i32, ptr %geometry, i64 9
  %smem = load i32, ptr %word
  %wide = zext i32 %smem to i64
  %d = getelementptr i64, ptr %a, i64 3
  store i64 %wide, ptr %d
  ret void
}
define void @geometry(ptr %params, ptr %geometry, ptr %shared, i64 %first, i64 %last) {
  %slot = load ptr, ptr %params
  %out = load ptr, ptr %slot
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %geometry, i64 48, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


@pytest.fixture(scope="module")
def kernels() -> host_jit.HostLibrary:
    return host_jit.load_ir(KERNELS)


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    native = cpu_native.launcher()
    threads, serial = native.threads, native.serial_below
    yield native
    native.threads, native.serial_below = threads, serial


class Call:
    """A descriptor and one pointer argument."""

    def __init__(self, library: host_jit.HostLibrary, name: str, out: Any, shared: int = 0, flags: int = 0):
        self.descriptor = KernelDescriptor(library.address(name), shared, flags)
        self.fn = ctypes.addressof(self.descriptor)
        self._pointer = ctypes.c_void_p(ctypes.addressof(out))
        self._params = (ctypes.c_void_p * 1)(ctypes.addressof(self._pointer))
        self.params = ctypes.addressof(self._params)

    def __call__(self, native: Launcher, grid: tuple[int, int, int], block: tuple[int, int, int], smem: int = 0) -> int:
        return native.launch(self.fn, *grid, *block, smem, None, self.params, None)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 1, 1), (1000, 1, 1), (17, 9, 5)])
def test_every_block_runs_once(kernels: host_jit.HostLibrary, launcher: Launcher, threads: int, grid: tuple[int, ...]):
    launcher.threads, launcher.serial_below = threads, 0
    blocks = grid[0] * grid[1] * grid[2]
    out = (ctypes.c_int32 * (blocks + 1))()
    assert Call(kernels, "count", out)(launcher, grid, (32, 1, 1)) == 0  # type: ignore[arg-type]
    assert list(out) == [1] * blocks + [0]


def test_small_launches_stay_on_one_thread_in_one_ascending_call(kernels: host_jit.HostLibrary, launcher: Launcher):
    launcher.threads = 8
    out = (ctypes.c_int64 * 4096)(1)
    assert Call(kernels, "note", out)(launcher, (127, 1, 1), (64, 1, 1)) == 0
    assert out[0] == 5 and list(out[1:3]) == [0, 127]
    assert Call(kernels, "note", out)(launcher, (128, 1, 1), (64, 1, 1)) == 0
    assert out[0] > 9, "8192 threads are spread in chunks"


def test_one_thread_runs_blocks_in_order(kernels: host_jit.HostLibrary, launcher: Launcher):
    launcher.threads = 1
    out = (ctypes.c_int64 * 64)(1)
    assert Call(kernels, "note", out)(launcher, (100000, 1, 1), (64, 1, 1)) == 0
    assert list(out[:3]) == [5, 0, 100000]


def test_chunks_cover_the_grid_without_overlap(kernels: host_jit.HostLibrary, launcher: Launcher):
    launcher.threads = 4
    out = (ctypes.c_int64 * 4096)(1)
    assert Call(kernels, "note", out, shared=40)(launcher, (1003, 1, 1), (64, 1, 1), smem=24) == 0
    rows = [tuple(out[i : i + 4]) for i in range(1, out[0], 4)]
    spans = sorted((first, last) for first, last, _, _ in rows)
    assert spans[0][0] == 0 and spans[-1][1] == 1003
    assert all(a[1] == b[0] for a, b in zip(spans, spans[1:], strict=False))
    assert all(address and address % 1024 == 0 and smem == 24 for _, _, address, smem in rows)


def test_shared_memory_only_when_asked_for(kernels: host_jit.HostLibrary, launcher: Launcher):
    out = (ctypes.c_int64 * 64)(1)
    Call(kernels, "note", out)(launcher, (1, 1, 1), (1, 1, 1))
    assert out[3] == 0


@pytest.mark.parametrize(
    ("grid", "block", "status"),
    [
        ((0, 1, 1), (1, 1, 1), 0),
        ((1, 0, 1), (1, 1, 1), 0),
        ((1, 1, 0), (64, 1, 1), 0),
        ((1, 1, 1), (0, 1, 1), 1),
        ((1, 1, 1), (1, 1, 0), 1),
        ((1, 1, 1), (1025, 1, 1), 1),
        ((1, 1, 1), (32, 33, 1), 1),
        ((1, 1, 1), (2**31, 2, 2**31), 1),
        ((2**32 - 1, 2**32 - 1, 2**32 - 1), (1, 1, 1), 1),
    ],
)
def test_bad_and_empty_dimensions_launch_nothing(
    kernels: host_jit.HostLibrary, launcher: Launcher, grid: tuple[int, ...], block: tuple[int, ...], status: int
):
    out = (ctypes.c_int32 * 4)()
    assert Call(kernels, "count", out)(launcher, grid, block) == status  # type: ignore[arg-type]
    assert list(out) == [0] * 4


def test_null_function_and_packed_parameters_are_refused(kernels: host_jit.HostLibrary, launcher: Launcher):
    assert launcher.launch(None, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 400
    call = Call(kernels, "count", (ctypes.c_int32 * 1)())
    assert launcher.launch(call.fn, 1, 1, 1, 1, 1, 1, 0, None, call.params, call.params) == 801


def test_no_memory_for_shared_data_is_reported(kernels: host_jit.HostLibrary, launcher: Launcher):
    out = (ctypes.c_int32 * 4)()
    assert Call(kernels, "count", out, shared=1 << 60)(launcher, (4, 1, 1), (1, 1, 1)) == 2
    assert list(out) == [0] * 4


def test_failing_pthread_create_leaves_the_work_to_the_caller(kernels: host_jit.HostLibrary):
    refuse = "define i32 @refuse(ptr %a, ptr %b, ptr %c, ptr %d) {\n  ret i32 11\n}\n"
    stub = host_jit.load_ir(refuse)
    library = host_jit.load_ir(
        launcher_ir(), exports=Launcher.EXPORTS, imports={"pthread_create": stub.address("refuse")}
    )
    ctypes.c_int32.from_address(library.address("flydsl_cpu_threads")).value = 8
    launch = cpu_native.LAUNCH_PROTOTYPE(library.address("flydsl_cpu_launch"))
    out = (ctypes.c_int32 * 1000)()
    call = Call(kernels, "count", out)
    assert launch(call.fn, 1000, 1, 1, 64, 1, 1, 0, None, call.params, None) == 0
    assert list(out) == [1] * 1000


def test_geometry_and_extended_launch(kernels: host_jit.HostLibrary, launcher: Launcher):
    out = (ctypes.c_uint32 * 12)()
    Call(kernels, "geometry", out)(launcher, (2, 3, 4), (5, 6, 7), smem=8)
    assert list(out) == [2, 3, 4, 5, 6, 7, 1, 1, 1, 8, 1024, 0]
    call = Call(kernels, "geometry", out, flags=FLAG_CLUSTERS)
    record = launch_config((4, 6, 2), (1, 2, 3), 16, 0, (2, 3, 1), False)
    assert launcher.launch_ex(record.address, call.fn, call.params, None) == 0
    assert list(out) == [4, 6, 2, 1, 2, 3, 2, 3, 1, 16, 1024, 0]


@pytest.mark.parametrize(
    ("flags", "cluster", "cooperative", "attrs", "status"),
    [
        (0, (1, 1, 1), False, (), 0),
        (0, (2, 1, 1), False, (), 801),
        (FLAG_CLUSTERS, (2, 1, 1), False, (), 0),
        (FLAG_CLUSTERS, (3, 1, 1), False, (), 1),
        (FLAG_CLUSTERS, (0, 1, 1), False, (), 1),
        (0, None, True, (), 801),
        (FLAG_COOPERATIVE, None, True, (), 0),
        (0, None, False, ((6, struct.pack("<i", 1)),), 0),
        (0, None, False, ((99, b""),), 801),
    ],
)
def test_extended_launch_attributes(
    kernels: host_jit.HostLibrary,
    launcher: Launcher,
    flags: int,
    cluster: tuple[int, int, int] | None,
    cooperative: bool,
    attrs: tuple[tuple[int, bytes], ...],
    status: int,
):
    out = (ctypes.c_int32 * 4)()
    call = Call(kernels, "count", out, flags=flags)
    record = launch_config((4, 1, 1), (1, 1, 1), 0, 0, cluster, cooperative, attrs)
    assert launcher.launch_ex(record.address, call.fn, call.params, None) == status
    assert list(out) == ([0] * 4 if status else [1] * 4)


def test_launches_from_several_threads(kernels: host_jit.HostLibrary, launcher: Launcher):
    launcher.threads = 3
    out = (ctypes.c_int32 * 500)()
    call = Call(kernels, "count", out)
    workers = [
        threading.Thread(target=lambda: [call(launcher, (500, 1, 1), (64, 1, 1)) for _ in range(20)]) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert list(out) == [80] * 500
