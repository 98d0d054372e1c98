"""Between language values and IR: the only module of `expr`, with `tracer` and `scalar_types`, that needs xDSL.

`apply` runs a pure `fly` op on language values, in Python when the result is static. `wrap` gives the language value
for an IR value, `materialise` the IR value for a language value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import BoolAttr, DictionaryAttr, IntegerType, StringAttr, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from ... import layout as L
from ...dialects.fly import atoms
from ...dialects.fly.attrs import GemmTraversalOrderAttr, MmaOperandAttr
from ...dialects.fly.ops import OPS
from ...dialects.fly.semantics import SEMANTICS, View, apply_swizzle, object_of, type_of_object
from ...dialects.fly.types import (
    MemRefType,
    PointerType,
    memref_type,
    ptr_type,
    static_data,
    type_of,
)
from ...errors import DSLTypeError, DSLValueError
from ...ir.builder import i32_list, int_attr
from ...ir.enums import AddressSpace, GemmTraversalOrder, MmaOperand
from ...ir.types import i1, i32, i64, vector_type
from ...layout import Dyn
from ..numeric import Boolean, Int32, Int64, Integer, Numeric, as_ir_value, as_numeric, dsl_class
from ..tensor import Pointer, Tensor
from ..tensors.algebra_values import WRAPPERS, AlgebraValue, IntTuple, Layout, Swizzle, as_int_tuple, leaf_class
from ..tensors.limits import check_lanes, check_registers
from ..tensors.tiled import AtomT, CopyAtom, MmaAtom, TiledCopy, TiledMma
from ..vector import Shape, Vector
from .trace import current

_ATOMS: dict[type, type[CopyAtom | MmaAtom | TiledCopy | TiledMma]] = {
    atoms.CopyAtomType: CopyAtom,
    atoms.MmaAtomType: MmaAtom,
    atoms.TiledCopyType: TiledCopy,
    atoms.TiledMmaType: TiledMma,
}
_INT_TYPES = (IntegerType,)
_TRUE = BoolAttr.from_bool(True)


def object_for(x: object) -> Any:
    """The algebra object that describes a language value."""
    if isinstance(x, (AlgebraValue, Tensor)):
        return x.data
    if isinstance(x, (CopyAtom, MmaAtom, TiledCopy, TiledMma, Pointer)):
        return x.type
    raise DSLTypeError(f"expected a layout, tuple or tensor, got {x!r}")


def is_static_object(obj: Any) -> bool:
    """Whether an algebra object has no run-time part."""
    kind: type = type(obj)  # pyright: ignore[reportUnknownVariableType]
    if kind is View:
        return type(obj.iter) is not PointerType and static_data(obj.iter) and static_data(obj.layout)
    if kind is PointerType:
        return False
    return obj.is_static_type() if kind in _ATOMS else static_data(obj)


def wrap_data(obj: Any, value: SSAValue | None = None, dtype: type[Numeric] | None = None) -> Any:
    """Language value of an algebra object."""
    kind: type = type(obj)  # pyright: ignore[reportUnknownVariableType]
    if kind is View:
        return Tensor(obj, value, dtype)
    if kind is PointerType:
        assert value is not None
        return Pointer(value, dtype)
    made = WRAPPERS.get(kind)
    if made is not None:
        return made(obj, value)
    made = _ATOMS.get(kind)
    if made is not None:
        return made(obj, value)
    return IntTuple(obj, value)


def wrap(value: SSAValue, exemplar: object = None) -> Any:
    """Language value of an IR value; `exemplar` tells what the type alone does not (signedness, vector shape)."""
    return wrap_data(object_of(value.type), value, getattr(exemplar, "declared_dtype", None))


def type_of_value(x: object) -> Attribute:
    """IR type of a language value; a static one needs no operation for it."""
    value = getattr(x, "_value", None)
    return type_of_object(object_for(x)) if value is None else value.type


def materialise(x: object) -> SSAValue:
    """IR value of a language value."""
    value: SSAValue | None = getattr(x, "_value", None)
    if value is not None:
        # A tiled operation has the value of the atom it was made of, whose state is its own.
        return _tiled(x, value) if isinstance(x, (TiledCopy, TiledMma)) and value.type != x.type else value
    tracer = current()
    if isinstance(x, (CopyAtom, MmaAtom, TiledCopy, TiledMma)):
        return _materialise_atom(x)
    obj = object_for(x)
    return tracer.pure(OPS["static"], (), type_of_object(obj), {})


def _materialise_atom(x: CopyAtom | MmaAtom | TiledCopy | TiledMma) -> SSAValue:
    tracer, type_ = current(), x.type
    if isinstance(type_, atoms.CopyAtomType):
        return tracer.pure(OPS["make_copy_atom"], (), type_, {"valBits": int_attr(type_.val_bits)})
    if isinstance(type_, atoms.MmaAtomType):
        return tracer.pure(OPS["make_mma_atom"], (), type_, {})
    return _tiled(cast("TiledCopy | TiledMma", x), _materialise_atom(wrap_data(type_.data.atom)))


def _tiled(x: TiledCopy | TiledMma, atom: SSAValue) -> SSAValue:
    """A tiled operation of an atom."""
    tracer, type_, data = current(), x.type, x.type.data
    parts = [tracer.pure(OPS["static"], (), type_of(p), {}) for p in (data.layout, data.tile)]
    if isinstance(type_, atoms.TiledMmaType) and data.tile == atoms.NO_PERMUTATION:
        parts.pop()
    name = "make_tiled_copy" if isinstance(type_, atoms.TiledCopyType) else "make_tiled_mma"
    return tracer.pure(OPS[name], (atom, *parts), type_, {})


def attribute_of(name: str, value: object) -> Attribute:
    """A property value as an attribute."""
    if isinstance(value, MmaOperand):
        return MmaOperandAttr(value)
    if isinstance(value, (tuple, list)):
        return i32_list(cast(Sequence[int], value))
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, int):
        return int_attr(value)
    return cast(Attribute, value)


def apply(name: str, args: Sequence[object], props: dict[str, object]) -> Any:
    """Run a pure `fly` op on language values."""
    result = SEMANTICS[name](*[object_for(a) for a in args], **props)
    if is_static_object(result):
        return wrap_data(result)
    tracer = current()
    value = tracer.pure(
        OPS[name],
        [materialise(a) for a in args],
        type_of_object(result),
        {k: attribute_of(k, v) for k, v in props.items()},
    )
    dtype = getattr(args[0], "declared_dtype", None)
    if dtype is None and len(args) > 1:
        dtype = getattr(args[1], "declared_dtype", None)
    return wrap_data(result, value, dtype)


def make_int_tuple(op: str, data: L.IntTuple, values: Sequence[SSAValue]) -> SSAValue:
    """A tuple with run-time leaves."""
    return current().pure(OPS[op], values, type_of(data), {})


def leaf_of(x: Numeric) -> tuple[Dyn, SSAValue]:
    """A run-time scalar as a leaf: i32 or i64, narrower ones extended."""
    if not isinstance(x, Integer):
        raise DSLTypeError(
            f"indices and extents are integers, got a {type(x).__name__}; divide with //, or write fx.Int32(x)"
        )
    wide = x.width > 32
    if x.width != (64 if wide else 32) or not isinstance(x.ir_value().type, _INT_TYPES):
        x = cast(Numeric, (Int64 if wide else Int32)(x))
    return Dyn.get(64 if wide else 32, 1), x.ir_value()


def dynamic_leaves(t: IntTuple) -> list[Integer]:
    """The run-time leaves as scalars, depth first."""
    leaves = list(L.dynamic_leaves(t.data))
    types = [i64 if leaf.width == 64 else i32 for leaf in leaves]
    value = materialise(t)
    owner = value.owner
    tracer = current()
    if getattr(owner, "name", "") in ("fly.make_int_tuple", "fly.make_shape", "fly.make_stride", "fly.make_coord"):
        results: Iterable[SSAValue] = cast(Operation, owner).operands
    elif len(leaves) == 1 and type(L.unwrap(t.data)) is not tuple:
        results = (tracer.pure(OPS["get_scalar"], (value,), types[0], {}),)
    else:
        results = tracer.opn(OPS["get_leaves"], (value,), types, {"dynamicOnly": _TRUE}).results
    return [leaf_class(leaf)(v) for leaf, v in zip(leaves, results, strict=True)]


def compare(name: str, a: IntTuple, b: IntTuple) -> Boolean:
    """`elem_less` or `equal`."""
    known = (L.elem_less if name == "elem_less" else L.equal)(a.data, b.data)
    if type(known) in (int, bool):
        return Boolean(bool(known))
    return Boolean(current().pure(OPS[name], (materialise(a), materialise(b)), i1, {}))


def static(type_: object) -> Any:
    """The value a static type describes."""
    if not isinstance(type_, Attribute):
        raise DSLTypeError(f"static expects an IR type such as SwizzleType.get(3, 3, 3), got {type_!r}")
    obj = object_of(type_)
    if not is_static_object(obj):
        raise DSLValueError(f"{type_} is not fully static")
    return wrap_data(obj)


# --- memory -------------------------------------------------------------------------------------------------------


def load_element(t: Tensor, coord: IntTuple) -> Numeric | IntTuple:
    """Element at a coordinate; a coordinate tensor gives the coordinate."""
    view = t.data
    index = L.crd2idx(coord.data, view.layout)
    if isinstance(view.iter, PointerType):
        value = current().op1(OPS["memref.load"], (materialise(t), materialise(coord)), view.iter.data.elem, {})
        return t.dtype(value)
    result = L.int_tuple_add(view.iter, index)
    if static_data(result):
        return IntTuple(result)
    type_ = type_of(result)
    return IntTuple(result, current().op1(OPS["memref.load"], (materialise(t), materialise(coord)), type_, {}))


def store_element(t: Tensor, coord: IntTuple, value: SSAValue) -> None:
    """Store one element."""
    L.crd2idx(coord.data, t.data.layout)
    current().opn(OPS["memref.store"], (value, materialise(t), materialise(coord)), ())


def load_vector(t: Tensor) -> Vector:
    """All elements in colex order."""
    view = t.data
    if not isinstance(view.iter, PointerType):
        return load_coordinates(t)
    count = L.size(view.layout)
    if type(count) is not int or type(view.layout) is not L.Layout:
        raise DSLValueError(f"load needs a static shape and a plain layout, got {L.format_any(view.layout)}")
    check_lanes(count)
    type_ = vector_type(view.iter.data.elem, count)
    value = current().op1(OPS["memref.load_vec"], (materialise(t),), type_, {})
    shape = cast("int | Shape", view.layout.shape)
    return Vector(value, shape if isinstance(shape, tuple) else (shape,), t.dtype)


def load_coordinates(t: Tensor) -> Vector:
    """All coordinates of a coordinate tensor whose coordinates are plain integers, in colex order."""
    view = t.data
    count = L.size(view.layout)
    shape = getattr(view.layout, "shape", None)
    if type(count) is not int or shape is None:
        raise DSLValueError(f"load needs a static shape and a plain layout, got {L.format_any(view.layout)}")
    found = [as_int_tuple(cast("object", t[i])).unpack() for i in range(count)]
    if any(isinstance(x, tuple) for x in found):
        raise DSLTypeError(
            f"only coordinates that are single integers can be loaded as a vector, these are tuples: "
            f"{L.format_any(view.layout)}; index the tensor instead"
        )
    numbers = [as_numeric(x) for x in found]
    wide = any(x.dtype.width > 32 for x in numbers)
    made = Vector.from_elements(numbers, Int64 if wide else Int32)
    return made.reshape(cast("Shape", shape if isinstance(shape, tuple) else (shape,)))


def store_vector(t: Tensor, value: SSAValue) -> None:
    """Store all elements in colex order."""
    count = L.size(t.data.layout)
    if type(count) is not int or type(t.data.layout) is not L.Layout:
        raise DSLValueError(f"store needs a static shape and a plain layout, got {L.format_any(t.data.layout)}")
    type_ = value.type
    if not isinstance(type_, VectorType) or type_.get_shape()[0] != count:
        raise DSLValueError(f"the tensor holds {count} elements, the value is {type_}")
    current().opn(OPS["memref.store_vec"], (value, materialise(t)), ())


def register_tensor(layout: Layout, dtype: type[Numeric]) -> Tensor:
    """Uninitialised register tensor."""
    check_registers(layout.data, dtype)
    type_ = memref_type(dtype.ir_type, AddressSpace.Register, layout.data)
    value = current().op1(OPS["memref.alloca"], (materialise(layout),), type_, {})
    return Tensor(object_of(type_), value, dtype)


def fragment_like(x: object, dtype: type[Numeric] | None) -> Tensor:
    """Register tensor shaped like `x`."""
    from ...dialects.fly.ops import MakeFragmentLikeOp

    props: dict[str, Attribute] = {} if dtype is None else {"dtype": dtype.ir_type}
    infer = MakeFragmentLikeOp.INFER
    assert infer is not None
    source = materialise(x)
    (type_,) = infer([source.type], props)
    made = cast(MemRefType, type_).data
    check_registers(cast(L.Layout, made.layout), Numeric.from_ir_type(made.elem))
    value = current().op1(MakeFragmentLikeOp, (source,), type_, props)
    return Tensor(object_of(type_), value, dtype or getattr(x, "declared_dtype", None))


def mma_fragment(operand: MmaOperand, tm: TiledMma, t: Tensor, stages: int | None) -> Tensor:
    """Register tensor for one thread's part of an operand."""
    from ...dialects.fly.ops import MmaMakeFragmentOp

    props: dict[str, Attribute] = {"operand_id": MmaOperandAttr(operand)}
    if stages is not None:
        props["stages"] = int_attr(stages)
    infer = MmaMakeFragmentOp.INFER
    assert infer is not None
    source, mma = materialise(t), materialise(tm)
    (type_,) = infer([mma.type, source.type], props)
    return Tensor(object_of(type_), current().op1(MmaMakeFragmentOp, (mma, source), type_, props))


def load_pointer(p: Pointer, type_: Attribute | None = None) -> SSAValue:
    """Read one value."""
    return current().op1(OPS["ptr.load"], (p.value,), type_ or p.type.data.elem, {})


def store_pointer(p: Pointer, value: SSAValue) -> None:
    """Write one value."""
    current().opn(OPS["ptr.store"], (value, p.value), ())


def recast_pointer(p: Pointer, dtype: object) -> Pointer:
    """The same address with another element type."""
    data = p.type.data
    if isinstance(dtype, PointerType):
        type_, cls = dtype, None
    else:
        cls = dsl_class(dtype)
        type_ = ptr_type(cls.ir_type, data.space, max(data.align, (cls.width + 7) // 8), data.swizzle)
    return Pointer(current().pure(OPS["recast_iter"], (p.value,), type_, {}), cls)


def dynamic_shared(dtype: type[Numeric] | None) -> Pointer:
    """Base of the dynamic shared buffer."""
    from ...dialects.fly.infer import DYN_SHARED

    base = Pointer(current().pure(OPS["get_dyn_shared"], (), DYN_SHARED, {}))
    return base if dtype is None else recast_pointer(base, dtype)


def shared_pointer(nbytes: int, align: int) -> Pointer:
    """A static shared allocation of this many bytes."""
    from xdsl.dialects.builtin import i8

    attrs = DictionaryAttr({"allocBytes": int_attr(nbytes, i64), "allocAlign": int_attr(align, i64)})
    type_ = ptr_type(i8, AddressSpace.Shared, align)
    return Pointer(current().op1(OPS["make_ptr"], (), type_, {"dictAttrs": attrs}))


def _pointer_type(type_: object) -> PointerType:
    if not isinstance(type_, PointerType):
        raise DSLTypeError(f"expected an IR pointer type, as fx.PointerType.get(...) gives it, got {type_!r}")
    return type_


def make_pointer(type_: Attribute, args: Sequence[object], attrs: Mapping[str, int | Attribute] | None) -> Pointer:
    """`fly.make_ptr` with any operands and attributes."""
    given = attrs or {}
    table = {k: int_attr(v, i64) if isinstance(v, int) else v for k, v in given.items()}
    props: dict[str, Attribute] = {"dictAttrs": DictionaryAttr(table)} if table else {}
    return Pointer(current().op1(OPS["make_ptr"], [as_ir_value(a) for a in args], _pointer_type(type_), props))


def int_to_pointer(type_: Attribute, address: Numeric) -> Pointer:
    """`fly.inttoptr`."""
    wide = _pointer_type(type_).data.space is not AddressSpace.Shared
    value = (Int64 if wide else Int32)(address).ir_value()
    return Pointer(current().pure(OPS["inttoptr"], (value,), type_, {}))


def pointer_to_int(p: Pointer) -> SSAValue:
    """`fly.ptrtoint`."""
    return current().pure(OPS["ptrtoint"], (p.value,), i32 if p.address_space is AddressSpace.Shared else i64, {})


LLVM_SPACES: dict[object, int] = {
    AddressSpace.Generic: 0,
    AddressSpace.Global: 1,
    AddressSpace.Shared: 3,
    AddressSpace.Register: 5,
}


def raw_pointer(p: Pointer, space: int | None) -> SSAValue:
    """`fly.to_llvm_ptr`, in the space that the hardware has for the memory, also where the hardware is emulated."""
    from ...dialects.upstream import llvm

    if space is None:
        target = next((f.target for f in current().functions if hasattr(f, "target")), None)
        flat = target is not None and target.has("nvidia") and p.address_space is AddressSpace.Register
        space = 0 if flat else LLVM_SPACES.get(p.address_space, 0)
    props: dict[str, Attribute] = {"llvm_address_space": int_attr(space)}
    return current().pure(OPS["to_llvm_ptr"], (p.value,), llvm.ptr(space), props)


def swizzled_pointer(p: Pointer, swizzle: Swizzle) -> Pointer:
    """`fly.apply_swizzle`."""
    type_ = apply_swizzle(p.type, swizzle.data)
    value = current().pure(OPS["apply_swizzle"], (p.value, materialise(swizzle)), type_, {})
    return Pointer(value, p.declared_dtype)


def alloca(type_: Attribute, layout: Layout) -> Tensor:
    """`fly.memref.alloca`."""
    if not isinstance(type_, MemRefType):
        raise DSLTypeError(f"expected an IR memref type, as fx.MemRefType.get(...) gives it, got {type_!r}")
    return Tensor(object_of(type_), current().op1(OPS["memref.alloca"], (materialise(layout),), type_, {}))


def emit_print(text: str, values: Sequence[SSAValue]) -> None:
    """`fly.print`."""
    current().opn(OPS["print"], values, (), {"format": StringAttr(text)})


# --- data movement ------------------------------------------------------------------------------------------------


def check_atom(atom: Any) -> None:
    """Refuse an atom that the target of the trace lacks, at the line that uses it."""
    op = atoms.atom_of(atom.type).op
    if hasattr(op, "check_arch"):
        from ..rocdl.target import check_available

        check_available(op)


def emit_copy(name: str, atom: object, src: Tensor, dst: Tensor, pred: Tensor | None) -> None:
    """`fly.copy` or `fly.copy_atom_call`."""
    check_atom(atom)
    operands = [materialise(atom), materialise(src), materialise(dst)]
    if pred is not None:
        operands.append(materialise(pred))
    current().opn(OPS[name], operands, ())


def set_state(atom: AtomT, field: str, value: SSAValue) -> AtomT:
    """`fly.atom.set_value`: the atom with one state field set."""
    made = current().pure(OPS["atom.set_value"], (materialise(atom), value), atom.type, {"field": StringAttr(field)})
    return atom.with_value(made)


def emit_mma(
    name: str,
    atom: object,
    groups: Sequence[Sequence[Tensor]],
    order: GemmTraversalOrder | None = None,
    layout: Layout | None = None,
) -> None:
    """`fly.gemm` or `fly.mma_atom_call` of the tensors of D, A, B and C."""
    check_atom(atom)
    operands = [materialise(atom), *(materialise(t) for group in groups for t in group)]
    props: dict[str, Attribute] = {}
    if len(operands) > 5:
        sizes = [1, *map(len, groups), *([int(layout is not None)] if name == "gemm" else [])]
        props["operandSegmentSizes"] = i32_list(sizes)
    if order is not None:
        props["traversalOrder"] = GemmTraversalOrderAttr(order)
    if layout is not None:
        operands.append(materialise(layout))
    current().opn(OPS[name], operands, (), props)
