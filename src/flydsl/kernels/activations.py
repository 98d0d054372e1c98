"""What a kernel does to its f32 results before it stores them, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import flydsl.expr as fx
from flydsl.errors import DSLValueError

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value, ValueT

LOG2E = 1.4426950408889634
HALF_ROOT = 0.7071067811865476
"""The square root of 1/2."""
DENSITY = 0.3989422804014327
"""Of the normal distribution at 0."""
TAIL_STEP = 0.35
TAIL = (
    0.13962140424253974, 0.13986187063174593, 0.11983286072481575, 0.10550803137619558, -0.02310990003229467,
    0.15917425554831105, -0.2557143388145331, 0.1439717393462775, -0.029145938969311766,
)  # fmt: skip
"""The normal distribution beyond x, over e^(-x^2 / 2): a polynomial in 1 / (1 + 0.35 x), without a constant, whose
largest relative error from 0 to 14 was made least."""


def _sigmoid(x: Value) -> Value:
    return 1.0 / (1.0 + fx.exp2(x * -LOG2E, fastmath="afn"))


def _same(x: Value) -> Value:
    return x


def _relu(x: Value) -> Value:
    return fx.maximumf(x, 0.0)  # not maxnumf, which would hide a NaN


def _silu(x: Value) -> Value:
    return x * _sigmoid(x)


def _normal(x: Value) -> tuple[Value, Value]:
    """e^(-x^2 / 2), and the normal distribution up to `x`.

    In float32 its tail is the former times a polynomial, to 4e-8 of it: erfc in double precision would take more time
    than reading rows, and all registers. Far below zero it has all its digits, as 1 + erf would not.
    """
    dtype = x.element_type if isinstance(x, fx.Vector) else type(x)
    if dtype is fx.Float64:
        return fx.exp(x * x * -0.5), fx.erfc(x * -HALF_ROOT) * 0.5
    density = fx.exp2(x * x * (-0.5 * LOG2E), fastmath="afn")
    t = 1.0 / (1.0 + fx.absf(x) * TAIL_STEP)
    tail = t * TAIL[-1]
    for factor in TAIL[-2::-1]:
        tail = (tail + factor) * t
    tail = tail * density
    return density, cast("Value", (x < 0.0).select(tail, 1.0 - tail))


def _gelu(x: Value) -> Value:
    return x * _normal(x)[1]


def _gelu_tanh(x: Value) -> Value:
    # tanh(y) = 2 sigmoid(2 y) - 1
    return x * _sigmoid((x + x * x * x * 0.044715) * 1.5957691216057308)


ACTIVATIONS: dict[str, Callable[[Value], Value]] = {
    "none": _same,
    "relu": _relu,
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
}
"""`gelu` is that of the normal distribution, by erf; `gelu_tanh` is its usual approximation by tanh."""


def _one(x: Value) -> Value:
    return fx.full_like(x, 1.0) if isinstance(x, fx.Vector) else type(x)(1.0)


def _step(x: Value) -> Value:
    one = _one(x)
    return cast("Value", (x <= 0.0).select(one - one, one))


def _silu_slope(x: Value) -> Value:
    s = _sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


def _gelu_slope(x: Value) -> Value:
    density, below = _normal(x)
    return below + x * density * DENSITY


def _gelu_tanh_slope(x: Value) -> Value:
    square = x * x
    s = _sigmoid((x + x * square * 0.044715) * 1.5957691216057308)
    return s + x * s * (1.0 - s) * (1.5957691216057308 + square * 0.21406444881780073)


_SLOPES: dict[str, Callable[[Value], Value]] = {
    "none": _one, "relu": _step, "silu": _silu_slope, "gelu": _gelu_slope,
    "gelu_tanh": _gelu_tanh_slope,
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
