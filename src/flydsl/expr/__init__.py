"""The language, `import flydsl.expr as fx`: everything used inside a kernel.

Names resolve on first use from the table below, so importing this package loads no compiler; `__init__.pyi`, which
scripts/type_stubs.py makes of it, tells type checkers the same.
"""

from __future__ import annotations

import warnings
from importlib import import_module

_MODULES: dict[str, str] = {
    "numeric": (
        "Numeric NumericMeta Integer Float Boolean Int4 Int8 Int16 Int32 Int64 Int128 Uint8 Uint16 Uint32 Uint64 "
        "Uint128 Index Float16 BFloat16 Float32 Float64 Float8E5M2 Float8E5M2FNUZ Float8E4M3 Float8E4M3FN "
        "Float8E4M3FNUZ Float8E4M3B11FNUZ Float8E8M0FNU Float6E2M3FN Float6E3M2FN Float4E2M1FN "
        "as_numeric as_ir_value as_dsl_value T Types"
    ),
    "vector": "Vector VectorAlias full full_like zeros_like ones_like empty_like",
    "scalars.fastmath": "FastMathFlags fastmath",
    "constexpr": "Constexpr",
    "control.control_flow": "const_expr range_constexpr",
    "tensors.layout_functions": (
        "Basis E IntTuple Layout ComposedLayout Swizzle CoordSwizzle Tile make_int_tuple make_shape make_stride "
        "make_coord make_layout make_layout_like make_ordered_layout make_identity_layout make_composed_layout "
        "make_fragment_layout_like make_tile get_scalar get_leaves has_none rank depth get_ take select group append "
        "prepend slice dice size int_tuple_add int_tuple_sub int_tuple_mul int_tuple_div int_tuple_mod "
        "int_tuple_product int_tuple_product_each int_tuple_product_like ceil_div shape_div elem_less equal get_shape "
        "get_stride get_layout composed_get_inner composed_get_offset composed_get_outer coprofile coshape cosize "
        "crd2idx idx2crd get_flat_coord get_1d_coord coalesce composition complement right_inverse left_inverse "
        "logical_divide zipped_divide tiled_divide flat_divide logical_product zipped_product tiled_product "
        "flat_product blocked_product raked_product recast_layout tile_to_shape make_layout_tv static"
    ),
    "tensor": (
        "Pointer Tensor AddressSpace CachePolicy make_view get_iter add_offset recast_iter get_dyn_shared ptr_load "
        "ptr_store memref_load memref_store memref_load_vec memref_store_vec make_rmem_tensor make_fragment_like"
    ),
    "tensors.tiled": (
        "CopyAtom MmaAtom UniversalCopy UniversalCopy8b UniversalCopy16b UniversalCopy32b UniversalCopy64b "
        "UniversalCopy128b UniversalAtomic UniversalAtomicAdd UniversalAtomicMax UniversalAtomicMin "
        "UniversalAtomicAnd UniversalAtomicOr UniversalAtomicInc UniversalAtomicDec UniversalFMA AtomicOp SyncScope "
        "make_copy_atom make_mma_atom atom_set_value copy_atom_call TiledCopy TiledMma ThrCopy ThrMma "
        "MmaOperand make_tiled_copy make_tiled_copy_tv make_tiled_copy_A make_tiled_copy_B "
        "make_tiled_copy_C make_tiled_mma copy gather scatter tiled_copy_partition_src tiled_copy_partition_dst "
        "tiled_copy_retile tiled_mma_partition tiled_mma_partition_shape mma_make_fragment"
    ),
    "tensors.matrix_product": "GemmTraversalOrder gemm mma_atom_call",
    "tensors.memory": (
        "make_ptr inttoptr ptrtoint to_llvm_ptr apply_swizzle memref_alloca is_generic_address_space "
        "is_target_address_space get assume"
    ),
    "atomics": (
        "AtomicOrdering atomic_add atomic_sub atomic_min atomic_max atomic_and atomic_or atomic_xor atomic_xchg "
        "atomic_cas atomic_fmin atomic_fmax generic_load generic_store memory_fence"
    ),
    "gpu": (
        "thread_idx block_idx block_dim grid_dim barrier lane_id shuffle_xor shuffle_up shuffle_down shuffle_idx "
        "known_block_size num_warp_threads target Stream Tuple3D"
    ),
    "printing": "printf",
    "assembly": "inline_asm llvm_intrinsic",
    "struct": "struct",
    "structs": (
        "union Struct Union Empty Align CompositeKind is_struct_type is_composite_type is_specializable_struct_type"
    ),
    "tensors.storage": "Array Storage Arena",
    "tensors.shared": "SharedAllocator",
    "math": (
        "absf ceil floor trunc round roundeven exp exp2 exp2_poly expm1 log log2 log10 log1p sqrt rsqrt cbrt sin cos "
        "tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc sincos absi ctlz cttz ctpop powf fpowi ipowi "
        "atan2 copysign fma clampf isnan isinf isfinite isnormal"
    ),
    "arith": "max min ceildiv maximumf minimumf maxnumf minnumf shrui cmpi cmpf index_cast constant_vector",
    "emit.ir_types": "SwizzleType LayoutType TileType IntTupleType ComposedLayoutType CoordSwizzleType PointerType",
    "emit.memory_types": (
        "BasisType MemRefType CoordTensorType CopyAtomType MmaAtomType TiledCopyType TiledMmaType "
        "CopyOpUniversalCopyType CopyOpUniversalAtomicType MmaOpUniversalFMAType"
    ),
}
_ENUMS = "RoundingMode ReductionOp"
_SUBMODULES = (
    "arith gpu math utils numeric vector tensor extern dist rocdl buffer_ops nvgpu llvm typing enum primitive derived "
    "meta ktrace"
).split()
_ELSEWHERE = {
    "coop": "flydsl.extension.coop",
    "random": "flydsl.extension.random",
    "tiled": "flydsl.expr.tensors.tiled",
}
"""Modules offered here that build on this package or lie deeper in it."""

_WHERE: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _WHERE.get(name)
    if module is not None:
        value = getattr(import_module(f"{__name__}.{module}"), name)
    elif name in _ENUMS.split():
        value = getattr(import_module("flydsl.ir.enums"), name)
    elif name in _SUBMODULES:
        value = import_module(f"{__name__}.{name}")
    elif name in _ELSEWHERE:
        value = import_module(_ELSEWHERE[name])
    elif name == "tdm_ops":
        warnings.warn("fx.tdm_ops is deprecated, say fx.rocdl.tdm_ops", DeprecationWarning, stacklevel=2)
        return import_module(f"{__name__}.rocdl.tdm_ops")
    else:
        value = getattr(import_module(f"{__name__}.vector"), name, None) if "x" in name else None
        if value is None:
            from ..errors import DSLAttributeError
            from .utils.suggestions import suggest

            meant = None if name.startswith("__") else suggest(name, __dir__())
            hint = f"; did you mean {meant}?" if meant else ""
            raise DSLAttributeError(f"flydsl.expr has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_WHERE, *_SUBMODULES, *_ELSEWHERE, *_ENUMS.split()})
