"""What a call of a copy atom asks of its two sides, as far as their types tell.

An atom of one thread moves neighbouring elements. In memory the values of a call must therefore lie one behind the
other, begin at multiples of the atom's width, and be as many as the atom moves; what the types disprove is refused.
A stride that is known at run time only is left to the lowering, which then moves one element after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ... import layout as L
from ...errors import DSLValueError
from ...ir.enums import AddressSpace
from .algebra_values import current_ir

if TYPE_CHECKING:
    from ...dialects.fly.atoms import CopyOpType
    from ..annotations import SSAValue
    from ..tensor import Tensor

_STEPS = frozenset({"fly.make_view", "fly.get_iter", "fly.add_offset", "fly.slice"})
"""Ops that go from a pointer or tensor, their first operand, to a place in it."""


def check_call(name: str, atom: object, op: CopyOpType, src: Tensor, dst: Tensor) -> None:
    """Refuse a copy whose sides do not fit the atom; `copy` calls it on the innermost mode, `copy_atom_call` on all."""
    if op.thr_layout.shape != 1 or op.whole_tile:
        return
    whole = name == "copy_atom_call"
    for role, t in (("source", src), ("destination", dst)):
        _Side(name, atom, op, role, t, whole).check()


class _Side:
    """Source or destination of a copy."""

    def __init__(self, name: str, atom: object, op: CopyOpType, role: str, t: Tensor, whole: bool):
        self.name, self.atom, self.op, self.role, self.t = name, atom, op, role, t
        self.bits = t.dtype.width
        self.count = max(op.bits // self.bits, 1)
        """Elements of a call."""
        linear = L.linear_layout(t.data.layout)
        self.flat = _leaves(L.coalesce(linear) if whole else linear)
        """Extents and strides; the first are those of the atom's values."""
        self.whole = whole

    @property
    def head(self) -> str:
        """How every refusal begins."""
        return f"{self.name}: one call of {self.atom} moves {self.op.bits} bits, but"

    @property
    def shown(self) -> str:
        """The side, as a message names it."""
        return f"the {self.role} {L.format_any(self.t.data.layout)}"

    def check(self) -> None:
        """Refuse what the types disprove."""
        extent, stride = self.flat[0]
        if type(extent) is not int:
            return
        self._check_extent(extent)
        if self.count == 1 or self.t.data.iter.data.space is AddressSpace.Register:
            return
        if stride != 1:
            self._refuse_stride(stride)
        self._check_swizzle()
        self._check_alignment()

    def _check_extent(self, extent: int) -> None:
        size = cast(int, L.size(self.t.data.layout)) if self.whole else extent
        if self.whole and (size == self.count or (size > self.count and extent >= self.count)):
            return
        if not self.whole and (extent == self.count or (self.role == "destination" and self._registers())):
            return
        if self.whole and self._registers() and size >= self.count:
            return
        if self.whole and size > self.count:
            self._refuse_stride(self.flat[0][1])
        few = "only " if size * self.bits < self.op.bits else ""
        raise DSLValueError(
            f"{self.head} {'' if self.whole else 'the innermost mode of '}{self.shown} holds {few}{size} values of "
            f"{self.bits} bits; {self._advice(size)}"
        )

    def _registers(self) -> bool:
        return self.t.data.iter.data.space is AddressSpace.Register

    def _advice(self, size: int) -> str:
        fits = size * self.bits
        if fits < self.op.bits and fits in (8, 16, 32, 64):
            return f"use a copy of {fits} bits, or partition with a copy of the same width"
        return "partition with a copy of the same width"

    def _refuse_stride(self, stride: object) -> None:
        """Values that do not lie one behind the other; a run-time stride is fine where the copy can be taken apart."""
        known = type(stride) is int
        if not known and self.op.name == "fly.universal_copy":
            return
        what = f"has stride {stride}" if known else f"has a stride {stride} that is not known to be 1"
        raise DSLValueError(
            f"{self.head} mode 0 of {self.shown}, its values, {what}: they are not contiguous there. Use a copy of "
            f"{self.bits} bits, or let the values of a thread run along the mode of stride 1"
        )

    def _check_swizzle(self) -> None:
        layout = self.t.data.layout
        while isinstance(layout, L.ComposedLayout):
            if isinstance(layout.inner, L.Swizzle) and layout.inner.mask and (1 << layout.inner.base) % self.count:
                raise DSLValueError(
                    f"{self.head} the swizzle {layout.inner} of {self.shown} keeps only {1 << layout.inner.base} "
                    f"elements together; use a swizzle of base {(self.count - 1).bit_length()} or more, or a narrower "
                    "copy"
                )
            layout = layout.outer

    def _check_alignment(self) -> None:
        for extent, stride in self.flat[1:]:
            if extent != 1 and type(stride) is int and stride * self.bits % self.op.bits:
                raise DSLValueError(
                    f"{self.head} the calls along the mode {extent}:{stride} of {self.shown} begin {stride} elements "
                    f"({stride * self.bits // 8} bytes) apart: not all are aligned to {self.op.bits // 8} bytes. Use a "
                    "narrower copy, or pad the layout"
                )
        need = self.op.bits // 8
        offset = _lost_alignment(current_ir().materialise(self.t), need)
        if offset is not None:
            raise DSLValueError(
                f"{self.head} {self.shown} begins at an offset of {offset}, where it is aligned to "
                f"{self.t.alignment} bytes only. Use a copy of {min(self.t.alignment * 8, 64)} bits, or begin at a "
                f"multiple of {self.count} elements"
            )


def _leaves(layout: L.Layout) -> list[tuple[L.Leaf, L.Leaf]]:
    """Extent and stride of every leaf of a layout, in order."""
    shape, stride = L.flatten(layout.shape), L.flatten(layout.stride)
    if type(shape) is not tuple or type(stride) is not tuple:
        return [(cast("L.Leaf", shape), cast("L.Leaf", stride))]
    return list(zip(shape, stride, strict=True))


def _lost_alignment(value: SSAValue, need: int) -> str | None:
    """The constant offset that takes a place out of memory known to be aligned to `need` bytes; None if none does."""
    while True:
        align = getattr(getattr(value.type, "data", None), "align", None)
        operands = getattr(value.owner, "operands", ())
        if align is None or align >= need or getattr(value.owner, "name", "") not in _STEPS or not operands:
            return None
        before = getattr(getattr(operands[0].type, "data", None), "align", 0)
        if before >= need:
            by = cast("L.IntTuple", getattr(operands[-1].type, "data", None))
            return None if any(True for _ in L.dynamic_leaves(by)) else L.format_int_tuple(by)
        value = operands[0]
