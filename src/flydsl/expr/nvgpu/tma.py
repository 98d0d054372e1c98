"""The tensor copy engine: whole tiles between global and shared memory, issued by one thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ... import layout as L
from ...errors import DSLTypeError, DSLValueError
from ..numeric import Int32, Int64
from ..tensor import Tensor, get_iter, make_view
from ..tensors.algebra_values import ComposedLayout, IntTuple, Tile, as_int_tuple
from .sync import MBarrier
from .target import check_target, emitter, need_trace

if TYPE_CHECKING:
    from ..annotations import AnyLayout, IntLike, SSAValue, TreeLike
    from ..tensor import Pointer


_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_L2_FETCH = {0: 0, 64: 1, 128: 2, 256: 3}
CACHE_HINTS = {"normal": 0x1000000000000000, "first": 0x12F0000000000000, "last": 0x14F0000000000000}
"""What may be evicted first from L2: policies by name."""


def cache_policy(what: str, evict: str | None) -> SSAValue | None:
    """A policy by its name, as an IR value."""
    if evict is None:
        return None
    if evict not in CACHE_HINTS:
        raise DSLValueError(f"{what}: evict is one of {', '.join(CACHE_HINTS)}, got {evict!r}")
    return Int64(CACHE_HINTS[evict]).ir_value()


class TmaOp(NamedTuple):
    """A kind of tensor copy."""

    kind: str
    reduce: str | None = None
    multicast: bool = False


def TMALoad(multicast: bool = False) -> TmaOp:
    """Global to shared memory; with `multicast` to several blocks of the cluster at once.

    >>> fx.nvgpu.TMALoad()
    TmaOp(kind='load', reduce=None, multicast=False)
    """
    check_target("TMALoad", "bulk_copy")
    return TmaOp("load", None, multicast)


def TMAStore() -> TmaOp:
    """Shared to global memory; elements outside the tensor are left out.

    >>> fx.nvgpu.TMAStore()
    TmaOp(kind='store', reduce=None, multicast=False)
    """
    check_target("TMAStore", "bulk_copy")
    return TmaOp("store")


def TMAReduce(op: str) -> TmaOp:
    """Combine shared memory into global memory: add, min, max, inc, dec, and, or, xor.

    >>> fx.nvgpu.TMAReduce("add")
    TmaOp(kind='reduce', reduce='add', multicast=False)
    """
    if op not in _REDUCTIONS:
        raise DSLValueError(f"TMAReduce does {', '.join(_REDUCTIONS)}, got {op!r}")
    check_target("TMAReduce", "bulk_copy")
    return TmaOp("reduce", op)


def _leaves(t: IntTuple) -> list[IntLike]:
    found = t.unpack()
    leaves = list(cast("Sequence[IntLike]", found)) if isinstance(found, (tuple, list)) else [found]
    if any(isinstance(x, (tuple, list)) for x in leaves):
        raise DSLValueError(f"a tensor map takes a flat tensor of up to five modes, got {t}")
    return leaves


def _swizzle_bytes(smem_layout: object, width: int) -> int:
    """Bytes of the swizzle pattern of a shared layout whose elements have `width` bits."""
    if not isinstance(smem_layout, ComposedLayout):
        return 0
    inner = smem_layout.data.inner
    if type(inner) is not L.Swizzle:
        raise DSLValueError(f"a tensor copy writes plain or swizzled layouts, got {smem_layout}")
    shift = (width // 8).bit_length() - 1
    if (inner.base + shift, inner.shift) != (4, 3) or not 1 <= inner.mask <= 3:
        raise DSLValueError(
            f"a tensor copy swizzles 16-byte units by 1 to 3 bits; {inner} on elements of {width} bits is not one of "
            f"S<1,{4 - shift},3>, S<2,{4 - shift},3>, S<3,{4 - shift},3>"
        )
    return 16 << inner.mask


class TmaAtom:
    """A tensor copy with the map of its tensor; made in the jit function, used in kernels.

    Coordinates are those of the tensor's modes, in elements, and may lie outside: reads give zero there.

    >>> @flyc.kernel
    ... def nothing(load: fx.nvgpu.TmaAtom):
    ...     pass
    >>> @flyc.jit
    ... def prepare(x: fx.Tensor):
    ...     load = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), x, None, (8, 8))
    ...     nothing(load).launch(grid=1, block=32)
    >>> compiled = flyc.compile(prepare, np.zeros((16, 16), "f4"), target="cuda:sm_90")
    >>> b"tensor_map_encode" in compiled.artifact.host  # the host describes the tensor to the copy engine
    True
    """

    __slots__ = ("_map", "op", "order", "tile", "width")
    __dsl_immutable__ = True

    def __init__(self, op: TmaOp, tile: tuple[int, ...], order: tuple[int, ...], width: int, value: SSAValue):
        self.op = op
        self.tile = tile
        self.order = order
        """The tensor's modes, the contiguous one first."""
        self.width = width
        self._map = value

    @property
    def nbytes(self) -> int:
        """Bytes of one tile: what a barrier must expect."""
        count = 1
        for extent in self.tile:
            count *= extent
        return count * self.width // 8

    def _coords(self, coord: TreeLike) -> list[SSAValue]:
        if isinstance(coord, IntTuple):
            coord = coord.unpack()
        parts = list(cast("Sequence[IntLike]", coord)) if isinstance(coord, (tuple, list)) else [coord]
        if len(parts) != len(self.order):
            raise DSLValueError(f"the tensor has {len(self.order)} modes, got coordinate {coord!r}")
        return [Int32(parts[i]).ir_value() for i in self.order]

    def _memory(self, smem: Tensor | Pointer) -> SSAValue:
        if isinstance(smem, Tensor):
            if smem.dtype.width != self.width:
                raise DSLTypeError(f"the tensor holds {self.width}-bit elements, shared memory {smem.dtype}")
            return get_iter(smem).value
        return smem.value

    def load(
        self,
        coord: TreeLike,
        smem: Tensor | Pointer,
        barrier: MBarrier,
        *,
        multicast: IntLike | None = None,
        evict: str | None = None,
    ) -> None:
        """Copy the tile at `coord` to `smem`, and count its bytes on `barrier`; by one thread.

        `multicast` is the mask of the blocks of the cluster that all get it, each at the same place and with its own
        barrier. `evict` is what L2 does with the lines: "normal", "first" or "last".
        """
        need_trace("TmaAtom.load", "bulk_copy")
        if self.op.kind != "load":
            raise DSLTypeError(f"this atom was made to {self.op.kind}, not to load")
        from ..numeric import Uint16

        mask = None if multicast is None else Uint16(multicast).ir_value()
        hint = cache_policy("TmaAtom.load", evict)
        emitter().tma_load(self._memory(smem), barrier.ptr.value, self._map, self._coords(coord), mask, hint)

    def with_barrier(
        self, barrier: MBarrier, *, multicast: IntLike | None = None, evict: str | None = None
    ) -> BoundLoad:
        """The load with all it needs, for `fx.copy(load.with_barrier(b), coordinates, smem)`."""
        return BoundLoad(self, barrier, multicast, evict)

    def coordinates(self, shape: TreeLike) -> Tensor:
        """A tensor of this shape that holds its own coordinates, to be divided and sliced like the data."""
        from ..tensors.layout_functions import make_identity_layout

        modes = as_int_tuple(shape)
        if modes.is_leaf:
            modes = as_int_tuple((shape,))
        if modes.rank != len(self.order):
            raise DSLValueError(f"the tensor has {len(self.order)} modes, got the shape {shape!r}")
        return make_view((0,) * len(self.order), make_identity_layout(modes))

    def __copy_tile__(self, src: Any, dst: Any) -> None:
        """`fx.copy(atom, smem, coordinates)`."""
        if self.op.kind == "load":
            raise DSLTypeError(
                "a TMA load counts its bytes on a barrier: write fx.copy(load.with_barrier(b), coordinates, smem)"
            )
        self.store(src, _first(dst, self))

    def store(self, smem: Tensor | Pointer, coord: TreeLike) -> None:
        """Copy (or reduce) `smem` to the tile at `coord`; by one thread, then `tma_commit()`.

        Threads that wrote `smem` must have met at a barrier before.
        """
        need_trace("TmaAtom.store", "bulk_copy")
        if self.op.kind == "load":
            raise DSLTypeError("this atom was made to load")
        emitter().tma_store(self._memory(smem), self._map, self._coords(coord), self.op.reduce)

    def prefetch(self) -> None:
        """Fetch the map itself into the cache; by one thread, early."""
        need_trace("TmaAtom.prefetch", "bulk_copy")
        emitter().call("tma.prefetch_map", self._map)

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return [self._map]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: Any = None) -> TmaAtom:
        return cls(exemplar.op, exemplar.tile, exemplar.order, exemplar.width, values[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TmaAtom) and self._key() == other._key() and self._map is other._map

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> object:
        return (self.op, self.tile, self.order, self.width)

    def __repr__(self) -> str:
        return f"TmaAtom({self.op.kind}, tile={self.tile})"


class BoundLoad(NamedTuple):
    """A load and the barrier that counts it; `fx.copy` takes it."""

    atom: TmaAtom
    barrier: MBarrier
    multicast: IntLike | None
    evict: str | None

    def __copy_tile__(self, src: Any, dst: Any) -> None:
        """`fx.copy(load, coordinates, smem)`."""
        coord = _first(src, self.atom)
        self.atom.load(coord, dst, self.barrier, multicast=self.multicast, evict=self.evict)


def _first(tile: object, atom: TmaAtom) -> Any:
    """The first coordinate of a tile of a coordinate tensor that has the atom's shape."""
    if not isinstance(tile, Tensor) or hasattr(tile.data.iter, "data"):
        raise DSLTypeError(f"{atom!r} takes a tile of a tensor of coordinates, as `coordinates` makes it, got {tile!r}")
    shape = tile.data.layout.shape
    if (shape if isinstance(shape, tuple) else (shape,)) != atom.tile:
        raise DSLValueError(f"{atom!r} copies tiles of {atom.tile}, got one of {L.format_any(shape)}")
    return get_iter(tile)


def make_tma_atom(
    op: TmaOp,
    tensor: Tensor,
    smem_layout: AnyLayout | TreeLike,
    tile: TreeLike | Tile,
    *,
    swizzle: int | None = None,
    l2_fetch: int = 128,
) -> TmaAtom:
    """Describe `tensor` to the copy engine, in the jit function; pass the atom to kernels.

    `tile` has an extent of at most 256 per mode. The copy's order in shared memory is the tensor's, packed, with the
    swizzle of `smem_layout` (a composed layout) or of `swizzle` bytes: 32, 64 or 128. L2 fetches `l2_fetch` bytes from
    memory at least: 64, 128, 256, or with 0 what is asked for. (An H200 streams at 4.56 TB/s with 128, with 256
    at 4.23.)

    >>> @flyc.kernel
    ... def nothing(load: fx.nvgpu.TmaAtom):
    ...     pass
    >>> @flyc.jit
    ... def prepare(x: fx.Tensor):
    ...     load = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), x, None, (8, 8))
    ...     nothing(load).launch(grid=1, block=32)
    >>> compiled = flyc.compile(prepare, np.zeros((16, 16), "f4"), target="cuda:sm_90")
    >>> b"tensor_map_encode" in compiled.artifact.host  # the host describes the tensor to the copy engine
    True
    """
    check_target("make_tma_atom", "bulk_copy")
    width = tensor.dtype.width
    shape, strides = _leaves(tensor.shape), _leaves(tensor.stride)
    extents: Any = tile.unpack() if isinstance(tile, (Tile, IntTuple)) else tile
    box = tuple(int(x) for x in (extents if isinstance(extents, (tuple, list)) else (extents,)))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if len(box) != len(shape) or not 1 <= len(box) <= 5:
        raise DSLValueError(f"make_tma_atom: tile {box} does not fit a tensor of {len(shape)} modes (1 to 5)")
    if not all(1 <= x <= 256 for x in box):
        raise DSLValueError(f"make_tma_atom: a tile has 1 to 256 elements per mode, got {box}")
    inner = [i for i, s in enumerate(strides) if isinstance(s, int) and s == 1]
    if not inner:
        raise DSLValueError(f"make_tma_atom: no mode of {tensor.layout} has the static stride 1")
    first = next((i for i in inner if not (isinstance(shape[i], int) and shape[i] == 1)), inner[0])
    # Outer modes from the last to the first: a row-major tensor's own order.
    order = (first, *(i for i in reversed(range(len(shape))) if i != first))
    pattern = _swizzle_bytes(smem_layout, width) if swizzle is None else swizzle
    if pattern not in (0, 32, 64, 128):
        raise DSLValueError(f"make_tma_atom: swizzles are 32, 64 or 128 bytes wide, got {pattern}")
    if l2_fetch not in _L2_FETCH:
        raise DSLValueError(f"make_tma_atom: l2_fetch is 0, 64, 128 or 256 bytes, got {l2_fetch!r}")
    row = box[first] * width // 8
    if row % 16 or (pattern and row > pattern):
        limit = f" and at most the {pattern} bytes of the swizzle" if pattern else ""
        raise DSLValueError(f"make_tma_atom: a row of the tile must be a multiple of 16 bytes{limit}, got {row}")

    def wide(x: object) -> Int64:
        return Int64(x)

    dims = [wide(shape[i]).ir_value() for i in order]
    steps = [(wide(strides[i]) * wide(width // 8)).ir_value() for i in order[1:]]
    pointer = get_iter(tensor).value
    elem = tensor.dtype.ir_type
    value = emitter().tensor_map(pointer, dims, steps, [box[i] for i in order], elem, pattern, _L2_FETCH[l2_fetch])
    return TmaAtom(op, box, order, width, value)


def tma_commit() -> None:
    """End a group of this thread's tensor stores.

    >>> flyc.evaluate(lambda: fx.nvgpu.tma_commit(), target="cpu:sm_90")
    """
    need_trace("tma_commit", "bulk_copy")
    emitter().call("tma.commit")


def tma_wait(pending: int = 0, *, read: bool = False) -> None:
    """Wait until at most `pending` of this thread's groups are under way; `read`: until their sources were read.

    >>> flyc.evaluate(lambda: fx.nvgpu.tma_wait(), target="cpu:sm_90")
    """
    if not isinstance(pending, int) or pending < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLValueError(f"tma_wait takes a constant number of groups, got {pending!r}")
    need_trace("tma_wait", "bulk_copy")
    emitter().call("tma.wait_read" if read else "tma.wait", Int32(pending).ir_value())
