"""The dialect `builtin`."""

from .generated import module

__getattr__, __dir__ = module("builtin", globals())
