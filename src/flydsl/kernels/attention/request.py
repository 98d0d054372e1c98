"""What an attention is asked for, checked: extents, types, layouts, and what may be seen."""

from __future__ import annotations

from typing import NamedTuple

from flydsl.errors import DSLTypeError, DSLValueError

from .. import scalars
from ..matmul.arrays import Array, HostArray, describe
from ..scalars import flag, whole

HALF = ("float16", "bfloat16")
FP8 = ("float8_e4m3fn", "float8_e5m2")
FLOATS = (*HALF, "float32", *FP8)
_INTS = "cu_seqlens_q", "cu_seqlens_k", "block_table", "seqlens_k"
_TYPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("bias", "alibi", "sinks"), (*HALF, "float32")), **dict.fromkeys(_INTS, ("int32",)),
    **dict.fromkeys(("descale", "lse"), ("float32",)), **dict.fromkeys(("out", "grad"), (*HALF, "float32")),
}  # fmt: skip
"""What an argument takes, where that is not what q, k and v do."""
MOST = 256
"""Elements of a query, key or value."""


class Words(NamedTuple):
    """What errors call the function, its keys and its values: what its user wrote."""

    op: str = "attention"
    k: str = "k"
    v: str = "v"

    def fail(self, text: str) -> DSLValueError:
        return DSLValueError(f"{self.op}: {text}")

    def wrong_type(self, text: str) -> DSLTypeError:
        return DSLTypeError(f"{self.op}: {text}")


ATTENTION = Words()


class Request(NamedTuple):
    """A checked request. Arrays are as they came; `None` is what was not given."""

    q: Array
    k: Array
    v: Array
    batches: int
    queries: int
    """Rows of queries: of each sequence, or of all of them where they are packed."""
    keys: int
    """Rows of keys: of each sequence, of all of them, or as many as a row of the page table has room for."""
    heads: int
    kv_heads: int
    d: int
    dv: int
    packed_q: bool
    packed_k: bool
    page: int
    """Keys of a page; 0 where keys are not paged."""
    left: int | None
    right: int | None
    """How many keys in front of and behind its own place a query sees; None if all."""
    scale: float
    softcap: float
    bias: Array | None
    alibi: Array | None
    sinks: Array | None
    used_k: bool
    descale: tuple[Array | None, Array | None, Array | None]
    out_dtype: str
    dropout: bool = False
    words: Words = ATTENTION

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result."""
        if self.packed_q:
            return self.queries, self.heads, self.dv
        return self.batches, self.queries, self.heads, self.dv

    @property
    def lse_shape(self) -> tuple[int, ...]:
        return (self.heads, self.queries) if self.packed_q else (self.batches, self.heads, self.queries)

    @property
    def group(self) -> int:
        return self.heads // self.kv_heads


def fail(text: str) -> DSLValueError:
    return ATTENTION.fail(text)


def wrong_type(text: str) -> DSLTypeError:
    return ATTENTION.wrong_type(text)


def described(name: str, x: HostArray, what: str) -> Array:
    """An argument of `what` by its name."""
    return describe(name, x, what, _TYPES.get(name, FLOATS))


def check(
    q: Array,
    k: Array,
    v: Array,
    causal: bool,
    window: object,
    scale: float | None,
    softcap: float | None,
    bias: Array | None = None,
    alibi: Array | None = None,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
    table: Array | None = None,
    used_k: Array | None = None,
    sinks: Array | None = None,
    descale: tuple[Array | None, Array | None, Array | None] = (None, None, None),
    dropout: bool = False,
    most: int = MOST,
    words: Words = ATTENTION,
) -> Request:
    """The request, or an error that names the argument."""
    _check_types(q, k, v, words)
    for name, x in zip((words.k, words.v), (k, v), strict=True):
        if x.device != q.device:
            raise words.fail(f"q is on {q.device} and {name} on {x.device}")
    packed_q, packed_k = cu_q is not None, cu_k is not None
    if packed_k and table is not None:
        raise words.fail("keys are packed (cu_seqlens_k) or paged (block_table), not both; pages take seqlens_k")
    _check_rank(words, "q", q, packed_q, "cu_seqlens_q", "(batch, queries, heads, d)", "(all queries, heads, d)")
    for name, x in ((words.k, k), (words.v, v)):
        if table is not None:
            if len(x.shape) != 4:
                raise words.fail(f"with block_table {name} is (pages, keys of a page, heads, d), got {x}")
        else:
            _check_rank(words, name, x, packed_k, "cu_seqlens_k", "(batch, keys, heads, d)", "(all keys, heads, d)")
    batches = _batches(q, k, cu_q, cu_k, table, words)
    heads, d = q.shape[-2:]
    kv_heads, dv = v.shape[-2:]
    if k.shape[-1] != d:
        raise words.fail(f"queries have {d} elements and keys {k.shape[-1]}")
    if k.shape[:-1] != v.shape[:-1]:
        raise words.fail(f"{words.k} and {words.v} differ in more than their last extent: {k} and {v}")
    if (heads and not kv_heads) or (kv_heads and heads % kv_heads):
        raise words.fail(f"the {heads} heads of q are no multiple of the {kv_heads} heads of {words.k} and {words.v}")
    for name, extent in ((f"q and {words.k}", d), (words.v, dv)):
        if extent % 8 or not 8 <= extent <= most:
            raise words.fail(f"the last extent of {name} is a multiple of 8 up to {most}, got {extent}")
    page = 0
    if table is not None:
        page = k.shape[1]
        if used_k is None:
            raise words.fail("block_table needs seqlens_k: how many keys each sequence has")
        _check_ints(words, "block_table", table, q, (batches, None))
        if page == 0:
            raise words.fail(f"a page of {words.k} has at least one key")
    keys = table.shape[1] * page if table is not None else k.shape[0] if packed_k else k.shape[1]
    if cu_q is not None:
        _check_ints(words, "cu_seqlens_q", cu_q, q, (batches + 1,))
    if cu_k is not None:
        _check_ints(words, "cu_seqlens_k", cu_k, q, (batches + 1,))
    if used_k is not None:
        _check_ints(words, "seqlens_k", used_k, q, (batches,))
    queries = q.shape[0] if packed_q else q.shape[1]
    left, right = window_of(window, causal)
    factor = number("scale", d**-0.5 if scale is None else scale)
    cap = number("softcap", 0.0 if softcap is None else softcap)
    if cap < 0:
        raise words.fail(f"softcap is positive, or None, got {softcap}")
    if bias is not None:
        if packed_q or packed_k or page:
            raise words.fail(
                "bias goes with sequences of one length, not with cu_seqlens_q, cu_seqlens_k or block_table"
            )
        _check_bias(words, bias, (batches, heads, queries, keys))
    _check_floats(words, "bias", bias, q)
    _check_floats(words, "alibi", alibi, q)
    _check_floats(words, "sinks", sinks, q)
    if alibi is not None and alibi.shape not in ((heads,), (batches, heads)):
        raise words.fail(f"alibi has a slope for each of the {heads} heads, or batch x heads of them, got {alibi}")
    if sinks is not None and sinks.shape != (heads,):
        raise words.fail(f"sinks has a value for each of the {heads} heads, got {sinks}")
    for name, x in zip(("q", words.k, words.v), descale, strict=True):
        if x is not None:
            _check_descale(words, name, x, q, batches, heads, kv_heads)
    if any(x is not None for x in descale) and not any(x.dtype in FP8 for x in (q, k, v)):
        raise words.fail(f"descale goes with fp8 arrays, and q is {q.dtype}")
    out = q.dtype if q.dtype not in FP8 else "bfloat16"
    return Request(
        q, k, v, batches, queries, keys, heads, kv_heads, d, dv, packed_q, packed_k, page, left, right, factor, cap,
        bias, alibi, sinks, used_k is not None, descale, out, dropout, words,
    )  # fmt: skip


def _check_types(q: Array, k: Array, v: Array, words: Words) -> None:
    for name, x in (("q", q), (words.k, k), (words.v, v)):
        if x.dtype not in FLOATS:
            raise words.wrong_type(f"{name} has elements of {', '.join(FLOATS)}, got {x.dtype}")
    if k.dtype != v.dtype or (k.dtype != q.dtype and k.dtype not in FP8):
        both = f"{words.k} and {words.v}"
        raise words.wrong_type(f"q, {both} have one type (or {both} are fp8), got {q.dtype}, {k.dtype} and {v.dtype}")


def _check_rank(words: Words, name: str, x: Array, packed: bool, argument: str, plain: str, flat: str) -> None:
    if len(x.shape) != (3 if packed else 4):
        with_it = f"with {argument} {name} is {flat}" if packed else f"{name} is {plain}"
        raise words.fail(f"{with_it}, got {x}")


def _batches(q: Array, k: Array, cu_q: Array | None, cu_k: Array | None, table: Array | None, words: Words) -> int:
    found = {
        "q": q.shape[0] if cu_q is None else None,
        words.k: k.shape[0] if cu_k is None and table is None else None,
        "cu_seqlens_q": None if cu_q is None else max(cu_q.shape[0] - 1, 0) if cu_q.shape else 0,
        "cu_seqlens_k": None if cu_k is None else max(cu_k.shape[0] - 1, 0) if cu_k.shape else 0,
        "block_table": None if table is None else table.shape[0] if table.shape else 0,
    }
    known = {name: count for name, count in found.items() if count is not None}
    if len(set(known.values())) != 1:
        raise words.fail("the number of sequences differs: " + ", ".join(f"{n} has {c}" for n, c in known.items()))
    return next(iter(known.values()))


def _check_ints(words: Words, name: str, x: Array, q: Array, shape: tuple[int | None, ...]) -> None:
    if x.dtype != "int32":
        raise words.wrong_type(f"{name} is int32, got {x.dtype}")
    if len(x.shape) != len(shape) or any(e is not None and e != g for e, g in zip(shape, x.shape, strict=True)):
        wanted = ", ".join("any" if e is None else str(e) for e in shape)
        raise words.fail(f"{name} has the shape [{wanted}], got {x}")
    if x.device != q.device:
        raise words.fail(f"q is on {q.device} and {name} on {x.device}")


def _check_floats(words: Words, name: str, x: Array | None, q: Array) -> None:
    if x is None:
        return
    if x.dtype not in (*HALF, "float32"):
        raise words.wrong_type(f"{name} is float32, float16 or bfloat16, got {x.dtype}")
    if x.device != q.device:
        raise words.fail(f"q is on {q.device} and {name} on {x.device}")


def _check_bias(words: Words, bias: Array, full: tuple[int, int, int, int]) -> None:
    shape = (1,) * (4 - len(bias.shape)) + bias.shape
    if len(shape) != 4 or any(e not in (1, f) for e, f in zip(shape, full, strict=True)):
        raise words.fail(f"bias has the shape {list(full)} (batch, heads, queries, keys), or ones in it, got {bias}")


def _check_descale(words: Words, name: str, x: Array, q: Array, batches: int, heads: int, kv_heads: int) -> None:
    of_heads = {1, kv_heads, heads} if name == "q" else {1, kv_heads}
    pair = x.shape if len(x.shape) == 2 else (1, *x.shape) if len(x.shape) < 2 else (0, 0)
    pair = (*pair, 1)[:2]
    if x.dtype != "float32" or pair[0] not in (1, batches) or pair[1] not in of_heads:
        raise words.fail(f"descale of {name} is float32: one, or one for each of {batches} x {kv_heads} heads, got {x}")
    if x.device != q.device:
        raise words.fail(f"q is on {q.device} and descale of {name} on {x.device}")


def factor_steps(x: Array | None) -> tuple[int, int]:
    """From sequence to sequence and from head to head, in factors that lie one behind the other."""
    if x is None:
        return 0, 0
    batches, heads = ((1, *x.shape, 1) if len(x.shape) < 2 else x.shape)[:2]
    return (heads if batches > 1 else 0), (1 if heads > 1 else 0)


def factors_of(x: Array | None) -> int:
    """How many there are in a sequence."""
    return x.shape[-1] if x is not None and x.shape else 1


def window_of(window: object, causal: bool) -> tuple[int | None, int | None]:
    """How far a query sees to both sides: flash attention's pairs, in which -1 is as far as there is."""
    if type(causal) is not bool:
        causal = flag("attention", "causal", causal)
    if window is None:
        return None, 0 if causal else None
    sides: list[object] = list(window) if isinstance(window, (tuple, list)) else [window, window]  # pyright: ignore[reportUnknownArgumentType]
    if len(sides) != 2:
        raise fail(f"window has two sides, got {window!r}")
    left, right = map(_side, sides)
    return left, 0 if causal else right


def _side(x: object) -> int | None:
    try:
        keys = -1 if x is None else whole("attention", "window", x, -1)
    except (DSLTypeError, DSLValueError) as error:
        text = f"attention: a side of window is a number of keys, or None or -1 for all, got {x!r:.80}"
        raise type(error)(text) from None
    return None if keys == -1 else min(keys, 1 << 30)


def number(name: str, x: object) -> float:
    return scalars.number("attention", name, x)


__all__ = [
    "FP8",
    "HALF",
    "Request",
    "Words",
    "check",
    "described",
    "factor_steps",
    "factors_of",
    "fail",
    "number",
    "window_of",
    "wrong_type",
]
