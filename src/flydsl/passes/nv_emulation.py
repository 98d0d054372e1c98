"""Operations of `fly_nvgpu` on the CPU: barriers in shared memory, named barriers, warp roles.

An mbarrier is two 32-bit words: arrivals that are pending and those of a whole phase (16 bits each), then the parity of
the phase in the top bit over the transferred bytes that are due, offset by `_TX_ZERO`. The threads of a block take
turns, so no step needs to be atomic. Copies happen when they are issued.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects import scf
from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Region, SSAValue

from ..dialects import fly_cpu, gpu, llvm
from ..dialects.builder import i32, i64

if TYPE_CHECKING:
    from .cpu_emulation import Emulation

_TX_ZERO = 1 << 30
_PHASE = 1 << 31
_NOTHING = ("wgmma.", "tma.commit", "tma.wait", "mbarrier.inval", "cluster.arrive")


class _Calls:
    """One operation being emitted."""

    def __init__(self, low: Emulation):
        self.low, self.b = low, low.b

    def word(self, at: SSAValue, index: int) -> SSAValue:
        return self.low.at(at, 4 * index)

    def read(self, at: SSAValue, index: int) -> SSAValue:
        return self.low.take(self.word(at, index), i32)

    def op(self, name: str, x: SSAValue, y: SSAValue | int) -> SSAValue:
        return self.b.int_binary(name, x, self.b.i32(y) if isinstance(y, int) else y)

    # --- mbarrier -------------------------------------------------------------------------------------------------

    def init(self, at: SSAValue, count: SSAValue) -> None:
        arrivals = self.op("ori", count, self.op("shli", count, 16))
        self.low.put(arrivals, self.word(at, 0))
        self.low.put(self.b.i32(_TX_ZERO), self.word(at, 1))

    def update(self, at: SSAValue, arrivals: SSAValue | int, expected: SSAValue | int) -> None:
        """Count arrivals and bytes; a phase that has all of them is over."""
        b = self.b
        first, second = self.read(at, 0), self.read(at, 1)
        first = self.op("subi", first, arrivals)
        second = self.op("addi", second, expected)
        empty = b.cmpi("eq", self.op("andi", first, 0xFFFF), b.i32(0))
        settled = b.cmpi("eq", self.op("andi", second, _PHASE - 1), b.i32(_TX_ZERO))
        over = b.int_binary("andi", empty, settled)
        again = self.op("ori", first, self.op("shrui", first, 16))
        flipped = self.op("xori", second, -_PHASE)
        self.low.put(b.select(over, again, first), self.word(at, 0))
        self.low.put(b.select(over, flipped, second), self.word(at, 1))

    def completed(self, at: SSAValue, parity: SSAValue) -> SSAValue:
        """Whether the phase of this parity is over: the current one has the other parity."""
        now = self.op("shrui", self.read(at, 1), 31)
        return self.b.cmpi("ne", now, self.op("andi", parity, 1))

    def until(self, done: Callable[[], SSAValue]) -> None:
        """Let others run until a condition on memory holds."""
        b, before, after = self.b, Block(), Block()
        with b.region(before):
            again = b.int_binary("xori", done(), b.const(1, i1))
            b.opn(scf.ConditionOp, (again,), ())
        with b.region(after):
            self.low.yield_thread()
            b.opn(scf.YieldOp, (), ())
        b.with_regions(scf.WhileOp, (), (), [Region(before), Region(after)])

    # --- named barriers -------------------------------------------------------------------------------------------

    def named(self, number: SSAValue, total: SSAValue, *, wait: bool) -> None:
        """Arrive at barrier `number` of `total` threads: arrivals in the low half of a word, generation above."""
        b = self.b
        table = b.op1(fly_cpu.NamedOp, (), llvm.ptr(), {})
        at = self.low.at(table, b.muli(b.cast("extui", self.op("andi", number, 15), i64), b.const(4, i64)))
        before = self.low.take(at, i32)
        after = self.op("addi", before, 1)
        full = b.cmpi("uge", self.op("andi", after, 0xFFFF), total)
        generation = self.op("andi", before, -(1 << 16))
        self.low.put(b.select(full, self.op("addi", generation, 1 << 16), after), at)
        if wait:
            self.until(lambda: b.cmpi("ne", self.op("andi", self.low.take(at, i32), -(1 << 16)), generation))


def emulate_call(low: Emulation, name: str, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """Emit the operation `name` of `fly_nvgpu.ops.KINDS`; gives its results."""
    calls, b = _Calls(low), low.b
    if name.startswith(_NOTHING):
        return ()
    match name:
        case "mbarrier.init":
            calls.init(operands[0], operands[1])
        case "mbarrier.arrive" | "mbarrier.arrive_remote":
            calls.update(operands[0], 1, 0)
        case "mbarrier.arrive_expect_tx":
            calls.update(operands[0], 1, operands[1])
        case "mbarrier.expect_tx":
            calls.update(operands[0], 0, operands[1])
        case "mbarrier.complete_tx":
            calls.update(operands[0], 0, calls.op("subi", b.i32(0), operands[1]))
        case "mbarrier.test" | "mbarrier.try_wait":
            low.yield_thread()
            return (calls.completed(operands[0], operands[1]),)
        case "mbarrier.wait":
            calls.until(lambda: calls.completed(operands[0], operands[1]))
        case "barrier.sync" | "barrier.arrive":
            calls.named(operands[0], operands[1], wait=name == "barrier.sync")
        case "cluster.wait":
            b.opn(gpu.BarrierOp, (), ())
        case "cluster.rank" | "cluster.size":
            return (b.i32(int(name == "cluster.size")),)
        case "elect":
            return (b.cmpi("eq", low.group_lane(), b.const(0, i64)),)
        case "uniform":
            return (low.exchange(operands[0])(b.const(0, i64)),)
        case _:
            raise NotImplementedError(f"{name} is not emulated on the cpu stack yet")
    return ()


__all__ = ["emulate_call"]
