"""`fly-nvgpu-insert-fences`: the fences Hopper's asynchronous units need, so that no author can forget one.

* The copy engine and the tensor cores read shared memory on another path (proxy) than threads write it. In a kernel
  that uses either, `fence.proxy.async` goes in front of every barrier that threads reach after writing shared memory.
* A batch of `wgmma` starts with `wgmma.fence`, and ends with `wgmma.commit_group` before it is waited for. Inside a
  batch a product that takes an operand from registers gets a fence of its own where threads have computed it since.
* Barriers in shared memory that the copy engine or other blocks use are made visible to them by `fence.mbarrier_init`
  behind their `init`, once for those that stand together.

What an op does is declared on it (`dialects/fly_nvgpu/effects.py`); the declarations are gone afterwards, so a second
run changes nothing. A fence the author wrote is found and not repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp, StringAttr, i64
from xdsl.ir import Block, Operation, SSAValue

from ...dialects.fly_nvgpu.effects import EFFECTS, Effect, effects_of
from ...dialects.fly_nvgpu.ops import KINDS
from ...dialects.upstream import gpu, llvm, scf
from ...dialects.upstream.llvm.atomics import CmpXchgOp
from ...ir.builder import i32_list, operands_of
from ...ir.emitter import ops_in
from ..base import Pass

_SHARED = 3
_PROXY_FENCE = KINDS["fence.proxy_async"].intrinsic
_PROXY_FENCE_ALL = "llvm.nvvm.fence.proxy.async"
_WGMMA_FENCE = KINDS["wgmma.fence"].intrinsic
_WGMMA_COMMIT = KINDS["wgmma.commit"].intrinsic
_MBARRIER_INIT_FENCE = KINDS["fence.mbarrier_init"].intrinsic
_ASYNCHRONOUS = frozenset((Effect.WGMMA, Effect.READS_SHARED_ASYNC))
_NEEDS_PROXY_FENCE = frozenset((Effect.SYNCHRONIZES, Effect.READS_SHARED_ASYNC))
"""What was written must be visible to the asynchronous units from here on."""
_USES_MBARRIERS = frozenset((Effect.SYNCHRONIZES, Effect.SHARES_MBARRIER))
"""From here on others may use the mbarriers that were made before."""


@dataclass(frozen=True)
class _State:
    """What holds at a point of a kernel."""

    dirty: bool = False
    """Shared memory was written since the last fence."""
    fenced: bool = False
    """A batch of `wgmma` may go on."""
    open: bool = False
    """Some `wgmma` belongs to no group yet."""
    peers: bool = False
    """The kernel writes shared memory of other blocks, through generic pointers; the same at all its points."""

    @property
    def fence(self) -> str:
        return _PROXY_FENCE_ALL if self.peers else _PROXY_FENCE

    def meet(self, other: _State) -> _State:
        return _State(self.dirty or other.dirty, self.fenced and other.fenced, self.open or other.open, self.peers)


@dataclass(frozen=True)
class FlyNvgpuInsertFencesPass(Pass):
    """Insert the fences between threads, the copy engine and the tensor cores."""

    name = "fly-nvgpu-insert-fences"
    needs = "no `fly` ops in kernels (`convert-fly-to-nvvm`)"

    def run(self, module: ModuleOp) -> ModuleOp:
        insert_fences(module)
        return module


def insert_fences(module: ModuleOp) -> None:
    """Complete the kernels of a lowered module, in place."""
    for inner in module.body.block.ops:
        if not isinstance(inner, gpu.ModuleOp):
            continue
        for op in inner.body.block.ops:
            if isinstance(op, gpu.FuncOp) and len(op.body.blocks) == 1:
                _kernel(op.body.block)


def _kernel(body: Block) -> None:
    declared = [op for op in ops_in(body) if EFFECTS in op.attributes]
    if not declared:
        return
    effects = frozenset[Effect]().union(*map(effects_of, declared))
    if {Effect.MBARRIER_INIT, Effect.SHARES_MBARRIER} <= effects:
        _fence_inits(body)
    if effects & _ASYNCHRONOUS:
        peers = Effect.ADDRESSES_PEER in effects
        walk = _Walk(peers, registers=Effect.WGMMA_REGISTERS in effects)
        walk.block(body, _State(peers=peers), insert=True)
    for op in declared:
        del op.attributes[EFFECTS]


def _fence_inits(block: Block) -> None:
    """A fence behind the last of some `init`s: before anybody may use what they made, and before a block ends."""
    last: Operation | None = None
    for op in list(block.ops):
        effects = effects_of(op)
        inside = [inner for region in op.regions for inner in region.blocks]
        if Effect.MBARRIER_INIT in effects:
            last = op
        elif Effect.MBARRIER_INIT_FENCE in effects:
            last = None
        elif last is not None and (
            effects & _USES_MBARRIERS or any(effects_of(x) & _USES_MBARRIERS for inner in inside for x in ops_in(inner))
        ):
            _call_behind(last, _MBARRIER_INIT_FENCE)
            last = None
        for inner in inside:
            _fence_inits(inner)
    if last is not None:
        _call_behind(last, _MBARRIER_INIT_FENCE)


_WRITERS: dict[type[Operation], int] = {llvm.StoreOp: 1, llvm.AtomicRMWOp: 0, CmpXchgOp: 0}
"""Ops that write memory, and which operand says where."""


def _writes_shared(op: Operation, effects: frozenset[Effect], peers: bool) -> bool:
    if type(op) in _WRITERS:
        at = operands_of(op)[_WRITERS[type(op)]]
        return llvm.address_space(at.type) in ((0, _SHARED) if peers else (_SHARED,))
    return Effect.WRITES_SHARED in effects


class _Written:
    """Registers that threads have computed since the last `wgmma.fence` of a block."""

    _MOVES = frozenset((
        "vector.extract", "vector.insert", "vector.shuffle", "vector.shape_cast", "vector.bitcast",
        "vector.from_elements", "vector.extract_strided_slice", "vector.insert_strided_slice", "arith.bitcast",
        "llvm.bitcast", "llvm.extractvalue", "llvm.insertvalue", "ub.poison", "llvm.mlir.poison", "llvm.mlir.undef",
    ))  # fmt: skip
    """What moves values and computes none: also what pieces are put together in."""

    def __init__(self) -> None:
        self.known = False
        """There was a fence in this block."""
        self.stored = False
        self.values: set[SSAValue] = set()

    def fence(self) -> None:
        self.known, self.stored = True, False
        self.values.clear()

    def lose(self) -> None:
        self.known = False

    def see(self, op: Operation) -> None:
        if not self.known:
            return
        kind = type(op)
        if kind is llvm.StoreOp:
            self.stored |= operands_of(op)[0] in self.values
        elif kind is llvm.LoadOp:
            if self.stored:
                self.values.update(op.results)
        elif op.name not in self._MOVES or not self.values.isdisjoint(operands_of(op)):
            self.values.update(op.results)

    def read_by(self, product: Operation) -> bool:
        """Whether a product takes such registers; its 64-bit operands describe shared memory."""
        return not self.known or any(x in self.values for x in product.operands if x.type != i64)


class _Step(NamedTuple):
    """An op that matters, with what it does."""

    op: Operation
    effects: frozenset[Effect]
    writes: bool
    """Whether it writes shared memory as threads do."""
    inside: list[Block]


class _Walk:
    """Walks over one kernel. The body of a loop is walked several times, so what matters in it is found once."""

    def __init__(self, peers: bool, *, registers: bool):
        self._peers = peers
        self._registers = registers
        """Whether products take registers: then it matters who computes them, which any op may."""
        self._steps: dict[Block, list[_Step]] = {}

    def _of(self, block: Block) -> list[_Step]:
        found = self._steps.get(block)
        if found is None:
            found = self._steps[block] = []
            for op in block.ops:
                inside = [region.block for region in op.regions if region.blocks]
                effects = effects_of(op)
                writes = _writes_shared(op, effects, self._peers)
                if op.regions or effects or writes or self._registers:
                    found.append(_Step(op, effects, writes, inside))
        return found

    def _needs_fence(self, block: Block) -> bool:
        """Whether what was written must be visible to the asynchronous units somewhere in a block."""
        return any(
            step.effects & _NEEDS_PROXY_FENCE or any(map(self._needs_fence, step.inside)) for step in self._of(block)
        )

    def block(self, block: Block, state: _State, *, insert: bool) -> _State:
        """What holds behind a block; with `insert` it gets the fences it lacks."""
        written = _Written()
        for op, effects, writes, inside in self._of(block):
            if op.regions:
                state = self._structured(op, inside, state, insert)
                written.lose()
            elif writes:
                if not state.dirty:
                    state = replace(state, dirty=True)
            elif not effects:
                written.see(op)
            elif Effect.PROXY_FENCE_ALL in effects or (Effect.PROXY_FENCE in effects and not state.peers):
                state = replace(state, dirty=False)
            elif Effect.WGMMA_FENCE in effects:
                written.fence()
                state = replace(state, fenced=True)
            elif Effect.WGMMA_COMMIT in effects:
                state = replace(state, fenced=False, open=False)
            elif effects & _NEEDS_PROXY_FENCE:
                if state.dirty and insert:
                    _call_before(op, state.fence)
                state = replace(state, dirty=False)
            elif Effect.WGMMA in effects:
                if not state.fenced or (Effect.WGMMA_REGISTERS in effects and written.read_by(op)):
                    written.fence()
                    if insert:
                        _call_before(op, _WGMMA_FENCE)
                state = replace(state, fenced=True, open=True)
            elif Effect.WGMMA_WAIT in effects:
                if state.open and insert:
                    _call_before(op, _WGMMA_COMMIT)
                state = replace(state, fenced=False, open=False)
        return state

    def _structured(self, op: Operation, blocks: list[Block], state: _State, insert: bool) -> _State:
        if isinstance(op, scf.IfOp):
            ends = [self.block(block, state, insert=insert) for block in blocks]
            return ends[0].meet(ends[1] if len(ends) > 1 else state)
        if state.dirty and any(map(self._needs_fence, blocks)):
            # Once in front of the loop instead of in each of its iterations.
            if insert:
                _call_before(op, state.fence)
            state = replace(state, dirty=False)
        # A loop starts with what its last iteration left, too. Two dry ones settle that.
        state = replace(state, fenced=False)
        for _ in range(2):
            end = state
            for block in blocks:
                end = self.block(block, end, insert=False)
            state = state.meet(end)
        end = state
        for block in blocks:
            end = self.block(block, end, insert=insert)
        return state.meet(end)


def _call_behind(op: Operation, intrinsic: str) -> None:
    assert op.next_op is not None, "a block ends with its terminator"
    _call_before(op.next_op, intrinsic)


def _call_before(op: Operation, intrinsic: str) -> None:
    made = llvm.CallIntrinsicOp.create(
        properties={"intrin": StringAttr(intrinsic), "operandSegmentSizes": i32_list((0, 0))}, location=op.location
    )
    block = op.parent
    assert block is not None
    block.insert_op_before(made, op)
