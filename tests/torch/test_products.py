"""Products of `flydsl.torch` on the cpu stack: gradients, transforms, and a layer in place of torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

import flydsl.torch as ft
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.torch import product_operators

SHAPES = [
    ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 5)),
    ((2, 2, 3, 4), (1, 2, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)),
    ((0, 4), (4, 5)), ((2, 3, 0), (0, 5)),
]  # fmt: skip


@pytest.fixture(autouse=True)
def on_the_cpu_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "native")


def both(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[list[torch.Tensor]]:
    """The same random leaves twice."""
    made = [torch.randn(s).to(dtype) for s in shapes]
    return [[t.clone().requires_grad_() for t in made] for _ in range(2)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_as_torch(dtype: torch.dtype):
    # Of sums of 16 bits ours and torch's may round differently, once in the product and once in a sum over a batch.
    close: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.06, "rtol": 0.02}
    for left, right in SHAPES:
        ours, theirs = both(dtype, left, right)
        got, want = ft.matmul(*ours), torch.matmul(*theirs)
        assert got.shape == want.shape and got.dtype == want.dtype
        torch.testing.assert_close(got, want, **close)
        d = torch.randn(want.shape).to(dtype)
        for x, y in zip(torch.autograd.grad(got, ours, d), torch.autograd.grad(want, theirs, d), strict=True):
            torch.testing.assert_close(x, y, **close)


def test_linear_layers():
    for front in ((6,), (2, 3), (), (0, 3)):
        ours, theirs = both(torch.float32, (*front, 8), (5, 8), (5,))
        got, want = ft.linear(*ours), F.linear(*theirs)
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
        d = torch.randn(want.shape)
        for x, y in zip(torch.autograd.grad(got, ours, d), torch.autograd.grad(want, theirs, d), strict=True):
            torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-5)
    layer, other = ft.Linear(8, 5), torch.nn.Linear(8, 5)
    layer.load_state_dict(other.state_dict())
    x = torch.randn(3, 8)
    torch.testing.assert_close(layer(x), other(x), atol=1e-5, rtol=1e-5)


def test_only_wanted_gradients_are_computed(monkeypatch: pytest.MonkeyPatch):
    calls: list[tuple[torch.Size, torch.Size]] = []
    run = product_operators.kernels.matmul

    def counted(a: torch.Tensor, b: torch.Tensor, **options: Any) -> Any:
        calls.append((a.shape, b.shape))
        return run(a, b, **options)

    monkeypatch.setattr(product_operators.kernels, "matmul", counted)
    x, w = torch.randn(2, 3, 8), torch.randn(5, 8, requires_grad=True)
    ft.linear(x, w).sum().backward()
    assert calls == [((2, 3, 8), (8, 5)), ((8, 6), (6, 5))]
    ft.linear(x.requires_grad_(), w.detach()).sum().backward()
    assert calls[2:] == [((2, 3, 8), (8, 5)), ((2, 3, 5), (5, 8))]


def test_gradients_in_double_precision_and_twice():
    def double(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64, requires_grad=True)

    for left, right in SHAPES[:6]:
        assert gradcheck(ft.matmul, (double(*left), double(*right)))
    assert gradcheck(ft.linear, (double(2, 3, 4), double(5, 4), double(5)))
    assert gradgradcheck(ft.matmul, (double(2, 3), double(3, 2)))


def test_compiled_mapped_and_checked_by_torch():
    x, w, b = torch.randn(2, 3, 8, requires_grad=True), torch.randn(5, 8, requires_grad=True), torch.randn(5)
    op: Any = product_operators.matmul
    torch.library.opcheck(op.registered, (x, w.detach().mT.requires_grad_(), b, "ieee"))
    compiled = torch.compile(ft.linear, fullgraph=True, backend="aot_eager")
    for rows in (3, 4):
        t = torch.randn(2, rows, 8, requires_grad=True)
        torch.testing.assert_close(compiled(t, w, b), ft.linear(t, w, b), atol=0, rtol=0)
    exported = torch.export.export(ft.Linear(8, 5), (x,))
    assert "flydsl.matmul" in str(exported.graph)
    xs, ws, bs = torch.randn(4, 3, 8), torch.randn(8, 4, 5), torch.randn(4, 5)
    for dims, args in (
        ((0, 1), (xs, ws)), ((0, None), (xs, ws[:, 0])), ((None, 1), (xs[0], ws)),
        ((0, None), (torch.randn(4, 2, 3, 8), ws[:, 0])),
    ):  # fmt: skip
        got, want = torch.vmap(ft.matmul, dims)(*args), torch.vmap(torch.matmul, dims)(*args)
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    for dims in ((0, None, 0), (None, None, 0), (0, None, None)):
        given = [t if d is not None else t[0] for t, d in zip((xs, None, bs), dims, strict=True) if t is not None]
        args = given[0], torch.randn(5, 8), given[1]
        got, want = torch.vmap(ft.linear, dims)(*args), torch.vmap(F.linear, dims)(*args)
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_autocast():
    x, w = torch.randn(3, 8, requires_grad=True), torch.randn(5, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = ft.linear(x, w)
        assert made.dtype == torch.bfloat16 and ft.matmul(x, w.mT).dtype == torch.bfloat16
    made.float().sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float32 and x.grad.shape == x.shape


def test_what_does_not_fit_is_refused():
    with pytest.raises(DSLValueError, match=r"linear: x is \(\.\.\., in\) and weight \(out, in\)"):
        ft.linear(torch.ones(3, 4), torch.ones(4, 5))
    with pytest.raises(DSLValueError, match="a has 4 columns and b has 5 rows"):
        ft.matmul(torch.ones(3, 4), torch.ones(5, 4))
    with pytest.raises(DSLTypeError, match="one type"):
        ft.matmul(torch.ones(3, 4), torch.ones(4, 5).half())
    with pytest.raises(DSLValueError, match="a dimension at least"):
        ft.matmul(torch.tensor(1.0), torch.ones(4))


def test_tensors_without_memory():
    """They have the shapes, types and gradients of others, and are refused what the others are."""

    def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    x = meta(2, 3, 4).requires_grad_()
    made = ft.linear(x, meta(5, 4), meta(5))
    assert made.shape == (2, 3, 5) and made.is_meta
    made.sum().backward()
    assert x.grad is not None and x.grad.is_meta
    for dtype in (torch.int8, torch.float8_e4m3fn, torch.float16):
        real = ft.matmul(torch.ones(2, 4).to(dtype), torch.ones(4, 5).to(dtype))
        assert ft.matmul(meta(2, 4, dtype=dtype), meta(4, 5, dtype=dtype)).dtype == real.dtype
    with pytest.raises(DSLValueError, match="a has 4 columns and b has 5 rows"):
        ft.matmul(meta(3, 4), meta(5, 4))
    with pytest.raises(DSLTypeError, match="one type"):
        ft.matmul(meta(3, 4), meta(4, 5, dtype=torch.float16))
    with pytest.raises(DSLValueError, match="precision is one of"):
        ft.matmul(meta(3, 4), meta(4, 5), precision="best")


def test_memory_beside_none_is_refused():
    """The result would be memory that nobody wrote."""
    with pytest.raises(DSLValueError, match="matmul: a is on cpu and b on meta"):
        ft.matmul(torch.ones(3, 4), torch.empty(4, 5, device="meta"))
    with pytest.raises(DSLValueError, match="rms_norm: x is on cpu and weight on meta"):
        ft.rms_norm(torch.ones(3, 4), torch.empty(4, device="meta"))
