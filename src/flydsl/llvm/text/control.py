"""Structured control flow as basic blocks: what `convert-scf-to-cf` and `convert-cf-to-llvm` make of it, in order.

A block argument of a loop is a phi whose incoming values are filled in when the loop is closed. What a block knows
(`FunctionText.known`) holds in the blocks it dominates: the head of a loop and what precedes its condition dominate
what follows the loop, the body and the branches of a conditional do not.

Labels are numbered as branches first name them, like those of functions that come as blocks (`llvm_ops`): the text is
the same, whichever way the module came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream import scf
from ...dialects.upstream.llvm.attrs import LOOP_ATTRIBUTE
from ...ir.builder import operands_of
from .function_text import FunctionText, Handler


def _phis(f: FunctionText, args: Sequence[SSAValue]) -> list[tuple[str, int]]:
    """Room for phis; their names and the lines to fill in."""
    made: list[tuple[str, int]] = []
    for arg in args:
        name = f.names[arg] = f.fresh()
        f.lines.append(f"\0{name}")
        made.append((name, len(f.lines) - 1))
    return made


def _fill(f: FunctionText, at: int, name: str, type_: Attribute, incoming: Sequence[tuple[str, str]]) -> None:
    pairs = ", ".join(f"[ {v}, %{label} ]" for v, label in incoming)
    # Stack memory taken at the head of the function since has moved the line down.
    while f.lines[at] != f"\0{name}":
        at += 1
    f.lines[at] = f"  {name} = phi {f.type_text(type_)} {pairs}"


def _values(f: FunctionText, end: Operation | None) -> list[str]:
    return [] if end is None else [f.names[v] for v in operands_of(end)]


def _for(f: FunctionText, op: scf.ForOp) -> None:
    lb, ub, step, *init = operands_of(op)
    body = op.body.block
    iv, *carried = body.args
    head, before, first = f.new_label(), f.label, len(f.lines)
    f.line(f"br label %{head}")
    f.start(head)
    phis = _phis(f, body.args)
    unsigned = "unsignedCmp" in op.properties or "unsignedCmp" in op.attributes
    more = f.icmp("ult" if unsigned else "slt", iv.type, f.names[iv], f.names[ub])
    inside, after = f.new_label(), f.new_label()
    f.line(f"br i1 {more}, label %{inside}, label %{after}")
    f.place(op, first)
    f.start(inside)
    mark = len(f.known)
    end = f.block(body)
    following = f.binary("add", iv.type, f.names[iv], f.names[step])
    latch = f.label
    f.line(f"br label %{head}{loop_metadata(f, op.attributes.get(LOOP_ATTRIBUTE))}")
    for (name, at), arg, start, again in zip(phis, body.args, [lb, *init], [following, *_values(f, end)], strict=True):
        _fill(f, at, name, arg.type, [(f.names[start], before), (again, latch)])
    f.forget(mark)
    f.start(after)
    for result, arg in zip(op.results, carried, strict=True):
        f.names[result] = f.names[arg]


def loop_metadata(f: FunctionText, annotation: Any) -> str:
    """What `#llvm.loop_annotation` asks of a loop, for the branch that closes it."""
    if annotation is None:
        return ""
    hints: list[str] = []
    for name, value in annotation.data.data:
        number = value.value.data
        if name == "count":
            hints.append(f'!{{!"llvm.loop.unroll.count", i32 {number}}}')
        elif name in ("full", "disable") and number:
            hints.append(f'!{{!"llvm.loop.unroll.{name}"}}')
    footer = f.module.footer
    first = 900 + len(footer)
    numbers = [f"!{first + 1 + i}" for i in range(len(hints))]
    footer.append(f"!{first} = distinct !{{{', '.join([f'!{first}', *numbers])}}}")
    footer += [f"{n} = {hint}" for n, hint in zip(numbers, hints, strict=True)]
    return f", !llvm.loop !{first}"


def _if(f: FunctionText, op: scf.IfOp) -> None:
    (cond,) = operands_of(op)
    yes, no, first = f.new_label(), f.new_label(), len(f.lines)
    f.line(f"br i1 {f.names[cond]}, label %{yes}, label %{no}")
    f.place(op, first)
    after = no if op.false_region.first_block is None else ""
    incoming: list[tuple[list[str], str]] = []
    for label, region in ((yes, op.true_region), (no, op.false_region)):
        if region.first_block is None:
            continue
        f.start(label)
        end = f.region(region.block)
        incoming.append((_values(f, end), f.label))
        after = after or f.new_label()
        f.line(f"br label %{after}")
    f.start(after)
    for i, result in enumerate(op.results):
        pairs = ", ".join(f"[ {values[i]}, %{label} ]" for values, label in incoming)
        f.names[result] = f.assign(f"phi {f.type_text(result.type)} {pairs}")


def _while(f: FunctionText, op: scf.WhileOp) -> None:
    before, after = op.before_region.block, op.after_region.block
    head, entry, first = f.new_label(), f.label, len(f.lines)
    f.line(f"br label %{head}")
    f.place(op, first)
    f.start(head)
    phis = _phis(f, before.args)
    condition = f.block(before)
    assert condition is not None
    cond, *passed = operands_of(condition)
    inside, out, first = f.new_label(), f.new_label(), len(f.lines)
    f.line(f"br i1 {f.names[cond]}, label %{inside}, label %{out}")
    f.place(op, first)
    f.start(inside)
    for arg, value in zip(after.args, passed, strict=True):
        f.names[arg] = f.names[value]
    end = f.region(after)
    latch = f.label
    f.line(f"br label %{head}{loop_metadata(f, op.attributes.get(LOOP_ATTRIBUTE))}")
    for (name, at), arg, start, value in zip(phis, before.args, operands_of(op), _values(f, end), strict=True):
        _fill(f, at, name, arg.type, [(f.names[start], entry), (value, latch)])
    f.start(out)
    for result, value in zip(op.results, passed, strict=True):
        f.names[result] = f.names[value]


CONTROL: dict[type[Operation], Handler] = {scf.ForOp: _for, scf.IfOp: _if, scf.WhileOp: _while}
"""What writes loops and conditionals."""
