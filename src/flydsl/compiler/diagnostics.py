"""What a failed compilation raises, under its public path."""

from __future__ import annotations

from ..errors import DiagRecord, DSLCompileError, SourceFrame

__all__ = ["DSLCompileError", "DiagRecord", "SourceFrame"]
