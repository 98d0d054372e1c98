"""Every name of the language reference exists where it says."""

import importlib
import re
import sys
import types

import pytest

import flydsl.expr as fx
from flydsl.expr.utils.suggestions import WORDS, bare

APPENDIX_A = {
    "scalars": """Numeric Integer Float Boolean Int4 Int8 Int16 Int32 Int64 Int128 Uint8 Uint16 Uint32 Uint64 Uint128
        Index Float16 BFloat16 Float32 Float64 Float8E5M2 Float8E5M2FNUZ Float8E4M3 Float8E4M3FN Float8E4M3FNUZ
        Float8E4M3B11FNUZ Float8E8M0FNU Float6E2M3FN Float6E3M2FN Float4E2M1FN NumericMeta as_numeric as_ir_value
        as_dsl_value T RoundingMode FastMathFlags fastmath""",
    "vector": """Vector VectorAlias ReductionOp full full_like zeros_like ones_like empty_like Float32x4 Int4x8
        BFloat16x2""",
    "compile time": "Constexpr const_expr range_constexpr static",
    "int tuple": """IntTuple Basis E make_int_tuple make_shape make_stride make_coord get_scalar get_leaves has_none
        rank depth get get_ take select group append prepend slice dice size int_tuple_add int_tuple_sub int_tuple_mul
        int_tuple_div int_tuple_mod int_tuple_product int_tuple_product_each int_tuple_product_like ceil_div shape_div
        elem_less equal""",
    "layout": """Layout ComposedLayout Swizzle CoordSwizzle Tile make_layout make_layout_like make_ordered_layout
        make_identity_layout make_composed_layout make_fragment_layout_like make_tile get_shape get_stride get_layout
        composed_get_inner composed_get_offset composed_get_outer""",
    "algebra": """coprofile coshape cosize crd2idx idx2crd get_flat_coord get_1d_coord coalesce composition complement
        right_inverse left_inverse logical_divide zipped_divide tiled_divide flat_divide logical_product zipped_product
        tiled_product flat_product blocked_product raked_product recast_layout tile_to_shape make_layout_tv""",
    "memory": """Pointer Tensor AddressSpace CachePolicy make_view get_iter make_ptr add_offset recast_iter inttoptr
        ptrtoint to_llvm_ptr apply_swizzle get_dyn_shared ptr_load ptr_store memref_alloca memref_load memref_store
        memref_load_vec memref_store_vec make_rmem_tensor make_fragment_like is_generic_address_space
        is_target_address_space""",
    "atoms": """CopyAtom MmaAtom UniversalCopy UniversalCopy8b UniversalCopy16b UniversalCopy32b UniversalCopy64b
        UniversalCopy128b UniversalAtomic UniversalAtomicAdd UniversalAtomicMax UniversalAtomicMin UniversalAtomicAnd
        UniversalAtomicOr UniversalAtomicInc UniversalAtomicDec UniversalFMA AtomicOp SyncScope make_copy_atom
        make_mma_atom atom_set_value copy_atom_call mma_atom_call""",
    "tiled": """TiledCopy TiledMma ThrCopy ThrMma MmaOperand GemmTraversalOrder make_tiled_copy make_tiled_copy_tv
        make_tiled_copy_A make_tiled_copy_B make_tiled_copy_C make_tiled_mma copy gemm gather scatter
        tiled_copy_partition_src tiled_copy_partition_dst tiled_copy_retile tiled_mma_partition
        tiled_mma_partition_shape mma_make_fragment""",
    "gpu": """thread_idx block_idx block_dim grid_dim lane_id barrier shuffle_xor shuffle_up shuffle_down shuffle_idx
        known_block_size num_warp_threads Stream SharedAllocator printf Tuple3D""",
    "structs": """struct union Struct Union Array Align Storage Arena CompositeKind is_struct_type is_composite_type
        is_specializable_struct_type Empty""",
    "ir types": """IntTupleType BasisType TileType LayoutType SwizzleType CoordSwizzleType ComposedLayoutType
        PointerType MemRefType CoordTensorType CopyAtomType MmaAtomType TiledCopyType TiledMmaType
        CopyOpUniversalCopyType
        CopyOpUniversalAtomicType MmaOpUniversalFMAType assume""",
    "0.4": """AtomicOrdering atomic_add atomic_sub atomic_min atomic_max atomic_and atomic_or atomic_xor atomic_xchg
        atomic_cas atomic_fmin atomic_fmax generic_load generic_store memory_fence minnumf""",
    "math and arith": """absf ceil floor trunc round roundeven exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt sin
        cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc sincos absi ctlz cttz ctpop powf fpowi ipowi
        atan2
        copysign fma clampf isnan isinf isfinite isnormal max min ceildiv maximumf minimumf maxnumf""",
    "modules": "arith gpu math utils coop random llvm",
}


@pytest.mark.parametrize("section", APPENDIX_A)
def test_names_exist(section: str):
    missing = [name for name in APPENDIX_A[section].split() if not hasattr(fx, name)]
    assert not missing, f"missing from fx: {' '.join(missing)}"


@pytest.mark.parametrize("name", ["struct", "printf", "fastmath", "union", "slice", "copy"])
def test_functions_are_not_hidden_by_the_modules_they_live_in(name: str):
    for module in ("struct", "printf", "scalars.fastmath", "tensors.storage", "tensors.shared"):
        importlib.import_module(f"flydsl.expr.{module}")
    assert not isinstance(getattr(fx, name), types.ModuleType)


def test_the_struct_decorator_carries_its_path():
    from flydsl.expr.struct import Array, Struct, memory_layout

    assert fx.struct.Array is fx.Array is Array and fx.struct.Struct is fx.Struct is Struct
    assert fx.struct is importlib.import_module("flydsl.expr.struct").struct
    assert memory_layout(Struct["a" : fx.Int32]).size == 4


def test_modules_are_plain():
    """No module is callable or of a class of its own, whatever a name in it is.

    But for `flydsl.autotune`, which is the name of a module and of the decorator in it.
    """
    for name in list(sys.modules):
        if name == "flydsl.autotune":
            continue
        if name.startswith("flydsl") and isinstance(sys.modules[name], types.ModuleType):
            assert type(sys.modules[name]) is types.ModuleType, name


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (
            "flydsl.compiler.protocol",
            "DslType JitArgument Storable get_ir_types cache_signature c_abi_spec extract_to_ir_values "
            "construct_from_ir_values dsl_size_of dsl_align_of peek_from_ptr poke_into_ptr",
        ),
        (
            "flydsl.compiler.extern_link",
            "link_extern LinkedExternFunction BoundExternFunction register_extern_resolver",
        ),
        ("flydsl.compiler.diagnostics", "DSLCompileError"),
        ("flydsl.extension.coop", "warp_reduce BlockReduce BlockScan universal"),
        ("flydsl.extension.random", "rand randn randint randint4x"),
        ("flydsl.expr.extern", "ffi ExternFunction"),
        ("flydsl.expr.utils", "print_typst lazy_classattr"),
        ("flydsl.expr.struct", "struct union Struct Union"),
        ("flydsl.expr.typing", "T Tensor Float32 Constexpr Stream Int32x4"),
        ("flydsl.expr.primitive", "make_layout copy gemm make_view"),
        ("flydsl.expr.derived", "make_tiled_copy_tv gather make_fragment_like"),
        ("flydsl.expr.enum", "AddressSpace AtomicOp ReductionOp RoundingMode"),
    ],
)
def test_public_import_paths(module: str, names: str):
    found = importlib.import_module(module)
    assert not [name for name in names.split() if not hasattr(found, name)]


def test_unknown_names():
    with pytest.raises(AttributeError, match="did you mean fx.Float32"):
        _ = fx.Float3
    with pytest.raises(AttributeError):
        _ = fx.nothing_like_this
    with pytest.raises(AttributeError):
        _ = importlib.import_module("flydsl.expr.typing").nothing_like_this


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("float3", "fx.Float32"),
        ("syncthread", "fx.barrier()"),
        ("readlane", "fx.rocdl.readlane"),
        ("cp_async", "fx.nvgpu.CpAsync"),
        ("block_reduce", "fx.coop.BlockReduce"),
        ("rand", "fx.random.rand"),
        ("atomicLoad", "fx.generic_load(p, memory_order=fx.AtomicOrdering.Acquire)"),
        ("sign", "fx.copysign(1.0, x)"),
        ("thread_id", "fx.thread_idx"),
    ],
)
def test_names_of_others_and_misspelled_ones(name: str, meant: str):
    with pytest.raises(AttributeError) as caught:
        getattr(fx, name)
    assert str(caught.value).endswith(f"{name!r}; did you mean {meant}?")


@pytest.mark.parametrize("name", ["float33", "int7", "nothing_like_this"])
def test_nothing_is_suggested_for_other_sizes(name: str):
    with pytest.raises(AttributeError) as caught:
        getattr(fx, name)
    assert "did you mean" not in str(caught.value)


def test_what_is_suggested_is_there():
    for word, meant in WORDS.items():
        assert word == bare(word)
        for found in re.findall(r"\bfx\.(\w+)(?:\.([A-Za-z]\w+))?", meant):
            place = getattr(fx, found[0])
            assert not found[1] or hasattr(place, found[1]), (word, meant)


def test_coop_and_random_are_the_extensions():
    assert fx.coop is importlib.import_module("flydsl.extension.coop")
    assert fx.random is importlib.import_module("flydsl.extension.random")


def test_type_objects():
    op = fx.CopyOpUniversalCopyType.get(64)
    assert str(fx.CopyAtomType.get(op, 32)) == "!fly.copy_atom<!fly.universal_copy<64>, 32>"
    atomic = fx.CopyOpUniversalAtomicType.get(fx.AtomicOp.Add, fx.Int32)
    assert str(atomic) == "!fly.universal_atomic<add, i32>"
    mma = fx.MmaAtomType.get(fx.MmaOpUniversalFMAType.get(fx.Float32))
    assert "universal_fma" in str(mma)
    layout = fx.make_layout((2, 2, 1), (1, 2, 0))
    assert "tiled_mma" in str(fx.TiledMmaType.get(mma, layout))
    tv = fx.make_layout((4, 2), (2, 1))
    assert "tiled_copy" in str(fx.TiledCopyType.get(fx.CopyAtomType.get(op, 32), tv, (8,)))
    assert str(fx.BasisType.get(2, [0, 1])) == "!fly.basis<2E0E1>"
    memory = fx.MemRefType.get(fx.T.f32, fx.AddressSpace.Global, tv)
    assert str(memory) == "!fly.memref<f32, global, (4,2):(2,1)>"
    assert str(fx.CoordTensorType.get((0, 0), fx.make_identity_layout((4, 8)))).startswith("!fly.coord_tensor<(0,0)")


def test_assume_is_unsupported():
    with pytest.raises(NotImplementedError):
        fx.assume(3)


def test_lazy_class_attributes():
    calls = []

    class A:
        @fx.utils.lazy_classattr
        def value(cls):
            calls.append(cls)
            return cls.__name__

    class B(A):
        pass

    assert A.value == "A" and B.value == "B" and A.value == "A" and A().value == "A"
    assert calls == [A, B]


def test_print_typst(capsys):
    import io

    out = io.StringIO()
    text = fx.utils.print_typst(fx.make_layout((2, 3), (3, 1)), file=out)
    assert "[*1*], [3], [4], [5]" in text and out.getvalue() == text + "\n"
    assert "[*0*], [0], [2]" in fx.utils.print_typst(fx.make_layout(2, 2))
    with pytest.raises(TypeError, match="draws a Layout"):
        fx.utils.print_typst(3)


ROCDL = {
    "rocdl": """make_buffer_tensor make_buffer_ptr get_buffer_rsrc BufferCopy BufferCopy8b BufferCopy16b BufferCopy32b
        BufferCopy64b BufferCopy128b BufferCopyLDS BufferCopyLDS32b BufferCopyLDS128b BufferAtomic BufferAtomicAdd
        BufferAtomicMax BufferAtomicMin BufferAtomicPkAdd MFMA WMMA cdna3 cdna4 cdna5 tdm_ops cluster asyncmark
        wait_asyncmark s_waitcnt sched_barrier sched_group_barrier sched_mfma sched_vmem sched_dsrd sched_dswr
        readfirstlane readlane ballot ds_bpermute rcp exp2 perm_b32 cvt_pk_fp8_f32 cvt_pk_f32_fp8
        mfma_f32_16x16x16f16 SyncScope""",
    "rocdl.cdna4": """LDSReadTrans LDSReadTrans4_64b LDSReadTrans8_64b LDSReadTrans6_96b LDSReadTrans16_64b
        BufferLoadAsyncLDS32b BufferLoadAsyncLDS96b BufferLoadAsyncLDS128b GlobalLoadAsyncLDS32b MFMA_Scale""",
    "rocdl.cdna5": "WMMAScale TDM make_tdm_atom",
    "rocdl.SyncScope": """Agent Workgroup Wavefront OneAs AgentOneAs WorkgroupOneAs WavefrontOneAs
        SingleThreadOneAs""",
    "buffer_ops": "create_buffer_resource create_buffer_resource_from_addr buffer_load buffer_store",
    "llvm": """AtomicOrdering SyncScope atomic_add atomic_and atomic_cas atomic_fmax atomic_fmin atomic_max atomic_min
        atomic_or atomic_sub atomic_xchg atomic_xor generic_load generic_store memory_fence""",
}


@pytest.mark.parametrize("place", ROCDL)
def test_names_of_the_modules(place: str):
    found: object = fx
    for part in place.split("."):
        found = getattr(found, part)
    missing = [name for name in ROCDL[place].split() if not hasattr(found, name)]
    assert not missing, f"missing from fx.{place}: {' '.join(missing)}"


def test_tdm_ops_has_moved():
    with pytest.deprecated_call(match=r"fx\.rocdl\.tdm_ops"):
        assert fx.tdm_ops is fx.rocdl.tdm_ops
