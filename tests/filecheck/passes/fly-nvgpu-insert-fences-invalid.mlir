// RUN: %fly-opt --fly-nvgpu-insert-fences --verify-diagnostics --split-input-file %s

gpu.module @kernels {
  gpu.func @misspelt(%p: !llvm.ptr<3>, %c: i32) kernel {
    // expected-error@+1 {{`fly_nvgpu.effects` is an array of writes_shared, reads_shared_async}}
    llvm.call_intrinsic "llvm.nvvm.mbarrier.init.shared"(%p, %c) {fly_nvgpu.effects = ["init"]} : (!llvm.ptr<3>, i32) -> ()
    gpu.return
  }
}
