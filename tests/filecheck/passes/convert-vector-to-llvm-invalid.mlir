// RUN: %fly-opt --convert-vector-to-llvm --verify-diagnostics %s

func.func @f(%v: vector<2x4xf32>, %i: index) -> f32 {
  // expected-error @+1 {{failed to legalize operation 'vector.extract' with a dynamic position in a vector of several dimensions}}
  %0 = vector.extract %v[%i, 1] : f32 from vector<2x4xf32>
  func.return %0 : f32
}
