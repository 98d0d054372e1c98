// RUN: %fly-opt --convert-fly-ktrace-to-rocdl %s | FileCheck %s

// Nothing is recorded: the events go, and tokens that travel are those of ranges nobody began.
// CHECK-LABEL: gpu.func @k
// CHECK-NOT: fly_ktrace
gpu.module @kernels {
  gpu.func @k(%n: i64, %p: !llvm.ptr<1>, %c: i1) kernel {
    fly_ktrace.mark "a"
    fly_ktrace.range_push "b" payload %n : i64
    // CHECK: %[[R:.*]] = scf.if %c -> (i32) {
    %t = scf.if %c -> (i32) {
      // CHECK: %[[Z:.*]] = arith.constant 0 : i32
      // CHECK: scf.yield %[[Z]] : i32
      %s = fly_ktrace.range_start "c" -> i32
      scf.yield %s : i32
    } else {
      %u = fly_ktrace.inactive_token -> i32
      scf.yield %u : i32
    }
    fly_ktrace.range_stop %t, "c" : i32
    fly_ktrace.range_pop
    // CHECK: llvm.store %n, %p
    llvm.store %n, %p : i64, !llvm.ptr<1>
    gpu.return
  }
}
// CHECK-NOT: fly_ktrace
