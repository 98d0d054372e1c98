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

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp, StringAttr, i64
from xdsl.ir import Block, Operation, SSAValue

from ...dialects.fly_nvgpu.effects import EFFECTS, Effect, effects_of
from ...dialects.fly_nvgpu.ops import KINDS
from ...dialects.upstream import gpu, llvm, scf
from ...dialects.upstream.llvm.atomics import CmpXchgOp
from ...ir.builder import i32_list
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
    declared = [op for op in _all(body) if EFFECTS in op.attributes]
    if not declared:
        return
    effects = frozenset[Effect]().union(*map(effects_of, declared))
    if {Effect.MBARRIER_INIT, Effect.SHARES_MBARRIER} <= effects:
        _fence_inits(body)
    if effects & _ASYNCHRONOUS:
        _block(body, _State(peers=Effect.ADDRESSES_PEER in effects), insert=True)
    for op in declared:
        del op.attributes[EFFECTS]


def _fence_inits(block: Block) -> None:
    """A fence behind the last of some `init`s: before anybody may use what they made, and before a block ends."""
    last: Operation | None = None
    for op in list(block.ops):
        effects = effects_of(op)
        inside = [inner for region in op.regions for inner in region.blocks]
        used = effects | frozenset[Effect]().union(*(effects_of(x) for inner in inside for x in _all(inner)))
        if Effect.MBARRIER_INIT in effects:
            last = op
        elif Effect.MBARRIER_INIT_FENCE in effects:
            last = None
        elif last is not None and used & _USES_MBARRIERS:
            _call_behind(last, _MBARRIER_INIT_FENCE)
            last = None
        for inner in inside:
            _fence_inits(inner)
    if last is not None:
        _call_behind(last, _MBARRIER_INIT_FENCE)


def _all(block: Block) -> Iterator[Operation]:
    for op in block.ops:
        yield op
        for region in op.regions:
            for inner in region.blocks:
                yield from _all(inner)


def _writes_shared(op: Operation, effects: frozenset[Effect], peers: bool) -> bool:
    if isinstance(op, (llvm.StoreOp, llvm.AtomicRMWOp, CmpXchgOp)):
        at = op.ptr if isinstance(op, llvm.StoreOp) else op.operands[0]
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
        if isinstance(op, llvm.StoreOp):
            self.stored |= op.value in self.values
        elif isinstance(op, llvm.LoadOp):
            if self.stored:
                self.values.update(op.results)
        elif op.name not in self._MOVES or any(x in self.values for x in op.operands):
            self.values.update(op.results)

    def read_by(self, product: Operation) -> bool:
        """Whether a product takes such registers; its 64-bit operands describe shared memory."""
        return not self.known or any(x in self.values for x in product.operands if x.type != i64)


def _block(block: Block, state: _State, *, insert: bool) -> _State:
    """What holds behind a block; with `insert` it gets the fences it lacks."""
    written = _Written()
    for op in list(block.ops):
        if op.regions:
            state = _structured(op, state, insert)
            written.lose()
            continue
        effects = effects_of(op)
        if _writes_shared(op, effects, state.peers):
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


def _structured(op: Operation, state: _State, insert: bool) -> _State:
    blocks = [region.block for region in op.regions if region.blocks]
    if isinstance(op, scf.IfOp):
        ends = [_block(block, state, insert=insert) for block in blocks]
        return ends[0].meet(ends[1] if len(ends) > 1 else state)
    if state.dirty and any(effects_of(inner) & _NEEDS_PROXY_FENCE for block in blocks for inner in _all(block)):
        # Once in front of the loop instead of in each of its iterations.
        if insert:
            _call_before(op, state.fence)
        state = replace(state, dirty=False)
    # A loop starts with what its last iteration left, too. Two dry ones settle that.
    state = replace(state, fenced=False)
    for _ in range(2):
        end = state
        for block in blocks:
            end = _block(block, end, insert=False)
        state = state.meet(end)
    end = state
    for block in blocks:
        end = _block(block, end, insert=insert)
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
