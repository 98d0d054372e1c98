"""The kernels behind the operations on rows: built for GPUs of both vendors, with wide accesses and without spills."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import flydsl.compiler as flyc
from flydsl.kernels.rows.arrays import Array, describe
from flydsl.kernels.rows.columns import column_sums, weight_sums
from flydsl.kernels.rows.cross_entropy import cross_entropy_back, cross_entropy_rows
from flydsl.kernels.rows.dequantize import dequantize_rows
from flydsl.kernels.rows.embedding import embedding_back, embedding_rows
from flydsl.kernels.rows.form import Form, form_of
from flydsl.kernels.rows.gated import gated_back, gated_rows
from flydsl.kernels.rows.group_norm import channel_sums, group_norm_back, group_norm_rows
from flydsl.kernels.rows.largest.few import few_largest_rows
from flydsl.kernels.rows.largest.many import many_largest_rows
from flydsl.kernels.rows.largest.one import largest_rows
from flydsl.kernels.rows.linear_cross_entropy import partial_loss
from flydsl.kernels.rows.norm_gradients import norm_back
from flydsl.kernels.rows.norm_kernels import norm_rows
from flydsl.kernels.rows.quantize import quantize_rows
from flydsl.kernels.rows.rope import rope_rows
from flydsl.kernels.rows.sample import sample_rows
from flydsl.kernels.rows.softmax_kernels import softmax_back, softmax_rows
from flydsl.llvm import tools
from flydsl.llvm.objects import ptx

BF16 = torch.bfloat16


def rows(m: int, n: int, dtype: torch.dtype = BF16) -> Array:
    """What a contiguous matrix looks like to the rule."""
    return describe("test", "x", torch.zeros(1, dtype=dtype))._replace(shape=(m, n), strides=(n, 1), address=0)


def form(names: str, held: int, m: int = 16384, n: int = 4096, **more: Any) -> Form:
    return form_of(m, n, {name: rows(m, n) for name in names.split()}, held, **more)


X, V, F, N = torch.zeros(2, 4096, dtype=BF16), torch.zeros(4096, dtype=BF16), torch.zeros(2), torch.zeros(2).long()
CODES, P, H = torch.zeros(2, 4096, dtype=torch.int8), torch.zeros(2, 4096), torch.zeros(2, 4, 128, dtype=BF16)
T = torch.zeros(8, 64)
SHAPE, ALONE = (2, 4096, 1e-5), (None, None, None)
SUMS = form("dy x weight dx dweights dbiases", 16, edges=False, few=False)
LOOP = form("x", 4)._replace(team=512, rows=1, turns=0, ahead=4)
LARGEST = X[:, :64], N[:, None].repeat(1, 64)
SORTS = form("x", 4, n=256, each=4, most=4)
WAITS = form("x weight bias out", 4, n=32768, parks={8: 4})._replace(constant=True, streamed=True)
CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "softmax": (softmax_rows, (X, X, 2, 4096, False, form("x out", 4))),
    "softmax of ragged rows": (softmax_rows, (X, X, 2, 4095, True, form("x out", 4, n=4095))),
    "softmax of long rows": (softmax_rows, (X, X, 2, 99999, False, form("x out", 4, n=99999))),
    "softmax of units that wait": (softmax_rows, (X, X, 2, 32768, False, WAITS)),
    "norm of units that wait": (norm_rows, (X, None, V, V, X, None, None, None, 2, 32768, 1e-5, True, WAITS)),
    "softmax back": (softmax_back, (X, X, X, 2, 4096, False, form("y dy dx", 4))),
    "norm": (norm_rows, (X, X, V, V, X, X, F, F, 2, 4096, 1e-5, True, form("x residual weight bias out summed", 4))),
    "norm back": (norm_back, (X, X, V, F, F, None, X, P, P, V, V, 2, 4096, 2, SUMS)),
    "sums": (column_sums, (P, V, 2, 4096)),
    "sums of long rows": (weight_sums, (X, X, F, F, P, P, V, V, 2, 4096, 2, 8)),
    "cross entropy": (cross_entropy_rows, (X, N, F, F, 2, 4096, -100, 0.1, True, form("logits", 4))),
    "cross entropy back": (cross_entropy_back, (X, N, F, F, X, 2, 4096, 0, 4096, -100, 0.1, form("logits dlogits", 4))),
    "partial loss": (partial_loss, (P, N, F, F, F, F, 2, 4096, 4096, 9000, -100, 0.1, form("logits", 4))),
    "gated": (gated_rows, (X, X, X, 2, 4096, "silu", form("x y out", 8))),
    "gated back": (gated_back, (X, X, X, X, X, 2, 4096, "gelu_tanh", form("x y d dx dy", 12))),
    "gated by erf": (gated_rows, (X, X, X, 2, 4096, "gelu", form("x y out", 8))),
    "many largest": (many_largest_rows, (X, None, *LARGEST, 2, 2048, 4096, 64, 2, LOOP)),
    "rope": (rope_rows, (H, H, T, T, N, H, H, None, None, None, 2, 2, 8, 4, 4, 64, 1.0, False, 8, 64)),
    "embedding": (embedding_rows, (X, N, X, 2, 4096, 2, form("out table", 2, edges=False))),
    "embedding back": (embedding_back, (X, N, N, X, 2, 4096, 2, -1, form("dtable dy", 2, edges=False))),
    "group norm": (
        group_norm_rows,
        (X, X, V, V, X, X, F, F, 2, 4096, 2, 4, 1024, 1e-5, True, form("x residual out summed", 8)),
    ),
    "group norm back": (
        group_norm_back,
        (X, X, V, F, F, X, X, 2, 4096, 2, 4, 1024, True, form("dy x dsummed dx", 12)),
    ),
    "channels": (
        channel_sums,
        (X, X, F, F, F, F, F[None], F[None], V[:2], V[:2], 2, 4096, 4, 1, 2, form("dy x", 8)),
    ),
    "quantize": (
        quantize_rows,
        (X, None, V, None, CODES, None, F, *SHAPE, *ALONE, 127.0, "rms", False, "row", form("x weight", 4)),
    ),
    "quantize groups": (
        quantize_rows,
        (X, X, V, V, CODES, X, P, *SHAPE, 2, 4, 1024, 127.0, "group", True, "block", form("x residual summed", 4)),
    ),
    "quantize softmax": (
        quantize_rows,
        (X, None, None, None, CODES, None, F, *SHAPE, *ALONE, 127.0, "softmax", False, "row", form("x", 4)),
    ),
    "dequantize": (dequantize_rows, (CODES, F, X, 2, 4096, 1, form("codes out", 4))),
    "sample": (
        sample_rows,
        (P, N, F, N.int(), F, 2, 4096, 1.0, 5, 0.9, 1, 2, (True, True), form("x", 4, n=4096)),
    ),
    "few largest": (few_largest_rows, (X, P, N[:, None], 2, 256, 8, "normed gates", 8, True, SORTS)),
    "few largest of 32 bits": (few_largest_rows, (P, P, N[:, None], 2, 256, 8, "values", 8, False, SORTS)),
    "largest": (largest_rows, (X, P, N[:, None], 2, 256, 8, "normed gates", form("x", 4, n=256))),
}
NARROW = {
    "quantize",
    "quantize groups",
    "quantize softmax",
    "group norm",
    "group norm back",
    "sums",
    "sums of long rows",
    "cross entropy",
    "largest",
    "many largest",
    "few largest",
    "partial loss",
    "sample",
    "channels",
    "embedding back",
    "cross entropy back",
}
"""Kernels that also touch single elements, of statistics or results, or that sum columns."""


@pytest.mark.parametrize("what", CALLS)
def test_builds_for_nvidia(what: str):
    function, arguments = CALLS[what]
    text = flyc.compile(function, *arguments, target="cuda:sm_90").artifact.asm
    wide = re.findall(r"(?:ld|st)\.global\S*\.v4\.b32|(?:ld|st)\.global\S*\.v2\.b64", text)
    assert wide or what.startswith("sums"), "no 16-byte access"
    if "ragged" not in what and "long" not in what and what not in NARROW | {"norm", "norm back", "rope"}:
        single = re.findall(r"(?:ld|st)\.global\S*\.[bu]16", text)
        assert not single, "an access to a single element"
    if tools.try_find_tool("ptxas") is not None:
        _, log = ptx.assemble(text)
        for used in ptx.parse_log(log).values():
            assert used.spill_stores == 0, used


@pytest.mark.parametrize("what", [what for what in CALLS if "back" not in what or "norm" in what])
def test_builds_for_amd(what: str):
    """Wave64 and wave32 by turns."""
    function, arguments = CALLS[what]
    arch = "gfx942" if len(what) % 2 else "gfx1201"
    artifact = flyc.compile(function, *arguments, target=f"rocm:{arch}").artifact
    for name, used in artifact.resources.items():
        assert used["spills"] == 0 and used["scratch"] == 0, name


def test_rule():
    """Short rows share blocks, long ones are read in loops, ragged ones have edges, few rows larger teams."""
    short, middle, large = (form("x out", 4, n=n) for n in (64, 4096, 131072))
    assert short.team <= 32 and short.rows > 1 and short.turns
    assert middle.rows == 1 and middle.turns == 4 and middle.aligned == ("x", "out") and not middle.edges
    assert large.turns == 0 and large.team == 1024
    for n in (257, 50257):
        ragged = form("x out", 4, n=n)
        assert ragged.edges and ragged.unit == 8 and ragged.team >= 16 and ragged.aligned == ("x", "out")
        whole = form("x out", 4, n=n, edges=False)
        assert whole.unit == 1 and not whole.edges
    assert form("x out", 4, m=8, n=4096).team > middle.team
    x, weight = rows(5, 257), describe("test", "weight", torch.zeros(257, dtype=BF16))
    assert form_of(5, 257, {"x": x, "weight": weight, "out": x._replace(address=2)}, 4).aligned == ("x",)
