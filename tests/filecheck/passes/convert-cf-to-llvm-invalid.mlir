// RUN: %fly-opt --convert-cf-to-llvm --verify-diagnostics %s

gpu.module @kernels {
  gpu.func @k(%c: i1) kernel {
    // expected-error @+1 {{failed to legalize operation 'cf.assert' in device code}}
    cf.assert %c, "must hold"
    gpu.return
  }
}
