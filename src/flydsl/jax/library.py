"""JAX in types: what is used of it. It is an optional package, which type checkers need not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeAlias, cast

from numpy import dtype

Array: TypeAlias = Any
"""An array of JAX, or what stands for one while it traces."""


class Shape(Protocol):
    """`jax.ShapeDtypeStruct`."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> object: ...


class Differentiable(Protocol):
    """What `jax.custom_vjp` makes."""

    def __call__(self, *arrays: Array) -> Array: ...
    def defvjp(self, forward: Callable[..., object], backward: Callable[..., object]) -> None: ...


class _Numpy(Protocol):
    def asarray(self, x: object) -> Array: ...
    def zeros_like(self, x: Array) -> Array: ...
    def dtype(self, name: str) -> dtype[Any]: ...


class _Ffi(Protocol):
    def ffi_call(self, name: str, shapes: Sequence[Shape], *, vmap_method: str) -> Callable[..., Sequence[Array]]: ...
    def register_ffi_target(self, name: str, function: object, *, platform: str) -> None: ...
    def pycapsule(self, function: object) -> object: ...


class _Jax(Protocol):
    numpy: _Numpy
    ffi: _Ffi

    def ShapeDtypeStruct(self, shape: Sequence[int], dtype: object) -> Shape: ...
    def custom_vjp(self, function: Callable[..., object]) -> Differentiable: ...


def load() -> _Jax:
    """JAX with its foreign function interface, which it has since 0.5."""
    import_module("jax.ffi")
    return cast(_Jax, import_module("jax"))


def varies(*arrays: Array) -> frozenset[str]:
    """The axes of `jax.shard_map` that one of the arrays differs along; none outside of it, or where unchecked."""
    typeof = getattr(import_module("jax"), "typeof", None)
    found: frozenset[str] = frozenset()
    if typeof is None:
        return found
    for array in arrays:
        kind = typeof(array)
        found |= getattr(getattr(kind, "manual_axis_type", kind), "varying", getattr(kind, "vma", frozenset[str]()))
    return found


def varying(array: Array, axes: frozenset[str]) -> Array:
    """The array, taken for one that differs along `axes`."""
    missing = tuple(sorted(axes - varies(array)))
    if not missing:
        return array
    lax = import_module("jax.lax")
    return lax.pcast(array, missing, to="varying") if hasattr(lax, "pcast") else lax.pvary(array, missing)
