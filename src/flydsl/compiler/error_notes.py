"""Showing a mistake at the line where the author made it."""

from __future__ import annotations

from ..errors import SourceFrame

_NOTED = "__fly_noted__"


def add_source_note(error: BaseException) -> None:
    """Say in the error itself which line of the user's code it comes from."""
    from ..dialects.locations import is_user_code, traceback_location

    if getattr(error, _NOTED, False):
        return
    frame: SourceFrame | None = None
    tb = error.__traceback__
    while tb is not None:
        if is_user_code(tb.tb_frame.f_code):
            frame = traceback_location(tb)
        tb = tb.tb_next
    if frame is not None and "site-packages" not in frame.filename:
        error.add_note("DSL Traceback (most recent operation last):\n" + frame.render())
        setattr(error, _NOTED, True)
