// RUN: %fly-opt --fly-rocdl-cluster-attr %s | FileCheck %s

gpu.module @kernels {
  // CHECK: llvm.func @f() attributes {passthrough = ["noinline", ["amdgpu-cluster-dims", "2,1,1"]]}
  llvm.func @f() attributes {rocdl.cluster_dims = "2,1,1", passthrough = ["noinline"]} {
    llvm.return
  }
  // CHECK: llvm.func @g() attributes {passthrough = {{\[\[}}"amdgpu-cluster-dims", "1,4,1"]]}
  llvm.func @g() attributes {rocdl.cluster_dims = "1,4,1"} {
    llvm.return
  }
  // CHECK: llvm.func @h() {
  llvm.func @h() {
    llvm.return
  }
}
