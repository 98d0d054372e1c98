"""Modules with the parameters of torch's, so that state dictionaries fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from flydsl.errors import DSLValueError
from flydsl.kernels.scalars import whole

from . import functional as F


class Linear(nn.Linear):
    """torch's linear layer, its parameters and its start; the products, forward and backward, are this library's."""

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)


class Softmax(nn.Module):
    """Softmax along a direction."""

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x, self.dim)


class _RowNorm(nn.Module):
    """A norm of the last direction, or of several last ones, which are then one."""

    size: int | tuple[int, ...]
    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def _norm(
        self, call: Callable[..., Tensor | tuple[Tensor, Tensor]], x: Tensor, residual: Tensor | None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """`call` of rows, weight and bias in one piece each; results have the shape of `x`."""
        size = (self.size,) if isinstance(self.size, int) else self.size
        if len(size) == 1 and x.shape[-1:] == size:
            return call(x, residual, self.weight, self.bias)
        if tuple(x.shape[x.dim() - len(size) :]) != size:
            raise DSLValueError(
                f"{type(self).__name__}: x has {list(size)} for its last extents, as the module was made, got "
                f"{list(x.shape)}"
            )
        rows = (None if t is None else t.flatten(-len(size)) for t in (x, residual, self.weight, self.bias))
        made = call(*rows)
        return made.view(x.shape) if isinstance(made, Tensor) else (made[0].view(x.shape), made[1].view(x.shape))


def _size_of(op: str, size: int | Sequence[int]) -> int | tuple[int, ...]:
    """Extents of the directions that a norm is of."""
    if not isinstance(size, (tuple, list)):
        return whole(op, "size", size, 1)
    if not size:
        raise DSLValueError(f"{op}: size is the extent of the last direction, or of several, got {size!r}")
    return tuple(whole(op, "size", each, 1) for each in size)


class RMSNorm(_RowNorm):
    """RMS norm of rows; called with a residual it gives the norm of the sum, and the sum."""

    def __init__(
        self,
        size: int | Sequence[int],
        eps: float = 1e-6,
        elementwise_affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.size, self.eps = _size_of("RMSNorm", size), eps
        made = nn.Parameter(torch.ones(self.size, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", made)
        self.bias = None

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        return self._norm(self._rows, x, residual)

    def _rows(
        self, x: Tensor, residual: Tensor | None, weight: Tensor | None, _: Tensor | None
    ) -> Tensor | tuple[Tensor, Tensor]:
        if residual is None:
            return F.rms_norm(x, weight, self.eps)
        return F.add_rms_norm(x, residual, weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.size}, eps={self.eps}"


class LayerNorm(_RowNorm):
    """Layer norm of rows; called with a residual it gives the norm of the sum, and the sum."""

    def __init__(
        self,
        size: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.size, self.eps = _size_of("LayerNorm", size), eps
        weight = nn.Parameter(torch.ones(self.size, device=device, dtype=dtype)) if elementwise_affine else None
        wanted = elementwise_affine and bias
        shift = nn.Parameter(torch.zeros(self.size, device=device, dtype=dtype)) if wanted else None
        self.register_parameter("weight", weight)
        self.register_parameter("bias", shift)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        return self._norm(self._rows, x, residual)

    def _rows(
        self, x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None
    ) -> Tensor | tuple[Tensor, Tensor]:
        if residual is None:
            return F.layer_norm(x, weight, bias, self.eps)
        return F.add_layer_norm(x, residual, weight, bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.size}, eps={self.eps}"


class GroupNorm(nn.Module):
    """Group norm of (images, channels, ...); called with a residual it gives the norm of the sum, and the sum."""

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        groups: int,
        channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        if whole("GroupNorm", "channels", channels, 1) % whole("GroupNorm", "groups", groups, 1):
            raise DSLValueError(f"GroupNorm: {channels} channels are no {groups} groups of equal size")
        self.groups, self.channels, self.eps = groups, channels, eps
        weight = nn.Parameter(torch.ones(channels, device=device, dtype=dtype)) if affine else None
        shift = nn.Parameter(torch.zeros(channels, device=device, dtype=dtype)) if affine else None
        self.register_parameter("weight", weight)
        self.register_parameter("bias", shift)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        if residual is None:
            return F.group_norm(x, self.groups, self.weight, self.bias, self.eps)
        return F.add_group_norm(x, residual, self.groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.groups}, {self.channels}, eps={self.eps}"


class CrossEntropyLoss(nn.Module):
    """Cross entropy with classes in the last direction."""

    def __init__(self, *, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: str = "mean"):
        super().__init__()
        self.ignore_index, self.label_smoothing, self.reduction = ignore_index, label_smoothing, reduction

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            logits,
            target,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )


class Embedding(nn.Module):
    """Rows of a table by number."""

    def __init__(
        self,
        count: int,
        size: int,
        padding_idx: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.padding_idx = padding_idx
        self.weight = nn.Parameter(torch.randn(count, size, device=device, dtype=dtype))
        if padding_idx is not None:
            with torch.no_grad():
                self.weight[padding_idx] = 0

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight, self.padding_idx)


class SwiGLU(nn.Module):
    """`silu(gate) * up` of two halves of the last direction."""

    def forward(self, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, -1)
        return F.silu_mul(gate, up)


class GeGLU(nn.Module):
    """`gelu(gate) * up` of two halves of the last direction, `approximate` as torch's GELU has it."""

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, -1)
        return F.gelu_mul(gate, up, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


__all__ = ["CrossEntropyLoss", "Embedding", "GeGLU", "GroupNorm", "LayerNorm", "RMSNorm", "Softmax", "SwiGLU"]
