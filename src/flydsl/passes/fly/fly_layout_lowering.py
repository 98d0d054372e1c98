"""`fly-layout-lowering`: all layout algebra becomes `arith`; copies and gemms become atom calls.

The value map holds layout-algebra objects whose leaves are SSA integers, so the very functions that infer types emit
the arithmetic here. A pointer under way keeps its run-time and its static offset apart (`_Pointer`), so equal run-time
parts are shared and static parts stay visible as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product as cartesian
from typing import Any, cast

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, i1
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ... import layout as L
from ...dialects.fly import traversal
from ...dialects.fly.atoms import CopyAtomType, MmaAtomType, UniversalCopyType, copy_atom_type
from ...dialects.fly.forms import groups_of
from ...dialects.fly.infer import python_value
from ...dialects.fly.ops import OPS, FlyOp
from ...dialects.fly.semantics import (
    SEMANTICS,
    IterValue,
    View,
    add_offset,
    decomposition,
    object_of,
    offset_pointer_type,
    type_of_object,
)
from ...dialects.fly.types import (
    IntTupleType,
    PointerType,
    int_tuple_type,
    is_static,
    linear_layout,
    static_data,
    type_of,
)
from ...errors import DSLCompileError, LayoutError
from ...ir import arith
from ...ir.builder import Builder, i32_list, i64, i64_list, int_attr, operands_of
from ...ir.enums import AddressSpace
from ...ir.types import bit_width
from ...ir.values import SSA_CLASSES
from ...layout import Basis, ComposedLayout, Dyn, Layout, ValueLeaf
from ...layout.memo import memo
from ...lowering.atom_state import (
    ATOM_TYPES,
    AtomWithState,
    atom_of,
    fresh_atom,
    get_atom,
    make_tiled,
    refuse_coordinates,
    set_value,
)
from ...lowering.rebuild import Handler, Rebuilder, remove_dead
from ..base import Form, Part, Pass
from .adjacent_copies import copy_adjacent, takes_vectors
from .expand_print import expand_print
from .vector_access import load_vec, permutation, spelled_permutation, store_vec


class Pointer(IterValue):
    """`base + dynamic + static`, in elements; IR is emitted when the sum is needed."""

    __slots__ = ("_moved", "_owner", "_type", "base", "base_type", "dynamic", "static")

    def __init__(
        self,
        owner: LayoutLowering,
        base: SSAValue,
        base_type: PointerType,
        dynamic: L.IntTuple = None,
        static: int = 0,
        moved: list[tuple[Block, SSAValue, PointerType]] | None = None,
    ):
        self._owner = owner
        self.base = base
        """Where the offsets start: a value, or what a subclass of the lowering has for memory that is none."""
        self.base_type = base_type
        self.dynamic = dynamic
        """Run-time offset, or None."""
        self.static = static
        self._type: PointerType | None = None
        self._moved = [] if moved is None else moved
        """`base + dynamic` as it was last emitted, and where: pointers at static distances share it."""

    @property
    def type(self) -> PointerType:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What is known of the address."""
        type_ = self._type
        if type_ is None:
            type_ = self.base_type
            if self.dynamic is not None:
                type_ = offset_pointer_type(type_, self.dynamic)
            if self.static:
                type_ = offset_pointer_type(type_, self.static)
            self._type = type_
        return type_

    def offset(self, by: L.IntTuple) -> Pointer:
        if type(by) is not int:
            by = L.unwrap(by)
        if type(by) is int:
            if not by:
                return self
            return Pointer(self._owner, self.base, self.base_type, self.dynamic, self.static + by, self._moved)
        dynamic = by if self.dynamic is None else L.int_tuple_add(self.dynamic, by)
        return Pointer(self._owner, self.base, self.base_type, dynamic, self.static)

    def value(self) -> SSAValue:
        """The pointer as an SSA value."""
        at, type_ = self.base, self.base_type
        if self.dynamic is not None:
            block = self._owner.b.block
            if not self._moved or self._moved[0][0] is not block:
                after = offset_pointer_type(type_, self.dynamic)
                self._moved[:] = [(block, self._owner.advance(at, type_, self.dynamic, after), after)]
            _, at, type_ = self._moved[0]
        if self.static:
            at = self._owner.advance(at, type_, self.static, offset_pointer_type(type_, self.static))
        return at


def materialise(b: Builder, obj: Any) -> SSAValue:
    """IR value of an algebra object in normal form."""
    if isinstance(obj, SSAValue):
        return obj  # pyright: ignore[reportUnknownVariableType]
    if type(obj) is View:
        base = obj.iter.value() if isinstance(obj.iter, Pointer) else materialise(b, obj.iter)
        return b.pure(OPS["make_view"], (base, materialise(b, obj.layout)), type_of_object(obj), {})
    if isinstance(obj, Pointer):
        return obj.value()
    if type(obj) is Layout:
        parts = (materialise(b, obj.shape), materialise(b, obj.stride))
        return b.pure(OPS["make_layout"], parts, type_of(obj), {})
    if type(obj) is ComposedLayout:
        parts = tuple(materialise(b, p) for p in (obj.inner, obj.offset, obj.outer))
        return b.pure(OPS["make_composed_layout"], parts, type_of(obj), {})
    if isinstance(obj, AtomWithState):
        return obj.materialise(b, lambda: materialise(b, obj.type))
    if isinstance(obj, CopyAtomType):
        return b.pure(OPS["make_copy_atom"], (), obj, {"valBits": int_attr(obj.val_bits)})
    if isinstance(obj, MmaAtomType):
        return b.pure(OPS["make_mma_atom"], (), obj, {})
    if isinstance(obj, (L.Swizzle, L.CoordSwizzle, L.Tile)):
        return b.pure(OPS["static"], (), type_of(obj), {})
    leaves = [b.leaf_value(leaf, leaf.width) for leaf in L.dynamic_leaves(obj)]
    return b.pure(OPS["make_int_tuple"], leaves, int_tuple_type(obj), {})


def _is_written(owner: object) -> bool:
    """Whether a constant that stands for the result of an op needed no folding."""
    return type(owner) is arith.ConstantOp or (isinstance(owner, Operation) and owner.name.startswith("fly."))


class LayoutLowering(Rebuilder):
    """The lowering. What it emits for memory and atoms is behind methods, so that a conversion can go on from there."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[SSAValue] = set()
        """Scalars taken out of tuples whose leaves were no constants by themselves."""
        self.takes_vectors = False
        """Whether neighbours in memory are copied at once."""

    def run(self, module: ModuleOp) -> ModuleOp:
        self.takes_vectors = takes_vectors(module)
        return super().run(module)

    def val(self, old: SSAValue) -> SSAValue:
        found = self.vm[old]
        if type(found) in SSA_CLASSES:
            return found
        return materialise(self.b, found)

    def obj(self, old: SSAValue) -> Any:
        """The algebra object of a value."""
        found = self.vm[old]
        if type(found) not in SSA_CLASSES:
            return found
        value = cast(SSAValue, found)
        type_ = old.type
        if isinstance(type_, PointerType):
            return Pointer(self, value, type_)
        if is_static(type_):
            return object_of(type_)
        if type(type_) in ATOM_TYPES:
            return AtomWithState(type_, {}, value)
        raise DSLCompileError(
            f"fly-layout-lowering: {type_} is not in normal form; run fly-rewrite-func-signature first"
        )

    def atom(self, old: SSAValue) -> Attribute | AtomWithState:
        """An atom or tiled operation, with its state."""
        return self.obj(old)

    def leaf(self, old: SSAValue, width: int, div: int) -> ValueLeaf | int:
        """An integer as a leaf. Static is what is written as a constant, not what folding finds to be one."""
        value = self.val(old)
        known = self.b.const_of.get(value)
        if known is not None and old not in self.found and _is_written(old.owner):
            return int(known)
        return ValueLeaf(value, self.b, width, div)

    def scalar(self, result: SSAValue, leaf: L.Leaf) -> None:
        """A leaf as the integer an op gives."""
        self.vm[result] = self.b.leaf_value(leaf, bit_width(result.type))
        if isinstance(leaf, ValueLeaf):
            self.found.add(result)

    # --- what is emitted ------------------------------------------------------------------------------------------

    def advance(self, at: SSAValue, type_: PointerType, by: L.IntTuple, after: PointerType) -> SSAValue:
        """A pointer moved by elements."""
        return self.b.pure(OPS["add_offset"], (at, materialise(self.b, by)), after, {})

    def read(self, at: Pointer, type_: Attribute) -> SSAValue:
        """Load through a pointer."""
        return self.b.op1(OPS["ptr.load"], (at.value(),), type_, {})

    def write(self, value: SSAValue, at: Pointer) -> None:
        """Store through a pointer."""
        self.b.opn(OPS["ptr.store"], (value, at.value()), ())

    def registers(self, old: SSAValue, type_: PointerType, count: int) -> SSAValue:
        """Fresh register storage."""
        attrs = DictionaryAttr({"allocSize": int_attr(count, i64)})
        return self.b.op1(OPS["make_ptr"], (), type_, {"dictAttrs": attrs})

    def blank(self, type_: Attribute) -> SSAValue:
        """What a vector that is filled piece by piece starts as."""
        return self.b.poison(type_)

    def permute(self, value: SSAValue, shape: list[int], order: list[int]) -> SSAValue:
        """A vector over modes of these extents (colex) with its modes in another order."""
        mask: dict[str, Attribute] = {"mask": i64_list(tuple(permutation(shape, order)))}
        return self.b.pure(ShuffleOp, (value, value), value.type, mask)

    def copy_call(self, atom: CopyAtomType, tensors: Sequence[View]) -> None:
        """One call of a copy atom: source, destination, perhaps a predicate."""
        operands = [materialise(self.b, atom), *(materialise(self.b, t) for t in tensors)]
        self.b.opn(OPS["copy_atom_call"], operands, ())

    def mma_call(self, atom: MmaAtomType, tensors: Sequence[View]) -> None:
        """One call of an MMA atom: D, A, B, C."""
        operands = [materialise(self.b, atom), *(materialise(self.b, t) for t in tensors)]
        self.b.opn(OPS["mma_atom_call"], operands, ())

    def scaled_mma_call(self, atom: MmaAtomType, groups: Sequence[Sequence[View]]) -> None:
        """One call whose A and B are lists: a tensor and its scales."""
        operands = [materialise(self.b, atom), *(materialise(self.b, t) for g in groups for t in g)]
        sizes = i32_list([1, *(len(g) for g in groups)])
        self.b.opn(OPS["mma_atom_call"], operands, (), {"operandSegmentSizes": sizes})


def _algebra(name: str) -> Handler:
    meaning = SEMANTICS[name]

    def handle(r: LayoutLowering, op: FlyOp) -> None:
        objects = [r.obj(v) for v in operands_of(op)]
        props = {k: python_value(v) for k, v in op.properties.items()}
        r.vm[op.results[0]] = meaning(*objects, **props)

    return cast(Handler, handle)


def _make_int_tuple(r: LayoutLowering, op: FlyOp) -> None:
    values = iter(operands_of(op))

    def build(tree: L.IntTuple) -> L.IntTuple:
        if type(tree) is tuple:
            return tuple([build(x) for x in tree])
        if isinstance(tree, Basis):
            return Basis(cast("int | Dyn", build(tree.value)), tree.modes)
        return r.leaf(next(values), tree.width, tree.div) if isinstance(tree, Dyn) else tree

    r.vm[op.results[0]] = build(cast("IntTupleType", op.results[0].type).data)


def _static(r: LayoutLowering, op: FlyOp) -> None:
    r.vm[op.results[0]] = object_of(op.results[0].type)


def _get_scalar(r: LayoutLowering, op: FlyOp) -> None:
    leaf = L.unwrap(r.obj(operands_of(op)[0]))
    if isinstance(leaf, Basis):
        leaf = leaf.value
    r.scalar(op.results[0], cast("L.Leaf", leaf))


def _leaves(tree: L.IntTuple) -> list[L.IntTuple]:
    """The leaves of a tuple in order."""
    return list(_modes(L.flatten(tree)))


def _get_leaves(r: LayoutLowering, op: FlyOp) -> None:
    leaves = _leaves(r.obj(operands_of(op)[0]))
    type_leaves = _leaves(object_of(operands_of(op)[0].type))
    only = op.properties.get("dynamicOnly")
    if only is not None and python_value(only):
        leaves = [x for x, t in zip(leaves, type_leaves, strict=True) if not static_data(t)]
    for leaf, result in zip(leaves, op.results, strict=True):
        leaf = leaf.value if isinstance(leaf, Basis) else leaf
        r.scalar(result, cast("L.Leaf", leaf))


def _compare(meaning: Callable[[L.IntTuple, L.IntTuple], L.Leaf]) -> Handler:
    def handle(r: LayoutLowering, op: FlyOp) -> None:
        a, b = (r.obj(v) for v in operands_of(op))
        flag = meaning(a, b)
        if isinstance(flag, ValueLeaf):
            r.vm[op.results[0]] = r.b.cast("trunci", flag.value, i1)
        else:
            r.vm[op.results[0]] = r.b.const(int(cast(int, flag)), i1)

    return cast(Handler, handle)


# --- memory -------------------------------------------------------------------------------------------------------


def _allocate(r: LayoutLowering, op: FlyOp) -> None:
    """Register storage for a static layout."""
    view = object_of(op.results[0].type)
    count = L.cosize(linear_layout(view.layout))
    if type(count) is not int:
        raise LayoutError(f"a register tensor needs a static layout, got {view.layout}")
    r.vm[op.results[0]] = View(Pointer(r, r.registers(op.results[0], view.iter, count), view.iter), view.layout)


def _load(r: LayoutLowering, op: FlyOp) -> None:
    tensor, coord = (r.obj(v) for v in operands_of(op))
    at = add_offset(tensor.iter, L.crd2idx(coord, tensor.layout))
    r.vm[op.results[0]] = r.read(cast("Pointer", at), op.results[0].type) if isinstance(at, IterValue) else at


def _store(r: LayoutLowering, op: FlyOp) -> None:
    value, tensor, coord = operands_of(op)
    view = r.obj(tensor)
    at = add_offset(view.iter, L.crd2idx(r.obj(coord), view.layout))
    r.write(r.val(value), at)


def _modes(tree: L.IntTuple) -> tuple[L.IntTuple, ...]:
    """The children of a tuple; a leaf is its own only child."""
    return tree if type(tree) is tuple else (tree,)


# --- copies and gemms ---------------------------------------------------------------------------------------------


def _parts(view: View) -> tuple[int, list[View]]:
    """A tensor of rank > 1 as its first mode and one view of it per index of the other modes, colex."""
    first, rest, count, known = _split(linear_layout(view.layout))
    if type(count) is not int:
        raise LayoutError(f"copy: restSize is not static in {view.layout}")
    offsets = _offsets(rest, count) if known is None else known
    pieces: list[View] = []
    moved: dict[int, tuple[View, L.IntTuple]] = {}
    """By the id of a run-time offset, which many pieces share: it is added once for all of them."""
    for dynamic, static in offsets:
        found = moved.get(id(dynamic))
        if found is None:
            found = moved[id(dynamic)] = (_at(view, dynamic, first), dynamic)
        pieces.append(_at(found[0], static, first))
    return count, pieces


@memo
def _split(plain: Layout) -> tuple[Layout, Layout, L.IntTuple, list[tuple[L.IntTuple, L.IntTuple]] | None]:
    """First mode and the other modes of a layout, the size of these, and where all is static their offsets."""
    first, rest = plain[0], L.group(plain, 1, plain.rank)[1]
    count = L.size(rest)
    return first, rest, count, list(_offsets(rest, cast(int, count))) if rest.is_static else None


def _offsets(rest: Layout, count: int) -> Iterator[tuple[L.IntTuple, L.IntTuple]]:
    """Offset of each index of a layout, colex, its run-time part apart from the static one.

    Kept apart, neighbours share one run-time address, and loads at static distances can be merged.
    """
    shape = cast("list[int]", list(L.leaves(rest.shape)))
    stride = list(L.leaves(rest.stride))
    if any(type(d) is not int and not isinstance(d, Dyn) for d in stride):
        yield from ((0, L.crd2idx(i, rest)) for i in range(count))
        return
    fixed = [(i, d) for i, d in enumerate(stride) if type(d) is int]
    moving = [i for i, d in enumerate(stride) if type(d) is not int]
    known: dict[tuple[int, ...], L.IntTuple] = {}
    for backwards in cartesian(*[range(n) for n in reversed(shape)]):
        coord = backwards[::-1]
        key = tuple(coord[i] for i in moving)
        if key not in known:
            dynamic: L.IntTuple = 0
            for i, c in zip(moving, key, strict=True):
                dynamic = L.int_tuple_add(dynamic, L.int_tuple_mul(c, stride[i]))
            known[key] = dynamic
        yield known[key], sum(coord[i] * d for i, d in fixed)


def _at(view: View, offset: L.IntTuple, layout: Layout) -> View:
    """`view` moved by an offset of its linear layout and seen through another plain layout."""
    if type(view.layout) is Layout:
        return View(add_offset(view.iter, offset), layout)

    def move(composed: ComposedLayout) -> ComposedLayout:
        if type(composed.outer) is ComposedLayout:
            return ComposedLayout(composed.inner, composed.offset, move(composed.outer))
        return ComposedLayout(composed.inner, L.int_tuple_add(composed.offset, offset), layout)

    return View(view.iter, move(view.layout))


def _copy(r: LayoutLowering, op: FlyOp) -> None:
    refuse_coordinates(op)
    atom, *tensors = (r.obj(v) for v in operands_of(op))
    _expand_copy(r, cast(CopyAtomType, atom_of(atom, r.b)), tensors)


def _expand_copy(r: LayoutLowering, atom: CopyAtomType, tensors: list[View]) -> None:
    """src, dst and possibly pred: split until each piece is one call."""
    if atom.op.whole_tile:
        r.copy_call(atom, tensors)
        return
    ranks = [linear_layout(t.layout).rank for t in tensors]
    if atom.op.thr_layout.shape != 1 and any(linear_layout(t.layout).is_leaf for t in tensors[:2]):
        # Threads that copy together hold other values than they address: one side is a row, the other is not.
        r.copy_call(atom, [decomposition(t) for t in tensors])
        return
    if ranks[0] != ranks[1]:
        raise LayoutError(f"copy: ranks differ, {tensors[0].layout} against {tensors[1].layout}")
    if len(tensors) == 3:
        # One predicate per atom call: it has no mode for the atom's values.
        pred = tensors[2]
        plain, source = linear_layout(pred.layout), linear_layout(tensors[0].layout)
        # The only mode behind them may have modes of its own, and a slice of that mode is those.
        only = ranks[0] == 2 and not plain.is_leaf and plain.shape == source[1].shape
        if only or ranks[2] == ranks[0] - 1:
            rest = L.group(plain, 0, ranks[2] if only else 0) if only or ranks[2] == 1 else plain
            tensors[2] = _at(pred, 0, L.prepend(rest, Layout(1, 0)))
            ranks[2] = ranks[0]
    if len(tensors) == 3 and ranks[2] != ranks[0]:
        raise LayoutError(f"copy: pred rank mismatch, {tensors[2].layout} against {tensors[0].layout}")
    if ranks[0] > 1:
        pieces = [_parts(t)[1] for t in tensors]
        if len(pieces) == 3 and len(pieces[2]) == 1:
            pieces[2] = pieces[2] * len(pieces[0])  # one predicate for all calls, as for those of one first mode
        if len({len(p) for p in pieces}) != 1:
            raise LayoutError("copy: extents differ: " + ", ".join(str(t.layout) for t in tensors))
        single = bool(pieces[0]) and _is_one_call(atom, [views[0] for views in pieces])
        if single and r.takes_vectors and len(pieces) == 2 and copy_adjacent(r, atom, *pieces):
            return
        for group in zip(*pieces, strict=True):
            if single:
                r.copy_call(atom, group)
            else:
                _expand_copy(r, atom, list(group))
        return
    plain = linear_layout(tensors[0].layout)
    if not plain.is_leaf:
        _expand_copy(
            r,
            atom,
            [_at(t, 0, linear_layout(t.layout)[0]) if not linear_layout(t.layout).is_leaf else t for t in tensors],
        )
        return
    _call_copy(r, atom, [decomposition(t) for t in tensors])


def _is_one_call(atom: CopyAtomType, tensors: Sequence[View]) -> bool:
    """Whether each piece of some tensors is one call of an atom, told by the first: they share their layouts."""
    if atom.op.thr_layout.shape != 1 or _values_per_call(atom, tensors[0]) > 1:
        return False
    return all(type(t.layout) is Layout and t.layout.is_leaf for t in tensors)


def _values_per_call(atom: CopyAtomType, source: View) -> int:
    """Elements that a call of a universal copy moves."""
    copy = atom.op
    return copy.bits // bit_width(source.iter.type.data.elem) if type(copy) is UniversalCopyType else 1


def _call_copy(r: LayoutLowering, atom: CopyAtomType, tensors: list[View]) -> None:
    """One call; where a side is not known to be contiguous, one for each element, which is right for every stride."""
    copy = atom.op
    count = _values_per_call(atom, tensors[0])
    if count < 2 or all(_is_contiguous(t, count) for t in tensors[:2]):
        r.copy_call(atom, tensors)
        return
    single = copy_atom_type(UniversalCopyType(copy.bits // count), atom.val_bits)
    for i in range(count):
        r.copy_call(single, [*(_at(t, L.crd2idx(i, t.layout), Layout(1, 0)) for t in tensors[:2]), *tensors[2:]])


def _is_contiguous(view: View, count: int) -> bool:
    """Whether the first elements of a tensor are known to lie one behind the other; registers need not."""
    layout = view.layout
    if view.iter.type.data.space is AddressSpace.Register or layout.stride == 1:
        return True
    stride: object = L.flatten(cast(Layout, L.coalesce(layout)).stride)
    first = cast("tuple[object, ...]", stride)[0] if type(stride) is tuple else stride
    if type(first) is int:
        if first != 1 and L.size(layout) != 1:
            raise LayoutError(
                f"a copy of {count} neighbouring elements does not fit {layout}: they are not contiguous there"
            )
        return True
    if bit_width(view.iter.type.data.elem) < 8:
        raise LayoutError(f"elements of less than a byte are copied one by one only; {layout} may not be contiguous")
    return False


def _copy_atom_call(r: LayoutLowering, op: FlyOp) -> None:
    refuse_coordinates(op)
    atom, *tensors = (r.obj(v) for v in operands_of(op))
    _call_copy(r, cast(CopyAtomType, atom_of(atom, r.b)), [decomposition(t) for t in tensors])


def _mma_atom_call(r: LayoutLowering, op: FlyOp) -> None:
    (atom,), *groups = [[r.obj(v) for v in group] for group in groups_of(op)]
    _emit_mma(r, cast(MmaAtomType, atom_of(atom, r.b)), groups)


def _emit_mma(r: LayoutLowering, atom: MmaAtomType, groups: Sequence[Sequence[View]]) -> None:
    """One call with the tensors of D, A, B and C."""
    d, a, b, c = [[decomposition(t) for t in group] for group in groups]
    _call_mma(r, atom, d[0], a, b, c[0])


def _call_mma(r: LayoutLowering, atom: MmaAtomType, d: View, a: list[View], b: list[View], c: View) -> None:
    """The same with tensors that are decomposed already; A and B may have scales with them."""
    if len(a) == 1 and len(b) == 1:
        r.mma_call(atom, (d, a[0], b[0], c))
    else:
        r.scaled_mma_call(atom, ((d,), a, b, (c,)))


def _gemm(r: LayoutLowering, op: FlyOp) -> None:
    (atom,), (d,), a, b, (c,), layout = [[r.obj(v) for v in group] for group in groups_of(op)]
    atom = cast(MmaAtomType, atom_of(atom, r.b))
    ranks = [x.layout.rank for x in (d, a[0], b[0], c)]
    if ranks == [1, 1, 1, 1]:
        _emit_mma(r, atom, ((d,), a, b, (c,)))
        return
    m, n, k = _gemm_extents(d.layout, a[0].layout, b[0].layout, c.layout, ranks)
    order = op.properties.get("traversalOrder")
    chosen = None if order is None else python_value(order).data
    seen: set[tuple[int, int]] = set()
    slices: dict[tuple[int, tuple[int, ...]], View] = {}

    def at(view: View, rest: tuple[int, ...]) -> View:
        found = slices.get((id(view), rest))
        if found is None:
            found = slices[id(view), rest] = decomposition(_slice(view, rest))
        return found

    for i, j, s in traversal.steps((m, n, k), chosen, layout[0] if layout else None):
        tail = (s,) if ranks[1] == 3 else ()
        # The first visit of (m, n) starts from C, later ones go on from D.
        source = d if (i, j) in seen and tail else c
        seen.add((i, j))
        left, right = [at(x, (i, *tail)) for x in a], [at(x, (j, *tail)) for x in b]
        _call_mma(r, atom, at(d, (i, j)), left, right, at(source, (i, j)))


def _gemm_extents(d: Layout, a: Layout, b: Layout, c: Layout, ranks: list[int]) -> tuple[int, int, int]:
    """How often the atom repeats in M, N and K."""
    if ranks[0] != 3 or ranks[3] != 3 or ranks[1] != ranks[2] or ranks[1] not in (2, 3):
        raise LayoutError(f"gemm: D and C need rank 3, A and B both rank 2 or 3; got {d}, {a}, {b}, {c}")
    m, n = L.size(d[1]), L.size(d[2])
    k = L.size(a[2]) if ranks[1] == 3 else 1
    pairs = [(m, L.size(a[1])), (n, L.size(b[1])), (m, L.size(c[1])), (n, L.size(c[2]))]
    if ranks[1] == 3:
        pairs.append((k, L.size(b[2])))
    if any(x != y for x, y in pairs) or not all(type(x) is int for x in (m, n, k)):
        raise LayoutError(f"gemm: extents do not fit together: {d}, {a}, {b}, {c}")
    return cast(int, m), cast(int, n), cast(int, k)


def _slice(view: View, rest: tuple[int, ...]) -> View:
    """Mode 0 at fixed indices of the other modes."""
    offset, first = _place(view.layout, rest)
    return View(add_offset(view.iter, offset), first)


@memo
def _place(layout: Layout, rest: tuple[int, ...]) -> tuple[L.IntTuple, Layout]:
    """Offset of fixed indices of all modes but the first, and the first mode."""
    offset: L.IntTuple = 0
    for mode, index in enumerate(rest, 1):
        offset = L.int_tuple_add(offset, L.crd2idx(index, layout[mode]))
    return offset, layout[0]


def _ptr_load(r: LayoutLowering, op: FlyOp) -> None:
    """Reading "through" a coordinate gives the coordinate."""
    (at,) = operands_of(op)
    if isinstance(at.type, IntTupleType):
        r.vm[op.results[0]] = r.obj(at)
    else:
        _pointer_op(r, op)


def _pointer_op(r: LayoutLowering, op: FlyOp) -> None:
    """Ops that stay and take pointers or plain values."""
    operands = [r.val(v) for v in operands_of(op)]
    new = r.b.opn(type(op), operands, [x.type for x in op.results], dict(op.properties))
    for old, fresh in zip(op.results, new.results, strict=True):
        r.vm[old] = fresh


LayoutLowering.handlers = cast(
    dict[type[Operation], Handler],
    {
        **{OPS[name]: _algebra(name) for name in SEMANTICS},
        OPS["make_int_tuple"]: _make_int_tuple,
        OPS["make_shape"]: _make_int_tuple,
        OPS["make_stride"]: _make_int_tuple,
        OPS["make_coord"]: _make_int_tuple,
        OPS["static"]: _static,
        OPS["make_tiled_copy"]: make_tiled,
        OPS["make_tiled_mma"]: make_tiled,
        OPS["get_copy_atom"]: get_atom,
        OPS["get_mma_atom"]: get_atom,
        OPS["make_copy_atom"]: fresh_atom,
        OPS["make_mma_atom"]: fresh_atom,
        OPS["atom.set_value"]: set_value,
        OPS["get_scalar"]: _get_scalar,
        OPS["get_leaves"]: _get_leaves,
        OPS["elem_less"]: _compare(L.elem_less),
        OPS["equal"]: _compare(L.equal),
        OPS["memref.alloca"]: _allocate,
        OPS["make_fragment_like"]: _allocate,
        OPS["mma.make_fragment"]: _allocate,
        OPS["memref.load"]: _load,
        OPS["memref.store"]: _store,
        OPS["memref.load_vec"]: load_vec,
        OPS["memref.store_vec"]: store_vec,
        OPS["print"]: expand_print,
        OPS["copy"]: _copy,
        OPS["copy_atom_call"]: _copy_atom_call,
        OPS["mma_atom_call"]: _mma_atom_call,
        OPS["gemm"]: _gemm,
        OPS["ptr.load"]: _ptr_load,
        OPS["ptr.store"]: _pointer_op,
        OPS["recast_iter"]: _pointer_op,
    },
)


class _Spelled(LayoutLowering):
    """The lowering as a pass of its own: vectors are put together from a zero and turned by upstream's three ops."""

    def blank(self, type_: Attribute) -> SSAValue:
        return self.b.const(0, type_)

    def permute(self, value: SSAValue, shape: list[int], order: list[int]) -> SSAValue:
        return spelled_permutation(self, value, shape, order)


@dataclass(frozen=True)
class FlyLayoutLoweringPass(Pass):
    """Expand layout algebra to arith and copies and gemms to atom calls."""

    name = "fly-layout-lowering"
    needs = "layout values made by `make_*` ops, not block arguments"
    part = Part({Form.NORMAL: Form.LOWERED}, "fly.walk.regions:Regions", opens=True)

    def run(self, module: ModuleOp) -> ModuleOp:
        return remove_dead(_Spelled.rebuild(module))
