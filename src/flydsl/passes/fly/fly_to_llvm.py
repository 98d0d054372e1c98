"""Fly to `llvm` in one walk: what `fly-rewrite-func-signature`, `fly-canonicalize`, `fly-layout-lowering` and
`convert-fly-to-*` do one after the other, without the IR in between.

The driver takes it when nobody asks to see that IR. The result is the same; a test compares both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects import fly_cpu
from ...dialects.fly.atoms import CopyAtomType, MmaAtomType, Operand
from ...dialects.fly.ops import OPS, FlyOp
from ...dialects.fly.semantics import View
from ...dialects.fly.types import (
    CoordTensorType,
    IntTupleType,
    MemRefData,
    MemRefType,
    PointerType,
    is_static,
    linear_layout,
    ptr_type,
    static_data,
)
from ...dialects.fly_rocdl.buffer import is_buffer
from ...dialects.upstream import gpu, llvm, scf
from ...errors import LayoutError
from ...ir.builder import i64, i64_list, int_attr, operands_of
from ...ir.emitter import SSA_CLASSES
from ...ir.enums import AtomicOp
from ...ir.types import bit_width
from ...layout import Basis, ComposedLayout, Dyn, Layout, cosize, dynamic_leaves
from ...lowering import atom_state
from ...lowering.atom_state import ATOM_TYPES, state_of
from ...lowering.rebuild import Handler
from ...lowering.register_cells import RegisterCells
from ...lowering.value_operands import ValuePlace
from .. import PASSES, pass_class
from ..base import Pass
from ..pipeline import pass_names
from .convert_fly import FlyConversion, scaled_state, storage_type
from .fly_layout_lowering import LayoutLowering, Pointer
from .fly_rewrite_func_signature import boundary_types, carriers_of, struct_of


class FlyToLlvm(LayoutLowering, FlyConversion):
    """Both lowerings at once; mixed with a target's `FlyConversion`."""

    def __init__(self) -> None:
        super().__init__()
        self.packed: dict[int, tuple[Any, list[SSAValue]]] = {}
        """Carriers an object came from by its id, so that passing it on costs nothing."""
        self.cells = RegisterCells(self.b, self)
        self._entry: Block | None = None
        """Entry block of a kernel whose arguments' bounds are wanted."""

    # --- boundaries -----------------------------------------------------------------------------------------------

    def argument_types(self, block: Block) -> list[Attribute]:
        return [self.convert(t) for a in block.args for t in boundary_types(a.type)]

    def enter(self, old: Block, new: Block) -> None:
        self.bind(old.args, new.args)
        if self._entry is old:
            self._note_extents(old.args)

    def bind(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
        """Give each old value its object, made of its carriers."""
        fresh = iter(new)
        for value in old:
            types = carriers_of(value.type)
            if types is None:
                part = next(fresh)
                atom = isinstance(value.type, ATOM_TYPES)
                self.vm[value] = atom_state.from_struct(self.b, part, value.type) if atom else part
                continue
            parts = [next(fresh) for _ in types]
            if value.first_use is not None:
                obj = self.vm[value] = self.unpack(value.type, parts)
                self.packed[id(obj)] = (obj, parts)

    def unpack(self, type_: Attribute, parts: list[SSAValue]) -> Any:
        """The object of a DSL type from its carriers."""
        if isinstance(type_, MemRefType):
            d = type_.data
            pointer = Pointer(self, parts[0], ptr_type(d.elem, d.space, d.align, d.swizzle))
            return View(pointer, self.from_struct(d.layout, parts[1] if len(parts) > 1 else None))
        if isinstance(type_, CoordTensorType):
            base, layout = type_.data
            if not parts:
                return View(base, layout)
            fields = self.fields(parts[0])
            made = [d if static_data(d) else self.from_struct(d, fields.pop(0)) for d in (base, layout)]
            return View(*made)
        data = getattr(type_, "data", type_)
        if is_static(type_) and not isinstance(type_, IntTupleType) and not parts:
            return data if not isinstance(data, tuple) else type_
        return self.from_struct(data, parts[0] if parts else None)

    def fields(self, struct: SSAValue) -> list[SSAValue]:
        """All fields of a struct."""
        types = cast(llvm.StructType, struct.type).fields
        return [
            self.b.pure(llvm.ExtractValueOp, (struct,), t, {"position": i64_list((i,))}) for i, t in enumerate(types)
        ]

    def from_struct(self, data: Any, struct: SSAValue | None) -> Any:
        """An algebra object whose run-time leaves come from a struct."""
        if struct is None:
            return data
        fields = self.fields(struct)
        if type(data) is Layout:
            shape, stride = (
                d if static_data(d) else self.from_struct(d, fields.pop(0)) for d in (data.shape, data.stride)
            )
            return Layout(shape, stride)
        if type(data) is ComposedLayout:
            parts: tuple[Any, ...] = (data.outer, data.offset, data.inner)
            outer, offset, inner = (d if static_data(d) else self.from_struct(d, fields.pop(0)) for d in parts)
            return ComposedLayout(inner, offset, outer)

        def build(tree: Any) -> Any:
            if type(tree) is tuple:
                return tuple([build(x) for x in cast(tuple[Any, ...], tree)])
            if isinstance(tree, Basis):
                return Basis(build(tree.value), tree.modes)
            return self.b.leaf(fields.pop(0), tree.width, tree.div) if isinstance(tree, Dyn) else tree

        return build(data)

    def pack(self, old: SSAValue) -> list[SSAValue]:
        """Carriers of a value at a boundary."""
        types = carriers_of(old.type)
        if types is None:
            return [self.val(old)]
        if not types:
            return []
        obj = self.obj(old)
        known = self.packed.get(id(obj))
        if known is not None:
            return known[1]
        if isinstance(old.type, MemRefType):
            if self.cells.tracks(obj.iter.parts[0]):
                self.cells.release(obj.iter.parts[0])
            pointer = [obj.iter.value()]
            return pointer if len(types) == 1 else [*pointer, self.to_struct(old.type.data.layout, obj.layout)]
        if isinstance(old.type, CoordTensorType):
            pairs = zip(old.type.data, (obj.iter, obj.layout), strict=True)
            return [self.struct(types[0], [self.to_struct(t, o) for t, o in pairs if not static_data(t)])]
        return [self.to_struct(cast(Any, old.type).data, obj)]

    def to_struct(self, known: Any, obj: Any) -> SSAValue:
        """The struct of the leaves of an object that `known` (its type) says are run-time."""
        type_ = cast(Attribute, struct_of(known))
        if type(known) is Layout:
            parts = [(known.shape, obj.shape), (known.stride, obj.stride)]
        elif type(known) is ComposedLayout:
            parts = [(known.outer, obj.outer), (known.offset, obj.offset), (known.inner, obj.inner)]
        else:
            leaves = [
                self.b.leaf_value(o.value if isinstance(o, Basis) else o, t.width)
                for t, o in zip(dynamic_leaves(known), _matching(known, obj), strict=True)
            ]
            return self.struct(type_, leaves)
        return self.struct(type_, [self.to_struct(t, o) for t, o in parts if not static_data(t)])

    def struct(self, type_: Attribute, fields: Sequence[SSAValue]) -> SSAValue:
        """A struct value."""
        value = self.b.pure(llvm.UndefOp, (), type_, {})
        for i, field in enumerate(fields):
            value = self.b.pure(llvm.InsertValueOp, (value, field), type_, {"position": i64_list((i,))})
        return value

    def pack_all(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        """Carriers of several values in order."""
        return [c for v in old for c in self.pack(v)]

    # --- memory and atoms, emitted as `llvm` at once --------------------------------------------------------------

    def val(self, old: SSAValue) -> SSAValue:
        found = self.vm[old]
        if type(found) in SSA_CLASSES:
            return found
        if isinstance(found, Pointer):
            if self.cells.tracks(found.parts[0]):
                self.cells.release(found.parts[0])
            return found.value()
        if isinstance(old.type, ATOM_TYPES):
            return atom_state.to_struct(self.b, found, old.type)
        return super().val(old)

    def function(self, op: Any, cls: type[Operation]) -> None:
        outer, self.cells = self.cells, RegisterCells(self.b, self)
        self._entry = op.body.blocks.first if self.checked and cls is gpu.FuncOp else None
        super().function(op, cls)
        self.cells = outer

    def _note_extents(self, arguments: Sequence[SSAValue]) -> None:
        """In checked mode: how far the tensor of each argument reaches."""
        for i, value in enumerate(arguments):
            type_ = value.type
            if not isinstance(type_, MemRefType) or value.first_use is None or is_buffer(type_.data.space):
                continue
            view = self.obj(value)
            try:
                count: Any = cosize(linear_layout(view.layout))
            except LayoutError:
                continue
            bits = self.b.muli(self.b.leaf_value(count, 64), self.b.const(bit_width(type_.data.elem), i64))
            nbytes = self.b.int_binary("shrui", self.b.addi(bits, self.b.const(7, i64)), self.b.const(3, i64))
            layout = linear_layout(view.layout)
            leaves: list[Any] = [*flatten_to_list(layout.shape), *flatten_to_list(layout.stride)]
            modes = [self.b.leaf_value(leaf, 64) for leaf in leaves] if all(map(_is_number, leaves)) else []
            props: dict[str, Attribute] = {"argument": int_attr(i), "bits": int_attr(bit_width(type_.data.elem))}
            self.b.opn(fly_cpu.ExtentOp, (view.iter.parts[0], nbytes, *modes), (), props)

    def nested(self, old: Block) -> Block:
        new = Block(arg_types=self.argument_types(old))
        before = self.cells.enter(loop=not isinstance(old.parent_op(), scf.IfOp))
        with self.b.region(new):
            self.enter(old, new)
            self.walk(old)
        return self._leave(new, before)

    def _leave(self, block: Block, before: set[SSAValue]) -> Block:
        """Write back what a region knows, in front of its terminator."""
        last = block.last_op
        if last is not None:
            block.detach_op(last)
        with self.b.region(block):
            self.cells.leave(before)
        if last is not None:
            block.add_op(last)
        return block

    def tensor(self, old: SSAValue) -> Operand:
        return self.operand(self.obj(old))

    def guarded(self, flag: SSAValue | None, emit: Callable[[], None]) -> None:
        if flag is None:
            emit()
            return
        block = Block()
        before = self.cells.enter(loop=False)
        with self.b.region(block):
            emit()
            self.cells.leave(before)
            self.b.opn(scf.YieldOp, (), ())
        self.b.with_regions(scf.IfOp, (flag,), (), [Region(block), Region()])

    def chosen(self, flag: SSAValue | None, emit: Callable[[], SSAValue], otherwise: SSAValue | None) -> SSAValue:
        if flag is not None:
            # What the branch reads is read before it, so that it leaves no trace in memory.
            self.cells.flush()
        return super().chosen(flag, emit, otherwise)

    def store_register(self, base: SSAValue, offset: int, value: SSAValue) -> None:
        """Write back a register: the allocation's element type gives the step."""
        elem = cast(Any, base.owner).elem_type
        at = base if not offset else self._step(base, elem, offset)
        align = cast(Any, base.owner).alignment.value.data
        known = gcd(align, offset * bit_width(elem) // 8) or align
        self.b.opn(llvm.StoreOp, (value, at), (), {"alignment": int_attr(known, i64)})

    def _step(self, at: SSAValue, elem: Attribute, by: Any) -> SSAValue:
        return self.step(at, elem, by if type(by) is int else self.b.leaf_value(by, cast(Dyn, by).width))

    def advance(self, at: SSAValue, type_: PointerType, by: Any, after: PointerType) -> SSAValue:
        if is_buffer(type_.data.space):
            return self.move_buffer(at, by if type(by) is int else self.b.leaf_value(by, 32))
        return self._step(at, storage_type(type_.data.elem), by)

    def read(self, at: Any, type_: Attribute) -> SSAValue:
        return self.load(self.operand_at(at), type_)

    def write(self, value: SSAValue, at: Any) -> None:
        self.store(value, self.operand_at(at))

    def load(self, at: Operand, type_: Attribute, align: int | None = None) -> SSAValue:
        if isinstance(at.pointer, ValuePlace):
            return super().load(at, type_, align)
        pointer = cast(Pointer, at.pointer)
        place = self.register_place(pointer)
        if place is not None:
            found = self.cells.load(*place, storage_type(type_))
            if found is not None:
                return found
            self.cells.flush(place[0])
        return super().load(Operand(pointer.value(), at.data), type_, align)

    def store(self, value: SSAValue, at: Operand, align: int | None = None) -> None:
        if isinstance(at.pointer, ValuePlace):
            super().store(value, at, align)
            return
        pointer = cast(Pointer, at.pointer)
        place = self.register_place(pointer)
        if place is not None:
            self.cells.store(*place, value)
            return
        super().store(value, Operand(pointer.value(), at.data), align)

    def atomic(self, op: AtomicOp, at: Operand, value: SSAValue, scope: str, unsigned: bool = False) -> None:
        pointer = cast(Pointer, at.pointer)
        super().atomic(op, Operand(pointer.value(), at.data), value, scope, unsigned)

    def register_place(self, at: Pointer) -> tuple[SSAValue, int] | None:
        """Allocation and static offset of a register access that can be followed; else memory is made right first."""
        base, dynamic, static = at.parts
        if not self.cells.tracks(base):
            return None
        if dynamic is None:
            return base, static
        self.cells.release(base)
        return None

    def operand_at(self, at: Pointer, layout: Any = None) -> Operand:
        """An address as an operand of a memory access; it becomes IR only if the access does."""
        d = at.type.data
        return Operand(cast(Any, at), MemRefData(d.elem, d.space, layout, d.align, d.swizzle))

    def operand(self, old: Any) -> Operand:
        return self.operand_at(old.iter, old.layout)

    def registers(self, type_: PointerType, count: int) -> SSAValue:
        base = self.stack(storage_type(type_.data.elem), count, type_.data.align)
        self.cells.track(base)
        return base

    def copy_call(self, atom: CopyAtomType, tensors: Sequence[View]) -> None:
        src, dst, *pred = tensors
        self.set_state(state_of(atom))
        flag = self.read(pred[0].iter, self.operand(pred[0]).data.elem) if pred else None
        flag = self.copy_flag(atom.op, flag)
        self.guarded(flag, lambda: self.call_copy(atom.op, self.operand(src), self.operand(dst)))

    def mma_call(self, atom: MmaAtomType, tensors: Sequence[View]) -> None:
        d, a, b, c = map(self.operand, tensors)
        self.set_state(state_of(atom))
        self.call_mma(atom.op, d, a, b, c)

    def scaled_mma_call(self, atom: MmaAtomType, groups: Sequence[Sequence[View]]) -> None:
        (d,), a, b, (c,) = ([self.operand(t) for t in group] for group in groups)
        scaled_state(self, state_of(atom), a, b)
        self.call_mma(atom.op, d, a[0], b[0], c)


def flatten_to_list(tree: Any) -> list[Any]:
    """The leaves of nested tuples in order."""
    if type(tree) is not tuple:
        return [tree]
    return [x for part in cast("tuple[Any, ...]", tree) for x in flatten_to_list(part)]


def _is_number(leaf: Any) -> bool:
    return type(leaf) is int or isinstance(leaf, Dyn)


def _matching(known: Any, obj: Any) -> list[Any]:
    """The leaves of `obj` that stand where `known` has run-time leaves."""
    if type(known) is tuple:
        pairs = zip(cast(tuple[Any, ...], known), cast(tuple[Any, ...], obj), strict=True)
        return [leaf for k, o in pairs for leaf in _matching(k, o)]
    return [] if static_data(known) else [obj]


def _load(r: FlyToLlvm, op: FlyOp) -> None:
    r.vm[op.results[0]] = r.read(r.obj(operands_of(op)[0]), op.results[0].type)


def _store(r: FlyToLlvm, op: FlyOp) -> None:
    value, at = operands_of(op)
    r.write(r.val(value), r.obj(at))


def _recast(r: FlyToLlvm, op: FlyOp) -> None:
    at = cast(Pointer, r.obj(operands_of(op)[0]))
    type_ = cast(PointerType, op.results[0].type)
    if is_buffer(type_.data.space):
        r.vm[op.results[0]] = Pointer(r, r.recast_buffer(at, at.type.data.elem, type_.data.elem), type_)
        return
    base = at.parts[0]
    if r.cells.tracks(base):
        r.cells.release(base)
    r.vm[op.results[0]] = Pointer(r, at.value(), cast(PointerType, op.results[0].type))


def _terminator(r: FlyToLlvm, op: Operation) -> None:
    r.b.opn(type(op), r.pack_all(operands_of(op)), (), dict(op.properties))


def _condition(r: FlyToLlvm, op: Operation) -> None:
    cond, *rest = operands_of(op)
    r.b.opn(scf.ConditionOp, [r.val(cond), *r.pack_all(rest)], ())


def _structured(r: FlyToLlvm, op: Operation) -> None:
    fixed = {scf.ForOp: 3, scf.IfOp: 1, scf.WhileOp: 0}[cast(Any, type(op))]
    operands = operands_of(op)
    values = [*r.vals(operands[:fixed]), *r.pack_all(operands[fixed:])]
    regions = [Region(r.nested(region.block)) if region.blocks else Region() for region in op.regions]
    types = [r.convert(t) for x in op.results for t in boundary_types(x.type)]
    new = r.b.with_regions(type(op), values, types, regions, dict(op.properties), dict(op.attributes))
    r.bind(op.results, new.results)


def _launch(r: FlyToLlvm, op: gpu.LaunchFuncOp) -> None:
    args = r.pack_all(op.kernelOperands)
    fixed = r.vals(operands_of(op)[: len(op.operands) - len(op.kernelOperands)])
    props = dict(op.properties)
    props["operandSegmentSizes"] = gpu.LaunchFuncOp.segments(
        len(op.asyncDependencies), bool(op.cluster), op.dynamicSharedMemorySize is not None, len(args)
    )
    new = r.b.opn(gpu.LaunchFuncOp, [*fixed, *args], [x.type for x in op.results], props)
    new.attributes = dict(op.attributes)
    r.bind(op.results, new.results)


_HANDLERS = cast(
    dict[type[Operation], Handler],
    {
        **FlyConversion.handlers,
        **LayoutLowering.handlers,
        OPS["make_ptr"]: FlyConversion.handlers[OPS["make_ptr"]],
        OPS["ptr.load"]: _load,
        OPS["ptr.store"]: _store,
        OPS["recast_iter"]: _recast,
        OPS["apply_swizzle"]: _recast,
        scf.ForOp: _structured,
        scf.IfOp: _structured,
        scf.WhileOp: _structured,
        scf.YieldOp: _terminator,
        scf.ConditionOp: _condition,
        func.ReturnOp: _terminator,
        gpu.LaunchFuncOp: _launch,
    },
)

_fused: dict[type[FlyConversion], type[FlyToLlvm]] = {}


def fused_with(conversion: type[FlyConversion]) -> type[FlyToLlvm]:
    """The one-walk lowering for a target."""
    found = _fused.get(conversion)
    if found is None:
        found = type(f"FlyToLlvm{conversion.__name__}", (FlyToLlvm, conversion), {"handlers": _HANDLERS})
        _fused[conversion] = found
    return found


@dataclass(frozen=True)
class FlyToLlvmPass(Pass):
    """All fly passes of a pipeline in one walk."""

    name = "fly-to-llvm"
    conversion: type[FlyConversion]

    def run(self, module: ModuleOp) -> ModuleOp:
        return fused_with(self.conversion).rebuild(module)


_NEEDED = ("fly-rewrite-func-signature", "fly-canonicalize", "fly-layout-lowering")
_IMPLIED = (
    "fly-int-swizzle-simplify",
    "canonicalize",
    "fly-convert-atom-call-to-ssa-form",
    "fly-promote-regmem-to-vectorssa",
)


def fuse(fragments: Sequence[str]) -> list[Pass] | None:
    """The fly passes of a pipeline up to the conversion as one walk, if all are there in their usual order.

    The passes between layout lowering and the conversion have nothing to add: the walk follows register storage as
    values, folds and shares, and what is dead is not written to LLVM IR. Nor has `canonicalize` right behind. Works on
    the text: the modules of passes that do not run are not imported.
    """
    if any(mark in fragment for fragment in fragments for mark in "{("):
        return None
    names = [name for fragment in fragments for name in pass_names(fragment)]
    *before, last = [name for name in names if name not in _IMPLIED] or [""]
    if tuple(before) != _NEEDED or last not in PASSES or names[-2:] not in ([last, "canonicalize"], [names[-2], last]):
        return None
    conversion = getattr(pass_class(last), "conversion", None)
    return None if conversion is None else [FlyToLlvmPass(conversion)]
