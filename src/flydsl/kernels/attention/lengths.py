"""Lengths and page tables that come in arrays: read and checked before anything runs."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import NamedTuple, Protocol, cast

from ...target import on_host
from ..matmul.arrays import HostArray, TorchDevice, is_torch
from .request import Request, fail

_found: dict[tuple[int, ...], Found] = {}
"""By the arrays, and by what of a request their numbers are checked against."""
_MOST = 256


class Longest(NamedTuple):
    """The most queries and keys of a sequence."""

    queries: int
    keys: int
    share: float | None = 1.0
    """The mean of their keys, of the most, in sixteenths; None while a graph is captured, which knows of no lengths."""
    rows: int | None = None
    """Of packed queries, those that a sequence has; None for all, and while a graph is captured."""


class Seen(NamedTuple):
    """An array that lives on a GPU, as it was when it was read."""

    array: weakref.ref[Counted]
    version: int
    address: int


class Found(NamedTuple):
    """What was found in such arrays: true as long as they are the same and nobody wrote to them."""

    arrays: tuple[Seen, ...]
    longest: Longest


class Listed(Protocol):
    """An array of integers in one line."""

    def tolist(self) -> list[int]: ...


class Counted(Protocol):
    """What torch knows of a tensor's history."""

    _version: int

    @property
    def device(self) -> TorchDevice: ...
    def data_ptr(self) -> int: ...
    def is_inference(self) -> bool: ...


def numbers_in(x: HostArray) -> list[int] | None:
    """The integers of an array; None while a graph is captured, which must not wait for them."""
    if is_torch(x):
        torch = sys.modules["torch"]
        if not on_host(x.device.type) and torch.cuda.is_current_stream_capturing():
            return None
    return cast("Listed", x.reshape(-1)).tolist()


def longest(
    request: Request, cu_q: HostArray | None, cu_k: HostArray | None, used_k: HostArray | None, table: HostArray | None
) -> Longest:
    """The most queries and keys of a sequence; what points outside the arrays is refused.

    To read an array on a GPU is to wait for it: that is done once for what torch knows to be unchanged.
    """
    arrays = [x for x in (cu_q, cu_k, used_k, table) if x is not None]
    if not arrays:
        return Longest(request.queries, request.keys)
    room = request.queries, request.keys, request.page, request.k.shape[0]
    key = id(cu_q), id(cu_k), id(used_k), id(table), *room
    known = _found.get(key)
    if known is not None and _unchanged(known.arrays, arrays):
        return known.longest
    if not _counted(arrays):
        return _read(request, cu_q, cu_k, used_k, table)
    seen = tuple(
        Seen(weakref.ref(x), x._version, x.data_ptr())  # pyright: ignore[reportPrivateUsage]
        for x in (cast("Counted", x) for x in arrays)
    )
    longest = _read(request, cu_q, cu_k, used_k, table)
    if len(_found) >= _MOST:
        _found.clear()
    _found[key] = Found(seen, longest)
    return longest


def _unchanged(seen: Sequence[Seen], arrays: Sequence[HostArray]) -> bool:
    """Whether arrays are those that were read, nobody wrote to them, and no graph is captured, which knows of none."""
    for (array, version, address), x in zip(seen, cast("Sequence[Counted]", arrays), strict=True):
        if array() is not x or x._version != version or x.data_ptr() != address:  # pyright: ignore[reportPrivateUsage]
            return False
    return not sys.modules["torch"].cuda.is_current_stream_capturing()


def _counted(arrays: Sequence[HostArray]) -> bool:
    """Whether torch counts how often they are written to, and reading them is to wait."""
    torch = sys.modules.get("torch")
    if torch is None or not all(is_torch(x) for x in arrays):
        return False
    tensors = [cast("Counted", x) for x in arrays]
    if on_host(tensors[0].device.type) or torch.cuda.is_current_stream_capturing():
        return False
    return not any(x.is_inference() for x in tensors)


def _read(
    request: Request, cu_q: HostArray | None, cu_k: HostArray | None, used_k: HostArray | None, table: HostArray | None
) -> Longest:
    queries, keys, share, rows = request.queries, request.keys, 1.0, None
    if cu_q is not None:
        queries, rows = _packed("cu_seqlens_q", cu_q, "q", queries)
    rooms: list[int] | None = None
    if cu_k is not None:
        found = numbers_in(cu_k)
        keys, _ = _packed("cu_seqlens_k", cu_k, "k", keys)
        rooms = None if found is None else [b - a for a, b in zip(found, found[1:], strict=False)]
        share = None if rooms is None else _share(rooms)
    if used_k is not None:
        counts = numbers_in(used_k)
        share = None if counts is None else _share(counts)
        if counts is not None:
            for i, count in enumerate(counts):
                room = request.keys if rooms is None else rooms[i]
                if not 0 <= count <= room:
                    raise request.words.fail(f"seqlens_k[{i}] is {count}, and sequence {i} has room for {room} keys")
            if table is not None:
                _pages(table, counts, request)
            keys = max(counts, default=0)
    return Longest(queries, keys, share, rows)


def _share(counts: Sequence[int]) -> float:
    """Few different ones: each has decisions made for it."""
    most = max(counts, default=0) * len(counts)
    return 1.0 if not most or sum(counts) == most else min(15, round(16 * sum(counts) / most)) / 16


def _packed(name: str, cu: HostArray, of: str, rows: int) -> tuple[int, int | None]:
    """The longest sequence, and how many of the rows are in one; None if all are, or nobody knows."""
    found = numbers_in(cu)
    if found is None:
        return rows, None
    if not found or found[0] != 0 or any(b < a for a, b in zip(found, found[1:], strict=False)) or found[-1] > rows:
        raise fail(f"{name} rises from 0 to at most the {rows} rows of {of}, got {found[:8]}{'...' * (len(found) > 8)}")
    most = max((b - a for a, b in zip(found, found[1:], strict=False)), default=0)
    return most, None if found[-1] == rows else found[-1]


def _pages(table: HostArray, counts: list[int], request: Request) -> None:
    entries = numbers_in(table)
    if entries is None:
        return
    width, page, pages = table.shape[1], request.page, request.k.shape[0]
    for i, count in enumerate(counts):
        for j in range(-(-count // page)):
            which = entries[i * width + j]
            if not 0 <= which < pages:
                raise request.words.fail(f"block_table[{i}, {j}] is {which}, and {request.words.k} has {pages} pages")


__all__ = ["longest"]
