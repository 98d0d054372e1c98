"""What `attention` refuses: an error names the argument, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from flydsl.errors import DSLTypeError, DSLValueError, FlyDSLError
from flydsl.kernels import attention, matmul, mla_decode, softmax


def of(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


Q, K = of(2, 3, 4, 8), of(2, 5, 2, 8)
FLAT, PAGES = of(6, 4, 8), of(4, 2, 2, 8)
BAD = [
    ("k and v", {"q": Q, "k": of(2, 5, 3, 8), "v": of(2, 5, 3, 8)}, "4 heads of q are no multiple of the 3"),
    ("elements", {"k": of(2, 5, 2, 16)}, "queries have 8 elements and keys 16"),
    ("differ", {"v": of(2, 6, 2, 8)}, "k and v differ"),
    ("batch", {"q": of(3, 3, 4, 8)}, "q has 3, k has 2"),
    ("rank", {"q": of(3, 4, 8)}, r"q is \(batch, queries, heads, d\)"),
    ("extent", {"q": of(2, 3, 4, 12), "k": of(2, 5, 2, 12), "v": of(2, 5, 2, 12)}, "multiple of 8 up to 256, got 12"),
    ("type", {"q": of(2, 3, 4, 8, dtype=torch.float16)}, "q, k and v have one type"),
    ("ints", {"q": of(2, 3, 4, 8, dtype=torch.int8)}, "q has elements of"),
    ("no array", {"q": 3}, "q is a numpy array or a torch tensor"),
    ("window", {"window": (1, 2, 3)}, "window has two sides"),
    ("window side", {"window": (-2, 0)}, "a side of window"),
    ("scale", {"scale": float("nan")}, "scale is a finite number"),
    ("scale that is no float", {"scale": 10**400}, "scale is a finite number"),
    ("causal", {"causal": "no"}, "causal is True or False"),
    ("causal of each", {"causal": torch.tensor([True, False])}, "causal is True or False"),
    ("sparse", {"q": Q.to_sparse()}, "q has strides, got a tensor in the layout torch.sparse_coo"),
    ("softcap", {"softcap": -1.0}, "softcap is positive"),
    ("bias", {"bias": of(3, 5, 3)}, "bias has the shape"),
    ("alibi", {"alibi": of(3)}, "alibi has a slope"),
    ("sinks", {"sinks": of(2)}, "sinks has a value for each"),
    ("descale", {"descale": (of(1), None, None)}, "descale goes with fp8"),
    ("descale type", {"descale": of(3)}, "descale is three factors .*got Tensor"),
    ("descale count", {"descale": (of(1),)}, "descale is three factors"),
    ("out shape", {"out": of(2, 3, 4, 16)}, "out has the shape"),
    ("out type", {"out": of(2, 3, 4, 8, dtype=torch.float16)}, "out is float32"),
    ("out on itself", {"out": of(1, 1, 1, 8).expand(2, 3, 4, 8)}, "on top of each other"),
    ("cu type", {"q": FLAT, "cu_seqlens_q": torch.tensor([0, 3, 6])}, "cu_seqlens_q is int32, got int64"),
    ("cu start", {"q": FLAT, "cu_seqlens_q": ints(1, 3, 6)}, "cu_seqlens_q rises from 0"),
    ("cu end", {"q": FLAT, "cu_seqlens_q": ints(0, 3, 7)}, "at most the 6 rows of q"),
    ("cu falls", {"q": FLAT, "cu_seqlens_q": ints(0, 4, 3)}, "cu_seqlens_q rises"),
    ("lengths", {"seqlens_k": ints(5, 6)}, r"seqlens_k\[1\] is 6"),
    ("packed lengths", {"k": FLAT[:, :2], "v": FLAT[:, :2], "cu_seqlens_k": ints(0, 2, 6), "seqlens_k": ints(3, 1)},
     r"seqlens_k\[0\] is 3, and sequence 0 has room for 2"),
    ("pages", {"k": PAGES, "v": PAGES, "block_table": ints(0, 1, 2, 4).reshape(2, 2), "seqlens_k": ints(4, 3)},
     r"block_table\[1, 1\] is 4, and k has 4 pages"),
    ("beyond", {"k": PAGES, "v": PAGES, "block_table": ints(0, 1, 2, 3).reshape(2, 2), "seqlens_k": ints(4, 5)},
     r"seqlens_k\[1\] is 5, and sequence 1 has room for 4"),
    ("no lengths", {"k": PAGES, "v": PAGES, "block_table": ints(0, 1, 2, 3).reshape(2, 2)}, "needs seqlens_k"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "match"), [x[1:] for x in BAD], ids=[x[0] for x in BAD])
def test_refused(changed, match: str):
    arguments = {"q": Q, "k": K, "v": K, **changed}
    q, k, v = (arguments.pop(x) for x in "qkv")
    with pytest.raises((DSLTypeError, DSLValueError), match=f"attention: .*{match}") as caught:
        attention(q, k, v, **arguments)
    assert isinstance(caught.value, FlyDSLError)


def test_unused_pages_may_point_anywhere(emulate):
    emulate("native")
    table = ints(0, 99, 1, -1).reshape(2, 2)
    out = attention(of(2, 1, 2, 8), PAGES + 1, PAGES + 1, block_table=table, seqlens_k=ints(2, 1))
    assert torch.equal(out, torch.ones(2, 1, 2, 8))


def test_result_apart_from_what_is_read():
    q = of(2, 3, 4, 8)
    with pytest.raises(DSLValueError, match="out overlaps q"):
        attention(q, K, K, out=q)


@pytest.mark.parametrize(
    ("name", "shape"), [("bias", (2, 4, 3, 5)), ("alibi", (4,)), ("sinks", (4,)), ("seqlens_k", (2,))]
)
def test_result_apart_from_small_arrays(name: str, shape: tuple[int, ...]):
    """They are read while results are written."""
    out = torch.full((2, 3, 4, 8), 7.0)
    memory = out.view(-1)[-torch.Size(shape).numel() :].view(shape)
    small = memory.view(torch.int32) if name == "seqlens_k" else memory
    small.zero_()
    before = out.clone()
    with pytest.raises(DSLValueError, match=f"attention: out overlaps {name}"):
        attention(Q, K, K, out=out, **{name: small})
    assert torch.equal(out, before)


def test_latent_result_apart_from_small_arrays():
    out = torch.zeros(2, 1, 2, 32)
    lengths = out.view(-1)[:2].view(torch.int32)
    with pytest.raises(DSLValueError, match="mla_decode: out overlaps seqlens_k"):
        mla_decode(of(2, 1, 2, 32), of(2, 5, 32), dv=32, seqlens_k=lengths, out=out)


LATENT, LATENT_PAGES = of(2, 1, 2, 64), of(4, 2, 64)
BAD_LATENT = [
    ("batch", {"kv": of(3, 5, 64)}, "q has 2, kv has 3"),
    ("rank", {"kv": of(5, 64)}, r"kv is \(batch, keys, d\)"),
    ("rank of q", {"q": of(2, 2, 64)}, r"q is \(batch, queries, heads, d\)"),
    ("elements", {"kv": of(2, 5, 96)}, "queries have 64 elements and keys 96"),
    ("multiple", {"q": of(2, 1, 2, 40), "kv": of(2, 5, 40)}, "multiples of 32 up to 1024, got 40 and 32"),
    ("most", {"q": of(2, 1, 2, 1056), "kv": of(2, 5, 1056)}, "multiples of 32 up to 1024, got 1056"),
    ("type", {"kv": of(2, 5, 64, dtype=torch.float16)}, "q and kv are both"),
    ("type of both", {"q": LATENT.to(torch.int8), "kv": of(2, 5, 64, dtype=torch.int8)}, "q and kv are both"),
    ("dv", {"dv": 65}, "dv is how many of the 64 elements of kv"),
    ("device", {"kv": of(2, 5, 64).to("meta")}, "q is on cpu and kv on meta"),
    ("descale", {"descale": of(1)}, "descale goes with kv of fp8, got float32"),
    ("descale count", {"kv": of(2, 5, 64).to(torch.float8_e4m3fn), "descale": of(3)}, "descale of kv is float32"),
    ("lengths", {"seqlens_k": ints(5, 6)}, r"seqlens_k\[1\] is 6"),
    ("pages", {"kv": LATENT_PAGES, "block_table": ints(0, 1, 2, 4).reshape(2, 2), "seqlens_k": ints(4, 3)},
     r"block_table\[1, 1\] is 4, and kv has 4 pages"),
    ("no lengths", {"kv": LATENT_PAGES, "block_table": ints(0, 1, 2, 3).reshape(2, 2)}, "needs seqlens_k"),
    ("empty page", {"kv": of(4, 0, 64), "block_table": ints(0, 1, 2, 3).reshape(2, 2), "seqlens_k": ints(0, 0)},
     "a page of kv has at least one key"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "match"), [x[1:] for x in BAD_LATENT], ids=[x[0] for x in BAD_LATENT])
def test_latent_errors_name_what_the_user_wrote(changed, match: str):
    arguments = {"q": LATENT, "kv": of(2, 5, 64), "dv": 32, **changed}
    with pytest.raises((DSLTypeError, DSLValueError), match=f"^mla_decode: .*{match}"):
        mla_decode(**arguments)


@pytest.mark.parametrize("call", [softmax, lambda x: matmul(x, x)])
def test_other_operations_refuse_tensors_without_strides(call: Callable[[torch.Tensor], object]):
    with pytest.raises(DSLTypeError, match="has strides, got a tensor in the layout torch.sparse_c"):
        call(torch.eye(8).to_sparse())
