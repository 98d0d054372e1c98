"""Candidates that fail, hang, abort and lie; cutting, budgets, spaces (T-7, T-8, T-9)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flydsl.autotune import Autotuner, Config, Report, Space, Trial, autotune
from flydsl.autotune.limits import excess
from flydsl.autotune.search import Budget, cut_by_resources, how_many
from flydsl.errors import DeviceLostError, DSLRuntimeError, DSLTypeError, DSLValueError, MissingPackageError
from flydsl.target import GPUTarget


def programs() -> Any:
    spec = importlib.util.spec_from_file_location("programs_of_the_tuner", Path(__file__).with_name("programs.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load()


def statuses(tuner: Autotuner) -> dict[object, tuple[str, str]]:
    return {next(iter(t.config.kwargs.values())): (t.status, t.reason) for t in tuner.report().trials}


def test_a_failing_candidate_costs_a_line():
    def work(x: Any, how: str = "") -> None:
        if how == "fails":
            raise ValueError("not today")
        x[0] = 3 if how == "wrong" else 1
        x[1] = np.nan if how == "nan" else x[1] + 1

    x = np.zeros(4)
    tuned = autotune([Config(how=h) for h in ("fails", "good", "wrong", "nan", "fine")], rep=2)(work)
    tuned(x)
    assert x.tolist() == [1.0, 1.0, 0.0, 0.0]
    found = statuses(tuned)
    assert found["fails"] == ("failed", "ValueError: not today")
    assert found["wrong"][0] == "wrong" and "x[0] is 3, expected 1; 1 of 4 elements of 'x' differ" in found["wrong"][1]
    assert found["nan"][0] == "wrong"
    assert found["good"][0] == found["fine"][0] == "ok"
    assert tuned.report().winner in (Config(how="good"), Config(how="fine"))
    assert "failed  how=fails: ValueError: not today" in tuned.report().table()


def test_all_failing_lists_every_reason():
    def work(x: Any, how: int = 0) -> None:
        raise ValueError(f"reason {how}")

    with pytest.raises(
        RuntimeError, match=r"(?s)no candidate can be used.*how=1: failed, ValueError: reason 1.*reason 2"
    ):
        autotune([Config(how=1), Config(how=2)])(work)(np.zeros(1))


def test_a_lost_device_ends_the_search():
    seen: list[int] = []

    def work(x: Any, how: int = 0) -> None:
        seen.append(how)
        raise DeviceLostError("illegal address")

    with pytest.raises(DeviceLostError):
        autotune([Config(how=1), Config(how=2)])(work)(np.zeros(1))
    assert set(seen) == {1}


def test_the_default_is_the_reference():
    def work(x: Any, how: int = 0) -> None:
        x[:] = how // 10

    tuned = autotune([Config(how=10), Config(how=21), Config(how=20)], default=lambda x: Config(how=20), rep=1)(work)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLYDSL_AUTOTUNE", "1")
        tuned(np.zeros(2))
    assert {k: v[0] for k, v in statuses(tuned).items()} == {10: "wrong", 21: "ok", 20: "ok"}
    unchecked = autotune([Config(how=10), Config(how=20)], check=False, rep=1)(work)
    unchecked(np.zeros(2))
    assert {v[0] for v in statuses(unchecked).values()} == {"ok"}


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_another_order_of_a_sum_is_not_wrong(dtype: str):
    a = np.random.default_rng(0).standard_normal(4097).astype(dtype)

    def work(out: Any, step: int = 1) -> None:
        total = out.dtype.type(0)
        for part in np.array_split(a, step):
            total = total + part.sum(dtype=out.dtype)
        out[0] = total * out.dtype.type(1.2 if step == 7 else 1)

    tuned = autotune([Config(step=s) for s in (1, 64, 7)], rep=1)(work)
    tuned(np.zeros(1, dtype))
    assert {k: v[0] for k, v in statuses(tuned).items()} == {1: "ok", 64: "ok", 7: "wrong"}


def test_validate_and_select():
    class Check:
        def __init__(self, named: dict[str, Any]):
            self.named = named

        def __enter__(self) -> None:
            self.named["x"][:] = -1

        def __exit__(self, *_: object) -> None:
            if (self.named["x"] < 0).any():
                raise AssertionError("an element was not written")

    def work(x: Any, most: int = 0) -> None:
        x[:most] = 5

    tuned = autotune([Config(most=4), Config(most=3), Config(most=5)], validate_hook=Check, rep=1,
                     select_config=lambda pairs: pairs[-1])(work)  # fmt: skip
    x = np.zeros(4)
    tuned(x)
    assert x.tolist() == [5.0] * 4
    assert statuses(tuned)[3] == ("failed", "AssertionError: an element was not written")
    assert tuned.report().winner == tuned.report().timed[-1].config
    bad = autotune([Config(most=1)], select_config=lambda pairs: (Config(most=9), 1.0), rep=1)(work)  # pyright: ignore
    with pytest.raises(DSLValueError, match="select_config gives one of the measured"):
        bad(x)


# --- in a process of its own --------------------------------------------------------------------------------------


def test_hangs_aborts_faults_and_lies_cost_one_candidate_each():
    module = programs()
    x = np.zeros(4)
    module.troublesome(x)
    assert x[0] == 1
    found = statuses(module.troublesome)
    assert found["ok"][0] == found["also ok"][0] == "ok", module.troublesome.report().table()
    assert found["hang"] == ("failed", "it did not end within 3 s")
    assert "SIGABRT" in found["abort"][1] and "SIGSEGV" in found["segv"][1] and "status 3" in found["exit"][1]
    assert found["raise"][0] == "failed" and "no such luck" in found["raise"][1]
    assert found["wrong"][0] == "wrong" and "expected 1" in found["wrong"][1]
    assert not module.troublesome.report().notes


def test_a_kernel_in_a_process_of_its_own_leaves_the_callers_arrays_alone(monkeypatch: pytest.MonkeyPatch):
    module = programs()
    monkeypatch.setattr(module.add, "timeout", 120.0)
    x, y = np.arange(64, dtype="f4")[16:48], np.full(40, 9.0, "f4")
    assert module.add.prepare(x, y, 32) in module.add.configs
    assert y.tolist() == [9.0] * 40
    assert module.add.report().counts() == {"ok": 3}
    module.add(x, y, 32)
    assert y[:32].tolist() == (x + 1).tolist() and y[32:].tolist() == [9.0] * 8


def test_what_cannot_be_sent_is_timed_here_and_said():
    def work(x: Any, BLOCK: int = 0) -> None:
        x[0] = 1

    tuned = autotune([Config(BLOCK=1)], timeout=5, rep=1)(work)
    tuned(np.zeros(2))
    assert "timed in this process, without a time limit" in tuned.report().table()


def test_candidates_compile_in_parallel_processes(monkeypatch: pytest.MonkeyPatch):
    module = programs()
    monkeypatch.setenv("FLYDSL_AUTOTUNE_JOBS", "2")
    x, y = np.zeros(9, "f4"), np.zeros(9, "f4")
    before = module.add.fn.cache_stats()["compilations"]
    module.many(x, y, 9)
    assert y.tolist() == [1.0] * 9
    assert module.many.report().counts() == {"ok": 8}
    assert not module.many.report().notes
    assert all(trial.compile_s > 0 for trial in module.many.report().trials)
    assert module.add.fn.cache_stats()["compilations"] == before  # this process took them from the disk cache


# --- cutting ------------------------------------------------------------------------------------------------------


def test_pruning_by_function_and_by_mapping(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_AUTOTUNE", "1")

    def work(x: Any, B: int = 0) -> None:
        pass

    configs = [Config(B=b) for b in (1, 2, 3, 4)]

    def tried(how: object) -> list[object]:
        tuned = autotune(configs, prune_configs_by=how, rep=1)(work)
        tuned.prepare(np.zeros(1))
        return [t.config.kwargs["B"] for t in tuned.report().trials]

    assert tried(lambda found, named: [c for c in found if c.kwargs["B"] > named["x"].size + 1]) == [3, 4]
    model = lambda x, B: -B  # noqa: E731
    assert tried({"perf_model": model}) == [4, 3, 2, 1]
    assert tried({"perf_model": model, "top_k": 2}) == [4, 3]
    assert tried({"perf_model": model, "top_k": 0.5}) == [4, 3]
    assert tried({"early_config_prune": lambda found, named: found[:3], "perf_model": model, "top_k": 1}) == [3]
    with pytest.raises(RuntimeError, match="prune_configs_by left no configuration"):
        tried(lambda found, named: [])
    for how, said in (
        ({"top_k": 2}, "needs a perf_model"), ({"topk": 2}, "got topk"), (3, "function or a mapping"),
        ({"perf_model": model, "top_k": 0}, "top_k is"), ({"perf_model": model, "top_k": 1.5}, "top_k is"),
    ):  # fmt: skip
        with pytest.raises((DSLValueError, DSLTypeError), match=said):
            tried(how)
    assert how_many(0.01, 10) == 1 and how_many(99, 10) == 10


def test_resources_cut_before_anything_is_launched(monkeypatch: pytest.MonkeyPatch):
    hopper = GPUTarget("cuda", "sm_90a", 32)
    assert "needs 300000 bytes of shared memory" in excess({"k": {"shared": 200000, "dynamic_smem": 100000}}, hopper)
    assert "2048 threads" in excess({"k": {"block_size": [1024, 2, 1]}}, hopper)
    assert "registers for each of 512" in excess({"k": {"block_size": [512, 1, 1], "registers": 200}}, hopper)
    assert excess({"k": {"block_size": [256, 1, 1], "registers": 200, "shared": 1000}}, hopper) == ""
    trials = [Trial(Config(B=b)) for b in range(4)]
    used = [{"k": {"spills": 0}}, {"k": {"spills": 12}}, {"k": {"block_size": [4096, 1, 1]}}, {}]
    cut_by_resources(trials, dict(enumerate(used)))
    assert [t.status for t in trials] == ["left out", "cut", "cut", "left out"]
    assert trials[1].reason == "it spills 12 registers, and others do not"
    only = [Trial(Config(B=1))]
    cut_by_resources(only, {0: {"k": {"spills": 12}}})
    assert only[0].status == "left out"


def test_what_cannot_be_launched_is_cut_under_a_budget_too():
    module = programs()
    tuned = Autotuner(module.add.fn, [Config(BLOCK=64), Config(BLOCK=4096)], budget="60s", rep=1)
    tuned.prepare(np.zeros(8, "f4"), np.zeros(8, "f4"), 8)
    assert statuses(tuned)[64][0] == "ok"
    assert statuses(tuned)[4096][0] == "failed" and "block (4096, 1, 1) is too large" in statuses(tuned)[4096][1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
def test_results_of_torch_are_compared(dtype: str):
    torch = pytest.importorskip("torch")

    def work(x: Any, y: Any, how: int = 0) -> None:
        y.copy_(x)
        if how == 2:
            y[3] += 1

    x = torch.arange(8).to(getattr(torch, dtype))
    tuned = autotune([Config(how=1), Config(how=2), Config(how=3)], rep=1)(work)
    y = torch.full_like(x, 7)
    tuned.prepare(x, y)
    assert (y == 7).all()
    assert {k: v[0] for k, v in statuses(tuned).items()} == {1: "ok", 2: "wrong", 3: "ok"}
    assert "y[3] is 4, expected 3; 1 of 8" in statuses(tuned)[2][1]


# --- budgets ------------------------------------------------------------------------------------------------------


def test_budgets():
    assert Budget.parse("30s") == Budget(30.0) == Budget.parse(30.0)
    assert Budget.parse(50) == Budget(0.0, 50) == Budget.parse("50")
    assert Budget.parse("2.5s,7") == Budget(2.5, 7)
    for bad in ("soon", -1, "-3s", True, "nans"):
        with pytest.raises(DSLValueError, match="a budget is"):
            Budget.parse(bad)


def test_a_budget_is_kept(monkeypatch: pytest.MonkeyPatch):
    import time

    def work(x: Any, B: int = 0) -> None:
        time.sleep(0.05)

    configs = [Config(B=b) for b in range(40)]
    by_count = autotune(configs, budget=3, rep=1, warmup=0)(work)
    by_count.prepare(np.zeros(1))
    assert by_count.report().counts() == {"ok": 3, "left out": 37}
    monkeypatch.setenv("FLYDSL_AUTOTUNE_BUDGET_S", "1")
    by_time = autotune(configs, rep=1, warmup=0)(work)
    by_time.prepare(np.ones(1, "f4"))
    assert 1 <= by_time.report().counts()["ok"] < 15 and by_time.report().seconds < 5
    assert "the budget of 1 s was spent" in by_time.report().table()


# --- large spaces -------------------------------------------------------------------------------------------------


def far(a: int, b: int, c: int) -> float:
    return 1.0 + (a - 17) ** 2 + (b - 3) ** 2 + (c - 11) ** 2


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_large_space_is_sampled_and_climbed(seed: int):
    state: list[float] = []

    def work(x: Any, A: int = 0, B: int = 0, C: int = 0) -> None:
        state[:] = [far(A, B, C)]

    def bench(fn: Any, **_: Any) -> float:
        fn()
        return state[0]

    space = Space(A=range(32), B=range(32), C=range(32), where=lambda c: (c.A + c.B + c.C) % 2 == 1)
    tuned = autotune(space, do_bench=bench, budget=200, seed=seed, strategy="sample")(work)
    again = autotune(space, do_bench=bench, budget=200, seed=seed, strategy="sample")(work)
    best, other = tuned.prepare(np.zeros(seed + 1)), again.prepare(np.zeros(seed + 1, "f4"))
    assert best == other
    times = [t.ms for t in tuned.report().timed]
    assert len(times) <= 200
    assert times[0] < 60, times[:3]  # of 1 to 1000


def test_optuna_is_optional():
    def work(x: Any, A: int = 0) -> None:
        pass

    if importlib.util.find_spec("optuna") is not None:
        tuned = autotune(Space(A=range(1000)), strategy="optuna", budget=8, rep=1)(work)
        tuned.prepare(np.zeros(1))
        assert sum(tuned.report().counts().values()) <= 8
        return
    with pytest.raises(MissingPackageError, match=r"optuna: install flydsl\[tune\]"):
        autotune(Space(A=range(1000)), strategy="optuna", rep=1)(work)(np.zeros(1))
    with pytest.raises(DSLValueError, match="strategy is one of auto, exhaustive, sample, optuna"):
        autotune(Space(A=range(3)), strategy="magic")(work)  # pyright: ignore


def test_reports_count_what_became_of_candidates():
    report = Report("f", trials=[Trial(Config(a=1)), Trial(Config(a=2), "cut", "too large\nmore")])
    assert report.counts() == {"left out": 1, "cut": 1} and "cut  a=2: too large" in report.table()
    assert isinstance(DSLRuntimeError("x"), RuntimeError)
