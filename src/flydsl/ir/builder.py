"""One builder for tracer and passes: emits, folds and numbers while building.

A `Builder` appends to `block`. Constants are made once per function, at the head of its entry block; pure ops with the
same operands are made once per region. `open_function` starts a function, `region()` a nested region, whose new values
are forgotten when it closes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import ub, vector
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ..layout import Dyn, Swizzle, ValueLeaf
from . import arith
from .emitter import UNKNOWN, emit1, emit_head, emit_regions, emitn, make_attribute, make_data, operands_of
from .fold import check_range, fold_cmpi, fold_int, signed
from .identity import IdentityCache
from .types import bit_width, i1, i32, i64, i128, index, vector_type

if TYPE_CHECKING:
    from xdsl.dialects.builtin import AnyFloat


def _by_name(*ops: type[Operation]) -> dict[str, type[Operation]]:
    """Ops of `arith` by their names there."""
    return {op.name.removeprefix("arith."): op for op in ops}


INT_BINARY = _by_name(
    arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp,
    arith.FloorDivSIOp, arith.CeilDivSIOp, arith.CeilDivUIOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.ShLIOp,
    arith.ShRSIOp, arith.ShRUIOp, arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp,
)  # fmt: skip
FLOAT_BINARY = _by_name(
    arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp,
    arith.MinnumfOp,
)  # fmt: skip
CASTS = _by_name(
    arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.ExtFOp, arith.TruncFOp, arith.SIToFPOp, arith.UIToFPOp,
    arith.FPToSIOp, arith.FPToUIOp, arith.IndexCastOp, arith.BitcastOp,
)  # fmt: skip
CMPI = {p: i for i, p in enumerate("eq ne slt sle sgt sge ult ule ugt uge".split())}
CMPF = {p: i for i, p in enumerate("false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split())}
_COMMUTATIVE = {"addi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui"}
_PREDICATES: dict[int, IntegerAttr[IntegerType]] = {i: IntegerAttr(i, i64) for i in range(16)}

_int_attrs: dict[Attribute, dict[int, IntegerAttr[IntegerType]]] = {}
_index_lists: dict[tuple[int, ...], DenseArrayBase[IntegerType]] = {}
_LEAF_OPS = {
    "add": "addi", "sub": "subi", "mul": "muli", "div": "divsi", "mod": "remsi", "min": "minsi", "max": "maxsi",
    "safediv": "divsi", "ceildiv": "ceildivsi", "shapediv": "ceildivsi",
}  # fmt: skip
_LEAF_COMPARE = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


INTERNED = 1 << 16
"""Attributes of one kind that are kept for the next use, in a process that compiles ever new constants."""


def _int_attrs_of(type_: Attribute) -> dict[int, IntegerAttr[IntegerType]]:
    return _int_attrs.setdefault(type_, {})


_int_tables = IdentityCache(_int_attrs_of)
_int_table = _int_tables.entries.get


def int_attr(value: int, type_: Any = i32) -> IntegerAttr[IntegerType]:
    """Interned integer attribute."""
    table = (_int_table(id(type_)) or _int_tables.add(type_))[0]
    found = table.get(value)
    if found is None:
        if len(table) > INTERNED:
            table.clear()
        found = table[value] = _make_int_attr(value, type_)
    return found


def _make_int_attr(value: int, type_: Any) -> IntegerAttr[Any]:
    kind: type = type(type_)  # pyright: ignore[reportUnknownVariableType]
    if kind is IndexType or (kind is IntegerType and type_.signedness.data is Signedness.SIGNLESS):
        bound = 1 << (63 if kind is IndexType else type_.width.data - 1)
        if -bound <= value < bound:  # in its normal form, so that there is nothing to check
            return make_attribute(IntegerAttr, ("value", "type"), (make_data(IntAttr, int(value)), type_))
    return IntegerAttr(value, type_)


def splat_attr(type_: VectorType, value: int | float) -> DenseIntOrFPElementsAttr[Any]:
    """A vector constant that holds one number everywhere, in its normal form."""
    packed = cast(Any, type_.element_type).pack((value,)) * math.prod(type_.get_shape())
    return make_attribute(DenseIntOrFPElementsAttr, ("type", "data"), (type_, make_data(BytesAttr, packed)))


def _int_array(elem: IntegerType, letter: str, values: tuple[int, ...]) -> DenseArrayBase[Any]:
    """`array<elem: ...>` of values that fit."""
    data = make_data(BytesAttr, struct.pack(f"<{len(values)}{letter}", *values))
    return make_attribute(DenseArrayBase, ("elt_type", "data"), (elem, data))


def i32_list(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """Interned `array<i32: ...>`."""
    key = tuple(values)
    found = _index_lists.get(key)
    if found is None:
        if len(_index_lists) > INTERNED:
            _index_lists.clear()
        found = _index_lists[key] = _int_array(i32, "i", key)
    return found


def elem_of(type_: Attribute) -> Attribute:
    """Element type of a vector, or the type itself."""
    return type_.element_type if type(type_) is VectorType else type_


def _is_integer(elem: Attribute) -> bool:
    return type(elem) is IntegerType or type(elem) is IndexType


def _flag_type(type_: Attribute) -> Attribute:
    """Type of a comparison of two values of this type."""
    return vector_type(i1, type_.get_shape()[0]) if type(type_) is VectorType else i1


class Builder:
    """Appends ops to `block` at location `loc`."""

    __slots__ = ("_canon", "_ids", "_anchor", "_consts", "_known", "block", "const_of", "entry", "loc")

    def __init__(self, block: Block | None = None):
        self.block: Block = block if block is not None else Block()
        self.loc: Any = UNKNOWN
        self.const_of: dict[SSAValue, int | float] = {}
        """Python value of every scalar constant made in this function."""
        self.entry: Block = self.block
        self._anchor: Operation | None = None
        self._consts: dict[Any, SSAValue] = {}
        self._ids: dict[int, tuple[int, Attribute]] = {}
        self._canon: dict[Attribute, Attribute] = {}
        self._known: dict[Any, SSAValue] = {}

    # --- functions and regions ------------------------------------------------------------------------------------

    @contextmanager
    def open_function(self, entry: Block) -> Generator[None]:
        """Build into the entry block of a new function; constants of the enclosing one are out of reach."""
        saved = (self.block, self.const_of, self.entry, self._anchor, self._consts, self._known, self.loc)
        self.block, self.entry = entry, entry
        self._anchor, self.const_of, self._consts, self._known = None, {}, {}, {}
        try:
            yield
        finally:
            self.block, self.const_of, self.entry, self._anchor, self._consts, self._known, self.loc = saved

    @contextmanager
    def region(self, block: Block) -> Generator[None]:
        """Build into a nested block; values numbered inside do not leak out."""
        saved_block, mark = self.block, self.mark()
        self.block = block
        try:
            yield
        finally:
            self.block = saved_block
            self.forget(mark)

    def move_to_head(self, block: Block) -> None:
        """Put the ops of a block in front of the function's own, behind its constants."""
        after = self._anchor
        for op in list(block.ops):
            op.detach()
            if after is not None:
                self.entry.insert_op_after(op, after)
            elif self.entry.first_op is not None:
                self.entry.insert_op_before(op, self.entry.first_op)
            else:
                self.entry.add_op(op)
            after = op

    def numbered(self) -> dict[object, SSAValue]:
        """All that is numbered now, for `resumed`."""
        return dict(self._known)

    @contextmanager
    def resumed(self, block: Block, numbered: dict[object, SSAValue]) -> Generator[None]:
        """Build into a block again, with what was numbered there."""
        saved = self.block, self._known
        self.block, self._known = block, numbered
        try:
            yield
        finally:
            self.block, self._known = saved

    def mark(self) -> int:
        """How much is numbered now; give it to `forget` when what comes next is out of reach again."""
        return len(self._known)

    def forget(self, mark: int) -> None:
        """Forget the values numbered since `mark`: a dict keeps the order in which they came."""
        known = self._known
        while len(known) > mark:
            known.popitem()

    # --- emission -------------------------------------------------------------------------------------------------

    def op1(
        self, cls: type[Operation], operands: Sequence[SSAValue], type_: Attribute, props: dict[str, Attribute]
    ) -> SSAValue:
        """Append an op with one result."""
        return emit1(self.block, cls, operands, type_, props, self.loc)

    def opn(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        types: Sequence[Attribute],
        props: dict[str, Attribute] | None = None,
    ) -> Operation:
        """Append an op with any number of results."""
        return emitn(self.block, cls, operands, types, {} if props is None else props, self.loc)

    def share(
        self, cls: type[Operation], operands: Sequence[SSAValue], type_: Attribute, props: dict[str, Attribute]
    ) -> SSAValue:
        """Append a pure op with one result unless an equal one is at hand."""
        ids = self._ids
        entry = ids.get(id(type_)) or self._identify(type_)
        if props:
            parts: list[object] = [cls, entry[0], *map(id, operands)]
            # In the order of names: whoever asks may have written them down in another.
            for name in sorted(props) if len(props) > 1 else props:
                attr = props[name]
                parts += (name, (ids.get(id(attr)) or self._identify(attr))[0])
            key: object = tuple(parts)
        else:
            key = (cls, entry[0], *map(id, operands))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = emit1(self.block, cls, operands, type_, props, self.loc)
        return found

    pure = share
    """The same; a builder that folds looks at the op first."""

    def _identify(self, attr: Attribute) -> tuple[int, Attribute]:
        """The identity of an attribute's first equal; each object is hashed once, which takes microseconds."""
        entry = (id(self._canon.setdefault(attr, attr)), attr)
        self._ids[id(attr)] = entry
        return entry

    def with_regions(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        types: Sequence[Attribute],
        regions: Sequence[Region],
        props: dict[str, Attribute] | None = None,
        attrs: dict[str, Attribute] | None = None,
    ) -> Operation:
        """Append an op whose regions are already filled."""
        return emit_regions(self.block, cls, operands, types, props or {}, regions, self.loc, attrs)

    # --- constants ------------------------------------------------------------------------------------------------

    def const(self, value: int | float, type_: Attribute) -> SSAValue:
        """Scalar constant, or a splat of a vector type; one op per function."""
        found = self._consts.get((id(type_), value))
        if found is not None:  # an integer in its normal form, of the type that stands for its equals: the usual case
            return found
        elem = elem_of(type_)
        integer = _is_integer(elem)
        known = (self._ids.get(id(type_)) or self._identify(type_))[0]
        if integer:
            value = signed(int(value), bit_width(elem))
            key: object = (known, value)
        else:
            value = float(value)
            key = (known, struct.pack("<d", value))
        found = self._consts.get(key)
        if found is not None:
            return found
        if integer:
            attr: Attribute = int_attr(int(value), elem)
        else:
            check_range(value, elem)
            attr = FloatAttr(value, cast("AnyFloat", elem))
        if elem is not type_:
            attr = splat_attr(cast("VectorType", type_), value)
        op = emit_head(self.entry, self._anchor, arith.ConstantOp, type_, {"value": attr})
        self._anchor = op
        result = op.results[0]
        self._consts[key] = result
        if elem is type_:
            self.const_of[result] = value
        return result

    def i32(self, value: int) -> SSAValue:
        """i32 constant."""
        return self.const(value, i32)

    # --- integer arithmetic ---------------------------------------------------------------------------------------

    def int_binary(self, name: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """An integer op of `arith` on equal types, folded where its operands are known."""
        ca, cb = self.const_of.get(a), self.const_of.get(b)
        if ca is not None or cb is not None:
            folded = self._fold_int(name, a, b, cast(Any, ca), cast(Any, cb))
            if folded is not None:
                return folded
        return self.share(INT_BINARY[name], (a, b), a.type, {})

    def _fold_int(self, name: str, a: SSAValue, b: SSAValue, ca: int | None, cb: int | None) -> SSAValue | None:
        if ca is not None and cb is not None:
            value = fold_int(name, ca, cb, bit_width(a.type))
            return None if value is None else self.const(value, a.type)
        if ca is not None:
            if name not in _COMMUTATIVE:
                return a if ca == 0 and name in ("shli", "shrui", "shrsi") else None
            a, cb = b, ca
        if cb == 0:
            if name in ("addi", "subi", "ori", "xori", "shli", "shrui", "shrsi"):
                return a
            if name in ("muli", "andi"):
                return self.const(0, a.type)
        elif cb == 1:
            if name in ("muli", "divsi", "divui", "floordivsi", "ceildivsi", "ceildivui"):
                return a
            if name in ("remsi", "remui"):
                return self.const(0, a.type)
        return None

    def addi(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integer sum."""
        return self.int_binary("addi", a, b)

    def muli(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integer product."""
        return self.int_binary("muli", a, b)

    def cmpi(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integer comparison; i1 or a vector of i1."""
        ca, cb = self.const_of.get(a), self.const_of.get(b)
        if ca is not None and cb is not None:
            return self.const(int(fold_cmpi(predicate, int(ca), int(cb), bit_width(a.type))), i1)
        type_ = _flag_type(a.type)
        return self.share(arith.CmpiOp, (a, b), type_, {"predicate": _PREDICATES[CMPI[predicate]]})

    def select(self, cond: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a` where `cond` holds, else `b`."""
        known = self.const_of.get(cond)
        if known is not None:
            return a if known else b
        return a if a is b else self.share(arith.SelectOp, (cond, a, b), a.type, {})

    # --- floats and casts -----------------------------------------------------------------------------------------

    def float_binary(self, name: str, a: SSAValue, b: SSAValue, flags: Attribute | None = None) -> SSAValue:
        """A float op of `arith`."""
        return self.pure(FLOAT_BINARY[name], (a, b), a.type, {} if flags is None else {"fastmath": flags})

    def negf(self, a: SSAValue, flags: Attribute | None = None) -> SSAValue:
        """Float negation."""
        return self.pure(arith.NegfOp, (a,), a.type, {} if flags is None else {"fastmath": flags})

    def cmpf(self, predicate: str, a: SSAValue, b: SSAValue, flags: Attribute | None = None) -> SSAValue:
        """Float comparison."""
        type_ = _flag_type(a.type)
        props: dict[str, Attribute] = {"predicate": _PREDICATES[CMPF[predicate]]}
        if flags is not None:
            props["fastmath"] = flags
        return self.pure(arith.CmpfOp, (a, b), type_, props)

    def cast(self, name: str, a: SSAValue, type_: Attribute) -> SSAValue:
        """A conversion op of `arith`; the type is that of the result."""
        if a.type == type_:
            return a
        if name == "trunci" and isinstance(a.owner, arith.ExtUIOp):
            narrow = operands_of(a.owner)[0]
            if narrow.type == type_:
                return narrow
        known = self.const_of.get(a)
        if known is not None and name in ("extsi", "trunci", "index_cast"):
            # A flag is 0 or 1 here, and its one bit is its sign.
            return self.const(-known if name == "extsi" and a.type == i1 else known, type_)
        if known is not None and name == "extui":
            return self.const(int(known) & ((1 << bit_width(a.type)) - 1), type_)
        return self.share(CASTS[name], (a,), type_, {})

    def poison(self, type_: Attribute) -> SSAValue:
        """A value nobody has written yet."""
        return self.pure(ub.PoisonOp, (), type_, {})

    # --- vectors --------------------------------------------------------------------------------------------------

    def extract(self, v: SSAValue, at: int) -> SSAValue:
        """Element of a 1-D vector at a static position."""
        props: dict[str, Attribute] = {"static_position": i64_list((at,))}
        return self.share(vector.ExtractOp, (v,), elem_of(v.type), props)

    def insert(self, x: SSAValue, v: SSAValue, at: int) -> SSAValue:
        """1-D vector with one element replaced."""
        return self.share(vector.InsertOp, (x, v), v.type, {"static_position": i64_list((at,))})

    def broadcast(self, x: SSAValue, count: int) -> SSAValue:
        """Splat."""
        return self.pure(vector.BroadcastOp, (x,), vector_type(x.type, count), {})

    # --- layout leaves --------------------------------------------------------------------------------------------

    def leaf(self, value: SSAValue, width: int, div: int = 1) -> ValueLeaf | int:
        """An SSA integer as a leaf of the layout algebra; a known constant becomes a static leaf."""
        known = self.const_of.get(value)
        if known is not None:
            return int(known)
        return ValueLeaf(value, self, width, div)

    def leaf_value(self, leaf: Any, width: int) -> SSAValue:
        """A leaf as an SSA integer of 32 or 64 bits."""
        type_ = i64 if width == 64 else i32
        if not isinstance(leaf, ValueLeaf):
            return self.const(0 if leaf is None else leaf, type_)
        value: SSAValue = leaf.value
        if value.type == type_:
            return value
        return self.cast("extsi" if width == 64 else "trunci", value, type_)

    def combine(self, op: str, a: Any, b: Any, width: int, div: int) -> Any:
        """Emit one step of leaf arithmetic; called by `flydsl.layout` when an operand exists at run time."""
        if op == "swizzle":
            return ValueLeaf(self.swizzle(self.leaf_value(a, width), b), self, width, div)
        if op == "coord_swizzle":
            row, cs = b
            x = self.leaf_value(row, width)
            t = self.int_binary("shrui", x, self.const(cs.base_row, x.type))
            t = self.int_binary("andi", t, self.const((1 << cs.mask) - 1, x.type))
            t = self.int_binary("shli", t, self.const(cs.base_col, x.type))
            return ValueLeaf(self.int_binary("xori", self.leaf_value(a, width), t), self, width, div)
        wide = max(width, *(x.width for x in (a, b) if isinstance(x, Dyn)))
        if op == "not":
            zero = self.const(0, i64 if wide == 64 else i32)
            return ValueLeaf(self.cast("extui", self.cmpi("eq", self.leaf_value(a, wide), zero), i32), self, 32, 1)
        x, y = self.leaf_value(a, wide), self.leaf_value(b, wide)
        if op in _LEAF_COMPARE:
            return ValueLeaf(self.cast("extui", self.cmpi(_LEAF_COMPARE[op], x, y), i32), self, 32, 1)
        if op in ("and", "or"):
            zero = self.const(0, x.type)
            both = self.int_binary("andi" if op == "and" else "ori", self.cmpi("ne", x, zero), self.cmpi("ne", y, zero))
            return ValueLeaf(self.cast("extui", both, i32), self, 32, 1)
        name = _LEAF_OPS[op]
        # Static is what the leaves say it is: what folding finds out about run-time operands must not change a layout.
        known = self._fold_int(name, x, y, a if type(a) is int else None, b if type(b) is int else None)
        if known is not None and known in self.const_of and not (known is x and type(a) is not int):
            return int(self.const_of[known])
        return ValueLeaf(self.int_binary(name, x, y), self, wide, div)

    def swizzle(self, x: SSAValue, s: Swizzle) -> SSAValue:
        """`x ^ ((x & mask) >> shift)`."""
        if s.mask == 0:
            return x
        bits = self.int_binary("andi", x, self.const(((1 << s.mask) - 1) << (s.base + s.shift), x.type))
        return self.int_binary("xori", x, self.int_binary("shrui", bits, self.const(s.shift, x.type)))


_i64_lists: dict[tuple[int, ...], DenseArrayBase[IntegerType]] = {}


def i64_list(values: tuple[int, ...]) -> DenseArrayBase[IntegerType]:
    """Interned `array<i64: ...>`."""
    found = _i64_lists.get(values)
    if found is None:
        found = _i64_lists[values] = _int_array(i64, "q", values)
    return found


__all__ = [
    "CASTS", "CMPF", "CMPI", "FLOAT_BINARY", "INT_BINARY", "Builder", "elem_of", "i1", "i32", "i32_list", "i64",
    "i64_list", "i128", "index", "int_attr", "operands_of",
]  # fmt: skip
