"""Shared memory by byte offsets, at FlyDSL's path; see `flydsl.expr.tensors.smem`."""

from __future__ import annotations

from importlib import import_module

_NAMES = (
    "SmemAllocator",
    "SmemPtr",
    "get_index_value",
    "get_mlir_type_align",
    "get_mlir_type_size",
    "get_op_result_or_value",
)


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("flydsl.expr.tensors.smem"), name)


def __dir__() -> list[str]:
    return list(_NAMES)
