"""Emission for `atomics`; needs xDSL."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue

from ...dialects.fly.atomic_ops import AtomicCASOp, AtomicRMWOp, FenceOp, QualifiedLoadOp, QualifiedStoreOp
from ...dialects.fly.ops import OPS
from ...ir.types import i1
from ...target import CPU_NATIVE
from ...target.scopes import scope_for
from ..tensor import Pointer
from .trace import current


def _props(scope: str, **words: str) -> dict[str, Attribute]:
    props: dict[str, Attribute] = {name: StringAttr(word) for name, word in words.items()}
    if scope:
        target = next((f.target for f in current().functions if hasattr(f, "target")), None)
        scope_for(scope, (lambda _: False) if target is None or target.arch == CPU_NATIVE else target.has)
        props["syncscope"] = StringAttr(scope)
    return props


def rmw(op: str, ptr: Pointer, value: SSAValue, ordering: str, scope: str | None) -> SSAValue:
    """`fly.atomic_rmw`."""
    props = _props(scope or "", bin_op=op, ordering=ordering)
    if scope == "":
        # Asked for: PTX without a scope is the device's.
        props["syncscope"] = StringAttr("")
    return current().op1(AtomicRMWOp, (ptr.value, value), value.type, props)


def cas(
    ptr: Pointer, expected: SSAValue, new: SSAValue, success: str, failure: str, scope: str, weak: bool
) -> tuple[SSAValue, SSAValue]:
    """`fly.atomic_cas`: old value and success."""
    props = _props(scope, success=success, failure=failure)
    if weak:
        props["weak"] = UnitAttr()
    op = current().opn(AtomicCASOp, (ptr.value, expected, new), (new.type, i1), props)
    return op.results[0], op.results[1]


def _qualified(ordering: str, scope: str, nontemporal: bool, volatile: bool) -> dict[str, Attribute]:
    props = _props(scope) if ordering == "not_atomic" else _props(scope, ordering=ordering)
    for name, wanted in (("nontemporal", nontemporal), ("volatile", volatile)):
        if wanted:
            props[name] = UnitAttr()
    return props


def load(ptr: Pointer, type_: Attribute, ordering: str, scope: str, nontemporal: bool, volatile: bool) -> SSAValue:
    """`fly.load`, or a plain load where nothing qualifies it."""
    props = _qualified(ordering, scope, nontemporal, volatile)
    return current().op1(QualifiedLoadOp if props else OPS["ptr.load"], (ptr.value,), type_, props)


def store(value: SSAValue, ptr: Pointer, ordering: str, scope: str, nontemporal: bool, volatile: bool) -> None:
    """`fly.store`, or a plain store."""
    props = _qualified(ordering, scope, nontemporal, volatile)
    current().opn(QualifiedStoreOp if props else OPS["ptr.store"], (value, ptr.value), (), props)


def fence(ordering: str, scope: str) -> None:
    """`fly.fence`."""
    current().opn(FenceOp, (), (), _props(scope, ordering=ordering))
