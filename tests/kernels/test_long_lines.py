"""Arrays that reach over more elements than an extent of 32 bits has room for, as kernels with strides take them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest
import torch

from flydsl.compiler.jit_function import JitFunction
from flydsl.compiler.listeners import watching_calls
from flydsl.kernels import attention, cast, dequantize_mx, matmul, mla_decode, quantize_mx
from flydsl.kernels.attention import attention_backward
from flydsl.kernels.matmul import arrays
from flydsl.kernels.rows.arrays import stretches
from flydsl.runtime.device_runtime import reset_device_runtime


@pytest.mark.parametrize("step", [2**31, 2**31 - 2**16, 2**33, 3 * 2**31 + 7])
def test_lines_overlap_and_end_where_the_array_does(step: int):
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.int16), (2, 3), (2 * step, 2))
    made: Any = arrays.in_line(x)
    (count, length), (apart, one) = made.shape, (s // 2 for s in made.strides)
    assert one == 1 and length < 2**31 and apart <= length
    assert (count - 1) * apart + length == step + 3
    assert arrays.in_line(x[:1]).shape == (3,)


@pytest.mark.parametrize("arch", ["native", "sm_80", "gfx942"])
def test_kernels_take_them(arch: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    def run() -> list[torch.Tensor]:
        torch.manual_seed(0)
        q, k = torch.randn(2, 3, 2, 32).half(), torch.randn(2, 9, 2, 32).half()
        return [
            attention(q, k, k),
            mla_decode(q, k[:, :, 0], dv=32),
            matmul(q[0, :, 0, ::2], k[0, :, 0, ::2].mT),
        ]

    want = run()
    monkeypatch.setattr(arrays, "LONGEST", 50)
    for found, known in zip(run(), want, strict=True):
        torch.testing.assert_close(found, known, rtol=0, atol=0)


def test_elements_go_in_parts_that_belong_together(monkeypatch: pytest.MonkeyPatch):
    x, kind = np.random.default_rng().standard_normal((5, 64)).astype("f4"), "float4_e2m1fn"
    want = cast(x, "float16"), dequantize_mx(*quantize_mx(x, kind), kind)
    monkeypatch.setattr(arrays, "LONGEST", 96)
    assert [count for count, _ in stretches(200, np.arange(200))] == [96, 96, 8] and not stretches(0, x)
    for found, known in zip((cast(x, "float16"), dequantize_mx(*quantize_mx(x, kind), kind)), want, strict=True):
        np.testing.assert_array_equal(found, known)


def backward(d: int) -> tuple[Any, ...]:
    q, k, v, out, grad = (torch.zeros(1, 64, 1, d).bfloat16() for _ in range(5))
    return attention_backward(grad, q, k, v, out, torch.zeros(1, 1, 64))


FP8 = torch.zeros(1, 64, 1, 64).to(torch.float8_e4m3fn)
ODD = torch.zeros(33, 35).bfloat16()


WAYS: list[tuple[Callable[[], object], dict[str, str]]] = [
    (lambda: backward(64), {"hopper_backward": "sums"}),
    (lambda: backward(136), {"hopper_backward_wide": "sums"}),
    (lambda: matmul(ODD, ODD.mT), {"pack": "target", "hopper": "x"}),
    (lambda: attention(FP8, FP8, FP8), {"turn_values": "out", "hopper_attention": "turned"}),
]
"""Calls, and what their functions are given that is neither an argument nor a result."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Generator[list[tuple[Any, Any]]]:
    """What calls for Hopper come to: artifacts and arguments of functions."""
    for name, value in {"BACKEND": "cuda", "ARCH": "sm_90a", "ONLY": "1"}.items():
        monkeypatch.setenv(f"FLYDSL_COMPILE_{name}", value)
    reset_device_runtime()
    seen: list[tuple[Any, Any]] = []
    with watching_calls(lambda *call: seen.append(call)):
        yield seen
    reset_device_runtime()


@pytest.mark.parametrize(("call", "taken"), WAYS, ids=[" ".join(taken) for _, taken in WAYS])
def test_memory_on_the_way_is_in_lines(
    call: Callable[[], object], taken: dict[str, str], calls: list[tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(JitFunction, "artifact", lambda self, *_: self)  # nothing is compiled
    monkeypatch.setattr(arrays, "LONGEST", 1000)
    call()
    ranks = {f.__qualname__: bound.given[taken[f.__qualname__]].ndim for f, bound in calls if f.__qualname__ in taken}
    assert ranks == dict.fromkeys(taken, 2)


def test_code_is_the_same_for_lines(calls: list[tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch):
    pack_and_multiply, _ = WAYS[2]
    pack_and_multiply()
    monkeypatch.setattr(arrays, "LONGEST", 1000)
    pack_and_multiply()
    texts = [artifact.asm for artifact, _ in calls]
    assert texts[: len(texts) // 2] == texts[len(texts) // 2 :]
