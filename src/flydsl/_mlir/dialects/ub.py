"""The dialect `ub`."""

from .generated import module

__getattr__, __dir__ = module("ub", globals())
