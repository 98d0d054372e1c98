"""Checked mode of the cpu stack as text: tests around memory accesses and offsets.

An access is checked against what its pointer was made from: an argument's tensor (`fly_cpu.extent`), or a shared
allocation. One that is out of bounds is reported and left out; a load gives zero then. Accesses to shared memory are
compared with earlier ones by `cpu_shadow.py`. What was found is in the table of `cpu_report.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import FileLineColLoc, IntegerType, VectorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...dialects.fly_cpu import CallOp
from ...dialects.upstream import llvm, scf
from ...dialects.upstream.llvm.atomics import CmpXchgOp, FenceOp
from ...ir import arith
from ...ir.builder import operands_of
from ...ir.locations import source_chain
from ...ir.types import bit_width
from ...llvm.text.function_text import FunctionText
from ...llvm.text.module_text import ModuleText
from ...llvm.text.print_text import string_constant
from ...llvm.text.spelling import bool_text, type_text
from . import global_races as cpu_global_races
from . import report as cpu_report
from . import routines as cpu_routines
from . import shadow as cpu_shadow
from .report import new_flag

if TYPE_CHECKING:
    from .abi import CpuAbi
    from .bulk import Moves

_BULK_UNIT = 16
"""Bytes that addresses and counts of bulk copies are multiples of."""
MAX_RANK = 8
"""Modes of a tensor that reports describe."""


class Bounds(NamedTuple):
    """What an address was made from: first byte, byte behind the last, its name, and what describes the tensor."""

    low: str
    high: str
    name: str
    tensor: Tensor | None = None


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


def root_of(value: SSAValue, depth: int = 64) -> SSAValue | None:
    """The pointer an address was computed from; None where that cannot be followed.

    A pointer that a loop carries is taken for one into what it pointed to at first.
    """
    for _ in range(depth):
        owner = value.owner
        if isinstance(owner, llvm.GEPOp):
            value = owner.operands[0]
        elif isinstance(owner, llvm.IntToPtrOp):
            found = _pointer_under(owner.operands[0], 16)
            if found is None:
                return None
            value = found
        elif isinstance(owner, arith.SelectOp):
            yes, no = (root_of(v, depth // 2) for v in owner.operands[1:])
            return yes if yes is no else None
        else:
            before = _carried_from(value)
            if before is None:
                return value
            value = before
    return None


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
            _describe(f, bounds.tensor)
    f.line(
        f"call void @fly_report(ptr {new_flag(f.module)}, ptr {at}, i64 {cpu_report.MISTAKE}, i64 {address}, "
        f"i64 {low}, i64 {high}, i64 {abi.thread(f)}, i64 %bx, i64 %by, i64 %bz, ptr {tensor}, i64 0, ptr null)"
    )


def _describe(f: FunctionText, tensor: Tensor) -> None:
    """Bits of an element, rank, extents, strides."""
    rank = len(tensor.modes) // 2
    words = [str(tensor.bits), str(rank), *tensor.modes[:rank]]
    words += ["0"] * (2 + MAX_RANK - len(words)) + list(tensor.modes[rank:])
    for i, word in enumerate(words):
        f.line(f"store i64 {word}, ptr getelementptr (i64, ptr {tensor.at}, i64 {i})")


def tensor_of(f: FunctionText, number: int, bits: int, modes: list[str]) -> Tensor | None:
    """A place for the description of an argument's tensor."""
    if not modes or len(modes) > 2 * MAX_RANK:
        return None
    key = f"tensor {id(f)} {number}"
    name = f"@fly_tensor.{len(f.module.globals)}"
    if key not in f.module.notes:
        f.module.notes[key] = name
        f.module.globals.append(f"{name} = internal global [{2 + 2 * MAX_RANK} x i64] zeroinitializer")
    return Tensor(f.module.notes[key], bits, tuple(modes))


def bounds_of(f: FunctionText, abi: CpuAbi, root: SSAValue) -> Bounds | None:
    """What is known of the memory an address was made from."""
    extent = abi.extents.get(root)
    if extent is not None:
        return extent
    if isinstance(root.owner, llvm.AddressOfOp):
        name = root.owner.global_name.string_value()
        offset, nbytes = abi.shared.offsets[name], abi.shared.sizes[name]
        base = f.assign("ptrtoint ptr %shared to i64")
        low = f.assign(f"add i64 {base}, {offset}")
        size = str(nbytes) if nbytes else "%dynamic"
        return Bounds(low, f.assign(f"add i64 {low}, {size}"), "shared memory")
    if isinstance(root.owner, llvm.AllocaOp):
        count = f.names[root.owner.operands[0]]
        if count.isdigit():
            # Elements of an array lie at whole bytes.
            nbytes = int(count) * -(-bit_width(root.owner.properties["elem_type"]) // 8)
            low = f.assign(f"ptrtoint {f.typed(root)} to i64")
            return Bounds(low, f.assign(f"add i64 {low}, {nbytes}"), "a register tensor")
    return None


def check_access(f: FunctionText, abi: CpuAbi, op: Operation, pointer: SSAValue, type_: Any, word: str) -> str | None:
    """Test an access; gives the i1 that allows it, or None where any is allowed."""
    root = root_of(pointer)
    if root is None:
        return None
    bounds = bounds_of(f, abi, root)
    if bounds is None:
        return None
    check_offsets(f, abi, op, pointer, bounds)
    nbytes = -(-bit_width(type_) // 8)
    first = f.assign(f"ptrtoint ptr {f.names[pointer]} to i64")
    last = f.assign(f"add i64 {first}, {nbytes}")
    inside = f.assign(f"icmp uge i64 {first}, {bounds.low}")
    before = f.assign(f"icmp ule i64 {last}, {bounds.high}")
    fine = f.assign(f"and i1 {inside}, {before}")
    _unless(f, fine, lambda: report(f, abi, f"{where(op)}: {word} out of bounds of {bounds.name}", first, bounds))
    align: Any = op.properties.get("alignment")
    if align is not None and align.value.data > 1:
        need = min(align.value.data, 16)
        rest = f.assign(f"and i64 {first}, {need - 1}")
        straight = f.assign(f"icmp eq i64 {rest}, 0")
        text = f"{where(op)}: {word} of {bounds.name} at an address that is not a multiple of {need}"
        _unless(f, straight, lambda: report(f, abi, text, first, bounds))
    return fine


def check_divisor(f: FunctionText, abi: CpuAbi, op: Operation, zero: str) -> None:
    """Report a division by zero; `zero` says where the divisor is that."""
    type_: Any = op.results[0].type
    if isinstance(type_, VectorType):
        name = f"llvm.vector.reduce.or.v{cast(Any, type_).get_shape()[0]}i1"
        zero = f.intrinsic(name, "i1", [bool_text(cast(Any, type_))], [zero])
    fine = f.assign(f"xor i1 {zero}, true")
    _unless(f, fine, lambda: report(f, abi, f"{where(op)}: integer division by zero", "0", None))


def check_bytes(f: FunctionText, abi: CpuAbi, op: CallOp, moves: Moves) -> str:
    """Test a copy of bytes, whose number is known at run time; gives the i1 that allows it."""
    nbytes = f.assign(f"zext {f.typed(op.args[moves.nbytes])} to i64")
    fine: list[str] = []

    def need_units(number: str, text: str, bounds: Bounds | None) -> None:
        rest = f.assign(f"and i64 {number}, {_BULK_UNIT - 1}")
        fine.append(f.assign(f"icmp eq i64 {rest}, 0"))
        at = "0" if bounds is None else number
        _unless(f, fine[-1], lambda: report(f, abi, f"{where(op)}: {text}", at, bounds))

    need_units(nbytes, f"a bulk copy of a number of bytes that is not a multiple of {_BULK_UNIT}", None)
    for place, word in ((moves.reads, "read"), (moves.writes, "write")):
        pointer = op.args[place]
        root = root_of(pointer)
        bounds = None if root is None else bounds_of(f, abi, root)
        first = f.assign(f"ptrtoint ptr {f.names[pointer]} to i64")
        name = "memory" if bounds is None else bounds.name
        need_units(first, f"{word} of {name} at an address that is not a multiple of {_BULK_UNIT}", bounds)
        if bounds is None:
            continue
        check_offsets(f, abi, op, pointer, bounds)
        last = f.assign(f"add i64 {first}, {nbytes}")
        after = f.assign(f"icmp uge i64 {first}, {bounds.low}")
        before = f.assign(f"icmp ule i64 {last}, {bounds.high}")
        fine.append(f.assign(f"and i1 {after}, {before}"))
        text = f"{where(op)}: {word} out of bounds of {bounds.name}"
        # The last byte, or the first where that lies in front.
        at = f.assign(f"select i1 {after}, i64 {f.assign(f'sub i64 {last}, 1')}, i64 {first}")
        _unless(f, fine[-1], lambda text=text, at=at, b=bounds: report(f, abi, text, at, b))
    whole = fine[0]
    for flag in fine[1:]:
        whole = f.assign(f"and i1 {whole}, {flag}")
    if moves.overwrites and abi.searched and root_of(op.args[moves.writes]) in abi.extents:
        _search_overwritten(f, abi, op, moves, whole, nbytes)
    return whole


def _search_overwritten(f: FunctionText, abi: CpuAbi, op: CallOp, moves: Moves, fine: str, nbytes: str) -> None:
    """Compare a copy to an argument's tensor with earlier accesses. What comes after it is ordered by its thread."""
    good, after = f.new_label(), f.new_label()
    f.line(f"br i1 {fine}, label %{good}, label %{after}")
    f.start(good)
    source, to = op.args[moves.reads], op.args[moves.writes]
    f.module.declare("memcmp", "i32", ["ptr", "ptr", "i64"])
    order = f.assign(f"call i32 @memcmp({f.typed(source)}, {f.typed(to)}, i64 {nbytes})")
    search(f, abi, op, to, nbytes, f.assign(f"icmp ne i32 {order}, 0"))
    f.line(f"br label %{after}")
    f.start(after)


def _unless(f: FunctionText, flag: str, then: Any) -> None:
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
            _unless(f, fits, lambda text=text: report(f, abi, text, "0", None))
        owner = owner.operands[0].owner


# --- shared memory ----------------------------------------------------------------------------------------------------


def access_table(f: FunctionText, op: Operation, word: str) -> str:
    """What is said of an access to shared memory: flags and texts in the order of `cpu_shadow`, and its line."""
    line = where(op)
    said = (
        f"race on shared memory: {word} of what another thread wrote, with nothing that orders them",
        f"race on shared memory: {word} of what another thread read, with nothing that orders them",
        f"{word} of shared memory that nobody has written",
        f"{word} of what an asynchronous copy writes, before the wait for it",
        f"{word} of shared memory that an asynchronous copy still reads",
    )
    pairs = ", ".join(f"ptr {new_flag(f.module)}, ptr {string_constant(f.module, f'{line}: {text}')}" for text in said)
    number = line_number(f.module, line)
    name = f"@fly_access.{len(f.module.globals)}"
    count = 2 * cpu_shadow.ACCESS_TEXTS
    f.module.globals.append(
        f"{name} = internal constant {{ [{count} x ptr], i64 }} {{ [{count} x ptr] [{pairs}], i64 {number} }}"
    )
    return name


def line_number(module: ModuleText, line: str) -> int:
    """Number of a source line in the module's table of them; 0 is none, and that of all beyond the 65535th."""
    key = f"source line {line}"
    if key not in module.notes:
        count = int(module.notes.get("source lines", "0")) + 1
        if count >= 1 << 16:
            return 0
        module.notes["source lines"] = str(count)
        module.notes[key] = str(count)
    return int(module.notes[key])


def in_shared(pointer: SSAValue) -> bool:
    """Whether an address was made from shared memory."""
    root = root_of(pointer)
    return root is not None and isinstance(root.owner, llvm.AddressOfOp)


def shadow(f: FunctionText, op: Operation, pointer: SSAValue, type_: Any, differs: str | None) -> None:
    """Compare a shared access with earlier ones; `differs` (i1) makes it a write."""
    table = access_table(f, op, "read" if differs is None else "write")
    f.line(
        f"call void @fly_check_access(ptr %state, i64 %tid, {f.typed(pointer)}, i64 {-(-bit_width(type_) // 8)}, "
        f"i1 {'false' if differs is None else 'true'}, i1 {differs or 'true'}, ptr {table})"
    )


def synchronises(kernel: Operation) -> bool:
    """Whether a kernel may order its blocks by itself: it has atomics, fences or qualified accesses."""
    for op in kernel.walk():
        if isinstance(op, llvm.AtomicRMWOp | CmpXchgOp | FenceOp):
            return True
        if isinstance(op, llvm.LoadOp | llvm.StoreOp):
            ordering: Any = op.properties.get("ordering")
            if (ordering is not None and ordering.value.data) or "volatile_" in op.properties:
                return True
    return False


def search(
    f: FunctionText, abi: CpuAbi, op: Operation, pointer: SSAValue, size: int | str, differs: str | None
) -> None:
    """Compare an access to an argument's tensor with earlier ones; `differs` (i1) makes it a write."""
    root = root_of(pointer)
    bounds = None if root is None else abi.extents.get(root)
    if bounds is None:
        return
    word, line = "read" if differs is None else "write", where(op)
    said = (f"{word} of what another thread {verb}, with nothing that orders them" for verb in ("wrote", "read"))
    pairs = ", ".join(
        f"ptr {new_flag(f.module)}, ptr {string_constant(f.module, f'{line}: race on {bounds.name}: {text}')}"
        for text in said
    )
    table = f"@fly_access.{len(f.module.globals)}"
    f.module.globals.append(
        f"{table} = internal constant {{ [4 x ptr], i64 }} {{ [4 x ptr] [{pairs}], i64 {line_number(f.module, line)} }}"
    )
    tensor = "null"
    if bounds.tensor is not None:
        tensor = bounds.tensor.at
        _describe(f, bounds.tensor)
    f.line(
        f"call void @fly_check_global(ptr {abi.state}, i64 {abi.thread(f)}, i64 %bx, i64 %by, i64 %bz, "
        f"{f.typed(pointer)}, i64 {size}, i1 {'false' if differs is None else 'true'}, "
        f"i1 {differs or 'true'}, ptr {table}, ptr {tensor}, i64 {bounds.low}, i64 {bounds.high})"
    )


def in_peer(pointer: SSAValue) -> bool:
    """Whether an address was made from another block's shared memory."""
    root = root_of(pointer)
    return root is not None and isinstance(root.owner, CallOp) and root.owner.callee.data == "fly_remote"


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
    if abi.shadowed and in_shared(pointer):
        shadow(f, op, pointer, result.type, None)
    elif abi.searched:
        search(f, abi, op, pointer, -(-bit_width(result.type) // 8), None)
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
        if abi.shadowed and in_peer(pointer):
            size = -(-bit_width(value.type) // 8)
            f.line(f"call void @fly_check_foreign(ptr %state, i64 %tid, {f.typed(pointer)}, i64 {size})")
        f.line(f"store {f.typed(value)}, {f.typed(pointer)}, align 1")
        return
    good, after = f.new_label(), f.new_label()
    f.line(f"br i1 {fine}, label %{good}, label %{after}")
    f.start(good)
    tensor = abi.searched and root_of(pointer) in abi.extents
    if tensor or (abi.shadowed and in_shared(pointer)):
        bits, t = f"i{bit_width(value.type)}", type_text(value.type)
        old = f.assign(f"load {bits}, {f.typed(pointer)}, align 1")
        new = f.names[value] if t == bits else f.assign(f"bitcast {t} {f.names[value]} to {bits}")
        differs = f.assign(f"icmp ne {bits} {old}, {new}")
        if tensor:
            search(f, abi, op, pointer, -(-bit_width(value.type) // 8), differs)
        else:
            shadow(f, op, pointer, value.type, differs)
    f.line(f"store {f.typed(value)}, {f.typed(pointer)}, align 1")
    f.line(f"br label %{after}")
    f.start(after)


def finish(module: ModuleText) -> None:
    """Add the functions and tables of checked mode to a module whose functions are all written."""
    cpu_routines.need(module, "fly_owner", True)
    lines = sorted((int(n), key[12:]) for key, n in module.notes.items() if key.startswith("source line "))
    texts = ["ptr null", *(f"ptr {string_constant(module, text)}" for _, text in lines)]
    module.globals.append(f"@fly_source_lines = internal constant [{len(texts)} x ptr] [{', '.join(texts)}]")
    module.globals.append(cpu_global_races.GLOBALS)
    for routine in (*cpu_shadow.routines(), cpu_global_races.access()):
        module.globals.append(routine.text())
        for name, text in routine.declarations.items():
            module.declarations.setdefault(name, text)
