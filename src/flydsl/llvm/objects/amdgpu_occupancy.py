"""How many waves of a kernel run side by side on a SIMD of an AMD GPU, from what its code object says it uses.

The limits are LLVM's for each architecture. A SIMD's registers are shared out in granules; shared memory and the number
of workgroups are per compute unit of four SIMDs, on RDNA per workgroup processor of two compute units.
"""

from __future__ import annotations

from typing import NamedTuple

from ...errors import TargetError
from ...target import KIB, architecture, has


class Limits(NamedTuple):
    """Of a SIMD and of the unit of four SIMDs it belongs to."""

    waves: int
    """Waves on a SIMD at most."""
    registers: int
    """Vector registers of a lane, over all waves of a SIMD."""
    granule: int
    """Registers are given in multiples of this."""
    shared: int
    """Bytes of shared memory of the unit."""
    groups: int
    """Workgroups of more than one wave on the unit at most."""
    simds: int = 4


class Occupancy(NamedTuple):
    """Waves on a SIMD, and what allows no more: `waves`, `vgprs`, `sgprs`, `shared` or `workgroups`."""

    waves: int
    limited_by: str


def limits_of(arch: str) -> Limits:
    """What an architecture has.

    >>> limits_of("gfx942").registers, limits_of("gfx1100").granule
    (512, 24)
    """
    entry = architecture(arch)
    if entry is None or entry.simd is None:
        raise TargetError(f"nothing is known of the SIMDs of {arch}")
    simd, shared = entry.simd, entry.shared_mem or 64 * KIB
    return Limits(simd.waves, simd.registers, simd.granule, simd.units * shared, 16 * simd.units)


def _by_scalar_registers(arch: str, sgprs: int) -> int | None:
    """800 scalar registers of a SIMD are shared out; later architectures give every wave all it can name."""
    if not has(arch, "shared_scalar_registers"):
        return None
    return next((waves for most, waves in ((80, 10), (88, 9), (100, 8)) if sgprs <= most), 7)


def occupancy(arch: str, *, wave: int, threads: int, vgprs: int, sgprs: int, shared: int) -> Occupancy:
    """Waves on a SIMD for blocks of `threads`; `vgprs` counts accumulation registers where they share the file.

    >>> occupancy("gfx942", wave=64, threads=256, vgprs=242, sgprs=34, shared=32768)
    Occupancy(waves=2, limited_by='vgprs')
    """
    limits = limits_of(arch)
    found = {"waves": limits.waves}
    granules = -(-max(vgprs, 1) // limits.granule)
    found["vgprs"] = max(limits.registers // (granules * limits.granule), 1)
    scalar = _by_scalar_registers(arch, sgprs)
    if scalar is not None:
        found["sgprs"] = scalar
    each = -(-threads // wave)
    slots = limits.waves * limits.simds
    groups = max(slots // each, 1) if each == 1 else max(min(slots // each, limits.groups), 1)
    found["workgroups"] = -(-groups * each // limits.simds)
    if shared:
        found["shared"] = -(-min(max(limits.shared // shared, 1), groups) * each // limits.simds)
    name = min(found, key=lambda key: found[key])
    return Occupancy(found[name], name)
