"""Bulk copies: plain bytes between global and shared memory, issued by one thread, without a map of a tensor.

Addresses and counts are multiples of 16 bytes. Loads count their bytes on a barrier in shared memory; stores and
reductions belong to groups, which `tma.commit` ends and `tma.wait` waits for like those of tensor copies.

```mlir
"fly_nvgpu.bulk_load"(%to, %barrier, %from, %bytes) : (!fly.ptr<f32, shared>, ..., i32) -> ()
"fly_nvgpu.bulk_store"(%from, %to, %bytes) <{reduce = "add", element = "f32"}> : (...) -> ()
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import BoolAttr, StringAttr, i1, i16, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from ...ir.enums import AddressSpace
from ..fly.atom_lowering import AtomEmulation, AtomLowering
from ..fly.types import PointerType
from ..upstream import llvm
from . import registers as reg
from .effects import Effect, call_intrinsic
from .ops import NvOp, asm

UNIT = 16
"""Bytes that addresses and counts are multiples of."""

_WHOLE = ("u32", "s32", "u64", "s64")
REDUCTIONS: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f64"),
    "min": (*_WHOLE, "f16", "bf16"),
    "max": (*_WHOLE, "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}
"""What the copy engine combines: operations, and the types of elements in PTX's words."""

_SPACES = {AddressSpace.Global: "global", AddressSpace.Shared: "shared"}


class BulkOp(NvOp):
    """A copy of bytes. Where its pointers point, then other operands and their types."""

    hint = opt_prop_def(BoolAttr)
    """Whether the last operand is a policy of L2."""

    SPACES: ClassVar[tuple[AddressSpace, ...]] = ()
    OTHERS: ClassVar[tuple[Attribute, ...]] = (i32,)

    def expected(self) -> tuple[Attribute, ...]:
        """Types of the operands behind the pointers."""
        return (*self.OTHERS, i64) if self.hint is not None else self.OTHERS

    def verify_(self) -> None:
        types = tuple(v.type for v in self.args)
        count = len(self.SPACES)
        others = self.expected()
        if len(types) != count + len(others):
            raise VerifyException(f"{self.name} takes {count + len(others)} operands, got {len(types)}")
        for i, (type_, space) in enumerate(zip(types, self.SPACES, strict=False)):
            if not isinstance(type_, PointerType) or type_.data.space is not space:
                raise VerifyException(f"operand {i} of {self.name} points to {_SPACES[space]} memory, got {type_}")
        for i, (type_, want) in enumerate(zip(types[count:], others, strict=True), count):
            if type_ != want:
                raise VerifyException(f"operand {i} of {self.name} is {want}, got {type_}")


def _hint(low: AtomLowering, op: BulkOp, rest: list[SSAValue]) -> list[SSAValue]:
    """The policy and whether it counts, as the intrinsics take them last."""
    value = rest.pop() if op.hint is not None else low.b.const(0, i64)
    return [value, low.b.const(int(op.hint is not None), i1)]


def _in_space(low: AtomLowering, place: SSAValue, space: int) -> SSAValue:
    """A place in shared memory (3) as one of the cluster's (7) or the other way round: the same number."""
    number = low.b.pure(llvm.PtrToIntOp, (place,), i64, {})
    return low.b.pure(llvm.IntToPtrOp, (number,), llvm.ptr(space), {})


@irdl_op_definition
class BulkLoadOp(BulkOp):
    """Global to shared memory: destination, barrier, source, bytes, and mask or cache hint if set."""

    name = "fly_nvgpu.bulk_load"
    multicast = opt_prop_def(BoolAttr)
    SPACES: ClassVar[tuple[AddressSpace, ...]] = (AddressSpace.Shared, AddressSpace.Shared, AddressSpace.Global)

    def expected(self) -> tuple[Attribute, ...]:
        """A mask of blocks stands between the bytes and the policy."""
        mask = (i16,) if self.multicast is not None else ()
        return (i32, *mask, *super().expected()[1:])

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        reg.require(low, "a bulk copy", "bulk_copy")
        b = low.b
        to, barrier, source, nbytes, *rest = operands
        policy, hinted = _hint(low, self, rest)
        mask = rest.pop() if self.multicast is not None else b.const(0, i16)
        several = b.const(int(self.multicast is not None), i1)
        args = [_in_space(low, to, 7), barrier, source, nbytes, mask, policy, several, hinted]
        call_intrinsic(low, "llvm.nvvm.cp.async.bulk.global.to.shared.cluster", None, args, Effect.SHARES_MBARRIER)
        return ()

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return low.emulate_call("bulk.load", operands, multicast=self.multicast is not None)


@irdl_op_definition
class BulkSendOp(BulkOp):
    """Shared memory to that of another block of the cluster: destination, barrier (both as the own block has them),
    source, bytes, rank.
    """

    name = "fly_nvgpu.bulk_send"
    SPACES: ClassVar[tuple[AddressSpace, ...]] = (AddressSpace.Shared,) * 3
    OTHERS: ClassVar[tuple[Attribute, ...]] = (i32, i32)

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        reg.require(low, "a bulk copy to another block", "bulk_copy")
        to, barrier, source, nbytes, rank = operands
        mapa = "llvm.nvvm.mapa.shared.cluster"
        there, remote = (
            cast(SSAValue, call_intrinsic(low, mapa, llvm.ptr(7), [place, rank], Effect.SHARES_MBARRIER))
            for place in (to, barrier)
        )
        # The intrinsic wants the barrier as a place in shared memory; the instruction takes the cluster's address.
        args = [there, _in_space(low, remote, 3), source, nbytes]
        call_intrinsic(low, "llvm.nvvm.cp.async.bulk.shared.cta.to.cluster", None, args, Effect.READS_SHARED_ASYNC)
        return ()

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return low.emulate_call("bulk.send", operands)


@irdl_op_definition
class BulkStoreOp(BulkOp):
    """Shared to global memory: source, destination, bytes; `reduce` combines elements instead of overwriting them."""

    name = "fly_nvgpu.bulk_store"
    reduce = opt_prop_def(StringAttr)
    element = opt_prop_def(StringAttr)
    """Type of the elements that are combined, as PTX calls it."""
    SPACES: ClassVar[tuple[AddressSpace, ...]] = (AddressSpace.Shared, AddressSpace.Global)

    def verify_(self) -> None:
        super().verify_()
        if (self.reduce is None) != (self.element is None):
            raise VerifyException(f"{self.name} has both `reduce` and `element` or neither")
        if self.reduce is None or self.element is None:
            return
        known = REDUCTIONS.get(self.reduce.data)
        if known is None:
            raise VerifyException(f"{self.name} reduces with {', '.join(REDUCTIONS)}, got {self.reduce.data}")
        if self.element.data not in known:
            raise VerifyException(f"{self.name} does {self.reduce.data} on {', '.join(known)}, got {self.element.data}")

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        reduction = self._reduction()
        reg.require(low, "a bulk copy", "bulk_copy")
        source, to, nbytes, *rest = operands
        if reduction is not None:
            _reduce(low, *reduction, [to, source, nbytes, *rest])
            return ()
        policy = _hint(low, self, rest)
        args = [to, source, nbytes, *policy]
        call_intrinsic(low, "llvm.nvvm.cp.async.bulk.shared.cta.to.global", None, args, Effect.READS_SHARED_ASYNC)
        return ()

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return low.emulate_call("bulk.store", operands, reduction=self._reduction())

    def _reduction(self) -> tuple[str, str] | None:
        return None if self.reduce is None or self.element is None else (self.reduce.data, self.element.data)


def _reduce(low: AtomLowering, op: str, element: str, operands: Sequence[SSAValue]) -> None:
    """The instruction itself: LLVM has no intrinsic for it."""
    to, source, nbytes, *policy = operands
    exact = ".noftz" if op == "add" and element in ("f16", "bf16") else ""
    hint = ".L2::cache_hint" if policy else ""
    name = f"cp.reduce.async.bulk.global.shared::cta.bulk_group{hint}.{op}{exact}.{element}"
    here = low.b.pure(llvm.PtrToIntOp, (source,), i32, {})
    last = ", $3" if policy else ""
    constraints = f"l,r,r{',l' if policy else ''},~{{memory}}"
    args = [to, here, nbytes, *policy]
    asm(low, f"{name} [$0], [$1], $2{last};", constraints, args, None, effects=(Effect.READS_SHARED_ASYNC,))


@irdl_op_definition
class BulkPrefetchOp(BulkOp):
    """Global memory into L2: source, bytes."""

    name = "fly_nvgpu.bulk_prefetch"
    SPACES: ClassVar[tuple[AddressSpace, ...]] = (AddressSpace.Global,)

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        reg.require(low, "a bulk prefetch", "bulk_copy")
        source, nbytes, *rest = operands
        low.intrinsic("llvm.nvvm.cp.async.bulk.prefetch.L2", None, [source, nbytes, *_hint(low, self, rest)])
        return ()

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return low.emulate_call("bulk.prefetch", operands)


OPS: list[type[BulkOp]] = [BulkLoadOp, BulkSendOp, BulkStoreOp, BulkPrefetchOp]
