"""Inline assembly on the cpu stack: lines that are known are done one after the other, others are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.cpu.emulation.assembly import read
from flydsl.errors import DSLCompileError

LANE = np.arange(64)


def launcher(body: Any, block: int = 64) -> Any:
    @flyc.kernel
    def kernel(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
        body(a, b, out)

    @flyc.jit
    def launch(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor):
        kernel(a, b, out).launch(grid=1, block=block)

    return launch


def run(lines: list[tuple[Any, str, str]], a: np.ndarray, b: np.ndarray, block: int = 64) -> np.ndarray:
    """What each piece gives for the words `x`, `y` and the lane as operands, as words."""
    out = np.zeros(len(lines) * block, np.int32)

    def body(first: Any, second: Any, target: Any) -> None:
        i = fx.thread_idx.x
        x, y = first[i], second[i]
        for n, (cls, text, kinds) in enumerate(lines):
            given = [{"x": x, "y": y, "i": i, "f": x.bitcast(fx.Float32), "g": y.bitcast(fx.Float32)}[k] for k in kinds]
            constraints = ",".join(["=v", *["v"] * len(given)])
            made = fx.inline_asm(cls, given, text, constraints)
            target[n * block + i] = made.bitcast(fx.Int32) if cls is fx.Float32 else made

    launcher(body, block)(a, b, out)
    return out.reshape(len(lines), block)


def test_amd(emulate: Any, rng: np.random.Generator) -> None:
    emulate("gfx942")
    a, b = (rng.integers(-(2**31), 2**31, 64).astype(np.int32) for _ in range(2))
    ua, ub = (x.view(np.uint32).astype(np.uint64) for x in (a, b))
    i = LANE.astype(np.int64)
    bits = np.array([int(f"{int(v):032b}"[::-1], 2) for v in ua], np.uint64)
    med = np.sort(np.stack([a.astype(np.int64), b.astype(np.int64), i]), 0)[1]
    cases: list[tuple[str, str, Any]] = [
        ("v_add_u32 $0, $1, $2", "xy", ua + ub),
        ("v_add3_u32 $0, $1, $2, $3", "xyi", ua + ub + LANE.astype(np.uint64)),
        ("v_lshl_add_u32 $0, $1, 4, $2", "xy", (ua << np.uint64(4)) + ub),
        ("v_and_or_b32 $0, $1, 0xff, $2", "xy", (ua & np.uint64(255)) | ub),
        ("v_lshrrev_b32_e32 $0, $2, $1", "xi", ua >> (LANE % 32).astype(np.uint64)),
        ("v_bfe_u32 $0, $1, 8, 8", "x", (ua >> np.uint64(8)) & np.uint64(255)),
        ("v_bfrev_b32 $0, $1", "x", bits),
        ("v_mul_hi_u32 $0, $1, $2", "xy", (ua * ub) >> np.uint64(32)),
        ("v_med3_i32 $0, $1, $2, $3", "xyi", med),
        ("v_perm_b32 $0, $1, $2, $3", "xyi", None),
        ("v_not_b32 $0, $1\n  v_xor_b32 $0, $0, $2 ; s_nop 0", "xy", ~ua ^ ub),
        ("v_mov_b32_dpp $0, $1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:1", "x", ua[LANE ^ 1]),
        ("v_add_u32_dpp $0, $1, $2 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1", "xy",
         np.where(LANE % 16 == 0, 0, ua[np.maximum(LANE - 1, 0)]) + ub),
        ("v_readfirstlane_b32 $0, $1", "x", np.full(64, ua[0])),
        ("v_dot4_i32_i8 $0, $1, $2, $3", "xyi",
         (a.view(np.int8).reshape(64, 4).astype(np.int64) * b.view(np.int8).reshape(64, 4)).sum(1) + i),
    ]  # fmt: skip
    got = run([(fx.Int32, text, kinds) for text, kinds, _ in cases], a, b)
    for row, (text, _, wanted) in zip(got, cases, strict=True):
        if wanted is None:
            low = np.stack([b, a], 1).view(np.uint8).reshape(64, 8)
            wanted = sum(low[LANE, 0 if k else LANE % 8].astype(np.uint64) << np.uint64(8 * k) for k in range(4))
            # Bytes 1 to 3 of the lane's number are 0: they name byte 0 of the lower word.
            skip = LANE >= 8
            row, wanted = np.where(skip, 0, row), np.where(skip, 0, wanted)
        expected = (np.asarray(wanted).astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)
        np.testing.assert_array_equal(row.view(np.uint32), expected, err_msg=text)


def test_amd_floats(emulate: Any, rng: np.random.Generator) -> None:
    emulate("gfx950")
    x, y = (rng.uniform(0.5, 4, 64).astype(np.float32) for _ in range(2))
    wide, other = x.astype(np.float64), y.astype(np.float64)
    cases: list[tuple[str, str, np.ndarray]] = [
        ("v_exp_f32 $0, $1", "f", 2**wide),
        ("v_rcp_f32 $0, $1", "f", 1 / wide),
        ("v_fma_f32 $0, $1, -$2, 1.0", "fg", 1 - wide * other),
        ("v_max3_f32 $0, $1, $2, 2.0", "fg", np.maximum(np.maximum(wide, other), 2)),
        ("v_mul_f32 $0, |$1|, $2", "fg", wide * other),
        ("v_cvt_f32_i32 $0, $1", "i", LANE.astype(np.float64)),
    ]
    got = run([(fx.Float32, t, k) for t, k, _ in cases], x.view(np.int32), y.view(np.int32))
    for row, (text, _, wanted) in zip(got, cases, strict=True):
        np.testing.assert_allclose(row.view(np.float32), wanted, rtol=2e-6, atol=1e-6, err_msg=text)
    (pair,) = run([(fx.Int32, "v_cvt_pk_bf16_f32 $0, $1, $2", "fg")], x.view(np.int32), y.view(np.int32))
    import ml_dtypes

    wanted = np.stack([x, y], 1).astype(ml_dtypes.bfloat16).view(np.uint16)
    np.testing.assert_array_equal(pair.view(np.uint16).reshape(64, 2), wanted)


def test_ptx(emulate: Any, rng: np.random.Generator) -> None:
    emulate("sm_90a")
    a, b = (rng.integers(-(2**31), 2**31, 32).astype(np.int32) for _ in range(2))
    got = run(
        [
            (fx.Int32, "lop3.b32 $0, $1, $2, $3, 0x96;", "xyi"),
            (fx.Int32, "prmt.b32 $0, $1, $2, 0x5410;", "xy"),
            (fx.Int32, "{ add.s32 $0, $1, $2; }", "xy"),
        ],
        a, b, 32,
    )  # fmt: skip
    np.testing.assert_array_equal(got[0], a ^ b ^ np.arange(32, dtype=np.int32))
    np.testing.assert_array_equal(got[1], (a & 0xFFFF) | (b << 16))
    np.testing.assert_array_equal(got[2], a + b)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("v_cubeid_f32 $0, $1, $1, $1", "v_cubeid_f32"),
        ("v_add_u32 $0, v7, $1", "v7"),
        ("v_add_u32 $0, $1, $1 clamp", "clamp"),
        ("v_mov_b32 $0, $1\n v_pk_fmac_f16 $0, $1, $1", "v_pk_fmac_f16"),
        ("v_add_u32 $0, $1", "v_add_u32"),
    ],
)
def test_refused(text: str, name: str, emulate: Any) -> None:
    emulate("gfx942")
    a = np.zeros(64, np.int32)
    with pytest.raises(DSLCompileError, match=rf"does not emulate.*{name}") as caught:
        run([(fx.Int32, text, "x")], a, a)
    assert "test_assembly.py" in str(caught.value)


def test_waits_are_nothing(emulate: Any) -> None:
    emulate("gfx942")

    def body(a: Any, b: Any, out: Any) -> None:
        fx.inline_asm(None, [], "s_waitcnt vmcnt(0) lgkmcnt(0)\ns_nop 7\ns_barrier\ns_setprio 1", "~{memory}")
        out[fx.thread_idx.x] = a[fx.thread_idx.x]

    a, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    launcher(body)(a, a, out)
    np.testing.assert_array_equal(out, a)


def test_reading() -> None:
    (line,) = read("v_mov_b32_dpp $0, $1 quad_perm:[1,0,3,2] row_mask:0xf  // a comment")
    assert line == ("v_mov_b32_dpp", ["$0", "$1"], {"quad_perm": "[1,0,3,2]", "row_mask": "0xf"})
    assert [x.name for x in read("s_nop 0; s_barrier\n\n v_nop")] == ["s_nop", "s_barrier", "v_nop"]
