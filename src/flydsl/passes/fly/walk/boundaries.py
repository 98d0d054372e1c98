"""The part of `fly-rewrite-func-signature`: what crosses a boundary goes apart into its carriers, and is put together
behind it, as an object of the layout algebra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import func
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ....dialects import fly_cpu
from ....dialects.fly.semantics import View
from ....dialects.fly.types import (
    CoordTensorType,
    IntTupleType,
    MemRefType,
    is_static,
    linear_layout,
    ptr_type,
    static_data,
)
from ....dialects.fly_rocdl.buffer import is_buffer
from ....dialects.upstream import gpu, llvm
from ....errors import LayoutError
from ....ir.builder import i64, i64_list, int_attr, operands_of
from ....ir.types import stored_bits
from ....layout import Basis, ComposedLayout, Dyn, IntTuple, Layout, cosize, dynamic_leaves
from ....lowering.rebuild import Handler
from ..fly_layout_lowering import Pointer
from ..fly_rewrite_func_signature import boundary_types, carriers_of, is_number, launch, leaves_of, struct_of
from .regions import Regions


class Boundaries(Regions):
    """Values at the boundaries of functions, launches, loops and ifs."""

    def __init__(self) -> None:
        super().__init__()
        self.packed: dict[int, tuple[object, list[SSAValue]]] = {}
        """Carriers an object came from by its id, so that passing it on costs nothing."""
        self._entry: Block | None = None
        """Entry block of a kernel whose arguments' bounds are wanted."""

    def function(self, op: func.FuncOp | gpu.FuncOp, cls: type[Operation]) -> None:
        self._entry = op.body.blocks.first if self.checked and cls is gpu.FuncOp else None
        super().function(op, cls)

    def boundary_types(self, types: Sequence[Attribute]) -> list[Attribute]:
        return [self.convert(t) for type_ in types for t in boundary_types(type_)]

    def enter(self, old: Block, new: Block) -> None:
        super().enter(old, new)
        if self._entry is old:
            self._note_extents(old.args)

    def bind(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
        """Give each old value its object, made of its carriers."""
        fresh = iter(new)
        for value in old:
            types = carriers_of(value.type)
            if types is None:
                self.vm[value] = self.plain(value.type, next(fresh))
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
        return self._from_fields(data, fields)

    def _from_fields(self, tree: IntTuple, fields: list[SSAValue]) -> IntTuple:
        """A tree whose run-time leaves are the fields, which it takes."""
        if type(tree) is tuple:
            return tuple([self._from_fields(x, fields) for x in tree])
        if isinstance(tree, Basis):
            return Basis(cast("int | Dyn", self._from_fields(tree.value, fields)), tree.modes)
        return self.b.leaf(fields.pop(0), tree.width, tree.div) if isinstance(tree, Dyn) else tree

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

    def pack_all(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        return [c for v in old for c in self.pack(v)]

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
            bits = self.b.muli(self.b.leaf_value(count, 64), self.b.const(stored_bits(type_.data.elem), i64))
            nbytes = self.b.int_binary("shrui", self.b.addi(bits, self.b.const(7, i64)), self.b.const(3, i64))
            layout = linear_layout(view.layout)
            leaves = [*leaves_of(layout.shape), *leaves_of(layout.stride)]
            modes = [self.b.leaf_value(leaf, 64) for leaf in leaves] if all(map(is_number, leaves)) else []
            props: dict[str, Attribute] = {"argument": int_attr(i), "bits": int_attr(stored_bits(type_.data.elem))}
            self.b.opn(fly_cpu.ExtentOp, (view.iter.base, nbytes, *modes), (), props)


def _matching(known: IntTuple, obj: IntTuple) -> list[IntTuple]:
    """The leaves of `obj` that stand where `known` has run-time leaves."""
    if type(known) is tuple:
        pairs = zip(known, cast("tuple[IntTuple, ...]", obj), strict=True)
        return [leaf for k, o in pairs for leaf in _matching(k, o)]
    return [] if static_data(known) else [obj]


def _return(r: Boundaries, op: Operation) -> None:
    r.b.opn(type(op), r.pack_all(operands_of(op)), (), dict(op.properties))


Boundaries.handlers = cast(dict[type[Operation], Handler], {func.ReturnOp: _return, gpu.LaunchFuncOp: launch})
