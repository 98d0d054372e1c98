"""Attention and its gradient as torch's operators `flydsl::attention` and `flydsl::attention_backward`.

This module imports torch, and is imported by functions of `torch_ops.py` alone: that registers the operators, once.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import torch
from torch import Tensor

from flydsl.errors import DSLTypeError
from flydsl.extension.tangents import refuse_tangents

from .backward import attention_backward
from .entry import attention
from .request import FP8, fail

NUMBERS = (
    "Tensor? bias, Tensor? seed, bool causal, int left, int right, float scale, float softcap, float dropout, "
    "Tensor? alibi=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, bool deterministic=False, "
    "bool from_first=False"
)
_BIAS, _ALIBI, _DETERMINISTIC = 3, 11, 14
"""Places of arguments."""


class Context(Protocol):
    """What torch keeps from the forward to the backward pass."""

    numbers: tuple[object, ...]
    needs_input_grad: tuple[bool, ...]

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]: ...
    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def mark_non_differentiable(self, *tensors: Tensor) -> None: ...


def counted(q: Tensor, k: Tensor, v: Tensor, right: int, from_first: bool) -> tuple[Tensor, Tensor, int]:
    """Keys and values that count, and a window's right side: `from_first` is causal with places counted from the first
    key, where others are counted from the last.

    Neither is for graphs to know: their lengths may be symbols.
    """
    if not from_first:
        return k, v, right
    queries, keys = q.shape[1], k.shape[1]
    return k[:, :queries], v[:, :queries], max(queries - keys, 0)


def forward(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seed: Tensor | None, causal: bool, left: int, right: int,
    scale: float, softcap: float, dropout: float, alibi: Tensor | None = None, cu_q: Tensor | None = None,
    cu_k: Tensor | None = None, deterministic: bool = False, from_first: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    k, v, right = counted(q, k, v, right, from_first)
    out, lse = attention(
        q, k, v, causal=causal, window=(left, right), scale=scale, softcap=softcap or None, bias=bias, alibi=alibi,
        cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, dropout=dropout, seed=None if seed is None else int(seed),
        return_lse=True,
    )  # fmt: skip
    return out, lse


def forward_fake(q: Tensor, k: Tensor, v: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
    _same_device(q, k, v, *rest)
    *batch, s, h, _ = q.shape
    dtype = torch.bfloat16 if str(q.dtype).removeprefix("torch.") in FP8 else q.dtype
    return (
        q.new_empty((*batch, s, h, v.shape[-1]), dtype=dtype),
        q.new_empty((*batch, h, s) if batch else (h, s), dtype=torch.float32),
    )


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, bias: Tensor | None,
    seed: Tensor | None, causal: bool, left: int, right: int, scale: float, softcap: float, dropout: float,
    alibi: Tensor | None = None, cu_q: Tensor | None = None, cu_k: Tensor | None = None,
    deterministic: bool = False, from_first: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    seen, values, right = counted(q, k, v, right, from_first)
    dq, dk, dv = attention_backward(
        grad, q, seen, values, out, lse, causal=causal, window=(left, right), scale=scale, softcap=softcap or None,
        bias=bias, alibi=alibi, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, dropout=dropout,
        seed=None if seed is None else int(seed),
        deterministic=deterministic or torch.are_deterministic_algorithms_enabled(),
    )  # fmt: skip
    return dq, _with_rows(dk, k), _with_rows(dv, v)


def _with_rows(made: Tensor, like: Tensor) -> Tensor:
    """Zeros behind the rows that counted."""
    if made.shape == like.shape:
        return made
    whole = made.new_zeros(like.shape)
    whole[:, : made.shape[1]] = made
    return whole


def backward_fake(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: object) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _same_device(q: Tensor, k: Tensor, v: Tensor, bias: object, seed: object, *rest: object) -> None:
    """Tensors with memory and without it come here, whose result would be any numbers. A seed is the host's."""
    alibi, cu_q, cu_k, *_ = (*rest[6:], None, None, None)
    named = {"k": k, "v": v, "bias": bias, "alibi": alibi, "cu_seqlens_q": cu_q, "cu_seqlens_k": cu_k}
    for name, x in named.items():
        if isinstance(x, Tensor) and x.device != q.device:
            raise fail(f"q is on {q.device} and {name} on {x.device}")


_operator: Any = torch.library.custom_op(
    "flydsl::attention", forward, mutates_args=(),
    schema=f"(Tensor q, Tensor k, Tensor v, {NUMBERS}) -> (Tensor, Tensor)",
)  # fmt: skip
_operator.register_fake(forward_fake)
_gradient: Any = torch.library.custom_op(
    "flydsl::attention_backward", backward, mutates_args=(),
    schema=f"(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {NUMBERS}) "
    "-> (Tensor, Tensor, Tensor)",
)  # fmt: skip
_gradient.register_fake(backward_fake)


def _setup(ctx: Context, inputs: tuple[object, ...], output: tuple[Tensor, Tensor]) -> None:
    for name, place in (("bias", _BIAS), ("alibi", _ALIBI)):
        if ctx.needs_input_grad[place]:
            raise DSLTypeError(f"flydsl::attention has no gradient of {name}; detach it")
    q, k, v, bias, seed = cast("tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]", inputs[:5])
    others = cast("tuple[Tensor | None, ...]", inputs[_ALIBI:_DETERMINISTIC])
    ctx.save_for_backward(q, k, v, *output, bias, seed, *others)
    ctx.mark_non_differentiable(output[1])
    ctx.numbers = (*inputs[5:_ALIBI], *inputs[_DETERMINISTIC:])


def _derive(ctx: Context, grad: Tensor, _: object) -> tuple[object, ...]:
    *tensors, alibi, cu_q, cu_k = ctx.saved_tensors
    *numbers, deterministic, from_first = ctx.numbers
    made = _gradient(grad.contiguous(), *tensors, *numbers, alibi, cu_q, cu_k, deterministic, from_first)
    return *made, *(None,) * (len(numbers) + 7)


_operator.register_autograd(_derive, setup_context=_setup)


def attend(*args: object) -> Tensor:
    """The result of `flydsl::attention`."""
    if not torch.compiler.is_compiling():
        refuse_tangents("flydsl::attention", args)
    return cast("Tensor", _operator(*args)[0])


__all__ = ["attend"]
