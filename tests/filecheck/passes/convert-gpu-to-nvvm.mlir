// RUN: %fly-opt --pass-pipeline='builtin.module(gpu.module(convert-gpu-to-nvvm))' %s | FileCheck %s

// CHECK: gpu.module @kernels attributes {llvm.data_layout = "e-
gpu.module @kernels {
  // A struct is read in words, so its place is aligned.
  // CHECK-LABEL: llvm.func @ids(%p: !llvm.ptr<1>, %s: !llvm.struct<packed (i32, i64)> {llvm.alignstack = 8 : i64})
  // CHECK-SAME: {gpu.kernel
  // CHECK-SAME: nvvm.kernel, nvvm.minctasm = 2 : i32, nvvm.reqntid = array<i32: 64, 2, 1>}
  gpu.func @ids(%p: !llvm.ptr<1>, %s: !llvm.struct<packed (i32, i64)>) kernel attributes {known_block_size = array<i32: 64, 2, 1>, nvvm.minctasm = 2 : i32} {
    // CHECK: %[[T:.*]] = nvvm.read.ptx.sreg.tid.x range <i32, 0, 64> : i32
    // CHECK-NEXT: llvm.zext %[[T]] : i32 to i64
    %t = gpu.thread_id x
    // CHECK: nvvm.read.ptx.sreg.ctaid.y : i32
    %b = gpu.block_id y
    // CHECK: nvvm.read.ptx.sreg.nctaid.x : i32
    %g = gpu.grid_dim x
    %0 = arith.addi %t, %b : index
    %1 = arith.addi %0, %g : index
    %2 = arith.index_cast %1 : index to i32
    llvm.store %2, %p : i32, !llvm.ptr<1>
    // CHECK: llvm.return
    gpu.return
  }

  // CHECK-LABEL: llvm.func @lanes
  gpu.func @lanes(%p: !llvm.ptr<1>, %x: f64, %i: i32, %c: i1) kernel {
    %c1 = arith.constant 1 : i32
    %c16 = arith.constant 16 : i32
    %c32 = arith.constant 32 : i32
    // Each word of a value moves by itself.
    // CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : i32 -> i32
    // CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : i32 -> i32
    // CHECK-NOT: nvvm.shfl.sync bfly
    %s, %v = gpu.shuffle xor %x, %c1, %c32 : f64
    // Less than a warp pulls from a computed lane.
    // CHECK: nvvm.read.ptx.sreg.laneid range <i32, 0, 32> : i32
    // CHECK: nvvm.shfl.sync idx
    %u, %w = gpu.shuffle down %i, %c1, %c16 : i32
    // CHECK: nvvm.vote.sync ballot %{{.*}}, %c -> i32
    %m = "gpu.ballot"(%c) : (i1) -> i64
    // CHECK: nvvm.vote.sync any %{{.*}}, %c -> i1
    %a = "gpu.vote"(%c) <{mode = "any"}> : (i1) -> i1
    llvm.store %s, %p : f64, !llvm.ptr<1>
    llvm.store %u, %p : i32, !llvm.ptr<1>
    llvm.store %m, %p : i64, !llvm.ptr<1>
    llvm.store %a, %p : i1, !llvm.ptr<1>
    // CHECK: nvvm.barrier0
    gpu.barrier
    gpu.return
  }

  // CHECK-LABEL: llvm.func @print(%i: i32)
  gpu.func @print(%i: i32) kernel {
    // CHECK: %[[ROOM:.*]] = llvm.alloca %{{.*}} x !llvm.struct<(i32)> {alignment = 8 : i64} : (i32) -> !llvm.ptr
    // CHECK: %[[F:.*]] = llvm.mlir.addressof @printfFormat_0 : !llvm.ptr<1>
    // CHECK-NEXT: %[[G:.*]] = llvm.addrspacecast %[[F]] : !llvm.ptr<1> to !llvm.ptr
    // CHECK: llvm.store %i
    // CHECK: llvm.call @vprintf(%[[G]], %[[ROOM]]) : (!llvm.ptr, !llvm.ptr) -> i32
    gpu.printf "i = %d\n", %i : i32
    gpu.return
  }
}
