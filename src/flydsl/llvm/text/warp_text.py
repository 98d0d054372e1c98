"""Moving values between lanes, as text: the arithmetic of shuffles, and values of any width in 32-bit words."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, VectorType
from xdsl.ir import Attribute, SSAValue

from ...dialects.upstream import gpu
from ...ir import arith
from ...ir.builder import elem_of
from ...ir.types import bit_width
from .translate import FunctionText, type_text


def constant_of(value: SSAValue) -> int | None:
    """The number an integer constant stands for."""
    if isinstance(value.owner, arith.ConstantOp):
        attr = value.owner.properties["value"]
        if isinstance(attr, IntegerAttr):
            return cast(IntegerAttr, attr).value.data
    return None


def total_bits(type_: Attribute) -> int:
    """Bits of a scalar or vector."""
    count = cast(VectorType, type_).get_shape()[0] if isinstance(type_, VectorType) else 1
    return bit_width(elem_of(cast(Attribute, type_))) * count


def source_lane(f: FunctionText, op: gpu.ShuffleOp, lane: str) -> tuple[str, str]:
    """The lane a shuffle reads, and whether it is in the reader's segment; out of it a lane reads itself."""
    by, width = f.names[op.offset], f.names[op.width]
    mask = f.assign(f"sub i32 0, {width}")
    segment = f.assign(f"and i32 {lane}, {mask}")
    mode = op.mode.data
    if mode == "xor":
        wanted = f.assign(f"xor i32 {lane}, {by}")
    elif mode == "idx":
        wanted = by
    else:
        wanted = f.assign(f"{'sub' if mode == 'up' else 'add'} i32 {lane}, {by}")
    theirs = f.assign(f"and i32 {wanted}, {mask}")
    valid = f.assign(f"icmp eq i32 {theirs}, {segment}")
    return f.assign(f"select i1 {valid}, i32 {wanted}, i32 {lane}"), valid


def by_words(f: FunctionText, value: SSAValue, move: Callable[[str], str]) -> str:
    """Apply `move`, which takes and gives an i32, to every 32 bits of a value."""
    type_ = value.type
    t, bits = type_text(type_), total_bits(type_)
    name = f.names[value]
    whole = f"i{bits}"
    number = name if t == whole else f.assign(f"bitcast {t} {name} to {whole}")
    padded = -(-bits // 32) * 32
    if padded != bits:
        number = f.assign(f"zext {whole} {number} to i{padded}")
    if padded == 32:
        moved = move(number)
    else:
        vector = f"<{padded // 32} x i32>"
        words = f.assign(f"bitcast i{padded} {number} to {vector}")
        made = "poison"
        for i in range(padded // 32):
            word = f.assign(f"extractelement {vector} {words}, i64 {i}")
            made = f.assign(f"insertelement {vector} {made}, i32 {move(word)}, i64 {i}")
        moved = f.assign(f"bitcast {vector} {made} to i{padded}")
    if padded != bits:
        moved = f.assign(f"trunc i{padded} {moved} to {whole}")
    return moved if t == whole else f.assign(f"bitcast {whole} {moved} to {t}")
