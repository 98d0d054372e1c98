"""Folds on single ops: integer identities, chains of casts, structs, addresses, vectors.

Every function takes operands of the module under construction and gives a value of it: an operand, a constant, or a new
op. Operands are as simple as they get when a fold sees them, so no fold is tried twice, and what comes out depends on
the operands alone: to fold while building and to fold what was built comes to the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import ub
from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects.upstream import llvm, vector
from ..ir import arith
from ..ir.builder import CMPI, FLOAT_BINARY, INT_BINARY, Builder, elem_of, i1, i32_list, i64_list, operands_of
from ..ir.fold import fold_float
from ..ir.types import bit_width, dense_ints, is_splat, vector_type
from ..ir.values import OP_RESULTS
from .lanes import Lanes, Part, lanes_in, put_in
from .swizzles import simplified

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, IntegerType

    from .folding import FoldingBuilder

CMPI_NAMES = {i: p for p, i in CMPI.items()}
_COMMUTATIVE = {"addi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui"}
_IDEMPOTENT = {"andi", "ori", "minsi", "maxsi", "minui", "maxui"}
_ABSORBS: dict[str, type[Operation]] = {"andi": arith.OrIOp, "ori": arith.AndIOp}
_SWAPPED = {
    "eq": "eq", "ne": "ne", "slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle",
    "ult": "ugt", "ule": "uge", "ugt": "ult", "uge": "ule",
}  # fmt: skip


def _is(value: SSAValue, cls: type[Operation]) -> bool:
    # `isinstance` asks the metaclass of xDSL's ops, in Python.
    return cls in type(value.owner).__mro__


def _args(value: SSAValue) -> tuple[SSAValue, ...]:
    return operands_of(cast(Operation, value.owner))


# --- integers ---------------------------------------------------------------------------------------------------------


def int_binary(b: FoldingBuilder, name: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """An integer op: constants go right and are put together, equal operands cancel."""
    known = b.const_of
    cx, cy = known.get(x), known.get(y)
    if cx is not None and cy is None and name in _COMMUTATIVE:
        x, y, cx, cy = y, x, cy, cx
    if x is y:
        if name in ("subi", "xori"):
            return b.const(0, x.type)
        if name in _IDEMPOTENT:
            return x
    if name in _ABSORBS:
        found = _absorbed(name, x, y)
        if found is not None:
            return found
    if name == "xori" and b.in_kernel:
        found = simplified(b, x, y)
        if found is not None:
            return found
    if cy is not None and cx is None and type(x.type) is not VectorType:
        if name in ("andi", "ori") and (cy == -1 or (cy == 1 and x.type == i1)):
            return x if name == "andi" else y
        found = _reassociated(b, name, x, int(cy))
        if found is not None:
            return found
    return Builder.int_binary(b, name, x, y)


def _absorbed(name: str, x: SSAValue, y: SSAValue) -> SSAValue | None:
    """`x & (x | y)` and `x | (x & y)` are `x`, whichever way round they are written."""
    for whole, part in ((x, y), (y, x)):
        if _is(part, _ABSORBS[name]) and any(operand is whole for operand in _args(part)):
            return whole
    return None


def _reassociated(b: FoldingBuilder, name: str, x: SSAValue, c: int) -> SSAValue | None:
    """`(u + c1) - c2` and the like as one op on `u`."""
    if name not in ("addi", "subi", "muli", "andi", "ori", "xori"):
        return None
    inner = cast(Any, type(x.owner))
    if name in ("addi", "subi") and inner in (arith.AddiOp, arith.SubiOp):
        u, v = _args(x)
        cu, cv = b.const_of.get(u), b.const_of.get(v)
        c = c if name == "addi" else -c
        if cv is not None:
            total = (int(cv) if inner is arith.AddiOp else -int(cv)) + c
            return b.int_binary("addi", u, b.const(total, x.type))
        if cu is not None and inner is arith.SubiOp:
            return b.int_binary("subi", b.const(int(cu) + c, x.type), v)
        return None
    if INT_BINARY[name] is inner:
        u, v = _args(x)
        cv = b.const_of.get(v)
        if cv is not None:
            constant = b.int_binary(name, v, b.const(c, x.type))
            return b.int_binary(name, u, constant)
    return None


def cmpi(b: FoldingBuilder, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """A comparison: constants go right, flags that were widened are compared as flags."""
    cx, cy = b.const_of.get(x), b.const_of.get(y)
    is_flag = x.type == i1
    if x is y and not isinstance(x.type, VectorType):
        return b.const(int(predicate in ("eq", "sle", "sge", "ule", "uge")), i1)
    if cx is not None and cy is None:
        return cmpi(b, _SWAPPED[predicate], y, x)
    if cy is not None and predicate in ("eq", "ne"):
        if _is(x, arith.ExtUIOp) and _args(x)[0].type == i1 and cy in (0, 1):
            flag = _args(x)[0]
            return flag if (cy == 0) == (predicate == "ne") else negated(b, flag)
        if is_flag and cy in (0, 1, -1):
            return x if (cy == 0) == (predicate == "ne") else negated(b, x)
    return Builder.cmpi(b, predicate, x, y)


def negated(b: FoldingBuilder, flag: SSAValue) -> SSAValue:
    """`not flag`; a comparison is turned around instead."""
    if _is(flag, arith.CmpiOp):
        owner = cast(arith.CmpiOp, flag.owner)
        opposite = {"eq": "ne", "slt": "sge", "sle": "sgt", "ult": "uge", "ule": "ugt"}
        opposite |= {v: k for k, v in opposite.items()}
        return b.cmpi(opposite[CMPI_NAMES[owner.predicate.value.data]], *_args(flag))
    if _is(flag, arith.XOrIOp) and b.const_of.get(_args(flag)[1]) in (1, -1):
        return _args(flag)[0]
    return b.int_binary("xori", flag, b.const(1, i1))


def select(b: FoldingBuilder, cond: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
    """A choice; between two flags it is the condition or its opposite."""
    cx, cy = b.const_of.get(x), b.const_of.get(y)
    if x.type == i1 and cond.type == i1 and cx is not None and cy is not None and bool(cx) != bool(cy):
        return cond if cx else negated(b, cond)
    if _is(cond, arith.XOrIOp) and b.const_of.get(_args(cond)[1]) in (1, -1) and cond.type == i1:
        return b.select(_args(cond)[0], y, x)
    return Builder.select(b, cond, x, y)


# --- casts ------------------------------------------------------------------------------------------------------------


def cast_value(b: FoldingBuilder, name: str, x: SSAValue, type_: Attribute) -> SSAValue:
    """A conversion, put together with the one before it."""
    if x.type == type_:
        return x
    if name == "bitcast":
        return bitcast(b, arith.BitcastOp, x, type_)
    owner = x.owner
    if type(x) in OP_RESULTS:
        owner = cast(Operation, owner)
        source = operands_of(owner)[0] if len(operands_of(owner)) == 1 else x
        found = _chained(b, name, owner, source, type_)
        if found is not None:
            return found
    return Builder.cast(b, name, x, type_)


def _chained(b: FoldingBuilder, name: str, inner: Operation, source: SSAValue, type_: Attribute) -> SSAValue | None:
    kind = type(inner)
    if name == "extsi" and kind is arith.ExtUIOp or name == "extui" and kind is arith.ExtUIOp:
        return cast_value(b, "extui", source, type_)
    if name == "extsi" and kind is arith.ExtSIOp:
        return cast_value(b, "extsi", source, type_)
    if name == "trunci" and kind is arith.TruncIOp:
        return cast_value(b, "trunci", source, type_)
    if name == "trunci" and kind in (arith.ExtSIOp, arith.ExtUIOp):
        have, want = bit_width(elem_of(source.type)), bit_width(elem_of(type_))
        if have == want:
            return source
        if have > want:
            return cast_value(b, "trunci", source, type_)
        return cast_value(b, "extsi" if kind is arith.ExtSIOp else "extui", source, type_)
    if name == "index_cast" and kind is arith.IndexCastOp:
        middle = inner.results[0].type
        wide = isinstance(middle, IndexType) or bit_width(middle) >= bit_width(elem_of(source.type))
        return source if source.type == type_ and wide else None
    if name == "truncf" and kind is arith.ExtFOp and source.type == type_:
        b.bypassed.append(inner)
        return source
    return None


# --- floats -----------------------------------------------------------------------------------------------------------


def float_binary(b: FoldingBuilder, name: str, x: SSAValue, y: SSAValue, props: dict[str, Attribute]) -> SSAValue:
    """A float op: constants fold in their own format; only identities that hold for every value are used."""
    cx, cy = b.const_of.get(x), b.const_of.get(y)
    if cx is not None and cy is not None and name in ("addf", "subf", "mulf", "divf"):
        return b.const(fold_float(name, float(cx), float(cy), str(x.type)), x.type)
    if cy == 1.0 and name in ("mulf", "divf"):
        return x
    if cx == 1.0 and name == "mulf":
        return y
    if cy == 0.0 and cy is not None and ((name == "subf") != _negative_zero(cy)) and name in ("addf", "subf"):
        return x
    return b.share(FLOAT_BINARY[name], (x, y), x.type, props)


def _negative_zero(value: float) -> bool:
    return str(float(value)) == "-0.0"


# --- structs and addresses --------------------------------------------------------------------------------------------


def _positions(op: Operation) -> tuple[int, ...]:
    return dense_ints(op.properties["position"])


def extract_value(b: FoldingBuilder, container: SSAValue, at: tuple[int, ...], type_: Attribute) -> SSAValue:
    """A field of a struct: found where it was inserted, or read with one path."""
    while at:
        owner: Any = container.owner
        if type(owner) is llvm.ExtractValueOp:
            container, at = operands_of(owner)[0], (*_positions(owner), *at)
            continue
        if type(owner) is not llvm.InsertValueOp:
            break
        before, value = operands_of(owner)
        put = _positions(owner)
        if at[: len(put)] == put:
            container, at = value, at[len(put) :]
        elif put[: len(at)] == at:
            break
        else:
            container = before
    if not at:
        return container
    if _is(container, llvm.UndefOp):
        return b.share(llvm.UndefOp, (), type_, {})
    return b.share(llvm.ExtractValueOp, (container,), type_, {"position": i64_list(at)})


def element_pointer(
    b: FoldingBuilder, props: dict[str, Attribute], operands: Sequence[SSAValue], type_: Attribute
) -> SSAValue:
    """An address: constant indices are part of the op."""
    raw = dense_ints(props["rawConstantIndices"])
    if len(operands) > 1:
        rest = iter(operands[1:])
        kept: list[SSAValue] = []
        indices: list[int] = []
        for index in raw:
            if index != llvm.GEP_DYNAMIC:
                indices.append(index)
                continue
            value = next(rest)
            known = b.const_of.get(value)
            if known is not None and llvm.GEP_DYNAMIC < known < -llvm.GEP_DYNAMIC:
                indices.append(int(known))
            else:
                indices.append(llvm.GEP_DYNAMIC)
                kept.append(value)
        if len(kept) + 1 != len(operands):
            props, raw = {**props, "rawConstantIndices": i32_list(indices)}, tuple(indices)
            operands = [operands[0], *kept]
    return b.share(llvm.GEPOp, operands, type_, props) if any(raw) else operands[0]


# --- vectors ----------------------------------------------------------------------------------------------------------


def _count(value: SSAValue) -> int:
    return lanes_in(value.type)


def _one_dimensional(value: SSAValue) -> bool:
    type_: Attribute = value.type
    return isinstance(type_, VectorType) and len(cast("VectorType[IntegerType]", type_).get_shape()) == 1


def _offset(op: Operation) -> int | None:
    """Offset of a contiguous 1-D slice."""
    offsets = cast("ArrayAttr[IntegerAttr]", op.properties["offsets"]).data
    strides = cast("ArrayAttr[IntegerAttr]", op.properties["strides"]).data
    if len(offsets) != 1 or strides[0].value.data != 1:
        return None
    return offsets[0].value.data


def _static_index(op: Operation) -> int | None:
    """Position of a 1-D extract or insert."""
    positions = dense_ints(op.properties["static_position"])
    return positions[0] if len(positions) == 1 and positions[0] >= 0 else None


def splat_of(b: FoldingBuilder, value: SSAValue) -> SSAValue | None:
    """The scalar a vector holds in every place, if that is visible."""
    owner: Any = value.owner
    kind = cast(type[Operation], type(owner))
    if kind is xvector.BroadcastOp:
        source = operands_of(owner)[0]
        return None if isinstance(source.type, VectorType) else source
    if kind is arith.ConstantOp:
        attr = owner.properties["value"]
        if isinstance(attr, DenseIntOrFPElementsAttr) and is_splat(cast(Any, attr)):
            return b.const(cast("Sequence[float]", attr.get_values())[0], elem_of(value.type))
    return None


def extract(b: FoldingBuilder, v: SSAValue, at: int) -> SSAValue:
    """An element of a 1-D vector, found where it was put."""
    while True:
        owner = v.owner
        kind = type(owner)
        if kind is xvector.InsertOp and len(operands_of(cast(Operation, owner))) == 2:
            put = _static_index(cast(Operation, owner))
            if put is None:
                break
            value, before = _args(v)
            if put == at:
                return value
            v = before
        elif kind is vector.InsertStridedSliceOp:
            put = _offset(cast(Operation, owner))
            part, before = _args(v)
            if put is None or not _one_dimensional(part):
                break
            inside = put <= at < put + _count(part)
            v, at = (part, at - put) if inside else (before, at)
        elif kind is vector.ExtractStridedSliceOp:
            start = _offset(cast(Operation, owner))
            if start is None:
                break
            v, at = _args(v)[0], at + start
        elif kind is vector.FromElementsOp:
            return _args(v)[at]
        elif kind is xvector.ShuffleOp:
            x, y = _args(v)
            source = dense_ints(cast(Operation, owner).properties["mask"])[at]
            if source < 0:
                break
            v, at = (x, source) if source < _count(x) else (y, source - _count(x))
        elif kind is ub.PoisonOp:
            return b.poison(elem_of(v.type))
        else:
            break
    splat = splat_of(b, v)
    return Builder.extract(b, v, at) if splat is None else splat


def extract_slice(b: FoldingBuilder, v: SSAValue, at: int, count: int) -> SSAValue:
    """Consecutive elements of a 1-D vector, found where they were put."""
    while True:
        if at == 0 and count == _count(v):
            return v
        owner = v.owner
        kind = type(owner)
        if kind is vector.ExtractStridedSliceOp:
            start = _offset(cast(Operation, owner))
            if start is None:
                break
            v, at = _args(v)[0], at + start
        elif kind is vector.InsertStridedSliceOp or kind is xvector.InsertOp:
            lanes = chain(v)
            if lanes is None:
                break
            lanes.home = b.block
            return lanes.slice(b, at, count)
        elif kind is vector.FromElementsOp:
            parts = _args(v)[at : at + count]
            return b.pure(vector.FromElementsOp, parts, vector_type(elem_of(v.type), count), {})
        else:
            break
    type_ = vector_type(elem_of(v.type), count)
    if _is(v, ub.PoisonOp):
        return b.poison(type_)
    splat = splat_of(b, v)
    if splat is not None:
        known = b.const_of.get(splat)
        return b.broadcast(splat, count) if known is None else b.const(known, type_)
    props = vector.ExtractStridedSliceOp.properties_for(at, count)
    return b.share(vector.ExtractStridedSliceOp, (v,), type_, props)


def chain(v: SSAValue) -> Lanes | None:
    """The inserts of one block that a vector ends with; None where it ends with none that can be followed."""
    top = cast(Operation, v.owner)
    block = top.parent
    parts: list[Part] = []
    at: SSAValue = v
    while isinstance(at.owner, Operation) and at.owner.parent is block:
        kind = type(at.owner)
        if kind is xvector.InsertOp and len(_args(at)) == 2:
            put = _static_index(at.owner)
            count = 1
        elif kind is vector.InsertStridedSliceOp and _one_dimensional(_args(at)[0]):
            put = _offset(at.owner)
            count = _count(_args(at)[0])
        else:
            break
        if put is None:
            break
        value, before = _args(at)
        parts.append(Part(put, count, value, 0, at.owner.location))
        at = before
    if not parts:
        return None
    found = Lanes.of(at, cast(Block, block))
    found.parts = {part.at: part for part in reversed(parts)}
    found.units = all(part.width == 1 for part in parts)
    if sum(part.width for part in parts) == found.count:
        found.base = None
    return found


def insert(b: FoldingBuilder, x: SSAValue, v: SSAValue, at: int) -> SSAValue:
    """A 1-D vector with an element, or consecutive ones, replaced; what is overwritten is forgotten."""
    owner: Any = v.owner
    before = None
    if type(owner) in _INSERTS and owner.parent is b.block:
        before = b.put_together.get(v) or chain(v)
    if before is None:
        before = Lanes.of(v, b.block)
    after = before.put(b, x, at)
    if not (after.base is before.base and len(after.parts) == len(before.parts) + 1):
        return after.value(b)
    made = put_in(b, x, v, at)
    owner = made.owner
    if owner.parent is b.block and owner.location is b.loc:
        b.put_together[made] = after
    return made


_INSERTS = (xvector.InsertOp, vector.InsertStridedSliceOp)


def from_elements(b: FoldingBuilder, parts: Sequence[SSAValue], type_: Attribute) -> SSAValue:
    """A vector of scalars; elements of one vector in their order are that vector, or a slice of it."""
    first = parts[0]
    owner = first.owner
    if isinstance(owner, xvector.ExtractOp):
        source, start = operands_of(owner)[0], _static_index(owner)
        if (
            (source.type == type_ or (len(parts) > 1 and _one_dimensional(source)))
            and start is not None
            and all(
                isinstance(p.owner, xvector.ExtractOp)
                and operands_of(p.owner)[0] is source
                and _static_index(p.owner) == start + i
                for i, p in enumerate(parts)
            )
        ):
            return b.slice(source, start, len(parts))
    return b.share(vector.FromElementsOp, parts, type_, {})


def shape_cast(b: FoldingBuilder, x: SSAValue, type_: Attribute) -> SSAValue:
    """A vector in another shape; a turned vector that is flat before and after is one shuffle."""
    if isinstance(x.owner, vector.ShapeCastOp):
        x = operands_of(x.owner)[0]
    if x.type == type_:
        return x
    if isinstance(x.owner, vector.TransposeOp) and len(cast(VectorType, type_).get_shape()) == 1:
        (source,) = operands_of(x.owner)
        if isinstance(source.owner, vector.ShapeCastOp):
            (flat,) = operands_of(source.owner)
            if _one_dimensional(flat):
                shape = list(cast(VectorType, source.type).get_shape())
                order = list(dense_ints(x.owner.properties["permutation"]))
                mask = i64_list(tuple(row_major_permutation(shape, order)))
                return b.pure(xvector.ShuffleOp, (flat, flat), type_, {"mask": mask})
    return b.share(vector.ShapeCastOp, (x,), type_, {})


def row_major_permutation(shape: list[int], order: list[int]) -> list[int]:
    """Where each element of a transposed row-major vector comes from.

    >>> row_major_permutation([2, 3], [1, 0])
    [0, 3, 1, 4, 2, 5]
    """
    steps = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        steps[i] = steps[i + 1] * shape[i + 1]
    found = [0]
    for mode in order:
        found = [i + k * steps[mode] for i in found for k in range(shape[mode])]
    return found


def bitcast(b: FoldingBuilder, cls: type[Operation], x: SSAValue, type_: Attribute) -> SSAValue:
    """A value seen as another type; twice is once, and back is nothing, whichever dialect's op led there."""
    if isinstance(x.owner, (cls, llvm.BitcastOp)):
        seen = operands_of(x.owner)[0]
        x = seen if isinstance(x.owner, cls) or seen.type == type_ else x
    return x if x.type == type_ else b.share(cls, (x,), type_, {})
