"""The entry points of the HIP and CUDA driver APIs that are used, in one table, and their status codes.

The two APIs mirror each other: a row holds both names and one prototype. Entries are looked up when first called.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any, Literal

from flydsl.errors import NotSupportedError

Column = Literal["hip", "cuda"]

_HANDLE = c_void_p
_OUT = POINTER(c_void_p)
_OUT_INT = POINTER(c_int)
_OUT_SIZE = POINTER(c_size_t)
_PTR = c_uint64
"""A device address: a pointer for HIP, a 64-bit integer for CUDA; the same register."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation: its symbol per vendor (newest name first; none: not offered) and its prototype."""

    hip: tuple[str, ...]
    cuda: tuple[str, ...]
    args: tuple[Any, ...]
    result: object = c_int


def _row(hip: str, cuda: str, *args: Any, result: object = c_int) -> Entry:
    return Entry(tuple(hip.split()), tuple(cuda.split()), args, result)


ENTRIES: dict[str, Entry] = {
    # devices
    "init": _row("hipInit", "cuInit", c_uint),
    "driver_version": _row("hipDriverGetVersion", "cuDriverGetVersion", _OUT_INT),
    "runtime_version": _row("hipRuntimeGetVersion", "", _OUT_INT),
    "device_count": _row("hipGetDeviceCount", "cuDeviceGetCount", _OUT_INT),
    "device_get": _row("hipDeviceGet", "cuDeviceGet", _OUT_INT, c_int),
    "device_name": _row("hipDeviceGetName", "cuDeviceGetName", c_char_p, c_int, c_int),
    "device_uuid": _row("hipDeviceGetUuid", "cuDeviceGetUuid_v2 cuDeviceGetUuid", c_char_p, c_int),
    "device_total_mem": _row("hipDeviceTotalMem", "cuDeviceTotalMem_v2", _OUT_SIZE, c_int),
    "device_pci_bus_id": _row("hipDeviceGetPCIBusId", "cuDeviceGetPCIBusId", c_char_p, c_int, c_int),
    "device_attribute": _row("hipDeviceGetAttribute", "cuDeviceGetAttribute", _OUT_INT, c_int, c_int),
    "device_properties": _row("hipGetDevicePropertiesR0600", "", c_char_p, c_int),
    "set_device": _row("hipSetDevice", "", c_int),
    "get_device": _row("hipGetDevice", "", _OUT_INT),
    "context_retain": _row("", "cuDevicePrimaryCtxRetain", _OUT, c_int),
    "context_set": _row("", "cuCtxSetCurrent", _HANDLE),
    "context_get": _row("", "cuCtxGetCurrent", _OUT),
    "context_device": _row("", "cuCtxGetDevice", _OUT_INT),
    "context_push": _row("", "cuCtxPushCurrent_v2", _HANDLE),
    "context_pop": _row("", "cuCtxPopCurrent_v2", _OUT),
    "synchronize": _row("hipDeviceSynchronize", "cuCtxSynchronize"),
    "memory_info": _row("hipMemGetInfo", "cuMemGetInfo_v2", _OUT_SIZE, _OUT_SIZE),
    # memory
    "alloc": _row("hipMalloc", "cuMemAlloc_v2", _OUT, c_size_t),
    "free": _row("hipFree", "cuMemFree_v2", _PTR),
    "alloc_async": _row("hipMallocAsync", "cuMemAllocAsync", _OUT, c_size_t, _HANDLE),
    "free_async": _row("hipFreeAsync", "cuMemFreeAsync", _PTR, _HANDLE),
    "alloc_host": _row("hipHostMalloc", "cuMemHostAlloc", _OUT, c_size_t, c_uint),
    "free_host": _row("hipHostFree", "cuMemFreeHost", _HANDLE),
    "copy_h2d": _row("hipMemcpyHtoD", "cuMemcpyHtoD_v2", _PTR, _HANDLE, c_size_t),
    "copy_d2h": _row("hipMemcpyDtoH", "cuMemcpyDtoH_v2", _HANDLE, _PTR, c_size_t),
    "copy_d2d": _row("hipMemcpyDtoD", "cuMemcpyDtoD_v2", _PTR, _PTR, c_size_t),
    "copy_h2d_async": _row("hipMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", _PTR, _HANDLE, c_size_t, _HANDLE),
    "copy_d2h_async": _row("hipMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", _HANDLE, _PTR, c_size_t, _HANDLE),
    "copy_d2d_async": _row("hipMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2", _PTR, _PTR, c_size_t, _HANDLE),
    # The device operands are ordinals for HIP and contexts for CUDA.
    "copy_peer_async": _row(
        "hipMemcpyPeerAsync", "cuMemcpyPeerAsync", _PTR, c_void_p, _PTR, c_void_p, c_size_t, _HANDLE
    ),
    "set8": _row("hipMemsetD8", "cuMemsetD8_v2", _PTR, c_ubyte, c_size_t),
    "set32": _row("hipMemsetD32", "cuMemsetD32_v2", _PTR, c_uint, c_size_t),
    "set8_async": _row("hipMemsetD8Async", "cuMemsetD8Async", _PTR, c_ubyte, c_size_t, _HANDLE),
    "set32_async": _row("hipMemsetD32Async", "cuMemsetD32Async", _PTR, c_uint, c_size_t, _HANDLE),
    "pointer_attribute": _row("hipPointerGetAttribute", "cuPointerGetAttribute", c_void_p, c_int, _PTR),
    # streams and events
    "stream_create": _row("hipStreamCreateWithPriority", "cuStreamCreateWithPriority", _OUT, c_uint, c_int),
    "stream_destroy": _row("hipStreamDestroy", "cuStreamDestroy_v2", _HANDLE),
    "stream_synchronize": _row("hipStreamSynchronize", "cuStreamSynchronize", _HANDLE),
    "stream_query": _row("hipStreamQuery", "cuStreamQuery", _HANDLE),
    "stream_wait_event": _row("hipStreamWaitEvent", "cuStreamWaitEvent", _HANDLE, _HANDLE, c_uint),
    "stream_is_capturing": _row("hipStreamIsCapturing", "cuStreamIsCapturing", _HANDLE, _OUT_INT),
    "stream_device": _row("hipStreamGetDevice", "", _HANDLE, _OUT_INT),
    "stream_context": _row("", "cuStreamGetCtx", _HANDLE, _OUT),
    "event_create": _row("hipEventCreateWithFlags", "cuEventCreate", _OUT, c_uint),
    "event_destroy": _row("hipEventDestroy", "cuEventDestroy_v2", _HANDLE),
    "event_record": _row("hipEventRecord", "cuEventRecord", _HANDLE, _HANDLE),
    "event_query": _row("hipEventQuery", "cuEventQuery", _HANDLE),
    "event_synchronize": _row("hipEventSynchronize", "cuEventSynchronize", _HANDLE),
    "event_elapsed": _row("hipEventElapsedTime", "cuEventElapsedTime", POINTER(c_float), _HANDLE, _HANDLE),
    # code
    "module_load": _row("hipModuleLoadData", "cuModuleLoadData", _OUT, c_void_p),
    "module_load_ex": _row("", "cuModuleLoadDataEx", _OUT, c_void_p, c_uint, POINTER(c_int), _OUT),
    "module_unload": _row("hipModuleUnload", "cuModuleUnload", _HANDLE),
    "module_function": _row("hipModuleGetFunction", "cuModuleGetFunction", _OUT, _HANDLE, c_char_p),
    "module_global": _row("hipModuleGetGlobal", "cuModuleGetGlobal_v2", _OUT, _OUT_SIZE, _HANDLE, c_char_p),
    "function_attribute": _row("hipFuncGetAttribute", "cuFuncGetAttribute", _OUT_INT, c_int, _HANDLE),
    "function_set_attribute": _row("", "cuFuncSetAttribute", _HANDLE, c_int, c_int),
    "launch": _row("hipModuleLaunchKernel", "cuLaunchKernel", _HANDLE, *(c_uint,) * 7, _HANDLE, c_void_p, c_void_p),
    "launch_ex": _row("hipDrvLaunchKernelEx", "cuLaunchKernelEx", c_void_p, _HANDLE, c_void_p, c_void_p),
    "tensor_map_encode": _row("", "cuTensorMapEncodeTiled", c_void_p),
    "occupancy": _row(
        "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        _OUT_INT,
        _HANDLE,
        c_int,
        c_size_t,
    ),
    # peers: HIP names the peer device, CUDA its context
    "can_access_peer": _row("hipDeviceCanAccessPeer", "cuDeviceCanAccessPeer", _OUT_INT, c_int, c_int),
    "enable_peer": _row("hipDeviceEnablePeerAccess", "cuCtxEnablePeerAccess", c_void_p, c_uint),
    "disable_peer": _row("hipDeviceDisablePeerAccess", "cuCtxDisablePeerAccess", c_void_p),
    # memory that other processes can map
    "vmm_granularity": _row(
        "hipMemGetAllocationGranularity", "cuMemGetAllocationGranularity", _OUT_SIZE, c_void_p, c_int
    ),
    "vmm_create": _row("hipMemCreate", "cuMemCreate", _OUT, c_size_t, c_void_p, c_uint64),
    "vmm_release": _row("hipMemRelease", "cuMemRelease", _HANDLE),
    "vmm_export": _row(
        "hipMemExportToShareableHandle", "cuMemExportToShareableHandle", c_void_p, _HANDLE, c_int, c_uint64
    ),
    "vmm_import": _row("hipMemImportFromShareableHandle", "cuMemImportFromShareableHandle", _OUT, c_void_p, c_int),
    "vmm_reserve": _row("hipMemAddressReserve", "cuMemAddressReserve", _OUT, c_size_t, c_size_t, _PTR, c_uint64),
    "vmm_free": _row("hipMemAddressFree", "cuMemAddressFree", _PTR, c_size_t),
    "vmm_map": _row("hipMemMap", "cuMemMap", _PTR, c_size_t, c_size_t, _HANDLE, c_uint64),
    "vmm_unmap": _row("hipMemUnmap", "cuMemUnmap", _PTR, c_size_t),
    "vmm_access": _row("hipMemSetAccess", "cuMemSetAccess", _PTR, c_size_t, c_void_p, c_size_t),
    # graphs
    "capture_begin": _row("hipStreamBeginCapture", "cuStreamBeginCapture_v2", _HANDLE, c_int),
    "capture_end": _row("hipStreamEndCapture", "cuStreamEndCapture", _HANDLE, _OUT),
    "graph_instantiate": _row("hipGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags", _OUT, _HANDLE, c_uint64),
    "graph_launch": _row("hipGraphLaunch", "cuGraphLaunch", _HANDLE, _HANDLE),
    "graph_destroy": _row("hipGraphDestroy", "cuGraphDestroy", _HANDLE),
    "graph_exec_destroy": _row("hipGraphExecDestroy", "cuGraphExecDestroy", _HANDLE),
    # errors: HIP returns the text, CUDA stores it
    "hip_error_name": _row("hipGetErrorName", "", c_int, result=c_char_p),
    "hip_error_text": _row("hipGetErrorString", "", c_int, result=c_char_p),
    "cuda_error_name": _row("", "cuGetErrorName", c_int, POINTER(c_char_p)),
    "cuda_error_text": _row("", "cuGetErrorString", c_int, POINTER(c_char_p)),
    "last_error": _row("hipGetLastError", ""),
}


class Status:
    """Status codes the two drivers share (Appendix C)."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NOT_INITIALISED = 3
    NO_DEVICE = 100
    INVALID_DEVICE = 101
    INVALID_IMAGE = 200
    NO_BINARY = 209
    INVALID_HANDLE = 400
    NOT_FOUND = 500
    NOT_READY = 600
    ILLEGAL_ADDRESS = 700
    OUT_OF_RESOURCES = 701
    PEER_ENABLED = 704
    DEVICE_ASSERT = 710
    MISALIGNED_ADDRESS = 716
    LAUNCH_FAILED = 719
    NOT_SUPPORTED = 801
    CAPTURE_UNSUPPORTED = 900
    CAPTURE_LAST = 908


STICKY = frozenset((700, 702, 710, 714, 715, 716, 717, 718, 719))
"""Faults after which a device takes no more work in this process."""


class DriverTable:
    """The entry points of one loaded library."""

    def __init__(self, kind: str, column: Column, library: ctypes.CDLL):
        self.kind = kind
        self._column: Column = column
        self._library = library
        self._found: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """The callable of an operation, with its prototype set; `NotSupportedError` if the library lacks it."""
        found = self._found.get(name)
        if found is not None:
            return found
        entry = ENTRIES[name]
        symbols = entry.hip if self._column == "hip" else entry.cuda
        for symbol in symbols:
            function = getattr(self._library, symbol, None)
            if function is not None:
                function.argtypes = entry.args
                function.restype = entry.result
                self._found[name] = function
                return function
        reason = f"the driver library has no {symbols[0]}" if symbols else ""
        raise NotSupportedError(self.kind, name, reason)

    def has(self, name: str) -> bool:
        """Whether the library offers an operation."""
        try:
            self.get(name)
        except NotSupportedError:
            return False
        return True

    def symbol(self, name: str) -> str:
        """The C name of an operation, for messages."""
        entry = ENTRIES[name]
        symbols = entry.hip if self._column == "hip" else entry.cuda
        return symbols[0] if symbols else name

    def address(self, name: str) -> int:
        """The address of an entry point, for generated code."""
        value = ctypes.cast(self.get(name), c_void_p).value
        assert value is not None
        return value
