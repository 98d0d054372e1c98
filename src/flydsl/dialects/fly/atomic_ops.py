"""Memory operations of `fly` that say more than load and store: atomics, fences, qualified accesses.

| op | operands | properties | becomes |
|---|---|---|---|
| `fly.atomic_rmw` | pointer, value -> old value | `bin_op`, `ordering`, `syncscope` | `llvm.atomicrmw` |
| `fly.atomic_cas` | pointer, expected, new -> old, i1 | `success`, `failure`, `syncscope`, `weak` | `llvm.cmpxchg` |
| `fly.load` | pointer -> value | `ordering`, `syncscope`, `nontemporal`, `volatile` | `llvm.load` |
| `fly.store` | value, pointer | the same | `llvm.store` |
| `fly.fence` | | `ordering`, `syncscope` | `llvm.fence` |

Operations and orderings are LLVM's words as strings (`umax`, `_and`, `acq_rel`); no `syncscope` is the
system's, where an atomic_rmw says it with an empty one if the device's will not do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, opt_prop_def, traits_def

from ...ir.types import i1
from .infer import Infer
from .ops import FlyOp
from .types import PointerType


def _infer_rmw(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """The old value is of the type of the new one."""
    pointer, value = operand_types
    _check_pointer(pointer)
    return (value,)


def _infer_cas(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """The old value, and whether it was as expected."""
    pointer, expected, new = operand_types
    _check_pointer(pointer)
    if expected != new:
        raise TypeError(f"expected and new value differ in type: {expected} and {new}")
    return (new, i1)


def _check_pointer(pointer: Attribute) -> None:
    if not isinstance(pointer, PointerType):
        raise TypeError(f"expected a !fly.ptr, got {pointer}")


@irdl_op_definition
class AtomicRMWOp(FlyOp):
    """Read, combine and write as one step; gives the old value."""

    name = "fly.atomic_rmw"
    bin_op = opt_prop_def(Attribute)
    ordering = opt_prop_def(Attribute)
    syncscope = opt_prop_def(Attribute)
    traits = traits_def()
    ARITY: ClassVar[tuple[int, int]] = (2, 2)
    INFER: ClassVar[Infer | None] = staticmethod(_infer_rmw)


@irdl_op_definition
class AtomicCASOp(FlyOp):
    """Write if the memory holds an expected value; gives the old value and whether it did."""

    name = "fly.atomic_cas"
    success = opt_prop_def(Attribute)
    failure = opt_prop_def(Attribute)
    syncscope = opt_prop_def(Attribute)
    weak = opt_prop_def(Attribute)
    traits = traits_def()
    ARITY: ClassVar[tuple[int, int]] = (3, 3)
    INFER: ClassVar[Infer | None] = staticmethod(_infer_cas)


@irdl_op_definition
class QualifiedLoadOp(FlyOp):
    """A load with an ordering, or volatile, or not to be cached."""

    name = "fly.load"
    ordering = opt_prop_def(Attribute)
    syncscope = opt_prop_def(Attribute)
    nontemporal = opt_prop_def(Attribute)
    volatile = opt_prop_def(Attribute)
    traits = traits_def()
    ARITY: ClassVar[tuple[int, int]] = (1, 1)


@irdl_op_definition
class QualifiedStoreOp(FlyOp):
    """A store with an ordering, or volatile, or not to be cached."""

    name = "fly.store"
    ordering = opt_prop_def(Attribute)
    syncscope = opt_prop_def(Attribute)
    nontemporal = opt_prop_def(Attribute)
    volatile = opt_prop_def(Attribute)
    traits = traits_def()
    ARITY: ClassVar[tuple[int, int]] = (2, 2)


@irdl_op_definition
class FenceOp(FlyOp):
    """Orders the memory accesses before it and after it."""

    name = "fly.fence"
    ordering = opt_prop_def(Attribute)
    syncscope = opt_prop_def(Attribute)
    traits = traits_def()
    ARITY: ClassVar[tuple[int, int]] = (0, 0)


ATOMIC_OPS = [AtomicRMWOp, AtomicCASOp, QualifiedLoadOp, QualifiedStoreOp, FenceOp]
"""The ops of this file."""
