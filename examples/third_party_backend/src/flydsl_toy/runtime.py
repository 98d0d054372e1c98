"""The device runtime: the cpu stack's memory, streams and launches under another kind, with two counters.

A runtime for real hardware subclasses `flydsl.runtime.DeviceRuntime` and implements what its device can do; every
method it leaves out raises `NotSupportedError`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from flydsl.runtime import CpuDeviceRuntime, Device, Module

ARCH = "toy2"
WARP_SIZE = 32


class ToyDeviceRuntime(CpuDeviceRuntime):
    """One imaginary device. Counts the modules loaded and the launches made through it."""

    kind: ClassVar[str] = "toy"

    def __init__(self) -> None:
        super().__init__()
        self.modules_loaded = 0
        self.kernel_entries = 0

    def device(self, ordinal: int) -> Device:
        real = super().device(ordinal)
        caps = dataclasses.replace(real.capabilities, warp_size=WARP_SIZE)
        return dataclasses.replace(real, kind=self.kind, name="toy device", arch=ARCH, capabilities=caps)

    def module_load(self, binary: bytes, *, device: int | None = None) -> Module:
        self.modules_loaded += 1
        return super().module_load(binary, device=device)

    def enter(self, ordinal: int) -> int | None:
        """Called before the native code of each launch; a driver would make the device current here."""
        self.kernel_entries += 1
        return None

    def leave(self, before: Any) -> None:
        """Called after it, if `enter` gave something to go back to."""
