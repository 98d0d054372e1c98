"""Copies into shared memory that LLVM does not know as such: a part of `convert-fly-to-rocdl`.

On gfx9 nothing waits for some but `wait_asyncmark`. LLVM 22 lacks the intrinsics of later versions: it takes the copies
for ordinary ones and waits for all of them before the next read of shared memory. Two things make them asynchronous.
Reads of shared memory are declared to be ordered by marks alone (`ASYNC_READ`); they get an alias scope, after which
LLVM inserts no waits on account of copies. And the marks become waits for a count of memory operations. The count must
not be too large: every group holds at least the smallest number of copies that stand before any mark of the kernel, so
the youngest n groups hold at least n times as many. Other memory operations in between only make the wait stricter.

On gfx1250 LLVM takes the tensor data mover for something that touches no memory a pointer leads to, and a wait for it
or for asynchronous copies for something that orders nothing: it would move reads and writes of shared memory across
them, and leave out stores that only the mover reads. Fences of a single wave keep it from that; they are no
instructions. What the mover is to store must have arrived in shared memory, too, which LLVM waits for at barriers only.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i16, i32, i64
from xdsl.ir import Attribute, Block, Operation

from ...dialects.upstream import llvm
from ...dialects.upstream.llvm.atomics import FenceOp
from ...dialects.upstream.llvm.memory import ORDERINGS
from ...errors import DSLCompileError
from ...ir.arith import ConstantOp
from ...ir.builder import Builder, i32_list, int_attr, operands_of
from ...ir.emitter import ops_in
from ...llvm.text.memory_ops import ASYNC_READ

_MARK, _WAIT = "llvm.amdgcn.asyncmark", "llvm.amdgcn.wait.asyncmark"
_COPIES = frozenset(("llvm.amdgcn.raw.ptr.buffer.load.lds", "llvm.amdgcn.global.load.lds"))
_TRANSPOSING_READ = "llvm.amdgcn.ds.read.tr"
_MOVER_LOAD, _MOVER_STORE = "llvm.amdgcn.tensor.load.to.lds", "llvm.amdgcn.tensor.store.from.lds"
_COUNTER_WAITS = ("llvm.amdgcn.s.wait.tensorcnt", "llvm.amdgcn.s.wait.asynccnt")
_SHARED = 3
_MOST = 63
"""The largest count `s_waitcnt` can express."""
_ACQUIRE, _RELEASE = (ORDERINGS[word] for word in ("acquire", "release"))


def intrinsic_of(op: Operation) -> str:
    """The intrinsic an op calls, by itself or as an op of `rocdl`; nothing for others."""
    if type(op) is llvm.CallIntrinsicOp:
        return op.intrin.data
    return cast(Any, op).row.intrinsic if op.name.startswith("rocdl.") else ""


def before(b: Builder, intrinsic: str) -> None:
    """What stands before the mover is done when it starts."""
    if intrinsic.startswith((_MOVER_LOAD, _MOVER_STORE)):
        b.opn(FenceOp, (), (), _fence(_RELEASE))
    if intrinsic.startswith(_MOVER_STORE):
        b.opn(llvm.CallIntrinsicOp, (b.const(0, i16),), (), _call("llvm.amdgcn.s.wait.dscnt"))


def behind(b: Builder, intrinsic: str) -> None:
    """What stands behind a wait sees what was waited for."""
    if intrinsic in _COUNTER_WAITS:
        b.opn(FenceOp, (), (), _fence(_ACQUIRE))


def is_mark(intrinsic: str) -> bool:
    """Whether an intrinsic marks copies or waits for marks."""
    return intrinsic in (_MARK, _WAIT)


def resolve(b: Builder, entry: Block) -> None:
    """Rewrite a kernel that marks copies, in place; `b` builds into the function."""
    each = min(_groups(entry), default=0)
    for op in list(ops_in(entry)):
        name = intrinsic_of(op)
        if name == _WAIT:
            _wait(b, op, min(_count(op) * each, _MOST))
        if name in (_MARK, _WAIT):
            op.detach()
            op.erase()
        elif _reads_shared(op, name):
            op.attributes[ASYNC_READ] = UnitAttr()


def _groups(block: Block) -> list[int]:
    """Copies that certainly stand before each mark: those in its own block, behind the mark or the region before it."""
    found: list[int] = []
    count = 0
    op = block.first_op
    while op is not None:
        name = intrinsic_of(op)
        if name == _MARK:
            found.append(count)
            count = 0
        elif name in _COPIES:
            count += 1
        elif op.regions:
            count = 0
            found += [size for region in op.regions for inner in region.blocks for size in _groups(inner)]
        op = op.next_op
    return found


def _count(op: Operation) -> int:
    """How many groups a wait leaves under way."""
    given = op.properties.get("count")
    if given is None:
        (value,) = operands_of(op)
        given = value.owner.properties.get("value") if isinstance(value.owner, ConstantOp) else None
    if not isinstance(given, IntegerAttr):
        raise DSLCompileError("wait_asyncmark takes a count that is known at compile time")
    return cast("IntegerAttr[Any]", given).value.data


def _reads_shared(op: Operation, intrinsic: str) -> bool:
    if type(op) is llvm.LoadOp:
        return llvm.address_space(operands_of(op)[0].type) == _SHARED
    return intrinsic.startswith(_TRANSPOSING_READ)


def _wait(b: Builder, op: Operation, count: int) -> None:
    """Wait for vector memory operations, and let the compiler move no access of memory across."""
    code = b.const(count & 15 | 7 << 4 | 15 << 8 | (count >> 4) << 14, i32)
    made = [
        FenceOp.create(properties=_fence(_RELEASE), location=op.location),
        llvm.CallIntrinsicOp.create(operands=[code], properties=_call("llvm.amdgcn.s.waitcnt"), location=op.location),
        FenceOp.create(properties=_fence(_ACQUIRE), location=op.location),
    ]
    block = op.parent
    assert block is not None
    block.insert_ops_before(made, op)


def _call(intrinsic: str) -> dict[str, Attribute]:
    return {"intrin": StringAttr(intrinsic), "operandSegmentSizes": i32_list((1, 0))}


def _fence(ordering: int) -> dict[str, Attribute]:
    return {"ordering": int_attr(ordering, i64), "syncscope": StringAttr("wavefront")}
