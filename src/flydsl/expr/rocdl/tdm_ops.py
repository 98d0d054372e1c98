"""The tensor data mover of gfx1250 by function: copy a tile between global and shared memory, and wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..tensor import Tensor
from ..tensors.tiled import copy_atom_call
from .cdna5 import make_tdm_atom
from .schedule import s_wait_tensorcnt

if TYPE_CHECKING:
    from ..annotations import AtomState


def tensor_copy(
    src: Tensor, dst: Tensor, *, num_warps: int = 1, state: Mapping[str, AtomState] | None = None, **options: Any
) -> None:
    """Copy the whole tile between a global and a shared tensor; `state` are fields such as `extent_0`."""
    rank = max(src.rank, 1)
    atom = make_tdm_atom(src.dtype, rank, num_warps=num_warps, **options)
    copy_atom_call(atom.set_value(dict(state)) if state else atom, src, dst)


def tensor_wait(count: int = 0) -> None:
    """Wait until at most `count` of this wave's copies are outstanding."""
    s_wait_tensorcnt(count)


__all__ = ["tensor_copy", "tensor_wait"]
