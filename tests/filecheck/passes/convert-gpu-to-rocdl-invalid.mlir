// RUN: %fly-opt --convert-gpu-to-rocdl --verify-diagnostics --split-input-file %s

gpu.module @kernels {
  gpu.func @k(%p: !llvm.ptr<1>) kernel {
    // expected-error @+1 {{failed to legalize operation 'gpu.cluster_id' that was explicitly marked illegal}}
    %0 = gpu.cluster_id x
    %1 = arith.index_cast %0 : index to i64
    llvm.store %1, %p : i64, !llvm.ptr<1>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @k(%p: !llvm.ptr<1>, %x: f32) kernel {
    // expected-error @+1 {{failed to legalize operation 'math.tan' that was explicitly marked illegal}}
    %0 = math.tan %x : f32
    llvm.store %0, %p : f32, !llvm.ptr<1>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @k(%i: i32) kernel {
    // expected-error @+1 {{gpu.printf}}
    gpu.printf "%d\n", %i : i32
    gpu.return
  }
}
