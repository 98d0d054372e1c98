"""How values and blocks are called in printed IR: as MLIR calls them, so that texts of both can be compared.

All values of a region are named before those of the regions inside it, and neighbouring regions go on from the same
number. Arguments of a first block are `%arg0`, results `%0`, several results of one op `%0:2`, `%0#1`; some upstream
ops suggest a name (`%c4_i32`, `%thread_id_x`), which gets a number behind it where it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Block, Operation, Region, SSAValue

Suggestion = Sequence[str]
"""Names for the results of an op, each for one of them."""


def _constant(op: Operation) -> Suggestion:
    value = op.properties.get("value", op.attributes.get("value"))
    if not isinstance(value, IntegerAttr):
        return ("cst",)
    number = cast("IntegerAttr[IntegerType | IndexType]", value)
    if isinstance(number.type, IndexType):
        return (f"c{number.value.data}",)
    if number.type.width.data == 1:
        return ("true" if number.value.data else "false",)
    return (f"c{number.value.data}_{number.type}",)


def _indexed(op: Operation) -> Suggestion:
    """`gpu.thread_id x` is `%thread_id_x`."""
    dimension = op.properties.get("dimension", op.attributes.get("dimension"))
    axis = getattr(dimension, "data", None)
    return (f"{op.name.partition('.')[2]}_{axis}",) if isinstance(axis, str) else ()


_INDICES = ("thread_id", "block_id", "block_dim", "grid_dim", "global_id", "cluster_id", "cluster_dim",
            "cluster_block_id", "cluster_dim_blocks")  # fmt: skip
SUGGESTED: dict[str, Suggestion | Callable[[Operation], Suggestion]] = {
    "arith.constant": _constant,
    **dict.fromkeys((f"gpu.{name}" for name in _INDICES), _indexed),
    "gpu.alloc": ("memref",),
    "gpu.shuffle": ("shuffleResult", "valid"),
    "math.sincos": ("sin", "cos"),
    "memref.alloc": ("alloc",),
    "memref.alloca": ("alloca",),
    "memref.cast": ("cast",),
    "memref.collapse_shape": ("collapse_shape",),
    "memref.dim": ("dim",),
    "memref.expand_shape": ("expand_shape",),
    "memref.extract_aligned_pointer_as_index": ("intptr",),
    "memref.memory_space_cast": ("memspacecast",),
    "memref.reinterpret_cast": ("reinterpret_cast",),
    "memref.reshape": ("reshape",),
    "memref.subview": ("subview",),
    "memref.transpose": ("transpose",),
    "memref.view": ("view",),
}
"""Upstream ops that name their results."""


@dataclass
class Names:
    """Of everything inside an op."""

    values: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """As used: `%0`, `%0#1`."""
    results: dict[Operation, str] = field(default_factory=dict[Operation, str])
    """As defined: `%0:2`, `%sin, %cos`."""
    blocks: dict[Block, str] = field(default_factory=dict[Block, str])
    """With the caret."""


class _Scope:
    """The counters of a region and the names taken in it and around it."""

    __slots__ = ("argument", "clash", "taken", "value")

    def __init__(self, value: int, argument: int, clash: int, taken: frozenset[str]):
        self.value, self.argument, self.clash = value, argument, clash
        self.taken = set(taken)

    def unique(self, name: str) -> str:
        """The name, with a number behind it where it is taken."""
        found = name
        while found in self.taken:
            found = f"{name}_{self.clash}"
            self.clash += 1
        self.taken.add(found)
        return "%" + found

    def number(self) -> str:
        self.value += 1
        return f"%{self.value - 1}"

    def next_argument(self) -> str:
        self.argument += 1
        return self.unique(f"arg{self.argument - 1}")


class _Namer:
    def __init__(self, hints: bool, suggest: bool):
        self.names, self.hints, self.suggest = Names(), hints, suggest

    def region(self, region: Region, scope: _Scope) -> list[Region]:
        """Names all that is in the blocks; gives the regions inside."""
        names = self.names
        inner: list[Region] = []
        for index, block in enumerate(region.blocks):
            hint = block.name_hint if self.hints else None
            names.blocks[block] = f"^{hint}_{index}" if hint else f"^bb{index}"
            for arg in block.args:
                if self.hints and arg.name_hint:
                    names.values[arg] = scope.unique(arg.name_hint)
                else:
                    names.values[arg] = scope.number() if index else scope.next_argument()
            for op in block.ops:
                if op.results:
                    self.op(op, scope)
                inner += op.regions
        return inner

    def scoped(self, regions: Sequence[Region], outer: _Scope) -> None:
        """Each region goes on where the one around it ended."""
        for region in regions:
            scope = _Scope(outer.value, outer.argument, outer.clash, frozenset(outer.taken))
            self.scoped(self.region(region, scope), scope)

    def unscoped(self, regions: Sequence[Region], scope: _Scope) -> None:
        """No name twice: the last region first, as MLIR does it in the generic form."""
        waiting = list(regions)
        while waiting:
            waiting += self.region(waiting.pop(), scope)

    def op(self, op: Operation, scope: _Scope) -> None:
        results, values = op.results, self.names.values
        given = self.given(op)
        if given is None:
            name = scope.number()
            values[results[0]] = name
            if len(results) == 1:
                self.names.results[op] = name
                return
            given = [name] + [None] * (len(results) - 1)
        else:
            given = [scope.unique(name) if name else None for name in given]
            given[0] = given[0] or scope.number()
        # Each name is for its result and those without a name behind it.
        starts = [i for i, name in enumerate(given) if name is not None]
        shown: list[str] = []
        for start, end in zip(starts, [*starts[1:], len(given)], strict=True):
            name = str(given[start])
            many = end - start > 1
            shown.append(f"{name}:{end - start}" if many else name)
            for i in range(start, end):
                values[results[i]] = f"{name}#{i - start}" if many else name
        self.names.results[op] = ", ".join(shown)

    def given(self, op: Operation) -> list[str | None] | None:
        """A name or none for each result; None if they have none."""
        if self.hints and any(result.name_hint for result in op.results):
            return [result.name_hint for result in op.results]
        if not self.suggest or (found := SUGGESTED.get(op.name)) is None:
            return None
        if callable(found):
            found = found(op)
        return list(found) if len(found) == len(op.results) else None


def name_all(op: Operation, *, hints: bool = False, generic: bool = False) -> Names:
    """Names for the op and what is inside it; with `hints`, those that values had in Python or in a text come first.

    In the generic form ops suggest nothing, and no name occurs twice.
    """
    namer = _Namer(hints, not generic)
    scope = _Scope(0, 0, 0, frozenset())
    if op.results:
        namer.op(op, scope)
    (namer.unscoped if generic else namer.scoped)(op.regions, scope)
    return namer.names
