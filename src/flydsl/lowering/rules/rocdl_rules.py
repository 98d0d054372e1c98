"""Device code on AMD GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from xdsl.dialects.builtin import Float16Type, Float32Type, StringAttr, i1, i8, i16
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream import gpu, llvm
from ...dialects.upstream.math import Math
from ...errors import NotSupportedError
from ...ir.builder import i32, i64, operands_of
from .gpu_rules import GpuTarget, by_words, constant_of, gpu_rules, sizes_of, source_lane, widen
from .math_rules import SIMPLE_MATH
from .sink import Rule, Sink, refuse

T = TypeVar("T")
KERNEL = "rocdl.kernel"
# Implicit kernel arguments of code object v5 and later: block counts (i32), then group sizes (i16).
_BLOCK_COUNT, _GROUP_SIZE = 0, 12
PRINTING = (
    "there is no printf to call: a bare gpu.printf has no memory to print into; fx.printf in a traced kernel has, as "
    "its launch adds it"
)
"""Why IR cannot print."""


def launch_size(s: Sink[Any], what: str, dim: str) -> Any:
    """A size of blocks or grids, from the kernel's implicit arguments; an i64."""
    axis = "xyz".index(dim)
    pointer = llvm.ptr(4)
    s.note(IMPLICIT)
    base = s.instruction("implicitarg.ptr", "llvm.amdgcn.implicitarg.ptr", pointer, pure=True)
    at = _BLOCK_COUNT + 4 * axis if what == "grid" else _GROUP_SIZE + 2 * axis
    field = s.address(i8, base, pointer, (at,))
    if what == "grid":
        return widen(s, s.load(i32, field, pointer, 4, invariant=True))
    return s.cast("zext", s.load(i16, field, pointer, 2, invariant=True), i16, i64)


IMPLICIT = "implicit arguments"
"""What a function notes that reads them."""


class RocdlTarget(GpuTarget):
    """AMD's instructions."""

    kernel_attribute = KERNEL
    native_math = SIMPLE_MATH | {"exp2", "log2", "exp", "log", "log10", "sin", "cos"}

    def id(self, s: Sink[T], kind: str, dim: str) -> T:
        axis = "xyz".index(dim)
        if kind in ("thread_id", "block_id"):
            known = s.block_size if kind == "thread_id" else s.grid_size
            name = f"{'workitem' if kind == 'thread_id' else 'workgroup'}.id.{dim}"
            bound = None if known is None else known[axis]
            return widen(s, s.instruction(name, f"llvm.amdgcn.{name}", i32, pure=True, bound=bound))
        known = s.block_size if kind == "block_dim" else s.grid_size
        if known is not None:
            return s.number(known[axis], i64)
        what = "workgroup" if kind == "block_dim" else "grid"
        return s.instruction(
            f"{what}.dim.{dim}", "", i64, pure=True, expand=lambda inner: launch_size(inner, what, dim)
        )

    def lane_id(self, s: Sink[T]) -> T:
        # The upper lanes of a wave of 64 count all of the lower ones.
        low = self._count(s, "lo", s.number(0, i32), 33)
        return self._count(s, "hi", low, 64)

    def _count(self, s: Sink[T], half: str, start: T, end: int) -> T:
        name = f"mbcnt.{half}"
        args = (s.number(-1, i32), start)
        return s.instruction(name, f"llvm.amdgcn.{name}", i32, args, (i32, i32), pure=True, bound=end, defined=True)

    def warp_size(self, s: Sink[T]) -> T:
        return widen(s, self._lanes(s))

    def _lanes(self, s: Sink[T]) -> T:
        return s.instruction("wavefrontsize", "llvm.amdgcn.wavefrontsize", i32, pure=True)

    def barrier(self, s: Sink[T], op: gpu.BarrierOp) -> None:
        # A wave goes in step: its accesses only must not be moved.
        word, scope = ("wave.barrier", "wavefront") if op.of_warp else ("s.barrier", "workgroup")
        s.fence("release", scope)
        s.instruction(word, f"llvm.amdgcn.{word}", None)
        s.fence("acquire", scope)

    def shuffle(self, s: Sink[T], op: gpu.ShuffleOp) -> None:
        """`ds_swizzle` for a known xor within 32 lanes, else `ds_bpermute`, which pulls from any lane."""
        by, width = constant_of(op.offset), constant_of(op.width)
        if op.mode.data == "xor" and by is not None and width is not None and 0 <= by < min(width, 32):
            pattern = s.number(by << 10 | 31, i32)
            if s.used(op.valid):
                s.give(op.valid, s.number(1, i1))

            def swizzle(word: T) -> T:
                return s.instruction("ds_swizzle", "llvm.amdgcn.ds.swizzle", i32, (word, pattern), (i32, i32))

            by_words(s, op.value, swizzle, op.shuffle_result)
            return
        source, valid = source_lane(s, op, self.lane_id(s), self._lanes(s))
        s.give(op.valid, valid)
        at = s.binary("shl", i32, source, s.number(2, i32))

        def pull(word: T) -> T:
            return s.instruction("ds_bpermute", "llvm.amdgcn.ds.bpermute", i32, (at, word), (i32, i32))

        by_words(s, op.value, pull, op.shuffle_result)

    def ballot(self, s: Sink[T], predicate: T) -> T:
        return s.instruction("ballot", "llvm.amdgcn.ballot.i64", i64, (predicate,), (i1,))

    def vote(self, s: Sink[T], predicate: T, mode: str) -> T:
        votes = self.ballot(s, predicate)
        if mode == "any":
            return s.icmp("ne", i64, votes, s.number(0, i64))
        return s.icmp("eq", i64, votes, self.ballot(s, s.number(1, i1)))

    def broadcast(self, s: Sink[T], word: T, lane: T | None) -> T:
        if lane is None:
            return s.instruction("readfirstlane", "llvm.amdgcn.readfirstlane.i32", i32, (word,), (i32,))
        return s.instruction("readlane", "llvm.amdgcn.readlane.i32", i32, (word, lane), (i32, i32))

    def printf(self, s: Sink[T], text: str, values: Sequence[SSAValue]) -> None:
        raise NotSupportedError("rocm", "gpu.printf", PRINTING)

    def kernel_attributes(self, op: gpu.FuncOp) -> dict[str, Attribute]:
        size = sizes_of(op.known_block_size)
        if size is None or op.known_block_size is None:
            return {}
        threads = size[0] * size[1] * size[2]
        return {
            "rocdl.flat_work_group_size": StringAttr(f"{threads},{threads}"),
            "rocdl.reqd_work_group_size": op.known_block_size,
        }


def _clamp(s: Sink[T], op: Operation) -> None:
    """The middle one of three values is one instruction."""
    args = operands_of(op)
    t = args[0].type
    if not isinstance(t, Float32Type | Float16Type):
        raise refuse(op, f"on {t}")
    suffix = "f32" if isinstance(t, Float32Type) else "f16"
    values = [s.value(a) for a in args]
    s.give(op.results[0], s.instruction("fmed3", f"llvm.amdgcn.fmed3.{suffix}", t, values, [t] * 3, pure=True))


TARGET = RocdlTarget()
RULES: dict[type[Operation], Rule] = {
    **gpu_rules(TARGET),
    **{op: _clamp for op in Math.operations if op.name == "math.clampf"},
}
"""The rule of each op of device code."""
