"""`convert-fly-to-rocdl`: the rest of `fly` to `llvm` and `rocdl` with the address spaces of AMD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.llvm import TailCallKind, TailCallKindAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.fly.atoms import atom_of
from ...dialects.fly.infer import python_value
from ...dialects.fly.ops import OPS, FlyOp
from ...dialects.upstream import llvm
from ...ir.builder import operands_of
from ...ir.emitter import insert_after
from ...ir.enums import AddressSpace
from ...ir.types import bit_width, dense_ints
from ...lowering.atom_state import fresh_atom, set_value, to_struct, with_field
from ...lowering.expand.expand_math import AMD_MATH
from ...lowering.rebuild import Handler
from ...target import USUAL, features_of, warp_size_of
from ..base import Form, Part, Pass
from .convert_fly import FlyConversion
from .rocdl_async_marks import before, behind, intrinsic_of, is_mark, resolve

_SHARED = llvm.ptr(3)
_REACH = 1 << 16
"""Bytes that an instruction on shared memory adds to its address by itself."""
_NO_INSTRUCTION: dict[str, Attribute] = {
    "asm_string": StringAttr(""),
    "constraints": StringAttr("=s,0"),
    "tail_call_kind": TailCallKindAttr(TailCallKind.NONE),
}


class Conversion(FlyConversion):
    target = "rocdl"
    spaces = dict(zip(AddressSpace, (0, 1, 3, 5), strict=True))
    features = features_of("rocm")
    native_math = AMD_MATH
    usual_warp = warp_size_of(USUAL["rocm"])

    def __init__(self) -> None:
        super().__init__()
        self._marked = False
        """Whether the function under way marks copies into shared memory."""
        self._hides: dict[SSAValue, SSAValue] = {}
        """Constants, and what LLVM does not know to be them."""

    def step(self, at: SSAValue, elem: Attribute, by: int | SSAValue) -> SSAValue:
        known = by if isinstance(by, int) else self.b.const_of.get(by)
        size = bit_width(elem) // 8
        if known is None or at.type != _SHARED or not size or _REACH % size:
            return super().step(at, elem, by)
        near = int(known) % (_REACH // size)
        far = (int(known) - near) * size
        start = self._reached(at, far) if far else None
        if start is None:
            return super().step(at, elem, by)
        return super().step(start, elem, near) if near else start

    def _reached(self, at: SSAValue, far: int) -> SSAValue | None:
        """An address in an allocation, moved by whole reaches in front of its run-time step; None for others.

        Behind that step each place out of reach would have an address, and a register, of its own. They share one as
        long as LLVM does not know the distance, which it would fold.
        """
        b, gep = self.b, at.owner
        if type(gep) is not llvm.GEPOp or len(operands_of(gep)) != 2 or len(dense_ints(gep.rawConstantIndices)) != 1:
            return None
        start, index = operands_of(gep)
        each = bit_width(gep.elem_type) // 8
        if type(start.owner) is not llvm.AddressOfOp or not each or _REACH % each:
            return None
        index = b.int_binary("addi", index, self._hidden(far // each, index.type))
        return b.share(llvm.GEPOp, (start, index), at.type, dict(gep.properties))

    def _hidden(self, number: int, type_: Attribute) -> SSAValue:
        """A number in scalar registers, from the head of the function on."""
        b = self.b
        known = b.const(number, type_)
        found = self._hides.get(known)
        if found is None:
            op = llvm.InlineAsmOp.create(operands=[known], result_types=[type_], properties=_NO_INSTRUCTION)
            insert_after(b.entry, cast(Operation, known.owner), op)
            found = self._hides[known] = op.results[0]
        return found

    def copy(self, op: Operation) -> None:
        intrinsic = intrinsic_of(op)
        if not intrinsic:
            super().copy(op)
            return
        if is_mark(intrinsic):
            self._marked = True
        before(self.b, intrinsic)
        super().copy(op)
        behind(self.b, intrinsic)

    def intrinsic(self, name: str, type_: Attribute | None, operands: Sequence[SSAValue]) -> SSAValue | None:
        before(self.b, name)
        return self.call_intrinsic(name, type_, operands)

    def call_intrinsic(self, name: str, type_: Attribute | None, operands: Sequence[SSAValue]) -> SSAValue | None:
        """Call an LLVM intrinsic that an atom is."""
        return super().intrinsic(name, type_, operands)

    def fill(self, old: Region, entry: Block) -> Region:
        region = super().fill(old, entry)
        if self._marked and self.b.entry is entry:
            self._marked = False
            resolve(self.b, entry)
        return region


_ATOM_OPS = frozenset((OPS["make_copy_atom"], OPS["make_mma_atom"], OPS["atom.set_value"]))


def _has_state(op: Operation) -> bool:
    return type(op) in _ATOM_OPS and bool(atom_of(op.results[0].type).op.state)


class _Spelled(Conversion):
    """The conversion as a pass of its own: instructions are ops of `rocdl`, and atoms with state are structs."""

    immediates_of_run_time = True

    def __init__(self) -> None:
        super().__init__()
        self.structs: dict[SSAValue, SSAValue] = {}
        """The structs of atoms, by the values they stand for."""

    def val(self, old: SSAValue) -> SSAValue:
        return self.structs.get(old) or super().val(old)

    def mark(self, module: ModuleOp) -> set[int]:
        return super().mark(module) - {id(op) for op in module.walk() if _has_state(op)}

    def call_intrinsic(self, name: str, type_: Attribute | None, operands: Sequence[SSAValue]) -> SSAValue | None:
        # The whole dialect is loaded here; the one-walk lowering does without.
        from ...lowering.rocdl_instructions import spelled

        made = spelled(self.b, name, type_, operands)
        if made is None:
            return super().call_intrinsic(name, type_, operands)
        return made.results[0] if made.results else None


def _fresh(r: _Spelled, op: FlyOp) -> None:
    """An atom: the struct of its fields, all with their defaults."""
    fresh_atom(r, op)
    if _has_state(op):
        r.structs[op.results[0]] = to_struct(r.b, op.results[0].type, op.results[0].type)


def _set(r: _Spelled, op: FlyOp) -> None:
    """A field put into the struct."""
    atom, value = operands_of(op)
    struct = r.val(atom)
    set_value(r, op)
    field: str = python_value(op.properties["field"])
    r.structs[op.results[0]] = with_field(r.b, struct, atom.type, field, r.val(value))


_Spelled.handlers = {
    **FlyConversion.handlers,
    OPS["make_copy_atom"]: cast(Handler, _fresh),
    OPS["make_mma_atom"]: cast(Handler, _fresh),
    OPS["atom.set_value"]: cast(Handler, _set),
}


@dataclass(frozen=True)
class ConvertFlyToRocdlPass(Pass):
    """Lower pointers, memory access and atom calls for AMD."""

    name = "convert-fly-to-rocdl"
    part = Part({Form.PROMOTED: Form.CONVERTED}, "fly.convert_fly_to_rocdl:Conversion")

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Spelled.rebuild(module)
