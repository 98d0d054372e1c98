"""Device runtimes: one stack per process, behind objects that name no vendor.

This package imports none of the IR layers and no framework, and loads no vendor library before it is needed.
"""

from typing import TYPE_CHECKING

from flydsl.errors import (
    ArtifactMismatchError,
    CaptureError,
    DeviceLostError,
    FlyRuntimeError,
    ForkedProcessError,
    InvalidHandleError,
    LaunchError,
    LibraryNotFoundError,
    NotSupportedError,
    OutOfMemoryError,
    OutOfResourcesError,
    RuntimeStateError,
    StackMismatchError,
)
from flydsl.runtime.base import DeviceRuntime
from flydsl.runtime.device_runtime import (
    COMPILE_BACKEND_TO_RUNTIME_KIND,
    CudaDeviceRuntime,
    RocmDeviceRuntime,
    device_runtime_state,
    ensure_compile_runtime_compatible,
    ensure_compile_runtime_pairing_from_env,
    get_device_runtime,
    list_device_runtimes,
    register_compile_runtime_mapping,
    register_device_runtime,
    reset_device_runtime,
)
from flydsl.runtime.objects import (
    Buffer,
    Device,
    DeviceCapabilities,
    Event,
    Function,
    Graph,
    Module,
    Stream,
    current_stream,
)

if TYPE_CHECKING:
    from flydsl.cpu.runtime import CpuDeviceRuntime
else:

    def __getattr__(name: str) -> object:
        if name == "CpuDeviceRuntime":  # of a layer above: found when it is asked for
            from flydsl.runtime import device_runtime

            return device_runtime.CpuDeviceRuntime
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "COMPILE_BACKEND_TO_RUNTIME_KIND", "ArtifactMismatchError", "Buffer", "CaptureError", "CpuDeviceRuntime",
    "CudaDeviceRuntime", "Device", "DeviceCapabilities", "DeviceLostError", "DeviceRuntime", "Event", "FlyRuntimeError",
    "ForkedProcessError", "Function", "Graph", "InvalidHandleError", "LaunchError", "LibraryNotFoundError", "Module",
    "NotSupportedError", "OutOfMemoryError", "OutOfResourcesError", "RocmDeviceRuntime", "RuntimeStateError",
    "StackMismatchError", "Stream", "current_stream", "device_runtime_state", "ensure_compile_runtime_compatible",
    "ensure_compile_runtime_pairing_from_env", "get_device_runtime", "list_device_runtimes",
    "register_compile_runtime_mapping", "register_device_runtime", "reset_device_runtime",
]  # fmt: skip
