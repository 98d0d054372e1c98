"""Checked mode has nothing to say of kernels that are right: the language's examples, the example files, the kernels
that come with the package, at small and odd sizes and with the numbers compared as usual."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.kernels.gemm_cdna import gemm_cdna
from flydsl.kernels.gemm_sm80 import gemm_sm80
from flydsl.kernels.gemm_sm90 import gemm_sm90
from flydsl.kernels.gemm_wmma import gemm_wmma
from flydsl.kernels.transpose import transpose


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")


def _module(name: str) -> ModuleType:
    full = f"flydsl_tests.checked_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None and spec.loader is not None
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


for _file in ("test_language_examples", "test_examples"):
    # The same tests once more, with the fixture above.
    for _name, _test in vars(_module(_file)).items():
        if _name.startswith("test_"):
            globals()[f"{_name}_checked"] = _test


def product(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    expected = a.double() @ b.double().T
    assert ((c.double() - expected).norm() / expected.norm()).item() < 4e-3


def operands(m: int, n: int, k: int, dtype: torch.dtype, rng: np.random.Generator):
    a, b = (torch.from_numpy(rng.standard_normal((x, k))).to(dtype) for x in (m, n))
    return a, b, torch.full((m, n), float("nan"), dtype=dtype)


def aligned(t: torch.Tensor):
    return flyc.from_torch_tensor(t, assumed_align=16).mark_layout_dynamic(divisibility=8)


@pytest.mark.parametrize("cluster", [1, 2])
def test_gemm_sm90(cluster: int, rng: np.random.Generator, emulate):
    emulate("sm_90a")
    a, b, c = operands(150, 264, 200, torch.float16, rng)
    gemm_sm90(a, b, c, cluster, cluster)
    product(c, a, b)


def test_gemm_sm80(rng: np.random.Generator, emulate):
    emulate("sm_80")
    a, b, c = operands(128, 128, 96, torch.bfloat16, rng)
    gemm_sm80(*map(aligned, (a, b, c)))
    product(c, a, b)


@pytest.mark.parametrize(("arch", "gemm"), [("gfx942", gemm_cdna), ("gfx1201", gemm_wmma)])
def test_gemm_amd(arch: str, gemm, rng: np.random.Generator, emulate):
    emulate(arch)
    a, b, c = operands(131, 72, 64, torch.float16, rng)
    rows = [flyc.from_dlpack(t).mark_layout_dynamic(leading_dim=1, divisibility=8) for t in (a, b)]
    gemm(*rows, flyc.from_dlpack(c).mark_layout_dynamic(leading_dim=1))
    product(c, a, b)


def test_transpose(rng: np.random.Generator):
    a = torch.from_numpy(rng.standard_normal((65, 37))).float()
    out = torch.zeros(37, 65)
    transpose(a, out)
    assert torch.equal(out, a.T)
