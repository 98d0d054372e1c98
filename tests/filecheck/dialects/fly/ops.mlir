// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// Every op of the dialect, both ways.

// CHECK-LABEL: @construction(
func.func @construction(%x: i32, %y: i64, %s: !fly.int_tuple<(4,8)>, %d: !fly.int_tuple<(8,1)>, %l: !fly.layout<(4,8):(8,1)>, %c: !fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>, %sw: !fly.swizzle<S<3,4,3>>, %p: !fly.ptr<f32, global>, %m: !fly.memref<f32, global, (4,8):(8,1)>, %ct: !fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>, %a: !fly.copy_atom<!fly.universal_copy<32>, 32>, %ma: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %tv: !fly.layout<(4,1):(1,1)>, %al: !fly.layout<(2,2,1):(1,2,0)>, %t1: !fly.tile<[4]>, %t3: !fly.tile<[4|4|*]>, %o: !fly.int_tuple<0>, %ol: !fly.layout<(8,8):(8,1)>, %tc: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, %tm: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>) {
  // CHECK: fly.static : !fly.layout<(4,8):(8,1)>
  %0 = fly.static : !fly.layout<(4,8):(8,1)>
  // CHECK: fly.make_int_tuple(%{{.*}}, %{{.*}}) : (i32, i64) -> !fly.int_tuple<(?,(4,?{i64 div=8}))>
  %1 = fly.make_int_tuple(%x, %y) : (i32, i64) -> !fly.int_tuple<(?,(4,?{i64 div=8}))>
  // CHECK: fly.make_int_tuple() : () -> !fly.int_tuple<(4,8)>
  %2 = fly.make_int_tuple() : () -> !fly.int_tuple<(4,8)>
  // CHECK: fly.make_shape(%{{.*}}) : (i32) -> !fly.int_tuple<(?,8)>
  %3 = fly.make_shape(%x) : (i32) -> !fly.int_tuple<(?,8)>
  // CHECK: fly.make_stride(%{{.*}}) : (i64) -> !fly.int_tuple<(?{i64 div=4},1)>
  %4 = fly.make_stride(%y) : (i64) -> !fly.int_tuple<(?{i64 div=4},1)>
  // CHECK: fly.make_coord(%{{.*}}) : (i32) -> !fly.int_tuple<(?,*)>
  %5 = fly.make_coord(%x) : (i32) -> !fly.int_tuple<(?,*)>
  // CHECK: fly.make_layout(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(?,8)>, !fly.int_tuple<(?{i64 div=4},1)>) -> !fly.layout<(?,8):(?{i64 div=4},1)>
  %6 = fly.make_layout(%3, %4) : (!fly.int_tuple<(?,8)>, !fly.int_tuple<(?{i64 div=4},1)>) -> !fly.layout<(?,8):(?{i64 div=4},1)>
  // CHECK: fly.make_layout_like(%{{.*}}) : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(4,8):(8,1)>
  %7 = fly.make_layout_like(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(4,8):(8,1)>
  // CHECK: fly.make_ordered_layout(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(4,8)>, !fly.int_tuple<(8,1)>) -> !fly.layout<(4,8):(8,1)>
  %8 = fly.make_ordered_layout(%s, %d) : (!fly.int_tuple<(4,8)>, !fly.int_tuple<(8,1)>) -> !fly.layout<(4,8):(8,1)>
  // CHECK: fly.make_composed_layout(%{{.*}}, %{{.*}}, %{{.*}}) : (!fly.swizzle<S<3,4,3>>, !fly.int_tuple<0>, !fly.layout<(8,8):(8,1)>) -> !fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>
  %9 = fly.make_composed_layout(%sw, %o, %ol) : (!fly.swizzle<S<3,4,3>>, !fly.int_tuple<0>, !fly.layout<(8,8):(8,1)>) -> !fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>
  // CHECK: fly.make_identity_layout(%{{.*}}) : (!fly.int_tuple<(4,8)>) -> !fly.layout<(4,8):(1E0,1E1)>
  %10 = fly.make_identity_layout(%s) : (!fly.int_tuple<(4,8)>) -> !fly.layout<(4,8):(1E0,1E1)>
  // CHECK: fly.make_view(%{{.*}}, %{{.*}}) : (!fly.ptr<f32, global>, !fly.layout<(4,8):(8,1)>) -> !fly.memref<f32, global, (4,8):(8,1)>
  %11 = fly.make_view(%p, %l) : (!fly.ptr<f32, global>, !fly.layout<(4,8):(8,1)>) -> !fly.memref<f32, global, (4,8):(8,1)>
  // CHECK: fly.make_fragment_like(%{{.*}}) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.memref<f32, register, (4,8):(1,4)>
  %12 = fly.make_fragment_like(%m) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.memref<f32, register, (4,8):(1,4)>
  // CHECK: fly.make_fragment_like(%{{.*}}, f16) : (!fly.layout<(4,8):(8,1)>) -> !fly.memref<f16, register, (4,8):(1,4)>
  %13 = fly.make_fragment_like(%l, f16) : (!fly.layout<(4,8):(8,1)>) -> !fly.memref<f16, register, (4,8):(1,4)>
  // CHECK: fly.make_fragment_layout_like(%{{.*}}) : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(4,8):(1,4)>
  %14 = fly.make_fragment_layout_like(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(4,8):(1,4)>
  // CHECK: fly.make_tiled_copy(%{{.*}}, %{{.*}}, %{{.*}}) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>) -> !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>
  %15 = fly.make_tiled_copy(%a, %tv, %t1) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>) -> !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>
  // CHECK: fly.make_tiled_mma(%{{.*}}, %{{.*}}) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>) -> !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>
  %16 = fly.make_tiled_mma(%ma, %al) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>) -> !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>
  // CHECK: fly.make_tiled_mma(%{{.*}}, %{{.*}}, %{{.*}}) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>, !fly.tile<[4|4|*]>) -> !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>, !fly.tile<[4|4|*]>>
  %17 = fly.make_tiled_mma(%ma, %al, %t3) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>, !fly.tile<[4|4|*]>) -> !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>, !fly.tile<[4|4|*]>>
  // CHECK: fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
  %18 = fly.make_copy_atom {valBits = 32 : i32} : !fly.copy_atom<!fly.universal_copy<32>, 32>
  // CHECK: fly.make_mma_atom : !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
  %19 = fly.make_mma_atom : !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
  // CHECK: fly.get_copy_atom(%{{.*}}) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>) -> !fly.copy_atom<!fly.universal_copy<32>, 32>
  %20 = fly.get_copy_atom(%tc) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>) -> !fly.copy_atom<!fly.universal_copy<32>, 32>
  // CHECK: fly.get_mma_atom(%{{.*}}) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>) -> !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
  %21 = fly.get_mma_atom(%tm) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>) -> !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>
  // CHECK: fly.make_copy_atom(%{{.*}} : i32) {valBits = 32 : i32} : !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
  %22 = fly.make_copy_atom(%x : i32) {valBits = 32 : i32} : !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
  func.return
}
// CHECK-LABEL: @extraction(
func.func @extraction(%t: !fly.int_tuple<(?)>, %u: !fly.int_tuple<(?,(4,?{i64}))>, %l: !fly.layout<(4,8):(8,1)>, %c: !fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>, %m: !fly.memref<f32, global, (4,8):(8,1)>, %ct: !fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>) {
  // CHECK: fly.get_scalar(%{{.*}}) : (!fly.int_tuple<(?)>) -> i32
  %0 = fly.get_scalar(%t) : (!fly.int_tuple<(?)>) -> i32
  // CHECK: fly.get_leaves(%{{.*}}) : (!fly.int_tuple<(?,(4,?{i64}))>) -> (i32, i32, i64)
  %1, %2, %3 = fly.get_leaves(%u) : (!fly.int_tuple<(?,(4,?{i64}))>) -> (i32, i32, i64)
  // CHECK: fly.get_leaves(%{{.*}}) {dynamicOnly = true} : (!fly.int_tuple<(?,(4,?{i64}))>) -> (i32, i64)
  %4, %5 = fly.get_leaves(%u) {dynamicOnly = true} : (!fly.int_tuple<(?,(4,?{i64}))>) -> (i32, i64)
  // CHECK: fly.get_shape(%{{.*}}) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.int_tuple<(4,8)>
  %6 = fly.get_shape(%m) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.int_tuple<(4,8)>
  // CHECK: fly.get_shape(%{{.*}}) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>) -> !fly.int_tuple<(8,8)>
  %7 = fly.get_shape(%c) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>) -> !fly.int_tuple<(8,8)>
  // CHECK: fly.get_stride(%{{.*}}) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<(8,1)>
  %8 = fly.get_stride(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<(8,1)>
  // CHECK: fly.get_layout(%{{.*}}) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.layout<(4,8):(8,1)>
  %9 = fly.get_layout(%m) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.layout<(4,8):(8,1)>
  // CHECK: fly.get_iter(%{{.*}}) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.ptr<f32, global>
  %10 = fly.get_iter(%m) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.ptr<f32, global>
  // CHECK: fly.get_iter(%{{.*}}) : (!fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>) -> !fly.int_tuple<(0,0)>
  %11 = fly.get_iter(%ct) : (!fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>) -> !fly.int_tuple<(0,0)>
  // CHECK: fly.composed_get_inner(%{{.*}}) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>) -> !fly.swizzle<S<3,4,3>>
  %12 = fly.composed_get_inner(%c) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>) -> !fly.swizzle<S<3,4,3>>
  // CHECK: fly.composed_get_offset(%{{.*}}) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>) -> !fly.int_tuple<0>
  %13 = fly.composed_get_offset(%c) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>) -> !fly.int_tuple<0>
  // CHECK: fly.composed_get_outer(%{{.*}}) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>) -> !fly.layout<(8,8):(8,1)>
  %14 = fly.composed_get_outer(%c) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>) -> !fly.layout<(8,8):(8,1)>
  func.return
}
// CHECK-LABEL: @tuples(
func.func @tuples(%a: !fly.int_tuple<(2,?)>, %b: !fly.int_tuple<(?{div=4},3)>, %g: !fly.int_tuple<(1,1)>) {
  // CHECK: fly.int_tuple_add(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?{div=2},?)>
  %0 = fly.int_tuple_add(%a, %b) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?{div=2},?)>
  // CHECK: fly.int_tuple_sub(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?{div=2},?)>
  %1 = fly.int_tuple_sub(%a, %b) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?{div=2},?)>
  // CHECK: fly.int_tuple_mul(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?{div=8},?{div=3})>
  %2 = fly.int_tuple_mul(%a, %b) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?{div=8},?{div=3})>
  // CHECK: fly.int_tuple_div(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?,?)>
  %3 = fly.int_tuple_div(%a, %b) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?,?)>
  // CHECK: fly.int_tuple_mod(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?{div=2},?)>
  %4 = fly.int_tuple_mod(%a, %b) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?{div=2},?)>
  // CHECK: fly.int_tuple_product(%{{.*}}) : (!fly.int_tuple<(2,?)>) -> !fly.int_tuple<?{div=2}>
  %5 = fly.int_tuple_product(%a) : (!fly.int_tuple<(2,?)>) -> !fly.int_tuple<?{div=2}>
  // CHECK: fly.int_tuple_product_each(%{{.*}}) : (!fly.int_tuple<(2,?)>) -> !fly.int_tuple<(2,?)>
  %6 = fly.int_tuple_product_each(%a) : (!fly.int_tuple<(2,?)>) -> !fly.int_tuple<(2,?)>
  // CHECK: fly.int_tuple_product_like(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(1,1)>) -> !fly.int_tuple<(2,?)>
  %7 = fly.int_tuple_product_like(%a, %g) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(1,1)>) -> !fly.int_tuple<(2,?)>
  // CHECK: fly.shape_div(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(1,1)>) -> !fly.int_tuple<(2,?)>
  %8 = fly.shape_div(%a, %g) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(1,1)>) -> !fly.int_tuple<(2,?)>
  // CHECK: fly.ceil_div(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?,?)>
  %9 = fly.ceil_div(%a, %b) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> !fly.int_tuple<(?,?)>
  // CHECK: fly.elem_less(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> i1
  %10 = fly.elem_less(%a, %b) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> i1
  // CHECK: fly.equal(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> i1
  %11 = fly.equal(%a, %b) : (!fly.int_tuple<(2,?)>, !fly.int_tuple<(?{div=4},3)>) -> i1
  func.return
}
// CHECK-LABEL: @structure(
func.func @structure(%t: !fly.int_tuple<(2,(3,?),4)>, %l: !fly.layout<(4,8):(8,1)>, %m: !fly.memref<f32, global, (4,8):(8,1)>, %ct: !fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>, %e: !fly.int_tuple<1>, %el: !fly.layout<1:0>, %c: !fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>, %k: !fly.int_tuple<(*,?)>, %k3: !fly.int_tuple<(*,1,*)>) {
  // CHECK: fly.get(%{{.*}}) {mode = array<i32: 1, 0>} : (!fly.int_tuple<(2,(3,?),4)>) -> !fly.int_tuple<3>
  %0 = fly.get(%t) {mode = array<i32: 1, 0>} : (!fly.int_tuple<(2,(3,?),4)>) -> !fly.int_tuple<3>
  // CHECK: fly.get(%{{.*}}) {mode = array<i32: 1>} : (!fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>) -> !fly.coord_tensor<0, 8:1E1>
  %1 = fly.get(%ct) {mode = array<i32: 1>} : (!fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>) -> !fly.coord_tensor<0, 8:1E1>
  // CHECK: fly.get(%{{.*}}) {mode = array<i32: 0>} : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.memref<f32, global, 4:8>
  %2 = fly.get(%m) {mode = array<i32: 0>} : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.memref<f32, global, 4:8>
  // CHECK: fly.take(%{{.*}}) {begin = 1 : i32, end = -1 : i32} : (!fly.int_tuple<(2,(3,?),4)>) -> !fly.int_tuple<((3,?),4)>
  %3 = fly.take(%t) {begin = 1 : i32, end = -1 : i32} : (!fly.int_tuple<(2,(3,?),4)>) -> !fly.int_tuple<((3,?),4)>
  // CHECK: fly.select(%{{.*}}) {indices = array<i32: 2, 0>} : (!fly.int_tuple<(2,(3,?),4)>) -> !fly.int_tuple<(4,2)>
  %4 = fly.select(%t) {indices = array<i32: 2, 0>} : (!fly.int_tuple<(2,(3,?),4)>) -> !fly.int_tuple<(4,2)>
  // CHECK: fly.group(%{{.*}}) {begin = 0 : i32, end = 2 : i32} : (!fly.int_tuple<(2,(3,?),4)>) -> !fly.int_tuple<((2,(3,?)),4)>
  %5 = fly.group(%t) {begin = 0 : i32, end = 2 : i32} : (!fly.int_tuple<(2,(3,?),4)>) -> !fly.int_tuple<((2,(3,?)),4)>
  // CHECK: fly.append<4> (%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,(3,?),4)>, !fly.int_tuple<1>) -> !fly.int_tuple<(2,(3,?),4,1)>
  %6 = fly.append<4> (%t, %e) : (!fly.int_tuple<(2,(3,?),4)>, !fly.int_tuple<1>) -> !fly.int_tuple<(2,(3,?),4,1)>
  // CHECK: fly.append (%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.layout<1:0>) -> !fly.layout<(4,8,1):(8,1,0)>
  %7 = fly.append (%l, %el) : (!fly.layout<(4,8):(8,1)>, !fly.layout<1:0>) -> !fly.layout<(4,8,1):(8,1,0)>
  // CHECK: fly.prepend (%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,(3,?),4)>, !fly.int_tuple<1>) -> !fly.int_tuple<(1,2,(3,?),4)>
  %8 = fly.prepend (%t, %e) : (!fly.int_tuple<(2,(3,?),4)>, !fly.int_tuple<1>) -> !fly.int_tuple<(1,2,(3,?),4)>
  // CHECK: fly.prepend<3> (%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.layout<1:0>) -> !fly.layout<(1,4,8):(0,8,1)>
  %9 = fly.prepend<3> (%l, %el) : (!fly.layout<(4,8):(8,1)>, !fly.layout<1:0>) -> !fly.layout<(1,4,8):(0,8,1)>
  // CHECK: fly.append (%{{.*}}, %{{.*}}) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>, !fly.layout<1:0>) -> !fly.composed_layout<S<3,4,3> o 0 o (8,8,1):(8,1,0)>
  %10 = fly.append (%c, %el) : (!fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>, !fly.layout<1:0>) -> !fly.composed_layout<S<3,4,3> o 0 o (8,8,1):(8,1,0)>
  // CHECK: fly.slice(%{{.*}}, %{{.*}}) : (!fly.memref<f32, global, (4,8):(8,1)>, !fly.int_tuple<(*,?)>) -> !fly.memref<f32, global, 4:8>
  %11 = fly.slice(%m, %k) : (!fly.memref<f32, global, (4,8):(8,1)>, !fly.int_tuple<(*,?)>) -> !fly.memref<f32, global, 4:8>
  // CHECK: fly.slice(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(2,(3,?),4)>, !fly.int_tuple<(*,1,*)>) -> !fly.int_tuple<(2,4)>
  %12 = fly.slice(%t, %k3) : (!fly.int_tuple<(2,(3,?),4)>, !fly.int_tuple<(*,1,*)>) -> !fly.int_tuple<(2,4)>
  // CHECK: fly.dice(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.int_tuple<(*,?)>) -> !fly.layout<8:1>
  %13 = fly.dice(%l, %k) : (!fly.layout<(4,8):(8,1)>, !fly.int_tuple<(*,?)>) -> !fly.layout<8:1>
  func.return
}
// CHECK-LABEL: @algebra(
func.func @algebra(%l: !fly.layout<(4,8):(8,1)>, %b: !fly.layout<2:1>, %t: !fly.tile<[2|4]>, %pr: !fly.int_tuple<(1,1)>, %n: !fly.int_tuple<64>, %c: !fly.composed_layout<S<3,4,3> o 0 o (8,8):(8,1)>, %m: !fly.memref<f32, global, (4,8):(8,1)>, %s: !fly.int_tuple<(8,16)>) {
  // CHECK: fly.size(%{{.*}}) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<32>
  %0 = fly.size(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<32>
  // CHECK: fly.coprofile(%{{.*}}) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<0>
  %1 = fly.coprofile(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<0>
  // CHECK: fly.coshape(%{{.*}}) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<32>
  %2 = fly.coshape(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<32>
  // CHECK: fly.cosize(%{{.*}}) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.int_tuple<32>
  %3 = fly.cosize(%m) : (!fly.memref<f32, global, (4,8):(8,1)>) -> !fly.int_tuple<32>
  // CHECK: fly.coalesce(%{{.*}}) : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(4,8):(8,1)>
  %4 = fly.coalesce(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(4,8):(8,1)>
  // CHECK: fly.coalesce(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.int_tuple<(1,1)>) -> !fly.layout<(4,8):(8,1)>
  %5 = fly.coalesce(%l, %pr) : (!fly.layout<(4,8):(8,1)>, !fly.int_tuple<(1,1)>) -> !fly.layout<(4,8):(8,1)>
  // CHECK: fly.composition(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<2:8>
  %6 = fly.composition(%l, %b) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<2:8>
  // CHECK: fly.composition(%{{.*}}, %{{.*}}) : (!fly.memref<f32, global, (4,8):(8,1)>, !fly.tile<[2|4]>) -> !fly.memref<f32, global, (2,4):(8,1)>
  %7 = fly.composition(%m, %t) : (!fly.memref<f32, global, (4,8):(8,1)>, !fly.tile<[2|4]>) -> !fly.memref<f32, global, (2,4):(8,1)>
  // CHECK: fly.complement(%{{.*}}) : (!fly.layout<2:1>) -> !fly.layout<1:0>
  %8 = fly.complement(%b) : (!fly.layout<2:1>) -> !fly.layout<1:0>
  // CHECK: fly.complement(%{{.*}}, %{{.*}}) : (!fly.layout<2:1>, !fly.int_tuple<64>) -> !fly.layout<32:2>
  %9 = fly.complement(%b, %n) : (!fly.layout<2:1>, !fly.int_tuple<64>) -> !fly.layout<32:2>
  // CHECK: fly.right_inverse(%{{.*}}) : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(8,4):(4,1)>
  %10 = fly.right_inverse(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(8,4):(4,1)>
  // CHECK: fly.left_inverse(%{{.*}}) : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(8,4):(4,1)>
  %11 = fly.left_inverse(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(8,4):(4,1)>
  // CHECK: fly.logical_divide(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.tile<[2|4]>) -> !fly.layout<((2,2),(4,2)):((8,16),(1,4))>
  %12 = fly.logical_divide(%l, %t) : (!fly.layout<(4,8):(8,1)>, !fly.tile<[2|4]>) -> !fly.layout<((2,2),(4,2)):((8,16),(1,4))>
  // CHECK: fly.zipped_divide(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.tile<[2|4]>) -> !fly.layout<((2,4),(2,2)):((8,1),(16,4))>
  %13 = fly.zipped_divide(%l, %t) : (!fly.layout<(4,8):(8,1)>, !fly.tile<[2|4]>) -> !fly.layout<((2,4),(2,2)):((8,1),(16,4))>
  // CHECK: fly.tiled_divide(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.tile<[2|4]>) -> !fly.layout<((2,4),2,2):((8,1),16,4)>
  %14 = fly.tiled_divide(%l, %t) : (!fly.layout<(4,8):(8,1)>, !fly.tile<[2|4]>) -> !fly.layout<((2,4),2,2):((8,1),16,4)>
  // CHECK: fly.flat_divide(%{{.*}}, %{{.*}}) : (!fly.memref<f32, global, (4,8):(8,1)>, !fly.tile<[2|4]>) -> !fly.memref<f32, global, (2,4,2,2):(8,1,16,4)>
  %15 = fly.flat_divide(%m, %t) : (!fly.memref<f32, global, (4,8):(8,1)>, !fly.tile<[2|4]>) -> !fly.memref<f32, global, (2,4,2,2):(8,1,16,4)>
  // CHECK: fly.logical_product(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<((4,8),2):((8,1),32)>
  %16 = fly.logical_product(%l, %b) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<((4,8),2):((8,1),32)>
  // CHECK: fly.zipped_product(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<((4,8),2):((8,1),32)>
  %17 = fly.zipped_product(%l, %b) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<((4,8),2):((8,1),32)>
  // CHECK: fly.tiled_product(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<((4,8),2):((8,1),32)>
  %18 = fly.tiled_product(%l, %b) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<((4,8),2):((8,1),32)>
  // CHECK: fly.flat_product(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<(4,8,2):(8,1,32)>
  %19 = fly.flat_product(%l, %b) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<(4,8,2):(8,1,32)>
  // CHECK: fly.blocked_product(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<((4,2),(8,1)):((8,32),(1,0))>
  %20 = fly.blocked_product(%l, %b) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<((4,2),(8,1)):((8,32),(1,0))>
  // CHECK: fly.raked_product(%{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<((2,4),(1,8)):((32,8),(0,1))>
  %21 = fly.raked_product(%l, %b) : (!fly.layout<(4,8):(8,1)>, !fly.layout<2:1>) -> !fly.layout<((2,4),(1,8)):((32,8),(0,1))>
  // CHECK: fly.recast_layout(%{{.*}}) {new_type_bits = 16 : i32, old_type_bits = 32 : i32} : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(4,16):(16,1)>
  %22 = fly.recast_layout(%l) {new_type_bits = 16 : i32, old_type_bits = 32 : i32} : (!fly.layout<(4,8):(8,1)>) -> !fly.layout<(4,16):(16,1)>
  // CHECK: fly.tile_to_shape(%{{.*}}, %{{.*}}, %{{.*}}) : (!fly.layout<(4,8):(8,1)>, !fly.int_tuple<(8,16)>, !fly.int_tuple<(1,1)>) -> !fly.layout<((4,2),(8,2)):((8,32),(1,32))>
  %23 = fly.tile_to_shape(%l, %s, %pr) : (!fly.layout<(4,8):(8,1)>, !fly.int_tuple<(8,16)>, !fly.int_tuple<(1,1)>) -> !fly.layout<((4,2),(8,2)):((8,32),(1,32))>
  func.return
}
// CHECK-LABEL: @coordinates(
func.func @coordinates(%i: !fly.int_tuple<?>, %k: !fly.int_tuple<(?,3)>, %l: !fly.layout<(4,8):(8,1)>, %sw: !fly.swizzle<S<2,2,2>>, %cs: !fly.coord_swizzle<CS<2,1,[0],2,[1]>>) {
  // CHECK: fly.crd2idx(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(?,3)>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<?>
  %0 = fly.crd2idx(%k, %l) : (!fly.int_tuple<(?,3)>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<?>
  // CHECK: fly.crd2idx(%{{.*}}, %{{.*}}) : (!fly.int_tuple<?>, !fly.swizzle<S<2,2,2>>) -> !fly.int_tuple<?>
  %1 = fly.crd2idx(%i, %sw) : (!fly.int_tuple<?>, !fly.swizzle<S<2,2,2>>) -> !fly.int_tuple<?>
  // CHECK: fly.crd2idx(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(?,3)>, !fly.coord_swizzle<CS<2,1,[0],2,[1]>>) -> !fly.int_tuple<(?,?)>
  %2 = fly.crd2idx(%k, %cs) : (!fly.int_tuple<(?,3)>, !fly.coord_swizzle<CS<2,1,[0],2,[1]>>) -> !fly.int_tuple<(?,?)>
  // CHECK: fly.idx2crd(%{{.*}}, %{{.*}}) : (!fly.int_tuple<?>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<(?,?)>
  %3 = fly.idx2crd(%i, %l) : (!fly.int_tuple<?>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<(?,?)>
  // CHECK: fly.get_flat_coord(%{{.*}}, %{{.*}}) : (!fly.int_tuple<?>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<(?,?)>
  %4 = fly.get_flat_coord(%i, %l) : (!fly.int_tuple<?>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<(?,?)>
  // CHECK: fly.get_1d_coord(%{{.*}}, %{{.*}}) : (!fly.int_tuple<?>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<?>
  %5 = fly.get_1d_coord(%i, %l) : (!fly.int_tuple<?>, !fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<?>
  func.return
}
// CHECK-LABEL: @memory(
func.func @memory(%lp: !llvm.ptr<1>, %st: i16, %n: i64, %fl: i32, %p: !fly.ptr<f32, global>, %o: !fly.int_tuple<?{div=4}>, %sw: !fly.swizzle<S<2,3,4>>, %m: !fly.memref<f32, global, (4,8):(8,1)>, %ct: !fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>, %k: !fly.int_tuple<(?,3)>, %v: vector<4xf32>, %f: f32, %l: !fly.layout<(4,8):(8,1)>, %w: vector<32xf32>, %it: !fly.int_tuple<(0,?)>, %cm: !fly.memref<f32, shared, S<2,3,3> o 8 o (8,8):(8,1), align<32>>, %c1: !fly.coord_tensor<?, 8:2>) {
  // CHECK: fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !fly.ptr<f32, register>
  %0 = fly.make_ptr() {dictAttrs = {allocSize = 4 : i64}} : () -> !fly.ptr<f32, register>
  // CHECK: fly.make_ptr() {dictAttrs = {allocAlign = 16 : i64, allocBytes = 64 : i64}} : () -> !fly.ptr<f32, shared, align<16>>
  %1 = fly.make_ptr() {dictAttrs = {allocBytes = 64 : i64, allocAlign = 16 : i64}} : () -> !fly.ptr<f32, shared, align<16>>
  // CHECK: fly.make_ptr(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!llvm.ptr<1>, i16, i64, i32) -> !fly.ptr<f16, #fly_rocdl.buffer_desc>
  %2 = fly.make_ptr(%lp, %st, %n, %fl) : (!llvm.ptr<1>, i16, i64, i32) -> !fly.ptr<f16, #fly_rocdl.buffer_desc>
  // CHECK: fly.get_dyn_shared() : !fly.ptr<i8, shared, align<1024>>
  %3 = fly.get_dyn_shared() : !fly.ptr<i8, shared, align<1024>>
  // CHECK: fly.inttoptr(%{{.*}}) : (i64) -> !fly.ptr<f32, global>
  %4 = fly.inttoptr(%n) : (i64) -> !fly.ptr<f32, global>
  // CHECK: fly.ptrtoint(%{{.*}}) : (!fly.ptr<f32, global>) -> i64
  %5 = fly.ptrtoint(%p) : (!fly.ptr<f32, global>) -> i64
  // CHECK: fly.to_llvm_ptr(%{{.*}}) {llvm_address_space = 1 : i32} : (!fly.ptr<f32, global>) -> !llvm.ptr<1>
  %6 = fly.to_llvm_ptr(%p) {llvm_address_space = 1 : i32} : (!fly.ptr<f32, global>) -> !llvm.ptr<1>
  // CHECK: fly.add_offset(%{{.*}}, %{{.*}}) : (!fly.ptr<f32, global>, !fly.int_tuple<?{div=4}>) -> !fly.ptr<f32, global>
  %7 = fly.add_offset(%p, %o) : (!fly.ptr<f32, global>, !fly.int_tuple<?{div=4}>) -> !fly.ptr<f32, global>
  // CHECK: fly.add_offset(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(?,3)>, !fly.int_tuple<(0,?)>) -> !fly.int_tuple<(?,?)>
  %8 = fly.add_offset(%k, %it) : (!fly.int_tuple<(?,3)>, !fly.int_tuple<(0,?)>) -> !fly.int_tuple<(?,?)>
  // CHECK: fly.apply_swizzle(%{{.*}}, %{{.*}}) : (!fly.ptr<f32, global>, !fly.swizzle<S<2,3,4>>) -> !fly.ptr<f32, global, S<2,3,4>>
  %9 = fly.apply_swizzle(%p, %sw) : (!fly.ptr<f32, global>, !fly.swizzle<S<2,3,4>>) -> !fly.ptr<f32, global, S<2,3,4>>
  // CHECK: fly.recast_iter(%{{.*}}) : (!fly.ptr<f32, global>) -> !fly.ptr<i32, global>
  %10 = fly.recast_iter(%p) : (!fly.ptr<f32, global>) -> !fly.ptr<i32, global>
  // CHECK: fly.decomposition(%{{.*}}) : (!fly.memref<f32, shared, S<2,3,3> o 8 o (8,8):(8,1), align<32>>) -> !fly.memref<f32, shared, (8,8):(8,1), align<32>>
  %11 = fly.decomposition(%cm) : (!fly.memref<f32, shared, S<2,3,3> o 8 o (8,8):(8,1), align<32>>) -> !fly.memref<f32, shared, (8,8):(8,1), align<32>>
  // CHECK: fly.ptr.load(%{{.*}}) : (!fly.ptr<f32, global>) -> vector<4xf32>
  %12 = fly.ptr.load(%p) : (!fly.ptr<f32, global>) -> vector<4xf32>
  // CHECK: fly.ptr.store(%{{.*}}, %{{.*}}) : (vector<4xf32>, !fly.ptr<f32, global>) -> ()
  fly.ptr.store(%v, %p) : (vector<4xf32>, !fly.ptr<f32, global>) -> ()
  // CHECK: fly.memref.alloca(%{{.*}}) : (!fly.layout<(4,8):(8,1)>) -> !fly.memref<f32, register, (4,8):(8,1)>
  %13 = fly.memref.alloca(%l) : (!fly.layout<(4,8):(8,1)>) -> !fly.memref<f32, register, (4,8):(8,1)>
  // CHECK: fly.memref.load(%{{.*}}, %{{.*}}) : (!fly.memref<f32, global, (4,8):(8,1)>, !fly.int_tuple<(?,3)>) -> f32
  %14 = fly.memref.load(%m, %k) : (!fly.memref<f32, global, (4,8):(8,1)>, !fly.int_tuple<(?,3)>) -> f32
  // CHECK: fly.memref.load(%{{.*}}, %{{.*}}) : (!fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>, !fly.int_tuple<(?,3)>) -> !fly.int_tuple<(?,3)>
  %15 = fly.memref.load(%ct, %k) : (!fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>, !fly.int_tuple<(?,3)>) -> !fly.int_tuple<(?,3)>
  // CHECK: fly.memref.store(%{{.*}}, %{{.*}}, %{{.*}}) : (f32, !fly.memref<f32, global, (4,8):(8,1)>, !fly.int_tuple<(?,3)>) -> ()
  fly.memref.store(%f, %m, %k) : (f32, !fly.memref<f32, global, (4,8):(8,1)>, !fly.int_tuple<(?,3)>) -> ()
  // CHECK: fly.memref.load_vec(%{{.*}}) : (!fly.memref<f32, global, (4,8):(8,1)>) -> vector<32xf32>
  %16 = fly.memref.load_vec(%m) : (!fly.memref<f32, global, (4,8):(8,1)>) -> vector<32xf32>
  // CHECK: fly.memref.load_vec(%{{.*}}) : (!fly.coord_tensor<?, 8:2>) -> vector<8xi32>
  %17 = fly.memref.load_vec(%c1) : (!fly.coord_tensor<?, 8:2>) -> vector<8xi32>
  // CHECK: fly.memref.store_vec(%{{.*}}, %{{.*}}) : (vector<32xf32>, !fly.memref<f32, global, (4,8):(8,1)>) -> ()
  fly.memref.store_vec(%w, %m) : (vector<32xf32>, !fly.memref<f32, global, (4,8):(8,1)>) -> ()
  // CHECK: fly.extract_aligned_pointer_as_index %{{.*}} : <f32, global, (4,8):(8,1)> -> !llvm.ptr
  %18 = fly.extract_aligned_pointer_as_index %m : <f32, global, (4,8):(8,1)> -> !llvm.ptr
  // CHECK: fly.extract_aligned_pointer_as_index %{{.*}} : <f32, global, (4,8):(8,1)> -> !llvm.ptr
  %19 = fly.extract_aligned_pointer_as_index %m : !fly.memref<f32, global, (4,8):(8,1)> -> !llvm.ptr
  func.return
}
// CHECK-LABEL: @tiled(
func.func @tiled(%tc: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, %tm: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, %m: !fly.memref<f32, global, (4,8):(8,1)>, %m1: !fly.memref<f32, global, 8:1>, %r: !fly.memref<f32, register, (1,2):(1,1)>, %i: !fly.int_tuple<?>, %s: !fly.int_tuple<(4,8)>) {
  // CHECK: fly.tiled_copy.partition_src(%{{.*}}, %{{.*}}, %{{.*}}) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, !fly.memref<f32, global, 8:1>, !fly.int_tuple<?>) -> !fly.memref<f32, global, ((1,1),2):((0,0),4)>
  %0 = fly.tiled_copy.partition_src(%tc, %m1, %i) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, !fly.memref<f32, global, 8:1>, !fly.int_tuple<?>) -> !fly.memref<f32, global, ((1,1),2):((0,0),4)>
  // CHECK: fly.tiled_copy.partition_dst(%{{.*}}, %{{.*}}, %{{.*}}) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, !fly.memref<f32, global, 8:1>, !fly.int_tuple<?>) -> !fly.memref<f32, global, ((1,1),2):((0,0),4)>
  %1 = fly.tiled_copy.partition_dst(%tc, %m1, %i) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, !fly.memref<f32, global, 8:1>, !fly.int_tuple<?>) -> !fly.memref<f32, global, ((1,1),2):((0,0),4)>
  // CHECK: fly.tiled_copy.retile(%{{.*}}, %{{.*}}) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, !fly.memref<f32, register, (1,2):(1,1)>) -> !fly.memref<f32, register, ((1,1),2):((0,0),1)>
  %2 = fly.tiled_copy.retile(%tc, %r) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, !fly.memref<f32, register, (1,2):(1,1)>) -> !fly.memref<f32, register, ((1,1),2):((0,0),1)>
  // CHECK: fly.tiled_mma.partition(a, %{{.*}}, %{{.*}}, %{{.*}}) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.memref<f32, global, (4,8):(8,1)>, !fly.int_tuple<?>) -> !fly.memref<f32, global, (1,2,8):(0,16,1)>
  %3 = fly.tiled_mma.partition(a, %tm, %m, %i) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.memref<f32, global, (4,8):(8,1)>, !fly.int_tuple<?>) -> !fly.memref<f32, global, (1,2,8):(0,16,1)>
  // CHECK: fly.tiled_mma.partition_shape(%{{.*}}, %{{.*}}) {operand_id = #fly<mma_operand c>} : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.int_tuple<(4,8)>) -> !fly.int_tuple<(1,2,4)>
  %4 = fly.tiled_mma.partition_shape(%tm, %s) {operand_id = #fly<mma_operand c>} : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.int_tuple<(4,8)>) -> !fly.int_tuple<(1,2,4)>
  // CHECK: fly.mma.make_fragment(c, %{{.*}}, %{{.*}}) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.memref<f32, global, (4,8):(8,1)>) -> !fly.memref<f32, register, (1,2,4):(0,4,1)>
  %5 = fly.mma.make_fragment(c, %tm, %m) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.memref<f32, global, (4,8):(8,1)>) -> !fly.memref<f32, register, (1,2,4):(0,4,1)>
  // CHECK: fly.mma.make_fragment(b, %{{.*}}, %{{.*}}, stages = 2) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.memref<f32, global, (4,8):(8,1)>) -> !fly.memref<f32, register, (1,2,8,2):(0,8,1,16)>
  %6 = fly.mma.make_fragment(b, %tm, %m, stages = 2) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.memref<f32, global, (4,8):(8,1)>) -> !fly.memref<f32, register, (1,2,8,2):(0,8,1,16)>
  func.return
}
// CHECK-LABEL: @calls(
func.func @calls(%a: !fly.copy_atom<!fly.universal_copy<32>, 32>, %ma: !fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, %tc: !fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, %tm: !fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, %sa: !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>, %x: i32, %m: !fly.memref<f32, register, 1:1>, %p: !fly.memref<i1, register, 1:1>, %f: f32, %b: i1, %d: !fly.memref<f32, register, (1,2,2):(0,1,2)>, %aa: !fly.memref<f32, register, (1,2,3):(0,1,2)>, %tl: !fly.layout<12:1>) {
  // CHECK: fly.atom.set_value(%{{.*}}, "soffset", %{{.*}}) : (!fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>, i32) -> !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
  %0 = fly.atom.set_value(%sa, "soffset", %x) : (!fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>, i32) -> !fly.copy_atom<!fly_rocdl.cdna3.buffer_copy<32>, 32>
  // CHECK: fly.copy_atom_call(%{{.*}}, %{{.*}}, %{{.*}}) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  fly.copy_atom_call(%a, %m, %m) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  // CHECK: fly.copy_atom_call(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<i1, register, 1:1>) -> ()
  fly.copy_atom_call(%a, %m, %m, %p) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<i1, register, 1:1>) -> ()
  // CHECK: fly.mma_atom_call(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  fly.mma_atom_call(%ma, %m, %m, %m, %m) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  // CHECK: fly.mma_atom_call(%{{.*}}, %{{.*}}, [%{{.*}}, %{{.*}}], [%{{.*}}, %{{.*}}], %{{.*}}) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  fly.mma_atom_call(%ma, %m, [%m, %m], [%m, %m], %m) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  // CHECK: fly.copy_atom_call_ssa(%{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>) -> f32
  %1 = fly.copy_atom_call_ssa(%a, %m) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>) -> f32
  // CHECK: fly.copy_atom_call_ssa(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>, f32, i1) -> f32
  %2 = fly.copy_atom_call_ssa(%a, %m, %f, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>, f32, i1) -> f32
  // CHECK: fly.copy_atom_call_ssa(%{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!fly.copy_atom<!fly.universal_copy<32>, 32>, f32, !fly.memref<f32, register, 1:1>) -> ()
  fly.copy_atom_call_ssa(%a, %f, %m) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!fly.copy_atom<!fly.universal_copy<32>, 32>, f32, !fly.memref<f32, register, 1:1>) -> ()
  // CHECK: fly.mma_atom_call_ssa(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, f32, f32, f32) -> f32
  %3 = fly.mma_atom_call_ssa(%ma, %f, %f, %f) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, f32, f32, f32) -> f32
  // CHECK: fly.mma_atom_call_ssa(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) dst = %{{.*}} : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, f32, f32, f32) -> ()
  fly.mma_atom_call_ssa(%ma, %f, %f, %f) dst = %m : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, f32, f32, f32) -> ()
  // The destination among the operands is read as well.
  // CHECK: fly.mma_atom_call_ssa(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) dst = %{{.*}} : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, f32, f32, f32) -> ()
  fly.mma_atom_call_ssa(%ma, %m, %f, %f, %f) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, f32, f32, f32) -> ()
  // CHECK: fly.mma_atom_call_ssa(%{{.*}}, [%{{.*}}, %{{.*}}], [%{{.*}}, %{{.*}}], %{{.*}}) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, f32, i32, f32, i32, f32) -> f32
  %4 = fly.mma_atom_call_ssa(%ma, [%f, %x], [%f, %x], %f) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, f32, i32, f32, i32, f32) -> f32
  // CHECK: fly.copy(%{{.*}}, %{{.*}}, %{{.*}}) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  fly.copy(%tc, %m, %m) : (!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4]>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  // CHECK: fly.copy(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<i1, register, 1:1>) -> ()
  fly.copy(%a, %m, %m, %p) : (!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<i1, register, 1:1>) -> ()
  // CHECK: fly.gemm(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.memref<f32, register, (1,2,2):(0,1,2)>, !fly.memref<f32, register, (1,2,3):(0,1,2)>, !fly.memref<f32, register, (1,2,3):(0,1,2)>, !fly.memref<f32, register, (1,2,2):(0,1,2)>) -> ()
  fly.gemm(%tm, %d, %aa, %aa, %d) : (!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>, !fly.memref<f32, register, (1,2,2):(0,1,2)>, !fly.memref<f32, register, (1,2,3):(0,1,2)>, !fly.memref<f32, register, (1,2,3):(0,1,2)>, !fly.memref<f32, register, (1,2,2):(0,1,2)>) -> ()
  // CHECK: fly.gemm(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) traversalLayout = %{{.*}} {traversalOrder = #fly<gemm_traversal_order mnk>} : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, (1,2,2):(0,1,2)>, !fly.memref<f32, register, (1,2,3):(0,1,2)>, !fly.memref<f32, register, (1,2,3):(0,1,2)>, !fly.memref<f32, register, (1,2,2):(0,1,2)>, !fly.layout<12:1>) -> ()
  fly.gemm(%ma, %d, %aa, %aa, %d) traversalLayout = %tl {traversalOrder = #fly<gemm_traversal_order mnk>} : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, (1,2,2):(0,1,2)>, !fly.memref<f32, register, (1,2,3):(0,1,2)>, !fly.memref<f32, register, (1,2,3):(0,1,2)>, !fly.memref<f32, register, (1,2,2):(0,1,2)>, !fly.layout<12:1>) -> ()
  // CHECK: fly.gemm(%{{.*}}, %{{.*}}, [%{{.*}}, %{{.*}}], [%{{.*}}, %{{.*}}], %{{.*}}) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  fly.gemm(%ma, %m, [%m, %m], [%m, %m], %m) : (!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>, !fly.memref<f32, register, 1:1>) -> ()
  // CHECK: fly.print(%{{.*}}, %{{.*}}) {format = "f {} x {}"} : (f32, i32) -> ()
  fly.print(%f, %x) {format = "f {} x {}"} : (f32, i32) -> ()
  // CHECK: fly.assume(%{{.*}}, %{{.*}}) : (f32, i32) -> f32
  %5 = fly.assume(%f, %x) : (f32, i32) -> f32
  func.return
}
// CHECK-LABEL: @atomics(
func.func @atomics(%p: !fly.ptr<i32, global>, %v: i32) {
  // CHECK: fly.atomic_rmw(%p, %v) {bin_op = "add", ordering = "monotonic", syncscope = "agent"} : (!fly.ptr<i32, global>, i32) -> i32
  %0 = fly.atomic_rmw(%p, %v) {bin_op = "add", ordering = "monotonic", syncscope = "agent"} : (!fly.ptr<i32, global>, i32) -> i32
  // CHECK: fly.atomic_cas(%p, %v, %v) {failure = "acquire", success = "acq_rel"} : (!fly.ptr<i32, global>, i32, i32) -> (i32, i1)
  %1, %2 = fly.atomic_cas(%p, %v, %v) {success = "acq_rel", failure = "acquire"} : (!fly.ptr<i32, global>, i32, i32) -> (i32, i1)
  // CHECK: fly.load(%p) {ordering = "acquire"} : (!fly.ptr<i32, global>) -> i32
  %3 = fly.load(%p) {ordering = "acquire"} : (!fly.ptr<i32, global>) -> i32
  // CHECK: fly.store(%v, %p) {nontemporal} : (i32, !fly.ptr<i32, global>) -> ()
  fly.store(%v, %p) {nontemporal} : (i32, !fly.ptr<i32, global>) -> ()
  // CHECK: fly.fence() {ordering = "release", syncscope = "workgroup"} : () -> ()
  fly.fence() {ordering = "release", syncscope = "workgroup"} : () -> ()
  func.return
}
