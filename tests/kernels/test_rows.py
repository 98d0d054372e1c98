"""Softmax, RMS norm and layer norm of rows: every way of reading them, against float64."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.kernels.rows import layer_norm, rms_norm, softmax
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx

EPS = 0.7
"""Large beside the squares, so that it shows."""
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def static(t: torch.Tensor):
    """Row length and 16-byte units are known."""
    return flyc.from_torch_tensor(t, assumed_align=16)


def any_rows(t: torch.Tensor):
    """The same for any number of rows."""
    return static(t) if t.dim() == 1 else static(t).mark_shape_dynamic([0])


def expected(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    x, w, b = (t.cpu().double() for t in (x, w, b))
    return {
        "softmax": torch.softmax(x, -1),
        "rms_norm": x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS) * w,
        "layer_norm": torch.nn.functional.layer_norm(x, (x.shape[1],), w, b, EPS),
    }


def run(what: str, x, w, b, out, wrap) -> None:
    x, w, b, out = (wrap(t) for t in (x, w, b, out))
    match what:
        case "softmax":
            softmax(x, out)
        case "rms_norm":
            rms_norm(x, w, out, EPS)
        case _:
            layer_norm(x, w, b, out, EPS)


def check(what: str, m: int, n: int, dtype, device: str, rng: np.random.Generator, wrap, pad: int = 0) -> None:
    x = torch.from_numpy(3 * rng.standard_normal((m, n + pad))).to(dtype).to(device)[:, :n]
    w, b = (torch.from_numpy(rng.standard_normal(n)).to(dtype).to(device) for _ in range(2))
    whole = torch.full((m + 2, n + pad), float("nan"), dtype=dtype, device=device)
    out = whole[1 : m + 1, :n]
    run(what, x, w, b, out, wrap)
    tolerance = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    want = expected(x, w, b)[what]
    torch.testing.assert_close(out.cpu().double(), want, rtol=tolerance, atol=tolerance * float(want.abs().max()))
    around = whole.cpu()
    around[1 : m + 1, :n] = float("nan")
    assert around.isnan().all(), "something outside the result was written"


OPS = ["softmax", "rms_norm", "layer_norm"]


@pytest.mark.covering
@pytest.mark.parametrize("what", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_row_length(what: str, dtype, device: str, rng: np.random.Generator):
    """Known at run time: odd lengths, rows that lie apart, rows that do or do not start at 16 bytes."""
    # The last one has no room in shared memory.
    for m, n, pad in ((1, 1, 0), (3, 255, 0), (2, 1001, 3), (2, 512, 8), (3, 264, 4), (3, 2056, 0), (2, 57352, 0)):
        check(what, m, n, dtype, device, rng, lambda t: t, pad)


@pytest.mark.covering
@pytest.mark.parametrize("what", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_in_registers(what: str, dtype, device: str, rng: np.random.Generator):
    """Units of 16 bytes that divide the threads evenly, or not; one unit alone."""
    for m, n, pad in ((1, 8, 0), (3, 1032, 0), (2, 2048, 16)):
        check(what, m, n, dtype, device, rng, static, pad)
    check(what, 5, 1024, dtype, device, rng, any_rows)
    check(what, 37, 264, dtype, device, rng, any_rows, 24)  # several rows per block, in the last one some are missing


@pytest.mark.parametrize("what", OPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_long_rows(what: str, dtype, device: str, rng: np.random.Generator):
    """In shared memory; on a GPU more rows than multiprocessors, so that blocks take several."""
    n = 16392 * 2 // dtype.itemsize * (1 if dtype.itemsize == 2 else 2)
    check(what, 3 if device == "cpu" else 300, n, dtype, device, rng, static)


def test_softmax_of_masked_rows(device: str):
    """A warp that sees nothing but -inf does not spoil the others; a row of nothing else has no softmax."""
    x = torch.randn(3, 4096).to(torch.bfloat16)
    x[0, :2048] = float("-inf")
    x[1, 1:] = float("-inf")
    x[2, :] = float("-inf")
    x = x.to(device)
    out = torch.zeros_like(x)
    softmax(static(x), static(out))
    want = torch.softmax(x.cpu().double(), -1)
    torch.testing.assert_close(out[:2].cpu().double(), want[:2], rtol=1.6e-2, atol=1e-3)
    assert out[2].isnan().all()


@pytest.mark.parametrize("what", OPS)
@pytest.mark.parametrize("n", [4096, 8192, 32768])
def test_wide_accesses_and_no_spills(what: str, n: int):
    """128-bit accesses alone, and registers for at least 768 threads of a multiprocessor."""
    function = {"softmax": softmax, "rms_norm": rms_norm, "layer_norm": layer_norm}[what]
    x, out = (static(torch.zeros(2, n, dtype=torch.bfloat16)) for _ in range(2))
    w, b = (static(torch.zeros(n, dtype=torch.bfloat16)) for _ in range(2))
    args = {"softmax": (x, out), "rms_norm": (x, w, out, EPS), "layer_norm": (x, w, b, out, EPS)}[what]
    text = flyc.compile(function, *args, target="cuda:sm_90").artifact.asm
    loads = [line for line in text.splitlines() if "ld.global" in line or "st.global" in line]
    assert loads and all(".v4.b32" in line for line in loads)
    # Rows that a block keeps in registers leave as a whole, but for those of layer norm.
    assert ("cp.async.bulk.global.shared::cta" in text) == (what != "layer_norm" and n < 32768)
    if tools.try_find_tool("ptxas") is not None:
        _, log = ptx.assemble(text)
        (used,) = ptx.parse_log(log).values()
        assert used.spill_stores == 0 and used.registers <= 80, used


@pytest.mark.parametrize("what", ["softmax", "rms_norm"])
@pytest.mark.parametrize(("arch", "n"), [("sm_90", 60000), ("sm_120", 30000)])
def test_rows_too_long_for_shared_memory_stay_in_registers(what: str, arch: str, n: int):
    """They fit the registers of a block, but neither the shared memory nor the place to stage them in."""
    row, x = torch.zeros(n), torch.zeros(2, n)
    args = (x, x) if what == "softmax" else (x, row, x)
    function, more = (softmax, ()) if what == "softmax" else (rms_norm, (EPS,))
    text = flyc.compile(function, *map(static, args), *more, target=f"cuda:{arch}").artifact.text("ptx")
    assert "cp.async" not in text and re.search(r"st\.global\.(v4\.b32|v2\.b64)", text)
