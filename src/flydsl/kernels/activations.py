"""What a kernel does to its f32 results before it stores them, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import flydsl.expr as fx
from flydsl.errors import DSLValueError

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value, ValueT

LOG2E = 1.4426950408889634


def _sigmoid(x: Value) -> Value:
    return 1.0 / (1.0 + fx.exp2(x * -LOG2E, fastmath="afn"))


def _same(x: Value) -> Value:
    return x


def _relu(x: Value) -> Value:
    return fx.maximumf(x, 0.0)  # not maxnumf, which would hide a NaN


def _silu(x: Value) -> Value:
    return x * _sigmoid(x)


def _gelu(x: Value) -> Value:
    # tanh(y) = 2 sigmoid(2 y) - 1
    return x * _sigmoid((x + x * x * x * 0.044715) * 1.5957691216057308)


ACTIVATIONS: dict[str, Callable[[Value], Value]] = {"none": _same, "relu": _relu, "silu": _silu, "gelu_tanh": _gelu}
"""`gelu_tanh` is the usual approximation of GELU by tanh."""


def _one(x: Value) -> Value:
    return fx.full_like(x, 1.0) if isinstance(x, fx.Vector) else type(x)(1.0)


def _step(x: Value) -> Value:
    one = _one(x)
    return cast("Value", (x <= 0.0).select(one - one, one))


def _silu_slope(x: Value) -> Value:
    s = _sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


def _gelu_slope(x: Value) -> Value:
    square = x * x
    s = _sigmoid((x + x * square * 0.044715) * 1.5957691216057308)
    return s + x * s * (1.0 - s) * (1.5957691216057308 + square * 0.21406444881780073)


_SLOPES: dict[str, Callable[[Value], Value]] = {
    "none": _one, "relu": _step, "silu": _silu_slope, "gelu_tanh": _gelu_slope,
}  # fmt: skip


def slope(name: str, x: ValueT) -> ValueT:
    """The derivative of the activation at `x`."""
    return cast("ValueT", _SLOPES[name](x))


def known_activation(op: str, name: object) -> str:
    """The name of one; None is that of none."""
    found = "none" if name is None else name
    if not isinstance(found, str) or found not in ACTIVATIONS:
        raise DSLValueError(f"{op}: unknown activation {name!r:.80}; there are {', '.join(ACTIVATIONS)}")
    return found


def activated(name: str, x: ValueT) -> ValueT:
    """`x`, a scalar or vector of f32, through the activation."""
    if name not in ACTIVATIONS:
        raise DSLValueError(f"unknown activation {name!r}; there are {', '.join(ACTIVATIONS)}")
    return cast("ValueT", ACTIVATIONS[name](x))


__all__ = ["ACTIVATIONS", "activated", "known_activation", "slope"]
