// RUN: %fly-opt --pass-pipeline='builtin.module(gpu.module(convert-gpu-to-rocdl{chipset=gfx942 index-bitwidth=0 runtime=HIP}))' %s | FileCheck %s

// CHECK: gpu.module @kernels attributes {llvm.data_layout = "e-m:e-p:64:64
gpu.module @kernels {
  // CHECK-NEXT: llvm.mlir.global internal @__wg_memory_0() {addr_space = 3 : i32} : !llvm.array<32 x f32>
  // CHECK-NEXT: llvm.mlir.global external @shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<64 x i8>
  llvm.mlir.global external @shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<64 x i8>

  // CHECK-LABEL: llvm.func @ids(%p: !llvm.ptr<1>, %n: i64)
  // CHECK-SAME: {gpu.kernel, gpu.known_block_size = array<i32: 64, 2, 1>
  // CHECK-SAME: rocdl.flat_work_group_size = "128,128", rocdl.kernel
  // CHECK-SAME: rocdl.reqd_work_group_size = array<i32: 64, 2, 1>
  // CHECK-SAME: rocdl.waves_per_eu = 2 : i32}
  gpu.func @ids(%p: !llvm.ptr<1>, %n: index) kernel attributes {known_block_size = array<i32: 64, 2, 1>, rocdl.waves_per_eu = 2 : i32} {
    // CHECK: %[[T:.*]] = rocdl.workitem.id.x range <i32, 0, 64> : i32
    // CHECK-NEXT: %[[TW:.*]] = llvm.zext %[[T]] : i32 to i64
    %t = gpu.thread_id x
    // CHECK: %[[B:.*]] = rocdl.workgroup.id.y : i32
    // CHECK-NEXT: %[[BW:.*]] = llvm.zext %[[B]] : i32 to i64
    %b = gpu.block_id y
    // A size that is known is a constant.
    %d = gpu.block_dim y
    // CHECK: %[[G:.*]] = rocdl.grid.dim.x : i64
    %g = gpu.grid_dim x
    // CHECK: %[[S:.*]] = llvm.add %[[TW]], %[[BW]] : i64
    %0 = arith.addi %t, %b : index
    // CHECK: %[[M:.*]] = llvm.mul %[[S]], %{{.*}} : i64
    %1 = arith.muli %0, %d : index
    %2 = arith.addi %1, %g : index
    %3 = arith.addi %2, %n : index
    %4 = arith.index_cast %3 : index to i32
    // CHECK: llvm.store
    llvm.store %4, %p : i32, !llvm.ptr<1>
    // CHECK: llvm.return
    gpu.return
  }

  // CHECK-LABEL: llvm.func @lanes
  gpu.func @lanes(%p: !llvm.ptr<1>, %x: f32, %i: i32, %c: i1) kernel {
    // CHECK: %[[PAT:.*]] = llvm.mlir.constant(4127 : i32) : i32
    // CHECK: %[[L:.*]] = rocdl.mbcnt.lo %{{.*}}, %{{.*}} {res_attrs = [{llvm.noundef, llvm.range = #llvm.constant_range<i32, 0, 33>}]} : (i32, i32) -> i32
    // CHECK-NEXT: rocdl.mbcnt.hi %{{.*}}, %[[L]] {res_attrs = [{llvm.noundef, llvm.range = #llvm.constant_range<i32, 0, 64>}]} : (i32, i32) -> i32
    %lane = gpu.lane_id
    // CHECK: rocdl.wavefrontsize : i32
    %size = gpu.subgroup_size : index
    %sum = arith.addi %lane, %size : index
    %word = arith.index_cast %sum : index to i64
    llvm.store %word, %p : i64, !llvm.ptr<1>
    %c4 = arith.constant 4 : i32
    %c64 = arith.constant 64 : i32
    // A known xor within 32 lanes is one instruction: (4 << 10) | 31.
    // CHECK: %[[W:.*]] = llvm.bitcast %x : f32 to i32
    // CHECK-NEXT: %[[Z:.*]] = rocdl.ds_swizzle %[[W]], %[[PAT]] : (i32, i32) -> i32
    // CHECK-NEXT: llvm.bitcast %[[Z]] : i32 to f32
    %s, %v = gpu.shuffle xor %x, %c4, %c64 : f32
    // Any other pulls from a computed lane; out of its segment a lane reads itself.
    // CHECK: %[[OK:.*]] = llvm.icmp "eq"
    // CHECK-NEXT: %[[FROM:.*]] = llvm.select %[[OK]]
    // CHECK: rocdl.ds_bpermute %{{.*}}, %{{.*}} : (i32, i32) -> i32
    %u, %w = gpu.shuffle up %s, %i, %c64 : f32
    // CHECK: rocdl.ballot %c : i64
    %m = "gpu.ballot"(%c) : (i1) -> i64
    // CHECK: rocdl.readfirstlane
    %f = gpu.subgroup_broadcast %u, first_active_lane : f32
    llvm.store %f, %p : f32, !llvm.ptr<1>
    // CHECK: llvm.fence syncscope("workgroup") release
    // CHECK-NEXT: rocdl.s.barrier
    // CHECK-NEXT: llvm.fence syncscope("workgroup") acquire
    gpu.barrier
    llvm.store %m, %p : i64, !llvm.ptr<1>
    gpu.return
  }

  // Branches, arithmetic and elements of vectors are converted on the way; slices are not.
  // CHECK-LABEL: llvm.func @body
  gpu.func @body(%p: !llvm.ptr<1>, %v: vector<4xf32>, %c: i1) kernel {
    // CHECK: llvm.cond_br %c
    cf.cond_br %c, ^a, ^b
  ^a:
    // CHECK: llvm.extractelement %v
    %e = vector.extract %v[1] : f32 from vector<4xf32>
    // CHECK: llvm.intr.exp2
    %x = math.exp2 %e : f32
    llvm.store %x, %p : f32, !llvm.ptr<1>
    // CHECK: vector.extract_strided_slice
    %s = vector.extract_strided_slice %v {offsets = [0], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
    llvm.store %s, %p : vector<2xf32>, !llvm.ptr<1>
    // CHECK: llvm.br
    cf.br ^b
  ^b:
    gpu.return
  }

  // Memory of the block is a global; a memref of it is the bare pointer.
  // CHECK-LABEL: llvm.func @memory(%p: !llvm.ptr<1>)
  gpu.func @memory(%p: !llvm.ptr<1>) workgroup(%w : memref<4x8xf32, #gpu.address_space<workgroup>>) kernel {
    // CHECK: %[[BASE:.*]] = llvm.mlir.addressof @__wg_memory_0 : !llvm.ptr<3>
    %t = gpu.thread_id x
    %c2 = arith.constant 2 : index
    // CHECK: %[[AT:.*]] = llvm.getelementptr %[[BASE]][%{{.*}}] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f32
    // CHECK: %[[X:.*]] = llvm.load %[[AT]] {alignment = 4 : i64} : !llvm.ptr<3> -> f32
    %x = memref.load %w[%c2, %t] : memref<4x8xf32, #gpu.address_space<workgroup>>
    llvm.store %x, %p : f32, !llvm.ptr<1>
    gpu.return
  }
}

// Host code is not touched.
// CHECK-LABEL: func.func @host
// CHECK-NEXT: arith.addi
func.func @host(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  func.return %0 : i32
}
