"""Device modules for the CPU: each kernel becomes a function over a range of blocks.

`NAME(params, geometry, shared, first, last)` runs blocks `first <= i < last`, x fastest; `params` points to the
arguments' addresses, `geometry` to grid and block dimensions, `shared` to the block's memory (`runtime.cpu_native`).

A kernel whose threads never meet is a function of one thread, always inlined into loops over the block's threads; LLVM
vectorises the innermost. Where threads meet, at barriers and warp collectives, the thread is a coroutine
(`CoroutineAbi`) that suspends there, and `cpu_block.py` has the scheduler that resumes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import bf16
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import fly_cpu
from ...dialects.upstream import gpu
from ...dialects.upstream.gpu import warp as gpu_warp
from ...errors import DSLCompileError
from ...ir.builder import elem_of
from ...ir.types import bit_width
from ...llvm.text import debug_info
from ...llvm.text.function_text import Abi, FunctionText
from ...llvm.text.host_text import HostText
from ...llvm.text.module_text import ModuleText
from ...llvm.text.print_text import string_constant
from ...llvm.text.safe_division import safe_divisor
from ...llvm.text.shared_memory import SharedLayout, shared_layout
from ...llvm.text.spelling import HOST, symbol
from ...lowering.rules.gpu_rules import sizes_of, source_lane
from . import accesses as cpu_accesses
from . import bf16_atomics
from . import block as cpu_block
from . import bulk_checks as cpu_bulk_checks
from . import check as cpu_check
from . import clusters as cpu_clusters
from . import lines as cpu_lines
from . import phases as cpu_phases
from . import registers as cpu_registers
from . import report as cpu_report
from . import routines as cpu_routines
from . import shadow as cpu_shadow
from .block import BARRIER, DEPOSIT, HANDLES, POLL, SHOWN, STATUS, TOOK, WAIT, Synchronization
from .emulated import write_functions
from .frames import kept_values
from .rules import RULES

_IDS = {
    "thread_id": ("%tx", "%ty", "%tz"),
    "block_id": ("%bx", "%by", "%bz"),
    "grid_dim": ("%gx", "%gy", "%gz"),
    "block_dim": ("%nx", "%ny", "%nz"),
}
_PARAMS = [*(f"i64 {name}" for names in _IDS.values() for name in names), "ptr %shared", "i64 %dynamic"]
_WARP_OPS = (gpu.ShuffleOp, *gpu_warp.WARP_OPS)
_WAITS = (fly_cpu.YieldOp, fly_cpu.WaitOp)
_SYNC_OPS = (gpu.BarrierOp, *_WARP_OPS, fly_cpu.DepositOp, fly_cpu.RendezvousOp, *_WAITS, fly_cpu.CallOp)
CLUSTER_ATTRIBUTE = "nvvm.cluster_dim"
"""Attribute of a kernel that is launched in clusters: its extents as text."""
DEFAULT_WARP = 32
CHECK_ATTRIBUTE = "fly.check"
"""Attribute of a device module that is compiled for checked mode."""
CLAMPS_ATTRIBUTE = "fly.check_buffers"
"""Attribute of one whose accesses that a buffer's descriptor leaves out are to be reported."""


class CpuAbi(Abi):
    """Text of one thread of a kernel; ids are parameters."""

    rules = RULES
    shares = False  # a coroutine keeps what it shares in its frame, and phases write values to memory

    state = "null"
    clamps = False
    """Whether accesses that a buffer's descriptor bounds are reported."""
    shadowed = False
    """Whether shared accesses are compared with those of other threads."""
    exact = False
    """Whether all accesses are, those by bare pointers too, and none is forgotten (`races/history.py`)."""

    def __init__(self, shared: SharedLayout, warp: int, checked: bool = False):
        super().__init__()
        self.shared = shared
        self.warp = warp
        self.checked = checked
        self.extents: dict[SSAValue, cpu_check.Bounds] = {}
        """In checked mode: what the pointers of tensor arguments point to."""
        self.unset: cpu_registers.Unset = {}
        """In checked mode: values that were never set."""
        self.registers: dict[SSAValue, str] = {}
        """In checked mode: which bytes of registers in memory were set."""

    def access(self, f: FunctionText, op: Operation, text: str | None) -> None:
        cpu_accesses.checked_access(f, self, op, text)

    def lasting(self, op: Operation) -> int:
        """What an access is besides what it does: one of a copy that lasts until the wait for it (`shadow.ISSUED`)."""
        return cpu_shadow.ISSUED if fly_cpu.ISSUED in op.attributes else 0

    def update(self, f: FunctionText, op: Operation, word: str) -> str | None:
        place, value = op.operands
        if word not in bf16_atomics.WORDS or elem_of(value.type) != bf16:
            return None
        if value.type == bf16:
            name, result, given = bf16_atomics.name_of(word), "i16", f.typed(value)
        elif bit_width(value.type) != 32:
            raise DSLCompileError(f"atomic updates of bf16 are of one or two elements, got {value.type}")
        else:
            name, result = bf16_atomics.pair_of(word), bf16_atomics.PAIR
            given = "i32 " + f.assign(f"bitcast {f.typed(value)} to i32")
        cpu_routines.need(f.module, name, self.checked)
        return f"call {result} @{name}({f.typed(place)}, {given})"

    def fence(self, f: FunctionText, op: Operation) -> None:
        cpu_accesses.checked_fence(f, op)

    def divisor(self, f: FunctionText, op: Operation, signed: bool) -> str:
        divisor, zero = safe_divisor(f, op, signed)
        if self.checked and zero is not None:
            cpu_check.check_divisor(f, self, op, zero)
        return divisor

    def extent(self, f: FunctionText, op: fly_cpu.ExtentOp) -> None:
        """Remember the bounds of an argument."""
        low = f.assign(f"ptrtoint ptr {f.names[op.pointer]} to i64")
        high = f.assign(f"add i64 {low}, {f.names[op.nbytes]}")
        number = _number(op.argument)
        name = cpu_check.argument_name(f, number)
        tensor = cpu_check.tensor_of(f, number, _number(op.bits), [f.names[v] for v in op.modes])
        if tensor is not None:
            low, high = cpu_check.backward(f, tensor, low, high)
        ranks: Any = f.op.attributes.get("fly.symmetric_args")
        slot = None
        if ranks is not None and number in ranks.get_values() and op.modes:
            slot = cpu_check.slot_of(f, _number(op.bits), [f.names[v] for v in op.modes])
        self.extents[op.pointer] = cpu_check.Bounds(low, high, name, tensor, slot)

    def index(self, f: FunctionText, kind: str, dim: str) -> str:
        return _IDS[kind]["xyz".index(dim)]

    def thread(self, f: FunctionText) -> str:
        """Index of the thread in its block, x fastest."""
        plane = f.assign("mul i64 %ny, %tz")
        row = f.assign(f"add i64 {plane}, %ty")
        start = f.assign(f"mul i64 {row}, %nx")
        return f.assign(f"add i64 {start}, %tx")

    def lane_id(self, f: FunctionText) -> str:
        return f.assign(f"and i64 {self.thread(f)}, {self.warp - 1}")

    def subgroup_size(self, f: FunctionText) -> str:
        return str(self.warp)

    def address_of(self, f: FunctionText, name: str) -> str:
        offset = self.shared.offsets.get(name)
        return f"@{symbol(name)}" if offset is None else f.assign(f"getelementptr i8, ptr %shared, i64 {offset}")

    def synchronize(self, f: FunctionText, op: Operation) -> None:
        if isinstance(op, fly_cpu.ExtentOp):
            self.extent(f, op)
            return
        if isinstance(op, fly_cpu.CountOp):
            cpu_lines.count(f, op)
            return
        if isinstance(op, fly_cpu.LineOp):
            return  # a place for the debugger, which interprets: no code
        if isinstance(op, fly_cpu.SharedBaseOp):
            f.names[op.at] = "%shared"
            return
        if isinstance(op, fly_cpu.CallOp):
            # Where threads never meet nothing is under way either.
            assert op.callee.data.startswith(cpu_routines.CHECKS)
            return
        assert isinstance(op, fly_cpu.LaneOp)
        group = _number(op.group) or self.warp
        f.names[op.result] = f.assign(f"and i64 {self.thread(f)}, {group - 1}")


class PhaseAbi(CpuAbi):
    """Text of a block's threads in loops; the ids are those of the loop that is open."""

    phases: cpu_phases.Phases

    def index(self, f: FunctionText, kind: str, dim: str) -> str:
        if kind == "thread_id":
            return self.phases.ids["xyz".index(dim)]
        return super().index(f, kind, dim)

    def thread(self, f: FunctionText) -> str:
        return self.phases.thread


class CoroutineAbi(CpuAbi):
    """Text of one thread that meets others; `%state` is what the scheduler knows of the block, `%tid` the thread."""

    completes = cpu_routines.UPDATE
    """What counts the bytes and arrivals of a copy when it is there."""

    def __init__(self, shared: SharedLayout, warp: int, how: Synchronization, checked: bool = False):
        super().__init__(shared, warp, checked)
        self.how = how
        self.sites = 0
        self.shadowed = checked
        self.state = "%state"
        self.texts: dict[int, str] = {}
        """What to say of threads that wait in vain at a site, or do not meet there."""
        self._counts: bool | None = None

    def access(self, f: FunctionText, op: Operation, text: str | None) -> None:
        super().access(f, op, text)
        if self._counts is None:
            self._counts = cpu_accesses.has_copies(f.op)
        count = cpu_accesses.instructions_of(op) if self._counts else 0
        if count:
            at = f.typed(cpu_accesses.access_of(op).pointer)
            f.line(f"call void @fly_check_vector_memory(ptr %state, i64 %tid, {at}, i32 {count})")

    def thread(self, f: FunctionText) -> str:
        return "%tid"

    # --- the function around it -----------------------------------------------------------------------------------

    def function(
        self,
        text: ModuleText,
        name: str,
        arguments: Sequence[str],
        block: tuple[int, int, int] | None,
        sites: str,
        check: cpu_block.Check | None,
    ) -> str:
        """The function of a range of blocks."""
        return cpu_block.synchronizing_function(name, arguments, block, self.how, sites, check)

    @classmethod
    def told(cls, text: ModuleText, name: str) -> list[str]:
        """Lines in front of a kernel whose threads never meet."""
        return []

    @classmethod
    def finish(cls, text: ModuleText) -> None:
        """Add what all kernels of a module share."""

    def leave(self, f: FunctionText, op: Operation) -> None:
        """The thread ends."""
        calls = [x for x in op.walk() if isinstance(x, fly_cpu.CallOp)] if self.checked else []
        stores = [x for x in calls if _is_bulk_store(x.callee.data)]
        if stores:
            table = cpu_accesses.access_table(f, stores[-1], "loss, at the end of the block,")
            f.line(f"call void @fly_check_left(ptr %state, i64 %tid, ptr {table})")
        if self.how.cluster is not None:
            cpu_routines.need(f.module, "fly_cluster_leave", self.checked)
            f.line("call void @fly_cluster_leave(ptr %state, i64 %tid)")

    # --- suspending -----------------------------------------------------------------------------------------------

    def suspend(self, f: FunctionText, status: int) -> None:
        """Note what the thread waits for and let the scheduler go on."""
        after = f.new_label()
        f.line(f"store i32 {status}, ptr %status")
        f.module.declare("llvm.coro.suspend", "i8", ["token", "i1"])
        way = f.assign("call i8 @llvm.coro.suspend(token none, i1 false)")
        f.line(f"switch i8 {way}, label %coro.leave [i8 0, label %{after}]")
        f.start(after)

    def site(self) -> int:
        """A number for a place where threads meet; they are in program order."""
        self.sites += 1
        return self.sites

    def barrier(self, f: FunctionText, op: Operation) -> None:
        site = self.site()
        if self.checked:
            self.texts[site] = f"{cpu_check.where(op)}: threads of a block do not all come to this barrier"
            if fly_cpu.BARE not in op.attributes:
                f.line("call void @fly_check_to_shared_wait_all(ptr %state, i64 %tid)")
        self.suspend(f, BARRIER | site)

    # --- exchange -------------------------------------------------------------------------------------------------

    def region(self, f: FunctionText, which: int, group: int) -> str:
        """Start of the group's part of the unit's buffer: the one to write (`DEPOSIT`) or to read (`SHOWN`)."""
        unit = self.how.unit
        number = f.assign(f"lshr i64 %tid, {unit.bit_length() - 1}")
        table = f.assign(f"getelementptr i8, ptr %state, i64 {which}")
        at = f.assign(f"getelementptr ptr, ptr {table}, i64 {number}")
        start = f.assign(f"load ptr, ptr {at}")
        if group == unit:
            return start
        inside = f.assign(f"and i64 %tid, {(unit - 1) & -group}")
        offset = f.assign(f"mul i64 {inside}, {self.how.slot}")
        return f.assign(f"getelementptr i8, ptr {start}, i64 {offset}")

    def slot(self, f: FunctionText, start: str, lane: str) -> str:
        """Slot of a lane (i64) of a region."""
        offset = f.assign(f"mul i64 {lane}, {self.how.slot}")
        return f.assign(f"getelementptr i8, ptr {start}, i64 {offset}")

    def exchange(self, f: FunctionText, type_: str, value: str) -> str:
        """Leave a value for the warp and meet it; give where the warp's values are."""
        f.line(f"store {type_} {value}, ptr {self.slot(f, self.region(f, DEPOSIT, self.warp), self.lane_id(f))}")
        self.suspend(f, self.site())
        return self.region(f, SHOWN, self.warp)

    def synchronize(self, f: FunctionText, op: Operation) -> None:
        if isinstance(op, fly_cpu.DepositOp):
            f.names[op.at] = self.region(f, DEPOSIT, _number(op.group) or self.warp)
            f.names[op.stride] = str(self.how.slot)
        elif isinstance(op, fly_cpu.RendezvousOp):
            self.suspend(f, self.site())
            f.names[op.at] = self.region(f, SHOWN, _number(op.group) or self.warp)
        elif isinstance(op, fly_cpu.YieldOp):
            self.wait(f, op, POLL, "memory was looked at again and again")
        elif isinstance(op, fly_cpu.WaitOp):
            self.wait(f, op, WAIT, f"a wait for {op.what.data} never ends")
        elif isinstance(op, fly_cpu.CallOp):
            self.call(f, op)
        else:
            super().synchronize(f, op)

    def wait(self, f: FunctionText, op: Operation, status: int, text: str) -> None:
        """Suspend until others have run."""
        site = self.site()
        self.texts[site] = f"{cpu_check.where(op)}: {text}: all threads wait and none can change what is waited for"
        self.suspend(f, status | site)

    def call(self, f: FunctionText, op: fly_cpu.CallOp) -> None:
        """A routine, which gets the block's state and the thread first."""
        name = op.callee.data
        if name.startswith(cpu_routines.CHECKS) and not self.checked:
            return
        result = cpu_routines.need(f.module, name, self.checked, self.completes)
        given = ["ptr %state", "i64 %tid", *(f.typed(v) for v in op.args)]
        if self.checked:
            moves = None if name.startswith(cpu_routines.CHECKS) else cpu_routines.entry_of(name).moves
            if moves is not None:
                given.append(f"i1 {cpu_bulk_checks.check_bytes(f, self, op, moves)}")
            site = f.assign(f"getelementptr i8, ptr %state, i64 {cpu_shadow.SITE}")
            word = "write" if any(part in name for part in ("load", "async", "to_shared")) else "read"
            f.line(f"store ptr {cpu_accesses.access_table(f, op, word)}, ptr {site}")
            if name.startswith("fly_tma_"):
                word = "read" if name == "fly_tma_load" else "write"
                table = cpu_accesses.global_table(f, op, word, "global memory")
                site = f.assign(f"getelementptr i8, ptr %state, i64 {cpu_shadow.GLOBAL_SITE}")
                f.line(f"store ptr {table}, ptr {site}")
                given += cpu_bulk_checks.said_of_map(f, op, word)
        args = ", ".join(given)
        if op.res:
            f.names[op.res[0]] = f.assign(f"call {result} @{name}({args})")
        else:
            f.line(f"call {result} @{name}({args})")

    def shuffle(self, f: FunctionText, op: gpu.ShuffleOp) -> None:
        t = f.type_text(op.value.type)
        source, valid = source_lane(f, op, f.assign(f"trunc i64 {self.lane_id(f)} to i32"), str(self.warp))
        wide = f.assign(f"zext i32 {source} to i64")
        shown = self.exchange(f, t, f.names[op.value])
        self.check_lane(f, op, wide)
        f.names[op.shuffle_result] = f.assign(f"load {t}, ptr {self.slot(f, shown, wide)}")
        f.names[op.valid] = valid

    def check_lane(self, f: FunctionText, op: Operation, lane: str) -> None:
        """In checked mode: the lane (i64) that is read takes part."""
        if not self.checked:
            return
        at = f.assign(f"getelementptr i8, ptr {self.took(f)}, i64 {lane}")
        there = f.assign(f"icmp ne i8 {f.assign(f'load i8, ptr {at}')}, 0")
        text = f"{cpu_check.where(op)}: a shuffle reads from a lane that takes no part in it"
        cpu_check.unless(f, there, lambda: cpu_check.report(f, self, text, "0", None))

    def took(self, f: FunctionText) -> str:
        """A byte per lane of the warp: whether it took part in the last exchange."""
        first = f.assign(f"and i64 %tid, {-self.warp}")
        table = f.assign(f"getelementptr i8, ptr %state, i64 {TOOK}")
        return f.assign(f"getelementptr i8, ptr {table}, i64 {first}")

    def ballot(self, f: FunctionText, predicate: str) -> str:
        shown = self.exchange(f, "i8", f.assign(f"zext i1 {predicate} to i8"))
        cpu_block.need_ballot(f.module)
        took = self.took(f)
        return f.assign(f"call i64 @fly_ballot(ptr {shown}, i64 {self.how.slot}, ptr {took}, i64 {self.warp})")

    def vote(self, f: FunctionText, predicate: str, mode: str) -> str:
        if mode == "any":
            return f.assign(f"icmp ne i64 {self.ballot(f, predicate)}, 0")
        against = f.assign(f"xor i1 {predicate}, true")
        return f.assign(f"icmp eq i64 {self.ballot(f, against)}, 0")

    def broadcast(self, f: FunctionText, op: gpu_warp.SubgroupBroadcastOp) -> None:
        t = f.type_text(op.value.type)
        shown = self.exchange(f, t, f.names[op.value])
        if op.lane is not None:
            wrapped = f.assign(f"and i32 {f.names[op.lane]}, {self.warp - 1}")
            lane = f.assign(f"zext i32 {wrapped} to i64")
            self.check_lane(f, op, lane)
        else:
            cpu_block.need_first(f.module)
            lane = f.assign(f"call i64 @fly_first(ptr {self.took(f)}, i64 {self.warp})")
        f.names[op.result] = f.assign(f"load {t}, ptr {self.slot(f, shown, lane)}")


def _is_bulk_store(routine: str) -> bool:
    """Whether a routine copies out of shared memory in a way that groups of one thread count."""
    return routine.startswith(("fly_tma_store", "fly_tma_reduce", "fly_bulk_")) and "load" not in routine


def _number(attr: Attribute) -> int:
    return cast(Any, attr).value.data


def cluster_of(op: gpu.FuncOp) -> tuple[int, int, int] | None:
    """Extents of the clusters a kernel is launched in."""
    attr: Any = op.attributes.get(CLUSTER_ATTRIBUTE)
    if attr is None:
        return None
    x, y, z = (int(part) for part in attr.data.split(","))
    return x, y, z


def synchronization_of(op: gpu.FuncOp, warp: int, checked: bool = False) -> Synchronization | None:
    """How the threads of a kernel meet, or None where they never do.

    In checked mode also in shared memory and at atomic accesses, which may order them.
    """
    unit, slot, waits = warp, 0, False
    cluster = cluster_of(op)
    found = cluster is not None
    for inner in op.walk():
        if checked and cpu_accesses.may_order(inner):
            found = True
        if not isinstance(inner, _SYNC_OPS):
            continue
        if isinstance(inner, fly_cpu.CallOp) and inner.callee.data.startswith(cpu_routines.CHECKS) and not checked:
            continue
        found = True
        waits = waits or isinstance(inner, _WAITS)
        if cluster is None and isinstance(inner, fly_cpu.CallOp) and inner.callee.data.startswith("fly_cluster_arrive"):
            cluster = (1, 1, 1)
        if isinstance(inner, fly_cpu.DepositOp):
            group, nbytes = _number(inner.group) or warp, _number(inner.bytes)
            unit = max(unit, group)
            slot = max(slot, -(-nbytes // group) if inner.shared.value.data else nbytes)
        elif isinstance(inner, gpu_warp.BallotOp | gpu_warp.VoteOp) or (
            isinstance(inner, gpu.BarrierOp) and inner.of_warp
        ):
            slot = max(slot, 1)
        elif isinstance(inner, gpu.ShuffleOp | gpu_warp.SubgroupBroadcastOp):
            slot = max(slot, -(-bit_width(inner.value.type) // 8))
    if not found:
        return None
    # Without collectives the block is one unit.
    return Synchronization(
        unit if slot else cpu_block.MAX_THREADS, -(-slot // 16) * 16, waits or cluster is not None, cluster
    )


def functions_of(module: gpu.ModuleOp) -> list[gpu.FuncOp]:
    """Kernels of a device module in order."""
    return [op for op in module.body.block.ops if isinstance(op, gpu.FuncOp)]


def device_module(
    module: gpu.ModuleOp,
    triple: str,
    data_layout: str,
    warp: int = DEFAULT_WARP,
    coroutines: type[CoroutineAbi] = CoroutineAbi,
) -> str:
    """LLVM IR text of a device module; threads that meet are written by `coroutines`."""
    text = ModuleText(triple, data_layout)
    debug_info.attach(text, module)
    checked = CHECK_ATTRIBUTE in module.attributes
    reports = False
    write_functions(text, module)
    for op in functions_of(module):
        name = op.sym_name.data
        arguments = [
            cpu_block.BY_VALUE if getattr(arg.type, "by_value", False) else HOST.type_text(arg.type)
            for arg in op.body.block.args
        ]
        block = sizes_of(op.known_block_size)
        how = synchronization_of(op, warp, checked)
        shared = shared_layout(op, module)
        if how is None:
            plain = CpuAbi(shared, warp, checked)
            plain.exact = coroutines.exact
            plain.clamps = CLAMPS_ATTRIBUTE in module.attributes
            plain.unset = cpu_registers.unset_elements(op) if checked else {}
            located = _plain_thread(text, op, plain)
            code = cpu_block.plain_function(name, arguments, block, checked, coroutines.told(text, name))
            text.functions.append(debug_info.caller(located, code))
            continue
        if block is not None and not checked and how.cluster is None and text.debug is None:
            known = cpu_phases.plan(op, block[0] * block[1] * block[2], warp)
            if known is not None:
                _phased(text, op, PhaseAbi(shared, warp), known, block)
                text.functions.append(cpu_block.phased_function(name, arguments, block))
                continue
        abi = coroutines(shared, warp, how, checked)
        abi.clamps = CLAMPS_ATTRIBUTE in module.attributes
        abi.unset = cpu_registers.unset_elements(op) if checked else {}
        located = _coroutine(text, op, abi)
        check = cpu_block.Check(warp, shared.reserved) if checked else None
        sites = "null"
        if checked or how.waits:
            sites = _site_table(text, name, abi)
            reports = True
        code = abi.function(text, name, arguments, block, sites, check)
        text.functions.append(debug_info.caller(located, code))
        if how.cluster is not None:
            text.functions.append(_cluster_text(name, how.cluster))
        cpu_block.need_scheduler(text, checked)
        if how.waits:
            cpu_block.once(text, cpu_clusters.scheduler())
    coroutines.finish(text)
    if checked:
        cpu_accesses.finish(text)
    if reports or checked:
        cpu_report.finish(text)
    cpu_lines.finish(text)
    return text.text()


def _cluster_text(name: str, cluster: tuple[int, int, int]) -> str:
    """A function by which the runtime learns the extents of a kernel's clusters, ten bits each."""
    x, y, z = cluster
    return f'define i32 @"{name}.cluster"() {{\n  ret i32 {x | y << 10 | z << 20}\n}}\n'


def _site_table(text: ModuleText, name: str, abi: CoroutineAbi) -> str:
    """What is said of each site: a flag and a text."""
    pairs: list[str] = []
    for site in range(abi.sites + 1):
        said = abi.texts.get(site)
        if said is None:
            pairs.append("[2 x ptr] zeroinitializer")
        else:
            pairs.append(f"[2 x ptr] [ptr {cpu_report.new_flag(text)}, ptr {string_constant(text, said)}]")
    table = f'@"{name}.sites"'
    text.globals.append(f"{table} = internal constant [{len(pairs)} x [2 x ptr]] [{', '.join(pairs)}]")
    return table


def _body(text: ModuleText, op: gpu.FuncOp, abi: CpuAbi) -> tuple[FunctionText, list[str]]:
    """An empty function body and its parameters."""
    f = HostText(text, abi, op)
    params: list[str] = []
    for i, arg in enumerate(op.body.block.args):
        f.names[arg] = f"%a{i}"
        params.append(f"{f.type_text(arg.type)} %a{i}")
    return f, [*params, *_PARAMS]


def _plain_thread(text: ModuleText, op: gpu.FuncOp, abi: CpuAbi) -> debug_info.FunctionLocations | None:
    f, params = _body(text, op, abi)
    f.lines.append("entry:")
    f.block(op.body.block)
    f.line("ret void")
    head = f'define internal void @"{op.sym_name.data}.thread"({", ".join(params)}) alwaysinline nounwind'
    text.functions.append("\n".join([f"{head}{debug_info.suffix(f.locations)} {{", *f.lines, "}", ""]))
    return f.locations


def _phased(
    text: ModuleText, op: gpu.FuncOp, abi: PhaseAbi, known: cpu_phases.Plan, block: tuple[int, int, int]
) -> None:
    """The block as loops over its threads."""
    f, params = _body(text, op, abi)
    abi.phases = phases = cpu_phases.Phases(f, known, block, abi.warp)
    phases.block(op.body.block)
    f.line("ret void")
    params = [p for p in params if p not in ("i64 %tx", "i64 %ty", "i64 %tz")]
    head = f'define internal void @"{op.sym_name.data}.block"({", ".join(params)}) alwaysinline nounwind'
    text.functions.append("\n".join([f"{head} {{", "entry:", *phases.head, *f.lines, "}", ""]))


def _coroutine(text: ModuleText, op: gpu.FuncOp, abi: CoroutineAbi) -> debug_info.FunctionLocations | None:
    """The thread as a coroutine. Its frame is a slice of an arena that the block's first thread allocates."""
    f, params = _body(text, op, abi)
    f.kept = kept_values(op, _SYNC_OPS)
    for name, result, args in (
        ("llvm.coro.id", "token", ["i32", "ptr", "ptr", "ptr"]),
        ("llvm.coro.size.i64", "i64", []),
        ("llvm.coro.align.i64", "i64", []),
        ("llvm.umax.i64", "i64", ["i64", "i64"]),
        ("llvm.coro.begin", "ptr", ["token", "ptr"]),
        ("llvm.coro.end", "void", ["ptr", "i1", "token"]),
        ("aligned_alloc", "ptr", ["i64", "i64"]),
    ):
        text.declare(name, result, args)
    f.lines += [
        "entry:",
        f"  %statuses = getelementptr i8, ptr %state, i64 {STATUS}",
        "  %status = getelementptr i32, ptr %statuses, i64 %tid",
        "  %coro.id = call token @llvm.coro.id(i32 16, ptr null, ptr null, ptr null)",
        "  %coro.size = call i64 @llvm.coro.size.i64()",
        "  %coro.needs = call i64 @llvm.coro.align.i64()",
        "  %coro.align = call i64 @llvm.umax.i64(i64 %coro.needs, i64 16)",
        "  %coro.more = sub i64 %coro.align, 1",
        "  %coro.up = add i64 %coro.size, %coro.more",
        "  %coro.mask = sub i64 0, %coro.align",
        "  %coro.stride = and i64 %coro.up, %coro.mask",
        "  %arena.known = load ptr, ptr %state",
        "  %arena.none = icmp eq ptr %arena.known, null",
        "  br i1 %arena.none, label %arena.make, label %arena.have",
        "arena.make:",
        "  %threads.xy = mul i64 %nx, %ny",
        "  %threads = mul i64 %threads.xy, %nz",
        "  %arena.used = mul i64 %threads, %coro.stride",
        # Registers that hold wide vectors may need more than a cache line's alignment.
        "  %arena.align = call i64 @llvm.umax.i64(i64 %coro.align, i64 64)",
        "  %arena.more = sub i64 %arena.align, 1",
        "  %arena.up = add i64 %arena.used, %arena.more",
        "  %arena.mask = sub i64 0, %arena.align",
        "  %arena.size = and i64 %arena.up, %arena.mask",
        "  %arena.new = call ptr @aligned_alloc(i64 %arena.align, i64 %arena.size)",
        "  store ptr %arena.new, ptr %state",
        "  br label %arena.have",
        "arena.have:",
        "  %arena = phi ptr [ %arena.known, %entry ], [ %arena.new, %arena.make ]",
        "  %frame.offset = mul i64 %tid, %coro.stride",
        "  %frame = getelementptr i8, ptr %arena, i64 %frame.offset",
        "  %self = call ptr @llvm.coro.begin(token %coro.id, ptr %frame)",
        f"  %handles = getelementptr i8, ptr %state, i64 {HANDLES}",
        "  %handle = getelementptr ptr, ptr %handles, i64 %tid",
        "  store ptr %self, ptr %handle",
        "  br label %body",
    ]
    f.start("body")
    f.block(op.body.block)
    abi.leave(f, op)
    f.lines += [
        "  store i32 0, ptr %status",
        "  br label %coro.leave",
        "coro.leave:",
        "  call void @llvm.coro.end(ptr %self, i1 false, token none)",
        "  ret void",
    ]
    head = f'define internal void @"{op.sym_name.data}.thread"({", ".join([*params, "ptr %state", "i64 %tid"])})'
    tail = f"presplitcoroutine nounwind{debug_info.suffix(f.locations)}"
    text.functions.append("\n".join([f"{head} {tail} {{", *f.lines, "}", ""]))
    return f.locations
