"""Operations beside the atoms: barriers in shared memory, groups of asynchronous copies, fences, warp roles, clusters.

They are one op, `fly_nvgpu.call`, with the kind of operation as a property; `KINDS` says what each becomes. An op that
is more than an intrinsic has a class of its own below. All of them lower and emulate themselves, as atoms do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, f16
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, var_operand_def, var_result_def

from ...errors import DSLCompileError
from ...ir.builder import int_attr
from ...ir.types import i1, i16, i32, i64, vector_type
from ...target import since
from ..fly.atom_lowering import AtomEmulation, AtomLowering, Operand
from ..upstream import llvm, scf
from . import registers as reg
from .effects import Effect, call_intrinsic, declare


class Kind(NamedTuple):
    """An operation that is one intrinsic: its LLVM name, the feature it belongs to, and its result."""

    intrinsic: str
    feature: str
    result: Attribute | None = None
    dropped: Attribute | None = None
    """Type of a result nobody asks for."""
    effects: tuple[Effect, ...] = ()


_STATE = i64
_ARRIVES = (Effect.SYNCHRONIZES,)
_LANDS = (Effect.WRITES_SHARED,)
"""Copies of threads write when they are waited for: a fence in front of that orders nothing."""
_CLUSTER = (Effect.SYNCHRONIZES, Effect.SHARES_MBARRIER)
_ELECT = llvm.StructType((False, (i32, i1)))

KINDS: dict[str, Kind] = {
    "cp_async.commit": Kind("llvm.nvvm.cp.async.commit.group", "cp_async"),
    "cp_async.wait": Kind("llvm.nvvm.cp.async.wait.group", "cp_async", effects=_LANDS),
    "cp_async.wait_all": Kind("llvm.nvvm.cp.async.wait.all", "cp_async", effects=_LANDS),
    "cp_async.arrive": Kind("llvm.nvvm.cp.async.mbarrier.arrive.shared", "cp_async", effects=_ARRIVES),
    "cp_async.arrive_noinc": Kind("llvm.nvvm.cp.async.mbarrier.arrive.noinc.shared", "cp_async", effects=_ARRIVES),
    "mbarrier.init": Kind("llvm.nvvm.mbarrier.init.shared", "mbarrier", effects=(Effect.MBARRIER_INIT,)),
    "mbarrier.inval": Kind("llvm.nvvm.mbarrier.inval.shared", "mbarrier"),
    "mbarrier.arrive": Kind("llvm.nvvm.mbarrier.arrive.scope.cta.space.cta", "mbarrier", None, _STATE, _ARRIVES),
    "mbarrier.arrive_expect_tx": Kind(
        "llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta", "mbarrier_tx", None, _STATE, _ARRIVES
    ),
    "mbarrier.expect_tx": Kind("llvm.nvvm.mbarrier.expect.tx.scope.cta.space.cta", "mbarrier_tx"),
    "mbarrier.test": Kind("llvm.nvvm.mbarrier.test.wait.parity.scope.cta.space.cta", "mbarrier", i1),
    "mbarrier.try_wait": Kind("llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta", "mbarrier_count", i1),
    "fence.mbarrier_init": Kind(
        "llvm.nvvm.fence.mbarrier_init.release.cluster", "clusters", effects=(Effect.MBARRIER_INIT_FENCE,)
    ),
    "fence.proxy_async": Kind("llvm.nvvm.fence.proxy.async.shared_cta", "bulk_copy", effects=(Effect.PROXY_FENCE,)),
    "barrier.sync": Kind("llvm.nvvm.barrier.cta.sync.aligned.count", "named_barrier", effects=_ARRIVES),
    "barrier.arrive": Kind("llvm.nvvm.barrier.cta.arrive.aligned.count", "named_barrier", effects=_ARRIVES),
    "cluster.arrive": Kind("llvm.nvvm.barrier.cluster.arrive", "clusters", effects=_CLUSTER),
    "cluster.arrive_relaxed": Kind("llvm.nvvm.barrier.cluster.arrive.relaxed", "clusters", effects=_CLUSTER),
    "cluster.wait": Kind("llvm.nvvm.barrier.cluster.wait", "clusters", effects=_CLUSTER),
    "cluster.rank": Kind("llvm.nvvm.read.ptx.sreg.cluster.ctarank", "clusters", i32),
    "cluster.size": Kind("llvm.nvvm.read.ptx.sreg.cluster.nctarank", "clusters", i32),
    "setmaxnreg.inc": Kind("llvm.nvvm.setmaxnreg.inc.sync.aligned.u32", "setmaxnreg"),
    "setmaxnreg.dec": Kind("llvm.nvvm.setmaxnreg.dec.sync.aligned.u32", "setmaxnreg"),
    "griddepcontrol.wait": Kind("llvm.nvvm.griddepcontrol.wait", "dependent_launch"),
    "griddepcontrol.launch": Kind("llvm.nvvm.griddepcontrol.launch.dependents", "dependent_launch"),
    "wgmma.fence": Kind("llvm.nvvm.wgmma.fence.sync.aligned", "wgmma", effects=(Effect.WGMMA_FENCE,)),
    "wgmma.commit": Kind("llvm.nvvm.wgmma.commit_group.sync.aligned", "wgmma", effects=(Effect.WGMMA_COMMIT,)),
    "tma.commit": Kind("llvm.nvvm.cp.async.bulk.commit.group", "bulk_copy"),
    "tma.wait": Kind("llvm.nvvm.cp.async.bulk.wait.group", "bulk_copy"),
    "tma.wait_read": Kind("llvm.nvvm.cp.async.bulk.wait.group.read", "bulk_copy"),
    "tma.prefetch_map": Kind("llvm.nvvm.prefetch.tensormap.p0", "bulk_copy"),
    "vote.any": Kind("llvm.nvvm.vote.any.sync", "uniform", i1),
    "cvt.e4m3x2": Kind("llvm.nvvm.ff.to.e4m3x2.rn", "mma_sync_fp8", i16),
    "cvt.e5m2x2": Kind("llvm.nvvm.ff.to.e5m2x2.rn", "mma_sync_fp8", i16),
    "cvt.from_e4m3x2": Kind("llvm.nvvm.e4m3x2.to.f16x2.rn", "mma_sync_fp8", vector_type(f16, 2)),
    "cvt.from_e5m2x2": Kind("llvm.nvvm.e5m2x2.to.f16x2.rn", "mma_sync_fp8", vector_type(f16, 2)),
}
"""Operations by name. What they are on the cpu stack is in `cpu/emulation/nv.py`."""


class NvOp(IRDLOperation):
    """An op of this dialect: any operands, and the lowering in the class."""

    args = var_operand_def()
    res = var_result_def()

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Emit what the op is on NVIDIA GPUs; gives its results."""
        raise NotImplementedError(f"{self.name} has no lowering")

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Emit what the op does, for the cpu stack; gives its results."""
        raise NotImplementedError(f"{self.name} is not emulated")


def _is_old(low: AtomLowering) -> bool:
    """Whether barriers in shared memory count single arrivals and are polled: before Hopper."""
    return not low.has("mbarrier_count")


def _arrive_once(low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """The arrival before Hopper, which has no count."""
    barrier, count = operands
    if low.b.const_of.get(count) != 1:
        need = since("mbarrier_count")
        raise DSLCompileError(f"an mbarrier of {low.arch} counts one arrival at a time; several need {need}")
    call_intrinsic(low, "llvm.nvvm.mbarrier.arrive.shared", _STATE, [barrier], *_ARRIVES)
    return ()


@irdl_op_definition
class CallOp(NvOp):
    """`"fly_nvgpu.call"(%barrier, %count) <{kind = "mbarrier.init"}>`."""

    name = "fly_nvgpu.call"
    kind = prop_def(StringAttr)

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        name = self.kind.data
        kind = KINDS[name]
        reg.require(low, name, kind.feature)
        if name == "mbarrier.arrive" and _is_old(low):
            return _arrive_once(low, operands)
        result = call_intrinsic(low, kind.intrinsic, kind.result or kind.dropped, operands, *kind.effects)
        return () if kind.result is None else (cast(SSAValue, result),)

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return low.emulate_call(self.kind.data, operands)


@irdl_op_definition
class MBarrierWaitOp(NvOp):
    """Wait until the phase of a barrier with this parity is over: `try_wait` in a loop, before Hopper `test_wait`."""

    name = "fly_nvgpu.mbarrier_wait"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
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

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return low.emulate_call("mbarrier.wait", operands)


@irdl_op_definition
class MBarrierArriveRemoteOp(NvOp):
    """Arrive on the barrier at the same place in another block of the cluster: barrier, rank."""

    name = "fly_nvgpu.mbarrier_arrive_remote"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        mapa = "llvm.nvvm.mapa.shared.cluster"
        there = call_intrinsic(low, mapa, llvm.ptr(7), operands, Effect.SHARES_MBARRIER)
        # The cluster scope would flush all memory first and cost a fifth of a pipeline's speed.
        name = "llvm.nvvm.mbarrier.arrive.scope.cta.space.cluster"
        call_intrinsic(low, name, None, [cast(SSAValue, there), low.b.i32(1)], *_ARRIVES)
        return ()

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return low.emulate_call("mbarrier.arrive_remote", operands)


@irdl_op_definition
class PeerOp(NvOp):
    """Generic address of a place in shared memory as another block of the cluster has it: place, rank."""

    name = "fly_nvgpu.peer"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        b = low.b
        reg.require(low, "the shared memory of other blocks", "clusters")
        here = b.pure(llvm.PtrToIntOp, (operands[0],), i32, {})
        text = "{\n.reg .b64 a;\ncvt.u64.u32 a, $1;\ncvta.shared.u64 a, a;\nmapa.u64 $0, a, $2;\n}"
        return (cast(SSAValue, asm(low, text, "=l,r,r", [here, operands[1]], i64, effects=(Effect.ADDRESSES_PEER,))),)

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return (low.b.pure(llvm.PtrToIntOp, low.emulate_call("peer", operands), i64, {}),)


@irdl_op_definition
class ElectOp(NvOp):
    """True in one thread of the warp."""

    name = "fly_nvgpu.elect"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        pair = low.intrinsic("llvm.nvvm.elect.sync", _ELECT, [low.b.i32(-1)])
        return (reg.fields(low, cast(SSAValue, pair), 2)[1],)

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return low.emulate_call("elect", operands)


@irdl_op_definition
class UniformOp(NvOp):
    """The value of lane 0, which the compiler then knows to be the same in the whole warp."""

    name = "fly_nvgpu.uniform"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        b = low.b
        args = [b.i32(-1), operands[0], b.i32(0), b.i32(31)]
        return (cast(SSAValue, low.intrinsic("llvm.nvvm.shfl.sync.idx.i32", i32, args)),)

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return low.emulate_call("uniform", operands)


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
    effects: Sequence[Effect] = (),
) -> SSAValue | None:
    """Inline assembly, with side effects unless `memory` says what it does."""
    props: dict[str, Attribute] = {"text": StringAttr(text), "constraints": StringAttr(constraints)}
    if memory is not None:
        props["memory"] = StringAttr(memory)
    op = low.b.opn(AsmOp, operands, () if result is None else (result,), props)
    declare(op, *effects)
    return op.results[0] if op.results else None


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
        reg.require(low, "wgmma.wait", "wgmma")
        if not self.args:
            wait = "llvm.nvvm.wgmma.wait_group.sync.aligned"
            call_intrinsic(low, wait, None, [low.b.const(pending, i64)], Effect.WGMMA_WAIT)
            return ()
        places: list[Operand] = []
        for tensor in self.args:
            at = low.tensor(tensor)
            places += [low.moved(at, o) for o in reg.all_offsets(at)]
        values = [low.load(at, reg.storage(at.data.elem)) for at in places]
        count = len(values)
        letters = [_letter(v.type) for v in values]
        constraints = ",".join([*(f"={x}" for x in letters), *map(str, range(count)), "~{memory}"])
        type_ = values[0].type if count == 1 else llvm.StructType((False, tuple(v.type for v in values)))
        text = f"wgmma.wait_group.sync.aligned {pending};"
        result = asm(low, text, constraints, values, type_, effects=(Effect.WGMMA_WAIT,))
        for at, value in zip(places, reg.fields(low, cast(SSAValue, result), count), strict=True):
            low.store(value, at)
        return ()

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return low.emulate_call("wgmma.wait", [low.b.i32(self.pending.value.data)])


@irdl_op_definition
class HoldOp(NvOp):
    """Waits for products stay behind what computes a value: a place of shared memory that nobody reads, and the value.

    The assembler moves a wait up to the first result that needs it, in front of what was to run during the products.
    It keeps stores in front of waits, though.
    """

    name = "fly_nvgpu.hold"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        reg.require(low, "hold", "wgmma")
        # No store that the fences' pass sees: nobody needs to see it.
        asm(low, "st.shared.f32 [$0], $1;", "l,f", operands, None)
        return ()

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return ()


@irdl_op_definition
class AddGlobalOp(NvOp):
    """Two or four floats added to global memory, each for itself: where, and the values."""

    name = "fly_nvgpu.add_global"

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        reg.require(low, "add_global", "bulk_copy")
        count = len(operands) - 1
        names = ", ".join(f"${i + 1}" for i in range(count))
        text = f"red.relaxed.gpu.global.add.v{count}.f32 [$0], {{{names}}};"
        asm(low, text, ",".join(["l", *["f"] * count, "~{memory}"]), operands, None, memory="write")
        return ()

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        place, *values = operands
        props: dict[str, Attribute] = {
            "bin_op": int_attr(llvm.ATOMIC_BINARY.index("fadd"), i64),
            "ordering": int_attr(llvm.ORDERINGS["monotonic"], i64),
        }
        for i, value in enumerate(values):
            low.b.op1(llvm.AtomicRMWOp, (low.at(place, 4 * i), value), value.type, dict(props))
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
        b, rank = low.b, self.rank.value.data
        dst, barrier, tensor_map, *rest = operands
        coords, rest = rest[:rank], rest[rank:]
        mask = rest.pop(0) if self.multicast is not None else b.const(0, i16)
        hint = rest.pop(0) if self.hint is not None else b.const(0, i64)
        # The window of the own block lies at the same addresses in the cluster's.
        here = b.pure(llvm.IntToPtrOp, (b.pure(llvm.PtrToIntOp, (dst,), i32, {}),), llvm.ptr(7), {})
        flags = [b.const(int(x is not None), i1) for x in (self.multicast, self.hint)]
        name = f"llvm.nvvm.cp.async.bulk.tensor.g2s.tile.{rank}d"
        args = [here, barrier, tensor_map, *coords, mask, hint, *flags, b.i32(0)]
        call_intrinsic(low, name, None, args, Effect.SHARES_MBARRIER)
        return ()

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        multicast = self.multicast is not None
        return low.emulate_call("tma.load", operands, rank=self.rank.value.data, multicast=multicast)


@irdl_op_definition
class TmaStoreOp(NvOp):
    """A box of shared memory into a tensor: source, map, coordinates; `reduce` combines instead of overwriting."""

    name = "fly_nvgpu.tma_store"
    rank = prop_def(IntegerAttr)
    reduce = opt_prop_def(StringAttr)

    def lower(self, low: AtomLowering, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        rank = self.rank.value.data
        name = f"llvm.nvvm.cp.async.bulk.tensor.s2g.tile.{rank}d"
        if self.reduce is not None:
            name = f"llvm.nvvm.cp.async.bulk.tensor.reduce.{self.reduce.data}.tile.{rank}d"
        args = [*operands, low.b.const(0, i64), low.b.const(0, i1)]
        call_intrinsic(low, name, None, args, Effect.READS_SHARED_ASYNC)
        return ()

    def emulate(self, low: AtomEmulation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        reduce = None if self.reduce is None else self.reduce.data
        return low.emulate_call("tma.store", operands, rank=self.rank.value.data, reduce=reduce)
