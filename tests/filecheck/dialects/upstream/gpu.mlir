// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// Device code, launches and compiled objects. Text forms are upstream's.

module attributes {gpu.container_module} {
  // CHECK: gpu.module @kernels [#rocdl.target<O = 3, chip = "gfx942", abi = "500", flags = {fast, no_wave64}>, #nvvm.target<chip = "sm_90", features = "+ptx83">] {
  gpu.module @kernels [#rocdl.target<O = 3, chip = "gfx942", abi = "500", flags = {fast, no_wave64}>, #nvvm.target<chip = "sm_90", features = "+ptx83">] {
    // CHECK: gpu.func @k(%{{.*}}: i32 {llvm.noundef}, %{{.*}}: f32) workgroup(%{{.*}}: memref<4xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) private(%{{.*}}: memref<4xf32, #gpu.address_space<private>>) kernel attributes {known_block_size = array<i32: 64, 1, 1>, rocdl.waves_per_eu = 2 : i32} {
    gpu.func @k(%i: i32 {llvm.noundef}, %f: f32) workgroup(%w : memref<4xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) private(%p : memref<4xf32, #gpu.address_space<private>>) kernel attributes {known_block_size = array<i32: 64, 1, 1>, rocdl.waves_per_eu = 2 : i32} {
      // CHECK: %{{.*}} = gpu.thread_id x
      %0 = gpu.thread_id x
      // CHECK: %{{.*}} = gpu.block_id y upper_bound 64
      %1 = gpu.block_id y upper_bound 64
      // CHECK: %{{.*}} = gpu.block_dim z
      %2 = gpu.block_dim z
      // CHECK: %{{.*}} = gpu.grid_dim x
      %3 = gpu.grid_dim x
      // CHECK: %{{.*}} = gpu.global_id x
      %4 = gpu.global_id x
      // CHECK: %{{.*}} = gpu.lane_id
      %5 = gpu.lane_id
      // CHECK: %{{.*}} = gpu.subgroup_id : index
      %6 = gpu.subgroup_id : index
      // CHECK: %{{.*}} = gpu.subgroup_size upper_bound 64 : index
      %7 = gpu.subgroup_size upper_bound 64 : index
      // CHECK: %{{.*}} = gpu.num_subgroups : index
      %8 = gpu.num_subgroups : index
      // CHECK: %{{.*}} = gpu.cluster_id x
      %9 = gpu.cluster_id x
      // CHECK: %{{.*}} = gpu.cluster_dim x
      %10 = gpu.cluster_dim x
      // CHECK: %{{.*}} = gpu.cluster_block_id x
      %11 = gpu.cluster_block_id x
      // CHECK: %{{.*}} = gpu.cluster_dim_blocks x
      %12 = gpu.cluster_dim_blocks x
      // CHECK: %{{.*}}, %{{.*}} = gpu.shuffle xor %{{.*}}, %{{.*}}, %{{.*}} : f32
      %13, %14 = gpu.shuffle xor %f, %i, %i : f32
      // CHECK: %{{.*}} = gpu.subgroup_broadcast %{{.*}}, first_active_lane : f32
      %15 = gpu.subgroup_broadcast %f, first_active_lane : f32
      // CHECK: %{{.*}} = gpu.subgroup_broadcast %{{.*}}, specific_lane %{{.*}} : f32
      %16 = gpu.subgroup_broadcast %f, specific_lane %i : f32
      // CHECK: gpu.printf "i = %{{.*}}\0A", %{{.*}} : i32
      gpu.printf "i = %d\0A", %i : i32
      // CHECK: gpu.barrier
      gpu.barrier
      // CHECK: gpu.return
      gpu.return
    }
    // CHECK: gpu.func @h(%{{.*}}: i32) -> i32 {
    gpu.func @h(%i: i32) -> (i32) {
      // CHECK: gpu.return %{{.*}} : i32
      gpu.return %i : i32
    }
  }
  // CHECK: gpu.binary @code [#gpu.object<#rocdl.target<chip = "gfx942">, kernels = <[#gpu.kernel_metadata<"f", !llvm.func<void (ptr, i32)>, arg_attrs = [], metadata = {vgpr_count = 3 : i64}>]>, bin = "\7FELF\00">]
  gpu.binary @code [#gpu.object<#rocdl.target<chip = "gfx942">, kernels = <[#gpu.kernel_metadata<"f", !llvm.func<void (ptr, i32)>, arg_attrs = [], metadata = {vgpr_count = 3 : i64}>]>, bin = "\7FELF\00">]
  // CHECK: gpu.binary @other <#gpu.select_object<1 : i64>> [#gpu.object<#nvvm.target, assembly = ".version 8.3\0A">, #gpu.object<#nvvm.target, properties = {O = 3 : i32}, offload = "BC">]
  gpu.binary @other <#gpu.select_object<1 : i64>> [#gpu.object<#nvvm.target, assembly = ".version 8.3\0A">, #gpu.object<#nvvm.target, properties = {O = 3 : i32}, offload = "BC">]
  // CHECK: func.func @host(%{{.*}}: !gpu.async.token, %{{.*}}: index, %{{.*}}: i32, %{{.*}}: f32) {
  func.func @host(%s: !gpu.async.token, %n: index, %i: i32, %f: f32) {
    // CHECK: %{{.*}} = gpu.launch_func async [%{{.*}}] @kernels::@k blocks in (%{{.*}}, %{{.*}}, %{{.*}}) threads in (%{{.*}}, %{{.*}}, %{{.*}}) dynamic_shared_memory_size %{{.*}} args(%{{.*}} : i32, %{{.*}} : f32)
    %0 = gpu.launch_func async [%s] @kernels::@k blocks in (%n, %n, %n) threads in (%n, %n, %n) dynamic_shared_memory_size %i args(%i : i32, %f : f32)
    // CHECK: return
    func.return
  }
  // CHECK: func.func @lowered(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i32, %{{.*}}: f32) {
  func.func @lowered(%s: !llvm.ptr, %n: i64, %i: i32, %f: f32) {
    // CHECK: gpu.launch_func <%{{.*}} : !llvm.ptr> @kernels::@k clusters in (%{{.*}}, %{{.*}}, %{{.*}}) blocks in (%{{.*}}, %{{.*}}, %{{.*}}) threads in (%{{.*}}, %{{.*}}, %{{.*}}) : i64 args(%{{.*}} : i32, %{{.*}} : f32)
    gpu.launch_func <%s : !llvm.ptr> @kernels::@k clusters in (%n, %n, %n) blocks in (%n, %n, %n) threads in (%n, %n, %n) : i64 args(%i : i32, %f : f32)
    // CHECK: return
    func.return
  }
}
