"""Operators of torch in types: what is registered, and what a gradient is handed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Generic, ParamSpec, Protocol, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import Parameter

from flydsl.errors import DSLValueError
from flydsl.extension.tangents import refuse_tangents

from .batches import Batch, Given, Rule, one_by_one
from .eager import VALUES, gradient_of, is_memory, transformed, transforming, watched

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Operator(Protocol[P, R_co]):
    """An operator: called like the function it was made of."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def register_fake(self, fn: Callable[P, object], /) -> object: ...
    def register_autograd(self, backward: Callable[..., object], /, *, setup_context: Callable[..., None]) -> None: ...
    def register_vmap(self, rule: Rule, /) -> object: ...


class Context(Protocol):
    """What torch carries from an operator to its gradient: tensors, and whatever an operator leaves there."""

    saved_tensors: tuple[Given, ...]
    """As they were saved: tensors, and None where there was none."""
    needs_input_grad: tuple[bool, ...]
    log: bool
    bias: torch.dtype | None
    dtype: torch.dtype
    ignored: int
    smoothing: float
    activation: str
    ways: tuple[bool, ...]
    places: list[int]
    padding: int
    count: int
    shape: torch.Size
    shapes: tuple[torch.Size, torch.Size]
    precision: str
    normed: bool
    names: tuple[str, ...]
    others: Mapping[str, object]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...
    def mark_non_differentiable(self, *tensors: Tensor) -> None: ...


def same_device(name: str, given: Mapping[str, object]) -> None:
    """Tensors with memory and without it come to the function for fake ones, whose result would be any numbers."""
    tensors = [(what, x) for what, x in given.items() if isinstance(x, Tensor)]
    for what, x in tensors[1:]:
        first, place = tensors[0][0], tensors[0][1].device
        if x.device != place:
            raise DSLValueError(f"{name}: {first} is on {place} and {what} on {x.device}")


class _Registered(Generic[P, R]):
    """An operator, and its function for calls that nobody but autograd looks at."""

    def __init__(self, name: str, function: Callable[P, R], mutates: Sequence[str]):
        self._name, self._function, self._mutates = name, function, bool(mutates)

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            # `torch.ops.flydsl` comes here, too.
            refuse_tangents(f"flydsl::{name}", (*args, *kwargs.values()))
            return function(*args, **kwargs)

        made: Given = torch.library.custom_op(f"flydsl::{name}", checked, mutates_args=tuple(mutates))
        self.registered = cast("Operator[P, R]", made)
        self._recorded: Callable[..., R] | None = None
        self._rule: Rule = one_by_one

        def dispatched(info: Batch, in_dims: Sequence[object], *args: Given) -> tuple[Given, Given]:
            return self._rule(made, info, in_dims, *args)

        if not mutates:
            made.register_vmap(dispatched)
        self._transformed: Callable[..., R] = transformed(name, self, self._over_a_batch, None, None)

    def _over_a_batch(self, info: Batch, in_dims: Sequence[object], *args: Given) -> tuple[Given, Given]:
        return self._rule(self, info, in_dims, *args)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        # What changes an argument must tell autograd, as the dispatcher does.
        if self._mutates or torch.compiler.is_compiling():
            return self.registered(*args, **kwargs)
        if kwargs or watched():
            refuse_tangents(f"flydsl::{self._name}", (*args, *kwargs.values()))
            if transforming() and not kwargs:
                return self._transformed(*args)
            return self.registered(*args, **kwargs)
        wanted, recorded = torch.is_grad_enabled(), False
        for x in args:
            if type(x) is Tensor or type(x) is Parameter:
                if not is_memory(x):
                    return self.registered(*args, **kwargs)
                if wanted and x.requires_grad:
                    recorded = True
            elif type(x) not in VALUES and isinstance(x, Tensor):
                return self.registered(*args, **kwargs)
        if not recorded:
            return self._function(*args, **kwargs)
        if self._recorded is None:  # the operator says that it has no gradient
            return self.registered(*args, **kwargs)
        return self._recorded(*args)

    def register_fake(self, fn: Callable[P, object], /) -> object:
        name, parameters = self._name, tuple(signature(fn).parameters)

        @wraps(fn)
        def made(*args: P.args, **kwargs: P.kwargs) -> object:
            same_device(name, {**dict(zip(parameters, args, strict=False)), **kwargs})
            return fn(*args, **kwargs)

        return self.registered.register_fake(made)

    def register_autograd(self, backward: Callable[..., object], /, *, setup_context: Callable[..., None]) -> None:
        self.registered.register_autograd(backward, setup_context=setup_context)
        self._recorded = gradient_of(self._name, self._function, backward, setup_context)
        self._transformed = transformed(self._name, self, self._over_a_batch, backward, setup_context)

    def register_vmap(self, rule: Rule) -> Rule:
        self._rule = rule
        return rule


def operator(name: str, mutates: Sequence[str] = ()) -> Callable[[Callable[P, R]], Operator[P, R]]:
    """Register a function as `flydsl::name`; it changes none of its arguments but those that it `mutates`."""
    return lambda function: _Registered(name, function, mutates)


__all__ = ["Context", "Given", "Operator", "operator"]
