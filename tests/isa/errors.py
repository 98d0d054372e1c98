"""What goes wrong while machine code is executed."""

from __future__ import annotations


class IsaError(Exception):
    """The code does what the hardware forbids or leaves open, or uses an instruction that is not known here."""
