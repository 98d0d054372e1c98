"""What programs written for FlyDSL use, as a list: names, keywords and constructs, by theme.

A name counts when the source of a program asks for it as an attribute or imports it, a keyword when a call is given it.
What no name shows is a program of its own, and stands here under that program's name.
"""

from __future__ import annotations

NAMES: dict[str, str] = {
    "modules and their functions": (
        "dsl_loc_tracing tracing_context tracing_option autotune SmemAllocator SmemPtr log atomic_write FastMathFlags "
        "ArithValue arith_const signed Storage func get_current RocmBackend CompilationContext Config"
    ),
    "atoms and instructions of AMD GPUs": (
        "make_tdm_atom WMMAScale cluster_barrier compute_cluster_position cluster_wait cluster_signal_once_per_wg "
        "cvt_scalef32_pk_fp4_f32 cvt_scalef32_pk_f32_fp4 cvt_scalef32_pk_fp8_f32 cvt_scalef32_pk_f32_fp8 "
        "cvt_scalef32_pk_fp8_bf16 cvt_scalef32_pk_bf16_fp8 cvt_scalef32_pk_fp4_bf16 cvt_scalef32_pk_bf16_fp4 "
        "cvt_pk_bf16_f32 cvt_off_f32_i4 cvt_pk_fp8_f32 cvt_pk_f32_fp8 raw_ptr_buffer_load_lds "
        "raw_ptr_buffer_atomic_fadd raw_buffer_atomic_fadd buffer_load_to_lds ds_read_tr8_b64 ds_read_tr16_b64 "
        "mask_vmem_rd mask_dsrd mask_dswr wmma_f32_16x16x16_f16 mfma_scale_f32_32x32x64_f8f6f4 universal "
        "CopyOpCDNA3BufferCopyType MFMAScale cvt_sr_f32_to_bf16 rdna3 rdna4 cdna3 s_waitcnt "
        "supports_bf16_global_atomics bf16_global_atomics_arch_description"
    ),
    "questions, types and values": (
        "num_warp_threads value type is_float apply_op with_signedness randint4x fastmath RoundingMode SharedAllocator "
        "Array Arena Types Align dtype Basis modes unpack filled known_block_size warp_threads warp_reduce Int128 "
        "Uint128 Pointer PointerType MemRefType alignment Float8E4M3FNUZ construct_from_ir_values ffi link_extern"
    ),
    "the MLIR bindings": (
        "ir llvm arith vector memref rocdl scf gpu fly fly_rocdl parse Value get_signless VectorType Attribute "
        "InsertionPoint Context current LoadOp StoreOp GEPOp InlineAsmOp inline_asm call_intrinsic AtomicRMWOp FenceOp "
        "from_elements extract bitcast ConstantOp MulFOp CmpFOp IfOp ForOp YieldOp types MakeBufferRsrcOp "
        "RawPtrBufferLoadOp RawPtrBufferStoreOp"
    ),
}

KEYWORDS = "res src_a src_b fill_value elem_ty_ab elem_ty_acc elem_ty elem_ty_b result_type traversal_order init run"
"""Parameters by FlyDSL's names."""

PROGRAMS: dict[str, str] = {
    "return, break and continue under a known condition": "control.decided_while_tracing control.an_early_return",
    "one carried value comes back bare": "control.explicit_loop_state",
    "methods of plain objects in run-time regions": "control.methods_of_plain_objects",
    "vectors and scalars that leave a region as IR values": "control.values_that_regions_carry",
    "a tensor argument that is a view with a nested static layout": "layouts.nested_view_as_an_argument",
    "a coordinate tensor is loaded": "layouts.loaded_coordinates",
    "a one-element view with a wider atom, elements of equal total width": "copies.words_of_another_type",
    "IR types and values where classes are asked for": "surface.types_and_values_of_the_ir",
    "a vector of a fragment is flat": "surface.vectors_of_fragments",
    "operands in registers of another type, atoms made and never used": "surface.operands_of_another_type",
    "FNUZ numbers on gfx950": "products.fnuz_on_gfx950",
    "a tiled product of an atom with state": "examples.tiled_product_with_scales",
    "a compiled function takes raw addresses": "questions.addresses_for_a_compiled_function",
    "compiling runs once": "questions.compiling_runs_once",
    "extern symbols": "questions.functions_of_a_library",
    "direct-to-LDS copies": "raw.words_straight_into_shared_memory hardware.buffer_to_shared_memory",
    "buffer resources from addresses": "bindings.descriptors_of_addresses raw.descriptors_as_values",
    "inline assembly": "assembly.idioms assembly.memory",
    "structs of resources carried through regions": "raw.resources_carried_by_a_loop",
    "pointers passed as integers": "arguments.numbers_of_every_size",
    "whole-tile copies of the tensor data mover": "mover.whole_tiles",
    "preshuffled product with nested layouts": "products.preshuffled_weights examples.preshuffled_product",
    "gather and scatter with coordinate tensors": "copies.gathered_rows examples.gather_and_scatter",
}
"""Constructs, with programs that have them."""

__all__ = ["KEYWORDS", "NAMES", "PROGRAMS"]
