"""Code objects of the library say of themselves what their code is; those that do not are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.kernels.library import CASES, Case

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.llvm.objects.code_object import SHT_DYNSYM, ElfFile

from .audit import check_arguments, check_kernel
from .errors import IsaError
from .image import Image
from .machine import Kernel
from .memory import Memory

ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
QUICK = (
    *("gfx942-vector_add", "gfx950-gemm_preshuffle_scaled", "gfx1100-gemm_wmma-float16", "gfx1201-softmax-bfloat16-3"),
    *("gfx1250-rms_norm-float32", "gfx90a-gemm_cdna-bfloat16", "gfx942-all_gather_matmul"),
)
"""Architecture and case: those of the default run."""


def audit(code_object: bytes) -> list[Kernel]:
    """Loading looks at all of it."""
    image = Image(code_object, Memory())
    return [Kernel.load(image, kernel.name) for kernel in image.info.kernels]


def cases() -> list[Any]:
    found: list[Any] = []
    for arch in ARCHES:
        for case in CASES:
            if f"rocm:{arch}" in case.targets:
                name = f"{arch}-{case.name}"
                marks = () if name.startswith(QUICK) else (pytest.mark.slow,)
                found.append(pytest.param(arch, case, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("arch", "case"), cases())
def test_library(arch: str, case: Case):
    assert audit(case.compile(f"rocm:{arch}").binary("hsaco"))


# --- what is refused --------------------------------------------------------------------------------------------------


@flyc.kernel
def sized_kernel(x: fx.Tensor, n: fx.Int32, h: fx.Float16, w: fx.Int64):
    t = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    place = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek().view(fx.make_layout(64, 1))
    place[t & 63] = x[t] + fx.Float32(h)
    fx.barrier()
    if t < n:
        x[t] = place[63 - (t & 63)] + fx.Float32(w)


@flyc.jit
def sized(x: fx.Tensor, n: fx.Int32, h: fx.Float16, w: fx.Int64, b: fx.Int32):
    sized_kernel(x, n, h, w).launch(grid=2, block=b)


@pytest.fixture(scope="module", params=ARCHES)
def code(request: pytest.FixtureRequest) -> bytes:
    x = np.zeros(64, "f4")
    return flyc.compile(sized, x, 60, 1.0, 1, 64, target=f"rocm:{request.param}").artifact.binary("hsaco")


def changed(code: bytes, change: Callable[[bytearray, int], None]) -> bytes:
    """With another kernel descriptor; `change` gets the file and where that begins."""
    elf, data = ElfFile(code), bytearray(code)
    (symbol,) = (s for s in elf.symbols(SHT_DYNSYM) if s.name.endswith(".kd"))
    section = elf.sections[symbol.shndx]
    change(data, section.offset + symbol.value - section.addr)
    return bytes(data)


def put(form: str, at: int, value: Callable[[int], int]) -> Callable[[bytearray, int], None]:
    """Another number in a field of the descriptor."""

    def change(data: bytearray, start: int) -> None:
        (old,) = struct.unpack_from(form, data, start + at)
        struct.pack_into(form, data, start + at, value(old))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("<I", 0, lambda x: x + 4), "shared memory: the metadata says"),
        (put("<I", 4, lambda x: x + 4), "private memory: the metadata says"),
        (put("<I", 8, lambda x: x - 4), "arguments: the metadata says"),
        (put("<H", 56, lambda x: x ^ 1 << 10), "lanes: the metadata says"),
        (put("<I", 52, lambda x: x & ~62), "user registers, counted as 0"),
    ],
    ids="lds scratch kernarg lanes users".split(),
)
def test_another_descriptor(code: bytes, change: Callable[[bytearray, int], None], message: str):
    audit(code)
    with pytest.raises(IsaError, match=message):
        audit(changed(code, change))


def test_other_flags(code: bytes):
    with pytest.raises(IsaError, match="e_flags .* are not those of gfx"):
        audit(code[:48] + bytes([code[48] ^ 1]) + code[49:])


def test_other_metadata(code: bytes):
    (kernel,) = audit(code)
    info, first = kernel.info, kernel.info.args[0]
    family, descriptor = kernel.context.family, kernel.descriptor
    for args, message in (
        ((*info.args, replace(first, offset=info.args[-1].offset + 1)), "overlaps the one before it"),
        ((replace(first, offset=4, size=4),), "of 4 bytes at 4|argument"),
        ((*info.args, replace(first, offset=4096, value_kind="hidden_hostcall_buffer")), "asks for hidden_hostcall"),
        ((replace(first, offset=info.kernarg_size),), "the segment has"),
    ):
        with pytest.raises(IsaError, match=message):
            check_arguments(replace(info, args=args))
    for other, registers, message in (
        (replace(info, sgpr=1), [1024, 1026], "uses 3 scalar registers, the metadata counts 1"),
        (replace(info, vgpr=0), [0], "uses 1 vector registers, the metadata counts 0"),
        (info, [511], "uses 512 vector registers, the descriptor has"),
    ):
        with pytest.raises(IsaError, match=message):
            check_kernel(other, descriptor, family, registers)
