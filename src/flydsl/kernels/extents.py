"""What is known of the arguments' extents when a kernel is compiled must fit: a kernel trusts one of them for all."""

from __future__ import annotations

import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.layout import Dyn, IntTuple


def check_extents(kernel: str, **tensors: tuple[fx.Tensor | None, str]) -> None:
    """Compare tensors by a letter for each dimension: `check_extents("gemm", a=(a, "mk"), b=(b, "nk"), c=(c, "mn"))`.

    Extents that are known only at run time are not compared, and a tensor that is None was not given.
    """
    seen: dict[str, tuple[str, int]] = {}
    for name, (tensor, letters) in tensors.items():
        if tensor is None:
            continue
        if tensor.rank != len(letters):
            raise DSLValueError(f"{kernel}: {name} has {len(letters)} dimensions, ({', '.join(letters)}), got {tensor}")
        for letter, extent in zip(letters, modes_of(tensor.data.layout.shape), strict=True):
            if type(extent) is not int:
                continue
            first, known = seen.setdefault(letter, (name, extent))
            if known != extent:
                raise DSLValueError(f"{kernel}: {letter} is {known} in {first} and {extent} in {name}")


def modes_of(tree: IntTuple) -> tuple[IntTuple, ...]:
    """The modes of a shape or of strides; a single one of a vector."""
    return tree if isinstance(tree, tuple) else (tree,)


def divisor_of(leaf: IntTuple) -> int:
    """What an extent or stride is known to be a multiple of: itself, if it is known."""
    if isinstance(leaf, Dyn):
        return leaf.div
    if not isinstance(leaf, int):
        raise DSLTypeError(f"expected one extent or stride, got {leaf}")
    return leaf


__all__ = ["check_extents", "divisor_of", "modes_of"]
