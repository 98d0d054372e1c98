"""Affine maps, as `vector.transfer_read` wants one: xDSL's, by the names of MLIR's bindings."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import AffineExpr as XExpr
from xdsl.ir.affine import AffineMap as XMap

from ..expr.emit.facade import Made, Stands, anywhere


class AffineExpr(Stands, of=XExpr):
    """`d0 + 1`: made of dimensions, symbols and numbers with `+`, `-`, `*`, `%` and `//`."""

    @staticmethod
    @anywhere
    def get_dim(position: int) -> Made:
        """`d0`."""
        return XExpr.dimension(position)

    @staticmethod
    @anywhere
    def get_symbol(position: int) -> Made:
        """`s0`."""
        return XExpr.symbol(position)

    @staticmethod
    @anywhere
    def get_constant(value: int) -> Made:
        """A number."""
        return XExpr.constant(value)


class AffineMap(Stands, of=XMap):
    """`(d0, d1) -> (d1)`."""

    @staticmethod
    @anywhere
    def get(dim_count: int, symbol_count: int, exprs: Sequence[XExpr]) -> Made:
        """A map by its results."""
        return XMap(dim_count, symbol_count, tuple(exprs))

    @staticmethod
    @anywhere
    def get_empty() -> Made:
        """`() -> ()`."""
        return XMap.empty()

    @staticmethod
    @anywhere
    def get_constant(value: int) -> Made:
        """`() -> (value)`."""
        return XMap.constant_map(value)

    @staticmethod
    @anywhere
    def get_identity(n_dims: int) -> Made:
        """`(d0, d1) -> (d0, d1)`."""
        return XMap.identity(n_dims)

    @staticmethod
    @anywhere
    def get_minor_identity(n_dims: int, n_results: int) -> Made:
        """`(d0, d1, d2) -> (d1, d2)`."""
        return XMap.minor_identity(n_dims, n_results)

    @staticmethod
    @anywhere
    def get_permutation(permutation: Sequence[int]) -> Made:
        """`(d0, d1) -> (d1, d0)`."""
        return XMap(len(permutation), 0, tuple(XExpr.dimension(i) for i in permutation))


__all__ = ["AffineExpr", "AffineMap"]
