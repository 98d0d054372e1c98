"""`fly-rewrite-func-signature`: no layout type crosses a function, launch or structured-control-flow boundary.

Static values vanish from signatures; dynamic ones travel as packed structs of their run-time leaves, a memref as its
pointer plus the struct of its layout. Inside, each value that is still used is rebuilt from its carriers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from xdsl.dialects import cf, func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects import fly_cpu
from ...dialects.fly.infer import leaf_type
from ...dialects.fly.ops import OPS
from ...dialects.fly.types import (
    ComposedLayoutType,
    CoordTensorType,
    IntTupleType,
    LayoutType,
    MemRefType,
    is_static,
    layout_type,
    ptr_type,
    static_data,
    type_of,
)
from ...dialects.fly_rocdl.buffer import is_buffer
from ...dialects.upstream import gpu, llvm, scf
from ...errors import LayoutError
from ...ir.builder import Builder, i32_list, i64, i64_list, int_attr, operands_of
from ...ir.emitter import append
from ...ir.identity import by_identity
from ...ir.types import stored_bits
from ...layout import ComposedLayout, Dyn, Layout, dynamic_leaves
from ...lowering.rebuild import Handler, Rebuilder
from ..base import Form, Part, Pass
from .device_module import CHECK_ATTRIBUTE

if TYPE_CHECKING:
    from ...layout import IntTuple

_DSL = (IntTupleType, LayoutType, ComposedLayoutType, CoordTensorType, MemRefType)


def struct_of(data: Any) -> Attribute | None:
    """Packed struct of the run-time leaves of an algebra object, or None if it has none."""
    if static_data(data):
        return None
    if type(data) is Layout:
        parts = [struct_of(data.shape), struct_of(data.stride)]
    elif type(data) is ComposedLayout:
        parts = [struct_of(data.outer), struct_of(data.offset), struct_of(data.inner)]
    else:
        parts = [leaf_type(leaf) for leaf in dynamic_leaves(data)]
    return llvm.packed_struct([p for p in parts if p is not None])


@by_identity
def carriers_of(type_: Attribute) -> tuple[Attribute, ...] | None:
    """The types that stand for a value at a boundary; None when it passes unchanged."""
    if isinstance(type_, MemRefType):
        d = type_.data
        pointer = ptr_type(d.elem, d.space, d.align, d.swizzle)
        layout = struct_of(d.layout)
        return (pointer,) if layout is None else (pointer, layout)
    if is_static(type_):
        return ()
    if isinstance(type_, CoordTensorType):
        parts = [p for p in (struct_of(type_.data[0]), struct_of(type_.data[1])) if p is not None]
        return (llvm.packed_struct(parts),)
    if isinstance(type_, _DSL):
        struct = struct_of(type_.data)
        assert struct is not None
        return (struct,)
    return None


class Boundaries(Protocol):
    """A rebuilder whose values may be several at a boundary."""

    b: Builder

    def vals(self, old: Sequence[SSAValue]) -> list[SSAValue]: ...
    def pack_all(self, old: Sequence[SSAValue]) -> list[SSAValue]: ...
    def bind(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None: ...


class _Signatures(Rebuilder):
    def __init__(self) -> None:
        super().__init__()
        self.packed: dict[SSAValue, tuple[SSAValue, ...]] = {}
        """Carriers an old value came in, so that passing it on costs nothing."""
        self._checked: Block | None = None
        """Entry block of a kernel whose arguments' bounds are wanted."""

    # --- unpacking ------------------------------------------------------------------------------------------------

    def argument_types(self, block: Block) -> list[Attribute]:
        return [t for a in block.args for t in boundary_types(a.type)]

    def declared_types(self, types: Sequence[Attribute]) -> list[Attribute]:
        return [t for type_ in types for t in boundary_types(type_)]

    def result_types(self, types: Sequence[Attribute]) -> list[Attribute]:
        return self.declared_types(types)

    def function(self, op: Any, cls: type[Operation]) -> None:
        around = op.parent_op()
        if cls is gpu.FuncOp and around is not None and CHECK_ATTRIBUTE in around.attributes:
            self._checked = op.body.blocks.first
        super().function(op, cls)
        new = self.b.block.last_op
        assert new is not None
        for name, types in (("arg_attrs", op.function_type.inputs.data), ("res_attrs", op.function_type.outputs.data)):
            given = op.properties.get(name)
            if given is not None:
                new.properties[name] = ArrayAttr(_carried(given.data, types))

    def copy(self, op: Operation) -> None:
        if not op.successors:
            super().copy(op)
            return
        groups = [self.pack(v) for v in operands_of(op)]
        props = dict(op.properties)
        if isinstance(op, cf.ConditionalBranchOp):
            taken = len(op.then_arguments)
            sizes = [1, *(sum(map(len, g)) for g in (groups[1 : 1 + taken], groups[1 + taken :]))]
            props["operandSegmentSizes"] = i32_list(sizes)
        new = type(op).create(
            operands=[v for g in groups for v in g],
            properties=props,
            attributes=dict(op.attributes),
            successors=[self.blocks[s] for s in op.successors],
            location=self.b.loc,
        )
        append(self.b.block, new)

    def enter(self, old: Block, new: Block) -> None:
        self.bind(old.args, new.args)
        if old is self._checked:
            self._note_extents(old.args)
        at = 0
        for a in old.args:
            count = len(boundary_types(a.type))
            if a.name_hint is not None and count:
                new.args[at].name_hint = a.name_hint
            at += count

    def bind(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
        """Rebuild each old value from its carriers."""
        fresh = iter(new)
        for value in old:
            types = carriers_of(value.type)
            if types is None:
                self.vm[value] = next(fresh)
                continue
            parts = tuple(next(fresh) for _ in types)
            self.packed[value] = parts
            if not _passed_on(value):
                self.vm[value] = self.unpack(value.type, parts)

    def _note_extents(self, arguments: Sequence[SSAValue]) -> None:
        """For the cpu stack's checked mode: how far the tensor of each argument reaches."""
        b, cosize = self.b, OPS["cosize"]
        for i, value in enumerate(arguments):
            type_ = value.type
            if not isinstance(type_, MemRefType) or value.first_use is None or is_buffer(type_.data.space):
                continue
            infer: Any = cosize.INFER
            try:
                (size,) = infer((type_,), {})
                (scalar,) = cast(Any, OPS["get_scalar"].INFER)((size,), {})
            except (LayoutError, TypeError):
                continue
            view = self.vm.get(value)
            if view is None:
                view = self.vm[value] = self.unpack(type_, self.packed[value])
            count = b.pure(OPS["get_scalar"], (b.pure(cosize, (view,), size, {}),), scalar, {})
            bits = b.muli(b.cast("extsi", count, i64), b.const(stored_bits(type_.data.elem), i64))
            nbytes = b.int_binary("shrui", b.addi(bits, b.const(7, i64)), b.const(3, i64))
            space: dict[str, Attribute] = {"llvm_address_space": int_attr(0)}
            pointer = b.pure(OPS["to_llvm_ptr"], (self.packed[value][0],), llvm.ptr(0), space)
            props: dict[str, Attribute] = {"argument": int_attr(i), "bits": int_attr(stored_bits(type_.data.elem))}
            b.opn(fly_cpu.ExtentOp, (pointer, nbytes, *self._modes(type_, view)), (), props)

    def _modes(self, type_: MemRefType, view: SSAValue) -> list[SSAValue]:
        """Extents and strides of a tensor, as i64; none where a stride is no number."""
        b = self.b
        data: Any = type_.data.layout
        layout = b.pure(OPS["get_layout"], (view,), type_of(data), {})
        while type(data) is ComposedLayout:
            data = data.outer
            layout = b.pure(OPS["composed_get_outer"], (layout,), type_of(data), {})
        found: list[SSAValue] = []
        for name, tree in (("get_shape", data.shape), ("get_stride", data.stride)):
            leaves = leaves_of(tree)
            if not all(map(is_number, leaves)):
                return []
            part = b.pure(OPS[name], (layout,), type_of(tree), {})
            scalars = iter(self.leaves(tree, part) if not static_data(tree) else ())
            for leaf in leaves:
                value = b.const(leaf, i64) if type(leaf) is int else next(scalars)
                found.append(value if value.type == i64 else b.cast("extsi", value, i64))
        return found

    def unpack(self, type_: Attribute, parts: tuple[SSAValue, ...]) -> SSAValue:
        """The value of a DSL type from its carriers."""
        b = self.b
        if isinstance(type_, MemRefType):
            pointer, *dynamic = parts
            made = self.from_struct(type_.data.layout, dynamic[0] if dynamic else None)
            return b.pure(OPS["make_view"], (pointer, made), type_, {})
        if not parts:
            return b.pure(OPS["static"], (), type_, {})
        if isinstance(type_, CoordTensorType):
            fields = _fields(b, parts[0])
            base, layout = (self.from_struct(d, None if static_data(d) else next(fields)) for d in type_.data)
            return b.pure(OPS["make_view"], (base, layout), type_, {})
        return self.from_struct(cast(Any, type_).data, parts[0])

    def from_struct(self, data: object, struct: SSAValue | None) -> SSAValue:
        """An algebra value from the struct of its leaves."""
        b = self.b
        if struct is None:
            return b.pure(OPS["static"], (), type_of(data), {})
        fields = _fields(b, struct)
        if type(data) is Layout:
            parts = [self.from_struct(d, None if static_data(d) else next(fields)) for d in (data.shape, data.stride)]
            return b.pure(OPS["make_layout"], parts, layout_type(data), {})
        if type(data) is ComposedLayout:
            outer, offset, inner = (
                self.from_struct(d, None if static_data(d) else next(fields))
                for d in (data.outer, data.offset, data.inner)
            )
            return b.pure(OPS["make_composed_layout"], (inner, offset, outer), layout_type(data), {})
        return b.pure(OPS["make_int_tuple"], list(fields), type_of(data), {})

    # --- packing --------------------------------------------------------------------------------------------------

    def pack(self, old: SSAValue) -> tuple[SSAValue, ...]:
        """Carriers of an old value, or the value itself."""
        types = carriers_of(old.type)
        if types is None:
            return (self.val(old),)
        if not types:
            return ()
        known = self.packed.get(old)
        if known is not None:
            return known
        value, b = self.val(old), self.b
        if isinstance(old.type, MemRefType):
            pointer = b.pure(OPS["get_iter"], (value,), types[0], {})
            if len(types) == 1:
                return (pointer,)
            layout = b.pure(OPS["get_layout"], (value,), type_of(old.type.data.layout), {})
            return pointer, self.to_struct(old.type.data.layout, layout, types[1])
        if isinstance(old.type, CoordTensorType):
            base, layout = old.type.data
            parts: list[SSAValue] = []
            if not static_data(base):
                got = b.pure(OPS["get_iter"], (value,), type_of(base), {})
                parts.append(self.to_struct(base, got, cast(Any, struct_of(base))))
            if not static_data(layout):
                got = b.pure(OPS["get_layout"], (value,), type_of(layout), {})
                parts.append(self.to_struct(layout, got, cast(Any, struct_of(layout))))
            return (_pack(b, types[0], parts),)
        return (self.to_struct(cast(Any, old.type).data, value, types[0]),)

    def to_struct(self, data: object, value: SSAValue, struct: Attribute) -> SSAValue:
        """The struct of the leaves of an algebra value."""
        b = self.b
        if type(data) is Layout:
            parts = [("get_shape", data.shape), ("get_stride", data.stride)]
        elif type(data) is ComposedLayout:
            parts = [
                ("composed_get_outer", data.outer),
                ("composed_get_offset", data.offset),
                ("composed_get_inner", data.inner),
            ]
        else:
            return _pack(b, struct, self.leaves(data, value))
        fields: list[SSAValue] = []
        for op, part in parts:
            if not static_data(part):
                got = b.pure(OPS[op], (value,), type_of(part), {})
                fields.append(self.to_struct(part, got, cast("Attribute", struct_of(part))))
        return _pack(b, struct, fields)

    def leaves(self, data: Any, value: SSAValue) -> list[SSAValue]:
        """The run-time leaves of a tuple as scalars, depth first."""
        b = self.b
        if type(data) is not tuple:
            return [b.pure(OPS["get_scalar"], (value,), leaf_type(data), {})]
        found: list[SSAValue] = []
        for i, part in enumerate(cast(tuple[Any, ...], data)):
            if not static_data(part):
                got = b.pure(OPS["get"], (value,), type_of(part), {"mode": i32_list((i,))})
                found += self.leaves(part, got)
        return found

    def pack_all(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        """Carriers of several values in order."""
        return [c for v in old for c in self.pack(v)]


_BOUNDARIES = (scf.YieldOp, scf.ConditionOp, func.ReturnOp, gpu.ReturnOp, func.CallOp, gpu.LaunchFuncOp)


def _passed_on(value: SSAValue) -> bool:
    """Whether nobody here needs the value itself: it is only handed to another boundary, as its carriers."""
    return all(
        isinstance(use.operation, (*_BOUNDARIES, scf.ForOp, scf.WhileOp)) or use.operation.successors
        for use in value.uses
    )


def _fields(b: Builder, struct: SSAValue) -> Iterator[SSAValue]:
    """Fields of a struct, read one by one."""
    for i, type_ in enumerate(cast(llvm.StructType, struct.type).fields):
        yield b.pure(llvm.ExtractValueOp, (struct,), type_, {"position": _position(i)})


def _position(i: int) -> Attribute:
    return i64_list((i,))


def _pack(b: Builder, struct: Attribute, fields: Sequence[SSAValue]) -> SSAValue:
    value = b.pure(llvm.UndefOp, (), struct, {})
    for i, field in enumerate(fields):
        value = b.pure(llvm.InsertValueOp, (value, field), struct, {"position": _position(i)})
    return value


def _carried(attrs: Sequence[object], types: Sequence[Attribute]) -> list[Any]:
    """Argument or result attributes for the carriers: those of a value stay with its first one."""
    found: list[object] = []
    for attr, type_ in zip(attrs, types, strict=True):
        count = len(boundary_types(type_))
        found += [attr, *[DictionaryAttr({})] * (count - 1)][:count]
    return found


def _call(r: _Signatures, op: func.CallOp) -> None:
    types = [t for x in op.results for t in boundary_types(x.type)]
    new = r.b.opn(func.CallOp, r.pack_all(operands_of(op)), types, dict(op.properties))
    new.attributes = dict(op.attributes)
    r.bind(op.results, new.results)


def _terminator(r: _Signatures, op: Operation) -> None:
    r.b.opn(type(op), r.pack_all(operands_of(op)), (), dict(op.properties))


def launch(r: Boundaries, op: gpu.LaunchFuncOp) -> None:
    """A launch whose arguments go apart into their carriers."""
    parts, operands = op.parts, operands_of(op)
    args = r.pack_all(parts.arguments)
    fixed = r.vals(operands[: len(operands) - len(parts.arguments)])
    props = dict(op.properties)
    props["operandSegmentSizes"] = gpu.LaunchFuncOp.segments(
        len(parts.dependencies), bool(parts.cluster), parts.shared is not None, len(args)
    )
    new = r.b.opn(gpu.LaunchFuncOp, [*fixed, *args], [x.type for x in op.results], props)
    new.attributes = dict(op.attributes)
    r.bind(op.results, new.results)


def _structured(r: _Signatures, op: Operation) -> None:
    """Loops and ifs whose carried values may be DSL values."""
    fixed = {scf.ForOp: 3, scf.IfOp: 1, scf.WhileOp: 0}[cast(Any, type(op))]
    operands = operands_of(op)
    values = [*r.vals(operands[:fixed]), *r.pack_all(operands[fixed:])]
    regions = [r.region(region) for region in op.regions]
    types = [t for x in op.results for t in boundary_types(x.type)]
    new = r.b.with_regions(type(op), values, types, regions, dict(op.properties), dict(op.attributes))
    r.bind(op.results, new.results)


def leaves_of(tree: IntTuple) -> list[object]:
    """The leaves of nested tuples in order."""
    if type(tree) is not tuple:
        return [tree]
    return [x for part in cast("tuple[Any, ...]", tree) for x in leaves_of(part)]


def is_number(leaf: object) -> bool:
    """Whether a leaf is an integer, known or not."""
    return type(leaf) is int or isinstance(leaf, Dyn)


def boundary_types(type_: Attribute) -> tuple[Attribute, ...]:
    """The types a value has at a boundary."""
    types = carriers_of(type_)
    return (type_,) if types is None else types


def _condition(r: _Signatures, op: scf.ConditionOp) -> None:
    cond, *rest = operands_of(op)
    r.b.opn(scf.ConditionOp, [r.val(cond), *r.pack_all(rest)], ())


_Signatures.handlers = cast(
    dict[type[Operation], Handler],
    {
        scf.ForOp: _structured,
        scf.IfOp: _structured,
        scf.WhileOp: _structured,
        scf.YieldOp: _terminator,
        scf.ConditionOp: _condition,
        func.ReturnOp: _terminator,
        gpu.ReturnOp: _terminator,
        func.CallOp: _call,
        gpu.LaunchFuncOp: launch,
    },
)


@dataclass(frozen=True)
class FlyRewriteFuncSignaturePass(Pass):
    """Remove layout types from function, launch and loop boundaries."""

    name = "fly-rewrite-func-signature"
    part = Part({Form.TRACED: Form.CARRIED}, "fly.walk.boundaries:Boundaries", opens=True)

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Signatures.rebuild(module)
