// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-debuginfo %s | FileCheck --check-prefix=LOC %s

// MLIR writes the aliases of most locations at the end of a file.

#loc = loc("kernel.py":1:0)
// CHECK: func.func @f(%arg0: i32) -> i32
// LOC: func.func @f
func.func @f(%arg0: i32 loc("x"(#loc1))) -> i32 {
  // CHECK: arith.addi
  // LOC: arith.addi {{.*}} loc(callsite("inner.py":3:4 at "kernel.py":2:5))
  %0 = arith.addi %arg0, %arg0 : i32 loc(#loc3)
  return %0 : i32 loc(#loc2)
} loc(#loc)
#loc1 = loc("kernel.py":2:5)
#loc2 = loc("inner.py":3:4)
#loc3 = loc(callsite(#loc2 at #loc1))
