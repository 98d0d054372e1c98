"""Explore the schedules of every kernel of the library: `python -m tests.kernels.schedules [part of a name ...]`.

The tests do that for those calls of `tests/kernels/library/calls` that are quick.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cpu")

from ..library.calls import CALLS  # noqa: E402  The backend is chosen first.
from .library import explore  # noqa: E402


def main(wanted: list[str]) -> int:
    failed = 0
    for name, call in CALLS.items():
        if wanted and not any(part in name for part in wanted):
            continue
        os.environ["FLYDSL_COMPILE_ARCH"] = call.arch
        start = time.process_time()
        report, missing = explore(call, 120)
        good = bool(report) and report.complete and not missing
        failed += not good
        seconds = time.process_time() - start
        print(f"{'clean ' if good else 'FAILED'} {seconds:5.1f} s  {name} ({call.arch})", flush=True)
        if not good:
            print(report, f"kernels that did not run: {missing}" if missing else "")
        else:
            print(f"  {report.orders} order(s) of {report.operations} operations; {report.looked_at}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
