"""The runtime of AMD GPUs, at FlyDSL's path."""

from __future__ import annotations

from ..rocm import RocmDeviceRuntime

__all__ = ["RocmDeviceRuntime"]
