"""The library's kernels with asynchronous copies, and a pass that lets their waits be changed when they run."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

import flydsl.compiler as flyc
import flydsl.kernels as k

from ..schedules.library import CALLS as EXPLORED
from ..schedules.library import Call, bf16

MOST = 500
NUMBERS = np.zeros(MOST + 1, np.int32)
"""What is added to each wait; behind them how many there are."""
_WAIT = re.compile(r"call void @(fly_check_\w+_wait(?:_count|_read)?)\(ptr %state, i64 %tid, i32 (\d+)\)")
_COMMIT = re.compile(r"call void @(fly_check_\w+_commit)\(ptr %state, i64 %tid\)")
_NOTHING = "define internal void @fly_no_commit(ptr %state, i64 %tid) {\n  ret void\n}\n"
CHANGES = {**{f"+{by}": by for by in (1, 2, 3, 4)}, "none": 1 << 20}
"""What is added to a wait."""


@flyc.ir_pass(stage="llvm-pre-opt", name="weaker-waits")
def weaker_waits(module: Any, *, address: int = 0) -> Any:
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
        _SITES[n] = (wait or commit)[1] if wait is None else f"{wait[1]}({wait[2]})"
    return "\n".join([*lines, _NOTHING])


_SITES: dict[int, str] = {}


def weakened(call: Call) -> Iterator[tuple[str, dict[str, bool]]]:
    """Each wait and commit, and by what was done to it whether that was reported."""
    NUMBERS[:] = 0
    flyc.enable_pass(weaker_waits.with_parameters(address=NUMBERS.ctypes.data))
    function, *arguments = call.make()

    def explore() -> Any:
        return flyc.explore_schedules(function, *arguments, budget_s=20, compare_results=False)

    report = explore()
    assert report, report
    for n in range(int(NUMBERS[MOST])):
        changes = {"left out": 1} if "_commit" in _SITES[n] else CHANGES
        found: dict[str, bool] = {}
        for name, by in changes.items():
            NUMBERS[n] = by
            found[name] = not explore()
            if found[name]:
                break  # what is weaker still is wrong too
        NUMBERS[n] = 0
        yield f"{n} {_SITES[n]}", found


CALLS: dict[str, Call] = {
    "matmul past registers": Call("gfx950", lambda: (k.matmul, bf16(16, 1536), bf16(16, 1536).T), ""),
    **{name: EXPLORED[name] for name in (
        "gemm_preshuffle", "matmul by tensor copies", "attention on gfx950", "gemm_sm80", "attention by mma",
        "gemm_sm90", "matmul", "attention", "attention_backward", "mla_decode", "rms_norm wide",
    )},
}  # fmt: skip

__all__ = ["CALLS", "weakened"]
