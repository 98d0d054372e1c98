"""The dialect `memref`."""

from .generated import module

__getattr__, __dir__ = module("memref", globals())
