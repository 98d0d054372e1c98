"""Kernels whose schedules are explored, as text: threads stop in front of every operation that others can see.

All blocks of a launch are started together, each cluster with shared memory of its own, up to the first operation of
each thread. Then a hook, a function of Python, lets warps go on in the order it wants (`native.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation

from ...dialects import fly_cpu
from ...dialects.upstream import gpu, llvm, scf
from ...dialects.upstream.llvm.atomics import CmpXchgOp
from ...llvm.text.function_text import FunctionText
from ...llvm.text.module_text import ModuleText
from ...llvm.text.print_text import string_constant
from ...llvm.text.routine import Value
from ..code import abi as cpu_abi
from ..code import block as cpu_block
from ..code import routines as cpu_routines
from ..code.accesses import EXACT, access_of
from ..code.block import WAIT
from ..code.check import is_atomic, is_peer, root_of, where
from .operations import Kind
from .routines import COPY, GLOBALS, MOST_COPIES, OPERATION, OPERATIONS, SEEN, schedule_routines

RECORD_WORDS = 20
_EXPLORED = "explored"
"""The note of a module that has kernels whose threads meet."""
_CALLS = {
    "fly_mbarrier_init": (Kind.INIT, 2),
    "fly_mbarrier_update": (Kind.ARRIVE, 3),
    "fly_mbarrier_passed": (Kind.WAIT, 2),
    "fly_named_arrive": (Kind.NAMED_ARRIVE, 2),
    "fly_named_passed": (Kind.NAMED_WAIT, 2),
    "fly_cluster_arrive": (Kind.CLUSTER_ARRIVE, 0),
    "fly_cluster_arrive_relaxed": (Kind.CLUSTER_ARRIVE, 0),
    "fly_cluster_passed": (Kind.CLUSTER_WAIT, 0),
    "fly_check_registers": (Kind.REGISTERS, 2),
}
"""Routines that others can see the effect of, and how many of their operands say what they do."""
_SHARED_ALIGNMENT = 1024
_ORDERED = frozenset(("xchg", "fadd", "fsub", "fmin", "fmax", "nand", "uinc_wrap", "udec_wrap"))
"""Updates that do not commute with themselves to the last bit."""


class ExploringAbi(cpu_abi.CoroutineAbi):
    """Text of one thread that stops in front of visible operations."""

    completes = "fly_sched_defer"
    exact = True

    def stop(self, f: FunctionText, op: Operation, kind: Kind, *words: str) -> None:
        """Say what the thread is about to do and let the scheduler decide when; `words` are i64."""
        site = self.site()
        self.texts[site] = f"{where(op)}: a thread waits here for ever"
        table = f.assign(f"getelementptr i8, ptr %state, i64 {OPERATIONS}")
        offset = f.assign(f"mul i64 %tid, {OPERATION}")
        at = f.assign(f"getelementptr i8, ptr {f.assign(f'load ptr, ptr {table}')}, i64 {offset}")
        for i, word in enumerate((str(int(kind)), *words, *["0"] * (3 - len(words)))):
            f.line(f"store i64 {word}, ptr {f.assign(f'getelementptr i64, ptr {at}, i64 {i}')}")
        self.suspend(f, WAIT | site)

    def wait(self, f: FunctionText, op: Operation, status: int, text: str) -> None:
        """The condition stops by itself when it is looked at again."""

    def call(self, f: FunctionText, op: fly_cpu.CallOp) -> None:
        found = _CALLS.get(op.callee.data)
        if found is not None:
            kind, count = found
            if kind is Kind.WAIT and not _waits(op):
                kind = Kind.TEST
            words: list[str] = []
            for value in list(op.args)[:count]:
                pointer = isinstance(value.type, llvm.LLVMPointerType)
                words.append(f.assign(f"{'ptrtoint' if pointer else 'sext'} {f.typed(value)} to i64"))
            self.stop(f, op, kind, *words)
        super().call(f, op)

    def access(self, f: FunctionText, op: Operation, text: str | None) -> None:
        if is_atomic(op):
            access = access_of(op)
            root = root_of(access.pointer)
            if root is None or not isinstance(root.owner, llvm.AllocaOp):
                at = f.assign(f"ptrtoint {f.typed(access.pointer)} to i64")
                self.stop(f, op, *_atomic_kind(op, at, access.nbytes))
        elif _spins(op):
            access = access_of(op)
            self.stop(f, op, Kind.LOAD, f.assign(f"ptrtoint {f.typed(access.pointer)} to i64"), str(access.nbytes))
        elif self.how.blocks > 1:
            pointer = access_of(op).pointer
            root = root_of(pointer)
            if root is not None and is_peer(root):
                self.stop(f, op, Kind.PEER, f.assign(f"ptrtoint {f.typed(pointer)} to i64"))
        super().access(f, op, text)

    def leave(self, f: FunctionText, op: Operation) -> None:
        if self.how.cluster is not None:
            self.stop(f, op, Kind.LEAVE)
        super().leave(f, op)

    def function(
        self, text: ModuleText, name: str, arguments: Sequence[str], block: tuple[int, int, int] | None, sites: str,
        check: cpu_block.Check | None,
    ) -> str:  # fmt: skip
        assert check is not None
        text.notes[_EXPLORED] = "1"
        return _exploring_function(name, arguments, block, self, sites, check, string_constant(text, name))

    @classmethod
    def told(cls, text: ModuleText, name: str) -> list[str]:
        return ["  %told = load ptr, ptr @fly_told", f"  call void %told(ptr {string_constant(text, name)})"]

    @classmethod
    def finish(cls, text: ModuleText) -> None:
        text.notes[EXACT] = "1"
        text.globals.append(SEEN)
        if _EXPLORED not in text.notes:
            return
        cpu_routines.need(text, cpu_routines.UPDATE, True)
        text.globals.append(GLOBALS)
        for routine in schedule_routines():
            text.globals.append(routine.text())
            text.declarations.update(routine.declarations)
        text.declare("malloc", "ptr", ["i64"])
        text.declare("calloc", "ptr", ["i64", "i64"])


def _spins(op: Operation) -> bool:
    """Whether a plain load is what a loop waits for that does nothing else: others must run meanwhile."""
    loop = op.parent_op()
    if not isinstance(op, llvm.LoadOp) or not isinstance(loop, scf.WhileOp) or loop.operands:
        return False
    root = root_of(op.operands[0])
    return len(list(loop.after_region.block.ops)) <= 1 and not (root and isinstance(root.owner, llvm.AllocaOp))


def _waits(op: Operation) -> bool:
    """Whether a condition is that of a loop that does nothing but wait."""
    loop = op.parent_op()
    return isinstance(loop, scf.WhileOp) and any(isinstance(x, fly_cpu.WaitOp) for x in loop.after_region.block.ops)


def _atomic_kind(op: Operation, at: str, nbytes: int) -> tuple[Any, ...]:
    if isinstance(op, llvm.LoadOp):
        return Kind.LOAD, at, str(nbytes)
    if isinstance(op, llvm.StoreOp):
        return Kind.STORE, at, str(nbytes)
    if isinstance(op, CmpXchgOp):
        return Kind.EXCHANGE, at, str(nbytes)
    bin_op: Any = op.properties["bin_op"]
    number: int = bin_op.value.data
    word = llvm.ATOMIC_BINARY[number].lstrip("_")
    used = any(True for result in op.results for _ in result.uses)
    return (Kind.EXCHANGE if used or word in _ORDERED else Kind.UPDATE), at, str(nbytes), str(number)


def device_module(module: gpu.ModuleOp, triple: str, data_layout: str, warp: int) -> str:
    """LLVM IR text of a device module whose schedules are explored."""
    return cpu_abi.device_module(module, triple, data_layout, warp, ExploringAbi)


def _exploring_function(
    name: str,
    arguments: Sequence[str],
    block: tuple[int, int, int] | None,
    abi: ExploringAbi,
    sites: str,
    check: cpu_block.Check,
    title: str,
) -> str:
    how = abi.how
    f = cpu_block.BlockFunction(name, arguments, block)
    r = f.routine
    f.number_launch()
    n, blocks = f.threads(), r["last"] - r["first"]
    stride = (f.dynamic + (check.static + _SHARED_ALIGNMENT)) & -_SHARED_ALIGNMENT
    every, memories, records, operations = (
        r.value_of("calloc", "ptr", count, ("i64", size))
        for count, size in ((blocks, 8), (blocks, 8), (blocks, 64), (blocks * n, OPERATION))
    )
    copies = r.value_of("malloc", "ptr", ("i64", MOST_COPIES * COPY))
    r.store("ptr", copies, Value(r, "ptr", "@fly_sched_copies"), align=8)
    r.store("i64", 0, Value(r, "ptr", "@fly_sched_count"), align=8)
    with r.loop(r["last"], r["first"], how.blocks) as first:
        number = first - r["first"]
        states, record = r.at(every, number * 8), r.at(records, number * 64)
        cluster = cpu_block.Cluster(f, how, states, record, stride, n)
        size = stride * how.blocks
        shared = r.value_of("aligned_alloc", "ptr", ("i64", _SHARED_ALIGNMENT), size)
        r.call("llvm.memset.p0.i64", "void", shared, ("i8", 0), size, ("i1", 0))
        r.store("ptr", shared, memories, number * 8, align=8)
        cluster.open()

        def more(rank: Value, state: Value, number: Value = number) -> None:
            r.store("ptr", r.at(operations, (number + rank) * n * OPERATION), state, OPERATIONS, align=8)
            r.call("fly_check_make", "void", state, f.dynamic + check.static, ("i64", check.warp), n)
            r.call("fly_check_clear", "void", state)

        cluster.make(shared, more)
        cluster.start(first, None)
    named = {
        word: Value(r, "ptr", f"@fly_sched_{word}") for word in ("count", "agents", "step", "open", "force", "complete")
    }
    words = [
        every, blocks, n, r.number(how.unit), r.number(how.slot), r.number(check.warp), Value(r, "ptr", sites),
        Value(r, "ptr", "@fly_source_lines"), Value(r, "ptr", title), r.number(how.blocks), stride, memories,
        named["count"], copies, named["agents"], named["step"], named["open"], named["force"], named["complete"],
        r.number(0),
    ]  # fmt: skip
    assert len(words) == RECORD_WORDS
    record = r.alloca(8 * RECORD_WORDS)
    for at, word in enumerate(words):
        r.store(word.type, word, record, 8 * at, align=8)
    r.invoke(r.load("ptr", Value(r, "ptr", "@fly_sched_hook"), align=8), record)
    with r.loop(blocks) as number:
        state = r.load("ptr", every, number * 8, align=8)
        r.call("fly_check_free", "void", state)
        cpu_block.free_state(r, state)
        r.call("free", "void", r.load("ptr", memories, number * 8, align=8))
    for array in (every, memories, records, operations, copies):
        r.call("free", "void", array)
    return r.text()
