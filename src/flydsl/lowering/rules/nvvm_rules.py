"""Device code on NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from xdsl.dialects.builtin import UnitAttr, i8
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream import gpu, llvm
from ...ir.builder import i1, i32, i64, int_attr
from .func_rules import promote
from .gpu_rules import GpuTarget, by_words, constant_of, gpu_rules, source_lane, widen
from .math_rules import SIMPLE_MATH
from .sink import Rule, Sink

if TYPE_CHECKING:
    from ...dialects.fly_nvgpu.ops import AsmOp

T = TypeVar("T")
_INBOUNDS = 3
KERNEL = "nvvm.kernel"
_REGISTERS = {"thread_id": "tid", "block_id": "ctaid", "block_dim": "ntid", "grid_dim": "nctaid"}
_ALL = -1
"""The mask of a warp whose lanes all take part."""


class NvvmTarget(GpuTarget):
    """NVIDIA's instructions."""

    kernel_attribute = KERNEL
    native_math = SIMPLE_MATH

    def id(self, s: Sink[T], kind: str, dim: str) -> T:
        axis = "xyz".index(dim)
        known = s.block_size if kind in ("block_dim", "thread_id") else s.grid_size
        if known is not None and kind in ("block_dim", "grid_dim"):
            return s.number(known[axis], i64)
        return widen(s, self._read(s, f"{_REGISTERS[kind]}.{dim}", None if known is None else known[axis]))

    def _read(self, s: Sink[T], register: str, bound: int | None) -> T:
        name = f"read.ptx.sreg.{register}"
        return s.instruction(name, f"llvm.nvvm.{name}", i32, pure=True, bound=bound)

    def lane_id(self, s: Sink[T]) -> T:
        return self._read(s, "laneid", 32)

    def warp_size(self, s: Sink[T]) -> T:
        return s.number(32, i64)

    def barrier(self, s: Sink[T], op: gpu.BarrierOp) -> None:
        if op.of_warp:
            s.instruction("bar.warp.sync", "llvm.nvvm.bar.warp.sync", None, (s.number(-1, i32),), (i32,))
            return
        s.instruction("barrier0", "llvm.nvvm.barrier.cta.sync.aligned.all", None, immediates=((i32, 0),))

    def shuffle(self, s: Sink[T], op: gpu.ShuffleOp) -> None:
        """One `shfl.sync` per word; forms of less than a warp pull from a computed lane.

        The last operand bounds the lanes: `up` clamps at the first of the segment, which is 0, the others at its last.
        """
        mode, width, by = op.mode.data, constant_of(op.width), constant_of(op.offset)
        whole = width == 32
        if mode == "idx":
            whole = width is not None and by is not None and 0 <= by < 32
        if whole and not s.used(op.valid):
            clamp, at = 0 if mode == "up" else 31, s.value(op.offset)
            kind = {"xor": "bfly"}.get(mode, mode)
        else:
            at, valid = source_lane(s, op, self.lane_id(s), s.number(32, i32))
            s.give(op.valid, valid)
            kind, clamp = "idx", 31
        by_words(s, op.value, lambda word: self._shfl(s, kind, word, at, clamp), op.shuffle_result)

    def _shfl(self, s: Sink[T], kind: str, word: T, at: T, clamp: int) -> T:
        args = (s.number(_ALL, i32), word, at, s.number(clamp, i32))
        name = f"llvm.nvvm.shfl.sync.{kind}.i32"
        return s.instruction("shfl.sync", name, i32, args, (i32,) * 4, keywords={"kind": kind})

    def ballot(self, s: Sink[T], predicate: T) -> T:
        return s.cast("zext", self._vote(s, predicate, "ballot", i32), i32, i64)

    def vote(self, s: Sink[T], predicate: T, mode: str) -> T:
        return self._vote(s, predicate, mode, i1)

    def _vote(self, s: Sink[T], predicate: T, kind: str, type_: Attribute) -> T:
        args = (s.number(_ALL, i32), predicate)
        return s.instruction(
            "vote.sync", f"llvm.nvvm.vote.{kind}.sync", type_, args, (i32, i1), keywords={"kind": kind}
        )

    def broadcast(self, s: Sink[T], word: T, lane: T | None) -> T:
        if lane is None:
            mask = s.instruction("", "llvm.nvvm.activemask", i32)
            lane = s.intr("cttz", i32, (mask,), (i32,), None, 1)
        return self._shfl(s, "idx", word, lane, 31)

    def printf(self, s: Sink[T], text: str, values: Sequence[SSAValue]) -> None:
        """Through the CUDA driver's `vprintf`: the arguments lie in a struct on the stack."""
        format_ = s.cast("addrspacecast", s.text(text, "printfFormat_", 1), llvm.ptr(1), llvm.ptr())
        pairs = [promote(s, v) for v in values]
        room = s.null(llvm.ptr())
        if pairs:
            struct = llvm.StructType((False, tuple(t for _, t in pairs)))
            room = s.room(struct, 8)
            for i, (value, type_) in enumerate(pairs):
                at = s.address(struct, room, llvm.ptr(), (0, i), _INBOUNDS)
                s.store(type_, value, at, llvm.ptr(), 0)
        s.call("vprintf", i32, [format_, room], [llvm.ptr(), llvm.ptr()])

    def kernel_attributes(self, op: gpu.FuncOp) -> dict[str, Attribute]:
        return {} if op.known_block_size is None else {"nvvm.reqntid": op.known_block_size}

    def argument_attributes(self, type_: Attribute) -> dict[str, Attribute]:
        if isinstance(type_, llvm.StructType):
            # Fields of a packed record are read in words, so the record must not be placed at an odd byte.
            return {"llvm.alignstack": int_attr(8, i64)}
        if getattr(type_, "by_value", False):
            from ...dialects.fly_nvgpu.tma import MAP_BYTES

            return {
                "llvm.byval": llvm.LLVMArrayType(MAP_BYTES, i8),
                "llvm.align": int_attr(64, i64),
                "nvvm.grid_constant": UnitAttr(),
            }
        return {}


_MEMORY = {"none": "none", "read": "argmem: read", "write": "argmem: write"}
"""What inline assembly does to memory, in the words of LLVM."""


def inline_asm(s: Sink[T], op: AsmOp) -> None:
    """Inline PTX."""
    memory = None if op.memory is None else _MEMORY[op.memory.data]
    result = op.res[0].type if op.res else None
    args = [s.value(v) for v in op.args]
    made = s.asm(op.text.data, op.constraints.data, result, args, [v.type for v in op.args], memory)
    if op.res:
        s.give(op.res[0], made)


TARGET = NvvmTarget()
RULES: dict[type[Operation], Rule] = gpu_rules(TARGET)
"""The rule of each op of device code."""
LATE: dict[str, Rule] = {"fly_nvgpu.asm": inline_asm}
"""Rules of ops whose dialect few kernels load, by name."""
