"""Checked mode of the cpu stack as text: tests around memory accesses and barriers, and the table of what they found.

An access is checked against what its pointer was made from: an argument's tensor (`fly_cpu.extent`), or a shared
allocation. One that is out of bounds is reported and left out; a load gives zero then. Shared memory has a shadow, two
words a byte: the barrier interval and the warp of the last write, and of the last read (`_MANY` of several warps).
Threads of one warp are in step, so only accesses of different warps in one interval race.

Each place reports once. `fly_reports(reset)` gives the table: a count, then `RECORDS` records of text, address, bounds,
thread and block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation, SSAValue

from ..dialects import llvm
from ..dialects.locations import source_chain
from .print_text import string_constant
from .translate import FunctionText, ModuleText, type_text
from .warp_text import total_bits

if TYPE_CHECKING:
    from .abi_cpu import CpuAbi

RECORDS = 32
SHADOW, INTERVAL = 8, 16
"""Where a block's state has the address of the shadow and the barrier interval."""
_IDS = "i64 %bx, i64 %by, i64 %bz"
_MANY = 2047


def where(op: Operation) -> str:
    """The user's line of an op."""
    location: Any = op.location
    chain = source_chain(location)
    if chain:
        return f"{chain[-1].filename}:{chain[-1].line}"
    return f"{location.filename.data}:{location.line.data}" if isinstance(location, FileLineColLoc) else "unknown line"


def root_of(value: SSAValue) -> SSAValue | None:
    """The pointer an address was computed from; None where that cannot be followed."""
    while True:
        owner = value.owner
        if isinstance(owner, llvm.GEPOp):
            value = owner.operands[0]
        elif isinstance(owner, llvm.IntToPtrOp):
            found = _pointer_under(owner.operands[0], 16)
            if found is None:
                return None
            value = found
        else:
            return value


def _pointer_under(number: SSAValue, depth: int) -> SSAValue | None:
    owner = number.owner
    if isinstance(owner, llvm.PtrToIntOp):
        return owner.operands[0]
    if not isinstance(owner, Operation) or not depth or not owner.name.startswith("arith."):
        return None
    for operand in owner.operands:
        found = _pointer_under(operand, depth - 1)
        if found is not None:
            return found
    return None


def new_flag(module: ModuleText) -> str:
    """A byte of its own for a place that reports once."""
    count = int(module.notes.get("check sites", "0"))
    module.notes["check sites"] = str(count + 1)
    return f"getelementptr (i8, ptr @fly_flags, i64 {count})"


def report(f: FunctionText, abi: CpuAbi, text: str, address: str, low: str, high: str) -> None:
    """Note a failure."""
    at = string_constant(f.module, text)
    f.line(
        f"call void @fly_report(ptr {new_flag(f.module)}, ptr {at}, i64 {address}, i64 {low}, i64 {high}, "
        f"i64 {abi.thread(f)}, {_IDS})"
    )


def bounds_of(f: FunctionText, abi: CpuAbi, root: SSAValue) -> tuple[str, str, str] | None:
    """First byte, byte behind the last, and name of what an address was made from."""
    extent = abi.extents.get(root)
    if extent is not None:
        return extent
    if isinstance(root.owner, llvm.AddressOfOp):
        name = root.owner.global_name.string_value()
        offset, nbytes = abi.shared.offsets[name], abi.shared.sizes[name]
        base = f.assign("ptrtoint ptr %shared to i64")
        low = f.assign(f"add i64 {base}, {offset}")
        size = str(nbytes) if nbytes else "%dynamic"
        return low, f.assign(f"add i64 {low}, {size}"), "shared memory"
    return None


def check_access(f: FunctionText, abi: CpuAbi, op: Operation, pointer: SSAValue, type_: Any, word: str) -> str | None:
    """Test an access; gives the i1 that allows it, or None where any is allowed."""
    root = root_of(pointer)
    if root is None:
        return None
    bounds = bounds_of(f, abi, root)
    if bounds is None:
        return None
    low, high, name = bounds
    nbytes = -(-total_bits(type_) // 8)
    first = f.assign(f"ptrtoint ptr {f.names[pointer]} to i64")
    last = f.assign(f"add i64 {first}, {nbytes}")
    inside = f.assign(f"icmp uge i64 {first}, {low}")
    before = f.assign(f"icmp ule i64 {last}, {high}")
    fine = f.assign(f"and i1 {inside}, {before}")
    _unless(f, fine, lambda: report(f, abi, f"{where(op)}: {word} out of bounds of {name}", first, low, high))
    align: Any = op.properties.get("alignment")
    if align is not None and align.value.data > 1:
        need = min(align.value.data, 16)
        rest = f.assign(f"and i64 {first}, {need - 1}")
        straight = f.assign(f"icmp eq i64 {rest}, 0")
        text = f"{where(op)}: {word} of {name} at an address that is not a multiple of {need}"
        _unless(f, straight, lambda: report(f, abi, text, first, low, high))
    return fine


def _unless(f: FunctionText, flag: str, then: Any) -> None:
    bad, after = f.new_label(), f.new_label()
    f.line(f"br i1 {flag}, label %{after}, label %{bad}")
    f.start(bad)
    then()
    f.line(f"br label %{after}")
    f.start(after)


def shadow(f: FunctionText, abi: CpuAbi, op: Operation, pointer: SSAValue, type_: Any, differs: str | None) -> None:
    """Note a shared access and test it against those of other warps; `differs` (i1) makes it a write."""
    root = root_of(pointer)
    if root is None or not isinstance(root.owner, llvm.AddressOfOp):
        return
    line = where(op)
    word = "read" if differs is None else "write"
    said = (
        f"race on shared memory: {word} of what another warp wrote since the last barrier",
        "race on shared memory: write of what another warp read since the last barrier",
        "read of shared memory that nobody has written",
    )
    texts = [string_constant(f.module, f"{line}: {text}") for text in said]
    first = f.assign(f"ptrtoint ptr {f.names[pointer]} to i64")
    base = f.assign("ptrtoint ptr %shared to i64")
    offset = f.assign(f"sub i64 {first}, {base}")
    warp = f.assign(f"lshr i64 {abi.thread(f)}, {abi.warp.bit_length() - 1}")
    flags = [new_flag(f.module) for _ in texts]
    what = ", ".join(f"ptr {x}, ptr {t}" for x, t in zip(flags, texts, strict=True))
    f.line(
        f"call void @fly_shadow(ptr %state, i64 {first}, i64 {offset}, i64 {-(-total_bits(type_) // 8)}, i64 {warp}, "
        f"i1 {'false' if differs is None else 'true'}, i1 {differs or 'true'}, {what}, i64 {abi.thread(f)}, {_IDS})"
    )


def checked_load(f: FunctionText, abi: CpuAbi, op: Operation) -> None:
    """A load that gives zero where it is not allowed."""
    pointer, result = op.operands[0], op.results[0]
    t = type_text(result.type)
    fine = check_access(f, abi, op, pointer, result.type, "read")
    if fine is None:
        f.names[result] = f.assign(f"load {t}, {f.typed(pointer)}, align 1")
        return
    good, after = f.new_label(), f.new_label()
    before = f.label
    f.line(f"br i1 {fine}, label %{good}, label %{after}")
    f.start(good)
    if abi.shadowed:
        shadow(f, abi, op, pointer, result.type, None)
    value = f.assign(f"load {t}, {f.typed(pointer)}, align 1")
    end = f.label
    f.line(f"br label %{after}")
    f.start(after)
    f.names[result] = f.assign(f"phi {t} [ zeroinitializer, %{before} ], [ {value}, %{end} ]")


def checked_store(f: FunctionText, abi: CpuAbi, op: Operation) -> None:
    """A store that is left out where it is not allowed."""
    value, pointer = op.operands
    fine = check_access(f, abi, op, pointer, value.type, "write")
    if fine is None:
        f.line(f"store {f.typed(value)}, {f.typed(pointer)}, align 1")
        return
    good, after = f.new_label(), f.new_label()
    f.line(f"br i1 {fine}, label %{good}, label %{after}")
    f.start(good)
    root = root_of(pointer)
    if abi.shadowed and root is not None and isinstance(root.owner, llvm.AddressOfOp):
        bits, t = f"i{total_bits(value.type)}", type_text(value.type)
        old = f.assign(f"load {bits}, {f.typed(pointer)}, align 1")
        new = f.names[value] if t == bits else f.assign(f"bitcast {t} {f.names[value]} to {bits}")
        shadow(f, abi, op, pointer, value.type, f.assign(f"icmp ne {bits} {old}, {new}"))
    f.line(f"store {f.typed(value)}, {f.typed(pointer)}, align 1")
    f.line(f"br label %{after}")
    f.start(after)


_REPORT = f"""
@fly_table = internal global {{ i32, [{RECORDS} x [8 x i64]] }} zeroinitializer, align 8

define internal void @fly_report(ptr %flag, ptr %text, i64 %at, i64 %low, i64 %high, i64 %thread, {_IDS})
    cold noinline {{
entry:
  %told = atomicrmw xchg ptr %flag, i8 1 monotonic
  %again = icmp ne i8 %told, 0
  br i1 %again, label %out, label %first
first:
  %i = atomicrmw add ptr @fly_table, i32 1 monotonic
  %room = icmp ult i32 %i, {RECORDS}
  br i1 %room, label %write, label %out
write:
  %record = getelementptr {{ i32, [{RECORDS} x [8 x i64]] }}, ptr @fly_table, i32 0, i32 1, i32 %i
  %text.i = ptrtoint ptr %text to i64
  store i64 %text.i, ptr %record
  %r1 = getelementptr i64, ptr %record, i32 1
  store i64 %at, ptr %r1
  %r2 = getelementptr i64, ptr %record, i32 2
  store i64 %low, ptr %r2
  %r3 = getelementptr i64, ptr %record, i32 3
  store i64 %high, ptr %r3
  %r4 = getelementptr i64, ptr %record, i32 4
  store i64 %thread, ptr %r4
  %r5 = getelementptr i64, ptr %record, i32 5
  store i64 %bx, ptr %r5
  %r6 = getelementptr i64, ptr %record, i32 6
  store i64 %by, ptr %r6
  %r7 = getelementptr i64, ptr %record, i32 7
  store i64 %bz, ptr %r7
  br label %out
out:
  ret void
}}
"""

_SHADOW = f"""
define internal void @fly_shadow(ptr %state, i64 %at, i64 %offset, i64 %size, i64 %warp, i1 %write, i1 %differs,
    ptr %flag.w, ptr %text.w, ptr %flag.r, ptr %text.r, ptr %flag.u, ptr %text.u, i64 %thread, {_IDS}) {{
entry:
  %shadow.at = getelementptr i8, ptr %state, i64 {SHADOW}
  %shadow = load ptr, ptr %shadow.at
  %interval.at = getelementptr i8, ptr %state, i64 {INTERVAL}
  %interval.64 = load i64, ptr %interval.at
  %interval.0 = trunc i64 %interval.64 to i32
  %interval = add i32 %interval.0, 1
  %warp.32 = trunc i64 %warp to i32
  %me = add i32 %warp.32, 1
  %now = shl i32 %interval, 11
  %stamp = or i32 %now, %me
  %crowd = or i32 %now, {_MANY}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %byte = add i64 %offset, %i
  %double = shl i64 %byte, 1
  %written.at = getelementptr i32, ptr %shadow, i64 %double
  %read.at = getelementptr i32, ptr %written.at, i64 1
  %written = load i32, ptr %written.at
  %read = load i32, ptr %read.at
  %written.when = and i32 %written, {-2048}
  %written.now = icmp eq i32 %written.when, %now
  %written.mine = icmp eq i32 %written, %stamp
  %written.not.mine = xor i1 %written.mine, true
  %written.other = and i1 %written.now, %written.not.mine
  %race.w = and i1 %written.other, %differs
  br i1 %race.w, label %tell.w, label %check.r
tell.w:
  call void @fly_report(ptr %flag.w, ptr %text.w, i64 %at, i64 0, i64 0, i64 %thread, i64 %bx, i64 %by, i64 %bz)
  br label %check.r
check.r:
  %read.when = and i32 %read, {-2048}
  %read.now = icmp eq i32 %read.when, %now
  %read.mine = icmp eq i32 %read, %stamp
  %read.not.mine = xor i1 %read.mine, true
  %read.other = and i1 %read.now, %read.not.mine
  br i1 %write, label %writing, label %reading
writing:
  %race.r = and i1 %read.other, %differs
  br i1 %race.r, label %tell.r, label %note.w
tell.r:
  call void @fly_report(ptr %flag.r, ptr %text.r, i64 %at, i64 0, i64 0, i64 %thread, i64 %bx, i64 %by, i64 %bz)
  br label %note.w
note.w:
  store i32 %stamp, ptr %written.at
  br label %next
reading:
  %never = icmp eq i32 %written, 0
  br i1 %never, label %tell.u, label %note.r
tell.u:
  call void @fly_report(ptr %flag.u, ptr %text.u, i64 %at, i64 0, i64 0, i64 %thread, i64 %bx, i64 %by, i64 %bz)
  br label %note.r
note.r:
  %read.new = select i1 %read.other, i32 %crowd, i32 %stamp
  store i32 %read.new, ptr %read.at
  br label %next
next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %size
  br i1 %more, label %loop, label %out
out:
  ret void
}}
"""


def barrier_check(status: int, barrier: int, mask: int) -> str:
    """Test, before a barrier opens, that all threads wait at the same one and no warp has left in part."""
    return f"""
define internal void @fly_check_barrier(ptr %state, i64 %n, i64 %warp, ptr %sites, {_IDS}) {{
entry:
  %statuses = getelementptr i8, ptr %state, i64 {status}
  br label %loop
loop:
  %t = phi i64 [ 0, %entry ], [ %t.next, %next ]
  %seen = phi i32 [ 0, %entry ], [ %seen.next, %next ]
  %gone = phi i1 [ false, %entry ], [ %gone.next, %next ]
  %here = phi i32 [ 0, %entry ], [ %here.next, %next ]
  %lane = urem i64 %t, %warp
  %fresh = icmp eq i64 %lane, 0
  %gone.0 = select i1 %fresh, i1 false, i1 %gone
  %here.0 = select i1 %fresh, i32 0, i32 %here
  %status.at = getelementptr i32, ptr %statuses, i64 %t
  %status = load i32, ptr %status.at
  %left = icmp eq i32 %status, 0
  %gone.next = or i1 %gone.0, %left
  %here.next = select i1 %left, i32 %here.0, i32 %status
  %none.seen = icmp eq i32 %seen, 0
  %first = select i1 %none.seen, i32 %status, i32 %seen
  %seen.next = select i1 %left, i32 %seen, i32 %first
  %waits = icmp ne i32 %here.next, 0
  %torn = and i1 %gone.next, %waits
  %same = icmp eq i32 %seen.next, %status
  %calm.0 = or i1 %same, %left
  %not.torn = xor i1 %torn, true
  %calm = and i1 %calm.0, %not.torn
  br i1 %calm, label %next, label %tell
tell:
  %site = and i32 %here.next, {mask}
  %is.barrier = icmp uge i32 %here.next, {barrier}
  br i1 %is.barrier, label %tell.it, label %next
tell.it:
  %pair = getelementptr [2 x ptr], ptr %sites, i32 %site
  %flag = load ptr, ptr %pair
  %text.at = getelementptr ptr, ptr %pair, i32 1
  %text = load ptr, ptr %text.at
  call void @fly_report(ptr %flag, ptr %text, i64 0, i64 0, i64 0, i64 %t, i64 %bx, i64 %by, i64 %bz)
  br label %next
next:
  %t.next = add i64 %t, 1
  %more = icmp ult i64 %t.next, %n
  br i1 %more, label %loop, label %out
out:
  ret void
}}
"""


def finish(module: ModuleText, extra: str) -> None:
    """Add the functions and tables of checked mode to a module whose functions are all written."""
    count = int(module.notes.get("check sites", "0"))
    module.globals += [
        f"@fly_flags = internal global [{max(count, 1)} x i8] zeroinitializer",
        _REPORT,
        _SHADOW,
        extra,
        f"""
define ptr @fly_reports(i1 %reset) {{
entry:
  br i1 %reset, label %clear, label %out
clear:
  store i32 0, ptr @fly_table
  call void @llvm.memset.p0.i64(ptr @fly_flags, i8 0, i64 {max(count, 1)}, i1 false)
  br label %out
out:
  ret ptr @fly_table
}}
""",
    ]
    module.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
