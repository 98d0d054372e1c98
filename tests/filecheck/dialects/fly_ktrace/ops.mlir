// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// CHECK-LABEL: @events(
func.func @events(%p: i64) {
  // CHECK: fly_ktrace.mark "a"{{$}}
  fly_ktrace.mark "a"
  // CHECK: fly_ktrace.mark "b" payload %p : i64{{$}}
  fly_ktrace.mark "b" payload %p : i64 {payload_type = "uint64"}
  // CHECK: fly_ktrace.range_push "outer" payload %p : i64 {payload_type = "int64"}
  fly_ktrace.range_push "outer" payload %p : i64 {payload_type = "int64"}
  // CHECK: fly_ktrace.range_push ""
  "fly_ktrace.range_push"() <{event_name = ""}> : () -> ()
  // CHECK: fly_ktrace.range_pop{{$}}
  fly_ktrace.range_pop
  // CHECK: fly_ktrace.range_pop payload %p : i64 {x}
  fly_ktrace.range_pop payload %p : i64 {x}
  // CHECK: %[[T:.*]] = fly_ktrace.range_start "c" payload %p : i64 {payload_type = "double", x} -> i32
  %t = fly_ktrace.range_start "c" payload %p : i64 {x, payload_type = "double"} -> i32
  // CHECK: fly_ktrace.range_stop %[[T]], "c" payload %p : i64 {payload_type = "int64"} : i32
  fly_ktrace.range_stop %t, "c" payload %p : i64 {payload_type = "int64"} : i32
  // CHECK: %[[N:.*]] = fly_ktrace.inactive_token -> i64
  %n = fly_ktrace.inactive_token -> i64
  // CHECK: fly_ktrace.range_stop %[[N]], "d" : i64
  fly_ktrace.range_stop %n, "d" : i64
  func.return
}
