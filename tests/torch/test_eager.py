"""The short way of operators in eager mode: the same numbers and gradients, and whoever looks sees the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import flydsl.torch as ft  # noqa: E402
from flydsl.errors import DSLTypeError  # noqa: E402
from flydsl.kernels import repeats  # noqa: E402
from flydsl.torch import operators  # noqa: E402


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch):  # pyright: ignore[reportUnusedFunction]
    """Calls are known natively when they come for the second time."""
    monkeypatch.setattr(repeats, "OFTEN", 1)


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
        with pytest.raises(DSLTypeError, match="flydsl::softmax has no derivative in forward mode"):
            torch.ops.flydsl.softmax(dual, False)
        assert ft.softmax(X).shape == X.shape


def test_recorded_for_hooks_and_checkpoints():
    from torch.utils.checkpoint import checkpoint

    x = X.clone().requires_grad_()
    want = torch.autograd.grad(ft.rms_norm(x, W).square().sum(), x)[0]
    got = torch.autograd.grad(checkpoint(ft.rms_norm, x, W, use_reentrant=False).square().sum(), x)[0]  # type: ignore[union-attr]
    assert torch.equal(got, want)
    with torch.inference_mode():
        assert torch.equal(ft.rms_norm(X, W), ft.rms_norm(x, W).detach())


# --- gradients of calls like one before -------------------------------------------------------------------------------

OPS: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    "softmax": (lambda x: ft.softmax(x), lambda x: torch.softmax(x, -1), 1),
    "log_softmax": (lambda x: ft.log_softmax(x), lambda x: torch.log_softmax(x, -1), 1),
    "rms_norm": (
        lambda x, w: ft.rms_norm(x, w, 0.5),
        lambda x, w: torch.nn.functional.rms_norm(x, w.shape, w, 0.5),
        2,
    ),
    "rms_norm of no weight": (ft.rms_norm, lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:], None, 1e-6), 1),
    "layer_norm": (
        lambda x, w, b: ft.layer_norm(x, w, b, 0.5),
        lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b, 0.5),
        3,
    ),
    "layer_norm of no bias": (ft.layer_norm, lambda x, w: torch.nn.functional.layer_norm(x, w.shape, w), 2),
    "gated": (lambda x: ft.silu_mul(x, x + 1), lambda x: torch.nn.functional.silu(x) * (x + 1), 1),
}
SHAPES = ((5, 24), (2, 3, 24), (7, 33), (5, 24), (1, 24))


def _leaves(count: int, shape: tuple[int, ...], dtype: Any = torch.float32) -> list[Any]:
    n = shape[-1]
    return [torch.randn(s).to(dtype).requires_grad_() for s in (shape, (n,), (n,))[:count]]


def _given(shape: tuple[int, ...]) -> list[Any]:
    """Gradients as they come: in one piece, turned, of a sum, beside a unit, and with gaps."""
    flat, size = torch.randn(shape), 1
    for extent in shape:
        size *= extent
    turned = torch.randn(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2)
    gaps = torch.randn(*shape[:-1], 2 * shape[-1])[..., ::2]
    return [flat, turned, torch.randn(1).expand(shape), torch.randn(size + 1)[1:].view(shape), gaps, flat]


@pytest.mark.parametrize("name", OPS)
def test_gradients_of_changing_calls(name: str):
    """Shapes, layouts and types change from call to call: each gets what is its own."""
    ours, theirs, count = OPS[name]
    for dtype in (torch.float32, torch.float64):
        for shape in SHAPES:
            leaves = _leaves(count, shape, dtype)
            wide = [x.detach().double().requires_grad_() for x in leaves]
            y, want = ours(*leaves), theirs(*wide)
            torch.testing.assert_close(y.double(), want, atol=1e-5, rtol=1e-5)
            for dy in _given(shape):
                got = torch.autograd.grad(y, leaves, dy.to(dtype), retain_graph=True)
                expected = torch.autograd.grad(want, wide, dy.double(), retain_graph=True)
                for a, b, x in zip(got, expected, leaves, strict=True):
                    assert a.dtype == x.dtype and a.shape == x.shape
                    torch.testing.assert_close(a.double(), b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", OPS)
def test_gradients_share_no_memory(name: str):
    ours, _, count = OPS[name]
    leaves = _leaves(count, (5, 24))
    y, dy = ours(*leaves), torch.randn(5, 24)
    before = dy.clone(), [x.detach().clone() for x in leaves]
    made = [torch.autograd.grad(y, leaves, dy, retain_graph=True) for _ in range(3)]
    kept = [t.clone() for t in made[0]]
    for t in made[1] + made[2]:
        t.fill_(float("nan"))
    assert all(torch.equal(a, b) for a, b in zip(made[0], kept, strict=True))
    assert torch.equal(dy, before[0]) and all(torch.equal(a, b) for a, b in zip(leaves, before[1], strict=True))


@pytest.mark.parametrize("name", OPS)
def test_whoever_looks_sees_the_operator_of_the_gradient(name: str):
    ours, _, count = OPS[name]
    leaves, dy = _leaves(count, (5, 24)), torch.randn(5, 24)
    y = ours(*leaves)
    run = lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True)  # noqa: E731
    want = [run() for _ in range(3)][-1]
    operator = f"flydsl.{name.split(' ')[0].removeprefix('log_')}_backward.default"
    assert operator in _seen(run)
    assert all(torch.equal(a, b) for a, b in zip(run(), want, strict=True))


@pytest.mark.parametrize("name", OPS)
def test_no_gradient_has_a_gradient(name: str):
    ours, _, count = OPS[name]
    leaves, dy = _leaves(count, (5, 24)), torch.randn(5, 24)
    y = ours(*leaves)
    for _ in range(3):
        torch.autograd.grad(y, leaves, dy, retain_graph=True)
    first = torch.autograd.grad(y, leaves, dy, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="_backward"):
        torch.autograd.grad(first.sum(), leaves[0])


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_tangents_of_gradients_are_refused():
    x, dy = X.float().requires_grad_(), torch.randn(5, 24)
    y = ft.softmax(x)
    for _ in range(3):
        torch.autograd.grad(y, x, dy, retain_graph=True)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(dy, torch.ones_like(dy))
        with pytest.raises(DSLTypeError, match="forward mode"):
            torch.autograd.grad(y, x, dual, retain_graph=True)


def test_saved_tensors_that_come_back_otherwise():
    """Hooks may hand back tensors of other strides, or of a class of their own."""

    class Marked(torch.Tensor):
        pass

    def turned(t: Any) -> Any:
        return t.T.contiguous().T if t.dim() == 2 else t.clone()

    for unpack in (turned, lambda t: t.clone().as_subclass(Marked), lambda t: torch.cat((t.new_zeros(1), t.flatten()))[
        1:
    ].view(t.shape)):  # fmt: skip
        x, w = _leaves(2, (5, 24))
        dy = torch.randn(5, 24)
        plain = ft.rms_norm(x, w)
        want = [torch.autograd.grad(plain, (x, w), dy, retain_graph=True) for _ in range(3)][-1]
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            y = ft.rms_norm(x, w)
        for _ in range(2):
            got = torch.autograd.grad(y, (x, w), dy, retain_graph=True)
            for a, b in zip(got, want, strict=True):
                torch.testing.assert_close(a.as_subclass(torch.Tensor), b)


def test_what_a_transform_has_left():
    """Tensors of a function transform that is over are unwrapped where their class does not tell."""
    left: list[Any] = []

    def keep(x: Any) -> Any:
        left.append(x)
        return x.sum()

    torch.func.grad(keep)(X)
    w = W.clone().requires_grad_()
    for _ in range(2):
        assert torch.equal(ft.rms_norm(left[0], w), ft.rms_norm(X, w))
        assert torch.equal(ft.rms_norm(left[0], W), ft.rms_norm(X, W))


def test_gradients_on_other_threads():
    from concurrent.futures import ThreadPoolExecutor

    def work(number: int) -> bool:
        shape = SHAPES[number % len(SHAPES)]
        x, w = _leaves(2, shape, torch.float64)
        dy = torch.randn(shape, dtype=torch.float64)
        got = torch.autograd.grad(ft.rms_norm(x, w), (x, w), dy)
        want = torch.autograd.grad(torch.nn.functional.rms_norm(x, w.shape, w, 1e-6), (x, w), dy)
        return all(torch.allclose(a, b) for a, b in zip(got, want, strict=True))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(60)))


# --- operators of other tensors ---------------------------------------------------------------------------------------


def _entropy(batch: int, wide: bool) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    rows = (batch, 3) if wide else (batch,)
    target = torch.randint(0, 33, rows)
    target.view(-1)[1:2] = -100
    reduction = "none" if wide else "mean"

    def theirs(x: Any) -> Any:
        made = torch.nn.functional.cross_entropy(x.reshape(-1, 33), target.view(-1), reduction=reduction)
        return made.view(rows) if wide else made

    return lambda x: ft.cross_entropy(x, target, reduction=reduction), theirs, [torch.randn(*rows, 33)]


def _group(batch: int, wide: bool) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    shape = (batch, 6, 4, 5) if wide else (batch, 6, 8)
    given = [torch.randn(shape), *((torch.randn(6), torch.randn(6)) if wide else ())]
    return lambda *t: ft.group_norm(t[0], 2, *t[1:]), lambda *t: torch.nn.functional.group_norm(t[0], 2, *t[1:]), given


def _rope(batch: int, wide: bool) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    angle = torch.rand(16, 4)
    positions = torch.randint(0, 16, (batch, 5)) if wide else None
    q, k = torch.randn(batch, 5, 3, 8), torch.randn(batch, 5, 2, 8)

    def theirs(q: Any, k: Any) -> Any:
        at = (angle[:5].expand(batch, 5, 4) if positions is None else angle[positions])[:, :, None].to(q.dtype)
        both = torch.cat((q, k), 2)
        a, b = both[..., :4], both[..., 4:]
        return torch.cat((a * at.cos() - b * at.sin(), b * at.cos() + a * at.sin()), -1)

    def ours(q: Any, k: Any) -> Any:
        return torch.cat(ft.rope(q, k, angle.cos(), angle.sin(), positions=positions), 2)

    return ours, theirs, [q, k]


def _embedding(batch: int, wide: bool) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    ids = torch.randint(0, 9, (batch, 4) if wide else (batch,))
    table = torch.randn(9, 24 + batch)
    return lambda t: ft.embedding(ids, t), lambda t: torch.nn.functional.embedding(ids, t), [table]


MORE = {"cross_entropy": _entropy, "group_norm": _group, "rope": _rope, "embedding": _embedding}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", MORE)
def test_more_gradients_of_changing_calls(name: str, wide: bool):
    for batch in (4, 4, 4, 5, 1, 4):
        ours, theirs, given = MORE[name](batch, wide)
        for dtype in (torch.float32, torch.float64):
            leaves = [t.to(dtype).requires_grad_() for t in given]
            exact = [t.double().requires_grad_() for t in given]
            want = theirs(*exact)
            for turn in range(3):
                y = ours(*leaves)
                torch.testing.assert_close(y.double(), want, atol=1e-5, rtol=1e-5)
                dy = torch.randn(y.shape) if turn else torch.randn(()).expand(y.shape)
                got = torch.autograd.grad(y, leaves, dy.to(dtype), retain_graph=True)
                expected = torch.autograd.grad(want, exact, dy.double(), retain_graph=True)
                for a, b in zip(got, expected, strict=True):
                    torch.testing.assert_close(a.double(), b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", MORE)
def test_whoever_looks_sees_more_operators(name: str):
    ours, _, given = MORE[name](4, False)
    leaves = [t.requires_grad_() for t in given]
    y = ours(*leaves)
    run = lambda: torch.autograd.grad(y, leaves, torch.ones_like(y), retain_graph=True)  # noqa: E731
    want = [run() for _ in range(3)][-1]
    assert f"flydsl.{name}{'' if name == 'rope' else '_backward'}.default" in _seen(run)
    assert f"flydsl.{name}.default" in _seen(lambda: ours(*leaves))
    assert all(torch.equal(a, b) for a, b in zip(run(), want, strict=True))
    if name != "rope":  # turned back and forth, it has all derivatives
        first = torch.autograd.grad(y, leaves, torch.ones_like(y), create_graph=True)[0]
        with pytest.raises(RuntimeError, match="_backward|does not require grad"):
            torch.autograd.grad(first.sum(), leaves[0])


def test_known_from_inference_mode():
    """What was met first in inference mode can be differentiated later."""
    x, w, b = _leaves(3, (6, 40))
    with torch.inference_mode():
        for _ in range(3):
            operators.layer_norm(x, w, b, 1e-5)
            operators.layer_norm_backward(x, x, w, x[:, 0].contiguous(), x[:, 1].contiguous(), None, [True] * 3)
    y = ft.layer_norm(x, w, b)
    made = torch.autograd.grad(y, (x, w, b), torch.ones_like(y))
    assert not any(t.is_inference() for t in (y, *made))
    want = torch.autograd.grad(torch.nn.functional.layer_norm(x, (40,), w, b), (x, w, b), torch.ones_like(y))
    for got, right in zip(made, want, strict=True):
        torch.testing.assert_close(got, right, atol=1e-4, rtol=1e-4)


def test_a_trace_of_a_backward_pass_has_the_operators():
    """Also where calls of such tensors are known."""
    from torch.fx.experimental.proxy_tensor import make_fx

    x, w = (t.detach() for t in _leaves(2, (5, 24)))

    def both(x: Any, w: Any, dy: Any) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return torch.autograd.grad(ft.rms_norm(x, w), (x, w), dy)

    want = [both(x, w, X.float()) for _ in range(4)][-1]
    traced = make_fx(both)(x, w, X.float())
    names = [str(node.target) for node in traced.graph.nodes if "flydsl" in str(node.target)]
    assert names == ["flydsl.rms_norm.default", "flydsl.rms_norm_backward.default"]
    for got, right in zip(traced(x, w, X.float()), want, strict=True):
        assert torch.equal(got, right)


def test_tensors_that_are_not_yet_memory():
    """Zeros without memory, and numbers that are negated when somebody reads them, as gradients of complex numbers."""
    x = torch.randn(4, 24)
    for given in (torch._efficientzerotensor((4, 24)), torch._neg_view(x)):
        assert not given.requires_grad
        torch.testing.assert_close(ft.softmax(given), torch.softmax(given, -1))
        leaf = x.clone().requires_grad_()
        (got,) = torch.autograd.grad(ft.softmax(leaf), leaf, given, create_graph=True)
        (want,) = torch.autograd.grad(torch.softmax(leaf, -1), leaf, given)
        torch.testing.assert_close(got, want)
