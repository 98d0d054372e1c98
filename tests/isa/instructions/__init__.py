"""What each instruction does. Importing this fills the table of `decode`."""

from . import (
    control,
    lds,
    matrix,
    packed,
    scalar,
    scalar_floats,
    scaled,
    smallfloats,
    smem,
    transpose,
    vector_floats,
    vector_ints,
    vector_masks,
    vmem,
    waits,
    wmma,
)

__all__ = [
    "control",
    "lds",
    "matrix",
    "packed",
    "scalar",
    "scalar_floats",
    "scaled",
    "smallfloats",
    "smem",
    "transpose",
    "vector_floats",
    "vector_ints",
    "vector_masks",
    "vmem",
    "waits",
    "wmma",
]
