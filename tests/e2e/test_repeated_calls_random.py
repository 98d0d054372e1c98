"""Random calls come out the same by the first call, the general warm way and the repeated call: result or error."""

import random

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import FlyDSLError

torch = pytest.importorskip("torch")

CALLS = 80


@flyc.kernel
def affine_kernel(
    x: fx.Tensor, y: fx.Tensor, rows: fx.Int32, columns: fx.Int32, by: fx.Float32, plus, more: fx.Constexpr[int]
):
    i = fx.thread_idx.x
    if i < rows:
        for j in range(columns):
            y[i, j] = fx.Float32(x[i, j]) * by + plus + more


def affine(
    x: fx.Tensor,
    y: fx.Tensor,
    rows: fx.Int32,
    columns: fx.Int32,
    by: fx.Float32 = 2.0,
    plus=3,
    *,
    more: fx.Constexpr[int] = 1,
    other: fx.Tensor | None = None,
    stream: fx.Stream = None,
):
    if fx.const_expr(other is None):
        affine_kernel(x, y, rows, columns, by, plus, more).launch(grid=1, block=32, stream=stream)
    else:
        affine_kernel(other, y, rows, columns, by, plus, more).launch(grid=1, block=32, stream=stream)


class Sub(np.ndarray):
    """Of another class, and so not for the native reader."""


def misplaced(rows, columns):
    memory = np.zeros(4 * rows * columns + 8, np.uint8)
    at = 1 + -memory.ctypes.data % 4
    return memory[at : at + 4 * rows * columns].view(np.float32).reshape(rows, columns)


def negated(rows, columns):
    return (
        torch.view_as_complex(torch.ones(rows, 2)).conj().imag[:, None] if columns == 1 else torch.ones(rows, columns)
    )


def freed(rows, columns):
    made = torch.ones(rows, columns)
    made.untyped_storage().resize_(0)
    return made


def numbers(rows, columns, dtype=np.float32):
    return np.arange(rows * columns, dtype=dtype).reshape(rows, columns) + dtype(columns)


KINDS = {
    "plain": numbers,
    "double": lambda m, n: numbers(m, n, np.float64),
    "whole": lambda m, n: numbers(m, n, np.int32),
    "column major": lambda m, n: np.asfortranarray(numbers(m, n)),
    "columns apart": lambda m, n: np.concatenate([numbers(m, n)] * 2, 1)[:, :n],
    "rows apart": lambda m, n: np.concatenate([numbers(m, n)] * 2, 0)[::2][:m],
    "backwards": lambda m, n: numbers(m, n)[::-1],
    "big-endian": lambda m, n: numbers(m, n).astype(">f4"),
    "a subclass": lambda m, n: numbers(m, n).view(Sub),
    "three modes": lambda m, n: numbers(m, n)[None],
    "one mode": lambda m, n: numbers(m, n).reshape(-1),
    "misplaced": misplaced,
    "a list": lambda m, n: numbers(m, n).tolist(),
    "torch": lambda m, n: torch.from_numpy(numbers(m, n)),
    "torch, bf16": lambda m, n: torch.from_numpy(numbers(m, n)).to(torch.bfloat16),
    "torch, transposed": lambda m, n: torch.from_numpy(numbers(n, m)).T,
    "torch, expanded": lambda m, n: torch.ones(1, n).expand(m, n),
    "a parameter": lambda m, n: torch.nn.Parameter(torch.from_numpy(numbers(m, n))),
    "torch, misplaced": lambda m, n: torch.from_numpy(misplaced(m, n)),
    "negated": negated,
    "meta": lambda m, n: torch.ones(m, n, device="meta"),
    "sparse": lambda m, n: torch.ones(m, n).to_sparse(),
    "small integers": lambda m, n: torch.empty(m, n, dtype=torch.uint4),
    "freed": freed,
    "static": lambda m, n: flyc.from_dlpack(numbers(m, n)),
    "dynamic": lambda m, n: flyc.from_dlpack(numbers(m, n)).mark_shape_dynamic(0),
}


def outcome(function, y, args, kwargs):
    """The result, or the error without its addresses."""
    y[...] = np.nan
    try:
        function(args[0], torch.from_numpy(y) if kwargs.get("framework") else y, *args[1:], **kwargs["given"])
    except (FlyDSLError, RuntimeError, TypeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {str(error).partition('0x')[0]}"
    return y.tolist()


def test_random_calls_come_out_the_same(monkeypatch):
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    first, plain, repeated = (flyc.jit(affine) for _ in range(3))
    served = errors = 0
    for call in range(CALLS):
        rows, columns = rng.choice([0, 1, 2, 3, 4]), rng.choice([0, 1, 1, 2, 5])
        kind = rng.choice([*KINDS, *["plain", "torch"] * 8])
        args = [KINDS[kind](rows, columns), rng.choice([rows] * 9 + [2**31, -1, float(rows)]), columns]
        if rng.random() < 0.3:
            args.append(rng.choice([1.5, 2, True, float("inf"), 1e40, "a", np.float32(3), None]))
            args += [rng.choice([1, 2.5, True, 2**40, -5])] * rng.choice([0, 1])
        given = {"more": rng.choice([1, 2, 1.0])} if rng.random() < 0.2 else {}
        if rng.random() < 0.2:
            given["other"] = rng.choice([None, numbers(rows, columns)])
        if rng.random() < 0.05:
            given["rows"] = 3
        kwargs = {"framework": rng.random() < 0.5, "given": given}
        y = np.empty((rows, columns), np.float32)
        for _ in range(rng.choice([1, 1, 2, 3])):
            first.invalidate()
            hits = repeated.cache_info().hits
            found = {"first": outcome(first, y, args, kwargs), "repeated": outcome(repeated, y, args, kwargs)}
            served += repeated.cache_info().hits - hits
            errors += isinstance(found["first"], str)
            said = f"seed {seed}, call {call}: {kind} of {rows} x {columns}, {args[1:]}, {kwargs}"
            with monkeypatch.context() as patch:
                patch.setattr("flydsl.compiler.call.warm.can_read", lambda _: False)
                assert str(outcome(plain, y, args, kwargs)) == str(found["first"]), said
            assert str(found["repeated"]) == str(found["first"]), said
    assert served > CALLS // 4 and errors > CALLS // 20
