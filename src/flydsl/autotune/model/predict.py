"""The time of a call on a GPU, what limits it, and what would help, computed from the code alone."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...compiler.build.artifact import CompiledArtifact
from ...compiler.call.arguments import Argument, TensorArgument
from ...target.machines import Machine, machine_for
from ..limits import shared_bytes
from .counts import Amounts, BlockWork, Counter, Line
from .ir import parse
from .launches import Launch, launches_of


@dataclass
class Prediction:
    """One launch on one GPU. Times are in microseconds."""

    kernel: str
    machine: Machine
    launch: Launch
    us: float
    limiter: str
    parts: dict[str, float]
    """What each resource alone would take."""
    resident: int
    """Blocks on a unit at a time."""
    resident_by: str
    waves: float
    work: BlockWork
    memory_bytes: float
    """From and to device memory, at least."""
    hints: list[str] = field(default_factory=list[str])

    @property
    def operations(self) -> float:
        """Of the matrix units and on floats, of the whole launch."""
        total = self.work.total
        return (sum(total.matrix.values()) + total.floats) * self.launch.blocks

    def table(self) -> str:
        """The prediction as text: roofline, limiter, lines, hints."""
        machine, launch = self.machine, self.launch
        peak = max([*machine.matrix.values(), machine.units * machine.lanes * 2 * machine.clock_ghz * 1e-3])
        intensity = self.operations / self.memory_bytes if self.memory_bytes else float("inf")
        size = "x".join(map(str, launch.grid)), "x".join(map(str, launch.block))
        lines = [
            f"{self.kernel} on {machine.name}: {self.us:.2f} us, limited by {self.limiter}",
            f"  grid {size[0]}, block {size[1]}: {self.waves:.2f} waves of {self.resident} blocks a unit "
            f"({self.resident_by}) on {machine.units} units",
            f"  {self.operations / 1e9:.4g} GFLOP, {self.memory_bytes / 1e6:.4g} MB from memory, "
            f"{intensity:.4g} operations a byte; {self.operations / self.us * 1e-6:.4g} of {peak:.4g} TFLOPS, "
            f"{self.memory_bytes / self.us * 1e-3:.4g} of {machine.memory_gbs:.4g} GB/s",
        ]
        widest = max(map(len, self.parts))
        for name, us in sorted(self.parts.items(), key=lambda item: -item[1]):
            lines.append(f"    {name:<{widest}}  {us:10.2f} us  {'#' * round(40 * us / max(self.us, 1e-9))}")
        lines += self._lines()
        lines += [f"  hint: {hint}" for hint in self.hints]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ...markup import code

        return code(self.table())

    def _lines(self) -> list[str]:
        share = share_of(self.limiter)
        whole = sum(share(each, self.machine) for each in self.work.lines.values())
        if not whole:
            return []
        out = [f"  lines by their part of {self.limiter}:"]
        ranked = sorted(self.work.lines.items(), key=lambda item: -share(item[1], self.machine))
        for (file, line), each in ranked[:12]:
            part = share(each, self.machine) / whole
            if part < 0.01:
                break
            notes: list[str] = []
            if each.moved > 1.2 * each.asked > 0:
                notes.append(f"{each.moved / each.asked:.1f}x the bytes asked for")
            if each.shared > 1.2 * each.shared_ideal:
                notes.append(f"{each.shared / each.shared_ideal:.1f}-way bank conflicts")
            source = linecache.getline(file, line).strip()
            note = f"   <- {', '.join(notes)}" if notes else ""
            out.append(f"    {100 * part:5.1f} %  {Path(file).name}:{line}  {source[:80]}{note}")
        return out


def share_of(limiter: str) -> Callable[[Amounts, Machine], float]:
    """How much of a resource amounts take, to compare lines by."""
    table: dict[str, Callable[[Amounts, Machine], float]] = {
        "device memory": lambda a, m: a.moved,
        "the last-level cache": lambda a, m: a.moved,
        "the matrix units": lambda a, m: _matrix_clocks(a, m),
        "shared memory": lambda a, m: a.shared,
        "issuing instructions": lambda a, m: a.issued,
        "float arithmetic": lambda a, m: a.floats,
        "special functions": lambda a, m: a.special,
        "waiting for memory": lambda a, m: a.asked,
    }
    return table.get(limiter, lambda a, m: a.issued)


def _matrix_clocks(a: Amounts, machine: Machine) -> float:
    clocks = 0.0
    for kind, count in a.matrix.items():
        rate = machine.matrix_rate(kind)
        clocks += count / (rate * machine.fit.matrix) if rate else count / (2.0 * machine.lanes)
    return clocks


def clocks_of(amounts: Amounts, machine: Machine) -> dict[str, float]:
    """Clocks of one unit that each resource takes, without those that are not used."""
    cache_rate = machine.cache_gbs / machine.units / machine.clock_ghz  # bytes a clock and unit
    unit = {
        "the matrix units": _matrix_clocks(amounts, machine),
        "float arithmetic": amounts.floats / (2.0 * machine.lanes),
        "special functions": amounts.special / 16.0,
        "issuing instructions": amounts.issued / machine.issue,
        "shared memory": amounts.shared,
        "the last-level cache": (amounts.moved + amounts.local) / cache_rate,
    }
    return {name: clocks for name, clocks in unit.items() if clocks}


def residency(machine: Machine, launch: Launch, uses: Mapping[str, Any]) -> tuple[int, str]:
    """Blocks that fit on a unit, and what bounds them."""
    warps = -(-launch.threads // machine.warp)
    bounds: dict[str, int] = {"warps": machine.max_warps // max(warps, 1), "blocks": machine.max_blocks}
    # What is said of a kernel may hold the dynamic bytes of its launch already.
    shared = shared_bytes({**uses, "dynamic_smem": 0}) + launch.shared
    if shared:
        bounds["shared memory"] = machine.shared_bytes // shared
    registers = uses.get("registers") or uses.get("vgprs")
    if isinstance(registers, int) and registers > 0:
        bounds["registers"] = machine.registers // (registers * warps * machine.warp)
    name = min(bounds, key=lambda key: bounds[key])
    return max(bounds[name], 1), name


def predict_launch(
    machine: Machine, launch: Launch, work: BlockWork, uses: Mapping[str, Any], array_bytes: float
) -> Prediction:
    """The time of a launch from what its blocks do."""
    fit, total = machine.fit, work.total
    resident, by = residency(machine, launch, uses)
    blocks = launch.blocks
    busiest = -(-blocks // machine.units)
    together = min(resident, busiest)
    rounds = -(-busiest // together)
    clock = machine.clock_ghz * 1e3  # clocks in a microsecond
    parts = {name: clocks * busiest / clock for name, clocks in clocks_of(total, machine).items()}
    waits = work.span.rounds * fit.latency + work.span.rounds_async * fit.latency / fit.ahead
    waits += work.span.barriers * fit.barrier
    parts["waiting for memory"] = (waits * rounds + fit.latency) / clock
    memory = total.moved * blocks
    if array_bytes and array_bytes <= machine.cache_mb * 4e6:
        memory = min(memory, array_bytes)
    elif array_bytes:
        memory = max(min(memory, array_bytes), memory / 4)
    # Few blocks do not fill the memory's pipes.
    busy = min(1.0, blocks * min(launch.threads, 256) / (machine.units * 256.0))
    parts["device memory"] = memory / (machine.memory_gbs * 1e3 * fit.memory * max(busy, 0.05))
    limiter = max(parts, key=lambda name: parts[name])
    ordered = sorted(parts.values(), reverse=True)
    # Resources overlap, but never wholly: part of the others shows.
    us = fit.launch_us + ordered[0] + fit.shows * sum(ordered[1:])
    if work.cluster > 1:
        us += fit.cluster_us
    found = Prediction(
        launch.kernel, machine, launch, us, limiter, parts, resident, by,
        blocks / (machine.units * resident), work, memory,
    )  # fmt: skip
    found.hints = _hints(found, uses, busiest, blocks)
    return found


def _hints(found: Prediction, uses: Mapping[str, Any], busiest: int, blocks: int) -> list[str]:
    total, machine = found.work.total, found.machine
    hints: list[str] = []
    if total.asked and total.moved > 1.3 * total.asked:
        line = _worst(found.work.lines, lambda a: a.moved - a.asked)
        hints.append(
            f"lanes of a warp touch {total.moved / total.asked:.1f} times the bytes they use: let neighbours read "
            f"neighbouring elements{line}"
        )
    if total.shared_ideal and total.shared > 1.3 * total.shared_ideal:
        line = _worst(found.work.lines, lambda a: a.shared - a.shared_ideal)
        hints.append(
            f"bank conflicts take {total.shared / total.shared_ideal:.1f} times the clocks: swizzle or pad{line}"
        )
    idle = 1.0 - blocks / (busiest * machine.units)
    if idle > 0.2:
        hints.append(
            f"{100 * idle:.0f} % of the units' time is idle: {blocks} blocks on {machine.units} units; smaller tiles, "
            "or a split of the reduction, give more"
        )
    if found.limiter == "waiting for memory":
        hints.append("warps wait for data: more stages in flight, more blocks a unit, or wider loads")
    spilled = uses.get("spills")
    if isinstance(spilled, int) and spilled:
        hints.append(f"{spilled} registers are spilled: a smaller tile, or fewer stages")
    if total.local and not spilled:
        hints.append("local memory is used: an array is indexed at run time, or registers do not suffice")
    if found.limiter == "float arithmetic" and not total.matrix and machine.matrix:
        hints.append("products run on the float units: matrix instructions would do many times as much")
    if (
        found.resident_by in ("shared memory", "registers")
        and found.resident == 1
        and found.limiter == "waiting for memory"
    ):
        hints.append(f"{found.resident_by} allow one block a unit")
    if found.work.unknown_loops:
        hints.append(f"{found.work.unknown_loops} loops have bounds that depend on data; each is counted once")
    return hints


def _worst(lines: Mapping[Line, Amounts], of: Callable[[Amounts], float]) -> str:
    if not lines:
        return ""
    file, line = max(lines, key=lambda key: of(lines[key]))
    return f" ({Path(file).name}:{line})"


def predict(
    artifact: CompiledArtifact, arguments: Sequence[Argument], machine: Machine | None = None
) -> list[Prediction]:
    """Each launch of a call, in order. Source lines are known where the code has line tables."""
    chosen = machine or machine_for(artifact.target)
    kernels = parse(artifact.optimized_ir)
    uses = {str(k["name"]): {**k, **artifact.resources.get(str(k["name"]), {})} for k in artifact.kernels}
    size = 0.0
    for argument in arguments:
        if isinstance(argument, TensorArgument):
            count = 1.0
            for extent, stride in zip(argument.info.shape, argument.info.strides, strict=True):
                count *= extent if stride else 1
            size += count * argument.info.dtype.width / 8
    found: list[Prediction] = []
    for launch in launches_of(artifact, arguments):
        work = Counter(kernels[launch.kernel], launch, chosen).run()
        found.append(predict_launch(chosen, launch, work, uses.get(launch.kernel, {}), size))
    return found


def total_ms(predictions: Sequence[Prediction]) -> float:
    """Milliseconds of all launches of a call, one after the other."""
    return sum(p.us for p in predictions) * 1e-3
