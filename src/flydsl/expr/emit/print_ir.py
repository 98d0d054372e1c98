"""What `fly.print` becomes in a kernel that prints into memory (`runtime/print_buffer.py` has its form).

The kernel declares that it does; its prints are replaced before the pipeline runs, by ordinary operations. A wave asks
for the room of all its active lanes by one atomic, and each lane writes its record at its place among them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block

from ...dialects.fly.infer import python_value
from ...dialects.fly.ops import OPS, FlyOp
from ...dialects.upstream import gpu
from ...errors import DSLValueError
from ...ir import print_format
from ...ir.builder import operands_of
from ...ir.emitter import UNKNOWN
from ...ir.types import function_type
from ...llvm.stub_abi import SIDE_BUFFERS_ATTRIBUTE
from ...runtime.print_buffer import HEAD_WORDS
from ..atomics import atomic_add
from ..control.control_flow import if_, if_expr
from ..gpu import lane_id
from ..math import ctpop
from ..numeric import Boolean, Float64, Int32, Int64, Numeric
from ..rocdl.instructions import ballot, readfirstlane
from ..tensor import Pointer
from .side_buffers import WORDS, declaration
from .trace import active
from .tracer import Tracer

if TYPE_CHECKING:
    from ...target import GPUTarget

MOST = 512
"""Values of a line."""
_WRITTEN = -1 << 63


class _PrintTracer(Tracer):
    """A tracer whose operations belong to the line of the print they replace."""

    __slots__ = ("place",)

    def __init__(self) -> None:
        super().__init__()
        self.place: Attribute = UNKNOWN

    @property
    def loc(self) -> Attribute:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.place

    @loc.setter
    def loc(self, location: Attribute) -> None:
        pass


class _Frame(NamedTuple):
    """Stands for the function that is compiled."""

    target: GPUTarget


def prints_of(kernel: gpu.FuncOp) -> dict[str, object] | None:
    """What a kernel declares of the memory it prints into, if it does and has none yet."""
    declared = kernel.attributes.get(SIDE_BUFFERS_ATTRIBUTE)
    for text in cast("ArrayAttr[StringAttr]", declared).data if declared is not None else ():
        details: dict[str, object] = json.loads(text.data)
        if details["kind"] == "print" and "formats" not in details:
            return details
    return None


def expand_prints(kernel: gpu.FuncOp, target: GPUTarget) -> None:
    """Replace the prints of a kernel that declares memory for them, and append the argument."""
    entry = kernel.body.block
    argument = entry.insert_arg(WORDS, len(entry.args))
    formats: list[str] = []
    tracer = _PrintTracer()
    tracer.functions += [_Frame(target)]
    token = active.set(tracer)
    try:
        with tracer.open_function(entry):
            for op in [op for op in kernel.walk() if isinstance(op, OPS["print"])]:
                tracer.place = op.location
                _replace(tracer, op, Pointer(argument, Int64), formats)
    finally:
        active.reset(token)
    kernel.properties["function_type"] = function_type([a.type for a in entry.args], ())
    declared = cast("ArrayAttr[StringAttr]", kernel.attributes[SIDE_BUFFERS_ATTRIBUTE]).data
    kernel.attributes[SIDE_BUFFERS_ATTRIBUTE] = ArrayAttr([*declared[:-1], declaration("print", {"formats": formats})])


def _replace(tracer: Tracer, op: FlyOp, words: Pointer, formats: list[str]) -> None:
    values = [Numeric.from_ir_type(v.type)(v) for v in operands_of(op)]
    form = _c_format(python_value(op.properties["format"]), values)
    if form not in formats:
        formats.append(form)
    made = Block()
    with tracer.region(made):
        _record(words, formats.index(form), values)
    around = op.parent
    assert around is not None
    for new in list(made.ops):
        new.detach()
        around.insert_op_before(new, op)
    op.detach()
    op.erase()


def _c_format(text: str, values: Sequence[Numeric]) -> str:
    """A format of `fly.print` as one of C, and the end of the line."""
    pieces, specs = print_format.split(text)
    made = pieces[0].replace("%", "%%")
    for piece, spec, value in zip(pieces[1:], specs, values, strict=True):
        made += print_format.conversion(spec, value.is_float, type(value).width) + piece.replace("%", "%%")
    return made + "\n"


def _record(words: Pointer, form: int, values: Sequence[Numeric]) -> None:
    """Write a format's number and values."""
    if len(values) > MOST:
        raise DSLValueError(f"printf of {len(values)} values in a line; {MOST} are the most, print parts of them")
    head = _WRITTEN | (1 + len(values)) << 32 | form
    size = 1 + len(values)
    here = ballot(Int64, Boolean(True))
    rank = ctpop(here & ((Int64(1) << Int64(lane_id())) - 1))

    def ask() -> Int64:
        return cast(Int64, atomic_add(words, ctpop(here) * size))

    asked = cast(Int64, if_expr(rank == 0, ask, lambda: Int64(0)))
    at = _of_first_lane(asked) + rank * size

    def write() -> None:
        record = words + (at + HEAD_WORDS)
        record[0] = Int64(head)
        for i, value in enumerate(values):
            record[1 + i] = Float64(value).bitcast(Int64) if value.is_float else Int64(value)

    if_(at + size <= words[1], write, None, ())


def _of_first_lane(value: Int64) -> Int64:
    low, high = (readfirstlane(Int32, Int32(value >> shift)) for shift in (0, 32))
    return Int64(high) << 32 | (Int64(low) & 0xFFFFFFFF)
