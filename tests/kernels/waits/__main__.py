"""Make every wait of the library's kernels weaker in turn: `python -m tests.kernels.waits [part of a name ...]`.

Each wait leaves 1 to 4 more under way, or all, until that is reported, and each group of copies is not closed, one at a
time. A kernel is compiled once: a pass adds numbers to its waits that are looked up when it runs.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cpu")
os.environ["FLYDSL_RUNTIME_ENABLE_CACHE"] = "0"

from .library import CALLS, weakened  # noqa: E402  The backend is chosen first.


def main(wanted: list[str]) -> int:
    for name, call in CALLS.items():
        if wanted and not any(part in name for part in wanted):
            continue
        os.environ["FLYDSL_COMPILE_ARCH"] = call.arch
        print(f"{name} ({call.arch})", flush=True)
        for site, found in weakened(call):
            said = " ".join(f"{change}:{'reported' if bad else 'NOT'}" for change, bad in found.items())
            print(f"  {site}: {said}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
