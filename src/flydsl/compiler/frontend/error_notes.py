"""Showing a mistake at the line where the author made it."""

from __future__ import annotations

import difflib
from types import TracebackType

from ...errors import RejectedSyntaxError, SourceFrame
from ..diagnostics import USERS_MISTAKE
from .remedies import remedy
from .wrong_arguments import wrong_argument

_OURS = __name__.partition(".")[0] + "."
NOTED = "__fly_noted__"
"""Attribute of an error that says already where it comes from."""


def add_source_note(error: BaseException) -> None:
    """Say in the error itself which line of the user's code it comes from."""
    from ...ir.locations import traceback_location
    from ...ir.user_code import is_user_code
    from ..key.origin import origin_of

    if getattr(error, NOTED, False) or isinstance(error, RejectedSyntaxError):
        return
    frame: SourceFrame | None = None
    at: TracebackType | None = None
    tb = error.__traceback__
    while tb is not None:
        # A function of Python's own, or of another package, is where it shows; whose call it was is what helps.
        code = tb.tb_frame.f_code
        if is_user_code(code) and origin_of(code.co_filename) == "user":
            frame, at = traceback_location(tb), tb
        tb = tb.tb_next
    advice = wrong_argument(error, at) or remedy(error, at) or _close_name(error)
    if advice is not None:
        setattr(error, USERS_MISTAKE, True)
        if isinstance(error, (AttributeError, NameError)):
            del error.name  # Python would add what it takes for close, which is a second and often a worse answer
        error.add_note(advice)
    if frame is not None:
        error.add_note("DSL Traceback (most recent operation last):\n" + frame.render())
        setattr(error, NOTED, True)


def _close_name(error: BaseException) -> str | None:
    """For an attribute that one of our objects does not have, the one whose name is close."""
    if not isinstance(error, AttributeError) or not error.name:
        return None
    kind: type = type(error.obj)
    names = [name for name in dir(kind) if not name.startswith("_")] if kind.__module__.startswith(_OURS) else []
    close = difflib.get_close_matches(error.name, names, 1)
    return f"did you mean {kind.__name__}.{close[0]}?" if close else None
