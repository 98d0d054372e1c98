// RUN: %fly-opt --fly-rewrite-func-signature --allow-unregistered-dialect %s | FileCheck %s

!copy = !fly.copy_atom<!fly.universal_copy<128>, 32>
gpu.module @m {
  // CHECK-LABEL: gpu.func @body(
  // CHECK-SAME: %[[P:.*]]: !fly.ptr<f16, global, align<16>>, %[[S:.*]]: !llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>, %n: i32) kernel {
  gpu.func @body(%t: !fly.memref<f16, global, (?,8):(?{i64 div=4},1), align<16>>, %fixed: !fly.layout<(4,8):(8,1)>, %n: i32) kernel {
    // CHECK-NEXT: %[[V0:.*]] = llvm.extractvalue %[[S]][0] : !llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>
    // CHECK-NEXT: %[[V1:.*]] = llvm.extractvalue %[[V0]][0] : !llvm.struct<packed (i32)>
    // CHECK-NEXT: %[[V2:.*]] = fly.make_int_tuple(%[[V1]]) : (i32) -> !fly.int_tuple<(?,8)>
    // CHECK-NEXT: %[[V3:.*]] = llvm.extractvalue %[[S]][1]
    // CHECK-NEXT: %[[V4:.*]] = llvm.extractvalue %[[V3]][0] : !llvm.struct<packed (i64)>
    // CHECK-NEXT: %[[V5:.*]] = fly.make_int_tuple(%[[V4]]) : (i64) -> !fly.int_tuple<(?{i64 div=4},1)>
    // CHECK-NEXT: %[[V6:.*]] = fly.make_layout(%[[V2]], %[[V5]])
    // CHECK-NEXT: %[[V7:.*]] = fly.make_view(%[[P]], %[[V6]])
    // CHECK-NEXT: %[[V8:.*]] = fly.get_shape(%[[V7]])
    // CHECK-NEXT: "test.use"(%[[V8]])
    %g = fly.get_shape(%t) : (!fly.memref<f16, global, (?,8):(?{i64 div=4},1), align<16>>) -> !fly.int_tuple<(?,8)>
    "test.use"(%g) : (!fly.int_tuple<(?,8)>) -> ()
    gpu.return
  }
  // Carriers of every kind of value; static ones are made anew where they are used, unused ones are not.
  // CHECK-LABEL: gpu.func @carriers(
  // CHECK-SAME: %t: !llvm.struct<packed (i32, i64)>,
  // CHECK-SAME: %c: !llvm.struct<packed (struct<packed (struct<packed (i32)>)>, struct<packed (i32)>)>,
  // CHECK-SAME: %k: !llvm.struct<packed (struct<packed (i32)>, struct<packed (struct<packed (i32)>)>)>,
  // CHECK-SAME: %m: !fly.ptr<f32, shared>, %p: !fly.ptr<f32, global>, %x: f32) kernel {
  gpu.func @carriers(%t: !fly.int_tuple<(?,(4,?{i64}))>, %c: !fly.composed_layout<S<3,4,3> o ? o (?,8):(8,1)>, %k: !fly.coord_tensor<(?,0), (4,?):(1E0,1E1)>, %m: !fly.memref<f32, shared, (4,8):(8,1)>, %s: !fly.swizzle<S<3,4,3>>, %tile: !fly.tile<[4|8]>, %a: !copy, %p: !fly.ptr<f32, global>, %x: f32) kernel {
    // CHECK: %[[T:.*]] = fly.make_int_tuple(%{{.*}}, %{{.*}}) : (i32, i64) -> !fly.int_tuple<(?,(4,?{i64}))>
    // CHECK: %[[SW:.*]] = fly.static : !fly.swizzle<S<3,4,3>>
    // CHECK: %[[C:.*]] = fly.make_composed_layout(%[[SW]], %{{.*}}, %{{.*}})
    // CHECK: %[[K:.*]] = fly.make_view(%{{.*}}, %{{.*}}) : (!fly.int_tuple<(?,0)>, !fly.layout<(4,?):(1E0,1E1)>)
    // CHECK: %[[L:.*]] = fly.static : !fly.layout<(4,8):(8,1)>
    // CHECK: %[[M:.*]] = fly.make_view(%m, %[[L]])
    // CHECK: %[[A:.*]] = fly.static : !fly.copy_atom<!fly.universal_copy<128>, 32>
    // CHECK-NOT: fly.tile
    // CHECK: "test.use"(%[[T]], %[[C]], %[[K]], %[[M]], %[[SW]], %[[A]], %p, %x)
    "test.use"(%t, %c, %k, %m, %s, %a, %p, %x) : (!fly.int_tuple<(?,(4,?{i64}))>, !fly.composed_layout<S<3,4,3> o ? o (?,8):(8,1)>, !fly.coord_tensor<(?,0), (4,?):(1E0,1E1)>, !fly.memref<f32, shared, (4,8):(8,1)>, !fly.swizzle<S<3,4,3>>, !copy, !fly.ptr<f32, global>, f32) -> ()
    gpu.return
  }
}
// CHECK: func.func private @decl(!llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>) -> !llvm.struct<packed (i32)>
func.func private @decl(!fly.layout<(?,8):(?{i64 div=4},1)>, !fly.tile<[8|64]>) -> !fly.int_tuple<(?,2)>

// Values that are only handed on stay in their carriers.
// CHECK-LABEL: func.func @calls(%l: !llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>) -> !llvm.struct<packed (i32)>
// CHECK-NEXT: %[[R:.*]] = call @decl(%l)
// CHECK-NEXT: return %[[R]] : !llvm.struct<packed (i32)>
func.func @calls(%l: !fly.layout<(?,8):(?{i64 div=4},1)>, %t: !fly.tile<[8|64]>) -> !fly.int_tuple<(?,2)> {
  %r = call @decl(%l, %t) : (!fly.layout<(?,8):(?{i64 div=4},1)>, !fly.tile<[8|64]>) -> !fly.int_tuple<(?,2)>
  func.return %r : !fly.int_tuple<(?,2)>
}
// CHECK-LABEL: func.func @packs(%x: i32, %y: i64, %p: !fly.ptr<f32, global>)
// CHECK-SAME: -> (!fly.ptr<f32, global>, !llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>)
func.func @packs(%x: i32, %y: i64, %p: !fly.ptr<f32, global>) -> !fly.memref<f32, global, (?,(8,2)):(1,(?{i64},4))> {
  %s = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(?,(8,2))>
  %d = fly.make_int_tuple(%y) : (i64) -> !fly.int_tuple<(1,(?{i64},4))>
  %l = fly.make_layout(%s, %d) : (!fly.int_tuple<(?,(8,2))>, !fly.int_tuple<(1,(?{i64},4))>) -> !fly.layout<(?,(8,2)):(1,(?{i64},4))>
  %m = fly.make_view(%p, %l) : (!fly.ptr<f32, global>, !fly.layout<(?,(8,2)):(1,(?{i64},4))>) -> !fly.memref<f32, global, (?,(8,2)):(1,(?{i64},4))>
  // CHECK: %[[IT:.*]] = fly.get_iter(%[[M:.*]]) :
  // CHECK: %[[L:.*]] = fly.get_layout(%[[M]])
  // CHECK: %[[S:.*]] = fly.get_shape(%[[L]])
  // CHECK: %[[S0:.*]] = fly.get(%[[S]]) {mode = array<i32: 0>}
  // CHECK: %[[X:.*]] = fly.get_scalar(%[[S0]]) : (!fly.int_tuple<?>) -> i32
  // CHECK: llvm.mlir.undef : !llvm.struct<packed (i32)>
  // CHECK: llvm.insertvalue %[[X]], %{{.*}}[0] : !llvm.struct<packed (i32)>
  // CHECK: %[[D:.*]] = fly.get_stride(%[[L]])
  // CHECK: %[[D1:.*]] = fly.get(%[[D]]) {mode = array<i32: 1>}
  // CHECK: %[[D10:.*]] = fly.get(%[[D1]]) {mode = array<i32: 0>}
  // CHECK: fly.get_scalar(%[[D10]]) : (!fly.int_tuple<?{i64}>) -> i64
  // CHECK: return %[[IT]], %{{.*}}
  func.return %m : !fly.memref<f32, global, (?,(8,2)):(1,(?{i64},4))>
}
// CHECK-LABEL: func.func @control(
func.func @control(%c: i1, %n: index, %t: !fly.int_tuple<?>, %s: !fly.layout<4:1>) -> !fly.int_tuple<?> {
  // CHECK: %[[I:.*]] = scf.if %c -> (!llvm.struct<packed (i32)>) {
  // CHECK-NEXT: scf.yield %t : !llvm.struct<packed (i32)>
  // CHECK: %[[N:.*]] = "test.make"() : () -> !fly.int_tuple<?>
  // CHECK: llvm.insertvalue
  %i, %gone = scf.if %c -> (!fly.int_tuple<?>, !fly.layout<4:1>) {
    scf.yield %t, %s : !fly.int_tuple<?>, !fly.layout<4:1>
  } else {
    %v = "test.make"() : () -> !fly.int_tuple<?>
    scf.yield %v, %s : !fly.int_tuple<?>, !fly.layout<4:1>
  }
  // CHECK: %[[F:.*]] = scf.for %{{.*}} = %n to %n step %n iter_args(%[[A:.*]] = %[[I]]) -> (!llvm.struct<packed (i32)>) {
  // CHECK: %[[E:.*]] = llvm.extractvalue %[[A]][0]
  // CHECK: %[[U:.*]] = fly.make_int_tuple(%[[E]])
  // CHECK: "test.use"(%[[U]])
  // CHECK: scf.yield %[[A]]
  %f = scf.for %k = %n to %n step %n iter_args(%a = %i) -> (!fly.int_tuple<?>) {
    "test.use"(%a) : (!fly.int_tuple<?>) -> ()
    scf.yield %a : !fly.int_tuple<?>
  }
  // CHECK: %[[W:.*]] = scf.while (%[[B:.*]] = %[[F]]) : (!llvm.struct<packed (i32)>) -> !llvm.struct<packed (i32)> {
  // CHECK-NEXT: scf.condition(%c) %[[B]]
  // CHECK: scf.yield
  %w = scf.while (%b = %f) : (!fly.int_tuple<?>) -> !fly.int_tuple<?> {
    scf.condition(%c) %b : !fly.int_tuple<?>
  } do {
  ^bb0(%d: !fly.int_tuple<?>):
    scf.yield %d : !fly.int_tuple<?>
  }
  // CHECK: return %[[W]]
  func.return %w : !fly.int_tuple<?>
}
// CHECK-LABEL: func.func @blocks(%c: i1, %t: !llvm.struct<packed (i32)>)
func.func @blocks(%c: i1, %t: !fly.int_tuple<?>, %s: !fly.tile<4>) {
  // CHECK: cf.cond_br %c, ^{{.*}}(%t : !llvm.struct<packed (i32)>), ^{{.*}}
  cf.cond_br %c, ^a(%t, %s : !fly.int_tuple<?>, !fly.tile<4>), ^b
^a(%u: !fly.int_tuple<?>, %v: !fly.tile<4>):
  // CHECK: ^{{.*}}(%[[U:.*]]: !llvm.struct<packed (i32)>):
  // CHECK: fly.make_int_tuple
  "test.use"(%u) : (!fly.int_tuple<?>) -> ()
  cf.br ^b
^b:
  func.return
}
// CHECK-LABEL: func.func @launch(
func.func @launch(%g: index, %m: !fly.memref<f16, global, (?,8):(?{i64 div=4},1), align<16>>, %l: !fly.layout<(4,8):(8,1)>, %n: i32) {
  // CHECK-NEXT: gpu.launch_func @m::@body blocks in (%g, %g, %g) threads in (%g, %g, %g) args(%m : !fly.ptr<f16, global, align<16>>, %{{.*}} : !llvm.struct<packed (struct<packed (i32)>, struct<packed (i64)>)>, %n : i32)
  gpu.launch_func @m::@body blocks in (%g, %g, %g) threads in (%g, %g, %g) args(%m : !fly.memref<f16, global, (?,8):(?{i64 div=4},1), align<16>>, %l : !fly.layout<(4,8):(8,1)>, %n : i32)
  func.return
}
