"""Jit functions as operators of torch: schema, fake tensors, torch.compile, graphs."""

from __future__ import annotations

import itertools

import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.extension.torch_op import torch_op
from flydsl.kernels.rows import rms_norm, softmax

_numbers = itertools.count()


def fresh(name: str) -> str:
    """A name no other test has taken: operators live as long as the process."""
    return f"flydsl_test::{name}_{next(_numbers)}"


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", request.param)
    return request.param


@flyc.kernel
def scale_kernel(x: fx.Tensor, by: fx.Float32, n: fx.Int32, double: fx.Constexpr[bool]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        x[i] = x[i] * by * (2.0 if double else 1.0)


@flyc.jit
def scale(x: fx.Tensor, by: fx.Float32 = 3.0, double: fx.Constexpr[bool] = False, stream: fx.Stream = fx.Stream(None)):
    n = fx.Int32(x.shape.unpack()[0])
    scale_kernel(x, by, n, double).launch(grid=fx.ceildiv(n, 64), block=64, stream=stream)


def test_results_are_allocated(device: str):
    op = torch_op(fresh("softmax"), softmax, results={"out": "x"})
    x = torch.randn(5, 100, device=device)
    torch.testing.assert_close(op(x), torch.softmax(x, -1), rtol=1e-5, atol=1e-6)
    torch.library.opcheck(op, (x,))
    fake = torch.empty(3, 7, device="meta")
    assert op(fake).shape == (3, 7)


def test_arguments_are_changed(device: str):
    op = torch_op(fresh("scale"), scale, mutates=["x"])
    assert "Tensor(a0!) x" in str(op._opoverload._schema) and "float by=3" in str(op._opoverload._schema)
    x = torch.ones(100, device=device)
    assert op(x) is None
    op(x, 0.5, double=True)
    assert (x == 3).all()
    torch.library.opcheck(op, (torch.ones(100, device=device), 2.0, True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_compile(device: str):
    """One graph, static and dynamic shapes."""
    first = torch_op(fresh("rms"), rms_norm, results={"out": "x"})
    second = torch_op(fresh("softmax"), softmax, results={"out": "x"})

    def model(x, w):
        return second(first(x * 2, w, 1e-5)) + 1

    def reference(x, w):
        return torch.softmax(torch.nn.functional.rms_norm(x * 2, (x.shape[1],), w, 1e-5), -1) + 1

    # Inductor itself where it is at home; on a machine without a C++ compiler graphs are still traced and lowered.
    compiled = torch.compile(model, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    for m, n in ((5, 100), (7, 100), (9, 33)):
        x, w = torch.randn(m, n, device=device), torch.randn(n, device=device)
        torch.testing.assert_close(compiled(x, w), reference(x, w), rtol=1e-5, atol=1e-5)


def test_adapted_arguments_and_made_results(device: str):
    """`adapt` promises more of the tensors (a constant grid here); a result can have any shape and type."""

    @flyc.kernel
    def widen_kernel(x: fx.Tensor, out: fx.Tensor):
        i = fx.block_idx.x * 4 + fx.thread_idx.x
        out[i, 0] = fx.Float32(x[i])
        out[i, 1] = fx.Float32(x[i]) + 1.0

    @flyc.jit
    def widen(x: fx.Tensor, out: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        widen_kernel(x, out).launch(grid=x.shape.unpack()[0] // 4, block=4, stream=stream)

    op = torch_op(
        fresh("widen"), widen, results={"out": lambda x: torch.empty(x.shape[0], 2, device=x.device)},
        adapt=flyc.from_torch_tensor,
    )  # fmt: skip
    x = torch.randn(16, device=device).half()
    assert torch.equal(op(x), torch.stack([x.float(), x.float() + 1], 1))


@pytest.mark.cuda
def test_graph_capture(monkeypatch: pytest.MonkeyPatch):
    """The operator's launch joins the capture, results come from the graph's pool."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    op = torch_op(fresh("softmax"), softmax, results={"out": "x"})
    x = torch.randn(5, 100, device="cuda")
    op(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = op(x)
    x.copy_(torch.randn(5, 100))
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(y, torch.softmax(x, -1), rtol=1e-5, atol=1e-6)


def test_mistakes():
    with pytest.raises(ValueError, match="say which tensors are written"):
        torch_op(fresh("bad"), softmax)
    with pytest.raises(ValueError, match="no tensor parameter 'y'; there are x, out"):
        torch_op(fresh("bad"), softmax, results={"y": "x"})
    with pytest.raises(ValueError, match="to be like 'z', which is no tensor argument"):
        torch_op(fresh("bad"), softmax, results={"out": "z"})
    with pytest.raises(ValueError, match="cannot be a result and an argument"):
        torch_op(fresh("bad"), softmax, results={"out": "x"}, mutates=["out"])
    with pytest.raises(TypeError, match="decorated with @flyc.jit"):
        torch_op(fresh("bad"), lambda x: x, mutates=["x"])

    @flyc.jit
    def odd(x: fx.Tensor, what: fx.Constexpr[tuple]):
        pass

    with pytest.raises(TypeError, match="parameter 'what' is annotated"):
        torch_op(fresh("bad"), odd, mutates=["x"])

    @flyc.jit
    def endless(x: fx.Tensor, by: fx.Float32 = float("inf")):
        pass

    @flyc.jit
    def lines(x: fx.Tensor, what: fx.Constexpr[str] = "two\nlines"):
        pass

    for function, words in ((endless, "'by' has the default inf"), (lines, "'what' has the default 'two")):
        with pytest.raises(TypeError, match=f"parameter {words}.* which a schema of torch cannot hold"):
            torch_op(fresh("bad"), function, mutates=["x"])
