"""`op`: an operator of torch from a jit function, with its gradient from another one.

@flydsl.torch.op("mine::square", results={"y": "x"}, backward=square_backward)
@flyc.jit
def square(x: fx.Tensor, y: fx.Tensor, stream: fx.Stream = fx.Stream(None)): ...

y = square(x)      # allocates y, launches, and is differentiable
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch

from flydsl.compiler.jit_function import JitFunction
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.expr.gpu import Stream
from flydsl.expr.tensor import Tensor
from flydsl.extension.torch_op import Make, torch_op

from .register import Context, Given

Gradient = Callable[[Mapping[str, Given], Mapping[str, Given]], Mapping[str, Given]]
"""A gradient as a Python function: arguments and results by name, gradients of results by name -> of arguments."""


def op(
    name: str,
    *,
    results: Mapping[str, str | Make] | None = None,
    mutates: Sequence[str] = (),
    backward: JitFunction | Gradient | None = None,
    adapt: Callable[[torch.Tensor], object] | None = None,
) -> Callable[[JitFunction], Given]:
    """Make an operator of torch, `name` ("library::operator"), of a jit function.

    `results`, `mutates` and `adapt` are those of `flydsl.extension.torch_op`. `backward` is a jit function whose
    parameters say what it is given by their names: `dy` is the gradient of result `y`, other names are arguments or
    results of the function, and `dx`, which it writes, is the gradient of argument `x`. It becomes an operator, too. A
    Python function instead is called with the arguments and results, and with the gradients of the results, all by
    name, and gives those of the arguments.
    """

    def make(function: JitFunction) -> Given:
        made = torch_op(name, function, results=results, mutates=mutates, adapt=adapt)
        if backward is not None:
            _differentiate(name, made, function, dict(results or {}), tuple(mutates), backward, adapt)
        return made

    return make


def _differentiate(
    name: str,
    made: Given,
    function: JitFunction,
    results: dict[str, str | Make],
    mutates: tuple[str, ...],
    backward: JitFunction | Gradient,
    adapt: Callable[[torch.Tensor], object] | None,
) -> None:
    if mutates:
        raise DSLValueError(f"op {name}: a function that changes {mutates[0]!r} in place has no gradient")
    if not results:
        raise DSLValueError(f"op {name}: a gradient is for results; name them with results={{...}}")
    arguments = [a.name for a in made._opoverload._schema.arguments]
    gradient = _of_jit(name, function, arguments, list(results), backward, adapt)

    def remember(ctx: Context, inputs: tuple[Given, ...], output: Given) -> None:
        values = dict(zip(arguments, inputs, strict=True))
        values |= dict(zip(results, _all_of(output), strict=True))
        tensors = {key: value for key, value in values.items() if isinstance(value, torch.Tensor)}
        ctx.save_for_backward(*tensors.values())
        ctx.names = tuple(tensors)
        ctx.others = {key: value for key, value in values.items() if key not in tensors}

    def back(ctx: Context, *grads: torch.Tensor) -> object:
        values = {**ctx.others, **dict(zip(ctx.names, ctx.saved_tensors, strict=True))}
        found = gradient(values, dict(zip(results, grads, strict=True)))
        if not isinstance(found, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"op {name}: backward gives {{argument: its gradient}}, got {found!r}")
        unknown = sorted(set(found) - set(arguments))
        if unknown:
            raise DSLValueError(f"op {name}: backward gave a gradient of {unknown[0]!r}; arguments are {arguments}")
        answer = [found.get(key) for key in arguments]
        return tuple(answer) if len(answer) > 1 else answer[0]

    made.register_autograd(back, setup_context=remember)


def _of_jit(
    name: str,
    function: JitFunction,
    arguments: list[str],
    results: list[str],
    backward: JitFunction | Gradient,
    adapt: Callable[[torch.Tensor], object] | None,
) -> Gradient:
    """The gradient as a Python function; a jit function becomes an operator."""
    if not isinstance(backward, JitFunction):
        if not callable(backward):
            raise DSLTypeError(f"op {name}: backward is a jit function or a Python function, got {backward!r}")
        return backward
    parameters = backward.signature.parameters
    tensors = [a for a in arguments if function.signature.parameters[a].annotation is Tensor]
    wanted = {f"d{a}": a for a in tensors if f"d{a}" in parameters and a not in results}
    if not wanted:
        possible = ", ".join(f"d{a}" for a in tensors)
        raise DSLValueError(f"op {name}: backward writes none of {possible}; it has {', '.join(parameters)}")
    given = {f"d{r}": r for r in results}
    names = [p for p, q in parameters.items() if p not in wanted and q.annotation is not Stream]
    for p in names:
        if p not in given and p not in arguments and p not in results:
            known = ", ".join((*given, *arguments, *results))
            raise DSLValueError(f"op {name}: backward has a parameter {p!r}, which is none of {known}")
    likes: dict[str, str | Make] = {}
    for d, a in wanted.items():
        # A gradient is like its argument, whether that is handed over or not.
        likes[d] = a if a in names else _like(name, a, names, given)
    made = torch_op(f"{name}_backward", backward, results=likes, adapt=adapt)

    def gradient(values: Mapping[str, Given], grads: Mapping[str, Given]) -> Mapping[str, Given]:
        # Torch hands over gradients as they come, that of a sum as one number in all places.
        for d, a in wanted.items():
            if values[a] is None:
                raise DSLValueError(
                    f"op {name}: {a!r} was left out, and backward is a jit function that writes its gradient {d}; let "
                    "backward be a Python function, which can give none"
                )
        sent = [grads[given[p]].contiguous() if p in given else values[p] for p in names]
        for d, a in wanted.items():
            stand_in = likes[d]
            if stand_in in given and grads[given[cast(str, stand_in)]].shape != values[a].shape:
                raise DSLValueError(
                    f"op {name}: {d} would have the shape of {stand_in}, which is not that of {a!r}; let backward "
                    f"take {a!r}"
                )
        return dict(zip(wanted.values(), _all_of(made(*sent)), strict=True))

    return gradient


def _all_of(output: Given) -> tuple[Given, ...]:
    """Results of an operator: torch has one of them without a tuple."""
    return cast("tuple[Given, ...]", output) if isinstance(output, tuple) else (output,)


def _like(name: str, argument: str, names: list[str], given: Mapping[str, str]) -> str:
    """What a gradient is allocated like, when its argument is not handed to the gradient's function."""
    found = next((p for p in names if p in given), None)
    if found is None:
        raise DSLValueError(f"op {name}: backward takes no {argument!r}, which the gradient d{argument} is like")
    return found


__all__ = ["op"]
