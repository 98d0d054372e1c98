"""Arithmetic and moves between lanes by intrinsics' names on the cpu stack, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from .harness import run
from .signatures import NVIDIA, ROWS

LANE = np.arange(64)


def words(x: Any) -> np.ndarray:
    return (np.asarray(x).astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)


def amd(names: list[str], rng: np.random.Generator) -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    found = run({f"llvm.amdgcn.{n}": ROWS[n] for n in names}, "gfx942", 64, rng)
    return {
        k.removeprefix("llvm.amdgcn."): ([o[:, 0] for o in v[0]], v[1][:, 0].view(np.uint32)) for k, v in found.items()
    }


def test_integers(emulate: Any, rng: np.random.Generator) -> None:
    emulate("gfx942")
    names = ["alignbyte", "ubfe.i32", "sbfe.i32", "sad.u8", "msad.u8", "lerp", "bitop3.i32", "mul.i24.i32",
             "mul.u24.i32", "mulhi.u24", "sdot4", "udot8", "sudot4", "sffbh.i32"]  # fmt: skip
    got = amd(names, rng)
    for name, (given, made) in got.items():
        signed = [x.astype(np.int64) for x in given]
        unsigned = [x.view(np.uint32).astype(np.int64) for x in given]
        bytes_ = [x.view(np.uint8).reshape(64, 4).astype(np.int64) for x in given]
        small = [x.view(np.int8).reshape(64, 4).astype(np.int64) for x in given]
        x, y, *rest = [*unsigned, unsigned[0]]
        z = rest[0] if rest else x
        if name == "alignbyte":
            both = (x.astype(object) << 32) | y.astype(object)
            wanted = np.array([int(v) >> 8 * (int(n) & 3) & 0xFFFFFFFF for v, n in zip(both, z, strict=True)])
        elif name.endswith("bfe.i32"):
            at, count = y & 31, z & 31
            source = signed[0] if name[0] == "s" else x
            cut = (source >> at) & ((1 << count) - 1)
            wanted = np.where(
                (name[0] == "s") & (count > 0) & (cut >> np.maximum(count - 1, 0) == 1), cut - (1 << count), cut
            )
        elif name in ("sad.u8", "msad.u8"):
            gap = np.abs(bytes_[0] - bytes_[1])
            wanted = np.where((bytes_[1] == 0) & (name[0] == "m"), 0, gap).sum(1) + z
        elif name == "lerp":
            mean = (bytes_[0] + bytes_[1] + (bytes_[2] & 1)) >> 1
            wanted = (mean << (8 * np.arange(4))).sum(1)
        elif name == "bitop3.i32":
            wanted = x ^ y ^ z
        elif name == "mul.i24.i32":
            left, right = (((v << 40) >> 40) for v in unsigned)
            wanted = left * right
        elif name == "mul.u24.i32":
            wanted = (x & 0xFFFFFF) * (y & 0xFFFFFF)
        elif name == "mulhi.u24":
            wanted = ((x & 0xFFFFFF) * (y & 0xFFFFFF)) >> 32
        elif name == "sdot4":
            wanted = (small[0] * small[1]).sum(1) + z
        elif name == "sudot4":
            wanted = (small[0] * bytes_[1]).sum(1) + z
        elif name == "udot8":
            nibbles = [np.stack([(v >> 4 * i) & 15 for i in range(8)], 1) for v in (x, y)]
            wanted = (nibbles[0] * nibbles[1]).sum(1) + z
        else:
            folded = np.where(signed[0] < 0, ~signed[0], signed[0])
            wanted = np.array([32 - int(v).bit_length() if v else -1 for v in folded])
        np.testing.assert_array_equal(made, words(wanted), err_msg=name)


def test_clamped_products(emulate: Any) -> None:
    """Sums beyond what 32 bits hold stay at their ends; all pairs of factors meet all starts."""
    emulate("gfx942")
    factors = [0x7F7F7F7F, -0x7F7F7F80, -1, 1]
    columns = iter([factors, factors, [2**31 - 1, -(2**31), -1, 0]])
    places = iter([LANE // 16, LANE // 4 % 4, LANE % 4])
    names = {f"{s}dot{n}": "i32 <- i32 i32 i32 i1=1" for s in "su" for n in (4, 8)}
    names["sudot4"] = "i32 <- i1=1 i32 i1=0 i32 i32 i1=1"
    names["sudot8"] = "i32 <- i1=0 i32 i1=0 i32 i32 i1=1"
    rows = {f"llvm.amdgcn.{k}": row for k, row in names.items()}
    rng = np.random.default_rng()
    got = run(rows, "gfx942", 64, rng, lambda kind, n: np.array(next(columns))[next(places)])
    for name, row in names.items():
        operands, made = got[f"llvm.amdgcn.{name}"]
        x, y, z = (o[:, 0].astype(np.int64) for o in operands)
        bits = 32 // int(name[-1])
        left = name[0] == "s" and "i1=0 i32 i1=0" not in row
        right = left and name[1] != "u"

        def parts(word: np.ndarray, signed: bool, bits: int = bits) -> np.ndarray:
            cut = np.stack([(word >> at) & ((1 << bits) - 1) for at in range(0, 32, bits)], 1)
            return cut - ((cut >> (bits - 1)) << bits) if signed else cut

        start, low, high = (z, -(2**31), 2**31 - 1) if left or right else (z & 0xFFFFFFFF, 0, 2**32 - 1)
        wanted = np.clip((parts(x, left) * parts(y, right)).sum(1) + start, low, high)
        assert (wanted == high).any() and (not left or (wanted == low).any()), name
        np.testing.assert_array_equal(made[:, 0].view(np.uint32), words(wanted), err_msg=name)


def test_lanes(emulate: Any, rng: np.random.Generator) -> None:
    emulate("gfx942")
    names = ["mov.dpp8.i32", "permlane16.i32", "permlanex16.i32", "permlane16.var", "permlane64.i32",
             "wave.reduce.add.i32", "mbcnt.lo", "readfirstlane.i32"]  # fmt: skip
    row = LANE // 16 * 16
    for name, (given, made) in amd(names, rng).items():
        x = given[0]
        match name:
            case "mov.dpp8.i32":
                wanted = x[LANE // 8 * 8 + np.where(LANE % 8, 0, 7)]
            case "permlane16.i32" | "permlanex16.i32":
                x = given[1]
                both = given[2].view(np.uint32).astype(np.uint64) | given[3].view(np.uint32).astype(
                    np.uint64
                ) << np.uint64(32)
                pick = (both >> (4 * (LANE % 16)).astype(np.uint64) & np.uint64(15)).astype(int)
                wanted = x[(row ^ (16 if "x16" in name else 0)) + pick]
            case "permlane16.var":
                wanted = given[1][row + (given[2] & 15)]
            case "permlane64.i32":
                wanted = x[LANE ^ 32]
            case "wave.reduce.add.i32":
                wanted = np.full(64, x.astype(np.int64).sum())
            case "mbcnt.lo":
                below = [
                    bin(int(m) & ((1 << min(int(i), 32)) - 1)).count("1")
                    for i, m in zip(LANE, x.view(np.uint32), strict=True)
                ]
                wanted = np.array(below) + given[1].astype(np.int64)
            case _:
                wanted = np.full(64, x[0])
        np.testing.assert_array_equal(made, words(wanted), err_msg=name)


def test_nvidia(emulate: Any, rng: np.random.Generator) -> None:
    """Shuffles by what PTX says of segments and bounds, and sums of a warp."""
    emulate("sm_90a")
    names = ["shfl.sync.bfly.i32", "shfl.sync.up.i32", "shfl.sync.down.i32", "shfl.sync.idx.i32", "redux.sync.add",
             "match.any.sync.i32", "mulhi.ui", "activemask"]  # fmt: skip
    rows = {f"llvm.nvvm.{n}": NVIDIA[n].replace("i32 i32 i32 i32", "i32=-1 i32 i32 i32") for n in names}
    rows["llvm.nvvm.redux.sync.add"] = "i32 <- i32 i32=-1"
    got = run(rows, "sm_90a", 32, rng)
    for full, (operands, result) in got.items():
        name, made = full.removeprefix("llvm.nvvm."), result[:, 0].view(np.uint32)
        given = [o[:, 0] for o in operands]
        lane = np.arange(32)
        if name.startswith("shfl"):
            value, by, limit = given[0], given[1] & 31, given[2]
            segment = (limit >> 8) & 31
            last = (lane & segment) | (limit & 31 & ~segment)
            source = {
                "bfly": lane ^ by, "up": lane - by, "down": lane + by, "idx": (lane & segment) | (by & ~segment & 31),
            }[name.split(".")[2]]  # fmt: skip
            valid = source >= last if ".up." in name else source <= last
            wanted = value[np.where(valid, source, lane) % 32]
        elif name == "redux.sync.add":
            wanted = np.full(32, given[0].astype(np.int64).sum())
        elif name == "match.any.sync.i32":
            wanted = (given[1][:, None] == given[1][None, :]).astype(np.int64) @ (1 << lane.astype(np.int64))
        elif name == "mulhi.ui":
            x, y = (v.view(np.uint32).astype(np.uint64) for v in given)
            wanted = (x * y) >> np.uint64(32)
        else:
            wanted = np.full(32, 0xFFFFFFFF)
        np.testing.assert_array_equal(made, words(wanted), err_msg=name)
