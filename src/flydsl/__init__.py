"""FlyDSL in pure Python: GPU kernels with explicit layouts, for AMD, NVIDIA and the CPU."""

__version__ = "0.1.0"
