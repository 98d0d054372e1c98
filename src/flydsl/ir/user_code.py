"""What is the user's code and what is ours, told by code objects. Needs no IR, so that decorating does not."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

from .identity import by_identity

REGION_MARK = ".<region>"
"""End of `co_qualname` of a region's body; its `co_name` is that of the user's function. Who lists the user's frames
leaves out the one below such a body: it is the same function, at the head of the statement."""

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"
_KERNELS = _PACKAGE + "kernels/"


@by_identity
def is_user_code(code: CodeType) -> bool:
    """Whether a code object belongs to the kernel author: not to this package (its kernel library counts as theirs)."""
    name = code.co_filename
    return not name.startswith(_PACKAGE) or name.startswith(_KERNELS)
