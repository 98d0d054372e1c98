"""The dialect `rocdl`."""

from .generated import module

__getattr__, __dir__ = module("rocdl", globals())
