"""Control: barriers, the end of a wave, hardware registers, and what has no effect here."""

from __future__ import annotations

import re

from ..decode import Context, Step, instruction
from ..errors import IsaError
from ..operands import read_scalar, write_scalar
from ..text import Instruction
from ..wave import Wave

_NOTHING = (
    *("s_nop", "s_sleep", "s_setprio", "s_clause", "s_delay_alu", "s_wait_alu", "s_inst_prefetch", "s_icache_inv"),
    *("s_set_inst_prefetch_distance", "s_sethalt", "s_code_end", "s_prefetch_inst", "s_prefetch_data", "s_ttracedata"),
    *("s_wait_idle", "s_monitor_sleep", "s_wakeup", "s_prefetch_inst_pc_rel", "s_prefetch_data_pc_rel"),
    *("s_setprio_inc_wg", "s_incperflevel", "s_decperflevel", "s_waitcnt_depctr"),
    "s_set_vgpr_msb",  # the disassembly says which registers it leads to
)


@instruction(*_NOTHING)
def nothing(inst: Instruction, ctx: Context) -> Step:
    return lambda w: None


@instruction("s_endpgm")
def end(inst: Instruction, ctx: Context) -> Step:
    def step(w: Wave) -> None:
        w.finish()
        w.state = "ended"

    return step


@instruction("s_barrier")
def barrier(inst: Instruction, ctx: Context) -> Step:
    def step(w: Wave) -> None:
        w.state = "barrier"

    return step


def _which(inst: Instruction) -> int:
    """The barrier of the block is -1, that of the cluster -3."""
    number = int(inst.operands[0], 0)
    number -= 0x10000 if number & 0x8000 and number > 0 else 0
    if number not in (-1, -3):
        raise IsaError("a named barrier")
    return number


@instruction("s_barrier_signal", "s_barrier_signal_isfirst")
def barrier_signal(inst: Instruction, ctx: Context) -> Step:
    if _which(inst) == -3:
        return lambda w: w.block.cluster.signal(w.block)
    tells = inst.mnemonic.endswith("isfirst")

    def step(w: Wave) -> None:
        if w.signalled:
            raise IsaError("a wave signals a barrier twice before it waits")
        if tells:
            w.scc = int(not any(other.signalled for other in w.block.waves))
        w.signalled = True

    return step


@instruction("s_barrier_wait")
def barrier_wait(inst: Instruction, ctx: Context) -> Step:
    if _which(inst) == -3:

        def meet(w: Wave) -> None:
            w.state = "cluster"
            w.met += 1

        return meet

    def step(w: Wave) -> None:
        if not w.signalled:
            raise IsaError("a wave waits for a barrier that it has not signalled")
        w.state = "barrier"

    return step


@instruction("s_sendmsg", "s_sendmsghalt")
def send(inst: Instruction, ctx: Context) -> Step:
    if "DEALLOC_VGPRS" not in inst.operands[0]:
        raise IsaError("a message")
    return lambda w: None


@instruction("s_trap")
def trap(inst: Instruction, ctx: Context) -> Step:
    def step(w: Wave) -> None:
        raise IsaError(f"the kernel stops itself: {inst.text}")

    return step


@instruction("s_getpc_b64")
def program_counter(inst: Instruction, ctx: Context) -> Step:
    write = write_scalar(ctx.operand(inst.operands[0]), 64)
    return lambda w: write(w, w.base + inst.address + inst.size)


@instruction("s_setreg_b32", "s_setreg_imm32_b32")
def set_register(inst: Instruction, ctx: Context) -> Step:
    name = re.match(r"hwreg\((\w+)", inst.operands[0])
    if name is None or name[1] not in ("HW_REG_MODE", "HW_REG_WAVE_MODE"):
        raise IsaError("a hardware register")
    field = re.match(r"hwreg\(\w+, (\d+), (\d+)\)", inst.operands[0])
    offset, width = (int(field[1]), int(field[2])) if field else (0, 32)
    read = read_scalar(ctx.operand(inst.operands[1]))

    def step(w: Wave) -> None:
        keep = ((1 << width) - 1) << offset
        w.mode = w.mode & ~keep | read(w) << offset & keep

    return step


@instruction("s_getreg_b32")
def get_register(inst: Instruction, ctx: Context) -> Step:
    name = re.match(r"hwreg\((\w+)(?:, (\d+), (\d+))?\)", inst.operands[1])
    if name is None or name[1] not in (
        "HW_REG_MODE",
        "HW_REG_WAVE_MODE",
        "HW_REG_HW_ID",
        "HW_REG_XCC_ID",
        "HW_REG_HW_ID1",
        "HW_REG_IB_STS2",
    ):
        raise IsaError("a hardware register")
    write = write_scalar(ctx.operand(inst.operands[0]))
    offset, width = int(name[2] or 0), int(name[3] or 32)
    which = name[1]

    def value(w: Wave) -> int:
        if which == "HW_REG_IB_STS2":
            return w.place_in_cluster
        return w.mode if "MODE" in which else w.number

    return lambda w: write(w, value(w) >> offset & (1 << width) - 1)
