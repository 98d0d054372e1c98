// RUN: %fly-opt --gpu-to-llvm='use-bare-pointers-for-host=true use-bare-pointers-for-kernels=true' %s | FileCheck %s

module attributes {gpu.container_module} {
  gpu.module @kernels {
    // Device code stays as it is.
    // CHECK: gpu.func @k(%x: f32) kernel
    gpu.func @k(%x: f32) kernel {
      gpu.return
    }
  }

  // A token is a stream.
  // CHECK-LABEL: llvm.func @host(%n: i32, %x: f32, %s: !llvm.ptr)
  func.func @host(%n: i32, %x: f32, %s: !gpu.async.token) {
    // CHECK-DAG: %[[ONE:.*]] = llvm.mlir.constant(1) : i64
    // CHECK-DAG: %[[B:.*]] = llvm.mlir.constant(256) : i64
    // CHECK-DAG: %[[SMEM:.*]] = llvm.mlir.constant(64 : i32) : i32
    // CHECK: %[[N:.*]] = llvm.sext %n : i32 to i64
    %c1 = arith.constant 1 : index
    %c256 = arith.constant 256 : index
    %smem = arith.constant 64 : i32
    %grid = arith.index_cast %n : i32 to index
    // CHECK-NEXT: gpu.launch_func <%s : !llvm.ptr> @kernels::@k blocks in (%[[N]], %[[ONE]], %[[ONE]]) threads in (%[[B]], %[[ONE]], %[[ONE]]) : i64 dynamic_shared_memory_size %[[SMEM]] args(%x : f32)
    %t = gpu.launch_func async [%s] @kernels::@k blocks in (%grid, %c1, %c1) threads in (%c256, %c1, %c1) dynamic_shared_memory_size %smem args(%x : f32)
    // CHECK-NEXT: gpu.launch_func <%s : !llvm.ptr> @kernels::@k clusters in (%[[ONE]], %[[ONE]], %[[ONE]])
    gpu.launch_func [%t] @kernels::@k clusters in (%c1, %c1, %c1) blocks in (%grid, %c1, %c1) threads in (%c256, %c1, %c1) args(%x : f32)
    // CHECK-NEXT: llvm.return
    func.return
  }

  // Branches, too; texts are printed through the C library.
  // CHECK-LABEL: llvm.func @branch(%c: i1, %i: i64)
  func.func @branch(%c: i1, %i: index) {
    // CHECK: llvm.cond_br %c, ^[[A:bb[0-9]+]](%i : i64), ^[[B:bb[0-9]+]]
    cf.cond_br %c, ^a(%i : index), ^b
  ^a(%x: index):
    // CHECK: ^[[A]](%x: i64):
    // CHECK: llvm.call @printf(%{{.*}}, %x) vararg(!llvm.func<i32 (ptr, ...)>) : (!llvm.ptr, i64) -> i32
    vector.print %x : index
    cf.br ^b
  ^b:
    func.return
  }
}
