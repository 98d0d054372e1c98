"""Attention and its gradients."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import torch

import flydsl.compiler as flyc
import flydsl.kernels as k
from flydsl.kernels.attention import attention_backward
from flydsl.kernels.attention.amd.entry import amd_attention
from flydsl.kernels.attention.amd.plan import machine_for
from flydsl.kernels.attention.amd.tile import Tile as AmdTile
from flydsl.kernels.attention.combine import combine
from flydsl.kernels.attention.plain import Kind

from .call import HOPPER, Call, bf16, f32, room


def backward(dtype: torch.dtype, n: int, d: int, queries: int = 0) -> tuple[Any, ...]:
    """Gradients of `n` keys, and of as many queries unless told."""
    q, keys, v, grad = (torch.randn(1, m, 1, d).to(dtype) for m in (queries or n, n, n, queries or n))
    out, lse = k.attention(q, keys, v, return_lse=True)
    return attention_backward, grad, q, keys, v, out, lse


def on_one_processor(module: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of `module` where one multiprocessor has all the work: blocks stay, and their stages come round."""
    place: Any = importlib.import_module(f"flydsl.kernels.attention.{module}")
    target_of = place.target_of

    @functools.wraps(function)
    def call(*given: Any, **more: Any) -> Any:
        with patch.object(place, "target_of", lambda x: target_of(x)._replace(processors=1)):
            return function(*given, **more)

    return call


def staying_backward() -> tuple[Any, ...]:
    """Four equal tiles of keys for one multiprocessor."""
    q, keys, v, grad = (torch.randn(1, n, 2, 80).bfloat16() for n in (70, 140, 140, 70))
    out, lse = k.attention(q, keys, v, return_lse=True)
    return on_one_processor("backward", attention_backward), grad, q, keys, v, out, lse


def packed_backward(d: int) -> tuple[Any, ...]:
    """Two sequences, whose ends are inside of steps."""
    q, keys, v, grad = (torch.randn(90, 1, d).bfloat16() for _ in range(4))
    cu: Any = dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), torch.tensor([0, 20, 90], dtype=torch.int32))
    out, lse = k.attention(q, keys, v, return_lse=True, **cu)
    return partial(attention_backward, **cu), grad, q, keys, v, out, lse


def combined() -> tuple[Any, ...]:
    """Three parts of the keys."""
    parts, heights, out = f32(3, 1, 2, 5, 64), f32(3, 1, 2, 5), room(1, 5, 2, 64, dtype=torch.bfloat16)
    return combine, parts, heights, out, None, None, 3, 1, 5, 2, *(out.stride(i) for i in range(3)), 64, False


def amd_attention_of() -> tuple[Any, ...]:
    """Three steps of keys, the last of which has an end, in the smallest tile."""
    machine = machine_for(flyc.get_backend().target, "bfloat16", 2, 32)
    assert machine is not None
    tile = AmdTile(32, 32, 32, 16, 2)
    q, keys, v, out = bf16(20, 32), bf16(70, 32), bf16(70, 32), room(20, 32, dtype=torch.bfloat16)
    strides = (0, 32, 32) * 4
    numbers = (1, 20, 70, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0)
    kind = Kind(32, 32, False, True, False, False, False)
    arrays = (x.reshape(-1) for x in (q, keys, v, out))
    rest = (0, 0, 0, 0, 20, 20, 0, 0, 0, 0, 0, 0, 32**-0.5, 0.0, 32**-0.5, 0, 0, 1.0)
    return amd_attention, *arrays, room(20), *[None] * 10, *numbers, *strides, *rest, tile, machine, kind


CALLS: dict[str, Call] = {
    "attention": Call(
        HOPPER,
        lambda: (on_one_processor("entry", k.attention), bf16(1, 64, 5, 64), *(bf16(1, 400, 5, 64) for _ in "kv")),
        "attention.hopper.attention_kernel",
        False,
    ),
    "attention with dropout": Call(
        HOPPER,
        lambda: (partial(k.attention, dropout=0.3, seed=4), bf16(1, 128, 1, 64), *(bf16(1, 96, 1, 64) for _ in "kv")),
        "attention.hopper.attention_kernel",
        False,
    ),
    "attention of fp8": Call(
        HOPPER,
        lambda: (k.attention, *(f32(1, 64, 1, 64).to(torch.float8_e4m3fn) for _ in range(3))),
        "attention.values.turn_kernel attention.hopper.attention_kernel",
        False,
    ),
    "attention by mma": Call(
        "sm_80",
        lambda: (k.attention, bf16(1, 20, 1, 32), bf16(1, 40, 1, 32), bf16(1, 40, 1, 32)),
        "attention.matrix.matrix_kernel",
        False,
    ),
    **{
        f"attention on {arch}": Call(arch, amd_attention_of, "attention.amd.kernel.amd_attention_kernel", False)
        for arch in ("gfx942", "gfx950", "gfx1201")
    },
    "attention of f32": Call(
        HOPPER,
        lambda: (k.attention, f32(1, 20, 1, 16), f32(1, 24, 1, 16), f32(1, 24, 1, 16)),
        "attention.plain.plain_kernel",
    ),
    "parts of attention": Call(HOPPER, combined, "attention.combine.combine_kernel"),
    "attention_backward": Call(
        HOPPER,
        lambda: backward(torch.bfloat16, 64, 64, 3 * 128),
        "attention.rounding.sides_kernel attention.hopper_backward.backward_kernel attention.rounding.round_kernel",
        False,
    ),
    "attention_backward in blocks that stay": Call(
        HOPPER,
        staying_backward,
        "attention.rounding.sides_kernel attention.hopper_backward.backward_kernel attention.rounding.round_kernel",
        False,
    ),
    "attention_backward of packed sequences": Call(
        HOPPER,
        lambda: packed_backward(96),
        "attention.rounding.sides_kernel attention.hopper_backward.backward_kernel attention.rounding.round_kernel",
        False,
    ),
    "attention_backward of long rows": Call(
        HOPPER,
        lambda: backward(torch.bfloat16, 64, 136, 4 * 64),
        "attention.rounding.sides_kernel attention.wide.hopper.wide_kernel attention.rounding.round_kernel",
        False,
    ),
    "attention_backward of f32": Call(
        HOPPER,
        lambda: backward(torch.float32, 20, 16),
        "attention.plain_backward.delta_kernel attention.plain_backward.gradient_kernel",
        False,
    ),
    "mla_decode": Call(
        HOPPER,
        lambda: (
            partial(on_one_processor("latent.entry", k.mla_decode), dv=128),
            bf16(1, 1, 16, 192),
            bf16(1, 220, 192),
        ),
        "attention.latent.hopper.latent_kernel",
        False,
    ),
    "mla_decode of fp8": Call(
        HOPPER,
        lambda: (partial(k.mla_decode, dv=128), bf16(1, 1, 16, 192), f32(1, 64, 192).to(torch.float8_e4m3fn)),
        "attention.latent.hopper.latent_kernel",
        False,
    ),
    "mla_decode by threads": Call(
        "sm_80",
        lambda: (partial(k.mla_decode, dv=64), bf16(1, 1, 4, 96), bf16(1, 32, 96)),
        "attention.latent.plain.plain_latent_kernel",
        False,
    ),
}
