"""Which kernel a call goes to, by architecture, types and extents."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch

from flydsl.kernels import attention, mla_decode
from flydsl.kernels.attention import attention_backward

from .oracle import random


@pytest.mark.parametrize(
    ("arch", "depth", "module", "name"),
    [
        ("sm_90a", 64, "hopper", "hopper_attention"),
        ("sm_80", 64, "matrix", "matrix_attention"),
        ("gfx942", 64, "amd.entry", "amd_attention"),
        ("gfx950", 64, "amd.entry", "amd_attention"),
        ("gfx1201", 64, "amd.entry", "amd_attention"),
        ("gfx942", 48, "matrix", "matrix_attention"),
        ("gfx1100", 64, "matrix", "matrix_attention"),
        ("native", 64, "plain", "plain_attention"),
        ("sm_90a", 64, "hopper_backward", "hopper_backward"),
        ("sm_90a", 136, "wide.hopper", "hopper_backward_wide"),
        ("sm_90a", 256, "wide.hopper", "hopper_backward_wide"),
        ("gfx942", 64, "plain_backward", "plain_backward"),
        ("sm_90a", 16, "hopper_backward", "hopper_backward"),
        ("sm_90a", 112, "hopper_backward", "hopper_backward"),
        ("sm_90a", 24, "plain_backward", "plain_backward"),
    ],
)
def test_the_kernel_that_is_called(
    arch: str, depth: int, module: str, name: str, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch
):
    emulate(arch)
    called: list[str] = []
    place = importlib.import_module(f"flydsl.kernels.attention.{module}")
    monkeypatch.setattr(place, name, lambda *args, **options: called.append(name))
    # Lengths no other test has: decisions are kept.
    q, k, v = (random(rng, 1, rows, 2, depth) for rows in (19, 23, 23))
    if "backward" in name:
        attention_backward(q, q, k, v, q, torch.zeros(1, 2, 19))
    else:
        attention(q, k, v)
    assert called and set(called) == {name}


@pytest.mark.parametrize(
    ("arch", "module", "name"),
    [
        ("sm_90a", "latent.hopper", "hopper_latent"),
        ("gfx942", "amd.entry", "amd_attention"),
        ("gfx950", "amd.entry", "amd_attention"),
        ("gfx1201", "latent.plain", "plain_latent"),
        ("sm_80", "latent.plain", "plain_latent"),
    ],
)
def test_the_kernel_of_latent_keys(
    arch: str, module: str, name: str, rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch
):
    emulate(arch)
    called: list[str] = []
    place = importlib.import_module(f"flydsl.kernels.attention.{module}")
    monkeypatch.setattr(place, name, lambda *args, **options: called.append(name))
    mla_decode(random(rng, 1, 1, 7, 192), random(rng, 1, 29, 192), dv=128)
    assert set(called) == {name}


def test_dropout_and_latent_bytes_stay_on_hopper(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    emulate("sm_90a")
    called: list[str] = []
    for module, name in (
        ("hopper", "hopper_attention"), ("hopper_backward", "hopper_backward"), ("latent.hopper", "hopper_latent")
    ):  # fmt: skip
        place = importlib.import_module(f"flydsl.kernels.attention.{module}")
        monkeypatch.setattr(place, name, lambda *args, name=name, **options: called.append(name))
    q, k, v = (random(rng, 1, rows, 2, 64) for rows in (22, 26, 26))
    attention(q, k, v, dropout=0.1, seed=1)
    attention_backward(q, q, k, v, q, torch.zeros(1, 2, 22), dropout=0.1, seed=1)
    mla_decode(random(rng, 1, 1, 7, 192), random(rng, 1, 28, 192).to(torch.float8_e4m3fn), dv=128)
    assert called == ["hopper_attention", "hopper_backward", "hopper_latent"]


def test_values_of_fp8_are_turned_first(rng: np.random.Generator, emulate, monkeypatch: pytest.MonkeyPatch):
    emulate("sm_90a")
    called: list[str] = []
    for module, name in (("values", "turn_values"), ("hopper", "hopper_attention")):
        place = importlib.import_module(f"flydsl.kernels.attention.{module}")
        monkeypatch.setattr(place, name, lambda *args, name=name, **options: called.append(name))
    q, k, v = (random(rng, 1, rows, 2, 64).to(torch.float8_e4m3fn) for rows in (21, 27, 27))
    attention(q, k, v)
    assert called == ["turn_values", "hopper_attention"]
