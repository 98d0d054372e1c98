"""GPUs by their rates, from their makers' public data sheets. `fit` holds what measurements say of the model itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ..errors import DSLValueError
from . import GPUTarget

_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Fit:
    """Constants no data sheet has: how much of a peak is reached, and what comes on top."""

    launch_us: float = 1.5
    """From the launch to the first instruction, and behind the last."""
    memory: float = 0.88
    """Share of the memory's rate that is reached."""
    matrix: float = 0.78
    """Share of the matrix units' rate that is reached."""
    latency: float = 700.0
    """Clocks from a request to memory until the data is there."""
    ahead: float = 6.0
    """Requests of a pipeline that are under way at once."""
    barrier: float = 30.0
    """Clocks of a barrier of a block."""
    shows: float = 0.12
    """Share of what should be hidden behind the limiter and is not."""
    cluster_us: float = 0.5
    """What starting blocks as clusters takes more."""


@dataclass(frozen=True)
class Machine:
    """One GPU."""

    name: str
    arch: str
    units: int
    """Multiprocessors, or compute units."""
    clock_ghz: float
    memory_gbs: float
    """Of device memory."""
    cache_gbs: float
    """Of the last-level cache."""
    cache_mb: float
    matrix: Mapping[str, float]
    """Dense TFLOPS of the matrix units by element type, of the whole GPU."""
    lanes: int
    """Multiply-adds of f32 a unit does in a clock."""
    issue: float
    """Instructions of warps a unit starts in a clock."""
    shared_bytes: int
    """Shared memory of a unit."""
    shared_rate: int = 128
    """Bytes of shared memory a clock."""
    banks: int = 32
    sector: int = 32
    """Bytes of memory that move at least."""
    registers: int = 65536
    """Of a unit, 32 bits each."""
    max_warps: int = 64
    max_blocks: int = 32
    warp: int = 32
    fit: Fit = field(default_factory=Fit)

    def matrix_rate(self, kind: str) -> float:
        """Operations a clock of one unit for an element type."""
        known = self.matrix.get(kind) or self.matrix.get({"bf16": "f16", "i8": "fp8"}.get(kind, ""), 0.0)
        return known * 1e12 / (self.units * self.clock_ghz * 1e9)


def _hopper(name: str, memory: float) -> Machine:
    return Machine(
        name, "sm_90", 132, 1.755, memory, 10000.0, 50.0,
        {"f16": 989.0, "bf16": 989.0, "fp8": 1979.0, "tf32": 494.0, "i8": 1979.0, "f64": 67.0}, 128, 4.0, 233472,
    )  # fmt: skip


def _cdna3(name: str, memory: float) -> Machine:
    return Machine(
        name, "gfx942", 304, 2.1, memory, 17000.0, 256.0,
        {"f16": 1307.0, "bf16": 1307.0, "fp8": 2615.0, "i8": 2615.0, "xf32": 654.0, "f32": 163.4, "f64": 163.4},
        128, 4.0, 65536, sector=64, registers=131072, max_warps=32, max_blocks=16, warp=64,
    )  # fmt: skip


MACHINES: tuple[Machine, ...] = (
    _hopper("H200", 4800.0),
    _hopper("H100", 3350.0),
    Machine("A100", "sm_80", 108, 1.41, 2039.0, 5500.0, 40.0,
            {"f16": 312.0, "bf16": 312.0, "tf32": 156.0, "i8": 624.0, "f64": 19.5}, 64, 4.0, 167936),
    Machine("RTX 3090", "sm_86", 82, 1.695, 936.0, 2200.0, 6.0,
            {"f16": 71.0, "bf16": 71.0, "tf32": 35.6, "i8": 284.0}, 128, 4.0, 102400, max_warps=48, max_blocks=16),
    Machine("RTX 4090", "sm_89", 128, 2.52, 1008.0, 5000.0, 72.0,
            {"f16": 165.2, "bf16": 165.2, "fp8": 330.3, "tf32": 82.6, "i8": 660.6}, 128, 4.0, 102400, max_warps=48,
            max_blocks=24),
    Machine("RTX 5090", "sm_120", 170, 2.41, 1792.0, 6000.0, 96.0,
            {"f16": 209.5, "bf16": 209.5, "fp8": 419.0, "tf32": 104.8, "i8": 838.0}, 128, 4.0, 102400, max_warps=48),
    _cdna3("MI300X", 5300.0),
    _cdna3("MI325X", 6000.0),
    Machine("MI355X", "gfx950", 256, 2.4, 8000.0, 20000.0, 256.0,
            {"f16": 2517.0, "bf16": 2517.0, "fp8": 5033.0, "i8": 5033.0, "f32": 157.3, "f64": 78.6}, 128, 4.0, 163840,
            sector=64, registers=131072, max_warps=32, max_blocks=16, warp=64),
    Machine("RX 7900 XTX", "gfx1100", 96, 2.5, 960.0, 3500.0, 96.0,
            {"f16": 122.8, "bf16": 122.8, "i8": 122.8}, 128, 2.0, 65536, sector=64, registers=98304, max_warps=32,
            max_blocks=16),
    Machine("RX 9070 XT", "gfx1201", 64, 2.97, 645.0, 3000.0, 64.0,
            {"f16": 195.0, "bf16": 195.0, "fp8": 389.0, "i8": 389.0}, 128, 2.0, 65536, sector=64, registers=98304,
            max_warps=32, max_blocks=16),
)  # fmt: skip
"""The first of an architecture stands for it."""


def machine_for(target: GPUTarget, name: str | None = None) -> Machine:
    """The GPU of a name, or the one that stands for a target's architecture."""
    if name is not None:
        for machine in MACHINES:
            if machine.name.lower().replace(" ", "") == name.lower().replace(" ", ""):
                return machine
        raise DSLValueError(f"there is no GPU {name!r} in the table; it has {', '.join(m.name for m in MACHINES)}")
    arch = target.arch.rstrip("af") if target.arch.startswith("sm_") else target.arch
    for machine in MACHINES:
        if machine.arch == arch:
            return machine
    for machine in MACHINES:  # the next best: the same generation
        if machine.arch[:-1] == arch[:-1]:
            return machine
    known = ", ".join(f"{m.name} ({m.arch})" for m in MACHINES)
    raise DSLValueError(f"nothing is known of GPUs with the architecture {target.arch}; the table has {known}")
