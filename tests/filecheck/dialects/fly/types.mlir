// RUN: %fly-opt --allow-unregistered-dialect %s | FileCheck %s
// RUN: %fly-opt --allow-unregistered-dialect --mlir-print-op-generic %s | %fly-opt --allow-unregistered-dialect | FileCheck %s

// CHECK-LABEL: @tuples(
// CHECK-SAME: !fly.int_tuple<4>, %{{.*}}: !fly.int_tuple<(4)>, %{{.*}}: !fly.int_tuple<(?,(4,?{i64 div=8}))>
// CHECK-SAME: !fly.int_tuple<(*,-3)>, %{{.*}}: !fly.int_tuple<(?{i64},?{div=4},?)>, %{{.*}}: !fly.int_tuple<(1E0,?{div=4}E1E0)>, %{{.*}}: !fly.int_tuple<(1,2)>
func.func private @tuples(%a: !fly.int_tuple<4>, %b: !fly.int_tuple<(4)>, %c: !fly.int_tuple<(?,(4,?{i64 div=8}))>, %d: !fly.int_tuple<(*, -3)>, %e: !fly.int_tuple<(? {i64}, ?{div = 4}, ?{i32})>, %f: !fly.int_tuple<(1E0, ?{div=4}E1E0)>, %g: !fly.int_tuple<#fly<int_tuple (1,2)>>) {
  func.return
}
// CHECK-LABEL: @layouts(
// CHECK-SAME: !fly.basis<1E0E2>, %{{.*}}: !fly.layout<(4,8):(8,1)>, %{{.*}}: !fly.swizzle<S<3,4,3>>, %{{.*}}: !fly.coord_swizzle<CS<2,0,[0],3,[1, 0]>>
// CHECK-SAME: !fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>, %{{.*}}: !fly.composed_layout<S<1,2,3> o 0 o (8,8):(8,1) o 4 o 64:1>
// CHECK-SAME: !fly.composed_layout<4:1 o 0 o [S<1,2,3> o 4 o 64:1]>, %{{.*}}: !fly.tile<[4|*|(2,4):(1,8)|[8|2]]>, %{{.*}}: !fly.tile<4>, %{{.*}}: !fly.layout<(?):(?{i64 div=2})>
func.func private @layouts(%a: !fly.basis<1E0E2>, %b: !fly.layout<(4, 8) : (8, 1)>, %c: !fly.swizzle<S<3,4,3>>, %d: !fly.coord_swizzle<CS<2,0,[0],3,[1,0]>>, %e: !fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>, %f: !fly.composed_layout<S<1,2,3> o 0 o (8,8):(8,1) o 4 o 64:1>, %g: !fly.composed_layout<4:1 o 0 o [S<1,2,3> o 4 o 64:1]>, %h: !fly.tile<[4|*|(2,4):(1,8)|[8|2]]>, %i: !fly.tile<4>, %j: !fly.layout<(?) : (?{i64 div=2})>) {
  func.return
}
// CHECK-LABEL: @pointers(
// CHECK-SAME: !fly.ptr<f16, global>, %{{.*}}: !fly.ptr<f16, shared, align<16>, S<3,4,3>>, %{{.*}}: !fly.ptr<f32, register, S<1,2,3>>, %{{.*}}: !fly.ptr<f32, generic>, %{{.*}}: !fly.ptr<f32, 1 : i64>
// CHECK-SAME: !fly.ptr<f32, global>, %{{.*}}: !fly.ptr<i4, global>, %{{.*}}: !fly.ptr<f4E2M1FN, global, align<4>>, %{{.*}}: !fly.ptr<f16, #fly_rocdl.buffer_desc>
func.func private @pointers(%a: !fly.ptr<f16, global, align<2>>, %b: !fly.ptr<f16, shared, align<16>, S<3,4,3>>, %c: !fly.ptr<f32, register, S<1,2,3>>, %d: !fly.ptr<f32, generic, S<0,0,0>>, %e: !fly.ptr<f32, 1>, %f: !fly.ptr<f32, #fly<address_space global>>, %g: !fly.ptr<i4, global>, %h: !fly.ptr<f4E2M1FN, global, align<4>>, %i: !fly.ptr<f16, #fly_rocdl.buffer_desc>) {
  func.return
}
// CHECK-LABEL: @tensors(
// CHECK-SAME: !fly.memref<f32, shared, S<2,3,3> o 0 o (8,8):(8,1), align<16>>, %{{.*}}: !fly.memref<f32, global, (?,8):(?{i64},1)>
// CHECK-SAME: !fly.memref<f16, shared, 8:1, align<8>, S<1,2,3>>, %{{.*}}: !fly.coord_tensor<(0,?), (4,8):(1E0,1E1)>, %{{.*}}: !fly.coord_tensor<?{i64}, S<1,2,3> o 0 o 8:1>
func.func private @tensors(%a: !fly.memref<f32, shared, S<2,3,3> o 0 o (8,8):(8,1), align<16>>, %b: !fly.memref<f32, global, (?,8):(?{i64},1)>, %c: !fly.memref<f16, shared, 8:1, align<8>, S<1,2,3>>, %d: !fly.coord_tensor<(0,?), (4,8):(1E0,1E1)>, %e: !fly.coord_tensor<?{i64}, S<1,2,3> o 0 o 8:1>) {
  func.return
}
// CHECK-LABEL: @atoms(
// CHECK-SAME: !fly.universal_copy<128>, %{{.*}}: !fly.universal_atomic<max, i32, "agent">, %{{.*}}: !fly.universal_atomic<add, f32>, %{{.*}}: !fly.universal_fma<1x1x1, (f32, f32) -> f32>
// CHECK-SAME: !fly.copy_atom<!fly.universal_copy<128>, 32>, %{{.*}}: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
// CHECK-SAME: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>
// CHECK-SAME: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>
// CHECK-SAME: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>, !fly.tile<[4|4|*]>>
func.func private @atoms(%a: !fly.universal_copy<128>, %b: !fly.universal_atomic<max, i32, "agent">, %c: !fly.universal_atomic<add, f32>, %d: !fly.universal_fma<1x1x1, (f32, f32) -> f32>, %e: !fly.copy_atom<!fly.universal_copy<128>, 32>, %f: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %g: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, <(4,1):(1,1)>, <[4]>>, %h: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>, <[*|*|*]>>, %i: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>, !fly.tile<[4|4|*]>>) {
  func.return
}
// CHECK-LABEL: @attributes
func.func @attributes() {
  // CHECK: address_spaces = [#fly<address_space generic>, #fly<address_space global>, #fly<address_space shared>, #fly<address_space register>]
  "test.a"() {address_spaces = [#fly<address_space generic>, #fly<address_space global>, #fly<address_space shared>, #fly<address_space register>]} : () -> ()
  // CHECK: operands = [#fly<mma_operand a>, #fly<mma_operand b>, #fly<mma_operand c>, #fly<mma_operand d>]
  "test.a"() {operands = [#fly<mma_operand a>, #fly<mma_operand b>, #fly<mma_operand c>, #fly<mma_operand d>]} : () -> ()
  // CHECK: atomics = [#fly<atomic_op add>, #fly<atomic_op max>, #fly<atomic_op min>, #fly<atomic_op and>, #fly<atomic_op or>, #fly<atomic_op inc>, #fly<atomic_op dec>]
  "test.a"() {atomics = [#fly<atomic_op add>, #fly<atomic_op max>, #fly<atomic_op min>, #fly<atomic_op and>, #fly<atomic_op or>, #fly<atomic_op inc>, #fly<atomic_op dec>]} : () -> ()
  // CHECK: policies = [#fly<cache_policy cache_global>, #fly<cache_policy cache_always>]
  "test.a"() {policies = [#fly<cache_policy cache_global>, #fly<cache_policy cache_always>]} : () -> ()
  // CHECK: orders = [#fly<gemm_traversal_order kmn>, #fly<gemm_traversal_order knm>, #fly<gemm_traversal_order mkn>, #fly<gemm_traversal_order mnk>, #fly<gemm_traversal_order nkm>, #fly<gemm_traversal_order nmk>, #fly<gemm_traversal_order kmn_serpentine>, #fly<gemm_traversal_order knm_serpentine>, #fly<gemm_traversal_order mkn_serpentine>, #fly<gemm_traversal_order mnk_serpentine>, #fly<gemm_traversal_order nkm_serpentine>, #fly<gemm_traversal_order nmk_serpentine>]
  "test.a"() {orders = [#fly<gemm_traversal_order kmn>, #fly<gemm_traversal_order knm>, #fly<gemm_traversal_order mkn>, #fly<gemm_traversal_order mnk>, #fly<gemm_traversal_order nkm>, #fly<gemm_traversal_order nmk>, #fly<gemm_traversal_order kmn_serpentine>, #fly<gemm_traversal_order knm_serpentine>, #fly<gemm_traversal_order mkn_serpentine>, #fly<gemm_traversal_order mnk_serpentine>, #fly<gemm_traversal_order nkm_serpentine>, #fly<gemm_traversal_order nmk_serpentine>]} : () -> ()
  // CHECK: align = #fly<align align<8>>, layout = #fly<layout(1,2):(3,4)>, tile = #fly<tile[4|8]>, tuple = #fly<int_tuple(1,2)>
  "test.a"() {align = #fly<align align<8>>, tuple = #fly<int_tuple (1,2)>, layout = #fly<layout(1,2):(3,4)>, tile = #fly<tile [4|8]>} : () -> ()
  // CHECK: handler = #fly.explicit_module
  "test.a"() {handler = #fly.explicit_module} : () -> ()
  func.return
}
