"""How ranks find each other and hand each other bytes and memory: threads through a list, processes through sockets."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from flydsl.errors import FlyRuntimeError

_HEADER = struct.Struct("<QQ")
"""Number of the exchange, bytes that follow."""


class Meeting(ABC):
    """One rank's end of what connects the ranks."""

    same_process: bool
    """Whether handles and addresses mean the same to all ranks."""

    def __init__(self, rank: int, size: int):
        self.rank = rank
        self.size = size

    @abstractmethod
    def exchange(self, data: bytes = b"", descriptor: int | None = None) -> list[tuple[bytes, int | None]]:
        """Give all ranks bytes, and a file where it is meant for them; what each rank gave, by rank.

        Descriptors of others are new ones, for the caller to close.
        """

    @abstractmethod
    def close(self) -> None:
        """Leave; ranks that exchange something afterwards are told."""


class Board:
    """What the threads of a world share."""

    def __init__(self, size: int, timeout: float, meet: Callable[[], None] = lambda: None):
        self.meet = meet
        """Called while all ranks wait."""
        self.cells: list[bytes] = [b""] * size
        self.barrier = threading.Barrier(size, timeout=timeout)


class ThreadMeeting(Meeting):
    """A rank that is a thread."""

    same_process = True

    def __init__(self, rank: int, size: int, board: Board):
        super().__init__(rank, size)
        self._board = board

    def exchange(self, data: bytes = b"", descriptor: int | None = None) -> list[tuple[bytes, int | None]]:
        assert descriptor is None, "threads of one process hand on handles"
        try:
            self._board.cells[self.rank] = data
            self._board.barrier.wait()
            found = list(self._board.cells)
            if self.rank == 0:
                self._board.meet()
            self._board.barrier.wait()
        except threading.BrokenBarrierError:
            raise FlyRuntimeError(
                f"rank {self.rank}: another rank has failed, or did not come to this call in time"
            ) from None
        return [(cell, None) for cell in found]

    def close(self) -> None:
        """Threads that are done leave nothing open."""


class SocketMeeting(Meeting):
    """A rank that is a process: it has a socket to every other one, which it found in a folder.

    The folder must be the user's own: whoever can reach the sockets gets at the memory.
    """

    same_process = False

    def __init__(self, rank: int, size: int, folder: str | os.PathLike[str], timeout: float):
        super().__init__(rank, size)
        self._turn = 0
        self._others: dict[int, socket.socket] = {}
        end = time.monotonic() + timeout
        path = Path(folder)
        with socket.socket(socket.AF_UNIX) as door:
            own = path / f"rank-{rank}"
            door.bind(str(own))
            door.listen(size)
            try:
                for other in range(rank):
                    self._others[other] = self._call(path / f"rank-{other}", other, end)
                for _ in range(size - 1 - rank):
                    door.settimeout(max(end - time.monotonic(), 0.001))
                    made, _address = door.accept()
                    made.settimeout(timeout)
                    self._others[int.from_bytes(_received(made, 4)[0], "little")] = made
            except (TimeoutError, ConnectionError) as error:
                self.close()
                missing = sorted({*range(size)} - {rank, *self._others})
                raise FlyRuntimeError(
                    f"rank {rank}: ranks {missing} did not come to {path} within {timeout:g} s"
                ) from error
            finally:
                own.unlink(missing_ok=True)
        for link in self._others.values():
            link.settimeout(timeout)

    def _call(self, path: Path, other: int, end: float) -> socket.socket:
        """A connection to a lower rank, which may not have started yet."""
        while True:
            link = socket.socket(socket.AF_UNIX)
            try:
                link.settimeout(max(end - time.monotonic(), 0.001))
                link.connect(str(path))
            except (FileNotFoundError, ConnectionRefusedError):
                link.close()
                if time.monotonic() > end:
                    raise TimeoutError(f"rank {other} is not there") from None
                time.sleep(0.01)
            else:
                link.sendall(self.rank.to_bytes(4, "little"))
                return link

    def exchange(self, data: bytes = b"", descriptor: int | None = None) -> list[tuple[bytes, int | None]]:
        self._turn += 1
        files = [] if descriptor is None else [descriptor]
        found: list[tuple[bytes, int | None]] = [(data, descriptor)] * self.size
        other = -1
        try:
            for other, link in sorted(self._others.items()):
                socket.send_fds(link, [_HEADER.pack(self._turn, len(data)) + data], files)
            for other, link in sorted(self._others.items()):
                head, file = _received(link, _HEADER.size, 1)
                turn, length = _HEADER.unpack(head)
                if turn != self._turn:
                    raise FlyRuntimeError(
                        f"rank {self.rank} is at exchange {self._turn} and rank {other} at {turn}: all ranks must "
                        "make the same calls in the same order"
                    )
                found[other] = (_received(link, length)[0] if length else b"", file)
        except OSError as error:
            for _, file in found:
                if file is not None and file != descriptor:
                    os.close(file)
            why = f"rank {other} has left" if isinstance(error, ConnectionError) else str(error)
            raise FlyRuntimeError(f"rank {self.rank}: {why} during exchange {self._turn}") from error
        return found

    def close(self) -> None:
        for link in self._others.values():
            with contextlib.suppress(OSError):  # the other end may be gone already
                link.shutdown(socket.SHUT_RDWR)
            link.close()
        self._others.clear()


def _received(link: socket.socket, length: int, files: int = 0) -> tuple[bytes, int | None]:
    """Exactly `length` bytes, and the descriptor that came with them."""
    got, found = b"", None
    while len(got) < length:
        if files:
            part, descriptors, _, _ = socket.recv_fds(link, length - len(got), files)
            found = descriptors[0] if descriptors else found
        else:
            part = link.recv(length - len(got))
        if not part:
            raise ConnectionError("the other end has closed")
        got += part
    return got, found
