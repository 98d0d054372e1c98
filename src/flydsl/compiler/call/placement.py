"""Where a launch goes: which device, which stream, after what.

The device is that of an explicit stream, else the one all device arrays share, else the current one. The stream is the
one given, else the one of a `with stream:` block, else the current stream of the framework that owns the first device
array, else the default stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Literal, Protocol, cast

from ... import config
from ...errors import CaptureError, CaptureWarning, DSLTypeError, DSLValueError, StackMismatchError
from ...runtime.objects import Buffer, Event, current_stream
from ...runtime.objects import Stream as RuntimeStream
from ...target import on_host
from .arguments import Arguments, StreamArgument, TensorArgument
from .host_arrays import UNKNOWN_ORDINAL, is_cupy_array, is_torch_tensor
from .plan import PRESENT

if TYPE_CHECKING:
    from ...runtime.base import DeviceRuntime

_DEFAULT_STREAMS = (0, 1, 2)
"""Null, legacy and per-thread default: they belong to whatever device is current."""


def check_places(arguments: Arguments, runtime: DeviceRuntime) -> None:
    """Every array must be in memory that kernels of the stack can reach."""
    kind = runtime.kind
    for name, argument in arguments.items():
        if not isinstance(argument, TensorArgument):
            continue
        here = argument.info.device
        if isinstance(argument.info.owner, Buffer):
            _ = argument.info.owner.ptr  # raises if it was freed since the argument was made
        if here == kind or (on_host(here) and runtime.pageable_host):
            PRESENT.demand(argument.info.owner, argument, f"parameter '{name}': ")
            continue
        if on_host(here):
            raise DSLTypeError(
                f"parameter '{name}': the array is in host memory, but the active stack is '{kind}'; {_how_to_copy()}"
            )
        raise StackMismatchError(
            f"parameter '{name}': the array is in {here} memory, but the active stack is '{kind}'; "
            f"copy it to host memory, or choose its stack with FLYDSL_COMPILE_BACKEND={here} in a fresh process"
        )


def _how_to_copy() -> str:
    return (
        'copy it to the device first: tensor.to("cuda") in torch, cupy.asarray(array) in CuPy, or '
        "Buffer.copy_from(array) on a buffer of flydsl.runtime.get_device_runtime().alloc(nbytes)"
    )


# --- device -------------------------------------------------------------------------------------------------------


def _stream_of(arguments: Arguments) -> object:
    """What the caller says of the stream: a runtime stream, a foreign object, a handle, or None."""
    for argument in arguments.values():
        if isinstance(argument, StreamArgument) and argument.stream.raw is not None:
            return argument.stream.raw
    return current_stream()


def _device_of_stream(arguments: Arguments, runtime: DeviceRuntime) -> int | None:
    raw = _stream_of(arguments)
    if raw is None:
        return None
    if isinstance(raw, RuntimeStream):
        if raw.runtime is not runtime:
            raise StackMismatchError(
                f"the stream belongs to a {raw.runtime.kind} runtime, but the active stack is '{runtime.kind}'"
            )
        return raw.device.ordinal
    handle = explicit_handle(arguments)
    return None if handle is None or handle in _DEFAULT_STREAMS else runtime.stream_device_of(handle)


def placed(arguments: Arguments, runtime: DeviceRuntime) -> dict[str, int]:
    """Ordinals of the arrays that are on a device; ordinary host memory is on none."""
    found: dict[str, int] = {}
    for name, argument in arguments.items():
        if not isinstance(argument, TensorArgument) or argument.info.device != runtime.kind:
            continue
        if runtime.pageable_host and not isinstance(argument.info.owner, Buffer):
            continue
        ordinal: int | None = argument.info.ordinal
        if ordinal == UNKNOWN_ORDINAL:
            ordinal = runtime.pointer_device(argument.info.pointer)
        if ordinal is not None:
            found[name] = ordinal
    return found


def launch_device(arguments: Arguments, runtime: DeviceRuntime) -> int:
    """The ordinal to launch on; arrays on other devices need peer access."""
    if runtime.device_count() <= 1:
        return runtime.current_device_id()
    arrays = placed(arguments, runtime)
    of_stream = _device_of_stream(arguments, runtime)
    if of_stream is None and not arrays:
        return runtime.current_device_id()
    device = next(iter(arrays.values())) if of_stream is None else of_stream
    if any(o != device and not runtime.peer_access_enabled(device, o) for o in arrays.values()):
        listing = ", ".join(f"'{name}' on device {ordinal}" for name, ordinal in arrays.items())
        stream = "" if of_stream is None else f", the stream on device {of_stream}"
        raise DSLValueError(
            f"the arguments are on different devices: {listing}{stream}; copy them to one device, or call "
            "Device.enable_peer_access() first"
        )
    return device


# --- stream -------------------------------------------------------------------------------------------------------


def explicit_handle(arguments: Arguments) -> int | None:
    """Handle of the stream argument, or None where it says "unspecified"."""
    for argument in arguments.values():
        if isinstance(argument, StreamArgument):
            return argument.stream.handle
    return None


def unspecified_stream(owners: Iterable[object], runtime: DeviceRuntime) -> int:
    """The stream of a launch that names none; `owners` are its arrays or their adapters, in order."""
    own = current_stream()
    if own is not None:
        return own.handle
    if runtime.pageable_host or config.runtime.stream_policy == "default":
        return 0
    owner = first_owner(owners)
    if is_torch_tensor(owner):
        return torch_stream_accessor()(owner.device.index or 0)
    return _cupy_stream() if is_cupy_array(owner) else 0


def first_owner(values: Iterable[object]) -> object:
    """The first array of a framework that has a current stream, also in an adapter; None if there is none."""
    for value in values:
        owner = value.info.owner if isinstance(value, TensorArgument) else value
        if is_torch_tensor(owner) or is_cupy_array(owner):
            return owner
    return None


class _TorchStream(Protocol):
    cuda_stream: int


class _TorchCuda(Protocol):
    def current_stream(self, device: int) -> _TorchStream: ...


class _Torch(Protocol):
    cuda: _TorchCuda


class _CupyStream(Protocol):
    ptr: int


class _CupyCuda(Protocol):
    def get_current_stream(self) -> _CupyStream: ...


@cache
def torch_stream_accessor() -> Callable[[int], int]:
    """From an ordinal to torch's current stream: the raw accessor costs 0.1 us, making a stream object 7 us."""
    torch = cast(_Torch, sys.modules["torch"])
    raw: Callable[[int], int] | None = getattr(getattr(torch, "_C"), "_cuda_getCurrentRawStream", None)  # noqa: B009
    return raw or (lambda index: torch.cuda.current_stream(index).cuda_stream)


def _cupy_stream() -> int:
    cuda = cast(_CupyCuda, getattr(sys.modules["cupy"], "cuda"))  # noqa: B009
    return int(cuda.get_current_stream().ptr)


def order_after_producers(arguments: Iterable[object], handle: int, runtime: DeviceRuntime) -> None:
    """Let the launch stream wait for the streams on which producers say they made their data."""
    streams = {a.info.stream for a in arguments if isinstance(a, TensorArgument) and a.info.stream is not None}
    for stream in sorted(streams - {handle, 1 if handle == 0 else handle}):
        event = Event(timing=False)
        runtime.event_record(event.handle, stream)
        runtime.stream_wait_event(handle, event.handle)


def check_capture(arguments: Arguments, runtime: DeviceRuntime, function: str) -> None:
    """Code is about to be loaded: say so, or refuse, where the launch stream records a graph."""
    if runtime.pageable_host:
        return
    handle = explicit_handle(arguments)
    if handle is None:
        owners = [a.info.owner for a in arguments.values() if isinstance(a, TensorArgument)]
        handle = unspecified_stream(owners, runtime)
    if handle in (0, 1) or not runtime.stream_is_capturing(handle):
        return
    policy: Literal["", "warn", "error"] = config.runtime.capture_compile
    if (policy or ("warn" if runtime.loads_in_capture else "error")) == "error":
        raise CaptureError(
            f"{function} is not compiled and loaded yet, and its stream is being captured; call it once, or "
            "flyc.compile(...).prepare(...), before the capture starts",
            stream=handle,
        )
    config.warn(
        f"{function} is loaded while its stream is being captured; call it once before the capture starts",
        CaptureWarning,
        stacklevel=4,
    )
