"""Plain loads and stores of global memory that say how the caches treat them.

`ld.global` and `st.global` with their qualifiers: read-only data, cache operators, eviction priorities of L1, prefetch
sizes and policies of L2. All of it is advice but for `read_only`, a promise that nobody writes the data while the
kernel runs. So every other target takes them as well: the cpu stack as a plain access, AMD as one that says `invariant`
and `nontemporal` where the advice means that, older NVIDIA GPUs without the words they do not know.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import IntegerType, UnitAttr, i16, i32, i64
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...errors import DSLCompileError
from ...ir.builder import int_attr
from ...ir.enums import AddressSpace
from ...ir.types import bit_width, vector_type
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand
from ..fly.atoms import CopyOpType, load_values, store_values
from ..fly.infer import storage_type
from ..upstream import llvm
from . import registers as reg
from .ops import asm

BITS = (8, 16, 32, 64, 128)
LOAD_OPERATORS = ("ca", "cg", "cs", "lu")
READ_ONLY_OPERATORS = ("ca", "cg", "cs")
STORE_OPERATORS = ("wb", "cg", "cs", "wt")
L1_PRIORITIES = ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
PREFETCH_BYTES = (64, 128, 256)
L2_POLICIES = ("normal", "unchanged", "first", "last")


class Access(NamedTuple):
    """Width in bits, and what is said of the access; None where nothing is."""

    bits: int
    read_only: bool = False
    cache: str | None = None
    l1: str | None = None
    l2_prefetch: int | None = None
    evict: str | None = None

    @property
    def streams(self) -> bool:
        """Whether the data is not used again soon."""
        return self.cache in ("cs", "lu") or self.l1 in ("evict_first", "no_allocate") or self.evict == "first"

    @property
    def is_plain(self) -> bool:
        """Whether nothing is said that LLVM's own loads and stores cannot say."""
        return self[2:] == (None,) * 4


def _one_of(what: str, value: object, allowed: tuple[object, ...]) -> str | None:
    if value is None or (type(value) is type(allowed[0]) and value in allowed):
        return None
    listed = ", ".join(repr(x) for x in allowed)
    return f"{what} is one of {listed}, got {value!r}"


def problem(access: Access, *, load: bool) -> str | None:
    """Why there is no such instruction; None if there is."""
    name = "LoadGlobal" if load else "StoreGlobal"
    if type(access.bits) is not int or access.bits not in BITS:
        return f"{name} moves 8, 16, 32, 64 or 128 bits, got {access.bits!r}"
    if access.cache == "cv":
        return f"{name}: data that others write meanwhile is read with fx.generic_load(..., volatile=True)"
    operators = STORE_OPERATORS if not load else READ_ONLY_OPERATORS if access.read_only else LOAD_OPERATORS
    kind = "cache of read-only data" if load and access.read_only else "cache"
    found = (
        _one_of(f"{name}: {kind}", access.cache, operators)
        or _one_of(f"{name}: l1", access.l1, L1_PRIORITIES)
        or _one_of(f"{name}: l2_prefetch", access.l2_prefetch, PREFETCH_BYTES)
        or _one_of(f"{name}: evict", access.evict, L2_POLICIES)
    )
    if found is None and access.cache is not None and access.l1 is not None:
        return f"{name}: an access has a cache operator ({access.cache!r}) or an L1 priority ({access.l1!r}), not both"
    return found


def instruction(access: Access, *, load: bool) -> str:
    """`ld.global.nc.L1::no_allocate.L2::128B`: the access without its type.

    >>> instruction(Access(128, True, None, "no_allocate", 128), load=True)
    'ld.global.nc.L1::no_allocate.L2::128B'
    >>> instruction(Access(32, cache="cs", evict="first"), load=False)
    'st.global.cs.L2::cache_hint'
    """
    parts = ["ld" if load else "st", "global", access.cache, "nc" if access.read_only else None]
    parts += [f"L1::{access.l1}" if access.l1 else None, "L2::cache_hint" if access.evict else None]
    parts.append(f"L2::{access.l2_prefetch}B" if access.l2_prefetch else None)
    return ".".join(p for p in parts if p is not None)


class _Words(NamedTuple):
    """The registers of an access: how many of which type, with the constraint letter and the suffix of PTX."""

    number: int
    type: Attribute
    letter: str
    suffix: str


def _words(bits: int, elem: Attribute) -> _Words:
    if bits <= 16:
        return _Words(1, i16, "h", f"b{bits}")
    if bit_width(elem) == 64:
        return _Words(bits // 64, i64, "l", "b64" if bits == 64 else "v2.b64")
    count = bits // 32
    return _Words(count, i32, "r", "b32" if count == 1 else f"v{count}.b32")


def _value_type(bits: int, elem: Attribute) -> Attribute:
    count = max(bits // bit_width(elem), 1)
    return storage_type(elem if count == 1 else vector_type(elem, count))


def _bitcast(low: AtomLowering, value: SSAValue, type_: Attribute) -> SSAValue:
    return value if value.type == type_ else low.b.pure(xllvm.BitcastOp, (value,), type_, {})


def _understood(low: AtomLowering, access: Access) -> Access:
    """The access without the advice that an older NVIDIA GPU has no words for."""
    if not low.has("nvidia") or low.has("l2_policy"):
        return access
    if not low.has("l2_prefetch_256" if access.l2_prefetch == 256 else "l2_prefetch"):
        access = access._replace(l2_prefetch=None)
    return access._replace(evict=None, l1=access.l1 if low.has("l1_priority") else None)


def _policy(low: AtomLowering, access: Access) -> list[SSAValue]:
    """The policy of L2 as a register."""
    if access.evict is None:
        return []
    text = f"createpolicy.fractional.L2::evict_{access.evict}.b64 $0, 1.0;"
    return [cast(SSAValue, asm(low, text, "=l", [], i64, memory="none"))]


def _load_ptx(low: AtomLowering, access: Access, at: SSAValue, elem: Attribute) -> SSAValue:
    words, policy = _words(access.bits, elem), _policy(low, access)
    count = words.number
    names = ", ".join(f"${i}" for i in range(count))
    target = f"{{{names}}}" if count > 1 else names
    more = f", ${count + 1}" if policy else ""
    text = f"{instruction(access, load=True)}.{words.suffix} {target}, [${count}]{more};"
    # The clobber keeps machine passes from moving it to where it was not executed; LLVM IR knows better what it does.
    constraints = ",".join([*[f"={words.letter}"] * count, "l", *["l"] * len(policy), "~{memory}"])
    memory = "none" if access.read_only else "read"
    result = asm(low, text, constraints, [at, *policy], reg.struct_of(words.type, count), memory=memory)
    values = reg.fields(low, cast(SSAValue, result), count)
    if access.bits == 8:
        values = [low.b.cast("trunci", values[0], IntegerType(8))]
    whole = values[0] if count == 1 else reg.vector_of(low, values)
    return _bitcast(low, whole, _value_type(access.bits, elem))


def _store_ptx(low: AtomLowering, access: Access, value: SSAValue, at: SSAValue, elem: Attribute) -> None:
    words, policy = _words(access.bits, elem), _policy(low, access)
    count = words.number
    type_ = words.type if count == 1 else vector_type(words.type, count)
    if access.bits == 8:
        registers = [low.b.cast("extui", _bitcast(low, value, IntegerType(8)), i16)]
    else:
        packed = _bitcast(low, value, type_)
        registers = [packed] if count == 1 else reg.scalars(low, packed)
    names = ", ".join(f"${i + 1}" for i in range(count))
    source = f"{{{names}}}" if count > 1 else names
    more = f", ${count + 1}" if policy else ""
    text = f"{instruction(access, load=False)}.{words.suffix} [$0], {source}{more};"
    constraints = ",".join(["l", *[words.letter] * count, *["l"] * len(policy), "~{memory}"])
    asm(low, text, constraints, [at, *registers, *policy], None, memory="write")


def _qualifiers(access: Access, align: int) -> dict[str, Attribute]:
    """What LLVM's own loads and stores say of it."""
    props: dict[str, Attribute] = {"alignment": int_attr(align, i64), "ordering": int_attr(0, i64)}
    if access.read_only:
        props["invariant"] = UnitAttr()
    if access.streams:
        props["nontemporal"] = UnitAttr()
    return props


_Read = Callable[[Operand, Attribute, int | None], SSAValue]
_Write = Callable[[SSAValue, Operand, int | None], None]


class _GlobalAccessType(Data[Access], CopyOpType):
    """What both directions share."""

    is_load: ClassVar[bool]

    @property
    def bits(self) -> int:
        return self.data.bits

    def lower(self, low: AtomLowering, src: Operand, dst: Operand) -> None:
        """One instruction on the side of global memory; the other side is registers or shared memory."""
        self._move(low, src, dst, partial(self._read, low), partial(self._write, low))

    def emulate(self, low: AtomEmulation, src: Operand, dst: Operand) -> None:
        """A load and a store; advice is nothing to the cpu."""
        self._move(low, src, dst, low.load, low.store)

    def _move(self, low: AtomLowering, src: Operand, dst: Operand, read: _Read, write: _Write) -> None:
        memory, other = (src, dst) if self.is_load else (dst, src)
        if memory.data.space is not AddressSpace.Global:
            verb = "reads" if self.is_load else "writes"
            raise DSLCompileError(f"{self} {verb} global memory, got {src.data.space} -> {dst.data.space}")
        elem, access = memory.data.elem, self.data
        type_ = _value_type(access.bits, elem)
        natural = access.bits // 8
        align = max(memory.data.align, natural)  # the atom names an instruction, which has no other form
        at_rest = low.wants_alignment and other.data.space is not AddressSpace.Register
        other_align = max(other.data.align, natural) if at_rest else None
        if self.is_load:
            store_values(low, read(memory, type_, align), other, other_align)
        else:
            write(load_values(low, other, type_, other_align), memory, align)

    def _read(self, low: AtomLowering, at: Operand, type_: Attribute, align: int | None) -> SSAValue:
        access = _understood(low, self.data)
        pointer = reg.pointer_value(low, at)
        if low.has("nvidia") and not access.is_plain:
            return _load_ptx(low, access, pointer, at.data.elem)
        return low.b.op1(llvm.LoadOp, (pointer,), type_, _qualifiers(access, cast(int, align)))

    def _write(self, low: AtomLowering, value: SSAValue, at: Operand, align: int | None) -> None:
        access = _understood(low, self.data)
        pointer = reg.pointer_value(low, at)
        if low.has("nvidia") and not access.is_plain:
            _store_ptx(low, access, value, pointer, at.data.elem)
        else:
            low.b.opn(llvm.StoreOp, (value, pointer), (), _qualifiers(access, cast(int, align)))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Access:
        with parser.in_angle_brackets():
            access = Access(parser.parse_integer(allow_negative=False))
            while parser.parse_optional_punctuation(",") is not None:
                word = parser.parse_identifier()
                if word == "read_only" and cls.is_load:
                    access = access._replace(read_only=True)
                    continue
                known = ("cache", "l1", *(("l2_prefetch",) if cls.is_load else ()), "evict")
                if word not in known:
                    parser.raise_error(f"expected one of {', '.join(known)}, got '{word}'")
                parser.parse_punctuation("=")
                value = parser.parse_integer() if word == "l2_prefetch" else parser.parse_identifier()
                access = access._replace(**{word: value})
            found = problem(access, load=cls.is_load)
            if found is not None:
                parser.raise_error(found)
        return access

    def print_parameter(self, printer: Printer) -> None:
        access = self.data
        words = [str(access.bits), *(["read_only"] if access.read_only else [])]
        for name, value in access._asdict().items():
            if name not in ("bits", "read_only") and value is not None:
                words.append(f"{name} = {value}")
        printer.print_string(f"<{', '.join(words)}>")


@irdl_attr_definition
class LoadGlobalType(_GlobalAccessType):
    """`!fly_nvgpu.load_global<128, read_only, l1 = no_allocate, l2_prefetch = 256, evict = first>`."""

    name = "fly_nvgpu.load_global"
    is_load = True


@irdl_attr_definition
class StoreGlobalType(_GlobalAccessType):
    """`!fly_nvgpu.store_global<128, cache = cs, evict = first>`."""

    name = "fly_nvgpu.store_global"
    is_load = False
