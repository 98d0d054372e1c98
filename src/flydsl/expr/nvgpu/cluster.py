"""`fx.nvgpu.cluster`: blocks that run together and see each other's shared memory."""

from __future__ import annotations

from typing import Any

from ..numeric import Int32
from .target import need_trace


def _emit() -> Any:
    from . import emit

    return emit


def rank() -> Int32:
    """Number of this block in its cluster; x runs fastest."""
    need_trace("cluster.rank", 90)
    return Int32(_emit().call("cluster.rank"))


def size() -> Int32:
    """Blocks in the cluster."""
    need_trace("cluster.size", 90)
    return Int32(_emit().call("cluster.size"))


def arrive(*, relaxed: bool = False) -> None:
    """Arrive at the cluster's barrier; `relaxed` orders no memory."""
    need_trace("cluster.arrive", 90)
    _emit().call("cluster.arrive_relaxed" if relaxed else "cluster.arrive")


def wait() -> None:
    """Wait for all threads of the cluster."""
    need_trace("cluster.wait", 90)
    _emit().call("cluster.wait")


def sync() -> None:
    """Arrive and wait."""
    arrive()
    wait()
