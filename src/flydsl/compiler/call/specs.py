"""Stand-ins for arguments: what compiling needs to know of an array or a number, without having one."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import DSLValueError
from ...expr.numeric import Numeric
from .arguments import ScalarArgument
from .host_arrays import ArrayInfo, element_class
from .tensor_argument import TensorArgument, array_html, default_tensor

SPEC_DEVICE = "spec"
"""Where the array of a spec is."""


def _dtype(dtype: object) -> type[Numeric]:
    if isinstance(dtype, type):
        return dtype if issubclass(dtype, Numeric) else element_class(dtype.__name__)
    if isinstance(dtype, str):
        return element_class(dtype)
    return element_class(str(getattr(dtype, "name", dtype)).removeprefix("torch."))


class TensorSpec:
    """An array by shape, element type and strides (default: row-major).

    `dynamic=True` stands for an array passed as it is: extents and strides are run-time values. `dynamic=False` stands
    for `flyc.from_dlpack(array)`: they are part of the compiled code. `align` is a promise in bytes.

    >>> flyc.TensorSpec((16, 32), "float16")
    TensorSpec((16, 32), Float16, strides=(32, 1), dynamic=True)
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: object,
        strides: Sequence[int] | None = None,
        *,
        align: int | None = None,
        dynamic: bool = True,
    ):
        self.shape = tuple(int(n) for n in shape)
        self.dtype = _dtype(dtype)
        if strides is None:
            steps: list[int] = []
            step = 1
            for extent in reversed(self.shape):
                steps.append(step)
                step *= extent
            strides = steps[::-1]
        self.strides = tuple(int(s) for s in strides)
        if len(self.strides) != len(self.shape):
            raise DSLValueError(f"shape {self.shape} and strides {self.strides} differ in length")
        self.align = align
        self.dynamic = dynamic

    def argument(self) -> TensorArgument:
        """The argument adapter an array like this would get."""
        info = ArrayInfo(0, self.shape, self.strides, self.dtype, SPEC_DEVICE, 0, None)
        if self.dynamic and self.align is None:
            return default_tensor(info)
        made = TensorArgument(info, assumed_align=self.align)
        return made.mark_layout_dynamic() if self.dynamic else made

    def __repr__(self) -> str:
        return f"TensorSpec({self.shape}, {self.dtype}, strides={self.strides}, dynamic={self.dynamic})"

    def _repr_html_(self) -> str | None:
        return array_html(repr(self), self.shape, self.strides)


class ScalarSpec:
    """A number of a scalar class.

    >>> flyc.ScalarSpec("int32")
    ScalarSpec(Int32)
    """

    def __init__(self, dtype: object):
        self.dtype = _dtype(dtype)

    def argument(self) -> ScalarArgument:
        """The argument adapter such a number would get."""
        return ScalarArgument(self.dtype, 0)

    def __repr__(self) -> str:
        return f"ScalarSpec({self.dtype})"
