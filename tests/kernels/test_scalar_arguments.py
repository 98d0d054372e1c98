"""Arguments that are flags, numbers or names: what only looks like one is refused by its name, everywhere.

Functions are those of `flydsl.kernels` and `flydsl.torch`, and their parameters are told by their annotations. Arrays
for a call come from `tests/kernels/library/calls`, or else from the parameters' names; a new function that has neither
fails here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import flydsl.kernels
import flydsl.torch
from flydsl.errors import DSLTypeError, DSLValueError

from .library.calls import CALLS

M, N = 4, 128
ARRAYS: dict[str, Callable[[], Any]] = {
    "x": lambda: torch.randn(M, N), "y": lambda: torch.randn(M, N), "dy": lambda: torch.randn(M, N),
    "d": lambda: torch.randn(M, N), "a": lambda: torch.randn(M, N), "b": lambda: torch.randn(N, M),
    "logits": lambda: torch.randn(M, N), "residual": lambda: torch.randn(M, N), "weight": lambda: torch.randn(N),
    "target": lambda: torch.randint(0, M, (M,)), "scale": lambda: torch.rand(M) + 0.5, "mean": lambda: torch.randn(M),
    "sums": lambda: torch.rand(M) + 5.0, "dlosses": lambda: torch.rand(M), "keys": lambda: torch.randn(M, N),
    "ids": lambda: torch.randint(0, M, (3,)), "table": lambda: torch.randn(M, N), "groups": lambda: 2, "k": lambda: 2,
    "w": lambda: flydsl.kernels.quantize_weight(torch.randn(N, N)),
}  # fmt: skip
"""For functions on rows; what others need, their calls say."""
MORE: dict[str, dict[str, Callable[[], Any]]] = {
    "group_norm_forward": {"x": lambda: torch.randn(2, M, 6), "weight": lambda: torch.randn(M)},
    "group_norm": {"x": lambda: torch.randn(2, M, 6), "weight": lambda: torch.randn(M)},
    **{
        f"linear_cross_entropy{part}": {"weight": lambda: torch.randn(M, N)} for part in ("", "_forward", "_backward")
    },
    "linear": {"weight": lambda: torch.randn(M, N)},
    "rope": {
        "q": lambda: torch.randn(1, 5, 2, 16), "k": lambda: torch.randn(1, 5, 1, 16),
        "cos": lambda: torch.randn(5, 8), "sin": lambda: torch.randn(5, 8),
    },
}  # fmt: skip


class Index:
    """A whole number of a class of its own."""

    def __init__(self, value: int):
        self._value = value

    def __index__(self) -> int:
        return self._value


class Scalar(NamedTuple):
    """A parameter that takes something else than arrays."""

    function: Callable[..., Any]
    name: str
    words: frozenset[str]
    """Of its annotation."""
    optional: bool

    def __str__(self) -> str:
        return f"{self.function.__module__.split('.')[1]}.{self.function.__name__}.{self.name}"


KINDS = {"bool", "int", "float", "str"}
UNREAD = {"stream"}


def scalars() -> Iterator[Scalar]:
    for module in (flydsl.kernels, flydsl.torch):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isclass(function) or name == "op":
                continue
            for parameter in inspect.signature(function).parameters.values():
                text = str(parameter.annotation)
                words = frozenset(text.replace("[", " ").replace("]", " ").replace(",", " ").split()) - {"|"}
                named_type = text == "object" and parameter.name not in UNREAD
                if parameter.name not in UNREAD and (words & KINDS or named_type):
                    yield Scalar(function, parameter.name, words, "None" in words or parameter.default is None)


@functools.cache
def _calls() -> dict[str, str]:
    """Functions with the names of a call."""
    found: dict[str, str] = {}
    for name, call in CALLS.items():
        if call.arch.startswith("gfx"):
            continue
        function = call.make()[0]
        while isinstance(function, functools.partial):
            function = function.func
        public = getattr(function, "__name__", "")
        if public in flydsl.kernels.__all__ and getattr(flydsl.kernels, public) is function:
            found.setdefault(public, name)
    return found


def arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """What the function is called with, by name."""
    signature = inspect.signature(function)
    if function.__module__.startswith("flydsl.kernels.") and function.__name__ in _calls():
        made, *args = CALLS[_calls()[function.__name__]].make()
        more: dict[str, Any] = {}
        while isinstance(made, functools.partial):
            more = {**made.keywords, **more}
            made = made.func
        return dict(signature.bind(*args, **more).arguments)
    own = {**ARRAYS, **MORE.get(function.__name__, {})}
    wanted = [p for p in signature.parameters.values() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    return {p.name: 1 if p.name == "seed" else own[p.name]() for p in wanted}


def call(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    bound = inspect.signature(function).bind_partial()
    bound.arguments.update({p: given[p] for p in inspect.signature(function).parameters if p in given})
    return function(*bound.args, **bound.kwargs)


BAD: dict[str, tuple[object, ...]] = {
    "bool": ("no", "False", 2, 0.5, [], np.array([True, False]), torch.tensor(True)),
    "int": ("3", 1.5, float("nan"), 1j, True, np.True_, b"1"),
    "float": ("x", float("nan"), 1j, True, np.False_, b"1"),
    "str": ("geluu", 3, b"sum", True),
    "object": ("floatt", 3, True),
}
SCALARS = list(scalars())


@pytest.fixture(autouse=True)
def on_the_cpu_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "native")


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_what_only_looks_like_one_is_refused(scalar: Scalar):
    given = arguments(scalar.function)
    kinds = [kind for kind in BAD if kind in scalar.words]
    # What one of several kinds takes is not refused because of another one.
    bad = [x for x in BAD[kinds[0]] if not any(_is(x, kind) for kind in kinds)]
    if not scalar.optional:
        bad.append(None)
    for _ in range(2):
        for x in bad:
            with pytest.raises((DSLTypeError, DSLValueError), match=rf"\b{scalar.name}\b"):
                call(scalar.function, {**given, scalar.name: x})
        call(scalar.function, given)  # what is known now is not taken for the same


def _is(x: object, kind: str) -> bool:
    return type(x).__name__ == kind


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_other_classes_of_the_same_are_taken(scalar: Scalar):
    given = arguments(scalar.function)
    default = inspect.signature(scalar.function).parameters[scalar.name].default
    value = given.get(scalar.name, default)
    if isinstance(value, bool):
        others: list[object] = [np.bool_(value), int(value)]
    elif isinstance(value, int):
        others = [np.int64(value), np.int32(value), Index(value)]
    elif isinstance(value, float):
        others = [np.float64(value), np.float32(value)] + [int(value)] * value.is_integer()
    else:
        return
    want = call(scalar.function, {**given, scalar.name: value})
    for other in others:
        got = call(scalar.function, {**given, scalar.name: other})
        torch.testing.assert_close(_tensors(got), _tensors(want), equal_nan=True, rtol=1e-6, atol=1e-6)


def _tensors(made: object) -> list[Any]:
    if isinstance(made, (tuple, list)):
        return [t for part in made for t in _tensors(part)]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(made, torch.Tensor):
        return [made.double() if made.is_floating_point() else made]
    return [made] if isinstance(made, np.ndarray) else []
