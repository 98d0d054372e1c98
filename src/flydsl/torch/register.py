"""Operators of torch in types: what is registered, and what a gradient is handed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


Given: TypeAlias = Any
"""An argument as the operator's schema tells: a tensor, a number, a string or None."""


class Operator(Protocol[P, R_co]):
    """An operator: called like the function it was made of."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def register_fake(self, fn: Callable[P, object], /) -> object: ...
    def register_autograd(self, backward: Callable[..., object], /, *, setup_context: Callable[..., None]) -> None: ...
    def register_vmap(self, func: Callable[..., object]) -> object: ...


class Batch(Protocol):
    """What `vmap` tells of a batch."""

    batch_size: int


class Context(Protocol):
    """What torch carries from an operator to its gradient: tensors, and whatever an operator leaves there."""

    saved_tensors: tuple[Given, ...]
    """As they were saved: tensors, and None where there was none."""
    needs_input_grad: tuple[bool, ...]
    log: bool
    bias: torch.dtype | None
    ignored: int
    smoothing: float
    activation: str
    ways: tuple[bool, ...]
    padding: int
    count: int
    shape: torch.Size
    normed: bool
    names: tuple[str, ...]
    others: Mapping[str, object]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...
    def mark_non_differentiable(self, *tensors: Tensor) -> None: ...


def operator(name: str) -> Callable[[Callable[P, R]], Operator[P, R]]:
    """Register a function as `flydsl::name`; it changes none of its arguments."""

    def make(function: Callable[P, R]) -> Operator[P, R]:
        made = cast(object, torch.library.custom_op(f"flydsl::{name}", function, mutates_args=()))
        return cast("Operator[P, R]", made)

    return make


__all__ = ["Batch", "Context", "Given", "Operator", "operator"]
