"""Lowering of what is left of `fly` to `llvm`, shared by the targets: pointers, memory access, atom calls.

`convert-fly-to-rocdl`, `-nvvm` and `-cpu` are this rebuild with a `Spaces` table each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import gcd
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import DictionaryAttr, IntegerType, StringAttr, i8, i64
from xdsl.dialects.builtin import MemRefType as PlainMemRefType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ... import layout as L
from ...dialects.fly.atom_lowering import Operand
from ...dialects.fly.atoms import CopyAtomType, CopyOpType, MmaAtomType, MmaOpType
from ...dialects.fly.forms import groups_of
from ...dialects.fly.infer import python_value
from ...dialects.fly.infer import storage_type as infer_storage_type
from ...dialects.fly.ops import OPS, FlyOp
from ...dialects.fly.semantics import object_of
from ...dialects.fly.types import TRIVIAL_SWIZZLE, MemRefData, MemRefType, PointerType, PtrData, static_data
from ...dialects.fly_rocdl.buffer import is_buffer
from ...dialects.upstream import llvm, scf
from ...dialects.upstream.llvm.values import AddrSpaceCastOp
from ...errors import DSLCompileError
from ...ir.builder import i32, i32_list, int_attr, operands_of
from ...ir.dead_code import is_pure
from ...ir.emitter import insert_after
from ...ir.enums import AddressSpace, AtomicOp
from ...ir.identity import by_identity
from ...ir.types import bit_width, vector_type
from ...lowering import atom_state, value_operands
from ...lowering.atom_state import (
    ATOM_TYPES,
    AtomWithState,
    fresh_atom,
    get_atom,
    make_tiled,
    refuse_coordinates,
    set_value,
    state_of,
)
from ...lowering.atomic_lowering import HANDLERS as ATOMIC_HANDLERS
from ...lowering.expand.expand_float_tests import HANDLERS as FLOAT_TEST_HANDLERS
from ...lowering.expand.expand_math import HANDLERS as MATH_HANDLERS
from ...lowering.expand.expand_math import NativeMath
from ...lowering.expand.expand_powers import HANDLERS as POWER_HANDLERS
from ...lowering.expand.missing import HANDLERS as MISSING_HANDLERS
from ...lowering.expand.missing import check_atomic
from ...lowering.expand.small_floats import HANDLERS as FLOAT_HANDLERS
from ...lowering.expand.small_floats import is_small, stored_type
from ...lowering.rebuild import Handler
from ...lowering.value_operands import ValuePlace
from ...target.scopes import scope_for
from .device_module import HANDLERS as DEVICE_HANDLERS
from .device_module import DeviceModule
from .plain_memrefs import HANDLERS as MEMREF_HANDLERS
from .plain_memrefs import pointer_type
from .rocdl_buffers import HANDLERS as BUFFER_HANDLERS
from .rocdl_buffers import BufferMemory, add_buffer_offset, is_buffer_type, make_buffer_pointer

_INT_ATOMICS = {
    AtomicOp.Add: "add",
    AtomicOp.Max: "max",
    AtomicOp.Min: "min",
    AtomicOp.And: "_and",
    AtomicOp.Or: "_or",
    AtomicOp.Inc: "uinc_wrap",
    AtomicOp.Dec: "udec_wrap",
}
_UNSIGNED_ATOMICS = {**_INT_ATOMICS, AtomicOp.Max: "umax", AtomicOp.Min: "umin"}
_FLOAT_ATOMICS = {AtomicOp.Add: "fadd", AtomicOp.Max: "fmax", AtomicOp.Min: "fmin"}


_NO_WRAP_FLAGS = int_attr(0, i32)


@by_identity
def storage_type(type_: Attribute) -> Attribute:
    """Type a value has in memory and registers: floats narrower than 16 bits are integers to LLVM."""
    return infer_storage_type(type_)


@cache
def _name(text: str) -> StringAttr:
    return StringAttr(text)


class FlyConversion(DeviceModule, BufferMemory):
    """The conversion; subclasses fill in the address spaces."""

    target: ClassVar[str]
    """What messages call it."""
    spaces: ClassVar[dict[AddressSpace, int]]
    native_math: ClassVar[NativeMath] = NativeMath()
    extra: ClassVar[dict[type[Operation], Handler]] = {}
    """Handlers of this target alone, over the common ones."""

    @classmethod
    def table(cls) -> dict[type[Operation], Handler]:
        found = cls.__dict__.get("_table")
        if found is None:
            found = {**super().table(), **cls.extra}
            cls._table = found  # pyright: ignore[reportAttributeAccessIssue]
        return cast(dict[type[Operation], Handler], found)

    def convert(self, type_: Attribute) -> Attribute:
        """Type after the pass."""
        if type(type_) is PointerType or type(type_) is MemRefType:
            space = type_.data.space
            if is_buffer_type(type_):
                return self.buffer_pointer_type()
            if not isinstance(space, AddressSpace):
                raise DSLCompileError(f"address space {space} is not known to this target")
            return llvm.ptr(self.spaces[space])
        if type(type_) in ATOM_TYPES:
            return atom_state.struct_type(type_)
        if isinstance(type_, PlainMemRefType):
            return self.convert(pointer_type(cast("PlainMemRefType[Attribute]", type_)))
        return storage_type(type_)

    def argument_types(self, block: Block) -> list[Attribute]:
        return [self.convert(a.type) for a in block.args]

    def declared_types(self, types: Sequence[Attribute]) -> list[Attribute]:
        return [self.convert(t) for t in types]

    def result_types(self, types: Sequence[Attribute]) -> list[Attribute]:
        return [self.convert(t) for t in types]

    def val(self, old: SSAValue) -> SSAValue:
        found = self.vm[old]
        if type(old.type) in ATOM_TYPES and not isinstance(found, SSAValue):
            return atom_state.to_struct(self.b, found, old.type)
        return cast(SSAValue, found)

    def atom(self, old: SSAValue) -> Any:
        """An atom or tiled operation, with its state; one that came as a struct is taken apart."""
        found = self.vm[old]
        if isinstance(found, SSAValue):
            found = self.vm[old] = atom_state.from_struct(self.b, cast(SSAValue, found), old.type)
        return found

    def copy(self, op: Operation) -> None:
        if op.name.startswith("fly."):
            raise DSLCompileError(f"failed to legalize operation '{op.name}' that was explicitly marked illegal")
        rule = self.own_rule(op)
        if rule is not None:
            self.lower_own(op, rule)
            return
        if any(is_small(x.type) for x in op.results):
            if self.folds and len(op.results) == 1 and is_pure(type(op)) and not op.attributes and not op.regions:
                kind = stored_type(op.results[0].type)
                made = self.b.pure(type(op), self.vals(operands_of(op)), kind, dict(op.properties))
                # What folds is gone before conversions are expanded; here its operands may be there for nothing.
                self.missed |= type(made.owner) is not type(op)
                self.vm[op.results[0]] = made
                return
            new = self.b.opn(
                type(op), self.vals(operands_of(op)), [stored_type(x.type) for x in op.results], dict(op.properties)
            )
            for old, fresh in zip(op.results, new.results, strict=True):
                self.vm[old] = fresh
            return
        super().copy(op)

    def own_rule(self, op: Operation) -> Callable[[FlyConversion, Sequence[SSAValue]], Sequence[SSAValue]] | None:
        """How an op of a target's dialect lowers itself; None for all others."""
        return getattr(op, "lower", None)

    def lower_own(self, op: Operation, rule: Callable[[FlyConversion, Sequence[SSAValue]], Sequence[SSAValue]]) -> None:
        """An op of a target's dialect that has a rule of its own; tensors reach it as they are in its `args`."""
        operands = [v if isinstance(v.type, MemRefType) else self.val(v) for v in operands_of(op)]
        for old, fresh in zip(op.results, rule(self, operands), strict=True):
            self.vm[old] = fresh

    def call_copy(self, op: CopyOpType, src: Operand, dst: Operand) -> None:
        """A copy atom on lowered operands."""
        op.lower(self, src, dst)

    def call_mma(self, op: MmaOpType, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
        """An MMA atom on lowered operands."""
        op.lower(self, d, a, b, c)

    # --- memory ---------------------------------------------------------------------------------------------------

    def address_number(self, pointer: SSAValue, type_: Attribute, *, shared: bool) -> SSAValue:
        """An address as an integer."""
        return self.b.pure(llvm.PtrToIntOp, (pointer,), type_, {})

    def pointer_at(self, number: SSAValue, type_: Attribute, *, shared: bool) -> SSAValue:
        """The pointer of an address that is an integer."""
        return self.b.pure(llvm.IntToPtrOp, (number,), type_, {})

    def step(self, at: SSAValue, elem: Attribute, by: int | SSAValue) -> SSAValue:
        """A pointer moved by elements; those narrower than a byte are packed, but for flags."""
        b, bits = self.b, bit_width(elem)
        if 1 < bits < 8:
            elem = i8
            if isinstance(by, int):
                if by * bits % 8:
                    raise DSLCompileError(f"element {by} of {bits} bits does not start at a byte")
                by = by * bits // 8
            else:  # In lowest terms, so that the product stays within the type as long as it can.
                common = gcd(bits, 8)
                bytes_ = b.muli(by, b.const(bits // common, by.type))
                by = b.int_binary("shrsi", bytes_, b.const((8 // common).bit_length() - 1, by.type))
        known = by if isinstance(by, int) else b.const_of.get(by)
        if known is not None and -(1 << 31) < known < 1 << 31:
            operands, index = (at,), int(known)
        else:
            operands, index = (at, b.const(by, i64) if isinstance(by, int) else by), llvm.GEP_DYNAMIC
        props: dict[str, Attribute] = {
            "rawConstantIndices": i32_list((index,)),
            "elem_type": elem,
            "noWrapFlags": _NO_WRAP_FLAGS,
        }
        # Only a step of zero folds to something else.
        return (b.share if index else b.pure)(llvm.GEPOp, operands, at.type, props)

    def moved(self, at: Operand, by: L.Leaf) -> Operand:
        """An operand some elements further on, aligned as far as the distance is; `by` is a number or a leaf."""
        if type(by) is int and not by:
            return at
        bits = (by if type(by) is int else cast(L.Dyn, by).div) * bit_width(at.data.elem)
        data = at.data._replace(align=gcd(at.data.align, bits // 8) if bits % 8 == 0 else 1)
        pointer: object = at.pointer
        if hasattr(pointer, "offset"):
            return Operand(cast("SSAValue", cast("ValuePlace", pointer).offset(by)), data)
        step: int | SSAValue = by if type(by) is int else self.b.leaf_value(by, cast("L.Dyn", by).width)
        return Operand(self.step(pointer, stored_type(at.data.elem), step), data)

    def address(self, pointer: SSAValue, data: PtrData | MemRefData) -> tuple[SSAValue, int]:
        """Where an access goes, with the pointer's swizzle applied, and the alignment that is left."""
        align = data.align
        if data.swizzle is not TRIVIAL_SWIZZLE and data.swizzle != TRIVIAL_SWIZZLE:
            b = self.b
            number = b.swizzle(b.pure(llvm.PtrToIntOp, (pointer,), i64, {}), data.swizzle)
            pointer = b.pure(llvm.IntToPtrOp, (number,), pointer.type, {})
            align = min(align, 1 << data.swizzle.base)
        return pointer, align & -align

    def load(self, at: Operand, type_: Attribute, align: int | None = None) -> SSAValue:
        """Read a value."""
        if isinstance(at.pointer, ValuePlace):
            return at.pointer.load(self.b, storage_type(type_))
        if is_buffer(at.data.space):
            return self.buffer_load(*self.buffer_place(at), self.b.i32(0), type_, 0)
        pointer, known = self.address(at.pointer, at.data)
        return self._load(pointer, type_, align or known)

    def _load(self, pointer: SSAValue, type_: Attribute, align: int) -> SSAValue:
        props: dict[str, Attribute] = {"alignment": int_attr(align, i64)}
        return self.b.op1(llvm.LoadOp, (pointer,), storage_type(type_), props)

    def store(self, value: SSAValue, at: Operand, align: int | None = None) -> None:
        """Write a value."""
        if isinstance(at.pointer, ValuePlace):
            at.pointer.store(self.b, value)
            return
        if is_buffer(at.data.space):
            self.buffer_store(value, *self.buffer_place(at), self.b.i32(0), 0)
            return
        pointer, known = self.address(at.pointer, at.data)
        self.b.opn(llvm.StoreOp, (value, pointer), (), {"alignment": int_attr(align or known, i64)})

    def atomic(self, op: AtomicOp, at: Operand, value: SSAValue, scope: str, unsigned: bool = False) -> None:
        """Read-modify-write of memory."""
        check_atomic(value.type)
        pointer, _ = self.address(at.pointer, at.data)
        integer = isinstance(value.type, IntegerType)
        names = _UNSIGNED_ATOMICS if unsigned else _INT_ATOMICS if integer else _FLOAT_ATOMICS
        props: dict[str, Attribute] = {
            "bin_op": int_attr(llvm.ATOMIC_BINARY.index(names[op]), i64),
            "ordering": int_attr(llvm.ORDERINGS["monotonic"], i64),
        }
        if scope:
            props["syncscope"] = StringAttr(scope_for(scope, self.has))
        self.b.op1(llvm.AtomicRMWOp, (pointer, value), value.type, props)

    def stack(self, elem: Attribute, count: int, align: int) -> SSAValue:
        """Stack memory, taken once at the head of the function even when the tensor is made in a loop."""
        b = self.b
        size = b.const(count, i64)
        nbytes = min(16, (count * bit_width(elem) + 7) // 8)
        # Wide register accesses must not be split for want of alignment.
        align = max(align, 1 << (nbytes.bit_length() - 1) if nbytes else 1)
        op = llvm.AllocaOp.create(
            operands=[size],
            result_types=[llvm.ptr(self.spaces[AddressSpace.Register])],
            properties={"alignment": int_attr(align, i64), "elem_type": elem},
            location=b.loc,
        )
        insert_after(b.entry, cast(Operation, size.owner), op)
        return op.results[0]

    def intrinsic(self, name: str, type_: Attribute | None, operands: Sequence[SSAValue]) -> SSAValue | None:
        """Call an LLVM intrinsic by its full name, e.g. `llvm.amdgcn.mfma.f32.16x16x16f16`."""
        props: dict[str, Attribute] = {"intrin": _name(name), "operandSegmentSizes": i32_list((len(operands), 0))}
        op = self.b.opn(llvm.CallIntrinsicOp, operands, () if type_ is None else (type_,), props)
        return op.results[0] if op.results else None

    def operand(self, old: Any) -> Operand:
        """A memref operand of an atom call; its layout has the values of what is known at run time only."""
        data = cast(MemRefType, old.type).data
        owner = old.owner
        if not static_data(data.layout) and isinstance(owner, OPS["make_view"]):
            data = data._replace(layout=self.layout_of(operands_of(owner)[1], data.layout))
        return Operand(self.val(old), data)

    def layout_of(self, value: SSAValue, known: Any) -> Any:
        """A layout or tuple with its run-time leaves, as far as the ops that make it are there."""
        owner = value.owner
        if isinstance(owner, OPS["make_layout"]):
            pairs = zip(operands_of(owner), (known.shape, known.stride), strict=True)
            return L.Layout(*(self.layout_of(v, k) for v, k in pairs))
        if isinstance(owner, OPS["make_composed_layout"]):
            parts = (known.inner, known.offset, known.outer)
            return L.ComposedLayout(*(self.layout_of(v, k) for v, k in zip(operands_of(owner), parts, strict=True)))
        if not isinstance(owner, OPS["make_int_tuple"]):
            return known
        values = iter(operands_of(owner))

        def build(tree: L.IntTuple) -> L.IntTuple:
            if type(tree) is tuple:
                return tuple([build(x) for x in tree])
            if isinstance(tree, L.Basis):
                return L.Basis(cast("int | L.Dyn", build(tree.value)), tree.modes)
            return self.b.leaf(self.val(next(values)), tree.width, tree.div) if isinstance(tree, L.Dyn) else tree

        return build(known)

    def tensor(self, old: SSAValue) -> Operand:
        """An operand of a call on values that is memory after all."""
        return self.operand(old)

    def value_or_tensor(self, old: SSAValue) -> Operand:
        """An operand of a call on values."""
        if isinstance(old.type, MemRefType):
            return self.tensor(old)
        value = self.val(old)
        return value_operands.operand(value.type, value)

    def copy_flag(self, copy: CopyOpType, flag: SSAValue | None) -> SSAValue | None:
        """The condition of a copy; one that fills with zeros where it does not hold takes it as state and is issued."""
        if flag is None or not copy.fills_zeros:
            return flag
        self.set_state({**self._state, "pred": flag})
        return None

    def guarded(self, flag: SSAValue | None, emit: Callable[[], None]) -> None:
        """Run `emit`, under a condition if there is one."""
        if flag is None:
            emit()
            return
        block = Block()
        with self.b.region(block):
            emit()
            self.b.opn(scf.YieldOp, (), ())
        self.b.with_regions(scf.IfOp, (flag,), (), [Region(block), Region()])

    def chosen(self, flag: SSAValue | None, emit: Callable[[], SSAValue], otherwise: SSAValue | None) -> SSAValue:
        """The value `emit` gives, or under a condition that does not hold `otherwise`."""
        if flag is None:
            return emit()
        assert otherwise is not None
        blocks = Block(), Block()
        with self.b.region(blocks[0]):
            self.b.opn(scf.YieldOp, (emit(),), ())
        with self.b.region(blocks[1]):
            self.b.opn(scf.YieldOp, (otherwise,), ())
        types = (otherwise.type,)
        return self.b.with_regions(scf.IfOp, (flag,), types, [Region(block) for block in blocks]).results[0]


def _forward(r: FlyConversion, op: FlyOp) -> None:
    r.vm[op.results[0]] = r.val(operands_of(op)[0])


def _recast(r: FlyConversion, op: FlyOp) -> None:
    (old,) = operands_of(op)
    if not is_buffer_type(old.type):
        _forward(r, op)
        return
    types = [cast(PointerType, t).data.elem for t in (old.type, op.results[0].type)]
    r.vm[op.results[0]] = r.recast_buffer(r.val(old), *types)


def _drop(r: FlyConversion, op: FlyOp) -> None:
    """Layout values have done their work; what they describe is in the types."""
    r.vm[op.results[0]] = op


def _make_view(r: FlyConversion, op: FlyOp) -> None:
    if isinstance(op.results[0].type, MemRefType):
        _forward(r, op)
    else:
        r.vm[op.results[0]] = op


def _make_int_tuple(r: FlyConversion, op: FlyOp) -> None:
    r.vm[op.results[0]] = [r.val(v) for v in operands_of(op)]


def _add_offset(r: FlyConversion, op: FlyOp) -> None:
    pointer, offset = operands_of(op)
    if is_buffer_type(pointer.type):
        add_buffer_offset(r, op)
        return
    base = r.val(pointer)
    elem = storage_type(cast(PointerType, pointer.type).data.elem)
    known = object_of(offset.type)
    static = known if type(known) is int else None
    r.vm[op.results[0]] = r.step(base, elem, static if static is not None else r.vm[offset][0])


def alloc_number(op: FlyOp, name: str, default: int | None = None) -> int:
    """A number in the dictionary of a `make_ptr`."""
    given = op.properties.get("dictAttrs")
    attr = None if given is None else cast("DictionaryAttr", given).data.get(name)
    value = default if attr is None else python_value(attr)
    if type(value) is not int or value < 0:
        raise DSLCompileError(f"make_ptr needs a size, a non-negative integer '{name}' in dictAttrs, got {attr}")
    return value


def _make_ptr(r: FlyConversion, op: FlyOp) -> None:
    data = cast(PointerType, op.results[0].type).data
    if is_buffer(data.space):
        make_buffer_pointer(r, op)
        return
    if data.space is AddressSpace.Register:
        r.vm[op.results[0]] = r.stack(storage_type(data.elem), alloc_number(op, "allocSize"), data.align)
        return
    if data.space is AddressSpace.Shared:
        align = max(alloc_number(op, "allocAlign", 1), data.align)
        r.vm[op.results[0]] = r.shared(alloc_number(op, "allocBytes"), align)
        return
    raise DSLCompileError(f"make_ptr cannot make memory in the {data.space} address space")


def _get_dyn_shared(r: FlyConversion, op: FlyOp) -> None:
    r.vm[op.results[0]] = r.dynamic_shared()


def _inttoptr(r: FlyConversion, op: FlyOp) -> None:
    type_ = op.results[0].type
    shared = cast(PointerType, type_).data.space is AddressSpace.Shared
    r.vm[op.results[0]] = r.pointer_at(r.val(operands_of(op)[0]), r.convert(type_), shared=shared)


def _ptrtoint(r: FlyConversion, op: FlyOp) -> None:
    (pointer,) = operands_of(op)
    shared = cast(PointerType, pointer.type).data.space is AddressSpace.Shared
    r.vm[op.results[0]] = r.address_number(r.val(pointer), op.results[0].type, shared=shared)


def _to_llvm_ptr(r: FlyConversion, op: FlyOp) -> None:
    (old,) = operands_of(op)
    if is_buffer_type(old.type):
        raise DSLCompileError(f"pointer address space does not lower to a bare ROCDL LLVM pointer: {old.type}")
    value = r.val(old)
    wanted = op.properties.get("llvm_address_space")
    space = llvm.address_space(value.type)
    if wanted is not None and r.convert(llvm.ptr(python_value(wanted))) != value.type:
        raise DSLCompileError(
            f"requested LLVM address space {python_value(wanted)} but the {r.target} conversion requires {space}"
        )
    r.vm[op.results[0]] = value


def _aligned_pointer(r: FlyConversion, op: FlyOp) -> None:
    """`fly.extract_aligned_pointer_as_index`: the pointer of a tensor, in the address space asked for."""
    bare_pointer(r, op, r.val)


def bare_pointer(r: FlyConversion, op: FlyOp, pointer_of: Callable[[SSAValue], SSAValue]) -> None:
    """What is asked for of the pointer that a conversion has for a tensor."""
    (old,) = operands_of(op)
    if is_buffer_type(old.type):
        raise DSLCompileError(f"a buffer tensor has no bare pointer: {old.type}")
    value, wanted = pointer_of(old), r.convert(op.results[0].type)
    r.vm[op.results[0]] = value if value.type == wanted else r.b.pure(AddrSpaceCastOp, (value,), wanted, {})


def _load(r: FlyConversion, op: FlyOp) -> None:
    (pointer,) = operands_of(op)
    r.vm[op.results[0]] = r.load(Operand(r.val(pointer), cast(Any, pointer.type).data), op.results[0].type)


def _store(r: FlyConversion, op: FlyOp) -> None:
    value, pointer = operands_of(op)
    r.store(r.val(value), Operand(r.val(pointer), cast(Any, pointer.type).data))


def _copy_atom_call(r: FlyConversion, op: FlyOp) -> None:
    refuse_coordinates(op)
    atom, src, dst, *pred = operands_of(op)
    copy_memory(r, r.atom(atom), r.operand(src), r.operand(dst), r.operand(pred[0]) if pred else None)


def copy_memory(
    r: FlyConversion, atom: CopyAtomType | AtomWithState, src: Operand, dst: Operand, pred: Operand | None
) -> None:
    """A call of a copy atom on memory."""
    r.set_state(state_of(atom))
    flag = r.copy_flag(atom.op, None if pred is None else r.load(pred, pred.data.elem))
    r.guarded(flag, lambda: r.call_copy(atom.op, src, dst))


def _copy_atom_call_ssa(r: FlyConversion, op: FlyOp) -> None:
    (atom,), (src,), dst, pred = groups_of(op)
    result = r.convert(op.results[0].type) if op.results else None
    if result is None and not dst:
        raise DSLCompileError("a copy on values without a result needs a destination in memory")
    flag = r.value_or_tensor(pred[0]) if pred else None
    before = r.val(dst[0]) if dst and result is not None else None
    memory = r.tensor(dst[0]) if result is None else None
    made = copy_values(r, r.atom(atom), r.value_or_tensor(src), memory, flag, result, before)
    if made is not None:
        r.vm[op.results[0]] = made


def copy_values(
    r: FlyConversion,
    atom: CopyAtomType | AtomWithState,
    source: Operand,
    memory: Operand | None,
    pred: Operand | None,
    result: Attribute | None,
    before: SSAValue | None,
) -> SSAValue | None:
    """A call of a copy atom with operands that are values: to `memory`, or giving a `result`.

    `before` is what the result is where a predicate does not hold.
    """
    copy = cast(CopyOpType, atom.op)
    r.set_state(state_of(atom))
    flag = None if pred is None else r.load(pred, pred.data.elem)
    if memory is not None:
        if flag is None:
            r.call_copy(copy, source, memory)
        else:
            r.guarded(r.copy_flag(copy, flag), lambda: r.call_copy(copy, source, memory))
        return None
    assert result is not None
    if flag is not None and before is None:
        raise DSLCompileError("a predicated copy on values needs the value that stays where it does not write")

    def emit() -> SSAValue:
        target = value_operands.operand(result, before)
        r.call_copy(copy, source, target)
        return value_operands.value_of(target, r.b)

    return emit() if flag is None else r.chosen(flag, emit, before)


def scaled_state(r: FlyConversion, state: dict[str, SSAValue], a: Sequence[Operand], b: Sequence[Operand]) -> None:
    """State of a call whose A and B carry their scales: a tensor each, of one register."""
    found = dict(state)
    for name, group in (("scale_a", a), ("scale_b", b)):
        if len(group) > 2:
            raise DSLCompileError(f"an MMA operand is a tensor and its scales, got {len(group)} tensors")
        if len(group) == 2:
            at = group[1]
            count = cast(int, L.cosize(at.data.layout))
            elem = storage_type(at.data.elem)
            found[name] = r.load(at, elem if count == 1 else vector_type(elem, count))
    r.set_state(found)


def _mma_atom_call(r: FlyConversion, op: FlyOp) -> None:
    (atom,), *groups = groups_of(op)
    (d,), a, b, (c,) = ([r.operand(t) for t in group] for group in groups)
    mma_call(r, r.atom(atom), d, a, b, c)


def mma_call(
    r: FlyConversion,
    atom: MmaAtomType | AtomWithState,
    d: Operand,
    a: Sequence[Operand],
    b: Sequence[Operand],
    c: Operand,
) -> None:
    scaled_state(r, state_of(atom), a, b)
    r.call_mma(atom.op, d, a[0], b[0], c)


def _mma_atom_call_ssa(r: FlyConversion, op: FlyOp) -> None:
    (atom,), *groups = groups_of(op)
    d, a, b, (c,) = ([r.value_or_tensor(t) for t in group] for group in groups)
    if not op.results and not d:
        raise DSLCompileError("an MMA on values without a result needs a destination in memory")
    target = d[0] if d else value_operands.operand(r.convert(op.results[0].type), None)
    mma_call(r, r.atom(atom), target, a, b, c)
    if op.results:
        r.vm[op.results[0]] = value_operands.value_of(target, r.b)


def _structured(r: FlyConversion, op: Operation) -> None:
    operands = r.vals(operands_of(op))
    regions = [Region(r.nested(region.block)) if region.blocks else Region() for region in op.regions]
    types = [r.convert(x.type) for x in op.results]
    new = r.b.with_regions(type(op), operands, types, regions, {**op.properties}, {**op.attributes})
    for old, fresh in zip(op.results, new.results, strict=True):
        r.vm[old] = fresh


FlyConversion.handlers = cast(
    dict[type[Operation], Handler],
    {
        OPS["static"]: _drop,
        OPS["make_layout"]: _drop,
        OPS["make_composed_layout"]: _drop,
        OPS["make_int_tuple"]: _make_int_tuple,
        OPS["make_copy_atom"]: fresh_atom,
        OPS["make_mma_atom"]: fresh_atom,
        OPS["make_tiled_copy"]: make_tiled,
        OPS["make_tiled_mma"]: make_tiled,
        OPS["get_copy_atom"]: get_atom,
        OPS["get_mma_atom"]: get_atom,
        OPS["make_view"]: _make_view,
        OPS["recast_iter"]: _recast,
        OPS["atom.set_value"]: set_value,
        OPS["add_offset"]: _add_offset,
        OPS["make_ptr"]: _make_ptr,
        OPS["get_dyn_shared"]: _get_dyn_shared,
        OPS["inttoptr"]: _inttoptr,
        OPS["ptrtoint"]: _ptrtoint,
        OPS["to_llvm_ptr"]: _to_llvm_ptr,
        OPS["extract_aligned_pointer_as_index"]: _aligned_pointer,
        OPS["apply_swizzle"]: _forward,
        **DEVICE_HANDLERS,
        OPS["ptr.load"]: _load,
        OPS["ptr.store"]: _store,
        OPS["copy_atom_call"]: _copy_atom_call,
        OPS["mma_atom_call"]: _mma_atom_call,
        OPS["copy_atom_call_ssa"]: _copy_atom_call_ssa,
        OPS["mma_atom_call_ssa"]: _mma_atom_call_ssa,
        scf.ForOp: _structured,
        scf.IfOp: _structured,
        scf.WhileOp: _structured,
        **BUFFER_HANDLERS,
        **MEMREF_HANDLERS,
        **FLOAT_HANDLERS,
        **MISSING_HANDLERS,
        **ATOMIC_HANDLERS,
        **MATH_HANDLERS,
        **FLOAT_TEST_HANDLERS,
        **POWER_HANDLERS,
    },
)
