"""`World`: what one rank knows of all."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flydsl.errors import DSLValueError, NotSupportedError
from flydsl.runtime.device_runtime import get_device_runtime
from flydsl.runtime.dist.meeting import Meeting, SocketMeeting
from flydsl.runtime.dist.tensor import BYTES, Holders, Mapping, SymmetricTensor, dtype_name

if TYPE_CHECKING:
    from flydsl.runtime.base import DeviceRuntime

TIMEOUT = 300.0
"""Seconds that a rank waits for the others by default."""


class World:
    """A rank's view of all ranks.

    All ranks make the same calls of `barrier`, `gather` and `symmetric` in the same order.
    """

    def __init__(self, meeting: Meeting, runtime: DeviceRuntime | None = None):
        self._meeting = meeting
        self._runtime = get_device_runtime() if runtime is None else runtime
        self.device = self._runtime.rank_device(self.rank)
        """Ordinal of this rank's device."""

    @property
    def rank(self) -> int:
        """Number of this rank, from 0 on."""
        return self._meeting.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._meeting.size

    def barrier(self) -> None:
        """Wait until all ranks are here and the work of their devices is done."""
        self._runtime.synchronize(self.device)
        self._meeting.exchange()

    def gather(self, data: bytes) -> list[bytes]:
        """What every rank gave, by rank."""
        return [found for found, _ in self._meeting.exchange(data)]

    def symmetric(self, shape: int | Sequence[int], dtype: object = "float32") -> SymmetricTensor:
        """An array for every rank, all zeros; every rank asks for the same shape and type."""
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        if not extents or not all(type(n) is int and n >= 0 for n in extents):
            raise DSLValueError(f"the shape of a symmetric tensor is one or more extents, got {shape!r}")
        name = dtype_name(dtype)
        asked = f"{extents} {name}"
        for rank, other in enumerate(self.gather(asked.encode())):
            if other != asked.encode():
                raise DSLValueError(
                    f"rank {self.rank} asks for a symmetric tensor {asked} and rank {rank} for {other.decode()}"
                )
        mapping = self._mapping(math.prod(extents) * BYTES[name])
        made = SymmetricTensor(mapping, self.rank, self.device, extents, name)
        self._runtime.memset(made.address(), 0, made.nbytes)
        self.barrier()
        return made

    def _mapping(self, nbytes: int) -> Mapping:
        runtime, step = self._runtime, self._runtime.shared_granularity(self.device)
        # There is always a gap behind the array, so that checked mode sees who runs over its end.
        slot = (nbytes // step + 1) * step
        handle = runtime.shared_create(slot, self.device)
        try:
            return self._map_in_process(handle, slot) if self._meeting.same_process else self._map_own(handle, slot)
        finally:
            runtime.shared_release(handle)

    def _map_in_process(self, handle: int, slot: int) -> Mapping:
        """Threads share the mapping that the first of them makes, and the last one that lets go of it undoes it."""
        runtime, size = self._runtime, self.size
        told = [data.split() for data in self.gather(f"{handle} {self.device}".encode())]
        base = 0
        if self.rank == 0:
            handles, devices = ([int(words[i]) for words in told] for i in range(2))
            base = runtime.shared_map(handles, slot, sorted({*devices}))
        base = int(self.gather(str(base).encode())[0])
        return Mapping(runtime, base, slot, size, _holders)

    def _map_own(self, handle: int, slot: int) -> Mapping:
        """A process maps what the others have sent it."""
        runtime, size = self._runtime, self.size
        descriptor = runtime.shared_export(handle)
        taken: list[int] = []
        handles = [handle] * size
        try:
            for rank, (_, found) in enumerate(self._meeting.exchange(b"", descriptor)):
                if rank != self.rank:
                    assert found is not None
                    try:
                        handles[rank] = runtime.shared_import(found, self.device)
                        taken.append(handles[rank])
                    finally:
                        os.close(found)
            base = runtime.shared_map(handles, slot, [self.device])
        finally:
            os.close(descriptor)
            for imported in taken:
                runtime.shared_release(imported)
        return Mapping(runtime, base, slot, size, None)

    def need_multicast(self, what: str) -> None:
        """Refuse what only a switch can do where there is none, or where it is not offered yet."""
        if not self._runtime.multicast_supported(self.device):
            reason = f"device {self.device} has no switch that adds up; use algorithm='one_shot' or 'two_shot'"
        else:
            reason = "memory behind the switch is not mapped yet; use algorithm='one_shot' or 'two_shot'"
        raise NotSupportedError(self._runtime.kind, what, reason)

    def close(self) -> None:
        """Leave the world."""
        self._meeting.close()

    def __repr__(self) -> str:
        return f"World(rank {self.rank} of {self.size}, device {self.device})"


_holders = Holders()
"""Of the mappings that threads of this process share."""


def connect(rank: int, size: int, folder: str | os.PathLike[str], *, timeout: float = TIMEOUT) -> World:
    """Join a world of processes that something else has started: they meet in an empty folder of the user's own.

    Each process calls it once with its number; it returns when all have.
    """
    if not 0 <= rank < size:
        raise DSLValueError(f"ranks are 0 to {size - 1}, got {rank}")
    runtime = get_device_runtime()
    world = World(SocketMeeting(rank, size, folder, timeout), runtime)
    runtime.set_device(world.device)
    return world
