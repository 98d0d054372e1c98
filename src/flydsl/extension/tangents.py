"""Derivatives in forward mode, which custom operators of torch do not have."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Protocol, cast

from flydsl.errors import DSLTypeError


class _Dual(Protocol):
    tangent: object


class ForwardMode(Protocol):
    """What torch knows of derivatives in forward mode."""

    _current_level: int

    def unpack_dual(self, tensor: object) -> _Dual: ...


def forward_mode() -> ForwardMode:
    """Of the torch that has been imported."""
    return cast("ForwardMode", sys.modules["torch.autograd.forward_ad"])


def refuse_tangents(name: str, args: Sequence[object]) -> None:
    """A custom operator lets the tangent of a dual tensor fall; the derivative would be 0 without a word."""
    mode = forward_mode()
    if mode._current_level < 0:  # pyright: ignore[reportPrivateUsage]
        return
    torch = sys.modules["torch"]
    if any(isinstance(x, torch.Tensor) and mode.unpack_dual(x).tangent is not None for x in args):
        raise DSLTypeError(f"{name} has no derivative in forward mode; use torch.autograd.grad")


__all__ = ["ForwardMode", "forward_mode", "refuse_tangents"]
