"""XLA's foreign function interface, as far as a call needs it: frames, buffers, attributes, streams, errors.

XLA calls a handler with a frame, whose layout its C header (`xla/ffi/api/c_api.h`) has. The handler here is a ctypes
callback; it finds what is to be run by the string attribute `plan`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from typing import NamedTuple, cast

TARGET = "flydsl_call"
EXECUTE = 3
METADATA = 1
INTERNAL = 13
BUFFER = 1
STRING = 4

TYPES = {
    1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64",
    10: "float16", 11: "float32", 12: "float64", 16: "bfloat16", 19: "float8_e5m2", 20: "float8_e4m3fn",
    23: "float8_e4m3b11fnuz", 24: "float8_e5m2fnuz", 25: "float8_e4m3fnuz", 28: "float8_e4m3",
    33: "float8_e8m0fnu",
}  # fmt: skip
"""Element types by XLA's number."""
NAMES = frozenset(TYPES.values())


class _Extension(Structure):
    _fields_ = (("struct_size", c_size_t), ("type", c_int), ("next", c_void_p))


class _Version(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("major", c_int), ("minor", c_int))


class _Metadata(Structure):
    _fields_ = (("struct_size", c_size_t), ("version", _Version), ("traits", c_uint32))


class _MetadataExtension(Structure):
    _fields_ = (("base", _Extension), ("metadata", POINTER(_Metadata)))


class _Buffer(Structure):
    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("dtype", c_int), ("data", c_void_p), ("rank", c_int64),
        ("dims", POINTER(c_int64)),
    )  # fmt: skip


class _Many(Structure):
    """Arguments or results."""

    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("size", c_int64), ("types", POINTER(c_int)),
        ("values", POINTER(c_void_p)),
    )  # fmt: skip


class _Span(Structure):
    _fields_ = (("data", c_void_p), ("size", c_size_t))


class _Attributes(Structure):
    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("size", c_int64), ("types", POINTER(c_int)),
        ("names", POINTER(POINTER(_Span))), ("values", POINTER(c_void_p)),
    )  # fmt: skip


class _ErrorArguments(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("message", c_char_p), ("code", c_int))


class _StreamArguments(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("context", c_void_p), ("stream", c_void_p))


_MakeError = ctypes.CFUNCTYPE(c_void_p, POINTER(_ErrorArguments))
_GetStream = ctypes.CFUNCTYPE(c_void_p, POINTER(_StreamArguments))


class _Api(Structure):
    """The first functions of XLA's table."""

    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("version", _Version), ("internal", c_void_p),
        ("make_error", _MakeError), ("error_message", c_void_p), ("destroy_error", c_void_p), ("register", c_void_p),
        ("get_stream", _GetStream),
    )  # fmt: skip


class _Frame(Structure):
    _fields_ = (
        ("struct_size", c_size_t), ("extension", POINTER(_Extension)), ("api", POINTER(_Api)), ("context", c_void_p),
        ("stage", c_int), ("arguments", _Many), ("results", _Many), ("attributes", _Attributes), ("future", c_void_p),
    )  # fmt: skip


class Memory(NamedTuple):
    """An argument or a result: elements in rows, in one piece."""

    pointer: int
    shape: tuple[int, ...]
    dtype: str


Run = Callable[[str, Sequence[Memory], Sequence[Memory], int], None]
"""What a call is handed: the plan, arguments, results, and the stream (0 where there is none)."""

Handler = ctypes.CFUNCTYPE(c_void_p, POINTER(_Frame))


def handler(run: Run, on_device: bool) -> object:
    """A C function for XLA that calls `run`; whoever registers it keeps it alive."""

    def handle(pointer: ctypes._Pointer[_Frame]) -> int | None:  # pyright: ignore[reportPrivateUsage]
        frame = pointer.contents
        if frame.extension and frame.extension.contents.type == METADATA:
            _describe(frame)
            return None
        if frame.stage != EXECUTE:
            return None
        try:
            stream = _stream(frame) if on_device else 0
            run(_plan(frame.attributes), _memories(frame.arguments), _memories(frame.results), stream)
        except BaseException as error:  # noqa: BLE001  An exception cannot go through XLA: it becomes its error.
            return _error(frame, f"{type(error).__name__}: {error}")
        return None

    return Handler(handle)


def _describe(frame: _Frame) -> None:
    """Answer XLA's question which version of the interface this is: the one it has itself."""
    found = ctypes.cast(frame.extension, POINTER(_MetadataExtension)).contents.metadata.contents
    version = frame.api.contents.version
    found.version.major, found.version.minor, found.traits = version.major, version.minor, 0


def _plan(attributes: _Attributes) -> str:
    for i in range(attributes.size):
        name = attributes.names[i].contents
        if ctypes.string_at(name.data, name.size) == b"plan" and attributes.types[i] == STRING:
            span = ctypes.cast(cast(int, attributes.values[i]), POINTER(_Span)).contents
            return ctypes.string_at(span.data, span.size).decode()
    raise ValueError("the call has no attribute 'plan'")


def _memories(many: _Many) -> list[Memory]:
    found: list[Memory] = []
    for i in range(many.size):
        if many.types[i] != BUFFER:
            raise ValueError(f"argument {i} of the call is no array")
        buffer = ctypes.cast(cast(int, many.values[i]), POINTER(_Buffer)).contents
        if buffer.dtype not in TYPES:
            raise ValueError(f"argument {i} of the call has elements of XLA's type {buffer.dtype}")
        shape = tuple(buffer.dims[d] for d in range(buffer.rank))
        found.append(Memory(buffer.data or 0, shape, TYPES[buffer.dtype]))
    return found


def _stream(frame: _Frame) -> int:
    arguments = _StreamArguments(ctypes.sizeof(_StreamArguments), None, frame.context, None)
    if frame.api.contents.get_stream(ctypes.byref(arguments)):
        raise RuntimeError("XLA gives no stream for the call")
    return arguments.stream or 0


def _error(frame: _Frame, message: str) -> int | None:
    # XLA's text ends at a zero, and a lone surrogate has no bytes.
    text = message.replace("\0", "\\0").encode(errors="backslashreplace")
    arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, text, INTERNAL)
    return frame.api.contents.make_error(ctypes.byref(arguments))
