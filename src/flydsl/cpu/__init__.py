"""The cpu product: kernels on the CPU of this process, checked mode, emulation of GPUs, its runtime."""

from .unwritten_arrays import unwritten

__all__ = ["unwritten"]
