// RUN: %fly-opt --verify-diagnostics --allow-unregistered-dialect %s

// Operands of the wrong kind or number. The constraints of fly types have no description.
func.func @kind(%x: i32, %s: !fly.int_tuple<(2,3)>) {
  // expected-error @below {{'fly.make_layout' op operand #0 must be , but got 'i32'}}
  %l = fly.make_layout(%x, %s) : (i32, !fly.int_tuple<(2,3)>) -> !fly.layout<(2,3):(2,3)>
  func.return
}
func.func @kinds(%x: i32, %s: !fly.int_tuple<0>, %l: !fly.layout<4:1>) {
  // expected-error @below {{'fly.make_composed_layout' op operand #0 must be  or  or  or , but got 'i32'}}
  %c = fly.make_composed_layout(%x, %s, %l) : (i32, !fly.int_tuple<0>, !fly.layout<4:1>) -> !fly.layout<4:1>
  func.return
}
func.func @scalars(%x: f32) {
  // expected-error @below {{'fly.make_int_tuple' op operand #0 must be variadic of 32-bit signless integer or 64-bit signless integer, but got 'f32'}}
  %t = fly.make_int_tuple(%x) : (f32) -> !fly.int_tuple<?>
  func.return
}
func.func @scalar(%x: i16) {
  // expected-error @below {{'fly.inttoptr' op operand #0 must be 32-bit signless integer or 64-bit signless integer, but got 'i16'}}
  %t = fly.inttoptr(%x) : (i16) -> !fly.ptr<f32, global>
  func.return
}
func.func @count(%s: !fly.int_tuple<(2,3)>) {
  // expected-error @below {{'fly.make_layout' op expected 2 operands, but found 1}}
  %l = fly.make_layout(%s) : (!fly.int_tuple<(2,3)>) -> !fly.layout<(2,3):(2,3)>
  func.return
}
func.func @count_optional(%s: !fly.int_tuple<(2,3)>, %l: !fly.layout<4:1>) {
  // expected-error @below {{'fly.coalesce' op expected 1 to 2 operands, but found 3}}
  %r = fly.coalesce(%l, %s, %s) : (!fly.layout<4:1>, !fly.int_tuple<(2,3)>, !fly.int_tuple<(2,3)>) -> !fly.layout<4:1>
  func.return
}
func.func @results(%v: f32, %p: !fly.ptr<f32, global>) {
  // expected-error @below {{'fly.ptr.store' op expected 0 results, but found 1}}
  %r = fly.ptr.store(%v, %p) : (f32, !fly.ptr<f32, global>) -> f32
  func.return
}
func.func @groups(%a: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %m: !fly.memref<f32, register, 1:1>) {
  // expected-error @below {{'fly.mma_atom_call' op operand groups [1, 1, 1, 1, 1] do not match 4 operands}}
  "fly.mma_atom_call"(%a, %m, %m, %m) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  func.return
}
func.func @group_kind(%a: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %m: !fly.memref<f32, register, 1:1>, %f: f32) {
  // expected-error @below {{'fly.gemm' op operand #3 must be variadic of , but got 'f32'}}
  fly.gemm(%a, %m, [%m, %f], %m, %m) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, f32, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  func.return
}
func.func @group_missing(%a: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %f: f32) {
  // expected-error @below {{'fly.mma_atom_call_ssa' op expected an operand for a}}
  %r = "fly.mma_atom_call_ssa"(%a, %f, %f, %f) <{operandSegmentSizes = array<i32: 1, 1, 0, 1, 1>}> : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, f32, f32, f32) -> f32
  func.return
}
func.func @group_many(%a: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %f: f32) {
  // expected-error @below {{'fly.mma_atom_call_ssa' op expected one operand for c, but found 2}}
  %r = "fly.mma_atom_call_ssa"(%a, %f, %f, %f, %f) <{operandSegmentSizes = array<i32: 1, 0, 1, 1, 2>}> : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, f32, f32, f32, f32) -> f32
  func.return
}

// Properties.
func.func @property_missing(%l: !fly.layout<(4,8):(8,1)>) {
  // expected-error @below {{'fly.get' op requires attribute 'mode'}}
  %r = fly.get(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<4:8>
  func.return
}
func.func @property_kind(%l: !fly.layout<(4,8):(8,1)>) {
  // expected-error @below {{'fly.take' op attribute 'begin' failed to satisfy constraint: 32-bit signless integer attribute}}
  %r = fly.take(%l) {begin = 0 : i64, end = 1 : i32} : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<4:8>
  func.return
}

// Results.
func.func @inferred(%s: !fly.int_tuple<(2,3)>) {
  // expected-error @+2 {{'fly.make_layout' op inferred type(s) '!fly.layout<(2,3):(2,3)>' are incompatible with return type(s) of operation '!fly.layout<(2,3):(2,4)>'}}
  // expected-error @+1 {{'fly.make_layout' op failed to infer returned types}}
  %l = fly.make_layout(%s, %s) : (!fly.int_tuple<(2,3)>, !fly.int_tuple<(2,3)>) -> !fly.layout<(2,3):(2,4)>
  func.return
}
func.func @flag(%s: !fly.int_tuple<(2,3)>) {
  // expected-error @+2 {{'fly.equal' op inferred type(s) 'i1' are incompatible with return type(s) of operation 'i32'}}
  // expected-error @+1 {{'fly.equal' op failed to infer returned types}}
  %l = fly.equal(%s, %s) : (!fly.int_tuple<(2,3)>, !fly.int_tuple<(2,3)>) -> i32
  func.return
}
func.func @scalar_of_tuple(%s: !fly.int_tuple<(2,3)>) {
  // expected-error @+2 {{GetScalarOp: expected a scalar IntTuple, got (2,3)}}
  // expected-error @+1 {{'fly.get_scalar' op failed to infer returned types}}
  %l = fly.get_scalar(%s) : (!fly.int_tuple<(2,3)>) -> i32
  func.return
}
func.func @stride_composed(%c: !fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>) {
  // expected-error @+2 {{GetStrideOp: unsupported ComposedLayoutType}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.get_stride(%c) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>) -> !fly.int_tuple<(8,1)>
  func.return
}
func.func @stride_memref(%c: !fly.memref<f32, shared, S<3,4,3> o 0 o (8,8):(8,1)>) {
  // expected-error @+2 {{GetStrideOp: unsupported MemRefType with ComposedLayout}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.get_stride(%c) : (!fly.memref<f32, shared, S<3,4,3> o 0 o (8,8):(8,1)>) -> !fly.int_tuple<(8,1)>
  func.return
}
func.func @stride_coord(%c: !fly.coord_tensor<0, S<3,4,3> o 0 o (8,8):(8,1)>) {
  // expected-error @+2 {{GetStrideOp: unsupported CoordTensorType with ComposedLayout}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.get_stride(%c) : (!fly.coord_tensor<0, S<3,4,3> o 0 o (8,8):(8,1)>) -> !fly.int_tuple<(8,1)>
  func.return
}
func.func @mode_too_long(%l: !fly.layout<(4,8):(8,1)>) {
  // expected-error @+2 {{GetOp: mode length 2 exceeds input depth 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.get(%l) {mode = array<i32: 0, 0>} : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<4:8>
  func.return
}
func.func @append_mixed(%l: !fly.layout<(4,8):(8,1)>, %t: !fly.int_tuple<1>) {
  // expected-error @+2 {{AppendOp: tuple and elem must be the same category}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.append (%l, %t) : (!fly.layout<(4,8):(8,1)>, !fly.int_tuple<1>) -> !fly.layout<4:8>
  func.return
}
func.func @prepend_composed(%c: !fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>, %t: !fly.int_tuple<1>) {
  // expected-error @+2 {{PrependOp: elem must be LayoutType when tuple is ComposedLayout}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.prepend (%c, %t) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>, !fly.int_tuple<1>) -> !fly.layout<4:8>
  func.return
}
func.func @fragment_dtype(%l: !fly.layout<(4,8):(8,1)>) {
  // expected-error @+2 {{MakeFragmentLikeOp: dtype is required when input is not MemRefType}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_fragment_like(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.memref<f32, register, (4,8):(1,4)>
  func.return
}
func.func @fragment_dynamic(%l: !fly.layout<(?,8):(8,1)>) {
  // expected-error @+2 {{MakeFragmentLikeOp: expected static shape layout, got #fly<layout(?,8):(8,1)>}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_fragment_like(%l, f32) : (!fly.layout<(?,8):(8,1)>) -> !fly.memref<f32, register, (4,8):(1,4)>
  func.return
}
func.func @fragment_layout_dynamic(%l: !fly.layout<(?,8):(8,1)>) {
  // expected-error @+2 {{MakeFragmentLayoutLikeOp: expected static shape layout, got #fly<layout(?,8):(8,1)>}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_fragment_layout_like(%l) : (!fly.layout<(?,8):(8,1)>) -> !fly.layout<(4,8):(1,4)>
  func.return
}
func.func @tiled_copy_dynamic(%a: !fly.copy_atom<!fly.universal_copy<32>, 32>, %l: !fly.layout<(?,8):(8,1)>, %t: !fly.tile<[4]>) {
  // expected-error @+2 {{MakeTiledCopyOp: LayoutType is not static}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_tiled_copy(%a, %l, %t) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(?,8):(8,1)>, !fly.tile<[4]>) -> !fly.layout<4:1>
  func.return
}
func.func @tiled_mma_dynamic(%a: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %l: !fly.layout<(?,8):(8,1)>) {
  // expected-error @+2 {{MakeTiledMmaOp: LayoutType is not static}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.make_tiled_mma(%a, %l) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(?,8):(8,1)>) -> !fly.layout<4:1>
  func.return
}
func.func @ptrtoint_space(%p: !fly.ptr<f32, register>) {
  // expected-error @+2 {{PtrToIntOp: expected Shared or Global address space}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.ptrtoint(%p) : (!fly.ptr<f32, register>) -> i32
  func.return
}
func.func @llvm_space(%p: !fly.ptr<f32, global>) {
  // expected-error @+2 {{ToLLVMPtrOp: expected a non-negative LLVM address space, got -1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.to_llvm_ptr(%p) {llvm_address_space = -1 : i32} : (!fly.ptr<f32, global>) -> !llvm.ptr
  func.return
}
func.func @offset(%p: !fly.ptr<f32, global>, %t: !fly.int_tuple<(1,2)>) {
  // expected-error @+2 {{AddOffsetOp: offset must be a scalar (leaf int) IntTuple, got (1,2)}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.add_offset(%p, %t) : (!fly.ptr<f32, global>, !fly.int_tuple<(1,2)>) -> !fly.ptr<f32, global>
  func.return
}
func.func @load_vec_dynamic(%m: !fly.memref<f32, global, ?:1>) {
  // expected-error @+2 {{MemRefLoadVecOp: layout size must be static and leaf int}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.memref.load_vec(%m) : (!fly.memref<f32, global, ?:1>) -> vector<4xf32>
  func.return
}
func.func @load_vec_composed(%m: !fly.memref<f32, shared, S<1,2,3> o 0 o 4:1>) {
  // expected-error @+2 {{MemRefLoadVecOp: expected a plain layout}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.memref.load_vec(%m) : (!fly.memref<f32, shared, S<1,2,3> o 0 o 4:1>) -> vector<4xf32>
  func.return
}
func.func @load_vec_basis(%m: !fly.coord_tensor<(0,0), 4:1E1>) {
  // expected-error @+2 {{MemRefLoadVecOp: expected an integer base and plain strides}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.memref.load_vec(%m) : (!fly.coord_tensor<(0,0), 4:1E1>) -> vector<4xi32>
  func.return
}
func.func @retile_composed(%c: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, %m: !fly.memref<f32, register, S<1,2,3> o 0 o (1,2):(1,1)>) {
  // expected-error @+2 {{TiledCopyRetileOp: retile: expected a plain layout}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.tiled_copy.retile(%c, %m) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, !fly.memref<f32, register, S<1,2,3> o 0 o (1,2):(1,1)>) -> i32
  func.return
}
func.func @stages_positive(%t: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, %m: !fly.memref<f32, global, (4,8):(8,1)>) {
  // expected-error @+2 {{MmaMakeFragmentOp: stages must be positive}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.mma.make_fragment(a, %t, %m, stages = 0) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.memref<f32, global, (4,8):(8,1)>) -> i32
  func.return
}
func.func @stages_rank(%t: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, %m: !fly.memref<f32, global, 4:1>) {
  // expected-error @+2 {{MmaMakeFragmentOp: stages requires an input layout with at least two modes}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.mma.make_fragment(a, %t, %m, stages = 2) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.memref<f32, global, 4:1>) -> i32
  func.return
}

// Preconditions of the algebra, on which FlyDSL aborts.
func.func @not_divisible(%a: !fly.int_tuple<7>, %b: !fly.int_tuple<3>) {
  // expected-error @+2 {{ShapeDivOp: shape_div: expected 7 and 3 to divide one another}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.shape_div(%a, %b) : (!fly.int_tuple<7>, !fly.int_tuple<3>) -> !fly.int_tuple<3>
  func.return
}
func.func @out_of_range(%a: !fly.int_tuple<(2,3)>) {
  // expected-error-re @+2 {{GetOp: {{.*}}}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = fly.get(%a) {mode = array<i32: 5>} : (!fly.int_tuple<(2,3)>) -> !fly.int_tuple<3>
  func.return
}

// Structure.
func.func @dominance(%s: !fly.int_tuple<(2,3)>) {
  // expected-error @below {{'fly.make_layout' op operand #0 does not dominate this use}}
  %l = fly.make_layout(%t, %s) : (!fly.int_tuple<(2,3)>, !fly.int_tuple<(2,3)>) -> !fly.layout<(2,3):(2,3)>
  %t = fly.make_int_tuple() : () -> !fly.int_tuple<(2,3)>
  func.return
}
func.func @dominance_blocks(%c: i1) {
  cf.cond_br %c, ^then, ^else
^then:
  %t = fly.make_int_tuple() : () -> !fly.int_tuple<2>
  cf.br ^end
^else:
  cf.br ^end
^end:
  // expected-error @below {{'fly.get_scalar' op operand #0 does not dominate this use}}
  %s = fly.get_scalar(%t) : (!fly.int_tuple<2>) -> i32
  func.return
}

// Atomics.
func.func @rmw(%p: i32, %v: f32) {
  // expected-error @+2 {{expected a !fly.ptr, got i32}}
  // expected-error @+1 {{'fly.atomic_rmw' op failed to infer returned types}}
  %r = fly.atomic_rmw(%p, %v) {bin_op = "fadd", ordering = "monotonic"} : (i32, f32) -> f32
  func.return
}
func.func @cas(%p: !fly.ptr<i32, global>, %a: i32, %b: i64) {
  // expected-error @+2 {{expected and new value differ in type: i32 and i64}}
  // expected-error @+1 {{'fly.atomic_cas' op failed to infer returned types}}
  %r, %f = fly.atomic_cas(%p, %a, %b) {success = "monotonic", failure = "monotonic"} : (!fly.ptr<i32, global>, i32, i64) -> (i32, i1)
  func.return
}
