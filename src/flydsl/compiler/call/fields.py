"""What there is to know of an argument, and every way to read it: the one table behind all calls.

A field is read in up to five ways: from the adapter a cold call makes of any value, by an expression of generated code
for each library of arrays, and by the native reader from the structures behind these arrays. A way that is missing
says that the class of the argument settles the question. A new property of arrays is one more entry here, and one
check in `plan.array_checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, cast

from ...expr.gpu import Stream
from ...runtime.dlpack import DLTensor, row_major
from .array_structs import NumpyArray, PyObject
from .host_arrays import ArrayInfo, array_info, is_torch_tensor

Library = Literal["numpy", "torch", "foreign", "adapter", "value"]
"""How generated code reads an argument: an array of a library or of any other, through an adapter, or as it is."""


class Described(Protocol):
    """An adapter of an array."""

    info: ArrayInfo

    def signature(self) -> object:
        """What of it decides the compiled code."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """A field of a C structure: the object itself, or the tensor that torch describes."""

    type: str
    """Of LLVM."""
    offset: int
    bit: int | None = None
    """Which bit of it alone."""


@dataclass(frozen=True, slots=True)
class Field:
    """One property. Expressions have `{x}` for the argument and `{v}` for its view (`VIEWS`)."""

    name: str
    cold: Callable[[object, object], object]
    """From the value as given, and its adapter."""
    warm: Mapping[Library, str] = field(default_factory=dict[Library, str])
    native: Mapping[Library, Place | None] = field(default_factory=dict[Library, "Place | None"])
    """Where the native reader finds it; None where it computes it (`native_reader`)."""
    by_identity: bool = False
    """Whether generated code compares objects instead of values."""
    modes: bool = False
    """Whether each mode has one; expressions have `{m}` for the mode."""

    def read(self, given: object, argument: object, mode: int | None = None) -> object:
        """What it is for an argument, as given and adapted; of one mode, where each has one."""
        found = self.cold(given, argument)
        if mode is None:
            return found
        return cast("tuple[int, ...]", found)[mode]


def _info(argument: object) -> ArrayInfo:
    return cast(Described, argument).info


def _signature(_: object, argument: object) -> object:
    return cast(Described, argument).signature()


def is_missing(pointer: int, shape: tuple[int, ...]) -> bool:
    """Whether an array has elements but no memory."""
    return not pointer and 0 not in shape


def leading_of(strides: tuple[int, ...]) -> int:
    """The first mode of stride one, or -1."""
    return strides.index(1) if 1 in strides else -1


def content_of(value: object) -> tuple[object, ...] | None:
    """The items of a tuple, named or not, with their classes: 1 is not True. None where an item is no plain value, or
    where the tuple can hold more than its items."""
    if not isinstance(value, tuple):
        return None
    items = cast("tuple[object, ...]", value)
    if hasattr(items, "__dict__"):
        return None
    found: list[object] = []
    for item in _items(items):
        kind: type[object] = type(item)
        if kind is int or kind is str or kind is bool or item is None:
            found += (kind, item)
        elif kind is float:
            found += (kind, cast(float, item).hex())
        else:
            inner = content_of(item)
            if inner is None:
                return None
            found += (kind, inner)
    return tuple(found)


_items = cast("Callable[[tuple[object, ...]], Iterator[object]]", tuple.__iter__)  # pyright: ignore[reportUnknownMemberType]
"""Whatever a class of the user's makes of iterating."""
_ARRAYS: tuple[Library, ...] = ("numpy", "torch")


def _array(expression: str, described: str = "", *, adapter: bool = True) -> dict[Library, str]:
    """How arrays are read: those of libraries, and any that is described by an `ArrayInfo`."""
    found: dict[Library, str] = dict.fromkeys(_ARRAYS, expression)
    if described:
        found["foreign"] = described
        if adapter:
            found["adapter"] = described
    return found


def _computed() -> dict[Library, Place | None]:
    return dict.fromkeys(_ARRAYS)


_WRITEABLE_BIT = 10
"""Of the flags of a numpy array."""

_ALL: tuple[Field, ...] = (
    Field("pointer", lambda _, a: _info(a).pointer, _array("{v}[0]", "{v}.pointer"), _computed()),
    Field(
        "class",
        lambda x, _: type(x),
        dict.fromkeys(("numpy", "torch", "foreign", "adapter", "value"), "{x}.__class__"),
        dict.fromkeys(_ARRAYS, Place("i64", PyObject.cls.offset)),
        by_identity=True,
    ),
    Field(
        "dtype",
        lambda _, a: _info(a).dtype,
        _array("{x}.dtype", "{v}.dtype", adapter=False),
        {"numpy": Place("i64", NumpyArray.dtype.offset), "torch": Place("i32", DLTensor.code.offset)},
    ),
    Field(
        "device",
        lambda _, a: (_info(a).device, _info(a).ordinal),
        {"torch": "{x}.device", **dict.fromkeys(("foreign", "adapter"), "({v}.device, {v}.ordinal)")},
        {"torch": Place("i64", DLTensor.device_type.offset)},
    ),
    Field("rank", lambda _, a: len(_info(a).shape),
          _array("__fly_len({v}[1])", "__fly_len({v}.shape)", adapter=False), _computed()),
    Field("missing", lambda _, a: is_missing(_info(a).pointer, _info(a).shape),
          _array("__fly_is_missing(*{v}[:2])", "__fly_is_missing({v}.pointer, {v}.shape)"),
          _computed()),
    Field("leading", lambda _, a: leading_of(_info(a).strides),
          _array("__fly_leading_of({v}[2])", "__fly_leading_of({v}.strides)", adapter=False), _computed()),
    Field("negated", lambda x, _: bool(getattr(x, "is_neg", bool)()), {"torch": "{x}.is_neg()"}, _computed()),
    Field("writable", lambda _, a: _info(a).writable,
          {"numpy": "{x}.flags.writeable", **dict.fromkeys(("foreign", "adapter"), "{v}.writable")},
          {"numpy": Place("i32", NumpyArray.flags.offset, _WRITEABLE_BIT)}),
    Field("extent", lambda _, a: _info(a).shape, _array("{v}[1][{m}]", "{v}.shape[{m}]"), _computed(), modes=True),
    Field("stride", lambda _, a: _info(a).strides, _array("{v}[2][{m}]", "{v}.strides[{m}]"), _computed(), modes=True),
    # Of adapters: they have read the array and checked their marks already.
    Field("signature", _signature, {"adapter": "{x}.signature()"}),
    Field("owner", lambda _, a: _info(a).owner.__class__, {"adapter": "{v}.owner.__class__"}, by_identity=True),
    Field("producer", lambda _, a: _info(a).stream, dict.fromkeys(("foreign", "adapter"), "{v}.stream")),
    # Of numbers, constants and streams.
    Field("value", lambda x, _: x, {"value": "{x}"}),
    Field("identity", lambda x, _: x, {"value": "{x}"}, by_identity=True),
    Field("content", lambda x, _: content_of(x), {"value": "__fly_content({x})"}),
    Field("bits", lambda x, _: x.hex() if isinstance(x, float) else x, {"value": "{x}.hex()"}),
    Field("stream", lambda x, _: None if x is None else (type(x), getattr(x, "raw", x)),
          {"value": "None if {x} is None else ({x}.__class__, {x}.raw)"}),
    Field("handle", lambda x, _: _handle(x), {"value": "__fly_handle({x})"}),
    Field("named", lambda x, _: _names_a_stream(x), {"value": "__fly_named({x})"}),
)  # fmt: skip

FIELDS: dict[str, Field] = {each.name: each for each in _ALL}
"""Every property, by name."""

View = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Address, extents and strides in elements, as `host_arrays.array_info` gives them."""


class _Numpy(Protocol):
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    __array_interface__: Mapping[str, tuple[int, bool]]


class _Torch(Protocol):
    shape: tuple[int, ...]

    def stride(self) -> tuple[int, ...]: ...
    def data_ptr(self) -> int: ...


def _numpy_view(x: _Numpy) -> View:
    shape, size = x.shape, x.itemsize
    if any(s % size for s in x.strides):
        raise ValueError("strides that are no multiples of the element")
    strides = row_major(shape) if 0 in shape else tuple(s // size for s in x.strides)
    return x.__array_interface__["data"][0], shape, strides


def _torch_view(x: _Torch) -> View:
    shape = tuple(x.shape)
    return x.data_ptr(), shape, row_major(shape) if 0 in shape else x.stride()


def _foreign_view(x: object) -> ArrayInfo:
    found = array_info(x)
    if found is None:
        raise TypeError("no array any more")
    return found


def _names_a_stream(x: object) -> bool:
    """Whether a stream says which one it is; `Stream(None)` is the current one."""
    return getattr(x, "raw", x) is not None


def _handle(x: object) -> int:
    found = Stream(x).handle
    if found is None:
        raise TypeError("an unspecified stream has no handle")
    return found


VIEWS = {
    "foreign": "__fly_foreign_view({x})",
    "numpy": "__fly_numpy_view({x})",
    "torch": "__fly_torch_view({x})",
    "adapter": "{x}.info",
}
"""What generated code asks of an array once."""

SCOPE: dict[str, object] = {
    "__fly_numpy_view": _numpy_view,
    "__fly_torch_view": _torch_view,
    "__fly_foreign_view": _foreign_view,
    "__fly_handle": _handle,
    "__fly_named": _names_a_stream,
    "__fly_content": content_of,
    "__fly_is_missing": is_missing,
    "__fly_leading_of": leading_of,
    "__fly_len": len,
}
"""What the expressions above mention. Parameters of the user's may have any other names."""


def library_of(value: object) -> Library | None:
    """How generated code reads arrays like this one; frameworks are told by name, so that none is imported."""
    cls: type[object] = type(value)
    if isinstance(getattr(value, "info", None), ArrayInfo):
        return "adapter"
    name = (cls.__module__, cls.__qualname__)
    if name == ("numpy", "ndarray"):
        return "numpy"
    if name in (("torch", "Tensor"), ("torch.nn.parameter", "Parameter")):
        return "torch"
    return None if is_torch_tensor(value) else "foreign"  # a subclass of tensors has ways of its own
