"""`mla_decode`: attention of few queries with latent keys, whose first columns are the values."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

from ...grids import fit as fit_a_grid
from ...matmul.arrays import (
    Array,
    HostArray,
    address,
    array_key,
    empty,
    environment_key,
    in_line,
    is_torch,
    packed,
)
from ...matmul.calls import Target
from ...matmul.entry import target_of
from ...matmul.request import check_apart
from ...matmul.workspace import scratch
from ...scalars import flag, number, whole
from ..calls import Launch, engine_takes
from ..lengths import longest
from ..plan import FEW, splits_for
from ..request import FP8, HALF, Request, Words, check, described, factor_steps
from ..softmax import LOG2E
from .form import CHUNK, ROWS, WIDE, Latent, problem

MOST = 1024
"""Elements of a query."""
LANES = 32

_decided: dict[object, Decision] = {}
_ROOM = 1024
_NAME = "mla_decode"
_WORDS = Words(_NAME, "kv", "kv")


class Given(NamedTuple):
    """The arrays of a call."""

    q: HostArray
    kv: HostArray
    out: HostArray
    lse: HostArray | None
    used_k: HostArray | None
    table: HostArray | None
    descale: HostArray | None


Run: TypeAlias = "Callable[[Given, int, object], None]"
"""A call with the arrays, the longest sequence of keys, and the stream."""


class Decision(NamedTuple):
    """A checked request, and how it runs."""

    request: Request
    run: Run


def mla_decode(
    q: HostArray,
    kv: HostArray,
    *,
    dv: int = 512,
    causal: bool = False,
    scale: float | None = None,
    block_table: HostArray | None = None,
    seqlens_k: HostArray | None = None,
    descale: HostArray | None = None,
    out: HostArray | None = None,
    return_lse: bool = False,
    stream: object = None,
) -> Any:
    """`softmax(q kv^T * scale) kv[..., :dv]`: all heads share one row of `kv` for each key, in `out` or a fresh array.

    `q` is (batch, queries, heads, d) and `kv` (batch, keys, d), both with the latent part first: 576 and `dv` 512 where
    keys have 512 latent elements and 64 of position. With `block_table`, a row of pages for each sequence, `kv` is
    (pages, keys of a page, d); an axis of one head is taken, too. `seqlens_k` is how many keys each sequence has.
    `kv` may be fp8, whose values `descale` multiplies: one float32, or one for each sequence.

    With `causal` the last query sees all keys, the one before it all but one. `scale` is `d ** -0.5` unless given. The
    result is (batch, queries, heads, dv); with `return_lse` the logarithms of the sums of exponentials come, too,
    (batch, heads, queries). A query that sees nothing gives 0 and minus infinity.

    >>> kv = np.zeros((1, 2, 32), "f4")
    >>> kv[0, :, 0] = 1, 3
    >>> mla_decode(np.zeros((1, 1, 1, 32), "f4"), kv, dv=32)[0, 0, 0, 0]
    np.float32(2.0)
    """
    if type(dv) is not int or not type(causal) is type(return_lse) is bool:
        dv, causal = whole(_NAME, "dv", dv), flag(_NAME, "causal", causal)
        return_lse = flag(_NAME, "return_lse", return_lse)
    scale = None if scale is None else number(_NAME, "scale", scale)
    key = (
        array_key(q), array_key(kv), dv, causal, scale, array_key(block_table), array_key(seqlens_k),
        array_key(descale), array_key(out), *environment_key(),
    )  # fmt: skip
    known = _decided.get(key)
    if known is None:
        request = _check(q, kv, dv, causal, scale, block_table, seqlens_k, descale)
    else:
        request = known.request
    keys = longest(request, None, None, seqlens_k, block_table).keys
    given = out is not None
    if out is None:
        out = empty(q, request.shape, request.out_dtype, _NAME)
    if known is None:
        place = described("out", out, _NAME)
        if place.shape != request.shape or place.dtype != request.out_dtype or place.device != request.q.device:
            raise _WORDS.fail(f"out is {request.out_dtype}{list(request.shape)} on {request.q.device}, got {place}")
        if not _in_rows(place):
            raise _WORDS.fail(f"rows of out lie behind each other, its strides are {place.strides}")
        if len(_decided) >= _ROOM:
            _decided.clear()
        known = _decided[key] = Decision(request, decide(request, place, target_of(request.q)))
    if given:
        reach = described("out", out, _NAME).reach
        small = (("block_table", block_table), ("seqlens_k", seqlens_k), ("descale", descale))
        others = [(name, x, described(name, x, _NAME).reach) for name, x in small if x is not None]
        others += [("q", q, request.q.reach), ("kv", kv, request.k.reach)]
        check_apart(address(out), reach, others, _NAME)
    batches, queries, heads, _ = request.shape
    lse = empty(q, (batches, queries, heads), "float32", _NAME) if return_lse else None
    if 0 not in request.shape:
        if not request.keys:
            cast("Any", out)[...] = 0
            if lse is not None:
                cast("Any", lse)[...] = float("-inf")
        else:
            table = None if block_table is None else packed(block_table)
            used = None if seqlens_k is None else packed(seqlens_k)
            factors = None if descale is None else packed(descale)
            rows = q if _in_rows(request.q) else packed(q)
            known.run(Given(rows, kv, out, lse, used, table, factors), keys, stream)
    if lse is None:
        return out
    return out, lse.permute((0, 2, 1)) if is_torch(lse) else cast("Any", lse).transpose(0, 2, 1)


def _check(
    q: HostArray,
    kv: HostArray,
    dv: int,
    causal: bool,
    scale: float | None,
    table: HostArray | None,
    used: HostArray | None,
    descale: HostArray | None,
) -> Request:
    known = [described(name, x, _NAME) for name, x in (("q", q), ("kv", kv))]
    keys = known[1]
    if len(keys.shape) == 3:
        keys = keys._replace(
            shape=(*keys.shape[:2], 1, keys.shape[2]), strides=(*keys.strides[:2], keys.strides[1], keys.strides[2])
        )
    if len(keys.shape) != 4 or keys.shape[2] != 1:
        raise _WORDS.fail(f"kv is (batch, keys, d) or (batch, keys, 1, d), got {known[1]}")
    if not 0 < dv <= keys.shape[3]:
        raise _WORDS.fail(f"dv is how many of the {keys.shape[3]} elements of kv are the value, got {dv!r}")
    types = (*HALF, "float32")
    if known[0].dtype not in types or keys.dtype not in (known[0].dtype, *FP8):
        raise _WORDS.wrong_type(
            f"q and kv are both float16, bfloat16 or float32, or kv is fp8, got {known[0].dtype} and {keys.dtype}"
        )
    if keys.shape[3] % LANES or dv % LANES or keys.shape[3] > MOST:
        raise _WORDS.fail(
            f"the elements of kv and dv are multiples of {LANES} up to {MOST}, got {keys.shape[3]} and {dv}"
        )
    if descale is not None and keys.dtype not in FP8:
        raise _WORDS.fail(f"descale goes with kv of fp8, got {keys.dtype}")
    values = keys._replace(shape=(*keys.shape[:3], dv))
    maybe = [None if x is None else described(n, x, _NAME) for n, x in (("block_table", table), ("seqlens_k", used))]
    factors = None if descale is None else described("descale", descale, _NAME)
    if factors is not None and len(factors.shape) == 1 and factors.shape[0] != 1:
        factors = factors._replace(shape=(*factors.shape, 1), strides=(*factors.strides, 1))
    return check(
        known[0], keys, values, causal, None, scale, None, table=maybe[0], used_k=maybe[1],
        descale=(None, factors, None), most=MOST, words=_WORDS,
    )  # fmt: skip


def _in_rows(x: Array) -> bool:
    """Whether heads of all queries of a sequence lie at equal distances."""
    _, queries, heads, d = x.shape
    _, query, head, column = x.strides
    return (d == 1 or column == 1) and (queries <= 1 or heads <= 1 or query == heads * head)


def _rows_of(x: Array) -> tuple[int, int]:
    """From row to row, and from sequence to sequence."""
    if not _in_rows(x):
        # It is copied.
        return x.shape[3], x.shape[1] * x.shape[2] * x.shape[3]
    return x.strides[2] if x.shape[2] > 1 else x.strides[1] if x.shape[1] > 1 else x.shape[3], x.strides[0]


def decide(request: Request, out: Array, where: Target) -> Run:
    """The fastest kernel that can do it."""
    found = None
    if where.hopper:
        found = on_hopper(request, out, where)
    elif where.target.has("amd"):
        from .amd import on_amd

        found = on_amd(request, out, _rows_of(request.q), _rows_of(out), where)
    return anywhere(request, out) if found is None else found


@lru_cache(256)
def form_for(
    d: int, dv: int, rows: int, page: int, causal: bool, used_k: bool, split: bool, raw: bool, each: bool
) -> Latent:
    """The first that fits; the fastest on an H200 come first.

    Where values are wide enough to leave the second consumer most of the sums, queries are in registers, and steps are
    long. Else up to 64 rows wait for memory, which short steps and many of them suit; more wait for products.

    One constant for equal ones: calls with the very same one are served warm.
    """
    held = min(24, d // WIDE * 4) if dv > 128 else 0
    if raw:
        cuts = [(64, 2, 2), (32, 2, 2)] if held else [(32, 2, 4)]
    else:
        cuts = [(64, 2, 0), (32, 4, 0), (32, 2, 0)]
        if rows <= ROWS and not held:
            cuts[:2] = cuts[1::-1]
    forms = [
        Latent(d, dv, n, stages, min(page, CHUNK if chunks else n), causal, used_k, split, chunks, each, held)
        for n, stages, chunks in cuts
    ]
    return next((x for x in forms if problem(x) is None and fits(x, page)), forms[0])


def fits(form: Latent, page: int) -> bool:
    """Whether rows that come together are of one page, or of whole ones."""
    return not page or form.together % page == 0 or page % form.together == 0


def on_hopper(request: Request, out: Array, where: Target) -> Run | None:
    """`hopper_latent`, for 16-bit queries and keys of these or of 8 bits, whose rows are 16-byte units."""
    r = request
    causal = r.right is not None and r.queries > 1
    extents, bytes_and_factors = (r.d, r.dv, r.queries * r.heads, r.page), (r.k.dtype in FP8, _each(r))
    first = form_for(*extents, causal, r.used_k, False, *bytes_and_factors)
    if r.q.dtype not in HALF or problem(first) is not None or not fits(first, r.page) or not fit_a_grid(r.batches):
        return None
    factor = r.scale * LOG2E
    if not 1e-8 <= factor <= 1e8 or not engine_takes(r.k):
        return None
    if _in_rows(r.q) and not engine_takes(r.q):
        return None
    row_out, batch_out = _rows_of(out)
    if out.address % 4 or row_out % 2 or batch_out % 2:
        return None
    rows = r.queries * r.heads
    row_q, batch_q = _rows_of(r.q)
    some = r.d
    row_k = r.k.strides[1] if r.k.shape[1] > 1 else some
    batch_k = r.k.strides[0] if r.k.shape[0] > 1 else some
    strides = (row_q if rows > 1 else some, batch_q if r.batches > 1 else some, row_k, batch_k)
    from ..combine import combine
    from .hopper import hopper_latent

    launch, gather = cast("Launch", hopper_latent), cast("Launch", combine)

    def run(given: Given, keys: int, stream: object) -> None:
        more = () if stream is None else (stream,)
        units = -(-rows // ROWS) * r.batches
        splits = splits_for(units, -(-keys // first.n), where.processors)
        result, lse, out_steps, part_steps = given.out, given.lse, (row_out, batch_out), (0, 0)
        form = form_for(*extents, causal, r.used_k, splits > 1, *bytes_and_factors)
        if splits > 1:
            lines = r.batches * rows
            result = scratch(given.out, "latent parts", splits * lines * r.dv, "float32", stream)
            lse = scratch(given.out, "latent heights", splits * lines, "float32", stream)
            out_steps, part_steps = (r.dv, rows * r.dv), (lines * r.dv, lines)
        launch(
            given.q, given.kv, result, lse, given.used_k, given.table, given.descale, r.batches, r.queries, r.heads,
            keys, r.k.shape[1], r.k.shape[0], *strides, *out_steps, splits, *part_steps, r.page, _width(given.table),
            factor, form, *more,
        )  # fmt: skip
        if splits > 1:
            gather(
                result, lse, given.out, given.lse, None, splits, r.batches, rows, 1, batch_out, row_out, 0, r.dv,
                splits > FEW, *more,
            )  # fmt: skip

    return run


def _each(r: Request) -> bool:
    """Whether sequences have factors of their own."""
    return factor_steps(r.descale[1])[0] > 0


def _width(table: HostArray | None) -> int:
    return 0 if table is None else table.shape[1]


def anywhere(request: Request, out: Array) -> Run:
    """`plain_latent`."""
    from .plain import Shape, plain_latent

    r = request
    shape = Shape(r.d, r.dv, r.right is not None and r.queries > 1, r.page > 0, _each(r))
    steps = (*_rows_of(r.q), r.k.strides[1], r.k.strides[0], *_rows_of(out))
    launch = cast("Launch", plain_latent)

    def run(given: Given, keys: int, stream: object) -> None:
        more = () if stream is None else (stream,)
        launch(
            *map(in_line, (given.q, given.kv, given.out)), given.lse, given.used_k, given.table, given.descale,
            r.batches, r.queries, r.heads, keys, *steps, r.page, _width(given.table), r.scale * LOG2E, shape, *more,
        )  # fmt: skip

    return run


__all__ = ["mla_decode"]
