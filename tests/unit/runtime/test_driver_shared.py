"""Memory that ranks share on the GPU stacks, against a recording driver library."""

from __future__ import annotations

import importlib.util
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flydsl.dist import World, connect
from flydsl.errors import FlyRuntimeError, NotSupportedError, OutOfMemoryError
from flydsl.runtime import CudaDeviceRuntime, RocmDeviceRuntime, register_device_runtime
from flydsl.runtime.device_runtime import get_device_runtime, reset_device_runtime
from flydsl.runtime.dist.meeting import Board, ThreadMeeting
from flydsl.runtime.driver_shared import SharingDriverRuntime

# importlib import mode: a sibling module is loaded by its path.
_spec = importlib.util.spec_from_file_location("fake_driver", Path(__file__).with_name("fake_driver.py"))
assert _spec is not None and _spec.loader is not None
fake_driver: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fake_driver)

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for the fake driver")

STACKS = {
    "cuda": ("cuda", CudaDeviceRuntime, "FLYDSL_CUDA_LIBRARY"),
    "rocm": ("hip", RocmDeviceRuntime, "FLYDSL_HIP_LIBRARY"),
}
GRANULE = 1 << 21
Stack = tuple[SharingDriverRuntime, Any]


@pytest.fixture(params=list(STACKS))
def stack(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    column, cls, variable = STACKS[request.param]
    driver = fake_driver.build(tmp_path, column)
    monkeypatch.setenv(variable, str(driver.path))
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", request.param)
    register_device_runtime(cls)
    runtime = get_device_runtime()
    assert isinstance(runtime, SharingDriverRuntime)
    yield runtime, driver
    driver.fail("none", 0)
    reset_device_runtime()


def _named(calls: list[tuple[str, tuple[int, ...]]], name: str) -> list[tuple[int, ...]]:
    return [args for found, args in calls if found == name]


def _together(*ranks: Callable[[], None]) -> None:
    """Run ranks in threads; what one of them raises is raised here."""
    failed: list[BaseException] = []

    def run(rank: Callable[[], None]) -> None:
        try:
            rank()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if failed:
        raise failed[0]


def test_handles_are_made_mapped_in_a_row_and_given_back(stack: Stack):
    runtime, driver = stack
    assert runtime.shared_granularity(1) == GRANULE
    driver.calls()
    first, second = (runtime.shared_create(GRANULE, device) for device in (0, 1))
    made = driver.calls()
    # Pinned, as a file descriptor, on a device, which one; and nothing else.
    assert _named(made, "vmm_properties") == [(1, 1, 1, device, 0, 0, 0, 0) for device in (0, 1)]
    assert [args[1] for args in _named(made, "vmm_create")] == [GRANULE] * 2
    base = runtime.shared_map([first, second], GRANULE, [0, 1])
    calls = driver.calls()
    assert [args[1:] for args in _named(calls, "vmm_reserve")] == [(2 * GRANULE, 0, 0, 0)]
    assert _named(calls, "vmm_map") == [(base, GRANULE, 0, first, 0), (base + GRANULE, GRANULE, 0, second, 0)]
    assert [(a[0], a[1], a[3]) for a in _named(calls, "vmm_access")] == [
        (base, GRANULE, 2),
        (base + GRANULE, GRANULE, 2),
    ]
    assert _named(calls, "vmm_right") == [(1, 0, 3), (1, 1, 3)] * 2
    runtime.shared_release(first)
    runtime.shared_unmap(base)
    calls = driver.calls()
    assert _named(calls, "vmm_release") == [(first,)]
    assert _named(calls, "vmm_unmap") == [(base, GRANULE), (base + GRANULE, GRANULE)]
    assert _named(calls, "vmm_free") == [(base, 2 * GRANULE)]


def test_a_mapping_that_fails_is_undone(stack: Stack):
    runtime, driver = stack
    handle = runtime.shared_create(GRANULE, 0)
    driver.calls()
    driver.fail("vmm_access", 1)
    with pytest.raises(FlyRuntimeError):
        runtime.shared_map([handle, handle], GRANULE, [0])
    calls = driver.calls()
    assert len(_named(calls, "vmm_unmap")) == 2 and len(_named(calls, "vmm_free")) == 1
    driver.fail("vmm_create", 2)
    with pytest.raises(OutOfMemoryError):
        runtime.shared_create(GRANULE, 0)


def test_processes_send_each_other_descriptors(stack: Stack, tmp_path: Path):
    """Two ranks, each with sockets as processes have them; here both are of this process and of one runtime."""
    runtime, driver = stack
    open_before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None

    def rank(number: int) -> Callable[[], None]:
        def run() -> None:
            world = connect(number, 2, tmp_path, timeout=30)
            x = world.symmetric((3, 5), "bfloat16")
            assert x.strides == (GRANULE // 2, 5, 1) and x.device == number
            assert x.address(1) == x.address(0) + GRANULE
            world.barrier()
            x.free()
            world.close()

        return run

    driver.calls()
    _together(rank(0), rank(1))
    calls = driver.calls()
    assert len(_named(calls, "vmm_export")) == len(_named(calls, "vmm_import")) == 2
    for args in _named(calls, "vmm_import"):
        # HIP before 7.1, as this one is, takes the address of the descriptor.
        assert (args[1] > 1000) == (runtime.kind == "rocm")
    assert len(_named(calls, "vmm_release")) == 4, "a handle of its own and one of the other for each"
    assert len(_named(calls, "vmm_unmap")) == 4
    assert sorted(a[1:] for a in _named(calls, "set8")) == [(0, 30)] * 2, "memory begins as zeros"
    if open_before is not None:
        assert len(os.listdir("/proc/self/fd")) == open_before


def test_threads_share_one_mapping(stack: Stack):
    runtime, driver = stack
    board = Board(2, 30.0)

    def rank(number: int) -> Callable[[], None]:
        def run() -> None:
            world = World(ThreadMeeting(number, 2, board), runtime)
            runtime.set_device(world.device)
            x = world.symmetric(GRANULE, "uint8")
            assert x.mapping.slot == 2 * GRANULE, "there is a gap behind every part"
            world.barrier()
            x.free()

        return run

    driver.calls()
    _together(rank(0), rank(1))
    calls = driver.calls()
    assert len(_named(calls, "vmm_reserve")) == 1 and len(_named(calls, "vmm_map")) == 2
    assert _named(calls, "vmm_right") == [(1, 0, 3), (1, 1, 3)] * 2
    assert len(_named(calls, "vmm_unmap")) == 2 and not _named(calls, "vmm_export")


def test_the_switch_is_refused_with_the_reason(stack: Stack):
    runtime, _ = stack
    world = World(ThreadMeeting(0, 1, Board(1, 30.0)), runtime)
    reason = "is not mapped yet" if runtime.kind == "cuda" else "has no switch that adds up"
    with pytest.raises(NotSupportedError, match=reason):
        world.need_multicast("all_reduce in the switch")


def test_a_library_without_virtual_memory_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    driver = fake_driver.build(tmp_path, "hip", without=("hipMemCreate", "hipMemGetAllocationGranularity"))
    monkeypatch.setenv("FLYDSL_HIP_LIBRARY", str(driver.path))
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "rocm")
    runtime = RocmDeviceRuntime()
    with pytest.raises(NotSupportedError, match="no hipMemGetAllocationGranularity"):
        runtime.shared_granularity(0)
