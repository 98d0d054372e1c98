"""The operations of the `fly` dialect.

Most are pure layout algebra: one line in `ALGEBRA`, with their meaning in `semantics.py`. All share one text form,
`fly.name(%a, %b) {props} : (A, B) -> R`, and one class shape (variadic operands and results), so parsing, printing,
inference and verification exist once in `FlyOp`. Ops with another text form say so in `FORMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    VectorType,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ... import layout as L
from ...errors import LayoutError
from ...layout import Dyn
from ..enums import AddressSpace, MmaOperand
from . import atoms, types
from .semantics import SEMANTICS, View, fragment_like, mma_fragment, object_of, type_of_object
from .types import (
    CoordTensorType,
    MemRefType,
    PointerType,
    linear_layout,
    ptr_type,
)

_OPERANDS = [m.name.lower() for m in MmaOperand]


def python_value(attr: Attribute) -> Any:
    """A property as the plain Python value the semantics take."""
    if isinstance(attr, IntegerAttr):
        if attr.type == i1:  # pyright: ignore[reportUnknownMemberType]
            return bool(attr.value.data)
        return attr.value.data
    if isinstance(attr, DenseArrayBase):
        return tuple(attr.get_values())
    if isinstance(attr, StringAttr):
        return attr.data
    if isinstance(attr, MmaOperandAttr):
        return attr.data
    return attr


class FlyOp(IRDLOperation):
    """Base of all `fly` ops: the common text form, inference and verification."""

    args = var_operand_def()
    outs = var_result_def()

    INFER: ClassVar[Callable[[Sequence[Attribute], dict[str, Attribute]], tuple[Attribute, ...]] | None] = None
    """Result types from operand types and properties; None when types are given explicitly."""

    ARITY: ClassVar[tuple[int, int]] = (0, 1 << 30)
    """Fewest and most operands."""

    @classmethod
    def parse(cls, parser: Parser) -> FlyOp:
        form = FORMS.get(cls.name)
        if form is not None:
            return form[0](cls, parser)
        pos = parser.pos
        unresolved = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        fn = parser.parse_function_type()
        operands = parser.resolve_operands(unresolved, fn.inputs.data, pos)
        return cls.build_from(operands, fn.outputs.data, attrs)

    @classmethod
    def build_from(
        cls, operands: Sequence[SSAValue], results: Sequence[Attribute], attrs: dict[str, Attribute]
    ) -> FlyOp:
        """Create with a mixed attribute dictionary: what the op defines becomes a property."""
        known = cls.get_irdl_definition().properties
        props = {k: v for k, v in attrs.items() if k in known}
        rest = {k: v for k, v in attrs.items() if k not in known}
        return cast(FlyOp, cls.create(operands=operands, result_types=results, properties=props, attributes=rest))

    def print(self, printer: Printer) -> None:
        form = FORMS.get(self.name)
        if form is not None:
            form[1](self, printer)
            return
        printer.print_string("(")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(")")
        printer.print_op_attributes({**self.properties, **self.attributes})
        printer.print_string(" : ")
        printer.print_operation_type(self)

    def verify_(self) -> None:
        low, high = self.ARITY
        if not low <= len(self.operands) <= high:
            raise VerifyException(f"expected {low} to {high} operands, got {len(self.operands)}")
        infer = type(self).INFER
        if infer is None:
            return
        try:
            wanted = infer([v.type for v in self.operands], self.properties)
        except (ValueError, TypeError) as error:
            raise VerifyException(f"{error}\n'{self.name}' op failed to infer returned types") from error
        got = tuple(r.type for r in self.results)
        if wanted != got:
            raise VerifyException(
                f"'{self.name}' op inferred type(s) {_quoted(wanted)} are incompatible with "
                f"return type(s) of operation {_quoted(got)}\n'{self.name}' op failed to infer returned types"
            )


def _quoted(types_: Sequence[Attribute]) -> str:
    return ", ".join(f"'{t}'" for t in types_)


def infer_algebra(name: str) -> Callable[[Sequence[Attribute], dict[str, Attribute]], tuple[Attribute, ...]]:
    """Inference by running the op's meaning on what the types say."""
    meaning = SEMANTICS[name]

    def infer(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
        objects = [object_of(t) for t in operand_types]
        result = meaning(*objects, **{k: python_value(v) for k, v in props.items()})
        return (type_of_object(result),)

    return infer


OPS: dict[str, type[FlyOp]] = {}
"""Op classes by name without the `fly.` prefix."""


def _define(
    name: str,
    doc: str,
    *,
    infer: Any = None,
    pure: bool = True,
    props: Sequence[str] = (),
    arity: tuple[int, int] = (0, 1 << 30),
    segments: bool = False,
) -> type[FlyOp]:
    class_name = "".join(part.capitalize() for part in name.replace(".", "_").split("_")) + "Op"
    body: dict[str, Any] = {
        "__doc__": doc,
        "__module__": __name__,
        "name": f"fly.{name}",
        "traits": traits_def(Pure()) if pure else traits_def(),
    }
    for prop in props:
        body[prop] = opt_prop_def(Attribute)
    if segments:
        body["irdl_options"] = (AttrSizedOperandSegments(as_property=True),)
    cls = irdl_op_definition(type(class_name, (FlyOp,), body))
    cls.ARITY = arity
    if infer is not None:
        cls.INFER = staticmethod(infer)
    OPS[name] = cls
    return cls


_PROPS: dict[str, tuple[str, ...]] = {
    "get": ("mode",),
    "take": ("begin", "end"),
    "select": ("indices",),
    "group": ("begin", "end"),
    "append": ("n",),
    "prepend": ("n",),
    "recast_layout": ("new_type_bits", "old_type_bits"),
    "tiled_mma.partition": ("operand_id",),
    "tiled_mma.partition_shape": ("operand_id",),
}

_ARITY: dict[str, tuple[int, int]] = {
    "make_layout": (2, 2),
    "make_composed_layout": (3, 3),
    "make_view": (2, 2),
    "coalesce": (1, 2),
    "complement": (1, 2),
}

for _name, _meaning in SEMANTICS.items():
    _define(
        _name,
        (_meaning.__doc__ or f"Layout algebra: `{_name}`."),
        infer=infer_algebra(_name),
        props=_PROPS.get(_name, ()),
        arity=_ARITY.get(_name, (1, 4)),
    )


# --- construction -----------------------------------------------------------------------------------------------

StaticOp = _define("static", "A value fully described by its type: `fly.static : !fly.layout<(4,8):(8,1)>`.")
MakeIntTupleOp = _define("make_int_tuple", "Tuple whose dynamic leaves are the operands, depth first.")
MakeShapeOp = _define("make_shape", "Synonym of make_int_tuple.")
MakeStrideOp = _define("make_stride", "Synonym of make_int_tuple.")
MakeCoordOp = _define("make_coord", "Synonym of make_int_tuple.")


def _infer_fragment(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    source = object_of(operand_types[0])
    shape = linear_layout(source.layout if type(source) is View else source).shape
    if not types.static_data(shape):
        layout = linear_layout(source.layout if type(source) is View else source)
        raise LayoutError(f"expected static shape layout, got #fly<layout{layout}>")
    return (type_of_object(fragment_like(source, props.get("dtype"))),)


MakeFragmentLikeOp = _define(
    "make_fragment_like",
    "Register tensor shaped like a tensor or layout.",
    infer=_infer_fragment,
    props=("dtype",),
    pure=False,
)


def _infer_mma_fragment(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    stages = props.get("stages")
    tm, x = (object_of(t) for t in operand_types)
    made = mma_fragment(tm, x, python_value(props["operand_id"]), None if stages is None else python_value(stages))
    return (type_of_object(made),)


MmaMakeFragmentOp = _define(
    "mma.make_fragment",
    "Register tensor for one thread's part of an operand.",
    infer=_infer_mma_fragment,
    props=("operand_id", "stages"),
    pure=False,
)


def _infer_tiled_copy(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    atom, layout, tile = operand_types
    if not isinstance(atom, atoms.CopyAtomType):
        raise TypeError(f"MakeTiledCopyOp: expected CopyAtomType for copyAtom, got {atom}")
    if not types.is_static(layout):
        raise TypeError("MakeTiledCopyOp: LayoutType is not static")
    return (atoms.tiled_copy_type(atom, object_of(layout), object_of(tile)),)


def _infer_tiled_mma(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    atom, layout, *tile = operand_types
    if not isinstance(atom, atoms.MmaAtomType):
        raise TypeError(f"MakeTiledMmaOp: expected MmaAtomType for mmaAtom, got {atom}")
    if not types.is_static(layout):
        raise TypeError("MakeTiledMmaOp: LayoutType is not static")
    return (atoms.tiled_mma_type(atom, object_of(layout), object_of(tile[0]) if tile else None),)


def _infer_same(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """The type of the first operand."""
    return (operand_types[0],)


MakeTiledCopyOp = _define("make_tiled_copy", "Copy atom over a tile.", infer=_infer_tiled_copy, arity=(3, 3))
MakeTiledMmaOp = _define("make_tiled_mma", "MMA atom over (M, N, K).", infer=_infer_tiled_mma, arity=(2, 3))
MakeCopyAtomOp = _define("make_copy_atom", "A copy atom.", props=("valBits",))
MakeMmaAtomOp = _define("make_mma_atom", "An MMA atom.")
AtomSetValueOp = _define(
    "atom.set_value",
    "The atom with one state field set.",
    infer=_infer_same,
    props=("field",),
)

# --- extraction -------------------------------------------------------------------------------------------------


def _infer_get_scalar(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    leaf = L.unwrap(object_of(operand_types[0]))
    if type(leaf) is tuple:
        raise TypeError(f"expected a scalar IntTuple, got {L.format_int_tuple(leaf)}")
    return (leaf_type(leaf),)


def leaf_type(leaf: Any) -> IntegerType:
    """IR type of one leaf as a scalar."""
    if isinstance(leaf, L.Basis):
        leaf = leaf.value
    return i64 if isinstance(leaf, Dyn) and leaf.width == 64 else i32


def _infer_get_leaves(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    only = props.get("dynamicOnly")
    leaves = L.flatten(object_of(operand_types[0]))
    leaves = leaves if type(leaves) is tuple else (leaves,)
    if only is not None and python_value(only):
        leaves = [x for x in leaves if not types.static_data(x)]
    return tuple(leaf_type(x) for x in leaves)


GetScalarOp = _define("get_scalar", "The scalar of a single-leaf tuple.", infer=_infer_get_scalar, arity=(1, 1))
GetLeavesOp = _define("get_leaves", "The leaves as scalars.", infer=_infer_get_leaves, props=("dynamicOnly",))
ElemLessOp = _define("elem_less", "All paired leaves less: i1.", arity=(2, 2))
EqualOp = _define("equal", "Same structure and leaves: i1.", arity=(2, 2))

# --- pointers and memory ----------------------------------------------------------------------------------------

DYN_SHARED = ptr_type(i8, AddressSpace.Shared, 1024)


def _infer_ptrtoint(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    (pointer,) = operand_types
    if not isinstance(pointer, PointerType):
        raise TypeError(f"PtrToIntOp: expected PointerType, got {pointer}")
    if pointer.data.space is AddressSpace.Shared:
        return (i32,)
    if pointer.data.space is AddressSpace.Global:
        return (i64,)
    raise TypeError("PtrToIntOp: expected Shared or Global address space")


def _infer_apply_swizzle(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    from .semantics import apply_swizzle

    return (apply_swizzle(operand_types[0], object_of(operand_types[1])),)


def _infer_load(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    tensor, indices = operand_types
    if isinstance(tensor, MemRefType):
        L.crd2idx(object_of(indices), tensor.data.layout)
        return (tensor.data.elem,)
    base, layout = cast(CoordTensorType, tensor).data
    return (types.int_tuple_type(L.int_tuple_add(base, L.crd2idx(object_of(indices), layout))),)


def _infer_load_vec(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    (tensor,) = operand_types
    if not isinstance(tensor, MemRefType):
        raise NotImplementedError("loading a coordinate tensor as a vector")
    count = L.size(tensor.data.layout)
    if type(count) is not int:
        raise TypeError("layout size must be static and leaf int")
    return (vector_type(tensor.data.elem, count),)


_vectors: dict[tuple[Attribute, int], VectorType] = {}


def vector_type(elem: Attribute, count: int) -> VectorType:
    """Interned 1-D vector type."""
    found = _vectors.get((elem, count))
    if found is None:
        found = _vectors[elem, count] = VectorType(cast(Any, elem), [count])
    return found


def _infer_dyn_shared(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
    """Always the same pointer type."""
    return (DYN_SHARED,)


MakePtrOp = _define("make_ptr", "Fresh memory in a space, or a pointer from parts.", pure=False, props=("dictAttrs",))
GetDynSharedOp = _define(
    "get_dyn_shared",
    "Base of the dynamic shared buffer.",
    infer=_infer_dyn_shared,
)
IntToPtrOp = _define("inttoptr", "Address to pointer.", arity=(1, 1))
PtrToIntOp = _define("ptrtoint", "Pointer to address.", infer=_infer_ptrtoint, arity=(1, 1))
ToLlvmPtrOp = _define("to_llvm_ptr", "The raw target pointer.", props=("llvm_address_space",), arity=(1, 1))
ApplySwizzleOp = _define("apply_swizzle", "Swizzle the byte address at each access.", infer=_infer_apply_swizzle)
RecastIterOp = _define("recast_iter", "Reinterpret the element type.", arity=(1, 1))
PtrLoadOp = _define("ptr.load", "Read a scalar or a vector.", pure=False, arity=(1, 1))
PtrStoreOp = _define("ptr.store", "Write a scalar or a vector.", pure=False, arity=(2, 2))
MemrefAllocaOp = _define("memref.alloca", "Register tensor with a layout.", pure=False, arity=(1, 1))
MemrefLoadOp = _define("memref.load", "Element at a coordinate.", infer=_infer_load, pure=False, arity=(2, 2))
MemrefStoreOp = _define("memref.store", "Store an element at a coordinate.", pure=False, arity=(3, 3))
MemrefLoadVecOp = _define("memref.load_vec", "All elements, colex.", infer=_infer_load_vec, pure=False, arity=(1, 1))
MemrefStoreVecOp = _define("memref.store_vec", "Store all elements, colex.", pure=False, arity=(2, 2))

# --- atoms ------------------------------------------------------------------------------------------------------

CopyAtomCallOp = _define("copy_atom_call", "One call of a copy atom.", pure=False, arity=(3, 4))
MmaAtomCallOp = _define("mma_atom_call", "One call of an MMA atom: atom, d, a, b, c.", pure=False, arity=(5, 5))
CopyOp = _define("copy", "A copy split into atom calls.", pure=False, arity=(3, 4))
GemmOp = _define("gemm", "D = A * B + C split into atom calls.", pure=False, props=("traversalOrder",), arity=(5, 6))
PrintOp = _define("print", "Print values by a format with `{}`.", pure=False, props=("format",))

# --- attributes and text forms ----------------------------------------------------------------------------------

from .attrs import GemmTraversalOrderAttr, MmaOperandAttr  # noqa: E402


def _parse_static(cls: type[FlyOp], parser: Parser) -> FlyOp:
    attrs = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    return cls.build_from((), (parser.parse_type(),), attrs)


def _print_static(op: FlyOp, printer: Printer) -> None:
    printer.print_op_attributes({**op.properties, **op.attributes})
    printer.print_string(" : ")
    printer.print_attribute(op.results[0].type)


def _parse_nullary(cls: type[FlyOp], parser: Parser) -> FlyOp:
    parser.parse_punctuation("(")
    parser.parse_punctuation(")")
    return _parse_static(cls, parser)


def _print_nullary(op: FlyOp, printer: Printer) -> None:
    printer.print_string("()")
    _print_static(op, printer)


def _finish(
    cls: type[FlyOp], parser: Parser, pos: int, unresolved: Sequence[Any], attrs: dict[str, Attribute]
) -> FlyOp:
    parser.parse_punctuation(":")
    fn = parser.parse_function_type()
    return cls.build_from(parser.resolve_operands(unresolved, fn.inputs.data, pos), fn.outputs.data, attrs)


def _print_operands(op: FlyOp, printer: Printer, prefix: str = "", suffix: str = "", skip: Sequence[str] = ()) -> None:
    printer.print_string(f"({prefix}")
    printer.print_list(op.operands, printer.print_operand)
    printer.print_string(f"{suffix})")
    printer.print_op_attributes({k: v for k, v in {**op.properties, **op.attributes}.items() if k not in skip})
    printer.print_string(" : ")
    printer.print_operation_type(op)


def _parse_padded(cls: type[FlyOp], parser: Parser) -> FlyOp:
    """`fly.append<4> (%t, %e) : ...`."""
    attrs: dict[str, Attribute] = {}
    if parser.parse_optional_punctuation("<") is not None:
        attrs["n"] = IntegerAttr(parser.parse_integer(), i32)
        parser.parse_punctuation(">")
    pos = parser.pos
    unresolved = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
    return _finish(cls, parser, pos, unresolved, {**attrs, **parser.parse_optional_attr_dict()})


def _print_padded(op: FlyOp, printer: Printer) -> None:
    n = op.properties.get("n")
    printer.print_string(f"<{python_value(n)}> " if n is not None else " ")
    _print_operands(op, printer, skip=("n",))


def _parse_mma(cls: type[FlyOp], parser: Parser) -> FlyOp:
    """`fly.tiled_mma.partition(a, %m, %t, %c)`, `fly.mma.make_fragment(b, %m, %x, stages = 2)`."""
    pos = parser.pos
    parser.parse_punctuation("(")
    word = parser.parse_identifier()
    if word not in _OPERANDS:
        parser.raise_error(f"expected one of {', '.join(_OPERANDS)}, got '{word}'", pos)
    attrs: dict[str, Attribute] = {"operand_id": MmaOperandAttr(MmaOperand(_OPERANDS.index(word)))}
    unresolved: list[Any] = []
    while parser.parse_optional_punctuation(",") is not None:
        if parser.parse_optional_keyword("stages") is not None:
            parser.parse_punctuation("=")
            attrs["stages"] = IntegerAttr(parser.parse_integer(), i32)
        else:
            unresolved.append(parser.parse_unresolved_operand())
    parser.parse_punctuation(")")
    return _finish(cls, parser, pos, unresolved, {**attrs, **parser.parse_optional_attr_dict()})


def _print_mma(op: FlyOp, printer: Printer) -> None:
    operand: int = python_value(op.properties["operand_id"])
    stages = op.properties.get("stages")
    suffix = f", stages = {python_value(stages)}" if stages is not None else ""
    _print_operands(op, printer, f"{_OPERANDS[operand]}, ", suffix, ("operand_id", "stages"))


def _parse_fragment_like(cls: type[FlyOp], parser: Parser) -> FlyOp:
    pos = parser.pos
    parser.parse_punctuation("(")
    unresolved = [parser.parse_unresolved_operand()]
    attrs: dict[str, Attribute] = {}
    if parser.parse_optional_punctuation(",") is not None:
        attrs["dtype"] = parser.parse_type()
    parser.parse_punctuation(")")
    return _finish(cls, parser, pos, unresolved, {**attrs, **parser.parse_optional_attr_dict()})


def _print_fragment_like(op: FlyOp, printer: Printer) -> None:
    dtype = op.properties.get("dtype")
    _print_operands(op, printer, suffix=f", {dtype}" if dtype is not None else "", skip=("dtype",))


def _parse_set_value(cls: type[FlyOp], parser: Parser) -> FlyOp:
    pos = parser.pos
    parser.parse_punctuation("(")
    atom = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    field = StringAttr(parser.parse_str_literal())
    parser.parse_punctuation(",")
    value = parser.parse_unresolved_operand()
    parser.parse_punctuation(")")
    return _finish(cls, parser, pos, [atom, value], {"field": field, **parser.parse_optional_attr_dict()})


def _print_set_value(op: FlyOp, printer: Printer) -> None:
    printer.print_string("(")
    printer.print_operand(op.operands[0])
    printer.print_string(", ")
    printer.print_attribute(op.properties["field"])
    printer.print_string(", ")
    printer.print_operand(op.operands[1])
    printer.print_string(") : ")
    printer.print_operation_type(op)


def _parse_gemm(cls: type[FlyOp], parser: Parser) -> FlyOp:
    pos = parser.pos
    unresolved = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
    if parser.parse_optional_keyword("traversalLayout") is not None:
        parser.parse_punctuation("=")
        unresolved.append(parser.parse_unresolved_operand())
    return _finish(cls, parser, pos, unresolved, parser.parse_optional_attr_dict())


def _print_gemm(op: FlyOp, printer: Printer) -> None:
    printer.print_string("(")
    printer.print_list(list(op.operands)[:5], printer.print_operand)
    printer.print_string(")")
    if len(op.operands) == 6:
        printer.print_string(" traversalLayout = ")
        printer.print_operand(op.operands[5])
    printer.print_op_attributes({**op.properties, **op.attributes})
    printer.print_string(" : ")
    printer.print_operation_type(op)


FORMS: dict[str, tuple[Callable[[type[FlyOp], Parser], FlyOp], Callable[[FlyOp, Printer], None]]] = {
    "fly.static": (_parse_static, _print_static),
    "fly.make_copy_atom": (_parse_static, _print_static),
    "fly.make_mma_atom": (_parse_static, _print_static),
    "fly.get_dyn_shared": (_parse_nullary, _print_nullary),
    "fly.append": (_parse_padded, _print_padded),
    "fly.prepend": (_parse_padded, _print_padded),
    "fly.tiled_mma.partition": (_parse_mma, _print_mma),
    "fly.mma.make_fragment": (_parse_mma, _print_mma),
    "fly.make_fragment_like": (_parse_fragment_like, _print_fragment_like),
    "fly.atom.set_value": (_parse_set_value, _print_set_value),
    "fly.gemm": (_parse_gemm, _print_gemm),
}
"""Ops whose text form is not the common one: how to parse and print them."""

Fly = Dialect(
    "fly",
    [*OPS.values()],
    [
        types.IntTupleType,
        types.BasisType,
        types.LayoutType,
        types.SwizzleType,
        types.CoordSwizzleType,
        types.ComposedLayoutType,
        types.TileType,
        types.PointerType,
        types.MemRefType,
        types.CoordTensorType,
        types.AddressSpaceAttr,
        atoms.UniversalCopyType,
        atoms.UniversalAtomicType,
        atoms.UniversalFmaType,
        atoms.CopyAtomType,
        atoms.MmaAtomType,
        atoms.TiledCopyType,
        atoms.TiledMmaType,
        MmaOperandAttr,
        GemmTraversalOrderAttr,
    ],
)
