"""`flydsl.torch.op`: a user's jit function and its gradient as an operator."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.autograd import gradcheck

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.torch as ft
from flydsl.errors import DSLTypeError, DSLValueError

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def on_the_cpu_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")


def fresh() -> str:
    return f"flydsl_tests_op::f{next(_numbers)}"


@flyc.kernel
def axpy_kernel(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, a: fx.Float64):
    at = fx.block_idx.x
    out[at] = x[at] * x[at] * x.dtype(a) + y[at]


@flyc.jit
def axpy(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, a: fx.Float64, stream: fx.Stream = fx.Stream(None)):
    axpy_kernel(x, y, out, a).launch(grid=x.shape.unpack()[0], block=1, stream=stream)


@flyc.kernel
def axpy_back_kernel(dout: fx.Tensor, x: fx.Tensor, dx: fx.Tensor, dy: fx.Tensor, a: fx.Float64):
    at = fx.block_idx.x
    dx[at] = dout[at] * x[at] * x.dtype(a) * 2.0
    dy[at] = dout[at]


@flyc.jit
def axpy_back(
    dout: fx.Tensor, x: fx.Tensor, a: fx.Float64, dx: fx.Tensor, dy: fx.Tensor, stream: fx.Stream = fx.Stream(None)
):
    axpy_back_kernel(dout, x, dx, dy, a).launch(grid=x.shape.unpack()[0], block=1, stream=stream)


def test_gradient_by_a_jit_function():
    op = ft.op(fresh(), results={"out": "x"}, backward=axpy_back)(axpy)
    x, y = (torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    torch.testing.assert_close(op(x, y, 3.0), 3 * x * x + y)
    assert gradcheck(lambda x, y: op(x, y, 1.5), (x, y))
    compiled = torch.compile(lambda x, y: op(x, y, 2.0).sum(), fullgraph=True, backend="aot_eager")
    (dx,) = torch.autograd.grad(compiled(x, y), x)
    torch.testing.assert_close(dx, 4 * x)
    torch.library.opcheck(op, (x, y, 1.0))


def test_gradient_by_a_python_function():
    def back(values, grads):
        return {"x": grads["out"] * values["x"] * 2 * values["a"], "y": grads["out"]}

    op = ft.op(fresh(), results={"out": "x"}, backward=back)(axpy)
    x, y = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert gradcheck(lambda x, y: op(x, y, 0.5), (x, y))
    wrong = ft.op(fresh(), results={"out": "x"}, backward=lambda values, grads: {"z": grads["out"]})(axpy)
    with pytest.raises(DSLValueError, match="gave a gradient of 'z'"):
        wrong(x, y, 1.0).sum().backward()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_forward_mode_is_refused():
    """A tangent that got lost would be a derivative of 0 without a word."""
    name = fresh()
    op = ft.op(name, results={"out": "x"}, backward=axpy_back)(axpy)
    plain = ft.op(fresh(), results={"out": "x"})(axpy)
    x = torch.randn(3, dtype=torch.float64)
    found = getattr(torch.ops.flydsl_tests_op, name.split("::")[1])
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        for call in (op, plain, found):
            with pytest.raises(DSLTypeError, match="has no derivative in forward mode"):
                call(x, dual, 1.0)
        torch.testing.assert_close(op(x, x, 1.0), x * x + x)


def test_a_jit_function_inside_a_compiled_one():
    """Dynamo makes an ordinary call of it, and sees neither its trace nor the compiler."""
    callbacks: list[object] = []

    @flyc.jit
    def watched(x: fx.Tensor, out: fx.Tensor):
        callbacks.append(torch._C._dynamo.eval_frame.get_eval_frame_callback())
        axpy_kernel(x, x, out, fx.Float64(1.0)).launch(grid=x.shape.unpack()[0], block=1)

    def model(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        watched(x + 1, out)
        return out - 1

    x = torch.randn(3, dtype=torch.float64)
    compiled = torch.compile(model, backend="eager")
    for _ in range(3):
        torch.testing.assert_close(compiled(x), (x + 1) ** 2 + x)
    assert callbacks and not any(callbacks)


def test_mistakes():
    @flyc.jit
    def nothing(dout: fx.Tensor, x: fx.Tensor):
        pass

    @flyc.jit
    def strange(dout: fx.Tensor, weight: fx.Tensor, dx: fx.Tensor):
        pass

    @flyc.jit
    def blind(a: fx.Float64, dx: fx.Tensor):
        pass

    for backward, words in (
        (nothing, "backward writes none of dx, dy"),
        (strange, "a parameter 'weight', which is none of dout, x, y, a, out"),
        (blind, "takes no 'x', which the gradient dx is like"),
    ):
        with pytest.raises(DSLValueError, match=words):
            ft.op(fresh(), results={"out": "x"}, backward=backward)(axpy)
    with pytest.raises(DSLTypeError, match="a jit function or a Python function, got 3"):
        ft.op(fresh(), results={"out": "x"}, backward=3)(axpy)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DSLValueError, match="changes 'out' in place has no gradient"):
        ft.op(fresh(), mutates=["out"], backward=axpy_back)(axpy)


def test_a_gradient_of_another_shape_than_its_argument_is_refused():
    @flyc.jit
    def back(dout: fx.Tensor, dx: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        axpy_kernel(dout, dout, dx, fx.Float64(0.0)).launch(grid=dx.shape.unpack()[0], block=1, stream=stream)

    @flyc.jit
    def shorter(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        axpy_kernel(x, y, out, fx.Float64(0.0)).launch(grid=out.shape.unpack()[0], block=1, stream=stream)

    op = ft.op(fresh(), results={"out": "y"}, backward=back)(shorter)
    y = torch.randn(3, dtype=torch.float64)
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    op(x, y).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones_like(x))
    with pytest.raises(DSLValueError, match="dx would have the shape of dout, which is not that of 'x'"):
        op(torch.randn(5, dtype=torch.float64, requires_grad=True), y).sum().backward()


@flyc.kernel
def gated_kernel(x: fx.Tensor, w: fx.Tensor | None, y: fx.Tensor):
    i = fx.block_idx.x
    value = x[i]
    if w is not None:
        value = value * w[i]
    y[i] = value


@flyc.jit
def gated(x: fx.Tensor, w: fx.Tensor | None, y: fx.Tensor, queue: fx.Stream = fx.Stream(None)):
    gated_kernel(x, w, y).launch(grid=x.shape.unpack()[0], block=1, stream=queue)


def test_a_stream_of_any_name_and_an_argument_left_out():
    @flyc.jit
    def back(dy: fx.Tensor, w: fx.Tensor | None, x: fx.Tensor, dw: fx.Tensor, queue: fx.Stream = fx.Stream(None)):
        gated_kernel(dy, x, dw).launch(grid=x.shape.unpack()[0], block=1, stream=queue)

    op = ft.op(fresh(), results={"y": "x"}, backward=back)(gated)
    x, w = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    op(x, w).sum().backward()
    assert w.grad is not None and torch.equal(w.grad, x.detach())
    with pytest.raises(DSLValueError, match="'w' was left out, and backward is a jit function that writes .* dw"):
        op(x, None).sum().backward()


def test_a_gradient_that_is_no_mapping():
    op = ft.op(fresh(), results={"y": "x"}, backward=lambda values, grads: [grads["y"]])(gated)
    with pytest.raises(DSLTypeError, match="backward gives {argument: its gradient}, got "):
        op(torch.randn(3, dtype=torch.float64, requires_grad=True), None).sum().backward()
