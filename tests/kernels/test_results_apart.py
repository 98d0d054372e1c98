"""Results that lie in the memory of an argument: refused, or right, for all public functions that take `out`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

import flydsl.kernels as k
from flydsl.errors import DSLValueError

from .library_arguments import arguments, call

FUNCTIONS = [
    function
    for function in (getattr(k, name) for name in k.__all__)
    if not inspect.isclass(function) and "out" in inspect.signature(function).parameters
]
ROOM = 1 << 16
"""Bytes in front of an argument and behind it."""


@pytest.fixture(autouse=True)
def on_the_cpu_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "native")


def _at(memory: torch.Tensor, byte: int, like: torch.Tensor) -> torch.Tensor:
    size = like.numel() * like.element_size()
    return memory[byte : byte + size].view(like.dtype).view(like.shape)


@pytest.mark.parametrize("shift", [0, 1, 4, -1, -4])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_out_over_an_argument(function: Callable[..., Any], shift: int):
    given = {name: x for name, x in arguments(function).items() if name != "out"}
    want = call(function, {name: x.clone() if isinstance(x, torch.Tensor) else x for name, x in given.items()})
    want = want[0] if isinstance(want, tuple) else want
    for name, x in given.items():
        if not isinstance(x, torch.Tensor) or not x.numel():
            continue
        size = x.numel() * x.element_size()
        memory = torch.zeros(2 * ROOM + size + want.numel() * want.element_size(), dtype=torch.uint8)
        own = _at(memory, ROOM, x).copy_(x)
        out = _at(memory, ROOM + 4 * shift, want)
        try:
            call(function, {**given, name: own, "out": out})
        except DSLValueError as error:
            assert "overlaps" in str(error)
            continue
        torch.testing.assert_close(out, want, equal_nan=True, msg=f"{function.__name__}: {name} and out overlap")


def test_rows_of_a_result_lie_apart():
    y, places = torch.ones(4, 8), torch.zeros(3, 1, dtype=torch.int32)
    with pytest.raises(DSLValueError, match="on top of each other"):
        k.unpermute_tokens(y, places, out=torch.zeros(8).expand(3, 8))


def test_bias_of_matrices_in_blocks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx950")
    a, b = (k.MxMatrix(*k.quantize_mx(torch.randn(rows, 64)), "float8_e4m3fn") for rows in (32, 48))
    memory = torch.randn(32 * 48 + 8)
    with pytest.raises(DSLValueError, match="out overlaps bias"):
        k.matmul(a, b, bias=memory[:48], out=memory[8:].view(32, 48))
    with pytest.raises(TypeError, match="bias is float16"):
        k.matmul(a, b, bias=torch.zeros(48, dtype=torch.int32))
    strided = torch.randn(96)[::2]
    torch.testing.assert_close(k.matmul(a, b, bias=strided), k.matmul(a, b) + strided)
