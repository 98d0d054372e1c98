// RUN: %fly-opt --cse --allow-unregistered-dialect %s | FileCheck %s

// CHECK-LABEL: func.func @straight(%x: i32, %y: i32)
func.func @straight(%x: i32, %y: i32) -> (i32, i32) {
  // CHECK-NEXT: %[[A:.*]] = arith.addi %x, %y : i32
  // CHECK-NEXT: return %[[A]], %[[A]]
  %a = arith.addi %x, %y : i32
  %b = arith.addi %x, %y : i32
  %dead = arith.muli %x, %y : i32
  func.return %a, %b : i32, i32
}
// What is made in one branch is not known in the other, nor behind them; what dominates both is.
// CHECK-LABEL: func.func @branches(%c: i1, %x: i32)
func.func @branches(%c: i1, %x: i32) -> i32 {
  // CHECK-NEXT: %[[A:.*]] = arith.addi %x, %x : i32
  %a = arith.addi %x, %x : i32
  // CHECK-NEXT: cf.cond_br %c, ^[[T:.*]], ^[[E:.*]]
  cf.cond_br %c, ^then, ^else
^then:
  // CHECK: %[[M0:.*]] = arith.muli %[[A]], %[[A]]
  // CHECK-NEXT: cf.br ^[[J:.*]](%[[M0]] : i32)
  %b = arith.addi %x, %x : i32
  %m0 = arith.muli %a, %b : i32
  cf.br ^end(%m0 : i32)
^else:
  // CHECK: %[[M1:.*]] = arith.muli %[[A]], %[[A]]
  // CHECK-NEXT: cf.br ^[[J]](%[[M1]] : i32)
  %m1 = arith.muli %a, %a : i32
  cf.br ^end(%m1 : i32)
^end(%r: i32):
  // CHECK: %[[M2:.*]] = arith.muli %[[A]], %[[A]]
  // CHECK-NEXT: %[[S:.*]] = arith.addi %{{.*}}, %[[M2]]
  %m2 = arith.muli %a, %a : i32
  %s = arith.addi %r, %m2 : i32
  func.return %s : i32
}
// CHECK-LABEL: func.func @regions(%c: i1, %x: i32)
func.func @regions(%c: i1, %x: i32) -> i32 {
  // CHECK-NEXT: %[[A:.*]] = arith.addi %x, %x : i32
  %a = arith.addi %x, %x : i32
  // CHECK: scf.if
  // CHECK-NEXT: %[[M:.*]] = arith.muli %[[A]], %x
  // CHECK-NEXT: scf.yield %[[M]]
  %i = scf.if %c -> (i32) {
    %b = arith.addi %x, %x : i32
    %m = arith.muli %b, %x : i32
    scf.yield %m : i32
  } else {
    scf.yield %x : i32
  }
  // CHECK: arith.muli %[[A]], %x
  %m = arith.muli %a, %x : i32
  %s = arith.addi %m, %i : i32
  func.return %s : i32
}
// Reads are shared until something may write.
// CHECK-LABEL: func.func @reads(%p: !llvm.ptr)
func.func @reads(%p: !llvm.ptr) -> (i32, i32, i32) {
  // CHECK-NEXT: %[[A:.*]] = llvm.load %p
  // CHECK-NEXT: "test.write"
  // CHECK-NEXT: %[[C:.*]] = llvm.load %p
  // CHECK-NEXT: return %[[A]], %[[A]], %[[C]]
  %a = llvm.load %p : !llvm.ptr -> i32
  %b = llvm.load %p : !llvm.ptr -> i32
  "test.write"() : () -> ()
  %c = llvm.load %p : !llvm.ptr -> i32
  func.return %a, %b, %c : i32, i32, i32
}
