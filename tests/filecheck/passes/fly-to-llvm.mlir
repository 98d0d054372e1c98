// RUN: %fly-opt --fly-to-llvm %s > %t.fused
// RUN: %fly-opt --pass-pipeline='builtin.module(fly-rewrite-func-signature,fly-canonicalize,fly-layout-lowering,fly-int-swizzle-simplify,canonicalize,fly-convert-atom-call-to-ssa-form,fly-promote-regmem-to-vectorssa,convert-fly-to-rocdl,canonicalize)' %s > %t.listed
// RUN: %fly-opt --pass-pipeline='builtin.module(fly-rewrite-func-signature,fly-canonicalize,fly-to-llvm{passes=fly-layout-lowering+fly-int-swizzle-simplify+canonicalize+fly-convert-atom-call-to-ssa-form+fly-promote-regmem-to-vectorssa+convert-fly-to-rocdl+canonicalize})' %s > %t.behind
// RUN: not %fly-opt --fly-to-llvm="passes=fly-layout-lowering+convert-fly-to-rocdl" %s 2>&1 | FileCheck %s --check-prefix=APART
// RUN: diff %t.fused %t.listed
// RUN: diff %t.behind %t.listed
// RUN: FileCheck %s --input-file %t.fused

// The listed passes and the one walk leave the same, also where it starts behind some of them.
// APART: names passes that do not make one walk: 'fly-layout-lowering+convert-fly-to-rocdl'

// CHECK-LABEL: gpu.func @k
// CHECK-SAME: !llvm.ptr<1>
// CHECK: llvm.getelementptr
// CHECK: llvm.load
// CHECK: llvm.store
// CHECK-NOT: fly.
gpu.module @m {
  gpu.func @k(%0: !fly.ptr<f32, global>, %1: i32) kernel {
    %2 = fly.static : !fly.layout<16:1>
    %3 = fly.make_view(%0, %2) : (!fly.ptr<f32, global>, !fly.layout<16:1>) -> !fly.memref<f32, global, 16:1>
    %4 = fly.make_int_tuple(%1) : (i32) -> !fly.int_tuple<?>
    %5 = fly.memref.load(%3, %4) : (!fly.memref<f32, global, 16:1>, !fly.int_tuple<?>) -> f32
    %6 = arith.addf %5, %5 : f32
    fly.memref.store(%6, %3, %4) : (f32, !fly.memref<f32, global, 16:1>, !fly.int_tuple<?>) -> ()
    gpu.return
  }
}
