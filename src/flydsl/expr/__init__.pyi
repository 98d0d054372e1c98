"""The language, `import flydsl.expr as fx`, for type checkers.

Written by scripts/type_stubs.py; change the tables of the package and run it again.
"""

from . import arith as arith
from . import buffer_ops as buffer_ops
from . import derived as derived
from . import dist as dist
from . import enum as enum
from . import extern as extern
from . import gpu as gpu
from . import ktrace as ktrace
from . import llvm as llvm
from . import math as math
from . import meta as meta
from . import numeric as numeric
from . import nvgpu as nvgpu
from . import primitive as primitive
from . import rocdl as rocdl
from . import tensor as tensor
from . import typing as typing
from . import utils as utils
from . import vector as vector
from flydsl.extension import coop as coop
from flydsl.extension import random as random
from flydsl.expr.tensors import tiled as tiled
from .numeric import (
    Float as Float,
    Integer as Integer,
    Numeric as Numeric,
    NumericMeta as NumericMeta,
    T as T,
    Types as Types,
    as_dsl_value as as_dsl_value,
    as_ir_value as as_ir_value,
    as_numeric as as_numeric,
)
from .vector import (
    Vector as Vector,
    VectorAlias as VectorAlias,
    empty_like as empty_like,
    full as full,
    full_like as full_like,
    ones_like as ones_like,
    zeros_like as zeros_like,
)
from .scalars.fastmath import (
    FastMathFlags as FastMathFlags,
    fastmath as fastmath,
)
from .constexpr import (
    Constexpr as Constexpr,
)
from .control.control_flow import (
    const_expr as const_expr,
    range_constexpr as range_constexpr,
)
from .tensors.layout_functions import (
    Basis as Basis,
    ComposedLayout as ComposedLayout,
    CoordSwizzle as CoordSwizzle,
    E as E,
    IntTuple as IntTuple,
    Layout as Layout,
    Swizzle as Swizzle,
    Tile as Tile,
    append as append,
    blocked_product as blocked_product,
    ceil_div as ceil_div,
    coalesce as coalesce,
    complement as complement,
    composed_get_inner as composed_get_inner,
    composed_get_offset as composed_get_offset,
    composed_get_outer as composed_get_outer,
    composition as composition,
    coprofile as coprofile,
    coshape as coshape,
    cosize as cosize,
    crd2idx as crd2idx,
    depth as depth,
    dice as dice,
    elem_less as elem_less,
    equal as equal,
    flat_divide as flat_divide,
    flat_product as flat_product,
    get_ as get_,
    get_1d_coord as get_1d_coord,
    get_flat_coord as get_flat_coord,
    get_layout as get_layout,
    get_leaves as get_leaves,
    get_scalar as get_scalar,
    get_shape as get_shape,
    get_stride as get_stride,
    group as group,
    has_none as has_none,
    idx2crd as idx2crd,
    int_tuple_add as int_tuple_add,
    int_tuple_div as int_tuple_div,
    int_tuple_mod as int_tuple_mod,
    int_tuple_mul as int_tuple_mul,
    int_tuple_product as int_tuple_product,
    int_tuple_product_each as int_tuple_product_each,
    int_tuple_product_like as int_tuple_product_like,
    int_tuple_sub as int_tuple_sub,
    left_inverse as left_inverse,
    logical_divide as logical_divide,
    logical_product as logical_product,
    make_composed_layout as make_composed_layout,
    make_coord as make_coord,
    make_fragment_layout_like as make_fragment_layout_like,
    make_identity_layout as make_identity_layout,
    make_int_tuple as make_int_tuple,
    make_layout as make_layout,
    make_layout_like as make_layout_like,
    make_layout_tv as make_layout_tv,
    make_ordered_layout as make_ordered_layout,
    make_shape as make_shape,
    make_stride as make_stride,
    make_tile as make_tile,
    prepend as prepend,
    raked_product as raked_product,
    rank as rank,
    recast_layout as recast_layout,
    right_inverse as right_inverse,
    select as select,
    shape_div as shape_div,
    size as size,
    slice as slice,
    static as static,
    take as take,
    tile_to_shape as tile_to_shape,
    tiled_divide as tiled_divide,
    tiled_product as tiled_product,
    zipped_divide as zipped_divide,
    zipped_product as zipped_product,
)
from .tensor import (
    AddressSpace as AddressSpace,
    CachePolicy as CachePolicy,
    add_offset as add_offset,
    get_dyn_shared as get_dyn_shared,
    get_iter as get_iter,
    make_fragment_like as make_fragment_like,
    make_rmem_tensor as make_rmem_tensor,
    make_view as make_view,
    memref_load as memref_load,
    memref_load_vec as memref_load_vec,
    memref_store as memref_store,
    memref_store_vec as memref_store_vec,
    ptr_load as ptr_load,
    ptr_store as ptr_store,
    recast_iter as recast_iter,
)
from .tensors.tiled import (
    AtomicOp as AtomicOp,
    CopyAtom as CopyAtom,
    MmaAtom as MmaAtom,
    MmaOperand as MmaOperand,
    SyncScope as SyncScope,
    ThrCopy as ThrCopy,
    ThrMma as ThrMma,
    TiledCopy as TiledCopy,
    TiledMma as TiledMma,
    UniversalAtomic as UniversalAtomic,
    UniversalAtomicAdd as UniversalAtomicAdd,
    UniversalAtomicAnd as UniversalAtomicAnd,
    UniversalAtomicDec as UniversalAtomicDec,
    UniversalAtomicInc as UniversalAtomicInc,
    UniversalAtomicMax as UniversalAtomicMax,
    UniversalAtomicMin as UniversalAtomicMin,
    UniversalAtomicOr as UniversalAtomicOr,
    UniversalCopy as UniversalCopy,
    UniversalCopy128b as UniversalCopy128b,
    UniversalCopy16b as UniversalCopy16b,
    UniversalCopy32b as UniversalCopy32b,
    UniversalCopy64b as UniversalCopy64b,
    UniversalCopy8b as UniversalCopy8b,
    UniversalFMA as UniversalFMA,
    atom_set_value as atom_set_value,
    copy as copy,
    copy_atom_call as copy_atom_call,
    gather as gather,
    make_copy_atom as make_copy_atom,
    make_mma_atom as make_mma_atom,
    make_tiled_copy as make_tiled_copy,
    make_tiled_copy_A as make_tiled_copy_A,
    make_tiled_copy_B as make_tiled_copy_B,
    make_tiled_copy_C as make_tiled_copy_C,
    make_tiled_copy_tv as make_tiled_copy_tv,
    make_tiled_mma as make_tiled_mma,
    mma_make_fragment as mma_make_fragment,
    scatter as scatter,
    tiled_copy_partition_dst as tiled_copy_partition_dst,
    tiled_copy_partition_src as tiled_copy_partition_src,
    tiled_copy_retile as tiled_copy_retile,
    tiled_mma_partition as tiled_mma_partition,
    tiled_mma_partition_shape as tiled_mma_partition_shape,
)
from .tensors.matrix_product import (
    GemmTraversalOrder as GemmTraversalOrder,
    gemm as gemm,
    mma_atom_call as mma_atom_call,
)
from .tensors.memory import (
    apply_swizzle as apply_swizzle,
    assume as assume,
    get as get,
    inttoptr as inttoptr,
    is_generic_address_space as is_generic_address_space,
    is_target_address_space as is_target_address_space,
    make_ptr as make_ptr,
    memref_alloca as memref_alloca,
    ptrtoint as ptrtoint,
    to_llvm_ptr as to_llvm_ptr,
)
from .atomics import (
    AtomicOrdering as AtomicOrdering,
    atomic_add as atomic_add,
    atomic_and as atomic_and,
    atomic_cas as atomic_cas,
    atomic_fmax as atomic_fmax,
    atomic_fmin as atomic_fmin,
    atomic_max as atomic_max,
    atomic_min as atomic_min,
    atomic_or as atomic_or,
    atomic_sub as atomic_sub,
    atomic_xchg as atomic_xchg,
    atomic_xor as atomic_xor,
    generic_load as generic_load,
    generic_store as generic_store,
    memory_fence as memory_fence,
)
from .gpu import (
    Tuple3D as Tuple3D,
    barrier as barrier,
    block_dim as block_dim,
    block_idx as block_idx,
    grid_dim as grid_dim,
    known_block_size as known_block_size,
    lane_id as lane_id,
    num_warp_threads as num_warp_threads,
    shuffle_down as shuffle_down,
    shuffle_idx as shuffle_idx,
    shuffle_up as shuffle_up,
    shuffle_xor as shuffle_xor,
    target as target,
    thread_idx as thread_idx,
)
from .printing import (
    printf as printf,
)
from .assembly import (
    inline_asm as inline_asm,
    llvm_intrinsic as llvm_intrinsic,
)
from .struct import (
    struct as struct,
)
from .structs import (
    Align as Align,
    CompositeKind as CompositeKind,
    Empty as Empty,
    Struct as Struct,
    Union as Union,
    is_composite_type as is_composite_type,
    is_specializable_struct_type as is_specializable_struct_type,
    is_struct_type as is_struct_type,
    union as union,
)
from .tensors.storage import (
    Arena as Arena,
    Array as Array,
    Storage as Storage,
)
from .tensors.shared import (
    SharedAllocator as SharedAllocator,
)
from .math import (
    absf as absf,
    absi as absi,
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    cbrt as cbrt,
    ceil as ceil,
    clampf as clampf,
    copysign as copysign,
    cos as cos,
    cosh as cosh,
    ctlz as ctlz,
    ctpop as ctpop,
    cttz as cttz,
    erf as erf,
    erfc as erfc,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    floor as floor,
    fma as fma,
    fpowi as fpowi,
    ipowi as ipowi,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    isnormal as isnormal,
    log as log,
    log10 as log10,
    log1p as log1p,
    log2 as log2,
    powf as powf,
    round as round,
    roundeven as roundeven,
    rsqrt as rsqrt,
    sin as sin,
    sincos as sincos,
    sinh as sinh,
    sqrt as sqrt,
    tan as tan,
    tanh as tanh,
    trunc as trunc,
)
from .arith import (
    ceildiv as ceildiv,
    cmpf as cmpf,
    cmpi as cmpi,
    constant_vector as constant_vector,
    index_cast as index_cast,
    max as max,
    maximumf as maximumf,
    maxnumf as maxnumf,
    min as min,
    minimumf as minimumf,
    minnumf as minnumf,
    shrui as shrui,
)
from .emit.ir_types import (
    ComposedLayoutType as ComposedLayoutType,
    CoordSwizzleType as CoordSwizzleType,
    IntTupleType as IntTupleType,
    LayoutType as LayoutType,
    PointerType as PointerType,
    SwizzleType as SwizzleType,
    TileType as TileType,
)
from .emit.memory_types import (
    BasisType as BasisType,
    CoordTensorType as CoordTensorType,
    CopyAtomType as CopyAtomType,
    CopyOpUniversalAtomicType as CopyOpUniversalAtomicType,
    CopyOpUniversalCopyType as CopyOpUniversalCopyType,
    MemRefType as MemRefType,
    MmaAtomType as MmaAtomType,
    MmaOpUniversalFMAType as MmaOpUniversalFMAType,
    TiledCopyType as TiledCopyType,
    TiledMmaType as TiledMmaType,
)
from flydsl.ir.enums import (
    ReductionOp as ReductionOp,
    RoundingMode as RoundingMode,
)
from typing import Any as _Any
from .annotations import Given as _Given
from .numeric import Boolean as _Boolean
from .numeric import Int4 as _Int4
from .numeric import Int8 as _Int8
from .numeric import Int16 as _Int16
from .numeric import Int32 as _Int32
from .numeric import Int64 as _Int64
from .numeric import Int128 as _Int128
from .numeric import Uint8 as _Uint8
from .numeric import Uint16 as _Uint16
from .numeric import Uint32 as _Uint32
from .numeric import Uint64 as _Uint64
from .numeric import Uint128 as _Uint128
from .numeric import Index as _Index
from .numeric import Float16 as _Float16
from .numeric import BFloat16 as _BFloat16
from .numeric import Float32 as _Float32
from .numeric import Float64 as _Float64
from .numeric import Float8E5M2 as _Float8E5M2
from .numeric import Float8E5M2FNUZ as _Float8E5M2FNUZ
from .numeric import Float8E4M3 as _Float8E4M3
from .numeric import Float8E4M3FN as _Float8E4M3FN
from .numeric import Float8E4M3FNUZ as _Float8E4M3FNUZ
from .numeric import Float8E4M3B11FNUZ as _Float8E4M3B11FNUZ
from .numeric import Float8E8M0FNU as _Float8E8M0FNU
from .numeric import Float6E2M3FN as _Float6E2M3FN
from .numeric import Float6E3M2FN as _Float6E3M2FN
from .numeric import Float4E2M1FN as _Float4E2M1FN
from .tensor import Pointer as _Pointer
from .tensor import Tensor as _Tensor
from .gpu import Stream as _Stream

Boolean = _Given[_Boolean, _Any]
Int4 = _Given[_Int4, _Any]
Int8 = _Given[_Int8, _Any]
Int16 = _Given[_Int16, _Any]
Int32 = _Given[_Int32, _Any]
Int64 = _Given[_Int64, _Any]
Int128 = _Given[_Int128, _Any]
Uint8 = _Given[_Uint8, _Any]
Uint16 = _Given[_Uint16, _Any]
Uint32 = _Given[_Uint32, _Any]
Uint64 = _Given[_Uint64, _Any]
Uint128 = _Given[_Uint128, _Any]
Index = _Given[_Index, _Any]
Float16 = _Given[_Float16, _Any]
BFloat16 = _Given[_BFloat16, _Any]
Float32 = _Given[_Float32, _Any]
Float64 = _Given[_Float64, _Any]
Float8E5M2 = _Given[_Float8E5M2, _Any]
Float8E5M2FNUZ = _Given[_Float8E5M2FNUZ, _Any]
Float8E4M3 = _Given[_Float8E4M3, _Any]
Float8E4M3FN = _Given[_Float8E4M3FN, _Any]
Float8E4M3FNUZ = _Given[_Float8E4M3FNUZ, _Any]
Float8E4M3B11FNUZ = _Given[_Float8E4M3B11FNUZ, _Any]
Float8E8M0FNU = _Given[_Float8E8M0FNU, _Any]
Float6E2M3FN = _Given[_Float6E2M3FN, _Any]
Float6E3M2FN = _Given[_Float6E3M2FN, _Any]
Float4E2M1FN = _Given[_Float4E2M1FN, _Any]
Pointer = _Given[_Pointer, _Any]
Tensor = _Given[_Tensor, _Any]
Stream = _Given[_Stream, _Any]

class Float16x1(Vector): ...
class Float16x2(Vector): ...
class Float16x4(Vector): ...
class Float16x8(Vector): ...
class Float16x16(Vector): ...
class BFloat16x1(Vector): ...
class BFloat16x2(Vector): ...
class BFloat16x4(Vector): ...
class BFloat16x8(Vector): ...
class BFloat16x16(Vector): ...
class Int8x1(Vector): ...
class Int8x2(Vector): ...
class Int8x4(Vector): ...
class Int8x8(Vector): ...
class Int8x16(Vector): ...
class Int16x1(Vector): ...
class Int16x2(Vector): ...
class Int16x4(Vector): ...
class Int16x8(Vector): ...
class Int16x16(Vector): ...
class Uint8x1(Vector): ...
class Uint8x2(Vector): ...
class Uint8x4(Vector): ...
class Uint8x8(Vector): ...
class Uint8x16(Vector): ...
class Uint16x1(Vector): ...
class Uint16x2(Vector): ...
class Uint16x4(Vector): ...
class Uint16x8(Vector): ...
class Uint16x16(Vector): ...
class Float8E5M2x1(Vector): ...
class Float8E5M2x2(Vector): ...
class Float8E5M2x4(Vector): ...
class Float8E5M2x8(Vector): ...
class Float8E5M2x16(Vector): ...
class Float8E5M2FNUZx1(Vector): ...
class Float8E5M2FNUZx2(Vector): ...
class Float8E5M2FNUZx4(Vector): ...
class Float8E5M2FNUZx8(Vector): ...
class Float8E5M2FNUZx16(Vector): ...
class Float8E4M3x1(Vector): ...
class Float8E4M3x2(Vector): ...
class Float8E4M3x4(Vector): ...
class Float8E4M3x8(Vector): ...
class Float8E4M3x16(Vector): ...
class Float8E4M3FNx1(Vector): ...
class Float8E4M3FNx2(Vector): ...
class Float8E4M3FNx4(Vector): ...
class Float8E4M3FNx8(Vector): ...
class Float8E4M3FNx16(Vector): ...
class Float8E4M3FNUZx1(Vector): ...
class Float8E4M3FNUZx2(Vector): ...
class Float8E4M3FNUZx4(Vector): ...
class Float8E4M3FNUZx8(Vector): ...
class Float8E4M3FNUZx16(Vector): ...
class Float8E4M3B11FNUZx1(Vector): ...
class Float8E4M3B11FNUZx2(Vector): ...
class Float8E4M3B11FNUZx4(Vector): ...
class Float8E4M3B11FNUZx8(Vector): ...
class Float8E4M3B11FNUZx16(Vector): ...
class Float8E8M0FNUx1(Vector): ...
class Float8E8M0FNUx2(Vector): ...
class Float8E8M0FNUx4(Vector): ...
class Float8E8M0FNUx8(Vector): ...
class Float8E8M0FNUx16(Vector): ...
class Float32x1(Vector): ...
class Float32x2(Vector): ...
class Float32x4(Vector): ...
class Float32x8(Vector): ...
class Int32x1(Vector): ...
class Int32x2(Vector): ...
class Int32x4(Vector): ...
class Int32x8(Vector): ...
class Uint32x1(Vector): ...
class Uint32x2(Vector): ...
class Uint32x4(Vector): ...
class Uint32x8(Vector): ...
class Float64x1(Vector): ...
class Float64x2(Vector): ...
class Float64x4(Vector): ...
class Int64x1(Vector): ...
class Int64x2(Vector): ...
class Int64x4(Vector): ...
class Uint64x1(Vector): ...
class Uint64x2(Vector): ...
class Uint64x4(Vector): ...
class Float4E2M1FNx2(Vector): ...
class Float4E2M1FNx4(Vector): ...
class Float4E2M1FNx8(Vector): ...
class Float4E2M1FNx16(Vector): ...
class Float4E2M1FNx32(Vector): ...
class Int4x2(Vector): ...
class Int4x4(Vector): ...
class Int4x8(Vector): ...
class Int4x16(Vector): ...
class Int4x32(Vector): ...
class Int128x1(Vector): ...
class Uint128x1(Vector): ...
