"""Matrix products of fragments: `gemm`, and the single call of an MMA atom it consists of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from ... import layout as L
from ...errors import DSLTypeError, DSLValueError
from ...ir.enums import GemmTraversalOrder
from ..aliases import also_called
from ..numeric import Numeric
from ..tensor import Tensor, get_iter, make_view, recast_iter
from .algebra_values import Layout, current_ir
from .layout_functions import recast_layout
from .tiled import MmaAtom, TiledMma

if TYPE_CHECKING:
    from ...dialects.fly.atoms import MmaAtomType
    from ..annotations import AtomState


Operands = Tensor | Sequence[Tensor]
"""A fragment, or a list of the fragment and what belongs to it, such as its scales."""


def _listed(name: str, operand: Operands) -> list[Tensor]:
    found = list(cast("Sequence[Tensor]", operand)) if isinstance(operand, (list, tuple)) else [cast("Tensor", operand)]
    if not found or not all(isinstance(t, Tensor) for t in found):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"gemm: {name} is a tensor, or a list of a tensor and its scales, got {operand!r}")
    return found


def _typed(atom: MmaAtom | TiledMma, operand: int, given: list[Tensor]) -> list[Tensor]:
    """The fragment of an operand as elements of the atom's type; registers of as many bits may hold another one."""
    from ...dialects.fly.atoms import atom_of

    op = cast("MmaAtomType", atom_of(atom.type)).op
    elem = op.elem_types[operand]
    fragment, *scales = given
    if not hasattr(fragment.data.iter, "data") or fragment.data.iter.data.elem == elem:
        return given
    values = cast(int, L.size(op.tv_layout(operand)[1]))
    mode = fragment.data.layout if fragment.data.layout.is_leaf or fragment.rank == 1 else fragment.data.layout[0]
    own, count = fragment.dtype.width, L.size(mode)
    wanted = Numeric.from_ir_type(elem)
    if type(count) is not int or count * own != values * wanted.width:
        return given  # refused where the layouts are compared
    layout = recast_layout(fragment.layout, own, wanted.width)
    return [make_view(recast_iter(wanted, get_iter(fragment)), layout), *scales]


@also_called(atom="mma_atom")
def mma_atom_call(mma_atom: MmaAtom, d: Tensor, a: Operands, b: Operands, c: Tensor, **atom_state: AtomState) -> None:
    """One MMA on value fragments, rank 1 each; keywords are atom state.

    >>> def one(x, y, z):
    ...     a, b, c = (fx.make_rmem_tensor(1, fx.Float32) for _ in range(3))
    ...     for t, v in ((a, x), (b, y), (c, z)):
    ...         t[0] = v
    ...     fx.mma_atom_call(fx.make_mma_atom(fx.UniversalFMA(fx.Float32)), c, a, b, c)
    ...     return c[0]
    >>> flyc.evaluate(one, 2.0, 3.0, 1.0)
    7.0
    """
    if atom_state:
        mma_atom = mma_atom.set_value(atom_state)
    listed_a, listed_b = _typed(mma_atom, 0, _listed("a", a)), _typed(mma_atom, 1, _listed("b", b))
    current_ir().emit_mma("mma_atom_call", mma_atom, ([d], listed_a, listed_b, [c]))


@also_called(atom="mma_atom")
def gemm(
    mma_atom: MmaAtom | TiledMma,
    d: Tensor,
    a: Operands,
    b: Operands,
    c: Tensor,
    *,
    traversal_order: GemmTraversalOrder | str | None = None,
    traversal_layout: Layout | None = None,
    atom_callback: Callable[[MmaAtom, tuple[int, int, int]], MmaAtom] | None = None,
    **atom_state: AtomState,
) -> None:
    """`d = a * b^T + c` over fragments: D and C `(V, M, N)`, A `(V, M[, K])`, B `(V, N[, K])`.

    `a` and `b` may be lists: the fragment, and its scales of the same M or N and K. `atom_callback(atom, (m, n, k))`
    gives the atom for each step, for example one with other state.

    >>> def outer(a0, a1, b0, b1):
    ...     atom = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
    ...     a, b = fx.make_rmem_tensor((1, 2), fx.Float32), fx.make_rmem_tensor((1, 2), fx.Float32)
    ...     a.store(fx.Vector.from_elements([a0, a1]))
    ...     b.store(fx.Vector.from_elements([b0, b1]))
    ...     d = fx.make_rmem_tensor((1, 2, 2), fx.Float32)
    ...     d.fill(0.0)
    ...     fx.gemm(atom, d, a, b, d)
    ...     return d
    >>> flyc.evaluate(outer, 1.0, 2.0, 3.0, 5.0)
    [3.0, 6.0, 5.0, 10.0]
    """
    if not isinstance(mma_atom, (MmaAtom, TiledMma)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"gemm: expected an MmaAtom or TiledMma, got {mma_atom!r}")
    if isinstance(traversal_order, str):
        traversal_order = _order(traversal_order)
    if traversal_order is not None and traversal_layout is not None:
        raise DSLValueError("gemm: Only one of traversal_order and traversal_layout can be given")
    listed_a, listed_b = _typed(mma_atom, 0, _listed("a", a)), _typed(mma_atom, 1, _listed("b", b))
    extents = _extents(d, listed_a, listed_b, c)
    if atom_state:
        mma_atom = mma_atom.set_value(atom_state)
    if atom_callback is None:
        groups = ([d], listed_a, listed_b, [c])
        current_ir().emit_mma("gemm", mma_atom, groups, traversal_order, traversal_layout)
        return
    one = mma_atom.mma_atom if isinstance(mma_atom, TiledMma) else mma_atom
    if extents is None:
        mma_atom_call(_chosen(atom_callback, one, (0, 0, 0)), d, listed_a, listed_b, c)
        return
    _call_each(one, atom_callback, (d, listed_a, listed_b, c), extents, traversal_order, traversal_layout)


def _order(text: str) -> GemmTraversalOrder:
    """A traversal order given as text: its name, in any case."""
    found = [o for o in GemmTraversalOrder if o.name.lower() == text.lower()]
    if not found:
        names = ", ".join(o.name for o in GemmTraversalOrder)
        raise DSLValueError(f"gemm: traversal_order is one of {names}, got {text!r}")
    return found[0]


def _chosen(callback: Callable[..., object], atom: MmaAtom, at: tuple[int, int, int]) -> MmaAtom:
    found = callback(atom, at)
    if not isinstance(found, MmaAtom):
        raise DSLTypeError(f"gemm: atom_callback gives the MmaAtom to use at {at}, got {found!r}")
    if found.type != atom.type and _form(found) != _form(atom):
        raise DSLTypeError(f"gemm: the atom_callback's {found} at {at} is not of the shape and layouts of {atom}")
    return found


def _form(atom: MmaAtom) -> tuple[object, ...]:
    op = atom.type.op
    return op.shape_mnk, op.thr_layout, *(op.tv_layout(i) for i in range(3))


def _call_each(
    atom: MmaAtom,
    callback: Callable[..., object],
    tensors: tuple[Tensor, list[Tensor], list[Tensor], Tensor],
    extents: tuple[int, int, int],
    order: GemmTraversalOrder | None,
    layout: Layout | None,
) -> None:
    """The steps one by one, as `fly-layout-lowering` takes them, each with its own atom."""
    from ...dialects.fly.traversal import steps

    d, a, b, c = tensors
    deep = a[0].data.layout.rank == 3
    seen: set[tuple[int, int]] = set()
    for m, n, k in steps(extents, order, None if layout is None else layout.data):
        tail = (k,) if deep else ()
        # The first visit of (m, n) starts from C, later ones go on from D.
        source = d if (m, n) in seen and deep else c
        seen.add((m, n))
        mma_atom_call(
            _chosen(callback, atom, (m, n, k)),
            d[None, m, n],
            [t[(None, m, *tail)] for t in a],
            [t[(None, n, *tail)] for t in b],
            source[None, m, n],
        )


def _extents(d: Tensor, a: list[Tensor], b: list[Tensor], c: Tensor) -> tuple[int, int, int] | None:
    """How often the atom repeats in M, N and K, which must fit together; None for a single call."""
    shapes = [t.data.layout for t in (d, a[0], b[0], c)]
    ranks = [s.rank for s in shapes]
    if ranks == [1, 1, 1, 1]:
        return None
    if ranks[0] != 3 or ranks[3] != 3 or ranks[1] != ranks[2] or ranks[1] not in (2, 3):
        raise DSLValueError(f"gemm: expected D, C of rank 3 and A, B of rank 2 or 3, got ranks {ranks}")
    m, n = L.size(shapes[0][1]), L.size(shapes[0][2])
    got = (L.size(shapes[1][1]), L.size(shapes[2][1]), L.size(shapes[3][1]), L.size(shapes[3][2]))
    if got != (m, n, m, n):
        raise DSLValueError(f"gemm: D is {m} x {n} atoms, but A has {got[0]}, B {got[1]}, C {got[2]} x {got[3]}")
    k = L.size(shapes[1][2]) if ranks[1] == 3 else 1
    if ranks[1] == 3 and L.size(shapes[2][2]) != k:
        raise DSLValueError("gemm: A and B differ in their number of K steps")
    for name, extent, (first, *scales) in (("A", m, a), ("B", n, b)):
        for scale in scales:
            own = scale.data.layout
            modes = [L.size(own[i]) for i in range(1, own.rank)] if not own.is_leaf else []
            if modes != [extent, k][: ranks[1] - 1]:
                wanted = L.format_any(first.data.layout)
                raise DSLValueError(f"gemm: the scales {L.format_any(own)} of {name} do not go with {wanted}")
    return cast("tuple[int, int, int]", (m, n, k))


__all__ = ["GemmTraversalOrder", "gemm", "mma_atom_call"]
