"""The structural protocols of values, arguments and storage, under their public path."""

from __future__ import annotations

from ..expr.protocol import (
    DslType,
    JitArgument,
    Storable,
    c_abi_spec,
    cache_signature,
    construct_from_ir_values,
    dsl_align_of,
    dsl_size_of,
    extract_to_ir_values,
    get_ir_types,
    peek_from_ptr,
    poke_into_ptr,
)

__all__ = [
    "DslType", "JitArgument", "Storable", "c_abi_spec", "cache_signature", "construct_from_ir_values", "dsl_align_of",
    "dsl_size_of", "extract_to_ir_values", "get_ir_types", "peek_from_ptr", "poke_into_ptr",
]  # fmt: skip
