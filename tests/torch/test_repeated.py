"""Calls like one before: they skip the look at their arguments, and must give what the first one gave."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

from flydsl import kernels  # noqa: E402
from flydsl.compiler.call.alike import likeness  # noqa: E402
from flydsl.errors import DSLTypeError, DSLValueError  # noqa: E402
from flydsl.kernels import repeats  # noqa: E402

N = 48


def flat() -> Any:
    return torch.randn(6, N)


def deep() -> Any:
    return torch.randn(2, 3, N)


def apart() -> Any:
    """Rows with gaps between them."""
    return torch.randn(6, 2 * N)[:, :N]


def unaligned() -> Any:
    return torch.randn(6 * N + 1)[1:].view(6, N)


def turned() -> Any:
    """Rows that are columns in memory: each call copies them."""
    return torch.randn(N, 6).T


LAYOUTS = (flat, deep, apart, unaligned, turned)


def norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x.double(), (N,), w.double(), b.double(), 1e-5)


CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "softmax": (lambda x, w, b: kernels.softmax(x), lambda x, w, b: torch.softmax(x.double(), -1)),
    "rms_norm": (
        lambda x, w, b: kernels.rms_norm(x, w, eps=1e-3),
        lambda x, w, b: F.rms_norm(x.double(), (N,), w.double(), 1e-3),
    ),
    "layer_norm": (lambda x, w, b: kernels.layer_norm(x, w, b), norm),
    "with a residual": (lambda x, w, b: kernels.layer_norm(x, w, b, residual=x)[0], lambda x, w, b: norm(x + x, w, b)),
}


@pytest.mark.parametrize("often", [1, repeats.OFTEN])
@pytest.mark.parametrize("name", CALLS)
def test_every_layout_in_turn(name: str, often: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(repeats, "OFTEN", often)
    repeats._calls.clear()  # pyright: ignore[reportPrivateUsage]
    ours, theirs = CALLS[name]
    before = len(repeats._calls)  # pyright: ignore[reportPrivateUsage]
    for _ in range(3):
        for layout in LAYOUTS:
            x, w, b = layout(), torch.randn(N), torch.randn(N)
            made = ours(x, w, b)
            torch.testing.assert_close(made.double(), theirs(x, w, b), atol=1e-5, rtol=1e-5)
            assert made.is_contiguous() and made.shape == x.shape
            w = torch.nn.Parameter(w)
            torch.testing.assert_close(ours(x, w, b).double(), theirs(x, w, b).detach(), atol=1e-5, rtol=1e-5)
    # All but the layout that is copied are known, of tensors and of parameters, and none anew each time.
    assert 0 < len(repeats._calls) - before <= 2 * (len(LAYOUTS) - 1)  # pyright: ignore[reportPrivateUsage]


def test_calls_that_come_often_are_known_natively():
    x = torch.randn(7, 50)
    if likeness((x,)) is None:
        pytest.skip("this Python's or torch's objects are laid out otherwise")
    repeats._calls.clear()  # pyright: ignore[reportPrivateUsage]
    repeats.latest.clear()
    for number in range(repeats.OFTEN + 2):
        made = kernels.softmax(x)
        torch.testing.assert_close(made, torch.softmax(x, -1))
        if number == 0:
            assert not repeats.latest
            continue
        read, table, *_ = repeats.latest["softmax", None]
        assert bool(table) == (number > repeats.OFTEN - 1) == read(table, 0, x), number
    assert repeats.again("softmax", None, x) is not None
    for other in (x.double(), x[:3], x.T, torch.randn(8, 50), torch.nn.Parameter(x)):
        assert repeats.again("softmax", None, other) is None


def test_constants_are_asked_for_what_they_are():
    """Whatever came before: a number of another class is refused as in a first call, and so is what has no hash."""
    x, target = torch.randn(4, 6, 5), torch.zeros(4, dtype=torch.int64)
    for _ in range(repeats.OFTEN + 2):
        kernels.group_norm(x, 2)
        kernels.cross_entropy(x[:, :, 0], target)
    with pytest.raises(DSLTypeError, match="groups is a whole number"):
        kernels.group_norm(x, 2.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DSLTypeError, match="ignore_index"):
        kernels.cross_entropy(x[:, :, 0], target, ignore_index=[1])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DSLValueError, match="activation is one of"):
        kernels.gated(x, x, activation=["silu"])  # pyright: ignore[reportArgumentType]


def test_what_is_kept_has_an_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(repeats, "_MOST", 5)
    x = torch.randn(4, 6, 5)
    for i in range(20):
        for _ in range(2):
            kernels.group_norm(x, 2, eps=1e-5 * (i + 1))
        assert len(repeats.latest) <= 5


def test_a_call_of_another_environment_is_another(monkeypatch: pytest.MonkeyPatch):
    x = torch.randn(7, 50)
    monkeypatch.setattr(repeats, "OFTEN", 1)
    for _ in range(3):
        kernels.softmax(x)
    assert repeats.again("softmax", None, x) is not None
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    assert repeats.again("softmax", None, x) is None
    torch.testing.assert_close(kernels.softmax(x), torch.softmax(x, -1))


def test_a_call_does_not_hold_its_tensors():
    x = flat()
    kept = x.clone()
    for scale in (1.0, 2.0, 3.0):
        given = kept * scale
        torch.testing.assert_close(kernels.softmax(given), torch.softmax(given, -1))
    first, second = kernels.softmax(x), kernels.softmax(x)
    assert first.data_ptr() != second.data_ptr()
    watched = [weakref.ref(t) for t in (x, first, second)]
    del x, first, second
    assert [t() for t in watched] == [None] * 3


def test_gradients_of_every_layout(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(repeats, "OFTEN", 1)
    for _ in range(2):
        for layout in LAYOUTS:
            x, dy, w = layout(), layout(), torch.randn(N)
            d = x.double().requires_grad_()
            y = torch.softmax(d, -1)
            (want,) = torch.autograd.grad(y, d, dy.double())
            made = kernels.softmax_backward(y.detach().float(), dy)
            torch.testing.assert_close(made.double(), want, atol=1e-5, rtol=1e-5)
            weight = w.double().requires_grad_()
            want = torch.autograd.grad(F.rms_norm(d, (N,), weight, 1e-6), (d, weight), dy.double())
            scale = torch.rsqrt((x * x).mean(-1) + 1e-6).reshape(-1)
            found = kernels.rms_norm_backward(dy, x, w, scale)
            torch.testing.assert_close(found.x.double(), want[0], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(found.weight.double(), want[1], atol=1e-5, rtol=1e-5)
            assert found.bias is None


def test_what_is_refused_stays_refused():
    x = flat()
    kernels.rms_norm(x, torch.randn(N))
    with pytest.raises(ValueError, match="weight has the shape"):
        kernels.rms_norm(x, torch.randn(N - 1))
    with pytest.raises(TypeError, match="float"):
        kernels.softmax(x.to(torch.int32))
    made = kernels.softmax(torch.empty(0, N))
    assert made.shape == (0, N) and kernels.softmax(torch.empty(0, N)).shape == (0, N)


@pytest.mark.parametrize("often", [1, 100])
def test_a_freed_storage_is_refused(often: int, monkeypatch: pytest.MonkeyPatch):
    """Also by calls that ask nothing of their tensors any more; arrays without elements have no memory either."""
    monkeypatch.setattr(repeats, "OFTEN", often)
    x = flat()
    for _ in range(10):
        kernels.softmax(x)
    x.untyped_storage().resize_(0)
    for _ in range(3):
        with pytest.raises(DSLTypeError, match="has no memory"):
            kernels.softmax(x)
        assert kernels.softmax(x[:0]).shape == (0, N)
