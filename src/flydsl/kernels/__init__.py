"""Kernels written in the language, ready to call."""
