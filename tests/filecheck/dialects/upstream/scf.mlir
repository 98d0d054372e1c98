// RUN: %fly-opt %s | FileCheck %s
// RUN: %fly-opt --mlir-print-op-generic %s | %fly-opt | FileCheck %s

// Control flow. Text forms are upstream's.

func.func @scf(%a: index, %b: i32, %c: i1) -> i32 {
  // CHECK: %{{.*}} = scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%{{.*}} = %{{.*}}) -> (i32) {
  %0 = scf.for %i = %a to %a step %a iter_args(%x = %b) -> (i32) {
    scf.yield %x : i32
  }
  // CHECK: %{{.*}} = scf.for unsigned %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%{{.*}} = %{{.*}}) -> (i32) : i32 {
  %1 = scf.for unsigned %i = %b to %b step %b iter_args(%x = %b) -> (i32) : i32 {
    scf.yield %x : i32
  }
  // CHECK: %{{.*}} = scf.if %{{.*}} -> (i32) {
  %2 = scf.if %c -> (i32) {
    scf.yield %b : i32
  } else {
    scf.yield %b : i32
  }
  // CHECK: %{{.*}} = scf.while (%{{.*}} = %{{.*}}) : (i32) -> i32 {
  %3 = scf.while (%x = %b) : (i32) -> i32 {
  // CHECK: scf.condition(%{{.*}}) %{{.*}} : i32
    scf.condition(%c) %x : i32
  } do {
  ^bb0(%y: i32):
    scf.yield %y : i32
  }
  // CHECK: %{{.*}} = scf.execute_region -> i32 {
  %4 = scf.execute_region -> i32 {
    scf.yield %b : i32
  }
  // CHECK: %{{.*}} = scf.index_switch %{{.*}} -> i32
  %5 = scf.index_switch %a -> i32
  case 2 {
    scf.yield %b : i32
  }
  default {
    scf.yield %b : i32
  }
  // CHECK: cf.cond_br %{{.*}}, ^{{.*}}, ^{{.*}}(%{{.*}} : i32)
  cf.cond_br %c, ^bb1, ^bb2(%b : i32)
^bb1:
  // CHECK: cf.assert %{{.*}}, "no"
  cf.assert %c, "no"
  // CHECK: cf.br ^{{.*}}(%{{.*}} : i32)
  cf.br ^bb2(%b : i32)
^bb2(%z: i32):
  // CHECK: cf.switch %{{.*}} : i32, [
  cf.switch %z : i32, [
    default: ^bb3,
    42: ^bb3
  ]
^bb3:
  func.return %z : i32
}
