"""Jit functions as operators of torch, so that `torch.compile`, `torch.export` and functional transforms see them.

    softmax_op = torch_op("mine::softmax", softmax, results={"out": "x"})
    y = softmax_op(x)                  # allocates `out` like `x`, launches softmax(x, out), gives `out`

torch is imported when an operator is made.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..errors import DSLTypeError, DSLValueError
from ..expr.constexpr import ConstexprType
from ..expr.gpu import Stream
from ..expr.numeric import Boolean, Float, Integer
from ..expr.tensor import Tensor
from .tangents import refuse_tangents

if TYPE_CHECKING:
    import torch

    from ..compiler.jit_function import JitFunction

Make = Callable[..., object]
"""Makes a result: called with the arguments by name."""

_WORDS = {bool: "bool", int: "SymInt", float: "float", str: "str"}
"""Schema words of Python's types."""


def _word(op: str, name: str, annotation: object) -> str | None:
    """What a parameter is in torch's schema language; None for a stream, which is torch's current one."""
    if annotation is Tensor:
        return "Tensor"
    if annotation is Stream:
        return None
    if isinstance(annotation, ConstexprType):
        # A value that the code depends on cannot stay symbolic.
        found = "int" if annotation.inner is int else _WORDS.get(annotation.inner)
        if found is not None:
            return found
    elif isinstance(annotation, type):
        for base, word in ((Boolean, "bool"), (Integer, "SymInt"), (Float, "float")):
            if issubclass(annotation, base):
                return word
    raise DSLTypeError(
        f"torch_op {op}: parameter '{name}' is annotated {annotation!r}; an operator takes fx.Tensor, fx.Stream, "
        "numbers, and Constexpr of bool, int, float or str"
    )


def _default(op: str, name: str, value: object) -> str:
    plain = value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))
    if not plain or (isinstance(value, str) and not value.isprintable()):
        raise DSLTypeError(
            f"torch_op {op}: parameter '{name}' has the default {value!r}, which a schema of torch cannot hold; it "
            "takes None, bool, int, finite floats and printable text: leave the default out"
        )
    if isinstance(value, str):
        return '="' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"={value}"


class _Plan:
    """How a jit function is called as an operator."""

    def __init__(self, name: str, function: JitFunction, results: Mapping[str, str | Make], mutates: Sequence[str]):
        self.function = function
        self.results = dict(results)
        parameters = function.signature.parameters
        defaults = function.signature.inspected.parameters
        for given in (*self.results, *mutates):
            if given not in parameters or parameters[given].annotation is not Tensor:
                tensors = ", ".join(k for k, p in parameters.items() if p.annotation is Tensor)
                raise DSLValueError(f"torch_op {name}: no tensor parameter '{given}'; there are {tensors}")
        both = sorted(set(self.results) & set(mutates))
        if both:
            raise DSLValueError(f"torch_op {name}: '{both[0]}' cannot be a result and an argument that is changed")
        if not self.results and not mutates:
            raise DSLValueError(
                f"torch_op {name}: say which tensors are written, with results={{...}} or mutates=(...); torch would "
                "take the call for one without effect"
            )
        self.arguments: list[str] = []
        words: list[str] = []
        for key, p in parameters.items():
            word = _word(name, key, p.annotation)
            if word is None or key in self.results:
                continue
            mark = f"(a{len(words)}!)" if key in mutates else ""
            default = defaults[key].default
            mark += "?" if p.optional else ""
            default = "" if default is inspect.Parameter.empty else _default(name, key, default)
            words.append(f"{word}{mark} {key}{default}")
            self.arguments.append(key)
        for made, like in self.results.items():
            if isinstance(like, str) and (like not in self.arguments or parameters[like].annotation is not Tensor):
                raise DSLValueError(
                    f"torch_op {name}: result '{made}' is to be like '{like}', which is no tensor argument"
                )
        count = len(self.results)
        self.schema = f"({', '.join(words)}) -> {'Tensor' if count == 1 else '(' + ', '.join(['Tensor'] * count) + ')'}"

    def make(self, given: Mapping[str, object]) -> dict[str, object]:
        """Fresh tensors for the results."""
        import torch

        return {
            name: torch.empty_like(cast("torch.Tensor", given[like])) if isinstance(like, str) else like(**given)
            for name, like in self.results.items()
        }

    def given(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Arguments by name; torch has filled in the defaults."""
        return {**dict(zip(self.arguments, args, strict=False)), **kwargs}

    def answer(self, made: Mapping[str, object]) -> object:
        values = tuple(made.values())
        return None if not values else values[0] if len(values) == 1 else values


def torch_op(
    name: str,
    function: JitFunction,
    *,
    results: Mapping[str, str | Make] | None = None,
    mutates: Sequence[str] = (),
    adapt: Callable[[torch.Tensor], object] | None = None,
) -> Any:
    """Register jit function `function` as torch's operator `name` ("library::operator") and give the operator.

    `results` names tensor parameters that the function writes: they are no arguments of the operator but what it
    returns, in the order of the mapping. Each is allocated like the argument it is mapped to, or by a function that is
    called with all arguments by name. `mutates` names arguments that the function changes. `adapt` turns each tensor
    into what is passed on, such as `lambda t: flyc.from_torch_tensor(t, assumed_align=16)`.

    The operator launches on torch's current stream and can be captured in a CUDA graph. Gradients are not derived: give
    them with the operator's `register_autograd`.
    """
    try:
        import torch
    except ImportError as error:
        raise DSLTypeError(f"torch_op {name}: torch is not installed") from error
    if not hasattr(function, "signature"):
        raise DSLTypeError(f"torch_op {name}: expected a function decorated with @flyc.jit, got {function!r}")
    plan = _Plan(name, function, results or {}, mutates)

    def run(*args: object, **kwargs: object) -> object:
        given = plan.given(args, kwargs)
        refuse_tangents(name, tuple(given.values()))
        made = plan.make(given)
        values = {**given, **made}
        if adapt is not None:
            values = {k: adapt(v) if isinstance(v, torch.Tensor) else v for k, v in values.items()}
        function(**values)
        return plan.answer(made)

    def fake(*args: object, **kwargs: object) -> object:
        return plan.answer(plan.make(plan.given(args, kwargs)))

    made: Any = torch.library.custom_op(name, run, mutates_args=tuple(mutates), schema=plan.schema)
    made.register_fake(fake)
    return made


__all__ = ["torch_op"]
