"""A builder that folds everything it is asked to build.

`canonicalize` is a copy of a module through this builder. A pass that runs together with a `canonicalize` behind it
builds with it from the start, and leaves what the two would leave one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import ub
from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects.upstream import llvm, vector
from ..ir import arith
from ..ir.arith import ROUNDING_MODE
from ..ir.builder import CASTS, FLOAT_BINARY, INT_BINARY, Builder, operands_of
from ..ir.emitter import emit_head
from ..ir.types import dense_ints, vector_type
from ..ir.values import OP_RESULTS
from . import folds
from .lanes import Lanes, lanes_in

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ArrayAttr, IntegerAttr

Props = dict[str, Attribute]
Fold = Callable[["FoldingBuilder", Sequence[SSAValue], Attribute, Props], SSAValue | None]


class FoldingBuilder(Builder):
    """Folds and numbers while building.

    Integers and addresses are computed in the outermost block that has their operands: where they are does then not
    depend on which of several users came first.
    """

    __slots__ = ("_depths", "_open", "bypassed", "divisors", "in_kernel", "put_together")

    def __init__(self, block: Block | None = None):
        super().__init__(block)
        self._open: list[Block] = []
        """The blocks around the current one, from the entry of the function on."""
        self._depths: dict[Block, int] = {}
        self.divisors: dict[SSAValue, int] = {}
        """Numbers that integers are known to be multiples of."""
        self.bypassed: list[Operation] = []
        """Conversions of floats that were converted back: for nothing, unless somebody else takes them."""
        self.put_together: dict[SSAValue, Lanes] = {}
        """What inserts of one block have put together: elements come one by one, and each looks at all before it."""
        self.in_kernel = False
        """Whether a kernel is built; elsewhere swizzles stay as they are."""

    @contextmanager
    def open_function(self, entry: Block) -> Generator[None]:
        """Build into the entry block of a new function."""
        saved = self._open, self._depths
        self._open, self._depths = [entry], {entry: 0}
        self.put_together.clear()
        try:
            with super().open_function(entry):
                yield
        finally:
            self._open, self._depths = saved

    @contextmanager
    def region(self, block: Block) -> Generator[None]:
        """Build into a nested block; values numbered inside do not leak out, but those computed further out do."""
        saved_block, mark, known = self.block, self.mark(), self._known
        nested = bool(self._open) and self._open[-1] is saved_block
        if nested:
            self._depths[block] = len(self._open)
            self._open.append(block)
        self.block = block
        try:
            yield
        finally:
            self.block = saved_block
            if nested:
                self._open.pop()
                del self._depths[block]
            further_out: list[tuple[object, SSAValue]] = []
            while len(known) > mark:
                key, value = known.popitem()
                owner: object = value.owner
                if nested and owner.parent is not block:
                    further_out.append((key, value))
            known.update(reversed(further_out))

    def share(self, cls: type[Operation], operands: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue:
        if cls in _ANYWHERE and len(self._open) > 1 and self._open[-1] is self.block:
            here = len(self._open) - 1
            depth = 0
            depths = self._depths
            value: Any
            for value in operands:
                home = value.op.parent if type(value) in OP_RESULTS else value.block  # pyright: ignore[reportUnknownArgumentType]
                known = depths.get(home, here)
                if known > depth:
                    depth = known
            if depth < here and (cls not in _DIVISIONS or self.const_of.get(operands[1])):
                inner, self.block = self.block, self._open[depth]
                try:
                    return Builder.share(self, cls, operands, type_, props)
                finally:
                    self.block = inner
        return Builder.share(self, cls, operands, type_, props)

    def pure(self, cls: type[Operation], operands: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue:
        fold = FOLDS.get(cls)
        if fold is not None:
            found = fold(self, operands, type_, props)
            if found is not None:
                return found
        return self.share(cls, operands, type_, props)

    def int_binary(self, name: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return folds.int_binary(self, name, a, b)

    def cmpi(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return folds.cmpi(self, predicate, a, b)

    def select(self, cond: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return folds.select(self, cond, a, b)

    def cast(self, name: str, a: SSAValue, type_: Attribute) -> SSAValue:
        return folds.cast_value(self, name, a, type_)

    def extract(self, v: SSAValue, at: int) -> SSAValue:
        return folds.extract(self, v, at)

    def insert(self, x: SSAValue, v: SSAValue, at: int) -> SSAValue:
        return folds.insert(self, x, v, at)

    def slice(self, v: SSAValue, at: int, count: int) -> SSAValue:
        """Consecutive elements of a 1-D vector."""
        return folds.extract_slice(self, v, at, count)

    def poison(self, type_: Attribute) -> SSAValue:
        """A value nobody has written yet: like a constant, one op per function, whoever says so and where."""
        key = ("poison", (self._ids.get(id(type_)) or self._identify(type_))[0])
        found = self._consts.get(key)
        if found is None:
            op = self._anchor = emit_head(self.entry, self._anchor, ub.PoisonOp, type_, {})
            found = self._consts[key] = op.results[0]
        return found

    def broadcast(self, x: SSAValue, count: int) -> SSAValue:
        return _splat(self, x, vector_type(x.type, count))


def _splat(b: FoldingBuilder, x: SSAValue, type_: Attribute) -> SSAValue:
    if x.type == type_:
        return x
    known = b.const_of.get(x)
    return b.share(xvector.BroadcastOp, (x,), type_, {}) if known is None else b.const(known, type_)


def _flat(*types: object) -> bool:
    """Whether vectors have one dimension."""
    return all(len(t.shape.data) == 1 for t in types if type(t) is VectorType)


def _int_binary(name: str) -> Fold:
    return lambda b, xs, type_, props: folds.int_binary(b, name, xs[0], xs[1])


def _float_binary(name: str) -> Fold:
    return lambda b, xs, type_, props: folds.float_binary(b, name, xs[0], xs[1], props)


def _cast(name: str) -> Fold:
    def fold(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue | None:
        return None if ROUNDING_MODE in props else folds.cast_value(b, name, xs[0], type_)

    return fold


def _bitcast(cls: type[Operation]) -> Fold:
    return lambda b, xs, type_, props: folds.bitcast(b, cls, xs[0], type_)


def _cmpi(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue:
    return folds.cmpi(b, folds.CMPI_NAMES[cast(Any, props["predicate"]).value.data], xs[0], xs[1])


def _select(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue:
    return folds.select(b, *xs)


def _negf(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue | None:
    owner = xs[0].owner
    return operands_of(owner)[0] if isinstance(owner, arith.NegfOp) else None


def _extract_value(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue:
    return folds.extract_value(b, xs[0], dense_ints(props["position"]), type_)


def _gep(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue:
    return folds.element_pointer(b, props, xs, type_)


def _position(b: FoldingBuilder, index: Sequence[SSAValue], count: int, props: Props) -> int | None:
    """Where a 1-D extract or insert goes, if that is known and in range."""
    (at,) = dense_ints(props["static_position"])
    if index:
        known = b.const_of.get(index[0])
        at = -1 if known is None else int(known)
    return at if 0 <= at < count else None


def _extract(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue | None:
    v, *index = xs
    if not _flat(v.type) or type(type_) is VectorType:
        return None
    at = _position(b, index, lanes_in(v.type), props)
    return None if at is None else folds.extract(b, v, at)


def _insert(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue | None:
    x, v, *index = xs
    if not _flat(v.type) or type(x.type) is VectorType:
        return None
    at = _position(b, index, lanes_in(v.type), props)
    return None if at is None else folds.insert(b, x, v, at)


def slice_start(props: Props) -> int | None:
    """Where a contiguous 1-D slice starts."""
    offsets, strides = (
        cast("ArrayAttr[IntegerAttr]", props["offsets"]).data,
        cast("ArrayAttr[IntegerAttr]", props["strides"]).data,
    )
    return offsets[0].value.data if len(offsets) == 1 and strides[0].value.data == 1 else None


def _extract_slice(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue | None:
    at = slice_start(props) if _flat(xs[0].type, type_) else None
    return None if at is None else folds.extract_slice(b, xs[0], at, lanes_in(type_))


def _insert_slice(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue | None:
    at = slice_start(props) if _flat(xs[0].type, type_) else None
    return None if at is None else folds.insert(b, xs[0], xs[1], at)


def _from_elements(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue | None:
    return folds.from_elements(b, xs, type_) if _flat(type_) and xs else None


def _shape_cast(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue:
    return folds.shape_cast(b, xs[0], type_)


def _transpose(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue | None:
    order = dense_ints(props["permutation"])
    return xs[0] if order == tuple(range(len(order))) else None


def _broadcast(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue:
    return _splat(b, xs[0], type_)


def _shuffle(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue | None:
    x, y = xs
    if not _flat(x.type, type_):
        return None
    mask = dense_ints(props["mask"])
    count = lanes_in(x.type)
    if x.type == type_ and mask == tuple(range(count)):
        return x
    if y.type == type_ and mask == tuple(range(count, count + len(mask))):
        return y
    splat = folds.splat_of(b, x) if x is y else None
    return None if splat is None else _splat(b, splat, type_)


_DIVISIONS = frozenset(cls for name, cls in INT_BINARY.items() if "div" in name or "rem" in name)
_ANYWHERE: frozenset[type[Operation]] = frozenset(
    {
        *INT_BINARY.values(),
        *(CASTS[name] for name in ("extsi", "extui", "trunci", "index_cast")),
        arith.CmpiOp,
        llvm.ExtractValueOp,
        llvm.GEPOp,
        llvm.PtrToIntOp,
        llvm.IntToPtrOp,
    }
)
"""What costs little and harms nobody where it is not needed; a division must know that it divides."""


def _poison(b: FoldingBuilder, xs: Sequence[SSAValue], type_: Attribute, props: Props) -> SSAValue:
    return b.poison(type_)


FOLDS: dict[type[Operation], Fold] = {
    ub.PoisonOp: _poison,
    arith.CmpiOp: _cmpi,
    arith.SelectOp: _select,
    arith.NegfOp: _negf,
    arith.BitcastOp: _bitcast(arith.BitcastOp),
    xvector.BitcastOp: _bitcast(xvector.BitcastOp),
    llvm.ExtractValueOp: _extract_value,
    llvm.GEPOp: _gep,
    xvector.ExtractOp: _extract,
    xvector.InsertOp: _insert,
    xvector.BroadcastOp: _broadcast,
    xvector.ShuffleOp: _shuffle,
    vector.ExtractStridedSliceOp: _extract_slice,
    vector.InsertStridedSliceOp: _insert_slice,
    vector.FromElementsOp: _from_elements,
    vector.ShapeCastOp: _shape_cast,
    vector.TransposeOp: _transpose,
    **{cls: _int_binary(name) for name, cls in INT_BINARY.items()},
    **{cls: _float_binary(name) for name, cls in FLOAT_BINARY.items()},
    **{cls: _cast(name) for name, cls in CASTS.items() if name != "bitcast"},
}
"""Folds by class of op; each gives the value that stands for the op, or None."""
