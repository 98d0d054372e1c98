"""The host function as native code: one pointer in, a status out.

`i32 NAME(ptr slots)`: slot 0 is the table of kernel handles, slot 1 a record filled when a launch fails, then the
addresses of the arguments' storages. Geometry is computed here, and the driver's launch entry is called directly.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.ir import SSAValue

from ..dialects import gpu
from .print_text import call_printf
from .stub_abi import BAD_GEOMETRY, LAUNCH_SYMBOL
from .translate import INTRINSICS, Abi, FunctionText, ModuleText, type_text

_DIMENSIONS = ("gx", "gy", "gz", "bx", "by", "bz", "smem")
_WIDE = ", ".join(f"i64 %{d}" for d in _DIMENSIONS)
_NARROW = ", ".join(f"i32 %{d}.32" for d in _DIMENSIONS)

_CHECKED_LAUNCH = f"""
declare i32 @{LAUNCH_SYMBOL}(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)

; A grid without blocks launches nothing. Failures leave their geometry in the record of slot 1.
define internal i32 @checked_launch(ptr %slots, i32 %index, {_WIDE}, ptr %stream, ptr %params) {{
entry:
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
  %status = call i32 @{LAUNCH_SYMBOL}(ptr %fn, {_NARROW}, ptr %stream, ptr %params, ptr null)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %success, label %failed
failed:
  %code = phi i32 [ {BAD_GEOMETRY}, %entry ], [ %status, %go ]
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
  ret i32 %code
success:
  ret i32 0
}}
"""


class HostAbi(Abi):
    """Host code: launches call `checked_launch` and leave on failure."""

    native_math = frozenset(INTRINSICS)

    def __init__(self, kernels: Sequence[str], stream: SSAValue | None):
        self.kernels = list(kernels)
        self.stream = stream

    def printf(self, f: FunctionText, text: str, values: Sequence[SSAValue]) -> None:
        call_printf(f, text, values)

    def launch(self, f: FunctionText, op: gpu.LaunchFuncOp) -> None:
        if op.cluster and not all(f.names[v].isdigit() for v in op.cluster):
            raise NotImplementedError("a cluster must have constant extents")  # they are an attribute of the kernel
        name = op.kernel.nested_references.data[-1].data
        args = list(op.kernelOperands)
        params = "null"
        if args:
            # Taken at the function's head, so a launch in a loop does not grow the stack.
            f.lines.insert(1, f"  %params{len(f.lines)} = alloca [{len(args)} x ptr], align 8")
            params = f.lines[1].split(" = ")[0].strip()
            for i, arg in enumerate(args):
                if getattr(arg.type, "by_value", False):
                    cell = f.names[arg]  # already the address of what the kernel gets
                else:
                    cell = f"%arg{len(f.lines)}"
                    f.lines.insert(1, f"  {cell} = alloca {type_text(arg.type)}, align 16")
                    f.line(f"store {f.typed(arg)}, ptr {cell}")
                at = f.assign(f"getelementptr ptr, ptr {params}, i32 {i}")
                f.line(f"store ptr {cell}, ptr {at}")
        dims = [f"{_wide(f, v)}" for v in (*op.grid, *op.block_size)]
        smem = "0" if op.dynamicSharedMemorySize is None else _wide(f, op.dynamicSharedMemorySize)
        stream = f.names[op.asyncDependencies[0]] if op.asyncDependencies else "null"
        if not op.asyncDependencies and self.stream is not None:
            stream = f.names[self.stream]
        geometry = ", ".join(f"i64 {d}" for d in (*dims, smem))
        index = self.kernels.index(name)
        status = f.assign(f"call i32 @checked_launch(ptr %slots, i32 {index}, {geometry}, ptr {stream}, ptr {params})")
        failed, after = f.new_label(), f.new_label()
        bad = f.assign(f"icmp ne i32 {status}, 0")
        f.line(f"br i1 {bad}, label %{failed}, label %{after}")
        f.start(failed)
        f.line(f"ret i32 {status}")
        f.start(after)
        for result in op.results:
            f.names[result] = stream


def _wide(f: FunctionText, value: SSAValue) -> str:
    """A dimension as i64."""
    t = type_text(value.type)
    return f.names[value] if t == "i64" else f.assign(f"sext {t} {f.names[value]} to i64")


def host_module(op: func.FuncOp, kernels: Sequence[str], triple: str, data_layout: str) -> str:
    """LLVM IR text of the stub for a host function; its last argument is the stream."""
    text = ModuleText(triple, data_layout)
    text.globals.append(_CHECKED_LAUNCH)
    entry = op.body.block
    stream = entry.args[-1] if entry.args and isinstance(entry.args[-1].type, gpu.AsyncTokenType) else None
    f = FunctionText(text, HostAbi(kernels, stream), op)
    f.lines.append("entry:")
    for i, arg in enumerate(entry.args):
        at = f.assign(f"getelementptr ptr, ptr %slots, i32 {i + 2}")
        where = f.assign(f"load ptr, ptr {at}")
        f.names[arg] = f.assign(f"load {type_text(arg.type)}, ptr {where}, align 1")
    f.block(entry)
    f.line("ret i32 0")
    text.functions.append(f"define i32 @{op.sym_name.data}(ptr %slots) {{\n" + "\n".join(f.lines) + "\n}\n")
    return text.text()
