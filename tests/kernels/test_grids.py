"""Second and third directions of grids: no launch of the library asks for more blocks than a GPU has there, by rule;
and what is spread over both is right, also where that leaves blocks without work."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.kernels as k
from flydsl.kernels import grids
from flydsl.kernels.attention.backward import attention_backward
from flydsl.target import TargetCaps

KERNELS = Path(k.__file__).parent
BOUNDED = {
    "attention/amd/entry.py": "on_amd asks whether they fit",
    "attention/hopper_backward.py": "attention_backward asks whether they fit",
    "attention/wide/hopper.py": "attention_backward asks whether they fit",
    "attention/latent/hopper.py": "on_hopper asks whether they fit",
    "attention/values.py": "on_hopper asks whether they fit",
    "axes/permute.py": "permute asks whether they fit, and spreads them where not",
    "matmul/few/slim_kernel.py": "who calls it asks whether they fit",
    "gemm_sm80.py": "on_ampere asks whether they fit",
    "gemm_cdna.py": "columns of an example: 8 million",
    "gemm_wmma.py": "columns of an example: 8 million",
    "transpose.py": "rows of an example: 2 million",
    "rows/columns.py": "slices, which are some for each multiprocessor, and one or two results",
    "dist/experts.py": "a constant",
    "dist/matmul.py": "rows of a rank: 65535 tiles of them",
}
"""Why a file's grids end in time, though they are not spread."""


def _grids() -> list[tuple[str, ast.expr]]:
    """Of all launches, by file; where it is a name, what that is given before."""
    found: list[tuple[str, ast.expr]] = []
    for file in KERNELS.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        given = {
            node.targets[0].id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "launch":
                grid = next((word.value for word in node.keywords if word.arg == "grid"), None)
                if grid is not None:
                    value = given.get(grid.id, grid) if isinstance(grid, ast.Name) else grid
                    found.append((file.relative_to(KERNELS).as_posix(), value))
    return found


def _within(grid: ast.expr) -> bool:
    """Whether it has one direction, or is spread."""
    if isinstance(grid, ast.IfExp):
        return _within(grid.body) and _within(grid.orelse)
    return not isinstance(grid, ast.Tuple) or all("grids.spread(" in ast.unparse(x) for x in grid.elts[1:])


def test_every_launch_has_a_grid_of_one_direction_or_a_bounded_one():
    launches = _grids()
    assert len(launches) > 60
    others = {file for file, grid in launches if not _within(grid)}
    assert others == set(BOUNDED), "spread(count) has room for any count"
    assert grids.MOST == min(TargetCaps(32, None, None).max_grid_dim[1:])


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch):
    """Grids that have three blocks in their second and third direction."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
    monkeypatch.setenv("FLYDSL_COMPILE_GLOBALS", "recompile")
    monkeypatch.setattr(grids, "MOST", 3)

    def emulate(arch: str) -> None:
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    yield emulate
    flyc.invalidate_all()  # for later tests that is no change


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_along_an_axis(count: int, narrow: Any, rng: np.random.Generator):
    narrow("native")
    x = rng.standard_normal((count, 3, 40)).astype("f4")
    np.testing.assert_allclose(k.reduce(x, axis=1), x.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(k.scan(x, axis=1), x.cumsum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(k.permute(x, (0, 2, 1)), x.transpose(0, 2, 1))
    long = rng.standard_normal((300, count)).astype("f4")
    np.testing.assert_array_equal(k.permute(long, (1, 0)), long.T)


def _packed(x: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    return torch.cat([x[i, :n] for i, n in enumerate(lengths)])


@pytest.mark.parametrize("count", [2, 4, 7])
@pytest.mark.parametrize(
    ("arch", "dtype"),
    [
        ("native", torch.float32), ("sm_80", torch.bfloat16), ("sm_90a", torch.bfloat16), ("gfx942", torch.float32),
        ("gfx950", torch.bfloat16), ("gfx1201", torch.float16),
    ],
    ids=str,
)  # fmt: skip
def test_sequences(arch: str, dtype: torch.dtype, count: int, narrow: Any):
    """Of one length, and one behind the other, with heads that share keys; and their gradients."""
    narrow(arch)
    q, key, v, grad = (torch.randn(count, 9, h, 16).to(dtype) for h in (4, 2, 2, 4))
    wide = [x.double().requires_grad_() for x in (q, key, v)]
    tolerance: dict[str, Any] = {"atol": 1e-4 if dtype == torch.float32 else 4e-2, "rtol": 1e-2}

    def reference(q: Any, key: Any, v: Any) -> Any:
        turned = (q.transpose(1, 2), *(x.transpose(1, 2).repeat_interleave(2, 1) for x in (key, v)))
        return torch.nn.functional.scaled_dot_product_attention(*turned).transpose(1, 2)

    want = reference(*wide)
    out, lse = k.attention(q, key, v, return_lse=True)
    torch.testing.assert_close(out.double(), want.detach(), **tolerance)
    found = attention_backward(grad, q, key, v, out, lse)
    for mine, theirs in zip(found, torch.autograd.grad(want, wide, grad.double()), strict=True):
        torch.testing.assert_close(mine.double(), theirs, **tolerance)
    lengths = [(i * 4) % 10 for i in range(count)]
    starts = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
    packed = k.attention(
        *(_packed(x, lengths) for x in (q, key, v)), cu_seqlens_q=starts, cu_seqlens_k=starts
    )  # fmt: skip
    pieces = [reference(*(x[i : i + 1, :n].double() for x in (q, key, v)))[0] for i, n in enumerate(lengths)]
    torch.testing.assert_close(packed.double(), torch.cat(pieces), **tolerance)


@pytest.mark.parametrize("arch", ["native", "sm_90a", "gfx942"])
@pytest.mark.parametrize("count", [2, 4, 7])
def test_latent_keys(arch: str, count: int, narrow: Any):
    narrow(arch)
    q, kv = torch.randn(count, 1, 16, 64).bfloat16(), torch.randn(count, 5, 64).bfloat16()
    scores = (q[:, 0].double() @ kv.double().mT * 64**-0.5).softmax(-1)
    want = (scores @ kv[..., :32].double())[:, None]
    torch.testing.assert_close(k.mla_decode(q, kv, dv=32).double(), want, atol=2e-2, rtol=1e-2)
