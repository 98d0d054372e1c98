"""The interface of device runtimes, at FlyDSL's path."""

from __future__ import annotations

from ..base import DeviceRuntime

__all__ = ["DeviceRuntime"]
