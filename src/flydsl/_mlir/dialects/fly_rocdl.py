"""The dialect `fly_rocdl`."""

from .generated import module

__getattr__, __dir__ = module("fly_rocdl", globals())
