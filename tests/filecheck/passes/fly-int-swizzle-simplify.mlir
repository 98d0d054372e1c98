// RUN: %fly-opt --fly-int-swizzle-simplify --canonicalize --allow-unregistered-dialect %s | FileCheck %s

gpu.module @m {
  // A multiple of the period leaves the swizzle.
  // CHECK-LABEL: gpu.func @multiple(%x: i32, %k: i32)
  gpu.func @multiple(%x: i32, %k: i32) kernel {
    %c512 = arith.constant 512 : i32
    %c448 = arith.constant 448 : i32
    %c3 = arith.constant 3 : i32
    %big = arith.muli %k, %c512 : i32
    %sum = arith.addi %x, %big : i32
    %a = arith.andi %sum, %c448 : i32
    %h = arith.shrui %a, %c3 : i32
    %r = arith.xori %sum, %h : i32
    // CHECK: %[[A:.*]] = arith.andi %x, %{{.*}} : i32
    // CHECK-NEXT: %[[H:.*]] = arith.shrui %[[A]], %{{.*}} : i32
    // CHECK-NEXT: %[[X:.*]] = arith.xori %x, %[[H]] : i32
    // CHECK-NEXT: %[[BIG:.*]] = arith.muli %k, %{{.*}} : i32
    // CHECK-NEXT: %[[R:.*]] = arith.addi %[[X]], %[[BIG]] : i32
    // CHECK-NEXT: "test.use"(%[[R]])
    "test.use"(%r) : (i32) -> ()
    gpu.return
  }
  // Several addends, from either side, innermost first; i64 as well; what a tuple says about a leaf counts.
  // CHECK-LABEL: gpu.func @several(%x: i64, %k: i64, %n: i64)
  gpu.func @several(%x: i64, %k: i64, %n: i64) kernel {
    %c1024 = arith.constant 1024 : i64
    %c448 = arith.constant 448 : i64
    %c3 = arith.constant 3 : i64
    %t = fly.make_int_tuple(%n) : (i64) -> !fly.int_tuple<?{i64 div=512}>
    %big = arith.muli %k, %c1024 : i64
    %s0 = arith.addi %n, %x : i64
    %s1 = arith.addi %s0, %big : i64
    %a = arith.andi %s1, %c448 : i64
    %h = arith.shrui %a, %c3 : i64
    %r = arith.xori %s1, %h : i64
    // CHECK: %[[A:.*]] = arith.andi %x,
    // CHECK-NEXT: %[[H:.*]] = arith.shrui %[[A]],
    // CHECK-NEXT: %[[X:.*]] = arith.xori %x, %[[H]]
    // CHECK-NEXT: %[[R0:.*]] = arith.addi %[[X]], %n
    // CHECK: %[[R1:.*]] = arith.addi %[[R0]], %{{.*}} : i64
    // CHECK: "test.use"(%[[R1]],
    "test.use"(%r, %t) : (i64, !fly.int_tuple<?{i64 div=512}>) -> ()
    gpu.return
  }
  // Nothing is left: the swizzle of 0 is 0.
  // CHECK-LABEL: gpu.func @all(%k: i32)
  gpu.func @all(%k: i32) kernel {
    %c9 = arith.constant 9 : i32
    %c448 = arith.constant 448 : i32
    %c3 = arith.constant 3 : i32
    %big = arith.shli %k, %c9 : i32
    %a = arith.andi %big, %c448 : i32
    %h = arith.shrui %a, %c3 : i32
    %r = arith.xori %big, %h : i32
    // CHECK: %[[BIG:.*]] = arith.shli %k,
    // CHECK-NEXT: "test.use"(%[[BIG]])
    "test.use"(%r) : (i32) -> ()
    gpu.return
  }
  // Not a multiple; a mask with a hole; a shift beyond the mask; operands the other way round: all stay.
  // CHECK-LABEL: gpu.func @stays(%x: i32, %k: i32)
  gpu.func @stays(%x: i32, %k: i32) kernel {
    %c256 = arith.constant 256 : i32
    %c512 = arith.constant 512 : i32
    %c448 = arith.constant 448 : i32
    %c320 = arith.constant 320 : i32
    %c3 = arith.constant 3 : i32
    %c7 = arith.constant 7 : i32
    %half = arith.muli %k, %c256 : i32
    %big = arith.muli %k, %c512 : i32
    %s0 = arith.addi %x, %half : i32
    %a0 = arith.andi %s0, %c448 : i32
    %h0 = arith.shrui %a0, %c3 : i32
    %r0 = arith.xori %s0, %h0 : i32
    %s1 = arith.addi %x, %big : i32
    %a1 = arith.andi %s1, %c320 : i32
    %h1 = arith.shrui %a1, %c3 : i32
    %r1 = arith.xori %s1, %h1 : i32
    %a2 = arith.andi %s1, %c448 : i32
    %h2 = arith.shrui %a2, %c7 : i32
    %r2 = arith.xori %s1, %h2 : i32
    // CHECK: %[[S0:.*]] = arith.addi %x, %{{.*}}
    // CHECK: %[[R0:.*]] = arith.xori %[[S0]],
    // CHECK: %[[S1:.*]] = arith.addi %x, %{{.*}}
    // CHECK: %[[R1:.*]] = arith.xori %[[S1]],
    // CHECK: %[[R2:.*]] = arith.xori %[[S1]],
    // CHECK: "test.use"(%[[R0]], %[[R1]], %[[R2]])
    "test.use"(%r0, %r1, %r2) : (i32, i32, i32) -> ()
    gpu.return
  }
}
// Only kernels are touched.
// CHECK-LABEL: func.func @host(%x: i32, %k: i32)
func.func @host(%x: i32, %k: i32) -> i32 {
  %c512 = arith.constant 512 : i32
  %c448 = arith.constant 448 : i32
  %c3 = arith.constant 3 : i32
  %big = arith.muli %k, %c512 : i32
  %sum = arith.addi %x, %big : i32
  %a = arith.andi %sum, %c448 : i32
  %h = arith.shrui %a, %c3 : i32
  %r = arith.xori %sum, %h : i32
  // CHECK: %[[S:.*]] = arith.addi %x,
  // CHECK: %[[R:.*]] = arith.xori %[[S]],
  // CHECK-NEXT: return %[[R]]
  func.return %r : i32
}
