"""What a launch says that the driver refused: drivers tell no more than that something is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import LaunchError
from flydsl.runtime import device_runtime

from . import fake_driver


@flyc.kernel
def filling_kernel(x: fx.Tensor):
    x[fx.thread_idx.x] = fx.Float32(1)


@flyc.jit
def filling(x: fx.Tensor, threads: fx.Int32):
    filling_kernel(x).launch(grid=1, block=(threads, 1, 1))


@pytest.fixture
def hip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_driver.FakeDriver]:
    driver = fake_driver.build(tmp_path, "hip")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "rocm")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx942")
    monkeypatch.setenv("FLYDSL_HIP_LIBRARY", str(driver.path))
    device_runtime.reset_device_runtime()
    yield driver
    device_runtime.reset_device_runtime()


class OnDevice:
    """An array in the memory of the device."""

    def __init__(self, count: int):
        self.room: Any = device_runtime.get_device_runtime().alloc(4 * count)
        self.__cuda_array_interface__ = {
            "shape": (count,), "typestr": "<f4", "data": (self.room.ptr, False), "strides": None, "version": 3,
        }  # fmt: skip


def test_it_says_what_it_was_and_which_limit_it_is_beyond(hip: fake_driver.FakeDriver):
    x = OnDevice(128)
    filling(x, 128)
    for threads, more in ((64, ""), (4096, ".*; .*block x.*4096.*1024")):
        hip.fail("launch", 1)
        with pytest.raises(LaunchError) as caught:
            filling(x, threads)
        notes = "".join(caught.value.__notes__)
        assert re.search(rf"'filling_kernel_0' with grid \(1, 1, 1\), block \({threads}, 1, 1\).*{more}", notes), notes
        assert (";" in notes) == bool(more)
