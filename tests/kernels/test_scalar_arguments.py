"""Arguments that are flags, numbers or names: what only looks like one is refused by its name, everywhere.

Functions are those of `flydsl.kernels` and `flydsl.torch`, and their parameters are told by their annotations: a new
function is held to the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import flydsl.kernels
import flydsl.torch
from flydsl.errors import DSLTypeError, DSLValueError

from .library_arguments import arguments, call


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
