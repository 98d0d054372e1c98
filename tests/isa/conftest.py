"""A disassembler is needed, and a GPU of a test is gone when the test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from flydsl.llvm import tools

from .gpu import Gpu, executing


@pytest.fixture(scope="session", autouse=True)
def disassembler() -> None:
    if tools.try_find_tool("llvm-objdump") is None:
        pytest.skip("no llvm-objdump of LLVM 22 to disassemble with: apt-get install llvm-22")


@pytest.fixture
def rng() -> np.random.Generator:
    """Fresh random data in every run; the seed is printed with a failure."""
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture
def gpu(rng: np.random.Generator) -> Iterator[Callable[[str], Gpu]]:
    """`gpu("gfx942")`: from here on the rocm stack is such a GPU."""
    with ExitStack() as stack:
        yield lambda arch: stack.enter_context(executing(arch, int(rng.integers(1 << 30))))
