// RUN: %fly-opt --gpu-module-to-binary='format=assembly' %s | FileCheck %s
// RUN: %fly-opt --gpu-module-to-binary='format=fatbin' %s | FileCheck %s --check-prefix=CODE
// RUN: %fly-opt --gpu-module-to-binary='format=llvm' %s | FileCheck %s --check-prefix=IR

// One object for each target; AMD's code is a code object, NVIDIA's is PTX.
// CHECK-NOT: gpu.module
// CHECK: gpu.binary @kernels [#gpu.object<#rocdl.target<chip = "gfx942">, properties = {O = 2 : i32}, kernels = <[#gpu.kernel_metadata<"k", !llvm.func<void (ptr<1>, i32)>>]>, assembly = "{{.*}}v_mov_b32{{.*}}s_endpgm
// CHECK-SAME: #gpu.object<#nvvm.target<chip = "sm_90", features = "+ptx83">{{.*}}assembly = "{{.*}}.visible .entry k(
// CODE: gpu.binary @kernels [#gpu.object<#rocdl.target<chip = "gfx942">, kernels = <[#gpu.kernel_metadata<"k", !llvm.func<void (ptr<1>, i32)>, metadata = {agpr_count = 0 : i64, group_segment_fixed_size = 0 : i64, max_flat_workgroup_size = 64 : i64,
// CODE-SAME: wavefront_size = 64 : i64}>]>, "\7FELF
// IR: offload = "{{.*}}define protected amdgpu_kernel void @k(ptr addrspace(1) %a0, i32 %a1)
gpu.module @kernels [#rocdl.target<chip = "gfx942">, #nvvm.target<chip = "sm_90", features = "+ptx83">] {
  llvm.func @k(%p: !llvm.ptr<1>, %i: i32) attributes {gpu.kernel, nvvm.kernel, rocdl.kernel, rocdl.reqd_work_group_size = array<i32: 64, 1, 1>} {
    llvm.store %i, %p {alignment = 4 : i64} : i32, !llvm.ptr<1>
    llvm.return
  }
}
