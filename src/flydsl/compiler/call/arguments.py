"""Host values as arguments of compiled code: tensors, pointers, scalars, streams, user types.

An adapter says which IR types it stands for, what of it enters the cache key, and how its storage slots are filled at
each call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from ...errors import DSLOverflowError, DSLTypeError, DSLValueError
from ...expr.aliases import also_called
from ...expr.gpu import Stream, stream_handle
from ...expr.numeric import Boolean, Float32, Int32, Numeric, Uint64, Uint128
from ...expr.scalars.scalar_abi import CSlot, c_abi_slot, wide_integer
from ...expr.structs import is_struct_type
from ...ir.enums import AddressSpace
from .host_arrays import array_info
from .plan import I32_MAX
from .tensor_argument import TensorArgument, default_tensor

if TYPE_CHECKING:
    from xdsl.ir import Attribute, SSAValue

    from ...expr.tensor import Pointer

C = TypeVar("C", bound="Adapter")


class HostArgument(Protocol):
    """What a user's class says of a host value (`flydsl.compiler.protocol.JitArgument`)."""

    def __get_ir_types__(self) -> list[Attribute]: ...
    def __cache_signature__(self) -> object: ...
    def __c_abi_spec__(self) -> list[CSlot]: ...


class ArgumentSpec(Protocol):
    """What is known of an argument that is not there."""

    def argument(self) -> Argument:
        """The adapter it would get."""
        ...


Adapter = Callable[[object], HostArgument]
"""A class, or a function, that makes one from a host value."""


class Constructed(Protocol):
    """A class whose instances stand for an argument while a function is traced."""

    def __construct_from_ir_values__(self, values: Sequence[SSAValue], template: object = None, /) -> object: ...


class Argument(HostArgument, Protocol):
    """A host value adapted for a call."""

    def construct(self, values: Sequence[SSAValue]) -> object:
        """The traced value."""
        ...

    def check(self) -> None:
        """Verify what was promised of it."""
        ...


Arguments = Mapping[str, Argument]


class PointerArgument:
    """A raw address as a typed pointer."""

    def __init__(self, dtype: type[Numeric], address: int, space: AddressSpace, align: int):
        self.dtype = dtype
        self.address = address
        self.space = space
        self.align = align

    def __get_ir_types__(self) -> list[Attribute]:
        from ...dialects.fly.types import ptr_type

        return [ptr_type(self.dtype.ir_type, self.space, self.align)]

    def __cache_signature__(self) -> object:
        return ("pointer", self.dtype.__name__, int(self.space), self.align)

    def __c_abi_spec__(self) -> list[CSlot]:
        return [(ctypes.c_void_p, _fill_address)]

    def construct(self, values: Sequence[SSAValue]) -> Pointer:
        """The traced value."""
        from ...expr.tensor import Pointer

        return Pointer(values[0], self.dtype)

    def check(self) -> None:
        """Verify the alignment promise."""
        if self.address % self.align:
            raise DSLValueError(f"address {self.address:#x} is not aligned to {self.align} bytes as promised")

    def __repr__(self) -> str:
        return f"PointerArgument({self.dtype}, {self.address:#x})"


def _fill_address(arg: PointerArgument, storage: ctypes.c_void_p) -> None:
    storage.value = arg.address


@also_called(elem="element_type")
def from_c_void_p(
    element_type: type[Numeric],
    pointer: int | ctypes.c_void_p,
    *,
    address_space: AddressSpace = AddressSpace.Global,
    assumed_align: int | None = None,
) -> PointerArgument:
    """A raw address (int or `ctypes.c_void_p`) as a typed pointer.

    >>> flyc.from_c_void_p(fx.Float32, 4096)
    PointerArgument(Float32, 0x1000)
    """
    if not (isinstance(element_type, type) and issubclass(element_type, Numeric)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"from_c_void_p expects a scalar class such as fx.Float32, got {element_type!r}")
    address = pointer.value if isinstance(pointer, ctypes.c_void_p) else pointer
    if not isinstance(address, int):
        raise DSLTypeError(f"from_c_void_p expects an address, got {pointer!r}")
    natural = max((element_type.width + 7) // 8, 1)
    return PointerArgument(element_type, address, address_space, natural if assumed_align is None else assumed_align)


class ScalarArgument:
    """A number passed as a scalar class; only its class enters the cache key."""

    def __init__(self, dtype: type[Numeric], value: object):
        self.dtype = dtype
        self.value = value

    def __get_ir_types__(self) -> list[Attribute]:
        return [self.dtype.ir_type]

    def __cache_signature__(self) -> object:
        return ("scalar", self.dtype.__name__)

    def __c_abi_spec__(self) -> list[CSlot]:
        ctype, fill = c_abi_slot(self.dtype)
        return [(ctype, lambda arg, storage: fill(arg.value, storage))]

    def construct(self, values: Sequence[SSAValue]) -> object:
        """The traced value."""
        return self.dtype(values[0])

    def check(self) -> None:
        """Verify that the number fits."""
        ctype, fill = self.__c_abi_spec__()[0]
        fill(self, ctype())

    def __repr__(self) -> str:
        return f"{self.dtype}({self.value!r})"


class WideArgument:
    """A 128-bit integer, which crosses the boundary as two 64-bit halves, the low one first."""

    def __init__(self, dtype: type[Numeric], value: object):
        self.dtype = dtype
        self.value = value
        self.check()

    def __get_ir_types__(self) -> list[Attribute]:
        return [Uint64.ir_type] * 2

    def __cache_signature__(self) -> object:
        return ("scalar", self.dtype.__name__)

    def __c_abi_spec__(self) -> list[CSlot]:
        def half(shift: int) -> CSlot:
            def fill(arg: WideArgument, storage: ctypes.c_uint64) -> None:
                storage.value = (arg.number() >> shift) & 0xFFFF_FFFF_FFFF_FFFF

            return ctypes.c_uint64, fill

        return [half(0), half(64)]

    def construct(self, values: Sequence[SSAValue]) -> object:
        """The traced value."""
        low, high = (Uint128(Uint64(v)) for v in values)
        return self.dtype(low | (high << 64))

    def number(self) -> int:
        """The number, which must fit."""
        return wide_integer(self.dtype)(self.value)

    def check(self) -> None:
        """Verify that the number fits."""
        self.number()

    def __repr__(self) -> str:
        return f"{self.dtype}({self.value!r})"


def scalar_argument(dtype: type[Numeric], value: object) -> ScalarArgument | WideArgument:
    """The argument for a number of a class."""
    return WideArgument(dtype, value) if dtype.width == 128 else ScalarArgument(dtype, value)


class StreamArgument:
    """A stream; nothing of it enters the cache key."""

    def __init__(self, stream: Stream):
        self.stream = stream

    def __repr__(self) -> str:
        return "Stream"

    def __get_ir_types__(self) -> list[Attribute]:
        return self.stream.__get_ir_types__()

    def __cache_signature__(self) -> object:
        return "stream"

    def __c_abi_spec__(self) -> list[CSlot]:
        return [(ctypes.c_void_p, lambda arg, storage: None)]

    def construct(self, values: Sequence[SSAValue]) -> object:
        """The traced value."""
        return Stream.__construct_from_ir_values__(values)

    def check(self) -> None:
        """Streams promise nothing."""


class UserArgument:
    """A host object adapted by a registered class."""

    def __init__(self, adapter: HostArgument, dsl_type: Constructed | None):
        self.adapter = adapter
        self.dsl_type = dsl_type

    def __repr__(self) -> str:
        return type(self.adapter).__qualname__

    def __get_ir_types__(self) -> list[Attribute]:
        return self.adapter.__get_ir_types__()

    def __cache_signature__(self) -> object:
        cls = type(self.adapter)
        return (cls.__module__, cls.__qualname__, self.adapter.__cache_signature__())

    def __c_abi_spec__(self) -> list[CSlot]:
        return [
            (ctype, lambda arg, storage, fill=fill: fill(arg.adapter, storage))
            for ctype, fill in self.adapter.__c_abi_spec__()
        ]

    def construct(self, values: Sequence[SSAValue]) -> object:
        """The traced value."""
        cls = self.dsl_type or cast(Constructed, type(self.adapter))
        return cls.__construct_from_ir_values__(values, self.adapter)

    def check(self) -> None:
        """The adapter checks itself when it fills its slots."""


def _itself(value: object) -> HostArgument:
    return cast(HostArgument, value)


class JitArgumentRegistry:
    """Host types a jit function accepts beyond the built-in ones.

    >>> flyc.JitArgumentRegistry.get(int) is None
    True
    """

    _adapters: dict[type, tuple[Adapter, Constructed | None]] = {}
    registry = _adapters
    """Adapter and DSL type by host type."""
    jit_arg2dsl_type: dict[object, Constructed | None] = {}
    """DSL type by adapter."""

    @classmethod
    def register(cls, py_type: type, *, dsl_type: Constructed | None = None) -> Callable[[C], C]:
        """Decorate the adapter class for a host type."""

        def decorate(adapter: C) -> C:
            if py_type in cls._adapters:
                raise DSLValueError(f"{py_type.__qualname__} is already registered as a jit argument")
            cls._adapters[py_type] = (adapter, dsl_type)
            cls.jit_arg2dsl_type[adapter] = dsl_type
            return adapter

        return decorate

    @classmethod
    @also_called(py_type="jit_arg")
    def register_jit_arg(cls, jit_arg: type, dsl_type: Constructed | None) -> None:
        """Register a class that is its own adapter."""
        cls.register(jit_arg, dsl_type=dsl_type)(_itself)
        cls.jit_arg2dsl_type[jit_arg] = dsl_type

    @classmethod
    def get_dsl_type(cls, jit_arg_type: object) -> Constructed | None:
        """What a traced function sees of an argument with this adapter."""
        return cls.jit_arg2dsl_type.get(jit_arg_type)

    @classmethod
    def get(cls, py_type: type) -> tuple[Adapter, Constructed | None] | None:
        """Adapter and DSL type of a host type: the exact type first, then its bases."""
        for base in py_type.__mro__:
            found = cls._adapters.get(base)
            if found is not None:
                return found
        return None


_PYTHON_NUMBERS: dict[type, type[Numeric]] = {bool: Boolean, int: Int32, float: Float32}
ARGUMENTS = (TensorArgument, PointerArgument, ScalarArgument, WideArgument, StreamArgument, UserArgument)


def adapt(name: str, value: object, annotation: object) -> Argument:
    """The argument object for a host value of parameter `name`."""
    if isinstance(value, ARGUMENTS):
        return value
    if hasattr(value, "argument"):
        return cast(ArgumentSpec, value).argument()
    if isinstance(annotation, type) and issubclass(annotation, Numeric):
        return scalar_argument(annotation, _number(name, value, annotation))
    if is_struct_type(annotation) and not isinstance(value, cast(type, annotation)):
        raise DSLTypeError(f"parameter '{name}' expects {annotation}, got {value!r} of type {type(value).__name__}")
    if annotation is Stream or isinstance(value, Stream):
        return StreamArgument(value if isinstance(value, Stream) else Stream(value))
    kind: type[object] = type(value)
    if kind in (bool, int, float, str, list, tuple) and hasattr(cast(object, annotation), "is_tensor"):
        how = "; make one of it, as with numpy.asarray(...)" if kind in (list, tuple) else ""
        raise DSLTypeError(
            f"parameter '{name}' expects an array (fx.Tensor), got {value!r} of type {kind.__name__}{how}"
        )
    registered = JitArgumentRegistry.get(kind)
    if registered is not None:
        adapter, dsl_type = registered
        return UserArgument(adapter(value), dsl_type)
    if hasattr(kind, "__c_abi_spec__") and hasattr(kind, "__get_ir_types__") and not isinstance(value, Numeric):
        return UserArgument(_itself(value), None)
    info = array_info(value)
    if info is not None:
        return default_tensor(info)
    if isinstance(value, Numeric):
        return scalar_argument(type(value), value)
    scalar = _PYTHON_NUMBERS.get(kind)
    if scalar is not None:
        if type(value) is int and not -(2**31) <= value <= I32_MAX:
            raise DSLOverflowError(
                f"parameter '{name}': {value} does not fit Int32; annotate the parameter with fx.Int64"
            )
        return ScalarArgument(scalar, value)
    if stream_handle(value) is not None:
        return StreamArgument(Stream(value))
    if value is None:
        raise DSLTypeError(
            f"parameter '{name}': cannot pass None to compiled code; where it may be left out, annotate it so "
            "(fx.Tensor | None) or let None be its default"
        )
    raise DSLTypeError(
        f"parameter '{name}': cannot pass {value!r} of type {type(value).__name__} to compiled code; "
        "expected an array, a number, a stream, or a value for a Constexpr parameter"
    )


def _number(name: str, value: object, annotation: type[Numeric]) -> object:
    if isinstance(value, (bool, int, float, Numeric)) or hasattr(value, "__index__") or hasattr(value, "__float__"):
        if array_info(value) is None or getattr(value, "shape", None) == ():
            item = getattr(value, "item", None)
            return value if item is None or isinstance(value, Numeric) else item()
    raise DSLTypeError(f"parameter '{name}' expects {annotation}, got {value!r} of type {type(value).__name__}")
