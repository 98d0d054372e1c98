"""Code for AMD GPUs on the cpu stack: kernels are lowered for the GPU, and the instructions they then have emulated.

The cpu stack runs atoms from what they mean, so its own lowering says nothing of the one for GPUs. Here a pass in front
of it lowers for the GPU first: descriptors, offsets, operands and lanes of instructions are those a GPU would get. The
tests are those of the kernels' own modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from xdsl.dialects.builtin import ModuleOp

import flydsl.compiler as flyc
from flydsl.dialects.upstream import gpu
from flydsl.passes.fly.convert_fly_to_rocdl import Conversion
from flydsl.passes.fly.device_module import TARGET_ATTRIBUTE

from .test_rocm_buffers import (
    test_atomics,
    test_buffer_ops,
    test_copy,
    test_copy_into_shared_memory,
    test_elements_and_soffset,
    test_masks_of_unbounded_resources,
)
from .test_rocm_mfma import test_matches_numpy as test_mfma
from .test_rocm_scaled import test_mfma_scale, test_transposing_reads
from .test_rocm_tdm_tiles import test_tiles_there_and_back


@flyc.ir_pass(stage="fly:before:convert-fly-to-cpu", name="test-lower-for-amd", backends=["cpu"])
def lower_for_amd(module: ModuleOp) -> ModuleOp:
    targets = {op.sym_name: op.attributes[TARGET_ATTRIBUTE] for op in module.ops if isinstance(op, gpu.ModuleOp)}
    conversion = Conversion()
    made = conversion.run(module)
    assert conversion.arch is not None and conversion.arch.startswith("gfx")
    for op in made.ops:
        if isinstance(op, gpu.ModuleOp):  # instructions mean what they do on the chip they are for
            op.attributes[TARGET_ATTRIBUTE] = targets[op.sym_name]
    return made


@pytest.fixture(autouse=True)
def by_way_of_amd(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All kernels of a test go this way, for CDNA5 where it does not say for what."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "gfx1250")
    flyc.enable_pass("test-lower-for-amd")
    yield
    flyc.disable_pass("test-lower-for-amd")


@pytest.fixture
def emulate(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Run on the cpu stack as this architecture."""

    def set_arch(arch: str) -> None:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    return set_arch


__all__ = [
    "test_atomics",
    "test_buffer_ops",
    "test_copy",
    "test_copy_into_shared_memory",
    "test_elements_and_soffset",
    "test_masks_of_unbounded_resources",
    "test_mfma",
    "test_mfma_scale",
    "test_tiles_there_and_back",
    "test_transposing_reads",
]
