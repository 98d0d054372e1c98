"""Python's operators, for scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from ..aliases import also_called

if TYPE_CHECKING:
    from ..annotations import FastMathLike, ValueLike
    from .numpy_functions import Ufunc


class Operators:
    """Every operator as a call of `_operate(name, left, right)` or `_unary(name)`, which a class defines.

    >>> flyc.evaluate(lambda x: (x + 1, 2 - x, x // 2, -x, x < 4), 3)
    (4, -1, 1, -3, True)
    """

    __slots__ = ()

    @staticmethod
    def _operate(name: str, a: object, b: object) -> object:
        raise NotImplementedError

    def _unary(self, name: str) -> object:
        raise NotImplementedError

    def __pos__(self) -> Self:
        return self

    def __hash__(self) -> int:
        raise NotImplementedError

    def __array_ufunc__(self, ufunc: Ufunc, method: str, *inputs: object, **options: object) -> object:
        return import_module("flydsl.expr.scalars.numpy_functions").apply_ufunc(ufunc, method, inputs, options)

    # --- what MLIR's values have ----------------------------------------------------------------------------------

    @property
    def owner(self) -> Any:
        """The operation that gives the value, or the block whose argument it is, as `flydsl._mlir.ir` has them."""
        return import_module("flydsl._mlir.operations").owner_of(self)

    # --- deprecated spellings -------------------------------------------------------------------------------------

    def exp2(self, fastmath: FastMathLike = None) -> Self:
        """Deprecated: `fx.exp2(x)`."""
        return import_module("flydsl.expr.math").exp2(self, fastmath=fastmath)

    def rsqrt(self, fastmath: FastMathLike = None) -> Self:
        """Deprecated: `fx.rsqrt(x)`."""
        return import_module("flydsl.expr.math").rsqrt(self, fastmath=fastmath)

    @also_called(count="amount")
    def shrui(self, amount: ValueLike) -> Self:
        """Deprecated: logical right shift that keeps the class."""
        return import_module("flydsl.expr.arith").shrui(self, amount)


def _binary(name: str) -> tuple[Callable[[Operators, object], object], Callable[[Operators, object], object]]:
    """The method of an operator and the one that Python calls on its right side."""

    def operate(self: Operators, other: object) -> object:
        return self._operate(name, self, other)  # pyright: ignore[reportPrivateUsage]

    def reflected(self: Operators, other: object) -> object:
        return self._operate(name, other, self)  # pyright: ignore[reportPrivateUsage]

    return operate, reflected


def _unary(name: str) -> Callable[[Operators], object]:
    return lambda self: self._unary(name)  # pyright: ignore[reportPrivateUsage]


def _divmod(a: Any, b: Any) -> object:
    return a // b, a % b


def _rdivmod(b: object, a: object) -> object:
    return _divmod(a, b)


def _define() -> None:
    """Add the methods to `Operators`; the stub declares them for scalars and for vectors."""
    own: dict[str, Callable[..., object]] = {"__divmod__": _divmod, "__rdivmod__": _rdivmod}
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
        own[f"__{name}__"], own[f"__r{name}__"] = _binary(name)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        own[f"__{name}__"] = _binary(name)[0]
    for name in ("neg", "abs", "invert"):
        own[f"__{name}__"] = _unary(name)
    for name, method in own.items():
        method.__qualname__ = f"Operators.{name}"
        setattr(Operators, name, method)


_define()

ScalarOperators = VectorOperators = Operators
"""What scalars and vectors derive from; to a type checker their operators differ."""
