"""Operations that go by the element: arrays of any length in pieces, wherever they begin and however they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from flydsl import kernels  # noqa: E402
from flydsl.kernels import repeats  # noqa: E402
from flydsl.kernels.rows import call  # noqa: E402
from flydsl.kernels.rows.gated import gated_rows  # noqa: E402

PIECE = call.PIECE_BYTES
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-12}
SHAPES = ((3, 2731), (1, 5003), (2, 4096), (5, 1), (7, 1171), (1, 1))
"""More than a piece and less, whole pieces, and numbers without divisors."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch):  # pyright: ignore[reportUnusedFunction]
    """A second launch is worth it for small arrays, too, and calls are known natively when they come again."""
    monkeypatch.setattr(call, "WORTH_BYTES", PIECE)
    monkeypatch.setattr(repeats, "OFTEN", 1)


def poisoned(shape: tuple[int, ...], dtype: Any, before: int, device: str = "cpu") -> tuple[Any, Any]:
    """An array of NaN that begins so many elements behind a boundary, and all memory around it."""
    size = int(np.prod(shape))
    memory = torch.full((size + before + 64,), float("nan"), dtype=dtype, device=device)
    return memory[before : before + size].view(shape), memory


def random(shape: tuple[int, ...], dtype: Any, before: int, device: str) -> Any:
    made, _ = poisoned(shape, dtype, before, device)
    return made.copy_(torch.randn(shape))


def expected(x: Any, y: Any) -> Any:
    return torch.nn.functional.silu(x.double()) * y.double()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("before", [0, 1, 8])
def test_any_length_from_anywhere(dtype: Any, before: int, device: str):
    for shape in SHAPES:
        x, y = random(shape, dtype, before, device), random(shape, dtype, 0, device)
        out, memory = poisoned(shape, dtype, before, device)
        close = {"atol": TOLERANCE[dtype], "rtol": TOLERANCE[dtype]}
        assert kernels.gated(x, y, out=out) is out
        torch.testing.assert_close(out.double(), expected(x, y), **close)
        outside = torch.cat((memory[:before], memory[before + out.numel() :]))
        assert outside.isnan().all()
        for _ in range(3):
            torch.testing.assert_close(kernels.gated(x, y).double(), expected(x, y), **close)
        d = random(shape, dtype, before, device)
        wide = [t.double().requires_grad_() for t in (x, y)]
        want = torch.autograd.grad(expected(*wide), wide, d.double())
        for _ in range(3):
            for got, right in zip(kernels.gated_backward(d, x, y), want, strict=True):
                torch.testing.assert_close(got.double(), right, **close)


def test_what_is_not_in_one_piece():
    h = torch.randn(3, 2 * 2731)
    x, y = h[:, :2731], h[:, 2731:]
    turned = torch.full((2731, 3), float("nan")).T
    deep = torch.randn(2, 3, 2 * 700)
    for _ in range(3):
        torch.testing.assert_close(kernels.gated(x, y).double(), expected(x, y), atol=1e-5, rtol=1e-5)
        kernels.gated(x, y, out=turned)
        torch.testing.assert_close(turned.double(), expected(x, y), atol=1e-5, rtol=1e-5)
        made = kernels.gated(deep[..., :700], deep[..., 700:])
        torch.testing.assert_close(made.double(), expected(*deep.chunk(2, -1)), atol=1e-5, rtol=1e-5)
        assert made.is_contiguous()
    x = torch.randn(3, 2731)
    kept = x.clone()
    kernels.gated(x, x, out=x)
    torch.testing.assert_close(x.double(), expected(kept, kept), atol=1e-5, rtol=1e-5)


def test_arrays_of_numpy(rng: np.random.Generator):
    x, y = rng.standard_normal((2, 3, 2731)).astype("f4")
    out = np.full((3 * 2731 + 1,), np.nan, "f4")[1:].reshape(3, 2731)
    kernels.gated(x, y, out=out)
    want = x.astype("f8") / (1 + np.exp(-x.astype("f8"))) * y
    np.testing.assert_allclose(out, want, atol=1e-5, rtol=1e-5)


def pieces(*shape: int, dtype: Any = torch.float16) -> list[tuple[int, ...]]:
    x = torch.zeros(shape, dtype=dtype)
    made: list[dict[str, Any]] = call.in_pieces({"x": x, "y": x})  # pyright: ignore[reportAssignmentType]
    for rows in made:
        for each in rows.values():
            assert x.data_ptr() <= each.data_ptr() < x.data_ptr() + x.numel() * x.element_size()
    covered = [each for rows in made for each in rows["x"].flatten() + 1]
    assert len(covered) == x.numel()
    return [tuple(rows["x"].shape) for rows in made]


def test_launches_are_worth_it(monkeypatch: pytest.MonkeyPatch):
    piece = PIECE // 2
    assert pieces(3, 2731) == [(4, piece), (1, 1)]
    assert pieces(4, 1024) == [(2, piece)] and pieces(2, piece) == [(2, piece)]
    assert pieces(1, 100) == [(1, 100)]  # less than a piece
    assert pieces(33, 1000) == [(33, 1000)]  # rows of whole units
    assert pieces(3, 5 * piece + 8) == [(15, piece), (1, 24)]  # such rows, but long ones
    monkeypatch.setattr(call, "WORTH_BYTES", 5 * PIECE)
    assert pieces(3, 2731) == [(3, 2731)]


def test_one_launch_of_small_arrays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    x = torch.randn(37, 431)
    kernels.gated(x, x)
    before = sum(gated_rows.cache_info()[:2])
    kernels.gated(x, x)
    assert sum(gated_rows.cache_info()[:2]) == before + 1
