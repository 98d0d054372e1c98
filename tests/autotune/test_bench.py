"""Measuring: only the kernel is timed, as often as it takes (T-6)."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.autotune import Config, Timing, autotune, bench, do_bench
from flydsl.autotune.bench import measure
from flydsl.errors import DSLTypeError, DSLValueError, NotSupportedError

TIMES = st.lists(st.floats(0, 1e3), min_size=1, max_size=40)


@given(TIMES, st.floats(0, 1))
def test_quantiles_are_numpys(times: list[float], share: float):
    timing = Timing(tuple(times), "wall")
    assert timing.quantile(share) == pytest.approx(float(np.quantile(times, share)))
    assert timing.median == pytest.approx(float(np.median(times)))
    assert timing.low <= timing.median + 1e-9 and timing.median <= timing.high + 1e-9


def test_only_the_function_is_timed():
    order: list[str] = []

    def before() -> None:
        order.append("before")
        time.sleep(0.05)

    def run() -> None:
        order.append("run")
        time.sleep(0.002)

    timing = measure(run, warmup=1, rep=3, before=before)
    assert timing.method == "wall" and len(timing.times) == 3
    assert 1.9 <= timing.median < 40
    assert order == ["before", "run"] * 4


def test_long_functions_are_repeated_less():
    count = itertools.count()
    timing = measure(lambda: (next(count), time.sleep(0.06)), warmup=5, rep=25)
    assert len(timing.times) == bench.FEWEST and next(count) <= 5
    count = itertools.count()
    assert len(measure(lambda: next(count), warmup=5, rep=25).times) == 25
    assert next(count) == 30
    assert len(measure(lambda: None, warmup=0, rep=1).times) == 1


def test_the_device_is_busy_until_the_host_has_launched(monkeypatch: pytest.MonkeyPatch):
    """A flush shorter than a launch is repeated: else the pair of events would time the host."""
    flushed: list[None] = []
    monkeypatch.setattr(bench, "_timed", lambda *_: lambda count: [0.02] * count)
    idle: Any = SimpleNamespace(stream_synchronize=lambda _: None, synchronize=lambda: None)
    flush = lambda: flushed.append(None)  # noqa: E731
    bench._long_enough(idle, lambda: time.sleep(0.001), None, flush, 0)()  # pyright: ignore[reportPrivateUsage]
    assert 1.0 <= 0.02 * len(flushed)
    flushed.clear()
    bench._long_enough(idle, lambda: None, None, flush, 0)()  # pyright: ignore[reportPrivateUsage]
    assert len(flushed) == 1
    restored: list[None] = []
    bench._long_enough(idle, lambda: time.sleep(0.1), lambda: restored.append(None), flush, 0)()  # pyright: ignore[reportPrivateUsage]
    assert len(flushed) - 1 == bench.MOST_FLUSHES and len(restored) == 3


def test_do_bench_gives_the_median_or_quantiles():
    assert isinstance(do_bench(lambda: None, rep=3), float)
    low, middle, high = do_bench(lambda: time.sleep(0.001), rep=5, quantiles=(0.2, 0.5, 0.8))
    assert 0.9 <= low <= middle <= high
    for bad, said in ((dict(rep=0), "rep is at least 1"), (dict(method="magic"), "method is one of"),
                      (dict(quantiles=[2.0]), "between 0 and 1")):  # fmt: skip
        with pytest.raises(DSLValueError, match=said):
            do_bench(lambda: None, **bad)  # pyright: ignore
    with pytest.raises(DSLTypeError, match="a function without arguments"):
        do_bench(3)  # pyright: ignore
    with pytest.raises(NotSupportedError, match="events"):
        do_bench(lambda: None, method="events")


def test_close_candidates_are_measured_again(monkeypatch: pytest.MonkeyPatch):
    from flydsl.autotune import runner

    base = {1: 10.0, 2: 10.1, 3: 20.0}
    measured: list[int] = []
    state: list[int] = []

    def work(x: Any, B: int = 0) -> None:
        state[:] = [B]

    def fake(run: Any, **_: Any) -> Timing:
        run()
        measured.append(state[0])
        # The second time the first one turns out to be slower.
        return Timing((base[state[0]] + (5.0 if measured.count(state[0]) == 2 and state[0] == 1 else 0.0),), "wall")

    monkeypatch.setattr(runner, "measure", fake)
    tuned = autotune([Config(B=b) for b in base])(work)
    assert tuned.prepare(np.zeros(1)) == Config(B=2)
    assert measured == [1, 2, 3, 1, 2]


def test_own_do_bench_may_give_a_sequence_and_take_before():
    seen: list[str] = []

    def work(x: Any, B: int = 0) -> None:
        seen.append(f"run {x[0]}")
        x[0] += 1

    def own(fn: Any, rep: int, before: Any) -> list[float]:
        before()
        fn()
        return [float(rep), 0.0]

    tuned = autotune([Config(B=1)], restore_value=["x"], do_bench=own, rep=7)(work)
    tuned.prepare(np.full(1, 4.0))
    assert tuned.report().timed[0].ms == 7.0 and set(seen) == {"run 4.0"}
    with pytest.raises(RuntimeError, match="do_bench gives milliseconds"):
        autotune([Config(B=1)], do_bench=lambda fn: "fast")(work)(np.zeros(1, "f4"))


def test_inside_torch_compile():
    torch = pytest.importorskip("torch")
    import flydsl.compiler as flyc
    import flydsl.expr as fx

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, B: fx.Constexpr[int]):
        i = fx.block_idx.x * B + fx.thread_idx.x
        if i < n:
            y[i] = x[i] * 3.0

    @autotune([Config(B=32), Config(B=64)], key=["n"], rep=1)
    @flyc.jit
    def triple(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, B: fx.Constexpr[int]):
        kernel(x, y, n, B).launch(grid=fx.ceildiv(n, B), block=B)

    def model(x: Any) -> Any:
        y = torch.empty_like(x)
        triple(x, y, x.numel())
        return y + 1

    x = torch.randn(100)
    compiled = torch.compile(model, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(x), x * 3 + 1)


@pytest.mark.cuda
@pytest.mark.parametrize("method", ["events", "graph", "wall"])
def test_timing_on_a_gpu(method: Any):
    import flydsl.compiler as flyc
    from flydsl.kernels.vector_add import vector_add

    torch = pytest.importorskip("torch")
    a = torch.rand(1 << 24, device="cuda")
    b, c = a.clone(), torch.empty_like(a)
    assert flyc is not None
    run = lambda: vector_add(a, b, c)  # noqa: E731
    ms = do_bench(run, method=method)
    # 200 MB at 8 TB/s at most; others may have the device at the same time, which the host's clock sees.
    assert 0.02 < ms < (1000.0 if method == "wall" else 1.0) and torch.equal(c, a + b)


@pytest.mark.cuda
def test_a_search_is_refused_in_a_capture_and_does_not_end_it():
    from flydsl.errors import CaptureError

    torch = pytest.importorskip("torch")

    def work(x: Any, B: int = 0) -> None:
        x.add_(1)

    tuned = autotune([Config(B=1)], rep=1)(work)
    x = torch.zeros(4, device="cuda")
    x.add_(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.mul_(2)
        with pytest.raises(CaptureError, match="prepare"):
            tuned(x)
        x.add_(5)
    graph.replay()
    torch.cuda.synchronize()
    assert x.tolist() == [5.0] * 4
