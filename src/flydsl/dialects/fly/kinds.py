"""What the operands and properties of `fly` ops may be, as text tables, and the errors when they are not.

A signature such as `"layout: layout_like, profile?: int_tuple"` names each operand and its kinds; `?` marks an optional
one, `*` a list. The verifier speaks of operand numbers (`operand #0 must be , but got 'i32'`: the constraints of fly
types have no description), inference of operand names (`MakeLayoutOp: expected IntTupleType for shape, got i32`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple, cast

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, IntegerType, StringAttr, i32, i64
from xdsl.ir import Attribute, TypeAttribute

from . import attrs, types
from .atoms import CopyAtomType, MmaAtomType, TiledCopyType, TiledMmaType

_CLASSES: dict[str, type[Attribute]] = {
    "int_tuple": types.IntTupleType,
    "layout": types.LayoutType,
    "composed": types.ComposedLayoutType,
    "swizzle": types.SwizzleType,
    "coord_swizzle": types.CoordSwizzleType,
    "tile": types.TileType,
    "ptr": types.PointerType,
    "memref": types.MemRefType,
    "coord_tensor": types.CoordTensorType,
    "copy_atom": CopyAtomType,
    "mma_atom": MmaAtomType,
    "tiled_copy": TiledCopyType,
    "tiled_mma": TiledMmaType,
}

_GROUPS: dict[str, str] = {
    "narrow": "layout|composed",
    "tensor": "coord_tensor|memref",
    "layout_like": "layout|composed|coord_tensor|memref",
    "tuple_like": "int_tuple|layout|composed|coord_tensor|memref",
    "iterator": "int_tuple|ptr",
    "atom": "copy_atom|mma_atom|tiled_copy|tiled_mma",
}

_INT_TEXT = "32-bit signless integer or 64-bit signless integer"


class OperandSpec(NamedTuple):
    """One operand of a signature."""

    name: str
    classes: tuple[type[Attribute], ...]
    """Accepted types; empty for anything."""
    integer: bool
    """An i32 or an i64 instead."""
    optional: bool
    variadic: bool

    def accepts(self, type_: Attribute) -> bool:
        """Whether a value of this type may stand here."""
        if self.integer:
            return isinstance(type_, IntegerType) and type_ in (i32, i64)
        return not self.classes or isinstance(type_, self.classes)

    @property
    def constraint(self) -> str:
        """How the verifier describes what is accepted."""
        text = _INT_TEXT if self.integer else " or ".join([""] * len(self.classes))
        return f"variadic of {text}" if self.variadic else text

    @property
    def expected(self) -> str:
        """How inference names what is accepted."""
        return _INT_TEXT if self.integer else " or ".join(c.__name__ for c in self.classes)


@cache
def signature(text: str) -> tuple[OperandSpec, ...]:
    """The operands a signature text describes."""
    return tuple(_operand(part) for part in text.split(", ")) if text else ()


def _operand(part: str) -> OperandSpec:
    name, kinds = part.split(": ")
    mark = name[-1] if name[-1] in "?*" else ""
    classes: list[type[Attribute]] = []
    if kinds not in ("any", "int"):
        for kind in kinds.split("|"):
            classes += [_CLASSES[k] for k in _GROUPS.get(kind, kind).split("|")]
    return OperandSpec(name.rstrip("?*"), tuple(classes), kinds == "int", mark == "?", mark == "*")


def count_error(specs: Sequence[OperandSpec], count: int) -> str | None:
    """What is wrong with a number of operands."""
    low = sum(not (s.optional or s.variadic) for s in specs)
    if any(s.variadic for s in specs):
        return None if count >= low else f"expected {low} or more operands, but found {count}"
    if low <= count <= len(specs):
        return None
    wanted = f"{low}" if low == len(specs) else f"{low} to {len(specs)}"
    return f"expected {wanted} operands, but found {count}"


def paired(specs: Sequence[OperandSpec], operand_types: Sequence[Attribute]) -> Iterator[tuple[int, OperandSpec]]:
    """The position and the description of each operand; a list takes all the others leave it."""
    extra = len(operand_types) - sum(not (s.optional or s.variadic) for s in specs)
    at = 0
    for spec in specs:
        if spec.variadic:
            taken = extra
        elif spec.optional:
            taken = min(extra, 1)
        else:
            taken = 1
        extra -= taken if spec.optional or spec.variadic else 0
        for _ in range(taken):
            yield at, spec
            at += 1


def constraint_error(specs: Sequence[OperandSpec], operand_types: Sequence[Attribute]) -> str | None:
    """The verifier's words for the first operand of a wrong kind."""
    for i, spec in paired(specs, operand_types):
        if not spec.accepts(operand_types[i]):
            return f"operand #{i} must be {spec.constraint}, but got '{operand_types[i]}'"
    return None


def inference_error(specs: Sequence[OperandSpec], operand_types: Sequence[Attribute]) -> str | None:
    """Inference's words for the first operand of a wrong kind."""
    for i, spec in paired(specs, operand_types):
        if not spec.accepts(operand_types[i]):
            return f"expected {spec.expected} for {spec.name}, got {operand_types[i]}"
    return None


# --- properties -------------------------------------------------------------------------------------------------------


class PropertySpec(NamedTuple):
    """One inherent attribute."""

    name: str
    kind: str
    optional: bool

    def error(self, value: Attribute | None) -> str | None:
        """What is wrong with a value, if anything."""
        if value is None:
            return None if self.optional else f"requires attribute '{self.name}'"
        check, text = _PROPERTY_KINDS[self.kind]
        return None if check(value) else f"attribute '{self.name}' failed to satisfy constraint: {text}"


def _is_int(width: int) -> Callable[[Attribute], bool]:
    def check(value: Attribute) -> bool:
        return isinstance(value, IntegerAttr) and bool(
            cast("IntegerAttr[IntegerType]", value).type == IntegerType(width)
        )

    return check


def _is_i32_array(value: Attribute) -> bool:
    return isinstance(value, DenseArrayBase) and bool(cast("DenseArrayBase[IntegerType]", value).elt_type == i32)


def _instance(*classes: type[Attribute]) -> Callable[[Attribute], bool]:
    return lambda value: isinstance(value, classes)


_PROPERTY_KINDS: dict[str, tuple[Callable[[Attribute], bool], str]] = {
    "i1": (_is_int(1), "bool attribute"),
    "i32": (_is_int(32), "32-bit signless integer attribute"),
    "i32_array": (_is_i32_array, "i32 dense array attribute"),
    "string": (_instance(StringAttr), "string attribute"),
    "dictionary": (_instance(DictionaryAttr), "dictionary of named attribute values"),
    "type": (_instance(TypeAttribute), "any type attribute"),
    "mma_operand": (_instance(attrs.MmaOperandAttr), "operand of an MMA"),
    "traversal": (_instance(attrs.GemmTraversalOrderAttr), "order of a gemm traversal"),
}


@cache
def properties(text: str) -> tuple[PropertySpec, ...]:
    """The properties a text such as `"begin: i32, n?: i32"` describes."""
    found: list[PropertySpec] = []
    for part in text.split(", ") if text else ():
        name, kind = part.split(": ")
        found.append(PropertySpec(name.rstrip("?"), kind, name.endswith("?")))
    return tuple(found)
