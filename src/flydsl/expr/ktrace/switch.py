"""Whether kernels record, which the compiler asks for every kernel."""

from __future__ import annotations

from typing import cast

from ... import config
from ..meta import tracing_option

_OPTION = "ktrace"


def tracing_enabled() -> bool:
    """Whether events of kernels that are compiled now are recorded.

    >>> fx.ktrace.tracing_enabled()
    False
    >>> with fx.ktrace.capture():
    ...     fx.ktrace.tracing_enabled()
    True
    """
    return tracing_option(_OPTION) is not None or config.ktrace.enable


def events_kept() -> int:
    """Events that are kept of a warp."""
    asked = tracing_option(_OPTION)
    return config.ktrace.events if asked is None else cast(int, asked)
