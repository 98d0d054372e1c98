"""Thread and block indices, barrier, and the stream parameter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import DSLRuntimeError, DSLValueError
from .numeric import Int32
from .trace import current


def _ops() -> Any:
    from . import gpu_ir

    return gpu_ir


class Tuple3D:
    """Three indices, `.x .y .z`; iterable."""

    def __init__(self, name: str, op: str):
        self._name = name
        self._op = op

    def __getattr__(self, dim: str) -> Int32:
        if dim not in ("x", "y", "z"):
            raise AttributeError(f"{self._name} has x, y and z, not {dim!r}")
        return Int32(_ops().index(self._op, dim))

    def __iter__(self) -> Iterator[Int32]:
        return iter((self.x, self.y, self.z))

    def __repr__(self) -> str:
        return self._name


thread_idx = Tuple3D("thread_idx", "thread_id")
block_idx = Tuple3D("block_idx", "block_id")
block_dim = Tuple3D("block_dim", "block_dim")
grid_dim = Tuple3D("grid_dim", "grid_dim")


def barrier() -> None:
    """All threads of the block meet here; memory written before is visible after."""
    _ops().barrier()


def lane_id() -> Int32:
    """Index of the thread in its warp or wave."""
    return Int32(_ops().lane_id())


def known_block_size() -> tuple[int, int, int]:
    """Block size of the kernel being traced."""
    for function in reversed(current().functions):
        size = getattr(function, "block_size", None)
        if size is not None:
            return size
    raise DSLRuntimeError("no compile-time block size: launch with static block=... or declare known_block_size")


def num_warp_threads() -> int:
    """Threads per warp or wave of the target."""
    for function in current().functions:
        target = getattr(function, "target", None)
        if target is not None:
            return target.warp_size
    raise DSLRuntimeError("no target: this can only be asked while a kernel is traced")


class Stream:
    """The stream a jit function launches on: `None` (unspecified), an int handle or a framework's stream object.

    Write it as the last parameter, `stream: fx.Stream = fx.Stream(None)`, and pass it to `launch(stream=stream)`.
    """

    __slots__ = ("_ir", "raw")

    def __init__(self, raw: Any = None):
        if isinstance(raw, Stream):
            raw = raw.raw
        if raw is not None and not isinstance(raw, int) and stream_handle(raw) is None:
            raise DSLValueError(f"expected None, an int handle or a stream object, got {raw!r}")
        self.raw: Any = raw
        self._ir: Any = None

    @property
    def handle(self) -> int | None:
        """Raw handle; None when unspecified."""
        return None if self.raw is None else stream_handle(self.raw)

    def ir_value(self) -> Any:
        """The IR token while tracing."""
        if self._ir is None:
            raise DSLRuntimeError("this stream is a host value, not a parameter of the traced function")
        return self._ir

    def __extract_to_ir_values__(self) -> list[Any]:
        return [self.ir_value()]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[Any], exemplar: Any = None) -> Stream:
        made = cls(None)
        made._ir = values[0]
        return made

    def __get_ir_types__(self) -> list[Any]:
        return [_ops().token_type()]

    def __cache_signature__(self) -> Any:
        return "stream"

    def __c_abi_spec__(self) -> list[Any]:
        import ctypes

        return [(ctypes.c_void_p, _fill_handle)]

    def __repr__(self) -> str:
        return f"Stream({self.raw!r})"


def _fill_handle(stream: Any, slot: Any) -> None:
    """Store a stream's handle in its C slot."""
    slot.value = stream.handle or 0


def stream_handle(raw: Any) -> int | None:
    """Integer handle of a stream object of any framework, or None."""
    if isinstance(raw, int):
        return raw
    for name in ("handle", "cuda_stream", "ptr"):
        value = getattr(raw, name, None)
        if isinstance(value, int):
            return value
    protocol = getattr(raw, "__cuda_stream__", None)
    return int(protocol()[1]) if protocol is not None else None


__all__ = [
    "Stream",
    "Tuple3D",
    "barrier",
    "block_dim",
    "block_idx",
    "grid_dim",
    "known_block_size",
    "lane_id",
    "num_warp_threads",
    "thread_idx",
]
