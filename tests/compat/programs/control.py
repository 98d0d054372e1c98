"""Python's control flow: what is known while tracing, what runs, and what goes in and out of regions."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import const_expr, range_constexpr

from .case import Call, poison, program, randint, randn


@flyc.kernel
def carried_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    """`range(init=...)`: one value comes out bare, several as a list; the body's state is a list."""
    t = fx.thread_idx.x
    for i, state in range(0, n, 1, init=[fx.Float32(0.0)]):
        single = yield [state[0] + x[t, i]]
    for i, state in range(fx.Index(0), fx.Index(n), fx.Index(1), init=[fx.Float32(1.0), fx.Int32(0)]):
        product, count = state
        many = yield [product * 0.5 + x[t, fx.Int32(i)], count + 2]
    out[t, 0] = single
    out[t, 1] = many[0]
    out[t, 2] = fx.Float32(fx.Int32(many[1]))


@flyc.jit
def carried(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    carried_kernel(x, out, n).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(carried)
def explicit_loop_state():
    x, out = randn(64, 5), poison(64, 3)
    wide = x.double()
    second = torch.ones(64, dtype=torch.float64)
    for i in range(5):
        second = second * 0.5 + wide[:, i]
    wanted = torch.stack([wide.sum(1), second, torch.full((64,), 10.0)], 1)
    return Call([x, out, 5], [(out, wanted)], terms=12)


@flyc.kernel
def static_kernel(x: fx.Tensor, out: fx.Tensor, mode: fx.Constexpr[str], limit: fx.Constexpr[int]):
    """Branches and loops that are decided while tracing, with everything Python allows in them."""
    t = fx.thread_idx.x
    total = fx.Float32(0.0)
    if const_expr(mode == "none"):
        out[t] = fx.Float32(-1.0)
        return
    for i in range_constexpr(16):
        if const_expr(i % 3 == 1):
            continue
        if const_expr(i > limit):
            break
        total += x[t, i]
    else:
        total += 1000.0
    if const_expr(mode in ("half", "both")):
        total = total * 0.5
    elif const_expr(mode == "double"):
        total = total * 2.0
    factors = {"half": 3.0, "double": 5.0}
    out[t] = total * factors[mode]


@flyc.jit
def static(x: fx.Tensor, out: fx.Tensor, mode: fx.Constexpr[str], limit: fx.Constexpr[int]):
    static_kernel(x, out, mode, limit).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(static)
def decided_while_tracing():
    x, out = randn(64, 16), poison(64)
    columns = [i for i in range(10) if i % 3 != 1]
    return Call([x, out, "double", 9], [(out, 10 * x.double()[:, columns].sum(1))], terms=8, atol=1e-5)


@program(static)
def an_early_return():
    x, out = randn(64, 16), poison(64)
    return Call([x, out, "none", 3], [(out, torch.full((64,), -1.0))])


class Ring:
    """A plain object with methods: what a pipeline keeps while it is being traced."""

    def __init__(self, places):
        self.places = places

    def at(self, stage):
        return self.places[stage % len(self.places)]

    def folded(self, x):
        return fx.Float32(x) * len(self.places)


RING = Ring([2.0, 3.0, 4.0])


@flyc.kernel
def methods_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    total = fx.Float32(0.0)
    for i in range(n):
        total = total + RING.folded(x[t, i])
        if i > 2:
            total = total - RING.at(4)
    out[t] = total


@flyc.jit
def methods(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    methods_kernel(x, out, n).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(methods)
def methods_of_plain_objects():
    x, out = randn(64, 6), poison(64)
    return Call([x, out, 6], [(out, 3 * x.double().sum(1) - 9)], terms=12, atol=1e-5)


@flyc.kernel
def regions_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    """Vectors, scalars as IR values, lists and tuples that run-time regions carry."""
    t = fx.thread_idx.x
    v = fx.Vector.filled(4, 0.0, fx.Float32)
    pair = [fx.Int32(0), fx.Float32(1.0)]
    s = fx.Float32(0.0)
    for i in range(n):
        v = (v + x[t, i]).ir_value()
        pair = [pair[0] + 1, pair[1] * 2.0]
        if pair[0] > 2:
            s = (s + v[1]).ir_value()
        else:
            s = s - 1.0
    out[t, 0] = v[3]
    out[t, 1] = fx.Float32(pair[0]) + pair[1]
    out[t, 2] = s
    out[t, 3] = x[t, 0] if (t % 2 == 0) and (t > 7) else 0.25


@flyc.jit
def regions(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    regions_kernel(x, out, n).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(regions)
def values_that_regions_carry():
    x, out = randn(64, 5), poison(64, 4)
    wide = x.double()
    run = wide.cumsum(1)
    t = torch.arange(64)
    last = torch.where((t % 2 == 0) & (t > 7), wide[:, 0], 0.25)
    wanted = torch.stack([run[:, 4], torch.full((64,), 37.0), run[:, 2:].sum(1) - 2, last], 1)
    return Call([x, out, 5], [(out, wanted)], terms=16, atol=1e-5)


@flyc.jit
def clamped(value, low, high):
    """A helper that is traced where it is called: it returns values."""
    if value < low:
        value = low
    elif value > high:
        value = high
    return value


@flyc.kernel
def nested_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    best = fx.Int32(-1)
    found = fx.Boolean(False)
    i = fx.Int32(0)
    while i < n and not found:
        j = fx.Int32(0)
        while j < n:
            if x[t, i] + x[t, j] == 7 and i < j:
                best = i * 16 + j
                found = fx.Boolean(True)
            j += 1
        i += 1
    out[t] = clamped(best, fx.Int32(0), fx.Int32(100))


@flyc.jit
def nested(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    nested_kernel(x, out, n).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(nested)
def nested_while_loops():
    x, out = randint(0, 9, 64, 6), poison(64, dtype=torch.int32)
    wanted = []
    for row in x.tolist():
        best = -1
        for i in range(6):
            hits = [i * 16 + j for j in range(i + 1, 6) if row[i] + row[j] == 7]
            if hits:
                best = hits[-1]
                break
        wanted.append(min(max(best, 0), 100))
    return Call([x, out, 6], [(out, torch.tensor(wanted))])


@flyc.kernel
def unrolled_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    total = fx.Float32(0.0)
    for i in range(0, 8, 1, unroll_full=True):
        total += x[t, i]
    for i in range(0, n, 2, unroll=2):
        total += x[t, i] * 2.0
    assert 1 <= 2 <= 3
    for name, weight in zip(("a", "b"), (1.0, 2.0), strict=True):
        if name == "b":
            total += weight
    out[t] = total


@flyc.jit
def unrolled(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    unrolled_kernel(x, out, n).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(unrolled)
def unrolled_loops():
    x, out = randn(64, 8), poison(64)
    wide = x.double()
    return Call([x, out, 8], [(out, wide.sum(1) + 2 * wide[:, ::2].sum(1) + 2)], terms=16, atol=1e-5)
