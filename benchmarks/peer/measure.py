"""Times one cold compile under FlyDSL itself: `measure.py KERNEL WARM_UP` prints one line of JSON.

Runs in the peer's virtual environment, in compile-only mode, with CPU tensors standing in for device ones.
Standard library, torch and the installed `flydsl` only.
"""

import json
import sys
import time
from typing import Any

import torch

import flydsl.compiler as flyc
import kernels


def array(*shape: int, column_major: bool = False, half: bool = False) -> Any:
    dtype = torch.float16 if half else torch.float32
    return torch.zeros(*reversed(shape), dtype=dtype).t() if column_major else torch.zeros(*shape, dtype=dtype)


def compile_ms(case: tuple[Any, tuple[Any, ...]]) -> float:
    function, arguments = case
    begin = time.perf_counter()
    flyc.compile(function, *arguments)
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    kernel, warm_up = sys.argv[1:]
    cases = kernels.cases(array)
    first = compile_ms(cases[warm_up])
    print(json.dumps({"kernel": kernel, "first_ms": first, "total_ms": compile_ms(cases[kernel])}))


if __name__ == "__main__":
    main()
