// RUN: %fly-opt --convert-scf-to-cf %s | FileCheck %s

func.func private @use(i32)

// CHECK-LABEL: func.func @loop(%n: index, %init: f32) -> f32
func.func @loop(%n: index, %init: f32) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: cf.br ^[[HEAD:bb[0-9]+]](%c0, %init : index, f32)
  // CHECK: ^[[HEAD]](%i: index, %x: f32):
  // CHECK-NEXT: %[[MORE:.*]] = arith.cmpi slt, %i, %n : index
  // CHECK-NEXT: cf.cond_br %[[MORE]], ^[[BODY:bb[0-9]+]], ^[[END:bb[0-9]+]]
  // CHECK: ^[[BODY]]:
  // CHECK-NEXT: %[[Y:.*]] = arith.addf %x, %x : f32
  // CHECK-NEXT: %[[NEXT:.*]] = arith.addi %i, %c1 : index
  // CHECK-NEXT: cf.br ^[[HEAD]](%[[NEXT]], %[[Y]] : index, f32)
  // CHECK: ^[[END]]:
  // CHECK-NEXT: return %x : f32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %init) -> (f32) {
    %y = arith.addf %x, %x : f32
    scf.yield %y : f32
  }
  func.return %r : f32
}

// What is asked of a loop stands on the branch that closes it.
// CHECK-LABEL: func.func @unrolled
// CHECK: cf.br ^{{.*}}(%{{.*}} : i32) {llvm.loop_annotation = #llvm.loop_annotation<unroll = <count = 4 : i32>>}
func.func @unrolled(%n: i32) {
  %c1 = arith.constant 1 : i32
  scf.for %i = %c1 to %n step %c1 : i32 {
    func.call @use(%i) : (i32) -> ()
  } {llvm.loop_annotation = #llvm.loop_annotation<unroll = <count = 4 : i32>>}
  func.return
}

// CHECK-LABEL: func.func @both(%c: i1, %a: i32, %b: i32) -> i32
func.func @both(%c: i1, %a: i32, %b: i32) -> i32 {
  // CHECK: cf.cond_br %c, ^[[T:bb[0-9]+]], ^[[E:bb[0-9]+]]
  // CHECK: ^[[T]]:
  // CHECK-NEXT: cf.br ^[[J:bb[0-9]+]](%a : i32)
  // CHECK: ^[[E]]:
  // CHECK-NEXT: cf.br ^[[J]](%b : i32)
  // CHECK: ^[[J]](%[[R:.*]]: i32):
  // CHECK-NEXT: return %[[R]] : i32
  %r = scf.if %c -> (i32) {
    scf.yield %a : i32
  } else {
    scf.yield %b : i32
  }
  func.return %r : i32
}

// A branch in a loop: the loop goes on where the branch ends.
// CHECK-LABEL: func.func @nested(%c: i1, %n: i32)
func.func @nested(%c: i1, %n: i32) {
  %c1 = arith.constant 1 : i32
  // CHECK: cf.br ^[[HEAD:bb[0-9]+]](
  // CHECK: cf.cond_br %{{.*}}, ^[[BODY:bb[0-9]+]], ^[[END:bb[0-9]+]]
  // CHECK: ^[[BODY]]:
  // CHECK-NEXT: cf.cond_br %c, ^[[T:bb[0-9]+]], ^[[ON:bb[0-9]+]]
  // CHECK: ^[[T]]:
  // CHECK-NEXT: call @use
  // CHECK-NEXT: cf.br ^[[ON]]
  // CHECK: ^[[ON]]:
  // CHECK-NEXT: arith.addi
  // CHECK-NEXT: cf.br ^[[HEAD]](
  // CHECK: ^[[END]]:
  scf.for %i = %c1 to %n step %c1 : i32 {
    scf.if %c {
      func.call @use(%i) : (i32) -> ()
    }
  }
  func.return
}

// CHECK-LABEL: func.func @while(%start: i32, %n: i32) -> i32
func.func @while(%start: i32, %n: i32) -> i32 {
  // CHECK: cf.br ^[[BEFORE:bb[0-9]+]](%start : i32)
  // CHECK: ^[[BEFORE]](%x: i32):
  // CHECK-NEXT: %[[C:.*]] = arith.cmpi slt, %x, %n : i32
  // CHECK-NEXT: cf.cond_br %[[C]], ^[[AFTER:bb[0-9]+]](%x : i32), ^[[END:bb[0-9]+]]
  // CHECK: ^[[AFTER]](%y: i32):
  // CHECK-NEXT: %[[Z:.*]] = arith.addi %y, %y : i32
  // CHECK-NEXT: cf.br ^[[BEFORE]](%[[Z]] : i32)
  // CHECK: ^[[END]]:
  // CHECK-NEXT: return %x : i32
  %r = scf.while (%x = %start) : (i32) -> i32 {
    %c = arith.cmpi slt, %x, %n : i32
    scf.condition(%c) %x : i32
  } do {
  ^bb0(%y: i32):
    %z = arith.addi %y, %y : i32
    scf.yield %z : i32
  }
  func.return %r : i32
}

// CHECK-LABEL: func.func @cases(%k: index, %a: i32, %b: i32) -> i32
func.func @cases(%k: index, %a: i32, %b: i32) -> i32 {
  // CHECK: %[[K:.*]] = arith.index_cast %k : index to i32
  // CHECK-NEXT: cf.switch %[[K]] : i32, [
  // CHECK-NEXT: default: ^[[D:bb[0-9]+]],
  // CHECK-NEXT: 2: ^[[C:bb[0-9]+]]
  // CHECK: ^[[D]]:
  // CHECK-NEXT: cf.br ^[[J:bb[0-9]+]](%b : i32)
  // CHECK: ^[[C]]:
  // CHECK-NEXT: cf.br ^[[J]](%a : i32)
  %r = scf.index_switch %k -> i32
  case 2 {
    scf.yield %a : i32
  }
  default {
    scf.yield %b : i32
  }
  func.return %r : i32
}

// CHECK-LABEL: func.func @region(%a: i32) -> i32
func.func @region(%a: i32) -> i32 {
  // CHECK: cf.br ^[[IN:bb[0-9]+]]
  // CHECK: ^[[IN]]:
  // CHECK-NEXT: cf.br ^[[OUT:bb[0-9]+]](%a : i32)
  // CHECK: ^[[OUT]](%[[R:.*]]: i32):
  // CHECK-NEXT: return %[[R]] : i32
  %r = scf.execute_region -> (i32) {
    scf.yield %a : i32
  }
  func.return %r : i32
}
