"""What the targets' device modules share: finding kernels and writing a function around a body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.ir import Attribute

from ...dialects.upstream import gpu
from .debug_info import suffix
from .translate import Abi, FunctionText, ModuleText, type_text


def functions_of(module: gpu.ModuleOp) -> list[gpu.FuncOp]:
    """Kernels of a device module in order."""
    return [op for op in module.body.block.ops if isinstance(op, gpu.FuncOp)]


def is_lowered(module: gpu.ModuleOp) -> bool:
    """Whether the kernels of a device module are functions of `llvm` already."""
    return any(op.name == "llvm.func" for op in module.body.block.ops)


def known_block_size(op: gpu.FuncOp) -> tuple[int, int, int] | None:
    """Block size if it is a compile-time fact."""
    if op.known_block_size is None:
        return None
    x, y, z = (int(i) for i in cast(Any, op.known_block_size).get_values())
    return x, y, z


def write_function(
    text: ModuleText,
    abi: Abi,
    op: gpu.FuncOp,
    head: str,
    tail: str,
    parameter: Callable[[Attribute], str],
    extra: Sequence[str] = (),
) -> None:
    """Append `head(params) tail { body }` for a kernel; `extra` parameters follow its own."""
    entry = op.body.block
    f = FunctionText(text, abi, op)
    params: list[str] = []
    for i, arg in enumerate(entry.args):
        f.names[arg] = f"%a{i}"
        params.append(f"{type_text(arg.type)}{parameter(arg.type)} %a{i}")
    f.lines.append("entry:")
    f.block(entry)
    f.line("ret void")
    body = "\n".join(f.lines)
    text.functions.append(f"{head}({', '.join([*params, *extra])}) {tail}{suffix(f.locations)} {{\n{body}\n}}\n")
