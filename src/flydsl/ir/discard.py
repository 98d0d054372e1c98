"""Taking apart IR that nobody needs any more.

Ops, their results, uses and blocks point at each other, so what a compilation leaves waits for the garbage collector,
which looks at each of its objects several times: up to an eighth of what compiling a kernel takes. Once the pointers
are gone, the objects are too.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, Region


def discard(op: Operation) -> None:
    """Take an op apart with all that is inside it. Nobody may look at any of it again, nor at what takes its values."""
    ops = [op]
    for each in ops:  # which grows meanwhile
        regions: Iterable[Region] = vars(each).get("regions", ())
        for region in regions:
            block = region._first_block
            while block is not None:
                inner = block._first_op
                while inner is not None:
                    ops.append(inner)
                    inner = inner._next_op
                following = block._next_block
                vars(block).clear()
                block = following
            vars(region).clear()
    for each in ops:
        fields = vars(each)
        for use in fields.get("_operand_uses", ()):
            use._prev_use = None
        fields.clear()
