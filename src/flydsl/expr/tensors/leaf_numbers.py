"""Integer tuples of one integer as numbers: `i < x.shape[0]`, `fx.size(x) // 4`, `range(x.shape[0])`.

An operator on such a tuple is the operator on its integer, an `int` where it is known while tracing and an `Int32` or
`Int64` where it is not; so the result is never a tuple.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import DSLTypeError

if TYPE_CHECKING:
    from ..annotations import ScalarLike
    from ..numeric import Integer, Numeric


class LeafNumber:
    """What integer tuples and numbers share."""

    __slots__ = ()

    def __dsl_scalar__(self) -> int | Integer | None:
        """The one integer of this tuple; None if there are several."""
        raise NotImplementedError

    def _number(self, what: str) -> Any:
        found = self.__dsl_scalar__()
        if found is None:
            raise DSLTypeError(
                f"{what} takes a number, and {self} is several; take one of its integers, as in t[0], or all of them, "
                "as in m, n = t.unpack()"
            )
        return found

    def __index__(self) -> int:
        return operator.index(self._number("an integer"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __float__(self) -> float:
        return float(self._number("float()"))

    def to(self, dtype: type[Numeric]) -> Numeric:
        """The one integer, as a number of another class."""
        return dtype(self._number(".to()"))

    if TYPE_CHECKING:
        # What the integer is decides the class of a result.
        def __add__(self, other: ScalarLike) -> Any: ...
        def __radd__(self, other: ScalarLike) -> Any: ...
        def __sub__(self, other: ScalarLike) -> Any: ...
        def __rsub__(self, other: ScalarLike) -> Any: ...
        def __mul__(self, other: ScalarLike) -> Any: ...
        def __rmul__(self, other: ScalarLike) -> Any: ...
        def __floordiv__(self, other: ScalarLike) -> Any: ...
        def __rfloordiv__(self, other: ScalarLike) -> Any: ...
        def __truediv__(self, other: ScalarLike) -> Any: ...
        def __rtruediv__(self, other: ScalarLike) -> Any: ...
        def __mod__(self, other: ScalarLike) -> Any: ...
        def __rmod__(self, other: ScalarLike) -> Any: ...
        def __lt__(self, other: ScalarLike) -> Any: ...
        def __le__(self, other: ScalarLike) -> Any: ...
        def __gt__(self, other: ScalarLike) -> Any: ...
        def __ge__(self, other: ScalarLike) -> Any: ...
        def __neg__(self) -> Any: ...


def scalar_of(x: object) -> Any:
    """The integer of a tuple of one; anything else as it is."""
    return x.__dsl_scalar__() if isinstance(x, LeafNumber) else x


def _binary(name: str, function: Callable[[Any, Any], object]) -> tuple[Callable[..., object], Callable[..., object]]:
    def operate(self: LeafNumber, other: object) -> object:
        right = scalar_of(other)
        return NotImplemented if right is None else function(self._number(name), right)  # pyright: ignore[reportPrivateUsage]

    def reflected(self: LeafNumber, other: object) -> object:
        left = scalar_of(other)
        return NotImplemented if left is None else function(left, self._number(name))  # pyright: ignore[reportPrivateUsage]

    return operate, reflected


def _unary(function: Callable[[Any], object]) -> Callable[[LeafNumber], object]:
    return lambda self: function(self._number("an operator"))  # pyright: ignore[reportPrivateUsage]


def _define() -> None:
    signs = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**"}
    signs |= {"and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}
    for name, sign in signs.items():
        bare = name.rstrip("_")
        operate, reflected = _binary(sign, getattr(operator, name))
        setattr(LeafNumber, f"__{bare}__", operate)
        setattr(LeafNumber, f"__r{bare}__", reflected)
    for name, sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
        setattr(LeafNumber, f"__{name}__", _binary(sign, getattr(operator, name))[0])
    for name in ("neg", "pos", "abs", "invert"):
        setattr(LeafNumber, f"__{name}__", _unary(getattr(operator, name)))
    for name, method in zip(("__divmod__", "__rdivmod__"), _binary("divmod()", divmod), strict=True):
        setattr(LeafNumber, name, method)


_define()
