"""Lengths and page tables that come in arrays: read and checked before anything runs."""

from __future__ import annotations

import sys
from typing import cast

from ..matmul.arrays import HostArray, is_torch
from .request import Request, fail


def numbers_in(x: HostArray) -> list[int] | None:
    """The integers of an array; None while a graph is captured, which must not wait for them."""
    if is_torch(x):
        torch = sys.modules["torch"]
        if x.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return None
    return cast("list[int]", x.reshape(-1).tolist())  # pyright: ignore[reportAttributeAccessIssue]


def longest(
    request: Request, cu_q: HostArray | None, cu_k: HostArray | None, used_k: HostArray | None, table: HostArray | None
) -> tuple[int, int]:
    """The most queries and keys of a sequence; what points outside the arrays is refused."""
    queries, keys = request.queries, request.keys
    if cu_q is not None:
        queries = _packed("cu_seqlens_q", cu_q, "q", queries)
    rooms: list[int] | None = None
    if cu_k is not None:
        found = numbers_in(cu_k)
        keys = _packed("cu_seqlens_k", cu_k, "k", keys)
        rooms = None if found is None else [b - a for a, b in zip(found, found[1:], strict=False)]
    if used_k is not None:
        counts = numbers_in(used_k)
        if counts is not None:
            for i, count in enumerate(counts):
                room = request.keys if rooms is None else rooms[i]
                if not 0 <= count <= room:
                    raise fail(f"seqlens_k[{i}] is {count}, and sequence {i} has room for {room} keys")
            if table is not None:
                _pages(table, counts, request.page, request.k.shape[0])
            keys = max(counts, default=0)
    return queries, keys


def _packed(name: str, cu: HostArray, of: str, rows: int) -> int:
    found = numbers_in(cu)
    if found is None:
        return rows
    if not found or found[0] != 0 or any(b < a for a, b in zip(found, found[1:], strict=False)) or found[-1] > rows:
        raise fail(f"{name} rises from 0 to at most the {rows} rows of {of}, got {found[:8]}{'...' * (len(found) > 8)}")
    return max((b - a for a, b in zip(found, found[1:], strict=False)), default=0)


def _pages(table: HostArray, counts: list[int], page: int, pages: int) -> None:
    entries = numbers_in(table)
    if entries is None:
        return
    width = table.shape[1]
    for i, count in enumerate(counts):
        for j in range(-(-count // page)):
            which = entries[i * width + j]
            if not 0 <= which < pages:
                raise fail(f"block_table[{i}, {j}] is {which}, and k has {pages} pages")


__all__ = ["longest"]
