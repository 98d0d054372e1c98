"""Messages of the protocol on a stream: a header with the length, then JSON."""

from __future__ import annotations

import json
import threading
from typing import Any, BinaryIO, cast

from ...errors import DSLValueError

Message = dict[str, Any]
LARGEST = 1 << 24
"""Bytes of a message that is read."""


class BadMessage(DSLValueError):
    """Bytes that are no message of the protocol."""


def read_message(stream: BinaryIO) -> Message | None:
    """The next message; None at the end of the stream."""
    length = None
    while True:
        line = stream.readline(1024)
        if not line:
            return None
        if line in (b"\r\n", b"\n"):
            break
        name, colon, value = line.partition(b":")
        if not colon:
            raise BadMessage(f"expected a header such as 'Content-Length: 119', got {line[:80]!r}")
        if name.strip().lower() == b"content-length":
            if not value.strip().isdigit() or int(value) > LARGEST:
                raise BadMessage(f"expected a length of at most {LARGEST} bytes, got {value.strip()[:40]!r}")
            length = int(value)
    if length is None:
        raise BadMessage("a message has no Content-Length")
    data = stream.read(length)
    if len(data) < length:
        return None
    try:
        found: object = json.loads(data)
    except ValueError as error:
        raise BadMessage(f"a message is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadMessage(f"a message is an object, got {type(found).__name__}")
    return cast(Message, found)


class Sender:
    """Writes messages; several threads may."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream
        self._lock = threading.Lock()
        self._sequence = 0

    def send(self, message: Message) -> None:
        with self._lock:
            self._sequence += 1
            data = json.dumps({"seq": self._sequence, **message}).encode()
            self._stream.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
            self._stream.flush()
