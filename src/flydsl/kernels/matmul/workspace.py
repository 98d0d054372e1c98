"""Memory a product needs on its way: sums of slices and their counters, operands in another order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from threading import get_ident
from typing import NamedTuple, cast

from flydsl.compiler.call.placement import torch_stream_accessor

from ...expr.gpu import stream_handle
from ...runtime.device_runtime import get_device_runtime
from ...runtime.objects import current_stream, entered
from ...target import on_host
from . import arrays
from .arrays import HostArray, TorchArray, in_line, is_torch

_kept: dict[object, dict[object, TorchArray]] = {}
"""By `_place`, then by what it is for and its type."""
_together: dict[object, tuple[object, list[TorchArray | None]]] = {}
"""What `rooms` gave, by `_place` and the very tuple of what was wanted, which is kept with it."""
_MOST = 1024
PLACES = 256
"""Streams and threads that memory is kept for."""
_zeros: dict[object, tuple[TorchArray, int]] = {}
"""For each device, zeros for graphs and how many of them are given away."""
ZEROS = 1 << 20


def scratch(like: HostArray, what: str, elements: int, dtype: str, stream: object, *, zero: bool = False) -> HostArray:
    """So many elements where `like` is, for a launch in `stream` (None: the current one).

    On a GPU they are kept for the next launch of the same thread in the same stream, which cannot start before this one
    is done with them: launches of several threads may come by turns, also between two kernels of one. `zero` ones must
    be left as they were found. A graph that is being captured gets memory of its own, since it may be replayed
    anywhere; zeros come from a store, so that no replay has to clear them. What is too long for a line is several.
    """
    found = _scratch(like, what, elements, dtype, stream, zero)
    return found if found.shape[0] <= arrays.LONGEST else in_line(found)


def _scratch(like: HostArray, what: str, elements: int, dtype: str, stream: object, zero: bool) -> HostArray:
    """In one line, however long."""
    if not is_torch(like):
        import numpy as np

        return (np.zeros if zero else np.empty)(elements, dtype)
    torch = sys.modules["torch"]
    make = torch.zeros if zero else torch.empty
    kind = getattr(torch, dtype)
    if on_host(like.device.type):
        return make(elements, dtype=kind, device=like.device)
    if torch.cuda.is_current_stream_capturing():
        store, used = _zeros.get(like.device, (None, ZEROS)) if zero and dtype == "int32" else (None, ZEROS)
        if store is None or used + elements > ZEROS:
            return make(elements, dtype=kind, device=like.device)
        _zeros[like.device] = store, used + elements
        return store.as_strided((elements,), (1,), used)
    if zero and like.device not in _zeros:
        _zeros[like.device] = torch.zeros(ZEROS, dtype=torch.int32, device=like.device), 0
        # Graphs that use them may run in any stream.
        torch.cuda.current_stream(like.device).synchronize()
    place = _place(like.get_device(), stream)
    here = _kept.get(place)
    if here is None:
        if len(_kept) >= PLACES:
            _kept.clear()
            _together.clear()
        here = _kept[place] = {}
    kept = here.get((what, dtype))
    if kept is None or kept.numel() < elements:
        # What is dropped was allocated in the same stream's order, and is used again in that order only.
        _together.clear()
        with _in_order_of(place):
            kept = here[what, dtype] = make(elements, dtype=kind, device=like.device)
    return kept


def _place(device: int, stream: object) -> tuple[int, int, int]:
    """The device, the handle of the stream that a launch goes to, and the thread that launches."""
    if stream is None and entered:
        stream = current_stream()
    if stream is None:
        handle = torch_stream_accessor()(device)
    else:
        handle = stream_handle(stream)
    return device, cast(int, handle), get_ident()


def _in_order_of(place: tuple[int, int, int]) -> AbstractContextManager[object]:
    """Memory allocated inside is of the place's stream, whichever torch thinks is the current one."""
    device, handle, _ = place
    if handle == torch_stream_accessor()(device):
        return nullcontext()
    torch = sys.modules["torch"]
    return torch.cuda.stream(torch.cuda.ExternalStream(handle, device=device))


@contextmanager
def in_stream(like: HostArray, stream: object) -> Generator[object]:
    """What torch or numpy does inside is in the order of the stream, with the launches: they go to the one that this
    gives.

    The host has no streams of its own: there what was launched before is waited for, and launches inside run at once.
    """
    if stream is None and (not entered or current_stream() is None):
        yield None
    elif is_torch(like) and not on_host(like.device.type):
        with _in_order_of(_place(like.get_device(), stream)):
            yield stream
    else:
        handle = stream_handle(current_stream() if stream is None else stream)
        get_device_runtime().stream_synchronize(0 if handle is None else handle)
        yield 0


class Room(NamedTuple):
    """What `scratch` is asked for."""

    what: str
    elements: int
    dtype: str
    zero: bool = False


def rooms(like: HostArray, wanted: tuple[Room | None, ...], stream: object) -> Sequence[HostArray | None]:
    """Several of `scratch` for one launch, None for None. The very same `wanted` is answered the sooner."""
    if is_torch(like):
        device = like.get_device()
        if device >= 0 and not sys.modules["torch"].cuda.is_current_stream_capturing():
            key = *_place(device, stream), id(wanted)
            known = _together.get(key)
            if known is None:
                found = [None if x is None else scratch(like, *x[:3], stream, zero=x.zero) for x in wanted]
                if len(_together) >= _MOST:
                    _together.clear()
                known = _together[key] = wanted, cast("list[TorchArray | None]", found)
            return known[1]
    return [None if x is None else scratch(like, *x[:3], stream, zero=x.zero) for x in wanted]


def repeated_scratch(like: TorchArray, nbytes: int) -> Callable[[], TorchArray]:
    """What gives at least so many bytes where `like` is, for launches that are made again and again: `scratch`, whose
    answer for torch's current stream is found the sooner."""
    torch = sys.modules["torch"]
    example = torch.empty((), dtype=torch.uint8, device=like.device)
    if on_host(like.device.type):
        return partial(torch.empty_like, example.expand(nbytes), memory_format=torch.contiguous_format)
    stream_of, capturing, device = torch_stream_accessor(), torch.cuda.is_current_stream_capturing, like.get_device()
    kind = "repeated", "uint8"

    def find() -> TorchArray:
        if not entered and not capturing():
            here = _kept.get((device, stream_of(device), get_ident()))
            kept = None if here is None else here.get(kind)
            if kept is not None and kept.numel() >= nbytes:
                return kept
        return cast("TorchArray", _scratch(example, kind[0], nbytes, kind[1], None, False))

    return find


__all__ = ["Room", "in_stream", "repeated_scratch", "rooms", "scratch"]
