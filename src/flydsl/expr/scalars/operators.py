"""Python's operators, for scalars and vectors alike."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Operators:
    """Every operator as a call of `_operate(name, left, right)` or `_unary(name)`, which a class defines.

    >>> flyc.evaluate(lambda x: (x + 1, 2 - x, x // 2, -x, x < 4), 3)
    (4, -1, 1, -3, True)
    """

    __slots__ = ()

    @staticmethod
    def _operate(name: str, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def _unary(self, name: str) -> Any:
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return self._operate("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._operate("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._operate("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._operate("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._operate("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._operate("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._operate("truediv", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._operate("truediv", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._operate("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._operate("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._operate("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._operate("mod", other, self)

    def __divmod__(self, other: Any) -> Any:
        quotient = self._operate("floordiv", self, other)
        return NotImplemented if quotient is NotImplemented else (quotient, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        quotient = self._operate("floordiv", other, self)
        return NotImplemented if quotient is NotImplemented else (quotient, other % self)

    def __pow__(self, other: Any) -> Any:
        return self._operate("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._operate("pow", other, self)

    def __and__(self, other: Any) -> Any:
        return self._operate("and", self, other)

    def __rand__(self, other: Any) -> Any:
        return self._operate("and", other, self)

    def __or__(self, other: Any) -> Any:
        return self._operate("or", self, other)

    def __ror__(self, other: Any) -> Any:
        return self._operate("or", other, self)

    def __xor__(self, other: Any) -> Any:
        return self._operate("xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return self._operate("xor", other, self)

    def __lshift__(self, other: Any) -> Any:
        return self._operate("lshift", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self._operate("lshift", other, self)

    def __rshift__(self, other: Any) -> Any:
        return self._operate("rshift", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self._operate("rshift", other, self)

    def __eq__(self, other: Any) -> Any:
        return self._operate("eq", self, other)

    def __ne__(self, other: Any) -> Any:
        return self._operate("ne", self, other)

    def __lt__(self, other: Any) -> Any:
        return self._operate("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return self._operate("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._operate("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return self._operate("ge", self, other)

    def __neg__(self) -> Any:
        return self._unary("neg")

    def __abs__(self) -> Any:
        return self._unary("abs")

    def __invert__(self) -> Any:
        return self._unary("invert")

    def __pos__(self) -> Any:
        return self

    def __hash__(self) -> int:
        raise NotImplementedError

    # --- deprecated spellings -------------------------------------------------------------------------------------

    def exp2(self, fastmath: Any = None) -> Any:
        """Deprecated: `fx.exp2(x)`."""
        return _sibling("math").exp2(self, fastmath=fastmath)

    def rsqrt(self, fastmath: Any = None) -> Any:
        """Deprecated: `fx.rsqrt(x)`."""
        return _sibling("math").rsqrt(self, fastmath=fastmath)

    def shrui(self, count: Any) -> Any:
        """Deprecated: logical right shift that keeps the class."""
        return _sibling("arith").shrui(self, count)


def _sibling(name: str) -> Any:
    """A module that needs this one."""
    return import_module(f"flydsl.expr.{name}")


__all__ = ["Operators"]
