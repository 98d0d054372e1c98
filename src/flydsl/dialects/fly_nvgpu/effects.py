"""What an instruction does that its neighbours must be ordered with, declared on the op that issues it.

Hopper's copy engine and tensor cores reach shared memory by the asynchronous proxy, threads by the generic one; LLVM
knows neither. A lowering says what its instruction does in the attribute `fly_nvgpu.effects`, and the pass
`fly-nvgpu-insert-fences` reads nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ...errors import DSLCompileError
from ..fly.atom_lowering import AtomLowering
from ..upstream import gpu

EFFECTS = "fly_nvgpu.effects"
"""Discardable attribute: an array of the words of `Effect`."""


class Effect(Enum):
    """Words of the attribute."""

    WRITES_SHARED = "writes_shared"
    """Writes shared memory by the generic proxy."""
    READS_SHARED_ASYNC = "reads_shared_async"
    """The asynchronous proxy reads shared memory from here on."""
    SYNCHRONIZES = "synchronizes"
    """Threads arrive at a barrier or wait there."""
    SHARES_MBARRIER = "shares_mbarrier"
    """The copy engine or another block of the cluster uses this block's mbarriers."""
    ADDRESSES_PEER = "addresses_peer"
    """Gives a generic pointer to the shared memory of another block."""
    MBARRIER_INIT = "mbarrier_init"
    MBARRIER_INIT_FENCE = "mbarrier_init_fence"
    PROXY_FENCE = "proxy_fence"
    """Orders the proxies for the shared memory of this block."""
    PROXY_FENCE_ALL = "proxy_fence_all"
    """Orders them for all memory."""
    WGMMA = "wgmma"
    WGMMA_REGISTERS = "wgmma_registers"
    """With `WGMMA`: an operand is in registers, which may be written again before the next one."""
    WGMMA_FENCE = "wgmma_fence"
    WGMMA_COMMIT = "wgmma_commit"
    WGMMA_WAIT = "wgmma_wait"

    __hash__ = object.__hash__  # Enum's is in Python


_WORDS = {effect.value: effect for effect in Effect}
_NONE: frozenset[Effect] = frozenset()
_BY_CLASS: dict[type[Operation], frozenset[Effect]] = {gpu.BarrierOp: frozenset((Effect.SYNCHRONIZES,))}
"""Effects every op of a class has."""


@cache
def _attribute(effects: tuple[Effect, ...]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(effect.value) for effect in effects])


@cache
def _effects(attribute: Attribute) -> frozenset[Effect] | None:
    """What an attribute says, None if it says something else."""
    words: Sequence[Attribute] = (attribute,)
    if isinstance(attribute, ArrayAttr):
        words = cast(ArrayAttr[Attribute], attribute).data
    found = {_WORDS.get(word.data) if isinstance(word, StringAttr) else None for word in words}
    return None if None in found else frozenset(e for e in found if e is not None)


def declare(op: Operation, *effects: Effect) -> None:
    """Say what an op does."""
    if effects:
        op.attributes[EFFECTS] = _attribute(effects)


def effects_of(op: Operation) -> frozenset[Effect]:
    """What was said of an op or holds for its class."""
    said = op.attributes.get(EFFECTS)
    if said is None:
        return _BY_CLASS.get(type(op), _NONE)
    found = _effects(said)
    if found is None:
        error = DSLCompileError(f"`{EFFECTS}` is an array of {', '.join(_WORDS)}; got {said}")
        error.ir_location = op.location  # pyright: ignore[reportAttributeAccessIssue]
        raise error
    return found


def call_intrinsic(
    low: AtomLowering, name: str, result: Attribute | None, operands: Sequence[SSAValue], *effects: Effect
) -> SSAValue | None:
    """Emit the call of an intrinsic that has effects."""
    value = low.intrinsic(name, result, operands)
    op = low.b.block.last_op
    assert op is not None
    declare(op, *effects)
    return value
