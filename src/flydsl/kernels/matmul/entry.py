"""`matmul`: one product for numpy and torch arrays, on every stack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from flydsl.errors import DSLTypeError, DSLValueError

from ...target import architecture, on_host
from ..activations import known_activation
from ..repeats import fresh_as, remember_call, repeated
from ..scalars import choice, flag
from .amd.blocks import MxMatrix
from .amd.weights import PreshuffledWeight, as_matrix
from .arrays import Array, HostArray, address, array_key, describe, empty, environment_key, is_torch
from .batches import by_batches
from .calls import decide, decide_moved
from .operands import Call, Run, Target
from .request import SUMS, Request, check, check_apart, check_out, check_precision, check_scale_out
from .weights import QuantizedWeight

NAME = "matmul"
HOPPER_PROCESSORS = 132
"""Of the GPU that is emulated where there is none."""

_decided: dict[object, Decision] = {}
_MOST = 4096


def matmul(
    a: HostArray | MxMatrix[HostArray],
    b: HostArray | QuantizedWeight[HostArray] | PreshuffledWeight[HostArray] | MxMatrix[HostArray],
    *,
    out: HostArray | None = None,
    bias: HostArray | None = None,
    activation: str | None = None,
    scale_a: HostArray | None = None,
    scale_b: HostArray | None = None,
    scale_out: HostArray | None = None,
    out_dtype: object = None,
    accumulate: str = "f32",
    precision: str = "ieee",
    batch_invariant: bool = False,
    stream: object = None,
) -> Any:
    """`activation((a @ b) * scale_a * scale_b + bias) / scale_out` in `out`, or in a fresh array.

    `a` is (M, K) and `b` (K, N), or either has dimensions in front, which go with each other as in numpy and torch;
    any strides. Where one `b` serves all of `a`, its rows are those of one matrix. Types are float16, bfloat16,
    float32, fp8 (e4m3fn, e5m2) and int8; the result is float32, float16, bfloat16 or fp8 (`out_dtype`; by default the
    type of `a`, bfloat16 for fp8, int32 for int8). Results of fp8 are divided by `scale_out`, one value of float32;
    what is too large becomes the largest number. `bias` has N values. A scale is float32: one value, one for each row
    of `a` and column of `b`, or one for 128 elements of a row of `a` and for 128 x 128 of `b`; with dimensions in front
    of `a` those of its rows are the same for each matrix, or `scale_a` has these dimensions, too. `activation` is one
    of `flydsl.kernels.activations`. `accumulate="fast"` leaves sums of fp8 to the tensor cores, which keep 14 bits.
    `precision` is how float32 may be multiplied where tensor cores can: "ieee" as it is, "tf32x3" by three products of
    11 bits, which have 22 together, "tf32" by one.
    `batch_invariant=True`: a row of the result is the same bits whatever other rows are in the call.

    `b` may be what `quantize_weight` gives: weights of 4 or 8 bits with scales of their own, for `a` of float16,
    bfloat16 or float32 with any number of dimensions in front of K. Or it is what `preshuffle_weight` gives: the same
    numbers, laid out for AMD's matrix instructions. Or both are `MxMatrix`, rows in MX blocks: the product is that of
    `a` with the rows of `b`, of float32 unless `out_dtype` says other.

    >>> a, b = np.arange(6, dtype="f4").reshape(2, 3), np.ones((3, 2), "f4")
    >>> matmul(a, b, bias=np.array([0.0, 0.5], "f4"))
    array([[ 3. ,  3.5],
           [12. , 12.5]], dtype=float32)
    """
    call_key = None
    if type(batch_invariant) is not bool:
        batch_invariant = flag("matmul", "batch_invariant", batch_invariant)
    if stream is None:
        constants = activation, out_dtype, accumulate, precision, batch_invariant
        call_key, made = repeated(NAME, constants, a, b, out, bias, scale_a, scale_b, scale_out)
        if made is not None:
            return made
    if isinstance(a, MxMatrix) or isinstance(b, MxMatrix):
        scales = scale_a, scale_b, scale_out
        return _in_blocks(a, b, out, bias, activation, scales, out_dtype, accumulate, precision, stream)
    if isinstance(b, QuantizedWeight):
        return _with_weights(
            a, b, out, bias, activation, scale_a, scale_b, scale_out, out_dtype, accumulate, precision,
            batch_invariant, stream,
        )  # fmt: skip
    if getattr(a, "ndim", 2) > 2 or getattr(b, "ndim", 2) > 2:

        def plain(a: Any, b: Any, out: Any, bias: Any, scale_a: Any, scale_b: Any, scale_out: Any) -> Any:
            return matmul(
                a, b, out=out, bias=bias, activation=activation, scale_a=scale_a, scale_b=scale_b, scale_out=scale_out,
                out_dtype=out_dtype, accumulate=accumulate, precision=precision, batch_invariant=batch_invariant,
                stream=stream,
            )  # fmt: skip

        more = {"bias": bias, "scale_a": scale_a, "scale_b": scale_b, "scale_out": scale_out}
        whole = by_batches(plain, a, b, out, more, out_dtype)
        if whole is not None:
            made = whole(a, b, out, *more.values())
            if call_key is not None:
                remember_call(call_key, whole)
            return made
    moved = None
    if isinstance(b, PreshuffledWeight):
        moved, b = b, b.data
    key = (
        None if moved is None else moved.shape,
        *map(array_key, (a, b, out, bias, scale_a, scale_b, scale_out)), activation, out_dtype, accumulate, precision,
        batch_invariant, *environment_key()
    )  # fmt: skip
    known = _decided.get(key)
    if known is None:
        asked = _request(a, b, moved, bias, scale_a, scale_b, activation, out_dtype, accumulate)
        exact = check_precision(asked.a.dtype, precision)
        request = asked._replace(invariant=batch_invariant, precision=exact)
        request = check_scale_out(request, _describe("scale_out", scale_out))
    else:
        request = known.request
    given = out is not None
    if not given:
        out = empty(a, request.shape, request.out_dtype)
    if known is None:
        known = _decide(request, describe("out", out), given, moved)
        if len(_decided) >= _MOST:
            _decided.clear()
        _decided[key] = known
    if given:
        # Addresses are not part of what was decided.
        check_apart(
            address(out),
            known.reach,
            zip(_NAMES, (a, b, bias, scale_a, scale_b, scale_out), known.reaches, strict=True),
        )
    if known.run is not None:
        if not request.blocked:
            scale_a, scale_b = _flat(scale_a), _flat(scale_b)
        known.run(Call(a, b, out, bias, scale_a, scale_b, _flat(scale_out), stream))
        if call_key is not None:
            remember_call(call_key, _repeat(known, a))
    return out


def _repeat(known: Decision, like: Any) -> Callable[..., Any]:
    """The same call of other tensors like these, of which nothing is asked but addresses that must be apart."""
    request, run, reach, reaches = known
    torch = sys.modules["torch"]
    fresh = fresh_as(like, request.shape, getattr(torch, request.out_dtype))
    blocked = request.blocked

    def call(a: Any, b: Any, out: Any, bias: Any, scale_a: Any, scale_b: Any, scale_out: Any) -> Any:
        if out is None:
            out = fresh()
        else:
            others = zip(_NAMES, (a, b, bias, scale_a, scale_b, scale_out), reaches, strict=True)
            check_apart(out.data_ptr(), reach, others)
        if not blocked:
            scale_a, scale_b = _flat(scale_a), _flat(scale_b)
        cast("Run", run)(Call(a, b, out, bias, scale_a, scale_b, _flat(scale_out), None))
        return out

    return call


def _in_blocks(
    a: object,
    b: object,
    out: HostArray | None,
    bias: HostArray | None,
    activation: str | None,
    scales: tuple[object, ...],
    out_dtype: object,
    accumulate: str,
    precision: str,
    stream: object,
) -> Any:
    if not isinstance(a, MxMatrix):
        raise DSLTypeError(f"matmul: b is in MX blocks, and so must a be, got {type(a).__name__}")
    if any(x is not None for x in scales):
        raise DSLValueError("matmul: MX blocks have scales of their own; leave out scale_a, scale_b, scale_out")
    if (accumulate, precision) != ("f32", "ieee"):
        raise DSLValueError("matmul: accumulate and precision are not about MX blocks; leave them out")
    known_activation("matmul", activation)
    blocks: MxMatrix[HostArray] = a  # pyright: ignore[reportUnknownVariableType]
    place = Array(blocks.shape, (1, 1), "int8", _device(blocks.data), 0)
    from .amd.mx import matmul_mx

    return matmul_mx(blocks, b, out, bias, activation, out_dtype, stream, target_of(place), matmul)


def _device(x: HostArray) -> str:
    return str(x.device) if is_torch(x) else "cpu"


def _with_weights(
    a: HostArray,
    b: QuantizedWeight[HostArray],
    out: HostArray | None,
    bias: HostArray | None,
    activation: str | None,
    scale_a: HostArray | None,
    scale_b: HostArray | None,
    scale_out: HostArray | None,
    out_dtype: object,
    accumulate: str,
    precision: str,
    batch_invariant: bool,
    stream: object,
) -> Any:
    if (scale_a, scale_b, scale_out) != (None, None, None):
        raise DSLValueError("matmul: quantized weights have scales of their own; leave out scale_a, scale_b, scale_out")
    choice("matmul", "accumulate", accumulate, SUMS)
    if precision != "ieee":
        raise DSLValueError(
            f"matmul: precision is about two matrices of float32, got {precision!r} for quantized weights"
        )
    from .quantized import matmul_quantized

    return matmul_quantized(a, b, out, bias, activation, out_dtype, batch_invariant, stream, target_of)


_NAMES = ("a", "b", "bias", "scale_a", "scale_b", "scale_out")


class Decision(NamedTuple):
    """A checked request, how it runs (None if there is nothing to do), and the bytes its arrays reach over."""

    request: Request
    run: Run | None
    reach: int
    reaches: tuple[int, ...]


def _decide(request: Request, out: Array, given: bool, moved: PreshuffledWeight[HostArray] | None) -> Decision:
    if given:
        check_out(request, out)
    arrays = (request.a, request.b, request.bias, request.scale_a, request.scale_b, request.scale_out)
    run = None
    if 0 not in request.shape:
        where = target_of(request.a)
        run = decide(request, out, where) if moved is None else decide_moved(request, out, where, moved)
    return Decision(request, run, out.reach, tuple(0 if x is None else x.reach for x in arrays))


def _describe(name: str, x: HostArray | None) -> Array | None:
    return None if x is None else describe(name, x)


def _request(
    a: HostArray,
    b: HostArray,
    moved: PreshuffledWeight[HostArray] | None,
    bias: HostArray | None,
    scale_a: HostArray | None,
    scale_b: HostArray | None,
    activation: str | None,
    out_dtype: object,
    accumulate: str,
) -> Request:
    first, second = describe("a", a), describe("b", b) if moved is None else as_matrix(moved)
    scales = _describe("scale_a", scale_a), _describe("scale_b", scale_b)
    return check(first, second, _describe("bias", bias), *scales, activation, out_dtype, accumulate)


def _flat(scale: HostArray | None) -> HostArray | None:
    """A scale as a vector."""
    return scale if scale is None or scale.ndim == 1 else scale.reshape(-1)


def target_of(a: Array) -> Target:
    """What the active stack compiles for, and the multiprocessors there."""
    import flydsl.compiler as flyc
    from flydsl.runtime.device_runtime import get_device_runtime

    target = flyc.get_backend().target
    if on_host(a.device):
        entry = architecture(target.arch)
        return Target(target, (entry and entry.multiprocessors) or HOPPER_PROCESSORS)
    ordinal = int(a.device.partition(":")[2] or 0)
    return Target(target, get_device_runtime().device(ordinal).capabilities.compute_units or HOPPER_PROCESSORS)


__all__ = ["matmul", "target_of"]
