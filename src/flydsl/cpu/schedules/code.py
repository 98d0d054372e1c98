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
from ..code import abi as cpu_abi
from ..code import block as cpu_block
from ..code import routines as cpu_routines
from ..code.accesses import EXACT, access_of
from ..code.block import WAIT
from ..code.check import is_atomic, is_peer, root_of, where
from .operations import Kind
from .routines import COPY, GLOBALS, MOST_COPIES, OPERATION, OPERATIONS, SEEN, schedule_routines

RECORD_WORDS = 20
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
        return _exploring_function(name, arguments, block, self, sites, check, string_constant(text, name))

    @classmethod
    def told(cls, text: ModuleText, name: str) -> list[str]:
        return ["  %told = load ptr, ptr @fly_told", f"  call void %told(ptr {string_constant(text, name)})"]

    @classmethod
    def finish(cls, text: ModuleText) -> None:
        text.notes[EXACT] = "1"
        text.globals.append(SEEN)
        if "fly_sched_record" not in "".join(text.functions):
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
    lines, args, dims = cpu_block.prologue(arguments, block)
    nx, ny, nz = dims[3:]
    unit, slot, count = how.unit, how.slot, how.blocks
    record = [
        "ptr %all", "i64 %blocks", "i64 %n", f"i64 {unit}", f"i64 {slot}", f"i64 {check.warp}", f"ptr {sites}",
        "ptr @fly_source_lines", f"ptr {title}", f"i64 {count}", "i64 %stride", "ptr %memories",
        "ptr @fly_sched_count", "ptr %copies", "ptr @fly_sched_agents", "ptr @fly_sched_step", "ptr @fly_sched_open",
        "ptr @fly_sched_force", "ptr @fly_sched_complete", "i64 0",
    ]  # fmt: skip
    assert len(record) == RECORD_WORDS
    stores: list[str] = []
    for i, word in enumerate(record):
        stores += [
            f"  %record.{i} = getelementptr i8, ptr %fly_sched_record, i64 {8 * i}",
            f"  store {word}, ptr %record.{i}",
        ]
    make = [
        "  %made.number = add i64 %number, %m",
        "  %made.first = mul i64 %made.number, %n",
        f"  %made.bytes = mul i64 %made.first, {OPERATION}",
        "  %made.operations = getelementptr i8, ptr %operations, i64 %made.bytes",
        f"  %made.operations.at = getelementptr i8, ptr %made, i64 {OPERATIONS}",
        "  store ptr %made.operations, ptr %made.operations.at",
        f"  %memory.n = add i64 %dyn, {check.static}",
        f"  call void @fly_check_make(ptr %made, i64 %memory.n, i64 {check.warp}, i64 %n)",
        "  call void @fly_check_clear(ptr %made)",
    ]
    return "\n".join(
        [
            *cpu_block.function_head(name, [*lines, *cpu_block.NUMBER_LAUNCH], dims),
            f"  %nxy = mul i64 {nx}, {ny}",
            f"  %n = mul i64 %nxy, {nz}",
            "  %blocks = sub i64 %last, %first",
            f"  %fly_sched_record = alloca [{RECORD_WORDS} x i64], align 8",
            f"  %memory.used = add i64 %dyn, {check.static + _SHARED_ALIGNMENT}",
            f"  %stride = and i64 %memory.used, {-_SHARED_ALIGNMENT}",
            "  %all = call ptr @calloc(i64 %blocks, i64 8)",
            "  %memories = call ptr @calloc(i64 %blocks, i64 8)",
            "  %records = call ptr @calloc(i64 %blocks, i64 64)",
            "  %operations.size = mul i64 %blocks, %n",
            f"  %operations = call ptr @calloc(i64 %operations.size, i64 {OPERATION})",
            f"  %copies = call ptr @malloc(i64 {MOST_COPIES * COPY})",
            "  store ptr %copies, ptr @fly_sched_copies",
            "  store i64 0, ptr @fly_sched_count",
            "  br label %clusters",
            "clusters:",
            "  %block = phi i64 [ %first, %entry ], [ %block.next, %started ]",
            "  %more = icmp ult i64 %block, %last",
            "  br i1 %more, label %start, label %run",
            "start:",
            "  %number = sub i64 %block, %first",
            "  %states = getelementptr ptr, ptr %all, i64 %number",
            "  %cluster.offset = mul i64 %number, 64",
            "  %cluster = getelementptr i8, ptr %records, i64 %cluster.offset",
            f"  %shared.size = mul i64 %stride, {count}",
            f"  %shared.made = call ptr @aligned_alloc(i64 {_SHARED_ALIGNMENT}, i64 %shared.size)",
            "  call void @llvm.memset.p0.i64(ptr %shared.made, i8 0, i64 %shared.size, i1 false)",
            "  %memories.at = getelementptr ptr, ptr %memories, i64 %number",
            "  store ptr %shared.made, ptr %memories.at",
            *cpu_block.start_cluster(how.cluster or (1, 1, 1)),
            "  br label %make",
            *cpu_block.make_states(how, "%start", "%shared.made", make, "%members"),
            *cpu_block.start_members(name, args, dims, how, "%make", (), "%started"),
            "started:",
            f"  %block.next = add nuw i64 %block, {count}",
            "  br label %clusters",
            "run:",
            *stores,
            "  %hook = load ptr, ptr @fly_sched_hook",
            "  call void %hook(ptr %fly_sched_record)",
            "  br label %free",
            "free:",
            "  %f = phi i64 [ 0, %run ], [ %f.next, %free ]",
            "  %freed.at = getelementptr ptr, ptr %all, i64 %f",
            "  %freed = load ptr, ptr %freed.at",
            "  %arena = load ptr, ptr %freed",
            "  call void @free(ptr %arena)",
            "  call void @fly_check_free(ptr %freed)",
            "  call void @free(ptr %freed)",
            "  %freed.memory.at = getelementptr ptr, ptr %memories, i64 %f",
            "  %freed.memory = load ptr, ptr %freed.memory.at",
            "  call void @free(ptr %freed.memory)",
            "  %f.next = add nuw nsw i64 %f, 1",
            "  %f.more = icmp ult i64 %f.next, %blocks",
            "  br i1 %f.more, label %free, label %out",
            "out:",
            *(f"  call void @free(ptr %{x})" for x in ("all", "memories", "records", "operations", "copies")),
            "  ret void",
            "}",
            "",
        ]
    )
