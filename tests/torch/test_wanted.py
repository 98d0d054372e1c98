"""Gradients that nobody wants: they are not computed, and those that are wanted stay what they were."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

import flydsl.torch as ft  # noqa: E402
from flydsl import kernels  # noqa: E402
from flydsl.errors import DSLValueError  # noqa: E402
from flydsl.kernels import repeats  # noqa: E402

N = 24
ANGLES = torch.rand(6, 4)
COS, SIN = ANGLES.cos(), ANGLES.sin()
TARGET = torch.tensor([1, 0, 23, -100, 5])


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch):  # pyright: ignore[reportUnusedFunction]
    """Calls are known natively when they come for the second time."""
    monkeypatch.setattr(repeats, "OFTEN", 1)


def _turned(x: Any) -> Any:
    a, b = x.chunk(2, -1)
    cos, sin = (t[:, None].to(x.dtype) for t in (COS, SIN))
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _both(made: tuple[Any, Any]) -> Any:
    """Two results as one, so that both have a gradient."""
    return torch.cat([t.flatten() for t in made])


Op = Callable[..., Any]
OPS: dict[str, tuple[Op, Op, tuple[tuple[int, ...], ...]]] = {
    "rms_norm": (ft.rms_norm, lambda x, w: F.rms_norm(x, (N,), w, 1e-6), ((5, N), (N,))),
    "layer_norm": (ft.layer_norm, lambda x, w, b: F.layer_norm(x, (N,), w, b), ((5, N), (N,), (N,))),
    "layer_norm of deep rows": (ft.layer_norm, lambda x, w, b: F.layer_norm(x, (N,), w, b), ((2, 3, N), (N,), (N,))),
    "add_rms_norm": (
        lambda x, r, w: _both(ft.add_rms_norm(x, r, w)),
        lambda x, r, w: _both((F.rms_norm(x + r, (N,), w, 1e-6), x + r)),
        ((5, N), (5, N), (N,)),
    ),
    "add_layer_norm": (
        lambda x, r, w, b: _both(ft.add_layer_norm(x, r, w, b)),
        lambda x, r, w, b: _both((F.layer_norm(x + r, (N,), w, b), x + r)),
        ((5, N), (5, N), (N,), (N,)),
    ),
    "group_norm": (
        lambda x, w, b: ft.group_norm(x, 2, w, b),
        lambda x, w, b: F.group_norm(x, 2, w, b),
        ((3, 6, 5), (6,), (6,)),
    ),
    "gated": (ft.silu_mul, lambda x, y: F.silu(x) * y, ((5, N), (5, N))),
    "rope": (
        lambda q, k: _both(ft.rope(q, k, COS, SIN)),
        lambda q, k: _both((_turned(q), _turned(k))),
        ((2, 6, 3, 8), (2, 6, 1, 8)),
    ),
    "cross_entropy": (
        lambda x: ft.cross_entropy(x, TARGET, reduction="none"),
        lambda x: F.cross_entropy(x, TARGET, reduction="none"),
        ((5, N),),
    ),
}
CASES = [
    (name, wanted)
    for name, (_, _, shapes) in OPS.items()
    for wanted in itertools.product((True, False), repeat=len(shapes))
    if any(wanted)
]


def _gradients(op: Op, given: list[Any], wanted: tuple[bool, ...], dy: Any, times: int) -> list[Any]:
    leaves = [x.clone().requires_grad_(want) for x, want in zip(given, wanted, strict=True)]
    made = op(*leaves)
    for _ in range(times):
        for leaf in leaves:
            leaf.grad = None
        made.backward(dy, retain_graph=True)
    return [leaf.grad for leaf in leaves]


@pytest.mark.parametrize(("name", "wanted"), CASES)
def test_every_choice_of_gradients(name: str, wanted: tuple[bool, ...]):
    ours, theirs, shapes = OPS[name]
    given = [torch.randn(shape) for shape in shapes]
    dy = torch.randn(ours(*given).shape)
    want = _gradients(theirs, [x.double() for x in given], wanted, dy.double(), 1)
    for times in (1, 2, 6):  # of all calls, those that are repeated, and those that are launched natively
        got = _gradients(ours, given, wanted, dy, times)
        for a, b in zip(got, want, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a.double(), b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name, (_, _, shapes) in OPS.items() if len(shapes) > 1])
def test_the_operator_makes_no_more(name: str):
    """As a compiler sees it: what is not wanted has no elements."""
    from torch.utils._python_dispatch import TorchDispatchMode

    sizes: list[list[int]] = []

    class Looks(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            if str(func).startswith("flydsl."):
                sizes.append([t.numel() for t in (made if isinstance(made, tuple) else (made,))])
            return made

    ours, _, shapes = OPS[name]
    for wanted in itertools.product((True, False), repeat=len(shapes)):
        if not any(wanted):
            continue
        leaves = [torch.randn(shape).requires_grad_(want) for shape, want in zip(shapes, wanted, strict=True)]
        made = ours(*leaves)
        sizes.clear()
        with Looks():
            made.sum().backward()
        (found,) = sizes
        expected = [leaf.numel() for leaf in leaves if leaf.requires_grad]
        if name.startswith("add") and wanted[0] and wanted[1]:
            expected = expected[1:]  # one tensor for both
        assert [size for size in found if size] == expected


def test_what_is_not_wanted_is_not_asked_of_kernels():
    x, w, b = torch.randn(5, N), torch.randn(N), torch.randn(N)
    mean, scale = x.mean(-1), torch.rsqrt(x.var(-1, unbiased=False) + 1e-5)
    all_of = kernels.layer_norm_backward(x.cos(), x, w, mean, scale)
    for inputs, weights, bias in itertools.product((True, False), repeat=3):
        for _ in range(3):
            made = kernels.layer_norm_backward(
                x.cos(), x, w, mean, scale, inputs=inputs, weights=weights, bias=bias
            )  # fmt: skip
            for got, want, there in zip(made, all_of, (inputs, weights, bias), strict=True):
                assert (got is not None) == there
                if there:
                    torch.testing.assert_close(got, want)
    assert kernels.gated_backward(x, x, x, wanted=(False, False)) == (None, None)
    assert kernels.group_norm_backward(
        x[:, :, None], x[:, :, None], 2, None, torch.zeros(10), torch.ones(10), wanted=(False,) * 3
    ) == (None, None, None)
    del b


def test_one_of_two_results_alone():
    """A result that nothing was made of has no gradient, and its argument none of its own."""
    q, k = torch.randn(2, 6, 3, 8).requires_grad_(), torch.randn(2, 6, 1, 8).requires_grad_()
    for number in (0, 1):
        for _ in range(4):
            out = ft.rope(q, k, COS, SIN)[number]
            dy = torch.randn(out.shape)
            got = torch.autograd.grad(out, (q, k), dy, allow_unused=True)
            want = torch.autograd.grad(_turned((q, k)[number]), (q, k)[number], dy)[0]
            assert got[1 - number] is None
            torch.testing.assert_close(got[number], want)
    x, r, w = torch.randn(5, N).requires_grad_(), torch.randn(5, N).requires_grad_(), torch.randn(N).requires_grad_()
    summed = ft.add_rms_norm(x, r, w)[1]
    got = torch.autograd.grad(summed, (x, r, w), torch.ones(5, N), allow_unused=True)
    assert torch.equal(got[0], torch.ones(5, N)) and torch.equal(got[1], got[0]) and got[2] is None


def test_rope_has_second_derivatives_of_one():
    q, k = torch.randn(1, 6, 2, 8, dtype=torch.float64).requires_grad_(), torch.randn(1, 6, 2, 8, dtype=torch.float64)
    cos, sin = COS.double(), SIN.double()
    assert torch.autograd.gradgradcheck(lambda q: ft.rope(q, k, cos, sin)[0], (q,))


def test_statistics_have_no_gradient():
    """They are what gradients are computed from: a gradient of theirs would be lost without a word."""
    x, w = torch.randn(5, N).requires_grad_(), torch.randn(N).requires_grad_()
    for made in (
        torch.ops.flydsl.rms_norm(x, w, 1e-6),
        torch.ops.flydsl.layer_norm(x, w, None, 1e-6),
        torch.ops.flydsl.group_norm(x[:, :, None], 2, None, None, 1e-6),
        torch.ops.flydsl.cross_entropy(x, TARGET, -100, 0.0),
    ):
        assert made[0].requires_grad and not any(t.requires_grad for t in made[1:])


@pytest.mark.parametrize("name", ["layer_norm", "add_rms_norm", "group_norm", "gated", "rope"])
def test_compiled_with_frozen_arguments(name: str):
    ours, _, shapes = OPS[name]
    given = [torch.randn(shape) for shape in shapes]
    for wanted in ([True] + [False] * (len(shapes) - 1), [False] * (len(shapes) - 1) + [True]):
        torch.compiler.reset()
        compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
        dy = torch.randn(ours(*given).shape)
        want = _gradients(ours, given, tuple(wanted), dy, 1)
        for a, b in zip(_gradients(compiled, given, tuple(wanted), dy, 2), want, strict=True):
            assert (a is None and b is None) or torch.equal(a, b)


def test_a_bias_of_no_such_type_is_refused():
    x, row = torch.ones(3, 4), torch.ones(3)
    with pytest.raises(DSLValueError, match="layer_norm_backward: bias_type is .*bfloat16"):
        kernels.layer_norm_backward(x, x, None, row, row, bias_type="int8")
    with pytest.raises(DSLValueError, match="group_norm_backward: bias_type is .*bfloat16"):
        kernels.group_norm_backward(x, x, 1, None, row, row, bias_type="int8")


@pytest.mark.parametrize("kind", ["layer", "group"])
def test_a_wider_bias_keeps_its_sums(kind: str):
    """257 ones are no bfloat16: what is rounded to the weight's type on the way to the bias's is 256."""
    count = 257
    x = torch.randn(count, 4, dtype=torch.bfloat16)
    weight = torch.ones(4, dtype=torch.bfloat16, requires_grad=True)
    bias = torch.zeros(4, requires_grad=True)
    for _ in range(3):  # the last ones are repeated calls
        made = ft.layer_norm(x, weight, bias) if kind == "layer" else ft.group_norm(x, 2, weight, bias)
        dweight, dbias = torch.autograd.grad(made, (weight, bias), torch.ones_like(made))
        assert dweight.dtype == torch.bfloat16 and dbias.dtype == torch.float32
        assert torch.equal(dbias, torch.full((4,), float(count)))
