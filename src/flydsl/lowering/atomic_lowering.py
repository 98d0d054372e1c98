"""`fly.atomic_rmw`, `fly.atomic_cas`, `fly.load`, `fly.store`, `fly.fence` to `llvm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects.fly.atomic_ops import AtomicCASOp, AtomicRMWOp, FenceOp, QualifiedLoadOp, QualifiedStoreOp
from ..dialects.fly.types import PointerType
from ..dialects.upstream import llvm
from ..dialects.upstream.llvm.atomics import CmpXchgOp, cmpxchg_type
from ..dialects.upstream.llvm.atomics import FenceOp as LlvmFenceOp
from ..ir.builder import elem_of, i1, i64, i64_list, int_attr, operands_of
from ..ir.types import bit_width
from ..target.scopes import scope_for
from .expand.missing import check_atomic
from .expand.small_floats import stored_type
from .rebuild import Handler

if TYPE_CHECKING:
    from ..passes.fly.convert_fly import FlyConversion


def _word(op: Operation, name: str) -> str:
    return cast(StringAttr, op.properties[name]).data


def _scope(r: FlyConversion, op: Operation) -> dict[str, Attribute]:
    scope = op.properties.get("syncscope")
    return {} if scope is None else {"syncscope": StringAttr(scope_for(cast(StringAttr, scope).data, r.has))}


def _place(r: FlyConversion, pointer: SSAValue) -> tuple[SSAValue, int]:
    return r.address(r.val(pointer), cast(PointerType, pointer.type).data)


def _natural(align: int, type_: Attribute) -> Attribute:
    """Atomic accesses are of at least their own size's alignment, or the hardware could not do them."""
    return int_attr(max(align, bit_width(elem_of(type_)) // 8, 1), i64)


def _rmw(r: FlyConversion, op: AtomicRMWOp) -> None:
    pointer, value = operands_of(op)
    check_atomic(value.type)
    at, align = _place(r, pointer)
    word = _word(op, "bin_op")
    if word not in llvm.ATOMIC_BINARY:
        word = f"_{word}"
    props: dict[str, Attribute] = {
        "bin_op": int_attr(llvm.ATOMIC_BINARY.index(word), i64),
        "ordering": int_attr(llvm.ORDERINGS[_word(op, "ordering")], i64),
        "alignment": _natural(align, value.type),
        **_scope(r, op),
    }
    new = r.val(value)
    r.vm[op.results[0]] = r.b.op1(llvm.AtomicRMWOp, (at, new), new.type, props)


def _cas(r: FlyConversion, op: AtomicCASOp) -> None:
    pointer, expected, new = operands_of(op)
    check_atomic(new.type)
    at, align = _place(r, pointer)
    values: list[SSAValue] = r.vals((expected, new))
    type_ = values[1].type
    # Only bits can be compared.
    plain = isinstance(type_, IntegerType | LLVMPointerType)
    bits: Attribute = cast(Attribute, type_) if plain else IntegerType(bit_width(type_))
    if not plain:
        values = [r.b.pure(llvm.BitcastOp, (v,), bits, {}) for v in values]
    props: dict[str, Attribute] = {
        "success_ordering": _ordering(op, "success"),
        "failure_ordering": _ordering(op, "failure"),
        "alignment": _natural(align, new.type),
        **_scope(r, op),
    }
    if "weak" in op.properties:
        props["weak"] = op.properties["weak"]
    made = r.b.op1(CmpXchgOp, (at, *values), cmpxchg_type(bits), props)
    old, written = (
        r.b.pure(llvm.ExtractValueOp, (made,), t, {"position": i64_list((i,))}) for i, t in enumerate((bits, i1))
    )
    r.vm[op.results[0]] = old if plain else r.b.pure(llvm.BitcastOp, (old,), type_, {})
    r.vm[op.results[1]] = written


def _ordering(op: Operation, name: str) -> Attribute:
    return int_attr(llvm.ORDERINGS[_word(op, name)], i64)


def _qualifiers(r: FlyConversion, op: Operation, align: int, type_: Attribute) -> dict[str, Attribute]:
    """Properties of an access: alignment, ordering and scope, `volatile`, `nontemporal`."""
    given = op.properties
    found: dict[str, Attribute] = {"alignment": int_attr(align, i64), **_scope(r, op)}
    if "ordering" in given:
        check_atomic(type_)
        found["alignment"] = _natural(align, type_)
        found["ordering"] = _ordering(op, "ordering")
    if "volatile" in given:
        found["volatile_"] = given["volatile"]
    if "nontemporal" in given:
        found["nontemporal"] = given["nontemporal"]
    return found


def _load(r: FlyConversion, op: QualifiedLoadOp) -> None:
    (pointer,) = operands_of(op)
    at, align = _place(r, pointer)
    type_ = stored_type(op.results[0].type)
    r.vm[op.results[0]] = r.b.op1(llvm.LoadOp, (at,), type_, _qualifiers(r, op, align, type_))


def _store(r: FlyConversion, op: QualifiedStoreOp) -> None:
    value, pointer = operands_of(op)
    at, align = _place(r, pointer)
    stored = r.val(value)
    r.b.opn(llvm.StoreOp, (stored, at), (), _qualifiers(r, op, align, stored.type))


def _fence(r: FlyConversion, op: FenceOp) -> None:
    r.b.opn(LlvmFenceOp, (), (), {"ordering": _ordering(op, "ordering"), **_scope(r, op)})


HANDLERS = cast(
    dict[type[Operation], Handler],
    {AtomicRMWOp: _rmw, AtomicCASOp: _cas, QualifiedLoadOp: _load, QualifiedStoreOp: _store, FenceOp: _fence},
)
