"""Operations on the rows of a matrix.

`flydsl.kernels.softmax` and its like are for plain arrays; the jit functions here take the array for the result, and
make the most of tensors whose row length and alignment are promised.
"""

from __future__ import annotations

from .annotated import layer_norm, rms_norm, softmax

__all__ = ["layer_norm", "rms_norm", "softmax"]
