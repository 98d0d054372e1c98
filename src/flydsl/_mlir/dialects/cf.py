"""The dialect `cf`."""

from .generated import module

__getattr__, __dir__ = module("cf", globals())
