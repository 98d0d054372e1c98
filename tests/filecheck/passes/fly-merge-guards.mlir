// RUN: %fly-opt --fly-merge-guards --allow-unregistered-dialect %s | FileCheck %s

// Reads under one condition become one, at the place of the last: its address is known there. Other conditions, other
// reads and sums of addresses in between do not matter.
// CHECK-LABEL: func.func @merged
// CHECK-NEXT: scf.if %d -> (f32)
// CHECK: llvm.load
// CHECK: llvm.getelementptr
// CHECK-NEXT: %[[R:.*]]:3 = scf.if %c -> (f32, f32, f32) {
// CHECK-NEXT: %[[A:.*]] = llvm.load %p
// CHECK-NEXT: %[[B:.*]] = llvm.load %q
// CHECK-NEXT: %[[C:.*]] = llvm.load
// CHECK-NEXT: scf.yield %[[A]], %[[B]], %[[C]]
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %x, %y, %x
// CHECK-NEXT: }
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1, %[[R]]#2
func.func @merged(%c: i1, %d: i1, %p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %x: f32, %y: f32) -> (f32, f32, f32, f32) {
  %0 = scf.if %c -> (f32) {
    %a = llvm.load %p : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %x : f32
  }
  %1 = scf.if %d -> (f32) {
    %a = llvm.load %p : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %x : f32
  }
  %2 = scf.if %c -> (f32) {
    %a = llvm.load %q : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %y : f32
  }
  %g = llvm.getelementptr %q[4] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
  %3 = scf.if %c -> (f32) {
    %a = llvm.load %g : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %x : f32
  }
  return %0, %2, %3, %1 : f32, f32, f32, f32
}

// A write in between, a result that is needed before, work that hides the latency, a read that must be where it is: all
// stays.
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-8: scf.if %c -> (f32) {
// CHECK-NOT: scf.if
func.func @kept(%c: i1, %p: !llvm.ptr<1>, %x: f32) -> (f32, f32, f32, f32, f32, f32, f32, f32) {
  %0 = scf.if %c -> (f32) {
    %a = llvm.load %p : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %x : f32
  }
  llvm.store %x, %p : f32, !llvm.ptr<1>
  %1 = scf.if %c -> (f32) {
    %a = llvm.load %p : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %x : f32
  }
  "test.effect"() : () -> ()
  %2 = scf.if %c -> (f32) {
    %a = llvm.load %p : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %x : f32
  }
  %3 = scf.if %c -> (f32) {
    %a = llvm.load %p : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %2 : f32
  }
  "test.effect"() : () -> ()
  %4 = scf.if %c -> (f32) {
    %a = llvm.load %p : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %x : f32
  }
  %w = arith.mulf %x, %x : f32
  %5 = scf.if %c -> (f32) {
    %a = llvm.load %p : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %w : f32
  }
  "test.effect"() : () -> ()
  %6 = scf.if %c -> (f32) {
    %a = llvm.load volatile %p : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %x : f32
  }
  %7 = scf.if %c -> (f32) {
    %a = llvm.load volatile %p : !llvm.ptr<1> -> f32
    scf.yield %a : f32
  } else {
    scf.yield %x : f32
  }
  return %0, %1, %2, %3, %4, %5, %6, %7 : f32, f32, f32, f32, f32, f32, f32, f32
}
