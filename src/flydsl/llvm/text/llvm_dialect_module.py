"""A device module of functions of `llvm` as LLVM IR text, for AMD or NVIDIA as its kernels say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import FusedLoc, StringAttr
from xdsl.ir import Attribute, Operation

from ...dialects.upstream import gpu, llvm
from ...dialects.upstream.llvm.debug import SubprogramAttr
from ...dialects.upstream.llvm.function import FuncOp
from ...errors import DSLCompileError
from . import abi_amdgpu, abi_nvptx, amdgpu_async, debug_info
from .shared_memory import SHARED_SPACES, global_lines
from .translate import Abi, ModuleText
from .translate_llvm_dialect import declaration, global_line, write_function

_NVVM_LISTS = ("nvvm.reqntid", "nvvm.maxntid", "nvvm.cluster_dim")


def scope_of(op: Operation) -> SubprogramAttr | None:
    """The debug scope of a function, which `ensure-debug-info-scope-on-llvm-func` attaches."""
    location = op.location
    if isinstance(location, FusedLoc) and isinstance(location.metadata, SubprogramAttr):
        return location.metadata
    return None


def functions_of(module: gpu.ModuleOp) -> list[FuncOp]:
    """Functions with a body."""
    return [op for op in module.body.block.ops if isinstance(op, FuncOp) and not op.is_declaration]


def amdgpu_module(module: gpu.ModuleOp, data_layout: str, version: int = abi_amdgpu.CODE_OBJECT_VERSION) -> str:
    """LLVM IR text for AMD."""
    groups: list[str] = []

    def write(text: ModuleText, op: FuncOp) -> None:
        if "rocdl.kernel" not in op.attributes:
            write_function(text, abi_amdgpu.AmdgpuAbi(None), op)
            return
        abi = abi_amdgpu.AmdgpuAbi(_sizes(op.attributes.get("rocdl.reqd_work_group_size")))
        group = len(groups)
        write_function(text, abi, op, "protected amdgpu_kernel ", f"#{group}")
        amdgpu_async.resolve(text)
        groups.append(abi_amdgpu.kernel_attributes(op, abi, group))

    text = _module(module, ModuleText(abi_amdgpu.TRIPLE, data_layout), write)
    text.footer += [*groups, *abi_amdgpu.module_flags(version)]
    return text.text()


def nvptx_module(module: gpu.ModuleOp, data_layout: str) -> str:
    """LLVM IR text for NVIDIA."""

    def write(text: ModuleText, op: FuncOp) -> None:
        abi: Abi = abi_nvptx.NvptxAbi(_sizes(op.attributes.get("nvvm.reqntid")))
        if "nvvm.kernel" not in op.attributes:
            write_function(text, abi, op)
            return
        words = ["nounwind", "mustprogress", *_nvvm_attributes(op)]
        write_function(text, abi, op, "ptx_kernel ", " ".join(words))

    return _module(module, ModuleText(abi_nvptx.TRIPLE, data_layout), write).text()


def _module(module: gpu.ModuleOp, text: ModuleText, write: Callable[[ModuleText, FuncOp], None]) -> ModuleText:
    debug_info.attach(text, module)
    scopes = [scope for op in functions_of(module) if (scope := scope_of(op)) is not None]
    if scopes:
        text.debug = debug_info.DebugInfo(
            "DebugDirectivesOnly" if scopes[0].emission == "DebugDirectivesOnly" else "LineTablesOnly"
        )
    shared = {line.split(" = ")[0]: line for line in global_lines(module, 3)}
    for op in module.body.block.ops:
        if isinstance(op, llvm.GlobalOp):
            name = f"@{op.sym_name.data}"
            is_shared = op.value is None and op.addr_space.value.data in SHARED_SPACES
            text.globals.append(shared[name] if is_shared else global_line(op))
        elif isinstance(op, FuncOp):
            if op.is_declaration:
                text.declarations[op.sym_name.data] = declaration(op)
            else:
                write(text, op)
        else:
            error = DSLCompileError(f"cannot be converted to LLVM IR: '{op.name}' is not of the llvm dialect")
            error.ir_location = op.location  # pyright: ignore[reportAttributeAccessIssue]
            raise error
    return text


def _sizes(attr: Attribute | None) -> tuple[int, int, int] | None:
    if attr is None:
        return None
    values: Any = attr
    x, y, z = (int(i) for i in values.get_values())
    return x, y, z


def _nvvm_attributes(op: FuncOp) -> list[str]:
    """Attributes of a kernel that LLVM reads itself."""
    found: list[str] = []
    for name, attr in op.attributes.items():
        if not name.startswith("nvvm.") or name == "nvvm.kernel":
            continue
        value: Any = attr
        if name in _NVVM_LISTS and not isinstance(attr, StringAttr):
            text = ",".join(str(int(i)) for i in value.get_values())
        else:
            text = value.data if isinstance(attr, StringAttr) else str(value.value.data)
        found.append(f'"{name}"="{text}"')
    return found


__all__ = ["amdgpu_module", "functions_of", "nvptx_module", "scope_of"]
