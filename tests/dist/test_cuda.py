"""Eight processes share one GPU: their symmetric memory is mapped by handles of the driver."""

from __future__ import annotations

import pytest
import rank_programs

from flydsl.dist import spawn

pytestmark = pytest.mark.cuda
LIMIT = 280.0


@pytest.fixture(autouse=True)
def cuda_stack(cpu_stack: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")


@pytest.mark.parametrize(("ranks", "dtype"), [(1, "float32"), (2, "bfloat16"), (8, "float16")])
def test_collectives(ranks: int, dtype: str, seed: int):
    found = spawn(rank_programs.collectives, ranks, "cuda", dtype, (1001, 5), seed, processes=True, timeout=LIMIT)
    assert len(set(found)) == 1, "the ranks have different sums"


def test_products(seed: int):
    shapes = ((37, 41, 19), (64, 64, 64))
    assert all(spawn(rank_programs.products, 8, "cuda", "float16", shapes, seed, processes=True, timeout=LIMIT))


def test_experts(seed: int):
    lost = spawn(rank_programs.experts, 8, "cuda", "float32", 21, 37, 2, 42, seed, processes=True, timeout=LIMIT)
    assert sum(lost) == 0
