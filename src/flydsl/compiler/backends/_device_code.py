"""Steps of code generation the built-in backends share: facts of kernels as attributes, refusals, host tools."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flydsl.compiler.backends._fingerprint import file_digest
from flydsl.compiler.backends._hints import Options
from flydsl.compiler.backends.base import Tool
from flydsl.errors import NotSupportedError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

PASSTHROUGH, NOALIAS = "passthrough", "fly.noalias"
"""Attributes of kernels that `lowering/rules/kernel_rules.py` reads."""


def refuse_llvm_options(kind: str, options: Options) -> None:
    """LLVM's command-line options are global to the process and cannot be undone in llvmlite, so none is set."""
    if options.llvm_options:
        names = ", ".join(name for name, _ in options.llvm_options)
        raise NotSupportedError(
            kind, f"the hint llvm_options ({names})", "it needs an external code generator (custom_passes.run_flow)"
        )


def kernels_of(module: ModuleOp) -> list[Operation]:
    """The kernels of a traced module."""
    return [op for op in module.walk() if op.name == "gpu.func" and "gpu.kernel" in op.attributes]


def pass_through(kernel: Any, attributes: Mapping[str, str]) -> None:
    """Give a kernel attributes of the LLVM function it becomes, by name."""
    if not attributes:
        return
    builtin: Any = importlib.import_module("xdsl.dialects.builtin")
    pairs = [builtin.ArrayAttr([builtin.StringAttr(name), builtin.StringAttr(v)]) for name, v in attributes.items()]
    known = kernel.attributes.get(PASSTHROUGH)
    kernel.attributes[PASSTHROUGH] = builtin.ArrayAttr([*(known.data if known is not None else ()), *pairs])


def promise_noalias(kernel: Any) -> None:
    """Note the caller's promise that the pointers a kernel is given lead to different memory."""
    builtin: Any = importlib.import_module("xdsl.dialects.builtin")
    kernel.attributes[NOALIAS] = builtin.UnitAttr()


def tool_identity(name: str) -> Tool | None:
    """Name, version and content hash of an external tool, or None where there is none."""
    from flydsl.llvm import tools

    found = tools.try_find_tool(name)
    if found is None:
        return None
    return Tool(name, ".".join(map(str, found.version)), file_digest(found.path))
