"""Device modules for NVIDIA GPUs: kernel signature and attributes, special registers, barrier."""

from __future__ import annotations

from xdsl.ir import Attribute

from ..dialects import gpu, llvm
from .kernel_text import functions_of, known_block_size, write_function
from .translate import SIMPLE_MATH, Abi, FunctionText, ModuleText

TRIPLE = "nvptx64-nvidia-cuda"
_REGISTERS = {"thread_id": "tid", "block_id": "ctaid", "block_dim": "ntid", "grid_dim": "nctaid"}


class NvptxAbi(Abi):
    """Text of one kernel."""

    native_math = SIMPLE_MATH - {"round"}

    def __init__(self, block: tuple[int, int, int] | None):
        self.block = block

    def index(self, f: FunctionText, kind: str, dim: str) -> str:
        axis = "xyz".index(dim)
        if kind == "block_dim" and self.block is not None:
            return str(self.block[axis])
        name = f"llvm.nvvm.read.ptx.sreg.{_REGISTERS[kind]}.{dim}"
        f.module.declare(name, "i32", [])
        known = f"range(i32 0, {self.block[axis]}) " if kind == "thread_id" and self.block is not None else ""
        narrow = f.assign(f"call {known}i32 @{name}()")
        return f.assign(f"zext i32 {narrow} to i64")

    def lane_id(self, f: FunctionText) -> str:
        narrow = f.intrinsic("llvm.nvvm.read.ptx.sreg.laneid", "i32", [], [])
        return f.assign(f"zext i32 {narrow} to i64")

    def barrier(self, f: FunctionText) -> None:
        f.call_void("llvm.nvvm.barrier.cta.sync.aligned.all", ["i32"], ["0"])


def _parameter(type_: Attribute) -> str:
    # Fields of a packed record are read in words, so the record must not be placed at an odd byte.
    return " alignstack(8)" if isinstance(type_, llvm.StructType) else ""


def device_module(module: gpu.ModuleOp, data_layout: str) -> str:
    """LLVM IR text of a device module."""
    text = ModuleText(TRIPLE, data_layout)
    for op in functions_of(module):
        abi = NvptxAbi(known_block_size(op))
        words = ["nounwind", "mustprogress"]
        if abi.block is not None:
            words.append(f'"nvvm.reqntid"="{",".join(map(str, abi.block))}"')
        write_function(text, abi, op, f"define ptx_kernel void @{op.sym_name.data}", " ".join(words), _parameter)
    return text.text()
