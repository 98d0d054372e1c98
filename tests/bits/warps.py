"""Lanes of a warp together, and atomic updates whose result does not depend on their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .draw import FORMATS, INTEGERS, WIDE_FLOATS, Draw, values
from .program import Array, Call, Program, class_of, output, typed

N = 128
_SHUFFLES = ("xor", "up", "down", "idx")


def shuffles(name: str, offsets: tuple[int, ...], widths: tuple[int, ...]) -> Callable[..., object]:
    """Every kind of shuffle by these offsets in segments of these widths."""
    cls = class_of(name)

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        _store(typed(y, cls), i, typed(x, cls)[i])

    def _store(y: Any, i: Any, value: Any) -> None:
        row = 0
        for offset, width in zip(offsets, widths, strict=True):
            for kind in _SHUFFLES:
                y[row, i] = getattr(fx, f"shuffle_{kind}")(value, offset, width)
                row += 1

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=N // 64, block=64)

    return run


def _shuffles(label: str, name: str) -> Call:
    draw = Draw(label)
    widths = tuple(draw.choice((32, 16, 8, 4)) for _ in range(3))
    offsets = tuple(draw.number(w) for w in widths)
    names = [f"{k} {o} of {w}" for o, w in zip(offsets, widths, strict=True) for k in _SHUFFLES]
    x = Array(values(draw, name, N), name)
    return Call(shuffles(name, offsets, widths), (x, output((len(names), N), name, names=names)))


_REDUCTIONS = ("ADD", "MIN", "MAX")


def reductions(name: str, width: int) -> Callable[..., object]:
    """Reductions and scans of a warp, and sums of a block."""
    cls = class_of(name)

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        _store(typed(y, cls), i, typed(x, cls)[i])

    def _store(y: Any, i: Any, value: Any) -> None:
        for k, word in enumerate(_REDUCTIONS):
            op = fx.ReductionOp[word]
            y[2 * k, i] = fx.coop.warp_reduce(value, op, width=width).to(cls)
            y[2 * k + 1, i] = fx.coop.warp_inclusive_scan(value, op, width=width).to(cls)

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=N // 64, block=64)

    return run


def _reductions(label: str, name: str) -> Call:
    draw = Draw(label)
    names = [f"{kind} {word}" for word in _REDUCTIONS for kind in ("reduce", "scan")]
    x = Array(values(draw, name, N, "near" if FORMATS[name].is_float else "mixed"), name)
    return Call(reductions(name, draw.choice((32, 16, 8))), (x, output((len(names), N), name, names=names)))


_VOTES = ("ballot", "any", "all", "uni")
_REDUX = ("add", "min", "max", "umin", "umax", "and", "or", "xor")


def votes() -> Callable[..., object]:
    """Votes, matches and integer reductions by their instructions."""

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        _store(y, i, x[i])

    def _store(y: Any, i: Any, value: Any) -> None:
        everyone, row = fx.Int32(-1), 0
        for k, flag in enumerate((value > 0, (value & 3) == 0, value == value, value != value)):
            for word in _VOTES:
                cls = fx.Int32 if word == "ballot" else fx.Boolean
                y[row, i] = fx.Int32(fx.llvm_intrinsic(cls, f"llvm.nvvm.vote.{word}.sync", [everyone, flag]))
                row += 1
            y[row, i] = fx.llvm_intrinsic(fx.Int32, "llvm.nvvm.match.any.sync.i32", [everyone, value >> (8 * k)])
            row += 1
        for word in _REDUX:
            y[row, i] = fx.llvm_intrinsic(fx.Int32, f"llvm.nvvm.redux.sync.{word}", [value, everyone])
            row += 1

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=N // 64, block=64)

    return run


def _votes(label: str) -> Call:
    names = [word for _ in range(4) for word in (*_VOTES, "match")] + list(_REDUX)
    x = Array(values(Draw(label), "i32", N, "mixed"), "i32")
    return Call(votes(), (x, output((len(names), N), "i32", names=names)))


# --- atomic updates -----------------------------------------------------------------------------------------------

_ATOMICS = {
    "float": ("add", "fmin", "fmax", "xchg"),
    "integer": ("add", "sub", "min", "max", "and", "or", "xor", "xchg"),
}


def atomics(name: str, word: str, shared: bool) -> Callable[..., object]:
    """An update of an element of its own by every thread, in global memory; of integers also one of a common one."""
    cls = class_of(name)

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        update = getattr(fx, f"atomic_{word}")
        typed(z, cls)[i] = update(fx.recast_iter(cls, fx.get_iter(y)) + i, typed(x, cls)[i])
        if fx.const_expr(shared):
            update(fx.recast_iter(cls, fx.get_iter(y)) + N + i % 4, typed(x, cls)[i])

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
        kernel(x, y, z).launch(grid=N // 64, block=64)

    return run


def _atomics(label: str, name: str, word: str) -> Call:
    draw = Draw(label)
    shared = name in INTEGERS and word != "xchg"
    x, y = (values(draw, name, n, "mixed") for n in (N, N + 4))
    arrays = (Array(x, name), Array(y, name, output=True), output((N,), name))
    return Call(atomics(name, word, shared), arrays)


def programs() -> Iterator[Program]:
    for name in (*WIDE_FLOATS, *INTEGERS):
        label = f"shuffle {name}"
        yield Program(label, "lanes", partial(_shuffles, label, name))
        label = f"warp {name}"
        yield Program(label, "lanes", partial(_reductions, label, name))
    yield Program("votes", "lanes", partial(_votes, "votes"))
    for name in ("f32", "f64", "f16", "bf16", "i32", "u32", "i64", "u64"):
        for word in _ATOMICS["float" if FORMATS[name].is_float else "integer"]:
            label = f"atomic {word} {name}"
            yield Program(label, "atomics", partial(_atomics, label, name, word))


__all__ = ["programs"]
