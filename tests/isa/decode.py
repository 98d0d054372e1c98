"""From instructions to Python functions, once per kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .errors import IsaError
from .operands import Operand, parse_operand
from .text import Instruction
from .wave import SCALAR, VCC, Wave

Step = Callable[[Wave], None]


@dataclass(frozen=True, slots=True)
class Context:
    """What decoding depends on besides the instruction."""

    arch: str
    family: str
    lanes: int
    accumulators: int

    def operand(self, text: str) -> Operand:
        return parse_operand(text, self.accumulators)

    def operands(self, inst: Instruction) -> list[Operand]:
        return [self.operand(text) for text in inst.operands]


Maker = Callable[[Instruction, Context], Step]
MAKERS: dict[str, Maker] = {}
"""Mnemonic -> what makes its function; the modules of this folder fill it."""


def instruction(*names: str) -> Callable[[Maker], Maker]:
    """Register the maker of some instructions."""

    def register(maker: Maker) -> Maker:
        for name in names:
            if name in MAKERS:
                raise AssertionError(f"{name} is there twice")
            MAKERS[name] = maker
        return maker

    return register


def family_of(arch: str) -> str:
    """The names and counters of instructions are those of a family."""
    for family in ("gfx9", "gfx11", "gfx12"):
        if arch.startswith(family):
            return family
    raise IsaError(f"no family is known for {arch}")


@dataclass(slots=True)
class Line:
    """An instruction that can be executed."""

    inst: Instruction
    step: Step
    registers: frozenset[int]
    """What must not be under way when it starts."""


_OWN_CHECK = ("global_", "flat_", "buffer_", "ds_", "s_load", "s_buffer_load", "scratch_")
"""These may write a register that an earlier one of their kind is still to write."""


def _registers(inst: Instruction, ctx: Context) -> frozenset[int]:
    operands = [ctx.operand(text) for text in inst.operands]
    if inst.mnemonic.startswith(_OWN_CHECK) and "store" not in inst.mnemonic and "write" not in inst.mnemonic:
        operands = operands[1:]
    found = {register for operand in operands for register in operand.registers}
    if "vcc" in inst.mnemonic:
        found |= {SCALAR + VCC, SCALAR + VCC + 1}
    return frozenset(found)


def program(instructions: dict[int, Instruction], ctx: Context) -> tuple[list[Line], dict[int, int]]:
    """Every instruction as a line, and the line of each address. Unknown ones fail when they are reached."""
    addresses = sorted(instructions)
    places = {address: at for at, address in enumerate(addresses)}
    return [line_of(instructions[address], ctx, places) for address in addresses], places


def line_of(inst: Instruction, ctx: Context, places: dict[int, int]) -> Line:
    if inst.mnemonic in BRANCHES:
        target = inst.address + 4 + 4 * _signed16(int(inst.operands[0], 0))
        step = BRANCHES[inst.mnemonic](inst, places.get(target))
        return Line(inst, step, _registers(inst, ctx))
    if "::" in inst.text:
        return _dual(inst, ctx)
    maker = MAKERS.get(inst.mnemonic)
    if maker is None:
        return Line(inst, _unknown(inst, f"{inst.mnemonic} is not known"), frozenset())
    try:
        return Line(inst, maker(inst, ctx), _registers(inst, ctx))
    except (IsaError, IndexError, ValueError, KeyError) as error:
        return Line(inst, _unknown(inst, f"{type(error).__name__}: {error}"), frozenset())


def _dual(inst: Instruction, ctx: Context) -> Line:
    """Two instructions in one: both read before either writes."""
    from .text import parse

    left, right = (parse(part.strip().replace("v_dual_", "v_"), inst.address) for part in inst.text.split("::"))
    lines = [line_of(half, ctx, {}) for half in (left, right)]
    targets = [ctx.operand(half.operands[0]).index for half in (left, right)]

    def step(w: Wave) -> None:
        kept = w.v[targets[0]].copy()
        lines[0].step(w)
        made = w.v[targets[0]].copy()
        w.v[targets[0]] = kept
        lines[1].step(w)
        w.v[targets[0]] = made

    return Line(inst, step, lines[0].registers | lines[1].registers)


def _signed16(value: int) -> int:
    return value - 0x10000 if value & 0x8000 else value


def _unknown(inst: Instruction, why: str) -> Step:
    def step(w: Wave) -> None:
        raise IsaError(f"cannot execute {inst.text!r}: {why}")

    return step


def _branch(taken: Callable[[Wave], bool]) -> Callable[[Instruction, int | None], Step]:
    def make(inst: Instruction, target: int | None) -> Step:
        if target is None:
            return _unknown(inst, "the branch leads to no instruction")

        def step(w: Wave) -> None:
            if taken(w):
                w.pc = target

        return step

    return make


def _vcc(w: Wave) -> int:
    low = int(w.s[VCC])
    return low | int(w.s[VCC + 1]) << 32 if w.lanes == 64 else low


BRANCHES: dict[str, Callable[[Instruction, int | None], Step]] = {
    "s_branch": _branch(lambda w: True),
    "s_cbranch_scc0": _branch(lambda w: not w.scc),
    "s_cbranch_scc1": _branch(lambda w: bool(w.scc)),
    "s_cbranch_vccz": _branch(lambda w: not _vcc(w)),
    "s_cbranch_vccnz": _branch(lambda w: bool(_vcc(w))),
    "s_cbranch_execz": _branch(lambda w: not w.exec()),
    "s_cbranch_execnz": _branch(lambda w: bool(w.exec())),
}
