"""The short way of an operator: plain tensors in eager mode go to the kernel, not through custom operators' dispatcher.

That dispatcher takes longer than a kernel on a middling matrix. Whatever looks at operators (a compiler, modes,
tracers, function transforms, tensors that are more than memory) must see the operator, and does: see `plain`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import Parameter

from flydsl.errors import DSLTypeError

R = TypeVar("R")
Setup = Callable[..., None]
_PLAIN = (Tensor, Parameter)
_STRIDED = torch.strided


class _Dual(Protocol):
    tangent: Tensor | None


class _ForwardMode(Protocol):
    _current_level: int

    def unpack_dual(self, tensor: Tensor) -> _Dual: ...


_forward_mode = cast("_ForwardMode", torch.autograd.forward_ad)


def _question(path: str) -> Callable[[], object] | None:
    """A function of torch's own module, or None where this torch has none of that name."""
    found: object = torch
    for name in ("_C", *path.split(".")):
        found = getattr(found, name, None)
    return cast("Callable[[], object] | None", found)


_QUESTIONS = tuple(
    _question(path)
    for path in (
        "_len_torch_dispatch_stack",
        "_len_torch_function_stack",
        "_get_tracing_state",
        "_functorch.peek_interpreter_stack",
    )
)
"""Each gives 0 or None where nobody looks."""


def plain(args: Sequence[object]) -> bool:
    """Whether nobody can tell the operator from its function: no modes, no transforms, tensors that are memory."""
    for question in _QUESTIONS:
        if question is None or question():
            return False
    for x in args:
        if isinstance(x, Tensor) and (type(x) not in _PLAIN or x.is_meta or x.layout is not _STRIDED):
            return False
    return True


def refuse_tangents(name: str, args: Sequence[object]) -> None:
    """A custom operator lets the tangent of a dual tensor fall; the derivative would be 0 without a word."""
    if _forward_mode._current_level < 0:  # pyright: ignore[reportPrivateUsage]
        return
    if any(isinstance(x, Tensor) and _forward_mode.unpack_dual(x).tangent is not None for x in args):
        raise DSLTypeError(f"flydsl::{name} has no derivative in forward mode; use torch.autograd.grad")


def differentiable(args: Sequence[object]) -> bool:
    """Whether autograd is to see the call of plain tensors."""
    if torch.is_grad_enabled():
        for x in args:
            if type(x) in _PLAIN and cast("Tensor", x).requires_grad:
                return True
    return False


def gradient_of(
    name: str, function: Callable[..., R], backward: Callable[..., object], setup: Setup
) -> Callable[..., R]:
    """`function`, recorded for autograd as the operator's own registration would record it."""

    def forward(ctx: object, *args: object) -> R:
        made = function(*args)
        setup(ctx, args, made)
        return made

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    made: object = type(f"flydsl_{name}", (torch.autograd.Function,), members)
    return cast("Callable[..., R]", getattr(made, "apply"))  # noqa: B009 - its type is not known


__all__ = ["differentiable", "gradient_of", "plain", "refuse_tangents"]
