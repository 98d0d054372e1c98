// RUN: %fly-opt --gpu-to-llvm --verify-diagnostics %s

module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
  func.func @host(%n: index, %s: !gpu.async.token, %t: !gpu.async.token) {
    // expected-error @+1 {{failed to legalize operation 'gpu.launch_func' with more than one async dependency}}
    gpu.launch_func [%s, %t] @kernels::@k blocks in (%n, %n, %n) threads in (%n, %n, %n)
    func.return
  }
}
