// RUN: %fly-opt --fly-to-llvm %s | FileCheck %s
// RUN: %fly-opt --pass-pipeline='builtin.module(fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,convert-fly-to-rocdl,canonicalize)' %s | FileCheck %s

gpu.module @m {
  // A loop that runs once is no loop: its number is where it starts, also with a step that goes beyond the end.
  // CHECK-LABEL: gpu.func @once
  // CHECK-NOT: scf.for
  // CHECK: %[[FIVE:.*]] = arith.constant 5.000000e+00 : f32
  // CHECK: arith.addf %{{.*}}, %[[FIVE]]
  // CHECK: %[[AT:.*]] = llvm.getelementptr %{{.*}}[3]
  // CHECK: llvm.store %{{.*}}, %[[AT]]
  gpu.func @once(%0: !fly.ptr<f32, global>, %x: f32) kernel {
    %c3 = arith.constant 3 : i32
    %c7 = arith.constant 7 : i32
    %c8 = arith.constant 8 : i32
    %start = arith.constant 5.0 : f32
    %layout = fly.static : !fly.layout<16:1>
    %view = fly.make_view(%0, %layout) : (!fly.ptr<f32, global>, !fly.layout<16:1>) -> !fly.memref<f32, global, 16:1>
    %sum = scf.for %i = %c3 to %c8 step %c7 iter_args(%s = %start) -> (f32) : i32 {
      %at = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?>
      %more = arith.addf %x, %s : f32
      fly.memref.store(%more, %view, %at) : (f32, !fly.memref<f32, global, 16:1>, !fly.int_tuple<?>) -> ()
      scf.yield %more : f32
    }
    gpu.return
  }
}
