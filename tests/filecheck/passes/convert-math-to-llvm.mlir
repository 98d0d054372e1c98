// RUN: %fly-opt --convert-math-to-llvm %s | FileCheck %s

// CHECK-LABEL: func.func @math(%x: f32, %v: vector<4xf32>, %i: i32)
func.func @math(%x: f32, %v: vector<4xf32>, %i: i32) -> f32 {
  // CHECK: llvm.intr.fabs(%x) : (f32) -> f32
  %0 = math.absf %x : f32
  // CHECK: llvm.intr.exp2(%v) {fastmathFlags = #llvm.fastmath<fast>} : (vector<4xf32>) -> vector<4xf32>
  %1 = math.exp2 %v fastmath<fast> : vector<4xf32>
  // CHECK: llvm.intr.fma(%x, %x, %{{.*}}) : (f32, f32, f32) -> f32
  %2 = math.fma %x, %x, %0 : f32
  // CHECK: llvm.intr.ctpop(%i) : (i32) -> i32
  %3 = math.ctpop %i : i32
  // CHECK: "llvm.intr.ctlz"(%i) <{is_zero_poison = false}> : (i32) -> i32
  %4 = math.ctlz %i : i32
  // CHECK: %[[R:.*]] = llvm.intr.sqrt(%x) : (f32) -> f32
  // CHECK-NEXT: llvm.fdiv %{{.*}}, %[[R]] : f32
  %5 = math.rsqrt %x : f32
  // No intrinsic: left for a pass that expands it.
  // CHECK: math.erf %x : f32
  %6 = math.erf %x : f32
  func.return %6 : f32
}
