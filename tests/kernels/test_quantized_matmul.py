"""Weights in 4 and 8 bits: packing, every form of their product against float64, every stack, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.covering import rows_of

from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels import dequantize_weight, matmul, quantize_weight
from flydsl.kernels.matmul.few.slim import Slim, Weights, deepest, problem
from flydsl.kernels.matmul.few.slim_kernel import slim_matmul
from flydsl.kernels.matmul.few.slim_plan import Given, best, candidates

from .matmul_checks import bound, poisoned


def random(rng: np.random.Generator, *shape: int, dtype=torch.bfloat16) -> torch.Tensor:
    scale = np.exp2(rng.integers(-6, 7, (shape[0], 1)))
    return torch.from_numpy(rng.standard_normal(shape) * scale).to(dtype)


def expected(w: torch.Tensor, bits: int, group: int) -> torch.Tensor:
    """What weights become: the nearest multiple of the group's scale, which has the type of the weights."""
    k, n = w.shape
    groups = -(-k // group)
    padded = torch.zeros(groups * group, n)
    padded[:k] = w.float()
    parts = padded.view(groups, group, n)
    largest = (1 << (bits - 1)) - 1
    scales = (parts.abs().amax(1) * float(np.float32(1 / largest))).to(w.dtype).float()
    scales[scales == 0] = 1.0
    integers = (parts / scales[:, None]).round().clamp(-largest - 1, largest)
    return (integers.double() * scales[:, None].double()).reshape(-1, n)[:k]


@pytest.mark.parametrize(
    "bits, group, dtype", [(4, 32, torch.float16), (4, 256, torch.bfloat16), (8, 64, torch.float32)]
)
def test_packing(bits: int, group: int, dtype, rng: np.random.Generator, device: str):
    """Every element is where it belongs, of any strides; a column of zeros stays one."""
    for k, n in ((300, 70), (1, 1), (129, 65)):
        w = random(rng, n, k, dtype=dtype)
        w[0] = 0
        for laid in (w.T, w.T.contiguous()):
            packed = quantize_weight(laid.to(device), bits, group)
            assert packed.shape == (k, n) and (packed.bits, packed.group) == (bits, group)
            torch.testing.assert_close(
                dequantize_weight(packed, "float32").cpu().double(), expected(w.T, bits, group), rtol=1e-7, atol=0
            )


def test_integers_that_are_known(rng: np.random.Generator, device: str):
    """Checkpoints have integers and scales already: all of them, the least included."""
    for bits in (4, 8):
        low = -(1 << (bits - 1))
        w = torch.from_numpy(rng.integers(low, -low, (130, 9), dtype=np.int8))
        w[0, 0], w[1, 0] = low, -low - 1
        scales = torch.from_numpy(rng.random((3, 9), dtype=np.float32)).to(torch.float16)
        packed = quantize_weight(w.to(device), bits, 64, scales=scales.to(device))
        wanted = w.double() * scales.double().repeat_interleave(64, 0)[:130]
        torch.testing.assert_close(dequantize_weight(packed, "float32").cpu().double(), wanted, rtol=1e-7, atol=0)


BF16, F16 = torch.bfloat16, torch.float16
CUTS = [
    (Slim(64, 8, 4, 2, 2, 2), Weights(4, 64), BF16),
    (Slim(128, 8, 4, 1, 3, 1, True), Weights(8, 256), F16),
    (Slim(64, 8, 4, 1, 2, 1, True, True), Weights(4, 128), F16),
    (Slim(64, 8, 4, 2, 2, 2, True, True), Weights(8, 64), BF16),
    (Slim(64, 16, 4, 2, 2, 2), Weights(16), BF16),
    (Slim(64, 8, 2, 2, 2, 2), Weights(32), torch.float32),
    (Slim(64, 8, 4, 1, 3), Weights(4, 128), F16),
    (Slim(128, 16, 4, 1, 2), Weights(8, 128), BF16),
    (Slim(64, 8, 4, 2, 2, 3, True), Weights(4, 32), BF16),
]


@pytest.mark.parametrize(
    "slim, form, dtype", rows_of(CUTS, 6), ids=lambda x: "-".join(map(str, x)) if type(x) is Slim else ""
)
def test_cuts(slim: Slim, form: Weights, dtype, rng: np.random.Generator, device: str):
    assert problem(slim, form) is None
    m, n, k = slim.tokens + 3, slim.rows + 8, 712
    a, w = random(rng, m, k, dtype=dtype).to(device), random(rng, n, k, dtype=dtype).to(device)
    exact, data = w.T, w
    if form.packed:
        packed = quantize_weight(w.T, form.bits, form.group)
        exact, data = dequantize_weight(packed, "float32"), packed.data
        form = packed.form
    c, whole = poisoned((1, m, n), torch.float32, device)
    blocks = 4
    work = torch.full((blocks * slim.slices * slim.rows * slim.tokens,), float("nan"), device=device)
    counters = torch.zeros(blocks, dtype=torch.int32, device=device)
    slim_matmul(a, data, c[0], None, work, counters, m, n, k, k, k, c.stride(1), slim, form, "none", form.bits == 8)
    bound(c[0], a, exact)
    assert torch.isnan(whole[..., n:]).all() and not counters.any()


def test_nothing_to_report_in_checked_mode(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    """No races between who fetches and who multiplies, or between blocks, and no read of what is not there."""
    emulate("sm_90a")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    test_cuts(Slim(64, 8, 4, 1, 2, 2, True, True), Weights(4, 128), BF16, rng, "cpu")
    test_cuts(Slim(64, 8, 4, 2, 2), Weights(8, 128), BF16, rng, "cpu")


@pytest.mark.parametrize("arch", ["sm_90a", "gfx942", "native"])
def test_every_stack(arch: str, rng: np.random.Generator, emulate):
    emulate(arch)
    a, w = random(rng, 3, 200, dtype=torch.float16), random(rng, 200, 70, dtype=torch.float16)
    packed, bias = quantize_weight(w, 4, 64), random(rng, 70, 1, dtype=torch.float32)[:, 0]
    c = matmul(a, packed, bias=bias, activation="relu", out_dtype=torch.float32)
    # Unpacked weights are rounded to float16.
    exact = dequantize_weight(packed, "float32" if arch == "sm_90a" else "float16")
    bound(c, a, exact, lambda x: torch.relu(x + bias.double()))


def test_rows_of_any_dimensions(rng: np.random.Generator, emulate):
    emulate("native")
    a, w = random(rng, 6, 40, dtype=torch.float32).reshape(2, 3, 40), random(rng, 40, 5, dtype=torch.float32)
    packed = quantize_weight(w, 8, 32)
    exact = dequantize_weight(packed).double()
    out = torch.full((2, 3, 5), float("nan"))
    assert matmul(a, packed, out=out) is out
    bound(out.reshape(6, 5), a.reshape(6, 40), exact)
    assert torch.equal(matmul(a, packed), out)
    assert matmul(a[:0], packed).shape == (0, 3, 5)
    assert not matmul(torch.empty(2, 0), quantize_weight(torch.empty(0, 4), 4)).any()
    x = a.numpy()[0]
    bound(torch.from_numpy(matmul(x, quantize_weight(w.numpy(), 8, 32))), a[0], exact)


def test_a_row_does_not_depend_on_others(rng: np.random.Generator, emulate):
    emulate("sm_90a")
    a, w = random(rng, 9, 384), random(rng, 384, 64)
    packed = quantize_weight(w, 4)
    whole = matmul(a, packed, batch_invariant=True)
    assert torch.equal(matmul(a[4:5], packed, batch_invariant=True), whole[4:5])


def test_what_is_refused(rng: np.random.Generator, emulate):
    emulate("native")
    w = random(rng, 40, 5, dtype=torch.float32)
    packed = quantize_weight(w, 4)
    a, one = random(rng, 2, 40, dtype=torch.float32), torch.ones(1)
    wrong = [
        (lambda: quantize_weight(w[0], 4), "2 dimensions"),
        (lambda: quantize_weight(w, 3), "4 or 8 bits, got 3"),
        (lambda: quantize_weight(w, 4, 48), "group is 32, 64 or a multiple of 128, got 48"),
        (lambda: quantize_weight(w, 4, scales=torch.ones(2, 5)), r"the shape \[1, 5\], got float32\[2, 5\]"),
        (lambda: replace(packed, data=packed.data[:, :, :-1]), r"data of .* has the shape \(1, 1, [0-9]+\), got"),
        (lambda: matmul(a[:, :39], packed), "39 columns and b has 40 rows"),
        (lambda: matmul(a, packed, scale_b=one), "scales of their own"),
        (lambda: matmul(a, packed, bias=torch.ones(4)), "each of the 5 columns"),
        (lambda: matmul(a, packed, activation="tanhh"), "unknown activation"),
        (lambda: matmul(a, packed, accumulate="exact"), "accumulate is one of"),
        (lambda: matmul(a, packed, out=torch.empty(3, 5)), r"the shape \[2, 5\]"),
        (lambda: matmul(a[None], packed, out=torch.empty(1, 5, 2).mT), "lies in one piece"),
        (lambda: matmul(a, packed, out=a[:, :5]), "overlaps a"),
    ]
    for call, words in wrong:
        with pytest.raises(DSLValueError, match=words):
            call()
    for call, words in (
        (lambda: quantize_weight(w.to(torch.int8)), "int8 with scales"),
        (lambda: quantize_weight(w, scales=torch.ones(1, 5, dtype=torch.int32)), "scales are float16"),
        (lambda: matmul(a.to(torch.int8), packed), "a is float16"),
        (lambda: matmul(a, packed, out_dtype="int32"), "the product of float32"),
        (lambda: dequantize_weight(w), "what quantize_weight gives"),  # pyright: ignore[reportArgumentType]
    ):
        with pytest.raises(DSLTypeError, match=words):
            call()


def test_the_rule_finds_a_cut_for_all(rng: np.random.Generator):
    for _ in range(100):
        m, n, k = (int(x) for x in np.exp(rng.uniform(0, np.log([300, 40000, 40000]))))
        form = Weights(*[(4, 32, "float32"), (4, 128), (8, 512), (16,)][rng.integers(4)])
        given = Given(m, n, k, form, int(rng.integers(1, 200)))
        assert problem(best(given), form) is None
        assert all(x.slices == 1 or x.slices * x.along <= -(-k // form.depth) for x in candidates(given))
    assert deepest(Slim(64, 8, 1, 8, 1), Weights(4, 128)).stages > 2
