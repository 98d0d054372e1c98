"""`convert-gpu-to-nvvm`: device code to `llvm` and `nvvm` for NVIDIA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr, i8
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.fly_nvgpu.ops import AsmOp
from ...dialects.fly_nvgpu.tma import MAP_BYTES
from ...dialects.upstream import gpu, llvm
from ...dialects.upstream.llvm.function import CallOp
from ...dialects.upstream.llvm.intrinsics import INTRINSIC_OPS
from ...dialects.upstream.llvm.values import AddrSpaceCastOp
from ...dialects.upstream.nvvm import NVVM_OPS, ShflKindAttr, VoteSyncKindAttr
from ...ir.builder import i1, i32, i32_list, i64, int_attr
from ...llvm.text.abi_nvptx import TRIPLE, NvptxAbi
from ...lowering.rebuild import Handler
from ..base import Pass
from .convert_func_to_llvm import check_index_width
from .gpu_conversion import GpuConversion, device_handlers
from .host_print import promote
from .llvm_conversion import constant_of, llvm_type
from .llvm_declare import address_props, declare, text_global

_REGISTERS = {"thread_id": "tid", "block_id": "ctaid", "block_dim": "ntid", "grid_dim": "nctaid"}


def _data_layout(chip: str) -> str:
    from ...llvm import binding

    return binding.data_layout(TRIPLE)


def _asm(r: NvvmConversion, op: AsmOp) -> None:
    """Inline PTX."""
    props: dict[str, Attribute] = {
        "asm_string": op.text,
        "constraints": op.constraints,
        "tail_call_kind": xllvm.TailCallKindAttr(xllvm.TailCallKind.NONE),
    }
    if op.memory is None or op.memory.data != "none":
        # The dialect has no words for what exactly is read or written.
        props["has_side_effects"] = UnitAttr()
    made = r.b.opn(xllvm.InlineAsmOp, r.lls(op.args), [llvm_type(x.type) for x in op.res], props)
    for old, new in zip(op.res, made.results, strict=True):
        r.vm[old] = new


class NvvmConversion(GpuConversion):
    """The conversion for NVIDIA."""

    handlers = {**device_handlers(NvptxAbi.native_math), AsmOp: cast(Handler, _asm)}
    kernel_attribute = "nvvm.kernel"
    data_layout = staticmethod(_data_layout)
    instructions = NVVM_OPS

    def id(self, kind: str, dim: str) -> SSAValue:
        axis = "xyz".index(dim)
        known = self.block_size if kind in ("block_dim", "thread_id") else self.grid_size
        if known is not None and kind in ("block_dim", "grid_dim"):
            return self.int(known[axis], i64)
        return self.wide(self.read(f"read.ptx.sreg.{_REGISTERS[kind]}.{dim}", known and known[axis]))

    def lane_id(self) -> SSAValue:
        return self.read("read.ptx.sreg.laneid", 32)

    def warp_size(self) -> SSAValue:
        return self.int(32, i64)

    def barrier(self, op: Operation) -> None:
        self.call("barrier0", (), None)

    def shuffle(self, op: gpu.ShuffleOp) -> None:
        """One `shfl.sync` per word; forms of less than a warp pull from a computed lane."""
        mode, width, by = op.mode.data, constant_of(op.width), constant_of(op.offset)
        whole = width == 32 and (mode != "idx" or (by is not None and 0 <= by < 32))
        if whole and op.valid.first_use is None:
            clamp, at, valid = 0 if mode == "up" else 31, self.ll(op.offset), self.int(1, i1)
            kind = {"xor": "bfly"}.get(mode, mode)
        else:
            at, valid = self.source_lane(op)
            kind, clamp = "idx", 31
        self.vm[op.shuffle_result] = self.by_words(self.ll(op.value), lambda v: self._shfl(kind, v, at, clamp))
        self.vm[op.valid] = valid

    def _shfl(self, kind: str, value: SSAValue, at: SSAValue, clamp: int) -> SSAValue:
        operands = (self.int(-1, i32), value, at, self.int(clamp, i32))
        return cast(SSAValue, self.call("shfl.sync", operands, i32, {"kind": ShflKindAttr(kind)}))

    def ballot(self, predicate: SSAValue) -> SSAValue:
        return self.make(xllvm.ZExtOp, (self._vote(predicate, "ballot", i32),), i64)

    def vote(self, predicate: SSAValue, mode: str) -> SSAValue:
        return self._vote(predicate, mode, i1)

    def _vote(self, predicate: SSAValue, kind: str, type_: Attribute) -> SSAValue:
        props: dict[str, Attribute] = {"kind": VoteSyncKindAttr(kind)}
        return cast(SSAValue, self.call("vote.sync", (self.int(-1, i32), predicate), type_, props))

    def broadcast(self, word: SSAValue, lane: SSAValue | None) -> SSAValue:
        if lane is None:
            mask = self.b.opn(llvm.CallIntrinsicOp, (), (i32,), intrinsic_props("llvm.nvvm.activemask", 0)).results[0]
            poison: dict[str, Attribute] = {"is_zero_poison": int_attr(1, i1)}
            lane = self.make(INTRINSIC_OPS["cttz"], (mask,), i32, poison)
        return self._shfl("idx", word, lane, 31)

    def printf(self, op: gpu.PrintfOp) -> None:
        """Through the CUDA driver's `vprintf`: the arguments lie in a struct on the stack."""
        module = self.module_block
        format_ = self.make(llvm.AddressOfOp, (), llvm.ptr(1), address_props(self._text(op)))
        address = self.make(AddrSpaceCastOp, (format_,), llvm.ptr())
        values = [promote(self, v)[0] for v in self.lls(op.args)]
        room = self.make(xllvm.ZeroOp, (), llvm.ptr())
        if values:
            struct = llvm.StructType((False, tuple(v.type for v in values)))
            room = self.b.room(struct)
            for i, value in enumerate(values):
                props: dict[str, Attribute] = {
                    "rawConstantIndices": i32_list((0, i)),
                    "elem_type": struct,
                    "noWrapFlags": int_attr(3, i32),
                }
                at = self.make(llvm.GEPOp, (room,), llvm.ptr(), props)
                self.b.opn(llvm.StoreOp, (value, at), ())
        declare(module, "vprintf", (llvm.ptr(), llvm.ptr()), i32)
        self.b.opn(CallOp, (address, room), (i32,), CallOp.properties_for("vprintf", 2))

    def _text(self, op: gpu.PrintfOp) -> str:
        return text_global(self.module_block, op.format.data, 1, "printfFormat_")

    def kernel_attributes(self, op: gpu.FuncOp) -> dict[str, Attribute]:
        return {} if op.known_block_size is None else {"nvvm.reqntid": op.known_block_size}

    def argument_attributes(self, type_: Attribute) -> dict[str, Attribute]:
        if isinstance(type_, llvm.StructType):
            # Fields of a packed record are read in words, so the record must not be placed at an odd byte.
            return {"llvm.alignstack": int_attr(8, i64)}
        if getattr(type_, "by_value", False):
            return {
                "llvm.byval": llvm.LLVMArrayType(MAP_BYTES, i8),
                "llvm.align": int_attr(64, i64),
                "nvvm.grid_constant": UnitAttr(),
            }
        return {}


def intrinsic_props(name: str, count: int) -> dict[str, Attribute]:
    """Properties of an `llvm.call_intrinsic`."""
    found: dict[str, Any] = {"intrin": StringAttr(name), "operandSegmentSizes": i32_list((count, 0))}
    return found


@dataclass(frozen=True)
class ConvertGpuToNvvmPass(Pass):
    """Convert device code to the llvm and nvvm dialects for NVIDIA."""

    name = "convert-gpu-to-nvvm"
    needs = "no `scf` in device code (`convert-scf-to-cf`)"
    index_bitwidth: int = 0
    has_redux: bool = False
    use_bare_ptr_memref_call_conv: bool = False

    def __post_init__(self) -> None:
        check_index_width(self.index_bitwidth)

    def run(self, module: ModuleOp) -> ModuleOp:
        return NvvmConversion.convert_module(module, "")
