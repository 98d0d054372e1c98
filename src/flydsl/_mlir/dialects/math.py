"""The dialect `math`."""

from .generated import module

__getattr__, __dir__ = module("math", globals())
