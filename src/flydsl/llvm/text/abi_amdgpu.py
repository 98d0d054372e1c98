"""Device modules for AMD GPUs: kernel signature and attributes, ids, barrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream import gpu
from ...dialects.upstream.gpu.warp import SubgroupBroadcastOp
from ...errors import NotSupportedError
from . import amdgpu_async, debug_info
from .kernel_text import functions_of, known_block_size, write_function
from .shared_memory import global_lines
from .translate import SIMPLE_MATH, Abi, FunctionText, Handler, ModuleText
from .warp_text import by_words, constant_of, source_lane

TRIPLE = "amdgcn-amd-amdhsa"
CODE_OBJECT_VERSION = 600
SHARED_SPACE = 3
# Implicit kernel arguments of code object v5 and later: block counts (i32), then group sizes (i16).
_BLOCK_COUNT, _GROUP_SIZE = 0, 12
_UNUSED = (
    "amdgpu-no-completion-action",
    "amdgpu-no-default-queue",
    "amdgpu-no-dispatch-id",
    "amdgpu-no-dispatch-ptr",
    "amdgpu-no-heap-ptr",
    "amdgpu-no-hostcall-ptr",
    "amdgpu-no-lds-kernel-id",
    "amdgpu-no-multigrid-sync-arg",
    "amdgpu-no-queue-ptr",
)
"""Implicit arguments none of our kernels reads: without these attributes the ABI would pass them."""
PRINTING = (
    "it needs ROCm's device library, which this package does without; run the kernel on the cpu stack with "
    "FLYDSL_COMPILE_BACKEND=cpu to print"
)
"""Why kernels cannot print."""


class AmdgpuAbi(Abi):
    """Text of one kernel."""

    native_math = SIMPLE_MATH | {"exp2", "log2", "exp", "log", "log10", "sin", "cos"}

    def instruction(self, op: Operation) -> Handler | None:
        # Loads a large table; most modules have no such op.
        from .translate_instructions import INSTRUCTIONS

        return INSTRUCTIONS.get(type(op))

    def __init__(self, block: tuple[int, int, int] | None):
        self.block = block
        self.implicit = False

    def index(self, f: FunctionText, kind: str, dim: str) -> str:
        found = f.ids.get((kind, dim))
        if found is not None:
            return found
        axis = "xyz".index(dim)
        if kind == "block_dim" and self.block is not None:
            return str(self.block[axis])
        if kind in ("thread_id", "block_id"):
            name = f"llvm.amdgcn.{'workitem' if kind == 'thread_id' else 'workgroup'}.id.{dim}"
            f.module.declare(name, "i32", [])
            known = f"range(i32 0, {self.block[axis]}) " if kind == "thread_id" and self.block is not None else ""
            narrow = f.assign(f"call {known}i32 @{name}()")
        else:
            self.implicit = True
            base = f.intrinsic("llvm.amdgcn.implicitarg.ptr", "ptr addrspace(4)", [], [])
            at = _BLOCK_COUNT + 4 * axis if kind == "grid_dim" else _GROUP_SIZE + 2 * axis
            field = f.assign(f"getelementptr i8, ptr addrspace(4) {base}, i32 {at}")
            if kind == "grid_dim":
                narrow = f.assign(f"load i32, ptr addrspace(4) {field}, align 4, !invariant.load !1")
            else:
                short = f.assign(f"load i16, ptr addrspace(4) {field}, align 2, !invariant.load !1")
                narrow = f.assign(f"zext i16 {short} to i32")
        return f.assign(f"zext i32 {narrow} to i64")

    def lane_id(self, f: FunctionText) -> str:
        low = f.intrinsic("llvm.amdgcn.mbcnt.lo", "i32", ["i32", "i32"], ["-1", "0"])
        full = f.intrinsic("llvm.amdgcn.mbcnt.hi", "i32", ["i32", "i32"], ["-1", low])
        return f.assign(f"zext i32 {full} to i64")

    def subgroup_size(self, f: FunctionText) -> str:
        narrow = f.intrinsic("llvm.amdgcn.wavefrontsize", "i32", [], [])
        return f.assign(f"zext i32 {narrow} to i64")

    def shuffle(self, f: FunctionText, op: gpu.ShuffleOp) -> None:
        """`ds_swizzle` for a known xor within 32 lanes, else `ds_bpermute`, which pulls from any lane."""
        by, width = constant_of(op.offset), constant_of(op.width)
        if op.mode.data == "xor" and by is not None and width is not None and 0 <= by < min(width, 32):
            pattern = str(by << 10 | 31)
            f.names[op.shuffle_result] = by_words(
                f,
                op.value,
                lambda word: f.intrinsic("llvm.amdgcn.ds.swizzle", "i32", ["i32", "i32"], [word, pattern]),
            )
            f.names[op.valid] = "true"
            return
        lane = f.assign(f"trunc i64 {self.lane_id(f)} to i32")
        source, f.names[op.valid] = source_lane(f, op, lane)
        at = f.assign(f"shl i32 {source}, 2")
        f.names[op.shuffle_result] = by_words(
            f, op.value, lambda word: f.intrinsic("llvm.amdgcn.ds.bpermute", "i32", ["i32", "i32"], [at, word])
        )

    def ballot(self, f: FunctionText, predicate: str) -> str:
        return f.intrinsic("llvm.amdgcn.ballot.i64", "i64", ["i1"], [predicate])

    def vote(self, f: FunctionText, predicate: str, mode: str) -> str:
        votes = self.ballot(f, predicate)
        if mode == "any":
            return f.assign(f"icmp ne i64 {votes}, 0")
        return f.assign(f"icmp eq i64 {votes}, {self.ballot(f, 'true')}")

    def broadcast(self, f: FunctionText, op: SubgroupBroadcastOp) -> None:
        lane = op.lane

        def move(word: str) -> str:
            if lane is None:
                return f.intrinsic("llvm.amdgcn.readfirstlane.i32", "i32", ["i32"], [word])
            return f.intrinsic("llvm.amdgcn.readlane.i32", "i32", ["i32", "i32"], [word, f.names[lane]])

        f.names[op.result] = by_words(f, op.value, move)

    def printf(self, f: FunctionText, text: str, values: Sequence[SSAValue]) -> None:
        raise NotSupportedError("rocm", "fx.printf", PRINTING)

    def barrier(self, f: FunctionText, op: Operation) -> None:
        f.line('fence syncscope("workgroup") release')
        f.call_void("llvm.amdgcn.s.barrier", [], [])
        f.line('fence syncscope("workgroup") acquire')


def device_module(module: gpu.ModuleOp, data_layout: str) -> str:
    """LLVM IR text of a device module."""
    text = ModuleText(TRIPLE, data_layout)
    debug_info.attach(text, module)
    text.globals += global_lines(module, SHARED_SPACE)
    attributes: list[str] = []
    for op in functions_of(module):
        abi = AmdgpuAbi(known_block_size(op))
        group = len(attributes)
        write_function(text, abi, op, f"define protected amdgpu_kernel void @{op.sym_name.data}", f"#{group}", _noundef)
        amdgpu_async.resolve(text)
        attributes.append(kernel_attributes(op, abi, group))
    text.footer += [*attributes, *module_flags(CODE_OBJECT_VERSION)]
    return text.text()


def module_flags(version: int) -> list[str]:
    """Metadata of every module; `!1` stands for loads that always give the same."""
    return [
        "!llvm.module.flags = !{!0}",
        f'!0 = !{{i32 1, !"amdhsa_code_object_version", i32 {version}}}',
        "!1 = !{}",
    ]


def _noundef(type_: Attribute) -> str:
    return ""


def kernel_attributes(op: Operation, abi: AmdgpuAbi, group: int) -> str:
    """The attribute group of a kernel whose body is written."""
    words = ["nounwind", "mustprogress", *(f'"{name}"' for name in _UNUSED)]
    if abi.block is not None:
        threads = abi.block[0] * abi.block[1] * abi.block[2]
        words.append(f'"amdgpu-flat-work-group-size"="{threads},{threads}"')
    else:
        words.append('"amdgpu-flat-work-group-size"="1,1024"')
    if not abi.implicit:
        words.append('"amdgpu-no-implicitarg-ptr"')
    words.append('"uniform-work-group-size"="true"')
    waves = op.attributes.get("rocdl.waves_per_eu")
    if isinstance(waves, IntegerAttr):
        words.append(f'"amdgpu-waves-per-eu"="{cast(Any, waves).value.data}"')
    clusters = op.attributes.get("rocdl.cluster_dims")
    if isinstance(clusters, StringAttr):
        words.append(f'"amdgpu-cluster-dims"="{clusters.data}"')
    return f"attributes #{group} = {{ {' '.join(words)} }}"
