"""What a code object says of itself, held against its code: what the loader and the dispatch go by.

The rules are those of LLVM's guide to AMDGPU ("Code Object V5 and later Metadata", "Kernel Descriptor").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flydsl.llvm.objects.code_object import SHT_DYNSYM, ArgInfo, ElfFile, KernelInfo

from .errors import IsaError
from .wave import SCALAR, VCC

if TYPE_CHECKING:
    from .image import Descriptor

MACHINES = {
    **{"gfx906": 0x2F, "gfx908": 0x30, "gfx90a": 0x3F, "gfx942": 0x4C, "gfx950": 0x4F},
    **{"gfx1100": 0x41, "gfx1101": 0x46, "gfx1102": 0x47, "gfx1103": 0x44, "gfx1150": 0x43, "gfx1151": 0x4A},
    **{"gfx1200": 0x48, "gfx1201": 0x4E, "gfx1250": 0x49},
}
"""Architecture -> EF_AMDGPU_MACH."""
HIDDEN = frozenset(
    f"hidden_{name}_{letter}"
    for name in ("block_count", "group_size", "remainder", "global_offset")
    for letter in "xyz"
) | {"hidden_grid_dims", "hidden_dynamic_lds_size"}  # fmt: skip
"""Hidden arguments that need nothing but the launch's sizes: others are of a runtime that we do not ask for."""
_USER_REGISTERS = (4, 2, 2, 2, 2, 2, 1)


def _check(holds: bool, text: str) -> None:
    if not holds:
        raise IsaError(text)


def check_file(elf: ElfFile, arch: str) -> None:
    """The head of the file, and that nothing is left to be found elsewhere."""
    machine = MACHINES.get(arch)
    _check(machine is None or elf.flags & 0xFF == machine, f"e_flags {elf.flags:#x} are not those of {arch}")
    _check(elf.abi_version == 4, f"version {elf.abi_version} of the ABI, code objects of version 6 have 4")
    for symbol in elf.symbols(SHT_DYNSYM):
        _check(not symbol.name or symbol.shndx != 0, f"{symbol.name} is not defined")


def check_arguments(info: KernelInfo) -> None:
    """Arguments lie behind each other at their own alignment, the hidden ones last, all inside the segment."""
    end, hidden = 0, False
    for arg in info.args:
        _check(arg.offset >= end, f"argument {arg.name} at {arg.offset} overlaps the one before it")
        _check(not hidden or arg.hidden, f"argument {arg.name} stands behind hidden ones")
        _check(not arg.hidden or arg.value_kind in HIDDEN, f"the kernel asks for {arg.value_kind}")
        _check(arg.offset % _alignment(arg) == 0, f"argument {arg.name} of {arg.size} bytes at {arg.offset}")
        end, hidden = arg.offset + arg.size, arg.hidden
    _check(end <= info.kernarg_size, f"arguments take {end} bytes, the segment has {info.kernarg_size}")
    align = info.kernarg_align
    _check(align >= 4 and align & (align - 1) == 0, f"the segment of arguments is aligned to {align}")


def _alignment(arg: ArgInfo) -> int:
    return 8 if arg.value_kind == "global_buffer" else arg.size if arg.size in (2, 4, 8) else 1


def check_kernel(info: KernelInfo, descriptor: Descriptor, family: str, registers: Sequence[int]) -> None:
    """Metadata, descriptor and code agree; `registers` are those that the code names."""
    check_arguments(info)
    for name, said, meant in (
        ("shared memory", info.lds, descriptor.lds),
        ("private memory", info.scratch, descriptor.scratch),
        ("arguments", info.kernarg_size, descriptor.kernarg),
        ("lanes", info.wavefront_size, 32 if descriptor.wave32 else 64),
    ):
        _check(said == meant, f"{name}: the metadata says {said}, the descriptor {meant}")
    _check((family == "gfx9") != descriptor.wave32, f"waves of {info.wavefront_size} lanes on {family}")
    given = sum(n for bit, n in enumerate(_USER_REGISTERS) if descriptor.properties >> bit & 1)
    given += descriptor.preload & 0x7F
    # Only what comes first may be counted without being there: alignment of what is preloaded.
    _check(given <= descriptor.user_sgprs <= 32, f"{given} user registers, counted as {descriptor.user_sgprs}")
    _check(not info.uses_dynamic_stack, "the size of private memory is not known")
    _check_registers(info, descriptor, family, registers)


def _check_registers(info: KernelInfo, descriptor: Descriptor, family: str, registers: Sequence[int]) -> None:
    vectors = max((r + 1 for r in registers if r < SCALAR), default=0)
    scalars = max((r - SCALAR + 1 for r in registers if SCALAR <= r < SCALAR + VCC), default=0)
    there = descriptor.vgprs("gfx1250" if family == "gfx1250" else family[:5])
    _check(vectors <= there, f"the code uses {vectors} vector registers, the descriptor has {there}")
    _check(vectors <= info.vgpr, f"the code uses {vectors} vector registers, the metadata counts {info.vgpr}")
    _check(scalars <= info.sgpr, f"the code uses {scalars} scalar registers, the metadata counts {info.sgpr}")
    if family == "gfx9":
        there = ((descriptor.rsrc1 >> 6 & 15) + 1) * 8
        _check(scalars <= there, f"the code uses {scalars} scalar registers, the descriptor has {there}")
    threads = info.reqd_workgroup_size
    if threads is not None:
        count = threads[0] * threads[1] * threads[2]
        _check(count == info.max_flat_workgroup_size, f"blocks of {threads}, at most {info.max_flat_workgroup_size}")
