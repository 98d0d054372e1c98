"""Operations beside the atoms: barriers in shared memory, groups of asynchronous copies, fences, warp roles, clusters.

They are one op, `fly_nvgpu.call`, with the kind of operation as a property; `KINDS` says what each becomes. An op that
is more than an intrinsic has a class of its own below. All of them lower themselves: `lower(low, operands)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, i1, i16, i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_result_def,
)

from ...errors import DSLCompileError
from ..fly.atoms import AtomLowering, Operand
from ..upstream import llvm
from . import registers as reg


class Kind(NamedTuple):
    """An operation that is one intrinsic: its LLVM name, operands before the given ones, result and oldest sm."""

    intrinsic: str
    result: Attribute | None = None
    least_arch: int = 80
    dropped: Attribute | None = None
    """Type of a result nobody asks for."""


_STATE = i64
_ELECT = llvm.StructType((False, (i32, i1)))

KINDS: dict[str, Kind] = {
    "cp_async.commit": Kind("llvm.nvvm.cp.async.commit.group"),
    "cp_async.wait": Kind("llvm.nvvm.cp.async.wait.group"),
    "cp_async.wait_all": Kind("llvm.nvvm.cp.async.wait.all"),
    "cp_async.arrive": Kind("llvm.nvvm.cp.async.mbarrier.arrive.shared"),
    "cp_async.arrive_noinc": Kind("llvm.nvvm.cp.async.mbarrier.arrive.noinc.shared"),
    "mbarrier.init": Kind("llvm.nvvm.mbarrier.init.shared"),
    "mbarrier.inval": Kind("llvm.nvvm.mbarrier.inval.shared"),
    "mbarrier.arrive": Kind("llvm.nvvm.mbarrier.arrive.scope.cta.space.cta", None, 80, _STATE),
    "mbarrier.arrive_expect_tx": Kind("llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta", None, 90, _STATE),
    "mbarrier.expect_tx": Kind("llvm.nvvm.mbarrier.expect.tx.scope.cta.space.cta", None, 90),
    "mbarrier.test": Kind("llvm.nvvm.mbarrier.test.wait.parity.scope.cta.space.cta", i1, 80),
    "mbarrier.try_wait": Kind("llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta", i1, 90),
    "fence.mbarrier_init": Kind("llvm.nvvm.fence.mbarrier_init.release.cluster", None, 90),
    "fence.proxy_async": Kind("llvm.nvvm.fence.proxy.async.shared_cta", None, 90),
    "barrier.sync": Kind("llvm.nvvm.barrier.cta.sync.aligned.count"),
    "barrier.arrive": Kind("llvm.nvvm.barrier.cta.arrive.aligned.count"),
    "cluster.arrive": Kind("llvm.nvvm.barrier.cluster.arrive", None, 90),
    "cluster.arrive_relaxed": Kind("llvm.nvvm.barrier.cluster.arrive.relaxed", None, 90),
    "cluster.wait": Kind("llvm.nvvm.barrier.cluster.wait", None, 90),
    "cluster.rank": Kind("llvm.nvvm.read.ptx.sreg.cluster.ctarank", i32, 90),
    "cluster.size": Kind("llvm.nvvm.read.ptx.sreg.cluster.nctarank", i32, 90),
    "setmaxnreg.inc": Kind("llvm.nvvm.setmaxnreg.inc.sync.aligned.u32", None, 90),
    "setmaxnreg.dec": Kind("llvm.nvvm.setmaxnreg.dec.sync.aligned.u32", None, 90),
    "griddepcontrol.wait": Kind("llvm.nvvm.griddepcontrol.wait", None, 90),
    "griddepcontrol.launch": Kind("llvm.nvvm.griddepcontrol.launch.dependents", None, 90),
    "wgmma.fence": Kind("llvm.nvvm.wgmma.fence.sync.aligned", None, 90),
    "wgmma.commit": Kind("llvm.nvvm.wgmma.commit_group.sync.aligned", None, 90),
    "tma.commit": Kind("llvm.nvvm.cp.async.bulk.commit.group", None, 90),
    "tma.wait": Kind("llvm.nvvm.cp.async.bulk.wait.group", None, 90),
    "tma.wait_read": Kind("llvm.nvvm.cp.async.bulk.wait.group.read", None, 90),
    "tma.prefetch_map": Kind("llvm.nvvm.prefetch.tensormap.p0", None, 90),
}
"""Operations by name. What they are on the cpu stack is in `cpu/emulation/nv.py`."""


class NvOp(IRDLOperation):
    """An op of this dialect: any operands, and the lowering in the class."""

    args = var_operand_def()
    res = var_result_def()

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Emit what the op means on the target behind `low`; gives its results."""
        raise NotImplementedError(f"{self.name} has no lowering")


def _is_old(low: AtomLowering) -> bool:
    """Whether barriers in shared memory count single arrivals and are polled: before Hopper."""
    return (reg.arch_number(low.arch) or 90) < 90


def _arrive_once(low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """The arrival of sm_80, which has no count."""
    barrier, count = operands
    if low.b.const_of.get(count) != 1:
        raise DSLCompileError(f"an mbarrier of {low.arch} counts one arrival at a time; several need sm_90")
    low.intrinsic("llvm.nvvm.mbarrier.arrive.shared", _STATE, [barrier])
    return ()


@irdl_op_definition
class CallOp(NvOp):
    """`"fly_nvgpu.call"(%barrier, %count) <{kind = "mbarrier.init"}>`."""

    name = "fly_nvgpu.call"
    kind = prop_def(StringAttr)

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        name = self.kind.data
        if reg.nv(low).target == "cpu":
            return reg.nv(low).emulate_call(name, operands)
        kind = KINDS[name]
        reg.check_arch(low, name, kind.least_arch)
        if name == "mbarrier.arrive" and _is_old(low):
            return _arrive_once(low, operands)
        result = low.intrinsic(kind.intrinsic, kind.result or kind.dropped, operands)
        return () if kind.result is None else (cast(SSAValue, result),)


@irdl_op_definition
class MBarrierWaitOp(NvOp):
    """Wait until the phase of a barrier with this parity is over: `try_wait` in a loop, before sm_90 `test_wait`."""

    name = "fly_nvgpu.mbarrier_wait"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if reg.nv(low).target == "cpu":
            return reg.nv(low).emulate_call("mbarrier.wait", operands)
        b = low.b
        before, after = Block(), Block()
        with b.region(before):
            kind = "mbarrier.test" if _is_old(low) else "mbarrier.try_wait"
            done = low.intrinsic(KINDS[kind].intrinsic, i1, operands)
            again = b.int_binary("xori", cast(SSAValue, done), b.const(1, i1))
            b.opn(scf.ConditionOp, (again,), ())
        with b.region(after):
            b.opn(scf.YieldOp, (), ())
        b.with_regions(scf.WhileOp, (), (), [Region(before), Region(after)])
        return ()


@irdl_op_definition
class MBarrierArriveRemoteOp(NvOp):
    """Arrive on the barrier at the same place in another block of the cluster: barrier, rank."""

    name = "fly_nvgpu.mbarrier_arrive_remote"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if reg.nv(low).target == "cpu":
            return reg.nv(low).emulate_call("mbarrier.arrive_remote", operands)
        there = low.intrinsic("llvm.nvvm.mapa.shared.cluster", llvm.ptr(7), operands)
        # The cluster scope would flush all memory first and cost a fifth of a pipeline's speed.
        name = "llvm.nvvm.mbarrier.arrive.scope.cta.space.cluster"
        low.intrinsic(name, None, [cast(SSAValue, there), low.b.i32(1)])
        return ()


@irdl_op_definition
class PeerOp(NvOp):
    """Generic address of a place in shared memory as another block of the cluster has it: place, rank."""

    name = "fly_nvgpu.peer"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        b = low.b
        if reg.nv(low).target == "cpu":
            return (b.pure(llvm.PtrToIntOp, reg.nv(low).emulate_call("peer", operands), i64, {}),)
        reg.check_arch(low, "the shared memory of other blocks", 90)
        here = b.pure(llvm.PtrToIntOp, (operands[0],), i32, {})
        text = "{\n.reg .b64 a;\ncvt.u64.u32 a, $1;\ncvta.shared.u64 a, a;\nmapa.u64 $0, a, $2;\n}"
        return (cast(SSAValue, asm(low, text, "=l,r,r", [here, operands[1]], i64)),)


@irdl_op_definition
class ElectOp(NvOp):
    """True in one thread of the warp."""

    name = "fly_nvgpu.elect"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if reg.nv(low).target == "cpu":
            return reg.nv(low).emulate_call("elect", operands)
        pair = low.intrinsic("llvm.nvvm.elect.sync", _ELECT, [low.b.i32(-1)])
        return (reg.fields(low, cast(SSAValue, pair), 2)[1],)


@irdl_op_definition
class UniformOp(NvOp):
    """The value of lane 0, which the compiler then knows to be the same in the whole warp."""

    name = "fly_nvgpu.uniform"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if reg.nv(low).target == "cpu":
            return reg.nv(low).emulate_call("uniform", operands)
        b = low.b
        args = [b.i32(-1), operands[0], b.i32(0), b.i32(31)]
        return (cast(SSAValue, low.intrinsic("llvm.nvvm.shfl.sync.idx.i32", i32, args)),)


@irdl_op_definition
class AsmOp(NvOp):
    """Inline PTX; operands and result as its constraints say.

    `memory` tells what it does to memory: nothing that anyone can see (`none`), or a `read` or `write` of what its
    pointer operands point at. Without it all effects are possible.
    """

    name = "fly_nvgpu.asm"
    text = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    memory = opt_prop_def(StringAttr)


def asm(
    low: AtomLowering,
    text: str,
    constraints: str,
    operands: Sequence[SSAValue],
    result: Attribute | None,
    *,
    memory: str | None = None,
) -> SSAValue | None:
    """Inline assembly, with side effects unless `memory` says what it does."""
    props: dict[str, Attribute] = {"text": StringAttr(text), "constraints": StringAttr(constraints)}
    if memory is not None:
        props["memory"] = StringAttr(memory)
    op = low.b.opn(AsmOp, operands, () if result is None else (result,), props)
    return op.results[0] if op.results else None


def tensor_operand(low: AtomLowering, value: SSAValue) -> Operand:
    """A tensor operand of an op, as atoms see theirs."""
    lowering: Any = low
    return lowering.operand(lowering.obj(value) if hasattr(lowering, "obj") else value)


@irdl_op_definition
class WgmmaWaitOp(NvOp):
    """Wait until at most `pending` groups of `wgmma` are unfinished; the accumulators given are then valid.

    To the compiler an accumulator is ready as soon as its instruction is issued, so those that are read next must pass
    through the wait.
    """

    name = "fly_nvgpu.wgmma_wait"
    pending = prop_def(IntegerAttr)

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        pending = self.pending.value.data
        if reg.nv(low).target == "cpu":
            return ()
        if not self.args:
            low.intrinsic("llvm.nvvm.wgmma.wait_group.sync.aligned", None, [low.b.const(pending, i64)])
            return ()
        places: list[Operand] = []
        for tensor in self.args:
            at = tensor_operand(low, tensor)
            places += [reg.moved(low, at, o) for o in reg.all_offsets(at)]
        values = [low.load(at, reg.storage(at.data.elem)) for at in places]
        count = len(values)
        letters = [_letter(v.type) for v in values]
        constraints = ",".join([*(f"={x}" for x in letters), *map(str, range(count)), "~{memory}"])
        type_ = values[0].type if count == 1 else llvm.StructType((False, tuple(v.type for v in values)))
        result = asm(low, f"wgmma.wait_group.sync.aligned {pending};", constraints, values, type_)
        for at, value in zip(places, reg.fields(low, cast(SSAValue, result), count), strict=True):
            low.store(value, at)
        return ()


def _letter(type_: Attribute) -> str:
    """Constraint letter of a 32-bit register."""
    return "f" if getattr(type_, "name", "") == "f32" else "r"


@irdl_op_definition
class TmaLoadOp(NvOp):
    """A box of a tensor into shared memory: destination, barrier, map, coordinates, and mask or cache hint if set."""

    name = "fly_nvgpu.tma_load"
    rank = prop_def(IntegerAttr)
    multicast = opt_prop_def(BoolAttr)
    hint = opt_prop_def(BoolAttr)

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if reg.nv(low).target == "cpu":
            props = {"rank": self.rank.value.data, "multicast": self.multicast is not None}
            return reg.nv(low).emulate_call("tma.load", operands, **props)
        b, rank = low.b, self.rank.value.data
        dst, barrier, tensor_map, *rest = operands
        coords, rest = rest[:rank], rest[rank:]
        mask = rest.pop(0) if self.multicast is not None else b.const(0, i16)
        hint = rest.pop(0) if self.hint is not None else b.const(0, i64)
        # The window of the own block lies at the same addresses in the cluster's.
        here = b.pure(llvm.IntToPtrOp, (b.pure(llvm.PtrToIntOp, (dst,), i32, {}),), llvm.ptr(7), {})
        flags = [b.const(int(x is not None), i1) for x in (self.multicast, self.hint)]
        name = f"llvm.nvvm.cp.async.bulk.tensor.g2s.tile.{rank}d"
        low.intrinsic(name, None, [here, barrier, tensor_map, *coords, mask, hint, *flags, b.i32(0)])
        return ()


@irdl_op_definition
class TmaStoreOp(NvOp):
    """A box of shared memory into a tensor: source, map, coordinates; `reduce` combines instead of overwriting."""

    name = "fly_nvgpu.tma_store"
    rank = prop_def(IntegerAttr)
    reduce = opt_prop_def(StringAttr)

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if reg.nv(low).target == "cpu":
            reduce = None if self.reduce is None else self.reduce.data
            return reg.nv(low).emulate_call("tma.store", operands, rank=self.rank.value.data, reduce=reduce)
        rank = self.rank.value.data
        name = f"llvm.nvvm.cp.async.bulk.tensor.s2g.tile.{rank}d"
        if self.reduce is not None:
            name = f"llvm.nvvm.cp.async.bulk.tensor.reduce.{self.reduce.data}.tile.{rank}d"
        low.intrinsic(name, None, [*operands, low.b.const(0, i64), low.b.const(0, i1)])
        return ()
