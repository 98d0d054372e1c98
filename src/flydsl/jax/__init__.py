"""Jit functions on the arrays of JAX: `import flydsl.jax`.

`call` runs a jit function through XLA's foreign function interface, so that it is part of what `jax.jit` compiles.
Importing this package imports JAX; importing `flydsl` does not.
"""

from __future__ import annotations

from .call import call

__all__ = ["call"]
