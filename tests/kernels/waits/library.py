"""The library's kernels with asynchronous copies, and a pass that lets their waits be changed when they run."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

import flydsl.compiler as flyc
import flydsl.kernels as k

from ..library.calls import CALLS as EXPLORED
from ..library.calls import Call
from ..library.calls.call import bf16

MOST = 500
NUMBERS = np.zeros(MOST + 1, np.int32)
"""What is added to each wait; behind them how many there are."""
NAMES = np.zeros(MOST, "S64")
"""What each is. The pass writes here by the address: globals that it changed would make it another pass."""
_WAIT = re.compile(r"call void @(fly_check_\w+_wait(?:_count|_read)?)\(ptr %state, i64 %tid, i32 (\d+)\)")
_COMMIT = re.compile(r"call void @(fly_check_\w+_commit)\(ptr %state, i64 %tid\)")
_NOTHING = "define internal void @fly_no_commit(ptr %state, i64 %tid) {\n  ret void\n}\n"
CHANGES = {**{f"+{by}": by for by in (1, 2, 3, 4)}, "none": 1 << 20}
"""What is added to a wait."""


@flyc.ir_pass(stage="llvm-pre-opt", name="weaker-waits")
def weaker_waits(module: Any, *, address: int = 0, names: int = 0) -> Any:
    """Add numbers that are looked up at run time to the waits of a kernel, and leave commits out where they say so."""
    text = str(module)
    count = ctypes.c_int32.from_address(address + 4 * MOST)
    lines: list[str] = []
    for line in text.splitlines():
        wait, commit = _WAIT.search(line), _COMMIT.search(line)
        if wait is None and commit is None:
            lines.append(line)
            continue
        n = count.value
        count.value += 1
        lines.append(f"  %weaker.{n} = load i32, ptr inttoptr (i64 {address + 4 * n} to ptr)")
        if wait is not None:
            lines.append(f"  %weaker.sum.{n} = add i32 %weaker.{n}, {wait[2]}")
            lines.append(line.replace(f"i32 {wait[2]})", f"i32 %weaker.sum.{n})"))
        else:
            assert commit is not None
            lines.append(f"  %weaker.is.{n} = icmp eq i32 %weaker.{n}, 0")
            lines.append(f"  %weaker.f.{n} = select i1 %weaker.is.{n}, ptr @{commit[1]}, ptr @fly_no_commit")
            lines.append(line.replace(f"@{commit[1]}", f"%weaker.f.{n}"))
        said = line.strip().removeprefix("call void @").replace("ptr %state, i64 %tid", "").replace(", i32 ", "")
        ctypes.memmove(names + 64 * n, said.encode()[:63].ljust(64, b"\0"), 64)
    return "\n".join([*lines, _NOTHING])


def weakened(call: Call) -> Iterator[tuple[str, dict[str, bool]]]:
    """Each wait and commit, and by what was done to it whether that was reported."""
    NUMBERS[:] = 0
    flyc.enable_pass(weaker_waits.with_parameters(address=NUMBERS.ctypes.data, names=NAMES.ctypes.data))
    try:
        yield from _weakened(call)
    finally:
        flyc.disable_pass("weaker-waits")


def _weakened(call: Call) -> Iterator[tuple[str, dict[str, bool]]]:
    function, *arguments = call.make()

    def explore() -> Any:
        return flyc.explore_schedules(function, *arguments, budget_s=20, compare_results=False)

    report = explore()
    assert report, report
    count = int(NUMBERS[MOST])
    for n in range(count):
        said = NAMES[n].decode()
        found: dict[str, bool] = {}
        for name, by in ({"left out": 1} if "_commit" in said else CHANGES).items():
            NUMBERS[n] = by
            found[name] = not explore()
            if found[name]:
                break  # what is weaker still is wrong too
        NUMBERS[n] = 0
        assert NUMBERS[MOST] == count, "it was compiled once"
        yield f"{n} {said}", found


CALLS: dict[str, Call] = {
    "matmul past registers": Call("gfx950", lambda: (k.matmul, bf16(16, 1536), bf16(16, 1536).T), ""),
    **{name: EXPLORED[name] for name in (
        "gemm_preshuffle", "matmul by tensor copies", "attention on gfx950", "gemm_sm80", "attention by mma",
        "gemm_sm90", "matmul", "attention", "attention_backward", "mla_decode", "rms_norm wide",
    )},
}  # fmt: skip

HARMLESS = {
    "attention on gfx950": {
        "fly_check_to_shared_wait_count(0)": "the last wait: a wave ends when its copies have",
        "fly_check_to_shared_commit()": "its waits count instructions",
    },
    "matmul past registers": {"fly_check_to_shared_commit()": "its waits count instructions"},
    "matmul by tensor copies": {
        "fly_check_tensor_wait(0)": "of the tiles behind the last turn none needs the last two"
    },
    "gemm_sm80": {},
    "rms_norm wide": {},
}
"""Waits and commits that may be weaker at these sizes, and why; all others must be reported at once."""

__all__ = ["CALLS", "HARMLESS", "weakened"]
