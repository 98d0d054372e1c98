"""Kernels whose threads synchronize in uniform control flow: a loop over the threads of a block for each phase between
two synchronization points.

Where barriers, shuffles and votes stand in control flow that is the same for all threads, nothing needs to be
suspended: the code between two of them runs for every thread in a loop that LLVM can vectorise, and control flow around
them is written once for the block. Values that are the same for all threads are written once too. Others that live
longer than their phase are computed again if they follow from the thread's ids alone, or kept in an array with a place
per thread; a shuffle reads another thread's place.

`plan` says whether a kernel is of this kind; others are coroutines (`abi_cpu.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ...dialects import fly_cpu
from ...dialects.upstream import gpu, llvm, scf
from ...dialects.upstream.gpu import warp as gpu_warp
from ...ir.builder import operands_of
from ...ir.dead_code import is_pure
from ...ir.types import bit_width
from ...llvm.text.function_text import TERMINATORS, FunctionText
from ...llvm.text.routine import Routine
from ...lowering.rules.gpu_rules import source_lane
from .block import once
from .routines import CHECKS

MOST_BYTES = 1 << 20
"""Stack memory a block may need for values that outlive their phase."""
_MOST_AGAIN = 12
"""Ops that are written again rather than a value kept."""
_SAME = (gpu.BlockIdOp, gpu.BlockDimOp, gpu.GridDimOp, gpu.SubgroupSizeOp, llvm.AddressOfOp)
_IDS = (gpu.ThreadIdOp, gpu.LaneIdOp, fly_cpu.LaneOp)
_ALONE = (fly_cpu.CountOp, fly_cpu.LaneOp, fly_cpu.LineOp, fly_cpu.SharedBaseOp)
"""What a thread does without the others."""
_EXCHANGES = (gpu.ShuffleOp, gpu_warp.BallotOp, gpu_warp.VoteOp, gpu_warp.SubgroupBroadcastOp)
_STRUCTURED = (scf.ForOp, scf.WhileOp, scf.IfOp)


class Plan(NamedTuple):
    """What is known of a kernel before it is written."""

    meets: set[Operation]
    """Ops with a synchronization point inside."""
    varying: set[SSAValue]
    """Values that differ between threads."""
    kept: set[SSAValue]
    """Those of them that are needed in another phase than their own and not computed again."""
    phase: dict[Operation, int]
    """Phase of every op that is not inside another op of its phase."""


def plan(op: gpu.FuncOp, threads: int, warp: int) -> Plan | None:
    """How to write a kernel in phases; None if it must be coroutines."""
    meets = _synchronizing_ops(op)
    if meets is None:
        return None
    varying = _varying(op, meets)
    if not all(_steered_alike(x, varying) for x in meets if isinstance(x, _STRUCTURED)):
        return None
    phase = _phases(op, meets, varying)
    kept = _kept(op, meets, varying, phase)
    nbytes = sum(_bytes(v) for v in kept) * threads
    nbytes += sum(_alloca_bytes(x) * threads for x in op.walk() if isinstance(x, llvm.AllocaOp))
    return Plan(meets, varying, kept, phase) if nbytes <= MOST_BYTES else None


def _synchronizing_ops(op: gpu.FuncOp) -> set[Operation] | None:
    """Barriers and exchanges, and what encloses them; None where that is no control flow, or threads meet otherwise."""
    found: set[Operation] = set()
    for inner in op.walk():
        if inner.name.startswith("fly_cpu.") and not isinstance(inner, _ALONE):
            if not (isinstance(inner, fly_cpu.CallOp) and inner.callee.data.startswith(CHECKS)):
                return None
        if not isinstance(inner, (gpu.BarrierOp, *_EXCHANGES)):
            continue
        at: Operation | None = inner
        while at is not op:
            assert at is not None
            found.add(at)
            at = at.parent_op()
            if at is not op and not isinstance(at, _STRUCTURED):
                return None
    return found


# --- what differs between threads -------------------------------------------------------------------------------------


def _varying(op: gpu.FuncOp, meets: set[Operation]) -> set[SSAValue]:
    varying: set[SSAValue] = set()
    while True:
        before = len(varying)
        _spread(op.body.block, meets, varying)
        if len(varying) == before:
            return varying


def _spread(block: Block, meets: set[Operation], varying: set[SSAValue]) -> None:
    for op in block.ops:
        if op in meets and isinstance(op, _STRUCTURED):
            _spread_structured(op, meets, varying)
        elif isinstance(op, _SAME) or not op.results:
            continue
        elif isinstance(op, _IDS) or op.regions or not is_pure(type(op)) or any(v in varying for v in op.operands):
            varying.update(op.results)


def _spread_structured(op: Operation, meets: set[Operation], varying: set[SSAValue]) -> None:
    for region in op.regions:
        for block in region.blocks:
            _spread(block, meets, varying)
    if isinstance(op, scf.IfOp):
        varying.update(op.results)
        return
    for target, sources in _flows(op):
        if any(s in varying for s in sources):
            varying.add(target)


def _flows(op: Operation) -> Iterator[tuple[SSAValue, list[SSAValue]]]:
    """Values a loop carries, and where they come from."""
    if isinstance(op, scf.ForOp):
        _, _, _, *inits = operands_of(op)
        body = op.body.block
        yields = _terminator(body)
        for arg, init, again, result in zip(body.args[1:], inits, yields, op.results, strict=True):
            yield arg, [init, again]
            yield result, [arg]
        return
    assert isinstance(op, scf.WhileOp)
    before, after = op.before_region.block, op.after_region.block
    _, *passed = _terminator(before)
    for arg, init, again in zip(before.args, operands_of(op), _terminator(after), strict=True):
        yield arg, [init, again]
    for arg, result, value in zip(after.args, op.results, passed, strict=True):
        yield arg, [value]
        yield result, [value]


def _terminator(block: Block) -> list[SSAValue]:
    last = block.last_op
    return list(operands_of(last)) if last is not None and isinstance(last, TERMINATORS) else []


def _steered_alike(op: Operation, varying: set[SSAValue]) -> bool:
    """Whether all threads go the same way through a structured op with a synchronization point."""
    if isinstance(op, scf.WhileOp):
        return _terminator(op.before_region.block)[0] not in varying
    fixed = operands_of(op)[:3] if isinstance(op, scf.ForOp) else operands_of(op)[:1]
    return not any(v in varying for v in fixed)


# --- phases -----------------------------------------------------------------------------------------------------------


def _phases(op: gpu.FuncOp, meets: set[Operation], varying: set[SSAValue]) -> dict[Operation, int]:
    """The phase of every op. Terminators have one of their own: what they pass on may have been read until then."""
    phase: dict[Operation, int] = {}
    count = 0

    def walk(block: Block) -> None:
        nonlocal count
        for x in block.ops:
            if x is block.last_op and isinstance(x, TERMINATORS):
                count += 1
                phase[x] = count
                count += 1
                return
            if isinstance(x, (gpu.BarrierOp, *_EXCHANGES)):
                count += 1
            if x in meets and isinstance(x, _STRUCTURED):
                count += 1
                phase[x] = count
                count += 1
                for region in x.regions:
                    for inner in region.blocks:
                        walk(inner)
                        count += 1
                continue
            phase[x] = count

    walk(op.body.block)
    return phase


def _phase_of(op: Operation, phase: dict[Operation, int]) -> int:
    at: Operation | None = op
    while at is not None and at not in phase:
        at = at.parent_op()
    assert at is not None
    return phase[at]


def _kept(op: gpu.FuncOp, meets: set[Operation], varying: set[SSAValue], phase: dict[Operation, int]) -> set[SSAValue]:
    kept: set[SSAValue] = set()
    for x in op.walk():
        if x in meets and isinstance(x, _STRUCTURED):
            kept.update(v for v in x.results if v in varying)
            for region in x.regions:
                for block in region.blocks:
                    kept.update(v for v in block.args if v in varying)
        if isinstance(x, _EXCHANGES) and operands_of(x)[0] in varying:
            kept.add(operands_of(x)[0])
        if x not in phase or isinstance(x, llvm.AllocaOp):
            continue
        for value in x.results:
            if value in varying and _used_elsewhere(value, phase[x], phase) and not written_again(value, varying):
                kept.add(value)
    return kept


def _used_elsewhere(value: SSAValue, home: int, phase: dict[Operation, int]) -> bool:
    return any(_phase_of(use.operation, phase) != home for use in value.uses)


def written_again(value: SSAValue, varying: set[SSAValue]) -> bool:
    """Whether a value follows from ids and from what all threads share, in a few steps."""
    left = _MOST_AGAIN

    def follow(v: SSAValue) -> bool:
        nonlocal left
        if v not in varying:
            return True
        owner = v.owner
        left -= 1
        if left < 0 or isinstance(v, BlockArgument) or not isinstance(owner, Operation):
            return False
        if isinstance(owner, (*_IDS, llvm.AllocaOp)):
            return True
        return is_pure(type(owner)) and not owner.regions and all(map(follow, owner.operands))

    return follow(value)


def _bytes(value: SSAValue) -> int:
    return _size(value.type)


def _size(type_: Attribute) -> int:
    """Bytes of a value in memory; of a struct, what its fields take at most, each aligned."""
    if isinstance(type_, llvm.LLVMPointerType):
        return 8
    if isinstance(type_, llvm.StructType):
        return sum(2 * _size(field) for field in type_.data[1])
    return -(-bit_width(type_) // 8)


def _alloca_bytes(op: llvm.AllocaOp) -> int:
    count = op.operands[0].owner
    value: Any = count.properties.get("value") if isinstance(count, Operation) else None
    if value is None:
        return MOST_BYTES
    # Room for alignment.
    return value.value.data * -(-bit_width(op.properties["elem_type"]) // 8) + 64


# --- writing ----------------------------------------------------------------------------------------------------------


@cache
def _ballot() -> str:
    """Votes of a row of threads as a mask."""
    r = Routine("fly_phase_ballot", "i64", "ptr from, i64 count", "nounwind memory(argmem: read)")
    mask = r.variable("i64", 0)
    with r.loop(r["count"]) as i:
        mask.set(mask.get() | (r.load("i1", r["from"], i).to("i64") << i))
    r.give(mask.get())
    return r.text()


class Phases:
    """A kernel's block being written. `thread` and `ids` are names in the loop that is open."""

    def __init__(self, f: FunctionText, known: Plan, block: tuple[int, int, int], warp: int):
        self.f, self.plan, self.size, self.warp = f, known, block, warp
        self.threads = block[0] * block[1] * block[2]
        self.thread = "poison"
        self.ids = ("poison", "poison", "poison")
        self.places: dict[SSAValue, str] = {}
        """Arrays with a place per thread, by value."""
        self.private: dict[SSAValue, tuple[str, int]] = {}
        """Stack memory of the kernel: its start and the bytes per thread."""
        self.pending: list[Operation] = []
        self.head: list[str] = []
        """What goes to the function's head."""
        for op in f.op.walk():
            if isinstance(op, llvm.AllocaOp) and id(op) not in f.dead:
                self._private(op)
                f.dead.add(id(op))

    # --- places ---------------------------------------------------------------------------------------------------

    def array(self, value: SSAValue) -> str:
        found = self.places.get(value)
        if found is None:
            # Whole warps: a shuffle may read a lane that the block does not have.
            count = -(-self.threads // self.warp) * self.warp
            align = max(64, 1 << (_bytes(value) - 1).bit_length())
            found = self.places[value] = self._stack(f"[{count} x {self.f.type_text(value.type)}], align {align}")
        return found

    def _stack(self, text: str) -> str:
        """Memory of the whole block."""
        name = self.f.fresh()
        self.head.append(f"  {name} = alloca {text}")
        return name

    def at(self, value: SSAValue, thread: str) -> str:
        return self.f.assign(f"getelementptr {self.f.type_text(value.type)}, ptr {self.array(value)}, i64 {thread}")

    def keep(self, value: SSAValue, name: str, place: SSAValue | None = None) -> None:
        at = self.at(value if place is None else place, self.thread)
        self.f.line(f"store {self.f.type_text(value.type)} {name}, ptr {at}")

    # --- a loop over threads ----------------------------------------------------------------------------------------

    def loop(self, body: Callable[[], None]) -> None:
        f = self.f
        head, after, before = f.new_label(), f.new_label(), f.label
        f.line(f"br label %{head}")
        f.start(head)
        thread = self.thread = f.fresh()
        at = len(f.lines)
        f.lines.append("")
        nx, ny, _ = self.size
        if self.threads == nx:
            self.ids = (thread, "0", "0")
        else:
            row = f.assign(f"udiv i64 {thread}, {nx}")
            self.ids = (
                f.assign(f"urem i64 {thread}, {nx}"),
                f.assign(f"urem i64 {row}, {ny}"),
                f.assign(f"udiv i64 {row}, {ny}"),
            )
        body()
        following = f.assign(f"add nuw nsw i64 {thread}, 1")
        more = f.assign(f"icmp ult i64 {following}, {self.threads}")
        f.lines[at] = f"  {thread} = phi i64 [ 0, %{before} ], [ {following}, %{f.label} ]"
        f.line(f"br i1 {more}, label %{head}, label %{after}")
        f.start(after)
        self.thread, self.ids = "poison", ("poison", "poison", "poison")

    def fetch(self, values: Sequence[SSAValue]) -> None:
        """Make values of other phases known in this one."""
        done: set[SSAValue] = set()

        def one(value: SSAValue) -> None:
            if value in done or value not in self.plan.varying:
                return
            done.add(value)
            if value in self.private:
                base, step = self.private[value]
                offset = self.f.assign(f"mul i64 {self.thread}, {step}")
                self.f.names[value] = self.f.assign(f"getelementptr i8, ptr {base}, i64 {offset}")
            elif value in self.places or value in self.plan.kept:
                t = self.f.type_text(value.type)
                self.f.names[value] = self.f.assign(f"load {t}, ptr {self.at(value, self.thread)}")
            else:
                owner = value.owner
                assert isinstance(owner, Operation)
                for operand in owner.operands:
                    one(operand)
                self.f.write(owner)

        for value in values:
            one(value)

    def flush(self) -> None:
        """Write the ops of the phase that is pending."""
        ops, self.pending = self.pending, []
        if not ops:
            return
        inside = {inner for op in ops for inner in op.walk()}
        needed: list[SSAValue] = []
        for op in ops:
            for inner in op.walk():
                # What is exchanged is read at other threads' places.
                used = operands_of(inner)[1:] if isinstance(inner, _EXCHANGES) else operands_of(inner)
                needed += [v for v in used if v in self.private or not _is_inside(v, inside)]

        def body() -> None:
            self.fetch(needed)
            for op in ops:
                if isinstance(op, _EXCHANGES):
                    self._exchange(op)
                else:
                    self.f.write(op)
                for value in op.results:
                    if value in self.plan.kept:
                        self.keep(value, self.f.names[value])

        self.loop(body)

    def _exchange(self, op: Operation) -> None:
        """Read the places of other threads of the warp."""
        f = self.f
        lane = f.assign(f"and i64 {self.thread}, {self.warp - 1}")
        first = f.assign(f"sub i64 {self.thread}, {lane}")
        if isinstance(op, gpu.ShuffleOp):
            source, valid = source_lane(f, op, f.assign(f"trunc i64 {lane} to i32"), str(self.warp))
            f.names[op.valid] = valid
            f.names[op.shuffle_result] = self._of_lane(op.value, first, source)
        elif isinstance(op, gpu_warp.SubgroupBroadcastOp):
            source = "0" if op.lane is None else f.assign(f"and i32 {f.names[op.lane]}, {self.warp - 1}")
            f.names[op.result] = self._of_lane(op.value, first, source)
        elif isinstance(op, gpu_warp.BallotOp):
            f.names[op.mask] = self._ballot(op.predicate, first)[0]
        else:
            assert isinstance(op, gpu_warp.VoteOp)
            votes, everyone = self._ballot(op.predicate, first)
            test = f"ne i64 {votes}, 0" if op.mode.data == "any" else f"eq i64 {votes}, {everyone}"
            f.names[op.holds] = f.assign(f"icmp {test}")

    def _of_lane(self, value: SSAValue, first: str, lane: str) -> str:
        """The value of a lane (i32) of the warp that begins with a thread."""
        f = self.f
        if value not in self.plan.varying:
            return f.names[value]
        at = self.at(value, f.assign(f"add i64 {first}, {f.assign(f'zext i32 {lane} to i64')}"))
        return f.assign(f"load {self.f.type_text(value.type)}, ptr {at}")

    def _ballot(self, predicate: SSAValue, first: str) -> tuple[str, str]:
        """A bit (of i64) per lane: where the predicate holds, and where there is a thread."""
        f = self.f
        left = f.assign(f"sub i64 {self.threads}, {first}")
        count = f.intrinsic("llvm.umin.i64", "i64", ["i64", "i64"], [left, str(self.warp)])
        unused = f.assign(f"sub i64 64, {count}")
        everyone = f.assign(f"lshr i64 -1, {unused}")
        if predicate not in self.plan.varying:
            return f.assign(f"select i1 {f.names[predicate]}, i64 {everyone}, i64 0"), everyone
        once(f.module, _ballot())
        return f.assign(f"call i64 @fly_phase_ballot(ptr {self.at(predicate, first)}, i64 {count})"), everyone

    # --- control flow -----------------------------------------------------------------------------------------------

    def block(self, block: Block) -> list[SSAValue]:
        """Write a block; gives what its terminator passes on."""
        f, known = self.f, self.plan
        for op in block.ops:
            if id(op) in f.dead:
                continue
            if op is block.last_op and isinstance(op, TERMINATORS):
                break
            if isinstance(op, gpu.BarrierOp):
                self.flush()
            elif isinstance(op, _EXCHANGES):
                self.flush()
                self.pending.append(op)
            elif op in known.meets:
                self.flush()
                self._structured(op)
            elif op.results and not any(v in known.varying for v in op.results):
                f.write(op)
            else:
                self.pending.append(op)
        self.flush()
        return _terminator(block)

    def _private(self, op: llvm.AllocaOp) -> None:
        """Stack memory: a piece for every thread."""
        align: Any = op.properties.get("alignment")
        step = -(-_alloca_bytes(op) // 64) * 64
        base = self._stack(f"[{step * self.threads} x i8], align {max(64, align.value.data if align else 1)}")
        self.private[op.results[0]] = (base, step)

    def assign(self, pairs: Sequence[tuple[SSAValue, SSAValue]]) -> None:
        """Give values that differ between threads to places, all at once."""
        moved = [(to, value) for to, value in pairs if to in self.plan.varying and to is not value]
        if not moved:
            return

        def body() -> None:
            self.fetch([value for _, value in moved])
            for to, value in moved:
                self.keep(value, self.f.names[value], to)

        self.loop(body)

    def _same(self, pairs: Sequence[tuple[SSAValue, SSAValue]]) -> list[tuple[SSAValue, SSAValue]]:
        return [(to, value) for to, value in pairs if to not in self.plan.varying]

    def _structured(self, op: Operation) -> None:
        if isinstance(op, scf.IfOp):
            self._if(op)
        elif isinstance(op, scf.ForOp):
            self._for(op)
        else:
            assert isinstance(op, scf.WhileOp)
            self._while(op)

    def _if(self, op: scf.IfOp) -> None:
        f = self.f
        (condition,) = operands_of(op)
        yes, no, after = f.new_label(), f.new_label(), f.new_label()
        f.line(f"br i1 {f.names[condition]}, label %{yes}, label %{no}")
        for label, region in ((yes, op.true_region), (no, op.false_region)):
            f.start(label)
            if region.blocks:
                self.assign(list(zip(op.results, self.block(region.block), strict=True)))
            f.line(f"br label %{after}")
        f.start(after)

    def _for(self, op: scf.ForOp) -> None:
        f = self.f
        lb, ub, step, *inits = operands_of(op)
        body = op.body.block
        counter, *carried = body.args
        starts = list(zip(carried, inits, strict=True))
        self.assign(starts)
        shared = [(counter, lb), *self._same(starts)]
        head, inside, after, before = f.new_label(), f.new_label(), f.new_label(), f.label
        f.line(f"br label %{head}")
        f.start(head)
        phis = self._phis(shared)
        t = self.f.type_text(counter.type)
        more = f.assign(f"icmp slt {t} {f.names[counter]}, {f.names[ub]}")
        f.line(f"br i1 {more}, label %{inside}, label %{after}")
        f.start(inside)
        again = list(zip(carried, self.block(body), strict=True))
        self.assign(again)
        following = f.assign(f"add {t} {f.names[counter]}, {f.names[step]}")
        names = [following, *(f.names[v] for _, v in self._same(again))]
        self._close(shared, phis, before, names)
        f.line(f"br label %{head}")
        f.start(after)
        for result, arg in zip(op.results, carried, strict=True):
            self._alias(result, arg)

    def _while(self, op: scf.WhileOp) -> None:
        f = self.f
        first, second = op.before_region.block, op.after_region.block
        starts = list(zip(first.args, operands_of(op), strict=True))
        self.assign(starts)
        shared = self._same(starts)
        head, inside, after, before = f.new_label(), f.new_label(), f.new_label(), f.label
        f.line(f"br label %{head}")
        f.start(head)
        phis = self._phis(shared)
        condition, *passed = self.block(first)
        for targets in (op.results, second.args):
            self._pass(list(zip(targets, passed, strict=True)))
        f.line(f"br i1 {f.names[condition]}, label %{inside}, label %{after}")
        f.start(inside)
        for arg, value in self._same(list(zip(second.args, passed, strict=True))):
            f.names[arg] = f.names[value]
        again = list(zip(first.args, self.block(second), strict=True))
        self.assign(again)
        self._close(shared, phis, before, [f.names[v] for _, v in self._same(again)])
        f.line(f"br label %{head}")
        f.start(after)
        for result, value in self._same(list(zip(op.results, passed, strict=True))):
            f.names[result] = f.names[value]

    def _pass(self, pairs: Sequence[tuple[SSAValue, SSAValue]]) -> None:
        """Give values that stay as they are as long as they are used: their arrays serve for both."""
        for to, value in pairs:
            if to in self.plan.varying and (value in self.plan.kept or value in self.places):
                self.places[to] = self.array(value)
        self.assign([(to, value) for to, value in pairs if to not in self.places])

    def _alias(self, result: SSAValue, arg: SSAValue) -> None:
        """A loop's result is what it carried last."""
        if result in self.plan.varying:
            self.places[result] = self.array(arg)
        else:
            self.f.names[result] = self.f.names[arg]

    def _phis(self, shared: Sequence[tuple[SSAValue, SSAValue]]) -> list[int]:
        """Room for the values that are the same for all threads; gives the lines."""
        lines: list[int] = []
        for arg, _ in shared:
            self.f.names[arg] = self.f.fresh()
            lines.append(len(self.f.lines))
            self.f.lines.append("")
        return lines

    def _close(
        self, shared: Sequence[tuple[SSAValue, SSAValue]], lines: Sequence[int], before: str, again: Sequence[str]
    ) -> None:
        f = self.f
        for (arg, init), at, name in zip(shared, lines, again, strict=True):
            phi = f"phi {self.f.type_text(arg.type)} [ {f.names[init]}, %{before} ], [ {name}, %{f.label} ]"
            f.lines[at] = f"  {f.names[arg]} = {phi}"


def _is_inside(value: SSAValue, ops: set[Operation]) -> bool:
    """Whether a value is made by some ops, or inside them."""
    owner = value.owner
    return (owner if isinstance(owner, Operation) else owner.parent_op()) in ops
