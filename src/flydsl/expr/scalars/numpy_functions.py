"""numpy's functions of numbers on values of a kernel: `np.sqrt(x)` is `fx.sqrt(x)`, `np.float32(2) * x` is `2.0 * x`.

numpy asks `__array_ufunc__` of an operand that is not its own before it does anything itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, cast

from ...errors import DSLTypeError

OPERATORS: dict[str, Callable[..., object]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "true_divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
    "power": operator.pow, "float_power": operator.pow, "negative": operator.neg, "positive": operator.pos,
    "absolute": abs, "fabs": abs, "square": lambda x: x * x, "reciprocal": lambda x: 1.0 / x,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "invert": operator.invert,
    "left_shift": operator.lshift, "right_shift": operator.rshift, "equal": operator.eq, "not_equal": operator.ne,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
}  # fmt: skip
FUNCTIONS = {
    "maximum": "arith.max", "minimum": "arith.min", "rint": "math.roundeven", "arccos": "math.acos",
    "arcsin": "math.asin", "arctan": "math.atan", "arctan2": "math.atan2", "arccosh": "math.acosh",
    "arcsinh": "math.asinh", "arctanh": "math.atanh",
}  # fmt: skip
"""Those that are called something else here; the others have the names of `fx.math`."""


class Ufunc(Protocol):
    """What is used of a function of numpy."""

    __name__: str


def apply_ufunc(ufunc: Ufunc, method: str, inputs: tuple[object, ...], options: dict[str, object]) -> object:
    """A function of numpy on operands of which one is a value of a kernel."""
    function = _counterpart(ufunc.__name__)
    if function is None or method != "__call__" or options:
        what = f"np.{ufunc.__name__}" if method == "__call__" else f"np.{ufunc.__name__}.{method}"
        extra = f" with {', '.join(options)}" if options and function is not None else ""
        raise DSLTypeError(f"{what}{extra} does not take values of a kernel; help(fx.math) lists what there is")
    arrays = [x for x in inputs if getattr(x, "ndim", 0) and hasattr(x, "dtype") and hasattr(x, "flat")]
    if not arrays:
        return function(*(_plain(x) for x in inputs))
    import numpy as np

    operands = [x if any(x is a for a in arrays) else _boxed(x) for x in inputs]
    return np.frompyfunc(lambda *xs: function(*(_plain(x) for x in xs)), len(inputs), 1)(*operands)


def _boxed(x: object) -> Any:
    """A value as an array without extents, which numpy does not look into."""
    import numpy as np

    box = np.empty((), object)
    box[()] = x
    return box


def _plain(x: object) -> object:
    """A number of numpy as one of Python; a value of a kernel as it is."""
    item = getattr(x, "item", None)
    return item() if item is not None and hasattr(x, "dtype") and hasattr(x, "flat") else x


def _counterpart(name: str) -> Callable[..., object] | None:
    if name in OPERATORS:
        return OPERATORS[name]
    module, _, inner = FUNCTIONS.get(name, f"math.{name}").partition(".")
    loaded = import_module(f"flydsl.expr.{module}")
    return cast("Callable[..., object]", getattr(loaded, inner)) if inner in loaded.__all__ else None


__all__ = ["apply_ufunc"]
