// RUN: %fly-opt --pass-pipeline='builtin.module(fly-canonicalize,func.func(fly-layout-lowering),canonicalize,cse)' %s | FileCheck %s
// RUN: %fly-opt --fly-canonicalize --mlir-print-ir-after-all --mlir-timing -o %t %s 2>&1 | FileCheck %s --check-prefix=AFTER

// CHECK-LABEL: @f(%x: i32)
// CHECK-NEXT: %[[C:.*]] = arith.constant 8 : i32
// CHECK-NEXT: %[[S:.*]] = arith.muli %x, %[[C]] : i32
// CHECK-NEXT: return %[[S]] : i32

// AFTER: ms  parse
// AFTER: ms  verify
// AFTER: ms  fly-canonicalize
// AFTER: IR Dump After fly-canonicalize
// AFTER: fly.make_int_tuple(%x)
// AFTER: ms  print



func.func @f(%x: i32) -> i32 {
  %s = fly.make_shape(%x) : (i32) -> !fly.int_tuple<(?,8)>
  %g = fly.get(%s) {mode = array<i32: 1>} : (!fly.int_tuple<(?,8)>) -> !fly.int_tuple<8>
  %n = fly.size(%s) : (!fly.int_tuple<(?,8)>) -> !fly.int_tuple<?{div=8}>
  %r = fly.get_scalar(%n) : (!fly.int_tuple<?{div=8}>) -> i32
  func.return %r : i32
}
