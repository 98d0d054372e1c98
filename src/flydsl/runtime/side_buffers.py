"""Memory that a launch adds to a kernel by itself: a trace, or what its threads print.

A kernel declares such memory (`side_buffers` of its metadata, each with a `kind`); the compiler appends a hidden
argument for each, and the host stub asks here for its address right before the launch, with the launch's geometry, and
says when the launch was made. So every way to a launch has it: cold, warm, exported. Stubs of other kernels know
nothing of this.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from flydsl.errors import DSLRuntimeError, FlyRuntimeError, LaunchError
from flydsl.llvm.stub_abi import SIDE_BUFFER_FAILED, SIDE_BUFFER_SYMBOL, SIDE_BUFFERS_DONE_SYMBOL

if TYPE_CHECKING:
    from flydsl.runtime.base import DeviceRuntime
    from flydsl.runtime.objects import Buffer

_I32, _I64, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
_MAKE = ctypes.CFUNCTYPE(_I32, _I32, _I32, *[_I64] * 6, _POINTER, ctypes.POINTER(_POINTER))
_DONE = ctypes.CFUNCTYPE(_I32, _I32, _POINTER)
_MOST = (1 << 31) - 1


@dataclass(frozen=True)
class SideLaunch:
    """A launch that side memory is made for."""

    function: str
    kernel: str
    details: Mapping[str, object]
    """What the kernel declares of this memory."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    stream: int
    runtime: DeviceRuntime

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


class OpenBuffer(Protocol):
    """Memory that belongs to one launch."""

    @property
    def address(self) -> int: ...

    def launched(self) -> None:
        """The launch was made; on a device it may still run."""


KINDS = {"ktrace": "flydsl.runtime.ktrace.recorder:open_buffer", "print": "flydsl.runtime.print_buffer:open_buffer"}
"""Who makes memory of a kind: `module:function`, which takes a `SideLaunch`."""


def device_memory(launch: SideLaunch, head: bytes, nbytes: int) -> Buffer:
    """Memory of zeros that starts with `head`, in the order of the launch's stream."""
    runtime = launch.runtime
    buffer = runtime.alloc(nbytes)
    if runtime.pageable_host:
        ctypes.memset(buffer.ptr, 0, nbytes)
        ctypes.memmove(buffer.ptr, head, len(head))
        return buffer
    held = ctypes.create_string_buffer(head, len(head))
    runtime.memset(buffer.ptr, 0, nbytes, stream=launch.stream)
    runtime.memcpy_h2d(buffer.ptr, ctypes.addressof(held), len(head), stream=launch.stream)
    return buffer


def content(launch: SideLaunch, buffer: Buffer, offset: int, nbytes: int) -> bytes:
    """What a launch left in a part of its memory; waits for it."""
    runtime = launch.runtime
    if runtime.pageable_host:
        return ctypes.string_at(buffer.ptr + offset, nbytes)
    held = ctypes.create_string_buffer(nbytes)
    runtime.stream_synchronize(launch.stream)
    runtime.memcpy_d2h(ctypes.addressof(held), buffer.ptr + offset, nbytes)
    return held.raw


def wait(launch: SideLaunch) -> None:
    """Wait for a launch. Host memory is written by the time its launch returns."""
    if not launch.runtime.pageable_host:
        launch.runtime.stream_synchronize(launch.stream)


class _State(threading.local):
    """What a thread has under way between the calls of a stub."""

    def __init__(self) -> None:
        self.open: list[OpenBuffer] = []
        self.failure: BaseException | None = None


class SideBuffers:
    """The side memory of the launches of one loaded function."""

    def __init__(self, function: str, kernels: Sequence[Mapping[str, object]], runtime: DeviceRuntime):
        self._function = function
        self._kernels = kernels
        self._runtime = runtime
        self._state = _State()
        self._keep = (_MAKE(self._make), _DONE(self._done))
        found = [ctypes.cast(each, _POINTER).value or 0 for each in self._keep]
        self.addresses = dict(zip((SIDE_BUFFER_SYMBOL, SIDE_BUFFERS_DONE_SYMBOL), found, strict=True))
        """What the stub calls, by name."""

    def _make(self, kernel: int, which: int, *rest: object) -> int:
        *sizes, stream, out = rest
        return self._guarded(lambda: self._open(kernel, which, cast("list[int]", sizes), cast(int, stream or 0), out))

    def _open(self, kernel: int, which: int, sizes: list[int], stream: int, out: object) -> None:
        if which == 0:
            self._state.open = []
        about = self._kernels[kernel]
        details = cast("list[dict[str, object]]", about["side_buffers"])[which]
        address = 0
        # An empty grid launches nothing, and a wrong one is refused by the launch.
        if all(0 < size <= _MOST for size in sizes):
            grid, block = (sizes[0], sizes[1], sizes[2]), (sizes[3], sizes[4], sizes[5])
            name = cast(str, about["name"])
            launch = SideLaunch(self._function, name, details, grid, block, stream, self._runtime)
            refuse_capture(launch)
            made = opener(cast(str, details["kind"]))(launch)
            self._state.open.append(made)
            address = made.address
        cast("ctypes.Array[ctypes.c_void_p]", out)[0] = address  # pyright: ignore[reportArgumentType, reportCallIssue]

    def _done(self, kernel: int, stream: int) -> int:
        made, self._state.open = self._state.open, []

        def tell() -> None:
            for each in made:
                each.launched()

        return self._guarded(tell)

    def _guarded(self, step: Callable[[], None]) -> int:
        """Native code lies between here and the caller: what goes wrong is kept for `raise_failure`."""
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - raised again on the other side of the stub
            self._state.failure = error
            return SIDE_BUFFER_FAILED
        return 0

    def raise_failure(self) -> NoReturn:
        """Raise what stopped the last launch of this thread."""
        failure, self._state.failure = self._state.failure, None
        raise failure or LaunchError(f"{self._function}: the memory of its kernel could not be made")


def opener(kind: str) -> Callable[[SideLaunch], OpenBuffer]:
    """Who makes memory of a kind."""
    where = KINDS.get(kind)
    if where is None:
        raise DSLRuntimeError(f"side memory is {' or '.join(sorted(KINDS))}; the artifact wants {kind!r}")
    module, name = where.split(":")
    return getattr(import_module(module), name)


def refuse_capture(launch: SideLaunch) -> None:
    """A graph would launch again and again with the memory of its first launch, and nobody would read it."""
    if launch.runtime.pageable_host or not launch.runtime.stream_is_capturing(launch.stream):
        return
    what = {"print": "prints (fx.printf)", "ktrace": "records a trace (fx.ktrace)"}[cast(str, launch.details["kind"])]
    raise FlyRuntimeError(
        f"kernel '{launch.kernel}' {what} and cannot be recorded into a graph: the memory for it belongs to one "
        "launch; launch it outside of the capture, or compile it without",
        stream=launch.stream,
    )


class NoSideBuffers:
    """For a stub whose launches are only looked at: every address is 0."""

    def __init__(self) -> None:
        self._keep = (_MAKE(self._make), _DONE(self._done))
        found = [ctypes.cast(each, _POINTER).value or 0 for each in self._keep]
        self.addresses = dict(zip((SIDE_BUFFER_SYMBOL, SIDE_BUFFERS_DONE_SYMBOL), found, strict=True))
        """What the stub calls, by name."""

    def _make(self, kernel: int, which: int, *rest: object) -> int:
        cast("ctypes.Array[ctypes.c_void_p]", rest[-1])[0] = 0  # pyright: ignore[reportArgumentType, reportCallIssue]
        return 0

    def _done(self, kernel: int, stream: int) -> int:
        return 0
