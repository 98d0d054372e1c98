"""The Debug Adapter Protocol: `serve` for a pair of streams, `listen` for a port of this machine."""

from __future__ import annotations

import socket
import sys
from typing import BinaryIO, cast

from .adapter import Adapter

HOST = "127.0.0.1"
"""The only address that is listened on: whoever connects may evaluate expressions of Python."""


def serve(reader: BinaryIO, writer: BinaryIO) -> int:
    """Speak the protocol on two streams until the client disconnects; gives the exit status of the program."""
    return Adapter(reader, writer).serve()


def listen(port: int) -> int:
    """Wait for one client on a port of the loopback interface, 0 for any that is free, and serve it."""
    with socket.create_server((HOST, port)) as server:
        chosen = cast("tuple[str, int]", server.getsockname())[1]
        sys.stderr.write(f"fly debug: waiting for a client on {HOST}:{chosen}\n")
        sys.stderr.flush()
        connection, _ = server.accept()
    with connection, connection.makefile("rb") as reader, connection.makefile("wb") as writer:
        return serve(cast(BinaryIO, reader), cast(BinaryIO, writer))


__all__ = ["Adapter", "listen", "serve"]
