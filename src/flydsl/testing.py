"""Judging results element by element: the worst one decides, never a norm, which a few wrong elements do not move.

`bench` and `plot`, which sweep over sizes, come from the tuner, and `kernel_coverage`, which says what of kernels ran,
from the debugger; both are loaded when they are asked for. numpy is loaded when the first results are compared; torch
tensors are read where there are any.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .errors import DSLTypeError, DSLValueError

if TYPE_CHECKING:
    import numpy as np

    from .autotune.bench import do_bench as do_bench
    from .autotune.sweep import Sweep as Sweep
    from .autotune.sweep import bench as bench
    from .autotune.sweep import plot as plot
    from .debug.coverage import KernelCoverage as KernelCoverage
    from .debug.coverage import kernel_coverage as kernel_coverage

    Numbers = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


class FloatFormat(NamedTuple):
    """What of a number format decides how exact a result can be."""

    mantissa: int
    """Bits behind the point."""
    least_exponent: int
    """Of the smallest normal number."""
    largest: float
    infinity: bool = True


FORMATS = {
    "float64": FloatFormat(52, -1022, 1.7976931348623157e308),
    "float32": FloatFormat(23, -126, 3.4028234663852886e38),
    "float16": FloatFormat(10, -14, 65504.0),
    "bfloat16": FloatFormat(7, -126, 3.3895313892515355e38),
    "float8_e4m3fn": FloatFormat(3, -6, 448.0, False),
    "float8_e4m3fnuz": FloatFormat(3, -7, 240.0, False),
    "float8_e5m2": FloatFormat(2, -14, 57344.0),
    "float8_e5m2fnuz": FloatFormat(2, -15, 57344.0, False),
}
"""By the name that numpy, ml_dtypes and torch give them."""


class Array(Protocol):
    """An array of numpy, a tensor of torch, or what numpy can read."""

    @property
    def dtype(self) -> object: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


def _numbers(x: object) -> tuple[Numbers, str]:
    """The elements as float64 (exact for all formats above and integers to 2^53), and the name of their format."""
    import numpy as np

    name = str(getattr(x, "dtype", "float64")).removeprefix("torch.")
    if type(x).__module__.partition(".")[0] == "torch":
        x = getattr(x, "detach")().cpu().double().numpy()  # noqa: B009  (torch is optional: no type to name)
    return np.asarray(x).astype(np.float64), name


def error_bound(want: Numbers, dtype: str, *, terms: int = 0, magnitude: object = None) -> Numbers:
    """How far from `want` a right result of the format may be, for each element.

    One rounding to the format, and what a sum of `terms` products or summands in f32 loses: each addition rounds once,
    by at most 2^-24 of what has been added up, which `magnitude` limits: for a product of matrices `abs(a) @ abs(b)`.
    Left out, it is the largest of `want`.
    """
    import numpy as np

    if dtype not in FORMATS:
        raise DSLTypeError(f"a bound exists for {', '.join(FORMATS)}, got {dtype}")
    form = FORMATS[dtype]
    size = np.abs(np.where(np.isfinite(want), want, 0.0))
    # A step between neighbours; half of it is the rounding, the other half for ties and a sum that falls beside them.
    step = np.maximum(size, 2.0**form.least_exponent) * 2.0**-form.mantissa
    if not terms:
        return step
    most = _numbers(magnitude)[0] if magnitude is not None else size.max(initial=0.0)
    return step + terms * 2.0**-24 * most


def assert_close(
    got: Array,
    want: object,
    *,
    terms: int = 0,
    magnitude: object = None,
    rtol: float = 0.0,
    atol: object = 0.0,
    what: str = "result",
) -> float:
    """Compare every element of `got` with `want`, best a float64 reference; an `AssertionError` says which are wrong.

    What is allowed is `error_bound` of the format of `got`, plus `atol + rtol * abs(want)` for functions that are
    approximated; `atol` is a number, or one for each element. Integers and truth values must be equal. A NaN belongs
    where `want` has one and nowhere else; an infinity likewise, and where `want` lies beyond the largest number of the
    format. Gives the worst error as a share of what is allowed.
    """
    import numpy as np

    (got_numbers, dtype), (wanted, _) = _numbers(got), _numbers(want)
    if got_numbers.shape != wanted.shape:
        raise DSLValueError(f"{what} has the shape {got_numbers.shape}, expected {wanted.shape}")
    if got_numbers.size == 0:
        return 0.0
    if dtype in FORMATS:
        bound = error_bound(wanted, dtype, terms=terms, magnitude=magnitude)
        bound = bound + _numbers(atol)[0] + rtol * np.abs(np.where(np.isfinite(wanted), wanted, 0.0))
    else:
        bound = np.zeros_like(wanted)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = np.abs(got_numbers - wanted)
        ratio = np.where(error == 0, 0.0, error / bound)
    ratio[_same_special(got_numbers, wanted, dtype)] = 0.0
    ratio[np.isnan(ratio)] = np.inf
    worst = float(ratio.max())
    if worst <= 1.0:
        return worst
    raise AssertionError(_report(what, got_numbers, wanted, bound, ratio))


def _same_special(got: Numbers, want: Numbers, dtype: str) -> Mask:
    """Where NaN, an infinity or an overflow is what belongs there."""
    import numpy as np

    same = (np.isnan(got) & np.isnan(want)) | (np.isinf(got) & (got == want))
    if dtype not in FORMATS:
        return same
    form = FORMATS[dtype]
    beyond = np.abs(want) > form.largest
    overflow = got == np.copysign(np.inf, want)
    if not form.infinity:
        overflow = np.isnan(got) | (got == np.copysign(form.largest, want))
    return same | (beyond & overflow)


def _report(what: str, got: Numbers, want: Numbers, bound: Numbers, ratio: Numbers) -> str:
    import numpy as np

    wrong = np.argwhere(ratio > 1.0)

    def element(at: tuple[int, ...]) -> str:
        error = abs(float(got[at]) - float(want[at]))
        place = ", ".join(map(str, at))
        return f"[{place}] is {got[at]:.9g}, expected {want[at]:.9g}: off by {error:.3g}, allowed {bound[at]:.3g}"

    worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    first = tuple(int(i) for i in wrong[0])
    share = 100.0 * len(wrong) / ratio.size
    lines = [f"{what}: {len(wrong)} of {ratio.size} elements ({share:.3g} %) are wrong", f"  worst: {element(worst)}"]
    if first != worst:
        lines.append(f"  first: {element(first)}")
    if ratio.ndim and len(wrong) > 1:
        low, high = wrong.min(0), wrong.max(0)
        box = ", ".join(f"{a}..{b}" for a, b in zip(low.tolist(), high.tolist(), strict=True))
        lines.append(f"  all of them lie in [{box}] of {ratio.shape}")
    missing = int((np.isnan(got) & ~np.isnan(want)).sum())
    if missing:
        lines.append(f"  {missing} are NaN where a number belongs: never written, perhaps")
    return "\n".join(lines)


_LAZY = {
    **dict.fromkeys(("Sweep", "bench", "plot"), "autotune.sweep"),
    "do_bench": "autotune.bench",
    **dict.fromkeys(("KernelCoverage", "kernel_coverage"), "debug.coverage"),
}


if not TYPE_CHECKING:
    # A type checker takes every name for one of a module that has this.
    def __getattr__(name: str) -> object:
        place = _LAZY.get(name)
        if place is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"flydsl.{place}"), name)


__all__ = [
    "FORMATS", "KernelCoverage", "Sweep", "assert_close", "bench", "do_bench", "error_bound", "kernel_coverage", "plot",
]  # fmt: skip
