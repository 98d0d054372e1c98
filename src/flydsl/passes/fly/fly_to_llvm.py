"""Fly to `llvm` in one walk: what `fly-rewrite-func-signature`, `fly-canonicalize`, `fly-layout-lowering` and
`convert-fly-to-*` do one after the other, without the IR in between.

`canonicalize` is part of it: everything is built with a builder that folds, and what takes a look ahead (a condition
that turns out to be known, a result nobody uses) is left to that pass itself. What comes out is what the passes leave
one after the other; a test compares both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
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
from ...ir.enums import AddressSpace
from ...ir.identity import LIMIT
from ...ir.types import bit_width, vector_type
from ...layout import Basis, ComposedLayout, Dyn, IntTuple, Layout, cosize, dynamic_leaves
from ...lowering import atom_state, value_operands
from ...lowering.atom_state import ATOM_TYPES
from ...lowering.folding import FoldingBuilder
from ...lowering.lanes import Lanes
from ...lowering.rebuild import Handler
from ...lowering.schedule import schedule
from .. import pass_class
from ..base import Pass
from ..cleanup.canonicalize import CanonicalizePass, is_unsettled, trip_count
from .convert_fly import FlyConversion, alloc_number, bare_pointer, copy_memory, copy_values, mma_call, storage_type
from .fly_convert_atom_call_to_ssa_form import run_length
from .fly_layout_lowering import LayoutLowering, Pointer
from .fly_rewrite_func_signature import boundary_types, carriers_of, is_number, launch, leaves_of, struct_of
from .register_values import Carried, Exit, KeepInMemory, RegisterValues, Root, is_idle, is_register

_ROOTS: frozenset[type[object]] = frozenset((Root,))
"""What a pointer has for its base where a register is a value."""


class FlyToLlvm(LayoutLowering, FlyConversion):
    """Both lowerings at once; mixed with a target's `FlyConversion`."""

    folds = True
    b: FoldingBuilder

    def make_builder(self) -> FoldingBuilder:
        return FoldingBuilder()

    def __init__(self) -> None:
        super().__init__()
        self.packed: dict[int, tuple[object, list[SSAValue]]] = {}
        """Carriers an object came from by its id, so that passing it on costs nothing."""
        self.registers_now: RegisterValues | None = None
        """The registers of the function under way that are values."""
        self.captured: dict[int, list[SSAValue]] = {}
        """What the terminators of blocks that are built into another hand on."""
        self.carry: list[Sequence[Root]] = []
        """Registers that the terminators of the enclosing regions hand on."""
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

    def unpack(self, type_: Attribute, parts: list[SSAValue]) -> object:
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

        def build(tree: IntTuple) -> IntTuple:
            if type(tree) is tuple:
                return tuple([build(x) for x in tree])
            if isinstance(tree, Basis):
                return Basis(cast("int | Dyn", build(tree.value)), tree.modes)
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
            pointer = [self.address_of_pointer(obj.iter)]
            return pointer if len(types) == 1 else [*pointer, self.to_struct(old.type.data.layout, obj.layout)]
        if isinstance(old.type, CoordTensorType):
            pairs = zip(old.type.data, (obj.iter, obj.layout), strict=True)
            return [self.struct(types[0], [self.to_struct(t, o) for t, o in pairs if not static_data(t)])]
        return [self.to_struct(cast("IntTupleType", old.type).data, obj)]

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

    def handed_on(self) -> list[SSAValue]:
        """What the registers hold that the region under way hands on."""
        return [self.values[root].value(self.b) for root in self.carry[-1]] if self.carry else []

    def pack_all(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        """Carriers of several values in order."""
        return [c for v in old for c in self.pack(v)]

    # --- functions ------------------------------------------------------------------------------------------------

    def function(self, op: func.FuncOp | gpu.FuncOp, cls: type[Operation]) -> None:
        self.b.in_kernel = cls is gpu.FuncOp
        self._entry = op.body.blocks.first if self.checked and cls is gpu.FuncOp else None
        single = cls is gpu.FuncOp and op.body.blocks.first is op.body.blocks.last
        kept = _without_values(op, self.dead) if single else set[SSAValue]()
        counted = self._allocations
        while True:
            self.registers_now = RegisterValues(self.b, kept, self.dead) if single else None
            try:
                super().function(op, cls)
            except KeepInMemory as error:
                kept.add(error.root.old)
                self._allocations = counted
                continue
            break
        self.registers_now = None
        self.b.in_kernel = False

    def fill(self, old: Region, entry: Block) -> Region:
        region = super().fill(old, entry)
        if self.registers_now is not None and self.b.entry is entry:
            self.registers_now.settle()
        return region

    def _note_extents(self, arguments: Sequence[SSAValue]) -> None:
        """In checked mode: how far the tensor of each argument reaches."""
        for i, value in enumerate(arguments):
            type_ = value.type
            if not isinstance(type_, MemRefType) or value.first_use is None or is_buffer(type_.data.space):
                continue
            view = self.obj(value)
            try:
                count = cosize(linear_layout(view.layout))
            except LayoutError:
                continue
            bits = self.b.muli(self.b.leaf_value(count, 64), self.b.const(bit_width(type_.data.elem), i64))
            nbytes = self.b.int_binary("shrui", self.b.addi(bits, self.b.const(7, i64)), self.b.const(3, i64))
            layout = linear_layout(view.layout)
            leaves = [*leaves_of(layout.shape), *leaves_of(layout.stride)]
            modes = [self.b.leaf_value(leaf, 64) for leaf in leaves] if all(map(is_number, leaves)) else []
            props: dict[str, Attribute] = {"argument": int_attr(i), "bits": int_attr(bit_width(type_.data.elem))}
            self.b.opn(fly_cpu.ExtentOp, (view.iter.base, nbytes, *modes), (), props)

    # --- values ---------------------------------------------------------------------------------------------------

    def val(self, old: SSAValue) -> SSAValue:
        found = self.vm[old]
        if type(found) in SSA_CLASSES:
            return found
        if isinstance(found, Pointer):
            return self.address_of_pointer(found)
        if isinstance(old.type, ATOM_TYPES):
            return atom_state.to_struct(self.b, found, old.type)
        return super().val(old)

    def address_of_pointer(self, at: Pointer) -> SSAValue:
        """A pointer as an IR value; a register that must have one stays in memory."""
        if type(at.base) in _ROOTS:
            raise KeepInMemory(cast(Root, at.base))
        return at.value()

    # --- memory and atoms, emitted as `llvm` at once --------------------------------------------------------------

    def _step(self, at: SSAValue, elem: Attribute, by: IntTuple) -> SSAValue:
        return self.step(at, elem, by if type(by) is int else self.b.leaf_value(by, cast(Dyn, by).width))

    def advance(self, at: SSAValue, type_: PointerType, by: IntTuple, after: PointerType) -> SSAValue:
        if is_buffer(type_.data.space):
            return self.move_buffer(at, by if type(by) is int else self.b.leaf_value(by, 32))
        return self._step(at, storage_type(type_.data.elem), by)

    def registers(self, old: SSAValue, type_: PointerType, count: int) -> Any:
        elem = storage_type(type_.data.elem)
        if self.registers_now is not None and count:
            root = self.registers_now.allocate(old, vector_type(elem, count))
            if root is not None:
                return root
        return self.stack(elem, count, type_.data.align)

    def blank(self, type_: Attribute) -> SSAValue:
        return self.b.poison(storage_type(type_))

    def register_place(self, at: Pointer) -> tuple[Root, int] | None:
        """Root and element of a pointer to a register that is a value."""
        base = at.base
        if type(base) not in _ROOTS:
            return None
        if at.dynamic is not None:
            raise KeepInMemory(cast(Root, base))
        return cast(Root, base), at.static

    def read(self, at: Pointer, type_: Attribute) -> SSAValue:
        place = self.register_place(at)
        if place is None:
            return self.load(Operand(at.value(), cast("MemRefData", at.type.data)), type_)
        root, offset = place
        return value_operands.read_lanes(self.b, self.values[root], offset, storage_type(type_))

    def write(self, value: SSAValue, at: Pointer) -> None:
        place = self.register_place(at)
        if place is None:
            self.store(value, Operand(at.value(), cast("MemRefData", at.type.data)))
            return
        root, offset = place
        lanes = self.values[root]
        self.values[root] = lanes.put(self.b, value_operands.with_element(self.b, value, lanes.elem), offset)

    @property
    def values(self) -> dict[Root, Lanes]:
        """What the registers hold."""
        assert self.registers_now is not None
        return self.registers_now.now

    def operand(self, old: Any) -> Operand:
        at: Pointer = old.iter
        d = at.type.data
        return Operand(self.address_of_pointer(at), MemRefData(d.elem, d.space, old.layout, d.align, d.swizzle))

    def tensor(self, old: SSAValue) -> Operand:
        return self.operand(self.obj(old))

    def as_value(self, view: View, type_: Attribute | None) -> Any:
        """An operand of a call: a register tensor that can be a value as its pointer, others as memory."""
        return self.operand(view) if type_ is None else self.settled(view.iter)

    def settled(self, at: Pointer) -> Pointer:
        """A register pointer where its access is: in memory it is an address by now."""
        return at if type(at.base) in _ROOTS else Pointer(self, at.value(), at.type)

    def given(self, at: Any, type_: Attribute | None) -> Operand:
        """What a call takes for an operand."""
        return at if type_ is None else value_operands.operand(type_, self.read(at, type_))

    def copy_call(self, atom: CopyAtomType, tensors: Sequence[View]) -> None:
        types = [register_type(t) for t in tensors]
        places = [self.as_value(t, type_) for t, type_ in zip(tensors, types, strict=True)]
        if not any(types):
            copy_memory(self, atom, places[0], places[1], places[2] if len(places) > 2 else None)
            return
        result = types[1]
        source = self.given(places[0], types[0])
        pred = self.given(places[2], types[2]) if len(places) > 2 else None
        before = self.read(places[1], result) if pred is not None and result is not None else None
        memory = places[1] if result is None else None
        made = copy_values(self, atom, source, memory, pred, result, before)
        if made is not None:
            self.write(made, places[1])

    def mma_call(self, atom: MmaAtomType, tensors: Sequence[View]) -> None:
        types = [register_type(t) for t in tensors]
        if None in types:
            d, a, b, c = tensors
            self.scaled_mma_call(atom, ((d,), (a,), (b,), (c,)))
            return
        kinds = cast("list[Attribute]", types)
        d, a, b, c = (self.settled(t.iter) for t in tensors)
        left, right, start = (
            value_operands.operand(type_, self.read(at, type_)) for at, type_ in zip((a, b, c), kinds[1:], strict=True)
        )
        target = value_operands.operand(kinds[0], None)
        mma_call(self, atom, target, (left,), (right,), start)
        self.write(value_operands.value_of(target, self.b), d)

    def scaled_mma_call(self, atom: MmaAtomType, groups: Sequence[Sequence[View]]) -> None:
        types = [[register_type(t) for t in group] for group in groups]
        places = [
            [self.as_value(t, type_) for t, type_ in zip(group, kinds, strict=True)]
            for group, kinds in zip(groups, types, strict=True)
        ]
        result = types[0][0]
        a, b, (c,) = (
            [self.given(at, type_) for at, type_ in zip(group, kinds, strict=True)]
            for group, kinds in zip(places[1:], types[1:], strict=True)
        )
        target = places[0][0] if result is None else value_operands.operand(result, None)
        mma_call(self, atom, target, a, b, c)
        if result is not None:
            self.write(value_operands.value_of(target, self.b), places[0][0])


def register_type(view: View) -> Attribute | None:
    """Type of a register tensor as a value; None when it cannot be one."""
    at = view.iter
    data = (at.base_type if type(at) is Pointer else at.type).data  # an offset changes neither space nor element
    if data.space is not AddressSpace.Register:
        return None
    return _register_type(view.layout, data.elem)


_register_types: dict[tuple[int, int], tuple[Attribute | None, object, Attribute]] = {}
"""By the ids of a layout and an element type, which are kept in the entry: all pieces of a tensor share theirs."""


def _register_type(layout: object, elem: Attribute) -> Attribute | None:
    found = _register_types.get((id(layout), id(elem)))
    if found is None:
        if len(_register_types) >= LIMIT:
            _register_types.clear()
        count = run_length(layout)
        type_ = None if count is None else storage_type(elem if count == 1 else vector_type(elem, count))
        found = _register_types[id(layout), id(elem)] = (type_, layout, elem)
    return found[0]


def _without_values(function: Operation, dead: set[int]) -> set[SSAValue]:
    """Allocations that ops of a target take as tensors, or that are reinterpreted: they stay in memory."""
    found = RegisterValues(FoldingBuilder(), set(), dead)
    kept: set[SSAValue] = set()
    todo = list(function.regions)
    while todo:
        for block in todo.pop().blocks:
            op: Operation | None = block.first_op
            while op is not None:
                todo += op.regions
                if _needs_memory(type(op)) and id(op) not in dead:  # pyright: ignore[reportUnknownArgumentType]
                    sources = [found.source(v) for v in operands_of(op) if is_register(v.type)]
                    kept.update(source for source in sources if source is not None)
                op = op._next_op  # pyright: ignore[reportPrivateUsage]
    return kept


@cache
def _needs_memory(cls: type[Operation]) -> bool:
    return cls in (OPS["recast_iter"], OPS["to_llvm_ptr"]) or cls.name.startswith(("fly_rocdl.", "fly_nvgpu."))


def _matching(known: IntTuple, obj: IntTuple) -> list[IntTuple]:
    """The leaves of `obj` that stand where `known` has run-time leaves."""
    if type(known) is tuple:
        pairs = zip(known, cast("tuple[IntTuple, ...]", obj), strict=True)
        return [leaf for k, o in pairs for leaf in _matching(k, o)]
    return [] if static_data(known) else [obj]


def _load(r: FlyToLlvm, op: FlyOp) -> None:
    r.vm[op.results[0]] = r.read(r.obj(operands_of(op)[0]), op.results[0].type)


def _store(r: FlyToLlvm, op: FlyOp) -> None:
    value, at = operands_of(op)
    r.write(r.val(value), r.obj(at))


def _make_ptr(r: FlyToLlvm, op: FlyOp) -> None:
    type_ = cast(PointerType, op.results[0].type)
    if type_.data.space is AddressSpace.Register:
        made = r.registers(op.results[0], type_, alloc_number(op, "allocSize"))
        r.vm[op.results[0]] = Pointer(r, cast("SSAValue", made), type_) if type(made) is Root else made
    else:
        FlyConversion.handlers[OPS["make_ptr"]](r, op)


def _recast(r: FlyToLlvm, op: FlyOp) -> None:
    at = cast(Pointer, r.obj(operands_of(op)[0]))
    type_ = cast(PointerType, op.results[0].type)
    value = r.address_of_pointer(at)
    if is_buffer(type_.data.space):
        value = r.recast_buffer(value, at.type.data.elem, type_.data.elem)
    r.vm[op.results[0]] = Pointer(r, value, type_)


def _aligned_pointer(r: FlyToLlvm, op: FlyOp) -> None:
    bare_pointer(r, op, lambda tensor: r.address_of_pointer(cast(Pointer, cast(View, r.obj(tensor)).iter)))


def _terminator(r: FlyToLlvm, op: Operation) -> None:
    given = r.pack_all(operands_of(op))
    if id(op) in r.captured:
        r.captured[id(op)] = given
        return
    r.b.opn(type(op), [*given, *r.handed_on()], (), dict(op.properties))


def _return(r: FlyToLlvm, op: Operation) -> None:
    r.b.opn(type(op), r.pack_all(operands_of(op)), (), dict(op.properties))


def _condition(r: FlyToLlvm, op: Operation) -> None:
    cond, *rest = operands_of(op)
    given = [r.val(cond), *r.pack_all(rest)]
    r.b.opn(scf.ConditionOp, [*given, *r.handed_on()], ())


def _inline(r: FlyToLlvm, block: Block) -> list[SSAValue]:
    """Build the ops of a block into the current one; give the carriers of what its terminator hands on."""
    last = cast(Operation, block.last_op)
    r.captured[id(last)] = []
    r.walk(block)
    return r.captured.pop(id(last))


def _types(r: FlyToLlvm, op: Operation) -> list[Attribute]:
    return [r.convert(t) for x in op.results for t in boundary_types(x.type)]


def _for(r: FlyToLlvm, op: scf.ForOp) -> None:
    b, registers, operands = r.b, r.registers_now, operands_of(op)
    bounds, inits = r.vals(operands[:3]), r.pack_all(operands[3:])
    old = op.body.block
    trips = trip_count(b, bounds, op)
    if trips == 0:
        r.bind(op.results, inits)
        return
    if trips == 1:
        r.bind(old.args, [bounds[0], *inits])
        r.bind(op.results, _inline(r, old))
        return
    roots = [] if registers is None else registers.accessed(op)[0]
    new = Block(arg_types=[*r.argument_types(old), *(root.type for root in roots)])
    count = len(new.args) - len(roots)
    started = [r.values[root] for root in roots]
    before = b.numbered() if roots else {}
    inside: dict[object, SSAValue] = {}
    r.carry.append(())
    with b.region(new):
        r.bind(old.args, new.args[:count])
        for root, value in zip(roots, new.args[count:], strict=True):
            r.values[root] = Lanes.of(value, new)
        r.walk(old)
        if roots:
            inside = b.numbered()
    r.carry.pop()
    ended = [r.values[root] for root in roots]
    types = [*_types(r, op), *(root.type for root in roots)]
    loop = b.with_regions(scf.ForOp, [*bounds, *inits], types, [Region(new)], dict(op.properties), dict(op.attributes))
    r.bind(op.results, loop.results[: len(types) - len(roots)])
    if roots and registers is not None:
        registers.carry(Carried(loop, roots, [Exit(new, ended, inside)], started, before))


def _if(r: FlyToLlvm, op: scf.IfOp) -> None:
    b, registers = r.b, r.registers_now
    cond = r.val(operands_of(op)[0])
    known = b.const_of.get(cond)
    if known is not None:
        region = op.regions[0 if known else 1]
        if region.blocks:
            r.bind(op.results, _inline(r, region.block))
        return
    roots = [] if registers is None else registers.accessed(op)[0]
    started = {root: r.values[root] for root in roots}
    regions: list[Region] = []
    exits: list[Exit] = []
    r.carry.append(())
    for region in op.regions:
        if not region.blocks and not roots:
            regions.append(Region())
            continue
        new = Block()
        with b.region(new):
            if region.blocks:
                r.walk(region.block)
            else:
                b.opn(scf.YieldOp, (), ())
            if roots:
                exits.append(Exit(new, [r.values[root] for root in roots], b.numbered()))
        for root, lanes in started.items():
            r.values[root] = lanes
        made = Region(new)
        # The first branch is there however little it does.
        idle = bool(regions) and not roots and not op.results and is_idle(made)
        regions.append(Region() if idle else made)
    r.carry.pop()
    own = _types(r, op)
    types = [*own, *(root.type for root in roots)]
    new_if = b.with_regions(scf.IfOp, (cond,), types, regions, dict(op.properties), dict(op.attributes))
    r.bind(op.results, new_if.results[: len(own)])
    if roots and registers is not None:
        registers.carry(Carried(new_if, roots, exits))


def _while(r: FlyToLlvm, op: scf.WhileOp) -> None:
    b, registers = r.b, r.registers_now
    roots = [] if registers is None else registers.accessed(op)[1]
    inits = [*r.pack_all(operands_of(op)), *(r.values[root].value(b) for root in roots)]
    started = {root: r.values[root] for root in roots}
    regions: list[Region] = []
    r.carry.append(roots)
    for region in op.regions:
        old = region.block
        new = Block(arg_types=[*r.argument_types(old), *(root.type for root in roots)])
        count = len(new.args) - len(roots)
        with b.region(new):
            r.bind(old.args, new.args[:count])
            for root, value in zip(roots, new.args[count:], strict=True):
                r.values[root] = Lanes.of(value, new)
            r.walk(old)
        regions.append(Region(new))
    r.carry.pop()
    if roots:
        r.values.update(started)
    types = [*_types(r, op), *(root.type for root in roots)]
    made = b.with_regions(scf.WhileOp, inits, types, regions, dict(op.properties), dict(op.attributes))
    _finish(r, op, made, roots)


def _finish(r: FlyToLlvm, op: Operation, made: Operation, roots: Sequence[Root]) -> None:
    """Bind the results of a rebuilt op; the last ones are what the roots hold now."""
    count = len(made.results) - len(roots)
    r.bind(op.results, made.results[:count])
    for root, value in zip(roots, made.results[count:], strict=True):
        r.values[root] = Lanes.of(value, r.b.block)


_HANDLERS = cast(
    dict[type[Operation], Handler],
    {
        **FlyConversion.handlers,
        **LayoutLowering.handlers,
        OPS["make_ptr"]: _make_ptr,
        OPS["ptr.load"]: _load,
        OPS["ptr.store"]: _store,
        OPS["recast_iter"]: _recast,
        OPS["extract_aligned_pointer_as_index"]: _aligned_pointer,
        OPS["apply_swizzle"]: _recast,
        scf.ForOp: _for,
        scf.IfOp: _if,
        scf.WhileOp: _while,
        scf.YieldOp: _terminator,
        scf.ConditionOp: _condition,
        func.ReturnOp: _return,
        gpu.LaunchFuncOp: launch,
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
    """The passes from `fly-rewrite-func-signature` to the conversion and its `canonicalize` in one walk."""

    name = "fly-to-llvm"
    needs = "a traced module"
    convert: str = "convert-fly-to-rocdl"
    """The conversion that is part of it."""

    def run(self, module: ModuleOp) -> ModuleOp:
        conversion = getattr(pass_class(self.convert), "conversion", None)
        if conversion is None:
            raise ValueError(f"option 'convert' of pass 'fly-to-llvm' names a conversion, got '{self.convert}'")
        walk = fused_with(conversion)()
        made = walk.run(module)
        if is_unsettled(made):
            return CanonicalizePass().run(made)
        schedule(made)
        return made
