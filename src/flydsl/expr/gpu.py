"""Thread and block indices, barrier, shuffles, and the stream parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from ..errors import DSLAttributeError, DSLRuntimeError, DSLTypeError, DSLValueError
from ..ir.enums import AddressSpace
from .aliases import also_called, placed, raw_binding
from .emit.trace import current, maybe_current
from .numeric import Boolean, Index, Int32, Int64, Numeric, Uint32, scalar_or_none
from .scalars.scalar_ops import CLASSES
from .vector import Vector

if TYPE_CHECKING:
    import ctypes

    from ..target import GPUTarget
    from .annotations import Attribute, IntLike, ScalarLike, Slot, SSAValue, Value

V = TypeVar("V", bound="Numeric | Vector")


def _ops():
    from .emit import gpu_ir

    return gpu_ir


class Tuple3D:
    """Three indices, `.x .y .z`; iterable.

    >>> flyc.evaluate(lambda: fx.thread_idx.x + 10 * fx.block_idx.x, threads=3)
    [0, 1, 2]
    >>> flyc.evaluate(lambda: tuple(fx.block_dim), threads=3)
    [(3, 1, 1), (3, 1, 1), (3, 1, 1)]
    """

    def __init__(self, name: str, op: str):
        self._name = name
        self._op = op

    def __getattr__(self, dim: str) -> Int32:
        if dim not in ("x", "y", "z"):
            raise DSLAttributeError(f"{self._name} has x, y and z, not {dim!r}")
        return Int32(_ops().index(self._op, dim))

    def __iter__(self) -> Iterator[Int32]:
        return iter((self.x, self.y, self.z))

    def __repr__(self) -> str:
        return self._name


thread_idx = Tuple3D("thread_idx", "thread_id")
block_idx = Tuple3D("block_idx", "block_id")
block_dim = Tuple3D("block_dim", "block_dim")
grid_dim = Tuple3D("grid_dim", "grid_dim")


@placed
def barrier(*, address_spaces: object = None, named_barrier: object = None, scope: object = None) -> None:
    """All threads of the block meet here; memory written before is visible after.

    Anything else is said by the attributes of `gpu.barrier`, as the builder of MLIR's bindings takes them.

    >>> def reversed_order():
    ...     cells = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 4]).peek()
    ...     cells[fx.thread_idx.x] = fx.thread_idx.x
    ...     fx.barrier()
    ...     return cells[3 - fx.thread_idx.x]
    >>> flyc.evaluate(reversed_order, threads=4)
    [3, 2, 1, 0]
    """
    given = {"address_spaces": address_spaces, "named_barrier": named_barrier, "scope": scope}
    more = {name: value for name, value in given.items() if value is not None}
    if more:
        cast("Callable[..., object]", raw_binding("gpu", "barrier"))(**more)
    else:
        _ops().barrier()


def lane_id() -> Int32:
    """Index of the thread in its warp or wave.

    >>> flyc.evaluate(fx.lane_id, threads=4)
    [0, 1, 2, 3]
    """
    return Int32(_ops().lane_id())


def known_block_size() -> tuple[int, int, int]:
    """Block size of the kernel being traced.

    >>> flyc.evaluate(lambda: fx.known_block_size())
    (1, 1, 1)
    """
    for function in reversed(current().functions):
        size = getattr(function, "block_size", None)
        if size is not None:
            return size
    raise DSLRuntimeError("no compile-time block size: launch with static block=... or declare known_block_size")


def num_warp_threads() -> int:
    """Threads per warp or wave of the target.

    >>> flyc.evaluate(lambda: fx.num_warp_threads() in (32, 64))
    True
    """
    return current_target().warp_size


def current_target() -> GPUTarget:
    """What is compiled for: the target of the trace in progress, else the one the selected stack would compile for.

    >>> flyc.evaluate(lambda: fx.gpu.current_target().arch, target="cpu:gfx942")
    'gfx942'
    """
    tracer = maybe_current()
    for function in () if tracer is None else tracer.functions:
        target = getattr(function, "target", None)
        if target is not None:
            return target
    return import_module("flydsl.runtime.device").selected_target()


def target() -> GPUTarget:
    """What is compiled for, while tracing: `fx.target().arch`, `.warp_size`, `.has("mfma")`, `.features`, `.caps`.

    A branch on it is decided while tracing. Outside a trace it is what the selected stack would compile for.

    >>> flyc.evaluate(lambda: 1 if fx.target().has("mfma") else 0, target="cpu:gfx942")
    1
    >>> flyc.evaluate(lambda: fx.target().warp_size, target="cpu:sm_90")
    32
    """
    return current_target()


# --- shuffles -----------------------------------------------------------------------------------------------------

_MODES = ("xor", "up", "down", "idx")


def shuffle(value: V, offset: IntLike, width: IntLike | None = None, mode: str = "xor") -> V:
    """The `value` of another lane of the warp: `fx.gpu.shuffle(x, 1, 32, "xor")`.

    `mode` says which: lane `xor` offset, `up` (lane - offset), `down` (lane + offset), or `idx`, lane `offset` of the
    warp itself. The first three stay within segments of `width` lanes, the warp by default: a lane whose source would
    lie outside of its own reads itself. Any scalar class or Vector, which keeps its class; what is wider than 32 bits
    travels in pieces.

    >>> flyc.evaluate(lambda: fx.gpu.shuffle(fx.thread_idx.x, 1, 4, mode="xor"), threads=4)
    [1, 0, 3, 2]
    >>> flyc.evaluate(lambda: fx.gpu.shuffle(fx.thread_idx.x, 1, 2, mode="idx"), threads=4)
    [1, 1, 1, 1]
    """
    if mode not in _MODES:
        raise DSLValueError(f"shuffle mode must be one of {', '.join(_MODES)}, got {mode!r}")
    lanes = num_warp_threads() if width is None else width
    by, within = (_lane_number(n, x) for n, x in (("offset", offset), ("width", lanes)))
    return cast("V", _shuffled(value, by, within, mode))


def _shuffled(value: object, by: SSAValue, within: SSAValue, mode: str) -> Value:
    if isinstance(value, Vector):
        return _shuffle_vector(value, by, within, mode)
    number = scalar_or_none(value)
    if number is None:
        raise DSLTypeError(f"shuffle takes scalars and Vectors, got {value!r} of type {type(value).__name__}")
    return _shuffle_scalar(number, by, within, mode)


def _lane_number(what: str, x: object) -> SSAValue:
    number = scalar_or_none(x)
    if number is None or not number.is_integer:
        raise DSLTypeError(f"shuffle: the {what} must be an integer, got {x!r}")
    return Int32(number).ir_value()


def _shuffle_scalar(x: Numeric, by: SSAValue, within: SSAValue, mode: str) -> Numeric:
    cls = type(x)
    if cls in (CLASSES["Float32"], Int32, Uint32):
        return cls(_ops().shuffle(x.ir_value(), by, within, mode))
    if cls is Index:
        return Index(_shuffle_scalar(Int64(x), by, within, mode))
    if cls.width <= 32:
        if cls.is_float:
            bits = CLASSES.get(f"Uint{cls.width}")
            if bits is None:
                raise DSLTypeError(f"cannot shuffle a {cls}: convert it first, as in x.to(fx.Float16)")
            return _shuffle_scalar(x.bitcast(bits), by, within, mode).bitcast(cls)
        return cls(Int32(_ops().shuffle(Int32(x).ir_value(), by, within, mode)))
    bits = CLASSES[f"Uint{cls.width}"]
    whole = x.bitcast(bits) if cls.is_float else bits(x)
    made = bits(0)
    for at in range(0, cls.width, 32):
        piece = Uint32(_ops().shuffle(Uint32(whole >> bits(at)).ir_value(), by, within, mode))
        made = made | (bits(piece) << bits(at))
    return made.bitcast(cls) if cls.is_float else cls(made)


def _shuffle_vector(v: Vector, by: SSAValue, within: SSAValue, mode: str) -> Vector:
    cls = v.dtype
    if cls is Index or cls.width == 1 or (v.numel * cls.width) % 32:
        items = [_shuffle_scalar(v[i], by, within, mode) for i in range(v.numel)]
        return Vector.from_elements(items, cls).reshape(v.shape)
    words = v.bitcast(Int32)
    moved = [Int32(_ops().shuffle(words[i].ir_value(), by, within, mode)) for i in range(words.numel)]
    return Vector.from_elements(moved, Int32).bitcast(cls).reshape(v.shape)


def shuffle_xor(value: V, offset: IntLike, width: IntLike | None = None) -> V:
    """The value of lane `lane ^ offset`.

    >>> flyc.evaluate(lambda: fx.shuffle_xor(fx.thread_idx.x, 2, 4), threads=4)
    [2, 3, 0, 1]
    """
    return shuffle(value, offset, width, "xor")


def shuffle_up(value: V, offset: IntLike, width: IntLike | None = None) -> V:
    """The value of lane `lane - offset`; unspecified where that is outside the segment.

    >>> flyc.evaluate(lambda: fx.shuffle_up(fx.thread_idx.x, 1, 4), threads=4)
    [0, 0, 1, 2]
    """
    return shuffle(value, offset, width, "up")


def shuffle_down(value: V, offset: IntLike, width: IntLike | None = None) -> V:
    """The value of lane `lane + offset`; unspecified where that is outside the segment.

    >>> flyc.evaluate(lambda: fx.shuffle_down(fx.thread_idx.x, 1, 4), threads=4)
    [1, 2, 3, 3]
    """
    return shuffle(value, offset, width, "down")


def shuffle_idx(value: V, lane: IntLike, width: IntLike | None = None) -> V:
    """The value of an absolute lane of the warp.

    >>> flyc.evaluate(lambda: fx.shuffle_idx(fx.thread_idx.x * 10, 2, 4), threads=4)
    [20, 20, 20, 20]
    """
    return shuffle(value, lane, width, "idx")


def ballot(condition: ScalarLike) -> Int64:
    """One bit per lane of the warp: where a condition holds.

    >>> from flydsl.expr.gpu import ballot
    >>> flyc.evaluate(lambda: ballot(fx.lane_id() != 1), threads=4)
    [13, 13, 13, 13]
    """
    return Int64(_ops().ballot(Boolean(condition).ir_value()))


# --- raw helpers --------------------------------------------------------------------------------------------------


def _raw(op: str, dim: str, upper_bound: int | None) -> Index:
    """An id; that it stays below a bound is a promise, which follows from the size of the block where it is known."""
    if upper_bound is not None and (type(upper_bound) is not int or upper_bound < 1):
        raise DSLValueError(f"{op} takes a positive int as upper_bound, got {upper_bound!r}")
    if dim not in ("x", "y", "z"):
        raise DSLValueError(f"{op} takes 'x', 'y' or 'z', got {dim!r}")
    return Index(_ops().raw_index(op, dim))


@placed
@also_called(dim="dimension")
def thread_id(dimension: str = "x", *, upper_bound: int | None = None) -> Index:
    """Index of the thread in its block, as an `Index`; `fx.thread_idx.x` is an `Int32`.

    >>> flyc.evaluate(lambda: fx.gpu.thread_id("x"), threads=3)
    [0, 1, 2]
    """
    return _raw("thread_id", dimension, upper_bound)


@placed
@also_called(dim="dimension")
def block_id(dimension: str = "x", *, upper_bound: int | None = None) -> Index:
    """Index of the block in the grid, as an `Index`.

    >>> flyc.evaluate(lambda: fx.gpu.block_id("x"))
    0
    """
    return _raw("block_id", dimension, upper_bound)


@overload
def smem_space(int: Literal[False] = False) -> AddressSpace: ...
@overload
def smem_space(int: Literal[True]) -> Literal[3]: ...
def smem_space(int: bool = False) -> AddressSpace | Literal[3]:
    """The address space of shared memory; with `int` the number GPUs have for it.

    >>> fx.gpu.smem_space(int=True)
    3
    """
    return 3 if int else AddressSpace.Shared


lds_space = smem_space


class Stream:
    """The stream a jit function launches on: `None` (unspecified), an int handle or a framework's stream object.

    Write it as the last parameter, `stream: fx.Stream = fx.Stream(None)`, and pass it to `launch(stream=stream)`.

    >>> fx.Stream(None), fx.Stream(0).handle
    (Stream(None), 0)
    """

    __slots__ = ("_ir", "raw")

    @also_called(raw="value")
    def __init__(self, value: Any = None):
        if isinstance(value, Stream):
            value = value.raw
        if value is not None and not isinstance(value, int) and stream_handle(value) is None:
            raise DSLValueError(f"expected None, an int handle or a stream object, got {value!r}")
        self.raw: Any = value
        self._ir: SSAValue | None = None

    @property
    def value(self) -> Any:
        """What was given: None, a handle or a stream object."""
        return self.raw

    @property
    def handle(self) -> int | None:
        """Raw handle; None when unspecified."""
        return None if self.raw is None else stream_handle(self.raw)

    def ir_value(self) -> SSAValue:
        """The IR token while tracing."""
        if self._ir is None:
            raise DSLRuntimeError("this stream is a host value, not a parameter of the traced function")
        return self._ir

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return [self.ir_value()]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: object = None) -> Stream:
        made = cls(None)
        made._ir = values[0]
        return made

    def __get_ir_types__(self) -> list[Attribute]:
        return [_ops().token_type()]

    def __cache_signature__(self) -> object:
        return "stream"

    def __c_abi_spec__(self) -> list[Slot]:
        import ctypes

        return [(ctypes.c_void_p, _fill_handle)]

    def __repr__(self) -> str:
        return f"Stream({self.raw!r})"


def _fill_handle(stream: Stream, slot: ctypes.c_void_p) -> None:
    """Store a stream's handle in its C slot."""
    slot.value = stream.handle or 0


def stream_handle(raw: object) -> int | None:
    """Integer handle of a stream object of any framework, or None."""
    if isinstance(raw, int):
        return raw
    for name in ("handle", "cuda_stream", "ptr"):
        value = getattr(raw, name, None)
        if isinstance(value, int):
            return value
    protocol = getattr(raw, "__cuda_stream__", None)
    return int(protocol()[1]) if protocol is not None else None


_ELSEWHERE: dict[str, str] = {
    name: module
    for module, names in {
        "flydsl.expr": (
            "Arena Array CompositeKind Empty PointerType SharedAllocator Storage Uint8 as_ir_value get_dyn_shared "
            "is_composite_type is_struct_type make_ptr"
        ),
        "flydsl.expr.protocol": "dsl_align_of dsl_size_of",
        "flydsl.expr.meta": "dsl_loc_tracing dsl_math_wrap_result tracing_option",
    }.items()
    for name in names.split()
}
"""What FlyDSL's module of this name offers too."""


def __getattr__(name: str) -> object:
    where = _ELSEWHERE.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(where), name)


__all__ = [
    "Stream", "Tuple3D", "barrier", "block_dim", "block_id", "block_idx", "grid_dim", "known_block_size", "lane_id",
    "lds_space", "num_warp_threads", "shuffle", "shuffle_down", "shuffle_idx", "shuffle_up", "shuffle_xor",
    "smem_space", "thread_id", "thread_idx",
]  # fmt: skip
