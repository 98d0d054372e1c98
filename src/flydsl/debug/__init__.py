"""Stepping through kernels: an interpreter of what the cpu stack compiles, a debugger on it, checks of floats."""
