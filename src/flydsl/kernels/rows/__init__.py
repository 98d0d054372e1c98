"""Operations on the rows of a matrix.

`flydsl.kernels.softmax` and its like are for plain arrays; the jit functions here take the array for the result, and
make the most of tensors whose row length and alignment are promised. They are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .annotated import layer_norm, rms_norm, softmax


if not TYPE_CHECKING:
    # A type checker takes every name for one of a module that has this.
    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"flydsl.kernels.rows has no attribute {name!r}")
        from . import annotated

        return getattr(annotated, name)


__all__ = ["layer_norm", "rms_norm", "softmax"]
