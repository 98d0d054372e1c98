"""Which configuration a call takes, what it is keyed by, and what the search leaves behind (T-3, T-4, T-5,
T-12, T-13).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.autotune import Autotuner, Config, autotune, ranking, tune_listener
from flydsl.autotune.runner import Launcher
from flydsl.compiler.hints import CompilationContext
from flydsl.errors import CaptureError, DSLRuntimeError, DSLTypeError, DSLValueError
from flydsl.runtime.device_runtime import get_device_runtime

Times = dict[object, float]
CONFIGS = [Config(BLOCK=1), Config(BLOCK=2), Config(BLOCK=3)]


class Tuned:
    """A plain function that is tuned with made-up times, and what happened to it."""

    def __init__(self, times: Times, **options: Any):
        self.runs: list[tuple[object, ...]] = []
        self.benched: list[object] = []
        self.times = times
        options.setdefault("configs", CONFIGS)
        options.setdefault("key", ["n"])

        def work(x: object, n: int, BLOCK: int = 0) -> object:
            self.runs.append((n, BLOCK))
            return BLOCK

        def bench(fn: Callable[[], object], warmup: int, rep: int) -> float:
            assert (warmup, rep) == (5, 25)
            fn()
            self.benched.append(self.runs[-1][1])
            return self.times[self.runs[-1][1]]

        self.tuner: Autotuner = autotune(do_bench=bench, **options)(work)

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.tuner(*args, **kwargs)


def times(a: float = 3.0, b: float = 1.0, c: float = 2.0) -> Times:
    return {1: a, 2: b, 3: c}


def test_search_then_remembered_in_memory_and_on_disk():
    tuned = Tuned(times())
    assert tuned(None, 4) == 2  # the winner's own return value: it runs once more as the real call
    assert tuned.benched == [1, 2, 3] and tuned.runs[-1] == (4, 2)
    assert tuned(None, 4) == 2 and len(tuned.benched) == 3
    assert tuned(None, 5) == 2 and len(tuned.benched) == 6  # another value of the key
    again = Tuned(times(a=0.1))
    assert again(None, 4) == 2 and not again.benched  # from disk, whatever it would measure
    assert again.tuner.resolve_config(None, 4) == Config(BLOCK=2)


def test_force_searches_once_per_key(monkeypatch: pytest.MonkeyPatch):
    assert Tuned(times())(None, 4) == 2
    monkeypatch.setenv("FLYDSL_AUTOTUNE", "1")
    forced = Tuned(times(a=0.5), default=lambda *a, **k: Config(BLOCK=3))
    assert forced(None, 4) == 1 and len(forced.benched) == 3
    assert forced(None, 4) == 1 and len(forced.benched) == 3
    monkeypatch.delenv("FLYDSL_AUTOTUNE")
    after = Tuned(times())
    assert after(None, 4) == 1 and not after.benched  # the forced search's winner replaced the other


def test_default_comes_before_a_search_and_after_a_winner(monkeypatch: pytest.MonkeyPatch):
    seen: list[object] = []

    def default(x: object, n: int) -> Config:
        seen.append(n)
        return Config(BLOCK=3)

    tuned = Tuned(times(), default=default)
    assert tuned(None, 4) == 3 and not tuned.benched and seen
    monkeypatch.setenv("FLYDSL_AUTOTUNE", "1")
    assert Tuned(times(), default=default)(None, 4) == 2
    monkeypatch.delenv("FLYDSL_AUTOTUNE")
    assert Tuned(times(), default=default)(None, 4) == 2
    with pytest.raises(DSLTypeError, match="default gives a Config"):
        Tuned(times(), default=lambda *a: 5)(None, 9)


def test_candidates_by_a_function_of_the_arguments():
    tuned = Tuned(times(), configs=lambda x, n: [Config(BLOCK=1)] if n < 10 else CONFIGS)
    assert tuned(None, 4) == 1 and tuned(None, 40) == 2


def test_the_key_follows_what_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    x = np.zeros((4, 4), "f4")

    def searches(*args: object, tuned: Tuned | None = None, **kwargs: object) -> bool:
        chosen = tuned or Tuned(times())
        chosen(*args, **kwargs)
        return bool(chosen.benched)

    assert searches(x, 4)
    assert not searches(x, 4)
    assert not searches(n=4, x=x)  # keyword order does not count
    assert not searches(np.ones((9, 9), "f4"), 4)  # x is not in the key: its shape does not count
    assert searches(x.astype("f8"), 4)  # its dtype does
    assert searches(x.T, 4)  # and which stride is 1
    assert searches(np.broadcast_to(x[:1], (4, 4)), 4)  # and which is 0
    assert not searches(np.zeros((8, 8), "f4")[::2], 4)  # how large others are does not
    assert searches(x, 4.0) and searches(x, True)  # values by type
    with CompilationContext.compile_hints({"maxnreg": 64}):
        assert searches(x, 4)
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "1")
    assert searches(x, 4)
    monkeypatch.delenv("FLYDSL_COMPILE_OPT_LEVEL")
    assert not searches(x, 4)
    assert searches(x, 4, tuned=Tuned(times(), configs=CONFIGS[:2]))  # another list of candidates
    assert not searches(x, 4, tuned=Tuned(times(), configs=CONFIGS[::-1]))
    shaped = Tuned(times(), key=["x"])
    shaped(x, 4)
    shaped(x, 5)
    assert len(shaped.benched) == 3
    shaped(x[:2], 5)
    assert len(shaped.benched) == 6


def test_repeated_calls_are_decided_without_a_look_at_the_disk(monkeypatch: pytest.MonkeyPatch):
    """Whatever the arguments are: arrays of numpy, in tuples, in adapters; numbers, None, objects."""
    tuned = Tuned(times(), key=["n"])
    x = np.zeros((4, 4), "f4")
    kinds = [x, (x, x.T), flyc.from_dlpack(x), bytearray(8), None, 3.5, object(), CONFIGS]
    for each in kinds:
        tuned(each, 4)
    monkeypatch.setattr(type(tuned.tuner), "_find", lambda *_: pytest.fail("decided anew"))
    for each in kinds:
        assert tuned(each, 4) == 2
    for other in (x.astype("f8"), (x.T, x), flyc.from_dlpack(x.T)):
        with pytest.raises(pytest.fail.Exception):
            tuned(other, 4)


SOURCE = """
import flydsl.compiler as flyc, flydsl.expr as fx
from flydsl.autotune import Config, autotune
runs = []
@flyc.kernel
def kernel(x: fx.Tensor, B: fx.Constexpr[int]):
    x[fx.thread_idx.x] = {value}
def bench(fn, **_):
    runs.append(1)
    fn()
    return 1.0
@autotune([Config(B=1), Config(B=2)], do_bench=bench)
@flyc.jit
def tuned(x: fx.Tensor, B: fx.Constexpr[int]):
    kernel(x, B).launch(grid=1, block=4)
"""


def test_another_kernel_is_searched_again(tmp_path: Path):
    def run(value: str) -> int:
        import importlib.util
        import sys

        file = tmp_path / "mine.py"
        file.write_text(SOURCE.format(value=value))
        spec = importlib.util.spec_from_file_location("mine", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["mine"] = module
        try:
            spec.loader.exec_module(module)
            x = np.zeros(4, "f4")
            module.tuned(x)
            assert x[0] == float(value)
            return len(module.runs)
        finally:
            del sys.modules["mine"]
            __import__("linecache").clearcache()

    assert run("1.0") == 2
    assert run("1.0") == 0
    assert run("2.0") == 2


# --- the caller's arrays ------------------------------------------------------------------------------------------


def test_arrays_hold_what_they_held_and_the_call_happens_once():
    def work(x: Any, total: Any, BLOCK: int = 0) -> None:
        x += 1
        total += x.sum()

    x, total = np.zeros(8, "f4"), np.zeros(1)
    autotune([Config(BLOCK=1), Config(BLOCK=2)], rep=4)(work)(x, total)
    assert x.tolist() == [1.0] * 8 and total[0] == 8


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_restore_and_reset_before_every_run(framework: str):
    seen: list[tuple[float, float, str]] = []

    def work(x: Any, acc: Any, BLOCK: int = 0) -> None:
        seen.append((float(x[0, 0]), float(acc[0]), "run"))
        x[:] += 1
        acc[:] += 5

    def pre(named: dict[str, Any]) -> None:
        seen.append((float(named["x"][0, 0]), float(named["acc"][0]), f"pre {named['BLOCK']}"))

    def post(named: dict[str, Any]) -> None:
        seen.append((float(named["x"][0, 0]), float(named["acc"][0]), "post"))

    tuned = autotune(
        [Config(BLOCK=1), Config(BLOCK=2)],
        restore_value=["x"], reset_to_zero=["acc"], pre_hook=pre, post_hook=post, rep=3, warmup=1,
    )(work)  # fmt: skip
    x, acc = np.full((4, 4), 7.0, "f4")[:, ::2], np.full(4, 9.0, "f4")
    if framework == "torch":
        torch = pytest.importorskip("torch")
        x, acc = torch.full((4, 4), 7.0)[:, ::2], torch.full((4,), 9.0)
    tuned(x, acc)
    assert len([s for s in seen if s[2] == "run"]) >= 2 * 4 + 1
    assert all(s[:2] == (7.0, 0.0) for s in seen if s[2] != "post"), seen  # hooks come after restoring
    assert all(s[:2] == (8.0, 5.0) for s in seen if s[2] == "post")
    assert float(x[0, 0]) == 8.0 and float(acc[0]) == 5.0
    kinds = [s[2] for s in seen[:-1]]
    assert kinds.count("post") == sum(k.startswith("pre") for k in kinds) == kinds.count("run")
    tuned(x, acc)  # a hit: x goes on, acc starts from zero again
    assert float(x[0, 0]) == 9.0 and float(acc[0]) == 5.0
    with pytest.raises(DSLTypeError, match="'acc' is no array"):
        tuned(x, 3)


def test_the_hook_of_a_configuration_runs_before_the_call_too():
    seen: list[object] = []
    hooked = Config(BLOCK=1, pre_hook=lambda named: seen.append(named["n"]))
    tuned = Tuned(times(), configs=[hooked])
    tuned(None, 4)
    first = len(seen)
    tuned(None, 4)
    assert first >= 2 and len(seen) == first + 1
    assert "memory only" in tuned.tuner.report().table()  # a function is not kept on disk
    assert Tuned(times(), configs=[hooked])(None, 4) == 1


# --- where a search is refused ------------------------------------------------------------------------------------


def test_run_only_and_prepare(monkeypatch: pytest.MonkeyPatch):
    tuned = Tuned(times())
    monkeypatch.setenv("FLYDSL_RUNTIME_RUN_ONLY", "1")
    with pytest.raises(DSLRuntimeError, match=r"RUN_ONLY forbids the search.*prepare\(...\)"):
        tuned(None, 4)
    assert not tuned.runs
    monkeypatch.delenv("FLYDSL_RUNTIME_RUN_ONLY")
    assert tuned.tuner.prepare(None, 4) == Config(BLOCK=2)
    count = len(tuned.runs)
    monkeypatch.setenv("FLYDSL_RUNTIME_RUN_ONLY", "1")
    assert tuned(None, 4) == 2 and len(tuned.runs) == count + 1


def test_refused_while_a_stream_is_captured(monkeypatch: pytest.MonkeyPatch):
    tuned = Tuned(times())
    monkeypatch.setattr(type(get_device_runtime()), "capture_active", lambda self: True)
    with pytest.raises(CaptureError, match=r"prepare\(...\) before the capture starts"):
        tuned(None, 4)
    assert not tuned.runs and not tuned.benched
    monkeypatch.undo()
    assert tuned(None, 4) == 2


def test_a_knob_that_the_function_lacks_of_candidates_that_depend_on_the_call():
    tuned = Tuned(times(), configs=lambda x, n: [Config(BLOCK=1), Config(TILE=n)])
    with pytest.raises(DSLValueError, match=r"Config\(TILE=4\) gives 'TILE'"):
        tuned(None, 4)
    assert not tuned.benched


def test_a_knob_the_caller_gives():
    with pytest.raises(DSLValueError, match="the call gives BLOCK, which the tuner chooses"):
        Tuned(times())(None, 4, BLOCK=3)


def test_compile_only_compiles_without_running(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_ONLY", "1")
    tuned = Tuned(times())
    assert tuned(None, 4) == 1 and not tuned.benched


# --- compile hints, launch shapes ---------------------------------------------------------------------------------


@flyc.kernel
def fill_kernel(x: fx.Tensor, n: fx.Int32, num_threads: fx.Constexpr[int]):
    i = fx.block_idx.x * num_threads + fx.thread_idx.x
    if i < n:
        x[i] = num_threads


@flyc.jit
def fill(x: fx.Tensor, n: fx.Int32, num_threads: fx.Constexpr[int]):
    fill_kernel(x, n, num_threads).launch(grid=fx.ceildiv(n, num_threads), block=num_threads)


@pytest.mark.parametrize(
    ("predicted", "chosen"),
    [
        ({64: 3.0, 128: 1.0, 256: 2.0}, 128),
        ({64: None, 128: 2.0, 256: None}, 128),
        ({64: None, 128: None, 256: None}, 64),
        ({64: 2.0, 128: 2.0, 256: 1.0, 2048: 0.5}, 256),  # what cannot be launched is no choice
    ],
)
def test_without_a_device_the_model_chooses(
    predicted: dict[int, float | None], chosen: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FLYDSL_COMPILE_ONLY", "1")

    def made_up(launcher: Launcher, config: Config, *call: object) -> float | None:
        return predicted[config.kwargs["num_threads"]]  # pyright: ignore

    monkeypatch.setattr(ranking, "predicted_ms", made_up)
    configs = [Config(num_threads=n) for n in predicted]
    assert ranking.best_by_model(Launcher(fill), configs, (np.zeros(100, "f4"), 100), {}).kwargs == {
        "num_threads": chosen
    }


def test_warps_become_threads_and_options_become_hints():
    found: list[dict[str, object]] = []
    tuned = autotune([Config(num_warps=2, maxnreg=40)], check=False, rep=1)(fill)
    with flyc.compile_listener(
        lambda name, key, target, times, hit, artifact: found.append(artifact.metadata["hints"])
    ):
        x = np.zeros(100, "f4")
        tuned(x, 100)
    assert x.tolist() == [64.0] * 100
    assert {"maxnreg": 40} in found
    assert not fill.compile_hints
    tuned(x, 100)  # repeated calls take the quick way of the variant
    assert tuned.launcher.function_of(Config(maxnreg=40))[0].cache_info().hits >= 1  # pyright: ignore


# --- what is told -------------------------------------------------------------------------------------------------


def test_report_listener_and_print(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    events: list[Any] = []
    tuned = Tuned(times())
    assert "nothing was searched yet" in tuned.tuner.report().table()
    monkeypatch.setenv("FLYDSL_AUTOTUNE_PRINT", "1")
    with tune_listener(events.append), tune_listener(lambda event: 1 / 0):  # one that fails is logged
        tuned(None, 4)
    tuned(None, 6)
    (event,) = events
    assert event.winner == Config(BLOCK=2) and event.timings == {Config(BLOCK=b): t for b, t in times().items()}
    assert event.duration > 0 and len(event.key) == 64 and event.function.endswith("work")
    report = event.report
    table = report.table()
    assert capsys.readouterr().out.startswith(table)
    lines = table.splitlines()
    assert "3 candidates (3 ok)" in lines[0] and lines[1].startswith(" *     1.0000 ms   1.00x")
    assert [t.config.kwargs["BLOCK"] for t in report.timed] == [2, 3, 1]
    assert report.to_dict()["trials"][0]["ms"] == 3.0
    assert report.svg().startswith("<svg") and "BLOCK=2" in report.svg()
