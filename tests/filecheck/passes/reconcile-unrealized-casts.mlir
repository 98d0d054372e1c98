// RUN: %fly-opt --reconcile-unrealized-casts %s | FileCheck %s

// CHECK-LABEL: func.func @back(%a: i64) -> i64
func.func @back(%a: i64) -> i64 {
  // CHECK-NEXT: return %a : i64
  %0 = builtin.unrealized_conversion_cast %a : i64 to index
  %1 = builtin.unrealized_conversion_cast %0 : index to i64
  func.return %1 : i64
}

// One nobody uses goes too.
// CHECK-LABEL: func.func @unused(%a: i64)
func.func @unused(%a: i64) {
  // CHECK-NEXT: return
  %0 = builtin.unrealized_conversion_cast %a : i64 to index
  func.return
}
