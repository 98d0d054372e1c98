"""Bulk and tensor copies in checked mode: their addresses and counts, and what they do to the tensors of arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase, i8
from xdsl.ir import SSAValue

from ...dialects.fly_cpu import CallOp
from ...dialects.fly_nvgpu.tma import TensorMapType
from ...llvm.text.function_text import FunctionText
from ...llvm.text.print_text import string_constant
from .accesses import Access, compared, search
from .check import Bounds, argument_name, bounds_of, check_offsets, report, root_of, unless, where
from .report import new_flag
from .shadow import ATOMIC, COUNTED, ISSUED, READS, WRITES

if TYPE_CHECKING:
    from .abi import CpuAbi
    from .bulk import Moves

_BULK_UNIT = 16
"""Bytes that addresses and counts of bulk copies are multiples of."""


def check_bytes(f: FunctionText, abi: CpuAbi, op: CallOp, moves: Moves) -> str:
    """Test a copy of bytes, whose number is known at run time; gives the i1 that allows it."""
    nbytes = f.assign(f"zext {f.typed(op.args[moves.nbytes])} to i64")
    fine: list[str] = []

    def need_units(number: str, text: str, bounds: Bounds | None) -> None:
        rest = f.assign(f"and i64 {number}, {_BULK_UNIT - 1}")
        fine.append(f.assign(f"icmp eq i64 {rest}, 0"))
        at = "0" if bounds is None else number
        unless(f, fine[-1], lambda: report(f, abi, f"{where(op)}: {text}", at, bounds))

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
        unless(f, fine[-1], lambda text=text, at=at, b=bounds: report(f, abi, text, at, b))
    whole = fine[0]
    for flag in fine[1:]:
        whole = f.assign(f"and i1 {whole}, {flag}")
    for place in (moves.reads, moves.writes):
        root = root_of(op.args[place])
        if root is not None and compared(f, abi, root):
            _search(f, abi, op, moves, place, whole, nbytes)
    return whole


def said_of_map(f: FunctionText, op: CallOp, word: str) -> list[str]:
    """What a tensor copy is given to report what its map has and the array has not: a flag and a text."""
    maps: list[SSAValue] = [arg for arg in f.op.regions[0].block.args if isinstance(arg.type, TensorMapType)]
    numbers = f.op.attributes.get("fly.map_args")
    name = "the tensor of a map"
    for arg in op.args:
        if isinstance(numbers, DenseArrayBase) and arg in maps:
            name = argument_name(f, int(numbers.get_values()[maps.index(arg)]))
    text = f"{where(op)}: {word} out of bounds of {name}"
    return [f"ptr {new_flag(f.module)}", f"ptr {string_constant(f.module, text)}"]


def _search(f: FunctionText, abi: CpuAbi, op: CallOp, moves: Moves, place: int, fine: str, nbytes: str) -> None:
    """Compare what a copy does to an argument's tensor with other accesses.

    A load reads until the phase of its barrier is over, a store writes until the wait for it.
    """
    good, after = f.new_label(), f.new_label()
    f.line(f"br i1 {fine}, label %{good}, label %{after}")
    f.start(good)
    source, to = op.args[moves.reads], op.args[moves.writes]
    if place == moves.reads:
        how, word, differs = READS, "read", "true"
        if moves.barrier is not None:
            how |= COUNTED
            f.line(f"call void @fly_check_counted(ptr %state, i64 %tid, {f.typed(op.args[moves.barrier])})")
        else:
            how |= ISSUED
    elif moves.overwrites:
        f.module.declare("memcmp", "i32", ["ptr", "ptr", "i64"])
        order = f.assign(f"call i32 @memcmp({f.typed(source)}, {f.typed(to)}, i64 {nbytes})")
        how, word, differs = WRITES | ISSUED, "write", f.assign(f"icmp ne i32 {order}, 0")
    else:
        how, word, differs = READS | WRITES | ATOMIC | ISSUED, "atomic update", "true"
    search(f, abi, Access(op, op.args[place], i8, how, word), op.args[place], nbytes, differs)
    f.line(f"br label %{after}")
    f.start(after)
