// RUN: %fly-opt --convert-gpu-to-nvvm --verify-diagnostics --split-input-file %s

gpu.module @kernels {
  gpu.func @k(%p: !llvm.ptr<1>) kernel {
    // expected-error @+1 {{failed to legalize operation 'gpu.num_subgroups' that was explicitly marked illegal}}
    %0 = gpu.num_subgroups : index
    %1 = arith.index_cast %0 : index to i64
    llvm.store %1, %p : i64, !llvm.ptr<1>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-error @+1 {{failed to legalize operation 'gpu.func' with private attributions}}
  gpu.func @k() private(%w : memref<4xf32, #gpu.address_space<private>>) kernel {
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @k(%m: memref<?xf32>, %p: !llvm.ptr<1>, %i: index) kernel {
    // expected-error @+1 {{only memrefs of a static shape in row-major order are bare pointers}}
    %x = memref.load %m[%i] : memref<?xf32>
    llvm.store %x, %p : f32, !llvm.ptr<1>
    gpu.return
  }
}
