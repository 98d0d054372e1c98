"""Memory that is kept between launches: one launch after the other may use it, and nobody else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import flydsl.expr as fx  # noqa: E402
import flydsl.torch as ft  # noqa: E402
from flydsl.kernels import repeats  # noqa: E402
from flydsl.kernels.matmul import workspace  # noqa: E402
from flydsl.runtime import Stream  # noqa: E402


class Device:
    """A GPU as torch tells of it: its current stream, and whether that is being captured."""

    stream, captured = 7, False

    def __init__(self) -> None:
        self.orders: list[int] = []

    def order_of(self, place: tuple[int, int, int]) -> nullcontext[None]:
        """Notes whose order memory is allocated in."""
        self.orders.append(place[1])
        return nullcontext()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    monkeypatch.setattr(workspace, "on_host", lambda _: False)
    monkeypatch.setattr(workspace, "_kept", {})
    monkeypatch.setattr(workspace, "torch_stream_accessor", lambda: lambda index: made.stream)
    monkeypatch.setattr(workspace, "_in_order_of", made.order_of)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: made.captured)
    return made


def test_on_the_host_it_is_always_new():
    find = workspace.repeated_scratch(torch.ones(1), 100)
    first, second = find(), find()
    assert first.numel() == second.numel() == 100 and first.data_ptr() != second.data_ptr()


def test_kept_for_the_same_stream_and_thread(device: Device):
    find, more = (workspace.repeated_scratch(torch.ones(1), nbytes) for nbytes in (100, 300))
    first = find()
    assert find() is first and first.numel() == 100
    device.stream = 8
    other = find()
    assert other is not first and find() is other
    device.stream = 7
    assert find() is first
    larger = more()
    assert larger.numel() == 300 and find() is larger  # what is larger serves all
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(find).result() is not larger


def test_graphs_and_foreign_streams_have_their_own(device: Device):
    find = workspace.repeated_scratch(torch.ones(1), 100)
    first = find()
    device.captured = True
    one, two = find(), find()
    assert len({t.data_ptr() for t in (first, one, two)}) == 3
    device.captured = False
    with Stream() as own:
        other = find()
        assert other is not first and find() is other and device.orders[-1] == own.handle
    assert find() is first


def test_every_scratch_is_that_of_a_stream_and_a_thread(device: Device):
    """What two kernels of a launch hand on must not be another launch's between them."""

    def one(stream: object = None) -> torch.Tensor:
        return workspace.scratch(torch.ones(1), "sums", 10, "float32", stream)

    first = one()
    assert one() is first and one(device.stream) is first and device.orders == [7]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(one).result() is not first
    with Stream() as own:
        assert one() is one(own) is one(fx.Stream(own)) is not first
    assert one() is first and one(own) is not first
    assert device.orders == [7, 7, own.handle]


def test_what_torch_does_around_launches_is_in_their_stream(device: Device):
    x = torch.ones(1)
    with workspace.in_stream(x, None) as given:
        assert given is None and not device.orders
    with Stream() as own:
        for stream in (None, own, fx.Stream(own), own.handle):
            with workspace.in_stream(x, stream) as given:
                assert given is stream and device.orders.pop() == own.handle and not device.orders


def test_what_is_kept_has_an_end(device: Device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workspace, "PLACES", 4)
    find = workspace.repeated_scratch(torch.ones(1), 100)
    for device.stream in range(20):
        find()
        assert len(workspace._kept) <= 4  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("shape", [(5, 24), (40, 24), (2, 3, 33)])
def test_gradients_do_not_see_what_was_left_there(shape: tuple[int, ...], device: Device, monkeypatch: Any):
    """Each launch writes the sums that it reads, whatever others of other shapes have left."""
    monkeypatch.setattr(repeats, "OFTEN", 1)
    repeats._calls.clear()  # pyright: ignore[reportPrivateUsage]
    repeats.latest.clear()
    n = shape[-1]
    for _ in range(6):
        x, w, b = (torch.randn(s, dtype=torch.float64).requires_grad_() for s in (shape, (n,), (n,)))
        dy = torch.randn(shape, dtype=torch.float64)
        got = torch.autograd.grad(ft.layer_norm(x, w, b), (x, w, b), dy)
        want = torch.autograd.grad(torch.nn.functional.layer_norm(x, (n,), w, b), (x, w, b), dy)
        for a, c in zip(got, want, strict=True):
            torch.testing.assert_close(a, c)
        g = torch.randn(3, 6, n, dtype=torch.float64).requires_grad_()
        v = torch.randn(6, dtype=torch.float64).requires_grad_()
        dg = torch.randn(3, 6, n, dtype=torch.float64)
        got = torch.autograd.grad(ft.group_norm(g, 2, v, v), (g, v), dg)
        want = torch.autograd.grad(torch.nn.functional.group_norm(g, 2, v, v), (g, v), dg)
        for a, c in zip(got, want, strict=True):
            torch.testing.assert_close(a, c)
        for kept in workspace._kept.values():  # pyright: ignore[reportPrivateUsage]
            kept["repeated", "uint8"].fill_(255)  # type: ignore[attr-defined]
    assert len(workspace._kept) == 1  # pyright: ignore[reportPrivateUsage]
    repeats._calls.clear()  # pyright: ignore[reportPrivateUsage]
    repeats.latest.clear()
