// RUN: %fly-opt --convert-fly-to-nvvm %s | FileCheck %s
// RUN: %fly-opt --convert-fly-to-cpu %s | FileCheck %s --check-prefix=CPU

// The same for the other targets: NVIDIA's address spaces and intrinsics; one address space on the CPU. Accesses claim
// the alignment that types prove, however wide the atom is.

!copy = !fly.copy_atom<!fly.universal_copy<128>, 32>
!mma = !fly.mma_atom<!fly_nvgpu.sm80.mma<16x8x16, (f16, f16) -> f32>>
!g4 = !fly.memref<f32, global, 4:1>
gpu.module @m {
  // CHECK-LABEL: gpu.func @spaces(
  // CHECK-SAME: %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<3>, %{{.*}}: !llvm.ptr<5>, %{{.*}}: !llvm.ptr)
  // CPU-LABEL: gpu.func @spaces(
  // CPU-SAME: %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)
  gpu.func @spaces(%a: !fly.ptr<f32, global>, %b: !fly.ptr<f32, shared>, %c: !fly.ptr<f32, register>, %d: !fly.ptr<f32, generic>) kernel {
    gpu.return
  }
  // CHECK-LABEL: gpu.func @copy(
  // CPU-LABEL: gpu.func @copy(
  gpu.func @copy(%g: !g4, %out: !fly.memref<f32, shared, 4:1>, %flag: i1) kernel {
    %c = fly.make_copy_atom {valBits = 32 : i32} : !copy
    // CHECK: %[[V:.*]] = llvm.load %g {alignment = 4 : i64} : !llvm.ptr<1> -> vector<4xf32>
    // CPU: %[[V:.*]] = llvm.load %g {alignment = 4 : i64} : !llvm.ptr -> vector<4xf32>
    %v = fly.copy_atom_call_ssa(%c, %g) {operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!copy, !g4) -> vector<4xf32>
    // CHECK: scf.if %flag {
    // CHECK-NEXT: llvm.store %[[V]], %out {alignment = 4 : i64} : vector<4xf32>, !llvm.ptr<3>
    // CPU: scf.if %flag {
    // CPU-NEXT: llvm.store %[[V]], %out {alignment = 4 : i64} : vector<4xf32>, !llvm.ptr
    fly.copy_atom_call_ssa(%c, %v, %out, %flag) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!copy, vector<4xf32>, !fly.memref<f32, shared, 4:1>, i1) -> ()
    gpu.return
  }
  // The CPU has no such instruction: lanes meet, and each computes its part, in a function that all of them call.
  // CPU: func.func private @[[FILL:fly_emulated_fill_0]](%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: vector<8xf16>) {
  // CPU: func.func private @[[PRODUCT:fly_emulated_product_2]](
  // CPU: vector.from_elements {{.*}} : vector<4xf32>
  // CHECK-LABEL: gpu.func @product(
  // CPU-LABEL: gpu.func @product(
  gpu.func @product(%a: vector<8xf16>, %b: vector<4xf16>, %c: vector<4xf32>, %out: !fly.ptr<f32, global>) kernel {
    %t = fly.make_mma_atom : !mma
    // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"
    // CHECK: %[[D:.*]] = vector.from_elements {{.*}} : vector<4xf32>
    // CHECK: llvm.store %[[D]], %out
    // CPU: func.call @[[FILL]](%{{.*}}, %{{.*}}, %a)
    // CPU: fly_cpu.rendezvous
    // CPU: %[[D:.*]] = func.call @[[PRODUCT]]({{.*}}, %c) {fly.emulated}
    // CPU: llvm.store %[[D]], %out
    %d = fly.mma_atom_call_ssa(%t, %a, %b, %c) : (!mma, vector<8xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    fly.ptr.store(%d, %out) : (vector<4xf32>, !fly.ptr<f32, global>) -> ()
    // Another one calls the same functions.
    // CPU: func.call @[[FILL]](
    // CPU: func.call @[[PRODUCT]](
    // CPU-NOT: func.func
    %e = fly.mma_atom_call_ssa(%t, %a, %b, %d) : (!mma, vector<8xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    fly.ptr.store(%e, %out) : (vector<4xf32>, !fly.ptr<f32, global>) -> ()
    gpu.return
  }
}
