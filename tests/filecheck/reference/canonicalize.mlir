// RUN: %fly-opt --allow-unregistered-dialect --fly-canonicalize %s | FileCheck %s

// What a static value is is in its type, so the ops that computed it go.

// CHECK: func.func @static(%x: i32) {
// CHECK-NEXT: %[[N:.*]] = fly.make_int_tuple() : () -> !fly.int_tuple<32>
// CHECK-NEXT: %[[S:.*]] = fly.make_int_tuple(%x) : (i32) -> !fly.int_tuple<(?,8)>
// CHECK-NEXT: "test.use"(%[[N]], %[[S]])
func.func @static(%x: i32) {
  %t = fly.static : !fly.layout<(4,8):(8,1)>
  %n = fly.size(%t) : (!fly.layout<(4,8):(8,1)>) -> !fly.int_tuple<32>
  %s = fly.make_shape(%x) : (i32) -> !fly.int_tuple<(?,8)>
  "test.use"(%n, %s) : (!fly.int_tuple<32>, !fly.int_tuple<(?,8)>) -> ()
  func.return
}
