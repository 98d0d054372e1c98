"""numpy's functions of numbers on values of a kernel: `np.sqrt(x)` is `fx.sqrt(x)`, `np.float32(2) * x` is `2.0 * x`.

numpy asks `__array_ufunc__` of an operand that is not its own before it does anything itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, cast

from ...errors import DSLTypeError

OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "true_divide": "truediv",
    "floor_divide": "floordiv", "remainder": "mod", "power": "pow", "float_power": "pow", "negative": "neg",
    "positive": "pos", "absolute": "abs", "fabs": "abs", "bitwise_and": "and_", "bitwise_or": "or_",
    "bitwise_xor": "xor", "invert": "invert", "left_shift": "lshift", "right_shift": "rshift", "equal": "eq",
    "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}  # fmt: skip
"""What numpy calls the functions of `operator`."""
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
    each: Any = np.frompyfunc(lambda *xs: function(*(_plain(x) for x in xs)), len(inputs), 1)
    return each(*operands)


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


def _square(x: Any) -> object:
    return x * x


def _reciprocal(x: Any) -> object:
    return 1.0 / x


_OWN: dict[str, Callable[..., object]] = {"square": _square, "reciprocal": _reciprocal}


def _counterpart(name: str) -> Callable[..., object] | None:
    if name in OPERATORS:
        return cast("Callable[..., object]", getattr(operator, OPERATORS[name]))
    if name in _OWN:
        return _OWN[name]
    module, _, inner = FUNCTIONS.get(name, f"math.{name}").partition(".")
    loaded = import_module(f"flydsl.expr.{module}")
    return cast("Callable[..., object]", getattr(loaded, inner)) if inner in loaded.__all__ else None
