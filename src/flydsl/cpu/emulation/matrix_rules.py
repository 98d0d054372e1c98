"""Matrix instructions by name, through the atoms that stand for them: `D = A * B + C` of a wave."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import IntegerType, bf16, f16, f32, f64, i8
from xdsl.ir import Attribute, SSAValue

from ... import layout as L
from ...dialects.fly.atom_lowering import AtomLowering, Operand
from ...dialects.fly.atoms import MmaOpType
from ...dialects.fly_rocdl.cdna3 import MfmaType
from ...dialects.fly_rocdl.scaled import FORMATS, MfmaScaleType, WmmaScaleType
from ...dialects.fly_rocdl.wmma import type_for
from ...errors import DSLValueError
from ...ir.builder import i32
from ...ir.types import bit_width, vector_type
from ...lowering import value_operands
from ...lowering.expand.small_floats import stored_type
from .rule_tools import Arg, Rule, bits_of
from .small_formats import format_of

if TYPE_CHECKING:
    from .instructions import EmulatedInstructions

_TYPES: dict[str, Attribute] = {
    "f32": f32, "xf32": f32, "f16": f16, "bf16": bf16, "f64": f64, "i8": i8, "iu8": i8, "iu4": IntegerType(4),
    "i32": i32,
}  # fmt: skip
_BY_CODE = {code: elem for elem, code in FORMATS.items()}
_MFMA = re.compile(r"mfma\.(f32|i32|f64)\.(\d+)x(\d+)x(\d+)\.?(xf32|f32|f16|bf16|i8|f64|fp8|bf8)(?:\.(1k|fp8|bf8))?")
_WMMA = re.compile(r"wmma\.(f32|f16|bf16|i32)\.16x16x(\d+)\.(f32|f16|bf16|iu8|iu4|fp8|bf8)(?:[._](fp8|bf8))?")
_SCALED = re.compile(r"(mfma|wmma)\.(scale|scale16)\.f32\.(\d+)x(\d+)x(\d+)\.(?:f8f6f4|f4)")


def product(
    r: EmulatedInstructions,
    atom: MmaOpType,
    values: Sequence[SSAValue],
    type_: Attribute | None,
    state: dict[str, SSAValue] | None = None,
) -> SSAValue:
    """What an atom makes of operands in registers, whose bits are its elements."""
    counts = [cast(int, L.size(atom.tv_layout(i)[1])) for i in range(3)]
    given = [
        _as_elements(r, value, elem, count) for value, elem, count in zip(values, atom.elem_types, counts, strict=True)
    ]
    out, count = atom.elem_types[2], counts[2]
    d = value_operands.operand(vector_type(out, count) if count > 1 else out, None)
    r.call_with_state(atom, state or {}, d, *given)
    return bits_of(r, value_operands.value_of(d, r.b), cast(Attribute, type_))


def _as_elements(r: EmulatedInstructions, value: SSAValue, elem: Attribute, count: int) -> Operand:
    """An operand in registers, whose bits are elements of this type; what it holds beyond them does not count."""
    total = bit_width(elem) * count
    held = bit_width(value.type)
    if held < total:
        raise DSLValueError(f"an operand of {value.type} where {count} elements of {elem} are expected")
    if held > total:
        wide = bits_of(r, value, IntegerType(held))
        value = r.b.cast("trunci", wide, IntegerType(total))
    type_ = vector_type(elem, count) if count > 1 else elem
    return value_operands.operand(type_, bits_of(r, value, stored_type(type_)))


def _mfma(name: str) -> Rule | None:
    found = _MFMA.fullmatch(name)
    if found is None:
        return None
    acc, m, n, k, first, second = found.groups()
    words = (first, second if second in ("fp8", "bf8") else first)

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue | None:
        if any(r.number(a) for a in args[3:]):
            return None
        a, b = (_TYPES.get(w) or format_of(r, w) for w in words)
        atom = MfmaType.make(int(m), int(n), int(k), a, b, _TYPES[acc])
        return product(r, atom, [r.word(x) for x in args[:3]], type_)

    return rule


def _wmma(name: str) -> Rule | None:
    found = _WMMA.fullmatch(name)
    if found is None:
        return None
    acc, k, first, second = found.groups()
    words = (first, second or first)

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue | None:
        family = None if r.arch is None else type_for(r.arch)
        if family is None:
            return None
        a, b = (_TYPES.get(w) or format_of(r, w) for w in words)
        order = _operands(r, args, acc == "i32", words[0] in ("fp8", "bf8"))
        if order is None:
            return None
        values, (sign_a, sign_b, clamp) = order
        atom = family.make(16, 16, int(k), a, b, _TYPES[acc], sign_a, sign_b, clamp)
        out = vector_type(_TYPES[acc], 8)
        # Registers hold rows in order; the layout of 16-bit accumulators counts them otherwise.
        values[2] = atom.rows(cast(AtomLowering, r), bits_of(r, values[2], out), inverse=True)
        return bits_of(
            r, atom.rows(cast(AtomLowering, r), product(r, atom, values, out), inverse=False), cast(Attribute, type_)
        )

    return rule


def _operands(
    r: EmulatedInstructions, args: Sequence[Arg], integer: bool, small: bool
) -> tuple[list[SSAValue], tuple[bool, bool, bool]] | None:
    """A, B and C, and the flags of integers; None where other modifiers are set."""
    rest: list[Arg] = []
    if integer:
        sign_a, a, sign_b, b, c, *rest = args
        flags = (bool(r.number(sign_a)), bool(r.number(sign_b)), bool(r.number(rest[-1])))
        return [r.word(x) for x in (a, b, c)], flags
    if len(args) in (3, 4):  # the last of four chooses a half of the registers
        a, b, c, *rest = args
    elif small:
        a, b, modifier, c, *_ = args
        rest = [modifier]
    else:
        minus_a, a, minus_b, b, modifier, c, *_ = args
        rest = [minus_a, minus_b, modifier]
    return None if any(r.number(x) for x in rest) else ([r.word(x) for x in (a, b, c)], (False, False, False))


def _scaled(name: str) -> Rule | None:
    found = _SCALED.fullmatch(name)
    if found is None:
        return None
    family, kind, *extents = found.groups()
    m, n, k = (int(x) for x in extents)

    def mfma(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        a, b, c, code_a, code_b, sel_a, scale_a, sel_b, scale_b = args
        left, right = (_BY_CODE[r.number(x)] for x in (code_a, code_b))
        atom = MfmaScaleType.make(m, n, k, left, right, f32, r.number(sel_a), r.number(sel_b))
        state = {"scale_a": r.word(scale_a), "scale_b": r.word(scale_b)}
        return product(r, atom, [r.word(x) for x in (a, b, c)], type_, state)

    def wmma(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue | None:
        left = list(args)
        if m == 16:
            code_a, a, code_b, b = left[:4]
            formats, left = (_BY_CODE[r.number(code_a)], _BY_CODE[r.number(code_b)]), left[4:]
        else:
            a, b, left = left[0], left[1], left[2:]
            formats = (_BY_CODE[4], _BY_CODE[4])
        modifier, c, sel_a, form_a, scale_a, sel_b, form_b, scale_b, *_ = left
        if any(r.number(x) for x in (modifier, form_a, form_b)):
            return None
        block = 16 if kind == "scale16" else 32
        sels = r.number(sel_a), r.number(sel_b)
        atom = WmmaScaleType.make(m, n, k, *formats, f32, *sels, block_size=block)
        state = {"scale_a": r.word(scale_a), "scale_b": r.word(scale_b)}
        return product(r, atom, [r.word(x) for x in (a, b, c)], type_, state)

    return mfma if family == "mfma" else wmma


def matrix_rule(name: str) -> Rule | None:
    """The rule of a matrix instruction."""
    return _mfma(name) or _wmma(name) or _scaled(name)
