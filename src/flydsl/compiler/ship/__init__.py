"""Compiling ahead of time: files, manifests, exports for C."""
