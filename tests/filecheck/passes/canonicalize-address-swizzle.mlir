// RUN: %fly-opt --canonicalize --allow-unregistered-dialect %s | FileCheck %s

// The swizzle of an address without the multiples of its period (1024 bytes here): they are added behind it, so that all
// accesses from one pointer share a swizzle, and the distance becomes part of the instruction.
gpu.module @m {
  // CHECK-LABEL: gpu.func @addresses(%p: !llvm.ptr<3>)
  gpu.func @addresses(%p: !llvm.ptr<3>) kernel {
    // CHECK-DAG: %[[MASK:.*]] = arith.constant 896 : i64
    // CHECK-DAG: %[[SHIFT:.*]] = arith.constant 3 : i64
    // CHECK-DAG: %[[FAR:.*]] = arith.constant 8192 : i64
    // CHECK-DAG: %[[BACK:.*]] = arith.constant -1024 : i64
    %mask = arith.constant 896 : i64
    %shift = arith.constant 3 : i64
    // CHECK: %[[A:.*]] = llvm.ptrtoint %p
    // CHECK-NEXT: %[[AND:.*]] = arith.andi %[[A]], %[[MASK]]
    // CHECK-NEXT: %[[HIGH:.*]] = arith.shrui %[[AND]], %[[SHIFT]]
    // CHECK-NEXT: %[[S:.*]] = arith.xori %[[A]], %[[HIGH]]
    // CHECK-NEXT: %[[X:.*]] = arith.addi %[[S]], %[[FAR]]
    // CHECK-NEXT: "test.use"(%[[X]])
    %q = llvm.getelementptr %p[4096] : (!llvm.ptr<3>) -> !llvm.ptr<3>, f16
    %a = llvm.ptrtoint %q : !llvm.ptr<3> to i64
    %a1 = arith.andi %a, %mask : i64
    %a2 = arith.shrui %a1, %shift : i64
    %a3 = arith.xori %a, %a2 : i64
    "test.use"(%a3) : (i64) -> ()
    // What is no multiple stays inside: 8256 bytes are 64 and 8 periods, -32 bytes are 992 and one back.
    // CHECK: %[[G:.*]] = llvm.getelementptr %p[32]
    // CHECK: %[[GA:.*]] = llvm.ptrtoint %[[G]]
    // CHECK: %[[GS:.*]] = arith.xori %[[GA]]
    // CHECK-NEXT: %[[Y:.*]] = arith.addi %[[GS]], %[[FAR]]
    // CHECK-NEXT: "test.use"(%[[Y]])
    %r = llvm.getelementptr %p[4128] : (!llvm.ptr<3>) -> !llvm.ptr<3>, f16
    %b = llvm.ptrtoint %r : !llvm.ptr<3> to i64
    %b1 = arith.andi %b, %mask : i64
    %b2 = arith.shrui %b1, %shift : i64
    %b3 = arith.xori %b, %b2 : i64
    "test.use"(%b3) : (i64) -> ()
    // CHECK: %[[N:.*]] = llvm.getelementptr %p[496]
    // CHECK: %[[NA:.*]] = llvm.ptrtoint %[[N]]
    // CHECK: %[[NS:.*]] = arith.xori %[[NA]]
    // CHECK-NEXT: %[[Z:.*]] = arith.addi %[[NS]], %[[BACK]]
    // CHECK-NEXT: "test.use"(%[[Z]])
    %s = llvm.getelementptr %p[-16] : (!llvm.ptr<3>) -> !llvm.ptr<3>, f16
    %c = llvm.ptrtoint %s : !llvm.ptr<3> to i64
    %c1 = arith.andi %c, %mask : i64
    %c2 = arith.shrui %c1, %shift : i64
    %c3 = arith.xori %c, %c2 : i64
    "test.use"(%c3) : (i64) -> ()
    gpu.return
  }
}
