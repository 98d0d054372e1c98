// RUN: %fly-opt --convert-rocdl-fastmath-ops %s | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: gpu.func @k
  gpu.func @k(%x: f32, %h: f16, %p: !llvm.ptr<1>) kernel {
    // CHECK: rocdl.exp2 %x f32 -> f32
    %0 = math.exp2 %x fastmath<fast> : f32
    // CHECK: rocdl.exp2 %{{.*}} f32 -> f32
    %1 = math.exp2 %0 fastmath<afn> : f32
    // Exact, of another type, another function: as they are.
    // CHECK: math.exp2 %x : f32
    %2 = math.exp2 %x : f32
    // CHECK: math.exp2 %h fastmath<fast> : f16
    %3 = math.exp2 %h fastmath<fast> : f16
    // CHECK: math.log2 %x fastmath<fast> : f32
    %4 = math.log2 %x fastmath<fast> : f32
    llvm.store %1, %p : f32, !llvm.ptr<1>
    gpu.return
  }
}

// Host code is not AMD's.
// CHECK-LABEL: func.func @host
// CHECK-NEXT: math.exp2
func.func @host(%x: f32) -> f32 {
  %0 = math.exp2 %x fastmath<fast> : f32
  func.return %0 : f32
}
