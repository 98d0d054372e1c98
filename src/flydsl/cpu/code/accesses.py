"""Memory accesses in checked mode: what is written around each, by what it does and where.

An access is tested (`check.py`), compared with earlier ones of other threads, and done if it is allowed; a load that is
not gives zero. Shared and global memory are compared by the files of `races`. Atomic accesses and fences pass on what
threads know (`places.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from ...dialects import fly_cpu
from ...dialects.upstream import llvm
from ...dialects.upstream.llvm.atomics import CmpXchgOp, FenceOp
from ...ir import arith
from ...ir.types import bit_width
from ...llvm.text.function_text import FunctionText
from ...llvm.text.module_text import ModuleText
from ...llvm.text.print_text import string_constant
from . import check as cpu_check
from . import copies as cpu_copies
from . import counters as cpu_counters
from . import order as cpu_order
from . import places as cpu_places
from . import ranks as cpu_ranks
from . import registers as cpu_registers
from . import routines as cpu_routines
from . import shadow as cpu_shadow
from .check import is_atomic, is_peer, root_of, unless, where
from .races import global_memory as cpu_global_races
from .races import history as cpu_history
from .races import shared_memory as cpu_shared_races
from .report import new_flag
from .shadow import ATOMIC, NARROW, READS, WRITES

if TYPE_CHECKING:
    from .abi import CpuAbi

EXACT = "no access is forgotten"
"""Note of a module whose schedules are explored."""
_NARROW_SCOPES = ("singlethread", "wavefront", "warp", "workgroup", "block", "cta")
_ACQUIRES, _RELEASES = (4, 6, 7), (5, 6, 7)
"""Orderings by their number in LLVM."""


class Access(NamedTuple):
    """An access: its op, address and type, what it does (`shadow.READS` ...), and its name in reports."""

    op: Operation
    pointer: SSAValue
    type_: Attribute
    how: int
    word: str

    @property
    def nbytes(self) -> int:
        return -(-bit_width(self.type_) // 8)


def _number(op: Operation, name: str) -> int:
    attr: Any = op.properties.get(name)
    return 0 if attr is None else attr.value.data


def is_narrow(op: Operation) -> bool:
    """Whether an atomic access or a fence is for threads of one block alone."""
    scope: Any = op.properties.get("syncscope")
    return scope is not None and scope.data.removesuffix("-one-as") in _NARROW_SCOPES


def access_of(op: Operation) -> Access:
    """What an op of `llvm` does to memory."""
    if isinstance(op, llvm.StoreOp):
        pointer, type_, how, word = op.operands[1], op.operands[0].type, WRITES, "write"
    elif isinstance(op, llvm.LoadOp):
        pointer, type_, how, word = op.operands[0], op.results[0].type, READS, "read"
    else:
        pointer, type_, how, word = op.operands[0], op.operands[1].type, READS | WRITES, "update"
        if isinstance(op, llvm.AtomicRMWOp) and llvm.ATOMIC_BINARY[op.bin_op.value.data].lstrip("_") == "xchg":
            # What was there may be anything.
            how = WRITES
    if is_atomic(op):
        how |= ATOMIC | (NARROW if is_narrow(op) else 0)
        word = f"atomic {word}"
    return Access(op, pointer, type_, how, word)


def may_order(op: Operation) -> bool:
    """Whether threads may meet at an op, in shared memory or by an atomic access."""
    if isinstance(op, llvm.AddressOfOp | FenceOp):
        return True
    return isinstance(op, llvm.AtomicRMWOp | CmpXchgOp | llvm.LoadOp | llvm.StoreOp) and is_atomic(op)


# --- what `vmcnt` counts: vector memory instructions -----------------------------------------------------------------

_COPY = "fly_check_to_shared"
_WIDEST = 16
"""Bytes a lane moves at most by one instruction."""
_OTHER_MEMORY = (llvm.AllocaOp, llvm.AddressOfOp, fly_cpu.SharedBaseOp, fly_cpu.DepositOp, fly_cpu.RendezvousOp)
"""Where a pointer comes from that is none into global memory; of one that cannot be followed the address tells."""


def has_copies(kernel: Operation) -> bool:
    """Whether a kernel copies into shared memory in a way that `vmcnt` counts."""
    return any(isinstance(op, fly_cpu.CallOp) and op.callee.data == _COPY for op in kernel.walk())


def instructions_of(op: Operation) -> int:
    """How many vector memory instructions an access is, other than those of copies, which count by themselves."""
    if fly_cpu.ISSUED in op.attributes or fly_cpu.UNCOUNTED in op.attributes:
        return 0
    if isinstance(op, llvm.LoadOp) and not op.results[0].uses:
        return 0
    access = access_of(op)
    root = root_of(access.pointer)
    if root is not None and isinstance(root.owner, _OTHER_MEMORY):
        return 0
    return -(-access.nbytes // _WIDEST)


# --- what is said of an access ----------------------------------------------------------------------------------------


def access_table(f: FunctionText, op: Operation, word: str) -> str:
    """What is said of an access to shared memory: flags and texts in the order of `shadow.py`, and its line."""
    return _table(
        f,
        op,
        (
            f"race on shared memory: {word} of what another thread wrote, with nothing that orders them",
            f"race on shared memory: {word} of what another thread read, with nothing that orders them",
            f"{word} of shared memory that nobody has written",
            f"{word} of what an asynchronous copy writes, before the wait for it",
            f"{word} of shared memory that an asynchronous copy still reads, or a product that was not waited for",
        ),
    )


def global_table(f: FunctionText, op: Operation, word: str, name: str) -> str:
    """The same of an access to global memory, in the order of `races/global_memory.py`."""
    return _table(
        f,
        op,
        (
            f"race on {name}: {word} of what another thread wrote, with nothing that orders them",
            f"race on {name}: {word} of what another thread read, with nothing that orders them",
            f"{word} of an element of {name} that nobody has written",
            f"race between ranks on {name}: {word} of what another rank wrote, with no flag in between",
            f"race between ranks on {name}: {word} of what another rank read, with no flag in between",
        ),
    )


def _table(f: FunctionText, op: Operation, said: tuple[str, ...]) -> str:
    line = where(op)
    pairs = ", ".join(f"ptr {new_flag(f.module)}, ptr {string_constant(f.module, f'{line}: {text}')}" for text in said)
    name, count = f"@fly_access.{len(f.module.globals)}", 2 * len(said)
    number = _line_number(f.module, line)
    f.module.globals.append(
        f"{name} = internal constant {{ [{count} x ptr], i64 }} {{ [{count} x ptr] [{pairs}], i64 {number} }}"
    )
    return name


def _line_number(module: ModuleText, line: str) -> int:
    """Number of a source line in the module's table of them; 0 is none, and that of all beyond the 65535th."""
    key = f"source line {line}"
    if key not in module.notes:
        count = int(module.notes.get("source lines", "0")) + 1
        if count >= 1 << 16:
            return 0
        module.notes["source lines"] = str(count)
        module.notes[key] = str(count)
    return int(module.notes[key])


# --- comparing --------------------------------------------------------------------------------------------------------


def _is_shared(root: SSAValue | None) -> bool:
    return root is not None and (isinstance(root.owner, llvm.AddressOfOp) or is_peer(root))


def _shadow(f: FunctionText, access: Access, differs: str, peer: bool) -> None:
    """Compare a shared access with earlier ones."""
    table = access_table(f, access.op, access.word)
    owner = "%state"
    if peer:
        owner = f.assign(f"call ptr @fly_owner(ptr %state, i64 %tid, {f.typed(access.pointer)})")
    f.line(
        f"call void @fly_check_access(ptr %state, i64 %tid, ptr {owner}, {f.typed(access.pointer)}, "
        f"i64 {access.nbytes}, i32 {access.how}, i1 {differs}, ptr {table})"
    )


_NO_BOUNDS = cpu_check.Bounds("0", "0", "global memory", None)


def compared(f: FunctionText, abi: CpuAbi, root: SSAValue) -> bool:
    """Whether accesses by a pointer are compared: those to tensors, and where none may be missed to bare pointers."""
    return root in abi.extents or (abi.exact and isinstance(root, BlockArgument) and root.owner.parent_op() is f.op)


def search(f: FunctionText, abi: CpuAbi, access: Access, at: SSAValue, size: int | str, differs: str = "true") -> None:
    """Compare an access to an argument's tensor with earlier ones; a write that changes nothing does not `differ`."""
    root = root_of(at)
    if root is None or not compared(f, abi, root):
        return
    # Of a bare pointer no extents are known.
    bounds = abi.extents.get(root, _NO_BOUNDS)
    table = global_table(f, access.op, access.word, bounds.name)
    tensor = "null"
    if bounds.tensor is not None:
        tensor = bounds.tensor.at
    f.line(
        f"call void @fly_check_global(ptr {abi.state}, i64 {abi.thread(f)}, i64 %bx, i64 %by, i64 %bz, "
        f"{f.typed(at)}, i64 {size}, i32 {access.how}, "
        f"i1 {differs}, ptr {table}, ptr {tensor}, i64 {bounds.low}, i64 {bounds.high})"
    )


def _clamp(f: FunctionText, pointer: SSAValue) -> tuple[str | None, SSAValue]:
    """Of an access that a descriptor bounds: the flag (i1) that says it is inside, and where it is then."""
    owner = pointer.owner
    if isinstance(owner, arith.SelectOp):
        flag, there, elsewhere = owner.operands
        if isinstance(elsewhere.owner, llvm.AllocaOp) and root_of(there) is not elsewhere:
            return f.names[flag], there
    return None, pointer


def _differs(f: FunctionText, access: Access) -> str:
    """Whether a plain store changes what is there (i1)."""
    if not isinstance(access.op, llvm.StoreOp) or access.how & ATOMIC:
        return "true"
    value, bits, t = access.op.operands[0], f"i{bit_width(access.type_)}", f.type_text(access.type_)
    old = f.assign(f"load {bits}, {f.typed(access.pointer)}, align 1")
    new = f.names[value] if t == bits else f.assign(f"bitcast {t} {f.names[value]} to {bits}")
    return f.assign(f"icmp ne {bits} {old}, {new}")


def _compare(f: FunctionText, abi: CpuAbi, access: Access, place: SSAValue, guard: str | None) -> None:
    """Compare an access with earlier ones, wherever it goes."""
    root = root_of(place)
    shared = abi.shadowed and _is_shared(root)
    if not shared and (root is None or not compared(f, abi, root)):
        return
    after = ""
    if guard is not None:
        inside, after = f.new_label(), f.new_label()
        f.line(f"br i1 {guard}, label %{inside}, label %{after}")
        f.start(inside)
    differs = _differs(f, access)
    if shared:
        assert root is not None
        _shadow(f, access, differs, is_peer(root))
    else:
        search(f, abi, access, place, access.nbytes, differs)
    if guard is not None:
        f.line(f"br label %{after}")
        f.start(after)


# --- what atomic accesses and fences pass on ------------------------------------------------------------------------


def _spaces(f: FunctionText, access: Access) -> tuple[str, str | None]:
    """Where an address is a place: of all blocks, and of the own one alone; None where that is the same."""
    root = root_of(access.pointer)
    shared = _is_shared(root)
    at = f.typed(access.pointer) if shared else "ptr null"
    own = f.assign(f"call i64 @fly_check_space(ptr %state, i64 %tid, {at})")
    return (own, None) if shared or access.how & NARROW else ("0", own)


def _hand_on(f: FunctionText, access: Access, ordering: int) -> None:
    space, own = _spaces(f, access)

    def hand(where_: str, what: int) -> None:
        f.line(
            f"call void @fly_check_hand_on(ptr %state, i64 %tid, {f.typed(access.pointer)}, i64 {where_}, i32 {what})"
        )

    if ordering in _RELEASES:
        hand(space, cpu_places.NOW)
        return
    hand(space, cpu_places.FENCE_OF_BLOCK if own is None else cpu_places.FENCE_OF_DEVICE)
    if own is not None:
        hand(own, cpu_places.FENCE_OF_BLOCK)


def _take_up(f: FunctionText, access: Access, ordering: int) -> None:
    acquires = "true" if ordering in _ACQUIRES else "false"
    for space in _spaces(f, access):
        if space is not None:
            f.line(
                f"call void @fly_check_take_up(ptr %state, i64 %tid, {f.typed(access.pointer)}, i64 {space}, "
                f"i1 {acquires})"
            )


def checked_fence(f: FunctionText, op: Operation) -> None:
    """A fence, before it is written."""
    ordering = _number(op, "ordering")
    flags = (ordering in _RELEASES, ordering in _ACQUIRES, is_narrow(op))
    words = ", ".join(f"i1 {'true' if flag else 'false'}" for flag in flags)
    f.line(f"call void @fly_check_fence(ptr %state, i64 %tid, {words})")


# --- accesses ---------------------------------------------------------------------------------------------------------


def checked_access(f: FunctionText, abi: CpuAbi, op: Operation, text: str | None) -> None:
    """A load, a store, an atomic update or exchange, whose instruction is `text`; plain ones bring none."""
    access = access_of(op)
    access = access._replace(how=access.how | abi.lasting(op))
    result = op.results[0] if op.results else None
    if text is None and result is not None and isinstance(op, llvm.LoadOp) and not result.uses:
        return  # what nobody looks at is not read on a GPU either: fields of a struct that was peeked at
    if text is None:
        # A plain access may be anywhere.
        text = (
            f"store {f.typed(op.operands[0])}, {f.typed(access.pointer)}, align 1"
            if result is None
            else f"load {f.type_text(result.type)}, {f.typed(access.pointer)}, align 1"
        )
    guard, place = _clamp(f, access.pointer)
    root = root_of(place)
    if root is not None and (root in abi.extents or _is_shared(root)):
        cpu_registers.check_address(f, abi, op, place)
        if access.how & WRITES:
            value = op.operands[0] if isinstance(op, llvm.StoreOp) else op.operands[1]
            cpu_registers.check_value(f, abi, op, value, "written to memory")
    fine = cpu_check.check_access(f, abi, op, place, access.type_, access.word, guard)
    if guard is not None and abi.clamps:
        said = f"{where(op)}: {access.word} outside of its buffer, which the hardware leaves out"
        number = f.assign(f"ptrtoint {f.typed(place)} to i64")
        unless(f, guard, lambda: cpu_check.report(f, abi, said, number, None))

    def perform() -> str | None:
        if root is not None and root in abi.registers:
            cpu_registers.check_register(f, abi, op, place, root)
        _compare(f, abi, access, place, guard)
        passes = bool(access.how & ATOMIC) and abi.state != "null"
        ordering = _number(op, "success_ordering" if isinstance(op, CmpXchgOp) else "ordering")
        if passes and access.how & WRITES:
            _hand_on(f, access, ordering)
        of_ranks = bool(access.how & ATOMIC) and root is not None and root in abi.extents
        if of_ranks and access.how & WRITES:
            f.line(f"call void @fly_check_rank_hand_on({f.typed(access.pointer)})")
        value = None if result is None else f.assign(text)
        if result is None:
            f.line(text)
        if passes and not isinstance(op, llvm.StoreOp):
            _take_up(f, access, ordering)
        if of_ranks and not isinstance(op, llvm.StoreOp):
            f.line(f"call void @fly_check_rank_take_up({f.typed(access.pointer)})")
        return value

    made = perform() if fine is None else _where(f, fine, None if result is None else f.type_text(result.type), perform)
    if result is not None and made is not None:
        f.names[result] = made


def _where(f: FunctionText, fine: str, type_: str | None, then: Callable[[], str | None]) -> str | None:
    """Do something where a flag is set; its value is zero elsewhere."""
    good, after = f.new_label(), f.new_label()
    before = f.label
    f.line(f"br i1 {fine}, label %{good}, label %{after}")
    f.start(good)
    value = then()
    end = f.label
    f.line(f"br label %{after}")
    f.start(after)
    if type_ is None:
        return None
    return f.assign(f"phi {type_} [ zeroinitializer, %{before} ], [ {value}, %{end} ]")


_HOT = ("fly_check_access", "fly_check_before", "fly_check_global", "fly_check_inside", "fly_check_ordered")
"""Routines that run at every access; making the others fast would take LLVM longer than it saves."""


class _Written(NamedTuple):
    """A routine of checked mode: its text, what it declares, and the routines it calls."""

    text: str
    declarations: dict[str, str]
    uses: frozenset[str]


@cache
def _routines() -> dict[str, _Written]:
    """All of them by name; their text is the same in every module."""
    made = (
        *cpu_shadow.shadow_routines(),
        *cpu_history.history_routines(),
        cpu_shared_races.access(),
        *cpu_order.order_routines(),
        *cpu_places.place_routines(),
        *cpu_copies.copy_routines(),
        *cpu_counters.counter_routines(),
        cpu_check.inside(),
        cpu_global_races.access(),
        cpu_global_races.older(),
        cpu_global_races.watch(),
        *cpu_ranks.rank_routines(),
    )
    for routine in made:
        if routine.name not in _HOT:
            routine.attributes = "nounwind noinline optnone"
    texts = {routine.name: (routine.text(), routine.declarations) for routine in made}
    return {name: _Written(text, names, _called(text) - {name}) for name, (text, names) in texts.items()}


def _called(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"@(fly_check_\w+)\(", text))


def finish(module: ModuleText) -> None:
    """Add the functions and tables of checked mode that are needed to a module whose functions are all written."""
    cpu_routines.need(module, "fly_owner", True)
    lines = sorted((int(n), key[12:]) for key, n in module.notes.items() if key.startswith("source line "))
    texts = ["ptr null", *(f"ptr {string_constant(module, text)}" for _, text in lines)]
    todo = [name for text in (*module.functions, *module.globals) for name in _called(text)]
    module.globals.append(f"@fly_source_lines = internal constant [{len(texts)} x ptr] [{', '.join(texts)}]")
    exact = cpu_history.globals_text(EXACT in module.notes)
    module.globals += [cpu_global_races.GLOBALS, cpu_places.GLOBALS, cpu_ranks.GLOBALS, exact]
    routines, done = _routines(), set[str]()
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done.add(name)
        written = routines[name]
        module.globals.append(written.text)
        for declared, text in written.declarations.items():
            module.declarations.setdefault(declared, text)
        todo += written.uses
