"""How Python objects become lists of IR values and come back: the structural protocols of the language.

`DslType` objects answer `__extract_to_ir_values__` and are rebuilt by the classmethod `__construct_from_ir_values__`;
`JitArgument` objects describe how a host value crosses into compiled code; `Storable` types can live in memory.
Containers (`list`, `tuple`, `dict`, `SimpleNamespace`) are walked leaf by leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast, runtime_checkable

from ..errors import DSLTypeError
from .aliases import also_called

if TYPE_CHECKING:
    from .annotations import Attribute, Slot, SSAValue
    from .tensor import Pointer


X = TypeVar("X")


@runtime_checkable
class DslType(Protocol):
    """A value inside traced code.

    >>> isinstance(fx.Int32(3), DslType)
    True
    """

    def __extract_to_ir_values__(self) -> list[SSAValue]: ...

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: object = None) -> Self: ...


@runtime_checkable
class JitArgument(Protocol):
    """A host value that can be an argument of compiled code.

    >>> isinstance(fx.Int32(3), JitArgument)
    True
    """

    def __get_ir_types__(self) -> list[Attribute]: ...

    def __cache_signature__(self) -> object: ...

    def __c_abi_spec__(self) -> list[Slot]: ...


@runtime_checkable
class Storable(Protocol):
    """A type that can live in memory.

    >>> isinstance(fx.Int32, Storable)
    True
    """

    @classmethod
    def __dsl_size_of__(cls) -> int: ...

    @classmethod
    def __dsl_align_of__(cls) -> int: ...

    @classmethod
    def __peek_from_ptr__(cls, ptr: Pointer) -> object: ...

    @classmethod
    def __poke_into_ptr__(cls, ptr: Pointer, value: object) -> None: ...


def _fields(obj: object) -> list[object] | None:
    """Children of a container in their fixed order, or None for a leaf."""
    if isinstance(obj, (list, tuple)):
        return list(cast("Sequence[object]", obj))
    if isinstance(obj, dict):
        return list(cast("dict[object, object]", obj).values())
    if isinstance(obj, SimpleNamespace):
        return list(vars(obj).values())
    return None


def extract_to_ir_values(obj: object) -> list[SSAValue]:
    """The flat IR values of an object or container, in a fixed order.

    >>> flyc.evaluate(lambda x: len(extract_to_ir_values([x, (x, x)])), 3)
    3
    """
    # On its class, as Python looks for protocols: an object may answer to any name.
    extract = getattr(type(obj), "__extract_to_ir_values__", None)
    if extract is not None:
        return list(extract(obj))
    children = _fields(obj)
    if children is None:
        raise DSLTypeError(f"Cannot extract IR values from {obj!r} of type {type(obj).__name__}: not a DSL value")
    found: list[SSAValue] = []
    for child in children:
        found.extend(extract_to_ir_values(child))
    return found


def construct_from_ir_values(dsl_type: object, args: object, values: Sequence[SSAValue] | None = None) -> Any:
    """An object of `dsl_type`, like the exemplar `args`, made of exactly these IR values.

    The exemplar alone, which has a type, is enough: `construct_from_ir_values(exemplar, values)`.

    >>> flyc.evaluate(lambda x: construct_from_ir_values((x, x), extract_to_ir_values((x + 1, x + 2))), 3)
    (4, 5)
    >>> flyc.evaluate(lambda x: construct_from_ir_values(fx.Int32, x, extract_to_ir_values(x + 1)), 3)
    4
    """
    if values is None:
        exemplar, given = dsl_type, list(cast("Sequence[SSAValue]", args))
    else:
        exemplar, given = args, list(values)
        made = getattr(dsl_type, "__construct_from_ir_values__", None)
        if made is not None and not isinstance(exemplar, cast(type, dsl_type)):
            count = len(extract_to_ir_values(exemplar)) if exemplar is not None else len(given)
            if count != len(given):
                raise DSLTypeError(f"{dsl_type} is made of {count} IR values, got {len(given)}")
            return made(given, exemplar)
    made, used = _construct(exemplar, given, 0)
    if used != len(given):
        raise DSLTypeError(f"{type(exemplar).__name__} is made of {used} IR values, got {len(given)}")
    return made


def _construct(exemplar: Any, values: list[SSAValue], at: int) -> tuple[Any, int]:
    kind = cast(Any, type(exemplar))
    construct = getattr(kind, "__construct_from_ir_values__", None)
    if construct is not None:
        count = len(exemplar.__extract_to_ir_values__())
        return construct(values[at : at + count], exemplar), at + count
    children = _fields(exemplar)
    if children is None:
        raise DSLTypeError(f"Cannot construct {kind.__name__} from IR values: not a DSL value")
    made: list[object] = []
    for child in children:
        item, at = _construct(child, values, at)
        made.append(item)
    if isinstance(exemplar, dict):
        return dict(zip(cast("dict[object, object]", exemplar), made, strict=True)), at
    if isinstance(exemplar, SimpleNamespace):
        return SimpleNamespace(**dict(zip(vars(exemplar), made, strict=True))), at
    named = isinstance(exemplar, tuple) and hasattr(kind, "_fields")
    return kind(*made) if named else kind(made), at


def get_ir_types(obj: object) -> list[Attribute]:
    """IR types of the values an object is made of.

    >>> [str(t) for t in get_ir_types(fx.Int32(3))]
    ['i32']
    """
    own = getattr(type(obj), "__get_ir_types__", None)
    if own is not None:
        return list(own(obj))
    if hasattr(type(obj), "__extract_to_ir_values__"):
        return [v.type for v in extract_to_ir_values(obj)]
    children = _fields(obj)
    if children is None:
        raise DSLTypeError(f"Cannot derive IR types of {obj!r} of type {type(obj).__name__}: wrap it in a DSL type")
    return [t for child in children for t in get_ir_types(child)]


def cache_signature(obj: JitArgument) -> object:
    """What of an argument enters the cache key.

    >>> cache_signature(fx.Int32(3))
    'Int32'
    """
    return obj.__cache_signature__()


def c_abi_spec(obj: JitArgument) -> list[Slot]:
    """The argument slots of a host value: a ctype and the function that fills an instance of it.

    >>> [ctype.__name__ for ctype, _ in c_abi_spec(fx.Int32(3))]
    ['c_int']
    """
    return obj.__c_abi_spec__()


def _storable(obj: object, name: str) -> Any:
    method = getattr(obj, name, None)
    if method is None:
        shown = obj.__name__ if isinstance(obj, type) else repr(obj)
        raise DSLTypeError(
            f"{shown} is not Storable: it has no {name}; memory is described by fx.Array[fx.Float32, count], a class "
            "under @fx.struct or a Numeric class"
        )
    return method


@also_called(type_="dsl_type")
def dsl_size_of(dsl_type: Any) -> int:
    """Bytes a value of this type takes in memory.

    >>> dsl_size_of(fx.Struct["a": fx.Int32, "b": fx.Align[fx.Int32, 16]])
    32
    """
    return _storable(dsl_type, "__dsl_size_of__")()


@also_called(type_="dsl_type")
def dsl_align_of(dsl_type: Any) -> int:
    """Alignment in bytes of this type in memory.

    >>> dsl_align_of(fx.Array[fx.Float32, 4, 16])
    16
    """
    return _storable(dsl_type, "__dsl_align_of__")()


@also_called(type_="dsl_type")
def peek_from_ptr(dsl_type: object, ptr: Pointer) -> Any:
    """Load a value of this type.

    >>> flyc.evaluate(lambda t: peek_from_ptr(fx.Float32, fx.get_iter(t)), np.array([2.5], "f4"))
    2.5
    """
    return _storable(dsl_type, "__peek_from_ptr__")(ptr)


@also_called(type_="dsl_type")
def poke_into_ptr(dsl_type: object, ptr: Pointer, value: object) -> None:
    """Store a value of this type.

    >>> def put(t):
    ...     poke_into_ptr(fx.Float32, fx.get_iter(t), 1.5)
    ...     return t[0]
    >>> flyc.evaluate(put, np.array([2.5], "f4"))
    1.5
    """
    _storable(dsl_type, "__poke_into_ptr__")(ptr, value)
