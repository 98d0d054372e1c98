"""`flydsl.torch` on the cpu stack: gradients in double precision, transforms of torch, modules in place of torch's."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional as F

import flydsl.torch as ft
from flydsl import kernels
from flydsl.errors import DSLTypeError, DSLValueError


@pytest.fixture(autouse=True)
def on_the_cpu_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")


def double(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def check(function: Any, *inputs: torch.Tensor) -> None:
    # The whole Jacobian of small inputs: a mistake in one element is seen.
    assert gradcheck(function, inputs)


def test_gradients_of_rows():
    x, residual, w, b = double(2, 5), double(2, 5), double(5), double(5)
    check(ft.softmax, x)
    check(lambda t: ft.softmax(t, 0), double(3, 2, 4))
    check(ft.log_softmax, x)
    check(ft.rms_norm, x, w)
    check(ft.add_rms_norm, x, residual, w)
    check(ft.layer_norm, x, w, b)
    check(ft.add_layer_norm, x, residual, w, b)
    check(lambda t: ft.add_rms_norm(t, residual.detach())[1] * 2, x)  # the sum alone is used
    check(ft.layer_norm, x)
    check(lambda t: ft.layer_norm(t, None, b), x)


def test_gradients_of_the_rest():
    x = double(3, 5)
    target = torch.tensor([4, -100, 0])
    check(lambda t: ft.cross_entropy(t, target, label_smoothing=0.1), x)
    check(lambda t: ft.cross_entropy(t, target, reduction="none"), x)
    check(
        lambda t, w, b: ft.linear_cross_entropy(t, w, target, b, label_smoothing=0.1, reduction="sum"),
        x, double(5, 5), double(5),
    )  # fmt: skip
    check(lambda w: ft.linear_cross_entropy(x.detach(), w, target), double(5, 5))
    check(lambda t, w, b: ft.group_norm(t, 2, w, b), double(2, 4, 3), double(4), double(4))
    check(lambda t, r, w, b: ft.add_group_norm(t, r, 2, w, b), *(double(2, 4, 3) for _ in "tr"), double(4), double(4))
    check(ft.silu_mul, x, double(3, 5))
    check(ft.gelu_mul, x, double(3, 5))
    check(lambda t, up: ft.gelu_mul(t, up, "none"), x, double(3, 5))
    both = torch.cat([x, x.detach()], -1)
    torch.testing.assert_close(ft.GeGLU()(both), F.gelu(x) * x)
    torch.testing.assert_close(ft.GeGLU("tanh")(both), F.gelu(x, approximate="tanh") * x)
    with pytest.raises(DSLValueError, match="gelu_mul: approximate is one of tanh, none, got 'erf'"):
        ft.gelu_mul(x, x, "erf")
    angle = torch.rand(2, 2, dtype=torch.float64)
    for interleaved in (False, True):
        check(
            lambda q, k, way=interleaved: ft.rope(q, k, angle.cos(), angle.sin(), interleaved=way),
            double(1, 2, 2, 4), double(1, 2, 1, 4),
        )  # fmt: skip
    check(lambda table: ft.embedding(torch.tensor([[1, 1], [0, 2]]), table), double(4, 4))
    check(lambda t: ft.top_k(t, 2)[0], x)
    check(lambda t: ft.gate(t, 2)[0], x)
    check(lambda t: ft.gate(t, 2, normed=False)[0], x)
    assert torch.equal(ft.argmax(x.detach()), x.argmax(-1))


def test_gradients_of_the_largest():
    """In f32: of the chosen ones alone, and of shares that all have a part in."""
    x = torch.randn(4, 9, requires_grad=True)
    given = torch.randn(4, 3)
    values, numbers = ft.top_k(x, 3)
    wanted = torch.topk(x, 3)
    assert torch.equal(numbers, wanted.indices) and not numbers.requires_grad
    for normed in (None, True, False):
        ours, theirs = (values, wanted.values) if normed is None else (ft.gate(x, 3, normed=normed)[0], None)
        if theirs is None:
            theirs = torch.softmax(x, -1).gather(-1, numbers)
            theirs = theirs / theirs.sum(-1, keepdim=True) if normed else theirs
        (got,) = torch.autograd.grad(ours, x, given)
        (want,) = torch.autograd.grad(theirs, x, given)
        torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-5)


def model() -> torch.nn.Module:
    return torch.nn.Sequential(
        ft.Embedding(12, 16, padding_idx=3),
        ft.LayerNorm(16),
        torch.nn.Linear(16, 24),
        ft.SwiGLU(),
        ft.RMSNorm(12, elementwise_affine=True),
        ft.Softmax(),
    )


def loss_of(net: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return ft.CrossEntropyLoss(label_smoothing=0.1)(net(ids), ids % 12)


def test_compiled_as_one_graph_and_exported():
    """No graph break, the same numbers, also for another number of rows; the operators stay as nodes."""
    # Loading these takes seconds: they are left to the process that runs this.
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch._aot_autograd.utils import make_boxed_func

    net, ids = model(), torch.randint(0, 12, (3, 5))
    seen: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        seen.append(graph)
        return make_boxed_func(graph.forward)

    compiled = torch.compile(loss_of, fullgraph=True, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep))
    plain = loss_of(net, ids)
    wanted = torch.autograd.grad(plain, list(net.parameters()))
    found = compiled(net, ids)
    for got, want in zip(torch.autograd.grad(found, list(net.parameters())), wanted, strict=True):
        torch.testing.assert_close(got, want, atol=0, rtol=0)
    assert torch.equal(found, plain)
    text = "".join(g.code for g in seen)
    for name in ("softmax", "layer_norm", "rms_norm_backward", "gated_backward", "embedding_backward"):
        assert f"torch.ops.flydsl.{name}" in text, name
    exported = torch.export.export(net, (ids,))
    other = torch.randint(0, 12, (3, 5))
    assert torch.equal(exported.module()(other), net(other))


def test_operators_obey_torch():
    """Schemas, fake tensors, autograd registration and dynamic shapes, by torch's own check."""
    from flydsl.torch import loss_operators, more_operators, operators

    x, w = torch.randn(3, 8, requires_grad=True), torch.ones(8, requires_grad=True)
    calls: list[tuple[Any, tuple[object, ...]]] = [
        (operators.softmax, (x, False)),
        (operators.add_rms_norm, (x, x.detach(), w, 1e-6)),
        (operators.layer_norm, (x, w, None, 1e-5)),
        (more_operators.cross_entropy, (x, torch.tensor([1, 2, 3]), -100, 0.0)),
        (more_operators.gate, (x, 2, True)),
        (loss_operators.linear_cross_entropy, (x, x.detach(), torch.tensor([1, 2, 0]), None, -100, 0.0)),
    ]
    for op, arguments in calls:
        torch.library.opcheck(op.registered, arguments)


def test_sampling_is_compiled_and_argmax():
    logits = torch.randn(6, 9)
    heats = torch.full((6,), 0.5)

    def draw(x: torch.Tensor, heats: torch.Tensor) -> torch.Tensor:
        return ft.sample(x, seed=7, offset=3, temperature=heats, top_k=4) + ft.argmax(x)

    got = torch.compile(draw, fullgraph=True, backend="aot_eager")(logits, heats)
    assert torch.equal(got, ft.sample(logits, seed=7, offset=3, temperature=0.5, top_k=4) + logits.argmax(-1))


def test_numbers_that_a_compiler_knows_by_name_only():
    """With `dynamic` shapes, directions and shares are symbols; no graph break, the same results."""
    x = torch.randn(6, 9)
    calls: list[tuple[Any, tuple[object, ...]]] = [
        (lambda x, p: ft.sample(x, seed=1, top_p=p, temperature=p), (0.5,)),
        (lambda x, k: ft.sample(x, seed=k, offset=k, top_k=k), (4,)),
        (lambda x, dim: ft.reduce(x, "sum", dim), (0,)),
        (lambda x, dim: ft.reduce(x, "sum", (dim, -1), keepdim=True), (0,)),
        (lambda x, dim: ft.scan(x, dim=dim), (0,)),
        (lambda x, k: ft.top_k(x, k)[0], (3,)),
    ]
    for function, given in calls:
        torch.compiler.reset()
        compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="eager")
        assert torch.equal(compiled(x, *given), function(x, *given))


def test_along_any_axis():
    x = double(3, 4)
    check(lambda t: ft.reduce(t, "mean", 0), x)
    check(lambda t: ft.reduce(t, "sum", (0, 1), keepdim=True), x)
    check(lambda t: ft.scan(t, dim=0, exclusive=True), x)
    check(lambda t: ft.scan(t, reverse=True), x)
    check(lambda t: ft.sort(t, 0, descending=True)[0], x)
    check(lambda k, t: ft.sort_by_key(k, t, dim=0), x, double(3, 4))
    check(lambda t: ft.permute(t, (1, -1, 0)), double(3, 2, 4))


@pytest.mark.parametrize("op", ["prod", "max", "min"])
def test_gradients_along_any_axis(op: str):
    """In double precision, and against torch where zeros, equal elements and NaN make the difference."""
    check(lambda t: ft.reduce(t, op, 0), double(3, 4))
    check(lambda t: ft.reduce(t, op, (0, 2), keepdim=True), double(2, 2, 3))
    for exclusive, reverse in ((False, False), (True, False), (False, True), (True, True)):
        kept = slice(None) if not exclusive else slice(None, -1) if reverse else slice(1, None)  # no infinity

        def function(t: Any, a: bool = exclusive, b: bool = reverse, kept: slice = kept) -> Any:
            return ft.scan(t, op, 1, exclusive=a, reverse=b)[:, kept]

        check(function, double(2, 4))
    nan = float("nan")
    x = torch.tensor([[2.0, 0, 3, 0], [0, 2, 2, 1], [0, 0, 0, 0], [1, nan, 2, 3]], requires_grad=True)
    scans = {"prod": torch.cumprod, "max": torch.cummax, "min": torch.cummin}
    theirs = {"prod": lambda t: t.prod(1), "max": lambda t: t.amax(1), "min": lambda t: t.amin(1)}[op](x)
    running = scans[op](x, 1)
    running = running if op == "prod" else running.values
    for ours, wanted in ((ft.reduce(x, op, 1), theirs), (ft.scan(x, op), running)):
        dy = torch.randn(wanted.shape)
        (got,), (want,) = (torch.autograd.grad(y, x, dy) for y in (ours, wanted))
        torch.testing.assert_close(got[:3], want[:3])
        if wanted is running and op != "prod":
            torch.testing.assert_close(got[3], want[3])
    empty = torch.zeros(2, 0, requires_grad=True)
    ft.scan(empty, op, exclusive=True).sum().backward()
    assert empty.grad is not None and empty.grad.shape == (2, 0)


TABLE = torch.randn(6, 2)
BATCHED: list[tuple[Any, tuple[tuple[int, ...], ...]]] = [
    (ft.softmax, ((4, 5),)),
    (lambda x: ft.log_softmax(x, 0), ((4, 5),)),
    (ft.rms_norm, ((4, 5), (5,))),
    (ft.add_rms_norm, ((4, 5), (4, 5), (5,))),
    (ft.layer_norm, ((4, 5), (5,), (5,))),
    (ft.add_layer_norm, ((5,), (5,), (5,), (5,))),
    (lambda x, w, b: ft.group_norm(x, 2, w, b), ((2, 4, 3), (4,), (4,))),
    (lambda x, r, w: ft.add_group_norm(x, r, 2, w), ((2, 4, 3), (2, 4, 3), (4,))),
    (lambda x: ft.cross_entropy(x, torch.tensor([1, 4, -100]), reduction="none"), ((3, 5),)),
    (lambda x, w, b: ft.linear_cross_entropy(x, w, torch.tensor([1, 0]), b), ((2, 5), (3, 5), (3,))),
    (ft.silu_mul, ((4, 5), (4, 5))),
    (lambda q, k: ft.rope(q, k, TABLE.cos(), TABLE.sin()), ((5, 2, 4), (5, 1, 4))),
    (lambda table: ft.embedding(torch.tensor([[1, 1], [0, 2]]), table), ((4, 3),)),
    (lambda x: ft.top_k(x, 2), ((4, 5),)),
    (lambda x: ft.gate(x, 2), ((4, 5),)),
    (lambda x: ft.reduce(x, "sum", (-1, 0)), ((4, 5, 2),)),
    (lambda x: ft.scan(x, dim=-2), ((4, 5),)),
    (lambda x: ft.sort(x, 0), ((4, 5),)),
    (lambda x, y: ft.sort_by_key(x, y, dim=-2), ((4, 5), (4, 5))),
    (lambda x: ft.permute(x, (2, 0, -2)), ((4, 5, 2),)),
]


def both(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("number", range(len(BATCHED)))
def test_maps_and_gradients_of_function_transforms(number: int):
    """`torch.vmap`, `torch.func.grad` and one in the other, batches in any arguments, against element by element."""
    function, shapes = BATCHED[number]
    size, every = 2, tuple(range(len(shapes)))

    def total(*given: Any) -> Any:
        return sum((t * t.detach().cos()).sum() for t in both(function(*given)) if t.is_floating_point())

    for which in {1, len(shapes), *(1 << i for i in every)}:
        dims = tuple(i % 2 if which >> i & 1 else None for i in every)
        if not any(which >> i & 1 for i in every):
            continue
        given = [
            torch.randn(shape if dim is None else (*shape[:dim], size, *shape[dim:]))
            for shape, dim in zip(shapes, dims, strict=True)
        ]
        single = [
            [x if dim is None else x.select(dim, i) for x, dim in zip(given, dims, strict=True)] for i in range(size)
        ]
        wanted = [both(function(*xs)) for xs in single]
        for got, want in zip(both(torch.vmap(function, dims)(*given)), zip(*wanted, strict=True), strict=True):
            torch.testing.assert_close(got, torch.stack(want))
        slopes = []
        for xs in single:
            leaves = [x.clone().requires_grad_() for x in xs]
            slopes.append(torch.autograd.grad(total(*leaves), leaves))
        slope = torch.func.grad(total, every)
        for got, want in zip(torch.vmap(slope, dims)(*given), zip(*slopes, strict=True), strict=True):
            torch.testing.assert_close(got, torch.stack(want))
        for got, want in zip(slope(*single[0]), slopes[0], strict=True):
            torch.testing.assert_close(got, want)


def test_function_transforms_of_what_has_no_derivative():
    x = torch.randn(3, 4, 5)
    assert torch.equal(torch.vmap(ft.argmax, 1)(x), x.argmax(-1).T)
    same = torch.vmap(lambda t: ft.sample(t, seed=5))(x)
    assert torch.equal(same[1], ft.sample(x[1], seed=5))  # a seed means the same numbers, with a batch or without it
    with pytest.raises(DSLTypeError, match="has no gradient"):
        torch.func.grad(lambda x: torch.func.grad(lambda x: ft.softmax(x).square().sum())(x).sum())(x)
    with pytest.raises(DSLValueError, match="axis is one of"):
        torch.vmap(lambda t: ft.scan(t, dim=-3))(x)  # the batch is none of its directions
    # As a compiled graph calls it, by torch's dispatcher.
    torch.testing.assert_close(torch.vmap(lambda t: torch.ops.flydsl.softmax(t, False))(x), torch.softmax(x, -1))


def test_vmap_and_autocast():
    x = torch.randn(3, 4, 5)
    torch.testing.assert_close(torch.vmap(ft.softmax, 1)(x), torch.softmax(x, -1).transpose(0, 1))
    gates = torch.randn(4, 5)
    torch.testing.assert_close(
        torch.vmap(ft.silu_mul, (0, None))(x, gates), F.silu(x) * gates, atol=1e-6, rtol=1e-5
    )  # fmt: skip
    # Rows keep their type, sums are f32 anyway; weights may have another one.
    norm = ft.RMSNorm(5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = norm(torch.nn.functional.linear(x, torch.eye(5)))
        assert made.dtype == torch.bfloat16 and norm(x).dtype == torch.float32
    made.float().sum().backward()
    assert norm.weight is not None and norm.weight.grad is not None and norm.weight.grad.dtype == torch.float32


def test_modules_take_the_states_of_torch():
    x = torch.randn(4, 6, requires_grad=True)
    for ours, theirs in (
        (ft.LayerNorm(6, eps=0.5), torch.nn.LayerNorm(6, eps=0.5)),
        (ft.LayerNorm(6, bias=False), torch.nn.LayerNorm(6, bias=False)),
        (ft.LayerNorm((4, 6)), torch.nn.LayerNorm((4, 6))),
        (ft.RMSNorm([4, 6], eps=0.5), torch.nn.RMSNorm([4, 6], eps=0.5)),
        (ft.RMSNorm(6, eps=0.5), torch.nn.RMSNorm(6, eps=0.5)),
        (ft.RMSNorm(6, eps=1e-6, elementwise_affine=False), torch.nn.RMSNorm(6, eps=1e-6, elementwise_affine=False)),
    ):
        for p in theirs.parameters():
            torch.nn.init.normal_(p)
        ours.load_state_dict(theirs.state_dict())
        torch.testing.assert_close(ours(x), theirs(x), atol=1e-5, rtol=1e-5)
        normed, summed = ours(x, x)
        torch.testing.assert_close(normed, theirs(x + x), atol=1e-5, rtol=1e-5)
        assert torch.equal(summed, x + x)
    mine, theirs = ft.GroupNorm(2, 4, eps=0.5), torch.nn.GroupNorm(2, 4, eps=0.5)
    mine.load_state_dict(theirs.state_dict())
    image = torch.randn(2, 4, 5)
    torch.testing.assert_close(mine(image), theirs(image), atol=1e-5, rtol=1e-5)
    normed, summed = mine(image, image)
    torch.testing.assert_close(normed, theirs(image + image), atol=1e-5, rtol=1e-5)
    assert torch.equal(summed, image + image)
    assert "2, 4, eps=0.5" in repr(mine) and ft.GroupNorm(2, 4).eps == torch.nn.GroupNorm(2, 4).eps
    assert "6, eps=1e-05" in repr(ft.LayerNorm(6)) and "6, eps=1e-06" in repr(ft.RMSNorm(6))
    for make, words in (
        (lambda: ft.GroupNorm(2, 5), "5 channels are no 2 groups"),
        (lambda: ft.LayerNorm(5)(x), r"LayerNorm: x has \[5\] for its last extents.* got \[4, 6\]"),
        (lambda: ft.RMSNorm((2, 4, 6))(x), r"\[2, 4, 6\] for its last extents"),
        (lambda: ft.RMSNorm(()), "size is the extent"),
        (lambda: ft.softmax(x, 2), "softmax: dim is one of 2, from -2 to 1, got 2"),
        (lambda: ft.sort_by_key(x, x[:2]), r"sort_by_key: values\[0\] has the shape of keys, \[4, 6\]"),
    ):
        with pytest.raises(DSLValueError, match=words):
            make()
    table = ft.Embedding(5, 6, padding_idx=2)
    assert not table.weight[2].any()
    with pytest.raises(DSLValueError, match="mean, sum or none"):
        ft.cross_entropy(x, torch.zeros(4, dtype=torch.int64), reduction="most")


def test_rows_in_eight_bits():
    """The kernels' numbers, and what fake tensors say of them; a known scale is the tensor that was given."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    x, w, one = torch.randn(3, 128), torch.rand(128), torch.full((1,), 0.02)
    calls: list[tuple[Any, Any]] = [
        (lambda x, w, s: ft.quantize(x, torch.int8, scale=s), lambda s: kernels.quantize(x, "int8", scale=s)),
        (lambda x, w, s: ft.rms_norm_quantized(x, w, torch.int8, scale=s),
         lambda s: kernels.rms_norm_quantized(x, w, "int8", scale=s)),
        (lambda x, w, s: ft.layer_norm_quantized(x, w, w, residual=x, scale=s),
         lambda s: kernels.layer_norm_quantized(x, w, w, residual=x, scale=s)),
    ]  # fmt: skip
    for ours, theirs in calls:
        for scale in ("row", "block", one, "tensor"):
            got, want = ours(x, w, scale), theirs(scale)
            assert len(got) == len(want) and all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
            assert got[1] is one or isinstance(scale, str)
            with FakeTensorMode() as mode:
                given = (mode.from_tensor(t) if isinstance(t, torch.Tensor) else t for t in (x, w, scale))
                fake = ours(*given)
            for a, b in zip(fake, want, strict=True):
                assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
    with pytest.raises(DSLValueError, match="one of row, block, tensor, got 'group'"):
        ft.rms_norm_quantized(x, w, scale="group")


def test_softmax_and_group_norm_in_eight_bits_and_back():
    """Compiled as one graph, of the kernels' numbers."""
    x, image, w = torch.randn(3, 2, 128), torch.randn(2, 4, 128), torch.rand(4)

    def all_of(x: torch.Tensor, image: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        codes, scales = ft.softmax_quantized(x, torch.int8, scale="block")
        more = ft.group_norm_quantized(image, 2, w, dtype=torch.int8, residual=image)
        return codes, scales, *more, ft.dequantize(codes, scales), ft.dequantize(*more[:2], dtype=torch.bfloat16)

    codes, scales = kernels.softmax_quantized(x, "int8", scale="block")
    more = kernels.group_norm_quantized(image, 2, w, None, "int8", residual=image)
    backs = kernels.dequantize(codes, scales), kernels.dequantize(*more[:2], dtype="bfloat16")
    for run in (all_of, torch.compile(all_of, fullgraph=True, backend="aot_eager")):
        for got, want in zip(run(x, image, w), (codes, scales, *more, *backs), strict=True):
            assert torch.equal(got, want)
    torch.testing.assert_close(backs[0], torch.softmax(x, -1), atol=float(scales.max()) * 0.51, rtol=0)


def test_batches_of_rows_in_eight_bits():
    """Against element by element, with a batch of what goes beside the rows or without."""
    x, image, r = torch.randn(3, 2, 5, 128), torch.randn(3, 2, 4, 8), torch.randn(2, 5, 128)
    calls: list[tuple[Any, tuple[torch.Tensor, ...], tuple[int | None, ...]]] = [
        *((lambda t, way=way: ft.quantize(t, torch.int8, scale=way), (x,), (1,)) for way in ("row", "block", "tensor")),
        (lambda t, r: ft.rms_norm_quantized(t, None, torch.int8, residual=r), (x, r), (0, None)),
        (lambda t: ft.softmax_quantized(t, torch.int8, scale="tensor"), (x,), (1,)),
        (lambda t: ft.group_norm_quantized(t, 2, dtype=torch.int8), (image,), (0,)),
        (lambda c, s: ft.dequantize(c, s), ((x * 9).to(torch.int8), torch.rand(3, 2, 5)), (0, 0)),
        (lambda c, s: ft.dequantize(c, s), ((x * 9).to(torch.int8), torch.rand(1)), (0, None)),
    ]
    for call, given, dims in calls:
        count = given[0].shape[dims[0] or 0]
        singles = [
            call(*(t if d is None else t.select(d, i) for t, d in zip(given, dims, strict=True))) for i in range(count)
        ]
        for got, want in zip(both(torch.vmap(call, dims)(*given)), zip(*map(both, singles), strict=True), strict=True):
            assert torch.equal(got, torch.stack(want))


def test_rope_into_a_cache():
    """In place, as autograd and a compiler see it, and without a gradient."""
    q, k, v = torch.randn(2, 5, 3, 8), torch.randn(2, 5, 1, 8), torch.randn(2, 5, 1, 8)
    angle = torch.rand(7, 4)
    tables = angle.cos(), angle.sin()
    slots = torch.randperm(12)[:10].view(2, 5)
    slots[0, 2] = -1
    wanted = ft.rope(q, k, *tables)
    rows, kept = slots.flatten(), (slots.flatten() >= 0)

    def step(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return ft.rope(q, k, *tables, v=v, cache=(keys, values), slots=slots)

    for run in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        keys, values = torch.full((12, 1, 8), 9.0), torch.full((3, 4, 1, 8), 9.0)
        before = keys._version
        assert torch.equal(run(q, keys, values), wanted[0])
        assert torch.equal(keys[rows[kept]], wanted[1].flatten(0, 1)[kept]) and keys._version > before
        assert torch.equal(values.flatten(0, 1)[rows[kept]], v.flatten(0, 1)[kept])
        assert int((keys == 9).all(-1).sum()) == 3
    with pytest.raises(DSLValueError, match="no gradient.*torch.no_grad"):
        step(q.clone().requires_grad_(), keys, values)
    with pytest.raises(DSLValueError, match="come together"):
        ft.rope(q, k, *tables, v=v, slots=slots)  # pyright: ignore[reportCallIssue]


def test_flydsl_alone_does_not_import_torch():
    code = "import sys, flydsl, flydsl.compiler, flydsl.expr, flydsl.kernels; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
