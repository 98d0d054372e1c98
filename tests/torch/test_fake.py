"""Fake tensors are refused what real ones are, in the same words; what neither is refused has the same form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import flydsl.torch as ft  # noqa: E402
from flydsl.compiler.jit_function import JitFunction  # noqa: E402
from flydsl.errors import DSLTypeError, DSLValueError  # noqa: E402
from flydsl.torch import (  # noqa: E402
    axis_operators,
    loss_operators,
    more_operators,
    operators,
    product_operators,
    quantize_operators,
)

MODULES = (axis_operators, loss_operators, more_operators, operators, product_operators, quantize_operators)
OPERATORS: dict[str, Any] = {
    name: op for module in MODULES for name, op in vars(module).items() if hasattr(op, "registered")
}
TYPES = [torch.float32, torch.float16, torch.float64, torch.int32, torch.int64, torch.int8, torch.bool]
TYPES += [torch.bfloat16, torch.float8_e4m3fn]


@pytest.fixture
def rng() -> np.random.Generator:
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def f(*shape: int) -> Any:
    return torch.zeros(shape)


def n(*shape: int) -> Any:
    return torch.zeros(shape, dtype=torch.int64)


X, W, S, IMAGE, V = f(2, 3, 128), f(128), f(6), f(2, 4, 128), f(4)
Q, K, TABLE = f(2, 5, 3, 8), f(2, 5, 1, 8), f(7, 4)
CODES, FP8 = torch.zeros(2, 3, 128, dtype=torch.int8), torch.float8_e4m3fn
CALLS: dict[str, tuple[Any, ...]] = {
    "softmax": (X, False),
    "softmax_backward": (X, X, True),
    "rms_norm": (X, W, 1e-6),
    "add_rms_norm": (X, X, W, 1e-6),
    "rms_norm_backward": (X, X, W, S, X, [True, True]),
    "layer_norm": (X, W, W, 1e-6),
    "add_layer_norm": (X, X, W, None, 1e-6),
    "layer_norm_backward": (X, X, W, S, S, None, [True, False, True], torch.bfloat16),
    "group_norm": (IMAGE, 2, V, V, 1e-5),
    "add_group_norm": (IMAGE, IMAGE, 2, V, None, 1e-5),
    "group_norm_backward": (IMAGE, IMAGE, 2, V, f(4), f(4), IMAGE, [True, True, True], None),
    "cross_entropy": (X, n(2, 3), -100, 0.1),
    "cross_entropy_backward": (X, n(2, 3), f(2, 3), f(2, 3), -100, 0.1),
    "linear_cross_entropy": (X, f(9, 128), n(2, 3), f(9), -100, 0.0),
    "linear_cross_entropy_backward": (X, f(9, 128), n(2, 3), f(2, 3), f(2, 3), f(9), 1, 0.0, [True, True, True]),
    "gated": (X, X, "silu"),
    "gated_backward": (X, X, X, "gelu", [True, False]),
    "rope": (Q, K, TABLE, TABLE, n(2, 5), False, True),
    "rope_alone": (Q, TABLE, TABLE, None, True, False),
    "rope_into_cache": (Q, K, K.clone(), f(9, 1, 8), f(9, 1, 8), n(2, 5), TABLE, TABLE, n(2, 5), False),
    "embedding": (n(2, 5), f(9, 8), -1),
    "embedding_backward": (f(2, 5, 8), n(2, 5), 9, 3),
    "sample": (X, 1, 2, 0.5, 3, 0.9, None, None, f(2, 3)),
    "argmax": (X,),
    "top_k": (X, 3),
    "gate": (X, 3, False),
    "quantize": (X, FP8, "block", f(1)),
    "norm_quantized": (IMAGE, "group", 2, V, V, torch.int8, 1e-5, IMAGE, "block", None),
    "dequantize": (CODES, f(2, 3), torch.bfloat16),
    "reduce": (X, "max", [0, -1], True),
    "scan": (X, "sum", 1, False, True),
    "sort": (X, -1, True),
    "in_order": (X, n(2, 3, 128), 1),
    "permute": (X, [1, -1, 0]),
    "matmul": (f(2, 1, 3, 8), f(5, 8, 4), f(4), "tf32"),
}
WORDS = ["silu", "row", "block", "tensor", "group", "sum", "max", "mean", "rms", "layer", "softmax", "ieee", "tf32"]


def test_every_operator_is_here():
    assert set(CALLS) == set(OPERATORS)


def changed(rng: np.random.Generator, value: Any) -> Any:
    """Another argument of the class that the operator's schema has for it."""
    if isinstance(value, torch.Tensor):
        shape = list(value.shape)
        at = int(rng.integers(len(shape))) if shape else 0
        way = int(rng.integers(7))
        if way == 0 and shape:
            shape[at] += int(rng.integers(1, 3))
        elif way == 1 and shape:
            shape[at] = int(rng.integers(2))
        elif way == 2:
            shape.insert(at, int(rng.integers(1, 3)))
        elif way == 3 and shape:
            shape.pop(at)
        elif way == 4:
            shape = []
        else:
            return value.to(TYPES[int(rng.integers(len(TYPES)))])
        return torch.zeros(shape, dtype=value.dtype)
    if isinstance(value, bool):
        return not value
    if isinstance(value, list):
        return [changed(rng, v) for v in value]
    if isinstance(value, int):
        return int(rng.choice([-3, -1, 0, 1, 2, 3, 5, 1000]))
    if isinstance(value, float):
        return float(rng.choice([-1.0, 0.0, 1.0, 1.5]))
    if isinstance(value, str):
        return WORDS[int(rng.integers(len(WORDS)))]
    if isinstance(value, torch.dtype):
        return TYPES[int(rng.integers(len(TYPES)))]
    return value


def forms(made: Any) -> list[Any]:
    # Steps along directions of one element, or of none, mean nothing.
    def steps(t: Any) -> list[int]:
        return [s for s, extent in zip(t.stride(), t.shape, strict=True) if extent > 1 and t.numel()]

    return [(t.shape, t.dtype, steps(t)) for t in (made if isinstance(made, (tuple, list)) else (made,))]


def outcome(op: Any, given: list[Any]) -> tuple[object, ...]:
    try:
        return "made", forms(op(*given))
    except (DSLTypeError, DSLValueError) as error:
        return "refused", type(error), str(error)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_fake_and_real_tensors_agree(name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Arguments changed at random, one or two at a time; nothing is launched, so that no kernel is compiled."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", "sm_90a")
    monkeypatch.setattr(JitFunction, "__call__", lambda self, *args, **kwargs: None)
    for turn in range(30):
        given = list(CALLS[name])
        if turn == 1:
            given[0] = given[0].bool()  # which no operator takes
        for at in rng.integers(len(given), size=int(rng.integers(1, 3)) if turn > 1 else 0):
            given[at] = changed(rng, given[at])
        real = outcome(OPERATORS[name], given)
        with FakeTensorMode() as mode:
            stand_ins = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in given]
            fake = outcome(OPERATORS[name], stand_ins)
        told = [(tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else x for x in given]
        assert fake == real, f"{name} of {told}"
        assert turn > 1 or real[0] == ("made", "refused")[turn], real


def test_on_meta_tensors_too():
    x, w = torch.randn(4, 6), torch.randn(5)
    said = []
    for given, weight in ((x, w), (x.to("meta"), w.to("meta"))):
        with pytest.raises(DSLValueError) as caught:
            ft.rms_norm(given, weight)
        said.append(str(caught.value))
    assert said[0] == said[1] and "weight" in said[0]
