"""Lines of AMD's assembly that reach memory or multiply matrices: loads, stores, atomics, `v_mfma_*`, `v_wmma_*`.

An access is done when its line is; a wait between them matters to copies into shared memory alone. What goes by the
register M0 (copies of a buffer into shared memory) is refused, and so is a word that is not known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects.builtin import IntegerType, bf16, f16, f32, f64
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, SSAValue

from ...dialects.upstream import llvm
from ...ir.builder import i32, i64
from ...ir.types import bit_width, vector_type
from ...target import has
from ...target.waitcnt import vmcnt_of
from .matrix_rules import matrix_rule
from .memory_rules import BINARY, RULES, await_loads, read_modify_write
from .rule_tools import as_integer, bits_of, elements, vector_of

if TYPE_CHECKING:
    from .assembly import Line, Run

_SPACE = "(global|flat|buffer|ds|s)"
_MOVE = re.compile(rf"{_SPACE}_(load|store|read|write)_(?:(?:dword|b32)|dwordx(\d)|b(\d+)|([usi]?)(byte|short|8|16))")
_ATOMIC = re.compile(rf"{_SPACE}_(?:atomic_)?(pk_)?(add|sub|min|max|smin|smax|umin|umax|and|or|xor|swap|wrxchg)"
                     r"(?:_rtn)?(?:_(?:num_)?(f32|f64|f16|bf16|u32|i32|b32|u64|i64|b64|x2))?")  # fmt: skip
_TRANSPOSED = {"ds_read_b64_tr_b16": (16, 64), "ds_read_b64_tr_b8": (8, 64), "ds_read_b64_tr_b4": (4, 64),
               "ds_read_b96_tr_b6": (6, 96)}  # fmt: skip
_WAIT = "s_waitcnt"
_COUNT = re.compile(r"(vm|lgkm|exp)cnt(?:_sat)?\((\d+|0[xX][0-9a-fA-F]+)\)")
_MATRIX = re.compile(r"v_(mfma|wmma)_\w+?_(\d+)x(\d+)x\d+_?\w+")
_WORDS = {"offset", "offen", "off", "sc0", "sc1", "nt", "glc", "slc", "dlc", "scope", "th"}
_FLOATS: dict[str, Attribute] = {"f32": f32, "f64": f64, "f16": f16, "bf16": bf16}


class Move(NamedTuple):
    """A load or store of so many bits; a signed one of less than 32 is extended by its sign."""

    space: str
    store: bool
    bits: int
    signed: bool = False


def _move(name: str) -> Move | None:
    found = _MOVE.fullmatch(name)
    if found is None:
        return None
    space, verb, dwords, bits, sign, small = found.groups()
    if (verb in ("read", "write")) is not (space == "ds") and space != "ds":
        return None
    if small is not None:
        width = {"byte": 8, "short": 16}.get(small) or int(small)
        return Move(space, verb in ("store", "write"), width, sign in ("s", "i"))
    width = 32 * int(dwords) if dwords else int(bits) if bits else 32
    return Move(space, verb in ("store", "write"), width) if width in (8, 16, 32, 64, 96, 128, 256) else None


def knows(name: str) -> bool:
    """Whether an instruction is one of these."""
    if name == _WAIT or name in _TRANSPOSED or _MATRIX.fullmatch(name):
        return True
    return _move(name) is not None or _atomic(name)


def _atomic(name: str) -> bool:
    found = _ATOMIC.fullmatch(name)
    return found is not None and found[1] != "s" and ("_atomic_" in name) is not (found[1] == "ds")


def do(run: Run, line: Line) -> None:
    """One such line."""
    if _MATRIX.fullmatch(line.name):
        _product(run, line)
        return
    if line.name == _WAIT:
        _wait(run, line)
        return
    for word in line.words:
        if word not in _WORDS:
            raise run.refuse(f"the assembly {line.name!r} with {word!r}")
    if line.name in _TRANSPOSED:
        width, bits = _TRANSPOSED[line.name]
        target, place = _exactly(run, line, 2)
        made = RULES[f"ds.read.tr{width}.b{bits}"](run.r, [_shared(run, line, place)], vector_type(i32, bits // 32))
        run.define(target, cast(SSAValue, made))
        return
    move = _move(line.name)
    if move is None:
        _modify(run, line)
    elif move.store:
        _store(run, line, move)
    else:
        _load(run, line, move)


def _exactly(run: Run, line: Line, count: int) -> list[str]:
    if len(line.operands) != count:
        raise run.refuse(f"the assembly {line.name!r} of {len(line.operands)} operands")
    return line.operands


def _offset(run: Run, line: Line) -> int:
    text = line.words.get("offset", "0")
    try:
        return int(text, 0)
    except ValueError:
        raise run.refuse(f"the offset {text!r}") from None


def _wait(run: Run, line: Line) -> None:
    """`s_waitcnt vmcnt(4) & lgkmcnt(0)`, or the word that this is."""
    arch, parts = run.r.arch, [p for p in (*line.operands, *line.words) if p != "&"]
    if arch is None or not has(arch, "copy_to_lds_b32"):
        return
    if len(parts) == 1 and re.fullmatch(r"\d+|0[xX][0-9a-fA-F]+", parts[0]):
        await_loads(run.r, vmcnt_of(arch, int(parts[0], 0)))
        return
    for part in parts:
        found = _COUNT.fullmatch(part)
        if found is None:
            raise run.refuse(f"the assembly {line.name!r} with {part!r}")
        if found[1] == "vm":
            await_loads(run.r, int(found[2], 0))


# --- places -----------------------------------------------------------------------------------------------------------


def _address(run: Run, place: str) -> SSAValue:
    """A pointer that an operand is: a pointer, or 64 bits."""
    r, value = run.r, run.value(place)
    if isinstance(value.type, LLVMPointerType):
        return r.flat(value)
    if bit_width(value.type) != 64:
        raise run.refuse(f"the address {place!r} of {bit_width(value.type)} bits")
    return r.b.pure(llvm.IntToPtrOp, (bits_of(r, value, i64),), llvm.ptr(), {})


def _global(run: Run, line: Line, places: list[str]) -> SSAValue:
    """An address of 64 bits, or one of 32 behind a base; and the offset of the instruction."""
    r = run.r
    first, *rest = places
    if rest and rest[0] not in ("off", "null"):
        base = _address(run, rest[0])
        step = r.b.cast("extui", run.operand(first, i32), i64)
        return r.at(r.at(base, step), _offset(run, line))
    return r.at(_address(run, first), _offset(run, line))


def _shared(run: Run, line: Line, place: str) -> SSAValue:
    """A place in shared memory: a pointer, or a number that counts from the beginning of that."""
    r, value = run.r, run.value(place)
    if isinstance(value.type, LLVMPointerType):
        return r.at(r.flat(value), _offset(run, line))
    number = bits_of(r, run.fitted(value, i32), i32)
    offset = _offset(run, line)
    return r.pointer_at(r.b.addi(number, r.b.i32(offset)) if offset else number, llvm.ptr(), shared=True)


def _buffer(run: Run, line: Line, places: list[str]) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Descriptor, offset of the lane, offset of the wave."""
    if len(places) != 3:
        raise run.refuse(f"the assembly {line.name!r} of {len(line.operands)} operands")
    lane, rsrc, wave = places
    b = run.r.b
    by = b.i32(_offset(run, line))
    if lane != "off":
        if "offen" not in line.words:
            raise run.refuse(f"the assembly {line.name!r} with an offset in a register and no 'offen'")
        by = b.addi(run.operand(lane, i32), by)
    return run.r.resource(run.value(rsrc)), by, run.operand("0" if wave in ("null", "off") else wave, i32)


def _place(run: Run, line: Line, space: str, places: list[str]) -> SSAValue:
    if space == "ds":
        if len(places) != 1:
            raise run.refuse(f"the assembly {line.name!r} of {len(line.operands)} operands")
        return _shared(run, line, places[0])
    if space == "s":
        base, by = places if len(places) == 2 else (places[0], "0")
        step = run.r.b.cast("extui", run.operand(by, i32), i64)
        return run.r.at(run.r.at(_address(run, base), step), _offset(run, line))
    return _global(run, line, places)


# --- accesses ---------------------------------------------------------------------------------------------------------


def _moved(bits: int) -> Attribute:
    return IntegerType(bits) if bits <= 32 else vector_type(i32, bits // 32)


def _load(run: Run, line: Line, move: Move) -> None:
    r, (target, *places) = run.r, line.operands
    type_ = _moved(move.bits)
    if move.space == "buffer":
        rsrc, offset, soffset = _buffer(run, line, places)
        made = r.buffer_load(rsrc, offset, soffset, type_, 0)
    else:
        with r.instructions(int(move.space != "s")):
            made = r.take(_place(run, line, move.space, places), type_)
    if move.bits < 32:
        made = r.b.cast("extsi" if move.signed else "extui", made, i32)
    run.define(target, made)


def _store(run: Run, line: Line, move: Move) -> None:
    r = run.r
    if len(line.operands) < 2:
        raise run.refuse(f"the assembly {line.name!r} of {len(line.operands)} operands")
    # A buffer's data come first, those of other memory behind the address.
    at = 0 if move.space == "buffer" else 1
    value = as_integer(r, run.value(line.operands[at]))
    if bit_width(value.type) < move.bits:
        raise run.refuse(f"the assembly {line.name!r} of a value of {bit_width(value.type)} bits")
    if bit_width(value.type) > move.bits:
        value = r.b.cast("trunci", value, IntegerType(move.bits))
    value = bits_of(r, value, _moved(move.bits))
    places = [p for i, p in enumerate(line.operands) if i != at]
    if move.space == "buffer":
        r.buffer_store(value, *_buffer(run, line, places), 0)
    else:
        r.put(value, _place(run, line, move.space, places))


def _modify(run: Run, line: Line) -> None:
    """A read-modify-write; with a target, that gets what was there."""
    r = run.r
    found = _ATOMIC.fullmatch(line.name)
    assert found is not None
    space, packed, word, kind = found.groups()
    kind = kind or "u32"
    wide = kind.endswith("64") or kind == "x2"
    elem = _FLOATS.get(kind) or (i64 if wide else i32)
    name = {"swap": "swap", "wrxchg": "swap", "min": "umin", "max": "umax"}.get(word, word)
    if kind in _FLOATS:
        name = {"add": "fadd", "min": "fmin", "max": "fmax"}.get(word, "")
    elif kind in ("i32", "i64") and word in ("min", "max"):
        name = f"s{word}"
    if name not in BINARY:
        raise run.refuse(f"the assembly {line.name!r}")
    operands = list(line.operands)
    without = {"buffer": 4, "ds": 2, "global": 3, "flat": 2}[space]
    target = operands.pop(0) if len(operands) > without else None
    at = 0 if space == "buffer" else 1
    if len(operands) <= at:
        raise run.refuse(f"the assembly {line.name!r} of {len(line.operands)} operands")
    given = run.value(operands.pop(at))
    value = bits_of(r, run.fitted(given, i32 if packed else elem), vector_type(elem, 2) if packed else elem)
    if space == "buffer":
        old = r.buffer_exchange(BINARY[name], value, *_buffer(run, line, operands))
    else:
        place, step = _place(run, line, space, operands), bit_width(elem) // 8
        pairs = enumerate(elements(r, value))
        with r.instructions(1):
            parts = [read_modify_write(r, BINARY[name], r.at(place, step * i), x) for i, x in pairs]
        old = vector_of(r, parts) if packed else parts[0]
    if target is not None:
        run.define(target, old)


# --- matrices ---------------------------------------------------------------------------------------------------------


def _product(run: Run, line: Line) -> None:
    r = run.r
    name = line.name.removeprefix("v_").replace("_", ".")
    rule = matrix_rule(name)
    found = _MATRIX.fullmatch(line.name)
    for word, value in line.words.items():
        if word not in ("cbsz", "abid", "blgp", "neg_lo", "neg_hi") or value.strip("[]0,"):
            raise run.refuse(f"the assembly {line.name!r} with {word!r}")
    if rule is None or found is None:
        raise run.refuse(f"the assembly {line.name!r}")
    target, left, right, acc = _exactly(run, line, 4)
    words = vector_type(i32, int(found[2]) * int(found[3]) // r.warp_size())
    c = r.b.const(0, words) if acc == "0" else run.value(acc)
    made = rule(r, [run.value(left), run.value(right), c], c.type)
    if made is None:
        raise run.refuse(f"the assembly {line.name!r}")
    run.define(target, made)
