"""`fx.random`: random numbers without state, from a seed and an offset (Philox 4x32).

The same seed and offset always give the same numbers, on every target. Arguments are ints, scalars, or Vectors, which
work lane by lane; with numbers known at compile time the result is too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from ...errors import DSLTypeError, DSLValueError
from ...expr import arith
from ...expr import math as fmath
from ...expr.numeric import Float32, Int32, Numeric, Uint32, Uint64, scalar_or_none
from ...expr.scalars.scalar_ops import make
from ...expr.vector import Vector
from ...ir.fold import round_float

if TYPE_CHECKING:
    from ...expr.annotations import ScalarLike


_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_TO_UNIT = 4.6566127342e-10
_SMALLEST = 1e-7


def _integer(name: str, x: object) -> Numeric:
    if isinstance(x, Vector):
        found = x
    else:
        found = scalar_or_none(x)
    if found is None or not found.dtype.is_integer:
        raise DSLTypeError(f"{name} must be an integer, a DSL integer or a Vector of them, got {x!r}")
    return cast("Numeric", found)  # A Vector has the methods that are used here too.


def _words(x: Numeric) -> tuple[Uint32, Uint32]:
    """Low and high 32 bits."""
    wide = x.to(Uint64)
    return wide.to(Uint32), (wide >> 32).to(Uint32)


def _counter(name: str, x: ScalarLike) -> tuple[Uint32, Uint32]:
    """Half of the counter."""
    found = _integer(name, x)
    return _words(found) if found.dtype.width > 32 else (found.to(Uint32), Uint32(0))


def _product(m: int, x: Uint32) -> tuple[Uint32, Uint32]:
    """High and low 32 bits of a product."""
    wide = x.to(Uint64) * Uint64(m)
    return (wide >> 32).to(Uint32), wide.to(Uint32)


def randint4x(
    seed: ScalarLike, offset: ScalarLike, n_rounds: int = 10, *, subsequence: ScalarLike = 0
) -> tuple[Uint32, Uint32, Uint32, Uint32]:
    """Four `Uint32`. The generator counts in 128 bits: `subsequence` is the upper half, where one is not enough.

    >>> [f"{int(x):08x}" for x in randint4x(0, 0)]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    if not isinstance(n_rounds, int) or n_rounds < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLValueError(f"n_rounds must be a positive int, got {n_rounds!r}")
    k0, k1 = _words(_integer("seed", seed))
    c0, c1 = _counter("offset", offset)
    c2, c3 = _counter("subsequence", subsequence)
    for _ in range(n_rounds):
        high0, low0 = _product(_M0, c0)
        high1, low1 = _product(_M1, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + Uint32(_W0), k1 + Uint32(_W1)
    return c0, c1, c2, c3


def randint(seed: ScalarLike, offset: ScalarLike, n_rounds: int = 10) -> Uint32:
    """One `Uint32`, the first of `randint4x`.

    >>> int(randint(42, 7))
    1539146673
    """
    return randint4x(seed, offset, n_rounds)[0]


def _uniform(x: Uint32) -> Float32:
    """Float32 in [0, 1)."""
    signed = x.to(Int32)
    return (signed < 0).select(~signed, signed).to(Float32) * Float32(_TO_UNIT)


def rand4x(seed: ScalarLike, offset: ScalarLike, n_rounds: int = 10) -> tuple[Float32, Float32, Float32, Float32]:
    """Four `Float32`, uniform in [0, 1).

    >>> [float(x) for x in rand4x(42, 7)]
    [0.71672..., 0.81617..., 0.18067..., 0.36265...]
    """
    a, b, c, d = randint4x(seed, offset, n_rounds)
    return _uniform(a), _uniform(b), _uniform(c), _uniform(d)


def rand(seed: ScalarLike, offset: ScalarLike, n_rounds: int = 10) -> Float32:
    """One `Float32`, uniform in [0, 1).

    >>> round(rand(42, 7).to(float), 6)
    0.716721
    """
    return _uniform(randint(seed, offset, n_rounds))


def _normal_pair(u1: Float32, u2: Float32) -> tuple[Float32, Float32]:
    """Two normal numbers from two uniform ones (Box-Muller)."""
    if isinstance(u1, Numeric) and u1.is_static():  # pyright: ignore[reportUnnecessaryIsInstance]
        radius = math.sqrt(-2.0 * math.log(max(u1.to(float), _SMALLEST)))
        angle = 2.0 * math.pi * u2.to(float)
        return tuple(make(Float32, round_float(radius * f(angle), "f32")) for f in (math.cos, math.sin))  # pyright: ignore[reportReturnType]
    radius = fmath.sqrt(fmath.log(arith.max(u1, Float32(_SMALLEST))) * Float32(-2.0))
    angle = u2 * Float32(2.0 * math.pi)
    return radius * fmath.cos(angle), radius * fmath.sin(angle)


def randn4x(seed: ScalarLike, offset: ScalarLike, n_rounds: int = 10) -> tuple[Float32, Float32, Float32, Float32]:
    """Four `Float32`, normal with mean 0 and variance 1.

    >>> [float(x) for x in randn4x(42, 7)]
    [0.32964..., -0.7466..., -1.2027..., 1.40550...]
    """
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    return (*_normal_pair(u1, u2), *_normal_pair(u3, u4))


def randn(seed: ScalarLike, offset: ScalarLike, n_rounds: int = 10) -> Float32:
    """One `Float32`, normal with mean 0 and variance 1.

    >>> float(randn(42, 7))
    0.32964...
    """
    u1, u2, _, _ = rand4x(seed, offset, n_rounds)
    return _normal_pair(u1, u2)[0]


__all__ = ["rand", "rand4x", "randint", "randint4x", "randn", "randn4x"]
