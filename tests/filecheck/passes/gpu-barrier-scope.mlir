// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s
// RUN: %fly-opt --convert-gpu-to-rocdl %s | FileCheck %s --check-prefix=ROCDL
// RUN: %fly-opt --convert-gpu-to-nvvm %s | FileCheck %s --check-prefix=NVVM
// RUN: %fly-opt --convert-fly-to-cpu %s | FileCheck %s --check-prefix=CPU

// A barrier of the block, and one of the lanes of a warp.

gpu.module @m {
  // CHECK-LABEL: gpu.func @meet
  // ROCDL-LABEL: @meet
  // NVVM-LABEL: @meet
  // CPU-LABEL: @meet
  gpu.func @meet() kernel {
    // CHECK: gpu.barrier{{$}}
    // ROCDL: llvm.fence syncscope("workgroup") release
    // ROCDL: rocdl.s.barrier
    // NVVM: nvvm.barrier
    // CPU: gpu.barrier{{$}}
    gpu.barrier
    // CHECK: gpu.barrier scope <subgroup>
    // ROCDL: llvm.fence syncscope("wavefront") release
    // ROCDL: rocdl.wave.barrier
    // ROCDL: llvm.fence syncscope("wavefront") acquire
    // NVVM: nvvm.bar.warp.sync
    // CPU: gpu.barrier scope <subgroup>
    gpu.barrier scope <subgroup>
    // CHECK: gpu.barrier{{$}}
    gpu.barrier scope <workgroup>
    gpu.return
  }
}
