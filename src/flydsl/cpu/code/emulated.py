"""Text of the functions that do the work of instructions (`Emulation.outlined`): a kernel calls them in many places."""

from __future__ import annotations

from xdsl.dialects import func

from ...dialects.upstream import gpu
from ...ir.builder import operands_of
from ...llvm.text.function_text import Abi
from ...llvm.text.host_text import HostText
from ...llvm.text.module_text import ModuleText
from ...llvm.text.spelling import symbol
from .rules import RULES


class _Plain(Abi):
    """They know no thread, and nothing in them is checked: what they read and write is the emulation's own."""

    rules = RULES


def write_functions(text: ModuleText, module: gpu.ModuleOp) -> None:
    """Write those of a device module."""
    found = [op for op in module.body.block.ops if isinstance(op, func.FuncOp) and op.body.blocks]
    text.defined.update(op.sym_name.data for op in found)
    for op in found:
        _function(text, op)


def _function(text: ModuleText, op: func.FuncOp) -> None:
    f = HostText(text, _Plain(), op)
    name, params = op.sym_name.data, list[str]()
    for i, arg in enumerate(op.body.block.args):
        f.names[arg] = f"%a{i}"
        params.append(f"{f.type_text(arg.type)} %a{i}")
    f.lines.append("entry:")
    end = f.block(op.body.block)
    assert end is not None
    given = operands_of(end)
    f.line(f"ret {f.typed(given[0])}" if given else "ret void")
    result = f.type_text(given[0].type) if given else "void"
    # Once is enough: inlined, each call would be optimised anew.
    head = f"define internal {result} @{symbol(name)}({', '.join(params)}) noinline nounwind willreturn"
    text.functions.append("\n".join([f"{head} {{", *f.lines, "}", ""]))
