"""A product of groups that was asked for, checked; and its scales as kernels take them."""

from __future__ import annotations

from flydsl.errors import DSLTypeError, DSLValueError

from ..activations import known_activation
from ..scalars import choice
from .arrays import Array, HostArray, is_torch, packed
from .operands import scale_form
from .request import BLOCK, FNUZ, FP8, RESULTS, SUMS, Request, result_type

NAME = "grouped_matmul"
TYPES = tuple(RESULTS)


def check_groups(
    a: Array,
    b: Array,
    offsets: Array,
    scale_a: Array | None,
    scale_b: Array | None,
    activation: str | None,
    out_dtype: object,
    accumulate: str,
) -> Request:
    """The request, whose batches are the groups; or an error that names the arguments that do not fit."""
    if len(a.shape) != 2 or len(b.shape) != 3:
        raise DSLValueError(f"{NAME}: a is (rows, K) and b is (groups, K, N), got {a} and {b}")
    if a.shape[1] != b.shape[1]:
        raise DSLValueError(f"{NAME}: a has {a.shape[1]} columns and b has {b.shape[1]} rows a group")
    for name, x in (("a", a), ("b", b)):
        if x.dtype not in TYPES:
            raise DSLTypeError(f"{NAME} multiplies {', '.join(TYPES)}, got {name} of {x.dtype}")
    if a.dtype != b.dtype and not any(a.dtype in kind and b.dtype in kind for kind in (FP8, FNUZ)):
        raise DSLTypeError(f"{NAME}: a and b have one type, or are both fp8, got {a.dtype} and {b.dtype}")
    if offsets.shape != b.shape[:1] or offsets.dtype not in ("int32", "int64"):
        raise DSLValueError(
            f"{NAME}: offsets has an int32 or int64 end for each of the {b.shape[0]} groups, got {offsets}"
        )
    for name, x in (("b", b), ("offsets", offsets), ("scale_a", scale_a), ("scale_b", scale_b)):
        if x is not None and x.device != a.device:
            raise DSLValueError(f"{NAME}: a is on {a.device} and {name} on {x.device}")
    name = known_activation(NAME, activation)
    choice(NAME, "accumulate", accumulate, SUMS)
    (m, k), (groups, _, n) = a.shape, b.shape
    blocked = _check_scales(scale_a, scale_b, m, n, k, groups)
    result = result_type(a.dtype, out_dtype)
    if result == "int32" and (scale_a, scale_b, name) != (None, None, "none"):
        raise DSLTypeError(f"{NAME}: a result of int32 has no scale or activation; give out_dtype")
    return Request(a, b, None, scale_a, scale_b, name, result, accumulate, m, n, k, groups, False, blocked)


def _check_scales(scale_a: Array | None, scale_b: Array | None, m: int, n: int, k: int, groups: int) -> bool:
    """Whether they are those of blocks, which come in pairs: `scale_b` has three directions then."""
    for name, x in (("scale_a", scale_a), ("scale_b", scale_b)):
        if x is not None and x.dtype != "float32":
            raise DSLTypeError(f"{NAME}: {name} is float32, got {x.dtype}")
    if scale_b is not None and len(scale_b.shape) == 3:
        if k % BLOCK:
            raise DSLValueError(f"{NAME}: scales of blocks need a K that is a multiple of {BLOCK}, got {k}")
        blocks = groups, k // BLOCK, -(-n // BLOCK)
        if scale_b.shape != blocks:
            raise DSLValueError(f"{NAME}: scale_b of blocks of {BLOCK} has the shape {list(blocks)}, got {scale_b}")
        if scale_a is None or scale_a.shape != (m, k // BLOCK):
            raise DSLValueError(
                f"{NAME}: scale_a of blocks of {BLOCK} has the shape {[m, k // BLOCK]}, got {scale_a or 'none'}"
            )
        return True
    if scale_a is not None and scale_a.shape not in ((), (1,), (1, 1), (m,), (m, 1)):
        raise DSLValueError(
            f"{NAME}: scale_a has one value, one for each of the {m} rows, or with a scale_b of blocks one for {BLOCK} "
            f"elements of a row, got {scale_a}"
        )
    if scale_b is not None and scale_b.shape not in ((), (1,), (groups,), (groups, n)):
        raise DSLValueError(
            f"{NAME}: scale_b has one value, one for each of the {groups} groups, one for each of the {n} columns of a "
            f"group, or one for {BLOCK} x {BLOCK} elements of its matrix, got {scale_b}"
        )
    return False


def by_group(request: Request) -> bool:
    """Whether groups have scales of B of their own."""
    scale = request.scale_b
    return scale is not None and (request.blocked or any(x != 1 for x in scale.shape))


def kinds(request: Request) -> tuple[str, str]:
    """A factor for "one" and all of a group, or for each of A's "rows" and of B's columns; or "line" and "square"."""
    if request.blocked:
        return "line", "square"
    b = request.scale_b
    columns = b is not None and len(b.shape) == 2 and b.shape != (1, 1)
    return scale_form(request.scale_a), "rows" if columns else "" if b is None else "one"


def arranged_scales(
    request: Request, scale_a: HostArray | None, scale_b: HostArray | None
) -> tuple[HostArray | None, HostArray | None]:
    """A's as a vector, B's with the groups in front; those of blocks as (rows, blocks of K) and (groups, blocks of K,
    blocks of columns)."""
    if scale_a is not None and request.scale_a is not None:
        scale_a = scale_a if 1 in request.scale_a.strides else packed(scale_a)
        scale_a = scale_a if request.blocked else scale_a.reshape(-1)
    if scale_b is not None and request.scale_b is not None:
        scale_b = scale_b if 1 in request.scale_b.strides else packed(scale_b)
        if not by_group(request):
            scale_b = scale_b.reshape(-1)
        elif scale_b.ndim == 1:
            scale_b = scale_b.reshape(-1, 1)
    return scale_a, scale_b


def along_k(scale: HostArray) -> HostArray:
    """Scales of blocks of B as (groups, blocks of columns, blocks of K)."""
    return scale.permute((0, 2, 1)) if is_torch(scale) else scale.transpose(0, 2, 1)


__all__ = ["along_k", "arranged_scales", "by_group", "check_groups", "kinds"]
