"""Copies of words that lie one behind the other in memory, as vectors.

A universal copy moves one element a call. Where the elements of several calls are neighbours in global memory, a target
that takes vectors at any word has them in one access. LLVM would find them too, but only after every pass of it has
worked on all the elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import ModuleOp

from ...dialects.fly.atoms import CopyAtomType, UniversalCopyType
from ...dialects.fly.semantics import View
from ...dialects.fly.types import TRIVIAL_SWIZZLE
from ...dialects.upstream import gpu
from ...ir.enums import AddressSpace
from ...ir.types import bit_width, vector_type
from ...target import architecture
from ..base import target_of

if TYPE_CHECKING:
    from .fly_layout_lowering import LayoutLowering, Pointer

WIDEST = 128
"""Bits of an access."""
WORDS = (32, 64)
"""Bits of elements that are aligned to a word."""


def takes_vectors(module: ModuleOp) -> bool:
    """Whether the target of a module's device code takes vectors at any word."""
    for op in module.body.block.ops:
        target = target_of(op) if type(op) is gpu.ModuleOp else None
        if target is not None:
            known = architecture(target.arch)
            return known is not None and "word_aligned_vectors" in known.features
    return False


def copy_adjacent(r: LayoutLowering, atom: CopyAtomType, source: Sequence[View], target: Sequence[View]) -> bool:
    """Copy single elements between global memory and registers, neighbours at once; False: nothing was emitted.

    The elements of a copy are moved in no promised order, so it does not matter what stands between neighbours. Where
    several go to one place, the last one stays all the same.
    """
    if type(atom.op) is not UniversalCopyType:
        return False
    spaces = (_space(source[0]), _space(target[0]))
    if spaces == (AddressSpace.Global, AddressSpace.Register):
        memory, move = source, _load
    elif spaces == (AddressSpace.Register, AddressSpace.Global):
        memory, move = target, _store
    else:
        return False
    runs = list(_runs([_pointer(view) for view in memory]))
    if len(runs) == len(memory):
        return False
    for run in runs:
        move(r, [_pointer(source[i]) for i in run], [_pointer(target[i]) for i in run])
    return True


def _pointer(view: View) -> Pointer:
    return cast("Pointer", view.iter)


def _space(view: View) -> object:
    """The address space of a plain pointer to words."""
    data = _pointer(view).base_type.data
    return data.space if data.swizzle == TRIVIAL_SWIZZLE and bit_width(data.elem) in WORDS else None


def _runs(places: Sequence[Pointer]) -> Iterator[list[int]]:
    """Indices of neighbours, as many as an access takes, in the order of their first ones; each alone if some meet."""
    by_address: dict[int, dict[int, int]] = {}
    """By the id of a run-time offset, which pieces of a tensor share: the index at each static one."""
    for i, at in enumerate(places):
        by_address.setdefault(id(at.dynamic), {})[at.static] = i
    if sum(map(len, by_address.values())) < len(places):
        yield from ([i] for i in range(len(places)))
        return
    most = WIDEST // bit_width(places[0].base_type.data.elem)
    seen: set[int] = set()
    for i, at in enumerate(places):
        if i in seen:
            continue
        known, run = by_address[id(at.dynamic)], [i]
        while len(run) < most and (following := known.get(at.static + len(run))) is not None and following not in seen:
            run.append(following)
        del run[1 << (len(run).bit_length() - 1) :]
        seen.update(run)
        yield run


def _is_run(places: Sequence[Pointer]) -> bool:
    """Whether registers lie one behind the other."""
    first = places[0]
    return all(at.static == first.static + i and at.dynamic is first.dynamic for i, at in enumerate(places))


def _load(r: LayoutLowering, source: Sequence[Pointer], target: Sequence[Pointer]) -> None:
    elem, count = source[0].base_type.data.elem, len(source)
    value = r.read(source[0], elem if count == 1 else vector_type(elem, count))
    if _is_run(target):
        r.write(value, target[0])
        return
    for i, at in enumerate(target):
        r.write(r.b.extract(value, i), at)


def _store(r: LayoutLowering, source: Sequence[Pointer], target: Sequence[Pointer]) -> None:
    elem, count = target[0].base_type.data.elem, len(source)
    type_ = elem if count == 1 else vector_type(elem, count)
    if _is_run(source):
        value = r.read(source[0], type_)
    else:
        value = r.blank(type_)
        for i, at in enumerate(source):
            value = r.b.insert(r.read(at, elem), value, i)
    r.write(value, target[0])
