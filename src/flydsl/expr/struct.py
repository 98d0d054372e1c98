"""The path `flydsl.expr.struct`: what stands here is the decorator `fx.struct`, which carries the names below.

Importing a module binds its name in its package, so a module of this name would hide the decorator.
"""

import sys

from .structs import (
    Align,
    CompositeKind,
    Empty,
    Struct,
    Union,
    is_composite_type,
    is_specializable_struct_type,
    is_struct_type,
    memory_layout,
    struct,
    union,
)
from .tensors.storage import Arena, Array, Storage

__all__ = [
    "Align", "Arena", "Array", "CompositeKind", "Empty", "Storage", "Struct", "Union", "is_composite_type",
    "is_specializable_struct_type", "is_struct_type", "memory_layout", "struct", "union",
]  # fmt: skip
vars(struct).update({name: globals()[name] for name in __all__})
sys.modules[__name__] = struct  # pyright: ignore[reportArgumentType]
