"""`convert-gpu-to-rocdl`: device code to `llvm` and `rocdl` for AMD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, Float16Type, Float32Type, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream import gpu
from ...dialects.upstream.llvm.atomics import FenceOp
from ...dialects.upstream.llvm.attrs import ConstantRangeAttr
from ...dialects.upstream.llvm.memory import ORDERINGS
from ...dialects.upstream.math import Math
from ...dialects.upstream.rocdl import ROCDL_OPS
from ...errors import NotSupportedError
from ...ir.builder import i1, i32, i64, int_attr, operands_of
from ...llvm.text.abi_amdgpu import PRINTING, TRIPLE, AmdgpuAbi
from ...lowering.rebuild import Handler
from ...target import MLIR_DEFAULTS
from ..base import Pass
from .convert_arith_to_llvm import icmp
from .convert_func_to_llvm import check_index_width
from .gpu_conversion import GpuConversion, device_handlers
from .llvm_conversion import constant_of, refuse

_WORKGROUP = StringAttr("workgroup")


def _data_layout(chip: str) -> str:
    from ...llvm import binding

    return binding.data_layout(TRIPLE, chip)


def _clamp(r: RocdlConversion, op: Operation) -> None:
    """The middle one of three values is one instruction."""
    x, low, high = r.lls(operands_of(op))
    if not isinstance(x.type, Float32Type | Float16Type):
        raise refuse(op, f"on {x.type}")
    r.give(op, r.make(ROCDL_OPS["fmed3"], (x, low, high), x.type))


class RocdlConversion(GpuConversion):
    """The conversion for AMD."""

    handlers = {
        **device_handlers(AmdgpuAbi.native_math),
        **{op: cast(Handler, _clamp) for op in Math.operations if op.name == "math.clampf"},
    }
    kernel_attribute = "rocdl.kernel"
    data_layout = staticmethod(_data_layout)
    instructions = ROCDL_OPS

    def id(self, kind: str, dim: str) -> SSAValue:
        axis = "xyz".index(dim)
        if kind == "thread_id":
            return self.wide(self.read(f"workitem.id.{dim}", self.block_size and self.block_size[axis]))
        if kind == "block_id":
            return self.wide(self.read(f"workgroup.id.{dim}", self.grid_size and self.grid_size[axis]))
        known = self.block_size if kind == "block_dim" else self.grid_size
        if known is not None:
            return self.int(known[axis], i64)
        return self.read(f"{'workgroup' if kind == 'block_dim' else 'grid'}.dim.{dim}", type_=i64)

    def lane_id(self) -> SSAValue:
        low = self._count("lo", self.int(0, i32), 32)
        return self._count("hi", low, 64)

    def _count(self, half: str, start: SSAValue, end: int) -> SSAValue:
        facts: dict[str, Attribute] = {"llvm.noundef": UnitAttr(), "llvm.range": ConstantRangeAttr((32, 0, end))}
        props: dict[str, Attribute] = {"res_attrs": ArrayAttr([DictionaryAttr(facts)])}
        return self.make(ROCDL_OPS[f"mbcnt.{half}"], (self.int(-1, i32), start), i32, props)

    def warp_size(self) -> SSAValue:
        return self.wide(self.read("wavefrontsize"))

    def barrier(self, op: Operation) -> None:
        self._fence("release")
        self.call("s.barrier", (), None)
        self._fence("acquire")

    def _fence(self, ordering: str) -> None:
        self.b.opn(FenceOp, (), (), {"ordering": int_attr(ORDERINGS[ordering], i64), "syncscope": _WORKGROUP})

    def shuffle(self, op: gpu.ShuffleOp) -> None:
        """`ds_swizzle` for a known xor within 32 lanes, else `ds_bpermute`, which pulls from any lane."""
        by, width = constant_of(op.offset), constant_of(op.width)
        if op.mode.data == "xor" and by is not None and width is not None and 0 <= by < min(width, 32):
            pattern = self.int(by << 10 | 31, i32)
            name, valid = "ds_swizzle", self.int(1, i1)
            order = (0, 1)
        else:
            source, valid = self.source_lane(op)
            pattern = self.make(xllvm.ShlOp, (source, self.int(2, i32)), i32)
            name, order = "ds_bpermute", (1, 0)

        def move(word: SSAValue) -> SSAValue:
            pair = (word, pattern)
            return cast(SSAValue, self.call(name, (pair[order[0]], pair[order[1]]), i32))

        self.vm[op.shuffle_result] = self.by_words(self.ll(op.value), move)
        self.vm[op.valid] = valid

    def ballot(self, predicate: SSAValue) -> SSAValue:
        return cast(SSAValue, self.call("ballot", (predicate,), i64))

    def vote(self, predicate: SSAValue, mode: str) -> SSAValue:
        votes = self.ballot(predicate)
        if mode == "any":
            return icmp(self, "ne", votes, self.int(0, i64))
        return icmp(self, "eq", votes, self.ballot(self.int(1, i1)))

    def broadcast(self, word: SSAValue, lane: SSAValue | None) -> SSAValue:
        operands = (word,) if lane is None else (word, lane)
        return cast(SSAValue, self.call("readfirstlane" if lane is None else "readlane", operands, i32))

    def printf(self, op: gpu.PrintfOp) -> None:
        raise NotSupportedError("rocm", "fx.printf", PRINTING)

    def kernel_attributes(self, op: gpu.FuncOp) -> dict[str, Attribute]:
        if self.block_size is None or op.known_block_size is None:
            return {}
        x, y, z = self.block_size
        return {
            "rocdl.flat_work_group_size": StringAttr(f"{x * y * z},{x * y * z}"),
            "rocdl.reqd_work_group_size": op.known_block_size,
        }


@dataclass(frozen=True)
class ConvertGpuToRocdlPass(Pass):
    """Convert device code to the llvm and rocdl dialects for AMD."""

    name = "convert-gpu-to-rocdl"
    needs = "no `scf` in device code (`convert-scf-to-cf`)"
    chipset: str = MLIR_DEFAULTS["rocdl"]
    index_bitwidth: int = 0
    runtime: str = "unknown"
    use_bare_ptr_memref_call_conv: bool = False

    def __post_init__(self) -> None:
        check_index_width(self.index_bitwidth)
        if self.runtime not in ("unknown", "HIP"):
            raise ValueError(f"option 'runtime' is unknown or HIP, got {self.runtime!r}")

    def run(self, module: ModuleOp) -> ModuleOp:
        return RocdlConversion.convert_module(module, self.chipset)
