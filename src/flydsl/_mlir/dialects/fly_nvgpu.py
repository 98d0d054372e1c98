"""The dialect `fly_nvgpu`."""

from .generated import module

__getattr__, __dir__ = module("fly_nvgpu", globals())
