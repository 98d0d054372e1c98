"""What `fx.dist` leaves in the IR besides ordinary accesses."""

from __future__ import annotations

from xdsl.ir import BlockArgument

from ..tensor import Tensor
from ..emit.trace import current


def note_symmetric(x: Tensor) -> None:
    """Note that an argument of the kernel is a tensor of all ranks: checked mode looks for the end of each part."""
    tracer = current()
    noted: set[int] | None = getattr(tracer.functions[-1], "symmetric", None) if tracer.functions else None
    value = x._value  # pyright: ignore[reportPrivateUsage] - an argument has one, and nothing else needs one for this
    if noted is not None and isinstance(value, BlockArgument) and value.owner is tracer.entry:
        noted.add(value.index)
