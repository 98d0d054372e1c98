// RUN: %fly-opt --fly-to-llvm="convert=convert-fly-to-rocdl" %s > %t.fused
// RUN: %fly-opt --pass-pipeline='builtin.module(fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,fly-int-swizzle-simplify,canonicalize,fly-convert-atom-call-to-ssa-form,fly-promote-regmem-to-vectorssa,convert-fly-to-rocdl,canonicalize)' %s > %t.listed
// RUN: FileCheck %s --input-file %t.fused
// RUN: FileCheck %s --input-file %t.listed

// The listed passes and the one walk leave the same ops.

// CHECK-LABEL: gpu.func @k
// CHECK-SAME: !llvm.ptr<1>
// CHECK: llvm.getelementptr
// CHECK: llvm.load
// CHECK: llvm.store
// CHECK-NOT: fly.
gpu.module @m {
  gpu.func @k(%p: !fly.ptr<f32, global>, %i: i32) kernel {
    %l = fly.static : !fly.layout<16:1>
    %t = fly.make_view(%p, %l) : (!fly.ptr<f32, global>, !fly.layout<16:1>) -> !fly.memref<f32, global, 16:1>
    %at = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?>
    %x = fly.memref.load(%t, %at) : (!fly.memref<f32, global, 16:1>, !fly.int_tuple<?>) -> f32
    %y = arith.addf %x, %x : f32
    fly.memref.store(%y, %t, %at) : (f32, !fly.memref<f32, global, 16:1>, !fly.int_tuple<?>) -> ()
    gpu.return
  }
}
