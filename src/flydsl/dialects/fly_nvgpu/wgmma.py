"""`wgmma`: a warpgroup of 128 threads multiplies tiles that lie in shared memory.

The operands are views of shared memory. The 64-bit descriptor an instruction takes is read off the view: its address,
its swizzle and the strides of its layout.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, NamedTuple, cast

from xdsl.dialects.builtin import Float16Type, IntegerType, f32, i32, i64
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ... import layout as L
from ...errors import LayoutError
from ...ir import arith
from ...ir.builder import operands_of
from ...ir.enums import AddressSpace
from ...ir.types import dense_ints
from ...layout import Layout, Swizzle
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand
from ..fly.atoms import MmaOpType, parse_mma_types, parse_mnk, print_mma
from ..upstream import llvm
from . import registers as reg
from .accumulation import sums_of
from .effects import Effect
from .mma_sync import element, family, type_name
from .ops import asm

WARPGROUP = Layout(128, 1)
_K_BYTES = 32


class WgmmaData(NamedTuple):
    """Shape, types, where A lies and how both operands are stored."""

    mnk: tuple[int, int, int]
    a: Attribute
    b: Attribute
    acc: Attribute
    a_from: str
    major_a: str
    major_b: str


def problem(data: WgmmaData) -> str | None:
    """Why there is no such instruction; None if there is."""
    m, n, k = data.mnk
    a, b = type_name(data.a), type_name(data.b)
    if a is None or b is None or "f64" in (a, b):
        return f"wgmma has no operands of type {data.a if a is None or a == 'f64' else data.b}"
    kind = family(a)
    # The manual lists both signs for either operand, the assembler takes equal ones only.
    if kind != family(b) or (kind == "int8" and a != b):
        return f"wgmma cannot mix {a} and {b}"
    bits = {"f16": 16, "bf16": 16, "tf32": 32}.get(a, 8)
    if m != 64 or k != _K_BYTES * 8 // bits:
        return f"wgmma of {a} computes 64xNx{_K_BYTES * 8 // bits}, got {m}x{n}x{k}"
    if n % 8 or not 8 <= n <= 256:
        return f"wgmma has n in steps of 8 from 8 to 256, got {n}"
    if kind == "int8" and n > 32 and n % 16:
        return f"wgmma of integers has n in steps of 16 above 32, got {n}"
    accs = (i32,) if kind == "int8" else (f32, Float16Type()) if kind in ("f16", "fp8") else (f32,)
    if data.acc not in accs:
        return f"wgmma of {a} accumulates in {' or '.join(map(str, accs))}, got {data.acc}"
    if bits != 16 and (data.major_a, data.major_b) != ("k", "k"):
        return f"wgmma of {a} reads operands with contiguous k only"
    if data.a_from == "registers" and data.major_a != "k":
        return "wgmma with A from registers has no transposed A"
    return None


@irdl_attr_definition
class WgmmaType(Data[WgmmaData], MmaOpType):
    """`!fly_nvgpu.sm90.wgmma<64x256x16, (bf16, bf16) -> f32, a = smem, majorA = k, majorB = k>`."""

    name = "fly_nvgpu.sm90.wgmma"
    state: ClassVar[tuple[tuple[str, int], ...]] = (("accumulate", 32),)
    """0: the product replaces the accumulators, whatever they hold."""
    asynchronous: ClassVar[bool] = True

    def state_default(self, field: str) -> int:
        return 1

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        return self.data.mnk

    @property
    def elem_types(self) -> tuple[Attribute, Attribute, Attribute]:
        return element(self.data.a), element(self.data.b), self.data.acc

    @property
    def thr_layout(self) -> Layout:
        return WARPGROUP

    def tv_layout(self, operand: int) -> Layout:
        _, n, k = self.data.mnk
        if operand >= 2:
            if n == 8:
                return Layout(((4, 8, 4), (2, 2)), ((128, 1, 16), (64, 8)))
            return Layout(((4, 8, 4), (2, 2, n // 8)), ((128, 1, 16), (64, 8, 512)))
        if operand == 0 and self.data.a_from == "registers":
            p = 32 // reg.bit_width(self.elem_types[0])
            if p == 1:
                return Layout(((4, 8, 4), (2, 2)), ((64, 1, 16), (8, 32 * k)))
            return Layout(((4, 8, 4), (p, 2, 2)), ((64 * p, 1, 16), (64, 8, 32 * k)))
        rows = 64 if operand == 0 else n
        return Layout((128, (rows, k)), (0, (1, rows)))

    def lower(self, low: AtomLowering, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """One instruction; accumulators go in and out as the same registers."""
        accumulate = low.state("accumulate")
        reg.require(low, self, "wgmma")
        data = self.data
        m, n, k = data.mnk
        out: Attribute = data.acc
        half = out == Float16Type()
        count = m * n // 128
        if half:
            acc = reg.words(low, reg.read(low, c, count))
        else:
            acc = [low.load(low.moved(c, o), out) for o in reg.all_offsets(c)]
        regs = len(acc)
        if data.a_from == "registers":
            left = reg.words(low, reg.read(low, a, 64 * k // 128))
            first, letters = ", ".join(f"${2 * regs + i}" for i in range(4)), ["r"] * 4
            first = "{" + first + "}"
        else:
            left = [descriptor(low, a, data.major_a)]
            first, letters = f"${2 * regs}", ["l"]
        right = descriptor(low, b, data.major_b)
        at_b = 2 * regs + len(left)
        letter = "r" if half or isinstance(out, IntegerType) else "f"
        outs = ", ".join(f"${i}" for i in range(regs))
        acc_word = "s32" if letter == "r" and not half else "f16" if half else "f32"
        names = type_name(data.a), type_name(data.b)
        text = (
            f"wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{acc_word}.{names[0]}.{names[1]} "
            f"{{{outs}}}, {first}, ${at_b}, p{self._immediates()};"
        )
        # Whether to add to the accumulators is a predicate; a true one comes from a comparison of constants.
        predicate = "setp.eq.u32 p, 0, 0" if accumulate is None else f"setp.ne.b32 p, ${at_b + 1}, 0"
        text = "{\n.reg .pred p;\n" + predicate + ";\n" + text + "\n}"
        flags = [] if accumulate is None else [accumulate]
        constraints = ",".join([*[f"={letter}"] * regs, *map(str, range(regs)), *letters, "l", *["r"] * len(flags)])
        type_ = acc[0].type
        effects = (Effect.WGMMA, Effect.WGMMA_REGISTERS) if data.a_from == "registers" else (Effect.WGMMA,)
        args = [*acc, *left, right, *flags]
        result = asm(low, text, constraints, args, reg.struct_of(type_, regs), effects=effects)
        parts = reg.fields(low, cast(SSAValue, result), regs)
        if half:
            reg.write(low, reg.cast_vector(low, reg.vector_of(low, parts), Float16Type()), d)
            return
        for offset, part in zip(reg.all_offsets(d), parts, strict=True):
            low.store(part, low.moved(d, offset))

    def emulate(self, low: AtomEmulation, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """The product as the unit of the architecture adds it up, done at once."""
        accumulate = low.state("accumulate")
        addend = c if accumulate is None else self._addend(low, accumulate, c, d)
        signed = type_name(self.data.a) != "u8", type_name(self.data.b) != "u8"
        sums = sums_of(low.arch, str(type_name(self.data.a)), self.data.acc, sync=False)
        low.emulate_mma(self, d, a, b, addend, signed=signed, sums=sums)
        for operand in (a, b):
            low.note_product(operand, 128)

    def _addend(self, low: AtomLowering, accumulate: SSAValue, c: Operand, d: Operand) -> Operand:
        """On the cpu stack: C, or zeros in the place of the result."""
        b, acc = low.b, self.elem_types[2]
        keep = b.cmpi("ne", accumulate, b.i32(0))
        zero = b.const(0 if acc == i32 else 0.0, acc)
        values = [low.load(low.moved(c, o), acc) for o in reg.all_offsets(c)]
        for value, offset in zip(values, reg.all_offsets(d), strict=True):
            low.store(b.select(keep, value, zero), low.moved(d, offset))
        return d

    def _immediates(self) -> str:
        """Signs of the operands, and which are transposed."""
        data = self.data
        if isinstance(data.acc, IntegerType):
            return ""
        if reg.bit_width(self.elem_types[0]) != 16:
            return ", 1, 1"
        tb = int(data.major_b != "k")
        return f", 1, 1, {tb}" if data.a_from == "registers" else f", 1, 1, {int(data.major_a != 'k')}, {tb}"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> WgmmaData:
        with parser.in_angle_brackets():
            mnk = parse_mnk(parser)
            parser.parse_punctuation(",")
            types = parse_mma_types(parser)
            words: list[str] = []
            for key in ("a", "majorA", "majorB"):
                parser.parse_punctuation(",")
                parser.parse_keyword(key)
                parser.parse_punctuation("=")
                words.append(parser.parse_identifier())
            data = WgmmaData(mnk, *types, *words)
            found = problem(data)
            if found is not None:
                parser.raise_error(found)
        return data

    def print_parameter(self, printer: Printer) -> None:
        data = self.data
        printer.print_string("<")
        print_mma(printer, data.mnk, (data.a, data.b, data.acc))
        printer.print_string(f", a = {data.a_from}, majorA = {data.major_a}, majorB = {data.major_b}>")


_ADDRESS = (1 << 18) - 1
"""Bits of an address in shared memory that a descriptor has, in units of 16 bytes."""
_WIDTHS = {3: 128, 2: 64, 1: 32, 0: 0}
_CODES = {128: 1, 64: 2, 32: 3, 0: 0}


def swizzle_width(swizzle: Swizzle, what: str) -> int:
    """Bytes of the hardware's swizzle pattern a pointer swizzle stands for; 0 for none."""
    if swizzle.mask == 0:
        return 0
    if (swizzle.base, swizzle.shift) != (4, 3) or swizzle.mask not in _WIDTHS:
        raise LayoutError(f"{what} needs a swizzle of bytes S<1,4,3>, S<2,4,3> or S<3,4,3>, got {swizzle}")
    return _WIDTHS[swizzle.mask]


@lru_cache(maxsize=256)
def descriptor_fields(layout: Layout, elem_bits: int, width: int, major: str) -> tuple[int, int]:
    """Leading and stride byte offsets of an operand (rows, k) of one instruction; other layouts are refused."""
    e = elem_bits // 8
    rows, depth = (cast(int, L.size(layout[i])) for i in (0, 1))

    def at(r: int, k: int) -> int:
        return cast(int, L.crd2idx((r, k), layout)) * e

    # An offset is what the row adds and what the step along k adds, there and in the pattern.
    down = [at(r, 0) for r in range(rows)]
    along = [at(0, k) for k in range(depth)]

    unit = 16 // e
    if major == "k":
        lbo, sbo = 16 if width else at(0, unit), at(8, 0) if rows > 8 else 0
        pitch = width or 16
        expected_down = [(r // 8) * sbo + (r % 8) * pitch for r in range(rows)]
        expected_along = [k * e if width else (k // unit) * lbo + (k % unit) * e for k in range(depth)]
    elif width:
        span = width // e
        lbo, sbo = at(span, 0) if rows > span else 0, at(0, 8)
        expected_down = [(r * e // width) * lbo + (r * e) % width for r in range(rows)]
        expected_along = [(k // 8) * sbo + (k % 8) * width for k in range(depth)]
    else:
        sbo, lbo = at(unit, 0) if rows > unit else 0, at(0, 8)
        expected_down = [(r // unit) * sbo + (r % unit) * e for r in range(rows)]
        expected_along = [(k // 8) * lbo + (k % 8) * 16 for k in range(depth)]

    if down != expected_down or along != expected_along:
        r, k = next(
            (r, k)
            for r in range(rows)
            for k in range(depth)
            if down[r] + along[k] != expected_down[r] + expected_along[k]
        )
        pattern = f"a {width}-byte swizzle" if width else "no swizzle"
        raise LayoutError(
            f"wgmma cannot read an operand with layout {layout}: with {pattern} and contiguous {major}, element "
            f"({r}, {k}) must be {expected_down[r] + expected_along[k]} bytes from the start, not {down[r] + along[k]}"
        )
    if lbo >> 18 or sbo >> 18:
        raise LayoutError(f"wgmma: the steps {lbo} and {sbo} of layout {layout} do not fit a descriptor")
    return lbo, sbo


def descriptor(low: AtomLowering, at: Operand, major: str) -> SSAValue:
    """The 64-bit description of an operand in shared memory."""
    if at.data.space is not AddressSpace.Shared:
        raise LayoutError(f"wgmma reads its operand from shared memory, got a tensor in {at.data.space}")
    layout = at.data.layout
    assert isinstance(layout, Layout)
    width = swizzle_width(at.data.swizzle, "wgmma")
    lbo, sbo = descriptor_fields(layout, reg.bit_width(at.data.elem), width, major)
    constant = _CODES[width] << 62 | (sbo >> 4) << 32 | (lbo >> 4) << 16
    b = low.b
    address, further = _start(low, reg.pointer_value(low, at, swizzled=False))
    # The sum of both is an address of shared memory, 18 bits; either part alone may be negative.
    units = b.int_binary("shrsi", address, b.i32(4))
    word = b.int_binary("addi", units, b.i32((constant & 0xFFFFFFFF) + (further >> 4)))
    return b.int_binary("ori", b.cast("extui", word, i64), b.const(constant >> 32 << 32, i64))


def _start(low: AtomLowering, pointer: SSAValue) -> tuple[SSAValue, int]:
    """An address of 32 bits that several operands share, and bytes from there: a descriptor counts in units of 16, so
    one addition makes the descriptor of the next step of a sum."""
    b = low.b
    place, further = None, 0
    while True:
        gep = pointer.owner
        if type(gep) is not llvm.GEPOp:
            break
        size, odd = divmod(reg.bit_width(gep.elem_type), 8)
        base, *dynamic = operands_of(gep)
        index, *more = dense_ints(gep.rawConstantIndices)
        if more or odd:
            break
        if dynamic and dynamic[0].type == i32:
            part, count = _apart(low, dynamic[0], max(1, 16 // size))
            part = b.int_binary("muli", part, b.i32(size))
            place = part if place is None else b.int_binary("addi", place, part)
        elif not dynamic and index * size % 16 == 0:
            count = index
        else:
            break
        pointer, further = base, further + count * size
    # In a cluster the upper bits of a shared address are the block's number, which would count as another field.
    address = b.int_binary("andi", b.pure(llvm.PtrToIntOp, (pointer,), i32, {}), b.i32(_ADDRESS))
    return (address if place is None else b.int_binary("addi", address, place)), further


def _apart(low: AtomLowering, place: SSAValue, unit: int) -> tuple[SSAValue, int]:
    """A sum without the constants in it that are multiples of a unit, and these."""
    if type(place.owner) is not arith.AddiOp:
        return place, 0
    left, right = operands_of(place.owner)
    by = low.b.const_of.get(right)
    if by is not None:
        return (place, 0) if int(by) % unit else (left, int(by))
    (first, one), (second, other) = _apart(low, left, unit), _apart(low, right, unit)
    return (low.b.int_binary("addi", first, second), one + other) if one or other else (place, 0)
