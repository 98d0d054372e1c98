"""The layout algebra: nested integer tuples, layouts, tiles, and the functions that divide and combine them.

Pure Python over three kinds of leaves (see `leaf`): ints evaluate, `Dyn` leaves infer types, `ValueLeaf`s emit code.
"""

from __future__ import annotations

from flydsl.layout.algebra import (
    coalesce,
    complement,
    composition,
    coprofile,
    coshape,
    cosize,
    left_inverse,
    right_inverse,
    size,
)
from flydsl.layout.coordinates import colex2crd, crd2colex, crd2crd, crd2idx, get_1d_coord, get_flat_coord, idx2crd
from flydsl.layout.divide import flat_divide, logical_divide, tiled_divide, zipped_divide
from flydsl.layout.int_tuple import (
    LayoutIndexError,
    as_int_tuple,
    basis_like,
    ceil_div,
    compact_col_major,
    congruent,
    dynamic_leaves,
    elem_less,
    equal,
    filter_zero,
    flatten,
    has_none,
    int_tuple_add,
    int_tuple_div,
    int_tuple_mod,
    int_tuple_mul,
    int_tuple_sub,
    is_leaf,
    is_static,
    leaves,
    map_leaves,
    product_each,
    product_like,
    replace_dynamic,
    shape_div,
    static_leaf_int,
    type_tuple,
    unflatten,
    unwrap,
    weakly_congruent,
    wrap,
)
from flydsl.layout.int_tuple import product as product_of_leaves
from flydsl.layout.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    canon_stride,
    erase_values,
    linear_layout,
    with_linear,
    zero_of,
)
from flydsl.layout.leaf import Basis, Dyn, E, IntTuple, Leaf, LeafOps, ValueLeaf, basis_to_tuple
from flydsl.layout.make import (
    make_composed_layout,
    make_fragment_layout_like,
    make_identity_layout,
    make_layout,
    make_layout_like,
    make_ordered_layout,
)
from flydsl.layout.memo import clear_memos
from flydsl.layout.modes import append, depth, dice, expand, get_, group, prepend, rank, select, slice_, take
from flydsl.layout.product import (
    blocked_product,
    flat_product,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_product,
    zipped_product,
)
from flydsl.layout.recast import downcast, recast_layout, upcast
from flydsl.layout.swizzle import CoordSwizzle, Swizzle
from flydsl.layout.text import (
    LayoutParser,
    format_any,
    format_int_tuple,
    format_layout,
    format_tile,
    parse_any_layout,
    parse_composed,
    parse_coord_swizzle,
    parse_int_tuple,
    parse_layout,
    parse_swizzle,
    parse_tile,
)
from flydsl.layout.tile import Tile, TileMode, as_tile, make_tile
from flydsl.layout.tiled import (
    copy_partition,
    copy_retile,
    copy_view,
    make_layout_tv,
    mma_fragment_layout,
    mma_partition,
    mma_partition_shape,
    mma_tiled_tv,
    mma_view,
    thr_layout_vmnk,
    tile_size_mnk,
    tile_sizes,
    tiled_copy_tv,
)
from flydsl.layout.tuple_modes import zip2_by, zip_

# The names of the language; the builtin `slice` is shadowed on purpose, and `product` is the module here.
slice = slice_
int_tuple_product = product_of_leaves
int_tuple_product_each = product_each
int_tuple_product_like = product_like

__all__ = [
    "AnyLayout", "Basis", "ComposedLayout", "CoordSwizzle", "Dyn", "E", "IntTuple", "Layout", "LayoutIndexError",
    "LayoutParser", "Leaf", "LeafOps", "Swizzle", "Tile", "TileMode", "ValueLeaf", "append", "as_int_tuple", "as_tile",
    "basis_like", "basis_to_tuple", "blocked_product", "canon_stride", "ceil_div", "clear_memos", "coalesce",
    "colex2crd", "compact_col_major", "complement", "composition", "congruent", "coprofile", "copy_partition",
    "copy_retile", "copy_view", "coshape", "cosize", "crd2colex", "crd2crd", "crd2idx", "depth", "dice", "downcast",
    "dynamic_leaves", "elem_less", "equal", "erase_values", "expand", "filter_zero", "flat_divide", "flat_product",
    "flatten", "format_any", "format_int_tuple", "format_layout", "format_tile", "get_", "get_1d_coord",
    "get_flat_coord", "group", "has_none", "idx2crd", "int_tuple_add", "int_tuple_div", "int_tuple_mod",
    "int_tuple_mul", "int_tuple_product", "int_tuple_product_each", "int_tuple_product_like", "int_tuple_sub",
    "is_leaf", "is_static", "leaves", "left_inverse", "linear_layout", "logical_divide", "logical_product",
    "make_composed_layout", "make_fragment_layout_like", "make_identity_layout", "make_layout", "make_layout_like",
    "make_layout_tv", "make_ordered_layout", "make_tile", "map_leaves", "mma_fragment_layout", "mma_partition",
    "mma_partition_shape", "mma_tiled_tv", "mma_view", "parse_any_layout", "parse_composed", "parse_coord_swizzle",
    "parse_int_tuple", "parse_layout", "parse_swizzle", "parse_tile", "prepend", "product_each", "product_like",
    "raked_product", "rank", "recast_layout", "replace_dynamic", "right_inverse", "select", "shape_div", "size",
    "slice", "slice_", "static_leaf_int", "take", "thr_layout_vmnk", "tile_size_mnk", "tile_sizes", "tile_to_shape",
    "tiled_copy_tv", "tiled_divide", "tiled_product", "type_tuple", "unflatten", "unwrap", "upcast", "weakly_congruent",
    "with_linear", "wrap", "zero_of", "zip2_by", "zip_", "zipped_divide", "zipped_product",
]  # fmt: skip
