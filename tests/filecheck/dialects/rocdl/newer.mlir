// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// Forms of releases after LLVM 22, with immediates in place of operands.

// CHECK: llvm.func @memory(%{{.*}}: !llvm.ptr<8>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<3>, %{{.*}}: i32, %{{.*}}: f32, %{{.*}}: vector<4xi32>, %{{.*}}: vector<8xi32>) {
llvm.func @memory(%r: !llvm.ptr<8>, %g: !llvm.ptr<1>, %s: !llvm.ptr<3>, %i: i32, %f: f32, %a: vector<4xi32>, %b: vector<8xi32>) {
  // CHECK: %{{.*}} = llvm.mlir.constant(4 : i32) : i32
  %c = llvm.mlir.constant(4 : i32) : i32
  // CHECK: %{{.*}} = rocdl.raw.ptr.buffer.load %{{.*}}, %{{.*}}, %{{.*}}, 0 : i128
  %0 = rocdl.raw.ptr.buffer.load %r, %i, %i, 0 : i128
  // CHECK: rocdl.raw.ptr.buffer.store %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, 2 : i32
  rocdl.raw.ptr.buffer.store %i, %r, %i, %i, 2 : i32
  // CHECK: rocdl.raw.ptr.buffer.load.lds %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, 0
  rocdl.raw.ptr.buffer.load.lds %r, %s, %c, %i, %i, %c, 0
  // CHECK: rocdl.raw.ptr.buffer.load.async.lds %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, 0
  rocdl.raw.ptr.buffer.load.async.lds %r, %s, %c, %i, %i, %c, 0
  // CHECK: %{{.*}} = rocdl.raw.ptr.buffer.atomic.fadd %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, 0 : f32
  %1 = rocdl.raw.ptr.buffer.atomic.fadd %f, %r, %i, %i, 0 : f32
  // CHECK: %{{.*}} = rocdl.raw.ptr.buffer.atomic.smax %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, 0 : i32
  %2 = rocdl.raw.ptr.buffer.atomic.smax %i, %r, %i, %i, 0 : i32
  // CHECK: rocdl.global.load.async.lds %{{.*}}, %{{.*}}, 4, 0, 0 : !llvm.ptr<1>, !llvm.ptr<3>
  rocdl.global.load.async.lds %g, %s, 4, 0, 0 : !llvm.ptr<1>, !llvm.ptr<3>
  // CHECK: rocdl.tensor.load.to.lds %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, 0 : vector<4xi32>, vector<8xi32>
  rocdl.tensor.load.to.lds %a, %b, %a, %a, %b, 0 : vector<4xi32>, vector<8xi32>
  // CHECK: rocdl.tensor.store.from.lds %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, 0 : vector<4xi32>, vector<8xi32>
  rocdl.tensor.store.from.lds %a, %b, %a, %a, %b, 0 : vector<4xi32>, vector<8xi32>
  // CHECK: llvm.return
  llvm.return
}
// CHECK: llvm.func @matrix(%{{.*}}: f32, %{{.*}}: i32, %{{.*}}: vector<4xf16>, %{{.*}}: vector<8xi32>, %{{.*}}: vector<4xi32>, %{{.*}}: vector<16xi32>, %{{.*}}: vector<4xf32>, %{{.*}}: vector<8xf32>) {
llvm.func @matrix(%f: f32, %i: i32, %h: vector<4xf16>, %a: vector<8xi32>, %b: vector<4xi32>, %w: vector<16xi32>, %c: vector<4xf32>, %d: vector<8xf32>) {
  // CHECK: %{{.*}} = rocdl.mfma.f32.16x16x4f32 %{{.*}}, %{{.*}}, %{{.*}}, 0, 0, none : (f32, f32, vector<4xf32>) -> vector<4xf32>
  %0 = rocdl.mfma.f32.16x16x4f32 %f, %f, %c, 0, 0, none : (f32, f32, vector<4xf32>) -> vector<4xf32>
  // CHECK: %{{.*}} = rocdl.mfma.f32.16x16x16f16 %{{.*}}, %{{.*}}, %{{.*}}, 1, 2, a|b : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
  %1 = rocdl.mfma.f32.16x16x16f16 %h, %h, %c, 1, 2, a|b : (vector<4xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
  // CHECK: %{{.*}} = rocdl.mfma.scale.f32.16x16x128.f8f6f4 %{{.*}}, %{{.*}}, %{{.*}}, fp8_e4m3, fp4_e2m1, 0, %{{.*}}, 3, %{{.*}} : (vector<8xi32>, vector<4xi32>, vector<4xf32>, i32, i32) -> vector<4xf32>
  %2 = rocdl.mfma.scale.f32.16x16x128.f8f6f4 %a, %b, %c, fp8_e4m3, fp4_e2m1, 0, %i, 3, %i : (vector<8xi32>, vector<4xi32>, vector<4xf32>, i32, i32) -> vector<4xf32>
  // CHECK: %{{.*}} = rocdl.wmma.scale.f32.16x16x128.f8f6f4 %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, fmtA = fp8_e4m3, fmtB = fp8_e4m3, modC = none, scaleAType = row0, fmtScaleA = e8, scaleBType = row1, fmtScaleB = e8 : (vector<16xi32>, vector<16xi32>, vector<8xf32>, i32, i32) -> vector<8xf32>
  %3 = rocdl.wmma.scale.f32.16x16x128.f8f6f4 %w, %w, %d, %i, %i, fmtA = fp8_e4m3, fmtB = fp8_e4m3, modC = none, scaleAType = row0, fmtScaleA = e8, scaleBType = row1, fmtScaleB = e8 : (vector<16xi32>, vector<16xi32>, vector<8xf32>, i32, i32) -> vector<8xf32>
  // CHECK: llvm.return
  llvm.return
}
// CHECK: llvm.func @schedule() {
llvm.func @schedule() {
  // CHECK: %{{.*}} = rocdl.wave.id : i32
  %0 = rocdl.wave.id : i32
  // CHECK: rocdl.sched.barrier none
  rocdl.sched.barrier none
  // CHECK: rocdl.sched.barrier mfma_wmma|ds_read
  rocdl.sched.barrier mfma_wmma|ds_read
  // CHECK: rocdl.sched.group.barrier mfma_wmma, 2, 0
  rocdl.sched.group.barrier mfma_wmma, 2, 0
  // CHECK: rocdl.asyncmark
  rocdl.asyncmark
  // CHECK: rocdl.wait.asyncmark 1
  rocdl.wait.asyncmark 1
  // CHECK: llvm.return
  llvm.return
}
