"""Operations on rows of plain arrays, and their gradients, element by element against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from flydsl import kernels
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels.rows.norms import norm
from flydsl.testing import assert_close

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
SHAPES = ((F32, 5, 64), (BF16, 3, 257), (F16, 37, 33), (BF16, 1, 1), (F32, 2, 33333))
"""Whole units and edges; rows that share blocks; single elements; more than registers hold."""
CHECKED = ((BF16, 3, 257),)
EPS = 0.7
"""Large beside the squares, so that it shows."""


@pytest.fixture(params=["plain", "checked"])
def shapes(request: pytest.FixtureRequest, device: str, monkeypatch: pytest.MonkeyPatch):
    """All shapes, and a few with every access checked."""
    if request.param == "plain":
        return SHAPES
    if device != "cpu":
        pytest.skip("the cpu stack checks accesses")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    return CHECKED


def values(rng: np.random.Generator, dtype: torch.dtype, *shape: int, scale: float = 2.0) -> torch.Tensor:
    return (torch.from_numpy(rng.standard_normal(shape)) * scale).to(dtype)


def gradients(made: torch.Tensor, given: torch.Tensor, *inputs: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(made, inputs, given.double()))


def leaf(x: torch.Tensor) -> torch.Tensor:
    return x.cpu().double().requires_grad_()


def test_softmax(shapes, device: str, rng: np.random.Generator):
    for dtype, m, n in shapes:
        x, d = (values(rng, dtype, m, n).to(device) for _ in range(2))
        for ours, back, theirs in (
            (kernels.softmax, kernels.softmax_backward, torch.softmax),
            (kernels.log_softmax, kernels.log_softmax_backward, torch.log_softmax),
        ):
            if ours is kernels.log_softmax and n in (1, 64):
                continue
            got, start = ours(x), leaf(x)
            want = theirs(start, -1)
            assert_close(got.cpu(), want.detach(), terms=n, rtol=3e-6, what=f"{ours.__name__} {dtype} {m} x {n}")
            # The gradient is of the result as it was rounded.
            y = got.cpu().double()
            d64 = d.cpu().double()
            if ours is kernels.softmax:
                want, size = y * (d64 - (y * d64).sum(-1, keepdim=True)), (y * d64).abs().sum(-1, keepdim=True) * y
            else:
                want, size = d64 - y.exp() * d64.sum(-1, keepdim=True), y.exp() * d64.abs().sum(-1, keepdim=True)
            assert_close(back(got, d).cpu(), want, atol=(size * 4e-6 + 1e-7), rtol=1e-6, what=back.__name__)


def test_norms(shapes, device: str, rng: np.random.Generator):
    """With a residual, and with weights of another type; the gradients of rows and weights."""
    for dtype, m, n in [shape for shape in shapes if shape[2] != 64]:
        x, residual, d, dsummed = (values(rng, dtype, m, n).to(device) for _ in range(4))
        other = F32 if n == 257 else dtype
        w, b = (values(rng, other, n).to(device) for _ in range(2))
        for centred in (False, True):
            name = "layer_norm" if centred else "rms_norm"
            made = norm(name, x, w, b if centred else None, EPS, residual, None, centred, True, None)
            assert_close(made.summed.cpu(), x.cpu().double() + residual.cpu().double(), what="x + residual")
            start, weight, bias = leaf(made.summed), leaf(w), leaf(b)
            want = (
                F.layer_norm(start, (n,), weight, bias, EPS) if centred else F.rms_norm(start, (n,), weight, EPS)
            )  # fmt: skip
            what = f"{name} {dtype} {m} x {n}"
            assert_close(made.out.cpu(), want.detach(), terms=8, rtol=1e-5, what=what)
            want_dx, want_dw = gradients(want, d.cpu(), start, weight)
            if centred:
                got = kernels.layer_norm_backward(d, made.summed, w, made.mean, made.scale, dsummed=dsummed)
                assert_close(got.bias.cpu(), d.cpu().double().sum(0), atol=1e-5 * m, what="db")
            else:
                got = kernels.rms_norm_backward(d, made.summed, w, made.scale, dsummed=dsummed)
            size = float(want_dx.abs().max()) + 1
            assert_close(got.x.cpu(), want_dx + dsummed.cpu().double(), atol=2e-5 * size, what=f"{what}: dx")
            assert_close(got.weight.cpu(), want_dw, atol=1e-4 * m, what=f"{what}: dw")


def test_without_weights(device: str, rng: np.random.Generator):
    x, d = (values(rng, F32, 3, 40).to(device) for _ in range(2))
    start = leaf(x)
    want = F.layer_norm(start, (40,), eps=EPS)
    made = norm("layer_norm", x, None, None, EPS, None, None, True, True, None)
    assert_close(made.out.cpu(), want.detach(), terms=8, rtol=1e-5)
    got = kernels.layer_norm_backward(d, x, None, made.mean, made.scale, bias=False)
    assert got.weight is None and got.bias is None
    assert_close(got.x.cpu(), gradients(want, d.cpu(), start)[0], atol=1e-5)


def test_weight_gradients_are_the_same_in_every_run_and_for_many_rows(device: str, rng: np.random.Generator):
    """More rows than blocks: a block goes from row to row."""
    m, n = 1003, 72
    x, d = (values(rng, F32, m, n).to(device) for _ in range(2))
    w = values(rng, F32, n).to(device)
    made = norm("rms_norm", x, w, None, 1e-6, None, None, False, True, None)
    first, second = (kernels.rms_norm_backward(d, x, w, made.scale) for _ in range(2))
    assert torch.equal(first.weight, second.weight)
    v = x.cpu().double() * made.scale.cpu().double()[:, None]
    assert_close(first.weight.cpu(), (d.cpu().double() * v).sum(0), terms=m, magnitude=(d.cpu() * v).abs().sum(0))


def test_cross_entropy(shapes, device: str, rng: np.random.Generator):
    for dtype, m, n in shapes:
        x = values(rng, dtype, m, n, scale=3).to(device)
        target = torch.from_numpy(rng.integers(0, n, m)).to(device)
        target[m // 2] = -100 if m > 1 else 0
        given = values(rng, F32, m).to(device)
        for smoothing in (0.0, 0.25) if n == 257 else (0.25,) if n == 33 else (0.0,):
            start = leaf(x)
            want = F.cross_entropy(start, target.cpu(), reduction="none", label_smoothing=smoothing)
            made = kernels.cross_entropy_forward(x, target, label_smoothing=smoothing)
            assert_close(made.losses.cpu(), want.detach(), atol=1e-5, what=f"cross entropy {dtype} {m} x {n}")
            got = kernels.cross_entropy_backward(x, target, made.sums, given, label_smoothing=smoothing)
            assert_close(got.cpu(), gradients(want, given.cpu(), start)[0], atol=1e-6, rtol=4e-6, what="dlogits")
        mean = kernels.cross_entropy(x, target.int())
        assert abs(float(mean) - float(F.cross_entropy(x.cpu().double(), target.cpu()))) < 1e-5


GATES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu,
    "none": lambda x: x,
}  # fmt: skip


def test_gated(shapes, device: str, rng: np.random.Generator):
    """Two halves of an array, as they lie there."""
    for dtype, m, n in shapes:
        both, d = values(rng, dtype, m, 2 * n).to(device), values(rng, dtype, m, n).to(device)
        x, y = both[:, :n], both[:, n:]
        for name in GATES if n == 1 else ("gelu", "gelu_tanh") if n == 64 else ("silu",):
            left, right = leaf(x), leaf(y)
            want = GATES[name](left) * right
            got = kernels.gated(x, y, activation=name)
            assert_close(got.cpu(), want.detach(), rtol=4e-6, atol=1e-6, what=f"{name} {dtype} {m} x {n}")
            dx, dy = kernels.gated_backward(d, x, y, activation=name)
            want_dx, want_dy = gradients(want, d.cpu(), left, right)
            assert_close(dx.cpu(), want_dx, rtol=4e-6, atol=1e-5, what=f"{name}: dx")
            assert_close(dy.cpu(), want_dy, rtol=4e-6, atol=1e-5, what=f"{name}: dy")
        if n == 257:
            assert torch.equal(kernels.silu_mul(x, y), kernels.gated(x, y))
            gelu = GATES["gelu_tanh"](x.cpu().double()) * y.cpu().double()
            assert_close(kernels.gelu_mul(x, y).cpu(), gelu, rtol=1e-5, atol=1e-5)


def turned(x: torch.Tensor, angle: torch.Tensor, interleaved: bool) -> torch.Tensor:
    pairs = x.double().unflatten(-1, (-1, 2) if interleaved else (2, -1))
    pairs = pairs if interleaved else pairs.transpose(-1, -2)
    found = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angle), angle))
    return (found if interleaved else found.transpose(-1, -2)).flatten(-2)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope(interleaved: bool, device: str, rng: np.random.Generator):
    for dtype, dim in ((BF16, 64), (F32, 6)):
        q, k = (values(rng, dtype, 2, 5, heads, dim).to(device) for heads in (3, 1))
        angle = torch.from_numpy(rng.random((9, dim // 2)) * 6)
        cos, sin = (t.float().to(device) for t in (angle.cos(), angle.sin()))
        positions = torch.from_numpy(rng.integers(0, 9, (2, 5)))
        for given in (None, positions):
            here = angle[:5].expand(2, 5, -1) if given is None else angle[given]
            out = kernels.rope(
                q, k, cos, sin, positions=None if given is None else given.to(device), interleaved=interleaved
            )  # fmt: skip
            for got, x in zip(out, (q, k), strict=True):
                want = turned(x.cpu(), here[:, :, None], interleaved)
                assert_close(got.cpu(), want, atol=2e-6, what=f"rope {dtype} {dim}")
        back = kernels.rope(
            out[0], None, cos, sin, positions=positions.to(device), interleaved=interleaved, inverse=True
        )  # fmt: skip
        step = {F32: 1e-6, F16: 4e-3, BF16: 4e-2}[dtype]
        assert_close(back.cpu(), q.cpu().double(), atol=step, what="turned back")
    beyond = kernels.rope(q, None, cos, sin, positions=(positions * 0 + 9).to(device), interleaved=interleaved)
    assert beyond.isnan().all(), "there is no such position"


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope_into_a_cache(interleaved: bool, device: str, rng: np.random.Generator):
    """Keys turned and values as they are lie in their slots; other rows are left, tokens without a slot go nowhere."""
    for dtype, dim in ((BF16, 64), (F32, 6)):
        q, k, v = (values(rng, dtype, 2, 5, heads, dim).to(device) for heads in (3, 2, 2))
        angle = torch.from_numpy(rng.random((5, dim // 2)) * 6)
        cos, sin = (t.float().to(device) for t in (angle.cos(), angle.sin()))
        slots = torch.from_numpy(rng.permutation(24)[:10].reshape(2, 5)).to(device)
        free = slots[0, 1].item()
        slots[0, 1], slots[1, 3] = -1, 24
        both = torch.full((6, 4, 2, 2 * dim), 7.0, dtype=dtype, device=device)
        keys, kept = both[..., :dim], both[..., dim:]
        out = kernels.rope(q, k, cos, sin, interleaved=interleaved, v=v, cache=(keys, kept), slots=slots)
        want_q, want_k = kernels.rope(q, k, cos, sin, interleaved=interleaved)
        assert torch.equal(out, want_q)
        there = (slots >= 0) & (slots < 24)
        for cache, rows in ((keys, want_k), (kept, v)):
            want = torch.full((24, 2, dim), 7.0, dtype=dtype, device=device)
            want[slots[there]] = rows[there]
            assert torch.equal(cache.reshape(24, 2, dim), want) and (want[free] == 7).all()
    mixed = k.transpose(2, 3).contiguous()  # elements of a head are apart
    for words, change in (
        ("come together", {"v": None}), ("keys and the values", {"cache": (keys,)}), ("slots has", {"slots": slots[0]}),
        ("is .*rows, 2, 6", {"cache": (keys[..., :4], kept)}), ("v has the shape", {"v": v[:, :1]}),
        ("overlaps", {"v": keys[:2, :1].expand(2, 5, 2, dim)}), ("overlaps", {"cache": (keys, keys)}),
        ("in place", {"cache": (mixed.transpose(2, 3), kept)}), ("elements of", {"v": v.half()}),
    ):  # fmt: skip
        with pytest.raises((DSLValueError, DSLTypeError), match=words):
            kernels.rope(q, k, cos, sin, **{"v": v, "cache": (keys, kept), "slots": slots, **change})  # type: ignore[arg-type]


def test_embedding(shapes, device: str, rng: np.random.Generator):
    for dtype, m, n in shapes:
        table, ids = values(rng, dtype, 11, n).to(device), torch.from_numpy(rng.integers(0, 11, (m, 3)))
        assert torch.equal(kernels.embedding(ids.to(device), table).cpu(), table.cpu()[ids])
        d = values(rng, dtype, m, 3, n).to(device)
        got = kernels.embedding_backward(d, ids.to(device), 11, padding_idx=4)
        start = leaf(table)
        want = gradients(F.embedding(ids, start, padding_idx=4), d.cpu(), start)[0]
        assert_close(got.cpu(), want, terms=3 * m, magnitude=torch.full_like(want, 30), what=f"dtable {dtype} {n}")
        bad = kernels.embedding(torch.tensor([0, 11, -1]).to(device), table)
        assert not bad[0].isnan().any() and bad[1:].isnan().all()


def test_largest(shapes, device: str, rng: np.random.Generator):
    for dtype, m, n in shapes[:3] if len(shapes) > 1 else shapes:
        x = values(rng, dtype, m, n)
        x[0, n // 2] = float("nan") if n > 1 else 1.0
        x[-1, : n // 2] = 0.25  # equal ones come in their order
        k = min(n, 5)
        want = torch.sort(x.float(), stable=True, descending=True)
        got, numbers = kernels.top_k(x.to(device), k)
        assert torch.equal(numbers.cpu(), want.indices[:, :k])
        assert_close(got.cpu(), want.values[:, :k].double())
        assert torch.equal(kernels.argmax(x.to(device)).cpu(), want.indices[:, 0])
        if n == 33:
            continue
        if n == 64:
            precise = values(rng, torch.float64, 2, m, n).to(device)
            of_all = torch.softmax(precise.cpu(), -1)
            for normed, count in ((False, 3), (True, n), (True, 0)):
                weights, experts = kernels.gate(precise, count, normed=normed)
                chosen = of_all.gather(-1, experts.cpu())
                chosen = chosen / chosen.sum(-1, keepdim=True) if normed else chosen
                assert torch.equal(experts.cpu(), torch.topk(precise.cpu(), count).indices)
                assert_close(weights.cpu(), chosen, rtol=1e-14, what="gates of float64")
        y = values(rng, dtype, m, n).to(device)
        shares = torch.softmax(y.cpu().double(), -1)
        for normed in (False, True):
            weights, experts = kernels.gate(y, k, normed=normed)
            assert torch.equal(experts, kernels.top_k(y, k)[1])
            chosen = shares.gather(-1, experts.cpu())
            chosen = chosen / chosen.sum(-1, keepdim=True) if normed else chosen
            assert_close(weights.cpu(), chosen, rtol=1e-5, what=f"gates {dtype} {m} x {n}")


def test_quantize(shapes, device: str, rng: np.random.Generator):
    """Within half a step of the type; zeros, and elements that a known scale has no room for."""
    types = (
        ("float8_e4m3fn", 448.0, 2**-4, 2**-9), ("int8", 127.0, 0.0, 0.5001), ("float8_e5m2", 57344.0, 2**-3, 2**-15),
    )  # fmt: skip
    for number, (dtype, m, n) in enumerate(shapes[:3]):
        kind, largest, step, least = types[number % 3]
        x = values(rng, dtype, m, n)
        x[0] = 0

        def near(q: torch.Tensor, scale: torch.Tensor, want: torch.Tensor) -> None:
            bound = want.abs() * step * 1.001 + scale * least  # noqa: B023
            assert ((q.cpu().double() * scale - want).abs() <= bound).all(), kind  # noqa: B023

        q, scales = kernels.quantize(x.to(device), kind)
        assert str(q.dtype) == f"torch.{kind}" and scales.shape == (m,) and scales[0] == 1
        near(q, scales.cpu().double()[:, None], x.double())
        assert_close(scales[1:].cpu(), x[1:].double().abs().amax(-1) / largest, rtol=1e-6)
        if n != 257:
            q, one = kernels.quantize(x.to(device), kind, scale="tensor")
            near(q, one.cpu().double(), x.double())
            q, _ = kernels.quantize(x.to(device), kind, scale=torch.full((1,), 1e-3, device=device))
            near(q, torch.tensor(1e-3).double(), x.double().clamp(-largest * 1e-3, largest * 1e-3))
            w = values(rng, dtype, n)
            q, scales = kernels.rms_norm_quantized(x.to(device), w.to(device), kind, eps=EPS)
            near(q, scales.cpu().double()[:, None], F.rms_norm(x.double(), (n,), w.double(), EPS))
    x = values(rng, F32, 2, 3, 256)
    q, scales = kernels.quantize(x.to(device), "int8", scale="block")
    assert scales.shape == (2, 3, 2) and q.shape == x.shape
    error = q.cpu().double().view(2, 3, 2, 128) * scales.cpu().double()[..., None] - x.double().view(2, 3, 2, 128)
    assert (error.abs() <= scales.cpu().double()[..., None] * 0.5001).all()
    assert kernels.quantize(x[:0], "int8")[1].shape == (0, 3)


@pytest.mark.parametrize("kind", ["int8", "float8_e4m3fn", "float8_e5m2"])
def test_quantize_what_has_no_scale(kind: str, device: str):
    """Elements too small for a scale are zeros; a NaN is not lost, nor are the others cut in its place."""
    tiny = torch.tensor([[1e-45, 1e-44, 0.0], [0.0, 0.0, 0.0]], device=device)
    for scale in ("row", "tensor"):
        q, scales = kernels.quantize(tiny, kind, scale=scale)
        assert (q.float() == 0).all() and (scales == 1).all()
    x = torch.tensor([[float("nan"), 1000.0], [2.0, 1.0]], device=device)
    q, scales = kernels.quantize(x, kind)
    assert scales[0].isnan() and (q[0].float() * scales[0]).isnan().all()
    assert abs(float(q[1, 0].float() * scales[1]) - 2.0) < 1e-5


@pytest.mark.parametrize(("n", "dtype"), [(256, BF16), (384, F32), (128, F16), (5, F32)])
def test_norms_behind_a_sum_in_eight_bits(n: int, dtype: torch.dtype, device: str, rng: np.random.Generator):
    """Codes times scales are the norm of the sum within half a step; the sum comes as well, and scales of blocks."""
    x, r, w, b = (values(rng, dtype, *shape) for shape in ((3, 2, n), (3, 2, n), (n,), (n,)))
    x[0, 1], r[0, 1] = 0, 0
    summed = (x.double() + r.double()).to(dtype)
    # A mean and a mean of squares of n elements in float32, times a weight below 8; eps keeps the deviation from zero.
    error = (n + 8) * 2**-24 * 2 * 8
    for kind, largest, step, least in (("float8_e4m3fn", 448.0, 2**-4, 2**-9), ("int8", 127.0, 0.0, 0.5001)):
        for layer in (False, True):
            for scale in ("row", "block", torch.full((1,), 0.02, device=device)):
                if scale == "block" and n % 128:
                    continue
                vectors, source = ((w, b) if layer else (w,)), summed.double()
                function = kernels.layer_norm_quantized if layer else kernels.rms_norm_quantized
                q, scales, total = function(
                    x.to(device), *(v.to(device) for v in vectors), dtype=kind, residual=r.to(device), scale=scale,
                    eps=EPS,
                )  # fmt: skip
                assert torch.equal(total.cpu(), summed)
                if layer:
                    want = F.layer_norm(source, (n,), w.double(), b.double(), EPS)
                else:
                    want = F.rms_norm(source, (n,), w.double(), EPS)
                each = scales.cpu().double()
                if isinstance(scale, str):
                    parts = want.unflatten(-1, (-1, 128 if scale == "block" else n))
                    tops = parts.abs().amax(-1)
                    tops = torch.where(tops < 1e-30, torch.full_like(tops, largest), tops)
                    each = each if scale == "block" else each[..., None]
                    assert_close(each, tops / largest, rtol=error, atol=error / largest)
                    each = each.repeat_interleave(n // each.shape[-1], -1)
                else:
                    want = want.clamp(-largest * each, largest * each)
                bound = want.abs() * (step + error) + each * least * 1.001 + error
                assert ((q.cpu().double() * each - want).abs() <= bound).all()


def test_blocks_of_rows_that_begin_anywhere(device: str):
    """A launch of its own behind the norm: the same scales but for the rounding of the norm."""
    x = torch.randn(4, 257, device=device)[:, 1:]
    q, scales = kernels.rms_norm_quantized(x, None, "int8", scale="block")
    normed = kernels.rms_norm(x)
    want = kernels.quantize(normed, "int8", scale="block")
    assert torch.equal(q, want[0]) and torch.equal(scales, want[1])
    q, scales = kernels.rms_norm_quantized(x, None, "int8", scale="tensor")
    want = kernels.quantize(normed, "int8", scale="tensor")
    assert torch.equal(q, want[0]) and torch.equal(scales, want[1])
    for bad, words in (("group", "one of row, block, tensor"), (torch.ones(3, device=device), "one number")):
        with pytest.raises(DSLValueError, match=words):
            kernels.layer_norm_quantized(x, None, None, "int8", scale=bad)
    with pytest.raises(DSLTypeError, match="residual"):
        kernels.rms_norm_quantized(x, None, "int8", residual=x.half())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_one_scale_for_all_is_divided_in_float32(dtype: torch.dtype, device: str):
    """The scale of small elements is no number of 16 bits: it would be rounded, or zero."""
    x = torch.tensor([[3e-3, -1e-3], [2e-4, 0.0]], dtype=dtype, device=device)
    for kind, largest in (("float8_e5m2", 57344.0), ("float8_e4m3fn", 448.0), ("int8", 127.0)):
        q, scale = kernels.quantize(x, kind, scale="tensor")
        assert scale.item() == (x[0, 0].float() / largest).item()
        assert q[0, 0].float() == largest


def test_quantize_one_row(device: str):
    """Without any direction in front of it, and no rows of blocks."""
    x = torch.randn(128, device=device)
    for made in (kernels.quantize(x, "int8"), kernels.rms_norm_quantized(x, None, "int8")):
        assert made[0].shape == (128,) and made[1].shape == ()
    found = kernels.quantize(x, "int8")
    torch.testing.assert_close(found[0].float() * found[1], x, rtol=0, atol=float(x.abs().max()) / 250)
    for shape in ((0,), (5, 2, 0)):
        q, scales = kernels.quantize(torch.empty(shape, device=device), "int8")
        assert q.shape == shape and scales.shape == shape[:-1] and (scales == 1).all()
    for shape in ((0, 128), (3, 0)):
        q, scales = kernels.quantize(torch.empty(shape, device=device), "int8", scale="block")
        assert q.shape == shape and scales.shape == (shape[0], shape[1] // 128)


@pytest.mark.parametrize("shape", [(3, 6, 4, 4), (2, 4, 5, 7), (2, 2, 33000)])
def test_group_norm(shape: tuple[int, ...], device: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Channels of whole units and others, and more than registers hold."""
    if shape == (2, 4, 5, 7) and device == "cpu":
        monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    dtype = BF16 if 5 in shape else F32
    x, d = (values(rng, dtype, *shape).to(device) for _ in range(2))
    w, b = (values(rng, dtype, shape[1]).to(device) for _ in range(2))
    start, weight, bias = leaf(x), leaf(w), leaf(b)
    want = F.group_norm(start, 2, weight, bias, EPS)
    made = kernels.group_norm_forward(x, 2, w, b, eps=EPS)
    assert_close(made.out.cpu(), want.detach(), terms=8, rtol=1e-5, what="group norm")
    got = kernels.group_norm_backward(d, x, 2, w, made.mean, made.scale)
    count = x.numel() // shape[1]
    wanted = gradients(want, d.cpu(), start, weight, bias)
    for part, exact, slack in zip(got, wanted, (2e-5, 2e-6 * count, 2e-6 * count), strict=True):
        assert_close(part.cpu(), exact, atol=slack + 2e-5, what="gradient")
    r, ds = (values(rng, dtype, *shape).to(device) for _ in range(2))
    for _ in range(2):  # known, and known again
        out, summed, mean, scale = kernels.group_norm_forward(x, 2, w, b, eps=EPS, residual=r)
        back = kernels.group_norm_backward(d, summed, 2, w, mean, scale, dsummed=ds)[0]
    assert torch.equal(summed, x + r)
    start = leaf(summed)
    of_sum = F.group_norm(start, 2, weight, bias, EPS)
    assert_close(out.cpu(), of_sum.detach(), terms=8, rtol=1e-5, what="group norm of a sum")
    exact = torch.autograd.grad(of_sum, start, d.cpu().double())[0] + ds.cpu().double()
    assert_close(back.cpu(), exact, atol=4e-5, what="gradient of the sum")
    if shape == (3, 6, 4, 4):
        last = x.to(memory_format=torch.channels_last)
        out = torch.zeros_like(last)
        assert kernels.group_norm(last, 2, w, b, eps=EPS, out=out) is out
        assert_close(out.cpu(), want.detach(), terms=8, rtol=1e-5)


def test_nan_and_infinities(device: str):
    """As float64 has them: a NaN spoils its row and no other."""
    x = torch.randn(6, 257)
    x[0, 7], x[1, 8], x[2, 9], x[3, :], x[4, :256] = (float(v) for v in ("nan", "inf", "-inf", "-inf", "-inf"))
    target = torch.full((6,), 11)
    target[5] = 256
    y = x.to(BF16).to(device)
    e = y.cpu().double()
    assert_close(kernels.softmax(y).cpu(), torch.softmax(e, -1), terms=257, rtol=3e-6)
    assert_close(kernels.log_softmax(y).cpu(), torch.log_softmax(e, -1), terms=257, rtol=3e-6)
    got = kernels.cross_entropy(y, target.to(device), reduction="none")
    assert_close(got.cpu(), F.cross_entropy(e, target, reduction="none"), atol=1e-5)
    assert kernels.rms_norm(y).cpu()[[0, 1, 2, 3]].isnan().any(-1).all()
    target[0] = 257
    assert kernels.cross_entropy(y, target.to(device), reduction="none")[0].isnan()


def test_the_lowest_numbers_have_a_softmax(device: str):
    """Each type's own, in registers and in a loop."""
    for dtype, n in ((F32, 64), (torch.float64, 20000)):
        x = torch.full((2, n), torch.finfo(dtype).min, dtype=dtype)
        assert_close(kernels.softmax(x.to(device)).cpu(), torch.full((2, n), 1 / n).double(), rtol=1e-5)


def test_strides_and_results(device: str, rng: np.random.Generator):
    """Rows that lie apart, in other directions or on top of each other; results in place, and nothing beside them."""
    wide = values(rng, F32, 4, 6, 90).to(device)
    for x in (
        wide[:, 1:, 3:80], wide[:, :, ::2], wide.transpose(1, 2), wide[0, 0], wide[:1, 2:3].expand(4, 6, 90),
        wide[:, :, :0], wide[:0],
    ):  # fmt: skip
        want = torch.softmax(x.cpu().double(), -1)
        assert_close(kernels.softmax(x).cpu(), want, terms=90, rtol=3e-6)
    whole = torch.full((4, 6, 99), float("nan"), device=device)
    for part in (whole[:, :, 5:95], whole[:, :, 1:91]):
        whole.fill_(float("nan"))
        assert kernels.softmax(wide, out=part) is part
        assert_close(part.cpu(), torch.softmax(wide.cpu().double(), -1), terms=90, rtol=3e-6)
        assert int(whole.isnan().sum()) == 4 * 6 * 9, "something beside the result was written"
    want = torch.softmax(wide.cpu().double(), -1)
    turned_out = torch.zeros(4, 90, 6, device=device).transpose(1, 2)
    assert_close(kernels.softmax(wide, out=turned_out).cpu(), want, terms=90, rtol=3e-6)
    assert_close(kernels.softmax(wide, out=wide).cpu(), want, terms=90, rtol=3e-6)


def test_numpy(rng: np.random.Generator):
    x, w = rng.standard_normal((3, 41)).astype("f4"), rng.standard_normal(41).astype("f4")
    y, summed = kernels.rms_norm(x, w, residual=x)
    assert isinstance(y, np.ndarray) and np.array_equal(summed, 2 * x)
    assert_close(y, F.rms_norm(torch.from_numpy(summed).double(), (41,), torch.from_numpy(w).double(), 1e-6), rtol=1e-5)
    assert kernels.top_k(x, 2)[1].tolist() == np.argsort(-x, 1)[:, :2].tolist()
    assert kernels.embedding_backward(x, np.array([1, 1, 0]), 2).shape == (2, 41)
    assert kernels.layer_norm_backward(x[:0], x[:0], w, w[:0], w[:0]).weight.tolist() == [0.0] * 41


def test_what_does_not_fit_is_refused():
    x, ids = torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64)
    for call, kind, words in (
        (
            lambda: kernels.softmax(cast("torch.Tensor", [1.0])),
            DSLTypeError,
            "softmax: x is a numpy array or a torch tensor, got list",
        ),
        (lambda: kernels.softmax(ids), DSLTypeError, "softmax: x has elements of .*got int64"),
        (lambda: kernels.softmax(torch.tensor(1.0)), DSLValueError, "softmax: x has rows"),
        (lambda: kernels.softmax(x, out=x[:1]), DSLValueError, r"out has the shape \[2, 4\]"),
        (lambda: kernels.softmax(x, out=x.half()), DSLTypeError, "out has elements of float32, got float16"),
        (lambda: kernels.softmax(x, out=x.view(-1)[:4].expand(2, 4)), DSLValueError, "on top of each other"),
        (lambda: kernels.softmax(torch.zeros(9)[:8].view(2, 4), out=x), None, ""),
        (lambda: kernels.softmax_backward(x, x[:, :3]), DSLValueError, r"dy has the shape \[2, 4\], as y tells"),
        (lambda: kernels.rms_norm(x, x[0, :3]), DSLValueError, "rms_norm: weight has the shape"),
        (lambda: kernels.rms_norm(x, residual=x.half()), DSLTypeError, "residual is float32 as x, got float16"),
        (lambda: kernels.cross_entropy(x, x[:, 0]), DSLTypeError, "target has elements of int32, int64"),
        (lambda: kernels.cross_entropy(x, ids[:1]), DSLValueError, r"target has the shape \[2\]"),
        (lambda: kernels.cross_entropy(x, ids, reduction="most"), DSLValueError, "one of mean, sum, none"),
        (lambda: kernels.cross_entropy(x, ids, label_smoothing=2.0), DSLValueError, "between 0 and 1"),
        (
            lambda: kernels.gated(x, x, activation="swish"),
            DSLValueError,
            "activation is one of none, relu",
        ),
        (lambda: kernels.gated(x, x.half()), DSLTypeError, "y is float32 as x"),
        (lambda: kernels.top_k(x, 5), DSLValueError, "a row of 4 elements has no 5 largest"),
        (lambda: kernels.rope(x[None, :, :3], None, x, x), DSLValueError, "with an even dim"),
        (lambda: kernels.rope(x[None], None, x, x), DSLValueError, r"cos is \(positions, 2\)"),
        (lambda: kernels.quantize(x, "int4"), DSLTypeError, "one of float8_e4m3fn, float8_e5m2, int8, got int4"),
        (lambda: kernels.quantize(x, scale="column"), DSLValueError, "one of row, block, tensor"),
        (lambda: kernels.quantize(x, scale="block"), DSLValueError, "128 elements of a row, got rows of 4"),
        (lambda: kernels.quantize(x, scale=x[0]), DSLValueError, "one number"),
        (lambda: kernels.group_norm(x, 3), DSLValueError, "4 channels are no 3 groups"),
        (lambda: kernels.group_norm(x[0], 1), DSLValueError, r"x is \(images, channels, ...\)"),
        (lambda: kernels.embedding(ids, x[0]), DSLValueError, r"table is \(rows, columns\)"),
    ):
        if kind is None:
            call()
        else:
            with pytest.raises(kind, match=words):
                call()
    both = torch.zeros(3, 4)
    with pytest.raises(DSLValueError, match="out overlaps x"):
        kernels.softmax(both[:2], out=both[1:])


def test_what_has_no_answer_is_refused(rng: np.random.Generator):
    logits = np.empty((4, 0), "f4")
    with pytest.raises(DSLValueError, match="the 4 rows of logits have no classes"):
        kernels.cross_entropy(logits, np.zeros(4, "i8"))
    dy, ids = rng.standard_normal((3, 8)).astype("f4"), np.array([1, 3, 3])
    last = kernels.embedding_backward(dy, ids, 4, padding_idx=-1)
    assert (last[3] == 0).all() and (last[1] == dy[0]).all()
    for index in (4, -5):
        with pytest.raises(DSLValueError, match=f"padding_idx is a row of a table of 4, got {index}"):
            kernels.embedding_backward(dy, ids, 4, padding_idx=index)
