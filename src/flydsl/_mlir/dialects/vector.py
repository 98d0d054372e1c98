"""The dialect `vector`."""

from .generated import module

__getattr__, __dir__ = module("vector", globals())
