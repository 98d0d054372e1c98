"""Runs intrinsics on the cpu stack: operands are made of random words, and results are given back as words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

from .signatures import parts

CLASSES: dict[str, Any] = {
    "i1": fx.Boolean, "i8": fx.Int8, "i16": fx.Int16, "i32": fx.Int32, "i64": fx.Int64, "f16": fx.Float16,
    "bf16": fx.BFloat16, "f32": fx.Float32, "f64": fx.Float64,
}  # fmt: skip


def shape(type_: str) -> tuple[str, int]:
    """Element and count of a type."""
    found = re.fullmatch(r"v(\d+)(\w+)", type_)
    return (found[2], int(found[1])) if found else (type_, 0)


def words_of(type_: str) -> int:
    """32-bit words of a value; narrow scalars have one of their own."""
    elem, count = shape(type_)
    return max(1, int(re.sub(r"\D", "", elem)) * max(count, 1) // 32)


def value(type_: str, words: Sequence[Any]) -> Any:
    """A value of a type from its words."""
    elem, count = shape(type_)
    cls = CLASSES[elem]
    if not count:
        if cls.width == 1:
            return words[0] < 0
        if cls.width < 32:
            narrow = fx.Int16(words[0]) if cls.width == 16 else fx.Int8(words[0])
            return narrow.bitcast(cls) if cls.is_float else narrow
        if cls.width == 32:
            return words[0].bitcast(cls) if cls.is_float else words[0]
    made = fx.Vector.from_elements(list(words), fx.Int32).bitcast(cls)
    return made if count else made[0]


def stored(out: Any, at: Any, type_: str, result: Any) -> int:
    """Write the words of a result; how many."""
    elem, count = shape(type_)
    cls = CLASSES[elem]
    if not count and cls.width < 32:
        bits = result.bitcast(fx.Int16) if cls.is_float else result
        out[at] = fx.Int32(bits)
        return 1
    vector = result if count else fx.Vector.from_elements([result], cls)
    words = vector.bitcast(fx.Int32) if cls is not fx.Int32 else vector
    for i in range(words_of(type_)):
        out[at + i] = words[i]
    return words_of(type_)


def ir_type(type_: str) -> Any:
    elem, count = shape(type_)
    return fx.T.vec(count, CLASSES[elem].ir_type) if count else CLASSES[elem].ir_type


def run(
    rows: Mapping[str, str],
    arch: str,
    lanes: int,
    rng: np.random.Generator,
    fill: Callable[[str, int], Any] | None = None,
) -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    """What each intrinsic gives in every lane: its operands and its result as words, by its full name."""
    widest = max(sum(words_of(t) for t, n in parts(row)[1] if n is None) for row in rows.values())
    total = sum(words_of(parts(row)[0]) for row in rows.values())
    data = rng.integers(-(2**31), 2**31, (lanes, widest)).astype(np.int32)
    if fill is not None:
        data = np.stack([np.asarray(fill("word", lanes), np.int32) for _ in range(widest)], 1)
    out = np.zeros((lanes, total), np.int32)

    def body(a: Any, target: Any) -> None:
        lane = fx.thread_idx.x
        at = 0
        for name, row in rows.items():
            result, arguments = parts(row)
            used, given = 0, list[Any]()
            for type_, fixed in arguments:
                if fixed is not None:
                    given.append(fx.Boolean(bool(fixed)) if type_ == "i1" else CLASSES[type_](fixed))
                    continue
                count = words_of(type_)
                given.append(value(type_, [a[lane * widest + used + i] for i in range(count)]))
                used += count
            made = fx.llvm_intrinsic(ir_type(result), name, given)
            at += stored(target, lane * total + at, result, made)

    @flyc.kernel
    def kernel(a: fx.Tensor, target: fx.Tensor):
        body(a, target)

    @flyc.jit
    def launch(a: fx.Tensor, target: fx.Tensor):
        kernel(a, target).launch(grid=1, block=lanes)

    launch(data.reshape(-1), out.reshape(-1))
    found: dict[str, tuple[list[np.ndarray], np.ndarray]] = {}
    at = 0
    for name, row in rows.items():
        result, arguments = parts(row)
        used, operands = 0, list[np.ndarray]()
        for type_, fixed in arguments:
            if fixed is None:
                operands.append(np.ascontiguousarray(data[:, used : used + words_of(type_)]))
                used += words_of(type_)
        found[name] = operands, np.ascontiguousarray(out[:, at : at + words_of(result)])
        at += words_of(result)
    return found
