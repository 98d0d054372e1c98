"""`fly.atomic_rmw`, `fly.atomic_cas`, `fly.load`, `fly.store`, `fly.fence` to `llvm`."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import llvm
from ..dialects.builder import bit_width, elem_of, int_attr, operands_of
from ..dialects.fly.atomic_ops import AtomicCASOp, AtomicRMWOp, FenceOp, QualifiedLoadOp, QualifiedStoreOp
from ..dialects.fly.types import PointerType
from ..dialects.llvm_atomics import CmpXchgOp
from ..dialects.llvm_atomics import FenceOp as LlvmFenceOp
from .rebuild import Handler
from .small_floats import stored_type


def _word(op: Operation, name: str) -> str:
    return cast(StringAttr, op.properties[name]).data


def _scope(op: Operation) -> dict[str, Attribute]:
    scope = op.properties.get("syncscope")
    return {} if scope is None else {"syncscope": scope}


def _place(r: Any, pointer: SSAValue) -> tuple[SSAValue, int]:
    return r.address(r.val(pointer), cast(PointerType, pointer.type).data)


def _natural(align: int, type_: Attribute) -> Attribute:
    """Atomic accesses are of at least their own size's alignment, or the hardware could not do them."""
    return int_attr(max(align, bit_width(elem_of(type_)) // 8, 1), i64)


def _rmw(r: Any, op: AtomicRMWOp) -> None:
    pointer, value = operands_of(op)
    at, align = _place(r, pointer)
    word = _word(op, "bin_op")
    if word not in llvm.ATOMIC_BINARY:
        word = f"_{word}"
    props: dict[str, Attribute] = {
        "bin_op": int_attr(llvm.ATOMIC_BINARY.index(word), i64),
        "ordering": int_attr(llvm.ORDERINGS[_word(op, "ordering")], i64),
        "alignment": _natural(align, value.type),
        **_scope(op),
    }
    new = r.val(value)
    r.vm[op.results[0]] = r.b.op1(llvm.AtomicRMWOp, (at, new), new.type, props)


def _cas(r: Any, op: AtomicCASOp) -> None:
    pointer, expected, new = operands_of(op)
    at, align = _place(r, pointer)
    props: dict[str, Attribute] = {
        "success": op.properties["success"],
        "failure": op.properties["failure"],
        "alignment": _natural(align, new.type),
        **_scope(op),
    }
    if "weak" in op.properties:
        props["weak"] = op.properties["weak"]
    values = r.vals((expected, new))
    made = r.b.opn(CmpXchgOp, (at, *values), (values[1].type, op.results[1].type), props)
    r.vm[op.results[0]], r.vm[op.results[1]] = made.results


def _qualifiers(op: Operation) -> dict[str, Attribute]:
    found: dict[str, Attribute] = _scope(op)
    for name in ("nontemporal", "volatile"):
        if name in op.properties:
            found[name] = op.properties[name]
    if "ordering" in op.properties:
        found["ordering"] = op.properties["ordering"]
    return {f"fly.{name}": attr for name, attr in found.items()}


def _alignment(op: Operation, align: int, type_: Attribute) -> dict[str, Attribute]:
    return {"alignment": _natural(align, type_) if "ordering" in op.properties else int_attr(align, i64)}


def _load(r: Any, op: QualifiedLoadOp) -> None:
    (pointer,) = operands_of(op)
    at, align = _place(r, pointer)
    type_ = stored_type(op.results[0].type)
    made = r.b.opn(llvm.LoadOp, (at,), (type_,), _alignment(op, align, type_))
    made.attributes = _qualifiers(op)
    r.vm[op.results[0]] = made.results[0]


def _store(r: Any, op: QualifiedStoreOp) -> None:
    value, pointer = operands_of(op)
    at, align = _place(r, pointer)
    stored = r.val(value)
    made = r.b.opn(llvm.StoreOp, (stored, at), (), _alignment(op, align, stored.type))
    made.attributes = _qualifiers(op)


def _fence(r: Any, op: FenceOp) -> None:
    r.b.opn(LlvmFenceOp, (), (), {"ordering": op.properties["ordering"], **_scope(op)})


HANDLERS = cast(
    dict[type[Operation], Handler],
    {AtomicRMWOp: _rmw, AtomicCASOp: _cas, QualifiedLoadOp: _load, QualifiedStoreOp: _store, FenceOp: _fence},
)

__all__ = ["HANDLERS"]
