"""Device modules for NVIDIA GPUs: kernel signature and attributes, special registers, barrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream import gpu, llvm
from ...dialects.upstream.gpu.warp import SubgroupBroadcastOp
from . import debug_info
from .kernel_text import functions_of, known_block_size, write_function
from .print_text import call_vprintf
from .shared_memory import global_lines
from .translate import SIMPLE_MATH, Abi, FunctionText, ModuleText
from .warp_text import by_words, constant_of, source_lane

TRIPLE = "nvptx64-nvidia-cuda"
SHARED_SPACE = 3
_REGISTERS = {"thread_id": "tid", "block_id": "ctaid", "block_dim": "ntid", "grid_dim": "nctaid"}


class NvptxAbi(Abi):
    """Text of one kernel."""

    native_math = SIMPLE_MATH

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

    def subgroup_size(self, f: FunctionText) -> str:
        return "32"

    def shuffle(self, f: FunctionText, op: gpu.ShuffleOp) -> None:
        """One `shfl.sync` per word; forms of less than a warp pull from a computed lane."""
        mode, width, by = op.mode.data, constant_of(op.width), constant_of(op.offset)
        whole = width == 32 and (mode != "idx" or (by is not None and 0 <= by < 32))
        if whole and op.valid.first_use is None:
            clamp = "0" if mode == "up" else "31"
            word, at = {"xor": "bfly"}.get(mode, mode), f.names[op.offset]
        else:
            lane = f.assign(f"trunc i64 {self.lane_id(f)} to i32")
            at, f.names[op.valid] = source_lane(f, op, lane)
            word, clamp = "idx", "31"
        f.names[op.shuffle_result] = by_words(f, op.value, lambda v: self._shfl(f, word, v, at, clamp))

    def _shfl(self, f: FunctionText, mode: str, value: str, at: str, clamp: str) -> str:
        return f.intrinsic(f"llvm.nvvm.shfl.sync.{mode}.i32", "i32", ["i32"] * 4, ["-1", value, at, clamp])

    def ballot(self, f: FunctionText, predicate: str) -> str:
        narrow = f.intrinsic("llvm.nvvm.vote.ballot.sync", "i32", ["i32", "i1"], ["-1", predicate])
        return f.assign(f"zext i32 {narrow} to i64")

    def vote(self, f: FunctionText, predicate: str, mode: str) -> str:
        return f.intrinsic(f"llvm.nvvm.vote.{mode}.sync", "i1", ["i32", "i1"], ["-1", predicate])

    def broadcast(self, f: FunctionText, op: SubgroupBroadcastOp) -> None:
        if op.lane is not None:
            lane = f.names[op.lane]
        else:
            mask = f.intrinsic("llvm.nvvm.activemask", "i32", [], [])
            lane = f.intrinsic("llvm.cttz.i32", "i32", ["i32", "i1"], [mask, "true"])
        f.names[op.result] = by_words(f, op.value, lambda v: self._shfl(f, "idx", v, lane, "31"))

    def printf(self, f: FunctionText, text: str, values: Sequence[SSAValue]) -> None:
        call_vprintf(f, text, values)

    def barrier(self, f: FunctionText, op: Operation) -> None:
        f.call_void("llvm.nvvm.barrier.cta.sync.aligned.all", ["i32"], ["0"])


def _parameter(type_: Attribute) -> str:
    # Fields of a packed record are read in words, so the record must not be placed at an odd byte.
    return " alignstack(8)" if isinstance(type_, llvm.StructType) else getattr(type_, "parameter_text", "")


def _own_attributes(op: gpu.FuncOp) -> list[str]:
    """Attributes of the kernel that LLVM reads itself, such as `nvvm.minctasm` or `nvvm.cluster_dim`."""
    found: list[str] = []
    for name, attr in op.attributes.items():
        if name.startswith("nvvm."):
            value: Any = attr
            found.append(f'"{name}"="{value.data if isinstance(attr, StringAttr) else value.value.data}"')
    return found


def device_module(module: gpu.ModuleOp, data_layout: str) -> str:
    """LLVM IR text of a device module."""
    text = ModuleText(TRIPLE, data_layout)
    # With tables of LLVM's own, PTX would be marked as unoptimised code for debuggers.
    debug_info.attach(text, module, "DebugDirectivesOnly")
    text.globals += global_lines(module, SHARED_SPACE)
    for op in functions_of(module):
        abi = NvptxAbi(known_block_size(op))
        words = ["nounwind", "mustprogress"]
        if abi.block is not None:
            words.append(f'"nvvm.reqntid"="{",".join(map(str, abi.block))}"')
        words += _own_attributes(op)
        write_function(text, abi, op, f"define ptx_kernel void @{op.sym_name.data}", " ".join(words), _parameter)
    return text.text()
