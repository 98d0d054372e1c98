"""What is known of the arguments' extents when a kernel is compiled must fit: a kernel trusts one of them for all."""

from __future__ import annotations

from typing import Any, cast

from flydsl.errors import DSLValueError


def check_extents(kernel: str, **tensors: tuple[Any, str]) -> None:
    """Compare tensors by a letter for each dimension: `check_extents("gemm", a=(a, "mk"), b=(b, "nk"), c=(c, "mn"))`.

    Extents that are known only at run time are not compared, and a tensor that is None was not given.
    """
    seen: dict[str, tuple[str, int]] = {}
    for name, (tensor, letters) in tensors.items():
        if tensor is None:
            continue
        if tensor.rank != len(letters):
            raise DSLValueError(f"{kernel}: {name} has {len(letters)} dimensions, ({', '.join(letters)}), got {tensor}")
        shape: Any = tensor.data.layout.shape
        modes = cast("tuple[Any, ...]", shape) if isinstance(shape, tuple) else (shape,)
        for letter, extent in zip(letters, modes, strict=True):
            if type(extent) is not int:
                continue
            first, known = seen.setdefault(letter, (name, extent))
            if known != extent:
                raise DSLValueError(f"{kernel}: {letter} is {known} in {first} and {extent} in {name}")


__all__ = ["check_extents"]
