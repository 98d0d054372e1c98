"""Python values as attributes: what the definition of an op says a property is, decides what becomes of a value."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    VectorType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.dialects.utils.bit_enum_attribute import BitEnumAttribute
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, PropertyDef
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from ..dialects.fly.attrs import GemmTraversalOrderAttr, MmaOperandAttr
from ..dialects.upstream.keyword_attr import KeywordAttr
from ..dialects.upstream.table_ops import ROWS
from ..errors import DSLTypeError, MLIRError
from ..ir.stands import stored
from .insertion import raw_context
from .signature import enums

_WIDTHS: dict[str, IntegerType | IndexType] = {
    "llvm": i64, "vector": i64, "memref": i64, "gpu": IndexType(), "fly": i32, "fly_rocdl": i32, "nvvm": i32,
}  # fmt: skip
"""What integers of a dialect are, where the op does not say."""
_NARROW = {"addr_space", "bit", "noWrapFlags", "overflowFlags"}
"""Integers of `llvm` that have 32 bits."""
_LISTS_OF_I32 = {
    "rawConstantIndices", "op_bundle_sizes", "known_block_size", "known_grid_size", "branch_weights", "mask", "mode",
    "indices", "order", "case_operand_segments",
}  # fmt: skip
"""Lists of 32-bit integers; those of other names have 64 bits, as the definition of the op checks."""
_FLY_ENUMS: dict[str, type[MmaOperandAttr] | type[GemmTraversalOrderAttr]] = {
    "operand_id": MmaOperandAttr,
    "operandId": MmaOperandAttr,
    "traversalOrder": GemmTraversalOrderAttr,
}


def _integer_type(op: type[Operation], name: str) -> IntegerType | IndexType:
    row = ROWS.get(op.name)
    if row is not None:
        for item in row.items:
            if item.name == name and item.type is not None:
                return cast(IntegerType, item.type)
        return i1
    if name.startswith("is_") or name in ("dynamicOnly", "uniform"):
        return i1
    return i32 if name in _NARROW else _WIDTHS.get(op.dialect_name(), i64)


def _word(value: object) -> str:
    """A member of an enumeration as its word in the IR."""
    if isinstance(value, enum.Enum):
        text = str(value)
        return text if "." not in text else value.name.lower()
    return str(value)


def _number(op: type[Operation], name: str, value: object) -> int:
    """A member of an enumeration as its number; words are those of any enumeration of the dialect that has a place."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        for found in enums(op.dialect_name()).values():
            if name.lower().startswith(("predicate", "ordering", "bin_op", "success", "failure")):
                for member in found:
                    if str(member) == value and _fits(found.__name__, op, name):
                        return int(member)
        row = ROWS.get(op.name)
        for item in () if row is None else row.items:
            if item.name == name and item.words is not None and value in item.words:
                return item.words[value]
    raise DSLTypeError(f"'{op.name}': {name} must be an integer, got {value!r}")


def _fits(enumeration: str, op: type[Operation], name: str) -> bool:
    """Whether an enumeration is the one of a property."""
    if name == "predicate":
        kind = "F" if op.name.endswith(("cmpf", "fcmp")) else "I"
        return enumeration in (f"Cmp{kind}Predicate", f"{kind}CmpPredicate")
    return enumeration == ("AtomicBinOp" if name == "bin_op" else "AtomicOrdering")


def _enumerated(base: type[EnumAttribute[Any]], value: object) -> Attribute:
    members = list(base.enum_type)
    if isinstance(value, enum.Enum) or not isinstance(value, int):
        return base(base.enum_type(_word(value)))
    return base(members[value])


def _flags(base: type[BitEnumAttribute[Any]], value: object) -> Attribute:
    if isinstance(value, int) and not isinstance(value, enum.Enum):
        raise DSLTypeError(f"flags are members of an enumeration or words, got {value!r}")
    words = [w.strip() for w in _word(value).replace("|", ",").split(",") if w.strip()]
    if "fast" in words:
        return base("fast")
    known = {str(member.value): member for member in base.enum_type}
    return base([known[w] for w in words if w != "none"])


def _sequence(op: type[Operation], name: str, value: Sequence[object], base: type[Attribute] | None) -> Attribute:
    if base is DenseArrayBase or (base is None and all(isinstance(v, int) for v in value)):
        numbers = [int(cast(int, v)) for v in value]
        wide = op.dialect_name() in ("vector", "memref") or name not in _LISTS_OF_I32
        if op.dialect_name() == "fly":
            wide = False
        return DenseArrayBase.from_list(i64 if wide else i32, numbers)
    return ArrayAttr([v if isinstance(v, Attribute) else plain(v) for v in value])


def plain(value: object) -> Attribute:
    """An attribute of a value of which nothing more is known."""
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f32)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, Mapping):
        return DictionaryAttr({str(k): plain(v) for k, v in cast("Mapping[object, object]", value).items()})
    if isinstance(value, Sequence):
        return ArrayAttr([plain(v) for v in cast("Sequence[object]", value)])
    raise DSLTypeError(f"{value!r} cannot be an attribute")


def convert(op: type[IRDLOperation], name: str, part: PropertyDef | None, value: object) -> Attribute | None:
    """A value given for a property, as the attribute it stands for; None where it stands for none."""
    if isinstance(value, Attribute):
        return stored(value)
    if value is None:
        return None
    if isinstance(value, type) and isinstance(found := cast(object, getattr(value, "ir_type", None)), Attribute):
        return found  # of a scalar class, where a type is meant
    bases = tuple(part.constr.get_bases() or ()) if part is not None else ()
    if UnitAttr in bases and isinstance(value, bool):
        return UnitAttr() if value else None
    for base in bases:
        found = _of_class(op, name, base, value)
        if found is not None:
            return found
    if name in _FLY_ENUMS:
        cls = _FLY_ENUMS[name]
        member = cls.enum(int(value)) if isinstance(value, int) else cls.enum[str(value)]
        return cls(member)
    if isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    if isinstance(value, int):
        return IntegerAttr(int(value), _integer_type(op, name))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _sequence(op, name, cast("Sequence[object]", value), None)
    return plain(value)


def _of_class(op: type[Operation], name: str, base: type[Attribute], value: object) -> Attribute | None:
    """The attribute of a class, or None where the class is of another kind than the value."""
    if base is IntegerAttr:
        return IntegerAttr(_number(op, name, value), _integer_type(op, name))
    if base is StringAttr:
        return StringAttr(_word(value)) if isinstance(value, str | enum.Enum) else None
    if base is SymbolRefAttr:
        names = [value] if isinstance(value, str) else list(cast("Sequence[str]", value))
        return SymbolRefAttr(names[0], names[1:])
    if base in (DenseArrayBase, ArrayAttr) and isinstance(value, Sequence):
        return _sequence(op, name, cast("Sequence[object]", value), base)
    if base is DenseIntOrFPElementsAttr and isinstance(value, Sequence):
        numbers = [int(v) for v in cast("Sequence[int]", value)]
        return DenseIntOrFPElementsAttr.from_list(VectorType(i32, [len(numbers)]), numbers)
    if issubclass(base, BitEnumAttribute):
        return _flags(cast("type[BitEnumAttribute[Any]]", base), value)
    if issubclass(base, EnumAttribute):
        return _enumerated(cast("type[EnumAttribute[Any]]", base), value)
    if issubclass(base, KeywordAttr):
        word = base.choices[value] if type(value) is int else _word(value)
        if word not in base.choices:
            raise DSLTypeError(f"'{op.name}': {name} must be one of {', '.join(base.choices)}, got {value!r}")
        return base(word)
    if isinstance(value, str | enum.Enum) and hasattr(base, "parse_parameter"):
        return parse_attribute(f"#{base.name}<{_word(value)}>")
    return None


def parse_attribute(text: str) -> Attribute:
    return _parsed(text, Parser.parse_attribute)


def parse_type(text: str) -> Attribute:
    return _parsed(text, Parser.parse_type)


def _parsed(text: str, parse: Callable[[Parser], Attribute]) -> Attribute:
    try:
        parser = Parser(raw_context(), text)
        found = parse(parser)
    except ParseError as error:
        raise MLIRError(f"cannot parse {text!r}: {error.msg}") from error
    if parser.pos < len(text.rstrip()):
        raise MLIRError(f"cannot parse {text!r}: {text[parser.pos :]!r} is left over")
    return found


__all__ = ["convert", "parse_attribute", "parse_type", "plain"]
