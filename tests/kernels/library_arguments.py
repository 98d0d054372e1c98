"""Arguments for every public function of the library, by name: those of its small call, or of its parameters' names.

A new function that has neither fails in the tests that go through all of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

import flydsl.kernels

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
    "permute": {"dims": lambda: (1, 0)},
    "linear": {"weight": lambda: torch.randn(M, N)},
    "rope": {
        "q": lambda: torch.randn(1, 5, 2, 16), "k": lambda: torch.randn(1, 5, 1, 16),
        "cos": lambda: torch.randn(5, 8), "sin": lambda: torch.randn(5, 8),
    },
}  # fmt: skip


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


__all__ = ["arguments", "call"]
