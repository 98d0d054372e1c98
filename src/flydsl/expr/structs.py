"""Structs and unions: `@fx.struct`, `fx.Struct[...]`, `@fx.union`, `fx.Union[...]`, and `fx.Align`.

A struct is an immutable record of DSL values. It flattens to the IR values of its fields wherever values do: kernel
parameters, loops, branches, jit arguments. `Constexpr` fields are part of its class instead: `P(1.0, 4)` is an instance
of `P[n=4]`, made when first needed. A union only describes memory. Light: declaring one loads no compiler.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Iterator, Sequence
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeGuard, TypeVar, cast, dataclass_transform

from ..errors import DSLTypeError, DSLValueError
from .constexpr import Constexpr, ConstexprType
from .numeric import Boolean, Numeric
from .protocol import dsl_align_of, dsl_size_of, extract_to_ir_values, get_ir_types

if TYPE_CHECKING:
    from .annotations import Attribute, Filler, Slot, SSAValue
    from .tensor import Pointer


RESERVED = frozenset(("replace", "peek", "poke"))
"""Names a field cannot have: methods of structs and of references to them."""


class CompositeKind(Enum):
    """What a type made of fields is.

    >>> fx.Struct["a": fx.Int32].__kind__
    <CompositeKind.STRUCT: 'struct'>
    """

    STRUCT = "struct"
    UNION = "union"
    Product = STRUCT
    Sum = UNION


class Field(NamedTuple):
    """One field of a struct or union."""

    name: str
    type: Any
    """A class, or what `Constexpr[T]` is."""

    @property
    def is_constexpr(self) -> bool:
        """Whether the field is part of the class and takes no room."""
        return isinstance(self.type, ConstexprType)


def type_name(type_: Any) -> str:
    """How the user writes a field type."""
    if isinstance(type_, ConstexprType):
        return repr(type_)
    return getattr(type_, "__name__", None) or repr(type_)


# --- memory layout ------------------------------------------------------------------------------------------------


class MemoryLayout(NamedTuple):
    """Where the fields of a composite lie: byte offsets, size and alignment."""

    offsets: dict[str, int]
    size: int
    align: int


def round_up(n: int, align: int) -> int:
    """The next multiple of `align`.

    >>> round_up(5, 4)
    8
    """
    return -(-n // align) * align


def memory_layout(cls: CompositeMeta) -> MemoryLayout:
    """C layout: each field at the next multiple of its alignment, those of a union at 0; the size is rounded up."""
    found = cls.__dict__.get("__memory__")
    if found is not None:
        return found
    end, widest, offsets = 0, 1, {}
    for field in cls.__fields__:
        if field.is_constexpr:
            continue
        size, align = dsl_size_of(field.type), dsl_align_of(field.type)
        at = 0 if cls.__kind__ is CompositeKind.UNION else round_up(end, align)
        offsets[field.name] = at
        end, widest = max(end, at + size), max(widest, align)
    found = MemoryLayout(offsets, round_up(end, widest), widest)
    type.__setattr__(cls, "__memory__", found)
    return found


# --- the classes --------------------------------------------------------------------------------------------------


class CompositeMeta(type):
    """Metaclass of structs and unions: calling a struct binds and coerces its fields."""

    __fields__: tuple[Field, ...]
    __kind__: CompositeKind | None
    __declared__: CompositeMeta
    """The class as declared; a specialised one points to what it was made from."""
    __consts__: dict[str, object]
    """Values of the Constexpr fields, in a specialised class."""
    __special__: dict[object, CompositeMeta]

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        if cls.__kind__ is None:
            raise DSLTypeError(f"{cls.__name__} is abstract; declare a class with @fx.struct")
        if cls.__kind__ is CompositeKind.UNION:
            raise DSLTypeError(
                f"{cls.__name__} is a union and has no value form: allocate it and use its fields through fx.Storage"
            )
        return cls._build(_bind(cls, args, kwargs))

    def _build(cls, given: dict[str, object]) -> StructValue:
        """An instance from one value per field."""
        values = {f.name: coerce_field(cls, f, given[f.name]) for f in cls.__fields__}
        return make_struct(specialize(cls.__declared__, values), values)

    def __str__(cls) -> str:
        return cls.__name__

    def __repr__(cls) -> str:
        return cls.__name__


def _bind(cls: CompositeMeta, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
    names = [f.name for f in cls.__fields__]
    wanted = [n for n in names if n not in cls.__consts__]
    positional = names if len(args) > len(wanted) else wanted
    text = f"{cls}({', '.join(names)})"
    if len(args) > len(positional):
        raise DSLTypeError(f"{text}: expected {len(names)} field(s), got {len(args)} positional values")
    given = dict(zip(positional, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise DSLTypeError(f"{text}: unexpected field '{name}'")
        if name in given:
            raise DSLTypeError(f"{text}: multiple values for field '{name}'")
        given[name] = value
    given = {**cls.__consts__, **given}
    missing = [n for n in names if n not in given]
    if missing:
        raise DSLTypeError(f"{text}: missing required field {', '.join(repr(n) for n in missing)}")
    return given


def coerce_field(cls: CompositeMeta, field: Field, value: object) -> object:
    """A value as the type of a field; a TypeError that names both if it cannot be."""
    wanted = field.type
    if isinstance(wanted, ConstexprType):
        if not wanted.accepts(value):
            inner = getattr(wanted.inner, "__name__", wanted.inner)
            raise DSLTypeError(f"{cls}.{field.name} expects {inner}, got {value!r} of type {type(value).__name__}")
        return value
    try:
        return coerce(wanted, value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DSLTypeError(
            f"{cls}.{field.name} expects {type_name(wanted)}, got {value!r} of type {type(value).__name__}: {error}"
        ) from error


def coerce(wanted: Any, value: object) -> Any:
    """A value as a DSL type: by its `__coerce__`, else it must be an instance."""
    hook = getattr(wanted, "__coerce__", None)
    if hook is not None:
        return hook(value)
    if isinstance(value, wanted):
        return value
    if wanted.__name__ == "IntTuple" and wanted.__module__.endswith("algebra_values"):
        from .tensors.algebra_values import as_int_tuple

        return as_int_tuple(value)
    raise DSLTypeError("it must be one already; a host array becomes a Tensor as a parameter of the jit function")


def constant_key(value: object) -> object:
    """A compile-time value as part of a key: 1, True and 1.0 differ."""
    if isinstance(value, tuple):
        return tuple(constant_key(v) for v in cast("tuple[object, ...]", value))
    return type(value).__name__, value.hex() if isinstance(value, float) else value


def specialize(origin: CompositeMeta, values: dict[str, object]) -> CompositeMeta:
    """The class of instances with these values: `P[b=32]` where there are Constexpr fields, else `P` itself."""
    consts = {f.name: values[f.name] for f in origin.__fields__ if f.is_constexpr}
    if not consts:
        return origin
    key = constant_key(tuple(consts.values()))
    found = origin.__special__.get(key)
    if found is None:
        name = f"{origin.__name__}[{', '.join(f'{k}={v!r}' for k, v in consts.items())}]"
        body: dict[str, object] = {
            "__slots__": (), "__doc__": origin.__doc__, "__module__": origin.__module__, "__consts__": consts,
            "__qualname__": f"{origin.__qualname__}{name[len(origin.__name__) :]}",
        }  # fmt: skip
        found = origin.__special__[key] = CompositeMeta(name, (origin,), body)
    return found


def make_struct(cls: CompositeMeta, values: dict[str, object]) -> StructValue:
    """An instance of a struct class around values that already fit."""
    made = object.__new__(cast("type[StructValue]", cls))
    vars(made).update(values)
    return made


class StructValue(metaclass=CompositeMeta):
    """Base of all structs."""

    __fields__: ClassVar[tuple[Field, ...]] = ()
    __kind__: ClassVar[CompositeKind | None] = None
    __declared__: ClassVar[Any] = None
    __consts__: ClassVar[dict[str, object]] = {}
    __special__: ClassVar[dict[object, CompositeMeta]] = {}

    __dsl_immutable__ = True

    def replace(self, **changes: object) -> Self:
        """A copy with some fields changed."""
        cls = type(self)
        given = {**self.__dict__, **changes}
        unknown = sorted(changes.keys() - {f.name for f in cls.__fields__})
        if unknown:
            raise DSLTypeError(f"{cls}.replace: unexpected field {', '.join(repr(n) for n in unknown)}")
        return cls.__declared__(**given)

    def __values__(self) -> list[tuple[Field, object]]:
        """Fields that hold values, in order."""
        return [(f, self.__dict__[f.name]) for f in self.__fields__ if not f.is_constexpr]

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(
            f"{type(self)} is immutable: cannot assign '{name}'; use p.replace({name}=...)"
        )

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"{type(self)} is immutable: cannot delete '{name}'")

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, StructValue) or other.__declared__ is not self.__declared__:
            return NotImplemented
        answer: bool | Boolean = True
        for field in self.__fields__:
            a, b = self.__dict__[field.name], other.__dict__[field.name]
            same = a is b or a == b
            if isinstance(same, Boolean) and not same.is_static():
                answer = same if answer is True else answer & same
            elif not same or type(a) is not type(b):
                return False
        return answer

    def __hash__(self) -> int:
        return hash((self.__declared__, tuple(self.__dict__[f.name] for f in self.__fields__)))

    def __repr__(self) -> str:
        parts = ", ".join(f"{f.name}={self.__dict__[f.name]!r}" for f in self.__fields__)
        return f"{self.__declared__.__name__}({parts})"

    # --- DslType and JitArgument ----------------------------------------------------------------------------------

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return [v for _, value in self.__values__() for v in extract_to_ir_values(value)]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: object = None) -> Self:
        rest = iter(values)
        kind = cls if exemplar is None else cast("type[Self]", type(exemplar))
        made: dict[str, object] = dict(kind.__consts__)
        for field in cls.__fields__:
            if not field.is_constexpr:
                made[field.name] = _rebuild(field.type, getattr(exemplar, field.name, None), rest)
        return cast("Self", make_struct(kind, made))

    @classmethod
    def __coerce__(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        raise DSLTypeError(f"expected an instance of {cls}")

    @classmethod
    def __specialize_for_value__(cls, value: object) -> type[Self]:
        return type(cls.__coerce__(value))

    def __get_ir_types__(self) -> list[Attribute]:
        return [t for _, value in self.__values__() for t in get_ir_types(value)]

    def __cache_signature__(self) -> object:
        cls = type(self)
        fields = tuple((f.name, _signature(f, value)) for f, value in self.__values__())
        consts = tuple((name, constant_key(value)) for name, value in cls.__consts__.items())
        return ("struct", cls.__declared__.__qualname__, fields, consts, method_functions(cls.__declared__))

    @classmethod
    def __fly_cache_key__(cls, value: StructValue | None = None) -> object:
        """Part of a cache key: of the class, or of an instance."""
        return _class_key(cls) if value is None else value.__cache_signature__()

    def __c_abi_spec__(self) -> list[Slot]:
        return [
            (ctype, _through(field.name, fill))
            for field, value in self.__values__()
            for ctype, fill in _slots(type(self), field, value)
        ]

    # --- Storable -------------------------------------------------------------------------------------------------

    @classmethod
    def __dsl_size_of__(cls) -> int:
        return memory_layout(cls.__declared__).size

    @classmethod
    def __dsl_align_of__(cls) -> int:
        return memory_layout(cls.__declared__).align

    @classmethod
    def __peek_from_ptr__(cls, ptr: Pointer) -> Self:
        from .tensors.storage import Storage

        return Storage[cls](ptr).peek()

    @classmethod
    def __poke_into_ptr__(cls, ptr: Pointer, value: object) -> None:
        from .tensors.storage import Storage

        Storage[cls](ptr).poke(value)


class UnionValue(metaclass=CompositeMeta):
    """Base of all unions: types that describe overlapping memory and have no values."""

    __fields__: ClassVar[tuple[Field, ...]] = ()
    __kind__: ClassVar[CompositeKind | None] = None
    __declared__: ClassVar[Any] = None
    __consts__: ClassVar[dict[str, object]] = {}
    __special__: ClassVar[dict[object, CompositeMeta]] = {}

    @classmethod
    def __dsl_size_of__(cls) -> int:
        return memory_layout(cls).size

    @classmethod
    def __dsl_align_of__(cls) -> int:
        return memory_layout(cls).align

    @classmethod
    def __peek_from_ptr__(cls, ptr: Pointer) -> Self:
        raise NotImplementedError(f"a union cannot be loaded as a whole: read one of the fields of {cls}")

    @classmethod
    def __poke_into_ptr__(cls, ptr: Pointer, value: object) -> None:
        raise NotImplementedError(f"a union cannot be stored as a whole: write one of the fields of {cls}")

    @classmethod
    def __fly_cache_key__(cls) -> object:
        """Part of a cache key."""
        return _class_key(cls)

    @classmethod
    def __coerce__(cls, value: object) -> object:
        """A reference to such a union: what a struct in memory holds in its place."""
        from .tensors.storage import Storage

        if isinstance(value, Storage) and value.__storage_type__ is cls:
            return value
        raise DSLTypeError(f"the union {cls} has no value form")


def _rebuild(type_: Any, exemplar: Any, values: Iterator[SSAValue]) -> object:
    """A field's value from the IR values that come next."""
    if exemplar is None:
        if is_struct_type(type_):
            count = sum(_count(f.type) for f in type_.__fields__ if not f.is_constexpr)
            return cast("type[StructValue]", type_).__construct_from_ir_values__([next(values) for _ in range(count)])
        return value_type(type_).__construct_from_ir_values__([next(values)])
    if isinstance(exemplar, Numeric):
        return type(exemplar).__construct_from_ir_values__([next(values)])
    count = len(exemplar.__extract_to_ir_values__())
    kind = cast(Any, type(exemplar))
    return kind.__construct_from_ir_values__([next(values) for _ in range(count)], exemplar)


def _count(type_: object) -> int:
    return sum(_count(f.type) for f in type_.__fields__ if not f.is_constexpr) if is_struct_type(type_) else 1


def _signature(field: Field, value: object) -> object:
    own = getattr(value, "__cache_signature__", None)
    if own is not None:
        return own()
    if not extract_to_ir_values(value):
        return type(value).__name__, str(value)
    raise DSLTypeError(f"field '{field.name}' holds a {type(value).__name__}, which cannot come from the host")


def _slots(cls: type[StructValue], field: Field, value: object) -> list[Slot]:
    spec = getattr(value, "__c_abi_spec__", None)
    if spec is not None:
        return spec()
    if not extract_to_ir_values(value):
        return []
    raise DSLTypeError(
        f"{cls}.{field.name} holds a {type(value).__name__}, which cannot be passed from the host inside a struct"
    )


def _through(name: str, fill: Filler) -> Filler:
    """The slot filler of a field, taking the struct (or the argument that holds it)."""

    def filler(arg: object, storage: object) -> None:
        fill(getattr(arg, name), storage)

    return filler


def _class_key(cls: CompositeMeta) -> object:
    """What a composite type is made of."""
    fields = tuple((f.name, ("constexpr", repr(f.type)) if f.is_constexpr else f.type) for f in cls.__fields__)
    return cls.__kind__, fields, tuple((k, constant_key(v)) for k, v in cls.__consts__.items()), method_functions(cls)


def method_functions(cls: type) -> tuple[tuple[str, FunctionType], ...]:
    """Functions in the body of a struct, which traced code may run: the cache key follows what they depend on."""
    found = cls.__dict__.get("__methods__")
    if found is None:
        parts = [
            (name, function)
            for base in cls.__mro__
            if isinstance(base, CompositeMeta) and base.__kind__ is not None
            for name, member in sorted(base.__dict__.items())
            for function in (member, *(getattr(member, part, None) for part in ("fget", "__func__")))
            if isinstance(function, FunctionType)
        ]
        found = tuple(parts)
        type.__setattr__(cls, "__methods__", found)
    return found


# --- declaring ----------------------------------------------------------------------------------------------------


def check_field(name: str, type_: object, owner: str) -> Field:
    """A field after the checks of its name and type."""
    if name.startswith("_"):
        raise DSLValueError(f"{owner}: field '{name}' must not start with underscore")
    if name in RESERVED:
        raise DSLValueError(f"{owner}: field name '{name}' is reserved")
    if not name.isidentifier():
        raise DSLValueError(f"{owner}: field name {name!r} is not an identifier")
    return Field(name, field_type(name, type_, owner))


def field_type(name: str, type_: object, owner: str) -> object:
    """A field's type: a DSL type, something storable, or Constexpr."""
    if type_ is Constexpr:
        return ConstexprType(Any)
    if isinstance(type_, ConstexprType):
        return type_
    if isinstance(type_, type) and any(
        hasattr(type_, hook) for hook in ("__extract_to_ir_values__", "__dsl_size_of__", "__coerce__")
    ):
        if isinstance(type_, CompositeMeta) or not issubclass(type_, Numeric) or type_.width:
            return cast("type", type_)
    raise DSLTypeError(
        f"{owner}: field '{name}' is a {type_!r}; expected a DSL type such as fx.Float32, fx.Tensor, fx.Array[...], "
        "another struct, or fx.Constexpr[int]"
    )


def _composite(
    name: str, kind: CompositeKind, fields: Sequence[Field], body: dict[str, Any], bases: tuple[type, ...]
) -> CompositeMeta:
    base = StructValue if kind is CompositeKind.STRUCT else UnionValue
    made = CompositeMeta(name, (*bases, base) if base not in bases else bases, body)
    own: dict[str, object] = {"__fields__": tuple(fields), "__kind__": kind, "__declared__": made, "__special__": {}}
    for key, value in own.items():
        type.__setattr__(made, key, value)
    return made


_LEFT_OUT = frozenset(("__dict__", "__weakref__", "__annotate__", "__annotate_func__", "__annotations_cache__"))
"""What a class has of its own, and from Python 3.14 on what makes its annotations, which are made by then."""


def _declare(cls: object, kind: CompositeKind, depth: int) -> CompositeMeta:
    if not isinstance(cls, type):
        raise DSLTypeError(f"@fx.{kind.value} decorates a class, got {cls!r}")
    fields: list[Field] = []
    for base in cls.__mro__[1:]:
        if isinstance(base, CompositeMeta) and base.__kind__ is not None:
            fields = list(base.__fields__)
            break
    scope = _scope(cls, depth + 1)
    annotations: dict[str, object] = inspect.get_annotations(cls)
    for name, annotation in annotations.items():
        resolved = _resolve(cls, name, annotation, scope)
        if resolved is typing.ClassVar or typing.get_origin(resolved) is typing.ClassVar:
            continue
        if any(f.name == name for f in fields):
            raise DSLValueError(f"{cls.__name__}: duplicate field '{name}'")
        fields.append(check_field(name, resolved, cls.__name__))
    if not fields:
        raise DSLValueError(f"{cls.__name__}: a {kind.value} needs at least one field; fx.Empty has none")
    if "__init__" in cls.__dict__ or "__new__" in cls.__dict__:
        raise DSLTypeError(
            f"{cls.__name__}: a {kind.value} is constructed from its fields; write a classmethod instead of __init__"
        )
    names = {f.name for f in fields}
    body = {k: v for k, v in cls.__dict__.items() if k not in names and k not in _LEFT_OUT}
    body["__annotations__"] = annotations
    made = _composite(cls.__name__, kind, fields, body, tuple(b for b in cls.__bases__ if b is not object))
    _rebind_class_cells(body, cls, made)
    return made


def _scope(cls: type, depth: int) -> dict[str, object]:
    """Names that string annotations may use: the module's and those of the function that declares the class."""
    module = sys.modules.get(cls.__module__)
    frame = sys._getframe(depth + 1)  # pyright: ignore[reportPrivateUsage]
    return {**(vars(module) if module is not None else {}), **frame.f_globals, **frame.f_locals}


def _resolve(cls: type, name: str, annotation: object, scope: dict[str, object]) -> object:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, scope)
    except (NameError, AttributeError, SyntaxError) as error:
        raise DSLTypeError(
            f"{cls.__name__}: cannot resolve the type {annotation!r} of field '{name}': {error}"
        ) from error


def _rebind_class_cells(body: dict[str, Any], old: object, new: object) -> None:
    """`super()` and `__class__` in methods mean the class that was made, not the one that was decorated."""
    for member in body.values():
        for part in (member, *(getattr(member, n, None) for n in ("__func__", "fget", "fset"))):
            if isinstance(part, FunctionType):
                for cell in part.__closure__ or ():
                    try:
                        if cell.cell_contents is old:
                            cell.cell_contents = new
                    except ValueError:
                        continue


C = TypeVar("C")


@dataclass_transform(frozen_default=True)
def struct(cls: type[C]) -> type[C]:
    """Declare an immutable record. It carries the names of the path `flydsl.expr.struct`, as in `fx.struct.Array`.

    >>> from flydsl.expr.numeric import Float32, Int32
    >>> @struct
    ... class Affine:
    ...     scale: Float32
    ...     bias: Float32
    ...     unroll: Constexpr[int]
    >>> p = Affine(2.0, bias=1, unroll=4)
    >>> p, type(p), p.replace(bias=0.5).bias
    (Affine(scale=Float32(2.0), bias=Float32(1.0), unroll=4), Affine[unroll=4], Float32(0.5))
    """
    return cast("type[C]", _declare(cls, CompositeKind.STRUCT, 1))


def union(cls: type) -> CompositeMeta:
    """Declare overlapping storage: every field starts at offset 0. It has no values, only places in memory.

    >>> @fx.union
    ... class Scratch:
    ...     halves: fx.Array[fx.Float16, 128]
    ...     words: fx.Array[fx.Float32, 64]
    >>> from flydsl.compiler.protocol import dsl_size_of
    >>> dsl_size_of(Scratch)
    256
    """
    return _declare(cls, CompositeKind.UNION, 1)


_inline: dict[object, CompositeMeta] = {}


def _from_items(kind: CompositeKind, items: object) -> CompositeMeta:
    parts = cast("tuple[object, ...]", items) if isinstance(items, tuple) else (items,)
    owner = kind.value.capitalize()
    fields: list[Field] = []
    for i, item in enumerate(parts):
        if isinstance(item, slice):
            part = cast("slice[object, object, object]", item)
            name, type_ = part.start, part.stop
            if not isinstance(name, str) or part.step is not None:
                raise DSLTypeError(f'{owner}[...]: write fields as "name": Type, got {item!r}')
            field = check_field(name, type_, owner)
        else:
            field = Field(f"_{i}", field_type(f"_{i}", item, owner))
        if any(f.name == field.name for f in fields):
            raise DSLValueError(f"{owner}[...]: duplicate field '{field.name}'")
        fields.append(field)
    if not fields:
        raise DSLValueError(f"{owner}[...]: a {kind.value} needs at least one field; fx.Empty has none")
    key = (kind, tuple((f.name, ("constexpr", f.type.inner) if f.is_constexpr else f.type) for f in fields))
    found = _inline.get(key)
    if found is None:
        text = ", ".join(type_name(f.type) if f.name[0] == "_" else f"{f.name}: {type_name(f.type)}" for f in fields)
        found = _inline[key] = _composite(f"{owner}[{text}]", kind, fields, {"__module__": __name__}, ())
    return found


class Struct:
    """`fx.Struct["a": T, "b": U]`: a struct without a declaration; unnamed elements are `_0`, `_1`, ...

    >>> from flydsl.expr.numeric import Int32
    >>> Struct["a": Int32, Int32]
    Struct[a: Int32, Int32]
    """

    def __class_getitem__(cls, items: object) -> CompositeMeta:
        return _from_items(CompositeKind.STRUCT, items)


class Union:
    """`fx.Union["a": T, "b": U]`: a union without a declaration.

    >>> fx.Union["halves": fx.Array[fx.Float16, 128], "words": fx.Array[fx.Float32, 64]]
    Union[halves: Array[Float16, 128], words: Array[Float32, 64]]
    """

    def __class_getitem__(cls, items: object) -> CompositeMeta:
        return _from_items(CompositeKind.UNION, items)


_EMPTY_DOC = """A struct with no fields.

    >>> fx.Empty()
    Empty()
    """
Empty = _composite("Empty", CompositeKind.STRUCT, (), {"__module__": __name__, "__doc__": _EMPTY_DOC}, ())
"""A struct with no fields."""


def is_composite_type(obj: Any) -> TypeGuard[CompositeMeta]:
    """Whether a type is a struct or a union.

    >>> fx.is_composite_type(fx.Union["a": fx.Int32]), fx.is_composite_type(fx.Int32)
    (True, False)
    """
    return isinstance(obj, CompositeMeta) and obj.__kind__ is not None


def is_struct_type(obj: Any) -> TypeGuard[CompositeMeta]:
    """Whether a type is a struct.

    >>> fx.is_struct_type(fx.Struct["a": fx.Int32]), fx.is_struct_type(fx.Union["a": fx.Int32])
    (True, False)
    """
    return isinstance(obj, CompositeMeta) and obj.__kind__ is CompositeKind.STRUCT


def is_specializable_struct_type(tp: object) -> bool:
    """Whether a type is a struct whose Constexpr fields have no values yet.

    >>> fx.is_specializable_struct_type(fx.Struct["n": fx.Constexpr[int]])
    True
    """
    return is_struct_type(tp) and not tp.__consts__ and any(f.is_constexpr for f in tp.__fields__)


# --- alignment ----------------------------------------------------------------------------------------------------


def check_power_of_two(what: str, n: object) -> int:
    """An alignment in bytes."""
    if not isinstance(n, int) or isinstance(n, bool):
        raise DSLTypeError(f"{what} must be an int, got {n!r}")
    if n <= 0:
        raise DSLValueError(f"{what} must be positive, got {n}")
    if n & (n - 1):
        raise DSLValueError(f"{what} must be a power of two, got {n}")
    return n


_aligned: dict[tuple[object, int], type[Align]] = {}


class Align:
    """`fx.Align[T, n]`: `T` at multiples of `n` bytes.

    >>> from flydsl.expr.numeric import Int32
    >>> dsl_size_of(Struct["a": Int32, "b": Align[Int32, 16]])
    32
    """

    inner: ClassVar[Any] = None
    """The type that is aligned."""
    dtype: ClassVar[Any] = None
    """The same."""
    align: ClassVar[int] = 0

    def __class_getitem__(cls, key: object) -> type[Align]:
        if cls.inner is not None or not isinstance(key, tuple) or len(cast("tuple[object, ...]", key)) != 2:
            raise DSLTypeError(f"write Align[Type, N], as in Align[fx.Int32, 16]; got {cls.__name__}[{key!r}]")
        inner, given = cast("tuple[object, object]", key)
        natural = dsl_align_of(inner)
        n = check_power_of_two(f"the alignment in Align[{type_name(inner)}, N]", given)
        if n < natural:
            raise DSLValueError(
                f"Align[{type_name(inner)}, {n}]: {n} is smaller than natural alignment {natural} of {type_name(inner)}"
            )
        found = _aligned.get((inner, n))
        if found is None:
            body = {"__slots__": (), "__module__": __name__, "inner": inner, "dtype": inner, "align": n}
            found = _aligned[inner, n] = type(f"Align[{type_name(inner)}, {n}]", (Align,), body)
        return found

    @classmethod
    def __dsl_size_of__(cls) -> int:
        return dsl_size_of(cls._inner())

    @classmethod
    def __dsl_align_of__(cls) -> int:
        cls._inner()
        return cls.align

    @classmethod
    def __peek_from_ptr__(cls, ptr: Pointer) -> Self:
        return cls._inner().__peek_from_ptr__(ptr)

    @classmethod
    def __poke_into_ptr__(cls, ptr: Pointer, value: object) -> None:
        cls._inner().__poke_into_ptr__(ptr, value)

    @classmethod
    def __coerce__(cls, value: object) -> Self:
        return coerce(cls._inner(), value)

    @classmethod
    def _inner(cls) -> Any:
        if cls.inner is None:
            raise DSLTypeError("Align is not Storable by itself: write Align[Type, N]")
        return cls.inner


def value_type(type_: object) -> Any:
    """The type of the values of a field: an aligned type is what is aligned."""
    found = type_
    while isinstance(found, type) and issubclass(found, Align):
        found = found.inner
    return cast(Any, found)


__all__ = [
    "Align", "CompositeKind", "Empty", "Struct", "Union", "is_composite_type", "is_specializable_struct_type",
    "is_struct_type", "struct", "union",
]  # fmt: skip
