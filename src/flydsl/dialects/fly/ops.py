"""The operations of the `fly` dialect.

Most are pure layout algebra, with their meaning in `semantics.py`. All share one text form,
`fly.name(%a, %b) {props} : (A, B) -> R`, and one class shape (variadic operands and results), so parsing, printing,
inference and verification exist once in `FlyOp`; `kinds.py` describes what may stand where. Ops with another text form
are in `forms.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ...ir.op_text import write
from . import infer, kinds
from .forms import FORMS, LISTS, segments_of
from .semantics import SEMANTICS


class FlyOp(IRDLOperation):
    """Base of all `fly` ops: the common text form, inference and verification."""

    args = var_operand_def()
    outs = var_result_def()

    INFER: ClassVar[Callable[[Sequence[Attribute], dict[str, Attribute]], tuple[Attribute, ...]] | None] = None
    """Result types from operand types and properties; None when types are given explicitly."""

    ARITY: ClassVar[tuple[int, int]] = (0, 1 << 30)
    """Fewest and most operands, for ops without a signature."""

    SIGNATURE: ClassVar[str | None] = None
    """Names and kinds of the operands, in the notation of `kinds.py`."""

    PROPERTIES: ClassVar[str] = ""
    """Names and kinds of the properties, likewise."""

    RESULTS: ClassVar[int | None] = None
    """Number of results, where it is fixed."""

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
        return cls.create(operands=operands, result_types=results, properties=props, attributes=rest)

    def print(self, printer: Printer) -> None:
        form = FORMS.get(self.name)
        if form is not None:
            form[1](self, printer)
            return
        write(printer, "(", self.operands, ")", {**self.properties, **self.attributes}, " : ")
        printer.print_function_type(self.operand_types, self.result_types)

    def verify_(self) -> None:
        error = self._operand_error() or self._result_error() or self._property_error()
        if error is not None:
            raise VerifyException(f"'{self.name}' op {error}")
        infer_types = type(self).INFER
        if infer_types is None:
            return
        try:
            wanted = infer_types([v.type for v in self.operands], self.properties)
        except (ValueError, TypeError, IndexError) as error:
            raise VerifyException(f"{error}\n'{self.name}' op failed to infer returned types") from error
        got = tuple(r.type for r in self.results)
        if wanted != got:
            raise VerifyException(
                f"'{self.name}' op inferred type(s) {_quoted(wanted)} are incompatible with "
                f"return type(s) of operation {_quoted(got)}\n'{self.name}' op failed to infer returned types"
            )

    def _operand_error(self) -> str | None:
        count = len(self.operands)
        if self.SIGNATURE is None:
            low, high = self.ARITY
            if low <= count <= high:
                return None
            return f"expected {low if low == high else f'{low} to {high}'} operands, but found {count}"
        operand_types = [v.type for v in self.operands]
        if self.name in LISTS:
            return self._segment_error(operand_types)
        specs = kinds.signature(self.SIGNATURE)
        return kinds.count_error(specs, count) or kinds.constraint_error(specs, operand_types)

    def _segment_error(self, operand_types: Sequence[Attribute]) -> str | None:
        """Check an op whose operands come in groups."""
        sizes = segments_of(self)
        specs = kinds.signature(cast(str, self.SIGNATURE))
        if len(sizes) != len(specs) or sum(sizes) != len(operand_types) or min(sizes) < 0:
            return f"operand groups {list(sizes)} do not match {len(operand_types)} operands"
        at = 0
        for spec, size in zip(specs, sizes, strict=True):
            if size == 0 and not spec.optional:
                return f"expected an operand for {spec.name}"
            if size > 1 and not spec.variadic:
                return f"expected one operand for {spec.name}, but found {size}"
            for i in range(at, at + size):
                if not spec.accepts(operand_types[i]):
                    return f"operand #{i} must be {spec.constraint}, but got '{operand_types[i]}'"
            at += size
        return None

    def _result_error(self) -> str | None:
        if self.RESULTS is None or len(self.results) == self.RESULTS:
            return None
        return f"expected {self.RESULTS} results, but found {len(self.results)}"

    def _property_error(self) -> str | None:
        for spec in kinds.properties(self.PROPERTIES):
            error = spec.error(self.properties.get(spec.name))
            if error is not None:
                return error
        return None


def _quoted(types_: Sequence[Attribute]) -> str:
    return ", ".join(f"'{t}'" for t in types_)


OPS: dict[str, type[FlyOp]] = {}
"""Op classes by name without the `fly.` prefix."""

_SPELLED = {
    "crd2idx": "Crd2Idx",
    "idx2crd": "Idx2Crd",
    "get_1d_coord": "Get1DCoord",
    "ptrtoint": "PtrToInt",
    "inttoptr": "IntToPtr",
    "to_llvm_ptr": "ToLLVMPtr",
    "copy_atom_call_ssa": "CopyAtomCallSSA",
    "mma_atom_call_ssa": "MmaAtomCallSSA",
}


def class_name(name: str) -> str:
    """The C++ class name of an op, which starts its inference errors.

    >>> class_name("make_layout"), class_name("memref.load_vec"), class_name("crd2idx")
    ('MakeLayoutOp', 'MemRefLoadVecOp', 'Crd2IdxOp')
    """
    spelled = _SPELLED.get(name)
    if spelled is None:
        spelled = "".join(part.capitalize() for part in name.replace(".", "_").split("_"))
    return spelled.replace("Memref", "MemRef") + "Op"


def _checked(name: str, signature: str, infer_types: infer.Infer) -> infer.Infer:
    """Inference that first looks at the operands' kinds and starts each error with the op's name."""
    specs = kinds.signature(signature)
    title = class_name(name)

    def run(operand_types: Sequence[Attribute], props: dict[str, Attribute]) -> tuple[Attribute, ...]:
        error = kinds.inference_error(specs, operand_types)
        if error is not None:
            raise TypeError(f"{title}: {error}")
        try:
            return infer_types(operand_types, props)
        except (ValueError, TypeError, IndexError) as problem:
            if problem.args and isinstance(problem.args[0], str):
                problem.args = (f"{title}: {problem.args[0]}", *problem.args[1:])
            raise

    return run


def _define(
    name: str,
    signature: str,
    doc: str,
    *,
    infer_types: infer.Infer | None = None,
    results: int | None = 1,
    props: str = "",
    pure: bool = True,
) -> type[FlyOp]:
    body: dict[str, Any] = {
        "__doc__": doc,
        "__module__": __name__,
        "name": f"fly.{name}",
        "traits": traits_def(Pure()) if pure else traits_def(),
    }
    for spec in kinds.properties(props):
        body[spec.name] = opt_prop_def(Attribute)
    if f"fly.{name}" in LISTS:
        body["operandSegmentSizes"] = opt_prop_def(Attribute)
    cls = irdl_op_definition(type(class_name(name), (FlyOp,), body))
    cls.SIGNATURE, cls.PROPERTIES, cls.RESULTS = signature, props, results
    if infer_types is None and name in SEMANTICS:
        infer_types = infer.algebra(name)
    if infer_types is not None:
        cls.INFER = staticmethod(_checked(name, signature, infer_types))
    OPS[name] = cls
    return cls


# --- construction -----------------------------------------------------------------------------------------------

StaticOp = _define("static", "", "A value fully described by its type: `fly.static : !fly.layout<(4,8):(8,1)>`.")
MakeIntTupleOp = _define("make_int_tuple", "leaves*: int", "Tuple whose dynamic leaves are the operands, depth first.")
MakeShapeOp = _define("make_shape", "leaves*: int", "Synonym of make_int_tuple.")
MakeStrideOp = _define("make_stride", "leaves*: int", "Synonym of make_int_tuple.")
MakeCoordOp = _define("make_coord", "leaves*: int", "Synonym of make_int_tuple.")
_define("make_layout", "shape: int_tuple, stride: int_tuple", "Layout of a shape and a stride.")
_define("make_layout_like", "ref: layout", "Compact layout in the stride order of another.")
_define(
    "make_ordered_layout", "shape: int_tuple, order: int_tuple", "Compact layout whose modes grow in a given order."
)
_define(
    "make_composed_layout",
    "inner: layout|composed|swizzle|coord_swizzle, offset: int_tuple, outer: narrow",
    "`inner` after `offset +` after `outer`.",
)
_define("make_identity_layout", "shape: int_tuple", "Every coordinate to itself.")
_define("make_view", "iter: iterator, layout: narrow", "A pointer or a base coordinate seen through a layout.")
MakeFragmentLikeOp = _define(
    "make_fragment_like",
    "src: layout|memref|coord_tensor",
    "Register tensor shaped like a tensor or layout. Each op is storage of its own, so it is not pure.",
    infer_types=infer.fragment,
    props="dtype?: type",
    pure=False,
)
_define(
    "make_fragment_layout_like",
    "src: layout|memref",
    "Compact layout of a fragment shaped like a tensor or layout.",
    infer_types=infer.fragment_layout,
)
MakeTiledCopyOp = _define(
    "make_tiled_copy",
    "copyAtom: copy_atom, layoutThrVal: layout, tileMN: tile",
    "Copy atom over a tile.",
    infer_types=infer.tiled_copy,
)
MakeTiledMmaOp = _define(
    "make_tiled_mma",
    "mmaAtom: mma_atom, atomLayout: layout, permutation?: tile",
    "MMA atom over (M, N, K).",
    infer_types=infer.tiled_mma,
)
MakeCopyAtomOp = _define("make_copy_atom", "state*: any", "A copy atom.", props="valBits: i32")
MakeMmaAtomOp = _define("make_mma_atom", "state*: any", "An MMA atom.")
_define("get_copy_atom", "tiled: tiled_copy", "The atom of a tiled copy.")
_define("get_mma_atom", "tiled: tiled_mma", "The atom of a tiled MMA.")

# --- extraction -------------------------------------------------------------------------------------------------

GetScalarOp = _define(
    "get_scalar", "intTuple: int_tuple", "The scalar of a single-leaf tuple.", infer_types=infer.get_scalar
)
GetLeavesOp = _define(
    "get_leaves",
    "intTuple: int_tuple",
    "The leaves as scalars.",
    infer_types=infer.get_leaves,
    props="dynamicOnly?: i1",
    results=None,
)
_define("get_shape", "layout: layout_like", "Shape of the innermost plain layout.")
_define("get_stride", "layout: layout_like", "Stride of a plain layout.", infer_types=infer.get_stride)
_define("get_layout", "tensor: tensor", "Layout of a tensor.")
_define("get_iter", "tensor: tensor", "Pointer or base coordinate of a tensor.")
_define("composed_get_inner", "layout: composed", "What a composed layout applies last.")
_define("composed_get_offset", "layout: composed", "Offset between the two parts of a composed layout.")
_define("composed_get_outer", "layout: composed", "What a composed layout applies first.")

# --- integer tuples ---------------------------------------------------------------------------------------------

_PAIR = "lhs: int_tuple, rhs: int_tuple"
for _name, _doc in (
    ("int_tuple_add", "Sum, leaf by leaf."),
    ("int_tuple_sub", "Difference, leaf by leaf."),
    ("int_tuple_mul", "Product, leaf by leaf."),
    ("int_tuple_div", "Truncated quotient, leaf by leaf."),
    ("int_tuple_mod", "Remainder, leaf by leaf."),
    ("int_tuple_product_like", "Products of the sub-trees at the leaves of a guide."),
    ("shape_div", "Quotient of shapes that divide one another."),
    ("ceil_div", "Quotient rounded up."),
):
    _define(_name, _PAIR, _doc)
_define("int_tuple_product", "tuple: int_tuple", "Product of all leaves.")
_define("int_tuple_product_each", "tuple: int_tuple", "Product of each mode.")
ElemLessOp = _define("elem_less", _PAIR, "All paired leaves less: i1.", infer_types=infer.flag)
EqualOp = _define("equal", _PAIR, "Same structure and leaves: i1.", infer_types=infer.flag)

# --- structure --------------------------------------------------------------------------------------------------

_PADDED = "tuple: int_tuple|narrow, elem: int_tuple|layout"
_define("get", "tuple: tuple_like", "Sub-tree at a path.", infer_types=infer.get, props="mode: i32_array")
_define("take", "tuple: tuple_like", "Modes from `begin` to `end`.", props="begin: i32, end: i32")
_define("select", "tuple: tuple_like", "Modes by index.", props="indices: i32_array")
_define("group", "tuple: tuple_like", "Modes from `begin` to `end` as one.", props="begin: i32, end: i32")
_define("append", _PADDED, "One more mode at the end.", infer_types=infer.padded("append"), props="n?: i32")
_define("prepend", _PADDED, "One more mode in front.", infer_types=infer.padded("prepend"), props="n?: i32")
_define("slice", "src: tuple_like, coord: int_tuple", "Keep what stands under `*`; tensors move by the rest.")
_define("dice", "src: int_tuple|layout, coord: int_tuple", "Keep what does not stand under `*`.")

# --- layout algebra ---------------------------------------------------------------------------------------------

_define("size", "tuple: tuple_like", "Product of the shape.")
_define("coprofile", "layout: layout_like", "Nesting of the codomain.")
_define("coshape", "layout: layout_like", "Extents of the codomain.")
_define("cosize", "layout: layout_like", "Size of the codomain.")
_define("coalesce", "layout: layout_like, profile?: int_tuple", "The same function with as few modes as possible.")
_define("composition", "outer: layout_like, inner: layout|tile", "`outer` after `inner`, or a tile of it per mode.")
_define("complement", "layout: narrow, codomainSize?: int_tuple", "What a layout leaves out.")
_define("right_inverse", "layout: narrow", "`layout(result(i)) == i`.")
_define("left_inverse", "layout: narrow", "`result(layout(i)) == i`.")
for _name, _doc in (
    ("logical_divide", "Each mode as (tile, rest)."),
    ("zipped_divide", "All tiles, then all rests."),
    ("tiled_divide", "All tiles, then the rests as modes."),
    ("flat_divide", "Tiles and rests as modes."),
):
    _define(_name, "layout: layout_like, divisor: layout|tile", _doc)
for _name, _doc in (
    ("logical_product", "A layout and its repetitions."),
    ("zipped_product", "As logical_product, zipped."),
    ("tiled_product", "As logical_product, the repetitions as modes."),
    ("flat_product", "As logical_product, all as modes."),
    ("blocked_product", "Repetitions next to each other, mode by mode."),
    ("raked_product", "Repetitions interleaved, mode by mode."),
):
    _define(_name, "layout: narrow, tile: layout", _doc)
_define(
    "recast_layout",
    "src: narrow",
    "The layout counted in elements of another width.",
    props="new_type_bits: i32, old_type_bits: i32",
)
_define(
    "tile_to_shape",
    "block: narrow, trg_shape: int_tuple, ord_shape: int_tuple",
    "Repeat a block until it fills a shape.",
)

# --- coordinates ------------------------------------------------------------------------------------------------

_define("crd2idx", "coord: int_tuple, layout: narrow|swizzle|coord_swizzle", "Index of a coordinate.")
_define("idx2crd", "index: int_tuple, layout: layout", "Coordinate of an index.")
_define("get_flat_coord", "index: int_tuple, layout: layout", "One index per top mode.")
_define("get_1d_coord", "index: int_tuple, layout: layout", "Colexicographic index.")

# --- pointers and memory ----------------------------------------------------------------------------------------

MakePtrOp = _define(
    "make_ptr",
    "args*: any",
    "Fresh memory in a space, or a pointer from parts.",
    pure=False,
    props="dictAttrs?: dictionary",
)
GetDynSharedOp = _define("get_dyn_shared", "", "Base of the dynamic shared buffer.", infer_types=infer.dyn_shared)
IntToPtrOp = _define("inttoptr", "src: int", "Address to pointer.")
PtrToIntOp = _define("ptrtoint", "ptr: ptr", "Pointer to address.", infer_types=infer.ptrtoint)
ToLlvmPtrOp = _define(
    "to_llvm_ptr", "ptr: ptr", "The raw target pointer.", infer_types=infer.to_llvm_ptr, props="llvm_address_space: i32"
)
_define("add_offset", "ptr: iterator, offset: int_tuple", "An iterator moved.")
ApplySwizzleOp = _define(
    "apply_swizzle",
    "ptr: ptr, swizzle: swizzle",
    "Swizzle the byte address at each access.",
    infer_types=infer.swizzled,
)
RecastIterOp = _define("recast_iter", "src: ptr", "Reinterpret the element type.")
_define("decomposition", "tensor: tensor", "A composed layout's inner part folded into the base.")
PtrLoadOp = _define("ptr.load", "ptr: iterator", "Read a scalar or a vector.", pure=False)
PtrStoreOp = _define("ptr.store", "value: any, ptr: ptr", "Write a scalar or a vector.", pure=False, results=0)
MemrefAllocaOp = _define("memref.alloca", "layout: layout", "Register tensor with a layout.", pure=False)
MemrefLoadOp = _define(
    "memref.load", "memref: tensor, indices: int_tuple", "Element at a coordinate.", infer_types=infer.load, pure=False
)
MemrefStoreOp = _define(
    "memref.store", "value: any, memref: memref, indices: int_tuple", "Store an element.", pure=False, results=0
)
MemrefLoadVecOp = _define(
    "memref.load_vec", "memref: tensor", "All elements, colex.", infer_types=infer.load_vec, pure=False
)
MemrefStoreVecOp = _define(
    "memref.store_vec", "vector: any, memref: memref", "Store all elements, colex.", pure=False, results=0
)
_define("extract_aligned_pointer_as_index", "memref: memref", "A tensor's pointer; deprecated.")

# --- tiled operations -------------------------------------------------------------------------------------------

_define(
    "tiled_copy.partition_src",
    "tiledCopy: tiled_copy, src: tensor, coord: int_tuple",
    "The part of a source one thread copies.",
)
_define(
    "tiled_copy.partition_dst",
    "tiledCopy: tiled_copy, dst: tensor, coord: int_tuple",
    "The part of a destination one thread copies.",
)
_define("tiled_copy.retile", "tiledCopy: tiled_copy, input: memref", "A fragment seen in this copy's value order.")
_define(
    "tiled_mma.partition",
    "tiledMma: tiled_mma, tensor: tensor, coord: int_tuple",
    "The part of an operand one thread holds.",
    props="operand_id: mma_operand",
)
_define(
    "tiled_mma.partition_shape",
    "tiledMma: tiled_mma, shape: int_tuple",
    "Shape of such a part.",
    props="operand_id: mma_operand",
)
MmaMakeFragmentOp = _define(
    "mma.make_fragment",
    "tiledMma: tiled_mma, input: memref",
    "Register tensor for one thread's part of an operand.",
    infer_types=infer.mma_make_fragment,
    props="operand_id: mma_operand, stages?: i32",
    pure=False,
)

# --- atoms ------------------------------------------------------------------------------------------------------

AtomSetValueOp = _define(
    "atom.set_value",
    "atom: atom, value: any",
    "The atom with a state field set.",
    infer_types=infer.same,
    props="field: string",
)
CopyAtomCallOp = _define(
    "copy_atom_call",
    "copyAtom: copy_atom, src: tensor, dst: tensor, pred?: memref",
    "One call of a copy atom.",
    pure=False,
    results=0,
)
CopyAtomCallSsaOp = _define(
    "copy_atom_call_ssa",
    "copyAtom: copy_atom, src: any, dst?: any, pred?: any",
    "One call of a copy atom on values.",
    pure=False,
    results=None,
)
MmaAtomCallOp = _define(
    "mma_atom_call",
    "mmaAtom: mma_atom, d: memref, a*: memref, b*: memref, c: memref",
    "One call of an MMA atom; A and B may carry scales.",
    pure=False,
    results=0,
)
MmaAtomCallSsaOp = _define(
    "mma_atom_call_ssa",
    "mmaAtom: mma_atom, d?: any, a*: any, b*: any, c: any",
    "One call of an MMA atom on values.",
    pure=False,
    results=None,
)
CopyOp = _define(
    "copy",
    "copyAtom: copy_atom|tiled_copy, src: tensor, dst: tensor, pred?: memref",
    "A copy split into atom calls.",
    pure=False,
    results=0,
)
GemmOp = _define(
    "gemm",
    "mmaAtom: mma_atom|tiled_mma, d: memref, a*: memref, b*: memref, c: memref, traversalLayout?: layout",
    "D = A * B + C split into atom calls.",
    pure=False,
    results=0,
    props="traversalOrder?: traversal",
)

# --- the rest ---------------------------------------------------------------------------------------------------

PrintOp = _define(
    "print", "values*: any", "Print values by a format with `{}`.", pure=False, results=0, props="format: string"
)
AssumeOp = _define("assume", "dst: any, src: any", "`dst`, known to be as `src`; nothing lowers it.")
