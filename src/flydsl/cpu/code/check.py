"""Checked mode of the cpu stack as text: tests around memory accesses and offsets.

An access is checked against what its pointer was made from: an argument's tensor (`fly_cpu.extent`), or a shared
allocation. One that is out of bounds is reported and left out; a load gives zero then. `accesses.py` compares accesses
with earlier ones. What was found is in the table of `report.py`.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import FileLineColLoc, IntegerType, VectorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...dialects.fly_cpu import CallOp, DepositOp, RendezvousOp, SharedBaseOp
from ...dialects.upstream import llvm, scf
from ...dialects.upstream.llvm.atomics import CmpXchgOp
from ...dialects.upstream.llvm.values import AddrSpaceCastOp
from ...ir import arith
from ...ir.builder import operands_of
from ...ir.locations import source_chain
from ...ir.types import bit_width
from ...llvm.text.function_text import FunctionText
from ...llvm.text.print_text import string_constant
from ...llvm.text.routine import Routine, Value
from ...llvm.text.spelling import bool_text
from . import report as cpu_report
from .report import new_flag

if TYPE_CHECKING:
    from .abi import CpuAbi

MAX_RANK = 8
"""Modes of a tensor that reports describe."""


class Bounds(NamedTuple):
    """What an address was made from: first byte, byte behind the last, its name, and what describes the tensor."""

    low: str
    high: str
    name: str
    tensor: Tensor | None = None
    slot: Slot | None = None


class Slot(NamedTuple):
    """Of a tensor of all ranks: bytes from one rank's part to the next one's, and bytes of each part."""

    step: str
    nbytes: str


class Tensor(NamedTuple):
    """Where a description of a tensor goes, and the values to write there when there is something to report."""

    at: str
    bits: int
    modes: tuple[str, ...]


def where(op: Operation) -> str:
    """The user's line of an op."""
    location: Any = op.location
    chain = source_chain(location)
    if chain:
        return f"{chain[-1].filename}:{chain[-1].line}"
    return f"{location.filename.data}:{location.line.data}" if isinstance(location, FileLineColLoc) else "unknown line"


def root_of(value: SSAValue, depth: int = 64, path: tuple[int, ...] = ()) -> SSAValue | None:
    """The pointer an address was computed from; None where that cannot be followed.

    A pointer that a loop carries is taken for one into what it pointed to at first. `path` says which field of a struct
    is asked for: descriptors of buffers are structs.
    """
    for _ in range(depth):
        owner = value.owner
        if isinstance(owner, llvm.ExtractValueOp):
            path, value = (*_positions(owner), *path), owner.operands[0]
        elif isinstance(owner, llvm.InsertValueOp) and path:
            at = _positions(owner)
            if at == path[: len(at)]:
                value, path = owner.operands[1], path[len(at) :]
            elif path == at[: len(path)]:
                return None
            else:
                value = owner.operands[0]
        elif isinstance(owner, arith.SelectOp | scf.IfOp):
            roots = [root_of(v, depth // 2, path) for v in _choices(value, owner)]
            return roots[0] if roots and all(r is roots[0] for r in roots) else None
        elif not path and isinstance(owner, llvm.GEPOp | AddrSpaceCastOp):
            value = owner.operands[0]
        elif not path and isinstance(owner, llvm.IntToPtrOp):
            found = _pointer_under(owner.operands[0], 16)
            if found is None:
                return None
            value = found
        else:
            before = _carried_from(value)
            if before is None:
                return None if path else value
            value = before
    return None


def _positions(op: Operation) -> tuple[int, ...]:
    found: Any = op.properties["position"]
    return tuple(int(n) for n in found.get_values())


def _choices(value: SSAValue, owner: arith.SelectOp | scf.IfOp) -> list[SSAValue]:
    """The values that one may be."""
    if isinstance(owner, arith.SelectOp):
        return list(owner.operands[1:])
    ends = [region.block.last_op for region in owner.regions if region.blocks]
    return [end.operands[cast(Any, value).index] for end in ends if end is not None]


def _carried_from(value: SSAValue) -> SSAValue | None:
    """What a loop was entered with for a value that it carries."""
    inside = isinstance(value, BlockArgument)
    loop: Any = value.owner.parent_op() if inside else value.owner
    number: int = cast(Any, value).index
    if isinstance(loop, scf.ForOp):
        # The counter is the first argument of the body, the bounds are the first operands.
        at = number - inside
        return operands_of(loop)[3 + at] if at >= 0 else None
    if isinstance(loop, scf.WhileOp):
        return operands_of(loop)[number]
    return None


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


def report(f: FunctionText, abi: CpuAbi, text: str, address: str, bounds: Bounds | None) -> None:
    """Note a failure; on a path that is rarely taken."""
    at = string_constant(f.module, text)
    low, high, tensor = "0", "0", "null"
    if bounds is not None:
        low, high = bounds.low, bounds.high
        if bounds.tensor is not None:
            tensor = bounds.tensor.at
    f.line(
        f"call void @fly_report(ptr {new_flag(f.module)}, ptr {at}, i64 {cpu_report.MISTAKE}, i64 {address}, "
        f"i64 {low}, i64 {high}, i64 {abi.thread(f)}, i64 %bx, i64 %by, i64 %bz, ptr {tensor}, i64 0, ptr null)"
    )


def _describe(f: FunctionText, tensor: Tensor) -> None:
    """Bits of an element, rank, extents, strides: at the kernel's head, for all that is said of it."""
    rank = len(tensor.modes) // 2
    words = [str(tensor.bits), str(rank), *tensor.modes[:rank]]
    words += ["0"] * (2 + MAX_RANK - len(words)) + list(tensor.modes[rank:])
    for i, word in enumerate(words):
        f.line(f"store i64 {word}, ptr getelementptr (i64, ptr {tensor.at}, i64 {i})")


def tensor_of(f: FunctionText, number: int, bits: int, modes: list[str]) -> Tensor | None:
    """The description of an argument's tensor, which is written here."""
    if not modes or len(modes) > 2 * MAX_RANK:
        return None
    key = f"tensor {id(f)} {number}"
    name = f"@fly_tensor.{len(f.module.globals)}"
    if key not in f.module.notes:
        f.module.notes[key] = name
        f.module.globals.append(f"{name} = internal global [{2 + 2 * MAX_RANK} x i64] zeroinitializer")
    made = Tensor(f.module.notes[key], bits, tuple(modes))
    _describe(f, made)
    return made


def backward(f: FunctionText, tensor: Tensor, low: str, high: str) -> tuple[str, str]:
    """The bounds of a tensor, some of whose strides may be negative: its first element is then not the lowest."""
    rank = len(tensor.modes) // 2
    below, above = "0", "0"

    def bounded(which: str, value: str) -> str:
        return f.intrinsic(f"llvm.{which}.i64", "i64", ["i64", "i64"], [value, "0"])

    for extent, stride in zip(tensor.modes[:rank], tensor.modes[rank:], strict=True):
        last = bounded("smax", f.assign(f"sub i64 {extent}, 1"))
        reach = f.assign(f"mul i64 {last}, {stride}")
        below = f.assign(f"add i64 {below}, {bounded('smin', reach)}")
        above = f.assign(f"add i64 {above}, {bounded('smax', reach)}")
    bits = f.assign(f"mul i64 {f.assign(f'add i64 {above}, 1')}, {tensor.bits}")
    top = f.assign(f"lshr i64 {f.assign(f'add i64 {bits}, 7')}, 3")
    some = f.assign(f"icmp slt i64 {below}, 0")
    top = f.assign(f"select i1 {some}, i64 {f.assign(f'add i64 {low}, {top}')}, i64 {high}")
    down = f.assign(f"ashr i64 {f.assign(f'mul i64 {below}, {tensor.bits}')}, 3")
    return f.assign(f"add i64 {low}, {down}"), top


def argument_name(f: FunctionText, number: int) -> str:
    """What reports call the tensor of an argument."""
    name = f"the tensor of argument {number}"
    names: Any = f.op.attributes.get("fly.arg_names")
    return name if names is None else f"{name} ('{names.data[number].data}')"


def bounds_of(f: FunctionText, abi: CpuAbi, root: SSAValue) -> Bounds | None:
    """What is known of the memory an address was made from."""
    extent = abi.extents.get(root)
    if extent is not None:
        return extent
    if isinstance(root.owner, SharedBaseOp):
        low = f.assign("ptrtoint ptr %shared to i64")
        size = f.assign(f"add i64 {abi.shared.reserved}, %dynamic")
        return Bounds(low, f.assign(f"add i64 {low}, {size}"), "shared memory")
    if isinstance(root.owner, llvm.AddressOfOp):
        name = root.owner.global_name.string_value()
        offset, nbytes = abi.shared.offsets[name], abi.shared.sizes[name]
        base = f.assign("ptrtoint ptr %shared to i64")
        low = f.assign(f"add i64 {base}, {offset}")
        size = str(nbytes) if nbytes else "%dynamic"
        return Bounds(low, f.assign(f"add i64 {low}, {size}"), "shared memory")
    if is_peer(root):
        return _peer_bounds(f, abi, root)
    if isinstance(root.owner, llvm.AllocaOp):
        count = f.names[root.owner.operands[0]]
        if count.isdigit():
            # Elements of an array lie at whole bytes.
            nbytes = int(count) * -(-bit_width(root.owner.properties["elem_type"]) // 8)
            low = f.assign(f"ptrtoint {f.typed(root)} to i64")
            return Bounds(low, f.assign(f"add i64 {low}, {nbytes}"), "a register tensor")
    return None


def is_peer(root: SSAValue) -> bool:
    """Whether a pointer is one to another block's shared memory."""
    return isinstance(root.owner, CallOp) and root.owner.callee.data == "fly_remote"


def _peer_bounds(f: FunctionText, abi: CpuAbi, root: SSAValue) -> Bounds | None:
    """Those of the own block's allocation, as far away as the other block's memory is."""
    local = operands_of(cast(CallOp, root.owner))[0]
    found = root_of(local)
    bounds = None if found is None else bounds_of(f, abi, found)
    if bounds is None:
        return None
    there, here = (f.assign(f"ptrtoint {f.typed(v)} to i64") for v in (root, local))
    by = f.assign(f"sub i64 {there}, {here}")
    low, high = (f.assign(f"add i64 {end}, {by}") for end in (bounds.low, bounds.high))
    return Bounds(low, high, "another block's shared memory")


def slot_of(f: FunctionText, bits: int, modes: list[str]) -> Slot:
    """The parts of a tensor whose first mode are the ranks, from its extents and strides."""
    rank = len(modes) // 2
    last = "0"
    for extent, stride in zip(modes[1:rank], modes[rank + 1 :], strict=True):
        steps = f.assign(f"sub i64 {extent}, 1")
        reach = f.assign(f"mul i64 {steps}, {stride}")
        last = f.assign(f"add i64 {last}, {reach}")
    count = f.assign(f"add i64 {last}, 1")
    step, nbytes = (f.assign(f"mul i64 {n}, {bits // 8}") for n in (modes[rank], count))
    none = f.assign(f"icmp eq i64 {step}, 0")  # a tensor without elements; a divisor must not be zero
    return Slot(f.assign(f"select i1 {none}, i64 1, i64 {step}"), nbytes)


def _inside_slot(f: FunctionText, low: str, slot: Slot, first: str, nbytes: int) -> str:
    """Whether an access lies in one rank's part of a tensor of all ranks (i1)."""
    offset = f.assign(f"sub i64 {first}, {low}")
    start = f.assign(f"urem i64 {offset}, {slot.step}")
    end = f.assign(f"add i64 {start}, {nbytes}")
    return f.assign(f"icmp ule i64 {end}, {slot.nbytes}")


def check_access(
    f: FunctionText, abi: CpuAbi, op: Operation, pointer: SSAValue, type_: Any, word: str, guard: str | None = None
) -> str | None:
    """Test an access; gives the i1 that allows it, or None where any is allowed.

    It is not made where `guard` (i1) is not set. An atomic access must be aligned to be allowed.
    """
    root = root_of(pointer)
    if guard is None and root is not None and _surely_fine(f, op, pointer, type_, root):
        return None
    bounds = None if root is None else bounds_of(f, abi, root)
    if bounds is None:
        return _check_mapped(f, abi, op, pointer, type_, word, guard) if _from_outside(root) else None
    check_offsets(f, abi, op, pointer, bounds)
    nbytes = -(-bit_width(type_) // 8)
    if guard is None and bounds.slot is None:
        return _call_check(f, abi, op, pointer, nbytes, word, bounds)
    first = f.assign(f"ptrtoint ptr {f.names[pointer]} to i64")
    last = f.assign(f"add i64 {first}, {nbytes}")
    inside = f.assign(f"icmp uge i64 {first}, {bounds.low}")
    before = f.assign(f"icmp ule i64 {last}, {bounds.high}")
    fine = f.assign(f"and i1 {inside}, {before}")
    if bounds.slot is not None:
        fine = f.assign(f"and i1 {fine}, {_inside_slot(f, bounds.low, bounds.slot, first, nbytes)}")
    if guard is not None:
        fine = f.assign(f"select i1 {guard}, i1 {fine}, i1 true")
    unless(f, fine, lambda: report(f, abi, _outside(op, word, bounds), first, bounds))
    need = _alignment(op)
    if need > 1 and guard is None:
        rest = f.assign(f"and i64 {first}, {need - 1}")
        straight = f.assign(f"icmp eq i64 {rest}, 0")
        text = _misaligned(op, word, bounds, need)
        unless(f, straight, lambda: report(f, abi, text, first, bounds))
        if is_atomic(op):
            fine = f.assign(f"and i1 {fine}, {straight}")
    return fine


def _alignment(op: Operation) -> int:
    align: Any = op.properties.get("alignment")
    return 1 if align is None else min(align.value.data, 16)


def _outside(op: Operation, word: str, bounds: Bounds) -> str:
    return f"{where(op)}: {word} out of bounds of {bounds.name}"


def _misaligned(op: Operation, word: str, bounds: Bounds, need: int) -> str:
    return f"{where(op)}: {word} of {bounds.name} at an address that is not a multiple of {need}"


def _call_check(
    f: FunctionText, abi: CpuAbi, op: Operation, pointer: SSAValue, nbytes: int, word: str, bounds: Bounds
) -> str:
    """The usual test as a call: kernels have hundreds of accesses, and branches around each take LLVM long."""
    need = _alignment(op)
    said = [_outside(op, word, bounds)] + [_misaligned(op, word, bounds, need)] * (need > 1)
    pairs = [f"ptr {new_flag(f.module)}, ptr {string_constant(f.module, text)}" for text in said]
    pairs += ["ptr null, ptr null"] * (2 - len(pairs))
    table = f"@fly_places_said.{len(f.module.globals)}"
    f.module.globals.append(f"{table} = internal constant [4 x ptr] [{', '.join(pairs)}]")
    tensor = "null" if bounds.tensor is None else bounds.tensor.at
    return f.assign(
        f"call i1 @fly_check_inside({f.typed(pointer)}, i64 {nbytes}, i64 {bounds.low}, i64 {bounds.high}, "
        f"i64 {need - 1}, i1 {'true' if is_atomic(op) else 'false'}, ptr {table}, i64 {abi.thread(f)}, "
        f"i64 %bx, i64 %by, i64 %bz, ptr {tensor})"
    )


def inside() -> Routine:
    """Test where an access goes, and its alignment, without which an atomic one is not allowed either."""
    r = Routine(
        "fly_check_inside", "i1",
        "ptr at, i64 size, i64 low, i64 high, i64 rest, i1 atomic, ptr said, i64 t, i64 bx, i64 by, i64 bz, ptr tensor",
    )  # fmt: skip
    first = r.address(r["at"])
    fine = (first >= r["low"]) & ((first + r["size"]) <= r["high"])
    straight = (first & r["rest"]).is_(0)
    for flag, at in ((fine, 0), (straight, 16)):
        with r.when(~flag):
            r.call(
                "fly_report", "void", r.load("ptr", r["said"], at, 8), r.load("ptr", r["said"], at + 8, 8),
                ("i64", cpu_report.MISTAKE), first, r["low"], r["high"], r["t"], r["bx"], r["by"], r["bz"], r["tensor"],
                ("i64", 0), Value(r, "ptr", "null"),
            )  # fmt: skip
    r.give(fine & (straight | ~r["atomic"]))
    return r


def offset_in(pointer: SSAValue, root: SSAValue) -> int | None:
    """Bytes from the start of a memory to an address in it, where they are known."""
    offset = 0
    while pointer is not root:
        owner = pointer.owner
        if not isinstance(owner, llvm.GEPOp) or len(owner.operands) > 1:
            return None
        indices: list[int] = list(cast(Any, owner.rawConstantIndices).get_values())
        bits = bit_width(owner.elem_type)
        if len(indices) != 1 or bits not in (8, 16, 32, 64):  # others may lie further apart than they are long
            return None
        offset += indices[0] * (bits // 8)
        pointer = owner.operands[0]
    return offset


def _surely_fine(f: FunctionText, op: Operation, pointer: SSAValue, type_: Any, root: SSAValue) -> bool:
    """Whether an access to registers in memory is inside and aligned whatever the kernel does."""
    owner = root.owner
    if not isinstance(owner, llvm.AllocaOp):
        return False
    offset, count = offset_in(pointer, root), f.names[owner.operands[0]]
    if offset is None or offset < 0 or not count.isdigit():
        return False
    size = int(count) * -(-bit_width(owner.properties["elem_type"]) // 8)
    start, need = (cast(Any, x.properties.get("alignment")) for x in (owner, op))
    aligned = need is None or (start is not None and gcd(start.value.data, offset) % min(need.value.data, 16) == 0)
    return aligned and offset + -(-bit_width(type_) // 8) <= size


_OURS = (llvm.AddressOfOp, llvm.AllocaOp, DepositOp, RendezvousOp, CallOp)
"""What makes addresses that kernels cannot get wrong."""


def _from_outside(root: SSAValue | None) -> bool:
    """Whether an address is one that the kernel was given, read or computed, and may be anything."""
    return root is None or not isinstance(root.owner, _OURS)


_PAGE, _USER = 4096, 1 << 47


def _check_mapped(
    f: FunctionText, abi: CpuAbi, op: Operation, pointer: SSAValue, type_: Any, word: str, guard: str | None
) -> str:
    """Whether there is memory at an address of which nothing else is known: `msync` refuses pages that are missing."""
    f.module.declarations.setdefault("msync", "declare i32 @msync(ptr, i64, i32)")
    first = f.assign(f"ptrtoint {f.typed(pointer)} to i64")
    low = f.assign(f"icmp ult i64 {first}, {_USER}")
    at = f.assign(f"select i1 {low}, i64 {first}, i64 0")
    page = f.assign(f"and i64 {at}, {-_PAGE}")
    end = f.assign(f"add i64 {at}, {-(-bit_width(type_) // 8)}")
    length = f.assign(f"sub i64 {end}, {page}")
    place = f.assign(f"inttoptr i64 {page} to ptr")
    code = f.assign(f"call i32 @msync(ptr {place}, i64 {length}, i32 1)")
    fine = f.assign(f"icmp eq i32 {code}, 0")
    if guard is not None:
        fine = f.assign(f"select i1 {guard}, i1 {fine}, i1 true")
    unless(f, fine, lambda: report(f, abi, f"{where(op)}: {word} at an address where there is no memory", first, None))
    return fine


def is_atomic(op: Operation) -> bool:
    """Whether an access is atomic; volatile ones of one element count, as they are that on GPUs."""
    if isinstance(op, llvm.AtomicRMWOp | CmpXchgOp):
        return True
    ordering: Any = op.properties.get("ordering")
    if ordering is not None and ordering.value.data:
        return True
    type_ = op.operands[0].type if isinstance(op, llvm.StoreOp) else op.results[0].type
    return "volatile_" in op.properties and not isinstance(type_, VectorType)


def check_divisor(f: FunctionText, abi: CpuAbi, op: Operation, zero: str) -> None:
    """Report a division by zero; `zero` says where the divisor is that."""
    type_: Any = op.results[0].type
    if isinstance(type_, VectorType):
        name = f"llvm.vector.reduce.or.v{cast(Any, type_).get_shape()[0]}i1"
        zero = f.intrinsic(name, "i1", [bool_text(cast(Any, type_))], [zero])
    fine = f.assign(f"xor i1 {zero}, true")
    unless(f, fine, lambda: report(f, abi, f"{where(op)}: integer division by zero", "0", None))


def unless(f: FunctionText, flag: str, then: Any) -> None:
    """What to do where a flag (i1) is not set, which is rare."""
    bad, after = f.new_label(), f.new_label()
    f.line(f"br i1 {flag}, label %{after}, label %{bad}")
    f.start(bad)
    then()
    f.line(f"br label %{after}")
    f.start(after)


# --- offsets of 32 bits -----------------------------------------------------------------------------------------------

_EXACT = {arith.AddiOp: "add", arith.SubiOp: "sub", arith.MuliOp: "mul", arith.ShLIOp: "shl"}
_DEPTH = 12


def _narrow(value: SSAValue) -> SSAValue | None:
    """The 32-bit number that becomes an offset, if one does."""
    if value.type == IntegerType(32):
        return value
    owner = value.owner
    if isinstance(owner, arith.ExtSIOp | arith.IndexCastOp) and owner.operands[0].type == IntegerType(32):
        return owner.operands[0]
    return None


def _wide(f: FunctionText, value: SSAValue, depth: int) -> str:
    """A 32-bit number computed again in 64 bits from the ones it was computed from."""
    owner = value.owner
    word = _EXACT.get(type(owner)) if isinstance(owner, Operation) and depth else None  # pyright: ignore[reportArgumentType]
    if word is None:
        name = f.names[value]
        return name if name.lstrip("-").isdigit() else f.assign(f"sext i32 {name} to i64")
    a, b = (_wide(f, v, depth - 1) for v in operands_of(owner))  # pyright: ignore[reportArgumentType]
    return f.assign(f"{word} i64 {a}, {b}")


def check_offsets(f: FunctionText, abi: CpuAbi, op: Operation, pointer: SSAValue, bounds: Bounds) -> None:
    """Test that what the address was computed from in 32 bits did not wrap around."""
    owner = pointer.owner
    while isinstance(owner, llvm.GEPOp):
        for index in owner.operands[1:]:
            number = _narrow(index)
            if number is None or type(number.owner) not in _EXACT:
                continue
            exact = _wide(f, number, _DEPTH)
            same = f.assign(f"sext i32 {f.names[number]} to i64")
            fits = f.assign(f"icmp eq i64 {exact}, {same}")
            text = f"{where(op)}: a 32-bit offset into {bounds.name} overflows"
            unless(f, fits, lambda text=text: report(f, abi, text, "0", None))
        owner = owner.operands[0].owner
