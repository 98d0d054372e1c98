"""Times one cold compile under FlyDSL itself: `measure.py KERNEL WARM_UP [--processor-time]` prints one line of JSON.

Runs in the peer's virtual environment, in compile-only mode, with CPU tensors standing in for device ones.
Standard library, torch and the installed `flydsl` only.
"""

import json
import resource
import sys
import time
from typing import Any

import torch

import flydsl.compiler as flyc
import kernels


def array(*shape: int, column_major: bool = False, half: bool = False) -> Any:
    dtype = torch.float16 if half else torch.float32
    return torch.zeros(*reversed(shape), dtype=dtype).t() if column_major else torch.zeros(*shape, dtype=dtype)


def processor_time() -> float:
    """Seconds of this process and of those it has started, such as the linker."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


CLOCK = processor_time if "--processor-time" in sys.argv else time.perf_counter


def compile_ms(case: tuple[Any, tuple[Any, ...]]) -> float:
    function, arguments = case
    begin = CLOCK()
    flyc.compile(function, *arguments)
    return (CLOCK() - begin) * 1e3


def main() -> None:
    kernel, warm_up = sys.argv[1:3]
    cases = kernels.cases(array)
    first = compile_ms(cases[warm_up])
    print(json.dumps({"kernel": kernel, "first_ms": first, "total_ms": compile_ms(cases[kernel])}))


if __name__ == "__main__":
    main()
