"""The cpu product: kernels on the CPU of this process, checked mode, emulation of GPUs, its runtime."""
