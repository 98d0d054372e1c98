// RUN: %fly-opt --allow-unregistered-dialect --convert-fly-to-rocdl %s | FileCheck %s

// A pointer moved, a load, and a matrix instruction on values.

!ma = !fly.mma_atom<!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>>
gpu.module @m {
  // CHECK: gpu.func @k(%g: !llvm.ptr<1>, %i: i32, %c: vector<4xf32>) kernel {
  // CHECK: %[[Q:.*]] = llvm.getelementptr %g[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f16
  // CHECK-NEXT: %[[X:.*]] = llvm.load %[[Q]] {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf16>
  // CHECK-NEXT: %[[D:.*]] = rocdl.mfma.f32.16x16x16f16 %[[X]], %[[X]], %c, 0, 0, none : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
  // CHECK-NEXT: "test.use"(%[[D]])
  gpu.func @k(%g: !fly.ptr<f16, global, align<16>>, %i: i32, %c: vector<4xf32>) kernel {
    %ma = fly.make_mma_atom : !ma
    %o = fly.make_int_tuple(%i) : (i32) -> !fly.int_tuple<?{div=8}>
    %q = fly.add_offset(%g, %o) : (!fly.ptr<f16, global, align<16>>, !fly.int_tuple<?{div=8}>) -> !fly.ptr<f16, global, align<16>>
    %x = fly.ptr.load(%q) : (!fly.ptr<f16, global, align<16>>) -> vector<4xf16>
    %d = fly.mma_atom_call_ssa(%ma, %x, %x, %c) : (!ma, vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    "test.use"(%d) : (vector<4xf32>) -> ()
    gpu.return
  }
}
