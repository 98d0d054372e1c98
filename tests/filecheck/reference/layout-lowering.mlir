// RUN: %fly-opt --fly-layout-lowering %s | FileCheck %s

// A load at a coordinate: the layout's arithmetic, a pointer moved, a load.

// CHECK: func.func @load(%p: !fly.ptr<f32, global, align<16>>, %r: i32, %c: i32) -> f32 {
// CHECK-NEXT: %[[K:.*]] = arith.constant 32 : i32
// CHECK-NEXT: %[[A:.*]] = arith.muli %r, %[[K]] : i32
// CHECK-NEXT: %[[B:.*]] = arith.addi %[[A]], %c : i32
// CHECK-NEXT: %[[C:.*]] = fly.make_int_tuple(%[[B]]) : (i32) -> !fly.int_tuple<?{div=4}>
// CHECK-NEXT: %[[D:.*]] = fly.add_offset(%p, %[[C]]) : (!fly.ptr<f32, global, align<16>>, !fly.int_tuple<?{div=4}>) -> !fly.ptr<f32, global, align<16>>
// CHECK-NEXT: %[[E:.*]] = fly.ptr.load(%[[D]]) : (!fly.ptr<f32, global, align<16>>) -> f32
// CHECK-NEXT: return %[[E]] : f32
func.func @load(%p: !fly.ptr<f32, global, align<16>>, %r: i32, %c: i32) -> f32 {
  %s = fly.make_int_tuple() : () -> !fly.int_tuple<(16,32)>
  %d = fly.make_int_tuple() : () -> !fly.int_tuple<(32,1)>
  %l = fly.make_layout(%s, %d) : (!fly.int_tuple<(16,32)>, !fly.int_tuple<(32,1)>) -> !fly.layout<(16,32):(32,1)>
  %v = fly.make_view(%p, %l) : (!fly.ptr<f32, global, align<16>>, !fly.layout<(16,32):(32,1)>) -> !fly.memref<f32, global, (16,32):(32,1), align<16>>
  %xy = fly.make_int_tuple(%r, %c) : (i32, i32) -> !fly.int_tuple<(?,?{div=4})>
  %e = fly.memref.load(%v, %xy) : (!fly.memref<f32, global, (16,32):(32,1), align<16>>, !fly.int_tuple<(?,?{div=4})>) -> f32
  func.return %e : f32
}
