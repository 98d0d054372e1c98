"""The host function as native code: one pointer in, a status out.

`i32 NAME(ptr slots)`: slot 0 is the table of kernel handles, slot 1 a record of the last launch, then the
addresses of the arguments' storages. Geometry is computed here, and the driver's launch entry is called directly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from ...dialects.upstream import gpu, llvm
from ...lowering.rules.func_rules import PRINTS
from ...lowering.rules.math_rules import INTRINSICS, math_rules
from ..stub_abi import (
    BAD_GEOMETRY,
    CLUSTER_ATTRIBUTE,
    EXTENDED_LAUNCH_SYMBOL,
    LAUNCH_SYMBOL,
    SIDE_BUFFER_SYMBOL,
    SIDE_BUFFERS_ATTRIBUTE,
    SIDE_BUFFERS_DONE_SYMBOL,
)
from .function_text import Abi, FunctionText, Handler
from .functions import declaration, global_line
from .host_text import HostText
from .module_text import ModuleText
from .safe_division import safe_divisor
from .structured import table

if TYPE_CHECKING:
    from ...dialects.upstream.llvm.function import FuncOp
    from .llvm_ops import LlvmFunctionText

_DIMENSIONS = ("gx", "gy", "gz", "bx", "by", "bz", "smem")
_WIDE = ", ".join(f"i64 %{d}" for d in _DIMENSIONS)
_NARROW = ", ".join(f"i32 %{d}.32" for d in _DIMENSIONS)

_PLAIN = f"""
declare i32 @{LAUNCH_SYMBOL}(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
"""
_PLAIN_CALL = f"  %status = call i32 @{LAUNCH_SYMBOL}(ptr %fn, {_NARROW}, ptr %stream, ptr %params, ptr null)"

_EXTENDED = f"""
%attribute = type {{ i32, i32, [16 x i32] }}
%config = type {{ i32, i32, i32, i32, i32, i32, i32, ptr, ptr, i32 }}
declare i32 @{EXTENDED_LAUNCH_SYMBOL}(ptr, ptr, ptr, ptr)
"""
_SIDE_BUFFERS = f"""
declare i32 @{SIDE_BUFFER_SYMBOL}(i32, i32, i64, i64, i64, i64, i64, i64, ptr, ptr)
declare i32 @{SIDE_BUFFERS_DONE_SYMBOL}(i32, ptr)
"""
ATTRIBUTES = {"fly.cooperative": 2, "fly.pdl": 6}
"""Attributes of a launch that are on or off, and their numbers for the drivers."""
_ON = ("1",)
_CLUSTER = 4
"""The number of the extents of a cluster."""


class _Extended(NamedTuple):
    """A launch with attributes: its name in the stub, and its text."""

    name: str
    text: str


def _extended(given: Mapping[int, Sequence[str]]) -> _Extended:
    name = "checked_launch_" + "_".join(
        "x".join((str(n), *(words if words != _ON else ()))) for n, words in given.items()
    )
    entries = ", ".join(f"%attribute {{ i32 {n}, i32 0, {_words(words)} }}" for n, words in given.items())
    table = f"@{name}.attributes = private constant [{len(given)} x %attribute] [{entries}], align 8\n"
    values = [*(f"i32 %{d}.32" for d in _DIMENSIONS), "ptr %stream", f"ptr @{name}.attributes", f"i32 {len(given)}"]
    lines = ["  %config = alloca %config, align 8"]
    for i, value in enumerate(values):
        lines.append(f"  %field{i} = getelementptr %config, ptr %config, i32 0, i32 {i}")
        lines.append(f"  store {value}, ptr %field{i}")
    lines.append(f"  %status = call i32 @{EXTENDED_LAUNCH_SYMBOL}(ptr %config, ptr %fn, ptr %params, ptr null)")
    return _Extended(name, table + _checked_launch(name, "\n".join(lines)))


def _words(words: Sequence[str]) -> str:
    """The value of an attribute."""
    return f"[16 x i32] [{', '.join(f'i32 {word}' for word in (*words, *('0',) * (16 - len(words))))}]"


def _checked_launch(name: str, call: str) -> str:
    return f"""
; A grid without blocks launches nothing. The record of slot 1 holds the last launch, for whoever reports a failure.
define internal i32 @{name}(ptr %slots, i32 %index, {_WIDE}, ptr %stream, ptr %params) {{
entry:
  %record.at = getelementptr ptr, ptr %slots, i32 1
  %record = load ptr, ptr %record.at
  store i32 %index, ptr %record
  %r1 = getelementptr i64, ptr %record, i32 1
  store i64 %gx, ptr %r1
  %r2 = getelementptr i64, ptr %record, i32 2
  store i64 %gy, ptr %r2
  %r3 = getelementptr i64, ptr %record, i32 3
  store i64 %gz, ptr %r3
  %r4 = getelementptr i64, ptr %record, i32 4
  store i64 %bx, ptr %r4
  %r5 = getelementptr i64, ptr %record, i32 5
  store i64 %by, ptr %r5
  %r6 = getelementptr i64, ptr %record, i32 6
  store i64 %bz, ptr %r6
  %r7 = getelementptr i64, ptr %record, i32 7
  store i64 %smem, ptr %r7
  %gxy.or = or i64 %gx, %gy
  %g.or = or i64 %gxy.or, %gz
  %bxy.or = or i64 %bx, %by
  %b.or = or i64 %bxy.or, %bz
  %gb.or = or i64 %g.or, %b.or
  %all.or = or i64 %gb.or, %smem
  %bad = icmp ugt i64 %all.or, 2147483647
  br i1 %bad, label %failed, label %checked
checked:
  %zx = icmp eq i64 %gx, 0
  %zy = icmp eq i64 %gy, 0
  %zz = icmp eq i64 %gz, 0
  %zxy = or i1 %zx, %zy
  %empty = or i1 %zxy, %zz
  br i1 %empty, label %success, label %go
go:
  %table = load ptr, ptr %slots
  %at = getelementptr ptr, ptr %table, i32 %index
  %fn = load ptr, ptr %at
  %gx.32 = trunc i64 %gx to i32
  %gy.32 = trunc i64 %gy to i32
  %gz.32 = trunc i64 %gz to i32
  %bx.32 = trunc i64 %bx to i32
  %by.32 = trunc i64 %by to i32
  %bz.32 = trunc i64 %bz to i32
  %smem.32 = trunc i64 %smem to i32
{call}
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %success, label %failed
failed:
  %code = phi i32 [ {BAD_GEOMETRY}, %entry ], [ %status, %go ]
  ret i32 %code
success:
  ret i32 0
}}
"""


def _launch(f: FunctionText, op: gpu.LaunchFuncOp) -> None:
    f.abi.launch(f, op)


class HostAbi(Abi):
    """Host code: launches call `checked_launch` and leave on failure."""

    rules = table({**math_rules(INTRINSICS), **PRINTS, gpu.LaunchFuncOp: cast(Handler, _launch)})

    def __init__(self, kernels: Sequence[str], stream: SSAValue | None):
        super().__init__()
        self.kernels = list(kernels)
        self.stream = stream
        self.extended: dict[str, str] = {}
        """Text of the launch functions with attributes, by name."""
        self.side_buffers = False
        """Whether a launch brings memory of its own."""

    def divisor(self, f: FunctionText, op: Operation, signed: bool) -> str:
        return safe_divisor(f, op, signed)[0]

    def launch(self, f: FunctionText, op: gpu.LaunchFuncOp) -> None:
        parts = op.parts
        if not all(f.names[v].isdigit() for v in parts.cluster):
            raise NotImplementedError("a cluster must have constant extents")  # they are an attribute of the kernel
        name = op.kernel.nested_references.data[-1].data
        args = parts.arguments
        extra = len(cast(ArrayAttr[StringAttr], op.attributes.get(SIDE_BUFFERS_ATTRIBUTE, ArrayAttr(()))).data)
        params = "null"
        if args or extra:
            # Taken at the function's head, so a launch in a loop does not grow the stack.
            params = f.take(f"[{len(args) + extra} x ptr], align 8")
            for i, arg in enumerate(args):
                if getattr(arg.type, "by_value", False):
                    cell = f.names[arg]  # already the address of what the kernel gets
                else:
                    cell = f.take(f"{f.type_text(arg.type)}, align 16")
                    f.line(f"store {f.typed(arg)}, ptr {cell}")
                at = f.pure(f"getelementptr ptr, ptr {params}, i32 {i}")
                f.line(f"store ptr {cell}, ptr {at}")
        dims = [_wide(f, v) for v in (*parts.grid, *parts.block)]
        smem = "0" if parts.shared is None else _wide(f, parts.shared)
        given = parts.stream if parts.stream is not None else next(iter(parts.dependencies), self.stream)
        stream = f.names[given] if given is not None else "null"
        geometry = ", ".join(f"i64 {d}" for d in (*dims, smem))
        index = self.kernels.index(name)
        for which in range(extra):
            cell = f.take("ptr, align 16")
            self._leave_on_failure(
                f,
                f"call i32 @{SIDE_BUFFER_SYMBOL}(i32 {index}, i32 {which}, "
                f"{', '.join(f'i64 {d}' for d in dims)}, ptr {stream}, ptr {cell})",
            )
            at = f.pure(f"getelementptr ptr, ptr {params}, i32 {len(args) + which}")
            f.line(f"store ptr {cell}, ptr {at}")
        entry = self._entry(op, [f.names[v] for v in parts.cluster])
        self._leave_on_failure(f, f"call i32 @{entry}(ptr %slots, i32 {index}, {geometry}, ptr {stream}, ptr {params})")
        if extra:
            self.side_buffers = True
            self._leave_on_failure(f, f"call i32 @{SIDE_BUFFERS_DONE_SYMBOL}(i32 {index}, ptr {stream})")
        for result in op.results:
            f.names[result] = stream

    def _leave_on_failure(self, f: FunctionText, call: str) -> None:
        """Make a call, and return its status if that is not 0."""
        status = f.assign(call)
        failed, after = f.new_label(), f.new_label()
        bad = f.assign(f"icmp ne i32 {status}, 0")
        f.line(f"br i1 {bad}, label %{failed}, label %{after}")
        f.start(failed)
        f.line(f"ret i32 {status}")
        f.start(after)

    def _entry(self, op: gpu.LaunchFuncOp, cluster: Sequence[str]) -> str:
        """Name of the function that does this launch."""
        given: dict[int, Sequence[str]] = {n: _ON for name, n in ATTRIBUTES.items() if name in op.attributes}
        if CLUSTER_ATTRIBUTE in op.attributes:
            given[_CLUSTER] = cluster
        if not given:
            return "checked_launch"
        made = _extended(given)
        self.extended[made.name] = made.text
        return made.name


def _wide(f: FunctionText, value: SSAValue) -> str:
    """A dimension as i64."""
    t = f.type_text(value.type)
    return f.names[value] if t == "i64" else f.pure(f"sext {t} {f.names[value]} to i64")


def host_module(op: func.FuncOp | FuncOp, kernels: Sequence[str], triple: str, data_layout: str) -> str:
    """LLVM IR text of the stub of a host function, of the upper dialects or `llvm`; its last argument is the stream."""
    text = ModuleText(triple, data_layout)
    text.globals.append(_PLAIN + _checked_launch("checked_launch", _PLAIN_CALL))
    entry = op.body.blocks[0]
    stream = entry.args[-1] if entry.args and isinstance(entry.args[-1].type, gpu.AsyncTokenType) else None
    abi = HostAbi(kernels, stream)
    f = HostText(text, abi, op) if isinstance(op, func.FuncOp) else _lowered_text(text, abi, op)
    f.lines.append("entry:")
    for i, arg in enumerate(entry.args):
        at = f.assign(f"getelementptr ptr, ptr %slots, i32 {i + 2}")
        where = f.assign(f"load ptr, ptr {at}")
        f.names[arg] = f.assign(f"load {f.type_text(arg.type)}, ptr {where}, align 1")
    if isinstance(op, func.FuncOp):
        f.block(entry)
        f.line("ret i32 0")
    else:
        cast("LlvmFunctionText", f).body(op.body)
    if abi.extended:
        text.globals += [_EXTENDED, *abi.extended.values()]
    if abi.side_buffers:
        text.globals.append(_SIDE_BUFFERS)
    text.functions.append(f"define i32 @{op.sym_name.data}(ptr %slots) {{\n" + "\n".join(f.lines) + "\n}\n")
    return text.text()


def _lowered_text(text: ModuleText, abi: HostAbi, op: FuncOp) -> LlvmFunctionText:
    """A host function of `llvm`, with the globals and declarations that stand beside it."""
    from ...dialects.upstream.llvm.function import FuncOp
    from .llvm_ops import HostLlvmText

    f = HostLlvmText(text, abi, op)
    f.result = "ret i32 0"
    for other in op.parent.ops if op.parent is not None else ():
        if isinstance(other, llvm.GlobalOp):
            text.globals.append(global_line(other))
        elif isinstance(other, FuncOp) and other.is_declaration:
            text.declarations[other.sym_name.data] = declaration(other)
    return f
