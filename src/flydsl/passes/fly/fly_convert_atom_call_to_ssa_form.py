"""`fly-convert-atom-call-to-ssa-form`: register operands of atom calls become values.

A register tensor that is one run of consecutive elements is loaded before the call and its result stored after it, so
that `fly-promote-regmem-to-vectorssa` sees only loads and stores of registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from ... import layout as L
from ...dialects.fly.forms import groups_of
from ...dialects.fly.infer import storage_type
from ...dialects.fly.ops import OPS, FlyOp
from ...dialects.fly.types import MemRefType
from ...errors import DSLCompileError
from ...ir.builder import i32_list, operands_of
from ...ir.enums import AddressSpace
from ...ir.types import vector_type
from ...layout import Layout
from ...layout.memo import memo
from ...lowering.rebuild import Handler, Rebuilder
from ..base import Form, Part, Pass


@memo
def run_length(layout: object) -> int | None:
    """Number of elements of a layout that is one run of consecutive elements; None of another."""
    if type(layout) is not Layout or not layout.is_static:
        return None
    flat: object = L.coalesce(layout)
    if type(flat.shape) is tuple or (flat.stride != 1 and flat.shape != 1):
        return None
    return cast(int, L.cosize(flat))


def ssa_type(type_: Attribute) -> Attribute | None:
    """Type of a register tensor as a value; None when it cannot be one."""
    if not isinstance(type_, MemRefType) or type_.data.space is not AddressSpace.Register:
        return None
    count = run_length(type_.data.layout)
    if count is None:
        return None
    return storage_type(type_.data.elem if count == 1 else vector_type(type_.data.elem, count))


class _ToSsa(Rebuilder):
    def iterator(self, tensor: SSAValue) -> SSAValue:
        """The pointer behind a register tensor."""
        owner = tensor.owner
        if not isinstance(owner, OPS["make_view"]):
            raise DSLCompileError("a register operand of an atom call must come from fly.make_view")
        return self.val(operands_of(owner)[0])

    def load(self, tensor: SSAValue) -> SSAValue:
        """The value of a register tensor, or the tensor itself."""
        type_ = ssa_type(tensor.type)
        return self.val(tensor) if type_ is None else self.b.op1(OPS["ptr.load"], (self.iterator(tensor),), type_, {})


def _copy_atom_call(r: _ToSsa, op: FlyOp) -> None:
    atom, src, dst, *pred = operands_of(op)
    if all(ssa_type(v.type) is None for v in (src, dst, *pred)):
        r.copy(op)
        return
    result = ssa_type(dst.type)
    source = r.load(src)
    flag = [r.load(p) for p in pred]
    # A predicated call keeps the old value where it does not write.
    target = [r.val(dst)] if result is None else [r.load(dst)] if pred else []
    sizes = i32_list((1, 1, len(target), len(flag)))
    operands = [r.val(atom), source, *target, *flag]
    types = [] if result is None else [result]
    call = r.b.opn(OPS["copy_atom_call_ssa"], operands, types, {"operandSegmentSizes": sizes})
    if result is not None:
        r.b.opn(OPS["ptr.store"], (call.results[0], r.iterator(dst)), ())


def _mma_atom_call(r: _ToSsa, op: FlyOp) -> None:
    (atom,), (d,), a, b, (c,) = groups_of(op)
    if all(ssa_type(v.type) is None for v in (d, *a, *b, c)):
        r.copy(op)
        return
    result = ssa_type(d.type)
    target = [r.val(d)] if result is None else []
    loaded = [[r.load(v) for v in group] for group in (a, b)]
    operands = [r.val(atom), *target, *loaded[0], *loaded[1], r.load(c)]
    props: dict[str, Attribute] = {}
    if len(a) > 1 or len(b) > 1:
        props["operandSegmentSizes"] = i32_list((1, len(target), len(a), len(b), 1))
    call = r.b.opn(OPS["mma_atom_call_ssa"], operands, [] if result is None else [result], props)
    if result is not None:
        r.b.opn(OPS["ptr.store"], (call.results[0], r.iterator(d)), ())


_ToSsa.handlers = cast(
    dict[type[Operation], Handler], {OPS["copy_atom_call"]: _copy_atom_call, OPS["mma_atom_call"]: _mma_atom_call}
)


@dataclass(frozen=True)
class FlyConvertAtomCallToSsaFormPass(Pass):
    """Route register operands of atom calls through values."""

    name = "fly-convert-atom-call-to-ssa-form"
    needs = "atom calls on `make_view` (`fly-layout-lowering`)"
    part = Part({Form.FOLDED: Form.CALLED}, "fly.walk.calls:Calls")

    def run(self, module: ModuleOp) -> ModuleOp:
        return _ToSsa.rebuild(module)
