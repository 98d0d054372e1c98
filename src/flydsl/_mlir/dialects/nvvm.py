"""The dialect `nvvm`."""

from .generated import module

__getattr__, __dir__ = module("nvvm", globals())
