// RUN: %fly-opt --allow-unregistered-dialect --fly-int-swizzle-simplify --cse %s | FileCheck %s

// Multiples of the swizzle's period are added behind it.

gpu.module @m {
  // CHECK-LABEL: gpu.func @k(
  gpu.func @k(%x: i32, %k: i32) kernel {
    // CHECK-DAG: %[[P:.*]] = arith.constant 512 : i32
    // CHECK-DAG: %[[M:.*]] = arith.constant 448 : i32
    // CHECK-DAG: %[[S:.*]] = arith.constant 3 : i32
    %c512 = arith.constant 512 : i32
    %c448 = arith.constant 448 : i32
    %c3 = arith.constant 3 : i32
    // CHECK: %[[BIG:.*]] = arith.muli %k, %[[P]] : i32
    // CHECK: %[[A:.*]] = arith.andi %x, %[[M]] : i32
    // CHECK: %[[H:.*]] = arith.shrui %[[A]], %[[S]] : i32
    // CHECK: %[[R:.*]] = arith.xori %x, %[[H]] : i32
    // CHECK: %[[T:.*]] = arith.addi %[[R]], %[[BIG]] : i32
    // CHECK: "test.use"(%[[T]])
    %big = arith.muli %k, %c512 : i32
    %sum = arith.addi %x, %big : i32
    %a = arith.andi %sum, %c448 : i32
    %h = arith.shrui %a, %c3 : i32
    %r = arith.xori %sum, %h : i32
    "test.use"(%r) : (i32) -> ()
    gpu.return
  }
}
