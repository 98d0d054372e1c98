"""Arrays as arguments of compiled code.

A tensor's run-time extents (i32) and strides (i64, or i32 on request) follow its pointer in one packed record.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ... import layout as L
from ...errors import DSLOverflowError, DSLTypeError, DSLValueError
from ...expr.aliases import also_called
from ...expr.numeric import Numeric
from ...expr.scalars.scalar_abi import CSlot
from ...ir.enums import AddressSpace
from ...target import on_host
from .fields import FIELDS
from .host_arrays import ArrayInfo, array_info
from .plan import ADAPTED, I32_MAX, IDENTITY, PRESENT, Check, Slot, array_limits, array_slots, promises

if TYPE_CHECKING:
    from xdsl.ir import Attribute, SSAValue

    from ...expr.tensor import Tensor

Dims = int | Sequence[int]


def _is_power_of_two(x: int) -> bool:
    return x > 0 and x & (x - 1) == 0


class TensorArgument:
    """An array with a static layout; the `mark_*` methods make parts of it run-time. Chainable."""

    def __init__(self, info: ArrayInfo, *, assumed_align: int | None = None, use_32bit_stride: bool = False):
        self.info = info
        rank = len(info.shape)
        natural = max((info.dtype.width + 7) // 8, 1)
        align = natural if assumed_align is None else assumed_align
        if not _is_power_of_two(align) or align % natural:
            raise DSLValueError(f"assumed_align must be a power of two and a multiple of {natural} bytes, got {align}")
        self.align = align
        self.stride_width = 32 if use_32bit_stride else 64
        # A number is a static fact, None a run-time value with the divisibility beside it.
        self.shape: list[int | None] = list(info.shape)
        self.strides: list[int | None] = list(info.strides)
        self.shape_div = [1] * rank
        self.stride_div = [1] * rank
        self.is_default = False
        """Whether this is how an array passed without an adapter is seen."""
        self._signature: tuple[object, ...] | None = None

    # --- marking --------------------------------------------------------------------------------------------------

    def mark_layout_dynamic(self, leading_dim: int | None = None, divisibility: int = 1) -> TensorArgument:
        """All extents and strides run-time, except the stride 1 of the leading dimension."""
        _check_divisibility(divisibility)
        if leading_dim is None:
            if 1 not in self.info.strides:
                raise DSLValueError(
                    f"cannot auto-mark layout-dynamic: no dimension has stride 1 in strides {self.info.strides}; "
                    "pass leading_dim or keep the static layout of from_dlpack"
                )
            leading_dim = self.info.strides.index(1)
        leading_dim = self._dims(leading_dim)[0]
        if self.info.strides[leading_dim] != 1:
            raise DSLValueError(
                f"Leading dimension must have stride 1, dimension {leading_dim} has {self.info.strides[leading_dim]}"
            )
        for i in range(len(self.info.shape)):
            self.shape[i], self.shape_div[i] = None, divisibility if i == leading_dim else 1
            if i != leading_dim:
                self.strides[i], self.stride_div[i] = None, divisibility
        return self._marked()

    def mark_shape_dynamic(self, dims: Dims, divisibility: Dims = 1) -> TensorArgument:
        """Chosen extents run-time."""
        for i, d in self._pairs(dims, divisibility):
            self.shape[i], self.shape_div[i] = None, d
        return self._marked()

    def mark_stride_dynamic(self, dims: Dims, divisibility: Dims = 1) -> TensorArgument:
        """Chosen strides run-time."""
        for i, d in self._pairs(dims, divisibility):
            self.strides[i], self.stride_div[i] = None, d
        return self._marked()

    def _dims(self, dims: Dims) -> list[int]:
        rank = len(self.info.shape)
        chosen: list[int] = []
        for d in dims if isinstance(dims, (list, tuple)) else [dims]:
            if not isinstance(d, int) or not -rank <= d < rank:
                raise DSLValueError(f"dimension {d!r} is out of range for a tensor of rank {rank}")
            chosen.append(d % rank)
        return chosen

    def _pairs(self, dims: Dims, divisibility: Dims) -> list[tuple[int, int]]:
        chosen = self._dims(dims)
        given = list(divisibility) if not isinstance(divisibility, int) else [divisibility] * len(chosen)
        if len(given) != len(chosen):
            raise DSLValueError(f"dims and divisibility must have equal length, got {len(chosen)} and {len(given)}")
        return [(dim, _check_divisibility(div)) for dim, div in zip(chosen, given, strict=True)]

    def _marked(self) -> TensorArgument:
        """What was promised of the layout must hold for the array at hand."""
        self._signature = None
        self._demand(promises(self.shape, self.strides, self.shape_div, self.stride_div))
        return self

    # --- what a call needs of it ----------------------------------------------------------------------------------

    def signature(self) -> tuple[object, ...]:
        """`__cache_signature__`, remembered until a mark changes it."""
        if self._signature is None:
            # Warm calls ask for nothing else, so what depends on all marks together is checked here.
            self._check_reach()
            self._signature = self.__cache_signature__()
        return self._signature

    def checks(self) -> list[Check]:
        """What other arguments must be like to be served by the same compiled code."""
        if not self.is_default:
            return list(ADAPTED)
        return [*IDENTITY, *self._limits(), PRESENT]

    def _limits(self) -> Sequence[Check]:
        backward = self.is_default and on_host(self.info.device)
        return array_limits(len(self.shape), self.align, self.stride_width, backward)

    def slots(self) -> list[Slot]:
        """What is written of it."""
        return array_slots(self.shape, self.strides, self.stride_width)

    def _demand(self, checks: Sequence[Check]) -> None:
        for check in checks:
            check.demand(self.info.owner, self)

    def check(self, *, marked: bool = True) -> None:
        """Verify every promise made about the array; while it is not `marked` as it will be, only those of any mark."""
        self._demand(promises(self.shape, self.strides, self.shape_div, self.stride_div))
        self._demand(self._limits())
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

    def __get_ir_types__(self) -> list[Attribute]:
        from ...dialects.fly.types import memref_type

        return [memref_type(self.dtype.ir_type, AddressSpace.Global, self.layout(), self.align)]

    def __cache_signature__(self) -> tuple[object, ...]:
        shape = tuple(-d if s is None else s for s, d in zip(self.shape, self.shape_div, strict=True))
        stride = tuple(("dyn", d) if s is None else s for s, d in zip(self.strides, self.stride_div, strict=True))
        return ("tensor", self.dtype.__name__, self.align, self.stride_width, shape, stride)

    def __c_abi_spec__(self) -> list[CSlot]:
        return [_c_abi(slot) for slot in self.slots()]

    def construct(self, values: Sequence[SSAValue]) -> Tensor:
        """The traced value."""
        from ...dialects.fly.semantics import object_of
        from ...expr.tensor import Tensor

        return Tensor(object_of(values[0].type), values[0], self.dtype)

    def __repr__(self) -> str:
        return f"TensorArgument({self.dtype}, {self.layout()}, align={self.align})"

    def _repr_html_(self) -> str | None:
        return array_html(repr(self), self.info.shape, self.info.strides)


def array_html(title: str, shape: Sequence[int], strides: Sequence[int]) -> str | None:
    """An array for a notebook: where its elements lie; None where they are too many to draw."""
    from ...layout.draw import picture_of
    from ...markup import figures

    picture = picture_of(L.Layout(tuple(shape), tuple(strides))) if shape else None
    return None if picture is None else figures([(title, picture)])


def _c_abi(slot: Slot) -> CSlot:
    """A slot of an array as the protocol of arguments has it: a C type, and what fills one."""
    record = struct.Struct("<" + "".join(write.letter for write in slot))

    def fill(argument: TensorArgument, storage: ctypes.Array[ctypes.c_char]) -> None:
        owner = argument.info.owner
        record.pack_into(storage, 0, *(FIELDS[w.field].read(owner, argument, w.mode) for w in slot))

    return ctypes.c_char * record.size, fill


def _check_divisibility(d: int) -> int:
    if not isinstance(d, int) or isinstance(d, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLValueError(f"divisibility must be an int, got {d!r}")
    if not _is_power_of_two(d):
        raise DSLValueError(f"divisibility must be a power of two, got {d}")
    return d


def default_tensor(info: ArrayInfo) -> TensorArgument:
    """A raw array passed directly: layout-dynamic."""
    made = TensorArgument(info)
    if not info.shape:
        raise DSLValueError(
            "cannot auto-mark layout-dynamic: an array without dimensions has none to be run-time; wrap it with "
            "flyc.from_dlpack, or pass x.reshape(1)"
        )
    if 1 in info.strides:
        made.mark_layout_dynamic()
    else:
        modes = list(range(len(info.shape)))
        made.mark_shape_dynamic(modes).mark_stride_dynamic(modes)
    made.is_default = True
    return made


@also_called(t="tensor")
def from_dlpack(tensor: object, *, assumed_align: int | None = None, use_32bit_stride: bool = False) -> TensorArgument:
    """An array with static shape and strides; chain `.mark_layout_dynamic(...)` to make them run-time.

    >>> flyc.from_dlpack(np.zeros((4, 8), "f4"))
    TensorArgument(Float32, (4,8):(8,1), align=4)
    """
    info = array_info(tensor)
    if info is None:
        raise DSLTypeError(
            f"from_dlpack expects a numpy array, a torch tensor or an object with an array interface, got {tensor!r}"
        )
    made = TensorArgument(info, assumed_align=assumed_align, use_32bit_stride=use_32bit_stride)
    made.check(marked=False)
    return made


@also_called(t="tensor")
def from_torch_tensor(
    tensor: object, *, assumed_align: int | None = None, use_32bit_stride: bool = False
) -> TensorArgument:
    """`from_dlpack` under FlyDSL's other name.

    >>> flyc.from_torch_tensor(np.zeros((4, 8), "f4"))
    TensorArgument(Float32, (4,8):(8,1), align=4)
    """
    return from_dlpack(tensor, assumed_align=assumed_align, use_32bit_stride=use_32bit_stride)
