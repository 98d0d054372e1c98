"""Python's operators on bare IR values.

What `x.ir_value()` gives, what a class of the user is rebuilt from, the results of an op: FlyDSL lets authors compute
with them, so xDSL's values have the operators and methods of the scalar or vector that the value is. Only `==` keeps
its meaning, since values are kept in lists and tables: two values are equal where they are the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import SSAValue

from ..expr.numeric import as_dsl_value, is_ir_value

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "divmod")
OPERATORS = (
    *(f"__{side}{name}__" for name in _BINARY for side in ("", "r")),
    *(f"__{name}__" for name in ("lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "getitem")),
)
METHODS = (
    "addf", "bitcast", "exp2", "extf", "extsi", "extui", "index_cast", "maximumf", "minimumf", "reduce", "reshape",
    "rsqrt", "select", "shrui", "shuffle", "shuffle_xor", "to", "truncf", "trunci", "with_signedness",
)  # fmt: skip


def _of_the_class(name: str) -> Callable[..., object]:
    def method(self: SSAValue, *args: object, **options: object) -> object:
        value: object = as_dsl_value(self)
        found: Any = getattr(value.__class__, name, None)
        if found is None:
            if name in OPERATORS:
                return NotImplemented
            raise AttributeError(f"a value of type {self.type} has no {name}()")
        return found(value, *(as_dsl_value(x) if is_ir_value(x) else x for x in args), **options)

    method.__name__ = name
    return method


for name in (*OPERATORS, *METHODS):
    setattr(SSAValue, name, _of_the_class(name))
