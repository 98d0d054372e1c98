// RUN: %fly-opt --convert-fly-to-rocdl %s | FileCheck %s

// LLVM does not see what the mover reads and writes, nor that a wait orders it.

gpu.module @m {
  // CHECK-LABEL: gpu.func @there_and_back
  gpu.func @there_and_back(%a: vector<4xi32>, %b: vector<8xi32>, %cells: !llvm.ptr<3>, %x: f32) kernel {
    %zero = arith.constant 0 : i32
    %all = arith.constant 0 : i16
    // CHECK: llvm.fence syncscope("wavefront") release
    // CHECK-NEXT: llvm.call_intrinsic "llvm.amdgcn.tensor.load.to.lds.d2"
    llvm.call_intrinsic "llvm.amdgcn.tensor.load.to.lds.d2"(%a, %b, %zero) : (vector<4xi32>, vector<8xi32>, i32) -> ()
    // CHECK-NEXT: llvm.call_intrinsic "llvm.amdgcn.s.wait.tensorcnt"
    // CHECK-NEXT: llvm.fence syncscope("wavefront") acquire
    llvm.call_intrinsic "llvm.amdgcn.s.wait.tensorcnt"(%all) : (i16) -> ()
    llvm.store %x, %cells : f32, !llvm.ptr<3>
    // CHECK: llvm.fence syncscope("wavefront") release
    // CHECK: llvm.call_intrinsic "llvm.amdgcn.s.wait.dscnt"
    // CHECK-NEXT: llvm.call_intrinsic "llvm.amdgcn.tensor.store.from.lds.d2"
    llvm.call_intrinsic "llvm.amdgcn.tensor.store.from.lds.d2"(%a, %b, %zero) : (vector<4xi32>, vector<8xi32>, i32) -> ()
    // CHECK: llvm.call_intrinsic "llvm.amdgcn.s.wait.asynccnt"
    // CHECK-NEXT: llvm.fence syncscope("wavefront") acquire
    llvm.call_intrinsic "llvm.amdgcn.s.wait.asynccnt"(%all) : (i16) -> ()
    gpu.return
  }
}
