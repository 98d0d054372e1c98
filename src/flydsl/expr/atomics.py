"""Atomics that give the old value, qualified loads and stores, fences: `fx.atomic_add(ptr, 1)`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, overload

from ..errors import DSLTypeError, DSLValueError
from ..ir.enums import SyncScope
from .numeric import Boolean, Int32, Int64, Numeric, as_numeric, dsl_class
from .scalars.constants import constant
from .tensor import Pointer, recast_iter
from .vector import Vector, VectorAlias

if TYPE_CHECKING:
    from .annotations import DTypeLike, ScalarLike, Scope, Value, ValueLike


class AtomicOrdering(IntEnum):
    """How an access is ordered with those around it, as in C++ and LLVM.

    >>> fx.AtomicOrdering.AcqRel.keyword
    'acq_rel'
    """

    NotAtomic = 0
    Unordered = 1
    Monotonic = 2
    Acquire = 4
    Release = 5
    AcqRel = 6
    SeqCst = 7

    @property
    def keyword(self) -> str:
        """LLVM's word."""
        return {"NotAtomic": "not_atomic", "AcqRel": "acq_rel", "SeqCst": "seq_cst"}.get(self.name, self.name.lower())


_O = AtomicOrdering
_RMW = (_O.Monotonic, _O.Acquire, _O.Release, _O.AcqRel, _O.SeqCst)
_LOAD = (_O.NotAtomic, _O.Unordered, _O.Monotonic, _O.Acquire, _O.SeqCst)
_STORE = (_O.NotAtomic, _O.Unordered, _O.Monotonic, _O.Release, _O.SeqCst)
_BITWISE = {"and": "_and", "or": "_or", "xor": "_xor"}


def _ir():
    from .emit import atomic_ir

    return atomic_ir


def _ordering(name: str, ordering: object, allowed: tuple[AtomicOrdering, ...]) -> str:
    if not isinstance(ordering, AtomicOrdering):
        raise DSLTypeError(f"{name}: expected an fx.AtomicOrdering, got {ordering!r}")
    if ordering not in allowed:
        raise DSLValueError(f"{name} cannot be {ordering.name}; it can be {', '.join(o.name for o in allowed)}")
    return ordering.keyword


def _scope(syncscope: SyncScope | str | None) -> str:
    return "" if syncscope is None else str(syncscope)


def _check_scope(name: str, order: AtomicOrdering, syncscope: SyncScope | str | None) -> None:
    if syncscope is not None and order is AtomicOrdering.NotAtomic:
        raise DSLValueError(
            f"{name}: syncscope={str(syncscope)!r} is of atomic accesses; give memory_order=, too, such as "
            "fx.AtomicOrdering.Monotonic"
        )


def _check_pointer(name: str, ptr: object) -> type[Numeric]:
    if not isinstance(ptr, Pointer):
        raise DSLTypeError(f"{name} expects an fx.Pointer, got {ptr!r}; fx.get_iter(tensor) gives the one of a tensor")
    return ptr.dtype


def _operand(name: str, value: object, dtype: type[Numeric]) -> Numeric:
    """A value as an element: literals that keep their value convert, DSL values must be of the type already."""
    number = as_numeric(value)
    if number.is_static() and not isinstance(value, Numeric):
        return constant(dtype, number.value)
    if type(number).ir_type != dtype.ir_type:
        raise DSLTypeError(f"{name}: the pointer holds {dtype}, the value is a {type(number)}; convert it with .to()")
    return number


def _rmw(op: str, ptr: Pointer, value: ScalarLike, syncscope: Scope, ordering: AtomicOrdering) -> Numeric:
    name = f"atomic_{op}"
    dtype = _check_pointer(name, ptr)
    number = _operand(name, value, dtype)
    if dtype.is_float:
        if op in _BITWISE:
            raise DSLTypeError(f"{name} works on bits: it is not defined for {dtype}")
        word = op if op == "xchg" else f"f{op}"
    elif op in ("min", "max"):
        word = op if dtype.signed else f"u{op}"
    else:
        word = _BITWISE.get(op, op)
    scope = None if syncscope is None else str(syncscope)
    return dtype(_ir().rmw(word, ptr, number.ir_value(), _ordering(name, ordering, _RMW), scope))


def atomic_add(
    ptr: Pointer, value: ScalarLike, *, syncscope: Scope = None, ordering: AtomicOrdering = AtomicOrdering.Monotonic
) -> Numeric:
    """`*ptr += value`; gives the old value.

    >>> def bump(x, by):
    ...     old = fx.atomic_add(fx.get_iter(x), by)
    ...     return old, x[0]
    >>> flyc.evaluate(bump, np.array([5], "i4"), 2)
    (5, 7)
    """
    return _rmw("add", ptr, value, syncscope, ordering)


def atomic_sub(
    ptr: Pointer, value: ScalarLike, *, syncscope: Scope = None, ordering: AtomicOrdering = AtomicOrdering.Monotonic
) -> Numeric:
    """`*ptr -= value`; gives the old value.

    >>> def bump(x, by):
    ...     old = fx.atomic_sub(fx.get_iter(x), by)
    ...     return old, x[0]
    >>> flyc.evaluate(bump, np.array([5], "i4"), 2)
    (5, 3)
    """
    return _rmw("sub", ptr, value, syncscope, ordering)


def atomic_min(
    ptr: Pointer, value: ScalarLike, *, syncscope: Scope = None, ordering: AtomicOrdering = AtomicOrdering.Monotonic
) -> Numeric:
    """`*ptr = min(*ptr, value)`; gives the old value.

    >>> def bump(x, by):
    ...     old = fx.atomic_min(fx.get_iter(x), by)
    ...     return old, x[0]
    >>> flyc.evaluate(bump, np.array([5], "i4"), 2)
    (5, 2)
    """
    return _rmw("min", ptr, value, syncscope, ordering)


def atomic_max(
    ptr: Pointer, value: ScalarLike, *, syncscope: Scope = None, ordering: AtomicOrdering = AtomicOrdering.Monotonic
) -> Numeric:
    """`*ptr = max(*ptr, value)`; gives the old value.

    >>> def bump(x, by):
    ...     old = fx.atomic_max(fx.get_iter(x), by)
    ...     return old, x[0]
    >>> flyc.evaluate(bump, np.array([5], "i4"), 2)
    (5, 5)
    """
    return _rmw("max", ptr, value, syncscope, ordering)


def atomic_and(
    ptr: Pointer, value: ScalarLike, *, syncscope: Scope = None, ordering: AtomicOrdering = AtomicOrdering.Monotonic
) -> Numeric:
    """`*ptr &= value`; gives the old value.

    >>> def bump(x, by):
    ...     old = fx.atomic_and(fx.get_iter(x), by)
    ...     return old, x[0]
    >>> flyc.evaluate(bump, np.array([6], "i4"), 3)
    (6, 2)
    """
    return _rmw("and", ptr, value, syncscope, ordering)


def atomic_or(
    ptr: Pointer, value: ScalarLike, *, syncscope: Scope = None, ordering: AtomicOrdering = AtomicOrdering.Monotonic
) -> Numeric:
    """`*ptr |= value`; gives the old value.

    >>> def bump(x, by):
    ...     old = fx.atomic_or(fx.get_iter(x), by)
    ...     return old, x[0]
    >>> flyc.evaluate(bump, np.array([6], "i4"), 3)
    (6, 7)
    """
    return _rmw("or", ptr, value, syncscope, ordering)


def atomic_xor(
    ptr: Pointer, value: ScalarLike, *, syncscope: Scope = None, ordering: AtomicOrdering = AtomicOrdering.Monotonic
) -> Numeric:
    """`*ptr ^= value`; gives the old value.

    >>> def bump(x, by):
    ...     old = fx.atomic_xor(fx.get_iter(x), by)
    ...     return old, x[0]
    >>> flyc.evaluate(bump, np.array([6], "i4"), 3)
    (6, 5)
    """
    return _rmw("xor", ptr, value, syncscope, ordering)


def atomic_xchg(
    ptr: Pointer, value: ScalarLike, *, syncscope: Scope = None, ordering: AtomicOrdering = AtomicOrdering.Monotonic
) -> Numeric:
    """`*ptr = value`; gives the old value.

    >>> def bump(x, by):
    ...     old = fx.atomic_xchg(fx.get_iter(x), by)
    ...     return old, x[0]
    >>> flyc.evaluate(bump, np.array([5], "i4"), 2)
    (5, 2)
    """
    return _rmw("xchg", ptr, value, syncscope, ordering)


def atomic_cas(
    ptr: Pointer,
    cmp: ScalarLike,
    val: ScalarLike,
    *,
    syncscope: Scope = None,
    success_ordering: AtomicOrdering = AtomicOrdering.Monotonic,
    failure_ordering: AtomicOrdering = AtomicOrdering.Monotonic,
    weak: bool = False,
) -> tuple[Numeric, Boolean]:
    """`if *ptr == cmp: *ptr = val`; gives the old value and whether it was written.

    >>> def swap(x):
    ...     old, done = fx.atomic_cas(fx.get_iter(x), 5, 9)
    ...     return old, done, x[0]
    >>> flyc.evaluate(swap, np.array([5], "i4"))
    (5, True, 9)
    """
    dtype = _check_pointer("atomic_cas", ptr)
    success = _ordering("atomic_cas", success_ordering, _RMW)
    failure = _ordering(
        "a failed atomic_cas", failure_ordering, tuple(o for o in _LOAD if o >= AtomicOrdering.Monotonic)
    )
    expected, new = _operand("atomic_cas", cmp, dtype), _operand("atomic_cas", val, dtype)
    bits, target = dtype, ptr
    if dtype.is_float:
        bits = _bits_class("atomic_cas", dtype)
        expected, new, target = expected.bitcast(bits), new.bitcast(bits), recast_iter(bits, ptr)
    old, done = _ir().cas(target, expected.ir_value(), new.ir_value(), success, failure, _scope(syncscope), weak)
    return (bits(old).bitcast(dtype) if dtype.is_float else dtype(old)), Boolean(done)


def _bits_class(name: str, dtype: type[Numeric]) -> type[Numeric]:
    found = {32: Int32, 64: Int64}.get(dtype.width)
    if found is None:
        raise DSLTypeError(f"{name} is not defined for {dtype}: 32- and 64-bit floats only")
    return found


def _float_extremum(
    name: str, ptr: Pointer, value: ScalarLike, is_positive: bool | None, syncscope: Scope, ordering: AtomicOrdering
) -> Numeric:
    dtype = _check_pointer(name, ptr)
    if not dtype.is_float:
        raise DSLTypeError(f"{name} works on floats, the pointer holds {dtype}; use atomic_{name[-3:]}")
    number = _operand(name, value, dtype)
    word, scope = _ordering(name, ordering, _RMW), None if syncscope is None else str(syncscope)
    if is_positive is None:
        return dtype(_ir().rmw(name.removeprefix("atomic_"), ptr, number.ir_value(), word, scope))
    # The bits of floats are ordered as signed integers if positive, and backwards as unsigned ones if negative.
    bits = _bits_class(name, dtype)
    largest = name == "atomic_fmax"
    op = ("max" if largest else "min") if is_positive else ("umin" if largest else "umax")
    old = _ir().rmw(op, recast_iter(bits, ptr), number.bitcast(bits).ir_value(), word, scope)
    return bits(old).bitcast(dtype)


def atomic_fmin(
    ptr: Pointer,
    value: ScalarLike,
    *,
    is_positive: bool | None = None,
    syncscope: Scope = None,
    ordering: AtomicOrdering = AtomicOrdering.Monotonic,
) -> Numeric:
    """Float minimum; gives the old value. Knowing the sign of `value` (`is_positive`) makes it an integer operation.

    >>> def bump(x, by):
    ...     old = fx.atomic_fmin(fx.get_iter(x), by)
    ...     return old, x[0]
    >>> flyc.evaluate(bump, np.array([5.0], "f4"), 2.5)
    (5.0, 2.5)
    """
    return _float_extremum("atomic_fmin", ptr, value, is_positive, syncscope, ordering)


def atomic_fmax(
    ptr: Pointer,
    value: ScalarLike,
    *,
    is_positive: bool | None = None,
    syncscope: Scope = None,
    ordering: AtomicOrdering = AtomicOrdering.Monotonic,
) -> Numeric:
    """Float maximum; gives the old value. Knowing the sign of `value` (`is_positive`) makes it an integer operation.

    >>> def bump(x, by):
    ...     old = fx.atomic_fmax(fx.get_iter(x), by)
    ...     return old, x[0]
    >>> flyc.evaluate(bump, np.array([5.0], "f4"), 7.5)
    (5.0, 7.5)
    """
    return _float_extremum("atomic_fmax", ptr, value, is_positive, syncscope, ordering)


@overload
def generic_load(
    ptr: Pointer,
    *,
    dtype: DTypeLike | None = None,
    count: Literal[1] | None = None,
    memory_order: AtomicOrdering = AtomicOrdering.NotAtomic,
    syncscope: Scope = None,
    nontemporal: bool = False,
    volatile: bool = False,
) -> Numeric: ...
@overload
def generic_load(
    ptr: Pointer,
    *,
    dtype: DTypeLike | type[Vector] | None = None,
    count: int | None = None,
    memory_order: AtomicOrdering = AtomicOrdering.NotAtomic,
    syncscope: Scope = None,
    nontemporal: bool = False,
    volatile: bool = False,
) -> Vector | Any: ...
def generic_load(
    ptr: Pointer,
    *,
    dtype: DTypeLike | type[Vector] | None = None,
    count: int | None = None,
    memory_order: AtomicOrdering = AtomicOrdering.NotAtomic,
    syncscope: Scope = None,
    nontemporal: bool = False,
    volatile: bool = False,
) -> Value:
    """Read an element, or a Vector by its class or by a `count` of elements, with an ordering, as volatile, or past the
    caches.

    >>> flyc.evaluate(lambda x: fx.generic_load(fx.get_iter(x), volatile=True), np.array([5], "i4"))
    5
    """
    pointed = _check_pointer("generic_load", ptr)
    order = _ordering("generic_load", memory_order, _LOAD)
    _check_scope("generic_load", memory_order, syncscope)
    alias: Any
    if isinstance(dtype, type) and issubclass(dtype, Vector):
        if count is not None:
            raise DSLTypeError(f"generic_load: {dtype.__name__} says how many elements, so count is not taken: {count}")
        alias = dtype
    else:
        cls = pointed if dtype is None else dsl_class(dtype)
        if count is not None and count < 1:
            raise DSLValueError(f"generic_load: count must be positive, got {count}")
        alias = cls if count in (None, 1) else VectorAlias(cls, count)
    if issubclass(alias, Vector) and memory_order is not AtomicOrdering.NotAtomic:
        raise DSLValueError("generic_load: an atomic load reads one element")
    return alias(_ir().load(ptr, alias.ir_type, order, _scope(syncscope), nontemporal, volatile))


def generic_store(
    ptr: Pointer,
    value: ValueLike,
    *,
    memory_order: AtomicOrdering = AtomicOrdering.NotAtomic,
    syncscope: Scope = None,
    nontemporal: bool = False,
    volatile: bool = False,
) -> None:
    """Write a scalar or Vector with an ordering, as volatile, or past the caches.

    >>> def put(x):
    ...     fx.generic_store(fx.get_iter(x), 7, memory_order=fx.AtomicOrdering.Release)
    ...     return x[0]
    >>> flyc.evaluate(put, np.array([5], "i4"))
    7
    """
    dtype = _check_pointer("generic_store", ptr)
    order = _ordering("generic_store", memory_order, _STORE)
    _check_scope("generic_store", memory_order, syncscope)
    if isinstance(value, Vector):
        if value.dtype.ir_type != dtype.ir_type:
            raise DSLTypeError(f"generic_store: the pointer holds {dtype}, the Vector {value.dtype}")
        if memory_order is not AtomicOrdering.NotAtomic:
            raise DSLValueError("generic_store: an atomic store writes one element")
        ir = value.ir_value()
    else:
        ir = _operand("generic_store", value, dtype).ir_value()
    _ir().store(ir, ptr, order, _scope(syncscope), nontemporal, volatile)


def memory_fence(*, syncscope: Scope = None, ordering: AtomicOrdering = AtomicOrdering.SeqCst) -> None:
    """Order the memory accesses before and after.

    >>> def publish(x):
    ...     x[0] = 1
    ...     fx.memory_fence(ordering=fx.AtomicOrdering.Release)
    ...     return x[0]
    >>> flyc.evaluate(publish, np.array([0], "i4"))
    1
    """
    allowed = tuple(o for o in _RMW if o is not AtomicOrdering.Monotonic)
    _ir().fence(_ordering("memory_fence", ordering, allowed), _scope(syncscope))


__all__ = [
    "AtomicOrdering", "atomic_add", "atomic_and", "atomic_cas", "atomic_fmax", "atomic_fmin", "atomic_max",
    "atomic_min", "atomic_or", "atomic_sub", "atomic_xchg", "atomic_xor", "generic_load", "generic_store",
    "memory_fence",
]  # fmt: skip
