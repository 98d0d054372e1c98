"""Waves on a SIMD: against tables of what LLVM's AMDGPU backend says, and against llc where it is installed."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.llvm import tools
from flydsl.llvm.objects.amdgpu_occupancy import occupancy


def waves(arch: str, **used: int) -> int:
    size = 64 if arch.startswith("gfx9") else 32
    return occupancy(arch, wave=size, **{"threads": 256, "vgprs": 8, "sgprs": 16, "shared": 0, **used}).waves


# First vector-register count at which the number of waves drops, and to what.
STEPS = {
    "gfx908": {24: 10, 28: 9, 32: 8, 36: 7, 40: 6, 48: 5, 64: 4, 84: 3, 128: 2, 256: 1},
    "gfx90a": {64: 8, 72: 7, 80: 6, 96: 5, 128: 4, 168: 3, 256: 2, 512: 1},
    "gfx942": {64: 8, 72: 7, 80: 6, 96: 5, 128: 4, 168: 3, 256: 2, 512: 1},
    "gfx950": {64: 8, 72: 7, 80: 6, 96: 5, 128: 4, 168: 3, 256: 2, 512: 1},
    "gfx1100": {96: 16, 120: 12, 144: 10, 168: 9, 192: 8, 216: 7, 240: 6, 256: 5},
    "gfx1103": {64: 16, 80: 12, 96: 10, 112: 9, 128: 8, 144: 7, 160: 6, 192: 5, 256: 4},
    "gfx1201": {96: 16, 120: 12, 144: 10, 168: 9, 192: 8, 216: 7, 240: 6, 256: 5},
}


@pytest.mark.parametrize("arch", STEPS)
def test_vector_registers(arch: str):
    """Up to each count so many waves run; one register more costs one."""
    table = list(STEPS[arch].items())
    for (count, number), (_, fewer) in zip(table, [*table[1:], (0, 0)], strict=True):
        assert waves(arch, vgprs=count) == number
        if fewer:
            assert waves(arch, vgprs=count + 1) == fewer < number


@pytest.mark.parametrize(
    ("arch", "shared", "expected"),
    [
        ("gfx942", 16384, 4), ("gfx942", 16385, 3), ("gfx942", 32769, 1), ("gfx950", 32768, 5), ("gfx950", 163840, 1),
        ("gfx1100", 16384, 16), ("gfx1100", 20000, 12), ("gfx1100", 65536, 4), ("gfx1250", 65536, 10),
    ],
)  # fmt: skip
def test_shared_memory(arch: str, shared: int, expected: int):
    assert waves(arch, shared=shared) == expected


def test_scalar_registers_and_blocks():
    assert [waves("gfx908", sgprs=n) for n in (80, 88, 100, 102)] == [10, 9, 8, 7]
    assert waves("gfx942", sgprs=102) == 7 and waves("gfx1100", sgprs=106) == 16
    assert [waves("gfx942", threads=n) for n in (64, 768, 1024)] == [8, 6, 8]
    assert [waves("gfx1100", threads=n) for n in (192, 768)] == [15, 12]
    assert waves("gfx942", threads=64, shared=4096) == 4  # sixteen blocks of one wave


def test_what_limits():
    used = {"wave": 64, "threads": 256, "sgprs": 30}
    assert occupancy("gfx942", vgprs=64, shared=0, **used) == (8, "waves")
    assert occupancy("gfx942", vgprs=65, shared=0, **used) == (7, "vgprs")
    assert occupancy("gfx942", vgprs=65, shared=30000, **used) == (2, "shared")
    assert occupancy("gfx942", vgprs=8, shared=0, wave=64, threads=768, sgprs=8) == (6, "workgroups")


@flyc.kernel
def staged_kernel(x: fx.Tensor):
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 4096, 16]).peek()
    place = lds.view(fx.make_layout(4096, 1))
    t = fx.thread_idx.x
    place[t] = x[t]
    fx.barrier()
    x[t] = place[255 - t]


@flyc.jit
def staged(x: fx.Tensor):
    staged_kernel(x).launch(grid=1, block=256)


@pytest.mark.parametrize(("arch", "expected"), [("gfx942", 4), ("gfx950", 8), ("gfx1100", 16)])
def test_in_the_artifact(arch: str, expected: int):
    artifact = flyc.compile(staged, np.zeros(256, np.float32), target=f"rocm:{arch}").artifact
    (found,) = artifact.resources.values()
    assert found["occupancy"] == expected
    assert found["occupancy_limit"] == ("shared" if expected == 4 else "waves")


PROBE = """target triple = "amdgcn-amd-amdhsa"
@l = internal addrspace(3) global [{shared} x i8] poison, align 16
define amdgpu_kernel void @k() #0 {{
  store volatile i8 0, ptr addrspace(3) @l
  call void asm sideeffect "", "~{{v{last}}}"()
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="{threads},{threads}" }}
"""


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1101", "gfx1102", "gfx1200", "gfx1250"])
def test_as_llvm_says(arch: str):
    llc = tools.try_find_tool("llc")
    if llc is None:
        pytest.skip("llc is not installed")
    rng = np.random.default_rng()
    for _ in range(4):
        vgprs, shared = int(rng.integers(16, 256)), int(rng.integers(1, 65536))
        threads = 64 * int(rng.integers(1, 17))
        text = PROBE.format(shared=shared, last=vgprs - 1, threads=threads)
        done = subprocess.run([llc.path, f"-mcpu={arch}", "-o", "-"], input=text, capture_output=True, text=True)
        asm = done.stdout
        said = int(re.search(r"; Occupancy: (\d+)", asm)[1])
        counts = {name: int(re.search(rf"\.{name}_count:\s+(\d+)", asm)[1]) for name in ("vgpr", "sgpr")}
        mine = waves(arch, threads=threads, vgprs=counts["vgpr"], sgprs=counts["sgpr"], shared=shared)
        assert mine == said, (vgprs, shared, threads)
