"""The short way of an operator: plain tensors in eager mode go to the kernel, not through custom operators' dispatcher.

That dispatcher takes longer than a kernel on a middling matrix. Whatever looks at operators (a compiler, modes,
tracers, function transforms, tensors that are more than memory) must see the operator, and does: see `watched` and
`is_memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import torch
from torch import Tensor

from flydsl.errors import DSLTypeError
from flydsl.extension.tangents import forward_mode

R = TypeVar("R")
Setup = Callable[..., None]
VALUES = frozenset((float, int, bool, str, type(None)))
"""Classes of arguments that are no tensors."""
_STRIDED = torch.strided


_forward_mode = forward_mode()


def _yes(*_: object) -> bool:
    return True


def _question(path: str) -> Callable[[], object]:
    """A function of torch's own module; where this torch has none of that name, somebody may look."""
    found: object = torch
    for name in ("_C", *path.split(".")):
        found = getattr(found, name, None)
    return _yes if found is None else cast("Callable[[], object]", found)


# Each gives 0 or None where nobody looks.
_dispatch_modes = _question("_len_torch_dispatch_stack")
_function_modes = _question("_len_torch_function_stack")
_tracing = _question("_get_tracing_state")
_transforms = _question("_functorch.peek_interpreter_stack")
_unwrap_if_dead = cast("Callable[[Tensor], Tensor]", _question("_functorch.unwrap_if_dead"))


def watched() -> bool:
    """Whether modes, tracers, function transforms or derivatives in forward mode may look at a call."""
    forward_mode = _forward_mode._current_level >= 0  # pyright: ignore[reportPrivateUsage]
    return bool(_dispatch_modes() or _function_modes() or _tracing() or _transforms() or forward_mode)


def transforming() -> bool:
    """Whether a function transform (`torch.func`, `torch.vmap`) looks at a call."""
    return bool(_transforms())


def unseen() -> bool:
    """Whether a gradient is asked for by a backward pass alone: it is not compiled, recorded or looked at.

    Then nobody can tell the operator of a gradient from its function, given tensors that are memory.
    """
    if torch.compiler.is_compiling() or torch.is_grad_enabled():
        return False
    forward_mode = _forward_mode._current_level >= 0  # pyright: ignore[reportPrivateUsage]
    return not (_dispatch_modes() or _function_modes() or _tracing() or _transforms() or forward_mode)


def is_memory(x: Tensor) -> bool:
    """Whether a tensor of torch's own classes is memory and nothing more; others are for the operator.

    Torch's dispatcher makes memory of zeros that have none, and of numbers that are negated lazily.
    """
    if x.layout is not _STRIDED or x.is_meta or x.is_neg() or x._is_zerotensor():  # pyright: ignore[reportPrivateUsage]
        return False
    return _unwrap_if_dead(x) is x


def gradient_of(
    name: str, function: Callable[..., R], backward: Callable[..., object], setup: Setup
) -> Callable[..., R]:
    """`function`, recorded for autograd as the operator's own registration would record it."""

    def forward(ctx: object, *args: object) -> R:
        made = function(*args)
        setup(ctx, args, made)
        return made

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    made = type(f"flydsl_{name}", (torch.autograd.Function,), members)
    # What the engine calls of a node asks its function first what that is to be, which is known here.
    node: object = getattr(made, "_backward_cls", None)
    if isinstance(node, type) and hasattr(node, "apply"):
        setattr(node, "apply", backward)  # noqa: B010 - its type is not known
    # Without the layer that unwraps what function transforms have left and binds defaults: there is none of it here.
    short: object = super(torch.autograd.Function, made)
    return cast("Callable[..., R]", getattr(short, "apply"))  # noqa: B009 - its type is not known


def transformed(
    name: str,
    call: Callable[..., R],
    over_a_batch: Callable[..., object],
    backward: Callable[..., object] | None,
    setup: Setup | None,
) -> Callable[..., R]:
    """An operator as function transforms take it, which do not take the gradient of a custom operator.

    `call` is the operator again, for what the next transform sees of it, and at last for plain tensors.
    """

    def setup_context(ctx: object, inputs: tuple[object, ...], output: object) -> None:
        if setup is not None:
            setup(ctx, inputs, output)

    def none(ctx: object, *grads: object) -> object:
        raise DSLTypeError(f"flydsl::{name} has no gradient; gradients of the library are differentiated once")

    members = {
        "forward": staticmethod(call), "setup_context": staticmethod(setup_context),
        "backward": staticmethod(none if backward is None else backward), "vmap": staticmethod(over_a_batch),
    }  # fmt: skip
    made = type(f"flydsl_{name}_transformed", (torch.autograd.Function,), members)
    return cast("Callable[..., R]", getattr(made, "apply"))  # noqa: B009 - its type is not known


__all__ = [
    "VALUES", "gradient_of", "is_memory", "transformed", "transforming", "unseen", "watched",
]  # fmt: skip
