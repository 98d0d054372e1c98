"""Host values as arguments of compiled code: tensors, pointers, scalars, streams, user types.

An adapter says which IR types it stands for, what of it enters the cache key, and how its storage slots are filled at
each call. A tensor's run-time extents (i32) and strides (i64, or i32 on request) follow its pointer in one packed
record.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from ... import layout as L
from ...errors import DSLOverflowError, DSLTypeError, DSLValueError
from ...expr.gpu import Stream, stream_handle
from ...expr.numeric import Boolean, Float32, Int32, Numeric
from ...expr.structs import is_struct_type
from ...ir.enums import AddressSpace
from .host_arrays import ArrayInfo, array_info

C = TypeVar("C", bound=type)
Slot = tuple[Any, Callable[[Any, Any], None]]

I32_MAX = 2**31 - 1


def _is_power_of_two(x: int) -> bool:
    return x > 0 and x & (x - 1) == 0


class TensorArgument:
    """An array with a static layout; the `mark_*` methods make parts of it run-time. Chainable."""

    def __init__(self, info: ArrayInfo, *, assumed_align: int | None = None, use_32bit_stride: bool = False):
        if any(s < 0 for s in info.strides):
            raise DSLValueError(f"negative strides are not supported, got {info.strides}; pass a contiguous copy")
        natural = max((info.dtype.width + 7) // 8, 1)
        align = natural if assumed_align is None else assumed_align
        if not _is_power_of_two(align) or align % natural:
            raise DSLValueError(f"assumed_align must be a power of two and a multiple of {natural} bytes, got {align}")
        self.info = info
        self.align = align
        self.stride_width = 32 if use_32bit_stride else 64
        # A number is a static fact, None a run-time value with the divisibility beside it.
        self.shape: list[int | None] = list(info.shape)
        self.strides: list[int | None] = list(info.strides)
        self.shape_div = [1] * len(info.shape)
        self.stride_div = [1] * len(info.shape)
        self.is_default = False
        """Whether this is how an array passed without an adapter is seen."""
        self._signature: Any = None

    # --- marking --------------------------------------------------------------------------------------------------

    def mark_layout_dynamic(self, leading_dim: int | None = None, divisibility: int = 1) -> TensorArgument:
        """All extents and strides run-time, except the stride 1 of the leading dimension."""
        self._check_divisibility(divisibility)
        rank = len(self.info.shape)
        if leading_dim is None:
            found = [i for i, s in enumerate(self.info.strides) if s == 1]
            if not found:
                raise DSLValueError(
                    f"cannot auto-mark layout-dynamic: no dimension has stride 1 in strides {self.info.strides}; "
                    "pass leading_dim or keep the static layout of from_dlpack"
                )
            leading_dim = found[0]
        leading_dim = self._dims(leading_dim)[0]
        if self.info.strides[leading_dim] != 1:
            raise DSLValueError(
                f"Leading dimension must have stride 1, dimension {leading_dim} has {self.info.strides[leading_dim]}"
            )
        for i in range(rank):
            self.shape[i], self.shape_div[i] = None, divisibility if i == leading_dim else 1
            if i != leading_dim:
                self.strides[i], self.stride_div[i] = None, divisibility
        self._check_promises()
        return self

    def mark_shape_dynamic(self, dims: Any, divisibility: Any = 1) -> TensorArgument:
        """Chosen extents run-time."""
        for i, d in self._marked(dims, divisibility):
            self.shape[i], self.shape_div[i] = None, d
        self._check_promises()
        return self

    def mark_stride_dynamic(self, dims: Any, divisibility: Any = 1) -> TensorArgument:
        """Chosen strides run-time."""
        for i, d in self._marked(dims, divisibility):
            self.strides[i], self.stride_div[i] = None, d
        self._check_promises()
        return self

    def _dims(self, dims: Any) -> list[int]:
        rank = len(self.info.shape)
        chosen: list[int] = []
        for d in dims if isinstance(dims, (list, tuple)) else [dims]:  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(d, int) or not -rank <= d < rank:
                raise DSLValueError(f"dimension {d!r} is out of range for a tensor of rank {rank}")
            chosen.append(d % rank)
        return chosen

    def _marked(self, dims: Any, divisibility: Any) -> list[tuple[int, int]]:
        chosen = self._dims(dims)
        divs: list[Any] = (
            list(divisibility) if isinstance(divisibility, (list, tuple)) else [divisibility] * len(chosen)  # pyright: ignore[reportUnknownArgumentType]
        )
        if len(divs) != len(chosen):
            raise DSLValueError(f"dims and divisibility must have equal length, got {len(chosen)} and {len(divs)}")
        for d in divs:
            self._check_divisibility(d)
        return list(zip(chosen, divs, strict=True))

    @staticmethod
    def _check_divisibility(d: Any) -> None:
        if not isinstance(d, int) or isinstance(d, bool):
            raise DSLValueError(f"divisibility must be an int, got {d!r}")
        if not _is_power_of_two(d):
            raise DSLValueError(f"divisibility must be a power of two, got {d}")

    def signature(self) -> Any:
        """`__cache_signature__`, remembered until a mark changes it."""
        if self._signature is None:
            # Warm calls ask for nothing else, so what depends on all marks together is checked here.
            self._check_reach()
            self._signature = self.__cache_signature__()
        return self._signature

    def _check_promises(self) -> None:
        """What was promised of the layout must hold for the array at hand."""
        self._signature = None
        for what, values, codes, divs in (
            ("extent", self.info.shape, self.shape, self.shape_div),
            ("stride", self.info.strides, self.strides, self.stride_div),
        ):
            for i, (value, code, div) in enumerate(zip(values, codes, divs, strict=True)):
                if code is None and value % div:
                    raise DSLValueError(
                        f"the {what} of dimension {i} was promised to be a multiple of {div}, but it is {value}"
                    )

    def check(self, *, marked: bool = True) -> None:
        """Verify every promise made about the array; while it is not `marked` as it will be, only those of any mark."""
        self._check_promises()
        if self.info.pointer % self.align:
            raise DSLValueError(
                f"the data was promised to be aligned to {self.align} bytes, but its address is {self.info.pointer:#x}"
            )
        for value in self.info.shape:
            if value > I32_MAX:
                raise DSLOverflowError(f"extent {value} does not fit 32 bits")
        if self.stride_width == 32 and any(s > I32_MAX for s in self.info.strides):
            raise DSLOverflowError(f"strides {self.info.strides} do not fit 32 bits; drop use_32bit_stride")
        if marked:
            self._check_reach()

    def _check_reach(self) -> None:
        """Compiled code must be able to address all of the array."""
        # Offsets along strides of 64 bits are computed in 64; along the others in 32.
        narrow = [code is not None or self.stride_width == 32 for code in self.strides]
        steps = zip(narrow, self.info.shape, self.info.strides, strict=True)
        last = sum((extent - 1) * abs(stride) for is_narrow, extent, stride in steps if is_narrow)
        if last > I32_MAX:
            raise DSLOverflowError(
                f"a layout {self.info.shape}:{self.info.strides} with static or 32-bit strides reaches element {last}, "
                "which does not fit 32 bits; make it dynamic with .mark_layout_dynamic(), without use_32bit_stride"
            )

    # --- protocol -------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> type[Numeric]:
        """Element class."""
        return self.info.dtype

    def layout(self) -> L.Layout:
        """The layout as compiled code sees it."""
        shape = tuple(L.Dyn.get(32, d) if s is None else s for s, d in zip(self.shape, self.shape_div, strict=True))
        stride = tuple(
            L.Dyn.get(self.stride_width, d) if s is None else s
            for s, d in zip(self.strides, self.stride_div, strict=True)
        )
        return L.Layout(shape, stride)

    def __get_ir_types__(self) -> list[Any]:
        from ...dialects.fly.types import memref_type

        return [memref_type(self.dtype.ir_type, AddressSpace.Global, self.layout(), self.align)]

    def __cache_signature__(self) -> Any:
        shape = tuple(-d if s is None else s for s, d in zip(self.shape, self.shape_div, strict=True))
        stride = tuple(("dyn", d) if s is None else s for s, d in zip(self.strides, self.stride_div, strict=True))
        return ("tensor", self.dtype.__name__, self.align, self.stride_width, shape, stride)

    def __c_abi_spec__(self) -> list[Slot]:
        slots: list[Slot] = [(ctypes.c_void_p, _fill_pointer)]
        extents = [i for i, s in enumerate(self.shape) if s is None]
        steps = [i for i, s in enumerate(self.strides) if s is None]
        if extents or steps:
            record = struct.Struct("<" + "i" * len(extents) + ("q" if self.stride_width == 64 else "i") * len(steps))

            def fill(arg: TensorArgument, storage: Any) -> None:
                info = arg.info
                record.pack_into(storage, 0, *[info.shape[i] for i in extents], *[info.strides[i] for i in steps])

            slots.append((ctypes.c_char * record.size, fill))
        return slots

    def construct(self, values: Sequence[Any]) -> Any:
        """The traced value."""
        from ...dialects.fly.semantics import object_of
        from ...expr.tensor import Tensor

        return Tensor(object_of(values[0].type), values[0], self.dtype)

    def __repr__(self) -> str:
        return f"TensorArgument({self.dtype}, {self.layout()}, align={self.align})"


def _fill_pointer(arg: Any, storage: Any) -> None:
    storage.value = arg.info.pointer


def default_tensor(info: ArrayInfo) -> TensorArgument:
    """A raw array passed directly: layout-dynamic."""
    made = TensorArgument(info)
    if not info.shape or 1 not in info.strides:
        raise DSLValueError(
            f"cannot auto-mark layout-dynamic: an array of shape {info.shape} with strides {info.strides} has no "
            "dimension of stride 1; wrap it with flyc.from_dlpack"
        )
    made.mark_layout_dynamic()
    made.is_default = True
    return made


def from_dlpack(t: Any, *, assumed_align: int | None = None, use_32bit_stride: bool = False) -> TensorArgument:
    """An array with static shape and strides; chain `.mark_layout_dynamic(...)` to make them run-time.

    >>> flyc.from_dlpack(np.zeros((4, 8), "f4"))
    TensorArgument(Float32, (4,8):(8,1), align=4)
    """
    info = array_info(t)
    if info is None:
        raise DSLTypeError(
            f"from_dlpack expects a numpy array, a torch tensor or an object with an array interface, got {t!r}"
        )
    made = TensorArgument(info, assumed_align=assumed_align, use_32bit_stride=use_32bit_stride)
    made.check(marked=False)
    return made


def from_torch_tensor(t: Any, *, assumed_align: int | None = None, use_32bit_stride: bool = False) -> TensorArgument:
    """`from_dlpack` under FlyDSL's other name.

    >>> flyc.from_torch_tensor(np.zeros((4, 8), "f4"))
    TensorArgument(Float32, (4,8):(8,1), align=4)
    """
    return from_dlpack(t, assumed_align=assumed_align, use_32bit_stride=use_32bit_stride)


class PointerArgument:
    """A raw address as a typed pointer."""

    def __init__(self, dtype: type[Numeric], address: int, space: AddressSpace, align: int):
        self.dtype = dtype
        self.address = address
        self.space = space
        self.align = align

    def __get_ir_types__(self) -> list[Any]:
        from ...dialects.fly.types import ptr_type

        return [ptr_type(self.dtype.ir_type, self.space, self.align)]

    def __cache_signature__(self) -> Any:
        return ("pointer", self.dtype.__name__, int(self.space), self.align)

    def __c_abi_spec__(self) -> list[Slot]:
        return [(ctypes.c_void_p, _fill_address)]

    def construct(self, values: Sequence[Any]) -> Any:
        """The traced value."""
        from ...expr.tensor import Pointer

        return Pointer(values[0], self.dtype)

    def check(self) -> None:
        """Verify the alignment promise."""
        if self.address % self.align:
            raise DSLValueError(f"address {self.address:#x} is not aligned to {self.align} bytes as promised")

    def __repr__(self) -> str:
        return f"PointerArgument({self.dtype}, {self.address:#x})"


def _fill_address(arg: PointerArgument, storage: Any) -> None:
    storage.value = arg.address


def from_c_void_p(
    elem: type[Numeric],
    pointer: Any,
    *,
    address_space: AddressSpace = AddressSpace.Global,
    assumed_align: int | None = None,
) -> PointerArgument:
    """A raw address (int or `ctypes.c_void_p`) as a typed pointer.

    >>> flyc.from_c_void_p(fx.Float32, 4096)
    PointerArgument(Float32, 0x1000)
    """
    if not (isinstance(elem, type) and issubclass(elem, Numeric)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"from_c_void_p expects a scalar class such as fx.Float32, got {elem!r}")
    address = pointer.value if isinstance(pointer, ctypes.c_void_p) else pointer
    if not isinstance(address, int):
        raise DSLTypeError(f"from_c_void_p expects an address, got {pointer!r}")
    natural = max((elem.width + 7) // 8, 1)
    return PointerArgument(elem, address, address_space, natural if assumed_align is None else assumed_align)


class ScalarArgument:
    """A number passed as a scalar class; only its class enters the cache key."""

    def __init__(self, dtype: type[Numeric], value: Any):
        self.dtype = dtype
        self.value = value

    def __get_ir_types__(self) -> list[Any]:
        return [self.dtype.ir_type]

    def __cache_signature__(self) -> Any:
        return ("scalar", self.dtype.__name__)

    def __c_abi_spec__(self) -> list[Slot]:
        from ...expr.scalars.scalar_abi import c_abi_slot

        ctype, fill = c_abi_slot(self.dtype)
        return [(ctype, lambda arg, storage: fill(arg.value, storage))]

    def construct(self, values: Sequence[Any]) -> Any:
        """The traced value."""
        return self.dtype(values[0])

    def check(self) -> None:
        """Verify that the number fits."""
        ctype, fill = self.__c_abi_spec__()[0]
        fill(self, ctype())

    def __repr__(self) -> str:
        return f"{self.dtype}({self.value!r})"


class StreamArgument:
    """A stream; nothing of it enters the cache key."""

    def __init__(self, stream: Stream):
        self.stream = stream

    def __get_ir_types__(self) -> list[Any]:
        return self.stream.__get_ir_types__()

    def __cache_signature__(self) -> Any:
        return "stream"

    def __c_abi_spec__(self) -> list[Slot]:
        return [(ctypes.c_void_p, lambda arg, storage: None)]

    def construct(self, values: Sequence[Any]) -> Any:
        """The traced value."""
        return Stream.__construct_from_ir_values__(values)

    def check(self) -> None:
        """Streams promise nothing."""


class UserArgument:
    """A host object adapted by a registered class."""

    def __init__(self, adapter: Any, dsl_type: Any):
        self.adapter = adapter
        self.dsl_type = dsl_type

    def __get_ir_types__(self) -> list[Any]:
        return self.adapter.__get_ir_types__()

    def __cache_signature__(self) -> Any:
        cls: Any = cast(Any, type(self.adapter))
        return (cls.__module__, cls.__qualname__, self.adapter.__cache_signature__())

    def __c_abi_spec__(self) -> list[Slot]:
        return [
            (ctype, lambda arg, storage, fill=fill: fill(arg.adapter, storage))
            for ctype, fill in self.adapter.__c_abi_spec__()
        ]

    def construct(self, values: Sequence[Any]) -> Any:
        """The traced value."""
        cls: Any = self.dsl_type or cast(Any, type(self.adapter))
        return cls.__construct_from_ir_values__(values, self.adapter)

    def check(self) -> None:
        """The adapter checks itself when it fills its slots."""


class JitArgumentRegistry:
    """Host types a jit function accepts beyond the built-in ones.

    >>> flyc.JitArgumentRegistry.get(int) is None
    True
    """

    _adapters: dict[type[Any], tuple[Any, Any]] = {}

    @classmethod
    def register(cls, py_type: type[Any], *, dsl_type: Any = None) -> Callable[[C], C]:
        """Decorate the adapter class for a host type."""

        def decorate(adapter: C) -> C:
            if py_type in cls._adapters:
                raise DSLValueError(f"{py_type.__qualname__} is already registered as a jit argument")
            cls._adapters[py_type] = (adapter, dsl_type)
            return adapter

        return decorate

    @classmethod
    def register_jit_arg(cls, py_type: type[Any], dsl_type: Any) -> None:
        """Register a class that is its own adapter."""
        cls.register(py_type, dsl_type=dsl_type)(cast(Any, lambda value: value))  # pyright: ignore[reportUnknownLambdaType]

    @classmethod
    def get(cls, py_type: type[Any]) -> tuple[Any, Any] | None:
        """Adapter and DSL type of a host type: the exact type first, then its bases."""
        for base in py_type.__mro__:
            found = cls._adapters.get(base)
            if found is not None:
                return found
        return None


_PYTHON_NUMBERS: dict[type[Any], type[Numeric]] = {bool: Boolean, int: Int32, float: Float32}
ARGUMENTS = (TensorArgument, PointerArgument, ScalarArgument, StreamArgument, UserArgument)


def adapt(name: str, value: Any, annotation: Any) -> Any:
    """The argument object for a host value of parameter `name`."""
    if isinstance(value, ARGUMENTS):
        return value
    if hasattr(value, "argument"):
        # A spec: what is known of an argument that is not there.
        return value.argument()
    if isinstance(annotation, type) and issubclass(annotation, Numeric):
        return ScalarArgument(annotation, _number(name, value, annotation))
    if is_struct_type(annotation) and not isinstance(value, annotation):
        raise DSLTypeError(f"parameter '{name}' expects {annotation}, got {value!r} of type {type(value).__name__}")
    if annotation is Stream or isinstance(value, Stream):
        return StreamArgument(value if isinstance(value, Stream) else Stream(value))
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    registered = JitArgumentRegistry.get(kind)
    if registered is not None:
        adapter, dsl_type = registered
        return UserArgument(adapter(value), dsl_type)
    if hasattr(value, "__c_abi_spec__") and hasattr(value, "__get_ir_types__") and not isinstance(value, Numeric):
        return UserArgument(value, None)
    info = array_info(value)
    if info is not None:
        return default_tensor(info)
    if isinstance(value, Numeric):
        return ScalarArgument(type(value), value)
    scalar = _PYTHON_NUMBERS.get(kind)
    if scalar is not None:
        if scalar is Int32 and not -(2**31) <= value <= I32_MAX:
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


def _number(name: str, value: Any, annotation: type[Numeric]) -> Any:
    if isinstance(value, (bool, int, float, Numeric)) or hasattr(value, "__index__") or hasattr(value, "__float__"):
        if array_info(value) is None or getattr(value, "shape", None) == ():
            item = getattr(value, "item", None)
            return value if item is None or isinstance(value, Numeric) else item()
    raise DSLTypeError(f"parameter '{name}' expects {annotation}, got {value!r} of type {type(value).__name__}")
