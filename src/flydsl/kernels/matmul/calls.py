"""How a request runs: which kernel, with what numbers. Decided once for extents, strides, types and target."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..grids import fit as fit_a_grid
from .amd.calls import on_amd
from .amd.weights import PreshuffledWeight, matrix_of
from .arrays import Array, HostArray, in_line, is_torch, packed
from .few import thin
from .few.slim import Weights
from .few.slim_plan import Given, microseconds
from .few.slim_plan import best as best_slim
from .operands import UNIT, Call, Matrix, Run, Target, left, result_form, right, scale_form
from .pack import PARTS, Packing
from .plan import Problem, best, raggedness, rates_of
from .request import FNUZ, FP8, Request
from .simt.calls import on_simt
from .tile import LINE, Form, boxes, limits
from .workspace import scratch

if TYPE_CHECKING:
    from flydsl.compiler.call.tensor_argument import TensorArgument


def engine_form(x: Matrix, k: int, batches: int, array: Array) -> tuple[str, int, int] | None:
    """The contiguous direction, the other one's stride and the batch's, as the copy engine takes them; None if not."""
    unit = UNIT // array.itemsize
    batch = 0 if batches == 1 else x.batch
    if array.address % UNIT or batch % unit or batch < 0:
        return None
    long = -(-max(x.rows, k) // unit) * unit
    # The stride of a direction with one element says nothing: any will do.
    step, depth = long if x.rows == 1 else x.step, long if k == 1 else x.depth
    if (x.depth == 1 or k == 1) and step % unit == 0 and step > 0:
        return "k", step, batch
    if array.itemsize == 2 and (x.step == 1 or x.rows == 1) and depth % unit == 0 and depth > 0:
        return "mn", depth, batch
    return None


class Operand(NamedTuple):
    """An operand for the copy engine: its contiguous direction, the other one's stride, the batch's; and if it must be
    packed for that, how."""

    major: str
    step: int
    batch: int
    ragged: bool
    packing: Packing | None = None
    size: int = 2
    """Bytes of an element."""

    @property
    def raggedness(self) -> float:
        """As `Problem` has it. Bytes alone were measured by how many rows start inside of a cache line."""
        return raggedness(self.step) if self.ragged and self.size == 1 else float(self.ragged)


NARROW = 8
"""Rows that are put along k first where they lie beside each other: the copy engine takes as long for 16 bytes of them,
which one element of k has, as for a line. They are little to move: 2 x 1984 x 8896 takes 14.3 microseconds so, with the
launch before it, and 17.9 without; 8 x 4864 x 9472 gains nothing."""
WIDE = 12_000_000
"""Elements of B that this is worth it for, where B's rows lie so, too."""


def operand(x: Matrix, k: int, batches: int, array: Array, parts: str = "", *, along_k: bool = False) -> Operand:
    """As it is, or packed: along the direction that is contiguous, or along k; always where it is to have parts, and
    with `along_k` where it does not lie so."""
    found = None if parts else engine_form(x, k, batches, array)
    if along_k and found is not None and found[0] != "k":
        found = None
    if found is not None:
        return Operand(*found, found[1] * array.itemsize % LINE != 0, size=array.itemsize)
    batch = 0 if batches == 1 or x.batch == 0 else x.batch
    count = batches if batch else 1
    if array.itemsize == 2 and x.step == 1 and x.depth != 1 and x.rows > NARROW:
        packing, major = Packing(k, x.rows, count, x.depth, x.step, batch), "mn"
    else:
        packing, major = Packing(x.rows, k, count, x.step, x.depth, batch, parts), "k"
    pitch = packing.pitch(array.itemsize)
    return Operand(major, pitch, packing.lines * pitch if batch else 0, False, packing)


def packer(form: Operand, array: Array) -> Callable[[HostArray, str, object], HostArray]:
    """A function from an operand to what the copy engine takes."""
    packing = form.packing
    if packing is None:
        return lambda x, what, stream: x
    elements, pitch = packing.elements(array.itemsize), packing.pitch(array.itemsize)
    across = packing.step == 1 and packing.inner != 1
    from .pack import pack

    def run(x: HostArray, what: str, stream: object) -> HostArray:
        target = scratch(x, what, elements, array.dtype, stream)
        numbers = (packing.lines, packing.length, packing.batches, packing.step, packing.inner, packing.batch, pitch)
        if stream is None:
            pack(x, target, *numbers, across, packing.parts)
        else:
            pack(x, target, *numbers, across, packing.parts, stream)
        return target

    return run


def decide(request: Request, out: Array, where: Target) -> Run:
    """The fastest kernel that can do it."""
    for choose in (few_rows, few_bytes, on_hopper, on_ampere, on_simt, on_amd):
        found = choose(request, out, where)
        if found is not None:
            return arranged(request, out, found)
    return arranged(request, out, anywhere(request, out))


def decide_moved(request: Request, out: Array, where: Target, w: PreshuffledWeight[HostArray]) -> Run:
    """The same for weights laid out for AMD's instructions; where these do not take them, they are put in order."""
    found = on_amd(request, out, where, True)
    if found is not None:
        return arranged(request, out, found)
    run, shape = decide(request, out, where), w.shape

    def run_in_order(call: Call) -> None:
        run(call._replace(b=matrix_of(call.b, shape)))

    return run_in_order


def arranged(request: Request, out: Array, run: Run) -> Run:
    """A call whose arguments a jit function takes: arrays with a direction of stride 1."""
    lines = [1 not in x.strides for x in (request.a, request.b, out)]
    small = [
        x is not None and 1 not in x.strides and x.shape != () for x in (request.bias, request.scale_a, request.scale_b)
    ]
    if not any(lines) and not any(small):
        return run

    def run_arranged(call: Call) -> None:
        a, b, c = (in_line(x) if line else x for x, line in zip(call[:3], lines, strict=True))
        vectors = (packed(x) if pack and x is not None else x for x, pack in zip(call[3:6], small, strict=True))
        bias, scale_a, scale_b = vectors
        run(Call(a, b, c, bias, scale_a, scale_b, call.scale_out, call.stream))

    return run_arranged


def on_hopper(request: Request, out: Array, where: Target) -> Run | None:
    """`hopper`, for 16-bit and 8-bit types, and float32 that may be multiplied with fewer bits; operands whose rows are
    no 16-byte units are packed first."""
    if not where.hopper or request.k == 0 or (request.a.itemsize > 2 and request.precision == "ieee"):
        return None
    if request.a.dtype in FNUZ:
        return None
    # The tensor cores' own sums of fp8 keep 14 bits.
    promote = request.a.dtype in FP8 and (request.blocked or request.accumulate == "f32")
    if request.blocked and not promote:
        return None
    k, batches = request.k, request.batches
    x, y = left(request), right(request)
    placed = result_form(request, out)
    if placed is None:
        return None
    thrice = request.precision == "tf32x3"
    turned = request.m <= NARROW and request.n * k >= WIDE
    form_a = operand(x, k, batches, request.a, "left" if thrice else "", along_k=turned)
    form_b = operand(y, k, batches, request.b, "right" if thrice else "")
    if thrice:
        k *= PARTS["left"]
    pack_a, pack_b = packer(form_a, request.a), packer(form_b, request.b)
    flip, step_c, batch_c, by_engine, pairs = placed
    if flip and request.blocked:
        return None
    m, n = request.m, request.n
    if flip:
        m, n, form_a, form_b = n, m, form_b, form_a
    given = Problem(
        m, n, k, batches, 8 * request.a.itemsize, out.itemsize, form_a.major, form_b.major, not by_engine,
        where.processors, promote, request.blocked, (form_a.raggedness, form_b.raggedness),
        integers=request.a.dtype == "int8",
    )  # fmt: skip
    # K in one piece is summed in one order, whatever the tile; how it would be cut depends on the rows.
    plan = best(given, request.invariant, where.target.arch)
    tile = plan.tile
    swapped = tile.swap != flip
    form_x, form_y = (form_b, form_a) if tile.swap else (form_a, form_b)
    rows, columns = (n, m) if tile.swap else (m, n)
    scale_x, scale_y = scale_form(request.scale_a), scale_form(request.scale_b)
    if request.blocked:
        scale_x, scale_y = "line", "square"
    if swapped:
        scale_x, scale_y = scale_y, scale_x
    rows_x, rows_y = limits(tile, rows, columns, form_x.major, form_y.major)
    boxes_x, boxes_y = boxes(tile, rows, columns, form_x.major, form_y.major)
    from .hopper import hopper

    form = Form(
        form_x.major,
        form_y.major,
        "engine" if by_engine and not tile.by_threads else "pairs" if pairs and not tile.swap else "elements",
        request.activation,
        "" if request.bias is None else "rows" if swapped else "columns",
        scale_x,
        scale_y,
        promote,
        edge="pairs" if pairs and not tile.swap else "elements",
        rows_x=rows_x,
        rows_y=rows_y,
        boxes_x=boxes_x,
        boxes_y=boxes_y,
        quads=request.blocked and tile.splits == 1 and in_fours(request),
    )
    numbers = (
        rows, columns, k, batches, form_x.step, form_x.batch, form_y.step, form_y.batch, step_c, batch_c, plan.blocks,
        plan.group, tile, form,
    )  # fmt: skip
    floats, counts = plan.sums(given)

    def run(call: Call) -> None:
        a, b, c, bias, scale_a, scale_b, scale_out, stream = call
        if request.blocked and scale_b is not None:
            scale_b = scale_b.T
        a, b = pack_a(a, "a", stream), pack_b(b, "b", stream)
        if swapped:
            a, b, scale_a, scale_b = b, a, scale_b, scale_a
        work = counters = None
        if counts:
            work = scratch(c, "sums", floats, "float32", stream)
            counters = scratch(c, "counters", counts, "int32", stream, zero=True)
        more = {} if stream is None else {"stream": stream}
        if scale_out is not None:
            more["scale_out"] = scale_out
        hopper(a, b, c, bias, scale_a, scale_b, work, counters, *numbers, **more)

    return run


def in_fours(request: Request) -> bool:
    """Whether factors of blocks lie along K in units of 16 bytes, which all of K's are."""
    a, b = request.scale_a, request.scale_b
    if a is None or b is None or -(-request.k // 128) % 4:
        return False
    *groups, along_b, across_b = b.strides
    return all(x % 4 == 0 for x in groups) and all(
        x.dtype == "float32" and x.address % UNIT == 0 and along == 1 and across % 4 == 0
        for x, across, along in ((a, *a.strides), (b, across_b, along_b))
    )


FEW = 32
"""Rows for which the columns of B are what is multiplied, each by all of them."""


def few_rows(request: Request, out: Array, where: Target) -> Run | None:
    """`slim_kernel` or `thin_kernel`, for few rows of 16-bit types, or of float32 in parts; columns of B are in one
    piece each."""
    a, b, m, n, k = request.a, request.b, request.m, request.n, request.k
    thrice = request.precision == "tf32x3"
    if not where.hopper or not m or not k or request.batched or request.invariant:
        return None
    if not thrice and (m > FEW or a.itemsize != 2):
        return None
    if (request.scale_a, request.scale_b, request.scale_out) != (None, None, None) or (n > 1 and out.strides[1] != 1):
        return None
    form_a, form_b = few_form(request), engine_form(right(request), k, 1, b)
    if form_a is None or form_b is None or form_b[0] != "k":
        return None
    weights = Weights(8 * a.itemsize)
    given = Given(m, n, k, weights, where.processors)
    slim = best_slim(given)
    if not fit_a_grid(-(-m // slim.tokens)):
        return None
    if thrice and microseconds(given, slim) > packed_microseconds(request, where):
        return None
    by_words = not thrice and m <= thin.MOST and in_units(k, a)
    few = thin.microseconds(m, n, k) if by_words else microseconds(given, slim)
    if not thrice and m > ONE and tiles_microseconds(request, out, where) * TOO_MUCH < few:
        return None
    step_c = out.strides[0] if m > 1 else -(-n // 8) * 8
    if step_c <= 0:
        return None
    quads = n % 4 == 0 and step_c % 4 == 0 and out.address % (4 * out.itemsize) == 0
    extents = m, n, k, form_a.step, form_b[1], step_c
    if by_words:
        thin_run = run_thin((*extents, thin.choose(m, n, k, where.processors), request.activation, quads))
        return packed_first(form_a, a, thin_run)
    numbers = *extents, slim, weights, request.activation, quads
    blocks = -(-n // slim.rows) * -(-m // slim.tokens)
    from .few.slim_kernel import slim_matmul

    def run(call: Call) -> None:
        a, b, c, bias, *_, stream = call
        work = counters = None
        if slim.slices > 1:
            work = scratch(c, "sums", blocks * slim.slices * slim.rows * slim.tokens, "float32", stream)
            counters = scratch(c, "counters", blocks, "int32", stream, zero=True)
        more = () if stream is None else (stream,)
        slim_matmul(a, b, c, bias, work, counters, *numbers, *more)

    return packed_first(form_a, a, run)


def few_form(request: Request) -> Operand | None:
    """Rows of A along k: as they lie, or packed so, where that is little."""
    a, x = request.a, left(request)
    found = engine_form(x, request.k, 1, a)
    if (found is None or found[0] != "k") and request.m > NARROW:
        return None
    return operand(x, request.k, 1, a, along_k=True)


def packed_first(form: Operand, array: Array, run: Run) -> Run:
    """A run whose A is packed before, if it must be."""
    if form.packing is None:
        return run
    pack_a = packer(form, array)

    def run_packed(call: Call) -> None:
        run(call._replace(a=pack_a(call.a, "a", call.stream)))

    return run_packed


ONE = 8
"""Rows of one instruction: with no more, tiles were not faster."""
TOO_MUCH = 0.85
"""What is said of tiles beside kernels of few rows is more than they take."""


def tiles_microseconds(request: Request, out: Array, where: Target) -> float:
    """What `hopper` would take for rows of contiguous k."""
    m, n, k = request.m, request.n, request.k
    ragged = tuple(x.step * request.a.itemsize % LINE != 0 for x in (left(request), right(request)))
    given = Problem(
        m, n, k, 1, 16, out.itemsize, "k", "k", out.itemsize != 2 or n % 8 != 0, where.processors,
        ragged=(ragged[0], ragged[1]),
    )  # fmt: skip
    return best(given, arch=where.target.arch).clocks / rates_of(16).clock * 1e6


def few_bytes(request: Request, out: Array, where: Target) -> Run | None:
    """`thin_kernel`, for few rows of 8-bit types, where it is faster than `hopper`."""
    a, b, m, n, k = request.a, request.b, request.m, request.n, request.k
    kinds = (*FP8, "int8")
    # With two instructions for the rows tiles were faster: 19.0 microseconds instead of 21.0 for 16 x 8192 x 8192.
    if not where.hopper or not 0 < m <= ONE or not k or a.dtype not in kinds or b.dtype not in kinds:
        return None
    if request.batched or request.invariant or request.blocked or request.scale_out is not None or not in_units(k, a):
        return None
    form_a, form_b = few_form(request), engine_form(right(request), k, 1, b)
    if form_a is None or form_b is None or (n > 1 and out.strides[1] != 1):
        return None
    step_c = out.strides[0] if m > 1 else -(-n // 8) * 8
    promote = a.dtype in FP8 and request.accumulate == "f32"
    given = Problem(
        m, n, k, 1, 8, out.itemsize, "k", "k", out.itemsize != 2, where.processors, promote, integers=a.dtype == "int8"
    )
    tiled = best(given).clocks / rates_of(8).clock * 1e6
    if step_c <= 0 or thin.microseconds(m, n, k, 8) > tiled:
        return None
    quads = n % 4 == 0 and step_c % 4 == 0 and out.address % (4 * out.itemsize) == 0
    form = thin.choose(m, n, k, where.processors, 8)
    scales = thin.Scales(scale_form(request.scale_a), scale_form(request.scale_b))
    thin_run = run_thin((m, n, k, form_a.step, form_b[1], step_c, form, request.activation, quads), scales)
    return packed_first(form_a, a, thin_run)


def in_units(k: int, array: Array) -> bool:
    """Whether K ends where a unit does: `thin_kernel` multiplies whole ones, and what is behind K is anything."""
    return k % (UNIT // array.itemsize) == 0


def run_thin(
    numbers: tuple[int, int, int, int, int, int, thin.Thin, str, bool], scales: thin.Scales = thin.UNSCALED
) -> Run:
    """`thin_kernel` with these extents, steps and its form."""
    form = numbers[6]
    if form.blocks:
        return run_shares(numbers, scales)
    from .few.thin_kernel import thin_matmul

    def run(call: Call) -> None:
        factors = call.scale_a, call.scale_b
        if call.stream is not None:
            thin_matmul(call.a, call.b, call.out, call.bias, *numbers, call.stream, *factors, scales)
        elif scales == thin.UNSCALED:
            thin_matmul(call.a, call.b, call.out, call.bias, *numbers)
        else:
            thin_matmul(
                call.a, call.b, call.out, call.bias, *numbers, scale_a=factors[0], scale_b=factors[1], scales=scales
            )

    return run


def run_shares(
    numbers: tuple[int, int, int, int, int, int, thin.Thin, str, bool], scales: thin.Scales = thin.UNSCALED
) -> Run:
    """`thin_shares_kernel`, which needs room for sums."""
    from .few.thin_shares import thin_shares_matmul

    form = numbers[6]
    tiles = -(-numbers[1] // form.rows)

    def run(call: Call) -> None:
        work = scratch(call.out, "sums", 2 * form.blocks * form.size, "float32", call.stream)
        counters = scratch(call.out, "counters", tiles, "int32", call.stream, zero=True)
        given = (call.a, call.b, call.out, call.bias, work, counters, *numbers)
        factors = call.scale_a, call.scale_b
        if call.stream is None:
            thin_shares_matmul(*given, scale_a=factors[0], scale_b=factors[1], scales=scales)
        else:
            thin_shares_matmul(*given, call.stream, *factors, scales)

    return run


def packed_microseconds(request: Request, where: Target) -> float:
    """What float32 in parts takes where the parts are packed first: one number is read, three are written."""
    m, n, k, count = request.m, request.n, request.k, PARTS["left"]
    given = Problem(m, n, count * k, 1, 32, 4, "k", "k", True, where.processors)
    moved = 4 * (1 + count) * (m + n) * k
    rates = rates_of(given.bits)
    return (best(given).clocks / rates.clock + moved / rates.memory) * 1e6


def rowwise(request: Request, out: Array) -> bool:
    """Whether a kernel of two dimensions takes it: 16-bit types with contiguous k, and rows of C in one piece."""
    x, y = left(request), right(request)
    return (
        not request.batched
        and request.a.dtype in ("float16", "bfloat16")
        and request.scale_a is None
        and request.scale_b is None
        and request.out_dtype not in (*FP8, *FNUZ)
        and request.k > 0
        and (x.depth, y.depth, out.strides[-1]) == (1, 1, 1)
        and min(x.step, y.step, out.strides[-2]) > 0
    )


def on_ampere(request: Request, out: Array, where: Target) -> Run | None:
    """`gemm_sm80`, which reads single elements where rows do not begin at 16-byte units, or do not end there."""
    from ..gemm_sm80 import BN, gemm_sm80

    if not where.ampere or not rowwise(request, out) or not fit_a_grid(-(-request.n // BN)):
        return None

    aligned = all(
        x.address % UNIT == 0 and step * x.itemsize % UNIT == 0 and in_units(length, x)
        for x, step, length in (
            (request.a, request.a.strides[-2], request.k),
            (request.b, request.b.strides[-1], request.k),
            (out, out.strides[-2], request.n),
        )
    )
    activation = request.activation

    def run(call: Call) -> None:
        x, y, out = (units(t) if aligned else rows_of(t) for t in (call.a, call.b.T, call.out))
        more = {} if call.stream is None else {"stream": call.stream}
        gemm_sm80(x, y, out, activation, call.bias, **more)

    return run


def rows_of(t: HostArray) -> TensorArgument:
    """A matrix whose second direction is the contiguous one, whatever its extents."""
    import flydsl.compiler as flyc

    return flyc.from_dlpack(t).mark_layout_dynamic(leading_dim=1)


def units(t: HostArray) -> TensorArgument:
    """The same, with rows of 16-byte units."""
    import flydsl.compiler as flyc

    unit = 16 // (t.element_size() if is_torch(t) else t.dtype.itemsize)
    return flyc.from_dlpack(t, assumed_align=16).mark_layout_dynamic(leading_dim=1, divisibility=unit)


def anywhere(request: Request, out: Array) -> Run:
    """`plain`, which takes everything."""
    from .plain import plain

    x, y = left(request), right(request)
    batch_c = out.strides[0] if len(out.shape) == 3 else 0
    single = scale_form(request.scale_a) == "one", scale_form(request.scale_b) == "one"
    numbers = (
        request.m, request.n, request.k, request.batches, x.step, x.depth, x.batch, y.depth, y.step, y.batch,
        out.strides[-2], out.strides[-1], batch_c, request.activation, single, request.blocked,
    )  # fmt: skip

    def run(call: Call) -> None:
        a, b, c, bias, scale_a, scale_b, scale_out, stream = call
        more: dict[str, Any] = {} if stream is None else {"stream": stream}
        if scale_out is not None:
            more["scale_out"] = scale_out
        plain(a, b, c, bias, scale_a, scale_b, *numbers, **more)

    return run


__all__ = ["decide", "decide_moved"]
