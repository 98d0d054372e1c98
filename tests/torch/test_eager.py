"""The short way of operators in eager mode: the same numbers and gradients, and whoever looks sees the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import flydsl.torch as ft  # noqa: E402
from flydsl.errors import DSLTypeError  # noqa: E402
from flydsl.torch import operators  # noqa: E402

X, W, B = (torch.randn(shape, dtype=torch.float64) for shape in ((5, 24), (24,), (24,)))
CALLS: list[tuple[Callable[..., Any], str, tuple[Any, ...], tuple[Any, ...]]] = [
    (operators.softmax, "softmax", (X,), (False,)),
    (operators.rms_norm, "rms_norm", (X, W), (1e-6,)),
    (operators.layer_norm, "layer_norm", (X, W, B), (1e-5,)),
]


@pytest.mark.parametrize(("short", "name", "tensors", "rest"), CALLS)
def test_same_numbers_and_gradients_as_the_operator(
    short: Callable[..., Any], name: str, tensors: tuple[Any, ...], rest: tuple[Any, ...]
):
    def run(op: Callable[..., Any]) -> list[Any]:
        leaves = [t.clone().requires_grad_() for t in tensors]
        made = op(*leaves, *rest)
        out = made[0] if isinstance(made, tuple) else made
        return [out, *torch.autograd.grad(out, leaves, torch.cos(X))]

    long = getattr(torch.ops.flydsl, name).default
    for got, want in zip(run(short), run(long), strict=True):
        assert torch.equal(got, want) and got.stride() == want.stride()
    made = short(*tensors, *rest)
    assert not (made[0] if isinstance(made, tuple) else made).requires_grad


def _seen(call: Callable[[], object]) -> list[str]:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Looks(TorchDispatchMode):
        names: list[str] = []  # noqa: RUF012

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Looks() as mode:
        call()
    return mode.names


def test_whoever_looks_sees_the_operator():
    assert "flydsl.softmax.default" in _seen(lambda: ft.softmax(X))
    assert ft.softmax(X.to("meta")).is_meta

    class Marked(torch.Tensor):
        pass

    assert type(ft.softmax(X.as_subclass(Marked))) is Marked


def test_what_the_operator_refuses_stays_refused():
    x = X.clone().requires_grad_()
    first = torch.autograd.grad(ft.softmax(x).square().sum(), x, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="softmax_backward"):
        torch.autograd.grad(first.sum(), x)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_forward_mode_is_refused():
    """A tangent that got lost would be a wrong derivative without a word."""
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(X, torch.ones_like(X))
        with pytest.raises(DSLTypeError, match="forward mode"):
            ft.softmax(dual)
        assert ft.softmax(X).shape == X.shape


def test_recorded_for_hooks_and_checkpoints():
    from torch.utils.checkpoint import checkpoint

    x = X.clone().requires_grad_()
    want = torch.autograd.grad(ft.rms_norm(x, W).square().sum(), x)[0]
    got = torch.autograd.grad(checkpoint(ft.rms_norm, x, W, use_reentrant=False).square().sum(), x)[0]  # type: ignore[union-attr]
    assert torch.equal(got, want)
    with torch.inference_mode():
        assert torch.equal(ft.rms_norm(X, W), ft.rms_norm(x, W).detach())
