"""Calls of AMD's intrinsics as ops of `rocdl`, where the dialect has one: what is readable, and what FlyDSL prints.

The tables of the dialect say which intrinsic an op stands for. Here they are read the other way round; operands an
instruction has as literals must be constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple, cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute, SSAValue

from ..dialects.fly_rocdl.common import mangled
from ..dialects.upstream import llvm
from ..dialects.upstream.rocdl import ROCDL_OPS
from ..dialects.upstream.table_ops import ROWS, Item, Row, TableOp
from ..ir.builder import Builder


class Slot(NamedTuple):
    """Where an argument of an intrinsic goes: an operand by its number, or a property."""

    operand: int = -1
    item: Item | None = None
    """The literal it is."""
    extra: str = ""
    """A flag left out where it is false."""
    fixed: int | None = None
    """What it must be, for arguments the op has no place for."""


def argument_order(name: str, row: Row) -> list[Slot]:
    """Arguments of the intrinsic in order; mostly they are in the order of the op's text."""
    literals = {i.name: Slot(item=i) for i in row.items if i.kind == "number"}
    if row.call:
        return [
            Slot(int(word))
            if word.isdigit()
            else Slot(fixed=int(word[1:]))
            if word.startswith("=")
            else literals.get(word) or Slot(extra=word)
            for word in row.call
        ]
    found: list[Slot] = []
    count = 0
    for item in row.items:
        if item.kind == "operand":
            found.append(Slot(count))
            count += 1
        elif item.kind == "number":
            found.append(Slot(item=item))
    return found


@cache
def _by_intrinsic() -> dict[str, list[str]]:
    """Names of ops by the part of their intrinsic's name that does not depend on types."""
    found: dict[str, list[str]] = {}
    for name in ROCDL_OPS:
        start = ROWS[f"rocdl.{name}"].intrinsic.split("{")[0].rstrip(".")
        if start:
            found.setdefault(start, []).append(name)
    return found


def _candidates(intrinsic: str) -> Iterator[str]:
    """Ops whose intrinsic this may be, the longest name first."""
    known = _by_intrinsic()
    parts = intrinsic.split(".")
    for end in range(len(parts), 1, -1):
        yield from known.get(".".join(parts[:end]), ())


def _suffix(type_: Attribute | None) -> str:
    if isinstance(type_, llvm.LLVMPointerType):
        return f"p{llvm.address_space(type_)}"
    try:
        return "" if type_ is None else mangled(type_)
    except KeyError:
        return ""


def spelled(b: Builder, intrinsic: str, type_: Attribute | None, arguments: Sequence[SSAValue]) -> TableOp | None:
    """The op of `rocdl` for a call, emitted; None where there is none."""
    for name in _candidates(intrinsic):
        row = ROWS[f"rocdl.{name}"]
        slots = argument_order(name, row)
        made = _matched(b, slots, arguments)
        if made is None or (type_ is not None) != bool(row.results):
            continue
        operands, props = made
        full = row.intrinsic.format(*(_suffix(v.type) for v in operands), r=_suffix(type_))
        fixed = row.operand_types()
        if full != intrinsic or any(t is not None and v.type != t for t, v in zip(fixed, operands, strict=True)):
            continue
        return cast(TableOp, b.opn(ROCDL_OPS[name], operands, () if type_ is None else (type_,), props))
    return None


def _matched(
    b: Builder, slots: Sequence[Slot], arguments: Sequence[SSAValue]
) -> tuple[list[SSAValue], dict[str, Attribute]] | None:
    """Operands and properties of an op, or None where the arguments do not fit it."""
    if len(slots) != len(arguments):
        return None
    operands: dict[int, SSAValue] = {}
    props: dict[str, Attribute] = {}
    for slot, value in zip(slots, arguments, strict=True):
        if slot.operand >= 0:
            operands[slot.operand] = value
            continue
        known: object = b.const_of.get(value)
        if known is None or (slot.fixed is not None and known != slot.fixed):
            return None
        if slot.item is not None:
            props[slot.item.name] = IntegerAttr(int(known), cast(IntegerType, slot.item.type))
        elif slot.extra and known:
            props[slot.extra] = IntegerAttr(1, IntegerType(1))
    return [operands[i] for i in range(len(operands))], props
