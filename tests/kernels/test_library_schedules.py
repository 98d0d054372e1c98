"""Every kernel of the library is explored at a small size, and clean in every order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .library.calls import every_call
from .schedules.library import explore

CALLS = every_call()


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call.quick])
def test_clean_in_every_order(name: str, emulate: Callable[[str], None]):
    """The others take longer: `python -m tests.kernels.schedules`."""
    call = CALLS[name]
    emulate(call.arch)
    report, missing = explore(call, 60)
    assert report and report.complete and not missing, report
    seen = report.looked_at
    assert not seen.forgotten and seen.global_accesses, "it looked at something, and forgot nothing"
    if not call.kernels.startswith("dist."):  # there the barriers are for flags of other ranks
        assert seen.shared_conflicts or not seen.barriers, "what a barrier is there for"


@pytest.mark.parametrize("name", ["matmul of clusters", "gemm_sm90 in clusters", "layer_norm of a cluster"])
def test_clusters_in_some_orders(name: str, emulate: Callable[[str], None]):
    """Blocks that leave too early are seen in any."""
    call = CALLS[name]
    emulate(call.arch)
    report, missing = explore(call, 1)
    assert report and report.orders and not missing, report
