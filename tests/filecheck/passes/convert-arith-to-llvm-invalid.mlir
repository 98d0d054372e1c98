// RUN: %fly-opt --convert-arith-to-llvm --verify-diagnostics %s

// Floats of 8 bits have no instructions in llvm: they are converted before.
func.func @narrow(%x: f8E4M3FN) -> f32 {
  // expected-error @+1 {{failed to legalize operation 'arith.extf' from f8E4M3FN to f32}}
  %0 = arith.extf %x : f8E4M3FN to f32
  func.return %0 : f32
}
