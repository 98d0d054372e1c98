"""Copy and MMA atoms, tiled operations, and the data movement written with them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

from ... import layout as L
from ...errors import DSLTypeError, DSLValueError
from ...ir.enums import AtomicOp, MmaOperand, SyncScope
from ..aliases import also_called
from ..numeric import Int32, Int64, Numeric, scalar_or_none
from ..tensor import Tensor, get_iter, make_view, recast_iter
from ..vector import Vector
from .algebra_values import IntTuple, Layout, Tile, apply, as_int_tuple, current_ir
from .copy_checks import check_call
from .layout_functions import as_tile, composition, make_layout_tv, recast_layout

if TYPE_CHECKING:
    from ...dialects.fly.atoms import CopyAtomType, CopyOpType, MmaOpType
    from ..annotations import (
        AtomState,
        Attribute,
        DTypeLike,
        HasType,
        IntLike,
        Place,
        SSAValue,
        TensorT,
        TileLike,
        TreeLike,
    )
    from ..tensor import Pointer


class _Op:
    """Describes a copy or MMA operation; its IR type is made when a trace needs it."""

    def __init__(self, make: Callable[[], Attribute], text: str):
        self._make = make
        self._text = text

    @property
    def type(self) -> Attribute:
        """The IR type."""
        return self._make()

    def __repr__(self) -> str:
        return self._text


def _atoms():
    from ...dialects.fly import atoms

    return atoms


@also_called(bits="bit_size")
def UniversalCopy(bit_size: int) -> _Op:
    """A per-thread move of `bit_size` bits between any two memories.

    >>> fx.make_copy_atom(fx.UniversalCopy(128), fx.Float32).layout_src_tv
    Layout<(1,4):(1,1)>
    """
    if bit_size not in (8, 16, 32, 64, 128):
        raise DSLValueError(f"UniversalCopy moves 8, 16, 32, 64 or 128 bits, got {bit_size}")
    return _Op(lambda: _atoms().UniversalCopyType(bit_size), f"UniversalCopy({bit_size})")


def UniversalCopy8b() -> _Op:
    """`UniversalCopy(8)`.

    >>> fx.UniversalCopy8b()
    UniversalCopy(8)
    """
    return UniversalCopy(8)


def UniversalCopy16b() -> _Op:
    """`UniversalCopy(16)`.

    >>> fx.UniversalCopy16b()
    UniversalCopy(16)
    """
    return UniversalCopy(16)


def UniversalCopy32b() -> _Op:
    """`UniversalCopy(32)`.

    >>> fx.UniversalCopy32b()
    UniversalCopy(32)
    """
    return UniversalCopy(32)


def UniversalCopy64b() -> _Op:
    """`UniversalCopy(64)`.

    >>> fx.UniversalCopy64b()
    UniversalCopy(64)
    """
    return UniversalCopy(64)


def UniversalCopy128b() -> _Op:
    """`UniversalCopy(128)`.

    >>> fx.UniversalCopy128b()
    UniversalCopy(128)
    """
    return UniversalCopy(128)


@also_called(op="atomic_op")
def UniversalAtomic(atomic_op: AtomicOp, val_type: type[Numeric], syncscope: SyncScope | str = SyncScope.System) -> _Op:
    """Read-modify-write of memory with a register value; the old value is dropped.

    >>> fx.UniversalAtomic(fx.AtomicOp.Max, fx.Float32)
    UniversalAtomic(Max, Float32)
    """
    if val_type.is_float and atomic_op not in (AtomicOp.Add, AtomicOp.Max, AtomicOp.Min):
        raise DSLTypeError(f"atomic {atomic_op.name} is not defined for {val_type}; floats have Add, Max and Min")
    scope = syncscope.value if isinstance(syncscope, SyncScope) else syncscope
    return _Op(
        lambda: _atoms().UniversalAtomicType((atomic_op, _atomic_type(atomic_op, val_type), scope)),
        f"UniversalAtomic({atomic_op.name}, {val_type})",
    )


def _atomic_type(op: AtomicOp, val_type: type[Numeric]) -> Attribute:
    """The IR type of an atomic's value; it says how integers are compared, where that matters."""
    if val_type.signed is not False or val_type.ir_name == "index" or op not in (AtomicOp.Max, AtomicOp.Min):
        return val_type.ir_type
    from xdsl.dialects.builtin import IntegerType, Signedness

    return IntegerType(val_type.width, Signedness.UNSIGNED)


def UniversalAtomicAdd(val_type: type[Numeric], syncscope: SyncScope | str = SyncScope.System) -> _Op:
    """Atomic sum.

    >>> def once(x):
    ...     atom = fx.make_copy_atom(fx.UniversalAtomicAdd(fx.Int32), fx.Int32)
    ...     by = fx.make_rmem_tensor(1, fx.Int32)
    ...     by.fill(6)
    ...     fx.copy_atom_call(atom, by, fx.make_view(fx.get_iter(x), fx.make_layout(1, 1)))
    ...     return x[0]
    >>> flyc.evaluate(once, np.array([3], "i4"))
    9
    """
    return UniversalAtomic(AtomicOp.Add, val_type, syncscope)


def UniversalAtomicMax(val_type: type[Numeric], syncscope: SyncScope | str = SyncScope.System) -> _Op:
    """Atomic maximum.

    >>> fx.UniversalAtomicMax(fx.Int32)
    UniversalAtomic(Max, Int32)
    """
    return UniversalAtomic(AtomicOp.Max, val_type, syncscope)


def UniversalAtomicMin(val_type: type[Numeric], syncscope: SyncScope | str = SyncScope.System) -> _Op:
    """Atomic minimum.

    >>> fx.UniversalAtomicMin(fx.Int32)
    UniversalAtomic(Min, Int32)
    """
    return UniversalAtomic(AtomicOp.Min, val_type, syncscope)


def UniversalAtomicAnd(val_type: type[Numeric], syncscope: SyncScope | str = SyncScope.System) -> _Op:
    """Atomic bitwise and.

    >>> fx.UniversalAtomicAnd(fx.Int32)
    UniversalAtomic(And, Int32)
    """
    return UniversalAtomic(AtomicOp.And, val_type, syncscope)


def UniversalAtomicOr(val_type: type[Numeric], syncscope: SyncScope | str = SyncScope.System) -> _Op:
    """Atomic bitwise or.

    >>> fx.UniversalAtomicOr(fx.Int32)
    UniversalAtomic(Or, Int32)
    """
    return UniversalAtomic(AtomicOp.Or, val_type, syncscope)


def UniversalAtomicInc(val_type: type[Numeric], syncscope: SyncScope | str = SyncScope.System) -> _Op:
    """Atomic wrapping increment.

    >>> fx.UniversalAtomicInc(fx.Int32)
    UniversalAtomic(Inc, Int32)
    """
    return UniversalAtomic(AtomicOp.Inc, val_type, syncscope)


def UniversalAtomicDec(val_type: type[Numeric], syncscope: SyncScope | str = SyncScope.System) -> _Op:
    """Atomic wrapping decrement.

    >>> fx.UniversalAtomicDec(fx.Int32)
    UniversalAtomic(Dec, Int32)
    """
    return UniversalAtomic(AtomicOp.Dec, val_type, syncscope)


@also_called(dtype="ty")
def UniversalFMA(ty: type[Numeric]) -> _Op:
    """One multiply-add per thread: `d = a * b + c`.

    >>> fx.make_mma_atom(fx.UniversalFMA(fx.Float32)).shape_mnk
    IntTuple<(1,1,1)>
    """
    if not (isinstance(ty, type) and issubclass(ty, Numeric) and ty.is_float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"UniversalFMA needs a float class, got {ty!r}")
    return _Op(lambda: _atoms().UniversalFmaType(ty.ir_type), f"UniversalFMA({ty})")


class CopiesTiles(Protocol):
    """What `fx.copy` takes in place of an atom: it copies a whole tile by itself."""

    def __copy_tile__(self, src: Any, dst: Any) -> None: ...


class _TypedValue:
    """An object described by its IR type; it has an IR value only if it carries run-time state."""

    __slots__ = ("_value", "type")

    type: Any
    """The IR type; each class says which."""

    def __init__(self, type_: Attribute, value: SSAValue | None = None):
        self.type = type_
        self._value = value

    def ir_value(self) -> SSAValue:
        """The IR value."""
        return current_ir().materialise(self)

    def with_value(self, value: SSAValue | None) -> Self:
        """The same object with other run-time state."""
        made = object.__new__(type(self))
        for slot in ("type", "thr_idx"):
            if hasattr(self, slot):
                setattr(made, slot, getattr(self, slot))
        made._value = value
        return made

    def set_value(self, field: str | Mapping[str, AtomState], value: AtomState | None = None) -> Self:
        """The same with run-time state: `atom.set_value("soffset", n)` or `atom.set_value({"soffset": n})`."""
        made = self
        for name, number in ({field: value} if isinstance(field, str) else field).items():
            made = _set_state(made, name, number)
        return made

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return [] if self._value is None else [self._value]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: Any = None) -> Self:
        return type(exemplar)(exemplar.type, values[0]) if values else exemplar

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TypedValue) and self.type == other.type and self._value is other._value

    def __hash__(self) -> int:
        return hash(self.type)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.type}>"

    def _repr_html_(self) -> str | None:
        from ...dialects.fly.drawings import pictures_of
        from ...markup import figures

        pictures = [(title.partition(":")[0], svg) for title, svg in pictures_of(self.type)]
        return figures(pictures) if pictures else None


AtomT = TypeVar("AtomT", bound=_TypedValue)


def _set_state(atom: AtomT, field: str, value: object) -> AtomT:
    """The atom with one state field set to a value of the field's width."""
    op = _atoms().atom_of(atom.type).op
    if field == "boundary_check" and getattr(op, "moved", None) is not None:
        # One number for each mode of the tensor, not of a width.
        given = value if isinstance(value, IntTuple) else as_int_tuple(cast("TreeLike", value))
        return current_ir().set_state(atom, field, current_ir().materialise(given))
    state = dict(op.state)
    if field not in state:
        raise DSLValueError(f"unknown atom state {field!r}; {atom} has {', '.join(state) or 'none'}")
    width = state[field]
    wanted = Int64 if width == 64 else Int32
    if isinstance(value, Vector):
        if value.numel * value.dtype.width != width:
            raise DSLTypeError(f"atom state {field!r} takes {width} bits, got {value!r}")
        return current_ir().set_state(atom, field, value.ir_value())
    number = scalar_or_none(value)
    if number is None or (number.is_float and number.width != width):
        raise DSLTypeError(f"atom state {field!r} takes an integer of {width} bits, got {value!r}")
    if not number.is_float:
        number = wanted(number)
    return current_ir().set_state(atom, field, number.ir_value())


def atom_set_value(atom: AtomT, field: str | Mapping[str, AtomState], value: AtomState | None = None) -> AtomT:
    """`atom.set_value(field, value)`.

    >>> def loads_from(x, n):
    ...     atom = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
    ...     got = fx.make_rmem_tensor(1, fx.Float32)
    ...     first = fx.make_view(fx.get_iter(fx.rocdl.make_buffer_tensor(x)), fx.make_layout(1, 1))
    ...     fx.copy_atom_call(fx.atom_set_value(atom, "soffset", n), first, got)
    ...     return got[0]
    >>> flyc.evaluate(loads_from, np.arange(8, dtype="f4"), 5)
    5.0
    """
    return atom.set_value(field, value)


class CopyAtom(_TypedValue):
    """A copy operation counted in values of a given width.

    >>> atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    >>> atom.val_bits, atom.thr_layout, atom.layout_dst_tv
    (32, Layout<1:1>, Layout<(1,4):(1,1)>)
    """

    __slots__ = ()

    @property
    def val_bits(self) -> int:
        """Width of one value."""
        return self.type.val_bits

    @property
    def thr_layout(self) -> Layout:
        """Threads that take part in one call."""
        return Layout(self.type.op.thr_layout)

    thr_id = thr_layout

    @property
    def layout_src_tv(self) -> Layout:
        """(thread, value) of the source."""
        return Layout(self.type.tv("src"))

    @property
    def layout_dst_tv(self) -> Layout:
        """(thread, value) of the destination."""
        return Layout(self.type.tv("dst"))

    @property
    def layout_ref_tv(self) -> Layout:
        """(thread, value) of the reference side."""
        return Layout(self.type.tv("ref"))


class MmaAtom(_TypedValue):
    """A matrix multiply-accumulate operation.

    >>> fx.make_mma_atom(fx.UniversalFMA(fx.Float32)).layout_A_tv
    Layout<(1,1):(1,1)>
    """

    __slots__ = ()

    @property
    def thr_layout(self) -> Layout:
        """Threads that take part in one call."""
        return Layout(self.type.op.thr_layout)

    thr_id = thr_layout

    @property
    def shape_mnk(self) -> IntTuple:
        """Extent of one call."""
        return IntTuple(self.type.op.shape_mnk)

    @property
    def layout_A_tv(self) -> Layout:
        """(thread, value) of A."""
        return Layout(self.type.op.tv_layout(0))

    @property
    def layout_B_tv(self) -> Layout:
        """(thread, value) of B."""
        return Layout(self.type.op.tv_layout(1))

    @property
    def layout_C_tv(self) -> Layout:
        """(thread, value) of C and D."""
        return Layout(self.type.op.tv_layout(2))


@also_called(op="copy_op_type", elem="elem_type")
def make_copy_atom(copy_op_type: HasType | CopyOpType, elem_type: DTypeLike | int) -> CopyAtom:
    """A copy atom; `elem_type` is a scalar class or a width in bits.

    >>> fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16).layout_src_tv
    Layout<(1,4):(1,1)>
    """
    atoms = _atoms()
    bits = elem_type if isinstance(elem_type, int) else getattr(elem_type, "width", None)
    bits = getattr(elem_type, "bitwidth", None) if bits is None else bits  # of an IR type
    if not isinstance(bits, int) or isinstance(elem_type, bool):
        raise DSLTypeError(f"make_copy_atom expects a scalar class or a bit count, got {elem_type!r}")
    op = getattr(copy_op_type, "type", copy_op_type)
    if not isinstance(op, atoms.CopyOpType):
        raise DSLTypeError(f"make_copy_atom expects a copy operation such as UniversalCopy32b(), got {copy_op_type!r}")
    return CopyAtom(atoms.copy_atom_type(op, bits))


@also_called(op="mma_op_type")
def make_mma_atom(mma_op_type: HasType | MmaOpType) -> MmaAtom:
    """An MMA atom.

    >>> fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
    MmaAtom<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>>
    """
    atoms = _atoms()
    op = getattr(mma_op_type, "type", mma_op_type)
    if not isinstance(op, atoms.MmaOpType):
        raise DSLTypeError(
            f"make_mma_atom expects an MMA operation such as UniversalFMA(fx.Float32), got {mma_op_type!r}"
        )
    return MmaAtom(atoms.mma_atom_type(op))


class TiledCopy(_TypedValue):
    """A copy atom spread over the threads of a block and a tile.

    >>> atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    >>> tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((2, 4), (4, 1)), fx.make_layout((1, 2), (2, 1)))
    >>> tiled.tile_mn, tiled.layout_tv_tiled
    (Tile<[2|8]>, Layout<((4,2),2):((4,1),2)>)
    """

    __slots__ = ()

    @property
    def tile_mn(self) -> Tile:
        """Extents of the tile."""
        return Tile(self.type.data.tile)

    @property
    def layout_tv_tiled(self) -> Layout:
        """(thread, value) to position in the tile."""
        return Layout(self.type.data.layout)

    def _tv(self, side: str) -> Layout:
        data = self.type.data
        return Layout(L.tiled_copy_tv(data.layout, data.tile, data.atom.tv("ref"), data.atom.tv(side)))

    @property
    def layout_src_tv_tiled(self) -> Layout:
        """(thread, value) of the source in the tile."""
        return self._tv("src")

    @property
    def layout_dst_tv_tiled(self) -> Layout:
        """(thread, value) of the destination in the tile."""
        return self._tv("dst")

    @also_called(tid="thr_idx")
    def get_slice(self, thr_idx: IntLike) -> ThrCopy:
        """One thread's share."""
        return ThrCopy(self.type, self._value, thr_idx)

    thr_slice = get_slice


class ThrCopy(TiledCopy):
    """A tiled copy seen by one thread.

    >>> atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    >>> tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((2, 4), (4, 1)), fx.make_layout((1, 2), (2, 1)))
    >>> def mine(x):
    ...     tile = fx.make_view(fx.get_iter(x), fx.make_layout((2, 8), (8, 1)))
    ...     return tiled.get_slice(fx.thread_idx.x).partition_S(tile)
    >>> flyc.evaluate(mine, np.arange(16, dtype="f4"), threads=3)
    [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    """

    __slots__ = ("thr_idx",)

    def __init__(self, type_: Attribute, value: SSAValue | None = None, thr_idx: IntLike | None = None):
        super().__init__(type_, value)
        self.thr_idx: Any = thr_idx

    @also_called(t="src")
    def partition_S(self, src: TensorT) -> TensorT:
        """What this thread reads: `((AtomV, RestV), rest...)`."""
        return tiled_copy_partition_src(self, src, self.thr_idx)

    @also_called(t="dst")
    def partition_D(self, dst: TensorT) -> TensorT:
        """What this thread writes."""
        return tiled_copy_partition_dst(self, dst, self.thr_idx)

    def retile(self, t: TensorT) -> TensorT:
        """A fragment in this copy's value order."""
        return tiled_copy_retile(self, t)

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        from ..protocol import extract_to_ir_values

        own = _TypedValue.__extract_to_ir_values__(self)  # shared with ThrMma, so no super()
        return own if isinstance(self.thr_idx, int) else [*own, *extract_to_ir_values(self.thr_idx)]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: Any = None) -> Self:
        return _rebuild_slice(values, exemplar)


def _rebuild_slice(values: Sequence[SSAValue], exemplar: Any) -> Any:
    from ..protocol import construct_from_ir_values

    rest = list(values)
    value = rest.pop(0) if exemplar._value is not None else None
    tid = exemplar.thr_idx
    if not isinstance(tid, int):
        tid = construct_from_ir_values(tid, rest)
    return type(exemplar)(exemplar.type, value, tid)


class TiledMma(_TypedValue):
    """An MMA atom repeated over (M, N, K).

    >>> mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((2, 2, 1), (1, 2, 0)))
    >>> mma.tile_size_mnk, mma.thr_layout_vmnk
    (IntTuple<(2,2,1)>, Layout<(1,2,2,1):(0,1,2,0)>)
    """

    __slots__ = ()

    @property
    def mma_atom(self) -> MmaAtom:
        """The atom, with the state that was set on the whole."""
        if self._value is not None:
            return apply("get_mma_atom", self)
        return MmaAtom(self.type.data.atom)

    @property
    def atom_layout(self) -> Layout:
        """How atoms are arranged over (M, N, K)."""
        return Layout(self.type.data.layout)

    @property
    def permutation_mnk(self) -> Tile:
        """Tile extents and element order."""
        return Tile(self.type.data.tile)

    def _parts(self) -> tuple[Any, ...]:
        data = self.type.data
        return data.atom.op.shape_mnk, data.atom.op.thr_layout, data.layout, data.tile

    @property
    def tile_size_mnk(self) -> IntTuple:
        """Extent of the whole tile."""
        shape, _, layout, tile = self._parts()
        return IntTuple(L.tile_size_mnk(shape, layout, tile))

    @property
    def thr_layout_vmnk(self) -> Layout:
        """(V, M, N, K) to thread index."""
        _, threads, layout, _ = self._parts()
        return Layout(L.thr_layout_vmnk(threads, layout))

    def _tv(self, operand: MmaOperand) -> Layout:
        shape, threads, layout, tile = self._parts()
        tv = self.type.data.atom.op.tv_layout(operand)
        return Layout(L.mma_tiled_tv(int(operand), shape, tv, layout, tile, threads))

    @property
    def tv_layout_A_tiled(self) -> Layout:
        """(thread, value) of A in the tile."""
        return self._tv(MmaOperand.A)

    @property
    def tv_layout_B_tiled(self) -> Layout:
        """(thread, value) of B in the tile."""
        return self._tv(MmaOperand.B)

    @property
    def tv_layout_C_tiled(self) -> Layout:
        """(thread, value) of C in the tile."""
        return self._tv(MmaOperand.C)

    @also_called(tid="thr_idx")
    def get_slice(self, thr_idx: IntLike) -> ThrMma:
        """One thread's share."""
        return ThrMma(self.type, self._value, thr_idx)

    thr_slice = get_slice

    @also_called(t="a")
    def make_fragment_A(self, a: Tensor, *, stages: int | None = None) -> Tensor:
        """Register tensor for a thread's part of A."""
        return mma_make_fragment(MmaOperand.A, self, a, stages=stages)

    @also_called(t="b")
    def make_fragment_B(self, b: Tensor, *, stages: int | None = None) -> Tensor:
        """Register tensor for a thread's part of B."""
        return mma_make_fragment(MmaOperand.B, self, b, stages=stages)

    @also_called(t="c")
    def make_fragment_C(self, c: Tensor, *, stages: int | None = None) -> Tensor:
        """Register tensor for a thread's part of C."""
        return mma_make_fragment(MmaOperand.C, self, c, stages=stages)


class ThrMma(TiledMma):
    """A tiled MMA seen by one thread.

    >>> mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((2, 2, 1), (1, 2, 0)))
    >>> def mine(x):
    ...     tile = fx.make_view(fx.get_iter(x), fx.make_layout((2, 2), (2, 1)))
    ...     return mma.get_slice(fx.thread_idx.x).partition_C(tile)
    >>> flyc.evaluate(mine, np.arange(4, dtype="f4"), threads=4)
    [[0.0], [2.0], [1.0], [3.0]]
    """

    __slots__ = ("thr_idx",)

    def __init__(self, type_: Attribute, value: SSAValue | None = None, thr_idx: IntLike | None = None):
        super().__init__(type_, value)
        self.thr_idx: Any = thr_idx

    @also_called(t="a")
    def partition_A(self, a: TensorT) -> TensorT:
        """This thread's part of A: `(V, M, K, ...)`."""
        return tiled_mma_partition(MmaOperand.A, self, a, self.thr_idx)

    @also_called(t="b")
    def partition_B(self, b: TensorT) -> TensorT:
        """This thread's part of B: `(V, N, K, ...)`."""
        return tiled_mma_partition(MmaOperand.B, self, b, self.thr_idx)

    @also_called(t="c")
    def partition_C(self, c: TensorT) -> TensorT:
        """This thread's part of C: `(V, M, N, ...)`."""
        return tiled_mma_partition(MmaOperand.C, self, c, self.thr_idx)

    __extract_to_ir_values__ = ThrCopy.__extract_to_ir_values__

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: Any = None) -> Self:
        return _rebuild_slice(values, exemplar)


@also_called(atom="copy_atom", layout_tv="layout_thr_val")
def make_tiled_copy(copy_atom: CopyAtom, layout_thr_val: Layout, tile_mn: TileLike) -> TiledCopy:
    """A tiled copy from a (thread, value) layout and the tile it covers.

    >>> atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    >>> fx.make_tiled_copy(atom, fx.make_layout((4, 2), (2, 1)), (8, 1)).tile_mn
    Tile<[8|1]>
    """
    if not layout_thr_val.is_static:
        raise DSLValueError(f"make_tiled_copy needs a static layout, got {layout_thr_val}")
    type_ = _atoms().tiled_copy_type(copy_atom.type, layout_thr_val.data, cast("L.Tile", as_tile(tile_mn).data))
    return TiledCopy(type_, copy_atom._value)  # pyright: ignore[reportPrivateUsage]


def make_tiled_copy_tv(atom: CopyAtom, thr_layout: Layout, val_layout: Layout) -> TiledCopy:
    """A tiled copy from a layout of threads and a layout of the values of each.

    >>> atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    >>> fx.make_tiled_copy_tv(atom, fx.make_layout((8, 16), (16, 1)), fx.make_layout((1, 4), (4, 1))).layout_tv_tiled
    Layout<((16,8),4):((32,1),8)>
    """
    tiler, tv = make_layout_tv(thr_layout, val_layout)
    return make_tiled_copy(atom, tv, tiler)


def _tiled_copy_for(atom: CopyAtom, mma: TiledMma, tv: Layout, i: int, j: int) -> TiledCopy:
    size = cast("tuple[int, ...]", mma.tile_size_mnk.data)
    return make_tiled_copy(atom, tv, (size[i], size[j]))


@also_called(atom="copy_atom")
def make_tiled_copy_A(copy_atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:
    """A tiled copy matching operand A.

    >>> atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    >>> mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((2, 2, 1), (1, 2, 0)))
    >>> fx.make_tiled_copy_A(atom, mma).tile_mn
    Tile<[2|1]>
    """
    return _tiled_copy_for(copy_atom, tiled_mma, tiled_mma.tv_layout_A_tiled, 0, 2)


@also_called(atom="copy_atom")
def make_tiled_copy_B(copy_atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:
    """A tiled copy matching operand B.

    >>> atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    >>> mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((2, 2, 1), (1, 2, 0)))
    >>> fx.make_tiled_copy_B(atom, mma).tile_mn
    Tile<[2|1]>
    """
    return _tiled_copy_for(copy_atom, tiled_mma, tiled_mma.tv_layout_B_tiled, 1, 2)


@also_called(atom="copy_atom")
def make_tiled_copy_C(copy_atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:
    """A tiled copy matching operand C.

    >>> atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    >>> mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((2, 2, 1), (1, 2, 0)))
    >>> fx.make_tiled_copy_C(atom, mma).tile_mn
    Tile<[2|2]>
    """
    return _tiled_copy_for(copy_atom, tiled_mma, tiled_mma.tv_layout_C_tiled, 0, 1)


@also_called(atom="mma_atom")
def make_tiled_mma(mma_atom: MmaAtom, atom_layout: Layout, permutation: TileLike | None = None) -> TiledMma:
    """A tiled MMA from an arrangement of atoms over (M, N, K).

    >>> mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((2, 2, 1), (1, 2, 0)))
    >>> mma.tile_size_mnk
    IntTuple<(2,2,1)>
    """
    if not atom_layout.is_static:
        raise DSLValueError(f"make_tiled_mma needs a static layout, got {atom_layout}")
    tile = None if permutation is None else cast("L.Tile", as_tile(permutation).data)
    type_ = _atoms().tiled_mma_type(mma_atom.type, atom_layout.data, tile)
    return TiledMma(type_, mma_atom._value)  # pyright: ignore[reportPrivateUsage]


@also_called(t="src", tid="thr_int_tuple")
def tiled_copy_partition_src(tiled_copy: TiledCopy, src: TensorT, thr_int_tuple: IntLike) -> TensorT:
    """What thread `thr_int_tuple` reads.

    >>> atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    >>> tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((2, 4), (4, 1)), fx.make_layout((1, 2), (2, 1)))
    >>> def of_thread(x):
    ...     tile = fx.make_view(fx.get_iter(x), fx.make_layout((2, 8), (8, 1)))
    ...     return fx.tiled_copy_partition_src(tiled, tile, 1)
    >>> flyc.evaluate(of_thread, np.arange(16, dtype="f4"))
    [2.0, 3.0]
    """
    return apply("tiled_copy.partition_src", tiled_copy, src, as_int_tuple(thr_int_tuple))


@also_called(t="dst", tid="thr_int_tuple")
def tiled_copy_partition_dst(tiled_copy: TiledCopy, dst: TensorT, thr_int_tuple: IntLike) -> TensorT:
    """What thread `thr_int_tuple` writes.

    >>> atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    >>> tiled = fx.make_tiled_copy_tv(atom, fx.make_layout((2, 4), (4, 1)), fx.make_layout((1, 2), (2, 1)))
    >>> def of_thread(x):
    ...     tile = fx.make_view(fx.get_iter(x), fx.make_layout((2, 8), (8, 1)))
    ...     return fx.tiled_copy_partition_dst(tiled, tile, 4)
    >>> flyc.evaluate(of_thread, np.arange(16, dtype="f4"))
    [8.0, 9.0]
    """
    return apply("tiled_copy.partition_dst", tiled_copy, dst, as_int_tuple(thr_int_tuple))


def tiled_copy_retile(tiled_copy: TiledCopy, t: TensorT) -> TensorT:
    """A fragment in this copy's value order.

    >>> atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    >>> mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((2, 2, 1), (1, 2, 0)))
    >>> def again():
    ...     fragment = fx.make_rmem_tensor((1, 2, 2), fx.Float32)
    ...     return fx.tiled_copy_retile(fx.make_tiled_copy_C(atom, mma), fragment).layout
    >>> flyc.evaluate(again)
    Layout<((1,1),2,2):((0,0),1,2)>
    """
    return apply("tiled_copy.retile", tiled_copy, t)


@also_called(operand="operand_id", tid="coord")
def tiled_mma_partition(operand_id: MmaOperand, tiled_mma: TiledMma, t: TensorT, coord: IntLike) -> TensorT:
    """Thread `coord`'s part of an operand.

    >>> mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((2, 2, 1), (1, 2, 0)))
    >>> def of_thread(x):
    ...     tile = fx.make_view(fx.get_iter(x), fx.make_layout((2, 2), (2, 1)))
    ...     return fx.tiled_mma_partition(fx.MmaOperand.C, mma, tile, 1)
    >>> flyc.evaluate(of_thread, np.arange(4, dtype="f4"))
    [2.0]
    """
    return apply("tiled_mma.partition", tiled_mma, t, as_int_tuple(coord), operand_id=MmaOperand(operand_id))


@also_called(operand="operand_id")
def tiled_mma_partition_shape(operand_id: MmaOperand, tiled_mma: TiledMma, shape: TreeLike) -> IntTuple:
    """Shape of a part of a tensor of this shape.

    >>> mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((2, 2, 1), (1, 2, 0)))
    >>> fx.tiled_mma_partition_shape(fx.MmaOperand.C, mma, (8, 4))
    IntTuple<(1,4,2)>
    """
    return apply("tiled_mma.partition_shape", tiled_mma, as_int_tuple(shape), operand_id=MmaOperand(operand_id))


@also_called(operand="operand_id", t="input")
def mma_make_fragment(
    operand_id: MmaOperand, tiled_mma: TiledMma, input: Tensor, *, stages: int | None = None
) -> Tensor:
    """Register tensor for one thread's part of an operand.

    >>> mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), fx.make_layout((2, 2, 1), (1, 2, 0)))
    >>> def fragment():
    ...     tile = fx.make_rmem_tensor((8, 4), fx.Float32)
    ...     return fx.mma_make_fragment(fx.MmaOperand.C, mma, tile).layout
    >>> flyc.evaluate(fragment)
    Layout<(1,4,2):(0,1,4)>
    """
    return current_ir().mma_fragment(MmaOperand(operand_id), tiled_mma, input, stages)


def _check_copy(name: str, src: Any, dst: Any) -> None:
    for role, t in (("source", src), ("destination", dst)):
        if not isinstance(t, Tensor) or not hasattr(t.data.iter, "data"):
            raise DSLTypeError(f"{name}: the {role} must be a tensor of data, got {t!r}")


def _by_coordinates(
    name: str, atom: object, src: object, dst: object, pred: object, state: Mapping[str, AtomState]
) -> bool:
    """Emit a copy by an atom that takes the coordinates of a tensor for it; whether it was one.

    A side of several times what the atom moves is `(atom, iterations)`: a call for each of them.
    """
    sides = [t for t in (src, dst) if isinstance(t, Tensor)]
    if len(sides) != 2 or all(hasattr(t.data.iter, "data") for t in sides) or not isinstance(atom, CopyAtom):
        return False
    op = cast("CopyAtomType", _atoms().atom_of(atom.type)).op
    if op.moved is None:
        return False
    if pred is not None:
        raise DSLValueError(f"{name}: {atom!r} copies a whole tile and takes no predicate")
    made = atom.set_value(state) if state else atom
    sizes = [L.size(t.data.layout) for t in sides]
    calls = sizes[0] // op.moved if type(sizes[0]) is int and sizes[0] % op.moved == 0 else 0
    if not calls or sizes[0] != sizes[1]:
        raise DSLValueError(f"{name}: {atom!r} moves {op.moved} elements, got {sizes[0]} and {sizes[1]}")
    for i in range(calls):
        left, right = (t if calls == 1 else t[None, i] for t in sides)
        current_ir().emit_copy(name, made, left, right, None)
    return True


def _same_elements(name: str, src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
    """Both sides as elements of one type: bits are moved, so a side of as many bits may hold another one.

    The side with the wider elements is read as the narrower ones.
    """
    a, b = src.data.iter.data.elem, dst.data.iter.data.elem
    if a == b:
        return src, dst
    sizes = L.size(src.data.layout), L.size(dst.data.layout)
    bits = [n * t.dtype.width if type(n) is int else None for n, t in zip(sizes, (src, dst), strict=True)]
    if bits[0] is None or bits[0] != bits[1]:
        raise DSLTypeError(
            f"{name}: source holds {src.dtype}, destination {dst.dtype}; a copy moves bits: convert in registers, "
            f"as in fragment.store(source.load().to(fx.{dst.dtype}))"
        )
    if src.dtype.width > dst.dtype.width:
        return _recast(src, dst.dtype), dst
    return src, _recast(dst, src.dtype)


def _recast(t: Tensor, dtype: type[Numeric]) -> Tensor:
    return make_view(recast_iter(dtype, get_iter(t)), recast_layout(t.layout, t.dtype.width, dtype.width))


def _whole(atom: CopyAtom | TiledCopy, t: Tensor) -> Tensor:
    """A view of one element as all the values that one call of a wider atom moves from there."""
    op = cast("CopyAtomType", _atoms().atom_of(atom.type)).op
    layout = t.data.layout
    values = op.bits // t.dtype.width
    if op.thr_layout.shape != 1 or op.whole_tile or values <= 1 or L.size(layout) != 1 or type(layout) is not L.Layout:
        return t
    return make_view(get_iter(t), Layout(L.Layout(values, 1)))


def _in_calls(atom: CopyAtom | TiledCopy, src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
    """Both sides of a copy, where each is one run of more values than a call moves: cut into calls."""
    op = cast("CopyAtomType", _atoms().atom_of(atom.type)).op
    count, extent = max(op.bits // src.dtype.width, 1), L.size(src.data.layout)
    if op.thr_layout.shape != 1 or op.whole_tile or type(extent) is not int or extent <= count or extent % count:
        return src, dst
    if any(type(t.data.layout) is not L.Layout or L.flatten(t.data.layout.shape) not in (extent, (extent,))
           for t in (src, dst)):  # fmt: skip
        return src, dst
    cut = Layout(L.Layout((count, extent // count), (1, count)))
    left, right = (make_view(get_iter(t), composition(t.layout, cut)) for t in (src, dst))
    return left, right


@also_called(atom="copy_atom")
def copy_atom_call(copy_atom: CopyAtom, src: Tensor, dst: Tensor, *, pred: Tensor | None = None) -> None:
    """One call of a copy atom: from the first element of `src` to the first of `dst`.

    >>> def move(x):
    ...     atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    ...     got = fx.make_rmem_tensor(2, fx.Float32)
    ...     fx.copy_atom_call(atom, fx.make_view(fx.get_iter(x) + 2, fx.make_layout(2, 1)), got)
    ...     return got
    >>> flyc.evaluate(move, np.arange(4, dtype="f4"))
    [2.0, 3.0]
    """
    if _by_coordinates("copy_atom_call", copy_atom, src, dst, pred, {}):
        return
    _check_copy("copy_atom_call", src, dst)
    src, dst = _same_elements("copy_atom_call", _whole(copy_atom, src), _whole(copy_atom, dst))
    check_call("copy_atom_call", copy_atom, cast("CopyAtomType", _atoms().atom_of(copy_atom.type)).op, src, dst)
    current_ir().emit_copy("copy_atom_call", copy_atom, src, dst, pred)


@also_called(atom="copy_atom")
def copy(
    copy_atom: CopyAtom | TiledCopy | CopiesTiles,
    src: Place,
    dst: Place,
    *,
    pred: Tensor | None = None,
    **atom_state: AtomState,
) -> None:
    """Copy a partition, one atom call per group of values; a false predicate leaves the destination alone.

    >>> def move(x):
    ...     atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    ...     got = fx.make_rmem_tensor((1, 3), fx.Float32)
    ...     fx.copy(atom, fx.make_view(fx.get_iter(x), fx.make_layout((1, 3), (1, 2))), got)
    ...     return got
    >>> flyc.evaluate(move, np.arange(6, dtype="f4"))
    [0.0, 2.0, 4.0]
    """
    whole = getattr(copy_atom, "__copy_tile__", None)
    if whole is not None:
        if pred is not None or atom_state:
            raise DSLValueError(f"copy: {copy_atom!r} copies a whole tile and takes neither a predicate nor state")
        whole(src, dst)
        return
    if _by_coordinates("copy", copy_atom, src, dst, pred, atom_state):
        return
    _check_copy("copy", src, dst)
    if not isinstance(copy_atom, (CopyAtom, TiledCopy)):
        raise DSLTypeError(f"copy: expected a CopyAtom or TiledCopy, got {copy_atom!r}")
    if L.size(cast(Tensor, src).data.layout) == 1 or L.size(cast(Tensor, dst).data.layout) == 1:
        src, dst = _whole(copy_atom, cast(Tensor, src)), _whole(copy_atom, cast(Tensor, dst))
    src, dst = _same_elements("copy", cast(Tensor, src), cast(Tensor, dst))
    src, dst = _in_calls(copy_atom, src, dst)
    if atom_state:
        copy_atom = copy_atom.set_value(atom_state)
    a, b = src.data.layout, dst.data.layout
    if a.rank != b.rank:
        raise DSLValueError(f"copy: source {L.format_any(a)} and destination {L.format_any(b)} differ in rank")
    left, right = L.size(a), L.size(b)
    if type(left) is not int or type(right) is not int:
        raise DSLValueError(f"copy: extents must be static, got {L.format_any(a)} and {L.format_any(b)}")
    per_src, per_dst = _values_per_call(copy_atom)
    if left * per_dst != right * per_src:
        raise DSLValueError(f"copy: source {L.format_any(a)} has {left} values, destination {L.format_any(b)} {right}")
    check_call("copy", copy_atom, cast("CopyAtomType", _atoms().atom_of(copy_atom.type)).op, src, dst)
    current_ir().emit_copy("copy", copy_atom, src, dst, pred)


def _values_per_call(atom: CopyAtom | TiledCopy) -> tuple[int, int]:
    """Values a thread addresses and receives in one call; they differ only where threads copy together."""
    one = cast("CopyAtomType", _atoms().atom_of(atom.type))
    if one.op.thr_layout.shape == 1:
        return 1, 1
    return cast(int, L.size(one.tv("src")[1])), cast(int, L.size(one.tv("dst")[1]))


# --- gather and scatter -------------------------------------------------------------------------------------------


@also_called(atom="copy_atom", dst="dst_tensor")
def gather(
    copy_atom: CopyAtom, base_iter: Pointer, offset_tensor: Tensor, dst_tensor: Tensor, *, pred: Tensor | None = None
) -> None:
    """Copy from `base_iter + offset_tensor[v, rest]` to `dst_tensor[(None, v), rest]`, one call for each `(v, rest)`.

    Offsets count elements. `dst_tensor` is `((AtomV, TV), Rest...)`, offsets and predicates `(TV, Rest...)`; with
    offsets of rank 1 it may be `(AtomV, TV)`.

    >>> def pick(x):
    ...     atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    ...     where, got = fx.make_rmem_tensor(3, fx.Int32), fx.make_rmem_tensor((1, 3), fx.Float32)
    ...     where.store(fx.Vector.from_elements([5, 0, 2]))
    ...     fx.gather(atom, fx.get_iter(x), where, got)
    ...     return got
    >>> flyc.evaluate(pick, np.arange(6, dtype="f4"))
    [5.0, 0.0, 2.0]
    """
    for place, mine, flag in _addressed(
        "gather", copy_atom, base_iter, offset_tensor, dst_tensor, pred, copy_atom.layout_src_tv
    ):
        copy(copy_atom, place, mine, pred=flag)


@also_called(atom="copy_atom", src="src_tensor")
def scatter(
    copy_atom: CopyAtom, src_tensor: Tensor, base_iter: Pointer, offset_tensor: Tensor, *, pred: Tensor | None = None
) -> None:
    """Copy from `src_tensor[(None, v), rest]` to `base_iter + offset_tensor[v, rest]`; the inverse of `gather`.

    >>> def spread(x):
    ...     atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    ...     where, ours = fx.make_rmem_tensor(2, fx.Int32), fx.make_rmem_tensor((1, 2), fx.Float32)
    ...     where.store(fx.Vector.from_elements([3, 0]))
    ...     ours.store(fx.Vector.from_elements([7.0, 8.0]))
    ...     fx.scatter(atom, ours, fx.get_iter(x), where)
    ...     return [x[i] for i in range(4)]
    >>> flyc.evaluate(spread, np.zeros(4, "f4"))
    [8.0, 0.0, 0.0, 7.0]
    """
    for place, mine, flag in _addressed(
        "scatter", copy_atom, base_iter, offset_tensor, src_tensor, pred, copy_atom.layout_dst_tv
    ):
        copy(copy_atom, mine, place, pred=flag)


def _addressed(
    name: str, atom: CopyAtom, base: Pointer, offsets: Tensor, data: Tensor, pred: Tensor | None, tv: Layout
) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """For each offset: the memory it names, the part of the register tensor, and the predicate."""
    shape = L.linear_layout(offsets.data.layout)
    sizes = [L.size(shape[i]) for i in range(shape.rank)] if not shape.is_leaf else [L.size(shape)]
    values = L.linear_layout(data.data.layout)
    if not all(type(n) is int for n in sizes):
        raise DSLValueError(f"{name}: the offsets must have a static shape, got {L.format_any(offsets.data.layout)}")
    flat = len(sizes) == 1 and values.rank == 2 and values[0].is_leaf
    if not flat and (values.is_leaf or values[0].is_leaf or values[0].rank != 2):
        raise DSLValueError(
            f"{name}: the data tensor {L.format_any(values)} has no TV mode; expected ((AtomV, TV), Rest...), or "
            "(AtomV, TV) with offsets of rank 1"
        )
    modes = [L.size(values[1])] if flat else [L.size(values[0][1]), *(L.size(values[i]) for i in range(1, values.rank))]
    if modes != sizes and not (len(sizes) == 1 and modes == [sizes[0]]):
        raise DSLValueError(f"{name}: offsets of shape {tuple(sizes)} do not fit (TV, Rest...) = {tuple(modes)}")
    one = Layout(L.Layout(1, 0))
    for index in itertools.product(*(range(cast(int, n)) for n in reversed(sizes))):
        v, *rest = reversed(index)
        where = (v, *rest) if not shape.is_leaf else v
        place = make_view(base + offsets[where], tv[1])
        mine = data[None, v] if flat else data[((None, v), *rest)]
        flag = None
        if pred is not None:
            flag = make_view(get_iter(pred) + apply("crd2idx", as_int_tuple(where), pred.layout), one)
        yield place, mine, flag


__all__ = [
    "AtomicOp", "CopyAtom", "MmaAtom", "MmaOperand", "SyncScope", "ThrCopy", "ThrMma", "TiledCopy", "TiledMma",
    "UniversalAtomic", "UniversalAtomicAdd", "UniversalAtomicAnd", "UniversalAtomicDec", "UniversalAtomicInc",
    "UniversalAtomicMax", "UniversalAtomicMin", "UniversalAtomicOr", "UniversalCopy", "UniversalCopy128b",
    "UniversalCopy16b", "UniversalCopy32b", "UniversalCopy64b", "UniversalCopy8b", "UniversalFMA", "atom_set_value",
    "copy", "copy_atom_call", "gather", "make_copy_atom", "make_mma_atom", "make_tiled_copy", "make_tiled_copy_A",
    "make_tiled_copy_B", "make_tiled_copy_C", "make_tiled_copy_tv", "make_tiled_mma", "mma_make_fragment", "scatter",
    "tiled_copy_partition_dst", "tiled_copy_partition_src", "tiled_copy_retile", "tiled_mma_partition",
    "tiled_mma_partition_shape",
]  # fmt: skip
