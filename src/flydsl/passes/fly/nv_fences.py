"""Fences that Hopper's asynchronous units need, put where they belong, so that no author can forget one.

* The copy engine and the tensor cores read shared memory on another path (proxy) than threads write it. In a kernel
  that uses either, `fence.proxy.async` goes in front of every barrier that threads reach after writing shared memory.
* A batch of `wgmma` starts with `wgmma.fence`, and ends with `wgmma.commit_group` before it is waited for.
* Barriers in shared memory that the copy engine or other blocks use are made visible to them by `fence.mbarrier_init`
  right behind their `init`.

A fence the author wrote is found and not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation

from ...dialects.fly_nvgpu.ops import KINDS, AsmOp
from ...dialects.upstream import gpu, llvm, scf
from ...dialects.upstream.llvm.atomics import CmpXchgOp
from ...ir.builder import i32_list

_SHARED = 3
_PROXY_FENCE = KINDS["fence.proxy_async"].intrinsic
_WGMMA_FENCE = KINDS["wgmma.fence"].intrinsic
_WGMMA_COMMIT = KINDS["wgmma.commit"].intrinsic
_WGMMA_WAIT = "llvm.nvvm.wgmma.wait_group"
_INIT = KINDS["mbarrier.init"].intrinsic
_INIT_FENCE = KINDS["fence.mbarrier_init"].intrinsic
_SHARES_BARRIERS = (
    *("llvm.nvvm.cp.async.bulk.tensor.g2s.", "llvm.nvvm.cp.async.bulk.global.to.shared."),
    *("llvm.nvvm.barrier.cluster.", "llvm.nvvm.mapa."),
)
_WRITES = ("llvm.nvvm.stmatrix.", "llvm.nvvm.cp.async.ca.", "llvm.nvvm.cp.async.cg.")
_READS = (
    *("llvm.nvvm.cp.async.bulk.tensor.s2g.", "llvm.nvvm.cp.async.bulk.tensor.reduce."),
    *("llvm.nvvm.cp.async.bulk.shared.cta.to.", "cp.reduce.async.bulk."),
)
_BARRIERS = (
    *("llvm.nvvm.barrier.", "llvm.nvvm.bar.warp.sync"),
    *("llvm.nvvm.mbarrier.arrive.", "llvm.nvvm.cp.async.mbarrier.arrive."),
)
_PEER = "mapa.u64"
"""Gives a generic pointer to the shared memory of another block."""
_ANY_PROXY_FENCE = "llvm.nvvm.fence.proxy.async"


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
        return _ANY_PROXY_FENCE if self.peers else _PROXY_FENCE

    def meet(self, other: _State) -> _State:
        return _State(self.dirty or other.dirty, self.fenced and other.fenced, self.open or other.open, self.peers)


def place_fences(module: ModuleOp) -> None:
    """Complete the kernels of a lowered module."""
    for inner in module.body.block.ops:
        if not isinstance(inner, gpu.ModuleOp):
            continue
        for op in inner.body.block.ops:
            if isinstance(op, gpu.FuncOp) and len(op.body.blocks) == 1:
                _kernel(op.body.block)


def _kernel(body: Block) -> None:
    names = [name for name in map(_name, _all(body)) if name]
    if any(name == _INIT for name in names) and any(name.startswith(_SHARES_BARRIERS) for name in names):
        _fence_inits(body)
    if any(map(_is_asynchronous, names)):
        _block(body, _State(peers=any(_PEER in name for name in names)), insert=True)


def _fence_inits(block: Block) -> None:
    """A fence behind the last `init` of each block that has some."""
    last: Operation | None = None
    for op in block.ops:
        name = _name(op)
        if name == _INIT:
            last = op
        elif name == _INIT_FENCE:
            last = None
        for region in op.regions:
            for inner in region.blocks:
                _fence_inits(inner)
    if last is not None and last.next_op is not None:
        _call_before(last.next_op, _INIT_FENCE)


def _all(block: Block) -> Iterator[Operation]:
    for op in block.ops:
        yield op
        for region in op.regions:
            for inner in region.blocks:
                yield from _all(inner)


def _name(op: Operation) -> str:
    """Name of the intrinsic that is called, or the assembly that is issued."""
    if isinstance(op, llvm.CallIntrinsicOp):
        return cast(StringAttr, op.properties["intrin"]).data
    return op.text.data if isinstance(op, AsmOp) else ""


def _is_asynchronous(name: str) -> bool:
    return "wgmma.mma_async" in name or name.startswith(_READS)


def _writes_shared(op: Operation, name: str, peers: bool) -> bool:
    if isinstance(op, (llvm.StoreOp, llvm.AtomicRMWOp, CmpXchgOp)):
        at = op.ptr if isinstance(op, llvm.StoreOp) else op.operands[0]
        return llvm.address_space(at.type) in ((0, _SHARED) if peers else (_SHARED,))
    return name.startswith(_WRITES)


def _needs_proxy_fence(op: Operation, name: str) -> bool:
    """Whether what was written must be visible to the asynchronous units from here on."""
    return isinstance(op, gpu.BarrierOp) or name.startswith((*_BARRIERS, *_READS))


def _block(block: Block, state: _State, *, insert: bool) -> _State:
    """What holds behind a block; with `insert` it gets the fences it lacks."""
    for op in list(block.ops):
        if op.regions:
            state = _structured(op, state, insert)
            continue
        name = _name(op)
        if _writes_shared(op, name, state.peers):
            state = replace(state, dirty=True)
        elif name == _ANY_PROXY_FENCE or (name == _PROXY_FENCE and not state.peers):
            state = replace(state, dirty=False)
        elif name == _WGMMA_FENCE:
            state = replace(state, fenced=True)
        elif name == _WGMMA_COMMIT:
            state = replace(state, fenced=False, open=False)
        elif _needs_proxy_fence(op, name):
            if state.dirty and insert:
                _call_before(op, state.fence)
            state = replace(state, dirty=False)
        elif "wgmma.mma_async" in name:
            if not state.fenced and insert:
                _call_before(op, _WGMMA_FENCE)
            # Operands in registers may be written again before the next one.
            state = replace(state, fenced="}, {" not in name, open=True)
        elif name.startswith((_WGMMA_WAIT, "wgmma.wait_group")):
            if state.open and insert:
                _call_before(op, _WGMMA_COMMIT)
            state = replace(state, fenced=False, open=False)
    return state


def _structured(op: Operation, state: _State, insert: bool) -> _State:
    blocks = [region.block for region in op.regions if region.blocks]
    if isinstance(op, scf.IfOp):
        ends = [_block(block, state, insert=insert) for block in blocks]
        return ends[0].meet(ends[1] if len(ends) > 1 else state)
    if state.dirty and any(_needs_proxy_fence(inner, _name(inner)) for block in blocks for inner in _all(block)):
        # Once in front of the loop instead of in each of its turns.
        if insert:
            _call_before(op, state.fence)
        state = replace(state, dirty=False)
    # A loop starts with what its last turn left, too. Two dry turns settle that.
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


def _call_before(op: Operation, intrinsic: str) -> None:
    made = llvm.CallIntrinsicOp.create(
        properties={"intrin": StringAttr(intrinsic), "operandSegmentSizes": i32_list((0, 0))}, location=op.location
    )
    block = op.parent
    assert block is not None
    block.insert_op_before(made, op)


__all__ = ["place_fences"]
