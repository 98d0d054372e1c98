"""Code runs on every device whose settings it does not contradict, whichever way it comes there."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler import compiled_function
from flydsl.compiler.active_backend import resolve_backend
from flydsl.compiler.cache import default_cache
from flydsl.errors import DSLRuntimeError, DSLTypeError
from flydsl.target import CUDA_ARCHES, GPUTarget
from flydsl.target.compatibility import others_that_fit, runs_on

CARD = "rocm:gfx942:sramecc+:xnack-"


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_settings_left_open_fit_all_and_named_ones_must_match(arch: str):
    spellings = {"": None, ":sramecc+": True, ":sramecc-": False}, {"": None, ":xnack+": True, ":xnack-": False}
    for code in product(*spellings):
        for card in product(*spellings):
            fits = all(a == "" or table[a] == table[b] for table, a, b in zip(spellings, code, card, strict=True))
            found = runs_on(GPUTarget.parse(arch + "".join(code)), GPUTarget.parse(arch + "".join(card)))
            assert found == fits, (code, card)


def test_ways_to_generate_code_say_nothing_of_the_device():
    for code, card, fits in (
        (":tgsplit+", "", True),
        (":xnack-:tgsplit+", ":xnack-", True),
        (":xnack-", ":xnack-:tgsplit+", True),
        (":sramecc+:xnack-:tgsplit-", ":sramecc+:xnack-", True),
        (":xnack-:tgsplit+", ":xnack+:tgsplit+", False),
        (":xnack-:tgsplit+", ":tgsplit+", False),
    ):
        assert runs_on(GPUTarget.parse(f"gfx942{code}"), GPUTarget.parse(f"gfx942{card}")) == fits, (code, card)


def test_nvidia_code_runs_on_later_architectures():
    targets = {arch: GPUTarget.parse(arch) for arch in CUDA_ARCHES}
    for code, device in product(targets, targets):
        number, ours = (int(a.strip("sm_af")) for a in (code, device))
        fits = (
            number == ours if code.endswith("a") else number <= ours and (code[-1] != "f" or number // 10 == ours // 10)
        )
        assert runs_on(targets[code], targets[device]) == fits, (code, device)
        assert not runs_on(targets[code], targets[device], assembled=True) or number // 10 == ours // 10


def test_what_is_offered_fits():
    for text in (CARD, "rocm:gfx1100", "cuda:sm_90", "cuda:sm_90a", "cpu:native", "cpu:gfx942"):
        device = GPUTarget.parse(text)
        found = list(others_that_fit(device))
        assert device not in found and len(set(found)) == len(found)
        assert all(runs_on(each, device) for each in found)
    assert GPUTarget.parse("sm_90a") in list(others_that_fit(GPUTarget.parse("sm_90")))


@flyc.kernel
def _one_kernel(x: fx.Tensor):
    x[fx.thread_idx.x] = 1.0


@flyc.jit
def _one(x: fx.Tensor):
    _one_kernel(x).launch(grid=1, block=1)


@flyc.jit
def _again(x: fx.Tensor):
    _one_kernel(x).launch(grid=1, block=1)


@pytest.mark.parametrize(
    ("code", "card", "fits"),
    [
        ("rocm:gfx942", CARD, True),
        ("rocm:gfx942:xnack-", CARD, True),
        ("rocm:gfx942:xnack+", CARD, False),
        ("cuda:sm_90a", "cuda:sm_90", True),
        ("cuda:sm_90", "cuda:sm_80", False),
    ],
)
def test_compile_for_a_target_and_call(code: str, card: str, fits: bool, monkeypatch: pytest.MonkeyPatch):
    """The check of a call of compiled code; there is no such device here, so it gets no further."""
    x = np.zeros(4, "f4")
    compiled = flyc.compile(_one, x, target=code)
    active = resolve_backend(card)
    monkeypatch.setattr(compiled_function, "resolve_backend", lambda target: active)
    monkeypatch.setenv("FLYDSL_COMPILE_ONLY", "1")
    with pytest.raises(DSLRuntimeError if fits else DSLTypeError, match="compile-only" if fits else "was compiled for"):
        compiled(x)


def test_a_cache_of_another_target_serves_run_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    x = np.zeros(4, "f4")
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))
    made = flyc.compile(_again, x, target="rocm:gfx942").artifact
    assert default_cache().enabled
    monkeypatch.setenv("FLYDSL_RUNTIME_RUN_ONLY", "1")
    found = flyc.compile(_again, x, target=CARD).artifact
    assert found.binary() == made.binary()
    for other in ("rocm:gfx950:sramecc+:xnack-", "cuda:sm_90"):
        with pytest.raises(DSLRuntimeError, match="RUN_ONLY"):
            flyc.compile(_again, x, target=other)
